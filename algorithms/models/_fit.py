"""Whether a module that somebody else wrote fits the data and what a run does with it: it is built twice, and tried.

The trial is what a run does, on four examples: evaluation, a step, and what the run's components add to it. Whatever torch
or the module raises is the refusal. Every sentence follows the name of the model: "mypkg.nets:Net gives 5 outputs".
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from algorithms.core import own_values
from algorithms.core.gradients import mean_cross_entropy
from algorithms.interfaces import Run
from algorithms.metrics.classification import are_probabilities
from algorithms.models import _callables, _facts
from datasets.components import Component, remembered

EXAMPLES = 4
SEED = 1_000_003  # one that no constructor sets by itself


@dataclass(frozen=True)
class Needs:
    """What a run does with its model besides plain steps.

    Attributes:
        private: clients clip the gradient of each example.
        together: the clients of a block train at once.
        curvature: clients measure curvature, which takes second derivatives.
        whole_batches: what is left over of an epoch is not trained on, so that few batches have a single example.
        objective: the loss.
        batch_norm: whether components were told that it has batch normalization.
        raw: the parameters that they were told to be no layer's weight.
    """

    private: bool
    together: bool
    curvature: bool
    whole_batches: bool
    objective: Component[Any, Any]
    batch_norm: bool
    raw: tuple[str, ...]

    @staticmethod
    def of(run: Run) -> Needs:
        """Return the needs of ``run``."""
        config = run.training.config
        together = getattr(config, "backend", "loop") == "vmap"
        private, whole = run.training.module.PRIVATE_STEPS, bool(config.drop_last)
        told = run.model.module
        return Needs(private, together, run.measures_curvature, whole, run.objective, told.BATCH_NORM, told.RAW)


class Misfit(Exception):  # noqa: N818
    """The first thing that does not fit, as the predicate of a sentence."""


@contextmanager
def _tried(sentence: str) -> Iterator[None]:
    """Turn whatever torch or the module raises into a `Misfit` that begins with ``sentence``."""
    try:
        yield
    except Misfit:
        raise
    except _callables.CallableError as error:
        raise Misfit(str(error)) from error
    except Exception as error:
        raise Misfit(f"{sentence}: {_callables.said(error)}") from error


@remembered
def problem(path: str, args: str, shape: tuple[int, ...], classes: int, needs: Needs) -> str | None:
    """Return the first thing that does not fit, as a sentence; None if all does.

    Args:
        path: names the callable.
        args: JSON of its arguments.
        shape: shape of one example.
        classes: number of labels.
        needs: what the run does with the model.
    """
    state = torch.get_rng_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _tried(f"cannot be built for examples of shape {shape}"):
                make = _callables.maker(path, json.loads(args), shape, classes)
                if (own_values.elements(make) or 0) > _facts.MOST_TRIED:
                    return None  # a few copies of it and of its gradients would take the memory that the run needs
                module = _build(make, shape)
            _check_declared(module, needs)
            _check_evaluation(module, shape, classes)
            _check_step(module, shape, classes, needs)
            _check_derivatives(module, _examples(shape), needs)
    except Misfit as found:
        return f"{path} {found}"
    finally:
        torch.set_rng_state(state)
    return None


def _examples(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.rand(EXAMPLES, *shape, generator=torch.Generator().manual_seed(0))


def _build(make: Callable[[], Any], shape: tuple[int, ...]) -> nn.Module:
    """Build the module twice, and once more under another seed if its constructor sets one; compare its arrays."""
    seeds: list[int] = []

    def noting() -> Any:
        made = make()
        seeds.append(torch.initial_seed())
        return made

    first, second = (own_values.build(noting, shape, SEED) for _ in range(2))
    trained = dict(first.named_parameters())
    if not trained:
        raise Misfit("has no parameter that can be trained")
    for name, array in trained.items():
        if array.dtype != torch.float32 or array.is_sparse:
            kind = "sparse" if array.is_sparse else _type(array)
            raise Misfit(
                f"has the parameter {name} of type {kind}; parameters must be dense and float32 (module.float())"
            )
    for name, buffer in first.named_buffers():
        if buffer.is_sparse or buffer.is_complex():
            kind = "sparse" if buffer.is_sparse else _type(buffer)
            raise Misfit(f"has the buffer {name} of type {kind}; buffers must be dense and real")
    if other := _differing({**trained, **_buffers(first)}, {**dict(second.named_parameters()), **_buffers(second)}):
        raise Misfit(
            f"starts from another {other[0]} each time that it is built, although torch's generator is seeded: its "
            "constructor must draw from torch, not from numpy, random or the time"
        )
    drawn = any(array.numel() > 1 and not (array == array.flatten()[0]).all() for array in trained.values())
    if drawn and seeds[0] != SEED:
        third = own_values.build(make, shape, SEED + 1)
        if not _differing(trained, dict(third.named_parameters())):
            raise Misfit(
                "has the same initial values whatever the seed, because its constructor seeds torch's generator "
                "(torch.manual_seed); leave that out. Values from a file, or constant ones, need no seed"
            )
    return first


def _check_declared(module: nn.Module, needs: Needs) -> None:
    """Check that what components were told of the module before the data were known is true."""
    normalizes, raw = any(map(_facts.keeps_statistics, module.modules())), _facts.raw_parameters(module)
    if normalizes > needs.batch_norm or not set(raw) <= set(needs.raw):
        what = "batch normalization" if normalizes else f"the parameter {raw[0]}"
        raise Misfit(
            f"has {what} for these data, which could not be seen before they were loaded, because it cannot be built "
            "for other shapes; build it in a function without arguments and name that function"
        )


def _check_evaluation(module: nn.Module, shape: tuple[int, ...], classes: int) -> None:
    """Check that outputs are logits, the same each time, whatever examples are beside an example."""
    x, before = _examples(shape), _buffers(module.eval())
    with torch.no_grad():
        first = _forward(module, x, classes, "in evaluation")
        if changed := _differing(before, _buffers(module)):
            raise Misfit(f"keeps state between calls: evaluating changes its buffer {changed[0]}")
        if not torch.equal(first, _forward(module, x, classes, "in evaluation")):
            raise Misfit(
                "keeps state between calls, or draws random numbers in evaluation: the same examples give other "
                "outputs the second time"
            )
        alone = torch.cat([_forward(module, one[None], classes, "for one example") for one in x])
    if not torch.allclose(first, alone, rtol=1e-3, atol=1e-4):
        raise Misfit(
            "gives an example another output when other examples are evaluated beside it, so that neither accuracy nor "
            "an attack on single examples means anything"
        )


def _check_step(module: nn.Module, shape: tuple[int, ...], classes: int, needs: Needs) -> None:
    """Check the gradients of a step, and that it changes no state but running statistics."""
    x, before = _examples(shape), _buffers(module.train())
    outputs = _forward(module, x, classes, "in training")
    statistics = {*own_values.statistics_layout(module).names}
    changed = _differing(before, _buffers(module))
    if lost := [name for name in changed if name not in statistics and not name.endswith("_tracked")]:
        raise Misfit(
            f"keeps state between calls: training changes its buffer {lost[0]}, which is no running statistic of one "
            "of torch's normalization layers and would be lost from round to round"
        )
    if not outputs.requires_grad:
        raise Misfit("gives outputs that do not depend on its parameters by operations that can be differentiated")
    with _tried("cannot be differentiated"):
        _loss(outputs).backward()
    for name, array in module.named_parameters():
        if array.grad is not None and not array.grad.to_dense().isfinite().all():
            raise Misfit(f"has a gradient that is not finite, of its parameter {name}")
    module.zero_grad()
    if needs.whole_batches:
        return
    try:
        _forward(module, x[:1], classes, "in training")
    except Misfit as error:
        raise Misfit(
            f"{error}; this was a batch of one example, as the last one of an epoch may be: use "
            "nn.GroupNorm or nn.LayerNorm, or set training.drop_last: true"
        ) from None


def _check_derivatives(module: nn.Module, x: torch.Tensor, needs: Needs) -> None:
    """Check what a run's components differentiate: several clients or examples at once, twice, or by the objective."""
    normalizes = any(map(_facts.keeps_statistics, module.modules()))
    if needs.private and normalizes:
        raise Misfit("has batch normalization, but dp_sgd clips the gradient of each example")
    if needs.together and not normalizes and (failure := _facts.vmap_failure(module, x, allow_slow=True)):
        raise Misfit(f"cannot be trained for many clients at once: {failure}. Set training.backend: loop")
    if needs.private and (failure := _facts.vmap_failure(module.train(), x, allow_slow=True, each_example=True)):
        raise Misfit(
            f"has no gradients of single examples, which dp_sgd clips: {failure}. "
            "torch.func.vmap must be able to compute it"
        )
    arrays = dict(module.named_parameters())
    if needs.curvature:
        with _tried("cannot be differentiated twice, which the curvature (rho) needs"):
            loss = _loss(module.eval()(x))
            slopes = torch.autograd.grad(loss, list(arrays.values()), create_graph=True, allow_unused=True)
            total = sum((slope.square().sum() for slope in slopes if slope is not None), start=loss.new_zeros(()))
            torch.autograd.grad(total, list(arrays.values()), allow_unused=True)
    module.train()
    parts, config = needs.objective.module, needs.objective.config

    def forward(given: Any, inputs: torch.Tensor, **options: Any) -> Any:
        return torch.func.functional_call(module, dict(given), (inputs,), options)

    client: dict[str, Any] = {"rho": torch.tensor(0.5), "sent": {name: one.detach() for name, one in arrays.items()}}
    with _tried(f"cannot be trained with the objective {needs.objective.name}"):
        with torch.no_grad():
            client["carry"] = parts.carry(config, forward, arrays, tuple(x.shape[1:]), torch.Generator())
            client["carry"] = parts.advance(config, forward, arrays, client["carry"], x)
        loss = parts.loss(config, forward, arrays, x, torch.zeros(len(x), dtype=torch.int64), client)
        torch.autograd.grad(loss, list(arrays.values()), allow_unused=True)


