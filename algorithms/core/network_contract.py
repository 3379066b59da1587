"""What a component of the slot ``model`` owes: `algorithms.interfaces.ModelContract` without what all slots share."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from algorithms.core.run_properties import RunProperties

if TYPE_CHECKING:
    from torch import nn


class NetworkContract(Protocol):
    """A network.

    Attributes:
        CONVOLUTIONAL: whether it has convolutions.
        BATCH_NORM: whether it has batch normalization.
        RANDOM: whether a forward pass draws random numbers in training (`algorithms.core.dropout`).
        SLIM: whether its last stage can be slimmed (``forward(x, features=True)``, ``forward(x, narrow=width)``).
        OWN_VALUES: whether initial values are those of its constructor (`algorithms.core.own_values`).
        VMAP: whether many clients can compute it at once (torch.func.vmap).
        RAW: names of its parameters of several dimensions that are no layer's weight, such as a class token.
    """

    CONVOLUTIONAL: bool
    BATCH_NORM: bool
    RANDOM: ClassVar[bool] = False
    SLIM: ClassVar[bool] = False
    OWN_VALUES: ClassVar[bool] = False
    VMAP: ClassVar[bool] = True
    RAW: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    @abstractmethod
    def build(config: Any, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build a module for examples of ``shape``; `algorithms.core.initialization` fills it, unless ``OWN_VALUES``."""

    @staticmethod
    def parameters(config: Any, shape: tuple[int, ...], classes: int) -> int | None:
        """Return the number of parameters, found without making them, for a model that fields can make huge; else None."""
        return None

    @staticmethod
    def shape_problem(config: Any, shape: tuple[int, ...]) -> str | None:
        """Explain in a sentence why examples of ``shape`` cannot be used; return None if they can."""
        return None

    @staticmethod
    def fit_problem(config: Any, run: RunProperties, shape: tuple[int, ...], classes: int) -> str | None:
        """Explain what of the built module does not fit the data or what ``run`` does with it; None if all fits."""
        return None

    @staticmethod
    def remark(config: Any, run: RunProperties) -> str | None:
        """Return what a plan of ``run`` should say of the model; None if there is nothing to say."""
        return None
