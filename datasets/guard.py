"""Calls of components from outside: what they raise or wrongly return is one sentence.

It names the slot, the component, its function, and file and line of the code that is at fault.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, wraps
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from datasets.federation import DataError
from datasets.origins import told

KEYS = {
    "sources": "data.name",
    "splits": "data.split.name",
    "models": "model.name",
    "objectives": "objective.name",
    "attacks": "attacks",
}
# What callers expect of any component: unsuitable data, a run that diverges, too little memory.
EXPECTED = (DataError, FloatingPointError, MemoryError)
# Functions whose ValueError is a sentence about the configuration.
REFUSING = ("resolve", "problems", "settle")
NUMBERS = {np.float64: "fiub", np.int64: "iu", np.bool_: "b"}  # kinds that stand for such an array
Check = Callable[..., str | None]
"""Of what a function returned, and of its arguments: what is wrong, as the end of "it returned
...".
"""


class ComponentError(Exception):
    """A component from outside fails, or returns what it must not; the text says all."""


def guarded(
    function: Callable[..., Any],
    of: tuple[str, str],
    label: str,
    contract: Any,
    check: Check | None,
) -> Callable[..., Any]:
    """Return the function ``label`` of a component so that it raises `ComponentError` instead.

    The component is ``of`` a room and has a name there; ``contract`` is the function in the
    slot's contract, and ``check`` looks at what is returned.
    """
    room, name = of
    who = f"{KEYS.get(room, f'{room}.name')}: {name} fails in {label}"
    passed = (*EXPECTED, *([ValueError] if label in REFUSING else []))
    hint = _returned(contract)
    check = _config if label in ("resolve", "settle") else check

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            result = function(*given, **named)
            wrong = _misfit(result, hint) or (check and check(result, *given, **named))
        except (*passed, ComponentError):
            raise
        except BaseException as error:
            if not its_own(error):
                raise
            what, where = told(error)
            raise ComponentError(f"{who}{where}: {what}") from error
        if wrong:
            code = getattr(inspect.unwrap(function), "__code__", None)
            where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
            raise ComponentError(f"{who}{where}: it returned {wrong}")
        return result

    return call


def its_own(error: BaseException) -> bool:
    """Return whether code raised it, and nobody who ends this process or this generator."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if isinstance(error, SystemExit):  # Ray raises it, too, where it is told to end a process
        return "/ray/" not in frame.filename
    if isinstance(error, KeyboardInterrupt):  # a signal interrupts any line but this
        raised = (frame.line or "").startswith("raise ")
        return raised and not frame.filename.endswith("cluster/signals.py")
    return not isinstance(error, GeneratorExit)


def _config(result: Any, config: Any, *_: Any) -> str | None:
    """Check that fields that were filled in are those of the same component."""
    if type(result) is type(config):
        return None
    return f"{_seen(result)}; it must return its Config"


@lru_cache(maxsize=256)
def _returned(contract: Any) -> Any:
    """Return what a contract's function is declared to return; Any where that needs what is not
    loaded.
    """
    declared = getattr(contract, "__annotations__", {}).get("return", Any)
    if not isinstance(declared, str):
        return declared
    try:
        return eval(declared, vars(sys.modules[contract.__module__]))  # noqa: S307
    except NameError:
        return Any


def _misfit(value: Any, hint: Any) -> str | None:
    """Return what a value is, and what it must be instead; None if it is of the declared type."""
    if _fits(value, hint):
        return None
    return f"{_seen(value)}; it must return {_words(hint)}"


def _seen(value: Any) -> str:
    """Return what a value is, in words."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_seen, value))})"
    if isinstance(value, Mapping):
        parts = [f"{name}: {_seen(one)}" for name, one in value.items()]
        return f"a map of {', '.join(parts) or 'nothing'}"
    return "None" if value is None else type(value).__name__


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    inner = get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if hint is np.ndarray:
        return isinstance(value, np.ndarray | np.generic)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _holds(value, hint)
    if origin is tuple and Ellipsis not in inner:
        alike = isinstance(value, tuple | list) and len(value) == len(inner)
        return alike and all(map(_fits, value, inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_fits(one, inner[1]) for one in value.values())
    if isinstance(origin, type) and issubclass(origin, Iterable):
        items = value if isinstance(value, tuple | list) else ()
        alike = isinstance(value, Iterable) and not isinstance(value, str | bytes)
        return alike and all(_fits(one, inner[0]) for one in items)
    if hint in (float, int):
        kinds = (int, np.integer) if hint is int else (int, float, np.integer, np.floating)
        return isinstance(value, kinds)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    plain = isinstance(hint, type) and not getattr(hint, "_is_protocol", False)
    return value is None if hint in (None, NoneType) else not plain or isinstance(value, hint)


def _holds(value: np.ndarray, hint: Any) -> bool:
    kind = get_args(get_args(hint)[1])[:1]
    wanted = kind[0] if kind else Any
    return wanted is Any or value.dtype == wanted or value.dtype.kind in NUMBERS.get(wanted, "")


def _words(hint: Any) -> str:
    """Return a declared type in words."""
    origin = get_origin(hint)
    inner = get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_words, inner))
    if origin is tuple and Ellipsis not in inner:
        return f"({', '.join(map(_words, inner))})"
    if origin is np.ndarray:
        kind = get_args(inner[1])[:1]
        return (
            f"an array of {kind[0].__name__}" if kind and isinstance(kind[0], type) else "an array"
        )
    if hint is Any or hint is np.ndarray:
        return "an array" if hint is np.ndarray else "anything"
    if isinstance(origin, type) and inner:
        return f"a {origin.__name__.lower()} of {_words(inner[issubclass(origin, Mapping)])}"
    return "None" if hint in (None, NoneType) else str(getattr(hint, "__name__", hint))
