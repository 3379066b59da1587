"""Optimizers on flat vectors, beside PyTorch's own and by hand."""

from typing import Any

import numpy as np
import pytest
import torch

from algorithms.engine.backends.optimizers import Optimizer, optimizer_state, resume_optimizer
from algorithms.training.local_sgd import Config
from tests.support.torchs_own import TorchsOwn

KINDS: dict[str, dict[str, Any]] = {
    "sgd": {"lr": 0.1},
    "momentum": {"lr": 0.1, "momentum": 0.9},
    "decay": {"lr": 0.1, "weight_decay": 0.03},
    "nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "momentum and decay": {"lr": 0.05, "momentum": 0.5, "weight_decay": 0.03},
    "adam": {"optimizer": "adam", "lr": 0.01},
    "adam of Keras": {"optimizer": "adam", "lr": 0.01, "adam_epsilon": 1e-7},
    "adam and decay": {"optimizer": "adam", "lr": 0.01, "weight_decay": 0.03},
}
every_kind = pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)


def optimizer(fields: dict[str, Any]) -> Optimizer:
    config = Config(**fields)
    return Optimizer(config, config.lr)


def draws(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def torchs_own(fields: dict[str, Any], params: torch.Tensor, grads: torch.Tensor) -> torch.Tensor:
    """Where PyTorch's optimizer of the same name goes from ``params`` [d] with ``grads`` [steps,
    d].
    """
    weights = params.clone()
    reference = TorchsOwn(Config(**fields), [weights])
    for grad in grads:
        reference.step([grad.clone()])
    return weights


@every_kind
def test_twenty_steps_end_where_pytorch_ends(fields):
    params, grads = draws(30), draws(20, 30) * torch.logspace(-3, 3, 30)
    ours, own, before = params.clone(), optimizer(fields), grads.clone()
    for grad in grads:
        own.step(ours, grad)
    np.testing.assert_allclose(ours, torchs_own(fields, params, grads), rtol=1e-6, atol=1e-6)
    assert torch.equal(grads, before)


@every_kind
@pytest.mark.parametrize("steps", [(20, 20, 20, 20), (7, 4, 4, 1)])
def test_many_clients_step_as_each_would_alone_and_those_that_have_finished_stay(fields, steps):
    """The active clients are the first rows."""
    params, grads = draws(4, 5), draws(max(steps), 4, 5)
    stepped, together = params.clone(), optimizer(fields)
    for step in range(max(steps)):
        active = sum(own > step for own in steps)
        together.step(stepped[:active], grads[step, :active])
    for i, own in enumerate(steps):
        expected = torchs_own(fields, params[i], grads[:own, i])
        np.testing.assert_allclose(stepped[i], expected, rtol=1e-6, atol=1e-6)


# From round to round

LASTING = {"momentum": KINDS["momentum"], "nesterov": KINDS["nesterov"], "adam": KINDS["adam"]}
every_lasting = pytest.mark.parametrize("fields", LASTING.values(), ids=LASTING)
CPU = torch.device("cpu")


def stepped(
    config: Config, carried: dict[str, np.ndarray], params: torch.Tensor, grads: torch.Tensor
) -> dict[str, Any]:
    """Resume an optimizer, step ``params`` in place along each of ``grads``, and return what is
    left of it.
    """
    own = resume_optimizer(config, config.lr, carried, tuple(params.shape), CPU)
    for grad in grads:
        own.step(params, grad)
    return optimizer_state(own)


@every_lasting
def test_an_optimizer_that_was_kept_goes_on_as_if_there_had_been_no_break(fields):
    config, grads, whole, cut = (
        Config(**fields, optimizer_state="persist"),
        draws(6, 30),
        draws(30),
        draws(30),
    )
    stepped(config, {}, whole, grads)
    carried = stepped(config, stepped(config, {}, cut, grads[:2]), cut, grads[2:])
    assert cut.numpy().tobytes() == whole.numpy().tobytes()
    assert carried["steps"] == 6


@every_lasting
def test_clients_with_unequal_histories_go_on_together_as_each_would_alone(fields):
    config, grads, alone, before = (
        Config(**fields, optimizer_state="persist"),
        draws(9, 3, 5),
        draws(3, 5),
        (0, 2, 5),
    )
    carried = [stepped(config, {}, alone[i], grads[:steps, i]) for i, steps in enumerate(before)]
    together = alone.clone()
    joint = stepped(
        config,
        {name: np.stack([one[name] for one in carried]) for name in carried[0]},
        together,
        grads[5:],
    )
    for i, mine in enumerate(carried):
        after = stepped(config, mine, alone[i], grads[5:, i])
        np.testing.assert_allclose(joint["moments"][i], after["moments"], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(together, alone, rtol=1e-6, atol=1e-6)
    assert joint["steps"].tolist() == [steps + 4 for steps in before]


def test_who_never_took_part_begins_with_zeros_whatever_stands_there():
    config = Config(**KINDS["adam"], optimizer_state="persist")
    carried = {"moments": np.full((3, 2, 3), np.nan, np.float32), "steps": np.array([0, 7, 7])}
    carried["moments"][1], carried["moments"][2, 0] = (
        2,
        2,
    )  # and who diverged once, whose update counted as none
    resumed = optimizer_state(resume_optimizer(config, 0.1, carried, (3, 3), CPU))
    assert resumed["moments"].tolist() == [[[0.0] * 3] * 2, [[2.0] * 3] * 2, [[0.0] * 3] * 2]
    assert resumed["steps"].tolist() == [0, 7, 0]
