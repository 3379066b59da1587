"""Membership, then source inference: which examples did anybody train on, and whose are those?

    phi_k(x) = -ln(exp(CE(theta_k; x, y)) - 1), the confidence of client k's model in a round
    flag     s(x) = max_k mean_t M_k(x) over the rounds t that k took part in, M FedMIA's standing of phi or phi itself
             x is flagged if s(x) is above the threshold that a share a of the non-members passes
    trace    argmax_k mean_t (phi_k(x) - mean_j phi_j(x)) of what is flagged: in one round the model with the lowest loss, as in
             source inference; a flagged non-member has no source

    TPR          share of the members that are flagged                             by chance a' = (floor(a m) + 1) / (m + 1)
    SIA|flagged  share of the flagged members that are traced to their owner       1 / clients
    traced       share of the members that are flagged and traced: the product     a' / clients
    apart        TPR * share of all members that are traced: the control, what is traced if the two are independent
    precision    P traced / (P TPR + (1 - P) a'), the share of right names among all that are named where a share P of what
                 is asked about was trained on; P = 0.5, 0.1, 0.01                 P / clients

a' is the expected false positive rate of a threshold that was found on m non-members; of weighted
ones, and of those with several clients' transforms, m is how many equal ones they are worth.
Members and non-members are FedMIA's, and non-members count as if they had the members' labels
(`metrics.client_auc`).

95 % intervals are Wilson's for so many independent examples as have the variance of a bootstrap of
members and non-members, with all their transforms (Korn and Graubard 1998), the threshold being
found anew in every resample. Their quantile is Student's with 2 k degrees of freedom, because the
threshold is the k-th highest score of a non-member. Where nothing is learned, they cover 0.94 to
0.97 in 1200 audits by either score. The models are taken as they are.

Source: FedMIA (Zhu et al. 2025), and source inference as in FinP (Zhao et al. 2025), which takes
membership for known.

Differences from the papers: the owner is sought and not given, so that an example has one score,
the largest of all clients; source inference averages over rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.columns import null
from algorithms.core.messages import Doubles, Ints
from algorithms.core.metric import (
    RUN,
    SOURCE,
    Column,
    Number,
    PerClient,
    Risk,
    rate,
    unknown,
    variant,
)
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from attacks import _queries, fedmia
from attacks._queries import CenteredConfig, Queries, cohort_problems, outsiders, queries_of
from attacks.interfaces import Exposure, SeenRound, SeenUpdates, of_clients
from attacks.metrics import client_auc, membership, out_worlds
from attacks.metrics.disparity import ROUNDING, wilson
from attacks.metrics.membership import NAN, Bools
from attacks.metrics.over_rounds import last_values
from attacks.sia import guesses
from datasets.components import inherited
from datasets.federation import Federation

KINDS = ("updates",)
SEES: Literal["updates"] = "updates"
LABEL = "two-stage attack"
ASKS = "was this example trained on, and by whom?"
PAPERS = {"FedMIA": "https://arxiv.org/abs/2402.06289"}

PRIORS = {
    "50": 0.5,
    "10": 0.1,
    "1": 0.01,
}  # shares of members among what is asked about, by percent
RESAMPLES = 200  # of which only the variance is used
PLACE = 3  # of the stream; the other attacks on updates have places of two numbers


class Config(CenteredConfig):
    """Fields of the two-stage attack."""

    nonmembers: ClassVar[str] = "outside"  # what `_queries` asks

    # At one in twenty, a hundred non-members leave the threshold's rate between 2 and 11 %.
    fpr: float = Field(0.05, gt=0, lt=1, description="share of the non-members that may be flagged")
    score: Literal["fedmia", "loss"] = Field(
        "fedmia",
        description=(
            "what examples are flagged by: FedMIA's standing among the other clients, or the "
            "lowest loss"
        ),
    )
    center: Literal["label", "none"] = inherited(CenteredConfig, "center", score="fedmia")
    references: int = inherited(CenteredConfig, "references", score="fedmia", center="label")


def fedmia_fields(config: Config) -> fedmia.Config:
    """Return the fields of FedMIA that measures what this attack needs."""
    shared = {name: getattr(config, name) for name in CenteredConfig.model_fields}
    return fedmia.Config(
        **shared | {"center": config.center if config.score == "fedmia" else "none"}
    )


def problems(config: Config, run: Run) -> Problems:
    """Refuse a run in which a client has too few others to be compared with."""
    return cohort_problems("two_stage", run, fedmia.FEWEST_CLIENTS)


def data_problems(config: Config, data: Federation) -> Problems:
    """List what the data lack for a comparison, and a false positive rate that so few
    non-members cannot show.
    """
    center = fedmia_fields(config).center
    found = _queries.problems("two_stage", config.model_copy(update={"center": center}), data)
    if found or (count := outsiders(config, data)) * config.fpr >= 1 - 1e-9:
        return found
    sentence = (
        f"two_stage needs {int(np.ceil(1 / config.fpr - 1e-9))} non-members for a rate of "
        f"{config.fpr:g}"
    )
    return [
        (
            "fpr",
            f"{sentence}; {data.name} and compared leave {count}: raise fpr, compared, or "
            "hold more out",
        )
    ]


def observe(config: Config, seen: SeenUpdates) -> dict[str, NDArray[np.generic]]:
    """Measure a block's c updates on all examples, as `fedmia.observe` does: ``assignment``,
    ``confidences``.
    """
    return fedmia.observe(fedmia_fields(config), seen)


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Add the round to earlier ones, and attack the members of all clients that took part, among
    whom they are also traced.

    A round with fewer than three clients does not count, and nothing is measured if members and
    non-members have no label in common, or a score is NaN.
    """
    queries = queries_of(fedmia_fields(config), seen.data, seen.stream)
    sums = added(config, seen, queries)
    clients = np.flatnonzero(sums["rounds"])
    traced = np.full(seen.data.clients, NAN)
    sides = pooled(queries, sums, clients) if len(clients) else None
    if sides is None:
        return Exposure(unknown(METRICS), {"two_stage_traced": traced}, kept=sums)
    false = membership.tpr_by_chance(sides.worth, config.fpr)
    values = rates(config.fpr, false, sides)
    null = by_chance(false, len(clients))
    ends = intervals(config.fpr, false, sides, seen.stream("resampling", 0, seen.round, PLACE))
    rows = [
        Number(name, value, variant("clients"), *ends[name], null.get(name))
        for name, value in values.items()
    ]
    numbers = tuple(replace(row, metric=f"two_stage_{row.metric}", of=RUN) for row in rows)
    traced[clients], bounds = traced_of_clients(config.fpr, sides)
    # Means over fewer rounds spread more: at one threshold for all, such clients pass more often by
    # chance.
    chance = NAN if np.ptp(sums["rounds"][clients]) else null["traced"]
    rows += of_clients("traced", clients, traced[clients], bounds, chance)
    return Exposure(numbers, {"two_stage_traced": traced}, tuple(rows), kept=sums)


