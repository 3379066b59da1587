"""The record of an ended trial: the facts in its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, TypeAdapter
from typing_extensions import TypedDict

from orchestrator.config.document import parsed
from orchestrator.config.tune_section import Tune
from orchestrator.results.log import DamageError, Log, damage_of, read_manifest
from orchestrator.results.paths import TrialFolder
from orchestrator.results.writing import read_plain, remove_folder

# a note
SECRET_NOISE = (
    "not repeatable: the noise was secret, so another run of this trial gives other numbers"
)
UNREPEATABLE = (  # what is said of a damage to such a trial
    "; the trial's noise is secret, so it cannot be repeated: restore {} from a copy, or "
    "delete that folder to begin anew with fresh noise, which the guarantee will count alone, "
    "although models were sent out before"
)


def checked_name(name: str) -> str:
    """The name of a column. Raises ValueError if it cannot be printed."""
    if not name.isprintable():
        raise ValueError(repr(name))
    return name


Name = Annotated[str, AfterValidator(checked_name)]


class Stopped(TypedDict):
    """The end of a trial that a scheduler has stopped."""

    by: dict[str, Any]
    round: int
    value: float


class Built(TypedDict):
    """What a trial's model was built for."""

    shape: list[int]
    classes: int


class Record(TypedDict, total=False):
    """The facts of an ended trial, as far as they are known."""

    status: str
    reason: str | None
    metrics: dict[Name, bool | int | float | str | None]
    seconds: float
    origin: dict[str, str | None]
    notes: list[str]
    stopped: Stopped
    model: Built


RECORD = TypeAdapter(Record)


def is_record(facts: Any) -> None:
    """Raise ValueError if these are not the facts of an ended trial."""
    RECORD.validate_python(facts, strict=True)


@dataclass(frozen=True)
class TrialIdentity:
    """What a trial is: the hash of its resolved configuration, this as plain JSON, and hashes of
    its code and its data.
    """

    id: str
    run: dict[str, Any]
    hashes: Mapping[str, str] = field(default_factory=dict)


def write_record(
    folder: TrialFolder,
    record: Mapping[str, Any],
    run: Mapping[str, Any],
    files: Mapping[str, bytes],
) -> dict[str, Any]:
    """Write the files of an ended trial and, last, the manifest that vouches for them.

    ``record`` has status, reason, metrics, seconds, origin, and what else is known of the trial.
    The resolved ``run`` as plain values becomes ``config.yaml``; ``files`` has the content of the
    others by name. Returns the record as it is read again. Raises WriteError.
    """
    log = Log(folder.path, folder.id)
    for name, content in {
        folder.config.name: yaml.safe_dump(dict(run), sort_keys=False).encode(),
        **files,
    }.items():
        log.append(name, content)
    manifest = log.finish(record)
    if record["status"] not in ("failed", "stopped"):  # those may be resumed
        remove_folder(folder.state)
    return {**manifest.facts, "manifest": manifest.digest}


def read_record(folder: TrialFolder) -> dict[str, Any] | None:
    """The record of an ended trial, with the checksum of its folder as ``manifest``; None if it
    has none, or a damaged one.
    """
    try:
        manifest = read_manifest(folder.path, folder.id, is_record)
    except (FileNotFoundError, DamageError):
        return None
    return {**manifest.facts, "manifest": manifest.digest}


def part_of(folder: TrialFolder, path: Path) -> bytes | None:
    """The content of a file of an ended trial; None if its manifest names none.

    Raises DamageError.
    """
    try:
        manifest = read_manifest(folder.path, folder.id, is_record)
    except FileNotFoundError:
        return None
    return manifest.read(path.name) if path.name in manifest.parts else None


def damage_of_trial(folder: TrialFolder, skip: Sequence[str] = ()) -> DamageError | None:
    """What is damaged of an ended trial; see `damage_of`."""
    return damage_of(folder.path, folder.id, skip, is_record)


def drew_secret_noise(folder: TrialFolder) -> bool:
    """Whether a damaged trial may have drawn secret noise: its configuration says so, or cannot
    be read.
    """
    record = read_record(folder)
    if record:
        return SECRET_NOISE in (record.get("notes") or ())
    try:
        content = read_plain(folder.config)
        return (
            b"noise: secret" in content
            or not {"privacy", "attacks"} <= dict(parsed(content)).keys()
        )
    except (OSError, ValueError, TypeError):
        return True


def has_ended(record: Mapping[str, Any], tune: Tune | None = None) -> bool:
    """Whether a trial has a result and need not run again; a failed trial runs again.

    A stopped trial counts as ended while the sweep stops trials by the same rule; otherwise it
    resumes.
    """
    if record.get("status") == "stopped":
        return tune is not None and record.get("stopped", {}).get("by") == tune.rule
    return record.get("status") in ("finished", "diverged")
