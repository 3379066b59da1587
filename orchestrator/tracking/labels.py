"""Names of trials, and their parameters, tags and metrics in the form that MLflow accepts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from algorithms.core import metric as families
from orchestrator.metric_names import BOOKKEEPING, metric

RUN = "run"  # the section of metrics that are no results: rounds and seconds
# The section of MLflow's charts in which the metrics of a family stand. Other families have a section of their own name.
SECTIONS = {
    families.MEMBERSHIP: "attack",
    families.SOURCE: "attack",
    families.CLIENT: "attack",
    families.FAIRNESS: "fairness",
    families.NOISE: "privacy",
    families.TIME: RUN,
}
SETTING = "setting"  # the tag by which runs are grouped: the swept values without the seeds


@cache
def metric_key(name: str) -> str:
    """A metric's name in MLflow, where what stands before the slash is a section of charts.

    >>> metric_key("accuracy_minority"), metric_key("mia_auc"), metric_key("epsilon"), metric_key("round")
    ('accuracy/accuracy_minority', 'attack/mia_auc', 'privacy/epsilon', 'run/round')
    """
    family = metric(name).family
    section = RUN if name in BOOKKEEPING else SECTIONS.get(family, family.lower())
    return f"{section.replace('/', ' ')}/{name}"


def trial_name(swept: Mapping[str, Any]) -> str:
    """A readable name of a trial, made from its swept values (by dotted key).

    >>> trial_name({"clustering.name": "ifca_mir", "data.split.minority_ratio": 0.2, "seed": 1})
    'ifca_mir minority_ratio=0.2 seed=1'
    """
    last = {key: key.rpartition(".")[2] for key in swept}
    words = []
    for key, value in swept.items():
        twins = list(last.values()).count(last[key]) > 1
        words.append(_brief(value) if last[key] == "name" else f"{key if twins else last[key]}={_brief(value)}")
    return " ".join(words)


def swept_params(swept: Mapping[str, Any]) -> dict[str, str]:
    """The swept values as parameters of a run in MLflow; a whole slot is one parameter.

    >>> swept_params({"privacy": {"name": "global_dp", "clip": 1.0}, "seed": 1})
    {'privacy': 'global_dp clip 1.0', 'seed': '1'}
    """
    return {key: _brief(value) for key, value in swept.items()}


def _brief(value: Any) -> str:
    """A swept value in short form; for a whole slot its lists if it has any, otherwise its name and fields.

    >>> _brief({"name": "finp", "beta": 0.3}), _brief({"name": "groups", "minority": [0, 25]}), _brief(0.5)
    ('finp beta 0.3', 'minority [0, 25]', '0.5')
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        return json.dumps(value, default=str)
    lists = [f"{name} {json.dumps(item)}" for name, item in value.items() if isinstance(item, list)]
    if lists or "name" not in value:
        return ", ".join(lists) or json.dumps(value, default=str)
    fields = [f"{name} {_brief(item)}" for name, item in value.items() if name != "name"]
    return " ".join([str(value["name"]), *fields])


def component_tags(run: Mapping[str, Any]) -> dict[str, str]:
    """The names of a run's components as tags, by which runs of different sweeps are found.

    >>> component_tags({"model": {"name": "mlp"}, "attacks": [{"name": "sia"}, {"name": "fedmia"}], "seed": 1})
    {'model': 'mlp', 'attacks': 'sia, fedmia'}
    """
    tags = {
        slot: str(fields["name"]) for slot, fields in run.items() if isinstance(fields, Mapping) and "name" in fields
    }
    attacks = ", ".join(str(attack["name"]) for attack in run.get("attacks") or ())
    return tags | ({"attacks": attacks} if attacks else {})


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
