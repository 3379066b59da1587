"""Optimizers on flat vectors, beside PyTorch's own and by hand."""

from typing import Any

import numpy as np
import pytest
import torch

from algorithms.core.gradients import clip_gradients
from algorithms.engine.backends.optimizers import Optimizer, optimizer_state, resume_optimizer
from algorithms.training.local_sgd import Config
from tests.support.torchs_own import TorchsOwn

pytestmark = pytest.mark.usefixtures("one_thread")

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
    """Where PyTorch's optimizer of the same name goes from ``params`` [d] with ``grads`` [steps, d]."""
    weights = params.clone()
    reference = TorchsOwn(Config(**fields), [weights])
    for grad in grads:
        reference.step([grad.clone()])
    return weights


@every_kind
def test_twenty_steps_end_where_pytorch_ends(fields):
    params, grads = draws(30), draws(20, 30) * torch.logspace(-3, 3, 30)
    ours, own = params.clone(), optimizer(fields)
    for grad in grads:
        own.step(ours, grad)
    np.testing.assert_allclose(ours, torchs_own(fields, params, grads), rtol=1e-6, atol=1e-6)


@every_kind
def test_many_clients_step_as_each_would_alone(fields):
    params, grads = draws(4, 11), draws(20, 4, 11)
    stepped, together = params.clone(), optimizer(fields)
    for grad in grads:
        together.step(stepped, grad)
    for i in range(4):
        np.testing.assert_allclose(stepped[i], torchs_own(fields, params[i], grads[:, i]), rtol=1e-6, atol=1e-6)


@every_kind
def test_clients_that_have_finished_stay_and_do_not_disturb_the_others(fields):
    """The active clients are the first rows: 7, 4, 4 and 1 steps."""
    steps, params, grads = (7, 4, 4, 1), draws(4, 5), draws(7, 4, 5)
    stepped, together = params.clone(), optimizer(fields)
    for step in range(max(steps)):
        active = sum(own > step for own in steps)
        together.step(stepped[:active], grads[step, :active])
    for i, own in enumerate(steps):
        expected = torchs_own(fields, params[i], grads[:own, i])
        np.testing.assert_allclose(stepped[i], expected, rtol=1e-6, atol=1e-6)


def test_by_hand_sgd():
    weights, own = torch.tensor([1.0]), optimizer({"lr": 0.5})
    own.step(weights, torch.tensor([2.0]))
    assert weights.item() == 0


def test_by_hand_weight_decay_pulls_to_zero():
    weights, own = torch.tensor([1.0]), optimizer({"lr": 0.5, "weight_decay": 0.5})
    own.step(weights, torch.tensor([0.0]))
    assert weights.item() == 0.75


def test_by_hand_momentum_remembers_the_step_before():
    weights, own = torch.tensor([0.0]), optimizer({"lr": 1.0, "momentum": 0.5})
    own.step(weights, torch.tensor([4.0]))
    own.step(weights, torch.tensor([0.0]))
    assert weights.item() == -4 - 2


def test_by_hand_the_first_step_of_adam_is_the_learning_rate():
    weights, own = torch.zeros(3), optimizer({"optimizer": "adam", "lr": 0.25})
    own.step(weights, torch.tensor([1e-3, -50.0, 0.0]))
    assert weights.tolist() == pytest.approx([-0.25, 0.25, 0.0], abs=1e-5)


@every_kind
def test_gradients_are_read_and_not_changed(fields):
    grad, own = draws(6), optimizer(fields)
    for _ in range(3):
        own.step(draws(6), grad)
    assert torch.equal(grad, draws(6))


@pytest.mark.parametrize("fields", [KINDS["momentum"], KINDS["adam"]], ids=["momentum", "adam"])
def test_a_new_optimizer_knows_nothing_of_the_one_before(fields):
    def two_steps(second: Optimizer, first: Optimizer) -> torch.Tensor:
        weights = draws(6)
        first.step(weights, draws(2, 6)[0])
        second.step(weights, draws(2, 6)[1])
        return weights

    old = optimizer(fields)
    assert not torch.equal(two_steps(old, old), two_steps(optimizer(fields), optimizer(fields)))


# From round to round

LASTING = {"momentum": KINDS["momentum"], "nesterov": KINDS["nesterov"], "adam": KINDS["adam"]}
every_lasting = pytest.mark.parametrize("fields", LASTING.values(), ids=LASTING)
CPU = torch.device("cpu")


@every_lasting
def test_an_optimizer_that_was_kept_goes_on_as_if_there_had_been_no_break(fields):
    config, grads, whole, cut = Config(**fields, optimizer_state="persist"), draws(6, 30), draws(30), draws(30)
    own = resume_optimizer(config, config.lr, {}, (30,), CPU)
    for grad in grads:
        own.step(whole, grad)
    carried: dict[str, np.ndarray] = {}
    for part in grads[:2], grads[2:]:
        own = resume_optimizer(config, config.lr, carried, (30,), CPU)
        for grad in part:
            own.step(cut, grad)
        carried = optimizer_state(own)
    assert cut.numpy().tobytes() == whole.numpy().tobytes()
    assert carried["steps"] == 6


@every_lasting
def test_clients_with_unequal_histories_go_on_together_as_each_would_alone(fields):
    config, grads, together = Config(**fields, optimizer_state="persist"), draws(9, 3, 5), draws(3, 5)
    alone, before, after = together.clone(), (0, 2, 5), 4
    carried = []
    for i, steps in enumerate(before):
        own = resume_optimizer(config, config.lr, {}, (5,), CPU)
        for grad in grads[:steps, i]:
            own.step(alone[i], grad)
        carried.append(optimizer_state(own))
    together.copy_(alone)
    joint = resume_optimizer(
        config, config.lr, {name: np.stack([one[name] for one in carried]) for name in carried[0]}, (3, 5), CPU
    )
    for grad in grads[5:]:
        joint.step(together, grad)
    for i, mine in enumerate(carried):
        own = resume_optimizer(config, config.lr, mine, (5,), CPU)
        for grad in grads[5:, i]:
            own.step(alone[i], grad)
        np.testing.assert_allclose(
            optimizer_state(joint)["moments"][i], optimizer_state(own)["moments"], rtol=1e-6, atol=1e-7
        )
    np.testing.assert_allclose(together, alone, rtol=1e-6, atol=1e-6)
    assert optimizer_state(joint)["steps"].tolist() == [steps + after for steps in before]


def test_who_never_took_part_begins_with_zeros_whatever_stands_there():
    config = Config(**KINDS["adam"], optimizer_state="persist")
    carried = {"moments": np.full((2, 2, 3), np.nan, np.float32), "steps": np.array([0, 7])}
    carried["moments"][1] = 2
    moments = optimizer_state(resume_optimizer(config, 0.1, carried, (2, 3), CPU))["moments"]
    assert moments.tolist() == [[[0.0] * 3] * 2, [[2.0] * 3] * 2]


@pytest.mark.parametrize("fields", [{"optimizer_state": "reset", **KINDS["adam"]}, {"optimizer_state": "persist"}])
def test_nothing_is_kept_where_nothing_lasts(fields):
    own = resume_optimizer(Config(**fields), 0.1, {}, (4,), CPU)
    own.step(draws(4), draws(4))
    assert optimizer_state(own) == {}


def test_a_gradient_is_clipped_row_by_row_and_a_short_one_is_left():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert clip_gradients(rows, 1.0).tolist() == [pytest.approx([0.6, 0.8]), pytest.approx([0.3, 0.4]), [0.0, 0.0]]
    assert clip_gradients(rows[0], 10.0).tolist() == [3.0, 4.0]
