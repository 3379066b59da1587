"""What lies in an own file or folder: components, modules to import, and files that are neither; nothing is imported."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CONSTANT = "SLOT"


@dataclass(frozen=True)
class FoundComponent:
    """An own file that is a component, or could have been one.

    Attributes:
        room: the folder of ours to which its components belong, such as ``aggregation``.
        name: its name, that of the file.
        path: the file.
        folder: the sub-folder in which it lies; empty if its constant SLOT says what it is.
        package: the package around that sub-folder; empty if there is none.
        why_not: why it is no component, as a sentence; empty if it is one.
    """

    room: str
    name: str
    path: Path
    folder: str = ""
    package: str = ""
    why_not: str = ""


@dataclass
class Found:
    """What lies in an own file or folder.

    Attributes:
        components: files that are components.
        strangers: files in a slot's folder that are none.
        modules: modules and packages that can be imported, by name.
        folders: the sub-folders of slots, each with its room.
        problems: what is wrong, as sentences.
        state: a hash of all names and contents, the same wherever the files lie.
    """

    components: list[FoundComponent] = field(default_factory=list)
    strangers: list[FoundComponent] = field(default_factory=list)
    modules: dict[str, Path] = field(default_factory=dict)
    folders: list[tuple[str, Path]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    state: str = ""

    @property
    def parts(self) -> list[Path]:
        """The files and folders that make up the own code, without what else lies beside them."""
        single = [one.path for one in self.components if not one.folder]
        return sorted({*single, *self.modules.values(), *(folder for _, folder in self.folders)})


def look_into(path: Path, slots: Mapping[str, str]) -> Found:
    """Find what lies in an own file or folder.

    Args:
        path: a Python file, a folder or a package; it exists.
        slots: the rooms of components, by every name that a sub-folder or the constant SLOT may have.
    """
    found = Found()
    if path.is_file():
        _file(path, slots, found)
    elif path.name in slots:
        _folder(path, "", slots, found)
    else:
        package = path.name if (path / "__init__.py").is_file() else ""
        if package:
            found.modules[package] = path
        for entry in _entries(path, found):
            if entry.is_dir():
                _folder(entry, package, slots, found)
            elif entry.suffix == ".py" and not package:
                _file(entry, slots, found)
    found.problems += [
        f"{path} is no name that Python can import; use letters, digits and '_'"
        for name, path in [*found.modules.items(), *((one.name, one.path) for one in found.components)]
        if not name.isidentifier()
    ]
    digest = hashlib.blake2b(digest_size=16)
    for file in python_files(found.parts):
        try:
            digest.update(f"{file.relative_to(path.parent)}\0".encode() + file.read_bytes() + b"\0")
        except OSError as error:
            found.problems.append(_unreadable(file, error))
    found.state = digest.hexdigest()
    return found


def _entries(folder: Path, found: Found) -> list[Path]:
    """What lies in a folder, sorted."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        found.problems.append(_unreadable(folder, error))
        return []


def _folder(folder: Path, package: str, slots: Mapping[str, str], found: Found) -> None:
    """Add the components of a slot's sub-folder, or a package."""
    if folder.name not in slots:
        if not package and (folder / "__init__.py").is_file():
            found.modules[folder.name] = folder
        return
    room = slots[folder.name]
    if not package:
        found.folders.append((room, folder))
    for file in sorted(folder.glob("[!_]*.py")):
        one = FoundComponent(room, file.stem, file, folder.name, package)
        names, problem = _top(file)
        if problem:
            found.problems.append(problem)
        elif "Config" in names:
            found.components.append(one)
        else:
            why = f"{file} defines no class Config, so it is no component"
            found.strangers.append(FoundComponent(room, file.stem, file, folder.name, package, why))


def _file(file: Path, slots: Mapping[str, str], found: Found) -> None:
    """Add a file at the top: a component if its constant SLOT says so, else a module."""
    names, problem = _top(file)
    slot = names.get(CONSTANT, "")
    if problem:
        found.problems.append(problem)
    elif CONSTANT not in names:
        found.modules[file.stem] = file
    elif slot not in slots:
        known = ", ".join(sorted(slots))
        found.problems.append(f"{file}: {CONSTANT} must be one of {known}, got {slot or 'something else'!r}")
    elif "Config" not in names:
        found.problems.append(f"{file} has a {CONSTANT} and defines no class Config, so it is no component")
    else:
        found.components.append(FoundComponent(slots[slot], file.stem, file))


def _top(file: Path) -> tuple[dict[str, str], str]:
    """The names that a file binds at its top, with the text of those that are texts; and what is wrong with the file."""
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except OSError as error:
        return {}, _unreadable(file, error)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else error
        return {}, f"{file}{line}: {type(error).__name__}: {text}"
    return dict(_bound(tree)), ""


def _unreadable(path: Path, error: OSError) -> str:
    return f"{path} cannot be read: {(error.strerror or str(error)).lower()}"


def _bound(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, ""
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name, "") for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            value = node.value.value if isinstance(node.value, ast.Constant) else ""
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((one.id, str(value)) for one in targets if isinstance(one, ast.Name))


def packages_of(found: Sequence[Found], prefix: str) -> dict[tuple[str, Path], str]:
    """Return the package of each folder of components, by room and folder; each has helpers of its own.

    A file that says its slot belongs to the folder of that slot beside it, or else has a package of its own.

    Args:
        found: what lies in the own code.
        prefix: the package above.
    """
    folders = [one for part in found for one in part.folders]
    folders += [(one.room, one.path.parent) for part in found for one in part.components if not one.folder]
    packages: dict[tuple[str, Path], str] = {}
    for room, folder in dict.fromkeys(folders):
        place = sum(other == room for other, _ in packages)
        packages[room, folder] = f"{prefix}.{room}" + (f"_{place + 1}" if place else "")
    for part in found:
        beside = {room: packages[room, folder] for room, folder in reversed(part.folders)}
        for one in part.components:
            if not one.folder and one.room in beside:
                packages[one.room, one.path.parent] = beside[one.room]
    return packages


def import_names(found: Sequence[Found], prefix: str) -> dict[FoundComponent, str]:
    """Return the names under which every process imports the own components: in a package, their own."""
    packages = packages_of(found, prefix)
    return {
        one: f"{one.package}.{one.folder}.{one.name}"
        if one.package
        else f"{packages[one.room, one.path.parent]}.{one.name}"
        for part in found
        for one in part.components
    }


def said(file: Path, paths: Iterable[Path]) -> str | None:
    """Return what a file of the own code is called wherever it lies; None if it is none.

    That is its path from the folder of what ``code:`` names, or, of several with the same last name, from the folder
    above all of them.

    >>> said(Path("/home/a/attacks/b.py"), [Path("/home/a")])
    'a/attacks/b.py'
    >>> said(Path("/home/x/a/b.py"), [Path("/home/x/a"), Path("/home/y/a")])
    'x/a/b.py'
    """
    paths = tuple(paths)
    for path in paths:
        if file.is_relative_to(path):
            above = os.path.commonpath([one.parent for one in paths if one.name == path.name])
            return file.relative_to(above).as_posix()
    return None


def python_files(parts: list[Path]) -> list[Path]:
    """Return all Python files in the given files and folders, sorted."""
    found = {file for part in parts for file in (part.rglob("*.py") if part.is_dir() else [part])}
    return sorted(file for file in found if "__pycache__" not in file.parts)
