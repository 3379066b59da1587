"""Which callables may be called for `imported`: a sweep file without ``code:`` is only data, so it may not run anything.

A module is imported if it is own code (``code:``) or part of an installed distribution. Of what it holds, subclasses of
torch.nn.Module are called, and whatever own code defines, or a distribution that offers models by entry points.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from datasets import origins, outside

EXAMPLES = {"algorithms.models._linear"}  # of ours, to show what a callable looks like
BY_NAME = ("torchvision", "timm")


def import_problem(module: str) -> str:
    """Return why ``module`` is not imported, as the end of a sentence; empty if it is, or if there is none.

    Args:
        module: a dotted name.
    """
    origin = origins.of(module)
    if origin.kind == "python":
        return f"is not imported: {module} is a module of Python itself, which builds no models"
    if origin.kind == "fedpriv" and not module.startswith("algorithms."):
        return f"is not imported: {module} is a part of fedpriv that builds no models"
    if origin.kind != "elsewhere":
        return ""
    file = origin.file
    where = f"{file.parent if file.name == '__init__.py' else file} is" if file else f"what is found as {module} is"
    return (
        f"is not imported: {where} neither named under code: nor part of an installed package; list it in code: of the "
        "sweep file if you trust it"
    )


def call_problem(module: str, found: Callable[..., Any]) -> str:
    """Return why ``found`` is not called, as the end of a sentence; empty if it may be called.

    Args:
        module: the dotted name of the module in which it was found.
        found: the callable.
    """
    from torch import nn

    made = _unwrapped(found)
    if (isinstance(made, type) and issubclass(made, nn.Module)) or _may_build(_home(made)):
        return ""
    library = module.partition(".")[0]
    shorter = f"; a model of {library} is named {library}:NAME" if library in BY_NAME else ""
    return (
        "is not called: it is neither a class that extends torch.nn.Module nor defined in a file of code: or in an "
        f"installed package with entry points of the group fedpriv.models{shorter}; write a function that calls it, in "
        "a file that code: names"
    )


def _may_build(module: str) -> bool:
    """Whether what is defined in a module may be called although it is no torch module."""
    origin = origins.of(module) if module not in EXAMPLES else origins.Origin("own")
    if origin.kind == "installed" and origin.file:
        return outside.builds_models(origin.file)
    return origin.kind == "own"


def _unwrapped(found: Any) -> Any:
    """What a decorated or partly applied callable calls in the end."""
    while isinstance(found, partial):
        found = found.func
    return inspect.unwrap(found) if "__wrapped__" in getattr(found, "__dict__", {}) else found


def _home(found: Any) -> str:
    """The module that defines a function or class; for another object, the one that defines its class."""
    owner = found if inspect.isroutine(found) or isinstance(found, type) else type(found)
    return str(getattr(owner, "__module__", None) or "")
