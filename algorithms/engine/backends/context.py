"""What a client's training has besides its examples and batches: what its objective is told, and what it draws by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from algorithms.core.network import Network
from algorithms.engine.augmentation import Crops

Context = dict[str, Any]  # tensors by name, and maps of tensors ("sent", "carry")


@dataclass(frozen=True, eq=False)
class Draws:
    """A client's random numbers of a round, besides its batches; each only where something asks for it.

    Attributes:
        crops: how training images are moved.
        dropout: seed of the model's random layers.
        noise: for what is added to gradients.
        probes: for what the objective begins its iterations with.
    """

    crops: Crops | None = None
    dropout: int | None = None
    noise: torch.Generator | None = None
    probes: torch.Generator | None = None


NOTHING = Draws()


def generator(rng: np.random.Generator, device: torch.device) -> torch.Generator:
    """Torch's generator on ``device``, a function of ``rng`` alone."""
    return torch.Generator(device).manual_seed(int(rng.integers(2**63)))


def functional_forward(network: Network) -> Callable[..., Any]:
    """``forward(arrays, x, **options)`` through the module with any ``arrays`` by name; options are the module's own."""

    def forward(arrays: Mapping[str, torch.Tensor], x: torch.Tensor, **options: Any) -> Any:
        return functional_call(network.module, dict(arrays), (x,), options)

    return forward


def begin_context(
    network: Network,
    objective: Any,
    start: torch.Tensor,
    shape: tuple[int, ...],
    told: Mapping[str, torch.Tensor],
    probes: torch.Generator | None,
) -> Context:
    """One client's context at the start of its round: what it was ``told``, ``sent`` and ``carry`` if the objective has them.

    ``start`` [d] are the weights it starts from, ``shape`` is that of an example.
    """
    context: Context = dict(told)
    if "sent" in getattr(objective.module, "CONTEXT", ()):
        context["sent"] = network.layout.views(start.clone())
    if hasattr(objective.module, "carry"):
        arrays = network.layout.views(start)
        with torch.no_grad():
            context["carry"] = objective.module.carry(
                objective.config, functional_forward(network), arrays, shape, probes
            )
    return context


def stack(contexts: Sequence[Context]) -> Context:
    """The clients' contexts as one, [clients, ...] each."""
    return {name: _stack_values([context[name] for context in contexts]) for name in (contexts[0] if contexts else ())}


def take_first(context: Context, clients: int) -> Context:
    """The part of a stacked context that belongs to its first ``clients``."""
    return {
        name: take_first(value, clients) if isinstance(value, dict) else value[:clients]
        for name, value in context.items()
    }


def _stack_values(values: Sequence[Any]) -> Any:
    return stack(values) if isinstance(values[0], dict) else torch.stack(list(values))
