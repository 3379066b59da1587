"""How clients sort themselves among the server's models.

Groups are the clients' true ones and given as indices, 0 the majority (the paper's S = 1) and 1 the minority (S = 0). Models
have names, because which index a model has is an accident of its initialization. What cannot be determined is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]

MAJORITY, MINORITY = "majority", "minority"
NAN = float("nan")


def purity(assignment: Ints, groups: Ints, clusters: int) -> float:
    """Share of clients who belong to the most frequent true group of their cluster; 1 where clusters do not mix groups.

    Putting everybody into one cluster scores the majority's share, so read it beside that share.

    >>> purity(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), 2)
    0.75
    """
    return float(_count_clients(assignment, groups, clusters).max(axis=1).sum() / len(assignment))


def name_models(
    assignment: Ints,
    groups: Ints,
    clusters: int,
    previous: Sequence[str] | None = None,
    names: Sequence[str] = (MAJORITY, MINORITY),
) -> tuple[str, ...]:
    """A name for each model: of all ways to name models after groups the one in which most clients use their own.

    ``names`` [groups] are those of the groups. A model in nobody's use takes a name that is left; models beyond the
    number of groups are called ``other_`` and their index. Of equally good ways the one that keeps most of ``previous``
    is taken, then the one that follows the order of the models.

    >>> name_models(np.array([1, 1, 1, 0]), np.array([0, 0, 1, 1]), clusters=2)
    ('minority', 'majority')
    """
    counts = _count_clients(assignment, groups, clusters, len(names))
    before = previous or [""] * clusters
    candidates = [*range(clusters), *[None] * (len(names) - clusters)]

    def merit(holders: tuple[int | None, ...]) -> tuple[int, int]:
        named = [(model, group) for group, model in enumerate(holders) if model is not None]
        return sum(int(counts[pair]) for pair in named), sum(before[model] == names[group] for model, group in named)

    holders = max(permutations(candidates, len(names)), key=merit)
    found = {model: name for model, name in zip(holders, names, strict=True) if model is not None}
    return tuple(found.get(j, f"other_{j}") for j in range(clusters))


def count_migrated(
    assignment: Ints, groups: Ints, models: Sequence[str], group: int = 1, name: str = MINORITY
) -> float:
    """Number of clients of ``group`` who use a model that is not named after it; ``models`` are those of `name_models`.

    NaN where no model bears the group's ``name``, so that nobody could have stayed.
    """
    if name not in models:
        return NAN
    own = np.array([model == name for model in models])
    return float(((groups == group) & ~own[assignment]).sum())


def loss_gap(losses: Doubles, models: Sequence[str]) -> Doubles:
    """What each client [clients] would lose in nats by using the majority model: df = f(majority) - f(minority).

    ``losses`` [clients, clusters]. A minority client migrates if its beta exceeds df / (df + dl), dl being the
    `risk_gap`. NaN where one of the models does not exist.
    """
    if not {MAJORITY, MINORITY} <= set(models):
        return np.full(len(losses), NAN)
    return losses[:, models.index(MAJORITY)] - losses[:, models.index(MINORITY)]


def risk_gap(risks: Doubles, models: Sequence[str]) -> float:
    """What is gained in attack accuracy by using the majority model: dl = l(minority) - l(majority)."""
    if not {MAJORITY, MINORITY} <= set(models):
        return NAN
    return float(risks[models.index(MINORITY)] - risks[models.index(MAJORITY)])


def _count_clients(assignment: Ints, groups: Ints, clusters: int, kinds: int | None = None) -> Ints:
    """Number of clients [clusters, groups] of each true group in each cluster."""
    kinds = int(groups.max()) + 1 if kinds is None else kinds
    return np.bincount(assignment * kinds + groups, minlength=clusters * kinds).reshape(clusters, kinds)
