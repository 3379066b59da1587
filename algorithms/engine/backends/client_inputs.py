"""A client's inputs besides its examples and batches: those of its objective, and its random
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from algorithms.core.network import Network
from algorithms.engine.augmentation import Crops
from algorithms.interfaces import ClientInputs, ObjectiveContract
from datasets.components import Component, Config
from datasets.federation import Examples


@dataclass(frozen=True, eq=False)
class Draws:
    """A client's random numbers of a round, except for its batches; each is None unless a
    component needs it.
    """

    crops: Crops | None = None
    dropout: int | None = None  # seed of the model's random layers
    noise: torch.Generator | None = None  # on gradients
    probes: torch.Generator | None = None  # the start of the objective's iterations


NOTHING = Draws()
# Where the 624 words of the Mersenne Twister lie in the state of torch's generator for CPUs, eight
# bytes for each.
TWISTER_STARTS = 24
TWISTER_WORDS = 624


def generator(
    rng: np.random.Generator,
    device: torch.device,
) -> torch.Generator:
    """Return a torch generator on ``device``, seeded from ``rng``.

    On a CPU, torch keeps 32 bits of a seed, so few that somebody could try all of them, and that
    two of 100 000 draws of noise would probably be equal. So the generator's whole state comes from
    ``rng`` there.
    """
    seed = int(rng.integers(2**63))
    torch_rng = torch.Generator(device).manual_seed(seed)
    if torch_rng.device.type == "cpu":
        state = torch_rng.get_state()
        words = torch.from_numpy(
            rng.integers(
                2**32,
                size=TWISTER_WORDS,
                dtype=np.int64,
            )
        )
        state[TWISTER_STARTS : TWISTER_STARTS + 8 * TWISTER_WORDS] = words.view(torch.uint8)
        torch_rng.set_state(state)
    return torch_rng


def functional_forward(network: Network) -> Callable[..., Any]:
    """Return ``forward(arrays, x, **options)``, which calls the network's module with other
    ``arrays`` by name.
    """

    def forward(arrays: Mapping[str, Tensor], x: Tensor, **options: Any) -> Any:
        return functional_call(network.module, dict(arrays), (x,), options)

    return forward


def begin_inputs(
    network: Network,
    objective: Component[ObjectiveContract, Config],
    start: Tensor,
    examples: Examples,
    statistics: Mapping[str, Tensor],
    probes: torch.Generator | None,
) -> ClientInputs:
    """Prepare the inputs of one client's objective: ``statistics``, ``sent`` and ``carry``.

    ``start`` [d] are the weights that the client starts the round from, and ``examples`` have the
    shape of its own; ``probes`` draws the start of the objective's iterations.
    """
    inputs: ClientInputs = dict(statistics)
    if "sent" in objective.module.NEEDS:
        inputs["sent"] = network.layout.views(start.clone())
    if objective.module.ITERATES:
        assert probes is not None  # drawn for every objective that iterates
        with torch.no_grad():
            inputs["carry"] = objective.module.carry(
                objective.config,
                functional_forward(network),
                network.layout.views(start),
                examples.x.shape[1:],
                probes,
            )
    return inputs


def stack(each: Sequence[ClientInputs]) -> ClientInputs:
    """Stack the inputs of several clients, [clients, ...] each."""
    stacked: ClientInputs = {}
    for name, first in each[0].items():
        rows = [inputs[name] for inputs in each]
        stacked[name] = stack(rows) if isinstance(first, dict) else torch.stack(rows)
    return stacked


def take_first(inputs: ClientInputs, clients: int) -> ClientInputs:
    """Return the part of stacked inputs that belongs to the first ``clients``."""
    first: ClientInputs = {}
    for name, value in inputs.items():
        nested = isinstance(value, dict)
        first[name] = take_first(value, clients) if nested else value[:clients]
    return first
