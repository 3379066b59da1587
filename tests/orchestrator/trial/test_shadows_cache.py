"""The cache of shadow models: named by what a shadow depends on, read instead of trained, and
the same to the bit.
"""

import dataclasses
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.engine import federation
from algorithms.interfaces import Run
from attacks import shadow_mia
from attacks.interfaces import Cluster
from datasets.federation import Examples
from orchestrator.trial import attack_tasks
from orchestrator.trial.random_streams import integer
from orchestrator.trial.restarts import Trial
from tests.support.killed import Killed, killing
from tests.support.planted import ATTACK, clustered, finished, given, opened, planted, table

DATA = planted(clients=4, each=12, minority=1)
RUN = given(3, clustering=clustered(), attacks=[ATTACK | {"shadows": 2}], training={"lr": 0.1})


def changed(**slots: Any) -> dict[str, Any]:
    return given(
        **{
            "rounds": 3,
            "clustering": clustered(),
            "attacks": [ATTACK],
            "training": {"lr": 0.1},
            **slots,
        }
    )


def a_job(trial: Trial, k: int = 0, rounds: int = 2) -> Any:
    fields: dict[str, Any] = {name: value for name, value in ATTACK.items() if name != "name"}
    config = shadow_mia.Config(**fields, signal="server_only")
    everybody = Cluster(DATA, 0, np.arange(4))
    return shadow_mia.shadow_jobs(
        config, everybody, 0.9, rounds, lambda *place: integer(0, *place)
    )[k]


def shadows(
    run: Run | dict[str, Any],
    folder: Path,
    cache: Path,
    data: Any = None,
    numbers: Sequence[int] = (0, 1),
    rounds: int = 2,
) -> Any:
    """Shadow models that a trial of ``run`` asks a task for."""
    trial = opened(run, folder, data or DATA)
    setup = dataclasses.replace(trial.context.setup, cache=cache)
    return attack_tasks._shadows(setup, "shadow_mia", [a_job(trial, k, rounds) for k in numbers])


def assert_equal(one: Any, other: Any) -> None:
    np.testing.assert_equal(list(map(vars, one)), list(map(vars, other)), strict=True)


@pytest.mark.parametrize("k", [0, 1], ids=["shadow", "probe"])
def test_the_second_call_reads_what_the_first_has_trained(tmp_path, monkeypatch, k):
    first = shadows(RUN, tmp_path / "a", tmp_path / "cache", numbers=[k])
    assert_equal(shadows(RUN, tmp_path / "c", tmp_path / "another", numbers=[k]), first)
    assert first[0].role == ("shadow", "probe")[k]
    assert first[0].logits.shape == (2 * 30, 2)
    monkeypatch.setattr(shadow_mia, "train_shadows", lambda *_: pytest.fail("trained again"))
    assert_equal(shadows(RUN, tmp_path / "b", tmp_path / "cache", numbers=[k]), first)
    assert len(os.listdir(tmp_path / "cache")) == 1


