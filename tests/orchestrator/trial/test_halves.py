"""Replicas of a run on halves of the records: what they share with the run, that they are
cached, and what diverges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import Field

from algorithms.core.metric import MEMBERSHIP, Metric, Number, variant
from algorithms.core.network import Network
from algorithms.engine import backends, federation
from algorithms.engine.federation import train_models
from attacks import _halves
from attacks.interfaces import Answers, Exposure, Scores
from attacks.metrics import membership
from datasets.components import Config as SlotConfig
from datasets.federation import Examples, Federation
from orchestrator.config.run import resolve
from orchestrator.conformance.example_runs import inline_trial
from orchestrator.trial.attack_tasks import replica_stream
from orchestrator.trial.client_actors import ClientActor
from orchestrator.trial.random_streams import of_start, stream
from orchestrator.trial.restarts import Trial
from tests.support.planted import ATTACK, clustered, finished, given, opened, planted, table
from tests.support.stand_ins import StandIn

DATA = planted(clients=6, each=[12, 20, 8, 30, 10, 16], minority=2)
NOISE = {"name": "global_dp", "noise_multiplier": 1.0}
TWO = clustered(warm_start_rounds=1, restarts=2, restart_rounds=1)
RISKY = clustered("ifca_mir", preference="uniform", selection="minibatch", selection_batch=6)
SLOTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "loop": {"training": {"backend": "loop", "clients_per_job": 2}},
    "bfloat16": {"training": {"precision": "bf16"}},
    "optimizer states": {
        "training": {"optimizer": "adam", "lr": 0.01, "optimizer_state": "persist"}
    },
    "two models": {"clustering": TWO, "privacy": NOISE},
    "two models, incentive": {"clustering": RISKY, "attacks": [ATTACK], "aggregation": "fedavgm"},
    "fixed": {"participation": "fixed", "participation_rate": 0.5, "aggregation": "fedyogi"},
    "empty rounds": {
        "participation": "poisson",
        "participation_rate": 0.1,
        "privacy": NOISE,
        "aggregation": {"weights": "uniform"},
    },
    "metric privacy": {"privacy": {"name": "metric_privacy", "noise_multiplier": 0.1}},
    "warm start": {"aggregation": {"name": "fedadam", "warm_start_epochs": 2}},
    "curvature": {
        "objective": "finp",
        "aggregation": "finp_pca",
        "model": {"name": "mlp", "hidden": [4]},
        "clustering": clustered(),
    },
    "private steps": {"training": {"name": "dp_sgd", "noise_multiplier": 0.5, "lr": 0.2}},
}


@dataclass(frozen=True, eq=False)
class Records:
    """Every client's training examples."""

    examples: Examples
    owner: np.ndarray
    trained: np.ndarray
    strengths: np.ndarray

    def federation(self, data: Federation, inside: np.ndarray) -> Federation:
        sizes = np.bincount(self.owner[inside], minlength=data.clients)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        strengths = self.strengths[inside]
        return replace(
            data, train=self.examples[inside], offsets=offsets, example_strengths=strengths
        )


class Config(SlotConfig):
    every: int = Field(1, ge=1)
    replicas: int = Field(4, ge=2)


def pool(config: Config, data: Federation, stream: Any) -> Records:
    return Records(data.train, data.owner(), np.ones(len(data.train), bool), data.example_strengths)


