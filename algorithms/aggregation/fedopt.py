"""FedOpt as Sainz-Pardo Diaz et al. 2025 ran it: FedAvg from a model that the server has trained on its own examples.

    x_0 <- some epochs on the server's shadow set
    each round:  x_{t+1} = theta_t + mean update

The class ``FedOpt`` of Flower 1.13 is a base for others. It stores a step size and betas, and aggregates like FedAvg; the
values that the paper lists are this class's unused defaults.

Differences from the paper: its text describes a server optimizer; that one is here under its own name, ``fedadam``.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from algorithms.aggregation import _server_optimizer, fedavg
from algorithms.aggregation._server_optimizer import ServerConfig, State
from algorithms.core.messages import ClientUpdates, Floats

NEEDS = "mean"


class Config(ServerConfig):
    """Fields of FedOpt; the warm start is all that sets it apart from FedAvg."""

    warm_start_epochs: int = Field(20, ge=0, description="epochs of training on the server's shadow set before round 1")


problems, weigh = _server_optimizer.problems, _server_optimizer.weigh


def begin(config: Config, params: Floats) -> State:
    """The server keeps nothing between rounds."""
    return fedavg.begin(config, params)


def apply(
    config: Config, state: State, params: Floats, received: ClientUpdates
) -> tuple[Floats, State, dict[str, Any]]:
    """New parameters [d] (float32, added in float64), the server's state, and nothing to report."""
    return fedavg.apply(config, state, params, received)
