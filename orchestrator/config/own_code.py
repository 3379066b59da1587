"""Own code beside a sweep file: what its ``code:`` names becomes importable and its components are offered.

    code/                     `code: code` in the sweep file; or a list of folders and files
      attacks/foo.py          a component of the slot attacks: its folder is named like the slot, or like our folder
      attacks/_helpers.py     a helper, imported by `from ._helpers import ...`
      bar.py                  a component, too, if it says `SLOT = "aggregation"`
      nets.py                 anything else can be imported as it is: `model: {name: "nets:Net"}`
      mypkg/__init__.py       a package, too; and ``code:`` may name a package

A component is imported as ``fedpriv_code.<folder>.<file>`` (in a package: by its own name), in every process alike, so
that what it defines travels between processes. A second folder of the same slot is ``fedpriv_code.<folder>_2`` and so on:
each has helpers of its own. Nothing is put on Python's path: these packages know their folders, and a finder knows the
other names. Ray's workers on this machine inherit the environment variable that `install` sets; on a cluster that is
joined, the files are sent along (`orchestrator.cluster.sent_code`).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from datasets import outside
from datasets.components import Config as BaseConfig
from datasets.components import components, forget, own_components, presets
from datasets.outside import Offer, room
from orchestrator import CHECKOUT
from orchestrator.config.contracts import owed
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.own_files import Found, look_into
from orchestrator.config.slots import SLOTS

VARIABLE = "FEDPRIV_OWN_CODE"
PACKAGE = "fedpriv_code"
SENT = "fedpriv_sent"  # the package in which the files arrive on another node
RESERVED = {"datasets", "algorithms", "attacks", "orchestrator", "fedpriv", PACKAGE, SENT} | set(
    sys.stdlib_module_names
)
ROOMS = {room(slot.folder): slot for slot in SLOTS}
SLOT_NAMES = {name: where for where, slot in ROOMS.items() for name in (where, slot.field, slot.key)}


class OwnModules(MetaPathFinder):
    """Finds own modules and packages at the top level; ``modules`` has the file, or the package's folder, of each."""

    def __init__(self, modules: Mapping[str, Path]) -> None:
        self.modules = modules

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return where the module ``name`` lies; None if it is not own code."""
        place = self.modules.get(name)
        if place is None or place.is_file():
            return spec_from_file_location(name, place) if place else None
        return spec_from_file_location(name, place / "__init__.py", submodule_search_locations=[str(place)])


@dataclass(frozen=True)
class OwnCode:
    """The own code that is installed in this process.

    Attributes:
        paths: what ``code:`` names.
        found: what was found there.
        finder: finds its modules.
        state: paths and contents; another state is installed anew.
    """

    paths: tuple[Path, ...] = ()
    found: tuple[Found, ...] = ()
    finder: OwnModules | None = None
    state: str = ""


_now = OwnCode()


def installed() -> OwnCode:
    """Return the own code that is installed in this process."""
    return _now


def own_paths(folder: Path, named: str | Iterable[str]) -> tuple[Path, ...]:
    """Return the absolute paths of what ``code:`` names.

    Args:
        folder: the folder of the sweep file, to which the names are relative.
        named: one name, or several.
    """
    names = [named] if isinstance(named, str) else named
    return tuple(Path(os.path.abspath(folder / Path(os.path.expanduser(name)))) for name in names)


def install(paths: Iterable[Path] = (), *, check: bool = True) -> list[str]:
    """Make own code importable and offer its components, in place of what was installed before.

    Args:
        paths: files and folders, absolute.
        check: import and check every own component, and look for names that are taken, also by installed distributions.

    Returns:
        Problems, as sentences. If there are any, no own code is installed.
    """
    global _now
    wanted = tuple(dict.fromkeys(paths))
    problems = [sentence for path in wanted if (sentence := _unusable(path))]
    found = () if problems else tuple(look_into(path, SLOT_NAMES) for path in wanted)
    state = repr((wanted, [one.state for one in found]))
    if wanted and state == _now.state:
        return []
    _remove()
    if not found:
        return problems + (_taken() if check else [])
    problems = [problem for one in found for problem in one.problems]
    problems += _clashes(found) if check else ()
    if problems:
        return problems
    finder = OwnModules({name: path for one in found for name, path in one.modules.items()})
    _now = OwnCode(wanted, found, finder, state)
    sys.meta_path.insert(0, finder)  # first: on a joined cluster Ray puts the working folder on the path, too
    importlib.invalidate_caches()
    outside.offer(
        _offers(found),
        {(one.room, one.name): one.why_not for part in found for one in part.components if one.why_not},
        [place for one in found for place in one.parts],
    )
    forget()
    os.environ[VARIABLE] = json.dumps([str(path) for path in wanted])
    problems = [*_taken(), *_broken(found)] if check else []
    if problems:
        _remove()
    return problems


def install_named(names: Sequence[str]) -> None:
    """Install what the option ``--code`` names, relative to the working folder.

    Raises:
        ConfigError: with every problem.
    """
    problems = install(own_paths(Path.cwd(), names))
    if problems:
        raise ConfigError([ConfigProblem(sentence, file="--code") for sentence in problems])


def install_here() -> None:
    """Install in a worker what the head process has installed; `orchestrator` calls this when it is imported.

    On another node the files are in the package that was sent there.
    """
    paths = [Path(path) for path in json.loads(os.environ[VARIABLE])]
    if sent := find_spec(SENT):
        (folder,) = sent.submodule_search_locations or [""]
        paths = [Path(folder) / str(place) / path.name for place, path in enumerate(paths)]
    install(paths, check=False)


def _remove() -> None:
    """Take back what was installed, with all modules that were imported from it."""
    global _now
    tops = {PACKAGE, *(_now.finder.modules if _now.finder else ())}
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        del sys.modules[name]
    if _now.finder in sys.meta_path:
        sys.meta_path.remove(_now.finder)
    os.environ.pop(VARIABLE, None)
    _now = OwnCode()
    outside.offer({})
    forget()


def _unusable(path: Path) -> str:
    """Why ``path`` cannot be own code, as a sentence; empty if it can."""
    try:
        there = path.exists()
    except OSError as error:  # such as a name that is too long
        return f"{str(path)[:200]} cannot be read: {error.strerror}"
    if not there:
        return f"{path} does not exist; a path in code: is relative to the folder of the sweep file"
    if path.is_file() and path.suffix != ".py":
        return f"{path} is neither a folder nor a Python file"
    place = path.resolve()
    ours = any(place.is_relative_to(CHECKOUT / name) for name in ("datasets", "algorithms", "attacks", "orchestrator"))
    if ours or (place.is_dir() and CHECKOUT.is_relative_to(place)):
        return f"{path} holds fedpriv's own code, which is found without code:"
    return ""


def _offers(found: Sequence[Found]) -> dict[str, tuple[Offer, ...]]:
    """The offers of the own components by room; the packages in which they are imported are made."""
    _make_package(PACKAGE, [])
    offers: dict[str, tuple[Offer, ...]] = dict.fromkeys(ROOMS, ())
    packages: dict[tuple[str, Path], str] = {}
    for part in found:
        for one in part.components:
            package = f"{one.package}.{one.folder.name}"
            if not one.package:
                number = sum(where == one.room for where, _ in packages)
                new = f"{PACKAGE}.{one.room}" + (f"_{number + 1}" if number else "")
                package = packages.setdefault((one.room, one.folder), new)
                _make_package(package, [one.folder, one.path.parent])
            if not one.why_not:
                offers[one.room] += (Offer(one.name, f"{package}.{one.name}", str(one.path)),)
    return offers


def _make_package(name: str, folders: Iterable[Path]) -> None:
    """Make a package whose modules lie in ``folders``, beside those that it has."""
    if name not in sys.modules:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = []
        sys.modules[name] = module_from_spec(spec)
    places = sys.modules[name].__path__
    places += [str(folder) for folder in dict.fromkeys(folders) if str(folder) not in places]


def _clashes(found: Sequence[Found]) -> Iterator[str]:
    """Yield own files that claim the name of another, or of another module that can be imported."""
    seen: dict[tuple[str, str], Path] = {}
    named = [
        (("component", f"{one.room}/{one.name}"), one.path)
        for part in found
        for one in part.components
        if not one.why_not
    ]
    named += [(("module", name), path) for part in found for name, path in part.modules.items()]
    for (kind, name), path in named:
        first = seen.setdefault((kind, name), path)
        if first != path:
            yield f"{path} and {first} are both the {kind} {name}; rename one of them"
        elif kind == "module" and (other := _elsewhere(name, path)):
            yield f"{path} has the name of the module {name} of {other}; give it another name"


def _elsewhere(name: str, path: Path) -> str:
    """Where another module of this name lies; empty if there is none."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError, AttributeError):
        spec = None
    origin = spec.origin if spec else None
    if origin and Path(origin).resolve() in (path.resolve(), (path / "__init__.py").resolve()):
        return ""  # it is installed, or lies where Python looks anyway
    if name in RESERVED:
        whose = "Python itself" if name in sys.stdlib_module_names else "fedpriv"
        return f"{whose} ({origin})" if origin and Path(origin).exists() else whose
    return str(origin) if origin else ""


