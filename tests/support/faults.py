"""The processes of a sweep, and what MLflow must hold whatever happened to them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import yaml

from tests.support.command import trials


def below(leader: int) -> set[int]:
    """All processes that come from ``leader``, itself among them."""
    with suppress(psutil.Error):
        return {leader, *(process.pid for process in psutil.Process(leader).children(recursive=True))}
    return {leader}


def named(leader: int, names: tuple[str, ...]) -> list[int]:
    """The processes below ``leader`` with such a name, the youngest first: of two the one that has just begun."""
    found = []
    for pid in below(leader):
        with suppress(OSError):
            if (Path("/proc") / str(pid) / "cmdline").read_text(errors="replace").startswith(names):
                found.append(pid)
    return sorted(found, reverse=True)


def mlflow_holds_each_run_once(results: Path, uri: str | None = None) -> None:
    """Assert that the sweep has one parent run, every trial one run below it, and every round one value."""
    from mlflow import MlflowClient

    client = MlflowClient(uri or f"sqlite:///{results / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "tiny"]
    runs = client.search_runs([experiment.experiment_id])
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert len(runs) == len(children) + 1
    held = {run.data.tags["fedpriv.trial"]: run for run in children}
    assert held.keys() == {row["id"] for row in trials(results)}
    assert len(held) == len(children)
    for run in children:
        assert run.info.status == "FINISHED"
        steps = [point.step for point in client.get_metric_history(run.info.run_id, "accuracy/loss")]
        config = results / "tiny" / "trials" / run.data.tags["fedpriv.trial"] / "config.yaml"
        assert sorted(steps) == list(range(1, yaml.safe_load(config.read_text())["rounds"] + 1))
