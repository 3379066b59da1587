"""What a module holds: to say what calls of it have changed, and to put it back."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import nn

PLAIN = (bool, int, float, complex, str, bytes, type(None))
MAPS = (dict, OrderedDict)
LISTS = (list, set, deque)
TORCHS = (
    "_parameters",
    "_buffers",
    "_modules",
)  # in which a module keeps what is known by its name alone


class Snapshot:
    """The values of a module's arrays and attributes, of its layers, and of what lies in their
    lists, maps and objects.

    Objects of other classes are looked into one deep. What they share with torch, and functions,
    are left out.

    Attributes:
        values: numbers, texts and copies of tensors by name, such as "body.0.weight" or "steps".
    """

    def __init__(self, module: nn.Module) -> None:
        """Copy what there is now; tensors are copied to the CPU."""
        self.values: dict[str, Any] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self._contents: list[tuple[Any, Any]] = []  # maps, lists and sets, and what was in them
        self._seen: set[int] = set()
        self._visit("", module)

    def changed(self, module: nn.Module) -> list[str]:
        """Return the names of what is no longer there, or other, or new."""
        now = Snapshot(module).values
        gone = object()
        names = dict.fromkeys([*self.values, *now])
        return [
            name for name in names if not _same(self.values.get(name, gone), now.get(name, gone))
        ]

    def restore(self) -> None:
        """Put back what was there."""
        for held, content in self._contents:
            held.clear()
            held.extend(content) if isinstance(held, list | deque) else held.update(content)
        for name, tensor in self.tensors.items():
            if not _same(tensor.detach().cpu(), self.values[name]):
                tensor.detach().copy_(self.values[name])

    def _visit(self, name: str, value: Any, deep: bool = True) -> None:
        if isinstance(value, PLAIN):
            self.values[name] = value
            return
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.flags.writeable:
            value = torch.from_numpy(value)  # which shares its memory
        if isinstance(value, torch.Tensor):
            if value.layout is torch.strided and not value.is_meta:
                with suppress(
                    RuntimeError
                ):  # what is left of a transformation by torch.func has no numbers
                    self.values[name] = value.detach().to("cpu", copy=True)
                    self.tensors[name] = value
        elif type(value) in MAPS:
            self._contents.append((value, dict(value)))
            self._visit_all(name, value.items(), deep)
        elif isinstance(value, (*LISTS, tuple)):
            if not isinstance(value, tuple):
                self._contents.append((value, list(value)))
            self._visit_all(name, enumerate(value), deep)
        elif isinstance(value, nn.Module):
            self._visit(name, vars(value))
        elif deep and _is_object(value):
            self._visit(name, vars(value), deep=False)

    def _visit_all(self, name: str, items: Iterable[tuple[Any, Any]], deep: bool) -> None:
        for key, item in items:
            parts = [name, "" if key in TORCHS else str(key)]
            self._visit(".".join(filter(None, parts)), item, deep)


def _is_object(value: Any) -> bool:
    """Return whether a class of somebody else may keep something in ``value``."""
    foreign = not type(value).__module__.startswith(("torch.", "builtins"))
    return foreign and hasattr(value, "__dict__") and not isinstance(value, type)


def _same(one: Any, other: Any) -> bool:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return type(one) is type(other) and bool(one == other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    first, second = (tensor.contiguous().flatten().view(torch.uint8) for tensor in (one, other))
    return torch.equal(first, second)  # NaN equals itself
