"""Source inference (Hu et al. 2021; Zhao et al. 2025, eq. 5): whose model has the lowest loss on an example?

    T_i   n training examples of client i, drawn once for the run
    every round, before the server averages, with the models theta_k that it received:
        guess(x) = argmin_k CE(theta_k(x), y)                 ties: the lowest client
        SIA_i    = |{x in T_i : guess(x) = i}| / |T_i|        1 / clients is chance
    disparity: CoV, 1 / (1 + CoV^2) and max - min of SIA_i over clients; CoV of one owner's losses over models

Differences from the paper: none in the attack. The released code draws HAR's targets from all of a client's examples,
some of which were never trained on (``pool: all``), and rounds SIA_i to two decimals (``rounded``). Max - min is biased
upwards, and so is the CoV: few targets spread success also over equally exposed clients. What the measures would be
then is reported as well, as ``eod_null``, ``cov_null`` and ``fi_null``.

A check on any result: if the targets were not the owners' examples, the expectation of sum_i SIA_i would be 1, whatever
the models are. A mean of 1 / clients with a wide spread therefore indicates that the wrong examples were attacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.metric import MINOR, SOURCE, Column, Metric
from algorithms.interfaces import Metrics, Outcome, Run
from attacks._source_scores import calibrated
from attacks._targets import examples_at as examples_at
from attacks._targets import target_losses, targets_seen
from attacks._targets import targets as targets
from attacks.interfaces import Exposure, Measure, SeenRound, SeenUpdates
from attacks.metrics import disparity
from datasets.components import ADDED_LATER
from datasets.components import Config as SlotConfig
from datasets.federation import Ints

Doubles = NDArray[np.float64]

KINDS = ("updates",)
OF_GUESSES = "sia_mean", "sia_chance", "sia_cov", "sia_fi", "sia_mad", "sia_sen", "eod"
BY_CHANCE = "cov_null", "fi_null", "eod_null"
OF_LOSSES = "loss_cov", "loss_fi", "loss_mad"

METRICS = (
    Metric("sia_mean", SOURCE, "mean SIA accuracy", "lower", live=1, table=Column(1, "SIA\nmean"), chance="sia_chance"),
    Metric("sia_max", SOURCE, "mean SIA accuracy, worst round", "lower", table=Column(3, "SIA\nmax", interval=False)),
    Metric("sia_chance", SOURCE, "SIA by guessing"),
    Metric("sia_cov", SOURCE, "CoV of SIA", "lower", "", live=2, table=Column(2, "SIA\nCoV", 2), chance="cov_null"),
    Metric("cov_null", SOURCE, "CoV of SIA by chance", unit=""),
    Metric(
        "sia_fi",
        SOURCE,
        "FI of SIA",
        "higher",
        "",
        live=4,
        table=Column(4, "SIA\nFI", 2, interval=False),
        chance="fi_null",
    ),
    Metric("fi_null", SOURCE, "FI of SIA by chance", unit=""),
    Metric("eod", SOURCE, "EOD", "lower", live=2, table=Column(2, "EOD", 2), chance="eod_null"),
    Metric("eod_null", SOURCE, "EOD by chance", live=5, table=Column(4, "EOD by\nchance", 2, interval=False)),
    Metric("sia_mad", SOURCE, "mean absolute difference of SIA", "lower"),
    Metric("sia_sen", SOURCE, "Sen welfare of SIA", "higher", ""),
    Metric("loss_cov", SOURCE, "CoV of loss", "lower", "", live=5, table=Column(3, "loss\nCoV", 2, interval=False)),
    Metric("loss_fi", SOURCE, "FI of loss", "higher", "", table=Column(MINOR, "loss\nFI", 2, interval=False)),
    Metric("loss_mad", SOURCE, "mean absolute difference of loss", "lower", "nats"),
)


class Config(SlotConfig):
    """Fields of source inference."""

    every: int = Field(1, ge=1, description="rounds from one attack to the next")
    targets: int = Field(
        100, ge=1, description="attacked examples of each client; at most what the smallest client has"
    )
    # An example that nobody trained on has no source; attacking it only adds noise.
    pool: Literal["training", "all"] = Field(
        "training",
        description="examples that may be attacked: the client's training examples, or its test examples, too",
    )
    # The papers compare losses; a model that is better than the others on everything is then everybody's guess.
    score: Literal["loss", "calibrated"] = Field(
        "loss",
        description="what models are compared by: the loss, or the loss relative to the model's others of the class",
        json_schema_extra=ADDED_LATER,
    )
    rounded: bool = Field(False, description="round each client's attack accuracy to two decimals, as released")


def observe(config: Config, seen: SeenUpdates) -> Doubles:
    """Compute the losses of a block's c models on the targets of all clients.

    Returns:
        [c, clients * n] in nats, owner after owner.
    """
    return target_losses(seen, targets_seen(config, seen).ravel())


def guesses(losses: Doubles) -> Ints:
    """Guess the source of each example: the model with the lowest loss; among equals, the first.

    Args:
        losses: [models, owners, n] losses in nats or other scores; a model whose value is NaN is never the guess.

    Returns:
        [owners, n] positions of models.
    """
    return np.where(np.isnan(losses), np.inf, losses).argmin(axis=0)


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Compute the attack of one round from the observed losses [k, all clients * n] of the k clients that took part.

    Only their examples are attacked and only they are candidates: an example of an absent client has no source in this
    round.
    """
    clients, everyone = seen.clients, seen.data.clients
    losses = seen.observed.reshape(len(clients), everyone, -1)[:, clients]
    scores = losses
    if config.score == "calibrated":
        labels = examples_at(seen.data, targets(config, seen.data, seen.stream)[clients].ravel()).y
        scores = calibrated(losses, labels.reshape(len(clients), -1))
    hits = guesses(scores) == np.arange(len(clients))[:, None]
    n = hits.shape[1]
    found, means = hits.mean(axis=1), losses.mean(axis=2)  # [owners], [models, owners]
    low, high = disparity.wilson(hits.sum(axis=1), n)
    columns = {"sia_accuracy": found, "sia_low": low, "sia_high": high, "target_loss": np.diagonal(means)}
    return Exposure(
        metrics=round_metrics(np.round(found, 2) if config.rounded else found, means, float(hits.mean()), n),
        clients={name: _spread(values, clients, everyone) for name, values in columns.items()},
        measures=tuple(Measure(f"client_{i}", "sia_accuracy", float(v)) for i, v in zip(clients, found, strict=True)),
    )


