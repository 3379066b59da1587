"""The risk of clients, how well an attack tells a client's own examples from others, and what guessing would show.

A model's risk is an average over all who train it. A client's own risk is measured on its examples, under the model that
it uses; that of a group, on the examples of all its clients, whichever models they use.

A coin calls each example a member with probability 1/2, whatever the example is. On m members and n non-members its
balanced accuracy is (X / m + Y / n) / 2 with X ~ Bin(m, 1/2) and Y ~ Bin(n, 1/2), independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from algorithms.core.messages import Doubles, Ints
from attacks.metrics.membership import FEWEST_NONMEMBERS, NAN, Bools, balanced_accuracy

DEVIATIONS = 9  # a binomial is this many standard deviations from its mean with a probability below 1e-18
STEPS = 4000  # grid points on [0, 1] of accuracies whose largest is wanted
TIE = 1e-9  # rates that differ by less are equal; a measured accuracy is rounded, too


@dataclass(frozen=True, eq=False)
class Attacked:
    """The attacked examples that belong to clients, n of them, each under one model."""

    score: Doubles  # [n] 0 or more is the decision "member"
    member: Bools  # [n] whether a client trained on the example
    client: Ints  # [n] its owner; for a held-out example, the client whose examples it looks like

    def of(self, clients: Bools) -> Attacked:
        """Return the examples of some clients, given as a mask [clients]."""
        rows = (self.client >= 0) & clients[self.client]
        return Attacked(self.score[rows], self.member[rows], self.client[rows])

    @staticmethod
    def join(parts: Sequence[Attacked]) -> Attacked:
        """Concatenate the examples of several models."""
        return Attacked(
            np.concatenate([np.empty(0), *(part.score for part in parts)]),
            np.concatenate([np.empty(0, bool), *(part.member for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.client for part in parts)]),
        )

    @property
    def accuracy(self) -> float:
        """(TPR + TNR) / 2; NaN without members or with fewer than ten non-members."""
        return NAN if (~self.member).sum() < FEWEST_NONMEMBERS else balanced_accuracy(self.score, self.member)


@dataclass(frozen=True, eq=False)
class ClientRisks:
    """The attack's rates on the examples of each client, [clients] each; NaN where nothing was measured.

    ``tnr`` is of the ``nonmembers`` that look like the client's examples or, if they are fewer than ten, like its
    peers'.
    """

    tpr: Doubles
    tnr: Doubles
    members: Ints
    nonmembers: Ints

    @property
    def risk(self) -> Doubles:
        """The attack's accuracy for each client, (TPR + TNR) / 2."""
        return (self.tpr + self.tnr) / 2


def client_risks(attacked: Attacked, peers: Ints) -> ClientRisks:
    """Compute the risk of each client; equal ``peers`` [clients] look alike and use the same model."""

    def count(chosen: Bools) -> Ints:
        return np.bincount(attacked.client[chosen & (attacked.client >= 0)], minlength=len(peers))

    positive, member = attacked.score >= 0, attacked.member
    members, nonmembers, rejected = count(member), count(~member), count(~positive & ~member)
    _, place = np.unique(peers, return_inverse=True)
    few = nonmembers < FEWEST_NONMEMBERS
    rejected = np.where(few, np.bincount(place, rejected)[place], rejected)
    nonmembers = np.where(few, np.bincount(place, nonmembers)[place].astype(np.int64), nonmembers)
    tnr = np.where(nonmembers < FEWEST_NONMEMBERS, NAN, _share(rejected, nonmembers))
    return ClientRisks(_share(count(positive & member), members), tnr, members, nonmembers)


def _share(part: Ints, whole: Ints) -> Doubles:
    return np.divide(part, whole, out=np.full(len(part), NAN), where=whole > 0)


# What guessing would show


