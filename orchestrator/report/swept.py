"""Which columns of ``trials.parquet`` are swept settings, and plain values for slots that were swept as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from orchestrator.report.values import Row, Value, lookup, text

SLOTS = ("data", "data.split", "model", "training", "clustering", "objective", "aggregation", "privacy")
SLOT_NAMES = tuple(f"{slot}.name" for slot in SLOTS)
# Keys of a run without a dot that are not slots: they are settings only if they differ between trials.
PLAIN_KEYS = ("rounds", "evaluate_every", "server_sees")
# Keys in which the repetitions of a setting differ: the deal of the data and the seed of everything else.
DEAL = "data.split_seed"
REPEATS = (DEAL, "seed")


def swept_settings(
    table: Sequence[Row], declared: Iterable[str], configs: Mapping[str, Value]
) -> tuple[list[Row], tuple[str, ...]]:
    """Find the settings of the trials.

    A mapping (a slot that was swept as a whole) is replaced by those of its entries that differ between trials. A value
    that is missing in a row is taken from the trial's resolved run.

    Args:
        table: the rows of ``trials.parquet``.
        declared: the swept keys in the order of the sweep file.
        configs: the resolved runs by id.

    Returns:
        The rows with a plain value for every setting, and the keys of the settings, declared ones first. The keys of
        `REPEATS` are none of them.
    """
    columns = [column for column in table[0] if _is_setting(column, table)]
    measured = {key for key in declared if any(_held_value(row, key, configs) is not None for row in table)}
    keys = tuple(dict.fromkeys((*(key for key in declared if key in measured or key in table[0]), *columns)))
    filled = [row | {key: _held_value(row, key, configs) for key in keys if key != "seed"} for row in table]
    expanded, keys = _expand(filled, tuple(key for key in keys if key != "seed"))
    return expanded, tuple(key for key in keys if key not in REPEATS)


def _held_value(row: Row, key: str, configs: Mapping[str, Value]) -> Value:
    """The value in the row; if it is missing, a number as text, or a name where the run has a mapping, that of the run."""
    own, resolved = row.get(key), lookup(configs.get(row["id"]), key)
    if (
        own is None
        or own == json.dumps(resolved)
        or (isinstance(resolved, list | dict) and not isinstance(own, list | dict))
    ):
        return resolved
    return own


def _is_setting(column: str, table: Sequence[Row]) -> bool:
    if column in SLOT_NAMES or column in PLAIN_KEYS:
        return len({text(row[column]) for row in table}) > 1
    return column in SLOTS or "." in column


def _expand(table: list[Row], keys: tuple[str, ...]) -> tuple[list[Row], tuple[str, ...]]:
    """Replace keys whose values are mappings by the entries of the mappings, one key after the other."""
    for at, key in enumerate(keys):
        held = [_by_name(row.get(key)) for row in table]
        if any(isinstance(value, dict) for value in held):
            entries = _differences(key, held)
            table = [row | {name: values[i] for name, values in entries.items()} for i, row in enumerate(table)]
            return _expand(table, tuple(dict.fromkeys((*keys[:at], *entries, *keys[at + 1 :]))))
    return table, keys


def _differences(key: str, held: list[Value]) -> dict[str, list[Value]]:
    """The entries that differ between the mappings, by dotted key, without those that ``name`` determines."""
    parts = [value if isinstance(value, dict) else {"name": value} for value in held]
    columns = {name: [part.get(name) for part in parts] for name in dict.fromkeys(n for part in parts for n in part)}
    varied = {name: values for name, values in columns.items() if len({text(value) for value in values}) > 1}
    if "name" in varied:
        components = [text(value) for value in varied["name"]]
        own = {name for name, values in varied.items() if _follows(components, [text(value) for value in values])}
        varied = {name: values for name, values in varied.items() if name == "name" or name not in own}
    return {f"{key}.{name}": values for name, values in varied.items()}


def _follows(components: list[str], values: list[str]) -> bool:
    return len(set(components)) == len(set(zip(components, values, strict=True)))


def _by_name(value: Value) -> Value:
    """Turn a list of components into a mapping by name; leave anything else unchanged."""
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        return {item["name"]: item for item in value}
    return value
