"""A whole sweep in this process, one trial after another, without Ray, Tune and MLflow: what any other run must equal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.results.folder import Folder
from orchestrator.results.record import TrialIdentity
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.trials import TrialSpec, trial_rows, trial_specs
from orchestrator.trial.loop import DivergenceError
from orchestrator.trial.outcome import finish, give_up
from tests.support.inline import inline_trial


def undisturbed(sweep: Path, results: Path) -> Path:
    """Run the sweep in the file ``sweep`` into ``results`` / its name; returns ``results``."""
    import torch

    torch.set_num_threads(1)  # as the client actors have it: more threads add in another order
    loaded = load_sweep(sweep)
    folder = Folder(results / loaded.name)
    done = []
    for spec in _specs(loaded, folder):
        trial = inline_trial(spec.run, results / spec.id, root=loaded.root_of(spec.run))
        own, identity = folder.trial(spec.id), TrialIdentity(spec.id, spec.run.to_dict(), None)
        try:
            while not trial.done:
                trial.advance()
        except (DivergenceError, FloatingPointError) as error:
            give_up(own, trial, "diverged", str(error), identity, time.time())
        else:
            finish(own, trial, identity, time.time())
        done.append(spec)
    write_trials(folder, trial_rows(folder, done))
    return results


def _specs(sweep: Sweep, folder: Folder) -> Iterator[TrialSpec]:
    """Yield the trials in their order; a search draws one when those that it waits for have ended."""
    if not sweep.space:
        yield from trial_specs(sweep)
        return
    from orchestrator.scheduling.search import Search

    search, at = Search(sweep, folder), 0
    while at < len(search.replay()):
        yield search.specs[at]
        at += 1
