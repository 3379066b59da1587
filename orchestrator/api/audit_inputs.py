"""What `fedpriv.audit` is given: examples and models, and the refusal of what no attack can be made on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from attacks import _one_model as one_model
from attacks.metrics.membership import FEWEST_NONMEMBERS, Doubles
from orchestrator.config.errors import ConfigError, ConfigProblem, format_value

if TYPE_CHECKING:
    import torch
    from torch import nn

SHOWN = 3  # positions that a message names
MIXES = (
    "is batch normalization without running statistics, so that what the model says of an example depends on the others in "
    "its batch; no attack on single examples can be made"
)
NO_GRADIENTS = "give gradients=False to leave out the attack by gradients"
PAIR = "must be a pair (x, y) of examples [n, ...] and labels [n], as arrays or tensors"


@dataclass(frozen=True, eq=False)
class Examples:
    """Members or non-members.

    Attributes:
        name: the argument.
        x: [n, ...] examples.
        y: [n] labels.
    """

    name: str
    x: NDArray[Any]
    y: NDArray[np.int64]


def refuse_numbers(**named: tuple[Any, int]) -> None:
    """Raise ConfigError if an argument is no whole number of at least so much: ``name=(given, least)``."""
    for name, (given, least) in named.items():
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
            _refuse(name, f"must be an integer >= {least}, got {format_value(given)}")


def modules_of(module: Any, references: Any) -> dict[str, nn.Module]:
    """The attacked model and its references by name. Raises ConfigError if one is no torch module."""
    from torch import nn

    if references is not None and (isinstance(references, nn.Module) or not isinstance(references, Sequence)):
        _refuse("references", f"must be a list of torch modules, got {_kind(references)}")
    named = {"module": module} | {f"references[{i}]": one for i, one in enumerate(references or ())}
    problems = []
    for name, one in named.items():
        if not isinstance(one, nn.Module):
            problems.append((name, f"must be a torch.nn.Module, got {_kind(one)}"))
        elif one is module and name != "module":
            problems.append(
                (name, "is the attacked module itself; a reference is another model, trained on other examples")
            )
        for part, inner in one.named_modules() if isinstance(one, nn.Module) else ():
            if isinstance(inner, nn.modules.batchnorm._BatchNorm) and inner.running_mean is None:
                problems.append((name, f"{part or 'it'} {MIXES}"))
    if problems:
        raise ConfigError(ConfigProblem(sentence, file=name) for name, sentence in problems)
    return named


def examples_of(given: Any, name: str) -> Examples:
    """Check members or non-members. Raises ConfigError with everything that is wrong with them."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        _refuse(name, f"{PAIR}, got {_kind(given)}")
    x, y = map(_array, given)
    problems = []
    if x.ndim < 2 or x.dtype.kind not in "fiub":
        problems.append(f"x must be an array of numbers [n, ...], got {x.dtype} of shape {_shape(x)}")
    elif x.dtype.kind == "f" and not np.isfinite(x).all():
        bad = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
        problems.append(f"x has NaN or infinity in {_places(bad, 'example')}")
    if y.ndim != 1 or y.dtype.kind not in "iub":
        problems.append(f"y must be an array of whole numbers [n], the classes, got {y.dtype} of shape {_shape(y)}")
    elif (y.astype(np.int64) < 0).any():
        problems.append(f"y has negative labels in {_places(np.flatnonzero(y < 0), 'example')}; classes begin with 0")
    if x.ndim and y.ndim and len(x) != len(y):
        problems.append(f"x has {len(x)} examples, but y has {len(y)} labels")
    elif x.ndim and len(x) < FEWEST_NONMEMBERS:
        problems.append(f"has {len(x)} examples; {FEWEST_NONMEMBERS} or more are needed to say anything")
    if problems:
        raise ConfigError(ConfigProblem(sentence, file=name) for sentence in problems)
    return Examples(name, x, y.astype(np.int64))


def refuse_overlap(members: Examples, nonmembers: Examples, module: nn.Module) -> None:
    """Raise ConfigError if the module is given an example on both sides, a member and none, or examples of two shapes."""
    if members.x.shape[1:] != nonmembers.x.shape[1:]:
        shapes = f"{_shape(nonmembers.x[0])}, those of members {_shape(members.x[0])}"
        _refuse("nonmembers", f"examples have the shape {shapes}; both must be what the module takes")
    inside, outside = _rows(members, nonmembers, module), _rows(nonmembers, members, module)
    first = {row.tobytes(): place for place, row in reversed(list(enumerate(inside)))}
    twice = [(i, first[row.tobytes()]) for i, row in enumerate(outside) if row.tobytes() in first]
    if twice:
        named = ", ".join(f"nonmembers[{i}] = members[{j}]" for i, j in twice[:SHOWN])
        more = f" and {len(twice) - SHOWN} more" if len(twice) > SHOWN else ""
        what = "example is" if len(twice) == 1 else "examples are"
        _refuse("nonmembers", f"{len(twice)} {what} also among the members: {named}{more}; take them out of one side")


def _rows(examples: Examples, other: Examples, module: nn.Module) -> NDArray[Any]:
    """The examples, flat and in the type that the module is given, so that equal ones have equal bytes."""
    given = _given(examples.x.astype(np.result_type(examples.x, other.x)), module)
    x: NDArray[Any] = (given.double() if given.is_floating_point() else given).numpy()
    return np.ascontiguousarray(x.reshape(len(x), -1) + 0)  # minus zero becomes zero


