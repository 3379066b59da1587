"""Optimizers on the server: each is a step from the clients' mean update, taken by a copy of the
model without noise.

    Delta_t = (theta_t + mean update) - x_t    theta_t: what was sent, with any noise
                                               x_t: the server's own copy
    x_{t+1} = x_t + step(Delta_t)              the privacy slot is applied before it is sent

Without noise theta_t = x_t, and Delta_t is the mean update (Reddi et al. 2021, algorithm 2). With
noise the two differ, as in Flower 1.13: clients' updates are measured and clipped against theta_t,
and the server steps from x_t. So the noise of one round does not stay in the server's copy, but it
does enter Delta_t.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.core.metric import AGGREGATION, magnitude
from algorithms.interfaces import Metrics, State

METRICS = (magnitude("server_step", AGGREGATION, "norm of the server's step", unit=""),)


def optimizer(
    step: Callable[..., tuple[Doubles, dict[str, Any]]], *moments: str
) -> tuple[Any, Any]:
    """Return ``begin`` and ``apply`` of the optimizer whose ``moments`` [d], all zero at first,
    have these names.

    ``step(config, Delta_t, **moments)`` computes the step [d] and the new moments; ``rounds`` [1]
    counts rounds.
    """

    def begin(config: Any, params: Floats) -> State:
        """Return the server's own copy of the model, ``current`` [d], and the optimizer's
        moments [d], in float32.
        """
        state = {"current": params.copy()}
        for name in moments:
            rounds = name == "rounds"
            state[name] = np.zeros(1, np.int64) if rounds else np.zeros_like(params)
        return state

    def apply(
        config: Any, state: State, params: Floats, received: ClientUpdates
    ) -> tuple[Floats, State, Metrics]:
        """Take the step in float64; return new parameters [d] in float32, the state, and the
        step's L2 norm.
        """
        delta = params + received.mean - state["current"]
        known = {name: state[name] for name in moments}
        moved, updated = step(config, delta, **known)
        current = (state["current"] + moved).astype(np.float32)
        new = {"current": current}
        for name, array in updated.items():
            new[name] = array.astype(state[name].dtype)
        length = float(np.linalg.norm(moved))
        return current, new, {"server_step": length}

    return begin, apply
