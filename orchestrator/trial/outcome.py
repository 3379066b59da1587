"""Writes the files of a trial at its end, whether it finished, diverged, failed or was stopped."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from safetensors.numpy import save

from algorithms.interfaces import Outcome
from orchestrator.results.folder import TrialFolder, write_atomically
from orchestrator.results.integrity import DamageError
from orchestrator.results.parts import EVERY_ROUND, Parts
from orchestrator.results.provenance import origin
from orchestrator.results.record import SECRET_NOISE, STATE, TABLES, TrialIdentity, config_bytes, save_record
from orchestrator.trial import metric_rows
from orchestrator.trial.restarts import Trial
from orchestrator.trial.saved import table_parts
from orchestrator.trial.state import RunState, load_state


def finish(folder: TrialFolder, trial: Trial, identity: TrialIdentity, began: float) -> dict[str, Any]:
    """Write the tables, the models and the record of a finished trial, and delete its state.

    Args:
        folder: the trial's folder.
        trial: the trial, after its last round.
        identity: what the trial is.
        began: when the trial began, in seconds since the epoch.

    Returns:
        The record: status, final metrics, seconds, and the software and machine it ran with.

    Raises:
        DamageError: rows of the trial were damaged or deleted while it ran.
    """
    written = _merge(folder, trial.parts, trial.state)
    write_atomically(folder.model, save(trial.arrays()))
    rows = written["rounds"].to_pylist()
    over = Outcome(rows, trial.state.spent, trial.data.sizes, trial.state.canaries)
    metrics = metric_rows.final_metrics(trial.run, over) | metric_rows.curvature_metrics(written["clients"])
    model = {"shape": list(trial.data.shape), "classes": trial.data.classes}
    return write_record(
        folder, "finished", identity, began, metrics, resumed=trial.state.resumed, more={"model": model}
    )


def secrecy(run: Mapping[str, Any], resumed: Iterable[int]) -> list[str]:
    """Return what must be known of a trial whose noise is secret; nothing for the others, which can be repeated.

    Args:
        run: the trial's resolved run as plain values.
        resumed: the numbers of rounds after which the trial was resumed.
    """
    if run["privacy"].get("noise") != "secret":
        return []
    again = [
        f"resumed after round {round_}: the noise until then is in the saved models, the noise since then is fresh"
        for round_ in dict.fromkeys(resumed)
    ]
    return [SECRET_NOISE, *again]


def give_up(
    folder: TrialFolder, trial: Trial | None, status: str, reason: str, identity: TrialIdentity, began: float
) -> dict[str, Any]:
    """Write the tables so far, and a record without metrics, of a trial that diverged or failed.

    Args:
        folder: the trial's folder.
        trial: the trial; None if it failed before its first round.
        status: the status to record.
        reason: what went wrong, as text.
        identity: what the trial is.
        began: when the trial began, in seconds since the epoch.

    Returns:
        The record.
    """
    if trial is not None:
        try:
            _merge(folder, trial.parts, trial.state)
        except DamageError as error:  # a trial that diverged would count as ended, without all of its rows
            status, reason = "failed", str(error)
    resumed = trial.state.resumed if trial is not None else ()
    return write_record(folder, status, identity, began, reason=reason, resumed=resumed)


def stop(
    folder: TrialFolder, identity: TrialIdentity, began: float, by: dict[str, Any], last: tuple[int, float]
) -> dict[str, Any]:
    """Write the tables so far, and a record, of a trial that a scheduler stopped.

    The state is kept, so that a sweep without that scheduler can resume from it. If it is damaged, the trial has failed.

    Args:
        folder: the trial's folder.
        identity: what the trial is.
        began: when the trial began, in seconds since the epoch.
        by: the scheduler's fields.
        last: the last round, counted from 0, and the value of the scheduler's metric after it.

    Returns:
        The record.
    """
    round_, value = last
    try:
        state = load_state(folder.state / STATE, folder.id)
        _merge(folder, table_parts(folder, state.start), state)
    except DamageError as error:
        return write_record(folder, "failed", identity, began, reason=str(error))
    reason = f"{by['name']} in round {round_ + 1} of {identity.run['rounds']}, {by['metric']} {value:.4g}"
    stopped = {"by": by, "round": round_ + 1, "value": value}
    return write_record(
        folder, "stopped", identity, began, reason=reason, resumed=state.resumed, more={"stopped": stopped}
    )


def _merge(folder: TrialFolder, parts: Parts, state: RunState) -> dict[str, pa.Table]:
    """Write a trial's tables and return them. Raises DamageError if rows are missing or damaged."""
    parts.require(state.parts.get(EVERY_ROUND, 0), state.parts)
    return {table: parts.merge(table, folder.table(table)) for table in TABLES}


def write_record(
    folder: TrialFolder,
    status: str,
    identity: TrialIdentity,
    began: float,
    metrics: dict[str, Any] | None = None,
    reason: str | None = None,
    resumed: Iterable[int] = (),
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write ``config.yaml`` and ``result.json``, and delete the state unless the trial may be resumed.

    Args:
        folder: the trial's folder.
        status: how the trial ended.
        identity: what the trial is.
        began: when the trial began, in seconds since the epoch.
        metrics: final metrics; NaN values are left out.
        reason: why the trial did not finish, as text.
        resumed: the numbers of rounds after which the trial was resumed.
        more: further entries: ``model`` says what the saved models take and give, ``stopped`` which scheduler stopped the
            trial, in which round and at which value.

    Returns:
        The record, the content of ``result.json``, with the checksums of the trial's other files.
    """
    write_atomically(folder.config, config_bytes(identity.run))
    measured = {
        name: value for name, value in (metrics or {}).items() if not (isinstance(value, float) and math.isnan(value))
    }
    record: dict[str, Any] = {
        "id": identity.id,
        "status": status,
        "reason": reason,
        "metrics": measured,
        "seconds": max(time.time() - began, 0.0),  # clocks are set back now and then
        "origin": origin(identity.run["training"]["device"])
        | {"commit": identity.commit or "unknown"}
        | dict(identity.hashes),
    }
    record |= more or {}
    record |= {"files": dict(identity.files)} if identity.files else {}
    record |= {"notes": notes} if (notes := secrecy(identity.run, resumed)) else {}
    record = save_record(folder, record)
    if status not in ("failed", "stopped"):
        shutil.rmtree(folder.state, ignore_errors=True)
    return record
