"""Components from outside the checkout: what own folders and installed distributions offer to the slots.

There are two places, and code is run from no other: the folders and files that a sweep file names under ``code:``
(`orchestrator.config.own_code` looks into them), and the entry points of installed distributions in the groups
``fedpriv.attacks``, ``fedpriv.aggregation``, ``fedpriv.sources`` and so on, one for each folder of components. The value
of such an entry point is the module that is the component.
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

    def load(self) -> ModuleType:
        """Import the module. Whatever the module raises is passed on."""
        return importlib.import_module(self.module)


@dataclass(frozen=True, eq=False)
class Declaration:
    """What a component from outside says of itself to reports, which need it where the component's code is not.

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
    """Return the last part of a slot's package, by which own folders and entry points name the slot.

    >>> room("algorithms.aggregation")
    'aggregation'
    """
    return folder.rpartition(".")[2]


def offer(
    found: Mapping[str, tuple[Offer, ...]],
    reasons: Mapping[tuple[str, str], str] | None = None,
    places: Iterable[Path] = (),
) -> None:
    """Replace what own folders offer; the caches of `datasets.components` are the caller's to clear.

    Args:
        found: the offers by room.
        reasons: for files that are no components: by room and name, why, as a sentence.
        places: the files and folders that are own code.
    """
    origins.claim(places)
    _own.clear()
    _own.update(found)
    _reasons.clear()
    _reasons.update(reasons or {})
    offered = {(where, one.name) for where, offers in found.items() for one in offers}
    declare([], forgotten=offered)


def declare(found: Iterable[Declaration], forgotten: Collection[tuple[str, str]] = ()) -> None:
    """Add declarations that were saved with results, the latest of a component count, and forget those of rooms and names."""
    global _declared
    kept = {key: one for key, one in _declared.items() if key not in forgotten}
    _declared = kept | {(one.room, one.name): one for one in found}


def declared(folder: str) -> tuple[Declaration, ...]:
    """Return what was declared by components of a slot, sorted by name."""
    return tuple(one for (where, _), one in sorted(_declared.items()) if where == room(folder))


def offers(folder: str) -> tuple[Offer, ...]:
    """Return what is offered to a slot from outside: first the own components, then those of installed distributions."""
    return (*_own.get(room(folder), ()), *installed().get(room(folder), ()))


def loaded(folder: str) -> dict[str, ModuleType]:
    """Return the offered modules by name, without those that cannot be imported (`why_not`)."""
    modules: dict[str, ModuleType] = {}
    for one in offers(folder):
        if (found := origins.of(one.module)).kind == "elsewhere":
            place = f"{one.module} of {one.origin} would be imported from {found.file}, which is no installed package"
            _reasons[room(folder), one.name] = place
            continue
        try:
            module = one.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # another's code may raise anything
            why = cause(error)
            own = why if why.startswith(one.origin) else f"{one.origin}: {why}"
            _reasons[room(folder), one.name] = f"{own}; so {one.name} cannot be imported"
            continue
        if hasattr(module, "Config"):
            modules.setdefault(one.name, module)
        else:
            _reasons[room(folder), one.name] = f"{one.name} of {one.origin} has no class Config, so it is no component"
    return modules


def why_not(folder: str, name: str) -> str | None:
    """Return why something of this name is no component of the slot, as a sentence; None if nothing is known of it."""
    return _reasons.get((room(folder), name))


def broken(folder: str) -> dict[str, str]:
    """Return what is offered to a slot and cannot be used: by name, the reason as a sentence."""
    names = {one.name for one in offers(folder)}
    return {name: why for (where, name), why in _reasons.items() if where == room(folder) and name in names}


def cause(error: BaseException) -> str:
    """Return file, line, kind and text of what a module raised when it was imported, on one line."""
    try:
        text = f"{type(error).__name__}: {error}".split("\n")[0]
    except Exception:  # an error of another's code may be one that cannot say what it is
        text = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith("<frozen")]
    own = [one for one in frames if one.filename not in (__file__, importlib.__file__)]
    return f"{own[-1].filename}, line {own[-1].lineno}: {text}" if own else text


@cache
def installed() -> dict[str, tuple[Offer, ...]]:
    """Return what installed distributions offer, by room. Their entry points are read once; no module is imported.

    Metadata that merely lie in the working folder, where Python looks, too, are those of no installed distribution.
    """
    found: dict[str, tuple[Offer, ...]] = {}
    every = metadata.entry_points()
    for group in sorted(one for one in every.groups if one.startswith(GROUP)):
        where = group.removeprefix(GROUP)
        for point in every.select(group=group):
            if (dist := point.dist) and _is_installed(dist):
                offered = Offer(point.name, point.module, f"{dist.name} {dist.version}")
                found[where] = (*found.get(where, ()), offered)
    return found


def builds_models(file: Path) -> bool:
    """Return whether a file (without links) belongs to an installed distribution that offers models by entry points."""
    offering = {point.dist.name: point.dist for point in metadata.entry_points(group=f"{GROUP}models") if point.dist}
    return any(_is_installed(dist) and origins.holds(dist, file) for dist in offering.values())


def _is_installed(dist: metadata.Distribution) -> bool:
    return origins.is_installed(Path(str(dist.locate_file(""))).resolve())
