"""Whether a trial's ``config.yaml`` is that of the trial: its hash is the trial's id. No component's code is run.

The hash is that of `orchestrator.config.run.trial_id`, from the plain values of the file. A component that is not here may
have fields that are no part of the id; then the file can only be read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from datasets.components import components
from orchestrator.config.slots import SLOTS, RunFields, Slot

ID = re.compile("[0-9a-f]{10}")


def wrong_config(path: Path, trial: str) -> str:
    """Return what is wrong with a ``config.yaml``, to be read after its name; empty if it can be that of the trial.

    Args:
        path: the file.
        trial: the trial's id; one that is no hash says nothing about the file.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        held = yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (ValueError, RecursionError, yaml.YAMLError):
        return "is not what was saved: it is no YAML"
    if not isinstance(held, Mapping):
        return "is not what was saved: it is no mapping"
    if not ID.fullmatch(trial):
        return ""
    try:
        same = _id(held) == trial or any(_unknown(held)) or _id(_without_later(held)) == trial
    except (AttributeError, KeyError, TypeError, ValueError):
        same = False
    return "" if same else f"is not what was saved: it is not the configuration of trial {trial}"


def _id(plain: Mapping[str, Any]) -> str:
    """The hash of a resolved run in plain values."""
    seen = RunFields.model_fields["server_sees"].default
    kept = {key: value for key, value in plain.items() if not (key == "server_sees" and value == seen)}
    canonical = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def _chosen(plain: Mapping[str, Any]) -> Iterator[tuple[Slot, dict[str, Any]]]:
    """The fields of each component in a resolved run, with its slot."""
    for slot in SLOTS:
        held: Any = plain
        for part in slot.path:
            held = held[part]
        for one in held if slot.many else (held,):
            yield slot, one


def _unknown(plain: Mapping[str, Any]) -> Iterator[str]:
    """The names of components that are not here."""
    return (one["name"] for slot, one in _chosen(plain) if one["name"] not in components(slot.folder))


def _without_later(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a run without the defaults of fields that were added later, which are no part of the id."""
    copied: dict[str, Any] = json.loads(json.dumps(plain))
    for slot, one in _chosen(copied):
        for name, field in components(slot.folder)[one["name"]].Config.model_fields.items():
            extra = field.json_schema_extra
            later = isinstance(extra, dict) and extra.get("added_later")
            if later and name in one and one[name] == json.loads(json.dumps(field.default)):
                del one[name]
    return copied