@dataclass(frozen=True, eq=False)
class Queried:
    """A model that was asked about examples.

    Attributes:
        name: the argument.
        module: the model.
        x: [n, ...] members and then non-members.
        y: [n] labels.
        batch: examples in a forward pass.
        members: number of members.
    """

    name: str
    module: nn.Module
    x: NDArray[Any]
    y: NDArray[np.int64]
    batch: int
    members: int

    @cached_property
    def logits(self) -> NDArray[np.float32]:
        """Its outputs [n, classes]. Raises ConfigError if they are no logits of the labels' classes."""
        import torch

        pieces: list[Any] = []
        with _evaluated(self.module), torch.no_grad():
            for at in range(0, len(self.x), self.batch):
                try:
                    outputs = self.module(self._inputs(at))
                except Exception as error:  # whatever a foreign module raises
                    _refuse(self.name, f"cannot be called with examples {_shape(self.x)}: {_first_line(error)}")
                size = min(self.batch, len(self.x) - at)
                shape = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else ()
                if len(shape) != 2 or shape[0] != size or shape[1] < 2:
                    got = f"shape {shape}" if isinstance(outputs, torch.Tensor) else _kind(outputs)
                    must = "must return logits [n, classes] of two classes or more"
                    _refuse(self.name, f"{must}, got {got} for {size} examples")
                pieces.append(outputs.float().cpu().numpy())
        logits: NDArray[np.float32] = np.concatenate(pieces)
        if not np.isfinite(logits).all():
            _refuse(self.name, f"gives NaN or infinity for {self._named(np.asarray(~np.isfinite(logits).all(axis=1)))}")
        if (logits >= 0).all() and np.allclose(logits.sum(axis=1), 1, atol=1e-4):
            _refuse(self.name, "gives probabilities (every row sums to 1); logits are needed, or torch.log of these")
        classes = logits.shape[1]
        beyond: NDArray[np.bool_] = np.greater_equal(self.y, classes)
        if beyond.any():
            label = f"{self._named(beyond)} has the label {self.y[beyond][0]}"
            _refuse(self.name, f"gives {classes} outputs, for the classes 0 to {classes - 1}, but {label}")
        return logits

    def gradient_norms(self) -> Doubles | None:
        """The norms [n] of the examples' own gradients; None if nothing of the model is trainable."""
        import torch

        if not any(one.requires_grad for one in self.module.parameters()):
            return None
        pieces = []
        with _evaluated(self.module):
            for at in range(0, len(self.x), self.batch):
                inputs, labels = self._inputs(at), torch.from_numpy(self.y[at : at + self.batch])
                try:
                    pieces.append(one_model.gradient_norms(self.module, inputs, labels.to(inputs.device)))
                except Exception as error:  # of a forward pass without gradients, or whatever a foreign module raises
                    _refuse(self.name, f"its gradients cannot be computed: {_first_line(error)}; {NO_GRADIENTS}")
        return np.concatenate(pieces)

    def _named(self, bad: NDArray[np.bool_]) -> str:
        """The first of the examples that are ``bad`` [n], as the user counts them, and how many more there are."""
        first, more = int(np.argmax(bad)), int(bad.sum()) - 1
        name = f"members[{first}]" if first < self.members else f"nonmembers[{first - self.members}]"
        return name + (f" (and {more} more)" if more else "")

    def _inputs(self, at: int) -> torch.Tensor:
        """A batch as the module takes it, where its parameters are."""
        first = next(self.module.parameters(), None)
        return _given(self.x[at : at + self.batch], self.module).to(None if first is None else first.device)


def _given(x: NDArray[Any], module: nn.Module) -> torch.Tensor:
    """Examples as a module takes them, on the CPU: numbers with a fraction get the type of its parameters."""
    import torch

    given = torch.from_numpy(np.ascontiguousarray(x))
    types = (one.dtype for one in module.parameters() if one.is_floating_point())
    return given.to(next(types, torch.float32)) if given.is_floating_point() else given


@contextmanager
def _evaluated(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and every part of it back into its own mode afterwards."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _array(given: Any) -> NDArray[Any]:
    """An array in a type that torch has: in this machine's order of bytes, and no wider than 64 bits."""
    try:
        if hasattr(given, "detach"):  # a tensor
            given = given.detach().cpu()
            # NumPy has no bfloat16.
            given = (given.float() if given.is_floating_point() and given.itemsize < 4 else given).numpy()
        array = np.asarray(given)
        wide = array.dtype.kind == "f" and array.dtype.itemsize > np.dtype(np.float64).itemsize
        return array.astype(np.float64 if wide else array.dtype.newbyteorder("="), copy=False)
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return np.empty(0, object)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _kind(given: Any) -> str:
    return f"{type(given).__name__} {format_value(given)}" if isinstance(given, str | int) else type(given).__name__


def _shape(array: NDArray[Any]) -> str:
    return str(list(array.shape))


def _places(bad: NDArray[np.int64], what: str) -> str:
    named = ", ".join(map(str, bad[:SHOWN].tolist()))
    more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
    return f"{what}{'s' if len(bad) > 1 else ''} {named}{more}"


def _refuse(name: str, sentence: str) -> NoReturn:
    raise ConfigError([ConfigProblem(sentence, file=name)])
