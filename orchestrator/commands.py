"""The commands ``run`` and ``report``, from reading the input to the exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from orchestrator.cluster.address import LOCAL, ClusterError, Target, find_target
from orchestrator.cluster.connected import is_connected
from orchestrator.cluster.data_checks import data_problems
from orchestrator.cluster.gpu_memory import memory_check, on_a_gpu
from orchestrator.cluster.nodes import node_problems
from orchestrator.cluster.placement import NO_GPU, Placement, misfit, placement
from orchestrator.cluster.ray_log import ray_log
from orchestrator.cluster.ray_session import StallError, joined, local_cpus, local_nodes, ray_session
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.exit_codes import FINISHED, INTERRUPTED, SOME_FAILED
from orchestrator.report import write_page, write_report
from orchestrator.report.data import NoResultsError
from orchestrator.report.tables.terminal import summary_table
from orchestrator.report.tuned import tuned_sentences
from orchestrator.results.fingerprints import DataHashes
from orchestrator.results.folder import Claim, Folder, FolderError, WriteError, claim, obstacle
from orchestrator.results.provenance import origin
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.earlier import REPEAT, Earlier, earlier_results
from orchestrator.scheduling.trials import TrialSpec, remaining_trials, trial_rows, trial_specs, unrepeatable
from orchestrator.scheduling.tuner import run_trials, tune_environment
from orchestrator.tracking.events import MlflowListener, TrialEvents
from orchestrator.tracking.failures import failure_lines
from orchestrator.tracking.notebook_screen import screen_of
from orchestrator.tracking.retired import retire
from orchestrator.tracking.screen import Screen
from orchestrator.tracking.server import server_note, server_problem
from orchestrator.tracking.tracker import Tracker

if TYPE_CHECKING:
    from orchestrator.report.figures.formats import Format
    from orchestrator.scheduling.search import Search

READY_SECONDS = 10  # to start Ray and to load torch, on a machine that has nothing else to do
SEARCH_REPEATS = "a search draws its trials from earlier results: give the sweep another name to search again"
CLOSE_SECONDS = 120  # longest wait for MLflow to receive the rest; creating a new store alone takes seconds


def run(
    path: Path,
    sets: Sequence[str],
    results: Path,
    address: str | None,
    tracking_uri: str | None,
    dry: bool,
    repeat_changed: bool = False,
) -> int:
    """Run the sweep in ``path``, or resume it.

    Args:
        path: the sweep file.
        sets: overrides of the sweep file, as ``key=value``.
        results: the folder of all sweeps; the sweep's own folder is below it.
        address: a Ray cluster to join; None for RAY_ADDRESS, a cluster that runs on this machine, or this machine alone.
        tracking_uri: an MLflow server; None for MLFLOW_TRACKING_URI or a store in ``results``.
        dry: print the plan and start nothing.
        repeat_changed: run trials again that ran with other code or data than today's.

    Returns:
        The exit code, see `orchestrator.exit_codes`.

    Raises:
        ConfigError: the input was refused, before any trial was started and any result was written.
    """
    return run_sweep(load_sweep(path, sets), results, address, tracking_uri, dry, repeat_changed)


def run_sweep(
    sweep: Sweep,
    results: Path,
    address: str | None,
    tracking_uri: str | None,
    dry: bool,
    repeat_changed: bool = False,
) -> int:
    """Run a sweep that was loaded, or resume it; arguments, exit code and errors as in `run`."""
    folder = Folder(results.expanduser().absolute() / sweep.name)
    place = _common_placement(sweep, trial_specs(sweep))
    problems = [] if dry else _folder_problems(folder, sweep) + _server_problems(tracking_uri)
    target, unreachable = (Target(), []) if dry or (is_connected() and not address) else _target(address)
    problems += unreachable
    elsewhere = is_connected() or (address or os.environ.get("RAY_ADDRESS") or LOCAL) != LOCAL
    if not unreachable and target.address is None and not (dry and elsewhere) and not is_connected():
        problems += _misfit(sweep, place, local_nodes(place))
    if not problems:
        _announce(sweep, target, tracking_uri, dry)
    hashes = DataHashes()
    problems += data_problems(sweep, download=not problems and not dry, loaded=hashes.add)
    if repeat_changed and sweep.space:
        problems.append(ConfigProblem(SEARCH_REPEATS, file=REPEAT))
    if problems:
        raise ConfigError(problems)
    search = _search(sweep, folder)
    trials = search.replay() if search else trial_specs(sweep)
    earlier = earlier_results(folder, trials, hashes, sweep.tune, repeat_changed)
    if dry:
        from orchestrator.dry_run import plan

        ahead = search.ahead() if search else []
        missing = [*earlier.remaining(trials, remaining_trials(folder, trials, sweep.tune)), *ahead]
        shown = plan(sweep, [*trials, *ahead], missing, place)
        Console(highlight=False).print(*earlier.sentences(len(trials)), shown, sep="\n")
        return FINISHED
    return _run(sweep, folder, trials, place, target, tracking_uri, search, earlier, hashes)


def _target(address: str | None) -> tuple[Target, list[ConfigProblem]]:
    try:
        return find_target(address, os.environ), []
    except ClusterError as error:
        return Target(), [ConfigProblem(str(error), file="--address")]


def _announce(sweep: Sweep, target: Target, uri: str | None, dry: bool) -> None:
    """Say at once what was understood, because loading data and starting Ray take a while."""
    count = f"{sweep.name}: {sweep.samples if sweep.space else len(sweep.runs)} trials"
    here = f"on this machine ({local_cpus()} CPUs)"
    if dry:
        print(f"{count}; timing a few steps of each kind {here}", flush=True)
    elif target.address is None:
        print(f"{count} {here}; loading the data and starting Ray take about {READY_SECONDS} s", flush=True)
    else:
        print(f"{count} on {target}", flush=True)
    if target.note:
        print(f"{target.note}; Ray is started on this machine instead", flush=True)
    if not dry and (note := server_note(uri)):
        print(note, flush=True)


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
    target: Target,
    uri: str | None,
    search: Search | None,
    earlier: Earlier,
    hashes: DataHashes,
) -> int:
    tune_environment(os.environ)
    missing = earlier.remaining(trials, remaining_trials(folder, trials, sweep.tune))
    undrawn = len(search.ahead()) if search else 0
    screen = screen_of(len(missing) + undrawn)
    for sentence in earlier.sentences(len(trials)):
        screen.say(sentence)
    if not missing and not undrawn:
        with _claim_folder(folder, sweep):
            screen.say(earlier.all_complete(len(trials)))
            tracker = Tracker(folder.path.parent, sweep.name, uri, screen.say)
            code = _close(sweep, folder, trials, screen)
            tracker.reconcile(folder.path)
            if tracker.behind:
                tracker.close(CLOSE_SECONDS)
            return code
    with ray_log() as log:
        try:
            screen.stage = "starting Ray" if target.address is None else "joining the cluster"
            with screen, ray_session(target, place) as nodes:
                if target.address is not None:
                    screen.say(joined(target, nodes))
                for sentence in _ready(sweep, folder, place, nodes):
                    screen.say(sentence)
                with _claim_folder(folder, sweep):
                    if warning := retire(folder, uri, earlier.set_back(folder)):
                        screen.say(warning)
                    code = _train(sweep, folder, trials, missing, place, nodes, screen, uri, search, hashes)
        except ClusterError as error:
            raise ConfigError([ConfigProblem(f"{error}{log.keep()}", file="--address")]) from error
        except StallError as error:
            raise StallError(f"{error}{log.keep()}") from error
        if code == SOME_FAILED and (where := log.keep()):
            screen.say(where.strip(" ()"))
        return code


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
    hashes: DataHashes,
) -> int:
    if len(missing) < len(trials):
        total = search.samples if search else len(trials)
        screen.say(f"{len(trials) - len(missing)} of {total} trials are complete and are not repeated")
    if remark := unrepeatable(missing):
        screen.say(remark)
    tracker = Tracker(folder.path.parent, sweep.name, uri, screen.say)
    tracker.sweep_started(origin(trials[0].run.training.config.device))
    progress = TrialEvents(folder, [MlflowListener(tracker, folder), screen])
    write_trials(folder, trial_rows(folder, trials))
    screen.stage = "starting the processes of the first trials"
    with screen:
        try:
            for sentence in run_trials(sweep, folder, missing, place, nodes, progress, hashes, search):
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
    for sentence in failure_lines(folder, rows, {trial.id: trial.title for trial in trials}):
        screen.say(sentence)
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


def _common_placement(sweep: Sweep, trials: list[TrialSpec]) -> Placement:
    """A placement that is large enough for every trial, so that one trial can pass its actors on to the next."""
    places = [placement(sweep.resources, trial.run.training.config) for trial in trials]
    return Placement(*(max(values) for values in zip(*map(astuple, places), strict=True)))


def _server_problems(tracking_uri: str | None) -> list[ConfigProblem]:
    sentence = server_problem(tracking_uri)
    return [ConfigProblem(sentence, file="--tracking-uri")] if sentence else []


def _misfit(sweep: Sweep, place: Placement, nodes: list[dict[str, float]]) -> list[ConfigProblem]:
    sentence = misfit(place, nodes)
    key = ("base", "training", "device") if sentence == NO_GPU and not sweep.resources.reserve_gpu else ("resources",)
    return [sweep.problem(sentence, *key)] if sentence else []


def _folder_problems(folder: Folder, sweep: Sweep) -> list[ConfigProblem]:
    sentence = obstacle(folder, sweep.name)
    return [ConfigProblem(sentence, file="--results")] if sentence else []


def _claim_folder(folder: Folder, sweep: Sweep) -> Claim:
    try:
        text = sweep.text.rstrip("\n") + "".join(f"\n# --set {change}" for change in sweep.sets) + "\n"
        return claim(folder, sweep.name, text, ",".join(sorted(trial.id for trial in trial_specs(sweep))))
    except FolderError as error:
        raise ConfigError([ConfigProblem(str(error), file="--results")]) from error


__all__ = ["report", "run", "run_sweep"]