def guessing(members: int, nonmembers: int, limit: ArrayLike) -> Doubles:
    """Compute the probability [...] that a coin's measured balanced accuracy is strictly above ``limit`` [...].

    It is exact (up to 1e-14) for every number of examples: a sum over the number of members that the coin finds. NaN
    where the limit is, and everywhere without members or non-members.

    >>> guessing(1, 1, [0.5, 0.4]).round(12).tolist()
    [0.25, 0.75]
    """
    limits = np.asarray(limit, np.float64)
    if min(members, nonmembers) < 1:
        return np.full(limits.shape, NAN)
    fewer, more = sorted((int(members), int(nonmembers)))  # both rates enter alike
    (shares, chances), (others, masses) = _coin(fewer), _coin(more)
    with np.errstate(invalid="ignore"):
        needed = 2 * limits[..., None] - shares + TIE  # the other share has to be above this
    tail = np.append(np.cumsum(masses[::-1])[::-1], 0.0)  # P(Y >= y) for y in others, and beyond
    place = np.searchsorted(others, needed, side="right")
    return np.where(np.isnan(limits), NAN, np.minimum(tail[place] @ chances, 1.0))[()]


def worst_by_chance(members: ArrayLike, nonmembers: ArrayLike) -> float:
    """Compute the expected largest balanced accuracy over clients if the attack flips a coin for every example.

    ``members`` and ``nonmembers`` [clients] are the attacked examples of each; clients that lack either do not count,
    and without any it is NaN. With F_i the distribution function of client i's accuracy, it is ``int_0^1 1 - prod_i
    F_i(x) dx``, on a grid of accuracies 0.00025 apart. Clients are taken to be independent: if several are set against
    the same non-members, their accuracies rise and fall together, and the largest is smaller than this.

    >>> round(worst_by_chance([1, 1], [1, 1]), 4)  # 1 with probability 7/16, 0.5 with 8/16
    0.6875
    """
    pairs = np.stack([np.asarray(members, np.int64), np.asarray(nonmembers, np.int64)], axis=1)
    pairs, clients = np.unique(pairs[(pairs > 0).all(axis=1)], axis=0, return_counts=True)
    if not len(pairs):
        return NAN
    below = np.ones(STEPS + 1)
    for (m, n), count in zip(pairs.tolist(), clients.tolist(), strict=True):
        below *= _accuracy_cdf(m, n) ** count
    return float((1 - below[:-1]).sum() / STEPS)


def worst_auc_by_chance(members: ArrayLike, nonmembers: ArrayLike) -> float:
    """Compute the expected largest AUC over models if the scores of none tell its members from non-members.

    Like `worst_by_chance`, with normal distributions, whose variance is that of the rank sum: (m + n + 1) / (12 m n).

    >>> round(worst_auc_by_chance([100, 100], [100, 100]), 4)  # 0.5 + deviation / sqrt(pi)
    0.5231
    """
    from scipy.integrate import trapezoid
    from scipy.special import ndtr

    pairs = np.stack([np.asarray(members, np.float64), np.asarray(nonmembers, np.float64)])
    m, n = pairs[:, (pairs > 0).all(axis=0)]
    grid = np.linspace(0, 1, STEPS + 1)
    below = ndtr((grid[:, None] - 0.5) / np.sqrt((m + n + 1) / (12 * m * n))).prod(axis=1)
    return float(trapezoid(1 - below, grid)) if len(m) else NAN


@lru_cache(maxsize=256)
def _accuracy_cdf(members: int, nonmembers: int) -> Doubles:
    """Return P(accuracy <= x) [STEPS + 1] on the grid of x, with every accuracy rounded to its nearest grid point."""
    (hits, ours), (refused, theirs) = _coin(members), _coin(nonmembers)
    places = np.rint((hits[:, None] + refused) * (STEPS / 2)).astype(np.int64)
    mass = np.bincount(places.ravel(), weights=np.outer(ours, theirs).ravel(), minlength=STEPS + 1)
    return np.minimum(np.cumsum(mass), 1.0)


def _coin(examples: int) -> tuple[Doubles, Doubles]:
    """Return the shares of heads that are not all but impossible, and their probabilities, by the ratios of neighbors."""
    reach = DEVIATIONS * np.sqrt(examples) / 2
    heads = np.arange(max(0, int(examples / 2 - reach)), min(examples, int(examples / 2 + reach) + 1) + 1)
    logs = np.append(0.0, np.cumsum(np.log((examples - heads[:-1]) / heads[1:])))
    mass = np.exp(logs - logs.max())
    return heads / examples, mass / mass.sum()
