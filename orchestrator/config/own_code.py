"""Own code beside a sweep file (docs/own_code.md): what ``code:`` names becomes importable, its
components are offered.

Every module is loaded by its path; nothing is put on Python's path. A component is imported as
``fedpriv_own_<place in code:>_attacks.foo`` (in a package: by its own name), in every process
alike, so that what it defines travels between processes. Ray's workers on this machine inherit the
environment variable that `install` sets; on a cluster that is joined, the files are sent along
(`orchestrator.cluster.ray_session`).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from pydantic import ValidationError

from datasets import origins, outside
from datasets.components import Config as BaseConfig
from datasets.components import components, forget, own_components
from datasets.origins import message_of
from datasets.outside import Offer, room
from orchestrator import CHECKOUT
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.slots import SLOTS, conforms, declared

VARIABLE = "FEDPRIV_OWN_CODE"
PACKAGE = "fedpriv_own_"  # and a place in code:, the packages that stand for folders of components
SENT = "fedpriv_sent"  # the package in which the files arrive on another node
ROOMS = {room(slot.folder): slot for slot in SLOTS}
SLOT_NAMES = {
    name: where for where, slot in ROOMS.items() for name in (where, slot.field, slot.key)
}
SLOT = re.compile(
    rb"^SLOT\b[^=\n]*=\s*(.*?)\s*$", re.MULTILINE
)  # how a file says of which slot it is a component


NO_CODE = (
    "is no folder and no Python file; a path in code: is relative to the folder of the sweep file"
)


@dataclass
class OwnCode(MetaPathFinder):
    """What ``code:`` names; as a finder, it tells Python where its modules lie.

    Attributes:
        paths: what is named, absolute.
        modules: files and packages' folders, by their names in Python.
        offers: the components, by room.
        parts: the files and folders that are code, without what lies beside them.
        problems: as sentences.
        state: a hash of all names and contents, the same wherever the files lie.
    """

    paths: tuple[Path, ...] = ()
    modules: dict[str, Path] = field(default_factory=dict)
    offers: dict[str, tuple[Offer, ...]] = field(default_factory=lambda: dict.fromkeys(ROOMS, ()))
    parts: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    state: str = ""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return where the module ``name`` lies; None if it is not own code."""
        top, *inner = name.split(".")
        if top not in self.modules:
            return None
        place = self.modules[top].joinpath(*inner)
        if inner or not top.startswith(PACKAGE):
            return FileFinder(str(place.parent), (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(
                name
            )
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(place)]
        return spec


_now = OwnCode()


def installed() -> OwnCode:
    """Return the own code that is installed in this process."""
    return _now


def own_paths(folder: Path, named: str | Iterable[str | Path]) -> tuple[Path, ...]:
    """Return the absolute paths of what ``code:`` names, one name or several, relative to
    ``folder``.
    """
    names = [named] if isinstance(named, str) else named
    return tuple(Path(os.path.abspath(folder / Path(os.path.expanduser(name)))) for name in names)


def install(paths: Iterable[Path] = (), *, check: bool = True) -> list[str]:
    """Make own code importable and offer its components, in place of what was installed before.

    Args:
        paths: files and folders, absolute.
        check: import and check every own component, and look for names that are taken, also by
            installed distributions.

    Returns:
        Problems, as sentences; with any, no own code is installed.
    """
    global _now
    code = _collected(tuple(dict.fromkeys(paths)))
    if code.paths and not code.problems and (code.paths, code.state) == (_now.paths, _now.state):
        return []
    _remove()
    problems = code.problems or list(_taken_modules(code) if check else ())
    if problems or not code.paths:
        return problems or (list(_taken()) if check else [])
    _now = code
    sys.meta_path.insert(
        0, code
    )  # first: on a joined cluster Ray puts the working folder on the path, too
    importlib.invalidate_caches()
    outside.offer(code.offers, places=code.parts)
    forget()
    os.environ[VARIABLE] = json.dumps([str(path) for path in code.paths])
    problems = [*_taken(), *_broken(code)] if check else []
    if problems:
        _remove()
    return problems


def install_named(names: Iterable[str | Path], option: str = "--code") -> None:
    """Install what an option names, relative to the working folder; raises ConfigError with
    every problem.
    """
    problems = install(own_paths(Path.cwd(), names))
    if problems:
        raise ConfigError([ConfigProblem(sentence, file=option) for sentence in problems])


def install_here() -> None:
    """Install in a worker what the head process has installed; `orchestrator` calls this when it
    is imported.

    On another node the files are in the package that was sent there.
    """
    paths = [Path(path) for path in json.loads(os.environ[VARIABLE])]
    sent = find_spec(SENT)
    if sent:
        (folder,) = sent.submodule_search_locations or [""]
        paths = [Path(folder) / str(place) / path.name for place, path in enumerate(paths)]
    install(paths, check=False)


def _remove() -> None:
    """Take back what was installed, with all modules that were imported from it."""
    global _now
    for name in [name for name in sys.modules if name.partition(".")[0] in _now.modules]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not _now]
    os.environ.pop(VARIABLE, None)
    _now = OwnCode()
    outside.offer({})
    forget()


