"""Shared parts of the aggregations with an optimizer on the server: fields, and a copy of the model without noise.

    Delta_t = (theta_t + mean update) - x_t         theta_t: what was sent, with any noise; x_t: the server's own copy
    x_{t+1} = x_t + step(Delta_t)                   the privacy slot is applied to it before it is sent

Without noise theta_t = x_t, and Delta_t is the mean update (Reddi et al. 2021, algorithm 2). With noise the two differ,
as in Flower 1.13: clients' updates are measured and clipped against theta_t, and the server steps from x_t. So the
noise of one round does not stay in the server's copy, but it does enter Delta_t.
"""

from __future__ import annotations

import numpy as np

from algorithms.aggregation import fedavg
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints
from algorithms.core.metric import AGGREGATION, Metric
from algorithms.interfaces import Metrics, State

METRICS = (Metric("server_step", AGGREGATION, "norm of the server's step", unit=""),)


class ServerConfig(fedavg.Config):
    """Fields of every aggregation that takes optimizer steps on the server."""


problems, weigh, warm_start, equal_weights = fedavg.problems, fedavg.weigh, fedavg.warm_start, fedavg.equal_weights


def begin(params: Floats, *moments: str) -> State:
    """Return the server's state before the first round, in float32.

    Args:
        params: [d] the first model's parameters.
        moments: names of the optimizer's moments.

    Returns:
        The server's copy ``current`` [d] and the moments [d], which are zero.
    """
    return {"current": params.copy()} | {name: np.zeros_like(params) for name in moments}


def difference(state: State, params: Floats, received: ClientUpdates) -> Doubles:
    """Compute Delta_t [d]: the clients' mean model minus the server's own copy.

    Args:
        state: the server's state, with ``current`` [d].
        params: [d] the parameters that the clients were sent.
        received: the clients' updates.
    """
    return params + received.mean - state["current"]


def take_step(state: State, step: Doubles, **moments: Doubles | Ints) -> tuple[Floats, State, Metrics]:
    """Move the server's copy by ``step`` and return the results of ``apply``.

    Args:
        state: the server's state.
        step: [d] the optimizer's step.
        moments: new moments by name, [d] each (or the number of rounds).

    Returns:
        The new parameters [d], the new state, and the L2 norm of the step as a metric.
    """
    current = (state["current"] + step).astype(np.float32)
    updated = {name: array.astype(state[name].dtype) for name, array in moments.items()}
    return current, state | updated | {"current": current}, {"server_step": float(np.linalg.norm(step))}
