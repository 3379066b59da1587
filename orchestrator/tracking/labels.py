"""Names of trials, and their parameters, tags and metrics in the form that MLflow accepts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from algorithms.core.metric import (
    ACCURACY,
    AGGREGATION,
    CLIENT,
    CLUSTERING,
    CURVATURE,
    FAIRNESS,
    MEMBERSHIP,
    NOISE,
    SOURCE,
    TIME,
)
from orchestrator.metric_names import BOOKKEEPING, metric

# The section of MLflow's charts in which the metrics of a family stand. Other families have a section of their own name.
SECTIONS = {
    ACCURACY: "accuracy",
    MEMBERSHIP: "attack",
    SOURCE: "attack",
    CLIENT: "attack",
    NOISE: "privacy",
    CLUSTERING: "clustering",
    FAIRNESS: "fairness",
    CURVATURE: "curvature",
    AGGREGATION: "aggregation",
    TIME: "run",
}
SETTING = "setting"  # the tag by which runs are grouped: the swept values without the seeds
RUN = SECTIONS[TIME]  # the section of metrics that are no results: rounds and seconds
# Fields whose values are shares and are shown in percent.
SHARES = ("ratio", "share", "fraction", "participation")


@cache
def metric_key(name: str) -> str:
    """A metric's name in MLflow, where what stands before the slash is a section of charts.

    >>> metric_key("accuracy_minority"), metric_key("mia_auc"), metric_key("epsilon"), metric_key("round")
    ('accuracy/accuracy_minority', 'attack/mia_auc', 'privacy/epsilon', 'run/round')
    """
    family = metric(name).family
    section = RUN if name in BOOKKEEPING else SECTIONS.get(family, family.lower())
    return f"{section.replace('/', ' ')}/{name}"


def short_name(swept: Mapping[str, Any]) -> str:
    """The name of a trial's run in MLflow: its swept values, with the field's name only where the value needs it.

    >>> short_name({"clustering.name": "ifca_mir", "data.split.minority_ratio": 0.1, "seed": 0})
    'ifca_mir, 10 %, seed 0'
    """
    last = {key: key.rpartition(".")[2] for key in swept}
    shares = [key for key, value in swept.items() if _is_share(last[key], value)]
    words = []
    for key, value in swept.items():
        field = key if list(last.values()).count(last[key]) > 1 else last[key]
        if isinstance(value, str | Mapping):
            words.append(_brief(value) if isinstance(value, Mapping) else value)
        elif key in shares:
            percent = f"{100 * value:.10g} %"
            words.append(percent if len(shares) == 1 else f"{field} {percent}")
        else:
            words.append(f"{field} {json.dumps(value, default=str)}")
    return ", ".join(words)


def _is_share(field: str, value: Any) -> bool:
    return field.endswith(SHARES) and isinstance(value, float) and 0 <= value <= 1


def swept_params(swept: Mapping[str, Any]) -> dict[str, str]:
    """The swept values as parameters of a run in MLflow; a whole slot is one parameter.

    >>> swept_params({"privacy": {"name": "global_dp", "clip": 1.0}, "seed": 1})
    {'privacy': 'global_dp clip 1.0', 'seed': '1'}
    """
    return {key: value if isinstance(value, str) else _brief(value) for key, value in swept.items()}


def trial_name(swept: Mapping[str, Any]) -> str:
    """A readable name of a trial, made from its swept values (by dotted key).

    >>> trial_name({"clustering.name": "ifca_mir", "data.split.minority_ratio": 0.2, "seed": 1})
    'ifca_mir minority_ratio=0.2 seed=1'
    """
    last = {key: key.rpartition(".")[2] for key in swept}
    words = []
    for key, value in swept.items():
        shown = value if isinstance(value, str) else _brief(value)
        twins = list(last.values()).count(last[key]) > 1
        words.append(shown if last[key] == "name" else f"{key if twins else last[key]}={shown}")
    return " ".join(words)


def _brief(value: Any) -> str:
    """A swept value in short form; for a whole slot its lists if it has any, otherwise its name and fields.

    >>> _brief({"name": "finp", "beta": 0.3}), _brief({"name": "groups", "minority": [0, 25]})
    ('finp beta 0.3', 'minority [0, 25]')
    """
    if not isinstance(value, Mapping):
        return json.dumps(value, default=str)
    lists = [f"{name} {json.dumps(item)}" for name, item in value.items() if isinstance(item, list)]
    if lists or "name" not in value:
        return ", ".join(lists) or json.dumps(value, default=str)
    fields = [f"{name} {_plain(item)}" for name, item in value.items() if name != "name"]
    return " ".join([str(value["name"]), *fields])


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def component_tags(run: Mapping[str, Any]) -> dict[str, str]:
    """The names of a run's components as tags, by which runs of different sweeps are found.

    >>> component_tags({"model": {"name": "mlp"}, "attacks": [{"name": "sia"}, {"name": "fedmia"}], "seed": 1})
    {'model': 'mlp', 'attacks': 'sia, fedmia'}
    """
    tags = {slot: str(held["name"]) for slot, held in run.items() if isinstance(held, Mapping) and "name" in held}
    attacks = ", ".join(str(attack["name"]) for attack in run.get("attacks") or ())
    return tags | ({"attacks": attacks} if attacks else {})


def flatten(config: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Flatten nested maps and lists of maps to dotted keys with text values; other lists become JSON.

    >>> flatten({"model": {"name": "mlp"}, "attacks": [{"every": 5}], "seed": 1})
    {'model.name': 'mlp', 'attacks.0.every': '5', 'seed': '1'}
    """
    found: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            value = {str(i): item for i, item in enumerate(value)}
        if isinstance(value, Mapping) and value:
            found |= flatten(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value if isinstance(value, str) else json.dumps(value, default=str)
    return found


def scalar_metrics(row: Mapping[str, Any]) -> dict[str, float]:
    """The entries of ``row`` that are finite numbers.

    >>> scalar_metrics({"accuracy": 0.5, "loss": float("nan"), "purity": None, "model": "majority"})
    {'accuracy': 0.5}
    """
    numbers = {}
    for name, value in row.items():
        if value is None or isinstance(value, str):
            continue
        with suppress(TypeError, ValueError, OverflowError):
            if math.isfinite(value):
                numbers[name] = float(value)
    return numbers
