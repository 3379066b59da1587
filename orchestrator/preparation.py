"""Checks of a sweep before anything starts, and what follows from them: its trials, their processes, the Ray to use."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cluster.address import LOCAL, ClusterError, Target, find_target
from orchestrator.cluster.connected import LACKS, is_connected
from orchestrator.cluster.data_checks import data_problems
from orchestrator.cluster.placement import NO_GPU, Placement, misfit, placement
from orchestrator.cluster.ray_session import local_cpus, local_nodes
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.sweep_file import Sweep
from orchestrator.estimates.needs import LARGEST, course_problems, fits, this_machine
from orchestrator.results.claim import obstacle
from orchestrator.results.paths import Folder
from orchestrator.results.provenance import Hashes
from orchestrator.scheduling.earlier import Earlier, earlier_results
from orchestrator.scheduling.trials import TrialSpec, trial_specs
from orchestrator.tracking.server import server_note, server_problem
from orchestrator.tracking.store import named_server

if TYPE_CHECKING:
    from orchestrator.scheduling.search import Search

READY_SECONDS = 10  # to start Ray and to load torch, on a machine that has nothing else to do
REPEAT = "--repeat-changed"
NEW_STORE = "--new-store"
NO_LOCAL_STORE = (
    "is for the store beside the results, but an MLflow server is named (--tracking-uri or MLFLOW_TRACKING_URI)"
)
SEARCH_REPEATS = "a search draws its trials from earlier results: give the sweep another name to search again"


@dataclass(frozen=True)
class Choices:
    """How a sweep is run: what the options of ``fedpriv run`` say.

    Attributes:
        results: the folder of all sweeps; the sweep's own folder is below it.
        address: a Ray cluster to join; None for RAY_ADDRESS, a cluster that runs on this machine, or this machine alone.
        tracking_uri: an MLflow server; None for MLFLOW_TRACKING_URI or a store in ``results``.
        dry: print the plan and start nothing.
        repeat_changed: run trials again that ran with other code or data than today's.
        log_models: also send the trained models to MLflow.
        from_python: whether `fedpriv.run` was called, so that messages name its arguments.
        new_store: rename the store beside the results, and fill a new one from them.
    """

    results: Path
    address: str | None = None
    tracking_uri: str | None = None
    dry: bool = False
    repeat_changed: bool = False
    log_models: bool = False
    from_python: bool = False
    new_store: bool = False

    @property
    def address_option(self) -> str:
        """What is wrong where Ray cannot be used: the address that was given, or the run, of which nobody named one."""
        return "--address" if self.address else "run"

    @property
    def new_store_option(self) -> str:
        """What the user gives to have a new store filled."""
        return "new_store=True" if self.from_python else NEW_STORE

    @property
    def repeat_option(self) -> str:
        """What the user gives to run changed trials again."""
        return "repeat_changed=True" if self.from_python else REPEAT


@dataclass(frozen=True)
class Work:
    """A sweep that was checked and can run.

    Attributes:
        sweep: the sweep.
        choices: how it is run.
        folder: its results folder.
        trials: its trials; of a search, those that were drawn before.
        place: the processes that each trial is given.
        target: the Ray that is used.
        search: what draws trials; None without a search.
        earlier: what earlier runs left in the folder.
        hashes: those of the data sets.
    """

    sweep: Sweep
    choices: Choices
    folder: Folder
    trials: list[TrialSpec]
    place: Placement
    target: Target
    search: Search | None
    earlier: Earlier
    hashes: Hashes

    def missing(self) -> list[TrialSpec]:
        """The trials that still have to run."""
        return self.earlier.remaining(self.trials)

    def ahead(self) -> list[TrialSpec]:
        """Stand-ins for the trials that a search has not drawn yet."""
        return self.search.ahead() if self.search else []


def prepare(sweep: Sweep, choices: Choices) -> Work:
    """Check a sweep, its data, its results folder and the addresses, and say at once what was understood.

    Raises:
        ConfigError: the input was refused; nothing was started and nothing written.
    """
    folder = _folder(choices.results, sweep)
    place = _common_placement(sweep)
    problems = _folder_problems(folder, sweep, choices)
    problems += [] if choices.dry else _server_problems(choices)
    target, unreachable = _target(choices)
    problems += unreachable
    if sweep.code and is_connected() and not choices.dry:
        problems.append(sweep.problem(LACKS, "code"))
    if not unreachable and target.address is None and not _elsewhere(choices):
        problems += misfit_problems(sweep, place, local_nodes(place))
    machine = LARGEST if _elsewhere(choices) or target.address else this_machine(folder.path)
    problems += course_problems(sweep, machine)
    if not problems:
        _announce(sweep, target, choices)
    hashes = Hashes()
    download = not problems and not choices.dry
    problems += data_problems(sweep, download, loaded=hashes.add, held=fits(sweep, machine))
    if choices.repeat_changed and sweep.space:
        problems.append(ConfigProblem(SEARCH_REPEATS, file=REPEAT))
    if problems:
        raise ConfigError(problems)
    search = _search(sweep, folder)
    trials = search.replay() if search else trial_specs(sweep)
    drawing = search is not None and not search.complete
    earlier = earlier_results(folder, trials, hashes, sweep.tune, choices.repeat_changed, drawing)
    return Work(sweep, choices, folder, trials, place, target, search, earlier, hashes)


def misfit_problems(sweep: Sweep, place: Placement, nodes: list[dict[str, float]]) -> list[ConfigProblem]:
    """Why no trial fits on these nodes; nothing if one does."""
    sentence = misfit(place, nodes)
    key = ("base", "training", "device") if sentence == NO_GPU and not sweep.resources.reserve_gpu else ("resources",)
    return [sweep.problem(sentence, *key)] if sentence else []


def _target(choices: Choices) -> tuple[Target, list[ConfigProblem]]:
    """The Ray that is used; a dry run asks a cluster only whether it runs here, where a run would find it by itself."""
    if (choices.dry and _named(choices)) or (is_connected() and not choices.address):
        return Target(), []
    try:
        return find_target(choices.address, os.environ), []
    except ClusterError as error:
        return Target(), [ConfigProblem(str(error), file=choices.address_option)]


def _elsewhere(choices: Choices) -> bool:
    """Whether the trials run on another Ray than one that is started here, so that this machine's size says nothing."""
    return is_connected() or (choices.dry and _named(choices))


