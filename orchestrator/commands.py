"""The commands ``run`` and ``report``, from reading the input to the exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from orchestrator.cluster.data_checks import data_problems
from orchestrator.cluster.gpu_memory import memory_check, on_a_gpu
from orchestrator.cluster.nodes import node_problems
from orchestrator.cluster.placement import Placement, misfit, placement
from orchestrator.cluster.ray_session import ClusterError, StallError, local_nodes, ray_session
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.exit_codes import FINISHED, INTERRUPTED, SOME_FAILED
from orchestrator.report import write_report
from orchestrator.report.data import NoResultsError
from orchestrator.report.tables.terminal import summary_table
from orchestrator.report.tuned import tuned_sentences
from orchestrator.results.folder import Claim, Folder, FolderError, WriteError, claim, obstacle
from orchestrator.results.provenance import commit, origin
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.trials import TrialSpec, remaining_trials, trial_rows, trial_specs, unrepeatable
from orchestrator.scheduling.tuner import run_trials, tune_environment
from orchestrator.tracking.events import MlflowListener, TrialEvents
from orchestrator.tracking.screen import Screen
from orchestrator.tracking.tracker import Tracker

if TYPE_CHECKING:
    from orchestrator.scheduling.search import Search

CLOSE_SECONDS = 120  # longest wait for MLflow to receive the rest; creating a new store alone takes seconds


def run(
    path: Path,
    sets: Sequence[str],
    results: Path,
    address: str | None,
    tracking_uri: str | None,
    dry: bool,
    with_models: bool = False,
) -> int:
    """Run the sweep in ``path``, or resume it.

    Args:
        path: the sweep file.
        sets: overrides of the sweep file, as ``key=value``.
        results: the folder of all sweeps; the sweep's own folder is below it.
        address: a Ray cluster to join; None for RAY_ADDRESS or this machine.
        tracking_uri: an MLflow server; None for MLFLOW_TRACKING_URI or a store in ``results``.
        dry: print the plan and start nothing.
        with_models: also send the trained models to MLflow.

    Returns:
        The exit code, see `orchestrator.exit_codes`.

    Raises:
        ConfigError: the input was refused, before any trial was started and any result was written.
    """
    sweep = load_sweep(path, sets)
    folder = Folder(results.expanduser().absolute() / sweep.name)
    place = _common_placement(sweep, trial_specs(sweep))
    problems = [] if dry else _folder_problems(folder, sweep)
    remote = address or os.environ.get("RAY_ADDRESS")
    if not remote:
        problems += _misfit(sweep, place, local_nodes(place))
    problems += data_problems(sweep, download=not problems and not dry)
    if problems:
        raise ConfigError(problems)
    search = _search(sweep, folder)
    trials = search.replay() if search else trial_specs(sweep)
    if dry:
        from orchestrator.dry_run import plan

        ahead = search.ahead() if search else []
        missing = [*remaining_trials(folder, trials, sweep.tune), *ahead]
        Console(highlight=False).print(plan(sweep, [*trials, *ahead], missing, place))
        return FINISHED
    return _run(sweep, folder, trials, place, address, tracking_uri, search, with_models)


def _search(sweep: Sweep, folder: Folder) -> Search | None:
    if not sweep.space:
        return None
    from orchestrator.scheduling.search import Search

    return Search(sweep, folder)


def _run(
    sweep: Sweep,
    folder: Folder,
    trials: list[TrialSpec],
    place: Placement,
    address: str | None,
    uri: str | None,
    search: Search | None,
    with_models: bool,
) -> int:
    tune_environment(os.environ)
    missing = remaining_trials(folder, trials, sweep.tune)
    undrawn = len(search.ahead()) if search else 0
    screen = Screen(len(missing) + undrawn)
    if not missing and not undrawn:
        with _claim_folder(folder, sweep):
            screen.say(f"all {len(trials)} trials are complete; nothing was trained")
            tracker = Tracker(folder.path.parent, sweep.name, uri, screen.say, with_models)
            code = _close(sweep, folder, trials, screen)
            tracker.reconcile(folder.path)
            if tracker.behind:
                tracker.close(CLOSE_SECONDS)
            if link := tracker.link():
                screen.say(f"all settings side by side, in MLflow: {link}")
            return code
    try:
        with ray_session(address, place) as nodes:
            for sentence in _ready(sweep, folder, place, nodes):
                screen.say(sentence)
            with _claim_folder(folder, sweep):
                return _train(sweep, folder, trials, missing, place, nodes, screen, uri, search, with_models)
    except ClusterError as error:
        raise ConfigError([ConfigProblem(str(error), file="--address")]) from error


def _ready(sweep: Sweep, folder: Folder, place: Placement, nodes: list[dict[str, float]]) -> list[str]:
    """Check the cluster; return notes for the user. Raises ConfigError if a trial does not fit or a node is unsuitable."""
    problems = _misfit(sweep, place, nodes)
    if not problems:
        sentences = node_problems(folder.path, sweep.resources.timeout_seconds)
        problems = [ConfigProblem(sentence, file="--results") for sentence in sentences]
    if problems:
        raise ConfigError(problems)
    try:
        notes, problems = memory_check(sweep, on_a_gpu(sweep))
    except TimeoutError as error:
        raise ConfigError([ConfigProblem(str(error), file="--address")]) from error
    if problems:
        raise ConfigError(problems)
    return notes


def _train(
    sweep: Sweep,
    folder: Folder,
    trials: list[TrialSpec],
    missing: list[TrialSpec],
    place: Placement,
    nodes: list[dict[str, float]],
    screen: Screen,
    uri: str | None,
    search: Search | None,
    with_models: bool,
) -> int:
    if len(missing) < len(trials):
        total = search.samples if search else len(trials)
        screen.say(f"{len(trials) - len(missing)} of {total} trials are complete and are not repeated")
    if remark := unrepeatable(missing):
        screen.say(remark)
    tracker = Tracker(folder.path.parent, sweep.name, uri, screen.say, with_models)
    tracker.sweep_started(origin(trials[0].run.training.config.device))
    progress = TrialEvents(folder, [MlflowListener(tracker, folder), screen])
    write_trials(folder, trial_rows(folder, trials))
    with screen:
        try:
            for sentence in run_trials(sweep, folder, missing, place, nodes, progress, commit(), search):
                screen.say(sentence)
        except (KeyboardInterrupt, StallError, WriteError) as error:
            with suppress(WriteError):
                write_trials(folder, trial_rows(folder, trials))
            tracker.sweep_finished([], "unfinished")
            if not isinstance(error, KeyboardInterrupt):
                tracker.close(CLOSE_SECONDS)
                raise
            screen.say("interrupted; finished work is saved, and the same command resumes from there")
            tracker.close(CLOSE_SECONDS)
            return INTERRUPTED
    code = _close(sweep, folder, trials, screen, tracker)
    if not tracker.close(CLOSE_SECONDS):
        screen.say("MLflow does not hold everything yet; the next run of this sweep sends the rest")
    if link := tracker.link():
        screen.say(f"all settings side by side, in MLflow: {link}")
    return code


def _close(
    sweep: Sweep, folder: Folder, trials: list[TrialSpec], screen: Screen, tracker: Tracker | None = None
) -> int:
    rows = trial_rows(folder, trials)
    write_trials(folder, rows)
    remarks, width = tuned_sentences(folder.path, rows), screen.console.width
    screen.console.print(summary_table(rows, sweep.swept, title=sweep.name, width=width, remarks=remarks))
    files = write_report(folder.path)
    bad = [row for row in rows if row["status"] not in ("finished", "stopped")]
    if tracker:
        tracker.reconcile(folder.path)
        tracker.sweep_finished(files, "failed" if bad else "finished")
    for sentence in _best(sweep, trials, rows):
        screen.say(sentence)
    screen.say(f"results in {folder.path}, tables and figures in {folder.report}")
    screen.say(f"fedpriv ui {folder.path.parent}   opens them in MLflow")
    return SOME_FAILED if bad else FINISHED


def _best(sweep: Sweep, trials: list[TrialSpec], rows: list[dict[str, Any]]) -> list[str]:
    """A sentence that names the best trial of a tuned sweep; empty if the sweep is not tuned."""
    if not sweep.tune:
        return []
    metric = sweep.tune.metric
    found = [(row[metric], trial.title) for row, trial in zip(rows, trials, strict=True) if row.get(metric) is not None]
    if not found:
        return [f"no finished trial has the metric {metric!r}, so there is no best trial"]
    value, title = found[sweep.tune.best([value for value, _ in found])]
    return [f"best {metric} {value:.4g}: {title}"]


def report(folder: Path) -> int:
    """Write the report of a sweep's results folder, print the paths of its files and return the exit code.

    Raises:
        ConfigError: there are no results, or the report cannot be written.
    """
    try:
        files = write_report(folder)
    except (NoResultsError, WriteError) as error:
        raise ConfigError([ConfigProblem(str(error), file=str(folder))]) from error
    for file in files:
        print(file)
    return FINISHED


def _common_placement(sweep: Sweep, trials: list[TrialSpec]) -> Placement:
    """A placement that is large enough for every trial, so that one trial can pass its actors on to the next."""
    places = [placement(sweep.resources, trial.run.training.config) for trial in trials]
    return Placement(*(max(values) for values in zip(*map(astuple, places), strict=True)))


def _misfit(sweep: Sweep, place: Placement, nodes: list[dict[str, float]]) -> list[ConfigProblem]:
    sentence = misfit(place, nodes)
    return [sweep.problem(sentence, "resources")] if sentence else []


def _folder_problems(folder: Folder, sweep: Sweep) -> list[ConfigProblem]:
    sentence = obstacle(folder, sweep.name)
    return [ConfigProblem(sentence, file="--results")] if sentence else []


def _claim_folder(folder: Folder, sweep: Sweep) -> Claim:
    try:
        text = sweep.text.rstrip("\n") + "".join(f"\n# --set {change}" for change in sweep.sets) + "\n"
        return claim(folder, sweep.name, text, ",".join(sorted(trial.id for trial in trial_specs(sweep))))
    except FolderError as error:
        raise ConfigError([ConfigProblem(str(error), file="--results")]) from error


__all__ = ["report", "run"]
