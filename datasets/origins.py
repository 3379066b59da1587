"""Where Python would import a module from; nothing is imported to find it out.

Code that fedpriv did not bring is run from two places: what a sweep file names under ``code:``, and
the distributions that are installed in the environment. ``python -m orchestrator`` also lets Python
look into the working folder, and a sweep file that somebody sent must not make a file run that
merely lies beside it.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

CHECKOUT = Path(__file__).resolve().parents[1]
OURS = ("datasets", "algorithms", "attacks", "orchestrator")
SITES = ("site-packages", "dist-packages")
LONG = 150  # characters of an exception; of a longer text, the first sentence has the cause

_own: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Origin:
    """Where a module comes from.

    Attributes:
        kind: "own" (named under ``code:``), "installed" (in a distribution), "fedpriv", "python"
            (the standard library), "elsewhere" (where Python looks, but none of these), or
            "nowhere" (Python finds no such module).
        file: its file, or that of the package around it; None where it has none.
    """

    kind: Literal["own", "installed", "fedpriv", "python", "elsewhere", "nowhere"]
    file: Path | None = None


def claim(places: Iterable[Path]) -> None:
    """Say which files and folders are own code, in place of what was said before."""
    global _own
    _own = tuple(place.resolve() for place in places)


def own_places() -> tuple[Path, ...]:
    """Return the files and folders that are own code, without links."""
    return _own


def of(module: str) -> Origin:
    """Return where Python would import ``module``, a dotted name, or the package around it from,
    or has imported it from.
    """
    top, *names = module.split(".")
    if top in sys.stdlib_module_names:
        return Origin("python")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # it was imported from nowhere, such as __main__, or can be no name
        spec = None
    for name in names:
        if (
            spec and not spec.has_location
        ):  # a package without __init__, which is searched without being imported
            spec = PathFinder.find_spec(name.rpartition(".")[2], spec.submodule_search_locations)
    if spec is None:
        return Origin("elsewhere" if module in sys.modules else "nowhere")
    return (
        _of_file(Path(spec.origin).resolve())
        if spec.has_location and spec.origin
        else Origin("elsewhere")
    )


def _of_file(file: Path) -> Origin:
    if any(file.is_relative_to(place) for place in own_places()):
        return Origin("own", file)
    if is_installed(file):
        return Origin("installed", file)
    ours = any(file.is_relative_to(CHECKOUT / name) for name in OURS)
    return Origin("fedpriv" if ours else "elsewhere", file)


def is_installed(place: Path) -> bool:
    """Return whether a file or folder is in a folder of installed packages, or in the folder of
    an editable install.
    """
    sites = site_folders()
    return any(place.is_relative_to(folder) for folder in (*sites, *_editable_folders(sites)))


def holds(distribution: Distribution, file: Path) -> bool:
    """Return whether a distribution installed ``file`` (without links), or is an editable
    install of the folder around it.
    """
    folder = _editable_folder(distribution)
    if folder is not None:
        return file.is_relative_to(folder)
    return any(
        Path(str(distribution.locate_file(part))).resolve() == file
        for part in distribution.files or ()
    )


def site_folders() -> tuple[Path, ...]:
    """Return the folders into which packages are installed.

    The working folder is none, whatever its name.
    """
    folders = [Path(entry).resolve() for entry in sys.path if Path(entry).name in SITES]
    return tuple(folder for folder in folders if folder != Path.cwd())


@cache
def _editable_folders(sites: tuple[Path, ...]) -> tuple[Path, ...]:
    """The source folders of editable installs, without this checkout."""
    folders = map(_editable_folder, distributions(path=[str(folder) for folder in sites]))
    return tuple(folder for folder in folders if folder is not None and folder != CHECKOUT)


def _editable_folder(distribution: Distribution) -> Path | None:
    """The folder from which a distribution was installed editable; None if it was installed
    otherwise (PEP 610).
    """
    try:
        source = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return None
    editable = source.get("dir_info", {}).get("editable")
    return Path(unquote(urlsplit(source["url"]).path)).resolve() if editable else None


def told(error: BaseException) -> tuple[str, str]:
    """Return kind and text of an exception on one line, and " (file, line n)" of the user's code
    in which it was raised, if there is any.
    """
    try:
        text = " ".join(str(error).split())
    except Exception:  # an error of another's code may be one that cannot say what it is
        text = ""
    text = text if len(text) < LONG else text.partition(". ")[0][:300]
    where = place_in("".join(traceback.format_tb(error.__traceback__)))
    if isinstance(error, SyntaxError) and error.filename:
        text = error.msg
        where = f" ({error.filename}, line {error.lineno})"
    return f"{type(error).__name__}{': ' if text else ''}{text}", where


def place_in(calls: str) -> str:
    """Return " (file, line n)" of the last line of a traceback that is neither ours nor of an
    installed package.
    """
    ours = (
        *(f"{CHECKOUT}/{package}/" for package in OURS),
        f"{sysconfig.get_path('stdlib')}/",
        "<",
    )
    for file, line in reversed(re.findall(r'File "(.+)", line (\d+)', calls)):
        if not file.startswith(ours) and not {*SITES} & {*file.split("/")}:
            return f" ({file}, line {line})"
    return ""


def message_of(error: BaseException) -> str:
    """Write an exception as one line, with the file and line of the user's code that raised it.

    >>> message_of(KeyError("width"))
    "KeyError: 'width'"
    """
    return "".join(told(error))
