"""Source inference (Hu et al. 2021; Zhao et al. 2025, eq. 5): whose example is this? His whose model loses least on it.

    T_i   n training examples of client i, drawn once for the run
    every round, before the server averages, with the models theta_k that it received:
        guess(x) = argmin_k CE(theta_k(x), y)                 ties: the lowest client
        SIA_i    = |{x in T_i : guess(x) = i}| / |T_i|        1 / clients is chance
    disparity: CoV, 1 / (1 + CoV^2) and max - min of SIA_i over clients; CoV of one owner's losses over models

Differences from the paper: none in the attack. The released code draws HAR's targets from all of a client's examples, of which
some were never trained on (``pool: all``), and rounds SIA_i to two decimals (``rounded``). Max - min is biased upwards, so what
it would be for equally exposed clients is given beside it, as ``eod_null``.

A check on any result: if targets are not the owners' examples, sum_i SIA_i = 1 in expectation whatever the models are.
A mean of 1 / clients with a wide spread is the mark of an attack on the wrong examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attacks import Exposure
from attacks.metrics import disparity, membership
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Examples, Federation, Floats, Ints

if TYPE_CHECKING:
    from algorithms.core.messages import Weights
    from algorithms.core.network import Network

Doubles = NDArray[np.float64]
Stream = Callable[..., np.random.Generator]

STAGE = "updates"
OF_GUESSES = "sia_mean", "sia_chance", "sia_cov", "sia_fi", "sia_mad", "sia_sen", "eod", "eod_null"
OF_LOSSES = "loss_cov", "loss_fi", "loss_mad"


class Config(SlotConfig):
    """Fields of source inference."""

    every: int = Field(1, ge=1, description="rounds from one attack to the next")
    targets: int = Field(
        100, ge=1, description="attacked examples of each client; at most what the smallest client has"
    )
    # An example that nobody trained on belongs to nobody's model, and only adds noise.
    pool: Literal["training", "all"] = Field(
        "training",
        description="examples that may be attacked: the client's training examples, or its test examples, too",
    )
    rounded: bool = Field(False, description="round each client's attack accuracy to two decimals, as released")


def targets(config: Config, data: Federation, stream: Stream) -> Ints:
    """The attacked examples of every client, [clients, n]: places among the training examples followed by the test examples.

    They depend on the run's seed and not on the round. Every client has equally many. Raises DataError where a client has no
    example to be attacked.
    """
    pools = [_pool(config, data, i) for i in range(data.clients)]
    size = min(config.targets, *map(len, pools))
    if size < 1:
        raise DataError(f"source inference needs 1 training example or more of every client of {data.name}")
    drawn = [stream("attack_targets", i).choice(own, size, replace=False) for i, own in enumerate(pools)]
    return np.sort(drawn, axis=1)


def _pool(config: Config, data: Federation, client: int) -> Ints:
    trained_on = np.arange(data.offsets[client], data.offsets[client + 1])
    tested_on = len(data.train) + np.flatnonzero(data.test_owner == client)
    return trained_on if config.pool == "training" else np.concatenate([trained_on, tested_on])


def _examples_at(data: Federation, places: Ints) -> Examples:
    """The examples at ``places`` [n], counting the training examples first and the test examples after them."""
    trained_on = places < len(data.train)
    x, y = np.empty((len(places), *data.shape), np.float32), np.empty(len(places), np.int64)
    for part, chosen, start in (data.train, trained_on, 0), (data.test, ~trained_on, len(data.train)):
        x[chosen], y[chosen] = part.x[places[chosen] - start], part.y[places[chosen] - start]
    return Examples(x, y)


def observe(
    config: Config,
    data: Federation,
    network: Network,
    sent: Sequence[Weights],
    assignment: Ints,
    params: Floats,
    buffers: Floats,
    clients: Sequence[int],
    stream: Stream,
) -> Doubles:
    """Losses [c, clients * n] in nats of the models of a block's c ``clients`` on the targets of all, owner after owner.

    Models are used as the server receives them (``params`` [c, d], ``buffers`` [c, b], among them a client's own running
    statistics), in evaluation mode, and all are asked about the same examples in the same order.
    """
    from algorithms.core.messages import Weights

    attacked = _examples_at(data, targets(config, data, stream).ravel())
    losses = np.empty((len(clients), len(attacked)))
    for row, own, statistics in zip(losses, params, buffers, strict=True):
        network.load(Weights(own, statistics))
        # Exact where the probability rounds to 1, or all models that overfit would tie at 0, in favor of the first.
        row[:] = membership.losses(network.logits(attacked.x), attacked.y)
    return losses


def guesses(losses: Doubles) -> Ints:
    """Which of the models each example is traced to, [owners, n], from ``losses`` [models, owners, n].

    The lowest loss wins, of equals the first. A model whose loss is not a number is not suspected.
    """
    return np.where(np.isnan(losses), np.inf, losses).argmin(axis=0)


def conclude(
    config: Config, data: Federation, observed: Doubles, clients: Ints, round_: int, stream: Stream
) -> Exposure:
    """The attack of one round, from what was observed of the ``clients`` [k] who took part: losses [k, all clients * n].

    Only their examples are attacked, and only they are suspected: an example of an absent client has no source in this round.
    """
    losses = observed.reshape(len(clients), data.clients, -1)[:, clients]
    hits = guesses(losses) == np.arange(len(clients))[:, None]
    n = hits.shape[1]
    found, means = hits.mean(axis=1), losses.mean(axis=2)  # [owners], [models, owners]
    low, high = disparity.wilson(hits.sum(axis=1), n)
    columns = {"sia_accuracy": found, "sia_low": low, "sia_high": high, "target_loss": np.diagonal(means)}
    return Exposure(
        metrics=round_metrics(np.round(found, 2) if config.rounded else found, means, float(hits.mean()), n),
        clients={name: _spread(values, clients, data.clients) for name, values in columns.items()},
        measures=tuple((f"client_{i}", "sia_accuracy", float(v)) for i, v in zip(clients, found, strict=True)),
    )


def round_metrics(found: Doubles, means: Doubles, mean: float, n: int) -> dict[str, float]:
    """The round's metrics (Zhao et al. 2025, section 5.2), over the clients who took part.

    ``found`` [clients] is the attack's success on each, ``means`` [models, owners] every model's mean loss on every owner's
    ``n`` targets, ``mean`` the share of hits among all targets.
    """
    sia_cov, loss_cov = disparity.cov(found), float(np.mean([disparity.cov(own) for own in means.T]))
    return {
        "sia_mean": mean,
        "sia_chance": 1 / len(found),
        "sia_cov": sia_cov,
        "sia_fi": disparity.fairness_index(sia_cov),
        "sia_mad": disparity.mad(found),
        "sia_sen": disparity.sen_welfare(1 - found),
        "eod": disparity.eod(found),
        "eod_null": disparity.eod_null(np.full(len(found), n), mean),
        "loss_cov": loss_cov,
        "loss_fi": disparity.fairness_index(loss_cov),
        "loss_mad": float(np.mean([disparity.mad(own) for own in means.T])),
    }


def _spread(values: Doubles, clients: Ints, everyone: int) -> Doubles:
    """``values`` [k] of these ``clients`` in a column of all, NaN for the others."""
    column = np.full(everyone, np.nan)
    column[clients] = values
    return column


def final(config: Config, run: Any, rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """What is reported of the run: every metric's mean over the attacked rounds, and the highest round's ``sia_mean``.

    Rounds in which a metric is undefined (the CoV where nobody was traced) do not count; None where that is all of them.
    """
    reported: dict[str, float | None] = {}
    for name in OF_GUESSES + OF_LOSSES:
        known = _known(rows, name)
        reported[name] = float(np.mean(known)) if known else None
    return reported | {"sia_max": max(_known(rows, "sia_mean"), default=None)}


def _known(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows if row.get(name) is not None and np.isfinite(row[name])]
