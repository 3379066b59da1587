"""The MLflow operations that `orchestrator.tracking.tracker` needs.

Every operation can be repeated safely: it looks up what MLflow already has and adds what is missing. Only one thread may
use a `Store`; that thread also imports MLflow, which takes 2 to 5 s.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from orchestrator.tracking.inputs import CONTEXT, Input
from orchestrator.tracking.labels import SENT_TAG, SWEEP_TAG, TRIAL_TAG, metric_key
from orchestrator.tracking.moved import follow
from orchestrator.tracking.places import address, configure_environment, local_address, named_server

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

Rounds = dict[int, tuple[int, dict[str, float]]]
"""Metrics by round: the time in milliseconds and the values by name."""

# MLflow's own limits (mlflow/utils/validation.py); a text that is too long makes it refuse the whole request.
METRICS_PER_BATCH = 1000
KEY_LENGTH, PARAM_LENGTH, TAG_LENGTH, NAME_LENGTH = 250, 6000, 5000, 250
NOTE_LENGTH, EXPERIMENT_TAG_LENGTH = 8000, 20000

# Every round has this metric, and it is sent last: if MLflow has it for a round, it has the whole round.
ROUND = "round"
ROUND_KEY = metric_key(ROUND)

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


@dataclass
class Held:
    """What MLflow has of one run.

    Attributes:
        rounds: the rounds, counted from 0; None if they have not been looked up yet.
        former: whether an earlier version of fedpriv sent its metrics, under names without sections.
    """

    run_id: str
    status: str = "RUNNING"
    name: str = ""
    rounds: set[int] | None = field(default_factory=set)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    former: bool = False


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
        return named_server(self._asked) is not None or (self.results / "mlflow.db").exists()

    def forget(self) -> None:
        """Drop the connection and everything known about the runs, so that it is looked up again after an error."""
        self._client, self._held = None, {}

    @property
    def client(self) -> MlflowClient:
        """The connection, opened on first use; raises MLflow's errors if MLflow cannot be reached."""
        if self._client is None:
            configure_environment()
            uri = address(self.results, self._asked)
            local = named_server(self._asked) is None or uri == local_address(self.results)
            with _lock(self.results / ".mlflow.lock") if local else nullcontext():
                self._connect(uri, local)
        assert self._client is not None
        return self._client

    def _connect(self, uri: str, local: bool) -> None:
        from mlflow import MlflowClient

        if local and not (self.results / "mlflow.db").exists():
            _create(self.results)
        elif local:
            follow(self.results)
        client = MlflowClient(tracking_uri=uri)
        made = Path(uri.removeprefix("sqlite:///")).parent
        if local and made != self.results:  # MLflow mistakes an escaped address for a path and creates its folders
            with suppress(OSError):
                os.removedirs(made)
        place = f"{(self.results / 'mlartifacts').as_uri()}/{quote(self.sweep, safe='')}" if local else None
        self.experiment = _experiment(client, self.sweep, place)
        self._experiment_tags = client.get_experiment(self.experiment).tags
        found: dict[str, list[Run]] = {}
        token = None
        while token != "":
            query = f"tags.`{SWEEP_TAG}` = '{self.identity}'"
            page = client.search_runs([self.experiment], query, max_results=500, page_token=token)
            for run in page:
                found.setdefault(run.data.tags.get(TRIAL_TAG, ""), []).append(run)
            token = page.token or ""
        self._held = {trial: _held(client, runs) for trial, runs in found.items()}
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
        """Put the run of ``trial`` into MLflow's bin, where a user can restore it; `open` then creates a new one."""
        self.client.delete_run(self._held.pop(trial).run_id)

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
        return {model.name for model in found if str(model.status) == "READY"}

    def log_model(self, held: Held, name: str, folder: Path) -> None:
        """Add a model that was saved in MLflow's form in ``folder`` to the run; it is not registered."""
        from mlflow.entities import LoggedModelOutput

        made = self.client.create_logged_model(self.experiment, name, held.run_id, model_type="fedpriv")
        self.client.log_model_artifacts(made.model_id, str(folder))
        self.client.finalize_logged_model(made.model_id, "READY")
        step = max(self.rounds(held), default=-1) + 1
        self.client.log_outputs(held.run_id, [LoggedModelOutput(made.model_id, step)])

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


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Wait for the lock on ``path``, which at most one process of this machine has, and keep it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _create(results: Path) -> None:
    """Create RESULTS/mlflow.db atomically: its migrations take 4 s, and an interruption would leave a broken store."""
    from mlflow import MlflowClient

    new = results / f".mlflow-{os.getpid()}.new"
    name = local_address(results).removesuffix("mlflow.db") + new.name
    try:
        MlflowClient(tracking_uri=name).search_experiments(max_results=1)
        os.replace(new, results / "mlflow.db")
    finally:
        new.unlink(missing_ok=True)


def _experiment(client: MlflowClient, name: str, place: str | None) -> str:
    """The id of the experiment ``name``, created or restored if needed; ``place`` is the folder of its artifacts."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name, artifact_location=place)
        except MlflowException:
            found = client.get_experiment_by_name(name)  # another process was faster
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id


def _held(client: MlflowClient, runs: list[Run]) -> Held:
    """What MLflow has of a trial. Lost replies can leave duplicate runs: the most complete one is kept."""
    run, *others = sorted(runs, key=lambda run: (-len(run.data.metrics), run.info.start_time))
    for other in others:
        client.delete_run(other.info.run_id)
    rounds: set[int] | None = None if ROUND_KEY in run.data.metrics else set()
    former = ROUND in run.data.metrics
    return Held(run.info.run_id, run.info.status, run.info.run_name, rounds, run.data.params, run.data.tags, former)