def halves(config: Config, pool: Records, stream: Any) -> np.ndarray:
    """Of every client about half, by chance; replica 2i + 1 has the others."""
    drawn = [np.zeros(len(pool.owner), bool) for _ in range(config.replicas // 2)]
    for pair, inside in enumerate(drawn):
        rng = stream("replicas", pair, 3)
        for client in np.unique(pool.owner):
            own = rng.permutation(np.flatnonzero(pool.owner == client))
            inside[own[: len(own) // 2]] = True
    return np.stack([one for inside in drawn for one in (inside, ~inside)])


class Keeper:
    """The attack's module. Attributes: answers: what the last conclusion was made of."""

    KINDS, METRICS, Config = ("halves",), (Metric("kept", MEMBERSHIP, "kept"),), Config

    def __init__(self) -> None:
        self.answers: Answers | None = None
        self.pool, self.halves = pool, halves

    def judge(self, config: Config, answers: Answers, rng: np.random.Generator) -> Exposure:
        self.answers = answers
        n, known = len(answers.own), answers.pool.trained
        scores = Scores(
            np.full(n, "kept"), answers.pool.owner, known, answers.own, target=np.full(n, "run")
        )
        return Exposure(
            (Number("kept", float(len(answers.inside))),),
            {},
            (Number("kept", 1.0, variant("run")),),
            scores,
        )


def attacked_by(
    keeper: Keeper, asked: dict[str, Any], folder: Path, data: Federation, replicas: int = 4
) -> Trial:
    """A trial of the run ``asked`` that is attacked by ``keeper`` after its last round."""
    attack = StandIn(
        SimpleNamespace(**{name: getattr(keeper, name) for name in dir(keeper) if name[0] != "_"})
    )
    object.__setattr__(attack, "config", Config(replicas=replicas))
    run = resolve(asked)
    return inline_trial(replace(run, attacks=(*run.attacks, attack)), folder, data)


def network_of(trial: Trial) -> Network:
    return Network(
        trial.run.model, trial.data.shape, trial.data.classes, trial.run.training.config.device
    )


def begun(trial: Trial) -> list[Any]:
    """The models that the run began with."""
    return ClientActor().initial(
        trial.context.setup, trial.state.start, trial.run.clustering.config.clusters
    )


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
def test_a_replica_with_all_records_and_the_runs_seed_is_the_run_bit_for_bit(tmp_path, slots):
    trial = finished(opened(given(3, **slots), tmp_path, DATA))
    run, history = trial.run, trial.state.history.astype(np.int64)
    streams = [of_start(partial(stream, run.seed), trial.state.start)]
    (models,) = train_models(run, [DATA], network_of(trial), begun(trial), history, streams)
    for found, own in zip(models, trial.state.models, strict=True):
        assert found.params.tobytes() == own.params.tobytes()
        assert found.buffers.tobytes() == own.buffers.tobytes()


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
def test_replicas_that_are_trained_together_are_those_that_are_trained_one_after_another(
    tmp_path, slots
):
    keeper = Keeper()
    trial = finished(attacked_by(keeper, given(2, **slots), tmp_path, DATA))
    assert keeper.answers is not None
    pool, run = keeper.answers.pool, trial.run
    data = [pool.federation(DATA, inside) for inside in keeper.answers.inside[:3]]
    streams = [replica_stream(run, number, 0) for number in range(3)]
    rest = network_of(trial), begun(trial), trial.state.history.astype(np.int64)
    together = train_models(run, data, *rest, streams)
    alone = [
        train_models(run, [one], *rest, [own])[0] for one, own in zip(data, streams, strict=True)
    ]
    for ours, theirs in zip(together, alone, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one.params == pytest.approx(other.params, abs=1e-4)
    assert np.abs(alone[0][0].params - alone[1][0].params).max() > 1e-3  # which are not the same


# What an attack is told, and what a trial keeps


@pytest.mark.parametrize(
    "absent", [{}, {"participation": "fixed", "participation_rate": 0.3}], ids=["none", "some"]
)
def test_the_attack_is_told_whose_records_they_are_and_what_the_run_itself_says(tmp_path, absent):
    """In the model that their owner trained last; nothing of who was absent in all rounds, and
    trained none.
    """
    keeper = Keeper()
    trial = finished(attacked_by(keeper, given(3, clustering=TWO, **absent), tmp_path, DATA))
    told, network = keeper.answers, network_of(trial)
    assert told is not None and told.confidence.shape == told.inside.shape == (4, len(DATA.train))
    trained = [
        next((j for j in of_client[::-1] if j >= 0), -1)
        for of_client in trial.state.history.T.tolist()
    ]
    assert (told.model == np.array(trained)[DATA.owner()]).all() and set(told.model) == {
        0,
        1,
        *[-1] * bool(absent),
    }
    assert (np.isnan(told.confidence) == (told.model < 0)).all() and (
        np.isnan(told.own) == (told.model < 0)
    ).all()
    assert (told.groups == DATA.groups[DATA.owner()]).all() and told.group_names == DATA.group_names
    assert list(told.names) == trial.state.names
    for j, model in enumerate(trial.state.models):
        network.load(model)
        own = told.model == j
        logits = network.logits(DATA.train.x[own])
        assert (
            told.own[own].tobytes() == membership.confidences(logits, DATA.train.y[own]).tobytes()
        )
    scores = table(trial, "scores")
    assert scores["attack"] == ["kept"] * len(DATA.train) and set(scores["target"]) == {"run"}
    assert scores["round"] == [3] * len(DATA.train)
    assert scores["score"] == [score if score == score else None for score in told.own.tolist()]
    assert (
        scores["client"] == DATA.owner().tolist()
        and all(scores["member"])
        and not any(scores["left"])
    )
    assert table(trial, "rounds")["kept"][-1] == 4
    rows = table(trial, "attacks")
    assert dict(zip(rows["metric"], rows["value"], strict=True)) == {"kept": 1, "diverged_pairs": 0}


def told_by(given_: dict[str, Any], folder: Path, cache: Path, replicas: int = 4) -> np.ndarray:
    """The replicas' confidence, with the cache that other trials use, too."""
    folder.mkdir()
    cache.mkdir(exist_ok=True)
    (folder / "cache").symlink_to(cache)
    finished(attacked_by(keeper := Keeper(), given_, folder, DATA, replicas))
    assert keeper.answers is not None
    return keeper.answers.confidence


def test_trials_share_replicas_unless_they_train_differently(tmp_path, monkeypatch):
    monkeypatch.setattr(backends, "TOGETHER", 2)
    cache = tmp_path / "cache"

    def kept() -> dict[str, int]:
        return {
            path.parent.name: path.stat().st_mtime_ns
            for path in cache.glob("halves-*/manifest.json")
        }

    first = told_by(given(2), tmp_path / "first", cache)
    names = kept()
    assert len(names) == 2  # two tasks of two replicas
    for folder, other in {
        "same": given(2),
        "evaluated less": given(2, evaluate_every=2),
        "another attack": given(2, attacks=[ATTACK]),
        "a server that sees less": given(2, server_sees="sum"),
        "one cluster": given(2, clustering=clustered(clusters=1)),
    }.items():
        assert told_by(other, tmp_path / folder, cache).tobytes() == first.tobytes()
        assert kept() == names, folder
    for count, (folder, other) in enumerate(
        {
            "rounds": given(3),
            "seed": given(2, seed=1),
            "rate": given(2, training={"lr": 0.3}),
            "noise": given(2, privacy=NOISE),
            "models": given(2, clustering=clustered()),
        }.items(),
        start=2,
    ):
        assert told_by(other, tmp_path / folder, cache).tobytes() != first.tobytes()
        assert len(kept()) == 2 * count, folder


# Divergence


@pytest.mark.parametrize(("replicas", "lost"), [(8, (5,)), (8, (1, 4)), (4, (2,)), (2, (0,))])
def test_a_pair_that_diverged_is_dropped_and_said(tmp_path, monkeypatch, replicas, lost):
    real = federation.train_models

    def poisoned(run, data, network, models, history, streams):
        data = [  # one of the replicas has examples that are no numbers
            replace(one, train=Examples(one.train.x * np.float32(np.nan), one.train.y))
            if stream("noise", 0, 0).integers(2**63) in marks
            else one
            for one, stream in zip(data, streams, strict=True)
        ]
        return real(run, data, network, models, history, streams)

    keeper = Keeper()
    trial = attacked_by(keeper, given(2), tmp_path, DATA, replicas)
    marks = {replica_stream(trial.run, number, 0)("noise", 0, 0).integers(2**63) for number in lost}
    monkeypatch.setattr(federation, "train_models", poisoned)
    finished(trial)
    pairs = len({number // 2 for number in lost})
    left = replicas // 2 - pairs
    rows = table(trial, "attacks")
    assert dict(zip(rows["metric"], rows["value"], strict=True))["diverged_pairs"] == pairs
    if left < _halves.FEWEST:
        assert keeper.answers is None and table(trial, "rounds")["kept"][-1] is None
        return
    assert keeper.answers is not None and keeper.answers.inside.shape == (2 * left, len(DATA.train))
    assert np.isfinite(keeper.answers.confidence).all()
    assert (keeper.answers.inside[0::2] ^ keeper.answers.inside[1::2]).all()
