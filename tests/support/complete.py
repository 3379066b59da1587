"""What the folder and the MLflow store of a complete sweep must hold, compared with an undisturbed run of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.results.paths import Folder, TrialFolder
from orchestrator.results.tables import read_table
from orchestrator.tracking.labels import metric_key, scalar_metrics
from tests.support.command import TIMES, timeless, trials

EXACT = ("config.yaml", "model.safetensors")


def the_same(expected: Path, results: Path, name: str) -> None:
    """Assert that two results folders hold the same trials, tables, models and configurations, times aside."""
    ours, theirs = (timeless(folder / name / "trials.parquet") for folder in (results, expected))
    assert ours.equals(theirs), f"trials.parquet: {_difference(ours, theirs)}"
    for row in trials(expected, name):
        mine, yours = (Folder(folder / name).trial(row["id"]).path for folder in (results, expected))
        tables = sorted(path.name for path in yours.glob("*.parquet"))
        assert sorted(path.name for path in mine.glob("*.parquet")) == tables, row["id"]
        for table in tables:
            one, other = (timeless(folder / table) for folder in (mine, yours))
            assert one.equals(other), f"{row['id']}/{table}: {_difference(one, other)}"
            if not set(pq.read_schema(mine / table).names) & set(TIMES):
                assert (mine / table).read_bytes() == (yours / table).read_bytes(), f"{row['id']}/{table}"
        for file in EXACT:
            there = [folder / file for folder in (mine, yours) if (folder / file).exists()]
            assert len(there) in (0, 2), f"{row['id']}/{file}"
            assert len({path.read_bytes() for path in there}) < 2, f"{row['id']}/{file}"


def _difference(one: pa.Table, other: pa.Table) -> str:
    """Say in which columns two tables differ."""
    if one.column_names != other.column_names or one.num_rows != other.num_rows:
        return f"{one.num_rows} rows of {one.column_names}, and {other.num_rows} rows of {other.column_names}"
    columns = [column for column in one.column_names if not one[column].equals(other[column])]
    return "; ".join(
        f"{column}: {one[column].to_pylist()[:9]} != {other[column].to_pylist()[:9]}" for column in columns
    )


def nothing_left(results: Path) -> None:
    """Assert that there are no unfinished files, states of trials, or files of Tune."""
    found = [
        path for path in results.rglob("*") if path.suffix in (".tmp", ".new") or path.name.startswith(".fedpriv-")
    ]
    found += list(results.glob("*/trials/*/state"))
    assert not found, found


def mlflow_holds_all(results: Path, name: str = "tiny", uri: str | None = None) -> None:
    """Assert that MLflow has one run of the sweep and one of each trial, all ended, with every round's metrics once."""
    from mlflow import MlflowClient

    client = MlflowClient(uri or f"sqlite:///{results / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == name]
    runs = client.search_runs([experiment.experiment_id])
    children = {run.data.tags["fedpriv.trial"]: run for run in runs if "mlflow.parentRunId" in run.data.tags}
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert len(runs) == len(children) + 1 and len(parents) == 1, [run.data.tags for run in runs]
    rows = {row["id"]: row for row in trials(results, name)}
    assert children.keys() == rows.keys()
    bad = any(row["status"] != "finished" for row in rows.values())
    assert parents[0].info.status == ("FAILED" if bad else "FINISHED"), f"the sweep is {parents[0].info.status}"
    for run in runs:
        assert run.info.end_time, f"{run.info.run_name} has no end"
    artifacts = {one.path for one in client.list_artifacts(parents[0].info.run_id)}
    assert {"sweep.yaml", "report"} <= artifacts, artifacts
    for trial, run in children.items():
        assert run.info.status == "FINISHED", f"{trial} is {run.info.status}"
        files = {one.path for one in client.list_artifacts(run.info.run_id)}
        held = Folder(results / name).trial(trial)
        assert {path.name for path in held.path.glob("*.parquet")} <= files, f"{trial}: {files}"
        _every_round(client, run.info.run_id, held)


def _every_round(client: object, run: str, held: TrialFolder) -> None:
    """Assert that a run's metrics have the values of the trial's table of rounds, each once."""
    wanted: dict[str, dict[int, float]] = {}
    for row in read_table(held.table("rounds")).to_pylist():
        for metric, value in scalar_metrics(row).items():
            wanted.setdefault(metric_key(metric), {})[row["round"] + 1] = value
    wanted.pop(metric_key("round"), None)
    for metric, values in wanted.items():
        points = client.get_metric_history(run, metric)  # type: ignore[attr-defined]
        own = {point.step: point.value for point in points}
        assert len(own) == len(points), f"{held.id}: MLflow has {metric} twice"
        missing = {step for step in values if step not in own}
        assert not missing, f"{held.id}: MLflow has not {metric} of the rounds {missing}"
        if not any(word in metric for word in ("seconds", "time")):
            assert all(own[step] == value for step, value in values.items() if step < max(values)), (held.id, metric)
