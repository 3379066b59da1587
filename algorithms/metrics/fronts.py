"""The front of points of which no other one is better in every coordinate: dominance, how sure
it is, and its size.

The means of several settings are uncertain together. With X [n, values] the centered values of the
n repetitions that all settings have, they are drawn as

    m* = m + sqrt((n - 1) / v) X' z / sqrt(n (n - 1)),      z ~ N(0, 1)^n,  v ~ chi^2(n - 1).

What settings have in common in a repetition stays in common, as in a paired test, and each mean
alone has Student's t interval. (A bootstrap of five repetitions is narrower than that.)
"""

from __future__ import annotations

import numpy as np

from algorithms.core.messages import Bools, Doubles


def draw_means(
    points: Doubles,
    draws: int,
    rng: np.random.Generator,
) -> Doubles:
    """Draw the means of ``points`` [n, settings, objectives] together, as the module says:
    [draws, settings, objectives].
    """
    n = len(points)
    mean = points.mean(axis=0)
    scale = np.sqrt((n - 1) / rng.chisquare(n - 1, draws) / (n * (n - 1)))
    normals = rng.standard_normal((draws, n))
    return np.asarray(mean + np.einsum("d,dn,nso->dso", scale, normals, points - mean))


def undominated(points: Doubles) -> Bools:
    """Return which of ``points`` [..., settings, objectives] no other one of its draw dominates;
    higher is better.

    >>> import numpy as np
    >>> undominated(np.array([[1.0, 3], [2, 2], [3, 1], [1, 2], [3, 1]])).tolist()  # equal points dominate neither
    [True, True, True, False, True]
    """
    dominated = np.zeros(points.shape[:-1], bool)
    for place in range(points.shape[-2]):  # one after another, as a grid can have hundreds
        other = points[..., place : place + 1, :]
        dominated |= (other >= points).all(axis=-1) & (other > points).any(axis=-1)
    return ~dominated


def hypervolume(points: Doubles) -> Doubles:
    """The area between the origin and ``points`` [..., settings, 2], of which both coordinates
    are better if higher: [...].

    >>> import numpy as np
    >>> front = 4 - np.array([[1.0, 3], [2, 2], [3, 1]])  # to be small in both, with the reference (4, 4)
    >>> float(hypervolume(front)), float(hypervolume(np.vstack([front, [[1, 1]]])))  # (3, 3) is dominated
    (6.0, 6.0)
    """
    order = np.argsort(-points[..., 0], axis=-1)
    best_first = np.take_along_axis(points, order[..., None], axis=-2).clip(0)
    x = best_first[..., 0]
    y = best_first[..., 1]
    height = np.maximum.accumulate(y, axis=-1)
    return np.asarray((x * np.diff(height, axis=-1, prepend=0)).sum(axis=-1))
