"""``fedpriv.run``: a sweep from Python, by the same path as the command ``fedpriv run``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from orchestrator import INTERRUPTED
from orchestrator.api.results import Results, load
from orchestrator.config.document import dump, plain
from orchestrator.config.errors import ConfigError, ConfigProblem, format_value, refusal
from orchestrator.config.sweep_file import load_sweep, parse_sweep
from orchestrator.results.paths import FolderError, require_working_folder

DICT = "<dict>"  # stands for the file in messages about a sweep that is a dict
OPTIONS = ("results", "address", "tracking_uri", "repeat_changed")
ARGUMENTS = {
    f"--{name.replace('_', '-')}": name for name in OPTIONS
}  # by the options that the command's messages name


def run(  # noqa: PLR0913 (the options of the command)
    sweep: str | PathLike[str] | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,
    results: str | PathLike[str] = "results",
    address: str | None = None,
    tracking_uri: str | None = None,
    repeat_changed: bool = False,
    log_models: bool = False,
    dry_run: bool = False,
) -> Results | None:
    """Run a sweep, or resume it where it stopped, as ``fedpriv run`` does.

    Called again, it says that all trials are complete and returns their results. If this process
    has already connected to Ray (``ray.init``), that connection is used and left open; otherwise a
    cluster is joined (see ``address``), or Ray is started and shut down again.

    Args:
        sweep: a sweep file, or its content as a dict. A relative path in a dict is relative to the
            working directory.
        set: changes by dotted key, such as ``{"base.rounds": 4, "sweep.seed.grid_search": [0,
            1]}``.
        results: the folder of all sweeps; the sweep's own folder is below it.
        address: a Ray cluster to join, or "local"; None: RAY_ADDRESS, else what ``ray start`` has
            started here, else none.
        tracking_uri: an MLflow server; None: MLFLOW_TRACKING_URI, else a store in ``results``.
        repeat_changed: run trials again that ran with other code or data than today's.
        log_models: also send each trial's trained models to MLflow, one for each group.
        dry_run: only print the trials, the resources and the estimated time.

    Returns:
        The results, also if some trials failed (see the column ``status`` of `Results.trials`);
        None for a dry run.

    Raises:
        ConfigError: the input was refused, before anything was started or written; its text names
            every problem.
        KeyboardInterrupt: the run was interrupted. What is finished is saved, and the same call
            resumes.
        OSError: results could not be saved; the same call resumes.
        RuntimeError: the cluster has no room for a trial.
    """
    from orchestrator.commands import Choices, run_sweep

    target = Path(results)
    try:
        require_working_folder()
        changes = _sets(set or {})
        if isinstance(sweep, Mapping):
            loaded = parse_sweep(dump(sweep), Path(DICT), changes)
        elif isinstance(sweep, str | PathLike):
            loaded = load_sweep(Path(os.path.expanduser(sweep)), changes)
        else:
            raise refusal(
                f"must be the path of a sweep file or a dict, got {format_value(sweep)}", "sweep"
            )
        choices = Choices(target, address, tracking_uri, dry_run, repeat_changed, log_models)
        code = run_sweep(loaded, choices)
    except ConfigError as error:
        # A dict has no lines, so those of the text that is made of it would only confuse; options
        # are named as arguments.
        problems = [
            replace(problem, line=None) if problem.file == DICT else problem
            for problem in error.problems
        ]
        named = [
            replace(problem, file=ARGUMENTS.get(problem.file, problem.file)) for problem in problems
        ]
        raise ConfigError(named) from None
    except FolderError as error:
        raise refusal(str(error), "results") from None
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return (
        None
        if dry_run
        else load(Path(os.path.expanduser(target)).absolute() / loaded.name, loaded.code)
    )


def _sets(changes: Mapping[str, Any]) -> list[str]:
    """The changes as options ``key=value`` of the command.

    Raises ConfigError with all that cannot be written.
    """
    if not isinstance(changes, Mapping):
        raise refusal(
            f'must be a dict such as {{"base.rounds": 4}}, got {format_value(changes)}', "set"
        )
    sets = list[str]()
    problems = list[ConfigProblem]()
    for key, value in changes.items():
        try:
            sets.append(f"{key}={json.dumps(value, default=plain, ensure_ascii=False)}")
        except TypeError as error:
            problems.append(ConfigProblem(str(error), (key,), "set"))
    if problems:
        raise ConfigError(problems)
    return sets
