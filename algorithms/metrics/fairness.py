"""Group fairness: how differently two groups of clients are classified. Undefined values are NaN."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NAN = float("nan")


def fairness(predicted: Ints, labels: Ints, privileged: Bools, classes: int) -> dict[str, float]:
    """Compute demographic parity, equal opportunity and equalized odds over many classes, between two groups of examples.

    With d the rate in the privileged group minus that in the other, one class c against the rest:

        demographic_parity = mean_c |d P(Yhat = c)|
        equal_opportunity  = mean_c |d P(Yhat = c | Y = c)|
        equalized_odds     = mean_c (|d P(Yhat = c | Y = c)| + |d P(Yhat = c | Y != c)|) / 2

    0 is fair. The same metrics without absolute values have names that end in ``_signed``; that of demographic parity
    is always 0, because the shares of all classes add up to 1 in either group. The latter two leave out classes of
    which one group has no example; all are NaN if a group is empty. The comparison is meaningful only if both groups'
    examples have the same distribution of labels.

    Args:
        predicted: [n] classes predicted for test examples, 0 to classes - 1, each by the model that its client uses.
        labels: [n] true classes, 0 to classes - 1.
        privileged: [n] whether an example belongs to the privileged group.
        classes: number of classes.

    Returns:
        The six metrics by name, fractions.
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
    """Compute each class's share of predictions and true and false positive rates [classes], NaN where undefined."""
    confusion = np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)
    predictions, positives, hits = confusion.sum(axis=0), confusion.sum(axis=1), confusion.diagonal()
    examples = confusion.sum()
    return _ratio(predictions, examples), _ratio(hits, positives), _ratio(predictions - hits, examples - positives)


def _ratio(part: Ints, whole: Ints | np.int64) -> Doubles:
    return np.divide(part, whole, out=np.full(len(part), NAN), where=np.asarray(whole) > 0)


def _mean(values: Doubles) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else NAN
