"""A results folder as the reports see it: its trials, what was swept, and the tables of each trial.

Reads ``RESULTS/<sweep>`` and never writes. Whatever a run has left is used: a trial without a result is kept and
counted, a missing table is a trial without a curve.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from orchestrator.metric_names import METRICS, ordered
from orchestrator.report.swept import SLOT_NAMES, swept_settings
from orchestrator.report.values import Row, Value, lookup, plain, sort_key, text

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

Trials: TypeAlias = "pd.DataFrame | Iterable[Mapping[str, Any]]"
Floats: TypeAlias = "NDArray[np.float64]"
Configs: TypeAlias = "Mapping[str, Mapping[str, Any]]"

STATUSES = ("finished", "stopped", "diverged", "failed", "unfinished")
# Columns of trials.parquet that are never a result; a single model has all clients.
BOOKKEEPING = {"id", "status", "seed", "rounds", "evaluate_every", "attacks", "reason", "clients_global", *SLOT_NAMES}


class NoResultsError(ValueError):  # noqa: N818
    """A folder holds nothing to report on. The message says what was looked for, and where."""


@dataclass(frozen=True)
class Setting:
    """The trials that differ in their seed alone: ``values`` of the swept keys, and the trials sorted by seed."""

    values: tuple[Value, ...]
    trials: tuple[Row, ...]

    @cached_property
    def finished(self) -> list[Row]:
        return [trial for trial in self.trials if trial["status"] == "finished"]

    def measured(self, metric: str) -> list[float]:
        """The metric over the finished trials that have it, in the order of their seeds."""
        values = [trial.get(metric) for trial in self.finished]
        return [float(value) for value in values if value is not None]

    @property
    def unfinished(self) -> str:
        """What became of the other trials, for example "2 diverged, 1 failed"; empty if all have finished."""
        return ", ".join(f"{n} {status}" for status, n in counts(self.trials).items() if status != "finished")


@dataclass(frozen=True)
class Results:
    """One sweep's results.

    Attributes:
        folder: where they lie; the sweep has the folder's name.
        trials: every trial, by setting and seed, with a plain value for each of ``keys``.
        keys: what was swept besides the seed, dotted.
        metrics: the final metrics that any trial may have, in the order of the reports.
        configs: the resolved run of every trial that has a readable one, by id.
    """

    folder: Path
    trials: tuple[Row, ...]
    keys: tuple[str, ...]
    metrics: tuple[str, ...]
    configs: Configs

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def settings(self) -> list[Setting]:
        return settings(self.trials, self.keys)

    @cached_property
    def rounds(self) -> dict[str, list[Row]]:
        """Rounds of the finished trials by id, in order. A round that was run again counts once, as it was last."""
        finished = [trial for trial in self.trials if trial["status"] == "finished"]
        tables = {trial["id"]: self.table(trial, "rounds") for trial in finished}
        last = {key: {row["round"]: row for row in table if "round" in row} for key, table in tables.items()}
        return {key: [found[number] for number in sorted(found)] for key, found in last.items()}

    def table(self, trial: Row, name: str) -> list[Row]:
        """Rows of ``trials/<id>/<name>.parquet``; none if the trial left no readable table of that name."""
        import pandas as pd

        path = self.folder / "trials" / trial["id"] / f"{name}.parquet"
        try:
            return rows(pd.read_parquet(path))
        except (OSError, ValueError):
            return []

    def columns(self, trial: Row, name: str, wanted: Sequence[str]) -> dict[str, Floats] | None:
        """The ``wanted`` columns of a trial's table as numbers [rows], NaN where empty; None unless it has them all."""
        import pandas as pd

        path = self.folder / "trials" / trial["id"] / f"{name}.parquet"
        try:
            frame = pd.read_parquet(path, columns=list(wanted))
            return {column: frame[column].to_numpy("float64", na_value=float("nan")) for column in wanted}
        except (OSError, ValueError):
            return None

    def value(self, trial: Row, path: str) -> Value:
        """What the trial ran with at a dotted path, swept or not; None if that is not known."""
        if trial.get(path) is not None:
            return trial[path]
        return lookup(self.configs.get(trial["id"]), path)


