"""Reading a results folder for the reports: its trials, the swept keys, the tables of each
trial, and plain values.

Nothing is written. Incomplete results are used as far as possible: a trial without a result is
counted, and a trial without a table has no curve.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from algorithms.core.columns import is_unnamed_model, of_one_model
from algorithms.metrics.statistics import Estimate, claims, estimate, limits
from datasets.federation import printable, printed
from orchestrator.config import slots
from orchestrator.config.document import KeyPathError, locate, parsed, value_at
from orchestrator.config.errors import ConfigError, ConfigProblem, amount
from orchestrator.config.metric_names import metric, metrics, ordered
from orchestrator.results.log import DamageError, in_parallel
from orchestrator.results.paths import Folder, FolderError, TrialFolder
from orchestrator.results.record import damage_of_trial, part_of
from orchestrator.results.sweeps import believe, read_sweep, trial_rows
from orchestrator.results.tables import read_table

if TYPE_CHECKING:
    import pandas as pd

Key = TypeVar("Key")
Item = TypeVar("Item")
Value = Any  # None, bool, int, float, str, or lists and dicts of these
Row = dict[str, Value]

BASELINES = {
    slot.default for slot in slots.SLOTS
}  # what a slot has by default is its baseline, and sorted first


def read_yaml(path: Path) -> Any:
    """Return what a YAML file of ours holds."""
    return parsed(path.read_text(encoding="utf-8"))


def plain(value: Any) -> Value:
    """The Python value of a cell: NumPy values are unwrapped, JSON lists and mappings are
    parsed, NaN becomes None.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, str) and value[:1] in ("[", "{"):
        with suppress(ValueError):
            return json.loads(value)
    return None if isinstance(value, float) and math.isnan(value) else value


def text(value: Value) -> str:
    """A value as short text: empty for None and NaN, 0.3 for 0.30000000000000004, 5 for 5.0,
    JSON for lists.
    """
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list | dict):
        return json.dumps(json.loads(json.dumps(value), parse_float=_short), sort_keys=True)
    return str(value)


def sort_key(value: Value) -> tuple[Any, ...]:
    """A key to sort mixed values: None, numbers by size, lists by their entries, then texts with
    baselines first.
    """
    if value is None:
        return (0,)
    if isinstance(value, int | float):
        return (1, float(value))
    if isinstance(value, list):
        return (2, *(sort_key(item) for item in value))
    return (3, text(value) not in BASELINES, text(value))


def lookup(config: Value, path: str) -> Value:
    """The value at a dotted key of a run, None if absent; an entry of a list is addressed by
    name or position.
    """
    with suppress(KeyPathError):
        return value_at(config, locate(config, path.split(".")))
    return None


def _short(digits: str) -> float:
    short = float(f"{float(digits):.10g}")
    return int(short) if short.is_integer() else short


SLOTS = (
    "data",
    "data.split",
    "model",
    "training",
    "clustering",
    "objective",
    "aggregation",
    "privacy",
)
SLOT_NAMES = tuple(f"{slot}.name" for slot in SLOTS)
SECTIONS = {
    *SLOTS,
    "attacks",
    "curvature",
}  # where dotted keys begin; groups such as "v1.5" put dots into metrics' names
# Keys of a run without a dot that are not slots: they are settings only if they differ between
# trials.
PLAIN_KEYS = ("rounds", "evaluate_every", "server_sees")
# Keys in which the repetitions of a setting differ: the partition of the data and the seed of
# everything else.
DEAL = "data.split_seed"
REPEATS = (DEAL, "seed")


def swept_settings(
    table: Sequence[Row], declared: Iterable[str], configs: Mapping[str, Value]
) -> tuple[list[Row], tuple[str, ...]]:
    """Find the settings of the trials.

    A mapping (a slot that was swept as a whole) is replaced by those of its entries that differ
    between trials. A value that is missing in a row is taken from the trial's resolved run.

    Returns:
        The rows with a plain value for every setting, and the keys of the settings, declared ones
        first. The keys of `REPEATS` are none of them.
    """
    values = {key: [_ran_with(row, key, configs) for row in table] for key in declared}
    keys = [
        key
        for key, column in values.items()
        if key in table[0] or any(value is not None for value in column)
    ]
    for column in (column for column in table[0] if column not in keys):
        varies = column in SLOT_NAMES or column in PLAIN_KEYS
        if len({text(row[column]) for row in table}) > 1 if varies else is_key(column):
            keys.append(column)
    columns: dict[str, list[Value]] = {}
    for key in keys:
        if key != "seed":
            columns |= _expanded(key, [_ran_with(row, key, configs) for row in table])
    rows = [
        row | {key: values[at] for key, values in columns.items()} for at, row in enumerate(table)
    ]
    return rows, tuple(key for key in columns if key not in REPEATS)


