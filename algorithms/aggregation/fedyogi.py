"""FedYogi (Reddi et al. 2021, algorithm 2): Yogi on the server, with the clients' mean update as
its direction.

    m = beta_1 m + (1 - beta_1) Delta
    v = v - (1 - beta_2) Delta^2 sign(v - Delta^2)          in each coordinate
    x_{t+1} = x_t + eta m / (sqrt(v) + tau)

Where Delta is small, v falls by less than Delta^2, whereas Adam's v would lose a fixed share of its
value.

Differences from the paper: v starts at 0 and not at tau^2 or above, as in Flower 1.13.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from algorithms.aggregation import _server_optimizer, fedavg
from algorithms.core.messages import Doubles

NEEDS = "mean"
LABEL = "FedYogi"
METRICS = _server_optimizer.METRICS


class Config(fedavg.Config):
    """Fields of FedYogi; the defaults are Flower's, which Sainz-Pardo Diaz et al. use."""

    eta: float = Field(0.01, gt=0, le=10, description="the server's step size")
    beta_1: float = Field(
        0.9, ge=0, lt=1, description="share of m that is kept from round to round"
    )
    beta_2: float = Field(
        0.99, ge=0, lt=1, description="share of v that is kept from round to round"
    )
    tau: float = Field(
        1e-3, gt=0, le=1, description="added to sqrt(v); the larger, the less adaptive"
    )
    warm_start_epochs: int = Field(
        20, ge=0, description="epochs of training on the server's shadow set before round 1"
    )


problems = fedavg.problems
weigh = fedavg.weigh
warm_start = fedavg.warm_start
equal_weights = fedavg.equal_weights


def step(
    config: Config, delta: Doubles, m: Doubles, v: Doubles
) -> tuple[Doubles, dict[str, Doubles]]:
    """Compute a Yogi step along ``delta`` [d], and the moments m and v [d]."""
    m = config.beta_1 * m + (1 - config.beta_1) * delta
    square = delta**2
    v = v - (1 - config.beta_2) * square * np.sign(v - square)
    moved = config.eta * m / (np.sqrt(v) + config.tau)
    return moved, {"m": m, "v": v}


begin, apply = _server_optimizer.optimizer(step, "m", "v")
