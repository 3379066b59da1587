"""What a trial leaves behind when it ends, however it ends."""

from __future__ import annotations

import json
import math
import shutil
import time
from typing import Any

import yaml
from safetensors.numpy import save

from orchestrator.results.folder import TrialFolder, write_atomically
from orchestrator.results.provenance import origin
from orchestrator.results.tables import Parts
from orchestrator.trial import metric_rows
from orchestrator.trial.loop import Trial
from orchestrator.trial.state import load_state

STATE = "state.safetensors"
TABLES = ("rounds", "clients", "attacks", "scores", "roc")


def finish(folder: TrialFolder, trial: Trial, spec: dict[str, Any], began: float) -> dict[str, Any]:
    """Write the tables, the models and the record of a trial that went through all its rounds; drop its state.

    Returns the record: status, final metrics, seconds, and where and with what it ran.
    """
    for table in TABLES:
        trial.parts.merge(table, folder.table(table))
    write_atomically(folder.model, save(trial.arrays()))
    rows = trial.parts.read("rounds").to_pylist()
    metrics = metric_rows.final_metrics(trial.run, rows, trial.state.spent, trial.data.sizes)
    return write_record(folder, "finished", spec, began, metrics=metrics)


def give_up(
    folder: TrialFolder, trial: Trial | None, status: str, reason: str, spec: dict[str, Any], began: float
) -> dict[str, Any]:
    """Write what there is of a trial that diverged or failed: its tables so far, and a record without metrics."""
    if trial is not None:
        for table in TABLES:
            trial.parts.merge(table, folder.table(table))
    return write_record(folder, status, spec, began, reason=reason)


def stop(
    folder: TrialFolder, spec: dict[str, Any], began: float, by: dict[str, Any], last: tuple[int, float]
) -> dict[str, Any]:
    """Write what there is of a trial that the scheduler ``by`` ended after the round and with the value in ``last``.

    Its state stays, so that a sweep without that scheduler goes on from there.
    """
    parts, (round_, value) = Parts(folder.state / f"attempt-{load_state(folder.state / STATE).attempt}"), last
    for table in TABLES:
        parts.merge(table, folder.table(table))
    reason = f"{by['name']} in round {round_ + 1} of {spec['run']['rounds']}, {by['metric']} {value:.4g}"
    return write_record(
        folder, "stopped", spec, began, reason=reason, stopped={"by": by, "round": round_ + 1, "value": value}
    )


def write_record(
    folder: TrialFolder,
    status: str,
    spec: dict[str, Any],
    began: float,
    metrics: dict[str, Any] | None = None,
    reason: str | None = None,
    stopped: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write ``config.yaml`` and ``result.json`` and, unless the trial may be taken up again, drop its state."""
    write_atomically(folder.config, yaml.safe_dump(spec["run"], sort_keys=False).encode())
    known = {
        name: value for name, value in (metrics or {}).items() if not (isinstance(value, float) and math.isnan(value))
    }
    written = {
        "id": spec["id"],
        "status": status,
        "reason": reason,
        "metrics": known,
        "seconds": time.time() - began,
        "origin": origin(spec["run"]["training"]["device"]) | {"commit": spec["commit"] or "unknown"},
    }
    written |= {"stopped": stopped} if stopped else {}
    write_atomically(folder.result, json.dumps(written, indent=1).encode())
    if status not in ("failed", "stopped"):
        shutil.rmtree(folder.state, ignore_errors=True)
    return written
