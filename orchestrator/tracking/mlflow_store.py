"""The MLflow operations that `orchestrator.tracking.tracker` needs, and the choice of the MLflow store.

Every operation can be repeated safely: it looks up what MLflow already has and adds what is missing. Only one thread may
use a `Store`; that thread also imports MLflow, which takes 2 to 5 s.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

Rounds = dict[int, tuple[int, dict[str, float]]]
"""Metrics by round: the time in milliseconds and the values by name."""

# MLflow's own limits (mlflow/utils/validation.py); a text that is too long makes it refuse the whole request.
METRICS_PER_BATCH = 1000
KEY_LENGTH, PARAM_LENGTH, TAG_LENGTH, NAME_LENGTH = 250, 6000, 5000, 250

# Every round has this metric, and it is sent last: if MLflow has it for a round, it has the whole round.
ROUND = "round"

# Tags by which a run is found: the identity of the results folder, and the trial (absent for the sweep's own run).
SWEEP_TAG, TRIAL_TAG, SENT_TAG = "fedpriv.sweep", "fedpriv.trial", "fedpriv.sent"

SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Fail fast if the server is away; the tracker itself tries again.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    # MLflow must not print into the live table; its errors reach us as exceptions.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


class TrackingError(Exception):
    """MLflow cannot be used as requested. The message is a sentence."""


def configure_environment() -> None:
    """Set the environment variables of MLflow and Ray before their import; values that the user has set are kept."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def name_metrics(tracking_uri: str | None) -> str | None:
    """The MLflow server from the argument or from MLFLOW_TRACKING_URI; None if the user named none."""
    return tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or None


def address(results: Path, tracking_uri: str | None) -> str:
    """The address of MLflow: the server that the user named, or else the store in ``results``.

    Raises:
        TrackingError: MLflow cannot have a store at that path.
    """
    return name_metrics(tracking_uri) or _local(results)


def _local(results: Path) -> str:
    """The address of RESULTS/mlflow.db, escaped so that SQLAlchemy finds that path. Raises TrackingError."""
    from sqlalchemy import make_url

    path = os.path.abspath(results / "mlflow.db")
    # Before 2.1 SQLAlchemy takes the path literally; since then it decodes it, and an escape may be needed.
    for written in (path, path.replace("%", "%25").replace("?", "%3F")):
        if make_url(f"sqlite:///{written}").database == path:
            return f"sqlite:///{written}"
    raise TrackingError(f"MLflow cannot store runs in {results}, because of the question mark in its path")


