"""What MLflow should have of a trial that another process ran: from what that process recorded, and from the trial's results.

A process can be killed between a trial's last file and what it notes for MLflow; the results are right then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orchestrator.results.folder import TrialFolder
from orchestrator.results.record import read_record
from orchestrator.tracking.labels import (
    component_tags,
    flatten,
    run_tags,
    scalar_metrics,
    short_name,
    swept_params,
    texts,
)
from orchestrator.tracking.pending import PendingTrial
from orchestrator.tracking.recorded import declared_keys, recalled


@dataclass(frozen=True)
class Planned:
    """How a trial is named in MLflow.

    Attributes:
        name: the name of its run.
        run: the resolved run, as plain values.
        params: its parameters.
    """

    name: str
    run: Mapping[str, Any]
    params: Mapping[str, str]

    @classmethod
    def of(cls, title: str, run: Mapping[str, Any], swept: Mapping[str, Any]) -> Planned:
        """What a trial with these swept values is called; ``title`` is its name if there are none."""
        return cls(short_name(swept) or title, run, swept_params(swept))


def ended_values(record: Mapping[str, Any]) -> dict[str, Any]:
    """The final values of a trial's record: its metrics, its notes and the reason why it has no result."""
    notes = {"notes": "; ".join(record["notes"])} if record.get("notes") else {}
    return {**(record.get("metrics") or {}), **notes, **({"reason": record["reason"]} if record.get("reason") else {})}


def restored(folder: TrialFolder, planned: Planned | None, say: Callable[[str], object]) -> PendingTrial | None:
    """What MLflow should have of a trial.

    Args:
        folder: the trial's folder.
        planned: how it is named; None for a trial that is no longer of the sweep.
        say: is called with a sentence about a damaged file.

    Returns:
        The run; None if the trial has neither ended nor been recorded.
    """
    wanted, record = recalled(folder, say), read_record(folder)
    if record is None:
        return wanted
    if wanted is None:
        wanted = _rebuilt(folder, planned or _planned(folder), record)
    if wanted.status != record["status"]:
        values = ended_values(record)
        wanted.finals, wanted.tags = scalar_metrics(values), wanted.tags | texts(values)
        wanted.end(record["status"], max(wanted.started, _written(folder)))
    return wanted


def _rebuilt(folder: TrialFolder, planned: Planned, record: Mapping[str, Any]) -> PendingTrial:
    seconds = record.get("seconds")
    lasted = int(1000 * seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else 0
    origin = record.get("origin")
    known = origin if isinstance(origin, Mapping) else {}
    provenance = {name: text for name, text in known.items() if _is_provenance(name) and isinstance(text, str)}
    return PendingTrial(
        folder.id,
        planned.name,
        run_tags(component_tags(planned.run) | provenance, folder.path),
        flatten(planned.params),
        started=max(0, _written(folder) - lasted),
        folder=folder,
        live=False,
    )


def _is_provenance(name: str) -> bool:
    """Whether an entry of a record's origin is a tag; hashes of code and data are not."""
    return name in ("commit", "host", "device") or name.startswith("version.")


def _planned(folder: TrialFolder) -> Planned:
    """How a trial is named that is no longer of the sweep, as far as its files tell it."""
    import yaml

    run: Any = None
    with suppress(OSError, ValueError, yaml.YAMLError):
        run = yaml.safe_load(folder.config.read_text())
    if not isinstance(run, dict):
        return Planned(folder.id, {}, {})
    swept: dict[str, Any] = {}
    for key in declared_keys(folder) or ():
        value: Any = run
        for part in str(key).removeprefix("base.").split("."):
            value = value.get(part) if isinstance(value, dict) else None
        swept |= {key: value} if value is not None else {}
    return Planned.of(folder.id, run, swept)


def _written(folder: TrialFolder) -> int:
    """When the trial's record was written, in milliseconds since 1970."""
    with suppress(OSError):
        return int(1000 * folder.result.stat().st_mtime)
    return 0
