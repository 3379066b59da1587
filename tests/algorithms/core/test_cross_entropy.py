"""The mean cross-entropy against torch's own, on the loop and under vmap, and what it leaves unloaded."""

import subprocess
import sys

import pytest
import torch
from torch.func import vmap
from torch.nn.functional import cross_entropy

from algorithms.core.gradients import IGNORED, mean_cross_entropy


def _batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(6, 9, 4, generator=generator)
    labels = torch.randint(0, 4, (6, 9), generator=generator)
    labels[1, 5:] = IGNORED
    return logits, labels


@pytest.mark.parametrize("together", [False, True])
def test_values_and_slopes_are_those_of_torch(together: bool) -> None:
    logits, labels = _batch()
    a, b = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    if together:
        values, expected = vmap(mean_cross_entropy)(a, labels), vmap(cross_entropy)(b, labels)
    else:
        values = torch.stack([mean_cross_entropy(x, y) for x, y in zip(a, labels, strict=True)])
        expected = torch.stack([cross_entropy(x, y) for x, y in zip(b, labels, strict=True)])
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=0)
    gradient, wanted = torch.autograd.grad(values.sum(), a)[0], torch.autograd.grad(expected.sum(), b)[0]
    torch.testing.assert_close(gradient, wanted, rtol=1e-6, atol=1e-9)


def test_a_value_known_by_hand() -> None:
    # Two equal logits: ln 2 for the example that counts; the other is padding.
    loss = mean_cross_entropy(torch.tensor([[3.0, 3.0], [9.0, 0.0]]), torch.tensor([1, IGNORED]))
    assert loss.item() == pytest.approx(0.6931472)


def test_padding_has_no_gradient() -> None:
    logits, labels = _batch()
    moving = logits[1].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(mean_cross_entropy(moving, labels[1]), moving)
    assert (gradient[5:] == 0).all() and (gradient[:5] != 0).any()


def test_halves_are_widened() -> None:
    assert mean_cross_entropy(torch.zeros(2, 3, dtype=torch.bfloat16), torch.tensor([0, 1])).dtype == torch.float32


def test_a_step_of_all_clients_loads_no_symbolic_algebra() -> None:
    # torch's own cross-entropy does, under vmap, and every worker process would pay seconds for it.
    code = (
        "import sys, torch\n"
        "from torch.func import vmap\n"
        "from algorithms.core.gradients import mean_cross_entropy\n"
        "logits = torch.randn(2, 3, 4, requires_grad=True)\n"
        "vmap(mean_cross_entropy)(logits, torch.zeros(2, 3, dtype=torch.long)).sum().backward()\n"
        "assert 'sympy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