def added(config: Config, seen: SeenRound, queries: Queries) -> dict[str, NDArray[Any]]:
    """Return the sums of earlier rounds with this one, if it has enough clients to count."""
    shape = seen.data.clients, len(queries.labels)
    zeros = {"rounds": np.zeros((shape[0], 1)), "flag": np.zeros(shape), "trace": np.zeros(shape)}
    sums: dict[str, NDArray[Any]] = dict(seen.kept) or zeros
    if len(seen.clients) >= fedmia.FEWEST_CLIENTS:
        sums = {name: array.copy() for name, array in sums.items()}
        for name, values in {"rounds": 1.0, **stages(config, seen.observed, queries)}.items():
            sums[name][seen.clients] += values
    return sums


def pooled(queries: Queries, sums: dict[str, NDArray[Any]], clients: Ints) -> Sides | None:
    """Return the scores of the members and non-members of all ``clients`` together; None if there
    is nothing to compare.
    """
    n = queries.members.shape[1]
    asked, place = np.unique(queries.numbers[clients], return_inverse=True)
    place = place.reshape(len(clients), -1)
    flag, trace = (
        sums[name][clients][:, asked] / sums["rounds"][clients] for name in ("flag", "trace")
    )
    scores = flag.max(axis=0)
    source = guesses(-trace[:, None])[0]
    u, w = client_auc.weights(queries.labels[asked][place], n)
    if np.isnan(scores).any() or not u.any():
        return None
    inside = place[:, :n]
    outside = np.bincount(place[:, n:].ravel(), w.ravel(), len(asked)).astype(np.float64)
    right = source[inside] == np.arange(len(clients))[:, None]
    example = np.zeros(len(asked), np.int64)
    example[place] = queries.examples[clients]
    there = outside > 0
    same = np.unique(example[there], return_inverse=True)[1]
    return Sides(scores[inside], right, u, scores[there], outside[there], same)


def traced_of_clients(fpr: float, sides: Sides) -> tuple[Doubles, tuple[Doubles, Doubles]]:
    """Return the share of each client's members that is flagged and traced [c], NaN of a client
    without any that counts, and both ends of its interval.
    """
    found = sides.right & (sides.members > sides.threshold(fpr))
    traced = np.where(sides.u.any(axis=1), (sides.u * found).sum(axis=1), NAN)
    counting = np.maximum(np.count_nonzero(sides.u, axis=1), 1)
    return traced, wilson(traced * counting, counting)


@dataclass(frozen=True, eq=False)
class Sides:
    """Scores and weights of the members [c, n] of c clients, whether they are traced, and of
    non-members [m].
    """

    members: Doubles
    right: Bools
    u: Doubles
    others: Doubles
    w: Doubles
    # [m] numbers from 0 of the non-members, equal for one with several clients' transforms
    example: Ints

    @property
    def worth(self) -> int:
        """How many independent non-members of equal weight there are."""
        return client_auc.equal_ones(self.others, self.w, self.example)

    def threshold(self, fpr: float) -> float:
        """Return the score of the first non-member too many: what scores more is flagged."""
        return membership.refused(self.others, self.w, fpr)


