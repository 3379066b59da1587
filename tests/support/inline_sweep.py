"""A sweep in this process by the driver that Tune runs, one trial after another, without Ray,
Tune, MLflow and report.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray

from orchestrator import FINISHED
from orchestrator.commands import Choices, Work, claimed, describe, prepare
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.conformance.example_runs import InlineShadows
from orchestrator.results.record import TrialIdentity, read_record
from orchestrator.results.writing import WriteError
from orchestrator.scheduling.driver import Driver
from orchestrator.scheduling.trials import TrialConfig, TrialSpec
from orchestrator.trial.client_actors import LocalClients
from orchestrator.trial.worker_session import _sessions


def run_sweep_inline(sweep: Sweep, choices: Choices) -> int:
    """Stands for `orchestrator.commands.run_sweep`: the same files.

    Raises:
        ConfigError: it was refused before anything started.
        WriteError: results could not be saved.
    """
    work = prepare(sweep, choices)
    missing = work.missing()
    print(f"{len(missing)} trials to train")
    with claimed(work, print):
        for trial in missing:
            _train(work, trial)
        while missing := _unended(work):
            _train(work, missing[0])
        describe(work)
    return FINISHED


def _unended(work: Work) -> list[TrialSpec]:
    """The trials that a search has drawn from what has ended, and that have not."""
    search = work.drawing.search
    drawn = search.replay() if search else []
    return [spec for spec in drawn if not read_record(work.folder.trial(spec.id))]


def undisturbed(sweep: Path, results: Path) -> Path:
    """Run the sweep in the file ``sweep`` into ``results`` / its name, as any other run must do;
    returns ``results``.
    """
    import torch

    torch.set_num_threads(1)  # as the client actors have it: more threads add in another order
    run_sweep_inline(load_sweep(sweep), Choices(results))
    return results


def _train(work: Work, trial: TrialSpec) -> None:
    """One trial, by steps of a driver whose actors and object store are this process."""
    identity = TrialIdentity(trial.id, trial.run.to_dict(), work.hashes.origin(trial.run))
    root = str(work.sweep.root_of(trial.run))
    config = TrialConfig(
        identity,
        str(work.folder.path),
        root,
        work.place,
        10.0,
        True,
        share=work.sweep.resources.share,
    )
    driver = object.__new__(Driver)
    driver.clients, driver.shadows = LocalClients(), InlineShadows()
    driver._data = ("", None)
    _sessions.clear()
    with patch.object(ray, "put", lambda value: value), patch.object(ray, "get", lambda held: held):
        driver._take(config)
        answer: dict[str, Any] = {}
        while not answer.get("done"):
            answer = driver.step()
            if sentence := answer.get("repaired"):
                print(sentence)
    if "unwritable" in answer:
        raise WriteError(*answer["unwritable"])
