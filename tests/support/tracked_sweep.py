"""A finished sweep with its report and all that MLflow holds of it, made in one process without Ray."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from orchestrator.config.sweep_file import load_sweep
from orchestrator.execution import claim_folder
from orchestrator.report import write_report
from orchestrator.results.folder import Folder
from orchestrator.results.provenance import origin
from orchestrator.results.record import read_record
from orchestrator.results.tables import read_table
from orchestrator.scheduling.trials import trial_specs
from orchestrator.tracking.events import MlflowListener, TrialEvents
from orchestrator.tracking.tracker import Tracker
from tests.support.undisturbed import undisturbed

SECONDS = 300  # longest wait for MLflow
CLOCKS = ("seconds", "time", "remaining")  # metrics and columns that no two runs have in common


def tracked(sweep: Path, results: Path) -> Folder:
    """Run the sweep in the file ``sweep`` into ``results``, and tell MLflow of it as a run with Ray does."""
    loaded = load_sweep(sweep)
    folder = Folder(results / loaded.name)
    with claim_folder(folder, loaded):
        undisturbed(sweep, results)
        told: list[str] = []
        tracker = Tracker(results, loaded.name, None, told.append)
        tracker.sweep_started(origin("cpu"))
        events = TrialEvents(folder, [MlflowListener(tracker, folder)])
        for spec in trial_specs(loaded):
            record = read_record(folder.trial(spec.id))
            assert record is not None
            events.on_planned(spec.id, spec.title, spec.run.to_dict(), spec.values)
            events.on_started(spec.id)
            events.on_rounds(spec.id, read_table(folder.trial(spec.id).table("rounds")).to_pylist())
            events.on_ended(spec.id, record)
        tracker.sweep_finished(write_report(folder.path), "finished")
        assert tracker.close(SECONDS), told
    return folder


def held_in_mlflow(results: Path, name: str) -> dict[str, dict[str, Any]]:
    """What MLflow holds of each trial of a sweep, and, under "", of the sweep as a whole; times aside."""
    from mlflow import MlflowClient

    from orchestrator.tracking.places import address

    client = MlflowClient(address(results, None))
    (experiment,) = [one for one in client.search_experiments() if one.name == name]
    found: dict[str, dict[str, Any]] = {}
    for run in client.search_runs([experiment.experiment_id]):
        trial = run.data.tags.get("fedpriv.trial", "")
        assert trial not in found, f"two runs of {trial or 'the sweep'}"
        histories = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
        found[trial] = {
            "status": run.info.status,
            "ended": run.info.end_time is not None,
            "child": "mlflow.parentRunId" in run.data.tags,
            "name": run.info.run_name,
            "params": run.data.params,
            "artifacts": sorted(_artifacts(client, run.info.run_id)),
            "metrics": {
                key: sorted({(one.step, one.value) for one in points})
                for key, points in histories.items()
                if not any(clock in key for clock in CLOCKS)
            },
        }
    return found


def _artifacts(client: Any, run: str, below: str | None = None) -> list[str]:
    found = []
    for file in client.list_artifacts(run, below):
        found += _artifacts(client, run, file.path) if file.is_dir else [file.path]
    return found


def bytes_below(folder: Path, *suffixes: str) -> dict[str, str]:
    """The checksum of every file below ``folder``, by its path there."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (not suffixes or path.suffix in suffixes)
    }


def without_the_end(folder: Folder) -> None:
    """As if the process had been killed between the last trial and the report."""
    held = json.loads(folder.tracking.read_text())
    held |= {"status": None, "ended": 0, "there": ""}
    folder.tracking.write_text(json.dumps({key: value for key, value in held.items() if key != "checksum"}))
