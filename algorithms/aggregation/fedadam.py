"""FedAdam (Reddi et al. 2021, algorithm 2): Adam on the server, with the clients' mean update as
its direction.

    m = beta_1 m + (1 - beta_1) Delta
    v = beta_2 v + (1 - beta_2) Delta^2                                           in each coordinate
    x_{t+1} = x_t + eta_t m / (sqrt(v) + tau),      eta_t = eta sqrt(1 - beta_2^s) / (1 - beta_1^s)

Differences from the paper: v starts at 0 and not at tau^2 or above, and eta_t corrects the bias of
m and v, which the paper does not; both as in Flower 1.13. Flower uses s = t + 1 with t = 1 in the
first round, one more than Adam itself; ``bias_correction`` chooses.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.aggregation import _server_optimizer, fedavg
from algorithms.core.messages import Doubles, Ints

NEEDS = "mean"
LABEL = "FedAdam"
METRICS = _server_optimizer.METRICS


class Config(fedavg.Config):
    """Fields of FedAdam; the defaults are Flower's."""

    eta: float = Field(0.1, gt=0, le=10, description="the server's step size")
    beta_1: float = Field(
        0.9, ge=0, lt=1, description="share of m that is kept from round to round"
    )
    beta_2: float = Field(
        0.99, ge=0, lt=1, description="share of v that is kept from round to round"
    )
    # With so small a tau the first step is eta_t times the sign of the update, however small the
    # update.
    tau: float = Field(
        1e-9, gt=0, le=1, description="added to sqrt(v); the larger, the less adaptive"
    )
    # Flower's first step is three quarters of Adam's with these betas; from round 10 on the two are
    # within one percent.
    bias_correction: Literal["flower", "adam", "none"] = Field(
        "flower",
        description=(
            "exponent s of the betas in eta_t: round + 1 (flower), round (adam), or eta_t = eta"
        ),
    )


problems = fedavg.problems
weigh = fedavg.weigh
warm_start = fedavg.warm_start
equal_weights = fedavg.equal_weights


def rate(config: Config, t: int) -> float:
    """Compute eta_t of round ``t``, where the first round is 1.

    >>> round(rate(Config(eta=0.1, beta_1=0.9, beta_2=0.99), 1), 4)
    0.0742
    """
    if config.bias_correction == "none":
        return config.eta
    s = t + 1 if config.bias_correction == "flower" else t
    root = np.sqrt(1 - config.beta_2**s)
    return float(config.eta * root / (1 - config.beta_1**s))


def step(
    config: Config, delta: Doubles, m: Doubles, v: Doubles, rounds: Ints
) -> tuple[Doubles, dict[str, Doubles | Ints]]:
    """Compute an Adam step along ``delta`` [d], the moments m and v [d], and the number of
    rounds.
    """
    rounds = rounds + 1
    m = config.beta_1 * m + (1 - config.beta_1) * delta
    v = config.beta_2 * v + (1 - config.beta_2) * delta**2
    eta = rate(config, int(rounds[0]))
    moved = eta * m / (np.sqrt(v) + config.tau)
    return moved, {"m": m, "v": v, "rounds": rounds}


begin, apply = _server_optimizer.optimizer(step, "m", "v", "rounds")
