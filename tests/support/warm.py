"""The command in a process of its own that has loaded its packages already: a second instead of five."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGES = [
    "orchestrator.commands",
    "orchestrator.report.page",
    "mlflow.store.tracking.sqlalchemy_store",
    "matplotlib.pyplot",
]
SECONDS = 240.0  # longest process


@dataclass(frozen=True)
class Printed:
    """What a command printed, to stdout and stderr together, and its exit code; None: it had to be killed."""

    code: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Process:
    """What commands printed that ran one after another in one process, and what MLflow held in the end."""

    printed: list[Printed] = field(default_factory=list)
    held: dict[str, Any] | None = None


def fedpriv(
    *commands: Sequence[str | Path], folder: Path, seconds: float = SECONDS, held: tuple[Path, str] | None = None
) -> Process:
    """Run commands in one process, and kill it after so many seconds.

    Args:
        commands: the arguments of each.
        folder: a folder for what they print.
        seconds: how long all of them may take.
        held: the results folder and the name of a sweep, to ask MLflow for it if the last one ends with 0.
    """
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PACKAGES)
    folder.mkdir(parents=True, exist_ok=True)
    process = context.Process(target=_run, args=([list(map(str, one)) for one in commands], folder, held))
    process.start()
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
    codes = [
        int(path.read_text()) if (path := folder / f"{number}.code").exists() else None
        for number in range(len(commands))
    ]
    logs = [path.read_text() if (path := folder / f"{number}.log").exists() else "" for number in range(len(commands))]
    found = folder / "held.json"
    return Process(
        [Printed(code, text) for code, text in zip(codes, logs, strict=True)],
        json.loads(found.read_text()) if found.exists() else None,
    )


def _run(commands: list[list[str]], folder: Path, held: tuple[Path, str] | None) -> None:
    from orchestrator.cli import main

    code = 0
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    os.environ |= {"RAY_ADDRESS": "local", "COLUMNS": "300"}
    for number, arguments in enumerate(commands):
        _print_to(folder / f"{number}.log")
        code = main(arguments)
        (folder / f"{number}.code").write_text(str(code))
    if held and code == 0:
        from tests.support.tracked_sweep import held_in_mlflow

        _print_to(folder / "held.log")
        (folder / "held.json").write_text(json.dumps(held_in_mlflow(*held)))


def _print_to(path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