def is_key(column: str) -> bool:
    """Whether a column of ``trials.parquet`` is a slot or a dotted key of a run.

    >>> is_key("privacy.clip"), is_key("accuracy_v1.5")
    (True, False)
    """
    return column in SLOTS or ("." in column and column.partition(".")[0] in SECTIONS)


def _ran_with(row: Row, key: str, configs: Mapping[str, Value]) -> Value:
    """The value in the row; if it is missing, a number as text, or a name where the run has a
    mapping, that of the run.
    """
    value = row.get(key)
    resolved = lookup(configs.get(row["id"]), key)
    compound = isinstance(resolved, list | dict) and not isinstance(value, list | dict)
    return resolved if value is None or value == json.dumps(resolved) or compound else value


def _expanded(key: str, values: list[Value]) -> dict[str, list[Value]]:
    """The column itself or, of mappings, the columns of their fields that differ and do not
    follow from ``name``.
    """
    fields = [dict(leaves(value, key)) for value in values]
    if all(set(row) == {key} for row in fields):
        return {key: values}
    fields = [{f"{key}.name": row[key]} if set(row) == {key} else row for row in fields]
    every = dict.fromkeys(name for row in fields for name in row)
    columns = {name: [row.get(name) for row in fields] for name in every}
    varied = {name: column for name, column in columns.items() if len(set(map(text, column))) > 1}
    names = [text(name) for name in varied.get(f"{key}.name", ())]

    def follows(column: list[Value]) -> bool:
        return len(set(names)) == len(set(zip(names, map(text, column), strict=True)))

    return {
        name: column
        for name, column in varied.items()
        if name == f"{key}.name" or not (names and follows(column))
    }


def leaves(config: Value, inside: str = "") -> Iterator[tuple[str, Value]]:
    """The fields of a run, or of its part ``inside``, by dotted key.

    Attacks are entered by name.
    """
    if (
        isinstance(config, list)
        and config
        and all(isinstance(item, Mapping) and "name" in item for item in config)
    ):
        config = {
            item["name"]: {key: value for key, value in item.items() if key != "name"}
            for item in config
        }
    if not isinstance(config, Mapping):
        yield inside, config
        return
    for key, value in config.items():
        yield from leaves(value, f"{inside}.{key}" if inside else str(key))


Configs: TypeAlias = "Mapping[str, Mapping[str, Any]]"
Repeat: TypeAlias = tuple[str, str]  # the partition and the seed of a trial, as texts

REPAIRED = "; the same `fedpriv run` repairs it"
NAMED = 10  # damaged files that have a sentence each
STATUSES = ("finished", "stopped", "diverged", "failed", "unfinished")
# Columns of trials.parquet that are not results. (A single global model always has all clients.)
NOT_RESULTS = {
    "id",
    "status",
    "seed",
    "rounds",
    "evaluate_every",
    "attacks",
    "reason",
    "notes",
    "clients_global",
}


@dataclass(frozen=True)
class Setting:
    """The values of the swept keys, and their repetitions: trials that differ only in their seed
    or that of the partition.
    """

    values: tuple[Value, ...]
    trials: tuple[Row, ...]

    @cached_property
    def finished(self) -> list[Row]:
        """The trials with the status ``finished``."""
        return [trial for trial in self.trials if trial["status"] == "finished"]

    @property
    def repetitions(self) -> int:
        """The number of independent repetitions that have finished, see `independent`."""
        return len(independent([(repeat(trial), 0.0) for trial in self.finished]))

    def measured(self, metric: str) -> list[float]:
        """The independent values of ``metric`` in the finished trials that have it, see
        `independent`.
        """
        return independent(
            [(repeat(t), float(t[metric])) for t in self.finished if t.get(metric) is not None]
        )

    def estimate(self, name: str) -> Estimate:
        """The mean and interval of the metric ``name``; of a guarantee, its range."""
        described = metric(name)
        if described.bound == "upper":  # it must hold for every trial, so none is averaged
            return claims(
                [float(trial[name]) for trial in self.finished if trial.get(name) is not None]
            )
        return replace(estimate(self.measured(name), limits(described)), bound=described.bound)


