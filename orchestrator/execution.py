"""Running the trials of a checked sweep on Ray, and closing it: tables, report, MLflow, and the last lines on the screen."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from orchestrator.cluster.address import ClusterError
from orchestrator.cluster.gpu_memory import memory_check, on_a_gpu
from orchestrator.cluster.left_behind import end_left_behind
from orchestrator.cluster.nodes import node_problems
from orchestrator.cluster.ray_log import ray_log
from orchestrator.cluster.ray_session import StallError, joined, ray_session
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.sweep_file import Sweep
from orchestrator.exit_codes import FINISHED, INTERRUPTED, SOME_FAILED
from orchestrator.preparation import Work, misfit_problems
from orchestrator.report import page_path, write_report
from orchestrator.report.tables.terminal import summary_table
from orchestrator.report.tuned import tuned_sentences
from orchestrator.results.declared import save_declared
from orchestrator.results.folder import Claim, Folder, FolderError, WriteError, claim
from orchestrator.results.provenance import origin
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.trials import TrialSpec, planned, tidy, trial_rows, trial_specs, unrepeatable
from orchestrator.scheduling.tuner import run_trials, tune_environment
from orchestrator.tracking.events import MlflowListener, TrialEvents
from orchestrator.tracking.failures import failure_lines
from orchestrator.tracking.new_store import fill_again, set_aside_sentences
from orchestrator.tracking.notebook_screen import screen_of
from orchestrator.tracking.retired import retire
from orchestrator.tracking.screen import Screen
from orchestrator.tracking.tracker import Tracker

Row = dict[str, Any]

NOT_EVERYTHING = "MLflow does not hold everything yet{}; the next run of this sweep {}"
CLOSE_SECONDS = 120  # longest wait for MLflow to receive the rest; creating a new store alone takes seconds


def execute(work: Work) -> int:
    """Run what is missing of a sweep and write its report; return the exit code.

    Raises:
        ConfigError: the cluster or the results folder cannot be used; no trial was started.
    """
    tune_environment(os.environ)
    missing = work.missing()
    ahead = len(work.ahead())
    screen = screen_of(len(missing) + ahead)
    for sentence in end_left_behind(os.environ) + work.earlier.sentences(len(work.trials), work.choices.repeat_option):
        screen.say(sentence)
    return _on_ray(work, missing, screen) if missing or ahead else _complete(work, screen)


def _complete(work: Work, screen: Screen) -> int:
    """Nothing is left to train: write the report again, and send MLflow what it lacks."""
    with claim_folder(work.folder, work.sweep):
        _set_store_aside(work, screen)
        _mend(work, screen)
        screen.say(work.earlier.all_complete(len(work.trials)))
        tracker = _tracker(work, screen)
        rows = _close(work, screen, tracker, trained=False)
        if work.choices.log_models:
            count = tracker.without_models
            models = f"the trained models of {count} {'trial' if count == 1 else 'trials'} are sent to it"
            screen.say(f"MLflow: {models if count else 'it has the trained models already'}")
        if tracker.behind or work.choices.new_store:
            _send_rest(work, tracker, screen)
        return _say_end(work, rows, tracker, screen)


def _set_store_aside(work: Work, screen: Screen) -> None:
    """Make room for a new store if that was asked for, and say what was wrong with the old one."""
    if work.choices.new_store:
        for sentence in set_aside_sentences(work.folder.path.parent):
            screen.say(sentence)


def _send_rest(work: Work, tracker: Tracker, screen: Screen) -> None:
    """Wait until MLflow has everything, or say that it has not, and why; a new store gets the other sweeps, too."""
    if not tracker.close(CLOSE_SECONDS):
        damaged = tracker.store_is_damaged
        then = f"with {work.choices.new_store_option} fills a new store" if damaged else "sends the rest"
        screen.say(NOT_EVERYTHING.format(f" ({tracker.trouble})" if tracker.trouble else "", then))
    elif work.choices.new_store:
        for sentence in fill_again(work.folder, CLOSE_SECONDS, work.choices.models_option):
            screen.say(sentence)


def _on_ray(work: Work, missing: list[TrialSpec], screen: Screen) -> int:
    """Run the missing trials; Ray's own log is kept, and named, only if something failed."""
    with ray_log() as log:
        try:
            screen.stage = "starting Ray" if work.target.address is None else "joining the cluster"
            with screen, ray_session(work.target, work.place) as nodes:
                if work.target.address is not None:
                    screen.say(joined(work.target, nodes))
                for sentence in _ready(work, nodes):
                    screen.say(sentence)
                with claim_folder(work.folder, work.sweep):
                    _set_store_aside(work, screen)
                    _mend(work, screen)
                    code = _train(work, missing, nodes, screen)
        except ClusterError as error:
            raise ConfigError([ConfigProblem(f"{error}{log.keep()}", file="--address")]) from error
        except StallError as error:
            raise StallError(f"{error}{log.keep()}") from error
        if code == SOME_FAILED and (where := log.keep()):
            screen.say(where.strip(" ()"))
        return code


