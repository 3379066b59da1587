"""What lies in an own file or folder: components, modules to import, and files that are neither; nothing is imported."""

from __future__ import annotations

import hashlib
import re
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import decode_source
from pathlib import Path

SLOT = re.compile(r"^SLOT\b[^=\n]*=[ \t]*([^#\n]*)", re.MULTILINE)


@dataclass(frozen=True)
class FoundComponent:
    """An own file that is a component, or could have been one.

    Attributes:
        room: the folder of ours to which its components belong, such as ``aggregation``.
        name: its name, that of the file.
        path: the file.
        folder: the slot's sub-folder in which its helpers lie; without one, the folder of the file.
        package: the package around the sub-folder; empty if there is none.
        why_not: why it is no component, as a sentence; empty if it is one.
    """

    room: str
    name: str
    path: Path
    folder: Path
    package: str = ""
    why_not: str = ""


@dataclass
class Found:
    """What lies in an own file or folder.

    Attributes:
        components: files that are components, and files in a slot's folder that are none, with the reason.
        modules: modules and packages that can be imported, by name.
        parts: the files and folders that make up the own code, without what else lies beside them.
        problems: what is wrong, as sentences.
        state: a hash of all names and contents, the same wherever the files lie.
    """

    components: list[FoundComponent] = field(default_factory=list)
    modules: dict[str, Path] = field(default_factory=dict)
    parts: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    state: str = ""


def look_into(path: Path, slots: Mapping[str, str]) -> Found:
    """Find what lies in an own file or folder.

    Args:
        path: a Python file, a folder or a package; it exists.
        slots: the rooms of components, by every name that a sub-folder or the constant SLOT may have.
    """
    found = Found()
    try:
        single = path.is_file() or path.name in slots
        package = path.name if not single and (path / "__init__.py").is_file() else ""
        entries = [path] if single else sorted(path.iterdir())
        rooms = {slots[one.name]: one for one in reversed(entries) if one.name in slots and one.is_dir()}
        if package:
            found.modules[package] = path
        for entry in entries:
            if entry.name in slots and entry.is_dir():
                found.parts += [] if package else [entry]
                found.components += _folder(entry, slots[entry.name], package, found)
            elif package:
                continue
            elif (entry / "__init__.py").is_file():
                found.modules[entry.name] = entry
            elif entry.suffix == ".py" and not entry.is_dir():
                _file(entry, slots, rooms, found)
    except OSError as error:
        found.problems.append(_unreadable(path, error))
    named = [*found.modules.items(), *((one.name, one.path) for one in found.components)]
    found.problems += [
        f"{place} is no name that Python can import; use letters, digits and '_'"
        for name, place in named
        if not name.isidentifier()
    ]
    found.parts = sorted({*found.parts, *found.modules.values()})
    digest = hashlib.blake2b(digest_size=16)
    files = {file for part in found.parts for file in (part.rglob("*.py") if part.is_dir() else [part])}
    for file in sorted(file for file in files if "__pycache__" not in file.parts):
        try:
            digest.update(f"{file.relative_to(path.parent)}\0".encode() + file.read_bytes() + b"\0")
        except OSError as error:
            found.problems.append(_unreadable(file, error))
    found.problems = list(dict.fromkeys(found.problems))
    found.state = digest.hexdigest()
    return found


def _folder(folder: Path, room: str, package: str, found: Found) -> Iterator[FoundComponent]:
    """Yield the files of a slot's sub-folder."""
    for file in sorted(folder.glob("[!_]*.py")):
        text = _top(file, found)
        if text is not None:
            why = "" if "Config" in text[1] else f"{file} defines no class Config, so it is no component"
            yield FoundComponent(room, file.stem, file, folder, package, why)


def _file(file: Path, slots: Mapping[str, str], rooms: Mapping[str, Path], found: Found) -> None:
    """Add a file at the top: a component if its constant SLOT says so, else a module."""
    top = _top(file, found)
    if top is None:
        return
    text, names = top
    if "SLOT" not in names:
        found.modules[file.stem] = file
        return
    slot = next((one.strip().strip("\"'") for one in SLOT.findall(text)), "")
    if slot not in slots:
        found.problems.append(f"{file}: SLOT must be one of {', '.join(sorted(slots))}, got {slot!r}")
    elif "Config" not in names:
        found.problems.append(f"{file} has a SLOT and defines no class Config, so it is no component")
    else:
        folder = rooms.get(slots[slot], file.parent)
        found.components.append(FoundComponent(slots[slot], file.stem, file, folder))
        found.parts.append(file)


def _top(file: Path, found: Found) -> tuple[str, set[str]] | None:
    """The text of a file, and the names that it binds at its top; None, and a problem, if it is no Python file."""
    try:
        text = decode_source(file.read_bytes())
        table = symtable.symtable(text, str(file), "exec")
        return text, {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    except OSError as error:
        found.problems.append(_unreadable(file, error))
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        words = error.msg if isinstance(error, SyntaxError) else error
        found.problems.append(f"{file}{line}: {type(error).__name__}: {words}")
    return None


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
