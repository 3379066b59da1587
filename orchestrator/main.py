"""What the commands do, from reading the input to the exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from rich.console import Console

from orchestrator.cluster import ClusterError, local_nodes, ray_session
from orchestrator.exit_codes import FINISHED, INTERRUPTED, SOME_FAILED
from orchestrator.placement import Placement, misfit, placement
from orchestrator.preflight import data_problems
from orchestrator.progress import Progress, Tracking
from orchestrator.provenance import commit, origin
from orchestrator.refusal import Problem, Refusal
from orchestrator.report import write_report
from orchestrator.report.results import NoResults
from orchestrator.report.terminal import summary_table
from orchestrator.results import Claim, Folder, FolderError, WriteError, claim, obstacle
from orchestrator.screen import Screen
from orchestrator.sweep import TrialSpec, remaining, results_of, run_trials, specs, tune_environment
from orchestrator.sweep_file import Sweep, load_sweep
from orchestrator.tables import write_trials
from orchestrator.tracking import Tracker

CLOSE_SECONDS = 120  # for MLflow to take what is left; making a fresh store alone takes seconds


def run(
    path: Path, sets: Sequence[str], results: Path, address: str | None, tracking_uri: str | None, dry: bool
) -> int:
    """Run the sweep in ``path``, or go on with it. Raises Refusal before anything is started or written."""
    sweep = load_sweep(path, sets)
    folder, trials = Folder(results.expanduser().absolute() / sweep.name), specs(sweep)
    place = _fitting(sweep, trials)
    problems = [] if dry else _folder_problems(folder, sweep)
    remote = address or os.environ.get("RAY_ADDRESS")
    if not remote:
        problems += _misfit(sweep, place, local_nodes(place))
    problems += data_problems(sweep, download=not problems and not dry)
    if problems:
        raise Refusal(problems)
    if dry:
        from orchestrator.plan import plan

        Console(highlight=False).print(plan(sweep, trials, remaining(folder, trials), place))
        return FINISHED
    return _run(sweep, folder, trials, place, address, tracking_uri)


def _run(
    sweep: Sweep, folder: Folder, trials: list[TrialSpec], place: Placement, address: str | None, uri: str | None
) -> int:
    tune_environment(os.environ)
    missing = remaining(folder, trials)
    screen = Screen({trial.id: (trial.title, trial.run.rounds) for trial in missing})
    if not missing:
        with _claimed(folder, sweep):
            screen.say(f"all {len(trials)} trials are complete; nothing was trained")
            tracker = Tracker(folder.path.parent, sweep.name, uri, screen.say)
            code = _close(sweep, folder, trials, screen)
            tracker.reconcile(folder.path)
            if tracker.behind:
                tracker.close(CLOSE_SECONDS)
            return code
    try:
        with ray_session(address, place) as nodes:
            problems = _misfit(sweep, place, nodes)
            if problems:
                raise Refusal(problems)
            with _claimed(folder, sweep):
                return _train(sweep, folder, trials, missing, place, nodes, screen, uri)
    except ClusterError as error:
        raise Refusal([Problem(str(error), file="--address")]) from error


def _train(
    sweep: Sweep,
    folder: Folder,
    trials: list[TrialSpec],
    missing: list[TrialSpec],
    place: Placement,
    nodes: list[dict[str, float]],
    screen: Screen,
    uri: str | None,
) -> int:
    if len(missing) < len(trials):
        screen.say(f"{len(trials) - len(missing)} of {len(trials)} trials are complete and are not repeated")
    tracker = Tracker(folder.path.parent, sweep.name, uri, screen.say)
    tracker.sweep_started(origin(trials[0].run.training.config.device))
    told = Tracking(tracker, folder, {trial.id: (trial.title, trial.run.to_dict()) for trial in missing})
    write_trials(folder, results_of(folder, trials))
    with screen:
        try:
            run_trials(sweep, folder, missing, place, nodes, Progress(folder, [told, screen]), commit())
        except KeyboardInterrupt:
            write_trials(folder, results_of(folder, trials))
            screen.say("stopped; what is done is kept, and the same command goes on from there")
            tracker.sweep_finished([], "unfinished")
            tracker.close(CLOSE_SECONDS)
            return INTERRUPTED
    code = _close(sweep, folder, trials, screen, tracker)
    if not tracker.close(CLOSE_SECONDS):
        screen.say("MLflow does not hold everything yet; the next run of this sweep sends the rest")
    return code


def _close(
    sweep: Sweep, folder: Folder, trials: list[TrialSpec], screen: Screen, tracker: Tracker | None = None
) -> int:
    rows = results_of(folder, trials)
    write_trials(folder, rows)
    screen.console.print(summary_table(rows, sweep.swept, title=sweep.name, width=screen.console.width))
    files = write_report(folder.path)
    if tracker:
        tracker.reconcile(folder.path)
        tracker.sweep_finished(files, "finished" if all(row["status"] == "finished" for row in rows) else "failed")
    bad = [row for row in rows if row["status"] != "finished"]
    screen.say(f"results in {folder.path}, tables and figures in {folder.report}")
    screen.say(f"fedpriv ui {folder.path.parent}   opens them in MLflow")
    return SOME_FAILED if bad else FINISHED


def report(folder: Path) -> int:
    """Write the report of a results folder. Raises Refusal where there is nothing to report on."""
    try:
        files = write_report(folder)
    except (NoResults, WriteError) as error:
        raise Refusal([Problem(str(error), file=str(folder))]) from error
    for file in files:
        print(file)
    return FINISHED


def _fitting(sweep: Sweep, trials: list[TrialSpec]) -> Placement:
    """A placement that every trial fits into: one serves all, so that actors can be handed from trial to trial."""
    places = [placement(sweep.resources, trial.run.training.config) for trial in trials]
    return Placement(*(max(values) for values in zip(*map(astuple, places), strict=True)))


def _misfit(sweep: Sweep, place: Placement, nodes: list[dict[str, float]]) -> list[Problem]:
    sentence = misfit(place, nodes)
    return [sweep.problem(sentence, "resources")] if sentence else []


def _folder_problems(folder: Folder, sweep: Sweep) -> list[Problem]:
    sentence = obstacle(folder, sweep.name)
    return [Problem(sentence, file="--results")] if sentence else []


def _claimed(folder: Folder, sweep: Sweep) -> Claim:
    try:
        text = sweep.text.rstrip("\n") + "".join(f"\n# --set {change}" for change in sweep.sets) + "\n"
        return claim(folder, sweep.name, text, ",".join(sorted(trial.id for trial in specs(sweep))))
    except FolderError as error:
        raise Refusal([Problem(str(error), file="--results")]) from error


__all__ = ["report", "run"]
