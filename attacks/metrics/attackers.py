"""Several attackers who ask one model about the same examples: the mean of their success, and its interval.

    A_i       success of attacker i: balanced accuracy at score 0, or AUC
    v_m, v_n  the share that a member m, or a non-member n, contributes to the mean of A_i over attackers
    A         mean of A_i;   Var A ~ Var(v_m) / members + Var(v_n) / non-members

For the AUC of a single attacker this is the interval of DeLong et al. (1988), whose v are placements: v_m is the share of
non-members that score below m, v_n that of members above n, ties half. For the balanced accuracy v are decisions. The
attackers ask about the same examples, so that their successes rise and fall together; the mean over attackers of each
example's v takes that into account, as if the mean were one attacker. The model is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.metrics import client_auc, disparity
from attacks.metrics.membership import FEWEST_NONMEMBERS, NAN, Bools, Doubles

MEASURED = ("balanced_accuracy", "auc")


@dataclass(frozen=True, eq=False)
class Successes:
    """The success of several attackers on one model.

    Attributes:
        by_attacker: for each of `MEASURED`, the success of each attacker [attackers], NaN where it is not known.
        mean: for each of `MEASURED`, the mean over the attackers whose success is known, with its 95 % interval.
        members: [attackers] members that each attacker was asked to tell.
        nonmembers: [attackers] non-members.
    """

    by_attacker: dict[str, Doubles]
    mean: dict[str, tuple[float, float, float]]
    members: Doubles
    nonmembers: Doubles


def successes(scores: Doubles, asked: Bools, member: Bools) -> Successes:
    """Compute the success of each attacker, and the mean with its interval over examples.

    An attacker without members to tell, or with fewer than ten non-members, has none.

    Args:
        scores: [attackers, n] 0 or more is the decision "member".
        asked: [attackers, n] whether the attacker is asked about the example; not about its own.
        member: [n] whether the example is a member.
    """
    inside, outside = asked & member, asked & ~member
    members, nonmembers = inside.sum(axis=1), outside.sum(axis=1)
    known = (members > 0) & (nonmembers >= FEWEST_NONMEMBERS) & ~np.isnan(np.where(asked, scores, 0)).any(axis=1)
    by_attacker, mean = {}, {}
    shares = {name: np.full(scores.shape, NAN) for name in MEASURED}
    for i in np.flatnonzero(known):
        shares["auc"][i, asked[i]] = placements(scores[i, asked[i]], member[asked[i]])
        shares["balanced_accuracy"][i, asked[i]] = (scores[i, asked[i]] >= 0) == member[asked[i]]
    for name, share in shares.items():
        success = np.full(len(scores), NAN)
        for i in np.flatnonzero(known):
            # A placement of members alone averages to the AUC; of decisions, both sides count half.
            sides = [share[i, inside[i]].mean(), share[i, outside[i]].mean()]
            success[i] = sides[0] if name == "auc" else sum(sides) / 2
        by_attacker[name] = success
        mean[name] = _with_interval(share[known], success[known], member, 1.0 if name == "auc" else 0.5)
    return Successes(by_attacker, mean, members.astype(np.float64), nonmembers.astype(np.float64))


def placements(scores: Doubles, member: Bools) -> Doubles:
    """Return each member's share of non-members below it, and each non-member's share of members above it, ties half [n].

    >>> placements(np.array([3.0, 1.0, 2.0]), np.array([True, True, False])).tolist()
    [1.0, 0.0, 0.5]

    Args:
        scores: [n].
        member: [n]; members and non-members must both be present.
    """
    found = np.empty(len(scores))
    above, below = client_auc.placements(scores[member][None], scores[~member][None])
    found[member], found[~member] = above[0], below[0]
    return found


def _with_interval(share: Doubles, success: Doubles, member: Bools, weight: float) -> tuple[float, float, float]:
    """Return the mean success with its 95 % interval.

    Args:
        share: [attackers, n] what each example contributes to each attacker's success, NaN where it was not asked.
        success: [attackers].
        member: [n].
        weight: by which the contributions of one side enter the success.
    """
    if not len(success):
        return NAN, NAN, NAN
    value, variance, fewest = float(success.mean()), 0.0, []
    for side in (member, ~member):
        there = side & ~np.isnan(share).all(axis=0)
        own = np.nanmean(share[:, there], axis=0)
        variance += weight**2 * float(np.var(own, ddof=1)) / len(own) if len(own) > 1 else NAN
        fewest.append(len(own))
    if variance == 0:  # all examples contribute alike; Wilson's interval for so many independent ones
        low, high = disparity.wilson(value * min(fewest), min(fewest))
        return value, float(low), float(high)
    reach = disparity.Z95 * float(np.sqrt(variance))
    return value, max(value - reach, 0.0), min(value + reach, 1.0)


def best(found: Successes) -> int | None:
    """Return the attacker with the highest balanced accuracy, the first among equals; None if none is known."""
    values = found.by_attacker["balanced_accuracy"]
    return None if np.isnan(values).all() else int(np.nanargmax(values))
