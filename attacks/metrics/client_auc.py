"""One AUC per client, or per attacker: its interval, the mean over clients, and how unequal AUCs
are by chance.

Members and non-members are compared as if they had the same labels: else an attack would find
whoever has a client's labels. For client c, member i has the weight u_i, the same for all whose
label a non-member has, and non-member j with label y has w_j = (share of members with y) / (number
of non-members with y). With scores s, ties counting one half:

    V10_i = share (by w) of non-members below member i     V01_j = share (by u) of members above non-member j
    AUC_c = sum_i u_i V10_i = sum_j w_j V01_j
    var AUC_c = sum_i u_i^2 (V10_i - mean of its label)^2 + sum_j w_j^2 (V01_j - mean of its label)^2    (unbiased)

Without labels this is DeLong's (1988) variance. What differs between labels is no chance, because
members and non-members have them in the same shares.

The same example may be a non-member of many clients, whose AUCs then rise and fall together. So the
variance of the mean is the sum over examples of their squared influence on it, the sum of u_i
(V10_i - mean) and w_j (V01_j - mean) over all clients and roles, divided by the number of clients.
Without shared examples it is sum_c var AUC_c / clients^2.

By chance, if all clients were equally exposed, their AUCs would be normal around the same mean,
with the mean variance and the mean covariance of the measured ones. What all share moves no client
from another: the deviation that counts is the root of variance less covariance. Under
exchangeability and without labels var AUC_c is (m + n + 1) / (12 m n) on average.

Several attackers may ask one model about the same examples (`successes`). With the success A_i of
attacker i, balanced accuracy at score 0 or AUC, and the shares v_m, v_n that a member m, or a
non-member n, contributes to the mean of A_i:

    A         mean of A_i;   Var A ~ Var(v_m) / members + Var(v_n) / non-members

For the AUC v are placements, for the balanced accuracy decisions. The attackers ask about the same
examples, so that their successes rise and fall together; the mean over attackers of each example's
v takes that into account, as if the mean were one attacker. The model is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from algorithms.core.metric import Number
from attacks.metrics import disparity, membership
from attacks.metrics.membership import (
    FEWEST_NONMEMBERS,
    NAN,
    NONMEMBERS_AT_1_FPR,
    Bools,
    Doubles,
    Ints,
)

MEASURED = ("balanced_accuracy", "auc")  # of attackers
DRAWS = 4000  # simulated federations


@dataclass(frozen=True, eq=False)
class ClientAucs:
    """The AUC of every client [c] and the mean over clients, with 95 % intervals over examples."""

    auc: Doubles
    low: Doubles
    high: Doubles
    mean: float
    mean_low: float
    mean_high: float
    variance: Doubles  # [c] over examples
    apart: float  # the deviation of a client's AUC that it has not in common with others

    def number(self, metric: str) -> Number:
        """Return the mean over clients as a number of a metric, with its interval."""
        return Number(metric, self.mean, low=self.mean_low, high=self.mean_high)


def measure(
    members: Doubles, nonmembers: Doubles, numbers: Ints, labels: Ints | None = None
) -> ClientAucs:
    """Compute every client's AUC and the mean, with intervals over examples.

    The intervals are those of `disparity.auc_interval`. Clients of whose labels no non-member has
    any are left out of the mean; theirs is NaN. ``members`` [c, m] and ``nonmembers`` [c, n] are
    scores, none of them NaN; ``numbers`` [c, m + n] the number of each example, members first,
    equal ones being the same example; ``labels`` [c, m + n] theirs (None: all have the same).

    >>> measure(np.array([[3.0, 1.0]]), np.array([[2.0, 0.0]]), np.arange(4)[None]).mean
    0.75
    """
    m = members.shape[1]
    labels = np.zeros(numbers.shape, np.int64) if labels is None else labels
    u, w = weights(labels, m)
    valid = u.any(axis=1)
    above, below = placements(members, nonmembers, u, w)
    auc = np.where(valid, (u * above).sum(axis=1), NAN)
    influence = np.concatenate(
        [u * _deviations(above, labels[:, :m], u), w * _deviations(below, labels[:, m:], w)], axis=1
    )
    variance = np.where(valid, np.square(influence).sum(axis=1), NAN)
    of_sum = float(np.square(np.bincount(numbers.ravel(), weights=influence.ravel())).sum())
    count = max(int(valid.sum()), 1)
    alone = float(np.nansum(variance))  # of the sum, if clients had no example in common
    covariance = (of_sum - alone) / max(count * (count - 1), 1)
    squares = np.square(u).sum(axis=1) + np.square(w).sum(axis=1)
    shared = of_sum / alone if alone else 1.0
    low, high = disparity.auc_interval(auc, variance, squares)
    mean = float(auc[valid].mean()) if valid.any() else NAN
    mean_low, mean_high = map(
        float, disparity.auc_interval(mean, of_sum / count**2, squares.sum() * shared / count**2)
    )
    apart = float(np.sqrt(max(variance[valid].mean() - covariance, 0))) if valid.any() else NAN
    return ClientAucs(auc, low, high, mean, mean_low, mean_high, variance, apart)


def weights(labels: Ints, members: int) -> tuple[Doubles, Doubles]:
    """Return weights of members [c, m] and non-members [c, n] that give both the same shares of
    each label.

    ``labels`` [c, m + n] has the m ``members`` first. A member whose label no non-member has weighs
    0. The weights of a side add up to 1, or to 0 if the sides have no label in common.

    >>> [part.round(2).tolist() for part in weights(np.array([[0, 0, 1, 0, 1, 1, 2]]), 3)]
    [[[0.33, 0.33, 0.33]], [[0.67, 0.17, 0.17, 0.0]]]
    """
    inside, outside = (
        _counts(part, int(labels.max()) + 1) for part in (labels[:, :members], labels[:, members:])
    )
    shared = (inside > 0) & (outside > 0)
    total = np.maximum((inside * shared).sum(axis=1, keepdims=True), 1)
    of_member = shared / total
    of_other = np.where(shared, inside / total / np.maximum(outside, 1), 0.0)
    rows = np.arange(len(labels))[:, None]
    return of_member[rows, labels[:, :members]], of_other[rows, labels[:, members:]]


def tprs(
    scores: Doubles, labels: Ints, numbers: Ints, members: int
) -> tuple[Doubles, float, Doubles]:
    """Return each client's true positive rate at the threshold that 1 % of all clients'
    non-members pass [c], and by chance.

    And of how many members [c] each is worth the rate, given that they have weights and a threshold
    of so many non-members.

    ``scores``, ``labels`` and ``numbers``, equal for the same example, [c, members + non-members]
    have the members first. A client's non-members count as if they had the labels of its members.
    One client's alone would be too few for a threshold. By chance it is the weight that passes the
    threshold, with the first non-member that does not, which is more often one that weighs much,
    times n / (n + 1) for as many as they are worth (`equal_ones`); of equal weights that is
    `membership.tpr_by_chance`. Both are NaN with fewer than 100 different non-members, or if their
    weights are those of fewer.
    """
    u, w = weights(labels, members)
    outside = scores[:, members:].ravel()
    weight = w.ravel()
    number = numbers[:, members:].ravel()
    if min(len(np.unique(number[weight > 0])), _kish(weight)) < NONMEMBERS_AT_1_FPR:
        return np.full(len(scores), NAN), NAN, np.full(len(scores), NAN)
    refused = membership.refused(outside, weight, 0.01)
    rates = np.where(u.any(axis=1), (u * (scores[:, :members] > refused)).sum(axis=1), NAN)
    worth = equal_ones(outside, weight, number)
    trials = 1 / (np.square(u).sum(axis=1) + 1 / max(worth, 1))
    first = outside == refused
    passing = weight[outside > refused].sum() + weight[first].sum() / len(np.unique(number[first]))
    return rates, float(passing / weight.sum()) * worth / (worth + 1), trials


def equal_ones(scores: Doubles, w: Doubles, numbers: Ints) -> int:
    """Return how many independent examples of equal weight are worth as much as m ``scores``
    with weights ``w`` (Kish 1965).

    Scores of one example, with equal ``numbers``, may be the same or have nothing in common: all
    are worth as many as have a mean rank that varies as much.

    >>> scores, numbers = np.repeat(np.arange(100.0), 2), np.repeat(np.arange(100), 2)
    >>> equal_ones(scores, np.full(200, 0.1), np.arange(200)), equal_ones(scores, np.full(200, 0.1), numbers)
    (200, 100)
    """
    if not w.any():
        return 0
    ranks = membership.ranks(scores)
    influence = w * (ranks - np.average(ranks, weights=w))
    alone = max(float(np.square(influence).sum()), 1e-9)  # of the mean, if all were independent
    shared = max(float(np.square(np.bincount(numbers, influence)).sum()) / alone, 1.0)
    return int(_kish(w) / shared)


def _kish(w: Doubles) -> float:
    """Return how many equal weights are worth as much as these, if what they weigh is
    independent; 0 without any.
    """
    return float(w.sum() ** 2 / np.square(w).sum()) + 1e-9 if w.any() else 0.0


def _counts(labels: Ints, kinds: int) -> Ints:
    """Return how many examples of each client have each label, [c, kinds]."""
    flat = labels + kinds * np.arange(len(labels))[:, None]
    return np.bincount(flat.ravel(), minlength=kinds * len(labels)).reshape(len(labels), kinds)


def _deviations(values: Doubles, labels: Ints, weight: Doubles) -> Doubles:
    """Return each example's deviation from the mean of its client and label, as large as makes
    their square unbiased.

    An example that is alone with its label has no such deviation; it gets the one from its client's
    mean.
    """
    kinds = int(labels.max()) + 1
    counts = _counts(labels, kinds).ravel()
    flat = labels + kinds * np.arange(len(labels))[:, None]
    means = np.bincount(flat.ravel(), weights=values.ravel(), minlength=len(counts)) / np.maximum(
        counts, 1
    )
    number = counts[flat]
    overall = (weight * values).sum(axis=1, keepdims=True)
    return np.where(
        number > 1,
        (values - means[flat]) * np.sqrt(number / np.maximum(number - 1, 1)),
        values - overall,
    )


def placements(
    members: Doubles, nonmembers: Doubles, u: Doubles | None = None, w: Doubles | None = None
) -> tuple[Doubles, Doubles]:
    """Return the share of non-members below each member [c, m], and the share of members above
    each non-member [c, n].

    A tie counts one half. Shares are taken by the weights ``u`` [c, m] of members and ``w`` [c, n]
    of non-members, which are equal by default.
    """
    (clients, m), n = members.shape, nonmembers.shape[1]
    u = np.full((clients, m), 1 / m) if u is None else u
    w = np.full((clients, n), 1 / n) if w is None else w
    scores = np.concatenate([members, nonmembers], axis=1)
    order = np.argsort(scores, axis=1)
    ordered = np.take_along_axis(scores, order, axis=1)
    fresh = np.concatenate([np.ones((clients, 1), bool), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    ranks = np.empty(order.shape, np.int64)  # equal scores have equal ranks
    np.put_along_axis(ranks, order, np.cumsum(fresh, axis=1) - 1, axis=1)
    masses = np.zeros((2, clients, m + n))
    rows = np.arange(clients)[:, None]
    for shares, part, weight in zip(masses, (ranks[:, :m], ranks[:, m:]), (u, w), strict=True):
        np.add.at(shares, (rows, part), weight)
    inside, outside = (
        np.cumsum(masses, axis=2) - masses / 2
    )  # half of the equal ones count as below
    total = u.sum(axis=1, keepdims=True)
    return outside[rows, ranks[:, :m]], total - inside[rows, ranks[:, m:]]


def by_chance(mean: float, apart: float, clients: int) -> dict[str, float]:
    """Compute the expected disparity of the AUCs of equally exposed clients, which differ by
    chance alone.

    Each of them has the AUC ``mean`` and the deviation ``apart`` that it has not in common with
    other clients. The random numbers are always the same, so that rounds can be compared.

    >>> round(by_chance(0.5, 0.05, 20)["eod"], 2)  # 20 normal numbers span 3.73 deviations
    0.19
    """
    means, deviations, least, largest = _standard(clients)
    low, high = (np.clip(mean + apart * ends, 0, 1) for ends in (least, largest))
    variations = apart * deviations / np.maximum(mean + apart * means, np.finfo(np.float64).tiny)
    variations = np.minimum(
        variations, np.sqrt(max(clients - 1, 0))
    )  # the most that n numbers, none below 0, can have
    return {
        "auc_max": float(high.mean()),
        "cov": float(variations.mean()),
        "fi": float((1 / (1 + variations**2)).mean()),
        "eod": float((high - low).mean()),
    }


@lru_cache(maxsize=4)
def _standard(clients: int) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Return mean, standard deviation, least and largest of ``clients`` standard normal numbers,
    `DRAWS` times each.
    """
    normals = np.random.default_rng(0).standard_normal((DRAWS, clients))
    return normals.mean(axis=1), normals.std(axis=1), normals.min(axis=1), normals.max(axis=1)


