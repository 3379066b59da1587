"""Names of trials, parameters, tags and metrics as MLflow has them, and a ready-made view of a
sweep in its list of runs.

The view has settings and headline metrics as columns, the trade-off on top. MLflow's pages keep
such a view in a tag of the experiment, and an address with the tag's key opens it. The form of the
tag is not documented; it was read in MLflow 3.17. Where another version does not understand it, its
page says so and shows the runs in its own way.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from numbers import Real
from typing import Any

from algorithms.core.metric import ACCURACY, CLIENT, FAIRNESS, MEMBERSHIP, NOISE, SOURCE, TIME
from orchestrator.config.metric_names import BOOKKEEPING, metric, table_columns
from orchestrator.report.context import full_label
from orchestrator.report.data import REPEATS

RUN = "run"  # the section of metrics that are no results: rounds and seconds
ATTACKS = (MEMBERSHIP, SOURCE, CLIENT)
# The section of MLflow's charts in which the metrics of a family stand. Other families have a
# section of their own name.
SECTIONS = dict.fromkeys(ATTACKS, "attack") | {FAIRNESS: "fairness", NOISE: "privacy", TIME: RUN}
VIEW = "fedpriv"  # the key of the view
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
TRADE_OFF = "trade-off"  # the section of the view's own charts
WIDTH = 190  # of a column in pixels: the names of most metrics fit
TITLE = "settings, mean over seeds"
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


def view_link(server: str, experiment: str) -> str:
    """The address that opens the view of an experiment, as a table; ``&compareRunsMode=CHART``
    behind it, as charts.

    >>> view_link("http://127.0.0.1:5000/", "3")
    'http://127.0.0.1:5000/#/experiments/3/runs?workflowType=machine_learning&viewStateShareKey=fedpriv'
    """
    runs = f"experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={VIEW}"
    return f"{server.rstrip('/')}/#/{runs}"


def view_tags(
    swept: Iterable[str], names: Collection[str], first: Sequence[str] = ()
) -> dict[str, str]:
    """The experiment's tag with the view; empty while nothing is measured.

    Its columns are the ``swept`` keys but for seeds, and the headlines among the measured metrics
    ``names``, ``first`` ones in front; each section of metrics is listed.
    """
    headlines = headline_metrics(names, first)
    if not headlines:
        return {}
    columns = [f"params.`{key}`" for key in dict.fromkeys(swept) if key not in REPEATS]
    columns += [f"metrics.`{metric_key(name)}`" for name in headlines]
    charts = [_chart(accuracy, risk) for accuracy, risk in trade_offs(headlines)]
    top, measured = _section(headlines[0]), {_section(name) for name in names} - {RUN}
    sections = [
        *([TRADE_OFF] if charts else []),
        *sorted(measured, key=lambda section: (section != top, section)),
        RUN,
    ]
    view = {
        "searchFilter": "",
        "orderByKey": "attributes.start_time",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": dict.fromkeys(columns, WIDTH),
        "groupBy": {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "tag", "groupByData": SETTING}],
        },
        "groupsExpanded": {},
        "useGroupedValuesInCharts": True,
        "hideEmptyCharts": True,
        "runsExpanded": {},
        "runsHidden": [],
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": charts,  # MLflow adds those of the other sections
        "compareRunSections": [
            {
                "uuid": section,
                "name": section,
                "display": section != RUN,
                "isReordered": True,
                "deleted": False,
            }
            | {"isGenerated": section != TRADE_OFF}
            for section in sections
        ],
        "isAccordionReordered": True,  # else the sections are in alphabetical order
    }
    packed = base64.b64encode(
        zlib.compress(json.dumps(view, separators=(",", ":")).encode())
    ).decode()
    return {
        VIEW_TAG: json.dumps(
            {"name": TITLE, "createdAt": 0, "updatedAt": 0, "state": f"deflate;{packed}"}
        )
    }


def _chart(accuracy: str, risk: str) -> dict[str, Any]:
    title = f"{full_label(risk)} against {full_label(accuracy)}"
    x, y = ({"key": metric_key(name), "type": "METRIC"} for name in (accuracy, risk))
    chart = {
        "type": "SCATTER",
        "uuid": title,
        "metricSectionId": TRADE_OFF,
        "displayName": title,
        "xaxis": x,
    }
    return {**chart, "yaxis": y, "deleted": False, "isGenerated": False, "runsCountToCompare": 100}


def _section(name: str) -> str:
    return metric_key(name).rpartition("/")[0]


def headline_metrics(names: Collection[str], first: Sequence[str] = ()) -> list[str]:
    """At most six of the measured metrics ``names``: ``first``, then those that the terminal's
    table ranks highest.

    >>> headline_metrics({"accuracy", "loss", "mia_auc"}, ["mia_auc"])
    ['mia_auc', 'accuracy']
    """
    ranked = sorted(table_columns(names), key=lambda column: column.rank)
    ranks = [next(name for name in column.metrics if name in names) for column in ranked]
    return list(dict.fromkeys([*(name for name in first if name in names), *ranks]))[:MOST]


def trade_offs(headlines: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of an accuracy and a risk among the headline metrics: that which the risk
    declares, or else the first.

    >>> trade_offs(["accuracy_minority", "accuracy_majority", "risk_majority"])
    [('accuracy_majority', 'risk_majority')]
    """
    accuracies = [name for name in headlines if metric(name).family == ACCURACY]
    pairs = []
    for risk in map(metric, headlines):
        if accuracies and risk.family in ATTACKS and risk.unit == "fraction":
            declared = risk.risk.accuracies if risk.risk else ()
            pairs.append(
                (next((name for name in declared if name in accuracies), accuracies[0]), risk.name)
            )
    return pairs
