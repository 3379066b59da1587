"""What an objective is told besides its batch: the weights that were sent, what it carries from
step to step, and chance.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from scipy import stats

from algorithms.engine.backends.client_inputs import generator
from algorithms.interfaces import Run
from algorithms.objectives import plain
from tests.algorithms.engine.test_block import BACKENDS, a_network, a_run, models_of, trained
from tests.support.stand_ins import StandIn

CLIENTS = (0, 1, 4)  # of 7, 40 and 12 examples, which take 1, 5 and 2 steps of 8
STEPS = np.array([1, 5, 2])


def with_objective(backend: str, lr: float = 0.1, **functions: Any) -> Any:
    """A run whose objective is made of ``functions``; its cross-entropy is there, but weighs
    nothing.
    """
    goal = functions.pop("loss")

    def loss(config: Any, forward: Any, arrays: Any, x: Any, y: Any, context: Any) -> torch.Tensor:
        return 0 * plain.loss(config, forward, arrays, x, y, context) + goal(arrays, context)

    module = SimpleNamespace(loss=loss, **functions)
    run = a_run(backend, epochs=1, batch_size=8, lr=lr)
    return replace(run, objective=StandIn(module=module, config=plain.Config(), name="goal"))  # type: ignore[arg-type]


def moved(run: Run, clients: tuple[int, ...] = CLIENTS, told: Any = None) -> np.ndarray:
    """[clients, d] how far the weights went, all clients starting from the same model."""
    return trained(run, clients, [0] * 6, context=told).params - models_of(a_network(run))[0].params


def everything(arrays: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.stack([array.sum() for array in arrays.values()]).sum()


def each_moved(far: np.ndarray) -> np.ndarray:
    """All weights of a client moved as far [clients]."""
    return np.repeat(far[:, None], a_network(a_run()).layout.size, axis=1)


# What was sent


@BACKENDS
def test_what_was_sent_stays_while_the_weights_move(backend):
    """||w - sent||^2 / 2 + sum(w): with steps of lr, w - sent = -(1 - (1 - lr)^steps) in every coordinate."""

    def goal(arrays: Any, context: Any) -> torch.Tensor:
        apart = {name: (arrays[name] - sent).square() / 2 for name, sent in context["sent"].items()}
        return everything(apart) + everything(arrays)

    found = moved(with_objective(backend, loss=goal, NEEDS=("sent",)))
    np.testing.assert_allclose(found, each_moved(-(1 - 0.9**STEPS)), atol=1e-5)


@BACKENDS
def test_an_objective_sees_what_it_asked_for_and_no_more(backend):
    seen = []

    def goal(arrays: Any, context: Any) -> torch.Tensor:
        seen.append(set(context))
        return context["rho"] * everything(arrays)

    told = {"rho": np.array([1.0, 2.0, 0.5]), "lambda_max": np.full(3, np.nan)}
    found = moved(with_objective(backend, loss=goal, NEEDS=("rho",)), told=told)
    assert all(names == {"rho"} for names in seen)
    np.testing.assert_allclose(found, each_moved(-0.1 * told["rho"] * STEPS), atol=1e-5)


# What is carried


@BACKENDS
def test_a_carry_is_made_once_and_advanced_before_every_step(backend):
    """A counter as gradient: 1 + 2 + ... + steps."""
    shapes = []

    def carry(config: Any, forward: Any, arrays: Any, shape: Any, generator: Any) -> Any:
        shapes.append(shape)
        assert not torch.is_grad_enabled()
        return {"count": torch.zeros(())}

    def advance(config: Any, forward: Any, arrays: Any, carry: Any, x: Any) -> Any:
        assert not torch.is_grad_enabled()
        return {"count": carry["count"] + 1}

    def goal(arrays: Any, context: Any) -> torch.Tensor:
        return context["carry"]["count"] * everything(arrays)

    found = moved(with_objective(backend, loss=goal, ITERATES=True, carry=carry, advance=advance))
    assert shapes == [(10,)] * 3
    np.testing.assert_allclose(found, each_moved(-0.1 * STEPS * (STEPS + 1) / 2), atol=1e-5)


def probing(backend: str) -> Any:
    """An objective that pulls along random directions; advancing turns them by the network's own
    weights.
    """

    def carry(
        config: Any, forward: Any, arrays: Any, shape: Any, generator: torch.Generator
    ) -> Any:
        return {
            name: torch.randn(array.shape, generator=generator)
            for name, array in sorted(arrays.items())
        }

    def advance(config: Any, forward: Any, arrays: Any, carry: Any, x: Any) -> Any:
        return {name: carry[name] + arrays[name] for name in carry}

    def goal(arrays: Any, context: Any) -> torch.Tensor:
        return everything({name: arrays[name] * context["carry"][name] for name in arrays})

    return with_objective(backend, loss=goal, ITERATES=True, carry=carry, advance=advance)


def test_the_backends_carry_alike_and_chance_belongs_to_the_client():
    together, in_turn = moved(probing("vmap")), moved(probing("loop"))
    np.testing.assert_allclose(together, in_turn, atol=1e-5)
    assert np.abs(in_turn[0] - in_turn[2]).max() > 0.1
    for i, client in enumerate(CLIENTS):
        assert moved(probing("loop"), (client,))[0].tobytes() == in_turn[i].tobytes()
        np.testing.assert_allclose(moved(probing("vmap"), (client,))[0], in_turn[i], atol=1e-5)


def test_the_state_of_a_generator_for_cpus_has_more_than_the_32_bits_of_torchs_seed():
    """Whoever sees noise could try 2^32 seeds, and among 100 000 draws of noise two would
    probably be equal.
    """
    cpu = torch.device("cpu")
    ours = generator(np.random.default_rng(5), cpu)
    again = np.random.default_rng(5)
    seed, words = int(again.integers(2**63)), again.integers(2**32, size=624, dtype=np.int64)
    held = np.frombuffer(ours.get_state().numpy().tobytes(), np.uint8)[24 : 24 + 8 * 624].view(
        np.int64
    )
    assert np.array_equal(held, words)
    drawn = torch.randn(50_000, generator=ours)
    assert not torch.equal(
        drawn, torch.randn(50_000, generator=torch.Generator(cpu).manual_seed(seed))
    )
    assert torch.equal(
        drawn, torch.randn(50_000, generator=generator(np.random.default_rng(5), cpu))
    )
    assert stats.kstest(drawn.numpy(), "norm").pvalue > 1e-3
    assert len(np.unique(drawn.numpy())) > 49_000
