"""What may stand in the record of a trial: a sentence about the first value that no trial of ours would write."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.metric_names import metric, metrics

STATUSES = ("finished", "stopped", "diverged", "failed")
LARGEST = 2**63  # integers of tables have 64 bits
SEALED_TOGETHER = "checksums"  # a record that has these was sealed when it was written
SHOWN = 40  # the most characters of a value that a sentence repeats


def wrong_value(record: Mapping[str, Any], trial: str, whole: bool) -> str:
    """Return what is wrong with a record, to be read after a colon; empty if it can be believed.

    An infinite metric is believed where the whole record is sealed, and else where the metric is no rate, time or loss:
    an epsilon may be infinite.

    Args:
        record: the content of ``result.json``, without its checksum.
        trial: the id of the trial whose folder it lies in.
        whole: whether it was sealed, so that it is what was written.
    """
    if SEALED_TOGETHER in record and not whole:
        return "its checksum is missing"
    if record.get("id", trial) != trial:
        return f"it is the record of another trial, {_shown(record['id'])}"
    for key, (allowed, what) in _ENTRIES.items():
        if not allowed(record.get(key)):
            return f"its {key} is {_shown(record.get(key))}, not {what}"
    if record["status"] == "stopped" and not _is_stop(record.get("stopped")):
        return "it does not say what stopped the trial"
    for name, value in record["metrics"].items():
        if problem := _wrong_metric(name, value, whole):
            return f"its metric {_shown(name)} is {problem}"
    return ""


def _wrong_metric(name: str, value: Any, whole: bool) -> str:
    """What is wrong with the value of a metric; empty if it can be one."""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, str):
        return f"the text {_shown(value)}" if name in metrics() else ""
    if not isinstance(value, int | float):
        return f"{_shown(value)}, not a number"
    if isinstance(value, int):
        return "" if -LARGEST <= value < LARGEST else "an integer of more than 64 bits"
    if math.isnan(value) or (math.isinf(value) and not whole and metric(name).unit):
        return f"{value}, not a finite number"
    return ""


def _is_stop(stopped: Any) -> bool:
    """Whether ``stopped`` says which scheduler stopped a trial, in which round and at which value."""
    held = stopped if isinstance(stopped, Mapping) else {}
    round_ = held.get("round")
    counted = isinstance(round_, int) and not isinstance(round_, bool) and 0 <= round_ < LARGEST
    value = held.get("value")
    measured = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return counted and isinstance(held.get("by"), Mapping) and measured


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else -LARGEST <= value < LARGEST


def _is_model(value: Any) -> bool:
    """Whether ``value`` says what a model takes and gives: the shape of an example and the number of labels."""
    held = value if isinstance(value, Mapping) else {}
    shape = held.get("shape")
    return isinstance(shape, list) and all(map(_is_count, [*shape, held.get("classes")]))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def _texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values())


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= LARGEST:
        return "an integer of more than 64 bits"
    text = "null" if value is None else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


Check = tuple[Callable[[Any], bool], str]
# The records of earlier versions lack some entries, all but status and metrics.
_ENTRIES: Mapping[str, Check] = {
    "status": (lambda value: isinstance(value, str) and value in STATUSES, f"one of {', '.join(STATUSES)}"),
    "metrics": (lambda value: isinstance(value, Mapping), "a mapping"),
    "seconds": (lambda value: value is None or _is_number(value), "a number of seconds"),
    "reason": (lambda value: value is None or isinstance(value, str), "a text"),
    "origin": (lambda value: value is None or isinstance(value, Mapping), "a mapping"),
    "files": (lambda value: value is None or _texts(value), "a mapping of texts"),
    "checksums": (lambda value: value is None or _texts(value), "a mapping of texts"),
    "model": (lambda value: value is None or _is_model(value), "what a model takes and gives"),
    "notes": (
        lambda value: value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value)),
        "a list of texts",
    ),
}
