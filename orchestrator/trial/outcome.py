"""Writes the files of a trial at its end, whether it finished, diverged, failed or was stopped.

Each function returns the record: status, reason, final metrics, seconds, and the software and machine it ran with. ``began`` is
when the trial began, in seconds since the epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from safetensors.numpy import save

from algorithms.interfaces import Outcome
from orchestrator.results.log import DamageError
from orchestrator.results.paths import TABLES, TrialFolder
from orchestrator.results.provenance import origin
from orchestrator.results.record import SECRET_NOISE, TrialIdentity, write_record
from orchestrator.results.tables import table_bytes
from orchestrator.trial import metric_rows
from orchestrator.trial.restarts import Trial
from orchestrator.trial.saved import Saved


def finish(folder: TrialFolder, trial: Trial, identity: TrialIdentity, began: float) -> dict[str, Any]:
    """Write the tables, the models and the record of a trial after its last round, and delete its state.

    Raises:
        DamageError: rows of the trial were damaged or deleted while it ran.
    """
    tables = {name: trial.rows(name) for name in TABLES}
    over = Outcome(tables["rounds"].to_pylist(), trial.state.spent, trial.data.sizes, trial.state.canaries)
    metrics = metric_rows.final_metrics(trial.run, over) | metric_rows.curvature_metrics(tables["clients"])
    model = {"shape": list(trial.data.shape), "classes": trial.data.classes}
    record = _record("finished", identity, began, metrics, resumed=trial.state.resumed) | {"model": model}
    return write_record(folder, record, identity.run, _files(tables) | {folder.model.name: save(trial.arrays())})


def give_up(
    folder: TrialFolder, trial: Trial | None, status: str, reason: str, identity: TrialIdentity, began: float
) -> dict[str, Any]:
    """Write the tables so far, and a record without metrics; ``trial`` is None if it failed before its first round."""
    files: dict[str, bytes] = {}
    if trial is not None:
        try:
            files = _tables(trial.rows)
        except DamageError as error:  # a trial that diverged would count as ended, without all of its rows
            status, reason = "failed", str(error)
    resumed = trial.state.resumed if trial is not None else ()
    return write_record(folder, _record(status, identity, began, reason=reason, resumed=resumed), identity.run, files)


def stop(
    folder: TrialFolder, identity: TrialIdentity, began: float, by: dict[str, Any], last: tuple[int, float]
) -> dict[str, Any]:
    """Write the tables so far, and a record, of a trial that a scheduler stopped (``by``) with a value after its last round.

    The state is kept, so that a sweep without that scheduler can resume from it. If it is damaged, the trial has failed.
    """
    round_, value = last
    try:
        saved = Saved.of(folder, {})
        state = saved.load(saved.state or "")
        files = _tables(lambda name: saved.rows(state.start, name))
    except DamageError as error:
        return write_record(folder, _record("failed", identity, began, reason=str(error)), identity.run, {})
    reason = f"{by['name']} in round {round_ + 1} of {identity.run['rounds']}, {by['metric']} {value:.4g}"
    record = _record("stopped", identity, began, reason=reason, resumed=state.resumed)
    stopped = {"by": by, "round": round_ + 1, "value": value}
    return write_record(folder, record | {"stopped": stopped}, identity.run, files)


def secrecy(run: Mapping[str, Any], resumed: Iterable[int]) -> list[str]:
    """Return what must be known of a trial whose noise is secret, resumed after some rounds; nothing for the others."""
    if run["privacy"].get("noise") != "secret":
        return []
    again = [
        f"resumed after round {round_}: the noise until then is in the saved models, the noise since then is fresh"
        for round_ in dict.fromkeys(resumed)
    ]
    return [SECRET_NOISE, *again]


def _tables(read: Callable[[str], pa.Table]) -> dict[str, bytes]:
    return _files({name: read(name) for name in TABLES})


def _files(tables: Mapping[str, pa.Table]) -> dict[str, bytes]:
    """The files of the tables that have rows."""
    return {f"{name}.parquet": table_bytes(rows) for name, rows in tables.items() if len(rows)}


def _record(
    status: str,
    identity: TrialIdentity,
    began: float,
    metrics: Mapping[str, Any] | None = None,
    reason: str | None = None,
    resumed: Iterable[int] = (),
) -> dict[str, Any]:
    """What is recorded of a trial; metrics that are NaN are left out."""
    measured = {
        name: value for name, value in (metrics or {}).items() if not (isinstance(value, float) and math.isnan(value))
    }
    record: dict[str, Any] = {
        "status": status,
        "reason": reason,
        "metrics": measured,
        "seconds": max(time.time() - began, 0.0),  # clocks are set back now and then
        "origin": origin(identity.run["training"]["device"]) | dict(identity.hashes),
    }
    return record | ({"notes": notes} if (notes := secrecy(identity.run, resumed)) else {})
