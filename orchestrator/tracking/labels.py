"""Names of trials, parameters, tags and metrics as MLflow has them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from numbers import Real
from typing import Any

from algorithms.core.metric import CLIENT, FAIRNESS, MEMBERSHIP, NOISE, SOURCE, TIME
from orchestrator.config.metric_names import BOOKKEEPING, metric, table_columns
from orchestrator.report.data import REPEATS

RUN = "run"  # the section of metrics that are no results: rounds and seconds
ATTACKS = (MEMBERSHIP, SOURCE, CLIENT)
# The section of MLflow's charts in which the metrics of a family stand. Other families have a
# section of their own name.
SECTIONS = dict.fromkeys(ATTACKS, "attack") | {FAIRNESS: "fairness", NOISE: "privacy", TIME: RUN}
MOST = 6  # headline metrics
SETTING = "setting"  # the tag by which runs are grouped: the swept values without the seeds


@cache
def metric_key(name: str) -> str:
    """A metric's name in MLflow, where what stands before the slash is a section of charts.

    >>> metric_key("accuracy_minority"), metric_key("mia_auc"), metric_key("epsilon"), metric_key("round")
    ('accuracy/accuracy_minority', 'attack/mia_auc', 'privacy/epsilon', 'run/round')
    """
    family = metric(name).family
    section = RUN if name in BOOKKEEPING else SECTIONS.get(family, family.lower())
    return "/".join(
        re.sub(r"[^\w.-]+", " ", part).strip() for part in (section, name)
    )  # MLflow takes no others


def trial_name(swept: Mapping[str, Any]) -> str:
    """A readable name of a trial, made from its swept values (by dotted key).

    >>> trial_name({"clustering.name": "ifca_mir", "data.split.minority_ratio": 0.2, "seed": 1})
    'ifca_mir minority_ratio=0.2 seed=1'
    """
    last = {key: key.rpartition(".")[2] for key in swept}
    words = []
    for key, value in swept.items():
        twins = list(last.values()).count(last[key]) > 1
        words.append(
            brief(value) if last[key] == "name" else f"{key if twins else last[key]}={brief(value)}"
        )
    return " ".join(words)


def setting_name(swept: Mapping[str, Any]) -> str:
    """The swept values without the seeds, for charts' legends; "all trials" where nothing else
    was swept.

    >>> setting_name({"clustering.name": "ifca", "seed": 1}), setting_name({"seed": 1})
    ('ifca', 'all trials')
    """
    return (
        trial_name({key: value for key, value in swept.items() if key not in REPEATS})
        or "all trials"
    )


def brief(value: Any) -> str:
    """A swept value in short form; for a whole slot its lists if it has any, otherwise its name
    and fields.

    >>> brief({"name": "finp", "beta": 0.3}), brief({"name": "groups", "minority": [0, 25]}), brief(0.5)
    ('finp beta 0.3', 'minority [0, 25]', '0.5')
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        return json.dumps(value, default=str)
    lists = [f"{name} {json.dumps(item)}" for name, item in value.items() if isinstance(item, list)]
    if lists or "name" not in value:
        return ", ".join(lists) or json.dumps(value, default=str)
    fields = [f"{name} {brief(item)}" for name, item in value.items() if name != "name"]
    return " ".join([str(value["name"]), *fields])


def scalar_metrics(row: Mapping[str, Any]) -> dict[str, float]:
    """The entries of ``row`` that are finite numbers.

    >>> scalar_metrics({"accuracy": 0.5, "loss": float("nan"), "purity": None, "model": "majority"})
    {'accuracy': 0.5}
    """
    return {
        name: float(value)
        for name, value in row.items()
        if isinstance(value, Real) and math.isfinite(value)
    }


def runs_link(server: str, experiment: str) -> str:
    """The address that opens the list of an experiment's runs.

    >>> runs_link("http://127.0.0.1:5000/", "3")
    'http://127.0.0.1:5000/#/experiments/3/runs?workflowType=machine_learning'
    """
    return f"{server.rstrip('/')}/#/experiments/{experiment}/runs?workflowType=machine_learning"


def headline_metrics(names: Collection[str], first: Sequence[str] = ()) -> list[str]:
    """At most six of the measured metrics ``names``: ``first``, then those that the terminal's
    table ranks highest.

    >>> headline_metrics({"accuracy", "loss", "mia_auc"}, ["mia_auc"])
    ['mia_auc', 'accuracy']
    """
    ranked = sorted(table_columns(names), key=lambda column: column.rank)
    ranks = [next(name for name in column.metrics if name in names) for column in ranked]
    return list(dict.fromkeys([*(name for name in first if name in names), *ranks]))[:MOST]
