"""Membership and source of an example from the sum of a round's updates: what secure aggregation
leaves to be seen.

    before round t the server sent theta_t; the m clients k of the cohort answer, and it receives only mean_t, with their
    weights w_tk, which add up to 1
    A_tk = m w_tk, 0 for clients that are absent (1 if all weigh the same);  U_t = -m mean_t = -sum_k A_tk Delta_tk
    s_t(x) = <g_x, U_t>, g_x = gradient of CE(theta_t; x, y) in evaluation mode, less its mean on references with x's label

    member   of client k:  sum_t A_tk s_t(x) / sum_t A_tk      the mean over the rounds in which k took part
    part     of every client in the score, by ridge regression on who took part (PROLIN, Kerkouche et al. 2023):
             p(x) = argmin_p sum_t (s_t(x) - sum_k A_tk p_k)^2 + ridge sum_k (p_k - mean of p)^2
    source   argmax_k p_k(x); among equals one is drawn, so it is a guess if all always take part
    reported: AUC of each client's members against non-members, by the mean score; AUC of each client's members against
              other clients' by p_k, both as if the labels were the same (`metrics.client_auc`); accuracy of the source

Each model of a clustered run has sums of its own: rows of A that are 0 for the clients of other
models, so regressions are separate as long as nobody moves. Running statistics are no parameters,
and are not used. The sum is what clients send, clipped and noised where they do that; what the
server adds, and what its optimizer makes of it, comes later.

<g_x, U_t> is the derivative of x's loss along U_t: all examples take one pass of forward
differentiation, and no gradient. ``signal: cosine`` divides by the norms of both, for which it
computes the gradients.

By others as noise: with N updates that are isotropic in d dimensions, one of them g_x, the AUC is
Phi(sqrt(d / 2 N)).

Differences from the paper: no detector. PROLIN trains one each round on updates that it simulates
with and without the record, hundreds of trainings for each target, and weighs rounds by how well it
separates them; here the score itself is regressed and rounds count alike. Nor is there a mixture
step or a vote over prefixes. The penalty draws clients to their mean, not to 0, so that nobody is
named for weighing more. PROLIN's target is a record of several clients in every update; here it is
any training example.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.columns import interval
from algorithms.core.messages import Doubles, Ints
from algorithms.core.metric import (
    MEMBERSHIP,
    RUN,
    SOURCE,
    Column,
    Number,
    PerClient,
    Risk,
    rate,
    variant,
)
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from attacks import _queries
from attacks._queries import CenteredConfig, Queries, queries_of
from attacks.interfaces import Exposure, SeenRound, SeenSum, of_clients
from attacks.metrics import client_auc, out_worlds
from attacks.metrics.client_auc import ClientAucs
from attacks.metrics.disparity import wilson
from attacks.metrics.membership import NAN
from attacks.metrics.over_rounds import last_values
from datasets.federation import Federation, joined

KINDS = ("sums",)
SEES: Literal["sum"] = "sum"
LABEL = "attack on sums"
ASKS = "was this example trained on, and by whom?"
PAPERS = {"PROLIN": "https://arxiv.org/abs/2303.03908"}
EQUAL = 1e-8  # of the largest part: so far apart, parts are equal up to rounding
PLACE = 15  # of the stream that draws among equals


class Config(CenteredConfig):
    """Fields of the attack on sums."""

    nonmembers: ClassVar[str] = "outside"  # what `_queries` asks

    # The cosine finds somewhat more of long runs with small cohorts, and costs a gradient for each
    # example.
    signal: Literal["product", "cosine"] = Field(
        "product", description="how gradients are compared with the sum"
    )
    # PROLIN's penalty is 5. Without one, the parts of n clients need more than n attacked rounds.
    ridge: float = Field(
        5.0,
        ge=0,
        description="weight of the clients' differences in the regression on who took part",
    )


def problems(config: Config, run: Run) -> Problems:
    """Refuse a regression without a penalty that has too few rounds for it: (field, sentence)
    pairs.
    """
    rounds = -(-run.rounds // config.every)
    clients = run.data.config.clients
    if not config.ridge and rounds <= clients:
        return [
            (
                "ridge",
                f"{rounds} attacked rounds do not tell {clients} clients apart without a "
                "penalty; set it above 0",
            )
        ]
    return []


def data_problems(config: Config, data: Federation) -> Problems:
    """List why the attack cannot be made on ``data``: (field, sentence) pairs."""
    return _queries.problems("sum_mia", config, data)


def observe(config: Config, seen: SeenSum) -> Doubles:
    """Compute the scores [R] of the examples of `Queries` in one sum."""
    queries = queries_of(config, seen.data, seen.stream)
    examples = joined(
        [seen.data.train[queries.members.ravel()], queries.outside, queries.references]
    )
    seen.network.load(seen.sum.sent)
    compare = (
        partial(cosines, seen.network) if config.signal == "cosine" else seen.network.derivatives
    )
    values = compare(examples.x, examples.y, -len(seen.sum.clients) * seen.sum.mean)
    values = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    return out_worlds.centered(
        values[None], queries.labels, queries.transforms, queries.reference_labels
    )[0]


def cosines(network: Any, x: NDArray[Any], y: Ints, direction: Doubles) -> Doubles:
    """Return the cosines [n] of the examples' gradients and a ``direction`` [d], NaN or infinite
    if either is 0.
    """
    import torch

    along = torch.from_numpy(direction.astype(np.float32)).to(network.device)
    pieces = []
    for gradients in network.example_gradients(x, y):
        pieces.append(
            (gradients @ along / (gradients.norm(dim=1) * along.norm())).double().cpu().numpy()
        )
    return np.concatenate(pieces)


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Add the round's sums to those of earlier rounds, and attack every client that has taken
    part in an attacked one.
    """
    queries = queries_of(config, seen.data, seen.stream)
    n = seen.data.clients
    sums = {name: array.copy() for name, array in seen.kept.items()} or {
        "present": np.zeros(n),  # A' 1
        "gram": np.zeros((n, n)),  # A' A
        "moments": np.zeros((n, len(queries.labels))),  # A' s
    }
    for one, scores in zip(seen.sums, seen.observed, strict=True):
        row = len(one.clients) * one.weights
        sums["present"][one.clients] += row
        sums["gram"][np.ix_(one.clients, one.clients)] += np.outer(row, row)
        sums["moments"][one.clients] += row[:, None] * scores
    clients = np.flatnonzero(sums["present"])
    members = queries.members.size
    gram = sums["gram"][np.ix_(clients, clients)]
    moments = sums["moments"][clients]
    member = moments / sums["present"][clients, None]
    part = parts(gram, moments[:, :members], config.ridge)
    guessed = sources(part, seen.stream("attack_targets", seen.round, PLACE)).reshape(
        queries.members.shape
    )
    each = queries.members.shape[1]
    others = _queries.of_others(config, queries.members, seen.stream)
    aucs = {
        "sum_auc": _compared(
            member, clients, queries, queries.numbers[:, each:], queries.examples[:, each:]
        ),
        "sum_part_auc": _compared(part, clients, queries, others, others),
    }
    return _exposure(aucs, clients[guessed[clients]] == clients[:, None], clients, sums)


