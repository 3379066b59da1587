"""The record of an ended trial, ``result.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from orchestrator.config.tune_section import Tune
from orchestrator.results.folder import TrialFolder, write_atomically
from orchestrator.results.integrity import Damage, DamageError, file_checksum, read_mapping, read_sealed, sealed
from orchestrator.results.record_values import wrong_value
from orchestrator.results.stamped import require_regular
from orchestrator.results.writing import read_plain

BEGUN = "origin.json"  # beside a trial's state: the code and data that it began with
STATE = "state.safetensors"
TABLES = ("rounds", "clients", "attacks", "scores", "roc")
SECRET_NOISE = "not repeatable: the noise was secret, so another run of this trial gives other numbers"  # a note
CHECKSUMS = "checksums"  # the key of a record with the checksums of the trial's other files


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


def result_files(folder: TrialFolder) -> list[Path]:
    """The files that a trial may leave besides its record, whether they exist or not: its run, its models, its tables."""
    return [folder.config, folder.model, *map(folder.table, TABLES)]


def config_bytes(run: Mapping[str, Any]) -> bytes:
    """The content of ``config.yaml``.

    Args:
        run: the resolved run as plain values.
    """
    return yaml.safe_dump(dict(run), sort_keys=False).encode()


def save_record(folder: TrialFolder, record: Mapping[str, Any]) -> dict[str, Any]:
    """Write ``result.json``, sealed, with the checksums of the trial's other files as they are now.

    Args:
        folder: the trial's folder.
        record: the record without checksums.

    Returns:
        The record with them.

    Raises:
        WriteError: the file could not be written.
    """
    there = [path for path in result_files(folder) if path.is_file()]
    kept = {**record, CHECKSUMS: {path.name: file_checksum(path) for path in there}}
    write_atomically(folder.result, json.dumps(sealed(kept), indent=1).encode())
    return kept


def read_record(folder: TrialFolder) -> dict[str, Any] | None:
    """The record of an ended trial; None if there is none, or if it cannot be believed (see `checked_record`)."""
    try:
        return checked_record(folder)
    except (FileNotFoundError, DamageError):
        return None


def checked_record(folder: TrialFolder) -> dict[str, Any]:
    """Read the record of an ended trial.

    A record of an earlier version has no seal: its values are checked, and so they are in a sealed one.

    Args:
        folder: the trial's folder.

    Raises:
        FileNotFoundError: there is no record.
        DamageError: it is not what was saved, is that of another trial, or has values that no trial has.
    """
    record, whole = read_mapping(folder.result)
    if problem := wrong_value(record, folder.id, whole):
        raise DamageError(Damage(folder.result, f"is not what was saved: {problem}"))
    return record


def write_begun(folder: TrialFolder, identity: TrialIdentity) -> None:
    """Write the code and data of a trial that begins beside its state; one that is resumed keeps what it began with.

    Args:
        folder: the trial's folder.
        identity: what the trial is.

    Raises:
        WriteError: the file could not be written.
    """
    if not (folder.state / STATE).exists():
        begun = sealed({"id": identity.id, "files": dict(identity.files), "origin": dict(identity.hashes)})
        write_atomically(folder.state / BEGUN, json.dumps(begun, indent=1).encode())


def read_begun(folder: TrialFolder) -> dict[str, Any]:
    """The code and data that a trial with a saved state began with, as in its record; empty if that is not known."""
    try:
        return _begun(folder) if (folder.state / STATE).exists() else {}
    except (OSError, DamageError):
        return {}


def begun_damage(folder: TrialFolder) -> Damage | None:
    """What is wrong with the file that says what a trial began with; None also where an earlier version wrote none."""
    try:
        _begun(folder)
    except FileNotFoundError:
        return None
    except DamageError as error:
        return error.damage
    return None


def _begun(folder: TrialFolder) -> dict[str, Any]:
    """Read what `write_begun` wrote, in this version or an older one. Raises FileNotFoundError, DamageError."""
    path = folder.state / BEGUN
    require_regular(path)
    begun = read_sealed(path)
    if begun.pop("id", folder.id) != folder.id:
        raise DamageError(Damage(path, "is of another trial"))
    if begun.keys() != {"files", "origin"} or not all(_is_texts(one) for one in begun.values()):
        raise DamageError(Damage(path, "does not say what code and data the trial began with"))
    return begun


def _is_texts(values: Any) -> bool:
    return isinstance(values, dict) and all(isinstance(value, str) for value in values.values())


def drew_secret_noise(folder: TrialFolder, record: Mapping[str, Any] | None) -> bool | None:
    """Whether a trial drew secret noise, as its record or its configuration says; None if neither can be believed.

    Args:
        folder: the trial's folder.
        record: the trial's record; None if it is damaged or missing.
    """
    if record is not None and CHECKSUMS in record:
        return SECRET_NOISE in (record.get("notes") or ())
    try:
        return bool(yaml.safe_load(read_plain(folder.config))["privacy"].get("noise") == "secret")
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, yaml.YAMLError):
        return None


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
