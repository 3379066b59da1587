"""FedAvgM (Hsu et al. 2019): gradient descent with momentum on the server, with the clients'
mean update as its gradient.

    g = x_t - (theta_t + mean update)       the pseudo-gradient
    v = momentum v + g
    x_{t+1} = x_t - lr v

Step size 1 without momentum is FedAvg.

Differences from the paper: none. Sainz-Pardo Diaz et al. 2025 print g with the opposite sign, which
would climb; the sign here is that of Hsu et al. and of Flower 1.13, which Sainz-Pardo Diaz et al.
ran.
"""

from __future__ import annotations

from pydantic import Field

from algorithms.aggregation import _server_optimizer, fedavg
from algorithms.core.messages import Doubles

NEEDS = "mean"
LABEL = "FedAvgM"
METRICS = _server_optimizer.METRICS


class Config(fedavg.Config):
    """Fields of FedAvgM; the defaults are those of Sainz-Pardo Diaz et al., in their later
    version.
    """

    # The steps of a constant gradient add up to lr / (1 - momentum): a fifth of FedAvg's.
    lr: float = Field(0.1, gt=0, le=10, description="the server's step size (mu)")
    momentum: float = Field(
        0.5, ge=0, lt=1, description="share of the last step that is added to the next one (beta)"
    )
    warm_start_epochs: int = Field(
        20, ge=0, description="epochs of training on the server's shadow set before round 1"
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
    """Compute a step with momentum along ``delta`` [d], and the velocity v [d]."""
    v = config.momentum * v - delta
    return -config.lr * v, {"v": v}


begin, apply = _server_optimizer.optimizer(step, "v")
