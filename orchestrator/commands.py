"""The command ``run``, from the sweep file to the exit code: it is read, checked, run on Ray,
closed.

Before anything starts, all problems are collected (`prepare`). What is left to train is then run by
Tune (`execute`); a complete sweep is only shown again.
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.interfaces import Run
from datasets.components import Component
from datasets.federation import Source
from orchestrator import FAILED_IF, FINISHED, INTERRUPTED, SOME_FAILED
from orchestrator.cluster import ray_session
from orchestrator.cluster.address import LOCAL, ClusterError, StallError, Target, find_target
from orchestrator.cluster.data_checks import data_problems
from orchestrator.cluster.orphans import end_orphans
from orchestrator.cluster.placement import NO_GPU, Placement, misfit, placement
from orchestrator.config.errors import ConfigError, ConfigProblem, amount, refusal, spared
from orchestrator.config.sweep_file import Sweep
from orchestrator.estimates.budgets import budget_lines, search_epsilon
from orchestrator.estimates.needs import fits, this_machine
from orchestrator.report import page_path, write_report
from orchestrator.report.context import tuned_sentences
from orchestrator.report.data import read_results
from orchestrator.report.gate import Condition, failures, measurable, unknown
from orchestrator.report.terminal import summary_table
from orchestrator.results.claim import Claim, obstacle
from orchestrator.results.log import evict
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.provenance import Hashes
from orchestrator.results.sweeps import read_sweep, write_sweep
from orchestrator.results.writing import WriteError
from orchestrator.scheduling.best import best_sentences
from orchestrator.scheduling.drawing import Grid, UnpublishedError, drawing
from orchestrator.scheduling.trials import TUNE_FOLDER, TrialSpec, earlier_results, plan
from orchestrator.tracking.events import TrialEvents, failure_lines
from orchestrator.tracking.screen import Screen
from orchestrator.tracking.store import server_problem
from orchestrator.tracking.tracker import Tracker

if TYPE_CHECKING:
    from orchestrator.scheduling.trials import Earlier

READY_SECONDS = 10  # to start Ray and to load torch, on a machine that has nothing else to do
# Longest wait for MLflow to receive the rest; creating a new store alone takes seconds.
CLOSE_SECONDS = 120
SEARCH_REPEATS = (
    "a search draws its trials from earlier results: give the sweep another name to search again"
)
NOT_EVERYTHING = "MLflow does not hold everything yet; the next run of this sweep sends the rest"
RENAME = (
    ". If mlflow.db cannot be opened, rename it: the next run makes a new one, and `fedpriv "
    "ui` fills it with the other sweeps"
)


@dataclass(frozen=True)
class Choices:
    """How a sweep is run: what the options of ``fedpriv run`` say."""

    results: Path  # the folder of all sweeps
    # None: RAY_ADDRESS, a cluster that runs on this machine, or this machine alone
    address: str | None = None
    tracking_uri: str | None = None  # None: MLFLOW_TRACKING_URI, or a store in ``results``
    dry: bool = False  # only print the plan
    repeat_changed: bool = False  # of trials that ran with other code or data than today's
    log_models: bool = False
    fail_if: tuple[Condition, ...] = ()  # conditions on the results


@dataclass(frozen=True)
class Work:
    """A sweep that was checked and can run.

    Attributes:
        sweep: the sweep file.
        choices: how it is run.
        folder: where its results are.
        place: the processes of a trial.
        target: the Ray that it runs on.
        drawing: how its trials are drawn, with those that are known.
        earlier: what the folder holds of these trials.
        hashes: those of the data sets.
    """

    sweep: Sweep
    choices: Choices
    folder: Folder
    place: Placement
    target: Target
    drawing: Grid
    earlier: Earlier
    hashes: Hashes

    @property
    def trials(self) -> list[TrialSpec]:
        """The trials that are known so far."""
        return self.drawing.trials

    def missing(self) -> list[TrialSpec]:
        """The trials that still have to run."""
        return self.earlier.remaining(self.trials)


def run_sweep(sweep: Sweep, choices: Choices) -> int:
    """Run a sweep that was loaded, or resume it, or show its plan; return the exit code, see
    `orchestrator`.

    Raises:
        ConfigError: the input was refused, before any trial was started and any result was written.
    """
    work = prepare(sweep, choices)
    if not choices.dry:
        return execute(work)
    from rich.console import Console

    from orchestrator.estimates.dry_run import plan as planned

    ahead = work.drawing.ahead()
    overview = planned(sweep, [*work.trials, *ahead], [*work.missing(), *ahead], work.place)
    again = [
        f"{damage}: a run would set its trial aside and run it again"
        for damage in work.earlier.damaged.values()
    ]
    earlier = work.drawing.on_earlier(work.earlier)
    Console(highlight=False).print(*earlier, *again, overview, sep="\n")
    return FINISHED


def prepare(sweep: Sweep, choices: Choices) -> Work:
    """Check a sweep, its data, its results folder and the addresses, and say at once what was
    understood.

    Raises:
        ConfigError: the input was refused; nothing was started and nothing written.
    """
    folder = _folder(choices.results, sweep.name)
    place = _largest(sweep)
    # Where the trials run on another Ray than one that is started here, this machine's size says
    # nothing.
    named = (choices.address or os.environ.get("RAY_ADDRESS") or LOCAL) != LOCAL
    elsewhere = ray_session.is_connected() or (choices.dry and named)
    # A plan only reads the folder and starts nothing.
    problems = [] if choices.dry else _unusable(folder, sweep, choices)
    target = Target()
    try:
        if not elsewhere or (choices.address and not choices.dry):
            target = find_target(choices.address, os.environ)
        if target.address is None and not elsewhere:
            problems += misfit_problems(sweep, place, ray_session.local_nodes(place))
    except ClusterError as error:
        problems.append(ConfigProblem(str(error), file="--address" if choices.address else "run"))
    grouped = any(run.split.name == "natural" for run in sweep.runs)
    problems += unknown(choices.fail_if, measurable(sweep.runs), grouped)
    if choices.repeat_changed and sweep.space:
        problems.append(ConfigProblem(SEARCH_REPEATS, file="--repeat-changed"))
    if not problems:
        _announce(sweep, target, choices)
    memory = math.inf if elsewhere or target.address else this_machine()
    hashes = _checked_data(sweep, problems, memory, download=not problems and not choices.dry)
    drawn = drawing(sweep, folder, choices.dry)
    earlier = earlier_results(
        folder, drawn.trials, hashes, sweep.tune, choices.repeat_changed, drawn.goes_on
    )
    return Work(sweep, choices, folder, place, target, drawn, earlier, hashes)


def _folder(results: Path, name: str) -> Folder:
    """The folder of a sweep. Raises ConfigError."""
    try:
        return Folder(results.expanduser().absolute() / name)
    except RuntimeError as error:  # somebody's home, who is unknown here
        raise refusal(str(error), "--results") from error


def _largest(sweep: Sweep) -> Placement:
    """Processes for any trial of a sweep, so that one trial can pass its actors on to the next."""
    places = [placement(sweep.resources, run.training.config) for run in sweep.runs]
    return Placement(*(max(values) for values in zip(*map(astuple, places), strict=True)))


def _checked_data(
    sweep: Sweep, earlier_problems: list[ConfigProblem], memory: float, download: bool
) -> Hashes:
    """Load the data of every run, check what needs them, and say what was remarked; return the
    data sets' hashes.

    Raises:
        ConfigError: of all problems, the earlier ones first.
    """
    hashes = Hashes()
    settled = list[tuple[Run, Run]]()
    remarks = list[str]()

    def loaded(data: Component[Any, Any], source: Source) -> None:
        hashes.add(data, source)
        remarks.extend(f"data {source.name}: {remark}" for remark in source.remarks)

    problems = earlier_problems + data_problems(
        sweep, download, loaded, fits(sweep, memory), lambda *pair: settled.append(pair)
    )
    if problems:
        raise ConfigError(problems)
    for line in dict.fromkeys([*remarks, *budget_lines(sweep, settled)]):
        print(line, flush=True)
    return hashes


def misfit_problems(
    sweep: Sweep, place: Placement, nodes: list[dict[str, float]]
) -> list[ConfigProblem]:
    """Why no trial fits on these nodes; nothing if one does."""
    sentence = misfit(place, nodes)
    key: tuple[str, ...] = ("resources",)
    if sentence == NO_GPU and not sweep.resources.reserve_gpu:
        key = ("base", "training", "device")
    return [sweep.problem(sentence, *key)] if sentence else []


def _unusable(folder: Folder, sweep: Sweep, choices: Choices) -> list[ConfigProblem]:
    """Why the results folder, the MLflow server or a Ray that is connected already cannot be
    used.
    """
    sentences = {
        "--results": obstacle(folder, sweep.name),
        "--tracking-uri": server_problem(choices.tracking_uri),
    }
    problems = [
        ConfigProblem(sentence, file=option) for option, sentence in sentences.items() if sentence
    ]
    if sweep.code and ray_session.is_connected():
        problems.append(sweep.problem(ray_session.LACKS, "code"))
    return problems


def _announce(sweep: Sweep, target: Target, choices: Choices) -> None:
    """Say at once what was understood, because loading data and starting Ray take a while."""
    here = f"on this machine ({ray_session.local_cpus()} CPUs)"
    if choices.dry:
        where = f"; timing a few steps of each kind {here}"
        notes = []
    else:
        ready = f"{here}; loading the data and starting Ray take about {READY_SECONDS} s"
        where = f" on {target}" if target.address else f" {ready}"
        notes = [f"{target.note}; Ray is started on this machine instead"] if target.note else []
    draws = sweep.tune and sweep.tune.draws
    count = draws or amount((sweep.samples if sweep.space else None) or len(sweep.runs), "trial")
    print(f"{sweep.name}: {count}{where}", *notes, sep="\n", flush=True)


def execute(work: Work) -> int:
    """Run what is missing of a sweep and write its report; return the exit code.

    Raises:
        ConfigError: the cluster or the results folder cannot be used; no trial was started.
    """
    missing = work.missing()
    screen = Screen(work.drawing.announced(missing))
    for sentence in end_orphans() + work.drawing.on_earlier(work.earlier):
        screen.say(sentence)
    if missing or work.drawing.ahead():
        return _on_ray(work, missing, screen)
    with claimed(work, screen.say):
        # of a run that was killed at its end
        shutil.rmtree(work.folder.path / TUNE_FOLDER, ignore_errors=True)
        for sentence in work.drawing.on_nothing_missing():
            screen.say(sentence)
        return _close(work, _tracker(work, screen), screen)


def _on_ray(work: Work, missing: list[TrialSpec], screen: Screen) -> int:
    """Run the missing trials; Ray's own log is kept, and named, only if something failed."""
    with ray_session.ray_log() as keep_log:
        try:
            with screen, ray_session.ray_session(work.target, work.place) as nodes:
                if work.target.address is not None:
                    screen.say(ray_session.joined(work.target, nodes))
                problems = misfit_problems(work.sweep, work.place, nodes)
                if problems:
                    raise ConfigError(problems)
                unfit = ray_session.node_problems(
                    work.folder.path, work.sweep.resources.timeout_seconds
                )
                if unfit:
                    raise ConfigError(
                        ConfigProblem(sentence, file="--results") for sentence in unfit
                    )
                with claimed(work, screen.say):
                    code = _train(work, missing, nodes, screen)
        except ClusterError as error:
            option = "--address" if work.choices.address else "run"
            raise refusal(f"{error}{keep_log()}", option) from error
        except StallError as error:
            raise StallError(f"{error}{keep_log()}") from error
        if code == SOME_FAILED and (where := keep_log()):
            screen.say(where.strip(" ()"))
        return code