def _loss(outputs: torch.Tensor) -> torch.Tensor:
    return mean_cross_entropy(outputs, torch.zeros(len(outputs), dtype=torch.int64))


def _forward(module: nn.Module, x: torch.Tensor, classes: int, when: str) -> torch.Tensor:
    """Compute the outputs, and check their kind, shape and values."""
    with _tried(f"does not take examples of shape {tuple(x.shape[1:])} {when}"):
        outputs: Any = module(x)
    needed = f"it must return the logits alone, float32 [{len(x)}, {classes}]"
    if not isinstance(outputs, torch.Tensor):
        raise Misfit(f"returns a {type(outputs).__name__} {when}; {needed}")
    if outputs.shape != (len(x), classes) or outputs.dtype != torch.float32:
        hint = (
            " (name its argument for their number num_classes, or give it in model.args)" if outputs.dim() == 2 else ""
        )
        raise Misfit(
            f"returns {_type(outputs)} {list(outputs.shape)} {when}; {needed}: the data have {classes} classes{hint}"
        )
    if not outputs.isfinite().all():
        raise Misfit(f"returns outputs that are not finite {when}, for examples between 0 and 1")
    if are_probabilities(outputs.detach().numpy()):
        raise Misfit(
            f"returns probabilities {when}: every example's outputs are positive and add up to 1; it must return logits, so "
            "leave the softmax out, because the loss has one of its own"
        )
    return outputs


def _buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def _differing(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names under which two sets of arrays hold other numbers; NaN, which equals nothing, counts as equal."""
    plain = [{name: one.detach().nan_to_num(nan=0.5) for name, one in arrays.items()} for arrays in (before, after)]
    names = [name for name in plain[0] if name not in plain[1] or not torch.equal(plain[0][name], plain[1][name])]
    return names + [name for name in plain[1] if name not in plain[0]]


def _type(array: torch.Tensor) -> str:
    return str(array.dtype).removeprefix("torch.")
