"""What a module that somebody else wrote is made of, found by building it before the data are known.

Where the signature asks for the shape of an example, usual shapes are tried until the module can be built: what it is made
of rarely depends on it. `_fit` tries the module again with the true shape.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from algorithms.core import own_values
from algorithms.core.dropout import Dropout
from algorithms.core.gradients import mean_cross_entropy
from algorithms.models import _callables
from datasets.components import remembered

SHAPES = ((3, 32, 32), (1, 28, 28), (16,), (3, 224, 224), (9, 128), (1, 8, 8))
CLASSES = 7
SLOW = "torch has layers of it in no form for many clients at once"
MOST_TRIED = 50_000_000  # parameters of a module that is made to be tried; of a larger one, only shapes are looked at
DROPPED = ("dropout", "p", "drop_prob")  # attributes with a layer's probability


@dataclass(frozen=True)
class Facts:
    """What a module is made of.

    Attributes:
        convolutional: whether it has convolutions.
        batch_norm: whether it has batch normalization, or another one that keeps running statistics.
        random: whether it has dropout or the like.
        raw: names of parameters of several dimensions that are no layer's weight.
        no_vmap: why many clients cannot train it at once, as a clause after "because"; empty if they can.
    """

    convolutional: bool
    batch_norm: bool
    random: bool
    raw: tuple[str, ...]
    no_vmap: str


@remembered
def of(path: str, args: str) -> Facts:
    """Return the facts of the module that ``path`` builds with ``args``, JSON of a map.

    Raises:
        Exception: it could not be found or built; nothing is remembered of it.
    """
    module = _built(path, json.loads(args))
    parts, x = list(module.modules()), _accepted(module)
    convolutional = any(isinstance(part, nn.modules.conv._ConvNd) for part in parts)
    batch_norm = any(map(keeps_statistics, parts))
    random = any(map(_is_random, parts)) or (x is not None and not x.is_meta and _draws(module, x))
    no_vmap = ""
    if batch_norm or random:
        no_vmap = "it has batch normalization" if batch_norm else "it draws random numbers (dropout)"
    elif convolutional:
        no_vmap = "that is faster for convolutions"
    elif x is None or not any(array.requires_grad for array in module.parameters()):
        no_vmap = "the shape of its inputs is not known before the data are"
    elif failure := vmap_failure(module, x):
        no_vmap = failure if failure == SLOW else f"torch.func.vmap cannot handle it ({failure})"
    return Facts(convolutional, batch_norm, random, raw_parameters(module), no_vmap)


def keeps_statistics(part: nn.Module) -> bool:
    """Return whether a layer mixes the examples of a batch, or keeps running statistics of them."""
    return isinstance(part, _BatchNorm) or (isinstance(part, _NormBase) and part.track_running_stats)


def raw_parameters(module: nn.Module) -> tuple[str, ...]:
    """Return the names of the parameters of several dimensions that are no layer's weight."""
    return tuple(
        name for name, array in module.named_parameters() if array.dim() > 1 and "weight" not in name.rpartition(".")[2]
    )


def _is_random(part: nn.Module) -> bool:
    """Return whether a layer draws random numbers in training."""
    if isinstance(part, nn.RReLU):
        return True
    known = isinstance(part, (Dropout, nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention))
    if not known and not any(word in type(part).__name__ for word in ("Drop", "StochasticDepth")):
        return False
    held = [getattr(part, name) for name in DROPPED if isinstance(getattr(part, name, None), int | float)]
    return any(held) if held else not known


def _built(path: str, args: dict[str, Any]) -> nn.Module:
    found = _callables.find(path)
    shapes = SHAPES if _callables.asks_for_shape(found) else SHAPES[:1]
    for shape in shapes:
        try:
            make = _callables.maker(path, args, shape, CLASSES)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                drawn = own_values.blueprint(make)
                if drawn is not None and own_values.count(drawn) > MOST_TRIED:
                    return drawn
                return own_values.build(make, shape, own_values.FIXED)
        except Exception:
            if shape == shapes[-1]:
                raise
    raise AssertionError


def _accepted(module: nn.Module) -> torch.Tensor | None:
    """Return examples that the module accepts; None if no usual shape fits."""
    first = next((part for part in module.modules() if isinstance(part, nn.Linear)), None)
    numberless = any(one.is_meta for one in module.parameters())
    for shape in ((first.in_features,), *SHAPES) if first is not None else SHAPES:
        drawn = None if numberless else torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
        x = torch.empty(2, *shape, device="meta") if drawn is None else drawn
        try:
            with torch.no_grad():
                module.eval()
                fits = isinstance(outputs := module(x), torch.Tensor) and outputs.dim() == len(outputs) == 2
                module.train()
                module(x)
        except Exception:  # noqa: S112
            continue
        if fits:
            return x
    return None


def _draws(module: nn.Module, x: torch.Tensor) -> bool:
    """Return whether a forward pass in training differs with torch's generator."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        found = []
        for seed in range(2):
            torch.default_generator.manual_seed(seed)
            found.append(module.train()(x))
    return not torch.equal(*found)


def vmap_failure(module: nn.Module, x: torch.Tensor, allow_slow: bool = False, each_example: bool = False) -> str:
    """Return why gradients of ``module`` cannot be computed at once; an empty string if they can.

    Args:
        module: the module.
        x: [n, ...] examples.
        allow_slow: whether torch may compute a layer in a loop.
        each_example: the gradients of single examples, as `dp_sgd` needs them, instead of those of two clients.
    """
    values = {name: array.detach() for name, array in module.named_parameters()}
    if each_example:
        arrays, second, inputs = values, values, x[:, None]
    else:
        second, inputs = {name: 1.1 * array for name, array in values.items()}, torch.stack([x, 0.9 * x])
        arrays = {name: torch.stack([array, second[name]]) for name, array in values.items()}
    y = torch.zeros(inputs.shape[1], dtype=torch.int64, device=x.device)

    def loss(given: dict[str, torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
        return mean_cross_entropy(functional_call(module, given, (batch,)), y)

    dims = (None if each_example else 0, 0)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            together = torch.func.vmap(torch.func.grad(loss), in_dims=dims, randomness="error")(arrays, inputs)
        alone = torch.func.grad(loss)(second, inputs[1])
    except Exception as error:
        return _callables.said(error)
    if not x.is_meta and not all(
        torch.allclose(together[name][1], alone[name], rtol=1e-2, atol=1e-4) for name in alone
    ):
        return "vmap gives others than one by one"
    slow = any("batching rule" in str(one.message) for one in warned)
    return SLOW if slow and not allow_slow else ""
