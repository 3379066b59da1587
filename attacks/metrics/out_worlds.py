"""How unusual one client's model is among those of other clients, for each of many examples
("all for one").

In FedMIA (Zhu et al. 2025) the models of all other clients stand for the world in which the target
client did not train on an example. For target c, M_k(x) being what the attacker measures of client
k's update on example x:

    gaussian    m = mean_{k != c} M_k(x)    v = var_{k != c} M_k(x) (ddof 0) + 1e-8
                standing = Phi((M_c(x) - m) / sqrt(v))                                          as published
    student     the predictive distribution of a further client's M(x), given n others, their mean m and sum of squares
                S around it; variances have an inverse-gamma prior whose mean is the pooled one (S / (n - 1), averaged):
                a_n = 2 + n / 2 - 1/2    b_n = pooled + S / 2    scale^2 = b_n / a_n (1 + 1 / n)
                standing = T_{2 a_n}((M_c(x) - m) / scale)

``student`` is the predictive of BaVarIA (Brannvall 2026) with a flat prior on means, which is the
moderated t of Smyth (2004): with nine others a variance of one example alone is off by half, and
the examples whose variance came out too small would head the ranking whether they are members or
not. Means are not drawn together, because an easy and a hard example have nothing in common. It
presupposes that examples vary alike, as confidences on the logit scale do and losses do not.

A model whose client has many examples of a label is more confident in all examples with it, members
or not. So M_k(x) is first centered by what model k makes of x's label y, on references z that
nobody trained on and who wear x's transform:

    centered    M_k(x) - mean_{z: y(z) = y(x)} M_k(z)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from algorithms.core.messages import Doubles, Ints

World = Literal["student", "gaussian"]

SHAPE = 2.0  # of the inverse-gamma prior; the smallest with which its mean, b0 / (a0 - 1), is b0
FLOOR = 1e-8  # added to a variance, as published
FEWEST_OTHERS = 2  # with fewer there is no variance


@dataclass(frozen=True, eq=False)
class Others:
    """What was measured of all clients but one: their number [c], mean and sum of squared
    deviations [c, r].
    """

    count: Ints
    mean: Doubles
    squares: Doubles


def centered(values: Doubles, labels: Ints, transforms: Ints, references: Ints) -> Doubles:
    """Subtract from every value its model's mean over the references with the example's label
    and transform: [c, R].

    Examples of a label that no reference has are centered by all references; without references
    nothing is subtracted. ``values`` [c, R + t r] were measured of each client's update on R
    examples, with ``labels`` and numbers of ``transforms`` [R], then on r references in t
    transforms; ``references`` [r] are their labels.

    >>> centered(np.array([[5.0, 7.0, 4.0, 2.0]]), np.array([0, 1]), np.array([0, 0]), np.array([1, 1]))
    array([[2., 4.]])
    """
    attacked, measured = np.split(values, [len(labels)], axis=1)
    if not len(references):
        return attacked
    measured = measured.reshape(len(values), -1, len(references))  # [c, t, r]
    alike = references[:, None] == np.arange(labels.max() + 1)  # [r, labels]
    alike[:, ~alike.any(axis=0)] = True
    means = measured @ alike / alike.sum(axis=0)  # [c, t, labels]
    centers: Doubles = means[:, transforms, labels]
    return attacked - centers


def others(values: Doubles, examples: Ints, worlds: Ints) -> Others:
    """Summarize, for every client, the values [c, R] of the other clients on the examples [c, r]
    that it is judged by.

    Its others are those of its world [c]; if these are fewer than two, all clients.
    """
    clients = np.arange(len(values))
    signals = values[clients[:, None], examples]
    members = (worlds == np.unique(worlds)[:, None]).astype(np.float64)  # [worlds, c]
    summary = _left_out(
        values, members, np.searchsorted(np.unique(worlds), worlds), examples, signals
    )
    alone = summary.count < FEWEST_OTHERS
    if alone.any():
        everyone = np.ones((1, len(values))), np.zeros(len(values), np.int64)
        whole = _left_out(values, *everyone, examples, signals)
        rows = alone[:, None]
        means = np.where(rows, whole.mean, summary.mean)
        squares = np.where(rows, whole.squares, summary.squares)
        summary = Others(np.where(alone, whole.count, summary.count), means, squares)
    return summary


def _left_out(
    values: Doubles, members: Doubles, world: Ints, examples: Ints, signals: Doubles
) -> Others:
    """Take each client's own values [c, r] out of the sums over its world, one of ``members``
    [worlds, c].
    """
    sizes = members.sum(axis=1)
    means = members @ values / sizes[:, None]  # [worlds, R]
    deviations = np.empty_like(values)
    np.subtract(values, means[world] if len(means) > 1 else means, out=deviations)
    squares = members @ np.square(deviations, out=deviations)
    count = (sizes[world] - 1).astype(np.int64)
    n = np.maximum(count, 1)[:, None]
    apart = signals - means[world[:, None], examples]
    # Without one of n + 1 values: the mean moves by apart / n, the squares shrink by apart^2 (n +
    # 1) / n.
    left = squares[world[:, None], examples] - apart**2 * (n + 1) / n
    return Others(count, means[world[:, None], examples] - apart / n, np.maximum(left, 0))


def standing(signals: Doubles, world: Others, kind: World) -> Doubles:
    """Compute the probability that one more of the others would have measured less than the
    client itself.

    ``signals`` [c, r] are what was measured of each client's own update, the higher the likelier a
    member. The result [c, r] is 0.5 on average for clients that are like the others, and NaN for
    one with fewer than two others.
    """
    from scipy.special import ndtr, stdtr

    n = np.maximum(world.count, 1)[:, None]
    if kind == "gaussian":
        probability = ndtr((signals - world.mean) / np.sqrt(world.squares / n + FLOOR))
    else:
        enough = np.maximum(n - 1, 1)
        pooled = (world.squares / enough).mean(axis=1, keepdims=True)
        shape = SHAPE + (n - 1) / 2
        scale = np.sqrt(
            np.maximum(
                (pooled + world.squares / 2) / shape * (1 + 1 / n), np.finfo(np.float64).tiny
            )
        )
        probability = stdtr(2 * shape, (signals - world.mean) / scale)
    return np.where(world.count[:, None] < FEWEST_OTHERS, np.nan, probability)
