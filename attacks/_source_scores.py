"""What source inference compares between models: the loss on an example, or how unusual this loss is for the model.

A model that is better on everything has the lowest loss on everybody's examples, and is then everybody's guess. So a
loss can be calibrated per model k and class y, with the mean and standard deviation over the attacked examples of class
y that belong to other clients than k, and are not x itself:

    phi_k(x) = -ln(exp(CE(theta_k(x), y)) - 1)          the confidence in the true class on the logit scale, the higher
                                                        the lower the loss; losses are far too skewed for a mean
    score_k(x) = -(phi_k(x) - mean_k,y) / sd_k,y        the guess is the model with the lowest score

``x`` is left out of the reference of every model alike. Otherwise it would be part of the references of all models but
its owner's, would be nearer to their means, and examples that tell nothing would be traced more often than by chance. A
class of which some model would have fewer than `FEWEST` examples to compare with is compared with all classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.metrics.membership import confidences_of_losses

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FEWEST = 10
LEAST = 1e-12  # standard deviation of a model that treats all examples alike


def calibrated(losses: Doubles, labels: Ints) -> Doubles:
    """Compute how unusually low each loss is for its model and the example's class.

    Args:
        losses: [k, k, n] in nats, of every model on the examples of every owner; model i is that of owner i.
        labels: [k, n] classes of the examples.

    Returns:
        [k, k, n] scores; the lower, the likelier is the model the example's source. NaN where the loss is.
    """
    phi, (owners, n) = confidences_of_losses(losses), labels.shape
    foreign = np.repeat(np.arange(len(losses))[:, None] != np.arange(owners), n, axis=1).reshape(phi.shape)
    score, everything = np.empty_like(phi), np.ones(labels.shape, bool)
    for label in np.unique(labels):
        here = labels == label
        counts = here.sum(axis=1)  # by owner
        like = here if (counts.sum() - counts).min() > FEWEST else everything
        score[:, here] = _standardized(phi[:, like], foreign[:, like])[:, here[like]]
    return np.where(np.isnan(losses), np.nan, -score)


def _standardized(phi: Doubles, foreign: Bools) -> Doubles:
    """Standardize every value of a model by its other values that are foreign to it.

    Args:
        phi: [models, n].
        foreign: [models, n] whether the example belongs to another client than the model.

    Returns:
        [models, n].
    """
    counts = foreign.sum(axis=1, keepdims=True)
    center = np.where(foreign, phi, 0).sum(axis=1, keepdims=True) / np.maximum(counts, 1)
    apart = np.where(foreign, phi - center, 0)  # deviations, so that squares lose no digits
    left = np.maximum(counts - foreign, 1)  # without the example itself
    mean = (apart.sum(axis=1, keepdims=True) - apart) / left
    square = ((apart**2).sum(axis=1, keepdims=True) - apart**2) / left
    sd = np.sqrt(np.maximum(square - mean**2, 0))
    return (phi - center - mean) / np.maximum(sd, LEAST)
