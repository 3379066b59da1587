"""The command as a user gives it, a process of its own with real Ray, Tune and MLflow; and what
its results must hold.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.results.paths import Folder

COMMAND = [sys.executable, "-m", "orchestrator"]
TIMES = ("seconds", "seconds_per_round")
SWEEP = """
name: tiny
base:
  rounds: 4
  data: {name: digits, clients: 8, examples_per_client: 20, split: {minority_ratio: 0.25}}
  model: {name: mlp, hidden: [16]}
  training: {lr: 0.1, epochs: 1, batch_size: 10, clients_per_job: 3}
  clustering: {name: ifca, restarts: 2, restart_rounds: 2, warm_start_rounds: 1}
  attacks: [{name: shadow_mia, every: 2, shadows: 1}]
sweep:
  clustering.name: {grid_search: [ifca, ifca_mir]}
  training.lr: {grid_search: [0.1, 0.2]}
resources: {client_actors: 1, concurrent_trials: 1}
"""


def arguments(sweep: Path, results: Path, *options: str) -> list[str]:
    return [*COMMAND, "run", str(sweep), "--results", str(results), *options]


def environment(**more: str) -> dict[str, str]:
    """The variables of a command: those of this process, and no cluster or server that happens
    to be there.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    return inherited | {"RAY_ADDRESS": "local"} | more


def given(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Give a command, and wait for its end."""
    env = environment(**variables)
    return subprocess.run(
        command, capture_output=True, text=True, timeout=600, env=env, check=False
    )


def fedpriv(
    sweep: Path, results: Path, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a sweep to its end."""
    return given(arguments(sweep, results, *options), **variables)


Head = subprocess.Popen


def watched(command: list[str], *events: tuple[str, Callable[[Head], Any]]) -> tuple[int, str]:
    """Give a command and do something whenever it first prints some words: its exit code, and
    all that it printed.
    """
    printed, waiting = "", list(events)
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "bufsize": 1}
    with subprocess.Popen(command, env=environment(), preexec_fn=_heed_signals, **out) as head:  # type: ignore[call-overload]
        for line in head.stdout:
            printed += line
            for event in [one for one in waiting if one[0] in line]:
                waiting.remove(event)
                event[1](head)
        return head.wait(), printed


def signalled_after(
    number: int, words: str, sweep: Path, results: Path, *options: str
) -> tuple[int, str]:
    """Start a sweep, and send its head process a signal once it has printed ``words``."""
    return watched(
        arguments(sweep, results, *options), (words, lambda head: head.send_signal(number))
    )


def _heed_signals() -> None:
    """What is started in the background ignores Ctrl-C, and below nohup a hangup; so would all
    that the tests start there.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def trials(results: Path, name: str = "tiny") -> list[dict]:
    return pq.read_table(results / name / "trials.parquet").to_pylist()


def timeless(path: Path) -> pa.Table:
    """A table without the columns that hold times."""
    table = pq.read_table(path)
    return table.drop_columns([name for name in TIMES if name in table.column_names])


def same_results(expected: Path, results: Path, name: str = "tiny") -> None:
    """Assert that two results folders hold the same trials, tables, models and configurations,
    times aside.
    """
    ours, theirs = (timeless(folder / name / "trials.parquet") for folder in (results, expected))
    assert ours.equals(theirs), f"trials.parquet: {_difference(ours, theirs)}"
    for row in trials(expected, name):
        mine, yours = (
            Folder(folder / name).trial(row["id"]).path for folder in (results, expected)
        )
        files = sorted(path.name for path in yours.iterdir() if path.name != "manifest.json")
        assert (
            sorted(path.name for path in mine.iterdir() if path.name != "manifest.json") == files
        ), row["id"]
        for file in files:
            if file.endswith(".parquet") and set(pq.read_schema(yours / file).names) & set(TIMES):
                one, other = (timeless(folder / file) for folder in (mine, yours))
                assert one.equals(other), f"{row['id']}/{file}: {_difference(one, other)}"
            else:
                assert (mine / file).read_bytes() == (yours / file).read_bytes(), (
                    f"{row['id']}/{file}"
                )


def _difference(one: pa.Table, other: pa.Table) -> str:
    """Say in which columns two tables differ."""
    if one.column_names != other.column_names or one.num_rows != other.num_rows:
        return (
            f"{one.num_rows} rows of {one.column_names}, and {other.num_rows} rows of "
            f"{other.column_names}"
        )
    columns = [column for column in one.column_names if not one[column].equals(other[column])]
    return "; ".join(
        f"{name}: {one[name].to_pylist()[:9]} != {other[name].to_pylist()[:9]}" for name in columns
    )


def nothing_left(results: Path) -> None:
    """Assert that there are no unfinished files, states of trials, or files of Tune."""
    left = [
        path
        for path in results.rglob("*")
        if path.suffix in (".tmp", ".new") or path.name.startswith(".fedpriv-")
    ]
    assert left + list(results.glob("*/trials/*/state")) == []


def mlflow_holds_all(results: Path, name: str = "tiny", uri: str | None = None) -> None:
    """Assert that MLflow has one run of the sweep and one of each trial, all ended, with every
    round's metrics once.
    """
    from mlflow import MlflowClient

    from orchestrator.results.tables import read_table
    from orchestrator.tracking.labels import metric_key, scalar_metrics

    client = MlflowClient(uri or f"sqlite:///{results / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name(name).experiment_id])
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = {run.data.tags["fedpriv.trial"]: run for run in runs if run is not parent}
    rows = {row["id"]: row for row in trials(results, name)}
    assert len(runs) == len(children) + 1 and children.keys() == rows.keys()
    finished = all(row["status"] == "finished" for row in rows.values())
    assert parent.info.status == ("FINISHED" if finished else "FAILED")
    assert all(run.info.end_time for run in runs)
    for run in runs if uri is None else ():
        assert Path(unquote(urlsplit(run.info.artifact_uri).path)).is_relative_to(results), (
            run.info.artifact_uri
        )

    def files(run: Any) -> set[str]:
        return {one.path for one in client.list_artifacts(run.info.run_id)}

    assert {"sweep.yaml", "report"} <= files(parent)
    for trial, run in children.items():
        folder = Folder(results / name).trial(trial)
        assert run.info.status == "FINISHED", f"{trial} is {run.info.status}"
        assert {path.name for path in folder.path.glob("*.parquet")} <= files(run), trial
        wanted: dict[str, dict[int, float]] = {}
        for row in read_table(folder.table("rounds")).to_pylist():
            for metric, value in scalar_metrics(row).items():
                wanted.setdefault(metric_key(metric), {})[row["round"] + 1] = value
        wanted.pop(metric_key("round"), None)
        for metric, values in wanted.items():
            points = client.get_metric_history(run.info.run_id, metric)
            logged = {point.step: point.value for point in points}
            assert len(logged) == len(points), f"{trial}: MLflow has {metric} twice"
            assert values.keys() <= logged.keys(), f"{trial}: MLflow lacks rounds of {metric}"
            if "seconds" not in metric and "time" not in metric:
                assert all(
                    logged[step] == value for step, value in values.items() if step < max(values)
                ), metric