def _taken() -> list[str]:
    """Components from outside that have the name of one of ours, or of another from outside; with both places."""
    problems = []
    for slot in SLOTS:
        own = own_components(slot.folder)
        short = {name: module for module in own for name in getattr(own[module], "PRESETS", {})}
        seen: dict[str, str] = {}
        for one in outside.offers(slot.folder):
            ours = own.get(one.name) or own.get(short.get(one.name, ""))
            place = Path(str(ours.__file__)).relative_to(CHECKOUT) if ours else None
            other = f"{place} of fedpriv" if place else seen.get(one.name)
            if other:
                problems.append(
                    f"the {slot.key} component {one.name} of {one.origin} has the name of that of {other}; rename it"
                )
            seen[one.name] = one.origin
    return problems


def _broken(found: Sequence[Found]) -> list[str]:
    """Own components that cannot be imported or lack what their slot requires."""
    problems = []
    for one in (one for part in found for one in part.components if not one.why_not):
        folder = ROOMS[one.room].folder
        module = components(folder).get(one.name)
        if module is None:
            problems.append(outside.why_not(folder, one.name) or f"{one.path} is no component")
        else:
            problems += [f"{one.path}: {problem}" for problem in lacks(folder, module)]
    for slot in SLOTS:
        presets(slot.folder)
    return problems


def lacks(folder: str, module: ModuleType) -> Iterator[str]:
    """Yield what a component lacks of what its slot requires, as sentences.

    Args:
        folder: the slot's package.
        module: the component.
    """
    config = getattr(module, "Config", None)
    if not (isinstance(config, type) and issubclass(config, BaseConfig)):
        yield "Config must be a class that extends datasets.components.Config"
    try:
        missing = [one.described for one in owed(folder, module) if not hasattr(module, one.name)]
    except (KeyError, TypeError):
        yield "KINDS must be a tuple of 'models', 'updates', 'replicas' and 'halves'"
        return
    if missing:
        yield f"defines no {', '.join(missing)}, which every component of {room(folder)} must have"