@dataclass(frozen=True, eq=False)
class Successes:
    """The success of several attackers on one model, for each of `MEASURED`."""

    by_attacker: dict[str, Doubles]  # [attackers], NaN where it is not known
    mean: dict[
        str, tuple[float, float, float]
    ]  # over the attackers whose success is known, with its 95 % interval
    members: Doubles  # [attackers] members that each attacker was asked to tell
    nonmembers: Doubles  # [attackers]


def successes(scores: Doubles, queries: Bools, member: Bools) -> Successes:
    """Compute the success of each attacker, and the mean with its interval over examples.

    Each attacker has ``queries`` [attackers, n] about examples that are not its own; a score
    [attackers, n] of 0 or more is the decision "member". One without members to tell, or with fewer
    than ten non-members, has no success.
    """
    inside = queries & member
    outside = queries & ~member
    members = inside.sum(axis=1)
    nonmembers = outside.sum(axis=1)
    valid = (
        (members > 0)
        & (nonmembers >= FEWEST_NONMEMBERS)
        & ~np.isnan(np.where(queries, scores, 0)).any(axis=1)
    )
    shares = {name: np.full(scores.shape, NAN) for name in MEASURED}
    by_attacker = {name: np.full(len(scores), NAN) for name in MEASURED}
    for i in np.flatnonzero(valid):
        above, below = placements(scores[i, inside[i]][None], scores[i, outside[i]][None])
        shares["auc"][i, inside[i]], shares["auc"][i, outside[i]] = above[0], below[0]
        right = shares["balanced_accuracy"][i]
        right[queries[i]] = (scores[i, queries[i]] >= 0) == member[queries[i]]
        # A placement of members alone averages to the AUC; of decisions, both sides count half.
        by_attacker["auc"][i] = shares["auc"][i, inside[i]].mean()
        by_attacker["balanced_accuracy"][i] = (
            right[inside[i]].mean() + right[outside[i]].mean()
        ) / 2
    weight = {"auc": 1.0, "balanced_accuracy": 0.5}
    mean = {
        key: _with_interval(shares[key][valid], by_attacker[key][valid], member, weight[key])
        for key in MEASURED
    }
    return Successes(by_attacker, mean, members.astype(np.float64), nonmembers.astype(np.float64))


