"""Every component of every slot gives the same bytes whoever does its work: 1, 2 and 5 actors, a
client to each, any order.

One finds no cache, two find all that it left there and train what follows, and five find half of it
and train the rest. An actor is a session with a network of its own, which holds whatever its last
job left there.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from algorithms.core.network import Network
from algorithms.interfaces import Run
from datasets.components import components
from datasets.federation import Examples, Federation
from orchestrator.conformance.example_runs import digits, inline_trial, suited
from orchestrator.trial.client_actors import Job, LocalClients
from orchestrator.trial.worker_session import Session, _sessions
from tests.support.planted import finished, outputs, served_by
from tests.support.slot_components import EVERY, attack, described, module_of

# By actors; and all attacks at once.
WORKED_ON = ("model", "training", "clustering", "objective", "aggregation", "privacy")


def backends(slot: Any, name: str) -> list[str]:
    """Those that the component can be run with, if it says how clients train; ``vmap`` is all of
    a block at once.
    """
    module = module_of(slot.key, name)
    able = {
        "model": lambda: module.VMAP and not (module.BATCH_NORM or module.RANDOM),
        "training": lambda: not module.PRIVATE_STEPS,
        "objective": lambda: module.VMAP,
    }
    return ["loop", "vmap"] if able.get(slot.key, lambda: False)() else ["loop"]


# By default, a network trains in the way that its runs take, and all attacks in one.
LONG = {
    ("vgg", "loop"),
    ("femnist_cnn", "vmap"),
    ("hu_cnn", "vmap"),
    ("femnist_net", "loop"),
    ("", "vmap"),
}
CASES = [
    pytest.param(
        slot,
        name,
        backend,
        id=f"{slot.key}-{name}-{backend}",
        marks=pytest.mark.slow if (name, backend) in LONG else (),
    )
    for slot, name in EVERY
    if slot.key in WORKED_ON
    for backend in backends(slot, name)
] + [
    pytest.param(
        None, "", one, id=f"attacks-{one}", marks=pytest.mark.slow if ("", one) in LONG else ()
    )
    for one in ("loop", "vmap")
]


class Actors(LocalClients):
    """So many actors: every job goes to any of them, and they are done in any order."""

    def __init__(self, actors: int, run: Run, data: Federation) -> None:
        super().__init__()
        self.rng = np.random.default_rng(actors)
        self.sessions = [
            Session(run, data, Network(run.model, data.shape, data.classes)) for _ in range(actors)
        ]
        self.served: set[int] = set()

    def run(self, setup: Any, jobs: Sequence[Job]) -> list[Any]:
        own, results = _sessions[setup.key], {}
        for index in self.rng.permutation(len(jobs)).tolist():
            actor = int(self.rng.integers(len(self.sessions)))
            _sessions[setup.key] = self.sessions[actor]
            results[index] = super().run(setup, [jobs[index]])[0]
            self.served.add(actor)
        _sessions[setup.key] = own
        return [results[index] for index in range(len(jobs))]


def pictures() -> Federation:
    """Six clients with four noisy pictures of 3x32x32 each: large enough for every network."""
    rng = np.random.default_rng(0)

    def drawn(count: int) -> Examples:
        return Examples(
            rng.random((count, 3, 32, 32), dtype=np.float32), rng.integers(0, 10, count)
        )

    owners = np.repeat(np.arange(6), 2)
    return replace(
        digits(),
        train=drawn(24),
        offsets=np.arange(7) * 4,
        strengths=np.zeros(6, np.float32),
        example_strengths=np.zeros(24, np.float32),
        test=drawn(12),
        test_owner=owners,
        nonmembers=drawn(12),
        nonmember_owner=owners,
        shadow=drawn(8),
    )


@pytest.mark.parametrize(("slot", "name", "backend"), CASES)
def test_the_bytes_are_the_same_whoever_does_the_work(tmp_path, monkeypatch, slot, name, backend):
    monkeypatch.setattr(
        "orchestrator.trial.client_actors.ENTRY_SECONDS", -1e9
    )  # whatever is trained is kept
    run, data = described(slot, name), digits()
    given = run["training"] if isinstance(run["training"], dict) else {"name": run["training"]}
    run["training"] = (
        {"lr": 0.1, "epochs": 1, "batch_size": 8} | given | {"clients_per_job": 1}
    )  # a client to a job
    if name != "dp_sgd":
        run["training"]["backend"] = backend
    if slot is None:
        # Attacks on choices do no work on actors, and need several models, which client inference
        # refuses. Nor do attacks that ask for a table.
        alike = [
            one for one, module in components("attacks").items() if module.KINDS != ("choices",)
        ]
        run["attacks"] = [
            attack(one) for one in alike if suited(run | {"attacks": [attack(one)]}) is data
        ]
    elif slot.key == "model":
        data = pictures()
    if run["model"] != described()["model"]:  # a large one
        run |= {"rounds": 1, "attacks": []}
    kept = []
    for actors in (1, 2, 5):
        trial = inline_trial(run, tmp_path, data)
        clients = Actors(actors, trial.run, data)
        kept.append(outputs(finished(served_by(trial, clients))))
        assert clients.served == set(range(actors))
        shutil.rmtree(tmp_path / "trials")
        for entry in sorted((tmp_path / "cache").glob("*"))[::2] if actors == 2 else ():
            shutil.rmtree(entry)
    assert kept[2] == kept[1] == kept[0]
    assert len(kept[0]) > 2
