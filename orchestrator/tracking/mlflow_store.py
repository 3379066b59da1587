"""The MLflow operations that `orchestrator.tracking.tracker` needs.

Every operation can be repeated safely: it looks up what MLflow already has and adds what is missing. Only one thread may
use a `Store`; that thread also imports MLflow, which takes 2 to 5 s.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from orchestrator.tracking.inputs import CONTEXT, Input
from orchestrator.tracking.labels import SENT_TAG, SWEEP_TAG, TRIAL_TAG, metric_key
from orchestrator.tracking.local_runs import LocalRun, artifact_folder, local_runs
from orchestrator.tracking.mlflow_lookup import ROUND, ROUND_KEY, Held, connected, create, experiment, held_run
from orchestrator.tracking.moved import follow
from orchestrator.tracking.places import (
    LOCAL,
    TrackingError,
    address,
    configure_environment,
    local_address,
    named_server,
)
from orchestrator.tracking.store_file import StoreTrouble, store_lock, store_trouble

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run

Rounds = dict[int, tuple[int, dict[str, float]]]
"""Metrics by round: the time in milliseconds and the values by name."""

# MLflow's own limits (mlflow/utils/validation.py); a text that is too long makes it refuse the whole request.
METRICS_PER_BATCH = 1000
KEY_LENGTH, PARAM_LENGTH, TAG_LENGTH, NAME_LENGTH = 250, 6000, 5000, 250
NOTE_LENGTH, EXPERIMENT_TAG_LENGTH = 8000, 20000

NOTE_TAG = "mlflow.note.content"  # the description on a page


def batches(rounds: Rounds) -> Iterator[list[tuple[str, float, int, int]]]:
    """Divide rounds, in ascending order, into batches of (key, value, time in ms, step) that MLflow accepts.

    A round's step is its number counted from 1, as on the terminal; in our tables the first round is 0. A round is split
    only if it alone exceeds a batch; its last metric is always `ROUND_KEY`.
    """
    batch: list[tuple[str, float, int, int]] = []
    for round_, (time, values) in sorted(rounds.items()):
        step = round_ + 1
        metrics = [(key(metric_key(name)), value, time, step) for name, value in values.items() if name != ROUND]
        metrics.append((ROUND_KEY, float(step), time, step))
        if batch and len(batch) + len(metrics) > METRICS_PER_BATCH:
            yield batch
            batch = []
        batch += metrics
        while len(batch) > METRICS_PER_BATCH:
            yield batch[:METRICS_PER_BATCH]
            batch = batch[METRICS_PER_BATCH:]
    if batch:
        yield batch


def key(name: str) -> str:
    """``name`` in a form that MLflow accepts for a metric or parameter."""
    return re.sub(r"[^/\w.\- :]", "_", name)[:KEY_LENGTH]


class Store:
    """The runs of one sweep in MLflow: a parent run, with the id "", and a child run for every trial.

    Args:
        results: the folder of all sweeps, absolute.
        sweep: the name of the sweep.
        identity: identifies this sweep, even if its folder is moved.
        tracking_uri: an MLflow server, or None.
    """

    def __init__(self, results: Path, sweep: str, identity: str, tracking_uri: str | None) -> None:
        self.results, self.sweep, self.identity = results, sweep, identity
        self._asked = tracking_uri
        self._client: MlflowClient | None = None
        self.experiment = ""  # MLflow's id of the sweep's experiment, once it is known
        self._experiment_tags: dict[str, str] = {}
        self._held: dict[str, Held] = {}

    def exists(self) -> bool:
        """Whether the local store has been created; always true for a server."""
        return not self.is_local or (self.results / LOCAL).exists()

    @property
    def is_local(self) -> bool:
        """Whether this is the store beside the results."""
        return named_server(self._asked) is None

    def trouble(self) -> StoreTrouble | None:
        """Why the local store cannot be used; None if it can, and for a server."""
        return store_trouble(self.results, patience=1.0) if self.is_local else None

    def local_runs(self) -> dict[str, LocalRun] | None:
        """What the local store has of the sweep, by trial; None if that is not known, as of a server.

        A store that was moved gets its new place here, for nothing else may be left to do in it.
        """
        found = local_runs(self.results, self.identity) if self.is_local else None
        if found and any(run.moved for run in found.values()):
            follow(self.results)
        return found

    def forget(self) -> None:
        """Drop the connection and everything known about the runs, so that it is looked up again after an error."""
        self._client, self._held = None, {}

    @property
    def client(self) -> MlflowClient:
        """The connection, opened on first use.

        Raises:
            TrackingError: the local store cannot be used; MLflow itself would try for minutes, or make the folder again.
            Exception: MLflow's errors, if it cannot be reached.
        """
        if named_server(self._asked) is None and not self.results.is_dir():
            raise TrackingError(f"{self.results} was deleted or renamed")
        if self._client is None:
            if trouble := self.trouble():
                raise TrackingError(str(trouble))
            configure_environment()
            uri = address(self.results, self._asked)
            local = named_server(self._asked) is None or uri == local_address(self.results)
            with store_lock(self.results) if local else nullcontext():
                self._connect(uri, local)
        assert self._client is not None
        return self._client

    def _connect(self, uri: str, local: bool) -> None:
        if local and not (self.results / "mlflow.db").exists():
            create(self.results)
        elif local:
            follow(self.results)
        client = connected(uri)
        made = Path(uri.removeprefix("sqlite:///")).parent
        if local and made != self.results:  # MLflow mistakes an escaped address for a path and creates its folders
            with suppress(OSError):
                os.removedirs(made)
        place = f"{(self.results / 'mlartifacts').as_uri()}/{quote(self.sweep, safe='')}" if local else None
        self.experiment = experiment(client, self.sweep, place)
        self._experiment_tags = client.get_experiment(self.experiment).tags
        found: dict[str, list[Run]] = {}
        token = None
        while token != "":
            query = f"tags.`{SWEEP_TAG}` = '{self.identity}'"
            page = client.search_runs([self.experiment], query, max_results=500, page_token=token)
            for run in page:
                found.setdefault(run.data.tags.get(TRIAL_TAG, ""), []).append(run)
            token = page.token or ""
        self._held = {trial: held_run(client, runs) for trial, runs in found.items()}
        self._client = client

    def open(self, trial: str, name: str, started: int, tags: Mapping[str, str]) -> Held:
        """The run of ``trial``, created if MLflow has none. The sweep's own run must be opened first.

        Args:
            trial: the trial's id; "" for the sweep's own run.
            name: a readable name.
            started: start time in milliseconds since 1970.
            tags: the tags of a new run.
        """
        client = self.client
        if trial not in self._held:
            own = {SWEEP_TAG: self.identity, **({TRIAL_TAG: trial} if trial else {})}
            if trial:
                own["mlflow.parentRunId"] = self._held[""].run_id
            tags = {**{label[:KEY_LENGTH]: text[:TAG_LENGTH] for label, text in tags.items()}, **own}
            run = client.create_run(self.experiment, start_time=started, tags=tags, run_name=name[:NAME_LENGTH])
            self._held[trial] = Held(run.info.run_id, name=name[:NAME_LENGTH], tags=tags)
        return self._held[trial]

    def renew(self, trial: str) -> None:
        """Put the run of ``trial`` into MLflow's bin, where a user can restore it; `open` then creates a new one.

        It loses its mark first: a run that is deleted with its mark is one that a user did not want.
        """
        run = self._held.pop(trial).run_id
        self.client.set_tag(run, SENT_TAG, "")
        self.client.delete_run(run)

    def describe(self, held: Held, name: str, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Add missing parameters, update changed tags, and set the name."""
        from mlflow.entities import Param, RunTag

        texts = {key(label): text[:PARAM_LENGTH] for label, text in params.items()}
        # MLflow does not allow parameters to change; a resumed trial has the same ones, or its id would differ.
        missing = {label: text for label, text in texts.items() if label not in held.params}
        trimmed = {label[:KEY_LENGTH]: text[:TAG_LENGTH] for label, text in tags.items()}
        changed = {label: text for label, text in trimmed.items() if held.tags.get(label) != text}
        if missing or changed:
            lists = [Param(*item) for item in missing.items()], [RunTag(*item) for item in changed.items()]
            self.client.log_batch(held.run_id, params=lists[0], tags=lists[1], synchronous=True)
        if held.name != name[:NAME_LENGTH]:
            self.client.update_run(held.run_id, name=name[:NAME_LENGTH])
        held.params |= missing
        held.tags |= changed
        held.name = name[:NAME_LENGTH]

    def note(self, held: Held, text: str) -> None:
        """Set the description of the run, in Markdown."""
        if held.tags.get(NOTE_TAG) != text[:NOTE_LENGTH]:
            self.client.set_tag(held.run_id, NOTE_TAG, text[:NOTE_LENGTH])
            held.tags[NOTE_TAG] = text[:NOTE_LENGTH]

    def tag_experiment(self, tags: Mapping[str, str]) -> None:
        """Set tags of the experiment; those that it has already are left alone."""
        for name, text in tags.items():
            if self._experiment_tags.get(name) != text and len(text) <= EXPERIMENT_TAG_LENGTH:
                self.client.set_experiment_tag(self.experiment, name, text)
                self._experiment_tags[name] = text

    def log_input(self, held: Held, data: Input) -> None:
        """Name the data set that the run has read, unless MLflow has it already."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = self.client.get_run(held.run_id).inputs
        there = [one.dataset for one in inputs.dataset_inputs] if inputs else []
        if any((one.name, one.digest) == (data.name, data.digest) for one in there):
            return
        dataset = Dataset(data.name, data.digest, source_type="fedpriv", source=data.source)
        self.client.log_inputs(held.run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", CONTEXT)])])

    def models(self, held: Held) -> set[str]:
        """The names of the run's models that MLflow has completely."""
        found = self.client.search_logged_models([self.experiment], f"source_run_id = '{held.run_id}'")
        return {model.name for model in found if _is_whole(model)}

    def log_model(self, held: Held, name: str, folder: Path) -> None:
        """Add a model that was saved in MLflow's form in ``folder`` to the run; it is not registered."""
        from mlflow.entities import LoggedModelOutput

        found = self.client.search_logged_models([self.experiment], f"source_run_id = '{held.run_id}'")
        begun = [model for model in found if model.name == name and not _is_whole(model)]
        create_model = partial(
            self.client.create_logged_model, self.experiment, name, held.run_id, model_type="fedpriv"
        )
        made = begun[0] if begun else create_model()
        self.client.log_model_artifacts(made.model_id, str(folder))
        outputs = self.client.get_run(held.run_id).outputs
        if made.model_id not in [one.model_id for one in (outputs.model_outputs if outputs else ())]:
            step = max(self.rounds(held), default=-1) + 1
            self.client.log_outputs(held.run_id, [LoggedModelOutput(made.model_id, step)])
        self.client.finalize_logged_model(made.model_id, "READY")

    def resume(self, held: Held) -> None:
        """Set a run that has ended back to running."""
        if held.status != "RUNNING":
            self.client.update_run(held.run_id, status="RUNNING")
            held.status = "RUNNING"

    def rounds(self, held: Held) -> set[int]:
        """The rounds, counted from 0, that MLflow has of the run, looked up by the metric `ROUND_KEY`."""
        if held.rounds is None:
            held.rounds = {metric.step - 1 for metric in self.client.get_metric_history(held.run_id, ROUND_KEY)}
        return held.rounds

    def send(self, held: Held, rounds: Rounds) -> None:
        """Send the rounds that MLflow does not have yet."""
        from mlflow.entities import Metric

        there = self.rounds(held) if rounds else set()
        for batch in batches({round_: row for round_, row in rounds.items() if round_ not in there}):
            self.client.log_batch(held.run_id, metrics=[Metric(*metric) for metric in batch], synchronous=True)
            there.update(step - 1 for name, _, _, step in batch if name == ROUND_KEY)

    def finals(self, held: Held, finals: Mapping[str, float], time: int) -> None:
        """Send the final metrics, by name, at the step of the last round.

        MLflow shows the latest value of a metric, so a metric whose last round has the final value already is left out.
        """
        from mlflow.entities import Metric

        shown = self.client.get_run(held.run_id).data.metrics
        step = max(self.rounds(held), default=-1) + 1
        keys = {key(name if "/" in name else metric_key(name)): value for name, value in finals.items()}
        metrics = [Metric(name, value, time, step) for name, value in keys.items() if shown.get(name) != value]
        self.client.log_batch(held.run_id, metrics=metrics, synchronous=True)

    def upload(self, held: Held, files: Iterable[tuple[Path, str]], only_missing: bool) -> None:
        """Send ``files`` (path, folder among the artifacts); ``only_missing`` skips files that are there in full size."""
        folders: dict[str, dict[str, int]] = {}
        for file, folder in files:
            if only_missing and folder not in folders:
                there = self.client.list_artifacts(held.run_id, folder or None)
                folders[folder] = {info.path.rpartition("/")[2]: info.file_size or 0 for info in there}
            if not only_missing or folders[folder].get(file.name) != file.stat().st_size:
                self.client.log_artifact(held.run_id, str(file), folder or None)

    def end(self, held: Held, status: str, time: int, sent: str) -> None:
        """End the run with MLflow's ``status``; the tag that marks it as completely sent comes last."""
        self.client.set_terminated(held.run_id, status, time)
        self.client.set_tag(held.run_id, SENT_TAG, sent)
        held.status = status
        held.tags[SENT_TAG] = sent


def _is_whole(model: LoggedModel) -> bool:
    """Whether MLflow has a model with its files, as far as they are on this machine."""
    place = str(model.artifact_location)
    return str(model.status) == "READY" and (not place.startswith("file:") or artifact_folder(place).exists())