def _mend(work: Work, screen: Screen) -> None:
    """Set damaged results aside, and give up those whose trials run again; their rows in trials.parquet come first."""
    again = work.earlier.again()
    if again:
        write_trials(work.folder, trial_rows(work.folder, work.trials, again))
    for sentence in work.earlier.mend():
        screen.say(sentence)
    retired = work.earlier.set_back(work.folder)
    if warning := retire(work.folder, work.choices.tracking_uri, retired):
        screen.say(warning)


def _ready(work: Work, nodes: list[dict[str, float]]) -> list[str]:
    """Check the cluster; return notes for the user. Raises ConfigError if a trial does not fit or a node is unsuitable."""
    problems = misfit_problems(work.sweep, work.place, nodes)
    if not problems:
        sentences = node_problems(work.folder.path, work.sweep.resources.timeout_seconds)
        problems = [ConfigProblem(sentence, file="--results") for sentence in sentences]
    if problems:
        raise ConfigError(problems)
    try:
        notes, problems = memory_check(work.sweep, on_a_gpu(work.sweep))
    except TimeoutError as error:
        raise ConfigError([ConfigProblem(str(error), file="--address")]) from error
    if problems:
        raise ConfigError(problems)
    return notes


def _train(work: Work, missing: list[TrialSpec], nodes: list[dict[str, float]], screen: Screen) -> int:
    """Run the missing trials, write all results, and wait until MLflow has them."""
    folder, trials = work.folder, work.trials
    if len(missing) < len(trials):
        total = work.search.samples if work.search else len(trials)
        screen.say(f"{len(trials) - len(missing)} of {total} trials are complete and are not repeated")
    if remark := unrepeatable(missing):
        screen.say(remark)
    tracker = _tracker(work, screen)
    tracker.sweep_started(origin(trials[0].run.training.config.device))
    write_trials(folder, trial_rows(folder, trials))
    screen.stage = "starting the processes of the first trials"
    if not _all_rounds(work, missing, nodes, screen, tracker):
        return INTERRUPTED
    rows = _close(work, screen, tracker)
    _send_rest(work, tracker, screen)
    return _say_end(work, rows, tracker, screen)


def _all_rounds(
    work: Work, missing: list[TrialSpec], nodes: list[dict[str, float]], screen: Screen, tracker: Tracker
) -> bool:
    """Run the missing trials. False if the user interrupted them; all that was finished is saved then, too."""
    folder = work.folder
    progress = TrialEvents(folder, [MlflowListener(tracker, folder), screen])
    try:
        for sentence in run_trials(work.sweep, folder, missing, work.place, nodes, progress, work.hashes, work.search):
            screen.say(sentence)
    except (KeyboardInterrupt, StallError, WriteError) as error:
        with suppress(WriteError):
            write_trials(folder, trial_rows(folder, work.trials))
        tracker.sweep_finished([], "unfinished")
        interrupted = isinstance(error, KeyboardInterrupt)
        if interrupted:
            screen.say("interrupted; finished work is saved, and the same command resumes from there")
        tracker.close(CLOSE_SECONDS)
        if not interrupted:
            raise
        return False
    finally:
        screen.stop()  # the tables of the end are printed without the live one
    return True


