"""`MlflowSweep`: MLflow has what the results folder says, once; whatever was killed or away
before is made right.

A sweep is a run, and each of its trials is a run below it. Both are found by the identity of the
results folder, wherever that is now. A run carries, as its last tag, the hash of what the folder
has for it. Where that is another today, or is missing, a trial's run is deleted and logged again
from disk, and the sweep's own run is written over.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.entities import DatasetInput, InputTag, LoggedModelOutput, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from PIL import Image

from orchestrator.config.errors import ConfigError
from orchestrator.config.metric_names import metrics
from orchestrator.report.data import grouped, plain
from orchestrator.results.paths import Folder
from orchestrator.results.record import read_record
from orchestrator.results.saved_models import saved_models
from orchestrator.results.sweeps import content_hash, read_sweep
from orchestrator.tracking import projection
from orchestrator.tracking.projection import PICTURES, ROUND, Projection
from orchestrator.tracking.store import FORBIDDEN, status

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run
    from torch import nn

# Pixels: a note shows pictures in their full size, and a wider one pushes its page off the screen.
FIGURE_WIDTH = 700
# Tags.
SWEEP = "fedpriv.sweep"  # the identity of the results folder
TRIAL = "fedpriv.trial"  # the trial's id
MARK = "fedpriv.manifest"  # what was logged
MODELS = "fedpriv.models"  # of which groups models were
PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"
# Opens on runs, not on pages for language models.
KIND = {"mlflow.experimentKind": "custom_model_development"}
# MLflow's limits; what is longer makes it refuse the whole request.
BATCH = 1000
TAG_LENGTH = 5000
PARAM_LENGTH = 6000
NAME_LENGTH = 250


class MlflowSweep:
    """The sweep in ``folder`` in MLflow, with the artifacts of all sweeps in ``artifacts``;
    None: a server decides.

    Attributes:
        experiment: MLflow's id of the sweep's experiment, which is made if there is none.
    """

    def __init__(self, folder: Folder, client: MlflowClient, artifacts: Path | None = None) -> None:
        self.folder = folder
        self.client = client
        self.identity = {SWEEP: str(read_sweep(folder).facts["id"])}
        place = (artifacts / folder.name).as_uri() if artifacts else None
        self.experiment = self._experiment(place)

    def sync(
        self,
        live: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
        swept: Mapping[str, Mapping[str, Any]] | None = None,
        models: Callable[[str], object] | None = None,
    ) -> int:
        """Log what MLflow lacks of the sweep; return how many runs.

        Where it has all, nothing is written.

        Args:
            live: the runs that this process has opened, by trial: they are completed instead of
                logged again.
            only: the trials that have just ended, while others run; None: all, and the sweep
                itself.
            swept: the swept values of trials that are not in the sweep's manifest yet.
            models: trained models are sent, too, and this is called with a sentence on those that
                cannot be; None: they are not.
        """
        live = live or {}
        facts = read_sweep(self.folder).facts
        values = {**(swept or {}), **_swept(facts)}
        chosen = [trial for trial in values if only is None or trial in only]
        records = self._records(chosen, facts)
        runs = self._runs()
        manifest = content_hash(self.folder)
        parent = self._parent(runs)
        stale = [
            trial
            for trial, record in records.items()
            if not _is_logged(runs, trial, record["manifest"], values[trial])
        ]
        for trial in stale:
            content = projection.project_trial(
                self.folder, records[trial], trial, values[trial], self.experiment
            )
            self._log(runs.get(trial, ()), content, {TRIAL: trial, PARENT: parent}, live.get(trial))
        sweep = None
        if only is None and not _is_logged(runs, "", manifest):
            sweep = projection.project_sweep(self.folder, values, self.experiment, parent)
            self._log((), sweep, {}, parent)
        if stale or sweep:
            self._tag_experiment(sweep)
        if only is None:
            self._end_interrupted(live, records)
        if models:
            self._log_models(records, models)
        return len(stale) + bool(sweep)

    def _records(
        self, trials: Iterable[str], facts: Mapping[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """The records of trials that have one, in which the row of a trial in the sweep's
        manifest adds the epsilon of the search behind it.
        """
        rows = {row["id"]: row for row in facts["trials"]}
        records = {}
        for trial in trials:
            record = read_record(self.folder.trial(trial))
            if record:
                row = rows.get(trial, {})
                planned = {name: row[name] for name in row.keys() & metrics().keys()}
                record["metrics"] = planned | (record.get("metrics") or {})
                records[trial] = record
        return records

    def _tag_experiment(self, sweep: Projection | None) -> None:
        """Say what kind of experiment it is, and write its note."""
        tags = dict(KIND)
        if sweep:
            tags[NOTE] = sweep.note
        for name, text in tags.items():
            self.client.set_experiment_tag(self.experiment, name, text)

    def _end_interrupted(self, live: Mapping[str, str], records: Collection[str]) -> None:
        """End the open runs of trials that were interrupted: the next run resumes them, and opens
        other runs for them.
        """
        for trial, run in live.items():
            if trial not in records:
                self.client.set_terminated(run, "KILLED")

    def open_trial(self, trial: str, name: str, tags: Mapping[str, str]) -> str:
        """Open the run of a trial that starts or is resumed, in place of what MLflow had of it;
        return its id.
        """
        runs = self._runs()
        parent = self._parent(runs)
        self.client.update_run(parent, status="RUNNING")
        for run in runs.get(trial, ()):
            self.client.delete_run(run.info.run_id)
        cut = {tag: text[:TAG_LENGTH] for tag, text in tags.items()}
        cut |= {**self.identity, TRIAL: trial, PARENT: parent}
        run = self.client.create_run(self.experiment, tags=cut, run_name=name[:NAME_LENGTH])
        return str(run.info.run_id)

    def log_points(self, run: str, points: Sequence[Metric]) -> None:
        """Send values of metrics, in batches that MLflow accepts."""
        for start in range(0, len(points), BATCH):
            self.client.log_batch(run, metrics=points[start : start + BATCH])

    def _runs(self) -> dict[str, list[Run]]:
        """The runs of the sweep in MLflow by trial; the sweep's own run is ""."""
        runs: list[Run] = []
        token = None
        more = True
        query = f"tags.`{SWEEP}` = '{self.identity[SWEEP]}'"
        while more:
            page = self.client.search_runs(
                [self.experiment], query, max_results=500, page_token=token
            )
            runs += page
            token = page.token
            more = bool(token)
        return grouped((run.data.tags.get(TRIAL, ""), run) for run in runs)

    def _parent(self, runs: dict[str, list[Run]]) -> str:
        """The id of the sweep's own run, which is made if ``runs`` has none."""
        if "" not in runs:
            tags = self.identity | {NOTE: projection.begun_note(self.experiment)}
            ended = [
                trial.manifest.stat().st_mtime
                for trial in self.folder.trials()
                if trial.manifest.is_file()
            ]
            began = int(1000 * min(ended)) if ended else None
            runs[""] = [self.client.create_run(self.experiment, began, tags, self.folder.name)]
        return str(runs[""][0].info.run_id)

    def _log(
        self,
        former: Iterable[Run],
        content: Projection,
        tags: Mapping[str, str],
        opened: str | None,
    ) -> None:
        """Log a run from disk, in place of its ``former`` runs; one that is ``opened`` already
        is completed.
        """
        client = self.client
        for run in former:
            if run.info.run_id != opened:
                client.delete_run(run.info.run_id)
        tags = {NOTE: content.note, **self.identity, **tags}
        run_id = opened or client.create_run(self.experiment, content.started, tags).info.run_id
        client.update_run(run_id, name=content.name[:NAME_LENGTH])
        params = [
            Param(name[:NAME_LENGTH], text[:PARAM_LENGTH]) for name, text in content.params.items()
        ]
        cut = {name: text[:TAG_LENGTH] for name, text in content.tags.items()} | tags
        client.log_batch(run_id, params=params, tags=[RunTag(*tag) for tag in cut.items()])
        # The metric that is the last of each round tells which rounds were sent live.
        history = client.get_metric_history(run_id, ROUND) if opened else ()
        sent = {point.step for point in history}
        rounds = [point for point in content.rounds if point.step not in sent]
        self.log_points(run_id, [*rounds, *content.finals])
        context = [InputTag("mlflow.data.context", "train")]
        client.log_inputs(run_id, [DatasetInput(data, context) for data in content.inputs])
        self._log_files(run_id, content)
        client.set_terminated(run_id, content.status, content.ended)
        client.set_tag(run_id, MARK, content.manifest)

    def _log_files(self, run_id: str, content: Projection) -> None:
        """Send files, and pictures in a size that a note can show."""
        with tempfile.TemporaryDirectory() as place:
            for name, file in content.files.items():
                copy = Path(place) / name
                copy.parent.mkdir(exist_ok=True)
                copy.write_bytes(file)
            self.client.log_artifacts(run_id, place)
        for name, file in content.pictures.items():
            with Image.open(BytesIO(file)) as image:
                image.thumbnail((FIGURE_WIDTH, image.height))
                self.client.log_image(run_id, image, f"{PICTURES}/{name}")

    def _log_models(self, trials: Iterable[str], say: Callable[[str], object]) -> None:
        """Send the trained models of trials, one for each group, that MLflow lacks."""
        runs = self._runs()
        of_trials = [run for trial in trials for run in runs.get(trial, ())]
        for run in of_trials:
            if MODELS in run.data.tags:
                continue
            try:
                models = saved_models(self.folder.trial(run.data.tags[TRIAL]))
            except (ConfigError, OSError) as error:
                say(f"Trained models are not sent to MLflow: {error}")
                continue
            for model in self.client.search_logged_models(
                [self.experiment], f"source_run_id = '{run.info.run_id}'"
            ):
                self.client.delete_logged_model(model.model_id)  # of a process that was killed
            for group, module in models.items():
                self._log_model(run, group, module)
            self.client.set_tag(run.info.run_id, MODELS, ", ".join(models))

    def _log_model(self, run: Run, group: str, module: nn.Module) -> None:
        """Send a model in MLflow's flavor ``pytorch``; its classes are named, not copied, and
        must be importable to load it.
        """
        from inspect import signature

        from mlflow.pytorch import save_model

        # MLflow's later default traces the module, which takes longer and does not work for all.
        pickled = {"serialization_format": "pickle"}
        form: Any = pickled if pickled.keys() <= signature(save_model).parameters.keys() else {}
        client = self.client
        model = client.create_logged_model(
            self.experiment, group, run.info.run_id, model_type="fedpriv"
        )
        with tempfile.TemporaryDirectory() as folder:
            # Otherwise MLflow finds the requirements by loading the model in another process, which
            # takes a minute.
            save_model(
                module, f"{folder}/model", pip_requirements=[f"torch=={version('torch')}"], **form
            )
            client.log_model_artifacts(model.model_id, f"{folder}/model")
        client.log_outputs(
            run.info.run_id,
            [LoggedModelOutput(model.model_id, int(run.data.metrics.get(ROUND, 0)))],
        )
        client.finalize_logged_model(model.model_id, "READY")

    def _experiment(self, place: str | None) -> str:
        """The id of the sweep's own experiment; it has another name where somebody else's has
        that of the sweep.

        In the store beside the results (``place``), it is made anew where the results folder was
        moved, because MLflow keeps the former place, or where the sweep was deleted and run again.
        """
        client = self.client
        name = self.folder.name
        tags = {**self.identity, **KIND}
        try:
            former = client.get_experiment_by_name(name)
            is_others = former is not None and self._is_others(former)
        except MlflowException as error:
            if status(error) != FORBIDDEN:
                raise
            former = None  # this user may not even see it
            is_others = True
        owner = former.tags.get(SWEEP) if former else None
        if is_others and not (place and owner):
            name = f"{name} ({self.identity[SWEEP][:8]})"
            former = client.get_experiment_by_name(name)
            is_others = False
        was_deleted = former is not None and former.lifecycle_stage == "deleted"
        if former and was_deleted:
            client.restore_experiment(former.experiment_id)
        if former and place and (is_others or (owner and former.artifact_location != place)):
            state = "earlier" if is_others else "moved"
            client.rename_experiment(
                former.experiment_id, f"{name} ({state}, {former.experiment_id})"
            )
            if was_deleted or not is_others:
                client.delete_experiment(former.experiment_id)
            former = None
        if former is None:
            return str(client.create_experiment(name, place, tags))
        for tag in self.identity.items() if SWEEP not in former.tags else ():
            client.set_experiment_tag(former.experiment_id, *tag)
        return str(former.experiment_id)

    def _is_others(self, experiment: Experiment) -> bool:
        """Whether an experiment is of another sweep, or of none and in use."""
        owner = experiment.tags.get(SWEEP)
        if owner:
            return owner != self.identity[SWEEP]
        return bool(self.client.search_runs([experiment.experiment_id], max_results=1))


def _swept(facts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The swept values of the trials in a sweep's manifest."""
    values = {}
    for row in facts["trials"]:
        given = {key: row[key] for key in facts["swept"] if row.get(key) is not None}
        values[row["id"]] = {key: plain(value) for key, value in given.items()}
    return values


def _is_logged(
    runs: Mapping[str, Sequence[Run]], trial: str, manifest: str, swept: Iterable[str] = ()
) -> bool:
    """Whether MLflow has a trial, or the sweep (""), as its folder is: in one run that has
    ended, below the sweep's own.

    The run of a trial has all keys that are ``swept``, by now.
    """
    if trial and len(runs.get(trial, ())) != 1:
        return False
    run = runs[trial][0]
    parent = runs[""][0].info.run_id
    below = not trial or run.data.tags.get(PARENT) == parent
    told = {key[:NAME_LENGTH] for key in swept} <= run.data.params.keys()
    return below and told and run.data.tags.get(MARK) == manifest and run.info.status != "RUNNING"