def _collected(paths: tuple[Path, ...]) -> OwnCode:
    """Return what lies in own files and folders; nothing is imported."""
    code = OwnCode(paths)
    digest = hashlib.blake2b(digest_size=16)
    for place, path in enumerate(paths):
        before = len(code.parts)
        try:
            if not path.is_dir() and not (path.is_file() and path.suffix == ".py"):
                code.problems.append(f"{path} {NO_CODE}")
                continue
            _look_into(path, f"{PACKAGE}{place}", code)
            parts = code.parts[before:]
            for file in sorted(
                {
                    file
                    for part in parts
                    for file in (python_files(part) if part.is_dir() else [part])
                }
            ):
                digest.update(
                    f"{file.relative_to(path.parent)}\0".encode() + file.read_bytes() + b"\0"
                )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            code.problems.append(f"{str(error.filename or path)[:200]} cannot be read: {reason}")
    files_of = code.modules | {
        offer.module: Path(offer.origin) for offers in code.offers.values() for offer in offers
    }
    unfit = [file for name, file in files_of.items() if not name.rpartition(".")[2].isidentifier()]
    code.problems += [
        f"{file} is no name that Python can import; use letters, digits and '_'" for file in unfit
    ]
    code.state = digest.hexdigest()
    return code


def python_files(folder: Path) -> list[Path]:
    """The Python files below a folder, without what editors and interpreters leave there."""
    return sorted(
        file
        for file in folder.rglob("[!.]*.py")
        if not {"__pycache__", ".ipynb_checkpoints"} & set(file.parts)
    )


def _look_into(path: Path, package: str, code: OwnCode) -> None:
    """Add to ``code`` what lies in an own file or folder; the packages of its folders begin with
    ``package``.
    """

    def add_module(name: str, file: Path) -> None:
        code.parts.append(file)
        first = code.modules.setdefault(name, file)
        if first != file:
            code.problems.append(
                f"{file} and {first} are both the module {name}; rename one of them"
            )

    def offer(slot: str, file: Path, package: str) -> None:
        code.offers[slot] += (Offer(file.stem, f"{package}.{file.stem}", str(file)),)

    single = path.is_file() or path.name in SLOT_NAMES
    is_package = not single and (path / "__init__.py").is_file()
    if is_package:
        add_module(path.name, path)
    for entry in (
        [path] if single else sorted(it for it in path.iterdir() if not it.name.startswith("."))
    ):
        if entry.name in SLOT_NAMES and entry.is_dir():
            inner = f"{path.name}.{entry.name}"
            if not is_package:
                inner = f"{package}_{entry.name.replace('.', '_')}"
                code.modules[inner] = entry
                code.parts.append(entry)
            for file in sorted(entry.glob("[!_.]*.py")):
                offer(SLOT_NAMES[entry.name], file, inner)
        elif is_package:
            continue
        elif (entry / "__init__.py").is_file():
            add_module(entry.name, entry)
        elif entry.suffix == ".py" and not entry.is_dir():
            line = SLOT.search(entry.read_bytes())
            slot = line[1].decode(errors="replace").strip("\"'") if line else ""
            if not line:
                add_module(entry.stem, entry)
            elif slot in SLOT_NAMES:
                offer(SLOT_NAMES[slot], entry, package)
                code.modules[package] = entry.parent
                code.parts.append(entry)
            else:
                code.problems.append(
                    f"{entry}: SLOT must be one of {', '.join(sorted(SLOT_NAMES))}, got {slot!r}"
                )