def _close(work: Work, screen: Screen, tracker: Tracker, trained: bool = True) -> list[Row]:
    """Write the table of trials and the report, print the result and let MLflow have it; return the rows of the trials.

    If nothing was trained, MLflow is sent what it lacks, and the report if it has changed. A run that is killed in here is
    made good by the next one, which does all of it again.
    """
    sweep, folder = work.sweep, work.folder
    tidy(folder, work.trials)
    rows = trial_rows(folder, work.trials)
    write_trials(folder, rows)
    remarks, width = tuned_sentences(folder.path, rows), screen.console.width
    screen.console.print(summary_table(rows, sweep.swept, title=sweep.name, width=width, remarks=remarks))
    files = write_report(folder.path)
    tracker.reconcile(folder.path, planned(work.trials))
    status = "failed" if _bad(rows) else "finished"
    if trained:
        tracker.sweep_finished(files, status)
    else:
        tracker.report_written(files, status, origin(work.trials[0].run.training.config.device))
    return rows


def _say_end(work: Work, rows: list[Row], tracker: Tracker, screen: Screen) -> int:
    """Say what is best, where the results are, and last what failed; return the exit code."""
    folder = work.folder
    for sentence in _best(work.sweep, work.trials, rows):
        screen.say(sentence)
    screen.say(f"results in {folder.path}; on one page: {page_path(folder.path)}")
    link = tracker.link()
    if tracker.is_local:
        screen.say(f"fedpriv ui {folder.path.parent}   opens them in MLflow{f', this sweep at {link}' if link else ''}")
    elif link:
        screen.say(f"in MLflow: {link}")
    for sentence in failure_lines(folder, rows, {trial.id: trial.title for trial in work.trials}):
        screen.say(sentence)
    return SOME_FAILED if _bad(rows) else FINISHED


def _bad(rows: list[Row]) -> bool:
    return any(row["status"] not in ("finished", "stopped") for row in rows)


def _best(sweep: Sweep, trials: list[TrialSpec], rows: list[Row]) -> list[str]:
    """A sentence that names the best trial of a tuned sweep; empty if the sweep is not tuned."""
    if not sweep.tune:
        return []
    metric = sweep.tune.metric
    found = [(row[metric], trial.title) for row, trial in zip(rows, trials, strict=True) if row.get(metric) is not None]
    if not found:
        return [f"no finished trial has the metric {metric!r}, so there is no best trial"]
    value, title = found[sweep.tune.best([value for value, _ in found])]
    return [f"best {metric} {value:.4g}: {title}"]


def _tracker(work: Work, screen: Screen) -> Tracker:
    choices = work.choices
    return Tracker(work.folder.path.parent, work.sweep.name, choices.tracking_uri, screen.say, choices.log_models)


def claim_folder(folder: Folder, sweep: Sweep) -> Claim:
    """Claim the results folder for this process, with the sweep's file and overrides in it.

    Raises:
        ConfigError: another process uses the folder, or it holds another sweep.
    """
    try:
        text = sweep.text.rstrip("\n") + "".join(f"\n# --set {change}" for change in sweep.sets) + "\n"
        held = claim(folder, sweep.name, text, ",".join(sorted(trial.id for trial in trial_specs(sweep))))
    except FolderError as error:
        raise ConfigError([ConfigProblem(str(error), file="--results")]) from error
    save_declared(folder)
    return held
