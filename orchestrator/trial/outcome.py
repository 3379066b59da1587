"""Writes the files of a trial at its end, whether it finished, diverged, failed or was stopped.

Each function returns the record: status, reason, final metrics, seconds, and the software and
machine it ran with. ``began`` is when the trial began, in seconds since the epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
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


def finish(
    folder: TrialFolder, trial: Trial, identity: TrialIdentity, began: float
) -> dict[str, Any]:
    """Write the tables, the models and the record of a trial after its last round, and delete
    its state.

    Raises:
        DamageError: rows of the trial were damaged or deleted while it ran.
    """
    tables = {name: trial.rows(name) for name in TABLES}
    state = trial.state
    over = Outcome(
        tables["rounds"].to_pylist(), state.spent, trial.data.sizes, state.canaries, state.history
    )
    metrics = metric_rows.final_metrics(trial.run, over) | metric_rows.curvature_metrics(
        tables["clients"]
    )
    metrics = {name: value for name, value in metrics.items() if value == value}  # without NaN
    model = {"shape": list(trial.data.shape), "classes": trial.data.classes}
    more = tables.__getitem__, state.resumed, save(trial.rounds.arrays())
    return _write(folder, identity, began, "finished", *more, metrics=metrics, model=model)


def give_up(
    folder: TrialFolder,
    trial: Trial | None,
    status: str,
    reason: str,
    identity: TrialIdentity,
    began: float,
) -> dict[str, Any]:
    """Write the tables so far, and a record without metrics; ``trial`` is None if it failed
    before its first round.
    """
    if trial is None:
        return _write(folder, identity, began, status, reason=reason)
    try:
        return _write(
            folder, identity, began, status, trial.rows, trial.state.resumed, reason=reason
        )
    except (
        DamageError
    ) as error:  # a trial that diverged would count as ended, without all of its rows
        return _write(
            folder, identity, began, "failed", resumed=trial.state.resumed, reason=str(error)
        )


def stop(
    folder: TrialFolder,
    identity: TrialIdentity,
    began: float,
    by: dict[str, Any],
    last: tuple[int, float],
) -> dict[str, Any]:
    """Write the tables so far, and a record, of a trial that a scheduler stopped (``by``) with a
    value after its last round.

    The state is kept, so that a sweep without that scheduler can resume from it. If it is damaged,
    the trial has failed.
    """
    round_, value = last
    reason = (
        f"{by['name']} in round {round_ + 1} of {identity.run['rounds']}, {by['metric']} "
        f"{value:.4g}"
    )
    stopped = {"by": by, "round": round_ + 1, "value": value}
    try:
        saved = Saved.of(folder, identity.hashes)
        state = saved.load(saved.state or "")
        read = partial(saved.rows, state.start)
        return _write(
            folder, identity, began, "stopped", read, state.resumed, reason=reason, stopped=stopped
        )
    except DamageError as error:
        return _write(folder, identity, began, "failed", reason=str(error))


def secrecy(run: Mapping[str, Any], resumed: Iterable[int]) -> list[str]:
    """Return what must be known of a trial whose noise is secret, resumed after some rounds;
    nothing for the others.
    """
    if run["privacy"].get("noise") != "secret":
        return []
    fresh = "the noise until then is in the saved models, the noise since then is fresh"
    return [
        SECRET_NOISE,
        *(f"resumed after round {round_}: {fresh}" for round_ in dict.fromkeys(resumed)),
    ]


def _write(
    folder: TrialFolder,
    identity: TrialIdentity,
    began: float,
    status: str,
    read: Callable[[str], pa.Table] = lambda _: pa.table({}),
    resumed: Iterable[int] = (),
    weights: bytes | None = None,
    reason: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Write a trial's files and its record.

    Raises DamageError before anything is written, if a table cannot be ``read``.
    """
    tables = {name: rows for name in TABLES if len(rows := read(name))}
    files = {f"{name}.parquet": table_bytes(rows) for name, rows in tables.items()}
    if weights is not None:
        files[folder.model.name] = weights
    # Earlier processes may have done some of its rounds.
    trained = math.fsum(tables["rounds"]["seconds"].to_pylist()) if "rounds" in tables else 0.0
    record: dict[str, Any] = {
        "status": status,
        "reason": reason,
        "metrics": {},
        "seconds": max(time.time() - began, trained),  # clocks are set back now and then
        "origin": origin(identity.run["training"]["device"]) | dict(identity.hashes),
    }
    notes = secrecy(identity.run, resumed)
    if notes:
        record["notes"] = notes
    return write_record(folder, record | more, identity.run, files)
