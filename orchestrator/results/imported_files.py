"""Which source files a module imports, and the modules that it imports, and so on; nothing is imported to find out.

Only what somebody edits is followed: datasets/, algorithms/ and attacks/ of the checkout, own code, and packages that are
installed for editing. Imports inside functions count, those for type checkers do not. Own code that uses importlib may
import anything, so all of it counts.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from orchestrator import CHECKOUT
from orchestrator.config import own_code
from orchestrator.config.own_files import python_files, said

DIGITS = 16  # of a hash, hexadecimal
ROOMS = ("datasets", "algorithms", "attacks")
ENGINE = ("algorithms/core", "algorithms/engine")
ASIDE = {"orchestrator", "fedpriv", *sys.stdlib_module_names}
LIBRARIES = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class SourceFile:
    """A source file as it is now.

    Attributes:
        path: the file.
        name: what it is called on every machine.
        module: the name under which it is imported.
        stamp: time and size, by which an edit is noticed.
        hash: the hash of its content.
        imports: the names that it imports, some of which are no modules.
    """

    path: Path
    name: str
    module: str
    stamp: tuple[int, int]
    hash: str
    imports: frozenset[str]


_read: dict[tuple[Path, str], SourceFile] = {}  # by path and module
_reached: dict[tuple[tuple[str, ...], bool, str], tuple[SourceFile, ...]] = {}


def content_hash(content: bytes) -> str:
    """Return the hash of a file's content."""
    return hashlib.blake2b(content, digest_size=DIGITS // 2).hexdigest()


def reached(modules: Iterable[str], installed: bool = False) -> tuple[SourceFile, ...]:
    """Return the files that are run when modules are imported.

    Args:
        modules: their full names.
        installed: follow what one imports from its own distribution, too, although that is not installed for editing.
    """
    modules = tuple(modules)
    others = [_place(one, {one.partition(".")[0]})[0] for one in modules if one.partition(".")[0] not in ROOMS]
    key = modules, installed, repr((own_code.installed().state, others))
    known = _reached.get(key, ())
    if not known or any(_file(one.path, one.name, one.module) is not one for one in known):
        _reached[key] = known = tuple(_walk(modules, installed))
    return known


def engine_modules() -> list[str]:
    """Return the names of the modules that all trials run."""
    files = python_files([CHECKOUT / place for place in ENGINE])
    return [".".join(file.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__") for file in files]


def _walk(modules: tuple[str, ...], installed: bool) -> Iterator[SourceFile]:
    libraries = {name.partition(".")[0] for name in modules} if installed else set()
    waiting, asked, seen = list(modules), set[str](), set[Path]()
    while waiting:
        name = waiting.pop()
        if name in asked:
            continue
        asked.add(name)
        waiting += [name.rpartition(".")[0]] if "." in name else []
        file = _place(name, libraries)[0]
        if file is None or file in seen:
            continue
        seen.add(file)
        found = _file(file, _said(file, name), name)
        yield found
        waiting += found.imports
        if "importlib" in found.imports and said(file, own_code.installed().paths):
            others = {one for part in own_code.installed().found for one in python_files(part.parts)} - seen
            yield from (_file(one, _said(one, ""), "") for one in sorted(others))
            seen |= others


def _file(path: Path, name: str, module: str) -> SourceFile:
    """Return the file, read anew if it was edited."""
    try:
        now = path.stat()
        stamp = now.st_mtime_ns, now.st_size
        known = _read.get((path, module))
        if known is None or (known.stamp, known.name) != (stamp, name):
            content = path.read_bytes()
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            imports = frozenset(_imports(ast.parse(content).body, package.split(".")))
            known = SourceFile(path, name, module, stamp, content_hash(content), imports)
            _read[path, module] = known
    except (OSError, SyntaxError, ValueError):
        return SourceFile(path, name, module, (0, 0), "", frozenset())
    return known


def _imports(body: Iterable[ast.AST], package: list[str]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            whole = ".".join([*above, *([node.module] if node.module else [])])
            yield whole
            yield from (f"{whole}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(node.orelse, package)
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _imports(ast.iter_child_nodes(node), package)


def _place(name: str, libraries: set[str]) -> tuple[Path | None, list[Path]]:
    """Return the file of a module and, of a package, the folders of its modules; nothing for what is not followed.

    Args:
        name: the module.
        libraries: packages that are followed although they are installed.
    """
    above, _, leaf = name.rpartition(".")
    finder = own_code.installed().finder
    if finder and (spec := finder.find_spec(name)):
        return _of(spec, libraries)
    if name in ROOMS:
        return CHECKOUT / name / "__init__.py", [CHECKOUT / name]
    if not above:
        try:
            spec = None if name in ASIDE else find_spec(name)
        except (ImportError, ValueError):
            spec = None
        return _of(spec, libraries) if spec else (None, [])
    for folder in _place(above, libraries)[1]:
        if (folder / leaf / "__init__.py").is_file():
            return folder / leaf / "__init__.py", [folder / leaf]
        if (folder / f"{leaf}.py").is_file():
            return folder / f"{leaf}.py", []
        if (folder / leaf).is_dir():
            return None, [folder / leaf]
    return None, []


def _of(spec: ModuleSpec, libraries: set[str]) -> tuple[Path | None, list[Path]]:
    file = Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    folders = [Path(one) for one in spec.submodule_search_locations or ()]
    if spec.name.partition(".")[0] not in libraries and any(
        LIBRARIES & set(one.parts) for one in (file, *folders) if one
    ):
        return None, []
    return file, folders


def _said(file: Path, module: str) -> str:
    """The path of a file in the checkout, beside a sweep or in a distribution, without what is this machine's own."""
    if module.partition(".")[0] in ROOMS:
        return file.relative_to(CHECKOUT).as_posix()
    if own := said(file, own_code.installed().paths):
        return own
    return f"{module.replace('.', '/')}{'/__init__' if file.name == '__init__.py' else ''}.py"