def _taken_modules(code: OwnCode) -> Iterator[str]:
    """Yield own modules that have the name of a module of Python, of ours, or of an installed
    package.
    """
    for name, path in code.modules.items():
        origin = origins.of(name)
        same = origin.file in (path.resolve(), (path / "__init__.py").resolve())
        if origin.kind in ("python", "fedpriv") or (
            origin.file and not same
        ):  # the same: where Python looks anyway
            owner = origin.file or "Python itself"
            yield f"{path} has the name of the module {name} of {owner}; give it another name"


def _taken() -> Iterator[str]:
    """Yield components from outside that have the name of one of ours, or of another from
    outside; with both places.
    """
    for slot in SLOTS:
        parts = own_components(slot.folder)
        places = {
            name: f"{os.path.relpath(str(part.__file__), CHECKOUT)} of fedpriv"
            for name, part in parts.items()
        }
        places |= {
            preset: places[name]
            for name, part in parts.items()
            for preset in getattr(part, "PRESETS", ())
        }
        for offer in outside.offers(slot.folder):
            other = places.get(offer.name)
            if other:
                yield (
                    f"the {slot.key} component {offer.name} of {offer.origin} has the name of "
                    f"that of {other}; rename it"
                )
            else:
                places[offer.name] = offer.origin


def _broken(code: OwnCode) -> Iterator[str]:
    """Yield own components that cannot be imported or lack what their slot requires; a file
    without Config is none.
    """
    for where, offers in code.offers.items():
        folder = ROOMS[where].folder
        for offer in offers:
            module = components(folder).get(offer.name)
            if module is not None:
                try:
                    lacking = [*_lacks(folder, module)]
                except Exception as error:  # a module may answer to any name as it likes
                    lacking = [message_of(error)]
                yield from (f"{offer.origin}: {problem}" for problem in lacking)
            elif hasattr(sys.modules.get(offer.module), "SLOT") or offer.module not in sys.modules:
                yield outside.why_not(folder, offer.name) or f"{offer.origin} is no component"


def _lacks(folder: str, module: ModuleType) -> Iterator[str]:
    """Yield what a component, a module of the slot's package ``folder``, lacks of what its slot
    requires, as sentences.
    """
    config = getattr(module, "Config", None)
    if not (isinstance(config, type) and issubclass(config, BaseConfig)):
        yield "Config must be a class that extends datasets.components.Config"
    try:
        names = declared(folder, module)
    except (KeyError, TypeError):
        yield (
            "KINDS must be a tuple of 'models', 'updates', 'sums', 'replicas', 'halves' and "
            "'choices'"
        )
        return
    missing = [name.described for name in names if name.owed and not hasattr(module, name.name)]
    if missing:
        yield f"defines no {', '.join(missing)}, which every component of {room(folder)} must have"
    for constant in names:
        value = vars(module).get(constant.name)
        if value is not None and not constant.function:
            try:
                conforms(constant, value, strict=False)
            except ValidationError as error:
                why = error.errors(include_url=False)[0]["msg"].lower()
                yield f"{constant.name} is {value!r}: {why}"
