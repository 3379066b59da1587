"""Metrics of clustering: how clients sort themselves among the server's models.

``assignment`` [clients] is each client's model, ``groups`` [clients] its true group: 0 is the
majority (the paper's S = 1), 1 the minority (S = 0). ``models`` [clusters] are the models' names
from `name_models`, because a model's index is an accident of its initialization. Undefined values
are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from algorithms.core.messages import Doubles, Ints

MAJORITY = "majority"
MINORITY = "minority"


def purity(assignment: Ints, groups: Ints, clusters: int) -> float:
    """Compute the share of clients who belong to the most frequent true group of their cluster.

    It is 1 if no cluster mixes groups. Putting all clients into one cluster scores the majority's
    share, so compare with that share.

    >>> purity(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), 2)
    0.75
    """
    largest = _count_clients(assignment, groups, clusters).max(axis=1)
    return float(largest.sum() / len(assignment))


def name_models(
    assignment: Ints,
    groups: Ints,
    clusters: int,
    previous: Sequence[str] = (),
) -> tuple[str, ...]:
    """Name every model after a group, such that as many clients as possible use the model of
    their own group.

    A model that nobody uses takes an unused name; models beyond the number of groups are called
    ``other_`` and their index. Ties are broken by the number of names kept from ``previous``, then
    by the order of the models.

    >>> name_models(np.array([1, 1, 1, 0]), np.array([0, 0, 1, 1]), clusters=2)
    ('minority', 'majority')
    """
    names = (MAJORITY, MINORITY)
    counts = _count_clients(assignment, groups, clusters, len(names))
    before = previous or [""] * clusters
    nobody = [None] * (len(names) - clusters)

    def merit(holders: tuple[int | None, ...]) -> tuple[int, int]:
        clients = 0
        kept = 0
        for group, model in enumerate(holders):
            if model is not None:
                clients += int(counts[model, group])
                kept += before[model] == names[group]
        return clients, kept

    candidates = [*range(clusters), *nobody]
    holders = max(permutations(candidates, len(names)), key=merit)
    named = dict(zip(holders, names, strict=True))
    return tuple(named.get(j, f"other_{j}") for j in range(clusters))


def loss_gap(losses: Doubles, models: Sequence[str]) -> Doubles:
    """Compute each client's extra loss with the majority model: df = f(majority) - f(minority).

    A minority client migrates if its beta exceeds df / (df + dl), where dl is the `risk_gap`.
    Losses [clients, clusters] are in nats; the result [clients] is NaN if one of the two models
    does not exist.
    """
    if not {MAJORITY, MINORITY} <= set(models):
        return np.full(len(losses), np.nan)
    of_minority = losses[:, models.index(MINORITY)]
    return losses[:, models.index(MAJORITY)] - of_minority


def risk_gap(risks: Doubles, models: Sequence[str]) -> float:
    """Compute by how much the majority model's attack accuracy is lower: dl = l(minority) -
    l(majority).

    ``risks`` [clusters] are fractions; NaN if one of the two models does not exist.
    """
    if not {MAJORITY, MINORITY} <= set(models):
        return np.nan
    of_majority = risks[models.index(MAJORITY)]
    return float(risks[models.index(MINORITY)] - of_majority)


def _count_clients(
    assignment: Ints,
    groups: Ints,
    clusters: int,
    kinds: int | None = None,
) -> Ints:
    """Count the clients [clusters, groups] of each true group in each cluster."""
    kinds = kinds or int(groups.max()) + 1
    counts = np.bincount(assignment * kinds + groups, minlength=clusters * kinds)
    return counts.reshape(clusters, kinds)
