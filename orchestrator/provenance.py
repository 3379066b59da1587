"""Where a result comes from: commit, package versions, host, device."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import version

from orchestrator import CHECKOUT


@cache
def commit() -> str | None:
    """The checkout's commit, with ``+changes`` where tracked files differ from it; None outside git."""
    try:
        ask = {"cwd": CHECKOUT, "capture_output": True, "text": True, "timeout": 5}
        head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], **ask)  # type: ignore[call-overload]
        dirty = subprocess.run(["git", "diff", "--quiet", "HEAD"], **ask)  # type: ignore[call-overload]
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("+changes" if dirty.returncode else "") if head.returncode == 0 else None


@cache
def versions() -> dict[str, str]:
    """Versions of what can change a result."""
    return {name: version(name) for name in ("fedpriv", "torch", "numpy", "ray", "mlflow")}


def host() -> str:
    return f"{platform.node()} ({platform.machine()}, {platform.system()})"


def origin(device: str) -> dict[str, str]:
    """All of it as flat texts, for tags and records."""
    named = {f"version.{name}": number for name, number in versions().items()}
    return named | {"commit": commit() or "unknown", "host": host(), "device": device}
