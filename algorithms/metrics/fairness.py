"""Fairness between two groups of clients: how differently they are classified. What cannot be determined is NaN."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NAN = float("nan")


def fairness(predicted: Ints, labels: Ints, privileged: Bools, classes: int) -> dict[str, float]:
    """Demographic parity, equal opportunity and equalized odds over many classes, between two groups of test examples.

    With d the rate in the privileged group minus that in the other, one class c against the rest:

        demographic_parity = mean_c |d P(Yhat = c)|
        equal_opportunity  = mean_c |d P(Yhat = c | Y = c)|
        equalized_odds     = mean_c (|d P(Yhat = c | Y = c)| + |d P(Yhat = c | Y != c)|) / 2

    0 is fair. The same without absolute values end in ``_signed``; that of demographic parity is always 0, because the
    shares of all classes add up to 1 in either group. Classes that one group has no example of are left out of the
    latter two; NaN where a group is empty. Meaningful only if both groups' examples have the same distribution of
    labels.

    ``predicted`` and ``labels`` [n] in 0..classes-1; ``privileged`` [n]. Each example is to be predicted by the model
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
    said, is_so, right, examples = confusion.sum(axis=0), confusion.sum(axis=1), confusion.diagonal(), confusion.sum()
    return _ratio(said, examples), _ratio(right, is_so), _ratio(said - right, examples - is_so)


def _ratio(part: Ints, whole: Ints | np.int64) -> Doubles:
    return np.divide(part, whole, out=np.full(len(part), NAN), where=np.asarray(whole) > 0)


def _mean(values: Doubles) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else NAN