def attackers_by_chance(
    scores: Doubles, queries: Bools, member: Bools, labels: Ints, rng: np.random.Generator
) -> dict[str, Doubles]:
    """Compute what attackers find by chance: of each of `MEASURED` the mean over attackers, and
    the ``worst`` accuracy.

    What an attack says is exchanged among the examples of a label [n], for all attackers alike,
    because they are wrong about the same ones. What an attacker is asked about stays, and which of
    it was trained on: its own members are not asked about, and if labels differ, most of its labels
    are missing with them. The rest is as in `successes`. Each is [exchanges], NaN where no attacker
    has a success.
    """
    inside = queries & member
    outside = queries & ~member
    known = ~np.isnan(np.where(queries, scores, 0)).any(axis=1)
    valid = known & inside.any(axis=1) & (outside.sum(axis=1) >= FEWEST_NONMEMBERS)
    orders = disparity.exchanged(labels, disparity.EXCHANGES, rng)
    if not valid.any():
        return {key: np.full(len(orders), NAN) for key in (*MEASURED, "worst")}
    inside = inside[valid]
    outside = outside[valid]
    scores = scores[valid]
    places = np.stack([np.unique(row, return_inverse=True)[1] for row in scores])
    accuracies = np.stack([_accuracies(scores[:, order] >= 0, inside, outside) for order in orders])
    aucs = np.stack([_aucs(places[:, order], inside, outside) for order in orders])
    return {
        "balanced_accuracy": accuracies.mean(axis=1),
        "auc": aucs.mean(axis=1),
        "worst": accuracies.max(axis=1),
    }


