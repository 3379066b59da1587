"""Values from Parquet cells: conversion to plain values, sorting and printing, in the same way everywhere."""

import json
import math
from collections.abc import Mapping
from typing import Any

Value = Any  # None, bool, int, float, str, or lists and dicts of these
Row = dict[str, Value]

BASELINES = ("none", "plain", "fedavg")  # components that are a baseline; they are sorted first


def plain(value: Any) -> Value:
    """The Python value of a cell: NumPy values are unwrapped, JSON lists and mappings are parsed, NaN becomes None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    return None if str(value) in ("NaT", "<NA>") else str(value)


def text(value: Value) -> str:
    """A value as short text: empty for None and NaN, 0.3 for 0.30000000000000004, 5 for 5.0, JSON for lists."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list | dict):
        return json.dumps(_round(value), sort_keys=True)
    return str(value)


def sort_key(value: Value) -> tuple[Any, ...]:
    """A key to sort mixed values: None, numbers by size, lists by their entries, then texts with baselines first."""
    if value is None:
        return (0,)
    if isinstance(value, int | float):
        return (1, float(value))
    if isinstance(value, list):
        return (2, *(sort_key(item) for item in value))
    return (3, value not in BASELINES, text(value))


def lookup(config: Value, path: str) -> Value:
    """The value at a dotted key of a run, None if absent; an entry of a list is addressed by name or position."""
    for part in path.split("."):
        if isinstance(config, list):
            named = {str(i): item for i, item in enumerate(config)} | {
                item["name"]: item for item in config if isinstance(item, Mapping) and "name" in item
            }
            config = named.get(part)
        else:
            config = config.get(part) if isinstance(config, Mapping) else None
    return config


def _round(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _round(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_round(item) for item in value]
    if isinstance(value, float):
        short = float(f"{value:.10g}")
        return int(short) if short.is_integer() else short
    return value
