"""A sweep without Ray, for tests of what calls `orchestrator.commands`: every trial inline, one after another."""

from __future__ import annotations

import shutil

from orchestrator.config.sweep_file import Sweep
from orchestrator.execution import claim_folder
from orchestrator.exit_codes import FINISHED
from orchestrator.preparation import Choices
from orchestrator.results.folder import Folder
from orchestrator.results.record import TrialIdentity
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.trials import remaining_trials, trial_rows, trial_specs
from orchestrator.trial import outcome
from tests.support.inline import inline_trial
from tests.support.planted import finished


def run_sweep_inline(sweep: Sweep, choices: Choices) -> int:
    """Stands for `orchestrator.commands.run_sweep`: the same files, without Ray, Tune, MLflow and report."""
    folder = Folder(choices.results.expanduser().absolute() / sweep.name)
    with claim_folder(folder, sweep):
        missing = remaining_trials(folder, trial_specs(sweep), sweep.tune)
        print(f"{len(missing)} trials to train")
        for spec in missing:
            trial = finished(inline_trial(spec.run, folder.path / "inline" / spec.id))
            outcome.finish(trial.around.folder, trial, TrialIdentity(spec.id, spec.run.to_dict(), None), began=0.0)
            folder.trial(spec.id).path.parent.mkdir(exist_ok=True)
            shutil.move(trial.around.folder.path, folder.trial(spec.id).path)
        shutil.rmtree(folder.path / "inline", ignore_errors=True)
        write_trials(folder, trial_rows(folder, trial_specs(sweep)))
    return FINISHED