def round_metrics(found: Doubles, means: Doubles, mean: float, n: int) -> dict[str, float]:
    """Compute the round's metrics over the clients that took part (Zhao et al. 2025, section 5.2).

    Args:
        found: [clients] the attack's success on each client.
        means: [models, owners] mean loss of each model on each owner's targets, in nats.
        mean: share of hits among all targets.
        n: targets per client.
    """
    targets = np.full(len(found), n)
    sia_cov, loss_cov = disparity.cov(found), float(np.mean([disparity.cov(own) for own in means.T]))
    return {
        "sia_mean": mean,
        "sia_chance": 1 / len(found),
        "sia_cov": sia_cov,
        "cov_null": disparity.cov_null(targets, mean),
        "sia_fi": disparity.fairness_index(sia_cov),
        "fi_null": disparity.fi_null(targets, mean),
        "sia_mad": disparity.mad(found),
        "sia_sen": disparity.sen_welfare(1 - found),
        "eod": disparity.eod(found),
        "eod_null": disparity.eod_null(targets, mean),
        "loss_cov": loss_cov,
        "loss_fi": disparity.fairness_index(loss_cov),
        "loss_mad": float(np.mean([disparity.mad(own) for own in means.T])),
    }


def _spread(values: Doubles, clients: Ints, everyone: int) -> Doubles:
    """Put ``values`` [k] of these ``clients`` into an array of all clients, NaN for the others."""
    column = np.full(everyone, np.nan)
    column[clients] = values
    return column


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the mean of every metric over the attacked rounds, and the largest ``sia_mean`` of a round as ``sia_max``.

    Rounds in which a metric is undefined (the CoV if no example was traced) do not count; the result is None if no
    round counts.
    """
    reported: Metrics = {}
    for name in OF_GUESSES + BY_CHANCE + OF_LOSSES:
        values = _known(outcome.rows, name)
        reported[name] = float(np.mean(values)) if values else None
    return reported | {"sia_max": max(_known(outcome.rows, "sia_mean"), default=None)}


def _known(rows: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows if row.get(name) is not None and np.isfinite(row[name])]
