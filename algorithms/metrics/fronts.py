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
    ratios = (n - 1) / rng.chisquare(n - 1, draws)
    scale = np.sqrt(ratios / (n * (n - 1)))
    normals = rng.standard_normal((draws, n))
    moved = np.einsum("d,dn,nso->dso", scale, normals, points - mean)
    return np.asarray(mean + moved)


def undominated(points: Doubles) -> Bools:
    """Return which of ``points`` [..., settings, objectives] no other one of its draw dominates;
    higher is better.

    >>> import numpy as np
    >>> points = np.array([[1.0, 3], [2, 2], [3, 1], [1, 2], [3, 1]])
    >>> undominated(points).tolist()  # equal points dominate neither
    [True, True, True, False, True]
    """
    dominated = np.zeros(points.shape[:-1], bool)
    for place in range(points.shape[-2]):  # one after another, as a grid can have hundreds
        other = points[..., place : place + 1, :]
        as_good = (other >= points).all(axis=-1)
        dominated |= as_good & (other > points).any(axis=-1)
    return ~dominated


def hypervolume(points: Doubles) -> Doubles:
    """The area between the origin and ``points`` [..., settings, 2], of which both coordinates
    are better if higher: [...].

    >>> import numpy as np
    >>> front = 4 - np.array([[1.0, 3], [2, 2], [3, 1]])  # small in both; reference (4, 4)
    >>> dominated = np.vstack([front, [[1, 1]]])  # (3, 3)
    >>> float(hypervolume(front)), float(hypervolume(dominated))
    (6.0, 6.0)
    """
    order = np.argsort(-points[..., 0], axis=-1)
    best_first = np.take_along_axis(points, order[..., None], axis=-2)
    corners = best_first.clip(0)
    height = np.maximum.accumulate(corners[..., 1], axis=-1)
    rises = np.diff(height, axis=-1, prepend=0)
    areas = corners[..., 0] * rises
    return np.asarray(areas.sum(axis=-1))