def ui(results: Path, port: int, host: str, tracking_uri: str | None = None) -> tuple[list[str], dict[str, str]]:
    """The command line and environment that start the MLflow UI.

    Args:
        results: the folder of all sweeps.
        port: the port to listen on.
        host: the address to listen on.
        tracking_uri: an MLflow server, or None.

    Raises:
        TrackingError: there are no runs to show, or a server has its own UI.
    """
    store = address(results, tracking_uri)
    if store.startswith(("http://", "https://")):
        raise TrackingError(f"the MLflow server at {store} has a user interface of its own: open that address")
    if store == _local(results) and not (results / "mlflow.db").exists():
        raise TrackingError(f"{results} contains no runs: there is no {results / 'mlflow.db'}")
    artifacts = Path(os.path.abspath(results / "mlartifacts")).as_uri()
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store, "--artifacts-destination", artifacts]
    # One worker, because each takes 300 MB and one person looks at one page at a time; no execution of jobs.
    command += ["--host", host, "--port", str(port), "--workers", "1"]
    silent = {name: SETTINGS[name] for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK")}
    return command, {**os.environ, **silent, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def batches(rounds: Rounds) -> Iterator[list[tuple[str, float, int, int]]]:
    """Divide rounds, in ascending order, into batches of (name, value, time in ms, round) that MLflow accepts.

    A round is split only if it alone exceeds a batch; its last metric is always `ROUND`.
    """
    batch: list[tuple[str, float, int, int]] = []
    for round_, (time, values) in sorted(rounds.items()):
        metrics = [(key(name), value, time, round_) for name, value in values.items() if name != ROUND]
        metrics.append((ROUND, float(round_), time, round_))
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
    """What MLflow has of one run; ``rounds`` is None if the rounds have not been looked up yet."""

    run_id: str
    status: str = "RUNNING"
    name: str = ""
    rounds: set[int] | None = field(default_factory=set)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)


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
        self._experiment = ""
        self._held: dict[str, Held] = {}

    def exists(self) -> bool:
        """Whether the local store has been created; always true for a server."""
        return name_metrics(self._asked) is not None or (self.results / "mlflow.db").exists()

    def forget(self) -> None:
        """Drop the connection and everything known about the runs, so that it is looked up again after an error."""
        self._client, self._held = None, {}

    @property
    def client(self) -> MlflowClient:
        """The connection, opened on first use; raises MLflow's errors if MLflow cannot be reached."""
        if self._client is None:
            configure_environment()
            uri = address(self.results, self._asked)
            local = name_metrics(self._asked) is None or uri == _local(self.results)
            with _lock(self.results / ".mlflow.lock") if local else nullcontext():
                self._connect(uri, local)
        assert self._client is not None
        return self._client

    def _connect(self, uri: str, local: bool) -> None:
        from mlflow import MlflowClient

        if local and not (self.results / "mlflow.db").exists():
            _create(self.results)
        client = MlflowClient(tracking_uri=uri)
        made = Path(uri.removeprefix("sqlite:///")).parent
        if local and made != self.results:  # MLflow mistakes an escaped address for a path and creates its folders
            with suppress(OSError):
                os.removedirs(made)
        place = f"{(self.results / 'mlartifacts').as_uri()}/{quote(self.sweep, safe='')}" if local else None
        self._experiment = _experiment(client, self.sweep, place)
        found: dict[str, list[Run]] = {}
        token = None
        while token != "":
            query = f"tags.`{SWEEP_TAG}` = '{self.identity}'"
            page = client.search_runs([self._experiment], query, max_results=500, page_token=token)
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
            run = client.create_run(self._experiment, start_time=started, tags=tags, run_name=name[:NAME_LENGTH])
            self._held[trial] = Held(run.info.run_id, name=name[:NAME_LENGTH], tags=tags)
        return self._held[trial]

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

    def resume(self, held: Held) -> None:
        """Set a run that has ended back to running."""
        if held.status != "RUNNING":
            self.client.update_run(held.run_id, status="RUNNING")
            held.status = "RUNNING"

    def rounds(self, held: Held) -> set[int]:
        """The rounds that MLflow has of the run, looked up by the metric `ROUND`."""
        if held.rounds is None:
            held.rounds = {metric.step for metric in self.client.get_metric_history(held.run_id, ROUND)}
        return held.rounds

    def send(self, held: Held, rounds: Rounds) -> None:
        """Send the rounds that MLflow does not have yet."""
        from mlflow.entities import Metric

        there = self.rounds(held) if rounds else set()
        for batch in batches({round_: row for round_, row in rounds.items() if round_ not in there}):
            self.client.log_batch(held.run_id, metrics=[Metric(*metric) for metric in batch], synchronous=True)
            there.update(step for name, _, _, step in batch if name == ROUND)

    def finals(self, held: Held, finals: Mapping[str, float], time: int) -> None:
        """Send the final metrics as a step after the last round.

        MLflow shows the latest value of a metric, so a metric whose last round has the final value already is left out.
        """
        from mlflow.entities import Metric

        shown = self.client.get_run(held.run_id).data.metrics
        step = max(self.rounds(held), default=-1) + 1
        metrics = [
            Metric(key(name), value, time, step) for name, value in finals.items() if shown.get(key(name)) != value
        ]
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
    name = _local(results).removesuffix("mlflow.db") + new.name
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
    rounds: set[int] | None = None if ROUND in run.data.metrics else set()
    return Held(run.info.run_id, run.info.status, run.info.run_name, rounds, run.data.params, run.data.tags)