def trained_rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the rounds that shadow federations train from now on."""
    real, rounds = federation.advance, []

    def advance(run: Any, clients: Any, state: Any, *rest: Any) -> Any:
        rounds.append(state.round)
        return real(run, clients, state, *rest)

    monkeypatch.setattr(federation, "advance", advance)
    return rounds


runs = pytest.mark.parametrize(
    "run",
    [
        RUN,
        changed(training={"lr": 0.1, "optimizer": "adam", "optimizer_state": "persist"}),
        changed(aggregation={"name": "fedadam", "warm_start_epochs": 2}),
        changed(privacy={"name": "global_dp", "noise_multiplier": 1.0}),
        changed(objective={"name": "finp"}, aggregation="finp_pca"),
        changed(participation="poisson", participation_rate=0.5),
    ],
    ids=["sgd", "optimizer state", "server state", "noise", "statistics", "participation"],
)


@runs
def test_shadows_that_are_trained_together_are_those_of_tasks_of_their_own(tmp_path, run):
    together = shadows(run, tmp_path / "a", tmp_path / "cache", rounds=3)
    for k, one in enumerate(together):
        (own,) = shadows(run, tmp_path / f"{k}", tmp_path / "cache", numbers=[k], rounds=3)
        np.testing.assert_allclose(one.logits, own.logits, rtol=1e-4, atol=1e-5)
        assert (one.role, one.epochs) == (own.role, own.epochs)
    assert np.abs(together[0].logits - together[1].logits).max() > 0.01


@runs
def test_later_shadows_continue_the_earlier_ones_with_the_same_bytes(tmp_path, monkeypatch, run):
    """Trained anew, continued from a cached one, also after it was killed, and from an earlier
    one where that is damaged.
    """
    rounds = trained_rounds(monkeypatch)
    anew = shadows(run, tmp_path / "a", tmp_path / "cold", rounds=5)
    assert rounds == [0, 1, 2, 3, 4]
    for earlier in (1, 3):
        shadows(run, tmp_path / "b", tmp_path / "warm", rounds=earlier)
    assert rounds[5:] == [0, 1, 2]
    shutil.copytree(tmp_path / "warm", tmp_path / "damaged")
    with monkeypatch.context() as patched:
        killing(patched, federation, "advance", 0, late=True)
        with pytest.raises(Killed):
            shadows(run, tmp_path / "k", tmp_path / "warm", rounds=5)
    assert_equal(shadows(run, tmp_path / "c", tmp_path / "warm", rounds=5), anew)
    assert rounds[8:] == [3, 3, 4]
    last = max((tmp_path / "damaged").iterdir(), key=lambda entry: entry.stat().st_mtime_ns)
    next(file for file in last.iterdir() if file.name != "manifest.json").write_bytes(b"")
    assert_equal(shadows(run, tmp_path / "d", tmp_path / "damaged", rounds=5), anew)
    assert rounds[11:] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "run",
    [
        changed(rounds=7),
        changed(clustering=clustered("ifca_mir")),
        changed(attacks=[ATTACK | {"every": 1}]),
    ],
    ids=["rounds", "clustering", "schedule"],
)
def test_trials_that_differ_in_what_no_shadow_sees_share_their_shadows(tmp_path, monkeypatch, run):
    shadows(RUN, tmp_path / "a", tmp_path / "cache")
    monkeypatch.setattr(shadow_mia, "train_shadows", lambda *_: pytest.fail("trained again"))
    shadows(run, tmp_path / "b", tmp_path / "cache")


@pytest.mark.parametrize(
    "run",
    [
        changed(training={"lr": 0.2}),
        changed(training={"lr": 0.1, "precision": "bf16"}),
        changed(privacy={"name": "global_dp", "noise_multiplier": 1.0}),
        changed(objective={"name": "fedprox", "mu": 0.1}),
        changed(participation="fixed", participation_rate=0.5),
        changed(model={"name": "mlp", "hidden": [3]}),
    ],
)
def test_a_trial_that_trains_otherwise_has_shadows_of_its_own(tmp_path, run):
    shadows(RUN, tmp_path / "a", tmp_path / "cache")
    shadows(run, tmp_path / "b", tmp_path / "cache")
    assert len(os.listdir(tmp_path / "cache")) == 2


def test_another_shadow_set_has_other_shadows(tmp_path):
    """What else of the data counts is tested with their digest."""
    shadows(RUN, tmp_path / "a", tmp_path / "cache")
    other = dataclasses.replace(DATA, shadow=Examples(DATA.shadow.x, 1 - DATA.shadow.y))
    shadows(RUN, tmp_path / "b", tmp_path / "cache", data=other)
    assert len(os.listdir(tmp_path / "cache")) == 2


@pytest.mark.parametrize(
    ("training", "attack", "sizes"),
    [
        ({}, {}, [2, 3]),
        ({"backend": "loop"}, {}, [1] * 5),
        ({}, {"shadow_training": "accuracy", "max_epochs": 2}, [1] * 5),
    ],
    ids=["at once", "one after another", "no federations"],
)
def test_the_shadows_of_a_model_share_tasks_where_clients_are_trained_at_once(
    tmp_path, monkeypatch, training, attack, sizes
):
    """Five of a model are more than a task takes; the attack on each of two models finds what
    tasks of their own find.
    """
    found, asked, real = [], list[int](), attack_tasks._shadows
    monkeypatch.setattr(
        attack_tasks, "_shadows", lambda *call: (asked.append(len(call[2])), real(*call))[1]
    )
    run = changed(
        rounds=2, attacks=[ATTACK | {"shadows": 5} | attack], training={"lr": 0.1} | training
    )
    for name in ("shared", "own"):
        found.append(table(finished(opened(run, tmp_path / name, DATA)), "attacks"))
        monkeypatch.setattr(attack_tasks, "together", lambda *_: 1)
    assert asked == [*sizes, *sizes] + [1] * 10
    assert found[0]["metric"] == found[1]["metric"]
    values = [np.array(one["value"], np.float64) for one in found]  # without one: NaN
    np.testing.assert_allclose(*values, atol=0.02)
