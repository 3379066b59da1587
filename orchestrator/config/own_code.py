"""Own code beside a sweep file: what its ``code:`` names becomes importable and its components are offered.

    code/                     `code: code` in the sweep file; or a list of folders and files
      attacks/foo.py          a component of the slot attacks: its folder is named like the slot, or like our folder
      attacks/_helpers.py     a helper, imported by `from ._helpers import ...`
      bar.py                  a component, too, if it says `SLOT = "aggregation"`
      nets.py                 anything else can be imported as it is: `model: {name: "nets:Net"}`
      mypkg/__init__.py       a package, too; and ``code:`` may name a package

Every module is loaded by its path: a finder knows the names, and nothing is put on Python's path. A component is imported
as ``fedpriv_code.<folder>.<file>`` (in a package: by its own name), in every process alike, so that what it defines
travels between processes. A second folder of the same slot is ``fedpriv_code.<folder>_2`` and so on: each has helpers of
its own. Ray's workers on this machine inherit the environment variable that `install` sets; on a cluster that is joined,
the files are sent along (`orchestrator.cluster.ray_session`).
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from datasets import origins, outside
from datasets.components import Config as BaseConfig
from datasets.components import components, forget, own_components
from datasets.outside import Offer, room
from orchestrator import CHECKOUT
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.slots import SLOTS, owed

VARIABLE = "FEDPRIV_OWN_CODE"
PACKAGE = "fedpriv_code"
SENT = "fedpriv_sent"  # the package in which the files arrive on another node
ROOMS = {room(slot.folder): slot for slot in SLOTS}
SLOT_NAMES = {name: where for where, slot in ROOMS.items() for name in (where, slot.field, slot.key)}


class OwnModules(MetaPathFinder):
    """Finds own code: by name, the file of a module, the folder of a package, or the folders of one that we make."""

    def __init__(self, places: Mapping[str, Path | Sequence[Path]]) -> None:
        self.places = places

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return where the module ``name`` lies; None if it is not own code."""
        place = self.places.get(name)
        if place is None:
            return None
        if not isinstance(place, Path):
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = list(map(str, place))
            return spec
        if place.is_file():
            return spec_from_file_location(name, place)
        return spec_from_file_location(name, place / "__init__.py", submodule_search_locations=[str(place)])


@dataclass
class Found:
    """What lies in an own file or folder.

    Attributes:
        components: files that should be components: the room of the slot, the file, and the dotted name of the package
            around it, or else the folder whose helpers it imports.
        modules: modules and packages that can be imported, by name.
        parts: the files and folders that make up the own code, without what else lies beside them.
        problems: what is wrong, as sentences.
        state: a hash of all names and contents, the same wherever the files lie.
    """

    components: list[tuple[str, Path, str | Path]] = field(default_factory=list)
    modules: dict[str, Path] = field(default_factory=dict)
    parts: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    state: str = ""


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
    """Return the absolute paths of what ``code:`` names, one name or several, relative to ``folder``."""
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
    found = () if problems else tuple(map(_look_into, wanted))
    state = repr((wanted, [one.state for one in found]))
    if wanted and state == _now.state:
        return []
    _remove()
    if not found:
        return problems + (list(_taken()) if check else [])
    problems = [problem for one in found for problem in one.problems]
    problems += _taken_modules(found) if check else ()
    if problems:
        return problems
    offers, finder = _offers(found)
    _now = OwnCode(wanted, found, finder, state)
    sys.meta_path.insert(0, finder)  # first: on a joined cluster Ray puts the working folder on the path, too
    importlib.invalidate_caches()
    outside.offer(offers, places=[place for one in found for place in one.parts])
    forget()
    os.environ[VARIABLE] = json.dumps([str(path) for path in wanted])
    problems = [*_taken(), *_broken(offers)] if check else []
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
    tops = set(_now.finder.places if _now.finder else ())
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
    ours = any(place.is_relative_to(CHECKOUT / name) for name in origins.OURS)
    if ours or (place.is_dir() and CHECKOUT.is_relative_to(place)):
        return f"{path} holds fedpriv's own code, which is found without code:"
    return ""


def _slot_of(file: Path) -> str | None:
    """What a module assigns to ``SLOT``; None if it does not. Raises SyntaxError."""
    for line in ast.parse(file.read_bytes()).body:
        targets = (
            line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AnnAssign) else []
        )
        if any(isinstance(one, ast.Name) and one.id == "SLOT" for one in targets):
            value = line.value  # type: ignore[attr-defined]
            return str(value.value) if isinstance(value, ast.Constant) else ast.unparse(value) if value else ""
    return None