@contextmanager
def claimed(work: Work, say: Callable[[str], None]) -> Iterator[None]:
    """Claim the results folder, set back what runs again, and write down what the sweep is; tell
    the user what is said.

    Raises:
        ConfigError: the folder cannot be used.
    """
    try:
        claim = Claim(work.folder)
    except FolderError as error:
        raise refusal(str(error), "--results") from error
    with claim:
        work.drawing.keep(work.folder)
        for sentence in [*work.earlier.set_back(work.folder), *describe(work)]:
            say(sentence)
        yield


def describe(work: Work, found: Sequence[str] = ()) -> list[str]:
    """Write the manifest of the sweep: file, overrides, trials, what a search ``found``; return
    what was damaged.
    """
    sweep = work.sweep
    rows = plan(work.drawing.named)
    epsilon = search_epsilon(sweep)
    if epsilon is not None:
        rows = [row | {"epsilon_search": epsilon} for row in rows]
    tuned = [*tuned_sentences(sweep.tune, [trial.run for trial in work.trials]), *found]
    return write_sweep(work.folder, sweep.name, sweep.text, rows, sweep.swept, sweep.sets, tuned)


def _train(
    work: Work, missing: list[TrialSpec], nodes: list[dict[str, float]], screen: Screen
) -> int:
    """Run the missing trials, write all results, and wait until MLflow has them."""
    from orchestrator.scheduling.tuner import run_trials

    for sentence in work.drawing.on_start(missing):
        screen.say(sentence)
    tracker = _tracker(work, screen)
    tracker.begin()
    progress = TrialEvents(work.folder, work.drawing.listeners(tracker, screen))
    interruption: BaseException | None = None
    try:
        run_trials(
            work.sweep,
            work.folder,
            missing,
            work.place,
            nodes,
            progress,
            work.hashes,
            work.drawing.search,
        )
    except (KeyboardInterrupt, StallError, WriteError) as error:  # all that was finished is saved
        interruption = error
    finally:
        screen.stop()  # what follows is printed without the live table
    # After an interruption the whole folder may be gone.
    with suppress(*((WriteError, FileNotFoundError) if interruption else ())):
        work.drawing.write_ended(work.folder, lambda: describe(work))
    if interruption is None:
        return _close(work, tracker, screen)
    if isinstance(interruption, KeyboardInterrupt):
        screen.say(f"interrupted; {ray_session.RESUMES}")
    tracker.finish(CLOSE_SECONDS)
    if not isinstance(interruption, KeyboardInterrupt):
        raise interruption
    return INTERRUPTED


