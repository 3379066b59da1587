"""Where a result comes from: commit, package versions, host, device."""

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
    """The checkout's commit, with ``+changes`` where tracked files differ from it; outside git, FEDPRIV_COMMIT or None.

    A job on a cluster runs from a copy without git's own folder, so whoever submits it may say which commit that is.
    """
    try:
        ask = {"cwd": CHECKOUT, "capture_output": True, "text": True, "timeout": 5}
        head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], **ask)  # type: ignore[call-overload]
        dirty = subprocess.run(["git", "diff", "--quiet", "HEAD"], **ask)  # type: ignore[call-overload]
    except (OSError, subprocess.TimeoutExpired):
        return os.environ.get("FEDPRIV_COMMIT")
    if head.returncode:
        return os.environ.get("FEDPRIV_COMMIT")
    return head.stdout.strip() + ("+changes" if dirty.returncode else "")


@cache
def versions() -> dict[str, str]:
    """Versions of what can change a result."""
    return {"fedpriv": _own_version()} | {name: version(name) for name in ("torch", "numpy", "ray", "mlflow")}


def _own_version() -> str:
    """Ours, from the project's file where the checkout is not installed: a cluster's nodes may have the packages alone."""
    try:
        return version("fedpriv")
    except PackageNotFoundError:
        return tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]


def host() -> str:
    return f"{platform.node()} ({platform.machine()}, {platform.system()})"


def origin(device: str) -> dict[str, str]:
    """All of it as flat texts, for tags and records."""
    named = {f"version.{name}": number for name, number in versions().items()}
    return named | {"commit": commit() or "unknown", "host": host(), "device": device}
