"""The manifest of a sweep: its name, id, file and trials.

The rows of its trials follow from it and from their records.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from string import Formatter
from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from algorithms.core.metric import Metric
from datasets import outside
from datasets.components import Preset, complete, components, own_components
from datasets.outside import Declaration, room
from orchestrator.config.slots import SLOTS
from orchestrator.results.log import (
    MANIFEST,
    DamageError,
    Log,
    Manifest,
    damage_of,
    in_parallel,
    quarantine,
    read_manifest,
)
from orchestrator.results.paths import LINK, Folder, FolderError
from orchestrator.results.record import Name, damage_of_trial, read_record
from orchestrator.results.tables import write_table
from orchestrator.results.writing import read_plain, write_atomically

Row = dict[str, Any]


def write_sweep(
    folder: Folder,
    name: str,
    text: str,
    plan: Iterable[Row],
    swept: Sequence[str] = (),
    sets: Sequence[str] = (),
    tuned: Sequence[str] = (),
) -> list[str]:
    """Write what a claimed folder says of its sweep; ``sweep.yaml`` and ``trials.parquet``
    follow from it.

    Its facts are an ``id``, what components from outside declare (``declared``), the ``file``,
    which is ``text``, without overrides, the overrides (``sets``, as ``key=value``), the ``swept``
    keys, dotted, in the order of the file, sentences on the search that chooses among the trials
    (``tuned``), and the ``trials``: the ``plan``, a row for each, of what is known before it runs
    (``id``, components, seed, rounds, swept values). Returns sentences on what was damaged. Raises
    WriteError.
    """
    notes = []
    identity = uuid.uuid4().hex
    try:
        identity = read_manifest(folder.path, name, is_sweep).facts["id"]
    except FileNotFoundError:
        pass
    except DamageError as error:
        notes.append(
            f"{error}: it is set aside as {quarantine(folder.manifest).name}, and written anew"
        )
    facts = {
        "id": identity,
        "file": text,
        "sets": sets,
        "swept": swept,
        "tuned": tuned,
        "declared": declared(),
    }
    Log(folder.path, name).finish(facts | {"trials": list(plan)})
    write_atomically(folder.sweep, sweep_text(facts).encode())
    write_trials(folder)
    return notes


def write_trials(folder: Folder) -> None:
    """Write ``trials.parquet`` from the manifests. Raises WriteError, DamageError."""
    write_table(folder.table, trial_rows(folder))


def sweep_text(facts: Mapping[str, Any]) -> str:
    """The content of ``sweep.yaml``: the sweep file, with the overrides as comments."""
    overrides = "".join(f"\n# --set {change}" for change in facts.get("sets", ()))
    return f"{facts['file'].rstrip(chr(10))}{overrides}\n"


class Sweep(TypedDict):
    """The facts of a sweep, see `write_sweep`."""

    id: str
    file: str
    sets: NotRequired[list[str]]
    swept: list[str]
    tuned: NotRequired[list[str]]
    declared: list[dict[str, Any]]
    trials: list[dict[Name, Any]]


SWEEP = TypeAdapter(Sweep)


def is_sweep(facts: Any) -> None:
    """Raise an error if these are not the facts of a sweep, FileNotFoundError if they are those
    of something else.
    """
    if not {"id", "swept", "declared", "trials"} <= facts.keys():
        raise FileNotFoundError
    SWEEP.validate_python(facts, strict=True)
    declarations(facts["declared"])
    if not all("id" in trial for trial in facts["trials"]):
        raise KeyError("id")


def read_sweep(folder: Folder, owner: str | None = None) -> Manifest:
    """The manifest of a sweep, whose facts are those of `write_sweep`; ``owner`` is the sweep
    that it must be, if any.

    Raises:
        FileNotFoundError: the folder holds no sweep.
        DamageError: the manifest is not what was saved.
    """
    return read_manifest(folder.path, owner, is_sweep)


def sweep_files(folder: Folder) -> dict[Path, bytes]:
    """What a sweep itself shows: its own file, its table of trials, and the parts of its report,
    as they were written.

    Raises:
        FileNotFoundError: the folder holds no sweep.
        DamageError: the sweep's manifest is not what was saved.
    """
    files = {folder.sweep: sweep_text(read_sweep(folder).facts).encode()}
    with suppress(OSError):
        files[folder.table] = read_plain(folder.table)
    with suppress(FileNotFoundError, DamageError):
        report = read_manifest(folder.report)
        parts = {name: report.read(name) for name in report.parts}
        parts[MANIFEST] = read_plain(folder.report / MANIFEST)
        files |= {folder.report / name: parts[name] for name in sorted(parts)}
    return files


def content_hash(folder: Folder) -> str:
    """A hash of what a sweep shows, see `sweep_files`."""
    digest = hashlib.blake2b(digest_size=8)
    for file, content in sweep_files(folder).items():
        digest.update(file.name.encode() + hashlib.blake2b(content).digest())
    return digest.hexdigest()


def trial_rows(folder: Folder) -> list[Row]:
    """One row per trial: id, status, components, seed, rounds, swept values, reason, notes,
    final metrics.

    Raises:
        FileNotFoundError: the folder holds no sweep.
        DamageError: the sweep's manifest is not what was saved.
    """
    rows = []
    for planned in read_sweep(folder).facts["trials"]:
        record: Mapping[str, Any] = read_record(folder.trial(planned["id"])) or {}
        first = {"id": planned["id"], "status": record.get("status", "unfinished")}
        notes = {"notes": "; ".join(record["notes"])} if record.get("notes") else {}
        rows.append(
            {
                **first,
                **planned,
                "reason": record.get("reason"),
                **notes,
                **record.get("metrics", {}),
            }
        )
    return rows


def sweeps_in(path: Path) -> list[Folder]:
    """The sweeps in a folder: itself, or those below it, by name; links are not followed.

    Raises:
        FolderError: there is none, or it is no folder.
    """
    if not os.path.isdir(path):  # Path.is_dir raises for a name that is too long
        raise FolderError(f"{str(path)[:200]} is no folder; give RESULTS or RESULTS/<sweep>")
    for candidates in ([path], sorted(below for below in path.iterdir() if not below.is_symlink())):
        sweeps = [
            it
            for it in map(Folder, candidates)
            if it.manifest.is_file() or (it.path / "trials").is_dir()
        ]
        if sweeps:
            return sweeps
    raise FolderError(f"{path} holds no results of fedpriv; give RESULTS or RESULTS/<sweep>")


def damages_of(sweep: Folder) -> Iterator[DamageError]:
    """What is damaged of a sweep: its own manifest, its trials, what unfinished ones have saved,
    and its cache.
    """
    yield from (DamageError(link, LINK) for link in sweep.links())
    try:
        read_sweep(sweep, sweep.name)
    except DamageError as error:
        yield error
    except FileNotFoundError:
        lost = sweep.manifest.exists()
        yield DamageError(
            sweep.manifest,
            "is not what was saved: it is that of no sweep" if lost else "is missing",
        )
    trials = sweep.trials()
    yield from filter(None, in_parallel(damage_of_trial, trials))
    folders = [(sweep.report, sweep.name), *((trial.state, trial.id) for trial in trials)]
    folders += [(entry, entry.name) for entry in sorted(sweep.cache.glob("*"))]
    yield from filter(None, in_parallel(lambda folder: damage_of(*folder), folders))


# What components from outside the checkout say of themselves is kept with the results as plain
# data: a report runs no code but ours, and the code of an own component may be gone or have changed
# when a report is written.


def declared() -> list[dict[str, Any]]:
    """What the components from outside declare in this process, by the names of `Declaration`,
    as JSON has it.
    """
    entries = []
    for folder in (slot.folder for slot in SLOTS):
        for name in sorted(components(folder).keys() - set(own_components(folder))):
            module = complete(folder, name)
            entry = {"room": room(folder), "name": name, "LABEL": module.LABEL}
            entry |= {"METRICS": [asdict(metric) for metric in module.METRICS]}
            entry |= {"PRESETS": {preset: fixed.label for preset, fixed in module.PRESETS.items()}}
            if folder == "attacks":
                entry |= {"KINDS": module.KINDS, "SEES": module.SEES, "ADVERSARY": module.ADVERSARY}
            entries.append(entry)
    plain: list[dict[str, Any]] = json.loads(
        json.dumps(entries, default=lambda value: value.item())
    )
    return plain


def believe(entries: Sequence[Mapping[str, Any]]) -> None:
    """Let reports describe components from outside as they were when results were made."""
    outside.declare(declarations(entries))


METRICS = TypeAdapter(tuple[Metric, ...])
DECLARATION = TypeAdapter(Declaration)


def declarations(entries: Sequence[Mapping[str, Any]]) -> list[Declaration]:
    """What components from outside declare, as `declared` has it.

    Raises ValueError, TypeError or KeyError.
    """
    made = []
    for entry in entries:
        metrics = METRICS.validate_python(entry["METRICS"])
        for reading in (metric.reading for metric in metrics):
            list(Formatter().parse(reading))
        presets = {name: Preset(label, {}) for name, label in entry["PRESETS"].items()}
        made.append(DECLARATION.validate_python({**entry, "METRICS": metrics, "PRESETS": presets}))
    return made
