"""The commands ``run`` and ``report``, from reading the input to the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.execution import execute
from orchestrator.exit_codes import FINISHED
from orchestrator.preparation import Choices, Work, prepare
from orchestrator.report import write_page, write_report
from orchestrator.report.data import NoResultsError
from orchestrator.results.writing import WriteError

if TYPE_CHECKING:
    from orchestrator.report.figures.drawing import Format


def run(path: Path, sets: Sequence[str], choices: Choices) -> int:
    """Run the sweep in ``path``, or resume it.

    Args:
        path: the sweep file.
        sets: overrides of the sweep file, as ``key=value``.
        choices: how it is run.

    Returns:
        The exit code, see `orchestrator.exit_codes`.

    Raises:
        ConfigError: the input was refused, before any trial was started and any result was written.
    """
    return run_sweep(load_sweep(path, sets), choices)


def run_sweep(sweep: Sweep, choices: Choices) -> int:
    """Run a sweep that was loaded, or resume it; exit code and errors as in `run`."""
    work = prepare(sweep, choices)
    return _show(work) if choices.dry else execute(work)


def _show(work: Work) -> int:
    """Print what would run and how long it would take."""
    from orchestrator.dry_run import plan

    ahead = work.ahead()
    shown = plan(work.sweep, [*work.trials, *ahead], [*work.missing(), *ahead], work.place)
    said = work.earlier.sentences(len(work.trials), work.choices.repeat_option)
    Console(highlight=False).print(*said, *work.earlier.planned(), shown, sep="\n")
    return FINISHED


def report(folder: Path, only_page: bool = False, formats: Sequence[Format] = ("png",)) -> int:
    """Write the report of a sweep's results folder, print the paths of its files and return the exit code.

    Args:
        folder: the results folder.
        only_page: write the page and nothing else.
        formats: the formats of the figures.

    Raises:
        ConfigError: there are no results, or the report cannot be written.
    """
    try:
        files = [write_page(folder)] if only_page else write_report(folder, formats=formats)
    except (NoResultsError, WriteError) as error:
        raise ConfigError([ConfigProblem(str(error), file=str(folder))]) from error
    for file in files:
        print(file)
    return FINISHED
