"""What a module holds and its code keeps elsewhere: to say what calls have changed, and to put it
back.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import random
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from datasets import origins

PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
# in which a module keeps what is known by its name alone
TORCHS = ("_parameters", "_buffers", "_modules")
HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
LINKS = ("__func__", "__self__", "fget")  # of methods and properties
GENERATORS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "random": (random.getstate, random.setstate),
    "numpy.random": (np.random.get_state, np.random.set_state),  # noqa: NPY002
}
WITHIN = re.compile(r"(\.\d+|\.\(.*)+$")  # the end of a name of what lies in an attribute
LIBRARIES = {*sys.stdlib_module_names, *origins.OURS, "torch", "numpy"} - {"__main__"}


class Snapshot:
    """The values of a module's arrays and attributes, of its layers, and of all that these reach.

    What they reach are lists, maps, objects, hooks and functions; and for code that is neither
    torch's nor Python's, attributes of classes, variables around functions, and globals that their
    code names. Python's and NumPy's own generators are looked at, too.

    Attributes:
        values: numbers, texts and copies of tensors by name, such as "body.0.weight" or "steps".
            What cannot be looked into and can only move on, such as a generator, has a value that
            nothing equals.
    """

    def __init__(self, module: nn.Module) -> None:
        """Copy what there is now; tensors are copied to the CPU."""
        self.values: dict[str, Any] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self._undo: list[Callable[[], Any]] = []
        self._seen: dict[int, Any] = {}  # objects by id, held so that no other one gets it
        arrays = dict(module.named_parameters()) | dict(module.named_buffers())
        for name, array in arrays.items():
            self._seen[id(array)] = array
            self._copy(name, array)
        self._places: set[tuple[str, ...]] = set()  # modules, with the names that were looked at
        self._waiting: deque[tuple[str, Any]] = deque()
        self._visit("", module)
        for name, array in arrays.items():
            self._visit_attached(name, array)
        while self._waiting:  # no recursion, as what is reached may be a long chain
            self._look_into(*self._waiting.popleft())
        for name, (read, write) in GENERATORS.items():
            state = read()
            self.values[name] = pickle.dumps(state)
            self._undo.append(partial(write, state))

    def changed(self, module: nn.Module) -> list[str]:
        """Return the names of what is no longer there, or other, or new."""
        now = Snapshot(module).values
        gone = object()
        names = dict.fromkeys([*self.values, *now])
        return [
            name for name in names if not _same(self.values.get(name, gone), now.get(name, gone))
        ]

    def restore(self) -> None:
        """Put back what was there, except where that can only move on."""
        for undo in self._undo:
            undo()
        for name, tensor in self.tensors.items():
            if not _same(tensor.detach().cpu(), self.values[name]):
                tensor.detach().copy_(self.values[name])

    def _visit(self, name: str, value: Any) -> None:
        if isinstance(value, PLAIN):
            self.values[name] = value
            return
        if id(value) in self._seen or isinstance(value, ModuleType):
            return
        self._seen[id(value)] = value
        self._waiting.append((name, value))

    def _look_into(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.flags.writeable:
            value = torch.from_numpy(value)  # which shares its memory
        if isinstance(value, torch.Tensor):
            self._copy(name, value)
            self._visit_attached(name, value)
        elif isinstance(value, FunctionType):
            self._visit_function(name, value)
        elif isinstance(value, type):
            self._visit_class(value)
        else:
            self._visit_contents(name, value)
            self._visit_object(name, value)

    def _visit_all(self, name: str, items: Iterable[tuple[Any, Any]]) -> None:
        for key, item in items:
            parts = [name, "" if key in TORCHS else str(key)]
            self._visit(".".join(filter(None, parts)), item)

    def _copy(self, name: str, value: torch.Tensor) -> None:
        if value.layout is torch.strided and not value.is_meta:
            with suppress(RuntimeError):  # what torch.func leaves behind has no numbers
                self.values[name] = value.detach().to("cpu", copy=True)
                self.tensors[name] = value

    def _visit_attached(self, name: str, value: torch.Tensor) -> None:
        self._visit(name, vars(value))
        for hooks in HOOKS:
            self._visit_all(name, [(hooks, getattr(value, hooks, None) or {})])

    def _visit_contents(self, name: str, value: Any) -> None:
        if isinstance(value, dict):
            self._undo.append(partial(_refill, value, dict(value)))
            # Torch numbers all hooks of a process.
            by_key = not name.endswith("_hooks")
            named = [key if by_key and _is_plain(key) else i for i, key in enumerate(value)]
            self._visit_all(name, zip(named, list(value.values()), strict=True))
        elif isinstance(value, list | deque | tuple):
            if not isinstance(value, tuple):
                self._undo.append(partial(_refill, value, list(value)))
            self._visit_all(name, enumerate(value))
        elif isinstance(value, set | frozenset):
            self.values[name] = sorted(map(repr, (item for item in value if _is_plain(item))))
            if isinstance(value, set):
                self._undo.append(partial(_refill, value, set(value)))

    def _visit_object(self, name: str, value: Any) -> None:
        kind = type(value)
        self._visit(name, kind)
        slots = [slot for slot in _slots(kind) if hasattr(value, slot)]
        for slot in slots:
            held = getattr(value, slot)
            self._undo.append(partial(_reset, value, slot, held))
            self._visit_all(name, [(slot, held)])
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._visit(name, attributes)
        if isinstance(value, ContextVar):
            self._visit_all(name, [("value", value.get(None))])
        for link in LINKS:
            self._visit_all(name, [(link, getattr(value, link))] if hasattr(kind, link) else [])
        own = any({"__reduce__", "__reduce_ex__"} & vars(part).keys() for part in kind.__mro__[:-1])
        known = isinstance(value, nn.Module | dict | list | deque | tuple | set | frozenset)
        if not known and (own or (attributes is None and not slots)):
            self._visit_reduced(name, value)

    def _visit_reduced(self, name: str, value: Any) -> None:
        """Look at what a copy would be made of."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:
            if isinstance(value, Iterator) and not isinstance(value, io.IOBase):
                self.values[name] = object()
            return
        if isinstance(reduced, tuple):
            self._visit_all(name, ((f"({i})", part) for i, part in enumerate(reduced[1:])))

    def _visit_function(self, name: str, value: FunctionType) -> None:
        self._visit_all(name, vars(value).items())
        self._visit(name, value.__defaults__)
        self._visit(name, value.__kwdefaults__)
        for variable, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with suppress(ValueError):  # it may be empty
                self._undo.append(partial(_reset, cell, "cell_contents", cell.cell_contents))
                self._visit(f"{name}.{variable}", cell.cell_contents)
        if _is_foreign(value.__module__):
            self._visit_globals(value.__module__, value.__globals__, _names(value.__code__))

    def _visit_globals(self, module: str, variables: dict[str, Any], names: set[str]) -> None:
        """Look at the globals that some code names, and what it names of imported modules."""
        place = (module, *sorted(names))
        if place in self._places:  # modules may import each other
            return
        self._places.add(place)
        for name in sorted(names & variables.keys()):
            held = variables[name]
            if not isinstance(held, ModuleType):
                self._undo.append(partial(_put, variables, name, held))
                self._visit(f"{module}.{name}", held)
            elif held.__name__ != module and _is_foreign(held.__name__):
                self._visit_globals(held.__name__, vars(held), names)

    def _visit_class(self, value: type) -> None:
        for kind in value.__mro__:
            if not _is_foreign(kind.__module__):
                continue
            for key, held in list(vars(kind).items()):
                if not key.startswith("__") or isinstance(held, FunctionType):
                    self._undo.append(partial(_reset, kind, key, held))
                    self._visit(f"{kind.__name__}.{key}", held)


