"""Finding what a dotted path names, whether it may be called, and what it is given: all of
`imported` that needs no torch.

    mypkg.nets:Net             the attribute Net of a module; it may have dots (Nets.small)
    torchvision:resnet18       a model for classification of torchvision
    timm:vit_tiny_patch16_224  a model of timm, where timm is installed

A sweep file without ``code:`` is only data, so it may not run anything: a module is imported if it
is own code (``code:``) or part of an installed distribution. Of what it holds, subclasses of
torch.nn.Module are called, and whatever own code defines, or a distribution that offers models by
entry points.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from datasets import origins, outside
from datasets.origins import message_of
from datasets.sources._own_files import nearest

Shape = tuple[int, ...]
Built = Callable[..., Any]

CLASSES = ("num_classes", "classes", "n_classes")
# What a parameter of this name is given, from the shape of an example and the number of classes.
GIVEN: dict[str, Callable[[Shape, int], Any]] = {
    **dict.fromkeys(CLASSES, lambda _, classes: classes),
    **dict.fromkeys(("shape", "input_shape"), lambda shape, _: shape),
    **dict.fromkeys(("in_channels", "in_chans"), lambda shape, _: shape[0]),
    "in_features": lambda shape, _: math.prod(shape),
}
# Arguments that make a library download weights, which other machines of a cluster may lack.
DOWNLOADS = {
    "torchvision": ("weights", "weights_backbone"),
    "timm": ("pretrained", "checkpoint_path"),
}
EXAMPLE = "algorithms.models._linear"  # of ours, to show what a callable looks like


class CallableError(ValueError):
    """What a dotted path names cannot be used; the text follows the name in a sentence ("does
    not import: ...").
    """

    field = "name"


class ArgumentError(CallableError):
    """The arguments cannot be used."""

    field = "args"


def find(path: str) -> Built:
    """Return the callable that ``path`` names.

    Raises:
        CallableError: there is none, it does not import, it cannot be called, or it may not be.
    """
    from torch import nn

    place, _, attribute = path.partition(":")
    if not attribute or not all(part.isidentifier() for part in place.split(".")):
        raise CallableError("must be a module, a colon and a name in it, such as mypkg.nets:Net")
    if place in DOWNLOADS:
        return _library_model(place, attribute)
    value: Any = _module(place)
    for part in attribute.split("."):
        if not hasattr(value, part):
            near = nearest(part, (name for name in dir(value) if not name.startswith("_")))
            raise CallableError(f"does not exist: {place} has no {part}{near}")
        value = getattr(value, part)
        place = f"{place}.{part}"
    if not callable(value) or isinstance(value, nn.Module):
        raise CallableError(
            f"builds no module: it is of type {type(value).__name__}; name a class or a function"
        )
    if not _may_be_called(value):
        raise CallableError(
            "is not called: it is neither a class that extends torch.nn.Module nor defined in "
            "a file of code: or in an installed package with entry points of the group "
            "fedpriv.models (torchvision:NAME and timm:NAME name models of these libraries); "
            "write a function that calls it, in a file that code: names"
        )
    return cast(Built, value)


def maker(path: str, args: Mapping[str, Any], shape: Shape, classes: int) -> partial[Any]:
    """Return the call that builds the module: ``args``, and what the signature asks for of shape
    and classes (`GIVEN`).

    Raises:
        CallableError: as `find` does, or the arguments do not fit the signature, or make a library
            download weights.
    """
    called = find(path)
    library = path.partition(":")[0].partition(".")[0]
    option = next((name for name in DOWNLOADS.get(library, ()) if args.get(name)), None)
    if option:
        raise ArgumentError(
            f"would be downloaded: {option} makes {library} download weights, which workers "
            "cannot rely on; to start from trained weights, name a function of your own that "
            "builds the model and loads them from a file"
        )
    names = _parameters(called)
    full = {name: GIVEN[name](shape, classes) for name in names if name in GIVEN} | dict(args)
    try:
        inspect.signature(called).bind(**full)
    except TypeError as error:
        near = "".join(nearest(name, names) for name in args if name not in names)
        raise ArgumentError(f"takes {', '.join(names)}: {error}{near}") from None
    return partial(called, **full)


def asks_for_shape(path: str) -> bool:
    """Return whether the signature names the shape of an example, or a part of it."""
    return bool(set(_parameters(find(path))) & (GIVEN.keys() - set(CLASSES)))


def _parameters(called: Built) -> list[str]:
    """Return the names of the arguments that may be given by keyword."""
    keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        return [
            name
            for name, parameter in inspect.signature(called).parameters.items()
            if parameter.kind in keyword
        ]
    except (TypeError, ValueError):
        raise CallableError(
            "does not tell its arguments; write a function that calls it, in a file of code:"
        ) from None


def _module(name: str) -> Any:
    origin = origins.of(name)
    if origin.kind in ("python", "elsewhere") or (origin.kind == "fedpriv" and name != EXAMPLE):
        file = origin.file and (
            origin.file.parent if origin.file.name == "__init__.py" else origin.file
        )
        raise CallableError(
            f"is not imported: {file or name} is neither named under code: nor part of an "
            "installed package of models; list it in code: of the sweep file if you trust it"
        )
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        hint = (
            ", neither in code: of the sweep file nor installed" if origin.kind == "nowhere" else ""
        )
        raise CallableError(f"does not import: {message_of(error)}{hint}") from error


def _library_model(library: str, name: str) -> Built:
    """Return a function that builds a model of torchvision or timm."""
    if library == "torchvision":
        from torchvision import models

        names = models.list_models(module=models)
        build: Built = lambda num_classes, **args: models.get_model(  # noqa: E731
            name, num_classes=num_classes, **args
        )
    else:
        timm = sys.modules.get("timm") or _module("timm")
        names = [name] if timm.is_model(name) else timm.list_models()
        build = lambda num_classes, in_chans, **args: timm.create_model(  # noqa: E731
            name, num_classes=num_classes, in_chans=in_chans, **args
        )
    if name not in names:
        raise CallableError(
            f"does not exist: {library} has no model {name} for "
            f"classification{nearest(name, names)}"
        )
    return build


def _may_be_called(value: Any) -> bool:
    """Return whether ``value``, or what it calls if it is decorated or partly applied, may build
    a module.
    """
    from torch import nn

    while isinstance(value, partial):
        value = value.func
    value = inspect.unwrap(value) if "__wrapped__" in getattr(value, "__dict__", {}) else value
    if isinstance(value, type) and issubclass(value, nn.Module):
        return True
    owner = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
    home = str(getattr(owner, "__module__", None) or "")
    origin = origins.of(home)
    offers = (
        origin.kind == "installed"
        and origin.file is not None
        and outside.builds_models(origin.file)
    )
    return home == EXAMPLE or origin.kind == "own" or offers
