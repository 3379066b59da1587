"""What the training slot can be asked for besides an optimizer: whole batches, short gradients,
memory, and what it refuses.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from algorithms.core.messages import Assignment, Weights
from algorithms.engine import block
from algorithms.engine.backends import loop
from algorithms.engine.backends.optimizers import Optimizer
from algorithms.interfaces import Run
from algorithms.training import local_sgd
from algorithms.training.local_sgd import PADDING, Config, one_pass, schedule
from tests.algorithms.engine.test_block import (
    BACKENDS,
    DATA,
    a_network,
    a_run,
    models_of,
    stream,
    trained,
)
from tests.support.stand_ins import StandIn

EVERYBODY, ASSIGNMENT = tuple(range(6)), [0, 1, 1, 0, 1, 0]


@given(st.integers(1, 60), st.integers(1, 25), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_last_batch_is_dropped_only_where_not_full_and_not_alone(examples, batch, seed):
    every = one_pass(examples, batch, np.random.default_rng(seed))
    some = one_pass(examples, batch, np.random.default_rng(seed), drop_last=True)
    assert some.tolist() == every[: len(some)].tolist()
    assert len(some) == max(1, examples // batch)
    assert (some != PADDING).all() or (len(some) == 1 and examples < batch)


# Gradients of bounded length


def one_step(backend: str, clients: tuple[int, ...] = EVERYBODY, **fields: Any) -> np.ndarray:
    """How far each client's weights move in a single step over all of its examples."""
    run = a_run(backend, local_step="one_batch", **fields)
    start = np.stack([models_of(a_network(run))[ASSIGNMENT[client]].params for client in clients])
    return trained(run, clients, ASSIGNMENT).params - start


@BACKENDS
def test_a_long_gradient_is_shortened_for_each_client_alone(backend):
    free, limit = one_step(backend, lr=1.0), 0.6
    lengths = np.linalg.norm(free, axis=1)
    assert lengths.min() < limit < lengths.max()
    expected = free * np.minimum(1, limit / lengths)[:, None]
    np.testing.assert_allclose(one_step(backend, lr=1.0, clip_gradient=limit), expected, atol=1e-6)


@BACKENDS
def test_clipping_comes_before_weight_decay_and_momentum_as_in_pytorch(backend):
    """Client 0, with 7 examples in one batch, takes two steps beside torch's own clipping and
    optimizer.
    """
    fields = {
        "lr": 0.5,
        "momentum": 0.9,
        "weight_decay": 0.1,
        "clip_gradient": 0.3,
        "batch_size": 7,
    }
    run = a_run(backend, **fields)
    net = nn.Sequential(nn.Linear(10, 4), nn.ReLU(), nn.Linear(4, 2))
    nn.utils.vector_to_parameters(
        torch.from_numpy(models_of(a_network(run))[0].params), net.parameters()
    )
    velocity = [torch.zeros_like(array) for array in net.parameters()]
    mine, lengths = DATA.client(0), []
    for _ in range(2):
        net.zero_grad()
        nn.functional.cross_entropy(
            net(torch.from_numpy(mine.x)), torch.from_numpy(mine.y)
        ).backward()
        lengths.append(float(nn.utils.clip_grad_norm_(net.parameters(), 0.3)))
        with torch.no_grad():
            for array, speed in zip(net.parameters(), velocity, strict=True):
                assert array.grad is not None
                speed.mul_(0.9).add_(array.grad + 0.1 * array)
                array -= 0.5 * speed
    assert max(lengths) > 0.3
    expected = nn.utils.parameters_to_vector(net.parameters()).detach().numpy()
    np.testing.assert_allclose(trained(run, (0,), [0] * 6).params[0], expected, atol=2e-6)


LASTING = {"momentum": {"momentum": 0.9, "lr": 0.1}, "adam": {"optimizer": "adam", "lr": 0.01}}


def two_rounds(run: Run, clients: tuple[int, ...]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The second round starts where each client ended the first, on the same batches."""
    network = a_network(run)
    assigned = Assignment(clients, np.zeros(len(clients), int), 0)
    first = block.train(run, DATA, network, models_of(network, 1), assigned, stream)
    own = [Weights(params, np.zeros(0, np.float32)) for params in first.params]
    assigned = Assignment(
        clients, np.arange(len(clients)), 1, optimizer_states=first.optimizer_states
    )
    second = block.train(run, DATA, network, own, assigned, stream)
    return second.params, second.optimizer_states


@BACKENDS
@pytest.mark.parametrize("fields", LASTING.values(), ids=LASTING)
def test_two_rounds_with_memory_are_one_of_twice_the_length(backend, fields):
    """Clients of 7, 40 and 23 examples take 1, 5 and 3 steps of 8 in each of two passes."""
    run, clients = a_run(backend, optimizer_state="persist", **fields), (0, 1, 3)
    found, carried = two_rounds(run, clients)
    network = a_network(run)
    for i, client in enumerate(clients):
        network.load(models_of(network, 1)[0])
        mine, training = DATA.client(client), run.training.config
        plan = np.concatenate([schedule(training, len(mine), None, stream("batches", client))] * 2)
        optimizer = Optimizer(training, training.lr)
        gradient = loop.client_gradient(network, run.training, run.objective, mine, {})
        loop.train(network, mine, plan, optimizer, gradient)
        np.testing.assert_allclose(found[i], network.weights().params, atol=2e-5)
        np.testing.assert_allclose(carried["moments"][i], torch.stack(optimizer.moments), atol=2e-5)
        assert carried["steps"][i] == len(plan) == optimizer.steps
    forgetful, nothing = two_rounds(a_run(backend, **fields), clients)
    assert np.abs(forgetful - found).max() > 1e-3
    assert nothing == {}


# What goes together


def with_parts(run: Run, objective: dict[str, Any] | None = None, **model: Any) -> Run:
    """``run`` whose model and objective declare something else of themselves."""
    own = {"CONVOLUTIONAL": False, "BATCH_NORM": False} | model
    return replace(
        run,
        model=StandIn(name="net", module=SimpleNamespace(**own), config=None),  # type: ignore[arg-type]
        objective=StandIn(name="goal", module=SimpleNamespace(**(objective or {})), config=None),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ({}, ""),
        ({"BATCH_NORM": True}, "batch norm"),
        ({"RANDOM": True}, "dropout"),
        ({"objective": {"VMAP": False}}, "goal"),
    ],
)
def test_what_cannot_be_vectorized_is_trained_in_turn_and_vmap_is_refused(parts, word):
    run = with_parts(a_run(), **parts)
    assert local_sgd.resolve(Config(), run).backend == ("loop" if word else "vmap")
    found = local_sgd.problems(Config(backend="vmap"), run)
    assert [(field, word in sentence) for field, sentence in found] == (
        [("backend", True)] if word else []
    )
    assert local_sgd.problems(Config(backend="loop"), run) == []