def published(work: Work) -> Work:
    """Leave nothing but the trials that are shown. Raises UnpublishedError, WriteError."""
    shown = replace(work, drawing=work.drawing.publish(work.sweep, work.folder))
    if shown.drawing is not work.drawing:
        describe(shown)  # before the others are deleted: from here on the search has ended
    shown.drawing.delete_unpublished(work.folder)
    return shown


def _close(work: Work, tracker: Tracker, screen: Screen) -> int:
    """Print the result, write the report, send MLflow what it lacks, and say what was found;
    return the exit code.

    A run that is killed in here is made good by the next one, which does all of it again.
    """
    try:
        work = published(work)
    except UnpublishedError as error:
        screen.say(str(error))
        return SOME_FAILED
    sweep = work.sweep
    folder = work.folder
    titles = {trial.id: trial.title for trial in work.trials}
    results = read_results(folder.path)
    if sweep.tune:
        describe(work, best_sentences(sweep.tune, results.trials, titles))
        results = replace(results, facts=read_sweep(folder).facts)
    rows = results.trials
    with spared("The table", screen.say, (OSError,)):
        screen.console.print(summary_table(results, screen.console.width))
    with spared("The report", screen.say, (OSError, ConfigError, FolderError)):
        write_report(folder.path, results=results, say=screen.say)
    if not tracker.finish(CLOSE_SECONDS):
        screen.say(f"{NOT_EVERYTHING}{RENAME if tracker.is_local else ''}")
    screen.say(f"results in {folder.path}; on one page: {page_path(folder.path)}")
    if tracker.is_local:
        # It prints the address of each sweep, which is longer than most terminals are wide.
        screen.say(f"fedpriv ui {shlex.quote(str(folder.path.parent))}   opens them in MLflow")
    elif link := tracker.link():
        screen.say(f"in MLflow: {link}")
    held = evict(folder.cache)
    if held > 100e6:
        screen.say(
            f"fedpriv clean {shlex.quote(str(folder.path))}   deletes {held / 1e6:,.0f} MB "
            "that trials share"
        )
    failing = failures(results, work.choices.fail_if)
    for sentence in (*failure_lines(folder, rows, titles), *failing):
        screen.say(sentence)
    if failing:
        return FAILED_IF
    ended = all(row["status"] in ("finished", "stopped") for row in rows)
    return FINISHED if ended else SOME_FAILED


def _tracker(work: Work, screen: Screen) -> Tracker:
    choices = work.choices
    return Tracker(
        work.folder.path.parent,
        work.sweep.name,
        choices.tracking_uri,
        screen.say,
        choices.log_models,
    )
