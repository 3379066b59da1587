"""The server's half of a round: what the clients of a cluster sent becomes that cluster's next model."""

from __future__ import annotations

from typing import Any

import numpy as np

from algorithms.messages import Received, Weights

State = dict[str, np.ndarray]


def begin(run: Any, model: Weights) -> State:
    """The aggregation's own state before the first round."""
    return run.aggregation.module.begin(run.aggregation.config, model.params)


def step(
    run: Any, state: State, model: Weights, received: Received, rng: np.random.Generator
) -> tuple[Weights, State, dict[str, Any]]:
    """Aggregate, then release under the privacy slot; running statistics are averaged with the same weights.

    Returns the model that is sent out next, the aggregation's state, and what either slot reports of this round.
    """
    aggregation, privacy = run.aggregation, run.privacy
    params, state, facts = aggregation.module.apply(aggregation.config, state, model.params, received)
    params, more = privacy.module.release(privacy.config, params, received, rng)
    return Weights(params, received.buffers.astype(np.float32)), state, facts | more