def _look_into(path: Path) -> Found:
    """Find what lies in an own file or folder; nothing is imported."""
    found, at = Found(), path
    try:
        single = path.is_file() or path.name in SLOT_NAMES
        package = path.name if not single and (path / "__init__.py").is_file() else ""
        entries = [path] if single else sorted(path.iterdir())
        folders = {SLOT_NAMES[one.name]: one for one in reversed(entries) if one.name in SLOT_NAMES and one.is_dir()}
        if package:
            found.modules[package] = path
        for at in entries:
            if at.name in SLOT_NAMES and at.is_dir():
                found.parts += [] if package else [at]
                around = f"{package}.{at.name}" if package else at
                files = sorted(at.glob("[!_]*.py"))
                found.components += [(SLOT_NAMES[at.name], file, around) for file in files]
            elif package:
                continue
            elif (at / "__init__.py").is_file():
                found.modules[at.name] = at
            elif at.suffix == ".py" and not at.is_dir():
                try:
                    slot = _slot_of(at)
                except (SyntaxError, ValueError) as error:  # ValueError: null bytes
                    found.problems.append(
                        f"{at}, line {getattr(error, 'lineno', 1)}: {type(error).__name__}: {error.args[0]}"
                    )
                    continue
                if slot is None:
                    found.modules[at.stem] = at
                elif (where := SLOT_NAMES.get(slot, "")) == "":
                    allowed = ", ".join(sorted(SLOT_NAMES))
                    found.problems.append(f"{at}: SLOT must be one of {allowed}, got {slot!r}")
                else:
                    found.components.append((where, at, folders.get(where, at.parent)))
                    found.parts.append(at)
        found.parts = sorted({*found.parts, *found.modules.values()})
        digest = hashlib.blake2b(digest_size=16)
        code = {file for part in found.parts for file in (part.rglob("*.py") if part.is_dir() else [part])}
        for at in sorted(file for file in code if "__pycache__" not in file.parts):
            digest.update(f"{at.relative_to(path.parent)}\0".encode() + at.read_bytes() + b"\0")
        found.state = digest.hexdigest()
    except OSError as error:
        found.problems.append(f"{at} cannot be read: {(error.strerror or str(error)).lower()}")
    named = [*found.modules.items(), *((file.stem, file) for _, file, _ in found.components)]
    found.problems += [
        f"{place} is no name that Python can import; use letters, digits and '_'"
        for name, place in named
        if not name.isidentifier()
    ]
    return found


def _offers(found: Sequence[Found]) -> tuple[dict[str, tuple[Offer, ...]], OwnModules]:
    """The offers of the own components by room, and the finder of all modules."""
    offers: dict[str, tuple[Offer, ...]] = dict.fromkeys(ROOMS, ())
    places: dict[str, Path | Sequence[Path]] = {name: path for one in found for name, path in one.modules.items()}
    packages: dict[tuple[str, Path], str] = {}
    folders: dict[str, list[Path]] = {PACKAGE: []}
    for where, file, around in (component for one in found for component in one.components):
        package = str(around)
        if isinstance(around, Path):
            number = sum(other == where for other, _ in packages) + 1
            made = f"{PACKAGE}.{where}" + (f"_{number}" if number > 1 else "")
            package = packages.setdefault((where, around), made)
            folders.setdefault(package, [around])
            folders[package] += [file.parent] if file.parent not in folders[package] else []
        offers[where] += (Offer(file.stem, f"{package}.{file.stem}", str(file)),)
    return offers, OwnModules(places | folders)


def _taken_modules(found: Sequence[Found]) -> Iterator[str]:
    """Yield own modules that have the name of another one, or of another module that can be imported."""
    seen: dict[str, Path] = {}
    for name, path in ((name, path) for one in found for name, path in one.modules.items()):
        origin = origins.of(name)
        same = origin.file in (
            path.resolve(),
            (path / "__init__.py").resolve(),
        )  # installed, or where Python looks anyway
        if (first := seen.setdefault(name, path)) != path:
            yield f"{path} and {first} are both the module {name}; rename one of them"
        elif origin.kind == "python" or name in (PACKAGE, SENT) or (origin.file and not same):
            owner = origin.file or ("Python itself" if origin.kind == "python" else "fedpriv")
            yield f"{path} has the name of the module {name} of {owner}; give it another name"


def _taken() -> Iterator[str]:
    """Yield components from outside that have the name of one of ours, or of another from outside; with both places."""
    for slot in SLOTS:
        own = own_components(slot.folder)
        short = {name: module for module in own for name in getattr(own[module], "PRESETS", {})}
        seen: dict[str, str] = {}
        for one in outside.offers(slot.folder):
            ours = own.get(one.name) or own.get(short.get(one.name, ""))
            place = Path(str(ours.__file__)).relative_to(CHECKOUT) if ours else None
            if other := f"{place} of fedpriv" if place else seen.get(one.name):
                yield f"the {slot.key} component {one.name} of {one.origin} has the name of that of {other}; rename it"
            seen[one.name] = one.origin


def _broken(offers: Mapping[str, Sequence[Offer]]) -> Iterator[str]:
    """Yield own components that cannot be imported or lack what their slot requires; a file without Config is none."""
    for folder, one in ((ROOMS[where].folder, one) for where, offered in offers.items() for one in offered):
        module = components(folder).get(one.name)
        if module is not None:
            yield from (f"{one.origin}: {problem}" for problem in lacks(folder, module))
        elif hasattr(sys.modules.get(one.module), "SLOT") or one.module not in sys.modules:
            yield outside.why_not(folder, one.name) or f"{one.origin} is no component"


def lacks(folder: str, module: ModuleType) -> Iterator[str]:
    """Yield what a component, a module of the slot's package ``folder``, lacks of what its slot requires, as sentences."""
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
