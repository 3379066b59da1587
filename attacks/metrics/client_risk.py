"""The risk of clients, how well an attack tells a client's own examples from others, and what it
would be by chance.

A model's risk is an average over all who train it. A client's own risk is measured on its examples,
under the model that it uses; that of a group, on the examples of all its clients, whichever models
they use.

By chance, which of the examples of a label are members is exchanged; what the attack says of each
stays. So an attack that often says "member", or follows the label, is not taken for one that knows
more, or less, than that. Of m_y members and n_y non-members with label y it calls s_y members, of
which by chance H_y were trained on:

    H_y ~ Hypergeometric(m_y + n_y, m_y, s_y)       independent of each other
    TPR = sum_y H_y / m,    TNR = 1 - sum_y (s_y - H_y) / n,    accuracy = (TPR + TNR) / 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from algorithms.core.messages import Doubles, Ints
from attacks.metrics import membership
from attacks.metrics.disparity import EXCHANGES, exchanged
from attacks.metrics.membership import FEWEST_NONMEMBERS, NAN, Bools, balanced_accuracy

TIE = 1e-9  # rates that differ by less are equal; a measured accuracy is rounded, too


@dataclass(frozen=True, eq=False)
class Attacked:
    """The attacked examples that belong to clients, n of them, each under one model."""

    score: Doubles  # [n] 0 or more is the decision "member"
    member: Bools  # [n] whether a client trained on the example
    client: Ints  # [n] its owner; for a held-out example, the client whose examples it looks like
    label: Ints  # [n] its label, 0 where none is known

    def of(self, clients: Bools) -> Attacked:
        """Return the examples of some clients, given as a mask [clients]."""
        return self[(self.client >= 0) & clients[self.client]]

    def __getitem__(self, rows: Ints | Bools) -> Attacked:
        """Return some of the examples."""
        return Attacked(self.score[rows], self.member[rows], self.client[rows], self.label[rows])

    @staticmethod
    def join(parts: Sequence[Attacked]) -> Attacked:
        """Concatenate the examples of several models."""
        return Attacked(
            np.concatenate([np.empty(0), *(part.score for part in parts)]),
            np.concatenate([np.empty(0, bool), *(part.member for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.client for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.label for part in parts)]),
        )

    @property
    def accuracy(self) -> float:
        """(TPR + TNR) / 2; NaN without members or with fewer than ten non-members."""
        return (
            NAN
            if (~self.member).sum() < FEWEST_NONMEMBERS
            else balanced_accuracy(self.score, self.member)
        )


@dataclass(frozen=True, eq=False)
class ClientRisks:
    """The attack's rates on the examples of each client, [clients] each; NaN where nothing was
    measured.

    ``tnr`` is of the non-members that look like the client's examples or, if they are fewer than
    ten, like its peers'.
    """

    tpr: Doubles
    tnr: Doubles

    @property
    def risk(self) -> Doubles:
        """The attack's accuracy for each client, (TPR + TNR) / 2."""
        return (self.tpr + self.tnr) / 2


def client_risks(attacked: Attacked, peers: Ints) -> ClientRisks:
    """Compute the risk of each client; equal ``peers`` [clients] look alike and use the same
    model.
    """

    def count(chosen: Bools) -> Ints:
        return np.bincount(attacked.client[chosen & (attacked.client >= 0)], minlength=len(peers))

    positive = attacked.score >= 0
    member = attacked.member
    members = count(member)
    nonmembers = count(~member)
    rejected = count(~positive & ~member)
    _, place = np.unique(peers, return_inverse=True)
    few = nonmembers < FEWEST_NONMEMBERS
    rejected = np.where(few, np.bincount(place, rejected)[place], rejected)
    nonmembers = np.where(few, np.bincount(place, nonmembers)[place].astype(np.int64), nonmembers)
    tnr = np.where(nonmembers < FEWEST_NONMEMBERS, NAN, _share(rejected, nonmembers))
    return ClientRisks(_share(count(positive & member), members), tnr)


def _share(part: Ints, whole: Ints) -> Doubles:
    return np.divide(part, whole, out=np.full(len(part), NAN), where=whole > 0)


def worst_client_by_chance(attacked: Attacked, peers: Ints) -> float:
    """Compute the expected largest risk of a client: the mean over `EXCHANGES` exchanges; NaN
    without any risk.

    What the attack says is exchanged among the examples of a label that peers have, members or not.
    """
    attacked = attacked[attacked.client >= 0]
    # always the same numbers, so that rounds can be compared
    worst = []
    rng = np.random.default_rng(0)
    for order in exchanged(_alike(attacked, peers), EXCHANGES, rng):
        risk = client_risks(replace(attacked, score=attacked.score[order]), peers).risk
        worst.append(risk[~np.isnan(risk)].max(initial=-np.inf))
    return float(np.mean(worst)) if np.isfinite(worst).all() else NAN


