"""What every clustering component shares: the clients' tolerance of risk, and the view from which they choose a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.core.configs import ClusteringConfig

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Preferences:
    """``threshold`` [clients], the attack accuracy that a client tolerates; ``beta`` [clients], its weight of risk."""

    threshold: Floats
    beta: Floats


@dataclass(frozen=True)
class View:
    """What the choice is made from.

    ``losses`` [clients, clusters] mean cross-entropy in nats of every model on the client's selection examples;
    ``published_risks`` [clusters] attack accuracy published with each model; ``previous`` [clients] last choice (-1:
    none); ``classes`` labels.
    """

    losses: Floats
    published_risks: Floats
    previous: Ints
    classes: int


def thresholds(config: ClusteringConfig, clients: int, rng: np.random.Generator) -> Floats:
    """Tolerances [clients]: an evenly spaced grid, dealt at random and without regard to groups.

    A grid instead of independent draws, so that counts of violations do not differ by the luck of the draw.
    """
    return rng.permutation(np.linspace(config.lowest_threshold, config.highest_threshold, clients))


def indifferent(config: ClusteringConfig, clients: int, rng: np.random.Generator) -> Preferences:
    """Tolerances as in every component, and no weight of risk: what clients have that choose by loss alone, or not at all."""
    return Preferences(thresholds(config, clients, rng), np.zeros(clients))


def random_partition(clusters: int, clients: int, rng: np.random.Generator) -> Ints:
    """An assignment [clients] in equal parts (sizes differ by at most one)."""
    return rng.permutation(np.arange(clients) % clusters)


def cheapest(costs: Floats, losses: Floats, previous: Ints) -> Ints:
    """Index [clients] of the smallest cost in each row; ties go to the lower loss, then to the previous choice."""
    changed = np.arange(costs.shape[1])[None, :] != previous[:, None]
    return np.lexsort((changed, losses, costs), axis=1)[:, 0]
