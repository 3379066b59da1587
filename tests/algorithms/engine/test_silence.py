"""Clients that take part and send back what they were sent."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.core.messages import Assignment, Weights
from algorithms.core.noise import Zeros
from algorithms.engine import server
from algorithms.engine.block import TrainedBlock, silence, sum_updates
from orchestrator.config.run import resolve
from tests.support.planted import given

SENT = [Weights(np.array([1.0, 2.0], np.float32), np.array([0.5], np.float32))]


def block() -> tuple[TrainedBlock, Assignment]:
    params, buffers = (
        np.array([[2, 2], [1, 5], [0, 0]], np.float32),
        np.array([[1], [2], [3]], np.float32),
    )
    states = {"momentum": np.arange(3)}
    return TrainedBlock(params, buffers, np.array([0.1, 0.2, 0.3]), states), Assignment(
        (4, 5, 6), np.zeros(3, int), 0
    )


def test_a_silent_client_moves_nothing_but_counts():
    trained, assigned = block()
    before = trained.params.copy()
    quiet = silence(trained, assigned, SENT, (5, 7))  # nobody is 7 here
    assert (trained.params == before).all()  # nothing is changed in place
    assert quiet.params.tolist() == [[2, 2], [1, 2], [0, 0]]
    assert quiet.buffers.tolist() == [[1], [0.5], [3]]
    assert (quiet.loss == trained.loss).all() and quiet.optimizer_states is trained.optimizer_states
    part = sum_updates(
        resolve(given()), quiet, (4, 5, 6), SENT, assigned.chosen, np.array([1, 1, 2])
    )[0]
    assert part.weights.tolist() == [1, 1, 2]  # as before
    assert part.total.tolist() == [1 * 1 + 2 * -1, 2 * -2]
    assert part.norms[1] == 0


def test_no_noise_is_zeros_once_and_nothing_where_none_is_added():
    noise = server.no_noise(resolve(given(privacy="global_dp")), 3)
    assert isinstance(noise, Zeros)
    assert noise.take().tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="already been used"):
        noise.take()
    assert server.no_noise(resolve(given()), 3) is None
