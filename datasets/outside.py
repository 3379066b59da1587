"""Components from outside the checkout: what own folders and installed distributions offer to
the slots.

There are two places, and code is run from no other: the folders and files that a sweep file names
under ``code:`` (`orchestrator.config.own_code` looks into them), and the entry points of installed
distributions in the groups ``fedpriv.attacks``, ``fedpriv.aggregation``, ``fedpriv.sources`` and so
on, one for each folder of components. The value of such an entry point is the module that is the
component.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from datasets import origins
from datasets.guard import its_own

GROUP = "fedpriv."


@dataclass(frozen=True)
class Offer:
    """A component that lies outside the checkout.

    Attributes:
        name: its name, by which a sweep file chooses it.
        module: the name under which every process imports its module.
        origin: where it comes from, in words: a path, or a distribution with its version.
    """

    name: str
    module: str
    origin: str


@dataclass(frozen=True, eq=False)
class Declaration:
    """What a component from outside says of itself to reports, which need it where the
    component's code is not.

    Attributes:
        room: the room of its slot.
        name: its name; LABEL, METRICS and PRESETS are those of `datasets.components.BaseContract`.
        KINDS: the kinds of an attack.
        SEES: what an attack has to see; None if it does not say.
        ADVERSARY: who makes an attack; None if it does not say.
    """

    room: str
    name: str
    LABEL: str = ""
    METRICS: tuple[Any, ...] = ()
    PRESETS: Mapping[str, Any] = field(default_factory=dict)
    KINDS: tuple[str, ...] = ()
    SEES: str | None = None
    ADVERSARY: str | None = None


_own: dict[str, tuple[Offer, ...]] = {}
_reasons: dict[tuple[str, str], str] = {}
_declared: dict[tuple[str, str], Declaration] = {}  # replaced as a whole, because threads read it


def room(folder: str) -> str:
    """Return the last part of a slot's package, by which own folders and entry points name the
    slot.

    >>> room("algorithms.aggregation")
    'aggregation'
    """
    return folder.rpartition(".")[2]


def offer(offers: Mapping[str, tuple[Offer, ...]], places: Iterable[Path] = ()) -> None:
    """Replace what own folders offer; the caches of `datasets.components` are the caller's to
    clear.

    ``offers`` are by room, and ``places`` are the files and folders that are own code.
    """
    origins.claim(places)
    _own.clear()
    _own.update(offers)
    _reasons.clear()
    declare(
        [],
        forgotten={
            (where, offered.name) for where, several in offers.items() for offered in several
        },
    )


def declare(
    declarations: Iterable[Declaration], forgotten: Collection[tuple[str, str]] = ()
) -> None:
    """Add declarations that were saved with results, the latest of a component count, and forget
    those of rooms and names.
    """
    global _declared
    others = {key: declaration for key, declaration in _declared.items() if key not in forgotten}
    _declared = others | {
        (declaration.room, declaration.name): declaration for declaration in declarations
    }


def declared(folder: str) -> tuple[Declaration, ...]:
    """Return what was declared by components of a slot, sorted by name."""
    return tuple(
        declaration
        for (where, _), declaration in sorted(_declared.items())
        if where == room(folder)
    )


def offers(folder: str) -> tuple[Offer, ...]:
    """Return what is offered to a slot from outside: first the own components, then those of
    installed distributions.
    """
    return (*_own.get(room(folder), ()), *installed().get(room(folder), ()))


def loaded(folder: str) -> dict[str, ModuleType]:
    """Return the offered modules by name, without those that cannot be imported (`why_not`)."""
    modules: dict[str, ModuleType] = {}
    for offered in offers(folder):
        name = offered.name
        source = offered.origin
        origin = origins.of(offered.module)
        if origin.kind == "elsewhere":
            reason = (
                f"{offered.module} of {source} would be imported from {origin.file}, which is "
                "no installed package"
            )
        else:
            try:
                module = importlib.import_module(offered.module)
            except BaseException as error:
                if not its_own(error):
                    raise
                why = cause(error)
                reason = (
                    f"{why if why.startswith(source) else f'{source}: {why}'}; so {name} cannot "
                    "be imported"
                )
            else:
                reason = (
                    ""
                    if hasattr(module, "Config")
                    else f"{name} of {source} has no class Config, so it is no component"
                )
        if reason:
            _reasons[room(folder), name] = reason
        else:
            modules.setdefault(name, module)
    return modules


def why_not(folder: str, name: str) -> str | None:
    """Return why something of this name is no component of the slot, as a sentence; None if
    nothing is known of it.
    """
    return _reasons.get((room(folder), name))


def broken(folder: str) -> dict[str, str]:
    """Return what is offered to a slot and cannot be used: by name, the reason as a sentence."""
    names = {offered.name for offered in offers(folder)}
    return {
        name: why
        for (where, name), why in _reasons.items()
        if where == room(folder) and name in names
    }


def cause(error: BaseException) -> str:
    """Return file, line, kind and text of what a module raised when it was imported, on one
    line.
    """
    try:
        text = f"{type(error).__name__}: {error}".split("\n")[0]
    except Exception:  # an error of another's code may be one that cannot say what it is
        text = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen")
    ]
    places = [frame for frame in frames if frame.filename not in (__file__, importlib.__file__)]
    return f"{places[-1].filename}, line {places[-1].lineno}: {text}" if places else text


@cache
def installed() -> dict[str, tuple[Offer, ...]]:
    """Return what installed distributions offer, by room.

    Their entry points are read once; no module is imported.

    Metadata that merely lie in the working folder, where Python looks, too, are those of no
    installed distribution.
    """
    offers: dict[str, tuple[Offer, ...]] = {}
    points = metadata.entry_points()
    for group in sorted(group for group in points.groups if group.startswith(GROUP)):
        for point in points.select(group=group):
            dist = point.dist
            if dist and _is_installed(dist):
                offered = Offer(point.name, point.module, f"{dist.name} {dist.version}")
                offers[point.group.removeprefix(GROUP)] = (
                    *offers.get(point.group.removeprefix(GROUP), ()),
                    offered,
                )
    return offers


def builds_models(file: Path) -> bool:
    """Return whether a file (without links) belongs to an installed distribution that offers
    models by entry points.
    """
    offering = {
        point.dist.name: point.dist
        for point in metadata.entry_points(group=f"{GROUP}models")
        if point.dist
    }
    return any(_is_installed(dist) and origins.holds(dist, file) for dist in offering.values())


def _is_installed(dist: metadata.Distribution) -> bool:
    return origins.is_installed(Path(str(dist.locate_file(""))).resolve())
