"""A federation whose answer is known, and short runs on it: two groups of clients whose labels
follow opposite rules.

Examples are standard normal and a label says on which side of a plane the example lies; the
minority reads the sides the other way round. No single model suits both groups, and a linear one
suits either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.core.metric import Number, variant
from algorithms.interfaces import Run
from attacks.interfaces import Audit
from datasets.federation import Examples, Federation
from orchestrator.conformance.example_runs import finished as finished
from orchestrator.conformance.example_runs import inline_trial
from orchestrator.conformance.example_runs import outputs as outputs
from orchestrator.trial.attack_round import ClusterModels
from orchestrator.trial.restarts import Trial
from orchestrator.trial.saved import RunState
from orchestrator.trial.worker_session import Setup
from tests.support.federations import federation


def planted(
    clients: int = 10,
    each: int | Sequence[int] = 40,
    minority: int = 3,
    features: int = 10,
    seed: int = 0,
) -> Federation:
    """The last ``minority`` of ``clients`` are the minority; every client also holds out 8 test
    examples and 8 non-members.
    """
    rng = np.random.default_rng([seed, 91])
    sizes = np.broadcast_to(np.asarray(each), clients)
    groups = (np.arange(clients) >= clients - minority).astype(np.int64)
    plane = rng.normal(size=features)

    def draw(owners: np.ndarray) -> Examples:
        x = rng.normal(size=(len(owners), features)).astype(np.float32)
        flipped = (owners >= 0) & (groups[owners] == 1)
        return Examples(x, ((x @ plane > 0) ^ flipped).astype(np.int64))

    held_out = np.repeat(np.arange(clients), 8)
    train, test, nonmembers = (
        draw(np.repeat(np.arange(clients), sizes)),
        draw(held_out),
        draw(held_out),
    )
    parts: dict[str, Any] = {
        "test": test,
        "test_owner": held_out,
        "nonmembers": nonmembers,
        "nonmember_owner": held_out,
    }
    parts |= {
        "groups": groups,
        "group_names": ("majority", "minority"),
        "shadow": draw(np.full(60, -1)),
    }
    return federation(train, sizes, **parts)


def given(rounds: int = 4, **slots: Any) -> dict[str, Any]:
    """A linear run of full length, to be changed by ``slots``; its data are replaced by those of
    `planted`.
    """
    training = slots.pop("training", {})
    passes = {} if training.get("local_step") == "one_batch" else {"epochs": 1, "batch_size": 20}
    training = {"lr": 0.5, **passes, "clients_per_job": 4, **training}
    return {
        "rounds": rounds,
        "data": "digits",
        "model": {"name": "mlp", "hidden": []},
        "training": training,
        **slots,
    }


def clustered(name: str = "ifca", **fields: Any) -> dict[str, Any]:
    """A clustering without what makes it robust: neither warm start nor restarts, unless asked
    for.
    """
    return {"name": name, "warm_start_rounds": 0, "restarts": 1, **fields}


ATTACK = {"name": "shadow_mia", "every": 2, "shadows": 1, "queries": 20}


def opened(
    run: Run | dict[str, Any], folder: Path, data: Federation | None = None, shadows: Any = None
) -> Trial:
    """A trial in ``folder``, taken up where it was left if it was; ``shadows`` may stand in for
    the real attack.

    A process has one session, so the trial opened before is not to be advanced any more.
    """
    trial = inline_trial(run, folder, data if data is not None else planted())
    if shadows:
        trial.context = trial.rounds.context = replace(trial.context, tasks=shadows)
    return trial


def served_by(trial: Trial, clients: Any) -> Trial:
    """``trial`` with other ``clients``, in this start and in those that follow."""
    trial.context = trial.rounds.context = replace(trial.context, clients=clients)
    trial.rounds.clients = clients
    return trial


def saved_state(trial: Trial) -> RunState:
    """The state that the trial saved last."""
    return trial.saved.load(trial.saved.state or "")


def table(trial: Trial, name: str) -> dict[str, list[Any]]:
    """The columns of one of the trial's tables so far."""
    return trial.rows(name).to_pydict()


def by_round(trial: Trial, column: str) -> np.ndarray:
    """[rounds, clients] of a column of the clients' table so far."""
    return np.array(table(trial, "clients")[column]).reshape(-1, trial.data.clients)


class PlannedShadows:
    """Stands for the attacks: the risk of each model is what ``plan(round)`` says."""

    def __init__(self, plan: Callable[[int], Sequence[float]]) -> None:
        self.plan = plan
        self.rounds: list[int] = []

    def audit(
        self, setup: Setup, run: Run, attack: Any, data: Any, models: ClusterModels
    ) -> dict[int, Audit]:
        self.rounds.append(models.round)
        risks = self.plan(models.round)
        return {
            j: Audit(risks[j], (Number("balanced_accuracy", risks[j], variant(attack.name)),))
            for j in models.clusters
        }
