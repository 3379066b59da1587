"""Modules that keep the values that their own constructors give them, built again and again under a seed.

A module of somebody else has parameters, buffers and layers whose initialization only its constructor knows. So it is
built on the CPU, in earnest, with torch's global generator seeded and put back afterwards. What every process must agree
on and no training changes comes from one fixed seed: constant buffers, and parameters that are frozen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from algorithms.core.layout import Layout

FIXED = 0  # the seed of constant buffers and frozen parameters


def build(make: Callable[[], Any], shape: tuple[int, ...], seed: int) -> nn.Module:
    """Build a module on the CPU with the values that its constructor draws from ``seed``.

    Torch's global generator is as before afterwards. Lazy layers get their sizes from an example of zeros. Frozen
    parameters become buffers, so that they are neither trained nor sent.

    Raises:
        TypeError: ``make`` returns no torch module.
    """
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        module = make()
        if not isinstance(module, nn.Module):
            raise TypeError(f"returns a {type(module).__name__}, no torch.nn.Module")
        if any(is_lazy(array) for array in (*module.parameters(), *module.buffers())):
            module.eval()
            with torch.no_grad():
                module(torch.zeros(2, *shape))
    _freeze(module)
    return module.train()


def elements(make: Callable[[], Any]) -> int | None:
    """Return how many numbers the parameters of a module are, without making them; None if only making them would tell."""
    module = blueprint(make)
    return None if module is None else count(module)


def count(module: nn.Module) -> int:
    """Return how many numbers the parameters of ``module`` are; those of lazy layers are not known and do not count."""
    return sum(one.numel() for one in module.parameters() if not is_lazy(one))


def blueprint(make: Callable[[], Any]) -> nn.Module | None:
    """Return a module whose arrays have shapes but no numbers; None if its constructor needs numbers."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = make()
    except Exception:
        return None
    return module if isinstance(module, nn.Module) else None


def statistics_layout(module: nn.Module) -> Layout:
    """Return the layout of the running statistics of torch's normalization layers: the buffers that training changes."""
    running = {id(buffer) for part in _normalizations(module) for buffer in part.buffers(recurse=False)}
    named = {name: buffer for name, buffer in module.named_buffers() if id(buffer) in running}
    floating = {name: tuple(buffer.shape) for name, buffer in named.items() if buffer.is_floating_point()}
    return Layout(tuple(floating), tuple(floating.values()))


def counters(module: nn.Module) -> list[torch.Tensor]:
    """Return the numbers of batches that normalization layers have seen."""
    buffers = [buffer for part in _normalizations(module) for buffer in part.buffers(recurse=False)]
    return [buffer for buffer in buffers if not buffer.is_floating_point()]


def bind(module: nn.Module, parameters: dict[str, torch.Tensor], gradients: dict[str, torch.Tensor]) -> None:
    """Move the parameters of ``module``, with their values, into the views ``parameters``, and their gradients likewise.

    The parameters stay the same objects, so that layers that share one, or keep a list of theirs, go on doing so.
    """
    for name, parameter in module.named_parameters():
        parameters[name].copy_(parameter.data)
        parameter.data = parameters[name]
        parameter.grad = gradients[name]


def bind_statistics(module: nn.Module, statistics: dict[str, torch.Tensor]) -> None:
    """Move the running statistics of ``module``, with their values, into the views ``statistics``."""
    for name, view in statistics.items():
        owner, _, leaf = name.rpartition(".")
        part = module.get_submodule(owner)
        view.copy_(part.get_buffer(leaf))
        part.register_buffer(leaf, view)


def copy_values(module: nn.Module, parameters: dict[str, torch.Tensor], statistics: dict[str, torch.Tensor]) -> None:
    """Copy the values of a module that was just built into the views of another one."""
    own = dict(module.named_parameters()) | dict(module.named_buffers())
    for name, view in (parameters | statistics).items():
        view.copy_(own[name].data)


def avoid_cudnn(module: nn.Module) -> None:
    """Make recurrent layers leave cuDNN alone, which differentiates them in training mode only and repeats no bytes."""
    for part in module.modules():
        if isinstance(part, nn.RNNBase):
            part.forward = partial(_without_cudnn, part.forward)


def _without_cudnn(forward: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with torch.backends.cudnn.flags(enabled=False):
        return forward(*arguments, **options)


def _normalizations(module: nn.Module) -> Iterator[nn.Module]:
    return (part for part in module.modules() if isinstance(part, _NormBase))


def _freeze(module: nn.Module) -> None:
    for part in module.modules():
        for leaf, parameter in list(part.named_parameters(recurse=False, remove_duplicate=False)):
            if not parameter.requires_grad:
                del part._parameters[leaf]
                part.register_buffer(leaf, parameter.data)
