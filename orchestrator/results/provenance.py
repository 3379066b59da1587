"""The provenance of a result: commit, code, data, package versions, host and device."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property
from importlib.metadata import version
from typing import Any

from algorithms.interfaces import Run
from datasets.components import Component
from datasets.federation import Federation, Source, add_to_digest
from orchestrator import CHECKOUT
from orchestrator.config import own_code

ROOMS = ("datasets", "algorithms", "attacks")


@cache
def commit() -> str | None:
    """The commit of the checkout, with ``+changes`` if files differ from it or are not in it.

    Outside a git repository it is FEDPRIV_COMMIT, or None if that is not set: a job on a cluster
    runs from a copy without ``.git``, and whoever submits it can set the variable.
    """
    with suppress(OSError, subprocess.SubprocessError):
        head, changes = (
            subprocess.run(
                ["git", *words], cwd=CHECKOUT, capture_output=True, text=True, timeout=5, check=True
            ).stdout
            for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain"))
        )
        return head.strip() + ("+changes" if changes.strip() else "")
    return os.environ.get("FEDPRIV_COMMIT")


@cache
def versions() -> dict[str, str]:
    """Versions of fedpriv, which need not be installed on nodes, and of the packages that can
    change a result, by name.
    """
    fedpriv = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    return {"fedpriv": fedpriv} | {
        name: version(name) for name in ("torch", "numpy", "ray", "mlflow")
    }


def origin(device: str) -> dict[str, str]:
    """The whole provenance as texts, for tags and records."""
    host = f"{platform.node()} ({platform.machine()}, {platform.system()})"
    named = {f"version.{name}": number for name, number in versions().items()}
    return named | {"commit": commit() or "unknown", "host": host, "device": device}


class Hashes:
    """The hashes of what a sweep's numbers depend on besides its configuration, of which alone a
    trial's id is made.

    They are those of the code in datasets/, algorithms/ and attacks/ with own code, and of the data
    sets that are loaded. For the orchestrator and for installed packages, the commit and the
    versions stand.
    """

    def __init__(self) -> None:
        self._data: dict[str, str] = {}

    @cached_property
    def _code(self) -> str:
        digest = hashlib.blake2b(own_code.installed().state.encode(), digest_size=8)
        for path in (file for room in ROOMS for file in own_code.python_files(CHECKOUT / room)):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()

    def add(self, data: Component[Any, Any], source: Source) -> None:
        """Hash what the component ``data`` has loaded."""
        self._data[source_key(data)] = data_hash(source)

    def origin(self, run: Run) -> dict[str, str]:
        """The commit, and the hashes of a run's code and of its data if they were loaded here."""
        data = self._data.get(source_key(run.data))
        return {"commit": commit() or "unknown", "code": self._code} | (
            {"data": data} if data else {}
        )


def source_key(data: Component[Any, Any]) -> str:
    """What decides what is read: all fields but the number of clients and the seed of the split."""
    return repr((data.name, data.config.model_copy(update={"clients": 1, "split_seed": None})))


# What is said of a data set that changes no example.
NO_EXAMPLES = ("remarks", "file_rows", "rows")


def data_hash(data: Source | Federation) -> str:
    """The hash of a loaded data set, or of its partition: of examples and labels, and of all
    else that is said of them.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name, value in sorted(vars(data).items()):
        # What ``fit`` makes follows from the examples and the configuration.
        fitted = name == "fit" and value is not None
        unnamed = name == "server" and value is None
        if name in NO_EXAMPLES or fitted or unnamed:
            continue
        digest.update(name.encode())
        parts = [value.x, value.y] if hasattr(value, "x") else [value]
        if isinstance(value, Mapping):
            parts = [list(value), *value.values()]
        for part in parts:
            if hasattr(part, "dtype") and part.dtype != object:
                add_to_digest(digest, part)
            else:
                digest.update(repr(part.tolist() if hasattr(part, "dtype") else part).encode())
    return digest.hexdigest()
