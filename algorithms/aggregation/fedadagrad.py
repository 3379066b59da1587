"""FedAdagrad (Reddi et al. 2021, algorithm 2): Adagrad on the server, with the clients' mean
update as its direction.

    v = v + Delta^2                                 in each coordinate
    x_{t+1} = x_t + eta Delta / (sqrt(v) + tau)

Differences from the paper: v starts at 0 and not at tau^2 or above, and there is no momentum; both
as in Flower 1.13.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from algorithms.aggregation import _server_optimizer, fedavg
from algorithms.core.messages import Doubles

NEEDS = "mean"
LABEL = "FedAdagrad"
METRICS = _server_optimizer.METRICS


class Config(fedavg.Config):
    """Fields of FedAdagrad; the defaults are Flower's."""

    eta: float = Field(0.1, gt=0, le=10, description="the server's step size")
    tau: float = Field(
        1e-9, gt=0, le=1, description="added to sqrt(v); the larger, the less adaptive"
    )


problems = fedavg.problems
weigh = fedavg.weigh
warm_start = fedavg.warm_start
equal_weights = fedavg.equal_weights


def step(
    config: Config,
    delta: Doubles,
    v: Doubles,
) -> tuple[Doubles, dict[str, Doubles]]:
    """Compute an Adagrad step along ``delta`` [d], and the sum of squares v [d]."""
    v = v + delta**2
    moved = config.eta * delta / (np.sqrt(v) + config.tau)
    return moved, {"v": v}


begin, apply = _server_optimizer.optimizer(step, "v")