def parts(gram: Doubles, moments: Doubles, ridge: float) -> Doubles:
    """Regress scores on who took part: p [n, R] that minimizes |s - A p|^2 + ridge |p - mean of
    p|^2.

    ``gram`` [n, n] is A' A and ``moments`` [n, R] A' s. Where this leaves a choice, p is the
    shortest.

    >>> A, s = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]), np.array([[1.0], [1.0], [0.0]])
    >>> abs(parts(A.T @ A, A.T @ s, 0.0).ravel().round(6)).tolist()
    [0.0, 1.0, 0.0]
    """
    penalty = np.eye(len(gram)) - 1 / len(gram)
    solution: Doubles = np.linalg.lstsq(gram + ridge * penalty, moments, rcond=1e-10)[0].astype(
        np.float64
    )
    return solution


def sources(part: Doubles, rng: np.random.Generator) -> Ints:
    """Return whose part [n, R] in each score is the largest, [R]; one of those whose parts are
    equal up to rounding.

    >>> sources(np.array([[0.2, 0.0], [0.7, 0.0], [0.1, 1.0]]), np.random.default_rng(0)).tolist()
    [1, 2]
    """
    largest = part >= part.max(axis=0) - EQUAL * np.abs(part).max(axis=0)
    guess: Ints = (largest * (1 - rng.random(part.shape))).argmax(axis=0)
    return guess


