"""A sweep with many tiny trials, each of them damaged in another way."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.conformance.inline import InlineShadows
from orchestrator.execution import claim_folder
from orchestrator.results.fingerprints import DataHashes, identity
from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.record import write_begun
from orchestrator.scheduling.trials import TrialSpec, trial_specs
from orchestrator.trial.federation import partition_data
from orchestrator.trial.local_clients import LocalClients, prepare_session
from orchestrator.trial.loop import Surroundings
from orchestrator.trial.restarts import Trial
from tests.support.damaged_trials import COMPLETE, Case
from tests.support.undisturbed import undisturbed

NAME = "damaged"
BASE = {
    "rounds": 3,
    "data": {"name": "digits", "clients": 6, "examples_per_client": 12, "test_size": 40,
             "split": {"minority_ratio": 0.34}},
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"lr": 0.1, "epochs": 1, "batch_size": 6},
    "attacks": ["client_mia"],
}  # fmt: skip
ALONE, COMPARING = "none", {"name": "ifca", "restarts": 2, "restart_rounds": 1}  # with one start, and with two


def written_sweep(path: Path, seeds: int) -> Path:
    """The file of a sweep with so many trials that have one start, and as many that have two."""
    varied = {"clustering": {"grid_search": [ALONE, COMPARING]}, "seed": {"grid_search": list(range(seeds))}}
    resources = {"client_actors": 1, "concurrent_trials": 1}
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"name": NAME, "base": BASE, "sweep": varied, "resources": resources}
    path.write_text(yaml.safe_dump(found))
    return path


@dataclass(frozen=True)
class Undamaged:
    """A sweep, its results, and its trials as they were left after any number of steps."""

    sweep: Sweep
    file: Path
    folder: Folder
    scratch: Path
    hashes: DataHashes

    @classmethod
    def made(cls, file: Path, scratch: Path) -> Undamaged:
        """Run the sweep in ``file`` in this process."""
        sweep, hashes = load_sweep(file), DataHashes()
        assert data_problems(sweep, download=False, loaded=hashes.add) == []
        return cls(sweep, file, Folder(undisturbed(file, scratch / "undisturbed") / NAME), scratch, hashes)

    @cached_property
    def trials(self) -> dict[bool, list[TrialSpec]]:
        """The trials with one start, and those with two (True); the first of each is the other one of all others."""
        specs = trial_specs(self.sweep)
        return {many: [one for one in specs if (one.run.clustering.name == "ifca") == many] for many in (False, True)}

    def given_to(self, cases: Sequence[Case]) -> list[tuple[Case, TrialSpec]]:
        """A trial for each case, in their order."""
        left = {many: iter(specs[1:]) for many, specs in self.trials.items()}
        used: Counter[bool] = Counter(case.restarts for case in cases if case.restarts is not None)
        found = []
        for case in cases:
            many = case.restarts
            if many is None:
                many = used[True] < used[False]
                used[many] += 1
            found.append((case, next(left[many])))
        return found

    def left(self, spec: TrialSpec, came: int) -> Path:
        """The folder of a trial that was left after so many steps, or is complete. It must not be changed."""
        if came == COMPLETE:
            return self.folder.trial(spec.id).path
        place = self.scratch / f"left after {came}"
        trial = TrialFolder(place / spec.id)
        if not trial.path.exists():
            run = trial_in(trial, spec, self.sweep)
            write_begun(trial, identity(spec.id, spec.run, self.hashes))
            for _ in range(came):
                run.advance()
        return trial.path


def trial_in(folder: TrialFolder, spec: TrialSpec, sweep: Sweep) -> Trial:
    """A trial that keeps its files in ``folder``, taken up where it was left."""
    data = partition_data(spec.run, sweep.root_of(spec.run))
    setup = prepare_session(str(folder.path), spec.run, data)
    return Trial(spec.run, Surroundings(setup, data, LocalClients(), InlineShadows(folder.path / "shadows"), folder))


def needed_seeds(cases: Sequence[Case]) -> int:
    """How many seeds give every case its trial, and leave one of each kind undamaged."""
    kinds = Counter(case.restarts for case in cases)
    most = max(kinds[False], kinds[True], -(-len(cases) // 2))
    return most + 1


@dataclass(frozen=True)
class Damaged:
    """A trial that was damaged: where, and what was there."""

    case: Case
    spec: TrialSpec
    folder: TrialFolder
    file: Path
    content: bytes | None


def damage_trial(found: Undamaged, case: Case, spec: TrialSpec, folder: Folder) -> Damaged:
    """Put a trial into ``folder`` as its case wants it."""
    trial, other = folder.trial(spec.id), found.trials[case.restarts is True or spec in found.trials[True]][0]
    shutil.rmtree(trial.path, ignore_errors=True)
    shutil.copytree(found.left(spec, case.came), trial.path)
    file = case.target(trial.path)
    case.way(file, found.left(other, case.came) / file.relative_to(trial.path))
    return Damaged(case, spec, trial, file, file.read_bytes() if file.is_file() else None)


def damage_sweep(found: Undamaged, cases: Sequence[Case], results: Path) -> list[Damaged]:
    """Put the whole sweep into ``results``, with one trial damaged for each case."""
    folder = Folder(results / NAME)
    claim_folder(folder, found.sweep).release()
    shutil.copytree(found.folder.path, folder.path, dirs_exist_ok=True)
    return [damage_trial(found, case, spec, folder) for case, spec in found.given_to(cases)]
