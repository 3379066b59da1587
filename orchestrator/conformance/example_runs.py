"""A short run on digits in which any component of any slot takes part, in this process, and what
such a run leaves.

The same loop, jobs and audits as in a sweep, one after another and without Ray: the slow, obvious
version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np

import datasets
from algorithms.interfaces import Run
from datasets.components import Component, complete, components
from datasets.federation import Federation
from orchestrator.config.document import assign
from orchestrator.config.run import resolve
from orchestrator.config.slots import Slot
from orchestrator.results.paths import Folder
from orchestrator.trial.attack_tasks import AttackTasks
from orchestrator.trial.client_actors import LocalClients
from orchestrator.trial.federation import partition_data
from orchestrator.trial.loop import TrialContext
from orchestrator.trial.random_streams import stream
from orchestrator.trial.restarts import Trial
from orchestrator.trial.worker_session import Setup, _sessions, begin

# Makes an attack cheap, where it has such fields.
SMALL = {
    "every": 1,
    "shadows": 2,
    "queries": 40,
    "replicas": 8,
    "targets": 5,
    "mock_updates": 3,
    "trees": 10,
}
DIGITS = {
    "name": "digits",
    "clients": 6,
    "examples_per_client": 20,
    "shadow_size": 60,
    "test_size": 60,
}
TABLE = {
    "name": "purchase_like",
    "clients": 6,
    "examples": 400,
    "features": 12,
    "classes": 4,
    "shadow_size": 60,
}
TABLE |= {"split": "dirichlet"}
CLOCKS = ("seconds",)  # columns that no two runs have in common


class NotChecked(Exception):  # noqa: N818
    """A check could not be made, and the component may be sound all the same: the text says what
    it needs.
    """


def attack(name: str) -> dict[str, Any]:
    """Return the fields of an attack that make it cheap."""
    fields = components("attacks")[name].Config.model_fields
    return {"name": name} | {field: value for field, value in SMALL.items() if field in fields}


def described(slot: Slot | None = None, name: str = "", **training: Any) -> dict[str, Any]:
    """Return a short run on digits, as ``base`` of a sweep file, in which the component ``name``
    fills ``slot``.
    """
    run: dict[str, Any] = {
        "rounds": 2,
        "data": {**DIGITS, "split": {"minority_ratio": 0.34}},
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"lr": 0.1, "epochs": 1, "batch_size": 8, "clients_per_job": 4, **training},
        "attacks": [
            attack("shadow_mia") | {"risk": "gap"}
        ],  # none is chosen, for which each would be fitted twice
    }
    if slot is None:
        return run
    if slot.key == "objective" and complete(slot.folder, name).MODEL:  # trains nothing else
        run["model"] = complete(slot.folder, name).MODEL
    if slot.many:
        choosing = (
            "choices" in complete(slot.folder, name).KINDS
        )  # who needs something to choose from
        return run | {slot.key: [attack(name)]} | ({"clustering": "ifca"} if choosing else {})
    return assign(run, slot.path, name)


def chosen(run: Run, slot: Slot) -> Component[Any, Any]:
    """Return the component that fills a slot; of several the first."""
    filled: Any = getattr(run, slot.field)
    return cast("Component[Any, Any]", filled[0] if slot.many else filled)


@cache
def digits() -> Federation:
    """Return the federation of the short run; its arrays cannot be changed, as in the workers of
    a sweep.
    """
    return _built(described()["data"])


@cache
def table() -> Federation:
    """Return a small table in place of the digits."""
    return _built(TABLE)


def suited(run: dict[str, Any]) -> Federation:
    """Return the digits or, where they lack what an attack of ``run`` asks for, the table."""
    unfit = any(
        attack.module.data_problems(attack.config, digits()) for attack in resolve(run).attacks
    )
    return table() if unfit else digits()


def _built(section: dict[str, Any]) -> Federation:
    """Return a federation; half of what is held back is about people who are trained on, four
    examples of each.
    """
    run = resolve(described() | {"data": section})
    data = datasets.build_federation(
        run.data, run.split, Path(), lambda purpose: stream(0, purpose)
    )
    trained = np.arange(len(data.train))
    held = np.arange(len(data.nonmembers))
    people = len(trained) // 4
    persons = {"train": trained % people, "nonmembers": held % (2 * people)}
    data = replace(data, persons=persons | {"shadow": np.full(len(data.shadow), 2 * people)})
    for part in (data.train, data.test, data.nonmembers, data.shadow):
        part.x.setflags(write=False)
        part.y.setflags(write=False)
    return data


class InlineShadows(AttackTasks):
    """Stands for `orchestrator.trial.attack_tasks.ShadowTasks`: one task after another, in this
    process.
    """

    def gathered(
        self,
        function: Any,
        attack: str,  # noqa: ARG002
        calls: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        """Return the results of the calls, each from the session that it finds, as in a worker
        process of its own.
        """
        results = []
        for call in calls:
            with patch.dict(_sessions):
                results.append(function(*call))
        return results


def inline_trial(base: dict[str, Any] | Run, folder: Path, data: Federation | None = None) -> Trial:
    """Return a trial of a run, or of the section ``base`` of a sweep file, that runs in this
    process.

    It keeps its files in ``folder``; ``data`` replaces the federation that the run describes,
    without files.
    """
    run = base if isinstance(base, Run) else resolve(base)
    data = data or partition_data(run, Path())
    begin(str(folder), run, data)
    setup = Setup(str(folder), [], folder / "cache")
    files = Folder(folder).trial("t")
    return Trial(run, TrialContext(setup, data, LocalClients(), InlineShadows(), files))


def finished(trial: Trial) -> Trial:
    """Return the trial after all its rounds."""
    while not trial.done:
        trial.advance()
    return trial


def outputs(trial: Trial) -> dict[str, Any]:
    """Return all that a finished trial gives, in bytes: its tables without clocks, its arrays,
    its assignment.
    """
    contents: dict[str, Any] = {
        name: array.tobytes() for name, array in trial.rounds.arrays().items()
    }
    for name in ("rounds", "clients", "attacks", "scores"):
        table = trial.rows(name)
        if len(table):
            contents[name] = table.drop_columns(
                [clock for clock in CLOCKS if clock in table.column_names]
            )
    return contents | {
        "names": list(trial.state.names),
        "assignment": trial.state.assignment.tolist(),
    }
