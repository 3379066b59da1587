"""Running the trials of a checked sweep on Ray, and closing it: tables, report, MLflow, and the last lines on the screen."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from orchestrator.cluster.address import ClusterError
from orchestrator.cluster.gpu_memory import memory_check, on_a_gpu
from orchestrator.cluster.nodes import node_problems
from orchestrator.cluster.orphans import end_orphans
from orchestrator.cluster.ray_log import ray_log
from orchestrator.cluster.ray_session import StallError, joined, ray_session
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.sweep_file import Sweep
from orchestrator.exit_codes import FINISHED, INTERRUPTED, SOME_FAILED
from orchestrator.preparation import Work, misfit_problems
from orchestrator.report import page_path, write_report
from orchestrator.report.context import tuned_sentences
from orchestrator.report.data import where_stopped
from orchestrator.report.terminal import summary_table
from orchestrator.results.claim import Claim
from orchestrator.results.paths import FolderError
from orchestrator.results.sweeps import trial_rows, write_sweep
from orchestrator.results.writing import WriteError
from orchestrator.scheduling.trials import TUNE_FOLDER, TrialSpec, plan, unrepeatable
from orchestrator.scheduling.tuner import run_trials, tune_environment
from orchestrator.tracking.events import MlflowListener, TrialEvents
from orchestrator.tracking.failures import failure_lines
from orchestrator.tracking.notebook_screen import screen_of
from orchestrator.tracking.screen import Screen
from orchestrator.tracking.store import set_store_aside
from orchestrator.tracking.tracker import Tracker, fill

Row = dict[str, Any]

NOT_EVERYTHING = (
    "MLflow does not hold everything yet{}; the next run of this sweep sends the rest. If its store cannot be opened, {} "
    "renames it and fills a new one"
)
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
    for sentence in end_orphans(os.environ) + work.earlier.sentences(len(work.trials), work.choices.repeat_option):
        screen.say(sentence)
    return _on_ray(work, missing, screen) if missing or ahead else _complete(work, screen)


def _complete(work: Work, screen: Screen) -> int:
    """Nothing is left to train: write the report again, and send MLflow what it lacks."""
    with claimed(work, screen.say):
        screen.say(f"all {len(work.trials)} trials are complete; nothing was trained")
        tracker = _tracker(work, screen)
        rows = _close(work, screen)
        _send_rest(work, tracker, screen)
        return _say_end(work, rows, tracker, screen)


def _send_rest(work: Work, tracker: Tracker, screen: Screen) -> None:
    """Wait until MLflow has everything, or say that it has not, and why; a new store gets the other sweeps, too."""
    if not tracker.finish(CLOSE_SECONDS):
        screen.say(
            NOT_EVERYTHING.format(f" ({tracker.trouble})" if tracker.trouble else "", work.choices.new_store_option)
        )
        return
    if tracker.synced and tracker.synced.models:
        screen.say(f"MLflow holds the trained models of {tracker.synced.models} more trials")
    if work.choices.new_store:
        for sentence in fill(work.folder.path.parent, work.folder.name):
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
                with claimed(work, screen.say):
                    code = _train(work, missing, nodes, screen)
        except ClusterError as error:
            raise ConfigError([ConfigProblem(f"{error}{log.keep()}", file=work.choices.address_option)]) from error
        except StallError as error:
            raise StallError(f"{error}{log.keep()}") from error
        if code == SOME_FAILED and (where := log.keep()):
            screen.say(where.strip(" ()"))
        return code


@contextmanager
def claimed(work: Work, say: Callable[[str], None]) -> Iterator[None]:
    """Claim the results folder, set back what runs again, and write down what the sweep is.

    Args:
        work: the checked sweep.
        say: is given sentences for the user.

    Raises:
        ConfigError: the folder cannot be used.
    """
    try:
        claim = Claim(work.folder)
    except FolderError as error:
        raise ConfigError([ConfigProblem(str(error), file="--results")]) from error
    with claim:
        for sentence in [*work.earlier.set_back(work.folder), *describe(work)]:
            say(sentence)
        yield


def describe(work: Work) -> list[str]:
    """Write the manifest of the sweep, with its file, its overrides and its trials; return what was damaged."""
    text = work.sweep.text.rstrip("\n") + "".join(f"\n# --set {change}" for change in work.sweep.sets) + "\n"
    return write_sweep(work.folder, work.sweep.name, text, plan(work.trials))


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
        raise ConfigError([ConfigProblem(str(error), file=work.choices.address_option)]) from error
    if problems:
        raise ConfigError(problems)
    return notes


def _train(work: Work, missing: list[TrialSpec], nodes: list[dict[str, float]], screen: Screen) -> int:
    """Run the missing trials, write all results, and wait until MLflow has them."""
    trials = work.trials
    if len(missing) < len(trials):
        total = work.search.samples if work.search else len(trials)
        screen.say(f"{len(trials) - len(missing)} of {total} trials are complete and are not repeated")
    if remark := unrepeatable(missing):
        screen.say(remark)
    tracker = _tracker(work, screen)
    screen.stage = "starting the processes of the first trials"
    if not _all_rounds(work, missing, nodes, screen, tracker):
        return INTERRUPTED
    rows = _close(work, screen)
    _send_rest(work, tracker, screen)
    return _say_end(work, rows, tracker, screen)


def _all_rounds(
    work: Work, missing: list[TrialSpec], nodes: list[dict[str, float]], screen: Screen, tracker: Tracker
) -> bool:
    """Run the missing trials. False if the user interrupted them; all that was finished is saved then, too."""
    folder = work.folder
    progress = TrialEvents(folder, [MlflowListener(tracker), screen])
    try:
        for sentence in run_trials(work.sweep, folder, missing, work.place, nodes, progress, work.hashes, work.search):
            screen.say(sentence)
    except (KeyboardInterrupt, StallError, WriteError) as error:
        with suppress(WriteError):
            describe(work)
        interrupted = isinstance(error, KeyboardInterrupt)
        if interrupted:
            screen.say("interrupted; finished work is saved, and the same command resumes from there")
        tracker.finish(CLOSE_SECONDS)
        if not interrupted:
            raise
        return False
    finally:
        screen.stop()  # the tables of the end are printed without the live one
    return True


def _close(work: Work, screen: Screen) -> list[Row]:
    """Write the table of trials and the report, and print the result; return the rows of the trials.

    A run that is killed in here is made good by the next one, which does all of it again.
    """
    sweep, folder = work.sweep, work.folder
    shutil.rmtree(folder.path / TUNE_FOLDER, ignore_errors=True)
    describe(work)  # a search has drawn further trials
    rows = trial_rows(folder)
    remarks, width = tuned_sentences(folder.path, rows), screen.console.width
    shown = where_stopped(folder.path, rows)
    configs = {trial.id: trial.run.to_dict() for trial in work.trials}
    table = summary_table(shown, sweep.swept, title=sweep.name, width=width, remarks=remarks, configs=configs)
    screen.console.print(table)
    write_report(folder.path)
    return rows


def _say_end(work: Work, rows: list[Row], tracker: Tracker, screen: Screen) -> int:
    """Say what is best, where the results are, and last what failed; return the exit code."""
    folder = work.folder
    for sentence in _best(work.sweep, work.trials, rows):
        screen.say(sentence)
    screen.say(f"results in {folder.path}; on one page: {page_path(folder.path)}")
    if tracker.is_local:  # it prints the address of each sweep, which is longer than most terminals are wide
        screen.say(f"fedpriv ui {shlex.quote(str(folder.path.parent))}   opens them in MLflow")
    elif link := tracker.link():
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
    choices, results = work.choices, work.folder.path.parent
    if choices.new_store:
        screen.say(set_store_aside(results))
    return Tracker(results, work.sweep.name, choices.tracking_uri, screen.say, choices.log_models)
