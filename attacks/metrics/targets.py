"""Measures of an attack on several targets, such as replicas of a run, each with members and
non-members of its own.

    AUC               of each target; ties count half
    thresholds        of other targets, which the attacker trained: the best one, and one that 1 % of non-members pass; the
                      target and its complement are no references of theirs
    precision         at a prior pi: pi TPR / (pi TPR + (1 - pi) FPR), at the second of these thresholds, with the means
                      of both rates over targets
    interval          mean +- t(P - 1) sqrt(c) s / sqrt(P), s the deviation of the means of P complementary pairs,
                      c = k (P - 1) / (P - k), for the precision, of its P jackknife pseudo-values; k = 2, or 1.5
                      for an AUC if only references that were out count

Targets that are each other's references are not independent: what the examples of two pairs have in
common raises or lowers the AUC of both. If the examples do not differ by membership, the mean is a
U-statistic of order k whose variance is c times what independent pairs would give (Hoeffding 1948),
and k = 1 + the correlation of what pair i adds with j as a reference and j with i. To first order
in centered signals f that is, summed over examples, (f_i,in - f_i,out) times f_j,in - f_j,out
(LiRA: correlation 1), f_j,in + f_j,out (BASE: 0), or f_j,out (PMIA: 1 / 2, from s^4 of 2 s^4 for a
variance of s^2, at most: the proxies of PMIA add a term of order 1, which outweighs it with many
replicas; the strongest of several is as its parts are, because hardly a single example decides
which one that is). If examples do differ by membership, this matters less, and intervals are up to
1.5 times too wide, as they are for the loss, which has no references. Share of intervals that held
the mean over other halves and other noise, simulated with 80 examples, 8 and 16 replicas, and an
AUC of 0.5, 0.7 and 0.9: LiRA and BaVarIA 0.93 to 0.99, BASE and the loss 0.98 to 1; without c,
LiRA's 0.80 to 0.94 (``tests/attacks/test_attacks_calibrated.py``). With k = 1, those of BASE, RMIA
and the loss would hold it in 0.93 to 0.96, but a TPR at a threshold of other targets in 0.58 to 1
(with k = 2 in 0.75 to 1), so k is 2 for all. The examples are taken as they are: other examples
would give other values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

import numpy as np

from attacks.metrics import membership
from attacks.metrics.membership import NAN, Bools, Doubles, Ints

FEWEST_PAIRS = 3  # below, no interval
ORDER = 2.0  # k: a target and one reference at a time, each saying as much of the other
REHEARSALS = 8  # other targets, at most, on which a target's thresholds are set
LOW_FPR = 0.01
PRIORS = {"precision_at_prior_1": 0.01, "precision_at_prior_10": 0.1}
STRICT = (
    "tpr_set_to_1",
    "fpr_set_to_1",
)  # rates at the threshold that other targets set for an FPR of 1 %
MEASURES = ("auc", "balanced_accuracy", "tpr_at_1_fpr", "tpr_at_01_fpr", *STRICT)
Estimate = tuple[float, float, float]
"""A value and the ends of its 95 % interval, which are NaN where there is none."""
Rehearsal: TypeAlias = Callable[[int, tuple[int, ...]], Doubles]
"""Returns the scores [replicas, n] of some replicas as targets, without those of a pair as
references (-1: with all).
"""


@dataclass(frozen=True, eq=False)
class Targets:
    """The scores of n examples in several attacked models."""

    # [targets, n] 0 or more is the decision "member"; NaN where a target has no threshold
    scores: Doubles
    # [targets, n] the decision, 1 or 0, at the threshold that 1 % of other targets' non-members
    # pass; or NaN
    strict: Doubles
    member: Bools  # [targets, n] whether the target was trained on the example

    def aucs(self, examples: Bools) -> Doubles:
        """Return the AUC of each target on some examples only, [targets]."""
        return aucs(self.scores[:, examples], self.member[:, examples])

    def measures(self) -> dict[str, Doubles]:
        """Return every measure of `MEASURES` of each target, [targets]; NaN where the examples
        do not suffice.
        """
        each = [
            membership.measure(score, member)
            for score, member in zip(self.scores, self.member, strict=True)
        ]
        values = {
            name: np.array([of[name] for of in each])
            for name in MEASURES
            if name in membership.MEASURES
        }
        values["auc"] = aucs(
            self.scores, self.member
        )  # of however few examples, because targets are averaged
        valid = ~np.isnan(self.scores).any(axis=1)
        for name, side in zip(STRICT, (self.member, ~self.member), strict=True):
            part = np.where(side, self.strict, 0.0).sum(axis=1)
            whole = side.sum(axis=1).astype(np.float64)
            values[name] = np.divide(
                part, whole, out=np.full(len(whole), NAN), where=valid & (whole > 0)
            )
        return values

    def by_chance(self) -> dict[str, float]:
        """Return what guessing gives, of every measure that `estimates` returns: the mean over
        targets.

        A TPR at a small false positive rate depends on the number of non-members
        (`membership.tpr_by_chance`), but at a threshold of other targets it is that rate
        (`passed_by`).
        """
        outside = (~self.member).sum(axis=1)
        chances = membership.by_chance(0) | PRIORS
        for name, limit in membership.LIMITS.items():
            each = np.array([membership.tpr_by_chance(int(n), limit) for n in outside])
            each[(outside < round(1 / limit)) | ~self.member.any(axis=1)] = (
                NAN  # as `membership.measure` does
            )
            chances[name] = over_targets(each)[0] if len(each) > 1 else float(each[0])
        return chances | dict.fromkeys(STRICT, LOW_FPR)

    def estimates(self) -> dict[str, Estimate]:
        """Return the mean of every measure over targets, and the precision at each of `PRIORS`,
        with intervals.
        """
        values = self.measures()
        tpr, fpr = (values[name] for name in STRICT)
        precise = {name: precision_over_targets(tpr, fpr, prior) for name, prior in PRIORS.items()}
        return {name: over_targets(by_target) for name, by_target in values.items()} | precise


def aucs(scores: Doubles, member: Bools) -> Doubles:
    """Return the AUC of each target [targets] from scores [targets, n]; NaN without members or
    non-members.

    >>> aucs(np.array([[3.0, 1.0, 2.0]]), np.array([[True, False, False]])).tolist()
    [1.0]
    """
    from scipy.stats import rankdata

    inside = member.sum(axis=1)
    pairs = (inside * (member.shape[1] - inside)).astype(np.float64)
    ranks = (
        (rankdata(scores, axis=1) * member).sum(axis=1) if scores.size else np.zeros(len(scores))
    )
    wins = ranks - inside * (inside + 1) / 2
    valid = (pairs > 0) & ~np.isnan(scores).any(axis=1)
    return np.asarray(np.divide(wins, pairs, out=np.full(len(scores), NAN), where=valid))


def precision(tpr: float, fpr: float, prior: float) -> float:
    """Return which share of those called members are members, if a share ``prior`` of all
    examples are; NaN if none is.

    >>> round(precision(0.5, 0.01, 0.01), 4)
    0.3356
    """
    hits = prior * tpr
    false = (1 - prior) * fpr
    return hits / (hits + false) if hits + false > 0 else NAN


def over_targets(values: Doubles, order: float = ORDER) -> Estimate:
    """Return the mean of values [targets] and its 95 % interval, which is NaN with fewer than
    three pairs.

    The targets come pair after pair; a pair with a NaN does not count. The ``order`` is k, the
    number of pairs that a value depends on at a time, its own being one, if each says as much of
    the others.
    """
    pairs = _pairs(values)
    return _interval(float(pairs.mean()), pairs, order) if len(pairs) else (NAN, NAN, NAN)


def precision_over_targets(tpr: Doubles, fpr: Doubles, prior: float) -> Estimate:
    """Return the precision at the mean rates of targets, [targets] each, and its 95 % interval;
    see `over_targets`.
    """
    rates = np.stack([_pairs(tpr), _pairs(fpr)])  # [2, pairs]
    count = rates.shape[1]
    if not count:
        return NAN, NAN, NAN
    value = precision(float(rates[0].mean()), float(rates[1].mean()), prior)
    if count < FEWEST_PAIRS:
        return value, NAN, NAN
    without = (rates.sum(axis=1, keepdims=True) - rates) / (count - 1)
    left = np.array([precision(tp, fp, prior) for tp, fp in without.T.tolist()])
    return _interval(value, count * value - (count - 1) * left, ORDER)


def _pairs(values: Doubles) -> Doubles:
    """Return the means of complementary targets, [pairs], of the pairs without a NaN."""
    pairs = values.reshape(-1, 2).mean(axis=1)
    return np.asarray(pairs[~np.isnan(pairs)])


def _interval(value: float, pairs: Doubles, order: float) -> Estimate:
    from scipy.special import stdtrit

    count = len(pairs)
    if (
        count < FEWEST_PAIRS or np.isnan(pairs).any() or not np.ptp(pairs)
    ):  # equal ones do not tell how others vary
        return value, NAN, NAN
    spread = float(pairs.std(ddof=1)) * sqrt(order * (count - 1) / ((count - order) * count))
    reach = float(stdtrit(count - 1, 0.975)) * spread
    return value, max(0.0, value - reach), min(1.0, value + reach)


def decide(
    scores: Doubles,
    thinned: Doubles,
    rehearse: Rehearsal,
    member: Bools,
    kind: Ints,
    pairs: Ints | None = None,
) -> tuple[Doubles, Doubles]:
    """Shift scores by thresholds that other targets set, one for each kind of examples.

    Args:
        scores: [targets, n] of the targets to be judged.
        thinned: [targets, n] the same with as many references as in a rehearsal, for the strict
            decision: scores with fewer references have longer tails.
        rehearse: returns scores of replicas in the role of the target, on which thresholds are set.
        member: [replicas, n] whether a replica was trained on an example.
        kind: [n] number of the model that an example belongs to.
        pairs: [targets] the pair of each target, which sets no threshold for it if there is
            another; None: no replicas.

    Returns shifted scores [targets, n] and the decisions (1 or 0) at the threshold that 1 % of
    non-members pass, NaN with fewer than 99 to set one. Where the others had all examples of a kind
    or none, there is no threshold, and the scores are NaN.
    """
    shifted = np.full_like(scores, NAN)
    strict = np.full(scores.shape, NAN)
    count = len(member) // 2
    for target in range(len(scores)):
        pair = -1 if pairs is None else int(pairs[target])
        replicas = rehearsals(pair, count) or (2 * pair + 1 - target % 2,)
        rehearsed = rehearse(pair, replicas)
        for number in np.unique(kind):
            alike = kind == number
            signals = rehearsed[:, alike].ravel()
            inside = member[np.ix_(replicas, alike)].ravel()
            if inside.any() and not inside.all():
                shifted[target, alike] = scores[target, alike] - membership.best_threshold(
                    signals, inside
                )
                if (~inside).sum() + 1 >= round(1 / LOW_FPR):
                    strict[target, alike] = thinned[target, alike] > passed_by(
                        signals[~inside], LOW_FPR
                    )
    return shifted, strict


def rehearsals(pair: int, pairs: int) -> tuple[int, ...]:
    """Return the replicas, of so many pairs, on which thresholds are set for a target of
    ``pair`` (-1: of none).
    """
    others = [(pair + 1 + k) % pairs for k in range(pairs - (pair >= 0))][: REHEARSALS // 2]
    return tuple(2 * other + side for other in others for side in (0, 1))


def passed_by(nonmembers: Doubles, share: float) -> float:
    """Return the lowest of the scores [n] that another non-member is above with a probability of
    ``share`` at most.

    Of n + 1 exchangeable scores, each is equally likely the highest, the second highest, ...; so
    above the k-th highest of n, another one is with probability k / (n + 1). With fewer than 1 /
    share - 1 scores, it is the highest.

    >>> passed_by(np.arange(199.0), 0.01)
    197.0
    """
    rank = max(1, int(share * (len(nonmembers) + 1) + 1e-9))
    return float(np.sort(nonmembers)[::-1][rank - 1])
