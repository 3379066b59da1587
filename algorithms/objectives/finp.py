"""FinP's client side (Zhao et al. 2025): the more a client's curvature stands out, the smoother its fit must be.

    L_k = CE + beta rho_k ( stopgrad(CE) / stopgrad(Lip) ) Lip         rho_k of the round before, 1/2 in the first

The added term's value is beta rho_k CE, whatever Lip is; its gradient is beta rho_k CE grad log Lip. So beta is a fraction of
the cross-entropy, and only the logarithm of Lip is needed (`_lipschitz`); rho is eq. 1 (`algorithms.curvature`).

Differences from the paper: its Lip is the spectral norm of the network's Jacobian in its input, computed it does not say how.
As released, it is the product over layers of the largest row norm, without data, and is scaled to the cross-entropy as above.
The published betas go with that, so it is the default here; true spectral norms of the layers, the Jacobian, and no scaling
are switches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from algorithms.core.configs import CurvatureConfig
from algorithms.curvature.ranking import INITIAL_RHO

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Arrays = dict[str, Tensor]

CONTEXT = ("rho",)


class Config(CurvatureConfig):
    """Fields of FinP's penalty and of the curvature that sets each client's share of it."""

    # The paper's value for ResNet-56 and the fairest one for its CNN on CIFAR-10 (0.05 to 0.5 there, 2 on UCI HAR).
    beta: float = Field(0.1, ge=0, le=1000, description="strength of the penalty; 0 is plain training")
    regularizer: Literal["row_norm_product", "spectral_product", "input_jacobian"] = Field(
        "row_norm_product",
        description="what is made small: product of the layers' largest row norms or spectral norms, or the Jacobian's",
    )
    normalize: Literal["ce_over_lip", "none"] = Field(
        "ce_over_lip", description="scale the penalty to the cross-entropy (as released), or add it as it is"
    )


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    if config.regularizer != "input_jacobian":
        return []
    model, found = run.model, []
    if model.module.BATCH_NORM:
        found.append(f"needs outputs that depend on one example each; {model.name} has batch normalization")
    if getattr(model.module, "RANDOM", False):
        found.append(f"needs the same outputs at every call; {model.name} draws random numbers")
    if getattr(run.training.config, "precision", "float32") != "float32":
        found.append("cannot be differentiated twice in bf16; use training.precision float32")
    return [("regularizer", f"input_jacobian {sentence}") for sentence in found]


def loss(
    config: Config,
    forward: Callable[[Arrays, Tensor], Tensor],
    arrays: Arrays,
    x: Tensor,
    y: Tensor,
    context: dict[str, Any],
) -> Tensor:
    """Penalised mean cross-entropy in nats over the examples whose label is not -100.

    ``context`` holds ``rho``, a number in [0, 1] (1/2 where it is missing), and ``carry`` from `advance`; without it the
    iterations begin at fixed vectors.
    """
    from algorithms.core.cross_entropy import mean_cross_entropy

    entropy = mean_cross_entropy(forward(arrays, x), y)
    if config.beta == 0:
        return entropy
    log_lip = _log_lipschitz(config, forward, arrays, x, y, context)
    strength = config.beta * context.get("rho", INITIAL_RHO)
    if config.normalize == "none":
        return entropy + strength * log_lip.exp()
    return entropy + strength * entropy.detach() * (log_lip - log_lip.detach()).exp()


def carry(
    config: Config,
    forward: Callable[[Arrays, Tensor], Tensor],
    arrays: Arrays,
    shape: tuple[int, ...],
    generator: torch.Generator,
) -> Arrays:
    """What a client's iterations begin with in a round: singular vectors of its weights, or directions for 16 examples."""
    from algorithms.objectives import _lipschitz

    if config.beta == 0 or config.regularizer == "row_norm_product":
        return {}
    if config.regularizer == "spectral_product":
        return _lipschitz.directions(arrays, generator)
    return {"start": _lipschitz.starts(tuple(shape), next(iter(arrays.values())), generator)}


def advance(
    config: Config, forward: Callable[[Arrays, Tensor], Tensor], arrays: Arrays, carry: Arrays, x: Tensor
) -> Arrays:
    """One step of power iteration on the weights; directions for examples stay, because every batch has others."""
    from algorithms.objectives import _lipschitz

    return _lipschitz.advance(arrays, carry) if config.regularizer == "spectral_product" else carry


def _log_lipschitz(
    config: Config,
    forward: Callable[[Arrays, Tensor], Tensor],
    arrays: Arrays,
    x: Tensor,
    y: Tensor,
    context: dict[str, Any],
) -> Tensor:
    from algorithms.objectives import _lipschitz

    carried = context.get("carry")
    if config.regularizer == "row_norm_product":
        return _lipschitz.rows(arrays)
    if config.regularizer == "spectral_product":
        return _lipschitz.spectral(arrays, carried or _lipschitz.directions(arrays))
    start = carried["start"] if carried else _lipschitz.starts(tuple(x.shape[1:]), x)
    return _lipschitz.jacobian(forward, arrays, x, y != -100, start)
