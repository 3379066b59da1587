"""An attack on halves that only keeps what it is told, and the replicas of a run trained by the round loop itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from pydantic import Field

from algorithms.core.metric import MEMBERSHIP, Metric
from attacks.interfaces import Answers, Exposure, Measure, Scores
from datasets.components import Config as SlotConfig
from datasets.federation import Examples, Federation
from orchestrator.config.run import resolve
from orchestrator.trial.restarts import Trial
from tests.support.inline import inline_trial
from tests.support.stand_ins import StandIn


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
        return replace(data, train=self.examples[inside], offsets=offsets, example_strengths=strengths)


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
        scores = Scores(np.full(n, "kept"), answers.pool.owner, known, answers.own, target=np.full(n, "run"))
        return Exposure({"kept": float(len(answers.inside))}, {}, (Measure("run", "kept", 1.0),), scores)


def attacked_by(keeper: Keeper, given: dict[str, Any], folder: Path, data: Federation, replicas: int = 4) -> Trial:
    """A trial of the run ``given`` that is attacked by ``keeper`` after its last round."""
    attack = StandIn(SimpleNamespace(**{name: getattr(keeper, name) for name in dir(keeper) if name[0] != "_"}))
    object.__setattr__(attack, "config", Config(replicas=replicas))
    run = resolve(given)
    return inline_trial(replace(run, attacks=(*run.attacks, attack)), folder, data)
