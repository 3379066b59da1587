"""What is reported besides accuracy: who is exposed beyond their tolerance, how fair it is, how well clients sort.

Groups are the clients' true ones and given as indices, 0 the majority (the paper's S = 1) and 1 the minority (S = 0).
Models have names, because which index a model has is an accident of its initialisation. What cannot be determined is
NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAJORITY, MINORITY = "majority", "minority"
NAN = float("nan")


# Violations (Jung et al. 2025, section 5)


def violated(thresholds: Doubles, risks: Doubles, assignment: Ints) -> Bools:
    """Which clients [clients] use a model whose attack accuracy is strictly above what they tolerate.

    ``thresholds`` [clients] and ``risks`` [clusters] are fractions; ``assignment`` [clients] is the model of each.
    """
    return thresholds < risks[assignment]


def violations(thresholds: Doubles, risks: Doubles, assignment: Ints, among: Bools | None = None) -> float:
    """Number of clients (of those ``among`` [clients], if given) whose tolerance is exceeded.

    NaN where the risk of a model in use among them is unknown.
    """
    chosen = np.ones(len(assignment), bool) if among is None else among
    if np.isnan(risks[assignment[chosen]]).any():
        return NAN
    return float(violated(thresholds, risks, assignment)[chosen].sum())


def expected_violations(clients: int, risk: float, lowest: float = 0.5, highest: float = 0.8) -> float:
    """Violations to expect of ``clients`` with tolerances uniform between ``lowest`` and ``highest`` under one model.

    >>> round(expected_violations(170, 0.521) + expected_violations(30, 0.761))
    38
    """
    return clients * float(np.clip((risk - lowest) / (highest - lowest), 0, 1))


# Fairness between groups


def fairness(predicted: Ints, labels: Ints, privileged: Bools, classes: int) -> dict[str, float]:
    """Demographic parity, equal opportunity and equalized odds over many classes, between two groups of test records.

    With d the rate in the privileged group minus that in the other, one class c against the rest:

        demographic_parity = mean_c |d P(Yhat = c)|
        equal_opportunity  = mean_c |d P(Yhat = c | Y = c)|
        equalized_odds     = mean_c (|d P(Yhat = c | Y = c)| + |d P(Yhat = c | Y != c)|) / 2

    0 is fair. The same without absolute values end in ``_signed``; that of demographic parity is always 0, because the
    shares of all classes add up to 1 in either group. Classes that one group has no record of are left out of the
    latter two; NaN where a group is empty. Meaningful only if both groups' records have the same distribution of
    labels.

    ``predicted`` and ``labels`` [n] in 0..classes-1; ``privileged`` [n]. Each record is to be predicted by the model
    that its client really uses.
    """
    ours = _rates(predicted[privileged], labels[privileged], classes)
    theirs = _rates(predicted[~privileged], labels[~privileged], classes)
    share, true, false = (a - b for a, b in zip(ours, theirs, strict=True))
    return {
        "demographic_parity": _mean(np.abs(share)),
        "demographic_parity_signed": _mean(share),
        "equal_opportunity": _mean(np.abs(true)),
        "equal_opportunity_signed": _mean(true),
        "equalized_odds": _mean((np.abs(true) + np.abs(false)) / 2),
        "equalized_odds_signed": _mean((true + false) / 2),
    }


def _rates(predicted: Ints, labels: Ints, classes: int) -> tuple[Doubles, Doubles, Doubles]:
    """Share of predictions, true positive rate and false positive rate of each class [classes], NaN where undefined."""
    confusion = np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)
    said, is_so, right, records = confusion.sum(axis=0), confusion.sum(axis=1), confusion.diagonal(), confusion.sum()
    return _ratio(said, records), _ratio(right, is_so), _ratio(said - right, records - is_so)


def _ratio(part: Ints, whole: Ints | np.int64) -> Doubles:
    return np.divide(part, whole, out=np.full(len(part), NAN), where=np.asarray(whole) > 0)


def _mean(values: Doubles) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else NAN


# Who uses which model


def purity(assignment: Ints, groups: Ints, clusters: int) -> float:
    """Share of clients who belong to the most frequent true group of their cluster; 1 where clusters do not mix groups.

    Putting everybody into one cluster scores the majority's share, so read it beside that share.

    >>> purity(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), 2)
    0.75
    """
    return float(_members(assignment, groups, clusters).max(axis=1).sum() / len(assignment))


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
    counts = _members(assignment, groups, clusters, len(names))
    before = previous or [""] * clusters
    candidates = [*range(clusters), *[None] * (len(names) - clusters)]

    def merit(holders: tuple[int | None, ...]) -> tuple[int, int]:
        named = [(model, group) for group, model in enumerate(holders) if model is not None]
        return sum(int(counts[pair]) for pair in named), sum(before[model] == names[group] for model, group in named)

    holders = max(permutations(candidates, len(names)), key=merit)
    found = {model: name for model, name in zip(holders, names, strict=True) if model is not None}
    return tuple(found.get(j, f"other_{j}") for j in range(clusters))


def migrated(assignment: Ints, groups: Ints, models: Sequence[str], group: int = 1, name: str = MINORITY) -> float:
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


def _members(assignment: Ints, groups: Ints, clusters: int, kinds: int | None = None) -> Ints:
    """Number of clients [clusters, groups] of each true group in each cluster."""
    kinds = int(groups.max()) + 1 if kinds is None else kinds
    return np.bincount(assignment * kinds + groups, minlength=clusters * kinds).reshape(clusters, kinds)
