"""How a client moves a model: whether an aggregation is the mean that its ``SENSITIVITY`` says,
on which an epsilon rests.

    x_{t+1} = sum_i w_i u_i + f(theta_1, ..., theta_t)    u_i: a clipped update
                                                          theta: what was sent, with any noise

A client that sends another update moves the new model by w_i times the difference, and leaves the
server's state, of which later models are made, as it was. It may not move the model by less either:
in poisson rounds, ``privacy: global_dp`` takes the mean out of the new model and puts the sum over
another divisor in.
"""

from __future__ import annotations

import numpy as np

from algorithms.core.layout import Layout
from algorithms.core.messages import ClientUpdates, Weights
from algorithms.engine import server
from algorithms.interfaces import Run

STEPS = 16  # of float32 at the largest parameter, by which rounding may move a model
CLIPPED = 0.5  # the share of its length that clipping leaves of every update


def received_updates(
    updates: np.ndarray,
    weights: np.ndarray,
    scales: np.ndarray,
) -> ClientUpdates:
    """Return what three clients sent, ``updates`` [3, 6] that ``scales`` [3] clip; ``weights``
    [3] add up to one.
    """
    return ClientUpdates(
        clients=np.arange(3),
        weights=weights,
        mean=(weights * scales) @ updates.astype(np.float64),
        buffers=np.zeros(0),
        updates=updates,
        own_buffers=np.zeros((3, 0), np.float32),
        norms=np.linalg.norm(updates, axis=1),
        scales=scales,
        statistics={"rho": np.array([0.2, 0.5, 0.9])},
        layout=Layout(("body.weight", "body.bias"), ((2, 2), (2,))),
    )


def unlike_a_mean(run: Run) -> str:
    """Return how a client moves the model, or the server's state, otherwise than a mean.

    It is an empty string if it does not. In each of three rounds, another of three clients sends
    its update, then the opposite in its place, and then zero.
    """
    rng = np.random.default_rng(0)
    sizes = np.array([10, 20, 30])
    weights = server.weigh(run, sizes)
    equal = run.aggregation.module.equal_weights(run.aggregation.config)
    if equal and np.ptp(weights) > 0:
        return f"equal_weights is True and weigh gives {weights}"
    weights = weights / weights.sum()
    params = rng.normal(size=6).astype(np.float32)
    model = Weights(params, np.zeros(0, np.float32))
    state = server.begin(run, model)
    for client in range(3):
        scale = 10.0 ** (client - 1)
        drawn = rng.normal(scale=scale, size=(3, 6))
        updates = drawn.astype(np.float32)
        steps = []
        for factor in (1, -1, 0):
            sent = updates.copy()
            sent[client] *= factor
            received = received_updates(sent, weights, np.full(3, CLIPPED))
            steps.append(
                server.step(
                    run,
                    state,
                    model,
                    received,
                    server.no_noise(run, 6),
                )
            )
            own = updates[client].astype(np.float64)
            due = weights[client] * CLIPPED * (factor - 1) * own
            difference = _unlike(steps[0], steps[-1], due)
            if difference:
                return difference
        noise = rng.normal(size=6).astype(np.float32)
        first = steps[0]
        state = first.state
        model = Weights(first.model.params + noise, model.buffers)
    return ""


def _unlike(
    first: server.Step,
    last: server.Step,
    due: np.ndarray,
) -> str:
    """Return how two steps differ otherwise than by ``due`` [d] in the model."""
    before = first.model.params
    after = last.model.params
    moved = after.astype(np.float64) - before
    largest = np.abs([before, after]).max()
    rounding = STEPS * np.spacing(largest)
    if not np.linalg.norm(moved - due) <= rounding:
        lengths = f"{np.linalg.norm(due):.3g} moves the model by {np.linalg.norm(moved):.3g}"
        return f"a client that moves the mean update by {lengths}; both must move alike"
    for key, array in first.state.items():
        if array.tobytes() != last.state[key].tobytes():
            return (
                f"the server's state {key} depends on updates and not only on the models that were "
                "sent"
            )
    return ""
