"""What is made or looked up in MLflow on connecting: the store's file, the sweep's experiment, and what it has of each run."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.tracking.labels import SENT_TAG, metric_key
from orchestrator.tracking.places import LOCAL, local_address
from orchestrator.tracking.store_file import set_journals_aside

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

# Every round has this metric, and it is sent last: if MLflow has it for a round, it has the whole round.
ROUND = "round"
ROUND_KEY = metric_key(ROUND)

# MLflow's errors about the data that were sent; every other failure means that MLflow cannot be reached.
REFUSED = {"INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS"}


@dataclass
class Held:
    """What MLflow has of one run.

    Attributes:
        rounds: the rounds, counted from 0; None if they have not been looked up yet.
        former: whether its metrics cannot be completed: an earlier version of fedpriv sent them, under names without
            sections, or the run was about to be made anew when the process was killed.
    """

    run_id: str
    status: str = "RUNNING"
    name: str = ""
    rounds: set[int] | None = field(default_factory=set)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    former: bool = False


def create(results: Path) -> None:
    """Create RESULTS/mlflow.db atomically: its migrations take 4 s, and an interruption would leave a broken store."""
    from mlflow import MlflowClient

    for old in results.glob(".mlflow-*.new*"):  # of a process that was killed here
        old.unlink(missing_ok=True)
    set_journals_aside(results, results / LOCAL)
    new = results / f".mlflow-{uuid.uuid4().hex}.new"  # a name of its own, for MLflow keeps connections by name
    name = local_address(results).removesuffix("mlflow.db") + new.name
    try:
        MlflowClient(tracking_uri=name).search_experiments(max_results=1)
        os.replace(new, results / "mlflow.db")
    finally:
        new.unlink(missing_ok=True)


def connected(uri: str) -> MlflowClient:
    """A client that reads the files that are there now: MLflow keeps connections and places of artifacts in memory."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    with suppress(AttributeError):  # not the store of a file, or another version of MLflow
        store = client._tracking_client.store
        store.engine.dispose()
        store.read_engine.dispose()
    with suppress(AttributeError, ImportError):
        from mlflow.tracking._tracking_service.utils import _artifact_repos_cache

        _artifact_repos_cache.clear()
    return client


def experiment(client: MlflowClient, name: str, place: str | None) -> str:
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


def held_run(client: MlflowClient, runs: list[Run]) -> Held:
    """What MLflow has of a trial. Lost replies can leave duplicate runs: the most complete one is kept."""
    run, *others = sorted(runs, key=lambda run: (-len(run.data.metrics), run.info.start_time))
    for other in others:
        client.delete_run(other.info.run_id)
    rounds: set[int] | None = None if ROUND_KEY in run.data.metrics else set()
    former = ROUND in run.data.metrics or run.data.tags.get(SENT_TAG) == ""
    return Held(run.info.run_id, run.info.status, run.info.run_name, rounds, run.data.params, run.data.tags, former)


def is_refusal(error: Exception) -> bool:
    """Whether MLflow, or the disk, was reached and did not accept what was sent."""
    return isinstance(error, FileNotFoundError) or getattr(error, "error_code", None) in REFUSED
