"""``fedpriv.run``: a sweep from Python, by the same path as the command ``fedpriv run``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, overload

import yaml

from orchestrator import INTERRUPTED
from orchestrator.api.results import Results, load
from orchestrator.config.document import read
from orchestrator.config.errors import ConfigError, ConfigProblem, Key, format_value
from orchestrator.config.sweep_file import Sweep, load_sweep, parse_sweep

DICT = "<dict>"  # stands for the file in messages about a sweep that is a dict
OPTIONS = ("results", "address", "tracking_uri", "repeat_changed", "new_store")
ARGUMENTS = {
    f"--{name.replace('_', '-')}": name for name in OPTIONS
}  # by the options that messages of the command name


@overload
def run(  # noqa: PLR0913 (the options of the command)
    sweep: str | PathLike[str] | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,
    results: str | PathLike[str] = "results",
    address: str | None = None,
    tracking_uri: str | None = None,
    repeat_changed: bool = False,
    log_models: bool = False,
    new_store: bool = False,
    dry_run: Literal[False] = False,
) -> Results: ...


@overload
def run(  # noqa: PLR0913 (the options of the command)
    sweep: str | PathLike[str] | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,
    results: str | PathLike[str] = "results",
    address: str | None = None,
    tracking_uri: str | None = None,
    repeat_changed: bool = False,
    log_models: bool = False,
    new_store: bool = False,
    dry_run: Literal[True],
) -> None: ...


def run(  # noqa: PLR0913 (the options of the command)
    sweep: str | PathLike[str] | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,
    results: str | PathLike[str] = "results",
    address: str | None = None,
    tracking_uri: str | None = None,
    repeat_changed: bool = False,
    log_models: bool = False,
    new_store: bool = False,
    dry_run: bool = False,
) -> Results | None:
    """Run a sweep, or resume it where it stopped, as ``fedpriv run`` does.

    Called again, it says that all trials are complete and returns their results. If this process has already connected
    to Ray (``ray.init``), that connection is used and left open; otherwise Ray is started and shut down again.

    Args:
        sweep: a sweep file, or its content as a dict. A relative path in a dict is relative to the working directory.
        set: changes by dotted key, such as ``{"base.rounds": 4, "sweep.seed.grid_search": [0, 1]}``.
        results: the folder of all sweeps; the sweep's own folder is below it.
        address: a Ray cluster to join; None: RAY_ADDRESS, else this machine.
        tracking_uri: an MLflow server; None: MLFLOW_TRACKING_URI, else a store in ``results``.
        repeat_changed: run trials again that ran with other code or data than today's.
        log_models: also send each trial's trained models to MLflow, one for each group.
        new_store: rename the MLflow store in ``results``, and fill a new one from the results of all sweeps there.
        dry_run: only print the trials, the resources and the estimated time.

    Returns:
        The results, also if some trials failed (see the column ``status`` of `Results.trials`); None for a dry run.

    Raises:
        ConfigError: the input was refused, before anything was started or written; its text names every problem.
        KeyboardInterrupt: the run was interrupted. What is finished is saved, and the same call resumes.
        OSError: results could not be saved; the same call resumes.
        RuntimeError: the cluster has no room for a trial.
    """
    from orchestrator.commands import Choices, run_sweep

    target = Path(results)
    try:
        loaded = _load(sweep, _sets(set or {}))
        choices = Choices(target, address, tracking_uri, dry_run, repeat_changed, log_models, new_store)
        code = run_sweep(loaded, choices)
    except ConfigError as refusal:
        # A dict has no lines, so those of the text that is made of it would only confuse; options are named as arguments.
        problems = (replace(one, line=None) if one.file == DICT else one for one in refusal.problems)
        raise ConfigError(replace(one, file=ARGUMENTS.get(one.file, one.file)) for one in problems) from None
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return None if dry_run else load(target.expanduser().absolute() / loaded.name, loaded.code)


def _load(sweep: str | PathLike[str] | Mapping[str, Any], sets: list[str]) -> Sweep:
    if isinstance(sweep, Mapping):
        return parse_sweep(as_yaml(sweep), Path(DICT), sets)
    if not isinstance(sweep, str | PathLike):
        sentence = f"must be the path of a sweep file or a dict, got {format_value(sweep)}"
        raise ConfigError([ConfigProblem(sentence, file="sweep")])
    return load_sweep(Path(sweep).expanduser(), sets)


def as_yaml(sweep: Mapping[str, Any]) -> str:
    """Write a sweep as the text of a sweep file that says the same.

    Args:
        sweep: maps, lists and plain values; tuples, paths and NumPy's numbers and arrays count as such.

    Raises:
        ConfigError: a value is none of these, or a key is no text; every one is named.
    """
    plain = _checked(sweep, DICT)
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120)
    with suppress(ConfigError):
        if read(text, DICT).value == plain:
            return text
    # PyYAML writes YAML 1.1, and a sweep file is read as 1.2: where the two differ, JSON says it in both.
    return json.dumps(plain, indent=1, ensure_ascii=False)


def _checked(value: Any, argument: str) -> Any:
    """The value as JSON has it. Raises ConfigError with all that cannot be written."""
    problems: list[ConfigProblem] = []

    def plain(value: Any, key: Key) -> Any:
        value = value.tolist() if hasattr(value, "tolist") else value  # NumPy's
        value = fspath(value) if isinstance(value, PathLike) else value
        if isinstance(value, Mapping):
            named = [name for name in value if not isinstance(name, str)]
            texts = [(f"a key must be a text, got {format_value(name)}", (*key, str(name))) for name in named]
            problems.extend(ConfigProblem(sentence, place, argument) for sentence, place in texts)
            return {str(name): plain(one, (*key, str(name))) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one, (*key, place)) for place, one in enumerate(value)]
        if isinstance(value, float) and not math.isfinite(value):
            problems.append(ConfigProblem(f"must be a finite number, got {value}", key, argument))
        elif value is not None and not isinstance(value, bool | int | float | str):
            what = f"{type(value).__name__} {format_value(value)}"
            problems.append(ConfigProblem(f"must be a text, number, list or dict, got {what}", key, argument))
        return value

    made = plain(value, ())
    if problems:
        raise ConfigError(problems)
    return made


def _sets(changes: Mapping[str, Any]) -> list[str]:
    """The changes as options ``key=value`` of the command."""
    if not isinstance(changes, Mapping):
        sentence = f'must be a dict such as {{"base.rounds": 4}}, got {format_value(changes)}'
        raise ConfigError([ConfigProblem(sentence, file="set")])
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in _checked(changes, "set").items()]
