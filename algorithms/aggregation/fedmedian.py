"""FedMedian (Yin et al. 2018, algorithm 1, option I): in each coordinate, the median of the
clients' models.

    x_{t+1}[j] = median_i w_i[j] = theta_t[j] + median_i u_i[j]    u_i: an update after clipping

All clients have the same weight; if their number is even, the two middle values are averaged.

Differences from the paper: it takes the median of gradients and steps along it; with models, as in
Flower 1.13, which Sainz-Pardo Diaz et al. 2025 ran, there is no step size. Running statistics of a
model are averaged; no median of them is taken.
"""

from __future__ import annotations

import numpy as np

from algorithms.aggregation import fedavg
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints
from algorithms.interfaces import Metrics, State

NEEDS = "updates"
UPDATES_FOR = "takes the median of the clients' values in each coordinate, which no sum contains"
LABEL = "FedMedian"
# numbers that are sorted at a time, so that the updates are never copied as a whole
PIECE = 1 << 17


class Config(fedavg.WarmStartConfig):
    """Fields of FedMedian: only those of the warm start."""


problems = fedavg.problems
warm_start = fedavg.warm_start


def weigh(config: Config, examples: Ints) -> Doubles:
    """Return equal weights [clients], because a median ignores sizes; running statistics are
    averaged with them.
    """
    return np.ones(len(examples))


def equal_weights(config: Config) -> bool:
    """Return True: a median ignores how many examples a client has."""
    return True


def apply(
    config: Config, state: State, params: Floats, received: ClientUpdates
) -> tuple[Floats, State, Metrics]:
    """Take the median; return new parameters [d] (float32, computed in float64), the state and
    no metrics.
    """
    assert received.updates is not None  # guaranteed by NEEDS
    moved = np.empty_like(params)
    scales = received.scales[:, None]
    width = max(1, PIECE // len(received.updates))
    for start in range(0, len(params), width):
        columns = slice(start, start + width)
        updates = scales * received.updates[:, columns]
        moved[columns] = params[columns] + np.median(updates, axis=0)
    return moved, state, {}
