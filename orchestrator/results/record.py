"""The record of an ended trial, ``result.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.config.tune_section import Tune
from orchestrator.results.folder import TrialFolder, write_atomically

BEGUN = "origin.json"  # beside a trial's state: the code and data that it began with
STATE = "state.safetensors"


@dataclass(frozen=True)
class TrialIdentity:
    """What the record of a trial says it is.

    Attributes:
        id: the hash of its resolved configuration.
        run: that configuration, as plain JSON values.
        commit: the code that it ran with; None where that is not known.
        files: its source files, path and hash (`orchestrator.results.fingerprints`); pairs, for Tune forbids "/" in keys.
        hashes: the hashes of its code and its data.
    """

    id: str
    run: dict[str, Any]
    commit: str | None
    files: tuple[tuple[str, str], ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)


def read_record(folder: TrialFolder) -> dict[str, Any] | None:
    """The record that `orchestrator.trial.outcome` wrote; None if there is none or it cannot be read."""
    try:
        record = json.loads(folder.result.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def write_begun(folder: TrialFolder, identity: TrialIdentity) -> None:
    """Write the code and data of a trial that begins beside its state; one that is resumed keeps what it began with.

    Args:
        folder: the trial's folder.
        identity: what the trial is.

    Raises:
        WriteError: the file could not be written.
    """
    if not (folder.state / STATE).exists():
        begun = {"files": dict(identity.files), "origin": dict(identity.hashes)}
        write_atomically(folder.state / BEGUN, json.dumps(begun, indent=1).encode())


def read_begun(folder: TrialFolder) -> dict[str, Any]:
    """The code and data that a trial with a saved state began with, as in its record; empty if that is not known."""
    try:
        begun = json.loads((folder.state / BEGUN).read_text()) if (folder.state / STATE).exists() else {}
    except (OSError, ValueError):
        return {}
    return begun if isinstance(begun, dict) else {}


def has_ended(record: Mapping[str, Any], tune: Tune | None = None) -> bool:
    """Whether a trial has a result and need not run again; a failed trial runs again.

    A stopped trial counts as ended while the sweep stops trials by the same rule; otherwise it resumes.

    Args:
        record: the trial's record; empty if it has none.
        tune: the section ``tune`` of the sweep.
    """
    if record.get("status") == "stopped":
        return tune is not None and record["stopped"]["by"] == tune.rule
    return record.get("status") in ("finished", "diverged")