def stages(config: Config, observed: dict[str, Any], queries: Queries) -> dict[str, Doubles]:
    """Return what R examples are flagged and traced by in one round, for each of c clients,
    ``flag`` and ``trace`` [c, R].

    ``observed`` is what `observe` returns, of all of them.
    """
    values = observed["confidences"].astype(np.float64)
    confidences = values[:, : len(queries.labels)]
    trace = confidences - confidences.mean(axis=0)
    if config.score == "loss":
        return {"flag": confidences, "trace": trace}
    values = out_worlds.centered(
        values, queries.labels, queries.transforms, queries.reference_labels
    )
    everything = np.tile(np.arange(values.shape[1]), (len(values), 1))
    worlds = out_worlds.others(values, everything, observed["assignment"])
    return {"flag": out_worlds.standing(values, worlds, "student"), "trace": trace}


def rates(fpr: float, false: float, sides: Sides) -> dict[str, float]:
    """Return the measures of both stages, alone and together; ``false`` is the expected FPR.

    >>> members, right = np.array([[3.0, 1.0], [4.0, 5.0]]), np.array([[True, True], [False, True]])
    >>> others = np.array([2.0, 0.0]), np.ones(2), np.arange(2)
    >>> found = rates(0.5, 0.5, Sides(members, right, np.full((2, 2), 0.5), *others))
    >>> [round(found[name], 3) for name in ("tpr", "sia", "traced", "apart")]  # what scores more than 0 is flagged
    [1.0, 0.75, 0.75, 0.75]
    """
    u = sides.u / sides.u.sum()
    flagged = u * (sides.members > sides.threshold(fpr))
    tpr = float(flagged.sum())
    traced = float(flagged[sides.right].sum())
    values = {"traced": traced, "apart": tpr * float(u[sides.right].sum()), "tpr": tpr}
    values["sia"] = traced / tpr if tpr else NAN
    for percent, prior in PRIORS.items():
        values[f"precision_{percent}"] = prior * traced / (prior * tpr + (1 - prior) * false)
    return values


def by_chance(false: float, clients: int) -> dict[str, float]:
    """Return the expected rates if members score like non-members and any of the clients is as
    good a guess.
    """
    names = {f"precision_{percent}": prior / clients for percent, prior in PRIORS.items()}
    return {"traced": false / clients, "tpr": false, "sia": 1 / clients} | names


def intervals(
    fpr: float, false: float, sides: Sides, rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each of the `rates`."""
    from scipy.special import stdtrit

    n = sides.u.size
    m = int(sides.example.max()) + 1
    drawn = []
    for _ in range(RESAMPLES):
        copies = (
            rng.multinomial(n, np.full(n, 1 / n)).reshape(sides.u.shape),
            rng.multinomial(m, np.full(m, 1 / m)),
        )
        again = replace(sides, u=sides.u * copies[0], w=sides.w * copies[1][sides.example])
        if again.u.any() and again.w.any():
            drawn.append(list(rates(fpr, false, again).values()))
    ends = {}
    z = float(stdtrit(2 * false * (sides.worth + 1), 0.975))
    everyone = sides.u > 0
    flagged = (sides.u > 0) & (sides.members > sides.threshold(fpr))
    for (name, value), draws in zip(
        rates(fpr, false, sides).items(), np.array(drawn).T, strict=True
    ):
        variance = float(np.nanvar(draws)) if not np.isnan(draws).all() else NAN
        most = int(
            (everyone if name in ("traced", "apart", "tpr") else flagged).sum()
        )  # members that it is a share of
        worth = (
            value * (1 - value) / variance
            if variance > ROUNDING and 0 < value < 1
            else max(most, 1)
        )
        low, high = wilson(value * worth, worth, z)
        ends[name] = float(low), float(high)
    return ends


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return every metric as it was after the last attacked round, which has all earlier ones in
    it.
    """
    return last_values(outcome, METRICS)


# What is measured, and how it is shown

METRICS = (
    rate(
        "two_stage_traced",
        SOURCE,
        "flagged and traced to the owner",
        "lower",
        table=Column(3, "flagged,\ntraced"),
        chance="two_stage_traced_null",
        risk=Risk(
            "Training examples are first told from others and then traced to their owner "
            "with a rate of",
            45,
        ),
        clients=PerClient("Training examples of each client that are flagged and traced to it"),
        ends=True,
        reading=(
            "flagged, traced: share of the members found among non-members and traced to their "
            "owner"
        ),
    ),
    rate("two_stage_apart", SOURCE, "two stages, if they were independent", None),
    *(
        rate(f"two_stage_{name}", SOURCE, label, "lower", chance=null(f"two_stage_{name}"))
        for name, label in (
            ("tpr", "members flagged"),
            ("sia", "SIA of flagged members"),
            *(
                (f"precision_{percent}", f"right names where {percent} % are members")
                for percent in PRIORS
            ),
        )
    ),
)
