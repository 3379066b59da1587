"""A whole sweep in this process, one trial after another, without Ray, Tune and MLflow: what any other run must equal."""

from __future__ import annotations

import time
from pathlib import Path

from orchestrator.config.sweep_file import load_sweep
from orchestrator.results.folder import Folder
from orchestrator.results.record import TrialIdentity
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.trials import trial_rows, trial_specs
from orchestrator.trial.outcome import finish
from tests.support.inline import inline_trial


def undisturbed(sweep: Path, results: Path) -> Path:
    """Run the sweep in the file ``sweep`` into ``results`` / its name; returns ``results``."""
    import torch

    torch.set_num_threads(1)  # as the client actors have it: more threads add in another order
    loaded = load_sweep(sweep)
    folder = Folder(results / loaded.name)
    for spec in trial_specs(loaded):
        trial = inline_trial(spec.run, results / spec.id, root=loaded.root_of(spec.run))
        while not trial.done:
            trial.advance()
        finish(folder.trial(spec.id), trial, TrialIdentity(spec.id, spec.run.to_dict(), None), time.time())
    write_trials(folder, trial_rows(folder, trial_specs(loaded)))
    return results
