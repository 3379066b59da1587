"""Membership from the slope of an example's loss over rounds (Chang et al. 2024): members are
learned faster.

    y_t(x)     -ln p_y, -p_y or -ln(p_y / (1 - p_y)) of example x of client c in round t,
               by the model that c was sent (``models``), and by the one that c sent back (``updates``)
    slope(x)   sum_t (t - mean t) y_t(x) / sum_t (t - mean t)^2                        ordinary least squares
    t          the attacked rounds from ``first`` to ``last`` in which c took part
    reported: the AUC of -slope, and of -mean_t y_t, on each client's n members and m non-members as if both had the same
              labels (`metrics.client_auc`), and its mean over clients

What makes an example hard raises its loss in all rounds, and is not in its slope. If slopes of
members and others differ by b, noise has the deviation s, and S = sum_t (t - mean t)^2, the slope
has the AUC Phi(b sqrt(S) / (s sqrt 2)), however much examples differ; the mean loses with their
differences. Where they do not differ, the mean finds more.

Nothing is trained: examples pass through models that are there anyway. The window is fixed before
the run, because the best window of the target would be too good by chance. The model of round t has
not seen what is learned in it, so that in round 1 it knows nothing.

Source: Chang, Edwards, Paul and Shokri, Efficient Privacy Auditing in Federated Learning, USENIX
Security 2024.

Differences from the paper: members and non-members of a client are compared directly, instead of by
their percentiles among other non-members, which have the same order within a client; every client
is the target.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.columns import interval, null
from algorithms.core.messages import Doubles, Ints, Weights
from algorithms.core.metric import (
    MEMBERSHIP,
    Column,
    Metric,
    Number,
    PerClient,
    Risk,
    rate,
    unknown,
    variant,
)
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from attacks import _queries
from attacks._queries import ComparedConfig, Queries, queries_of
from attacks.interfaces import Exposure, SeenRound, SeenUpdates, of_clients
from attacks.metrics import client_auc, membership
from attacks.metrics.client_auc import ClientAucs
from attacks.metrics.membership import NAN, confidences_of_losses
from attacks.metrics.over_rounds import last_values
from datasets.federation import Federation, joined

View = Literal["models", "updates"]

KINDS = ("updates",)
LABEL = "loss slope"
ADVERSARY = "whoever has the models of all rounds, and the server by its clients' updates"
OF_MODELS = "whoever has the models of all rounds"  # makes the attack where it sees no more
ASKS = "was this example trained on, given how fast it was learned?"
PAPERS = {
    "Efficient Privacy Auditing": "https://www.usenix.org/conference/usenixsecurity24/presentation/chang"
}
FEWEST_ROUNDS = 2
PREFIXES: dict[View, str] = {"models": "slope_model", "updates": "slope"}


class Config(ComparedConfig):
    """Fields of the attack by slopes."""

    center: ClassVar[str] = "none"  # of the queries (`_queries`): without references
    nonmembers: ClassVar[str] = "outside"

    view: View = Field(
        "updates",
        description=(
            "what the attacker sees: the clients' updates and with them the models, or the "
            "models alone"
        ),
    )
    signal: Literal["loss", "probability", "logit"] = Field(
        "loss",
        description=(
            "what has a slope: the loss, or the negative of p_y or of the confidence on the "
            "logit scale"
        ),
    )
    first: int = Field(1, ge=1, description="the first round of the window")
    last: Annotated[int, Field(ge=FEWEST_ROUNDS)] | Literal["end"] = Field(
        "end", description="the last round of the window"
    )

    @property
    def views(self) -> tuple[View, ...]:
        """The views in which slopes are measured."""
        return ("models",) if self.view == "models" else ("models", "updates")

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of these views."""
        return [metric for view in self.views for metric in METRICS_OF[view]]

    def covers(self, round_: int) -> bool:
        """Return whether a round, the first being 1, is in the window."""
        return self.first <= round_ and (self.last == "end" or round_ <= self.last)


def declarations(config: Config) -> dict[str, str]:
    """Return what the attacker must see, and who it is."""
    return {"SEES": config.view} | ({"ADVERSARY": OF_MODELS} if config.view == "models" else {})


def problems(config: Config, run: Run) -> Problems:
    """Refuse a window with fewer than two attacked rounds, of which there is no slope."""
    attacked = [t for t in range(1, run.rounds + 1) if t % config.every == 0 or t == run.rounds]
    count = sum(map(config.covers, attacked))
    if count < FEWEST_ROUNDS:
        window = f"rounds {config.first} to {run.rounds if config.last == 'end' else config.last}"
        sentence = (
            f"a slope needs {FEWEST_ROUNDS} attacked rounds or more, and of {window} {count} "
            "are attacked"
        )
        return [("first", f"{sentence} (rounds: {run.rounds}, every: {config.every})")]
    return []


def data_problems(config: Config, data: Federation) -> Problems:
    """List why the attack cannot be made on ``data``: (field, sentence) pairs."""
    return _queries.comparison_problems("loss_slope", config, data)