def read_trials(folder: Path) -> pd.DataFrame:
    """The table of all trials of a sweep, one row each.

    Raises:
        NoResults: the folder or its ``trials.parquet`` is absent, unreadable, or without a row.
    """
    import pandas as pd

    path = Path(folder) / "trials.parquet"
    if not path.is_file():
        raise NoResultsError(f"{folder} holds no results: there is no {path.name} in it (run the sweep first)")
    try:
        trials = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise NoResultsError(f"{path} cannot be read as a Parquet table: {error}") from error
    missing = [column for column in ("id", "status") if column not in trials]
    if missing:
        raise NoResultsError(f"{path} is not a table of trials: it has no column {' and no column '.join(missing)}")
    if trials.empty:
        raise NoResultsError(f"{path} lists no trial (run the sweep first)")
    return trials


def read_results(folder: Path) -> Results:
    """Everything that the reports need of ``RESULTS/<sweep>``; raises `NoResultsError` like `read_trials`."""
    folder = Path(folder)
    table = rows(read_trials(folder))
    declared = _mapping(folder / "sweep.yaml").get("sweep")
    configs = {row["id"]: _mapping(folder / "trials" / row["id"] / "config.yaml") for row in table}
    return results(folder, table, declared if isinstance(declared, Mapping) else (), configs)


def results(folder: Path, table: list[Row], declared: Iterable[str], configs: Configs) -> Results:
    """`Results` from rows in memory; ``declared`` are the swept keys in the order of the sweep's file."""
    table, keys = swept_settings(table, tuple(declared), configs)
    names = {name for name in table[0] if "." not in name} - BOOKKEEPING - set(keys)
    measured = {name for name in names if name in METRICS or _is_numeric(name, table)}
    trials = [trial for setting in settings(table, keys) for trial in setting.trials]
    return Results(folder, tuple(trials), keys, ordered(measured), configs)


def settings(trials: Sequence[Row], keys: tuple[str, ...]) -> list[Setting]:
    """The trials by setting, sorted by value; keys count from the left."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for trial in trials:
        groups.setdefault(tuple(text(trial.get(key)) for key in keys), []).append(trial)
    found = [
        Setting(
            tuple(group[0].get(key) for key in keys),
            tuple(sorted(group, key=lambda t: (sort_key(t.get("seed")), text(t.get("id"))))),
        )
        for group in groups.values()
    ]
    return sorted(found, key=lambda setting: tuple(sort_key(value) for value in setting.values))


def counts(trials: Iterable[Row]) -> dict[str, int]:
    """Number of trials by status, the usual ones first; a status that does not occur is left out."""
    seen = [text(trial["status"]) or "unfinished" for trial in trials]
    order = [*STATUSES, *sorted(set(seen) - set(STATUSES))]
    return {status: seen.count(status) for status in order if status in seen}


def rows(table: Trials) -> list[Row]:
    """The rows of a table as plain mappings of all its columns, missing values as None."""
    frame: Any = table
    if hasattr(frame, "itertuples"):
        columns = [str(column) for column in frame.columns]
        given = (zip(columns, row, strict=True) for row in frame.itertuples(index=False, name=None))
        return [{name: plain(value) for name, value in row} for row in given]
    held = list(table)
    names = list(dict.fromkeys(name for row in held for name in row))
    return [{name: plain(row.get(name)) for name in names} for row in held]


def _is_numeric(column: str, table: list[Row]) -> bool:
    numbers = [isinstance(row[column], int | float) for row in table if row[column] is not None]
    return bool(numbers) and all(numbers)


def _mapping(path: Path) -> Mapping[str, Any]:
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeError, yaml.YAMLError):
        return {}
    return loaded if isinstance(loaded, Mapping) else {}