@dataclass(frozen=True)
class Results:
    """The results of one sweep.

    Attributes:
        folder: the results folder; the sweep has its name.
        trials: all trials, sorted by setting and repetition, with a plain value for each of
            ``keys``.
        keys: the swept keys except the seeds of the run and of the partition, dotted.
        metrics: the final metrics of the trials, in the order of the reports.
        configs: the resolved run of every trial whose ``config.yaml`` is readable, by id.
        facts: what the sweep's manifest says (`orchestrator.results.sweeps.write_sweep`); empty of
            made up results.
    """

    folder: Path
    trials: tuple[Row, ...]
    keys: tuple[str, ...]
    metrics: tuple[str, ...]
    configs: Configs
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the sweep, which can be printed."""
        return printable(self.folder.name)

    @property
    def state(self) -> str:
        """The number of trials in total and by status, for example "6 trials: 5 finished, 1
        diverged.".
        """
        states = ", ".join(f"{n} {status}" for status, n in counts(self.trials).items())
        return f"{amount(len(self.trials), 'trial')}: {states}."

    @cached_property
    def settings(self) -> list[Setting]:
        """The trials grouped by the values of the swept keys."""
        return settings(self.trials, self.keys)

    def has(self, metric: str) -> bool:
        """Whether a setting has a value of ``metric``."""
        return any(setting.measured(metric) for setting in self.settings)

    @cached_property
    def rounds(self) -> dict[str, list[Row]]:
        """The rounds of the finished trials, in order, by id."""
        return {
            trial["id"]: self.table(trial, "rounds")
            for trial in self.trials
            if trial["status"] == "finished"
        }

    def frame(
        self, trial: Mapping[str, Any], name: str, needed: Collection[str] = ()
    ) -> pd.DataFrame | None:
        """The table ``trials/<id>/<name>.parquet``; None if it is missing, empty, unreadable, or
        lacks a needed column.
        """
        folder = Folder(self.folder).trial(trial["id"])
        try:
            content = part_of(folder, folder.table(name))
            table = read_table(content or b"").to_pandas()
        except (OSError, ValueError):
            return None
        for column in table.select_dtypes(("object", "string")):
            table[column] = table[column].map(printed)
        return None if table.empty or not set(needed) <= set(table) else table

    def last_attacks(
        self, trial: Mapping[str, Any], name: str, needed: Collection[str] = ()
    ) -> pd.DataFrame | None:
        """The rows of `frame` of the last round in which each attack was made."""
        frame = self.frame(trial, name, ("attack", "round", *needed))
        return (
            None
            if frame is None
            else frame[frame["round"] == frame.groupby("attack")["round"].transform("max")]
        )

    def table(self, trial: Mapping[str, Any], name: str) -> list[Row]:
        """The rows of `frame`; empty if there is none."""
        table = self.frame(trial, name)
        return [] if table is None else rows(table.to_dict("records"))

    def value(self, trial: Row, path: str) -> Value:
        """The value of a dotted key in the trial's run, swept or not; None if it is unknown."""
        value = trial.get(path)
        return lookup(self.configs.get(trial["id"]), path) if value is None else value


def read_results(folder: Path) -> Results:
    """Read ``RESULTS/<sweep>``, after checking that its files, but for the models, are what the
    run wrote.

    Raises:
        FolderError: the folder holds no results.
        ConfigError: files are damaged; it names them.
    """
    sweep = Folder(Path(folder))
    sweep.refuse_links()
    try:
        facts = printed(read_sweep(sweep).facts)
        table = rows(printed(trial_rows(sweep)))
    except FileNotFoundError as error:
        raise FolderError(f"{folder} contains no results (run the sweep first)") from error
    except (DamageError, FolderError) as error:
        raise FolderError(f"{error}{REPAIRED}") from error
    if not table:
        raise FolderError(f"{folder} lists no trial (run the sweep first)")
    trials = [sweep.trial(row["id"]) for row in table]
    damages = in_parallel(lambda trial: damage_of_trial(trial, skip=(trial.model.name,)), trials)
    damages = [damage for damage in damages if damage]
    if damages:
        raise ConfigError(ConfigProblem(f"{damage}{REPAIRED}") for damage in damages[:NAMED])
    believe(facts["declared"])
    configs = {trial.id: config_of(trial) for trial in trials}
    return replace(results(sweep.path, table, facts["swept"], configs), facts=facts)


