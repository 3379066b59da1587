"""Modules that keep the values that their own constructors give them, built again and again
under a seed.

A module of somebody else has parameters, buffers and layers whose initialization only its
constructor knows. So it is built on the CPU, in earnest, with torch's global generator seeded and
put back afterwards. What every process must agree on and no training changes comes from one fixed
seed: constant buffers, and parameters that are frozen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

FIXED = 0  # the seed of constant buffers and frozen parameters


def build(
    make: Callable[[], Any],
    shape: tuple[int, ...],
    seed: int,
) -> nn.Module:
    """Build a module on the CPU with the values that its constructor draws from ``seed``.

    Torch's global generator is as before afterwards. Lazy layers get their sizes from an example of
    zeros. The module is in training mode, in which its author may freeze parameters.

    Raises:
        TypeError: ``make`` returns no torch module.
        ValueError: the constructor seeds torch's generator.
    """
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        module = make()
        if torch.initial_seed() != seed:
            raise ValueError(
                "seeds torch's generator in its constructor (torch.manual_seed), so all "
                "seeds begin alike"
            )
        if not isinstance(module, nn.Module):
            raise TypeError(f"returns a {type(module).__name__}, no torch.nn.Module")
        arrays = [*module.parameters(), *module.buffers()]
        if any(map(is_lazy, arrays)):
            module.eval()
            with torch.no_grad():
                module(torch.zeros(2, *shape))
    return module.train()


def trained(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters of a module by name that are not frozen: those that are trained and
    sent.
    """
    return {name: array for name, array in module.named_parameters() if array.requires_grad}


def blueprint(make: Callable[[], Any]) -> nn.Module | None:
    """Return a module whose arrays have shapes but no numbers; None if its constructor needs
    numbers.
    """
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.device("meta"):
                module = make()
    except Exception:
        return None
    return module if isinstance(module, nn.Module) else None


def elements(make: Callable[[], Any]) -> int | None:
    """Return how many numbers a module's parameters are, without making them; None if only
    making them would tell.

    Those of lazy layers are not known yet and do not count.
    """
    module = blueprint(make)
    if module is None:
        return None
    known = [array for array in module.parameters() if not is_lazy(array)]
    return sum(array.numel() for array in known)


def running_buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers of torch's normalization layers by name: those that training changes."""
    running: set[int] = set()
    for layer in module.modules():
        if isinstance(layer, _NormBase):
            running.update(map(id, layer.buffers(recurse=False)))
    buffers = dict(module.named_buffers())
    return {name: buffer for name, buffer in buffers.items() if id(buffer) in running}


def avoid_cudnn(module: nn.Module) -> None:
    """Make recurrent layers leave cuDNN alone, which differentiates them in training mode only
    and repeats no bytes.
    """
    for part in module.modules():
        if isinstance(part, nn.RNNBase):
            part.forward = partial(_without_cudnn, part.forward)


def _without_cudnn(forward: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with torch.backends.cudnn.flags(enabled=False):
        return forward(*arguments, **options)