def _compared(
    scores: Doubles, clients: Ints, queries: Queries, others: Ints, alike: Ints
) -> ClientAucs:
    """Compare members of ``clients`` [c] with ``others`` [all clients, m] by scores [c, R], one
    row for each client.

    ``alike`` [all clients, m] are the numbers of the others, equal for one example with several
    transforms.
    """
    own = np.arange(queries.members.size).reshape(queries.members.shape)[clients]
    labels = queries.labels[np.concatenate([own, others[clients]], axis=1)]
    inside, outside = (
        np.take_along_axis(scores, places, axis=1) for places in (own, others[clients])
    )
    return client_auc.measure(
        inside, outside, np.concatenate([own, alike[clients]], axis=1), labels
    )


def _exposure(
    aucs: dict[str, ClientAucs],
    hits: NDArray[np.bool_],
    clients: Ints,
    sums: dict[str, NDArray[Any]],
) -> Exposure:
    """Return the result of the attack on the ``clients`` [c], of whose targets the sources are
    ``hits`` [c, n].
    """
    found = [
        (replace(one.number(name), chance=0.5), (one.auc, one.low, one.high))
        for name, one in aucs.items()
    ]
    low, high = map(float, wilson(hits.sum(), hits.size))
    source = Number("sum_source", float(hits.mean()), RUN, low, high, 1 / len(clients))
    of_each = wilson(hits.sum(axis=1), np.full(len(hits), hits.shape[1]))
    found.append((source, (hits.mean(axis=1), *of_each)))
    columns = dict[str, Doubles]()
    measures = list[Number]()
    for number, (values, *ends) in found:
        cells = np.full((3, len(sums["present"])), NAN)
        cells[:, clients] = values, *ends
        columns |= zip(interval(number.metric), cells, strict=True)
        measures.append(replace(number, of=variant("clients")))
        measures += of_clients(number.metric, clients, values, ends, number.chance or NAN)
    return Exposure(tuple(number for number, _ in found), columns, tuple(measures), kept=sums)


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return every metric as it was after the last attacked round, whose scores are those of all
    of them.
    """
    return last_values(outcome, METRICS)


# What is measured, and how it is shown


def _of_clients(name: str, title: str) -> PerClient:
    """The figure of a metric's values for single clients."""
    return PerClient(title, *interval(name), "95 % interval over one run's examples")


METRICS = (
    rate(
        "sum_auc",
        MEMBERSHIP,
        "AUC of membership from sums",
        "lower",
        live=2,
        table=Column(2, "sums\nAUC"),
        chance=0.5,
        ends=True,
        risk=Risk(
            "Who sees sums of updates alone tells the clients' training examples from "
            "others with AUC",
            25,
        ),
        clients=_of_clients("sum_auc", "Membership from sums of updates, AUC"),
    ),
    rate(
        "sum_part_auc",
        SOURCE,
        "AUC of a client's part in sums",
        "lower",
        table=Column(4, "part in\nsums"),
        chance=0.5,
        ends=True,
        clients=_of_clients("sum_part_auc", "Whose example it is, from sums of updates, AUC"),
    ),
    rate(
        "sum_source",
        SOURCE,
        "accuracy of the source from sums",
        "lower",
        live=3,
        table=Column(3, "source by\nsums"),
        chance="sum_source_chance",
        ends=True,
        risk=Risk(
            "Who sees sums of updates alone traces training examples to their owner with accuracy",
            45,
        ),
        clients=_of_clients(
            "sum_source", "Source of each client's examples from sums of updates, accuracy"
        ),
    ),
)
