"""FedProx (Li et al. 2020, eq. 2): the client's loss and a pull towards the weights that it was sent.

    h(w) = f(w) + mu/2 * ||w - w_sent||^2        over all parameters, biases and normalization too

**By default this is FedAvg**: ``mode: inactive`` leaves the term out, and results must be labeled "as FedAvg".

Differences from the papers: Li et al. let clients stop early, which here is a matter of ``training``. Sainz-Pardo Diaz et al.
(2025) print rows called FedProx, but in the code that the group published only the server knows mu and the clients ignore it,
and the rows' first round equals FedAvg's to three digits. ``inactive`` is that reading, to lay results beside their tables;
``active`` is the method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from algorithms.objectives import plain
from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import Tensor

    Arrays = dict[str, Tensor]

CONTEXT = ("sent",)


class Config(SlotConfig):
    """Fields of FedProx."""

    mode: Literal["inactive", "active"] = Field(
        "inactive", description="inactive ignores mu and is FedAvg, as in the published tables; active is the method"
    )
    # The tables name 0.5, which all but freezes their network; 0.0001 to 0.01 are the values worth comparing.
    mu: float = Field(0.01, ge=0, le=1000, description="strength of the pull towards the weights that were sent")


def loss(
    config: Config,
    forward: Callable[..., Any],
    arrays: Arrays,
    x: Tensor,
    y: Tensor,
    context: dict[str, Any],
) -> Tensor:
    """Mean cross-entropy in nats over the examples whose label is not -100, and where active the proximal term.

    ``context["sent"]`` holds the weights that the client started from, by name; only ``active`` looks at them.
    """
    empirical = plain.loss(plain.Config(), forward, arrays, x, y, context)
    if config.mode == "inactive":
        return empirical
    distance = sum((arrays[name] - sent).square().sum() for name, sent in context["sent"].items())
    return empirical + config.mu / 2 * distance
