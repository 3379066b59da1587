"""What attacks find: single numbers, scores of examples, the result on one model, and that on clients or a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.metrics.client_risk import Attacked

NAN = float("nan")


@dataclass(frozen=True)
class Measure:
    """One number that an attack found.

    Attributes:
        subject: a variant of the attack, a model or a client.
        metric: the name of the metric.
        value: its value.
        low: the lower end of its 95 % interval over examples; NaN: there is none.
        high: the upper end.
        chance: the value of an attack that guesses; NaN: not known.
    """

    subject: str
    metric: str
    value: float
    low: float = NAN
    high: float = NAN
    chance: float = NAN


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of single examples, one row for each attack and attacked example.

    Attributes:
        attack: [n] name of the attack.
        client: [n] owner of the example; for a held-out one the client from whom it was held out, or whose transform it
            wears; -1: nobody.
        member: [n] whether the example was trained on.
        score: [n] the higher, the likelier a member; 0 or more is the decision "member".
        left: [n] whether the example belongs to the comparison of clients that left the model: one of their records
            (``member``), or a held-out example that looks like theirs. None: there are none.
        target: [n] name of the attacked model, such as "run" or "replica 0". None: the scores are those of one model.
    """

    attack: NDArray[np.str_]
    client: NDArray[np.int64]
    member: NDArray[np.bool_]
    score: NDArray[np.float64]
    left: NDArray[np.bool_] | None = None
    target: NDArray[np.str_] | None = None

    @staticmethod
    def none() -> Scores:
        """Return a table without rows, for an attack that scores no single examples."""
        return Scores(np.empty(0, np.str_), np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0))


@dataclass(frozen=True, eq=False)
class Audit:
    """What an attack found on one model; a value that could not be determined is NaN.

    Attributes:
        published_risk: attack accuracy that may be published to the clients; None: the attack measures no risk.
        measures: for the researcher; subjects are variants of the attack.
        scores: scores of single examples.
        metrics: columns of the round's row: the mean over models under the metric's name, the largest value as
            ``<metric>_worst``, and that of each model as ``<metric>_<model>``.
        measured_risk: attack accuracy on the clients' examples, for the tables; it may differ from the estimate of an
            attacker without the clients' data. None: the published risk.
        chosen: the attack, one of those in ``scores``, whose accuracy is the risk; None: the only one.
        own_risks: [clients] accuracy of each client's own attack on the model, NaN if it makes none; None: no attack by
            clients.
    """

    published_risk: float | None
    measures: tuple[Measure, ...]
    scores: Scores = field(default_factory=Scores.none)
    metrics: Mapping[str, float] = field(default_factory=dict)
    measured_risk: float | None = None
    chosen: str | None = None
    own_risks: NDArray[np.float64] | None = None

    @property
    def risk(self) -> float | None:
        """The attack accuracy that is reported in tables."""
        return self.published_risk if self.measured_risk is None else self.measured_risk

    def examples(self, left: bool = False) -> Attacked:
        """Return the examples that the risk rests on; with ``left``, those of the comparison of clients that left."""
        scores, attack = self.scores, self.chosen
        if attack is None and len(names := np.unique(scores.attack)) == 1:
            attack = names[0]
        of_left = np.zeros(len(scores.score), bool) if scores.left is None else scores.left
        here = (scores.attack == attack) & (of_left == left)
        return Attacked(scores.score[here], scores.member[here], scores.client[here])


@dataclass(frozen=True, eq=False)
class Exposure:
    """What an attack on the clients found in a round, or on the run as a whole.

    Attributes:
        metrics: columns of the round's row.
        clients: columns of the clients' table, [clients] each, NaN for clients that did not take part.
        measures: for the researcher; subjects are clients, such as "client_3".
        scores: scores of single examples, each with its target.
        kept: arrays by name that an attack on updates gets back in its next round; they are saved with the run.
    """

    metrics: Mapping[str, float]
    clients: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    measures: tuple[Measure, ...] = ()
    scores: Scores = field(default_factory=Scores.none)
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)
