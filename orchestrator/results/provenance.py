"""The provenance of a result: commit, package versions, host and device."""

from __future__ import annotations

import os
import platform
import subprocess
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from orchestrator import CHECKOUT


@cache
def commit() -> str | None:
    """The commit of the checkout, with ``+changes`` if files differ from it or are not in it.

    Outside a git repository it is FEDPRIV_COMMIT, or None if that is not set: a job on a cluster runs from a copy without
    ``.git``, and whoever submits it can set the variable.
    """
    try:
        ask = {"cwd": CHECKOUT, "capture_output": True, "text": True, "timeout": 5}
        head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], **ask)  # type: ignore[call-overload]
        # Untracked files count, for a new file is a component; ignored ones do not.
        dirty = subprocess.run(["git", "status", "--porcelain"], **ask)  # type: ignore[call-overload]
    except (OSError, subprocess.TimeoutExpired):
        return os.environ.get("FEDPRIV_COMMIT")
    if head.returncode:
        return os.environ.get("FEDPRIV_COMMIT")
    return head.stdout.strip() + ("+changes" if dirty.returncode or dirty.stdout.strip() else "")


@cache
def versions() -> dict[str, str]:
    """Versions of the packages that can change a result, by name."""
    return {"fedpriv": _own_version()} | {name: version(name) for name in ("torch", "numpy", "ray", "mlflow")}


def _own_version() -> str:
    """The version of fedpriv; from pyproject.toml if it is not installed, as on nodes with only the dependencies."""
    try:
        return version("fedpriv")
    except PackageNotFoundError:
        return tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]


def host() -> str:
    """This machine: name, processor and system."""
    return f"{platform.node()} ({platform.machine()}, {platform.system()})"


def origin(device: str) -> dict[str, str]:
    """The whole provenance as texts, for tags and records."""
    named = {f"version.{name}": number for name, number in versions().items()}
    return named | {"commit": commit() or "unknown", "host": host(), "device": device}