def _named(choices: Choices) -> bool:
    """Whether a cluster is asked for."""
    return (choices.address or os.environ.get("RAY_ADDRESS") or LOCAL) != LOCAL


def _announce(sweep: Sweep, target: Target, choices: Choices) -> None:
    """Say at once what was understood, because loading data and starting Ray take a while."""
    count = f"{sweep.name}: {sweep.samples if sweep.space else len(sweep.runs)} trials"
    here = f"on this machine ({local_cpus()} CPUs)"
    if choices.dry:
        print(f"{count}; timing a few steps of each kind {here}", flush=True)
    elif target.address is None:
        print(f"{count} {here}; loading the data and starting Ray take about {READY_SECONDS} s", flush=True)
    else:
        print(f"{count} on {target}", flush=True)
    if target.note and not choices.dry:
        print(f"{target.note}; Ray is started on this machine instead", flush=True)
    if not choices.dry and (note := server_note(choices.tracking_uri)):
        print(note, flush=True)


def _search(sweep: Sweep, folder: Folder) -> Search | None:
    if not sweep.space:
        return None
    from orchestrator.scheduling.search import Search

    return Search(sweep, folder)


def _common_placement(sweep: Sweep) -> Placement:
    """A placement that is large enough for every trial, so that one trial can pass its actors on to the next."""
    places = [placement(sweep.resources, run.training.config) for run in sweep.runs]
    return Placement(*(max(values) for values in zip(*map(astuple, places), strict=True)))


def _server_problems(choices: Choices) -> list[ConfigProblem]:
    sentence = server_problem(choices.tracking_uri)
    problems = [ConfigProblem(sentence, file="--tracking-uri")] if sentence else []
    if choices.new_store and named_server(choices.tracking_uri):
        problems.append(ConfigProblem(NO_LOCAL_STORE, file=NEW_STORE))
    return problems


def _folder(results: Path, sweep: Sweep) -> Folder:
    try:
        return Folder(results.expanduser().absolute() / sweep.name)
    except RuntimeError as error:
        sentence = f"{results} names the home of somebody who is unknown here; give another folder"
        raise ConfigError([ConfigProblem(sentence, file="--results")]) from error


def _folder_problems(folder: Folder, sweep: Sweep, choices: Choices) -> list[ConfigProblem]:
    """Why the results folder cannot be used; a dry run only reads it."""
    sentence = None if choices.dry else obstacle(folder, sweep.name)
    return [ConfigProblem(sentence, file="--results")] if sentence else []
