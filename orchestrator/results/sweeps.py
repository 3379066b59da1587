"""The manifest of a sweep: its name, id, file and trials. The rows of its trials follow from it and from their records."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from algorithms.core.metric import Metric
from datasets import outside
from datasets.components import Preset, complete, components, own_components
from datasets.outside import Declaration, room
from orchestrator.config.slots import SLOTS
from orchestrator.results.log import DamageError, Log, Manifest, damage_of, in_parallel, quarantine, read_manifest
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.record import read_record
from orchestrator.results.tables import write_table
from orchestrator.results.writing import write_atomically

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
    """Write what a claimed folder says of its sweep; ``sweep.yaml`` and ``trials.parquet`` follow from it.

    Its facts are an ``id``, what components from outside declare (``declared``), the ``file``, which is ``text``, without
    overrides, the overrides (``sets``, as ``key=value``), the ``swept`` keys, dotted, in the order of the file, sentences on
    the search that chooses among the trials (``tuned``), and the ``trials``: the ``plan``, a row for each, of what is known
    before it runs (``id``, components, seed, rounds, swept values). Returns sentences on what was damaged. Raises WriteError.
    """
    notes, identity = [], uuid.uuid4().hex
    try:
        identity = str(read_manifest(folder.path, name).facts["id"])
    except FileNotFoundError:
        pass
    except DamageError as error:
        notes.append(f"{error}: it is set aside as {quarantine(folder.manifest).name}, and written anew")
    facts = {"id": identity, "file": text, "sets": sets, "swept": swept, "tuned": tuned, "declared": declared()}
    Log(folder.path, name).finish(facts | {"trials": list(plan)})
    overrides = "".join(f"\n# --set {change}" for change in sets)
    write_atomically(folder.sweep, f"{text.rstrip(chr(10))}{overrides}\n".encode())
    write_trials(folder)
    return notes


def write_trials(folder: Folder) -> None:
    """Write ``trials.parquet`` from the manifests. Raises WriteError, DamageError."""
    write_table(folder.table, trial_rows(folder))


def read_sweep(folder: Folder) -> Manifest:
    """The manifest of a sweep, whose facts are those of `write_sweep`.

    Raises:
        FileNotFoundError: the folder holds no sweep.
        DamageError: the manifest is not what was saved.
    """
    manifest = read_manifest(folder.path)
    if not {"id", "swept", "declared", "trials"} <= manifest.facts.keys():
        raise FileNotFoundError(folder.manifest)
    return manifest


def sweep_files(folder: Folder) -> list[Path]:
    """The files that a sweep itself shows: its own file, its table of trials, and those of its report."""
    files = [folder.sweep, folder.table, *sorted(folder.report.glob("*"))]
    return [file for file in files if file.is_file() and not file.name.startswith(".")]


def content_hash(folder: Folder) -> str:
    """A hash of what a sweep shows: its file, its table of trials, and its report."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sweep_files(folder):
        digest.update(file.name.encode() + hashlib.blake2b(file.read_bytes()).digest())
    return digest.hexdigest()


def trial_rows(folder: Folder) -> list[Row]:
    """One row per trial: id, status, components, seed, rounds, swept values, reason, notes, final metrics.

    Raises:
        FileNotFoundError: the folder holds no sweep.
        DamageError: the sweep's manifest is not what was saved.
    """
    rows = []
    for planned in read_sweep(folder).facts["trials"]:
        record: Mapping[str, Any] = read_record(folder.trial(planned["id"])) or {}
        first = {"id": planned["id"], "status": record.get("status", "unfinished")}
        notes = {"notes": "; ".join(record["notes"])} if record.get("notes") else {}
        rows.append({**first, **planned, "reason": record.get("reason"), **notes, **record.get("metrics", {})})
    return rows


def sweeps_in(path: Path) -> list[Folder]:
    """The sweeps in a folder: itself, or those below it, by name; links are not followed.

    Raises:
        FolderError: there is none, or it is no folder.
    """
    if not os.path.isdir(path):  # Path.is_dir raises for a name that is too long
        raise FolderError(f"{str(path)[:200]} is no folder; give RESULTS or RESULTS/<sweep>")
    for candidates in ([path], sorted(below for below in path.iterdir() if not below.is_symlink())):
        if sweeps := [it for it in map(Folder, candidates) if it.manifest.is_file() or (it.path / "trials").is_dir()]:
            return sweeps
    raise FolderError(f"{path} holds no results of fedpriv; give RESULTS or RESULTS/<sweep>")


def damages_of(sweep: Folder) -> Iterator[DamageError]:
    """What is damaged of a sweep: its own manifest, its trials, what unfinished ones have saved, and its cache."""
    if not sweep.manifest.exists():
        yield DamageError(sweep.manifest, "is missing")
    folders: list[tuple[Path, str | None]] = [(sweep.path, None), (sweep.report, None)]
    folders += [(path, trial.id) for trial in sweep.trials() for path in (trial.path, trial.state)]
    folders += [(entry, entry.name) for entry in sorted(sweep.cache.glob("*"))]
    yield from filter(None, in_parallel(lambda folder: damage_of(*folder), folders))


# What components from outside the checkout say of themselves is kept with the results as plain data: a report runs no code but
# ours, and the code of an own component may be gone or have changed when a report is written.


def declared() -> list[dict[str, Any]]:
    """What the components from outside declare in this process, by the names of `Declaration`, as JSON has it."""
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
    plain: list[dict[str, Any]] = json.loads(json.dumps(entries, default=lambda value: value.item()))
    return plain


def believe(entries: Sequence[Mapping[str, Any]]) -> None:
    """Let reports describe components from outside as they were when results were made."""
    declarations = []
    for entry in entries:
        metrics = TypeAdapter(tuple[Metric, ...]).validate_python(entry["METRICS"])
        presets = {name: Preset(label, {}) for name, label in entry["PRESETS"].items()}
        declarations.append(Declaration(**{**entry, "METRICS": metrics, "PRESETS": presets}))
    outside.declare(declarations)
