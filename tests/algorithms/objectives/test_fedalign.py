"""FedAlign: the estimate of a stage's Lipschitz constant, and the gradient that teaches the
narrow pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from algorithms.core.initialization import initialize
from algorithms.models._slimmable import Basic, Bottleneck, ResNet
from algorithms.objectives import fedalign

EXACT = fedalign.Config(power_steps=300)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def net(block: Any = Bottleneck) -> ResNet:
    """One block a stage, in double precision, so that gradients can be compared closely."""
    module = ResNet(block, 1, 1, 3).double()
    initialize(module, torch.Generator().manual_seed(0))
    return module.train()


def forward_of(module: nn.Module) -> Any:
    return lambda arrays, x, **options: module(x, **options)


def gradient(loss: torch.Tensor, module: nn.Module) -> dict[str, torch.Tensor]:
    named = dict(module.named_parameters())
    gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {
        n: torch.zeros_like(p) if s is None else s
        for (n, p), s in zip(named.items(), gradients, strict=True)
    }


def objective(
    config: fedalign.Config, module: nn.Module, x: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    return fedalign.loss(config, forward_of(module), dict(module.named_parameters()), x, y, {})


X, Y = drawn(6, 1, 8, 8, seed=1), torch.tensor([0, 1, 2, 0, 1, 1])


# The largest singular value


def test_with_many_steps_it_finds_it_for_any_matrix_and_never_more():
    matrices = drawn(20, 6, 9)
    exact = torch.linalg.svdvals(matrices)[:, 0]
    torch.testing.assert_close(
        fedalign.largest_singular_value(matrices, 2000), exact, rtol=1e-6, atol=0
    )
    first = fedalign.largest_singular_value(matrices, 1)
    assert (first <= exact).all() and (first < 0.99 * exact).any()
    positive = fedalign.largest_singular_value(
        matrices.abs(), 10
    )  # behind a ReLU ten steps are enough
    torch.testing.assert_close(
        positive, torch.linalg.svdvals(matrices.abs())[:, 0], rtol=1e-6, atol=0
    )


def test_a_matrix_of_zeros_has_a_finite_estimate_and_gradient():
    matrices = torch.zeros(2, 3, 4, requires_grad=True)
    found = fedalign.largest_singular_value(matrices, 10)
    assert found.tolist() == pytest.approx([0, 0], abs=1e-5)
    assert not torch.autograd.grad(found.sum(), matrices)[0].any()


def test_the_estimate_pools_features_and_correlates_channels():
    before, after = drawn(3, 2, 4, 4).abs(), drawn(3, 5, 2, 2, seed=1).abs()
    expected = []
    for example in range(3):
        gram = np.zeros((2, 5))
        for row in range(2):
            for column in range(2):
                pooled = (
                    before[example, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
                    .mean((1, 2))
                    .numpy()
                )
                gram += np.outer(pooled, after[example, :, row, column].numpy()) / 4
        expected.append(np.linalg.svd(gram)[1][0])
    assert fedalign.lipschitz(before, after, 100).tolist() == pytest.approx(expected, rel=1e-9)


# The loss


def aligned(module: ResNet) -> tuple[torch.Tensor, torch.Tensor]:
    """CE and L_align by other means: decompositions, and the full width's estimate as a plain
    number.
    """

    def top(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        pooled = nn.functional.avg_pool2d(before, 2)
        return torch.linalg.svdvals(torch.einsum("naij,nbij->nab", pooled, after) / 4)[:, 0]

    x2, x3, logits = module(X, features=True)
    full = torch.tensor(top(x2, x3).tolist(), dtype=torch.float64)
    narrow = module(torch.tensor(x2.tolist(), dtype=torch.float64), narrow=0.25)
    return cross_entropy(logits, Y), ((top(*narrow) - full) ** 2).mean()


@pytest.mark.parametrize("block", [Bottleneck, Basic])
def test_the_gradient_is_that_of_ce_plus_mu_ce_over_l_times_that_of_l(block):
    module = net(block)
    entropy, align = aligned(module)
    factor = 0.45 * entropy.item() / align.item()
    of_entropy, of_align = gradient(entropy, module), gradient(align, module)
    found = gradient(objective(EXACT, module, X, Y), module)
    moved = 0.0
    assert objective(EXACT, module, X, Y).item() == pytest.approx(
        (1 + 0.45) * entropy.item(), rel=1e-9
    )
    for name, own in found.items():
        torch.testing.assert_close(
            own, of_entropy[name] + factor * of_align[name], rtol=1e-5, atol=1e-7
        )
        moved += float((factor * of_align[name]).abs().max())
    assert moved > 1e-2
    assert not any(own.any() for name, own in of_align.items() if not name.startswith("stage3."))


def test_where_both_widths_agree_exactly_only_the_cross_entropy_is_left():
    """All features of the last stage are zero, so are both estimates."""
    module = net()
    for layer in (module.stage3[0].bn3, module.stage3[0].bn0):
        layer.weight.data.zero_()
    loss, entropy = objective(fedalign.Config(), module, X, Y), cross_entropy(module(X), Y)
    assert loss.item() == pytest.approx(entropy.item())
    expected = gradient(entropy, module)
    for name, own in gradient(loss, module).items():
        torch.testing.assert_close(own, expected[name])
    assert expected["linear.bias"].any()


def test_padding_counts_neither_in_the_loss_nor_in_batch_statistics():
    module = net()
    padded = (
        torch.cat([X, 100 * drawn(2, 1, 8, 8, seed=5)]),
        torch.cat([Y, torch.tensor([-100, -100])]),
    )
    losses = [objective(fedalign.Config(), module, *given) for given in (padded, (X, Y))]
    assert torch.equal(*losses)
    gradients = [gradient(loss, module) for loss in losses]
    assert all(torch.equal(gradients[0][name], gradients[1][name]) for name in gradients[0])


def test_running_statistics_end_as_after_one_plain_pass():
    ours, theirs = net(), net()
    objective(fedalign.Config(), ours, X, Y)
    theirs(X)
    for (name, buffer), (_, expected) in zip(
        ours.named_buffers(), theirs.named_buffers(), strict=True
    ):
        assert torch.equal(buffer, expected), name