def observe(config: Config, seen: SeenUpdates) -> dict[str, Doubles]:
    """Measure the signal on the examples of a block's c clients, by view [c, n + m]: members
    first, lower for members.
    """
    queries = queries_of(config, seen.data, seen.stream)
    examples = joined([seen.data.train[queries.members.ravel()], queries.outside])
    found: dict[str, Doubles] = {
        view: np.empty((len(seen.clients), queries.numbers.shape[1])) for view in config.views
    }
    for i, client in enumerate(seen.clients):
        asked = examples[queries.numbers[client]]
        for view in config.views:
            own = Weights(seen.params[i], seen.buffers[i])
            seen.network.load(own if view == "updates" else seen.sent[seen.assignment[i]])
            losses = membership.losses(seen.network.logits(asked.x), asked.y)
            confidence = confidences_of_losses(losses)
            losses = np.logaddexp(0.0, -confidence)
            signals = {"loss": losses, "probability": -np.exp(-losses), "logit": -confidence}
            found[view][i] = signals[config.signal]
    return found


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Add the round to the sums of earlier rounds, and attack every client with two rounds or
    more in the window.
    """
    queries = queries_of(config, seen.data, seen.stream)
    t = seen.round + 1
    sums = {name: array.copy() for name, array in seen.kept.items()}
    if not sums:
        sums = {name: np.zeros(seen.data.clients, np.int64) for name in ("rounds", "t", "tt")}
        sums |= {
            f"{view}{part}": np.zeros(queries.numbers.shape)
            for view in config.views
            for part in ("", "_t")
        }
    if config.covers(t):
        for name, value in (("rounds", 1), ("t", t), ("tt", t * t)):
            sums[name][seen.clients] += value
        for view in config.views:
            sums[view][seen.clients] += seen.observed[view]
            sums[f"{view}_t"][seen.clients] += t * seen.observed[view]
    return _exposure(config, queries, sums)


def slopes(
    rounds: NDArray[Any], t: NDArray[Any], tt: NDArray[Any], y: Doubles, ty: Doubles
) -> Doubles:
    """Return least-squares slopes [c, r] from the number of rounds and the sums of t and t^2
    [c], of y and t y [c, r].

    >>> y = np.array([[3.0, 2.5, 2.0]])
    >>> slopes(*(np.array([s]) for s in (3, 6, 14)), y.sum(axis=1, keepdims=True), y @ [[1], [2], [3]]).tolist()
    [[-0.5]]
    """
    n = rounds[:, None]
    t = t[:, None]
    tt = tt[:, None]
    return np.asarray((ty - t * y / n) / (tt - t**2 / n))


def _exposure(config: Config, queries: Queries, sums: dict[str, NDArray[Any]]) -> Exposure:
    """Compute the attack's result from the sums over the attacked rounds of the window."""
    clients, there = (np.flatnonzero(sums["rounds"] >= least) for least in (FEWEST_ROUNDS, 1))
    columns = dict[str, Doubles]()
    measures = list[Number]()
    numbers = list(unknown(() if len(clients) else config.metrics))
    for view in config.views:
        name = f"{PREFIXES[view]}_auc"
        by_client = np.full((3, len(sums["rounds"])), NAN)
        if len(clients):
            found, aucs = _of_view(view, queries, sums, clients)
            numbers += found
            measures += [
                replace(number, of=variant("clients"), chance=0.5)
                for number in found
                if number.low is not None
            ]
            by_client[:, clients] = aucs.auc, aucs.low, aucs.high
        columns |= zip(interval(name), by_client, strict=True)
        values, *ends = by_client[:, there]
        measures += of_clients(name, there, values, ends, 0.5)
    return Exposure(tuple(numbers), columns, tuple(measures), kept=sums)


def _of_view(
    view: View, queries: Queries, sums: dict[str, NDArray[Any]], clients: Ints
) -> tuple[list[Number], ClientAucs]:
    """Return the numbers of one view, and the AUC of each of the ``clients`` by their slopes."""
    n = queries.members.shape[1]
    name = PREFIXES[view]
    labels = queries.labels[queries.numbers[clients]]
    examples = queries.examples[clients]
    rounds, t, tt = (sums[name][clients] for name in ("rounds", "t", "tt"))
    y = sums[view][clients]
    ty = sums[f"{view}_t"][clients]
    score = -slopes(rounds, t, tt, y, ty)
    mean = -y / rounds[:, None]
    by_slope, by_mean = (
        client_auc.measure(it[:, :n], it[:, n:], examples, labels) for it in (score, mean)
    )
    rates, null, _ = client_auc.tprs(score, labels, examples, n)
    found = NAN if np.isnan(rates).all() else float(np.nanmean(rates))
    numbers = [
        by_slope.number(f"{name}_auc"),
        Number(f"{name}_tpr_at_1_fpr", found, chance=null),
        by_mean.number(f"{name}_mean_auc"),
    ]
    return numbers, by_slope


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return every metric as it was after the last attacked round."""
    return last_values(outcome, config.metrics)


# What is measured, and how it is shown


def _metrics(view: View, rank: int, place: int, who: str) -> tuple[Metric, ...]:
    name = PREFIXES[view]
    return (
        rate(
            f"{name}_auc",
            MEMBERSHIP,
            f"AUC of the slope of the loss, {view}",
            "lower",
            table=Column(rank, f"AUC slope,\n{view}"),
            chance=0.5,
            ends=True,
            risk=Risk(
                f"{who} tells training examples from others by how fast they are learned, with AUC",
                place,
            ),
            clients=PerClient(
                f"Slope of the loss of each client's examples, {view}, AUC",
                *interval(f"{name}_auc"),
                interval="95 % interval over one run's examples",
            ),
        ),
        rate(
            f"{name}_tpr_at_1_fpr",
            MEMBERSHIP,
            f"TPR at 1 % FPR of the slope, {view}",
            "lower",
            chance=null(f"{name}_tpr_at_1_fpr"),
        ),
        rate(
            f"{name}_mean_auc",
            MEMBERSHIP,
            f"AUC of the mean loss of these rounds, {view}",
            "lower",
            chance=0.5,
        ),
    )


METRICS_OF = {
    "updates": _metrics("updates", 3, 22, "Who sees the updates"),
    "models": _metrics("models", 4, 45, "Who has the models of all rounds"),
}

METRICS = (*METRICS_OF["updates"], *METRICS_OF["models"])