def _accuracies(said: Bools, inside: Bools, outside: Bools) -> Doubles:
    """Return the balanced accuracy of each attacker's decisions [attackers, n] on its members
    and non-members.
    """
    found = (said & inside).sum(axis=1)
    wrong = (said & outside).sum(axis=1)
    return np.asarray((found / inside.sum(axis=1) + 1 - wrong / outside.sum(axis=1)) / 2)


def _aucs(places: Ints, inside: Bools, outside: Bools) -> Doubles:
    """Return each attacker's AUC from the places [attackers, n] of scores in their order, equal
    for equal ones.
    """
    attackers, n = places.shape
    flat = places + n * np.arange(attackers)[:, None]
    members, others = (
        np.bincount(flat[side], minlength=flat.size).reshape(flat.shape)
        for side in (inside, outside)
    )
    below = np.cumsum(others, axis=1) - others / 2
    return np.asarray((members * below).sum(axis=1) / (members.sum(axis=1) * others.sum(axis=1)))


def _with_interval(
    share: Doubles, success: Doubles, member: Bools, weight: float
) -> tuple[float, float, float]:
    """Return the mean of the ``success`` [attackers] with its 95 % interval.

    ``share`` [attackers, n] is what each example contributes to each success, NaN where it was not
    asked; contributions of one side enter with ``weight``.
    """
    if not len(success):
        return NAN, NAN, NAN
    value = min(float(success.mean()), 1.0)
    variance = 0.0
    fewest = []
    for side in (member, ~member):
        there = side & ~np.isnan(share).all(axis=0)
        shares = np.nanmean(share[:, there], axis=0)
        variance += (
            weight**2 * float(np.var(shares, ddof=1)) / len(shares) if len(shares) > 1 else NAN
        )
        fewest.append(len(shares))
    if weight == 1:  # an AUC
        low, high = disparity.auc_interval(value, variance, sum(1 / size for size in fewest))
        return value, float(low), float(high)
    if (
        variance < disparity.ROUNDING
    ):  # all examples contribute alike; Wilson's interval for so many independent ones
        low, high = disparity.wilson(value * min(fewest), min(fewest))
        return value, float(low), float(high)
    reach = disparity.Z95 * float(np.sqrt(variance))
    return value, max(value - reach, 0.0), min(value + reach, 1.0)
