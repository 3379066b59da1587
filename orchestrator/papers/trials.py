"""Finished trials of any number of sweeps, as the papers' numbers and claims look at them: runs
by dotted key, with metrics.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.report.data import (
    DEAL,
    SLOT_NAMES,
    Repeat,
    Results,
    Row,
    Value,
    leaves,
    read_results,
    repeat,
    text,
)
from orchestrator.results.paths import FolderError
from orchestrator.results.tables import read_table

# Fields that change no result, or only which random numbers are drawn.
IRRELEVANT = (
    "seed",
    "evaluate_every",
    "data.revision",
    "training.device",
    "training.threads",
    "training.clients_per_job",
    "training.backend",
)

# What says where a trial is from: columns, and what is written before their values.
ORIGIN = {"table": "", "commit": "commit ", "torch": "torch ", "processor": ""}

Run = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One finished trial: the hash of its run, the fields of the run by dotted key, and the
    final metrics.

    ``origin`` says where it was read and what it was run with, by column of `ORIGIN`, as far as
    that is recorded.
    """

    id: str
    run: Run
    metrics: Mapping[str, float]
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def pair(self) -> Repeat:
        """Its partition and its seed."""
        return repeat(self.run)


def read_trials(paths: Iterable[Path]) -> tuple[list[Trial], list[str]]:
    """The finished trials of results folders and of folders with tables of measured trials, each
    trial once.

    Args:
        paths: folders ``RESULTS/<sweep>``, or folders of Parquet tables that have a trial's
            resolved run, as JSON, in the column ``run`` (see ``benchmarks/evidence``).

    Returns:
        The trials, and a sentence for each thing that was left out.

    Raises:
        FolderError: a folder has neither, or a table is damaged.
    """
    trials: dict[str, Trial] = {}
    notes: list[str] = []
    for path in paths:
        if not path.is_dir():
            raise FolderError(
                f"{path} is no folder; give RESULTS/<sweep>, or a folder of tables of "
                "measured trials"
            )
        tables = [] if (path / "manifest.json").exists() else sorted(path.glob("*.parquet"))
        if tables:
            rows = [row for table in tables for row in _read_table(table, notes)]
            usable, left_out = _usable(rows, path.name)
        else:
            usable, left_out = trials_of(read_results(path))
        notes += left_out
        for trial in usable:
            trials.setdefault(trial.id, trial)
    return list(trials.values()), notes


def _read_table(table: Path, notes: list[str]) -> list[tuple[Row, Run]]:
    """The rows of a table of measured trials, each with its run; ``notes`` gets a sentence if it
    has no runs.

    Raises FolderError.
    """
    try:
        frame = read_table(table).to_pandas().assign(table=table.stem)
        if not {"id", "status"} <= set(frame):
            return []
        return [(row, flat(json.loads(row["run"]))) for row in frame.to_dict("records")]
    except KeyError:
        notes.append(f"{table.stem}: has no resolved runs (column run); not used")
        return []
    except (OSError, TypeError, ValueError) as error:
        sentence = f"{table} is damaged, or a row has no run (column run); copy it again"
        raise FolderError(sentence) from error


def trials_of(results: Results) -> tuple[list[Trial], list[str]]:
    """The same of one sweep, with swept values also under the keys that the sweep has."""
    rows = []
    for trial in results.trials:
        swept = {
            key: trial[key]
            for key in ("seed", *SLOT_NAMES, *results.keys)
            if trial.get(key) is not None
        }
        rows.append((trial, swept | flat(results.configs.get(trial["id"]) or {})))
    return _usable(rows, results.name)


def _usable(rows: Sequence[tuple[Row, Run]], name: str) -> tuple[list[Trial], list[str]]:
    """The finished trials whose noise can be drawn again, and a sentence for each reason to
    leave others out.
    """
    lost = Counter(row["status"] for row, _ in rows if row["status"] != "finished")
    secret = sum(run.get("privacy.noise") == "secret" for _, run in rows)
    notes = []
    if lost:
        statuses = ", ".join(f"{count} {status}" for status, count in lost.items())
        notes.append(f"{name}: of {len(rows)} trials {statuses}; not used")
    if secret:
        notes.append(
            f"{name}: {secret} trials with secret noise cannot be repeated; they are not used"
        )
    trials = []
    for row, run in rows:
        if row["status"] == "finished" and run.get("privacy.noise") != "secret":
            numbers = {key: value for key, value in row.items() if isinstance(value, float | int)}
            finite = {key: value for key, value in numbers.items() if math.isfinite(value)}
            origin = {key: row[key] for key in ORIGIN if isinstance(row.get(key), str)}
            trials.append(Trial(row["id"], run, finite, origin))
    return trials, notes


def flat(run: Mapping[str, Any]) -> Run:
    """A resolved run by dotted key; attacks by name, and ``attacks`` empty if there is none."""
    return {"attacks": run.get("attacks") or []} | dict(leaves(run))


def agrees(value: Value, condition: Value) -> bool:
    """Whether a value is the wanted one, one of several (``one_of``), or large enough
    (``at_least``).
    """
    if not isinstance(condition, Mapping):
        return text(value) == text(condition)
    if "one_of" in condition:
        return any(agrees(value, choice) for choice in condition["one_of"])
    return isinstance(value, int | float) and value >= condition["at_least"]


def matches(run: Run, conditions: Mapping[str, Value], read: bool = False) -> bool:
    """Whether a run has all wanted values, or with ``read`` those of the fields that it reads."""
    return all(
        agrees(run.get(key), condition)
        for key, condition in conditions.items()
        if key in run or not read
    )


def differing(trials: Sequence[Trial], free: Iterable[str] = ()) -> list[str]:
    """The fields that all runs read and in which they differ, but for seeds, what changes no
    result, and ``free`` slots.
    """
    shared = set.intersection(*(set(trial.run) for trial in trials)) if trials else set()
    keys = (key for key in shared - {*IRRELEVANT, DEAL} if key.split(".")[0] not in free)
    return sorted(key for key in keys if len({json.dumps(trial.run[key]) for trial in trials}) > 1)
