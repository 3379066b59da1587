"""What MLflow's pages show beside numbers: descriptions, tables, data sets, the ready-made view of a sweep.

All of it is made from the results folder and the tracker's records, so it can be sent again at any time. Nothing here is
needed for the numbers: what cannot be made, or what a server of another version refuses, is left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.config.errors import ConfigError
from orchestrator.metric_names import metric
from orchestrator.report.data import Results, read_results
from orchestrator.report.headline import headline_risk
from orchestrator.report.story import story
from orchestrator.report.swept import REPEATS
from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.record import read_record
from orchestrator.results.saved_models import saved_models
from orchestrator.tracking import previews, shared_view
from orchestrator.tracking.descriptions import (
    PICTURES,
    SweepFacts,
    TrialFacts,
    begun_description,
    sweep_description,
    trial_description,
)
from orchestrator.tracking.headlines import headline_metrics
from orchestrator.tracking.inputs import trial_input
from orchestrator.tracking.labels import metric_key
from orchestrator.tracking.mlflow_lookup import Held
from orchestrator.tracking.mlflow_store import EXPERIMENT_TAG_LENGTH, NOTE_LENGTH, NOTE_TAG, Store
from orchestrator.tracking.models import as_pytorch
from orchestrator.tracking.pending import PendingTrial
from orchestrator.tracking.pictures import pictures

KIND = {"mlflow.experimentKind": "custom_model_development"}  # opens on runs instead of pages for language models
PRIMARY, HIGHER = "mlflow.experiment.primaryMetric.name", "mlflow.experiment.primaryMetric.greaterIsBetter"
# The sweep's own metrics: means over its finished trials, or over each setting's, of which the ends are shown.
MEAN, LOWEST, HIGHEST = "mean", "lowest mean", "highest mean"


class Pages:
    """The pages of one sweep in MLflow.

    Args:
        store: the runs of the sweep.
        folder: the sweep's results.
        sweep: the sweep's own run.
        trials: the trials of the sweep by id; it may grow later.
        say: if given, the trained models are sent, too, and this is called with a sentence about those that cannot be.
    """

    def __init__(
        self,
        store: Store,
        folder: Folder,
        sweep: PendingTrial,
        trials: Mapping[str, PendingTrial],
        say: Callable[[str], object] | None = None,
    ) -> None:
        self.store, self.folder, self.say = store, folder, say
        self.sweep, self.trials = sweep, trials

    def send(self, held: Held, wanted: PendingTrial, only_missing: bool = False) -> None:
        """Send what belongs to one run. Raises MLflow's errors if it cannot be reached.

        Args:
            held: what MLflow has of it.
            wanted: what it should have.
            only_missing: leave out files that are there in full size.
        """
        if wanted.trial:
            self._trial(held, wanted, only_missing)
        else:
            self._sweep(held, wanted, only_missing)

    def send_models(self, held: Held, folder: TrialFolder) -> None:
        """Send the trained models of a trial of which MLflow has everything else."""
        _tried(lambda: self._models(held, folder))

    def _trial(self, held: Held, wanted: PendingTrial, only_missing: bool) -> None:
        parent = self.store.open("", "", 0, {}).run_id
        rounds = max(self.store.rounds(held), default=-1) + 1
        self._note(
            held, lambda: trial_description(_facts(wanted, rounds), self.folder.name, self.store.experiment, parent)
        )
        if wanted.status is None or wanted.folder is None:
            return
        folder = wanted.folder
        if wanted.status != "unfinished":
            self._tables(held, lambda: previews.trial_tables(folder), only_missing)
        if found := _made(lambda: trial_input(folder)):
            _tried(lambda: self.store.log_input(held, found))
        if self.say:
            _tried(lambda: self._models(held, folder))
        self._view()

    def _models(self, held: Held, folder: TrialFolder) -> None:
        """Send the trained models of a trial, one for each group, that MLflow does not have."""
        try:
            found = saved_models(folder)
        except (ConfigError, OSError) as error:
            if self.say:
                self.say(f"Trained models are not sent to MLflow: {error}")
            return
        there = self.store.models(held) if found else set()
        for group, module in found.items():
            if group not in there:
                with as_pytorch(module) as place:
                    self.store.log_model(held, group, place)

    def _sweep(self, held: Held, wanted: PendingTrial, only_missing: bool) -> None:
        _tried(lambda: self.store.tag_experiment(KIND))
        results = _made(lambda: read_results(self.folder.path)) if wanted.status else None
        facts = _made(lambda: self._sweep_facts(held, results, only_missing)) if results else None
        first = list(facts.first) if facts else []
        self._sweep_notes(held, facts)
        self._view(first)
        if results is None:
            return
        self._tables(held, lambda: previews.sweep_tables(self.folder), only_missing)
        if finals := _made(lambda: sweep_metrics(results, first)):
            self.store.finals(held, finals, wanted.ended)
        for trial in list(self.trials.values()):
            if trial.folder and (found := _made(lambda folder=trial.folder: trial_input(folder))):  # type: ignore[misc]
                _tried(lambda found=found: self.store.log_input(held, found))  # type: ignore[misc]

    def _sweep_facts(self, held: Held, results: Results, only_missing: bool) -> SweepFacts:
        """What is said of the sweep; sends its pictures."""
        risk = headline_risk(results)
        first = [name for name in (risk.accuracy, risk.name) if name] if risk else []
        with tempfile.TemporaryDirectory() as folder:
            files = _made(lambda: pictures(self.folder, Path(folder))) or []
            self.store.upload(held, [(file, PICTURES) for file in files], only_missing)
            return SweepFacts(results, story(results), first, [file.name for file in files])

    def _sweep_notes(self, held: Held, facts: SweepFacts | None) -> None:
        experiment = self.store.experiment

        def note(limit: int) -> str:
            if facts is None:
                return begun_description(_question(self.folder), len(self.trials), experiment)
            return sweep_description(facts, experiment, held.run_id, limit)

        self._note(held, lambda: note(NOTE_LENGTH))
        if text := _made(lambda: note(EXPERIMENT_TAG_LENGTH)):
            _tried(lambda: self.store.tag_experiment({NOTE_TAG: text}))

    def _note(self, held: Held, made: Callable[[], str]) -> None:
        if text := _made(made):
            _tried(lambda: self.store.note(held, text))

    def _tables(self, held: Held, made: Callable[[], dict[str, str]], only_missing: bool) -> None:
        """Send tables that MLflow shows, and the tag that names them."""
        tables = _made(made)
        if not tables:
            return
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in tables]
            for file in files:
                file.write_text(tables[file.name])
            self.store.upload(held, [(file, previews.FOLDER) for file in files], only_missing)
        self.store.describe(held, held.name, {}, {previews.TAG: previews.tag(list(tables))})

    def _view(self, first: list[str] | None = None) -> None:
        """Send the ready-made view and the primary metric, for the metrics that trials have by now."""
        names = {name for trial in list(self.trials.values()) for name in trial.finals}
        if not names:
            return
        keys = list(
            dict.fromkeys(key for trial in list(self.trials.values()) for key in trial.params if key not in REPEATS)
        )
        headlines = headline_metrics(names, first or [])

        def tags() -> dict[str, str]:
            best = {PRIMARY: metric_key(headlines[0]), HIGHER: str(metric(headlines[0]).direction != "lower")}
            return {shared_view.TAG: shared_view.view(self.sweep.started, keys, headlines, names)} | best

        if made := _made(tags):
            _tried(lambda: self.store.tag_experiment(made))


def sweep_metrics(results: Results, first: list[str]) -> dict[str, float]:
    """The metrics of the sweep's own run, by key: the means of its headline metrics over the finished trials.

    With several settings, one mean over all of them would belong to none. Then there are the lowest and the highest mean
    of a setting.
    """
    measured = {name for name in results.metrics if any(setting.measured(name) for setting in results.settings)}
    found: dict[str, float] = {}
    for name in headline_metrics(measured, first):
        means = [setting.estimate(name).mean for setting in results.settings if setting.measured(name)]
        if len(results.settings) == 1:
            found[f"{MEAN}/{name}"] = means[0]
        else:
            found |= {f"{LOWEST}/{name}": min(means), f"{HIGHEST}/{name}": max(means)}
    return found


def _facts(wanted: PendingTrial, rounds: int) -> TrialFacts:
    record = (read_record(wanted.folder) if wanted.folder and wanted.status else None) or {}
    return TrialFacts(
        name=wanted.name,
        status=wanted.status or "running",
        reason=str(record.get("reason") or ""),
        settings=wanted.params,
        finals=wanted.finals,
        rounds=rounds,
        seconds=record.get("seconds"),
        notes=wanted.tags.get("notes", ""),
    )


def _question(folder: Folder) -> str:
    import yaml

    return " ".join(str(yaml.safe_load(folder.sweep.read_text()).get("description") or "").split())


def _made(make: Callable[[], Any]) -> Any:
    """What ``make`` returns; None if it cannot be made, for example of results that an earlier version wrote."""
    with suppress(Exception):
        return make()
    return None


def _tried(send: Callable[[], object]) -> None:
    """Send something that a server of another version may refuse. Raises MLflow's errors if it cannot be reached."""
    from mlflow.exceptions import MlflowException

    try:
        send()
    except MlflowException as error:
        if error.error_code not in REFUSALS:
            raise
    except (AttributeError, ImportError, TypeError):  # an older MLflow, which does not have it
        pass


REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED")
