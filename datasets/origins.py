"""Where Python would import a module from; nothing is imported to find it out.

Code that fedpriv did not bring is run from two places: what a sweep file names under ``code:``, and the distributions that
are installed in the environment. ``python -m orchestrator`` also lets Python look into the working folder, and a sweep file
that somebody sent must not make a file run that merely lies beside it.
"""

from __future__ import annotations

import json
import site
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

CHECKOUT = Path(__file__).resolve().parents[1]
OURS = ("datasets", "algorithms", "attacks", "orchestrator")
SITES = ("site-packages", "dist-packages")

_own: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Origin:
    """Where a module comes from.

    Attributes:
        kind: "own" (named under ``code:``), "installed" (in a distribution), "fedpriv", "python" (the standard library),
            "elsewhere" (where Python looks, but none of these), or "nowhere" (Python finds no such module).
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
    """Return where Python would import ``module``, a dotted name, from, or has imported it from."""
    parts = module.split(".")
    if parts[0] in sys.stdlib_module_names:
        return Origin("python")
    if not all(part.isidentifier() for part in parts):
        return Origin("nowhere")
    folders: Sequence[str] | None = None
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        spec = _spec(name, folders)
        if spec is None:
            return Origin("elsewhere" if name in sys.modules else "nowhere")
        if spec.has_location and spec.origin:
            return _of_file(Path(spec.origin).resolve())
        folders = list(spec.submodule_search_locations or ())
    return Origin("elsewhere")


def _spec(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
    """What the import system says of a module, without importing the packages around it."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    found = (finder.find_spec(name, folders, None) for finder in sys.meta_path)
    return next((spec for spec in found if spec is not None), None)


def _of_file(file: Path) -> Origin:
    if any(file.is_relative_to(place) for place in own_places()):
        return Origin("own", file)
    if is_installed(file):
        return Origin("installed", file)
    ours = any(file.is_relative_to(CHECKOUT / name) for name in OURS)
    return Origin("fedpriv" if ours else "elsewhere", file)


def is_installed(place: Path) -> bool:
    """Return whether a file or folder is in a folder of installed packages, or in the folder of an editable install."""
    sites = site_folders()
    return any(place.is_relative_to(folder) for folder in (*sites, *_editable_folders(sites)))


def holds(distribution: Distribution, file: Path) -> bool:
    """Return whether a distribution installed ``file`` (without links), or is an editable install of the folder around it."""
    folder = _editable_folder(distribution)
    if folder is not None:
        return file.is_relative_to(folder)
    return file in {Path(str(distribution.locate_file(one))).resolve() for one in distribution.files or ()}


def site_folders() -> tuple[Path, ...]:
    """Return the folders into which packages are installed. The working folder is none, whatever its name."""
    known = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    known += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    known += [entry for entry in sys.path if Path(entry).name in SITES and Path(entry).resolve() != Path.cwd()]
    return tuple(dict.fromkeys(Path(entry).resolve() for entry in known))


@cache
def _editable_folders(sites: tuple[Path, ...]) -> tuple[Path, ...]:
    """The source folders of editable installs, without this checkout."""
    found = (_editable_folder(one) for one in distributions(path=[str(folder) for folder in sites]))
    return tuple(folder for folder in found if folder is not None and folder != CHECKOUT)


def _editable_folder(distribution: Distribution) -> Path | None:
    """The folder from which a distribution was installed editable; None if it was installed otherwise (PEP 610)."""
    try:
        said = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return None
    if not said.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(said["url"]).path)).resolve()
