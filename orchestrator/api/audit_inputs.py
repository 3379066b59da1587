"""What `fedpriv.audit` is given: examples and models, and the refusal of what no attack can be made on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from attacks import _one_model as one_model
from attacks.metrics.membership import FEWEST_NONMEMBERS, Doubles
from orchestrator.config.errors import ConfigError, ConfigProblem, format_value

if TYPE_CHECKING:
    from torch import Tensor, nn

SHOWN = 3  # positions that a message names
MIXES = (
    "is batch normalization without running statistics, so that what the model says of an example depends on the others in "
    "its batch; no attack on single examples can be made"
)
NO_GRADIENTS = "give gradients=False to leave out the attack by gradients"
PAIR = "must be a pair (x, y) of examples [n, ...] and labels [n], as arrays or tensors"
REFERENCE = "is the attacked module itself; a reference is another model, trained on other examples"


def modules_of(module: Any, references: Any) -> dict[str, nn.Module]:
    """The attacked model and its references by name. Raises ConfigError if one is no torch module."""
    from torch import nn

    if references is not None and (isinstance(references, nn.Module) or not isinstance(references, Sequence)):
        refuse("references", f"must be a list of torch modules, got {_kind(references)}")
    named = {"module": module} | {f"references[{i}]": one for i, one in enumerate(references or ())}
    problems = []
    for name, one in named.items():
        if not isinstance(one, nn.Module):
            problems.append(ConfigProblem(f"must be a torch.nn.Module, got {_kind(one)}", file=name))
            continue
        if one is module and name != "module":
            problems.append(ConfigProblem(REFERENCE, file=name))
        for part, inner in one.named_modules():
            if isinstance(inner, nn.modules.batchnorm._BatchNorm) and inner.running_mean is None:
                problems.append(ConfigProblem(f"{part or 'it'} {MIXES}", file=name))
    if problems:
        raise ConfigError(problems)
    return named


@dataclass(frozen=True, eq=False)
class Examples:
    """The examples about which models are asked.

    Attributes:
        x: [n, ...] members and then non-members.
        y: [n] labels.
        members: the number of members.
        batch: examples in a forward pass.
    """

    x: NDArray[Any]
    y: NDArray[np.int64]
    members: int
    batch: int

    @property
    def member(self) -> NDArray[np.bool_]:
        """[n] whether an example is a member."""
        return np.arange(len(self.y)) < self.members

    def logits(self, name: str, module: nn.Module) -> NDArray[np.float32]:
        """The outputs [n, classes] of a module. Raises ConfigError if they are no logits of the labels' classes."""
        import torch

        def ask(inputs: Tensor, labels: Tensor) -> Any:
            with torch.no_grad():
                outputs = module(inputs)
            shape = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else ()
            if len(shape) != 2 or shape[0] != len(labels) or shape[1] < 2:
                got = f"shape {shape}" if isinstance(outputs, torch.Tensor) else _kind(outputs)
                must = "must return logits [n, classes] of two classes or more"
                refuse(name, f"{must}, got {got} for {len(labels)} examples")
            return outputs.float().cpu().numpy()

        logits = self._asked(name, module, ask, f"cannot be called with examples {list(self.x.shape)}: {{}}")
        if not np.isfinite(logits).all():
            refuse(name, f"gives NaN or infinity for {self._named(~np.isfinite(logits).all(axis=1))}")
        if (logits >= 0).all() and np.allclose(logits.sum(axis=1), 1, atol=1e-4):
            refuse(name, "gives probabilities (every row sums to 1); logits are needed, or torch.log of these")
        classes = logits.shape[1]
        if (beyond := np.greater_equal(self.y, classes)).any():
            label = f"{self._named(beyond)} has the label {self.y[beyond][0]}"
            refuse(name, f"gives {classes} outputs, for the classes 0 to {classes - 1}, but {label}")
        return logits

    def gradient_norms(self, name: str, module: nn.Module) -> Doubles | None:
        """The norms [n] of the examples' own gradients; None if nothing of the model is trainable."""
        if not any(one.requires_grad for one in module.parameters()):
            return None
        problem = f"its gradients cannot be computed: {{}}; {NO_GRADIENTS}"
        return self._asked(name, module, lambda x, y: one_model.gradient_norms(module, x, y), problem)

    def _asked(self, name: str, module: nn.Module, ask: Callable[[Tensor, Tensor], Any], problem: str) -> NDArray[Any]:
        """What ``ask`` says of all batches of examples and labels; the module is in evaluation mode meanwhile."""
        import torch

        training = [part for part in module.modules() if part.training]
        module.eval()
        try:
            first, pieces = next(module.parameters(), None), []
            device = None if first is None else first.device
            for at in range(0, len(self.x), self.batch):
                labels = torch.from_numpy(self.y[at : at + self.batch]).to(device)
                pieces.append(ask(_given(self.x[at : at + self.batch], module).to(device), labels))
            return np.concatenate(pieces)
        except ConfigError:
            raise
        except Exception as error:  # whatever a foreign module raises
            refuse(name, problem.format(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"))
        finally:
            for part in training:
                part.training = True

    def _named(self, bad: NDArray[Any]) -> str:
        """The first of the examples that are ``bad`` [n], as the user counts them, and how many more there are."""
        first, more = int(np.argmax(bad)), int(bad.sum()) - 1
        name = f"members[{first}]" if first < self.members else f"nonmembers[{first - self.members}]"
        return name + (f" (and {more} more)" if more else "")


def examples_of(members: Any, nonmembers: Any, module: nn.Module, batch: int) -> Examples:
    """Check members and non-members.

    Raises:
        ConfigError: something is wrong with one side; the sides have other shapes, or share an example in the type that
            the module is given.
    """
    (inside, labels), (outside, other) = _side(members, "members"), _side(nonmembers, "nonmembers")
    if inside.shape[1:] != outside.shape[1:]:
        shapes = f"{list(outside.shape[1:])}, those of members {list(inside.shape[1:])}"
        refuse("nonmembers", f"examples have the shape {shapes}; both must be what the module takes")
    x = np.concatenate([inside, outside])
    given = _given(x, module)
    flat = (given.double() if given.is_floating_point() else given).reshape(len(x), -1).numpy()
    rows = [row.tobytes() for row in np.ascontiguousarray(flat + 0)]  # minus zero becomes zero
    first = {row: place for place, row in reversed(list(enumerate(rows[: len(inside)])))}
    twice = [(i, first[row]) for i, row in enumerate(rows[len(inside) :]) if row in first]
    if twice:
        named = ", ".join(f"nonmembers[{i}] = members[{j}]" for i, j in twice[:SHOWN])
        more = f" and {len(twice) - SHOWN} more" if len(twice) > SHOWN else ""
        what = "example is" if len(twice) == 1 else "examples are"
        refuse("nonmembers", f"{len(twice)} {what} also among the members: {named}{more}; take them out of one side")
    return Examples(x, np.concatenate([labels, other]), len(inside), batch)


def _side(given: Any, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Examples [n, ...] and labels [n] of one side. Raises ConfigError with everything that is wrong with them."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        refuse(name, f"{PAIR}, got {_kind(given)}")
    x, y = map(_array, given)
    problems = []
    if x.ndim < 2 or x.dtype.kind not in "fiub":
        problems.append(f"x must be an array of numbers [n, ...], got {x.dtype} of shape {list(x.shape)}")
    elif x.dtype.kind == "f" and not np.isfinite(x).all():
        bad = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))
        problems.append(f"x has NaN or infinity in {_places(bad)}")
    if y.ndim != 1 or y.dtype.kind not in "iub":
        problems.append(f"y must be an array of whole numbers [n], the classes, got {y.dtype} of shape {list(y.shape)}")
    elif (y.astype(np.int64) < 0).any():
        problems.append(f"y has negative labels in {_places(np.flatnonzero(y < 0))}; classes begin with 0")
    if x.ndim and y.ndim and len(x) != len(y):
        problems.append(f"x has {len(x)} examples, but y has {len(y)} labels")
    elif x.ndim and len(x) < FEWEST_NONMEMBERS:
        problems.append(f"has {len(x)} examples; {FEWEST_NONMEMBERS} or more are needed to say anything")
    if problems:
        raise ConfigError(ConfigProblem(sentence, file=name) for sentence in problems)
    return x, y.astype(np.int64)


def _given(x: NDArray[Any], module: nn.Module) -> Tensor:
    """Examples as a module takes them, on the CPU: numbers with a fraction get the type of its parameters."""
    import torch

    given = torch.from_numpy(np.ascontiguousarray(x))
    types = (one.dtype for one in module.parameters() if one.is_floating_point())
    return given.to(next(types, torch.float32)) if given.is_floating_point() else given


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


def _kind(given: Any) -> str:
    return f"{type(given).__name__} {format_value(given)}" if isinstance(given, str | int) else type(given).__name__


def _places(bad: NDArray[np.int64]) -> str:
    more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
    return f"example{'s' if len(bad) > 1 else ''} {', '.join(map(str, bad[:SHOWN].tolist()))}{more}"


def refuse(name: str, sentence: str) -> NoReturn:
    """Raise ConfigError about an argument."""
    raise ConfigError([ConfigProblem(sentence, file=name)])
