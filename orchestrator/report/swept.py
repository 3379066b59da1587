"""What was swept: which columns of the trials are settings, and what a setting is where whole slots were exchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orchestrator.report.values import Row, Value, lookup, text

SLOTS = ("data", "data.split", "model", "training", "clustering", "objective", "aggregation", "privacy")
SLOT_NAMES = tuple(f"{slot}.name" for slot in SLOTS)
# Keys of a run that have no dot and are no slot: they are settings only where they differ.
PLAIN_KEYS = ("rounds", "evaluate_every")


def swept_settings(
    table: Sequence[Row], declared: Iterable[str], configs: Mapping[str, Value]
) -> tuple[list[Row], tuple[str, ...]]:
    """The rows with a plain value for every setting, and the settings' keys: ``declared`` first, the seed left out.

    A mapping (a slot that was swept whole) is replaced by the entries in which the mappings differ. What a row does not
    hold itself comes from the trial's resolved run in ``configs``.
    """
    columns = [column for column in table[0] if _is_setting(column, table)]
    known = {key for key in declared if any(_held_value(row, key, configs) is not None for row in table)}
    keys = tuple(dict.fromkeys((*(key for key in declared if key in known or key in table[0]), *columns)))
    keys = tuple(key for key in keys if key != "seed")
    filled = [row | {key: _held_value(row, key, configs) for key in keys} for row in table]
    return _expand(filled, keys)


def _held_value(row: Row, key: str, configs: Mapping[str, Value]) -> Value:
    """The row's own value; where it has none, or only a name for what is more than a name, the resolved run's."""
    given, resolved = row.get(key), lookup(configs.get(row["id"]), key)
    if given is None or (isinstance(resolved, list | dict) and not isinstance(given, list | dict)):
        return resolved
    return given


def _is_setting(column: str, table: Sequence[Row]) -> bool:
    if column in SLOT_NAMES or column in PLAIN_KEYS:
        return len({text(row[column]) for row in table}) > 1
    return column in SLOTS or "." in column


def _expand(table: list[Row], keys: tuple[str, ...]) -> tuple[list[Row], tuple[str, ...]]:
    """The rows and keys without mappings: the first key that holds some gives way to its entries, then the next."""
    for at, key in enumerate(keys):
        held = [_by_name(row.get(key)) for row in table]
        if any(isinstance(value, dict) for value in held):
            entries = _differences(key, held)
            table = [row | {name: values[i] for name, values in entries.items()} for i, row in enumerate(table)]
            return _expand(table, tuple(dict.fromkeys((*keys[:at], *entries, *keys[at + 1 :]))))
    return table, keys


def _differences(key: str, held: list[Value]) -> dict[str, list[Value]]:
    """The entries, by dotted key, in which the mappings in ``held`` differ, leaving out what follows from ``name``."""
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
    """A list of components as a mapping by their names; anything else as it is."""
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        return {item["name"]: item for item in value}
    return value
