"""FedProx (Li et al. 2020, eq. 2): the client's loss plus a pull towards the weights that it was
sent.

    h(w) = f(w) + mu/2 * ||w - w_sent||^2        over all parameters, biases and normalization too

Differences from the papers: Li et al. let clients stop early, which is a matter of ``training``
here. Sainz-Pardo Diaz et al. (2025) print rows called FedProx, but in the code that the group
published only the server has a mu and the clients ignore it, and the rows' first round equals
FedAvg's to three digits. ``mode: inactive`` reproduces that, and is FedAvg; use it only for
comparisons with their tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from algorithms.interfaces import ClientInputs, Forward
from algorithms.objectives import plain
from datasets.components import Config as SlotConfig
from datasets.components import read_when

if TYPE_CHECKING:
    from torch import Tensor

    Arrays = dict[str, Tensor]

NEEDS = ("sent",)
LABEL = "FedProx"


class Config(SlotConfig):
    """Fields of FedProx."""

    mode: Literal["inactive", "active"] = Field(
        "active",
        description=(
            "active is the method; inactive leaves the term out and is FedAvg, as in the "
            "published tables"
        ),
    )
    # The tables name 0.5, which all but freezes their network; 0.0001 to 0.01 are the values worth
    # comparing.
    mu: float = Field(
        0.01,
        ge=0,
        le=1000,
        description="strength of the pull towards the weights that were sent",
        json_schema_extra=read_when(mode="active"),
    )


def loss(
    config: Config,
    forward: Forward,
    arrays: Arrays,
    x: Tensor,
    y: Tensor,
    client: ClientInputs,
) -> Tensor:
    """Compute the mean cross-entropy in nats over the examples whose label is not -100, plus the
    proximal term if active.

    ``client["sent"]`` holds the weights that the client started from, by name; ``inactive`` ignores
    them.
    """
    empirical = plain.loss(
        plain.Config(),
        forward,
        arrays,
        x,
        y,
        client,
    )
    if config.mode == "inactive":
        return empirical
    distance = 0
    for name, sent in client["sent"].items():
        moved = arrays[name] - sent
        distance = distance + moved.square().sum()
    return empirical + config.mu / 2 * distance
