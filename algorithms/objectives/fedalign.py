"""FedAlign (Mendieta et al. 2022): aligns the Lipschitz constant of the last stage with that of
its narrow sub-network.

    x2, x3  <- features behind stages 2 and 3, full width;  CE <- cross-entropy of the logits
    x2', x3' <- the first ``width`` of x2's channels, and stage 3 at that width on them
                (x2 held constant)
    G(A, D) = pool(A) D^T / (h w) for each example [C1, C2], A pooled to D's h x w
    s(A, D) = sigma_max(G)
    L_align = mean over examples of ( s(x2', x3') - stopgrad s(x2, x3) )^2
    loss    = CE + mu * stopgrad(CE / L_align) * L_align

The loss's value is therefore (1 + mu) CE, or CE where the two constants agree exactly; L_align
affects only the gradient.

Differences from the paper: none that we found; the factor CE / L_align, the power iteration and its
start are as released. The released code also clips the norm of the whole gradient at 10, which is a
field of ``training`` here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from algorithms.interfaces import ClientInputs, Forward, Problems, Run
from datasets.components import Config as SlotConfig
from datasets.components import complete, components

if TYPE_CHECKING:
    from torch import Tensor

    Arrays = dict[str, Tensor]

LABEL = "FedAlign"
VMAP = False  # its models have batch normalization
MODEL = "resnet56"  # a model to test it with
TINY = 1e-12


class Config(SlotConfig):
    """Fields of FedAlign; the defaults are the paper's."""

    mu: float = Field(
        0.45,
        ge=0,
        le=1000,
        description="gradient of the alignment, as a multiple of the cross-entropy",
    )
    width: float = Field(
        0.25, gt=0, lt=1, description="share of the channels in the narrow pass of the last stage"
    )
    # Features are not negative behind a ReLU, so the top singular value stands well apart and ten
    # steps find it.
    power_steps: int = Field(
        10, ge=1, le=1000, description="steps of the power iteration for the largest singular value"
    )


def problems(config: Config, run: Run) -> Problems:
    """Refuse models whose last stage cannot run at a smaller width."""
    if run.model.module.SLIM:
        return []
    able = [
        name for name in components("algorithms.models") if complete("algorithms.models", name).SLIM
    ]
    return [
        (
            "name",
            f"fedalign needs a model with a slimmable last stage: {', '.join(able)}; got "
            f"{run.model.title}",
        )
    ]


def loss(
    config: Config,
    forward: Forward,
    arrays: Arrays,
    x: Tensor,
    y: Tensor,
    client: ClientInputs,
) -> Tensor:
    """Compute FedAlign's loss in nats over the examples whose label is not -100.

    ``forward`` passes the options ``features`` and ``narrow`` to the model.
    """
    import torch

    from algorithms.core.gradients import IGNORED, mean_cross_entropy

    present = y != IGNORED
    if not present.all():  # dropped, not masked: batch statistics must not see padding either
        x = x[present]
        y = y[present]
    x2, x3, logits = forward(arrays, x, features=True)
    narrow2, narrow3 = forward(arrays, x2.detach(), narrow=config.width)
    with torch.no_grad():
        full = lipschitz(x2, x3, config.power_steps)
    slim = lipschitz(narrow2, narrow3, config.power_steps)
    align = (slim - full).square().mean()
    entropy = mean_cross_entropy(logits, y)
    scale = (entropy / align.clamp(min=TINY)).detach()
    return entropy + config.mu * scale * align


def lipschitz(before: Tensor, after: Tensor, steps: int) -> Tensor:
    """Estimate a stage's Lipschitz constant s for every example [n], from its input [n, C1, H,
    W] and output [n, C2, h, w].
    """
    import torch
    from torch.nn.functional import adaptive_avg_pool2d

    # bf16 has too few bits for power iteration
    with torch.autocast(before.device.type, enabled=False):
        wide = torch.promote_types(after.dtype, torch.float32)
        height, width = after.shape[2:]
        pooled = adaptive_avg_pool2d(before.to(wide), (height, width))
        images = after.to(wide).flatten(2)
        transmitted = pooled.flatten(2) @ images.mT / (height * width)
        return largest_singular_value(transmitted, steps)


def largest_singular_value(matrices: Tensor, steps: int) -> Tensor:
    """Estimate sigma_max [n] of matrices G [n, a, b] from below, by power iteration on G G^T
    from the all-ones vector.

    Where G is zero, the result is 1e-6 with a gradient of zero, instead of NaN.
    """
    rows = matrices.shape[-2]
    vectors = matrices.new_ones(*matrices.shape[:-1], 1) / rows**0.5
    for _ in range(steps):
        image = matrices @ (matrices.mT @ vectors)
        norms = image.norm(dim=1, keepdim=True)
        length = norms.clamp(min=TINY)
        vectors = image / length
    return length.flatten().sqrt()
