"""FinP's client side (Zhao et al. 2025): the more a client's curvature stands out, the more its
network is smoothed.

    L_k = CE + beta rho_k ( stopgrad(CE) / stopgrad(Lip) ) Lip
                                               rho_k of the round before, 1/2 in the first

The added term's value is beta rho_k CE, whatever Lip is; its gradient is beta rho_k CE grad log
Lip. So beta is a fraction of the cross-entropy, and only the logarithm of Lip is needed
(`_lipschitz`); rho is eq. 1 (`algorithms.curvature`).

Differences from the paper: its Lip is the spectral norm of the network's Jacobian with respect to
its input, without saying how it is computed. As released, Lip is the product over layers of the
largest row norm, which needs no data, and is scaled to the cross-entropy as above. The published
betas belong to that form, so it is the default here; true spectral norms of the layers, the
Jacobian, and no scaling are options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from algorithms.interfaces import ClientInputs, Forward, Problems, Run
from datasets.components import Above, read_when
from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Arrays = dict[str, Tensor]

NEEDS = ("rho",)
ITERATES = True  # power iterations continue from step to step
LABEL = "FinP"
COLOR = 3
AGAINST = "source inference on updates"
GUARANTEE = "none: aims at equal exposure of clients"
COST = "smoother networks of clients that stand out; their curvature is sent"
PAPERS = {"FinP": "https://arxiv.org/abs/2502.17748"}
# With these aggregations; paler there without this penalty.
METHODS = {
    "fedavg": ("FinP_client", 3),
    "finp_pca": ("FinP (PCA)", 0),
    "finp_ala": ("FinP (ALA)", 1),
}


class Config(SlotConfig):
    """Fields of FinP's penalty.

    The section ``curvature`` of the run sets how the curvature is measured.
    """

    # The paper's value for ResNet-56, and its fairest one for the CNN on CIFAR-10 (0.05 to 0.5
    # there, 2 on UCI HAR).
    beta: float = Field(
        0.1, ge=0, le=1000, description="strength of the penalty; 0 is plain training"
    )
    regularizer: Literal["row_norm_product", "spectral_product", "input_jacobian"] = Field(
        "row_norm_product",
        description=(
            "what is penalized: product of the layers' largest row norms or spectral norms, or "
            "the Jacobian's"
        ),
        json_schema_extra=read_when(beta=Above(0)),
    )
    normalize: Literal["ce_over_lip", "none"] = Field(
        "ce_over_lip",
        description="scale the penalty to the cross-entropy (as released), or add it as it is",
        json_schema_extra=read_when(beta=Above(0)),
    )


def problems(config: Config, run: Run) -> Problems:
    """Refuse networks without layers to measure, and the Jacobian where it cannot be computed."""
    model = run.model
    reasons = []
    if config.regularizer != "input_jacobian":
        if config.beta == 0 or not model.module.RAW:
            return []
        sentence = (
            f"multiplies norms of layers, but {model.module.RAW[0]} of {model.title} is no "
            "layer's weight"
        )
        return [("regularizer", f"{config.regularizer} {sentence}; use input_jacobian")]
    if model.module.BATCH_NORM:
        reasons.append(
            f"needs outputs that depend on one example each; {model.title} has batch normalization"
        )
    if model.module.RANDOM:
        reasons.append(f"needs the same outputs at every call; {model.title} draws random numbers")
    if run.training.module.reduced_precision(run.training.config):
        reasons.append("cannot be differentiated twice in bf16; use training.precision float32")
    return [("regularizer", f"input_jacobian {sentence}") for sentence in reasons]


def loss(
    config: Config,
    forward: Forward,
    arrays: Arrays,
    x: Tensor,
    y: Tensor,
    client: ClientInputs,
) -> Tensor:
    """Compute the penalized mean cross-entropy in nats over the examples whose label is not -100.

    ``client`` holds ``rho``, a number in [0, 1] and ``carry`` from `advance`.
    """
    from algorithms.core.gradients import IGNORED, mean_cross_entropy
    from algorithms.objectives import _lipschitz

    entropy = mean_cross_entropy(forward(arrays, x), y)
    if config.beta == 0:
        return entropy
    if config.regularizer == "row_norm_product":
        log_lip = _lipschitz.rows(arrays)
    elif config.regularizer == "spectral_product":
        log_lip = _lipschitz.spectral(arrays, client["carry"])
    else:
        log_lip = _lipschitz.jacobian(
            forward,
            arrays,
            x,
            y != IGNORED,
            client["carry"]["start"],
        )
    strength = config.beta * client["rho"]
    if config.normalize == "none":
        return entropy + strength * log_lip.exp()
    growth = (log_lip - log_lip.detach()).exp()
    return entropy + strength * entropy.detach() * growth


def carry(
    config: Config,
    forward: Forward,
    arrays: Arrays,
    shape: tuple[int, ...],
    generator: torch.Generator,
) -> Arrays:
    """Return the start of a client's iterations in a round: singular vectors of its weights, or
    directions for 16 examples.
    """
    from algorithms.objectives import _lipschitz

    if config.beta == 0 or config.regularizer == "row_norm_product":
        return {}
    if config.regularizer == "spectral_product":
        return _lipschitz.directions(arrays, generator)
    like = next(iter(arrays.values()))
    return {"start": _lipschitz.starts(tuple(shape), like, generator)}


def advance(
    config: Config,
    forward: Forward,
    arrays: Arrays,
    carry: Arrays,
    x: Tensor,
) -> Arrays:
    """Take one step of power iteration on the weights; directions for examples stay, as every
    batch has other examples.
    """
    from algorithms.objectives import _lipschitz

    return _lipschitz.advance(arrays, carry) if config.regularizer == "spectral_product" else carry