def config_of(trial: TrialFolder) -> dict[str, Any]:
    """The resolved run of an ended trial; empty if there is none.

    Raises FolderError if it is no run.
    """
    content = part_of(trial, trial.config)
    try:
        run = dict(printed(parsed(content.decode()))) if content else {}
        if not all(isinstance(attack["name"], str) for attack in run.get("attacks", ())):
            raise TypeError("the name of an attack is no text")
        return run
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FolderError(
            f"{trial.config} is not what was saved: it is no run{REPAIRED}"
        ) from error


def results(folder: Path, table: list[Row], declared: Iterable[str], configs: Configs) -> Results:
    """Make `Results` from rows of ``trials.parquet``, swept keys in the order of the sweep file,
    and resolved runs by id.
    """
    for name in table[0].keys() & metrics().keys():
        for row in table:
            row[name] = (
                None if isinstance(row[name], str | list | dict) else row[name]
            )  # a metric is a number
    table, keys = swept_settings(table, tuple(declared), configs)
    names = {name for name in table[0] if not is_key(name)} - NOT_RESULTS - set(keys)
    values = {name: [row[name] for row in table if row[name] is not None] for name in names}
    numeric = {
        name
        for name, cells in values.items()
        if cells and {*map(type, cells)} <= {bool, int, float}
    }
    measured = numeric | (names & metrics().keys())
    grouped = settings(table, keys)
    if any(
        len(setting.trials) > 1 for setting in grouped
    ):  # the numbers of models mean nothing from seed to seed
        measured = {name for name in measured if not of_one_model(name, metrics())}
    trials = [trial for setting in grouped for trial in setting.trials]
    return Results(folder, tuple(trials), keys, ordered(measured), configs)


def settings(trials: Sequence[Row], keys: tuple[str, ...]) -> list[Setting]:
    """Group trials by their values of ``keys``; the groups are sorted by these values."""
    ordered = sorted(
        trials, key=lambda t: (sort_key(t.get(DEAL)), sort_key(t.get("seed")), text(t.get("id")))
    )
    groups = grouped((tuple(text(trial.get(key)) for key in keys), trial) for trial in ordered)
    settings = [
        Setting(tuple(group[0].get(key) for key in keys), tuple(group)) for group in groups.values()
    ]
    return sorted(settings, key=lambda setting: tuple(map(sort_key, setting.values)))


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """The items of each key; keys and items are in the order in which they come."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def over_seeds(target: str, seeds: int) -> str:
    """What an attack's target is called in a mean over seeds: models that are not named after a
    group are alike.

    >>> over_seeds("model_1", 1), over_seeds("model_1", 2), over_seeds("minority", 2)
    ('model_1', 'each model', 'minority')
    """
    return "each model" if seeds > 1 and is_unnamed_model(target) else target


def repeat(trial: Row) -> Repeat:
    """Which repetition a trial is: its partition and its seed.

    Unless the sweep varies the partition, it follows the seed.
    """
    partition = trial.get(DEAL)
    seed = text(trial.get("seed"))
    return (seed if partition is None else text(partition), seed)


def independent(values: Sequence[tuple[Repeat, float]]) -> list[float]:
    """The values that count as independent, in the order of their repetitions.

    Trials on the same partition resemble each other. If a sweep crosses partitions with seeds, the
    mean of each is one value.

    >>> independent([(("1", "0"), 0.5), (("1", "1"), 0.7), (("2", "0"), 0.9)])
    [0.6, 0.9]
    """
    partitions = grouped((partition, value) for (partition, _), value in values)
    if len(partitions) < 2:
        return [value for _, value in values]
    return [same[0] if len(same) == 1 else sum(same) / len(same) for same in partitions.values()]


def counts(trials: Iterable[Row]) -> dict[str, int]:
    """The number of trials by status, in the order of `STATUSES`; a status that does not occur
    is left out.
    """
    statuses = [text(trial["status"]) or "unfinished" for trial in trials]
    order = [*STATUSES, *sorted(set(statuses) - set(STATUSES))]
    return {status: statuses.count(status) for status in order if status in statuses}


def rows(table: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows of a table as mappings of all its columns to plain values, with None for missing
    values.
    """
    names = list(dict.fromkeys(name for row in table for name in row))
    return [{name: plain(row.get(name)) for name in names} for row in table]
