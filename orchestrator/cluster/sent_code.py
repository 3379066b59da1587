"""Sends own code to the nodes of a cluster that is joined, by Ray's runtime environment of the job.

Ray hands a process on another node neither the files of this machine nor its environment variables, only what the job's
runtime environment names. Workers of a Ray that was started here inherit the environment and read the same files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrator.config.own_code import SENT, VARIABLE, installed


@contextmanager
def sent_along() -> Iterator[dict[str, Any]]:
    """Yield the option of ``ray.init`` that sends the installed own code; nothing if there is none.

    The files are copied into one package, ``fedpriv_sent/<place in code:>/<name>``, which Ray uploads while it starts
    the job; the copy is deleted at the end of the ``with``.
    """
    code = installed()
    if not code.paths:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="fedpriv-") as folder:
        package = Path(folder) / SENT
        for place, (path, found) in enumerate(zip(code.paths, code.found, strict=True)):
            for part in found.parts:
                _copy(part, package / str(place) / path.name / part.relative_to(path))
        (package / "__init__.py").touch()
        yield {"runtime_env": {"py_modules": [str(package)], "env_vars": {VARIABLE: os.environ[VARIABLE]}}}


def _copy(part: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if part.is_dir():
        shutil.copytree(part, to, ignore=shutil.ignore_patterns("__pycache__", ".*"), dirs_exist_ok=True)
    else:
        shutil.copy(part, to)