def accuracy_by_chance(attacked: Attacked, peers: Ints) -> float:
    """Compute the expected accuracy if memberships are exchanged among the examples of a label
    that peers have.
    """
    alike = _alike(attacked, peers)
    return worst_by_chance(
        counted(replace(attacked, label=alike), int(alike.max(initial=0)) + 1)[None]
    )


def _alike(attacked: Attacked, peers: Ints) -> Ints:
    """Return numbers [n] that are equal for the examples of a label that peers have."""
    pairs = np.stack([peers[attacked.client], attacked.label])
    return np.unique(pairs, axis=1, return_inverse=True)[1].ravel()


def counted(attacked: Attacked, labels: int) -> Ints:
    """Count members, non-members, and examples that are called members, of each label: [labels,
    3].
    """
    rows = attacked.member, ~attacked.member, attacked.score >= 0
    return np.stack([np.bincount(attacked.label[row], minlength=labels) for row in rows], axis=1)


def exceeded_by_chance(counts: Ints, limit: ArrayLike) -> Doubles:
    """Compute the probability [...] of an accuracy strictly above ``limit`` [...] by chance,
    from `counted` [labels, 3].

    NaN where the limit is, and everywhere without members or non-members.

    >>> exceeded_by_chance(np.array([[1, 1, 1]]), [0.5, 0.0]).round(12).tolist()  # 0 or 1
    [0.5, 0.5]
    """
    limits = np.asarray(limit, np.float64)
    accuracy, mass = _distribution(counts)
    tail = np.append(np.cumsum(mass[::-1])[::-1], 0.0)  # P(accuracy >= a), and beyond
    above = np.minimum(tail[np.searchsorted(accuracy, limits + TIE, side="right")], 1.0)
    return np.where(np.isnan(limits) | (len(mass) == 0), NAN, above)[()]


def worst_by_chance(counts: Ints) -> float:
    """Compute the expected largest accuracy over models by chance, from `counted` of each,
    [models, labels, 3].

    Models without members or non-members do not count; without any other it is NaN. Of one model it
    is the expected accuracy. Several are taken to be independent: if they are asked about the same
    non-members, their accuracies rise and fall together, and the largest is smaller.

    >>> worst_by_chance(np.array([[[1, 1, 1]], [[1, 1, 1]]]))  # 1 with probability 3/4, else 0
    0.75
    """
    models = [pair for pair in map(_distribution, counts) if len(pair[0])]
    if not models:
        return NAN
    at = np.unique(np.concatenate([accuracy for accuracy, _ in models]))
    below = np.ones(len(at))
    for accuracy, mass in models:
        below *= np.append(0.0, np.cumsum(mass))[np.searchsorted(accuracy, at, side="right")]
    return float(at @ np.diff(below, prepend=0.0))


def _distribution(counts: Ints) -> tuple[Doubles, Doubles]:
    """Return the accuracies by chance, ascending, and their probabilities; none without members
    or non-members.
    """
    members, others, called = counts.sum(axis=0).tolist()
    if min(members, others) < 1:
        return np.empty(0), np.empty(0)
    mass = np.ones(1)
    for m, n, s in counts[counts[:, 2] > 0].tolist():
        found = np.arange(max(0, s - n), min(m, s) + 1)
        of_label = np.exp(_log_choose(m, found) + _log_choose(n, s - found) - _log_choose(m + n, s))
        mass = np.convolve(mass, np.append(np.zeros(found[0]), of_label))
    found = np.arange(len(mass))
    return (found / members + 1 - (called - found) / others) / 2, mass


def _log_choose(n: int, k: ArrayLike) -> Doubles:
    """Return the logarithms of binomial coefficients; `scipy.stats` would take a second to load."""
    from scipy.special import gammaln

    k = np.asarray(k)
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def successes_by_chance(attacked: Attacked, rng: np.random.Generator) -> dict[str, Doubles]:
    """Compute AUC and TPR at 1 and 0.1 % FPR in each of `EXCHANGES` exchanges of who is a member
    among a label's examples.

    The mean AUC is 0.5 where members and non-members have the same labels, or scores do not follow
    them. Each is [exchanges], NaN where `membership.measure` has none, so that means over models
    are of the same ones.
    """
    values = membership.measure(attacked.score, attacked.member)
    members = attacked.member[exchanged(attacked.label, EXCHANGES, rng)]
    m = int(attacked.member.sum())
    n = int((~attacked.member).sum())
    found = dict.fromkeys(("auc", *membership.LIMITS), np.full(EXCHANGES, NAN))
    if not np.isnan(values["auc"]):
        found["auc"] = np.asarray(
            (members @ membership.ranks(attacked.score) - m * (m + 1) / 2) / (m * n)
        )
    known = [name for name in membership.LIMITS if not np.isnan(values[name])]
    fpr, tpr = membership.roc(attacked.score, members) if known else (members, members)
    return found | {
        name: tpr.max(axis=1, where=fpr <= membership.LIMITS[name], initial=0.0) for name in known
    }
