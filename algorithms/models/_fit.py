"""Whether a module that somebody else wrote fits the data and what a run does with it: it is built and tried.

Every sentence follows the name of the model: "mypkg.nets:Net gives 5 outputs for 10 classes".
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
            _check(path, json.loads(args), shape, classes, needs)
    except Misfit as found:
        return f"{path} {found}"
    finally:
        torch.set_rng_state(state)
    return None


def _check(path: str, args: dict[str, Any], shape: tuple[int, ...], classes: int, needs: Needs) -> None:
    with _tried(f"cannot be built for examples of shape {shape}"):
        make = _callables.maker(path, args, shape, classes)
        if (own_values.elements(make) or 0) > _facts.MOST_TRIED:
            return  # a few copies of it and of its gradients would take the memory that the run needs
        module = _build(make, shape)
    _check_declared(module, needs)
    x = torch.rand(EXAMPLES, *shape, generator=torch.Generator().manual_seed(0))
    _check_evaluation(module, x, shape, classes)
    _check_training(module, x, shape, classes, needs)
    _check_gradients(module, x, needs)
    _check_objective(module, x, needs.objective)


def _build(make: Callable[[], Any], shape: tuple[int, ...]) -> nn.Module:
    """Build the module, twice, and check its arrays."""
    (first, seeds), (second, _) = (_seeded(make, shape, SEED) for _ in range(2))
    third = _seeded(make, shape, SEED + 1)[0] if seeds else None
    again = dict(_arrays(second))
    for name, array in _arrays(first):
        if array.is_sparse or array.is_complex():
            raise Misfit(
                f"has the {'sparse' if array.is_sparse else 'complex'} array {name}; all must be dense and real"
            )
        other = again.get(name)
        if other is None or other.shape != array.shape or not torch.equal(_numbers(other), _numbers(array)):
            raise Misfit(
                f"starts from another {name} each time that it is built, although torch's generator is seeded: its "
                "constructor must draw from torch, not from numpy, random or the time"
            )
    trained = list(first.named_parameters())
    if third is not None and _equal_draws(trained, dict(third.named_parameters())):
        raise Misfit(
            "has the same initial values whatever the seed, because its constructor seeds torch's generator "
            "(torch.manual_seed); leave that out. Values from a file, or constant ones, need no seed"
        )
    if not trained:
        raise Misfit("has no parameter that can be trained")
    for name, array in trained:
        if array.dtype != torch.float32:
            raise Misfit(
                f"has the parameter {name} of type {_type(array)}; parameters must be float32 (module.float())"
            )
    return first


def _seeded(make: Callable[[], Any], shape: tuple[int, ...], seed: int) -> tuple[nn.Module, bool]:
    """Build the module under a seed; return it, and whether its constructor set another one."""
    now = []

    def noting() -> Any:
        made = make()
        now.append(torch.initial_seed())
        return made

    return own_values.build(noting, shape, seed), now != [seed]


def _equal_draws(trained: list[tuple[str, nn.Parameter]], other: dict[str, nn.Parameter]) -> bool:
    """Whether some parameters look drawn, and all are the same in another module."""
    drawn = any(
        array.numel() > 1 and not torch.equal(array, array.flatten()[0].expand_as(array)) for _, array in trained
    )
    return drawn and all(name in other and torch.equal(array, other[name]) for name, array in trained)


def _check_declared(module: nn.Module, needs: Needs) -> None:
    """Check that what components were told of the module before the data were known is true."""
    normalizes, raw = any(map(_facts.keeps_statistics, module.modules())), _facts.raw_parameters(module)
    if normalizes > needs.batch_norm or not set(raw) <= set(needs.raw):
        what = "batch normalization" if normalizes else f"the parameter {raw[0]}"
        raise Misfit(
            f"has {what} for these data, which could not be seen before they were loaded, because it cannot be built "
            "for other shapes; build it in a function without arguments and name that function"
        )


def _check_evaluation(module: nn.Module, x: torch.Tensor, shape: tuple[int, ...], classes: int) -> None:
    module.eval()
    before = _copies(module)
    with torch.no_grad():
        first = _forward(module, x, shape, classes, "in evaluation")
        if changed := _changed(module, before):
            raise Misfit(f"keeps state between calls: evaluating changes its buffer {changed[0]}")
        if not torch.equal(first, _forward(module, x, shape, classes, "in evaluation")):
            raise Misfit(
                "keeps state between calls, or draws random numbers in evaluation: the same examples give other "
                "outputs the second time"
            )
        alone = torch.cat([_forward(module, x[i : i + 1], shape, classes, "for one example") for i in range(len(x))])
    if not torch.allclose(first, alone, rtol=1e-3, atol=1e-4):
        raise Misfit(
            "gives an example another output when other examples are evaluated beside it, so that neither accuracy nor "
            "an attack on single examples means anything"
        )


def _check_training(module: nn.Module, x: torch.Tensor, shape: tuple[int, ...], classes: int, needs: Needs) -> None:
    module.train()
    before = _copies(module)
    outputs = _forward(module, x, shape, classes, "in training")
    statistics = {*own_values.statistics_layout(module).names}
    changed = [name for name in _changed(module, before) if name not in statistics and not name.endswith("_tracked")]
    if changed:
        raise Misfit(
            f"keeps state between calls: training changes its buffer {changed[0]}, which is no running statistic of one "
            "of torch's normalization layers and would be lost from round to round"
        )
    if not outputs.requires_grad:
        raise Misfit("gives outputs that do not depend on its parameters by operations that can be differentiated")
    with _tried("cannot be differentiated"):
        mean_cross_entropy(outputs, torch.zeros(len(x), dtype=torch.int64)).backward()
    for name, array in module.named_parameters():
        if array.grad is not None and not array.grad.to_dense().isfinite().all():
            raise Misfit(f"has a gradient that is not finite, of its parameter {name}")
    if not needs.whole_batches:
        try:
            _forward(module, x[:1], shape, classes, "in training")
        except Misfit as error:
            raise Misfit(
                f"{error}; this was a batch of one example, as the last one of an epoch may be: use "
                "nn.GroupNorm or nn.LayerNorm, or set training.drop_last: true"
            ) from None
    module.zero_grad()


def _check_gradients(module: nn.Module, x: torch.Tensor, needs: Needs) -> None:
    """Check the gradients of several clients or single examples at once, and second derivatives, where they are needed."""
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
    if needs.curvature:
        module.eval()
        arrays = list(module.parameters())
        with _tried("cannot be differentiated twice, which the curvature (rho) needs"):
            loss = mean_cross_entropy(module(x), torch.zeros(len(x), dtype=torch.int64))
            slopes = torch.autograd.grad(loss, arrays, create_graph=True, allow_unused=True)
            total = sum((slope.square().sum() for slope in slopes if slope is not None), start=loss.new_zeros(()))
            torch.autograd.grad(total, arrays, allow_unused=True)


def _check_objective(module: nn.Module, x: torch.Tensor, objective: Component[Any, Any]) -> None:
    module.train()
    arrays, y = dict(module.named_parameters()), torch.zeros(len(x), dtype=torch.int64)

    def forward(given: Any, inputs: torch.Tensor, **options: Any) -> Any:
        return torch.func.functional_call(module, dict(given), (inputs,), options)

    client: dict[str, Any] = {"rho": torch.tensor(0.5), "sent": {name: one.detach() for name, one in arrays.items()}}
    parts, config = objective.module, objective.config
    with _tried(f"cannot be trained with the objective {objective.name}"):
        with torch.no_grad():
            client["carry"] = parts.carry(config, forward, arrays, tuple(x.shape[1:]), torch.Generator())
            client["carry"] = parts.advance(config, forward, arrays, client["carry"], x)
        loss = parts.loss(config, forward, arrays, x, y, client)
        torch.autograd.grad(loss, list(arrays.values()), allow_unused=True)


def _forward(module: nn.Module, x: torch.Tensor, shape: tuple[int, ...], classes: int, when: str) -> torch.Tensor:
    """Compute the outputs, and check their kind, shape and values."""
    with _tried(f"does not take examples of shape {shape} {when}"):
        outputs: Any = module(x)
    if not isinstance(outputs, torch.Tensor):
        kind = type(outputs).__name__
        raise Misfit(f"returns a {kind} {when}; it must return the logits alone, a tensor [examples, classes]")
    if outputs.dim() != 2 or len(outputs) != len(x):
        found, needed = list(outputs.shape), [len(x), classes]
        raise Misfit(f"returns outputs of shape {found} for {len(x)} examples {when}; it must be {needed}")
    if outputs.shape[1] != classes:
        raise Misfit(
            f"has {outputs.shape[1]} outputs, but the data have {classes} classes; name its argument for the number of "
            "outputs num_classes, or give it in model.args"
        )
    if outputs.dtype != torch.float32:
        raise Misfit(f"returns outputs of type {_type(outputs)} {when}; they must be float32")
    if not outputs.isfinite().all():
        raise Misfit(f"returns outputs that are not finite {when}, for examples between 0 and 1")
    if are_probabilities(outputs.detach().numpy()):
        raise Misfit(
            f"returns probabilities {when}: every example's outputs are positive and add up to 1; it must return logits, so "
            "leave the softmax out, because the loss has one of its own"
        )
    return outputs


def _arrays(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _copies(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def _changed(module: nn.Module, before: dict[str, torch.Tensor]) -> list[str]:
    after = dict(module.named_buffers())
    names = [
        name for name in after if name not in before or not torch.equal(_numbers(before[name]), _numbers(after[name]))
    ]
    return names + [name for name in before if name not in after]


def _numbers(array: torch.Tensor) -> torch.Tensor:
    """``array`` with NaN, which equals nothing, replaced."""
    return array.detach().nan_to_num(nan=0.5) if array.is_floating_point() else array.detach()


def _type(array: torch.Tensor) -> str:
    return str(array.dtype).removeprefix("torch.")
