"""Group fairness: how differently two groups of clients are classified.

Undefined values are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from algorithms.core.messages import Bools, Doubles, Ints

Counts = Ints | Doubles


@dataclass(frozen=True)
class Rates:
    """Rates [..., classes] of each class against the rest, or differences of them.

    Attributes:
        share: share of the predictions.
        true: true positive rate, NaN where undefined.
        false: false positive rate, NaN where undefined.
    """

    share: Doubles
    true: Doubles
    false: Doubles

    def odds(self) -> Doubles:
        """Return the mean of both absolute rates."""
        both = np.abs(self.true) + np.abs(self.false)
        return np.asarray(both / 2)


def fairness(
    predicted: Ints,
    labels: Ints,
    privileged: Bools,
    classes: int,
) -> dict[str, float]:
    """Compute demographic parity, equal opportunity and equalized odds over many classes,
    between two groups of examples.

    With d the rate in the privileged group minus that in the other, one class c against the rest:

        demographic_parity = mean_c |d P(Yhat = c)|
        equal_opportunity  = mean_c |d P(Yhat = c | Y = c)|
        equalized_odds     = mean_c (|d P(Yhat = c | Y = c)| + |d P(Yhat = c | Y != c)|) / 2

    0 is fair. The latter two have the same without absolute values, with names that end in
    ``_signed`` (of demographic parity it would be 0: the shares of all classes add up to 1), and
    leave out classes of which one group has no example; all are NaN if a group is empty. The
    comparison is meaningful only if both groups' examples have the same distribution of labels.

    Args:
        predicted: [n] classes predicted for test examples, 0 to classes - 1, each by the model that
            its client uses.
        labels: [n] true classes, 0 to classes - 1.
        privileged: [n] whether an example belongs to the privileged group.
        classes: number of classes.
    """
    cell = labels * classes + predicted
    everyone = np.bincount(cell, minlength=classes**2)
    ours = np.bincount(cell[privileged], minlength=classes**2)
    cells = np.flatnonzero(everyone)
    gaps = _gaps(ours[cells], everyone[cells], cells, classes)
    return {
        "demographic_parity": float(_mean(np.abs(gaps.share))),
        "equal_opportunity": float(_mean(np.abs(gaps.true))),
        "equal_opportunity_signed": float(_mean(gaps.true)),
        "equalized_odds": float(_mean(gaps.odds())),
        "equalized_odds_signed": float(_mean((gaps.true + gaps.false) / 2)),
    }


def by_chance(
    predicted: Ints,
    labels: Ints,
    privileged: Bools,
    classes: int,
    owner: Ints,
    rng: np.random.Generator,
    draws: int = 200,
) -> dict[str, float]:
    """Compute the absolute metrics of `fairness` that sampling alone would give if the group did
    not matter.

    Absolute differences of rates are positive even if both groups are treated alike, the more so
    the fewer examples there are of a class. This is their mean over random permutations of the
    clients' groups: clients are exchanged, and not examples, as those of one client (``owner`` [n])
    are alike. NaN where a metric is undefined in every permutation.
    """
    clients, of = np.unique(owner, return_inverse=True)
    cells, at = np.unique(labels * classes + predicted, return_inverse=True)
    counts = np.zeros((len(clients), len(cells)))  # doubles, see `_rates`
    np.add.at(counts, (of, at), 1)
    group = np.zeros(len(clients))
    group[of] = privileged
    groups = np.tile(group, (draws, 1))
    ours = rng.permuted(groups, axis=1) @ counts
    found = _gaps(ours, counts.sum(axis=0), cells, classes)
    gaps = {
        "demographic_parity": np.abs(found.share),
        "equal_opportunity": np.abs(found.true),
        "equalized_odds": found.odds(),
    }
    return {name: float(_mean(_mean(values))) for name, values in gaps.items()}


def _gaps(ours: Counts, everyone: Counts, cells: Ints, classes: int) -> Rates:
    """Compute by how much the privileged group's rates [..., classes] of each class exceed the
    other group's.

    The rates are shares of predictions, true and false positive rates, NaN where undefined.
    ``ours`` [..., cells] and ``everyone`` [cells] count examples of each label and prediction;
    ``cells`` is label times ``classes`` plus prediction.
    """
    group = _rates(ours, cells, classes)
    other = _rates(everyone - ours, cells, classes)
    return Rates(
        group.share - other.share,
        group.true - other.true,
        group.false - other.false,
    )


def _rates(counts: Counts, cells: Ints, classes: int) -> Rates:
    """Compute each class's share of predictions and true and false positive rates [...,
    classes], NaN where undefined.
    """
    # as doubles, which are exact here and which numpy multiplies much faster than integers
    each = np.eye(classes)
    numbers = counts.astype(np.float64)
    of_label = each[cells // classes]
    of_guess = each[cells % classes]
    predictions = numbers @ of_guess
    positives = numbers @ of_label
    hits = numbers @ (of_guess * of_label)
    examples = numbers.sum(axis=-1, keepdims=True)
    return Rates(
        _ratio(predictions, examples),
        _ratio(hits, positives),
        _ratio(predictions - hits, examples - positives),
    )


def _ratio(part: Doubles, whole: Doubles) -> Doubles:
    undefined = np.full(part.shape, np.nan)
    return np.divide(part, whole, out=undefined, where=whole > 0)


def _mean(values: Doubles) -> Doubles:
    """Return the mean over the last axis of what is defined; NaN if nothing is."""
    defined = ~np.isnan(values)
    number = defined.sum(axis=-1)
    total = np.where(defined, values, 0.0).sum(axis=-1)
    return _ratio(total, number)
