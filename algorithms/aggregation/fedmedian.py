"""FedMedian (Yin et al. 2018, algorithm 1, option I): in each coordinate, the median of the clients' models.

    x_{t+1}[j] = median_i w_i[j] = theta_t[j] + median_i u_i[j]        u_i: the update of client i, as far as it counts

All clients count alike; of an even number of them the two in the middle are averaged.

Differences from the paper: it takes the median of gradients and steps along it; with models, as in Flower 1.13, which
Sainz-Pardo Diaz et al. 2025 ran, there is no step size. Running statistics of a model are averaged, not ranked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.aggregation import _server_optimizer
from algorithms.aggregation._server_optimizer import State, WarmStart
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints

NEEDS = "updates"
PIECE = 1 << 17  # numbers that are ranked at a time, so that the updates are never copied as a whole


class Config(WarmStart):
    """Fields of FedMedian: none but those of its start."""


problems = _server_optimizer.problems


def begin(config: Config, params: Floats) -> State:
    """The server keeps nothing between rounds."""
    return {}


def weigh(config: Config, examples: Ints) -> Doubles:
    """Equal weights [clients]: ranks know no sizes. Running statistics of a model are averaged with them."""
    return np.ones(len(examples))


def apply(
    config: Config, state: State, params: Floats, received: ClientUpdates
) -> tuple[Floats, State, dict[str, Any]]:
    """New parameters [d] (float32, computed in float64), the server's state, and nothing to report."""
    assert received.updates is not None  # asked for with NEEDS
    moved, scales = np.empty_like(params), received.scales[:, None]
    width = max(1, PIECE // len(received.updates))
    for start in range(0, len(params), width):
        columns = slice(start, start + width)
        moved[columns] = params[columns] + np.median(scales * received.updates[:, columns], axis=0)
    return moved, state, {}
