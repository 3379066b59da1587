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
    tables, state = {name: trial.rows(name) for name in TABLES}, trial.state
    over = Outcome(tables["rounds"].to_pylist(), state.spent, trial.data.sizes, state.canaries, state.history)
    metrics = metric_rows.final_metrics(trial.run, over) | metric_rows.curvature_metrics(tables["clients"])
    files = _files(tables.__getitem__) | {folder.model.name: save(trial.rounds.arrays())}
    model = {"shape": list(trial.data.shape), "classes": trial.data.classes}
    seconds = _lasted(began, tables["rounds"])
    return _write(folder, identity, seconds, "finished", files, state.resumed, metrics=metrics, model=model)


def give_up(
    folder: TrialFolder, trial: Trial | None, status: str, reason: str, identity: TrialIdentity, began: float
) -> dict[str, Any]:
    """Write the tables so far, and a record without metrics; ``trial`` is None if it failed before its first round."""
    if trial is None:
        return _write(folder, identity, _lasted(began), status, {}, reason=reason)
    try:
        files, seconds = _files(trial.rows), _lasted(began, trial.rows("rounds"))
        return _write(folder, identity, seconds, status, files, trial.state.resumed, reason=reason)
    except DamageError as error:  # a trial that diverged would count as ended, without all of its rows
        return _write(folder, identity, _lasted(began), "failed", {}, trial.state.resumed, reason=str(error))


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
        files = _files(lambda name: saved.rows(state.start, name))
        seconds = _lasted(began, saved.rows(state.start, "rounds"))
    except DamageError as error:
        return _write(folder, identity, _lasted(began), "failed", {}, reason=str(error))
    reason = f"{by['name']} in round {round_ + 1} of {identity.run['rounds']}, {by['metric']} {value:.4g}"
    stopped = {"by": by, "round": round_ + 1, "value": value}
    return _write(folder, identity, seconds, "stopped", files, state.resumed, reason=reason, stopped=stopped)


def secrecy(run: Mapping[str, Any], resumed: Iterable[int]) -> list[str]:
    """Return what must be known of a trial whose noise is secret, resumed after some rounds; nothing for the others."""
    if run["privacy"].get("noise") != "secret":
        return []
    fresh = "the noise until then is in the saved models, the noise since then is fresh"
    return [SECRET_NOISE, *(f"resumed after round {round_}: {fresh}" for round_ in dict.fromkeys(resumed))]


def _files(read: Callable[[str], pa.Table]) -> dict[str, bytes]:
    """The files of the tables that have rows."""
    return {f"{name}.parquet": table_bytes(rows) for name in TABLES if len(rows := read(name))}


def _lasted(began: float, rounds: pa.Table | None = None) -> float:
    """The seconds since a trial began, or those of its ``rounds`` if it was resumed; clocks are set back now and then."""
    return max(time.time() - began, math.fsum(rounds["seconds"].to_pylist()) if rounds else 0.0)


def _write(
    folder: TrialFolder,
    identity: TrialIdentity,
    seconds: float,
    status: str,
    files: Mapping[str, bytes],
    resumed: Iterable[int] = (),
    metrics: Mapping[str, Any] | None = None,
    reason: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Write the files of a trial and its record, from which metrics that are NaN are left out."""
    record: dict[str, Any] = {
        "status": status,
        "reason": reason,
        "metrics": {name: value for name, value in (metrics or {}).items() if value == value},
        "seconds": seconds,
        "origin": origin(identity.run["training"]["device"]) | dict(identity.hashes),
    }
    record |= {"notes": notes} if (notes := secrecy(identity.run, resumed)) else {}
    return write_record(folder, record | more, identity.run, files)
