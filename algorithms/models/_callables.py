"""Finding what a dotted path names, and calling it: everything that `imported` does before torch is needed.

    mypkg.nets:Net             the attribute Net of the module mypkg.nets; it may have dots (Nets.small)
    torchvision:resnet18       a model for classification of torchvision
    timm:vit_tiny_patch16_224  a model of timm, where timm is installed

Arguments that ``args`` leaves out are passed where the signature names them: see `GIVEN`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from algorithms.models import _permitted

Shape = tuple[int, ...]
Built = Callable[..., Any]

# What a parameter of this name is given, from the shape of an example and the number of classes.
GIVEN: dict[str, Callable[[Shape, int], Any]] = {
    **dict.fromkeys(("num_classes", "classes", "n_classes"), lambda _, classes: classes),
    **dict.fromkeys(("shape", "input_shape"), lambda shape, _: shape),
    **dict.fromkeys(("in_channels", "in_chans"), lambda shape, _: shape[0]),
    "in_features": lambda shape, _: math.prod(shape),
}
CLASSES = {"num_classes", "classes", "n_classes"}
# Arguments that make a library download weights, which other machines of a cluster may lack.
DOWNLOADS = {"torchvision": ("weights", "weights_backbone"), "timm": ("pretrained", "checkpoint_path")}
KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class CallableError(ValueError):
    """A dotted path or its arguments cannot be used; the text follows the name in a sentence ("does not import: ...")."""


def find(path: str) -> Built:
    """Return the callable that ``path`` names.

    Args:
        path: a dotted module, a colon and an attribute, or a library and the name of one of its models.

    Raises:
        CallableError: there is none, it does not import, it cannot be called, or it may not be (`_permitted`).
    """
    place, colon, attribute = path.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in place.split(".")):
        raise CallableError("must be a module, a colon and a name in it, such as mypkg.nets:Net")
    if place == "torchvision":
        return _torchvision(attribute)
    if place == "timm":
        return _timm(attribute)
    found = _attribute(_module(place), place, attribute)
    if problem := _permitted.call_problem(place, found):
        raise CallableError(problem)
    return found


def arguments(called: Built, args: Mapping[str, Any], shape: Shape, classes: int) -> dict[str, Any]:
    """Return the keyword arguments of a call: ``args``, and what the signature asks for of shape and classes.

    Raises:
        CallableError: the arguments do not fit the signature.
    """
    signature = signature_of(called)
    if signature is None:
        return dict(args)
    asked = [one.name for one in signature.parameters.values() if one.kind in KEYWORD and one.name in GIVEN]
    full = {name: GIVEN[name](shape, classes) for name in asked} | dict(args)
    try:
        signature.bind(**full)
    except TypeError as error:
        known = [name for name, one in signature.parameters.items() if one.kind in KEYWORD]
        word = str(error).rpartition("'")[0].rpartition("'")[2]
        near = _nearest(word, known) if "unexpected" in str(error) else ""
        bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
        takes = str(inspect.Signature(bare))[:200]
        raise CallableError(f"takes {takes}: {error}{near}") from None
    return full


def asks_for_shape(called: Built) -> bool:
    """Return whether the signature names the shape of an example, or a part of it."""
    signature = signature_of(called)
    return signature is not None and not set(signature.parameters).isdisjoint(set(GIVEN) - CLASSES)


def signature_of(called: Built) -> inspect.Signature | None:
    """Return the signature; None for the few callables that have none."""
    try:
        return inspect.signature(called)
    except (TypeError, ValueError):
        return None


def said(error: BaseException) -> str:
    """Write an exception as one line, with the file and line of the user's code in which it was raised.

    >>> said(KeyError("width"))
    "KeyError: 'width'"
    """
    text = " ".join(str(error).split()).partition(". ")[0]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({error.filename}, line {error.lineno})"
        text = error.msg
    else:
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text[:300]}{where}" if text else f"{type(error).__name__}{where}"


def _is_users(filename: str) -> bool:
    ours = __file__.rpartition("/algorithms/")[0] + "/"
    own = filename.startswith((ours + "algorithms/", ours + "orchestrator/", ours + "datasets/"))
    return not (own or filename.startswith("<") or "site-packages" in filename or "/importlib/" in filename)


def _module(name: str) -> Any:
    if problem := _permitted.import_problem(name):
        raise CallableError(problem)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not (name == missing or name.startswith(f"{missing}.")):
            raise CallableError(f"does not import: {said(error)}") from error
        parent, _, leaf = missing.rpartition(".")
        where = " among the files that code: of the sweep file names, nor among installed packages"
        if parent:
            known = pkgutil.iter_modules(getattr(sys.modules.get(parent), "__path__", []))
            where = f" in {parent}{_nearest(leaf, (one.name for one in known))}"
        raise CallableError(f"does not import: there is no {leaf}{where}") from None
    except (Exception, SystemExit) as error:
        raise CallableError(f"does not import: {said(error)}") from error


def _attribute(module: Any, place: str, attribute: str) -> Built:
    from torch import nn

    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = _nearest(part, (one for one in dir(found) if not one.startswith("_")))
            raise CallableError(f"does not exist: {place} has no {part}{near}")
        found, place = getattr(found, part), f"{place}.{part}"
    if isinstance(found, nn.Module):
        raise CallableError("is a module that is built already; name its class, or a function that builds it")
    if not callable(found):
        raise CallableError(f"cannot be called: it is of type {type(found).__name__}")
    return found


def _torchvision(name: str) -> Built:
    from torchvision import models

    known = models.list_models(module=models)
    if name not in known:
        raise CallableError(
            f"does not exist: torchvision has no model {name} for classification{_nearest(name, known)}"
        )
    builder = models.get_model_builder(name)

    def build(num_classes: int, **args: Any) -> Any:
        return builder(num_classes=num_classes, **args)

    return build


def _timm(name: str) -> Built:
    if "timm" not in sys.modules and (problem := _permitted.import_problem("timm")):
        raise CallableError(problem)
    try:
        timm = importlib.import_module("timm")
    except ModuleNotFoundError:
        raise CallableError("needs the package timm, which is not installed here: uv pip install timm") from None
    if not timm.is_model(name):
        raise CallableError(f"does not exist: timm has no model {name}{_nearest(name, timm.list_models())}")

    def build(num_classes: int, in_chans: int, **args: Any) -> Any:
        return timm.create_model(name, num_classes=num_classes, in_chans=in_chans, **args)

    return build


def download_problem(path: str, args: Mapping[str, Any]) -> str:
    """Return why ``args`` would make a library download weights; an empty string if they do not."""
    library = path.partition(":")[0].partition(".")[0]
    asked = [name for name in DOWNLOADS.get(library, ()) if args.get(name)]
    if not asked:
        return ""
    return (
        f"{asked[0]} makes {library} download weights, which workers cannot rely on; to start from trained weights, name "
        "a function of your own that builds the model and loads them from a file"
    )


def maker(path: str, args: Mapping[str, Any], shape: Shape, classes: int) -> Callable[[], Any]:
    """Return the call, ready to be made. Raises CallableError as `find` and `arguments` do."""
    called = find(path)
    return partial(called, **arguments(called, args, shape, classes))


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f". Did you mean {near[0]!r}?" if near else ""