def shown(names: Iterable[str]) -> list[str]:
    """Return the names of what changed as a user knows them: of a list, not of its entries."""
    return list(dict.fromkeys(WITHIN.sub("", name) for name in names))


def _slots(kind: type) -> list[str]:
    return list(copyreg._slotnames(kind))  # type: ignore[attr-defined]


def _is_plain(value: Any) -> bool:
    return isinstance(value, PLAIN)


def _is_foreign(module: str | None) -> bool:
    """Return whether code of this module may keep something that only it knows of."""
    return bool(module) and str(module).partition(".")[0] not in LIBRARIES


def _names(code: CodeType) -> set[str]:
    """Return the names of globals and attributes in code, and in functions within it."""
    within = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return {*code.co_names}.union(*within)


def _refill(held: Any, content: Any) -> None:
    if isinstance(held, dict):
        same = held.keys() == content.keys() and all(held[key] is content[key] for key in content)
    else:
        same = len(held) == len(content) and all(map(_is, held, content))
    if not same:
        held.clear()
        held.extend(content) if isinstance(held, list | deque) else held.update(content)


def _is(one: Any, other: Any) -> bool:
    return one is other


def _reset(owner: Any, name: str, held: Any) -> None:
    """Put an attribute back; what lies in a class may be bound to it where it is read."""
    now = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name, None)
    if now is not held:
        setattr(owner, name, held)


def _put(variables: dict[str, Any], name: str, held: Any) -> None:
    variables[name] = held


def _same(one: Any, other: Any) -> bool:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return type(one) is type(other) and repr(one) == repr(other)  # NaN equals itself
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    first, second = (tensor.contiguous().flatten().view(torch.uint8) for tensor in (one, other))
    return torch.equal(first, second)
