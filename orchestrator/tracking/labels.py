"""Names of trials, parameters, tags and metrics as MLflow has them, and a ready-made view of a sweep in its list of runs.

The view has settings and headline metrics as columns, the trade-off on top. MLflow's pages keep such a view in a tag of the
experiment, and an address with the tag's key opens it. The form of the tag is not documented; it was read in MLflow 3.17.
Where another version does not understand it, its page says so and shows the runs in its own way.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from algorithms.core.metric import ACCURACY, CLIENT, FAIRNESS, MEMBERSHIP, NOISE, SOURCE, TIME
from orchestrator.metric_names import BOOKKEEPING, metric, table_columns
from orchestrator.report.context import full_label
from orchestrator.report.data import REPEATS

RUN = "run"  # the section of metrics that are no results: rounds and seconds
# The section of MLflow's charts in which the metrics of a family stand. Other families have a section of their own name.
SECTIONS = {
    MEMBERSHIP: "attack",
    SOURCE: "attack",
    CLIENT: "attack",
    FAIRNESS: "fairness",
    NOISE: "privacy",
    TIME: RUN,
}
VIEW = "fedpriv"  # the key of the view
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
TRADE_OFF, SETTINGS = "trade-off", "headline metrics"  # sections of the view's charts
WIDTH = 190  # of a column in pixels: the names of most metrics fit
TITLE = "settings, mean over seeds"
PRIMARY, HIGHER = "mlflow.experiment.primaryMetric.name", "mlflow.experiment.primaryMetric.greaterIsBetter"
MOST = 6  # headline metrics
ATTACKS = (MEMBERSHIP, SOURCE, CLIENT)
GROUPS = ("_minority", "_majority")
CLAIMED, AUDITED = "epsilon", "epsilon_audit"
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
        words.append(brief(value) if last[key] == "name" else f"{key if twins else last[key]}={brief(value)}")
    return " ".join(words)


def brief(value: Any) -> str:
    """A swept value in short form; for a whole slot its lists if it has any, otherwise its name and fields.

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


def view_link(server: str, experiment: str) -> str:
    """The address that opens the view of an experiment, as a table.

    >>> view_link("http://127.0.0.1:5000/", "3")
    'http://127.0.0.1:5000/#/experiments/3/runs?workflowType=machine_learning&viewStateShareKey=fedpriv'
    """
    return f"{server.rstrip('/')}/#{view_place(experiment)}"


def view_place(experiment: str, charts: bool = False) -> str:
    """The part of the address after ``#``; with ``charts``, it opens the charts, the trade-off first."""
    table = f"/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={VIEW}"
    return f"{table}&compareRunsMode=CHART" if charts else table


def view_tags(swept: Sequence[str], names: Collection[str], first: Sequence[str] = ()) -> dict[str, str]:
    """The experiment's tags: the view, and the metric that it is about; empty while nothing is measured.

    Args:
        swept: the swept keys, seeds among them.
        names: all measured metrics, by name; each section of theirs is listed.
        first: the metrics that come first.
    """
    headlines = headline_metrics(names, first)
    if not headlines:
        return {}
    keys = list(dict.fromkeys(key for key in swept if key not in REPEATS))
    state = json.dumps(_view(keys, headlines, names), separators=(",", ":"))
    packed = "deflate;" + base64.b64encode(zlib.compress(state.encode())).decode()
    return {
        VIEW_TAG: json.dumps({"name": TITLE, "createdAt": 0, "updatedAt": 0, "state": packed}),
        PRIMARY: metric_key(headlines[0]),
        HIGHER: str(metric(headlines[0]).direction != "lower"),
    }


def _view(swept: Sequence[str], headlines: Sequence[str], names: Collection[str]) -> dict[str, Any]:
    columns = [*(f"params.`{key}`" for key in swept), *(f"metrics.`{metric_key(name)}`" for name in headlines)]
    groups = [{"mode": "tag", "groupByData": SETTING}]
    charts, sections = _charts(headlines, names)
    return {
        "searchFilter": "",
        "orderByKey": "attributes.start_time",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": dict.fromkeys(columns, WIDTH),
        "groupBy": {"aggregateFunction": "average", "groupByKeys": groups},
        "groupsExpanded": {},
        "useGroupedValuesInCharts": True,
        "hideEmptyCharts": True,
        "runsExpanded": {},
        "runsHidden": [],
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": charts,
        "compareRunSections": sections,
        "isAccordionReordered": True,  # else the sections are in alphabetical order
    }


def _charts(headlines: Sequence[str], names: Collection[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The trade-offs, a bar for each headline metric, and the sections; MLflow adds the other charts to their sections."""
    charts = []
    for accuracy, risk in trade_offs(headlines):
        x, y = ({"key": metric_key(name), "type": "METRIC"} for name in (accuracy, risk))
        title = f"{full_label(risk)} against {full_label(accuracy)}"
        charts.append(_chart("SCATTER", TRADE_OFF, title, xaxis=x, yaxis=y))
    charts += [_chart("BAR", SETTINGS, full_label(name), metricKey=metric_key(name)) for name in headlines]
    measured = {metric_key(name).rpartition("/")[0] for name in names}
    first = metric_key(headlines[0]).rpartition("/")[0] if headlines else ACCURACY
    listed = [TRADE_OFF, SETTINGS, *sorted(measured - {RUN}, key=lambda section: (section != first, section)), RUN]
    sections = [
        # Rounds and seconds are no results: their section is there, but closed.
        {"uuid": section, "name": section, "display": section != RUN, "isReordered": True, "deleted": False}
        | {"isGenerated": section not in (TRADE_OFF, SETTINGS)}
        for section in listed
        if section not in (TRADE_OFF, SETTINGS) or any(chart["metricSectionId"] == section for chart in charts)
    ]
    return charts, sections


def _chart(kind: str, section: str, title: str, **content: Any) -> dict[str, Any]:
    named = {"type": kind, "uuid": f"{section}: {title}", "metricSectionId": section, "displayName": title}
    return {**named, "deleted": False, "isGenerated": False, "runsCountToCompare": 100, **content}


def headline_metrics(names: Collection[str], first: Sequence[str] = ()) -> list[str]:
    """At most six of the measured metrics ``names``: ``first``, then those that the terminal's table ranks highest.

    >>> headline_metrics({"accuracy", "loss", "mia_auc"}, ["mia_auc"])
    ['mia_auc', 'accuracy']
    """
    ranked = sorted(table_columns(names), key=lambda column: column.rank)
    shown = [next(name for name in column.metrics if name in names) for column in ranked]
    if not any(name.startswith(CLAIMED) and not name.startswith(AUDITED) for name in names):
        shown = [name for name in shown if not name.startswith(AUDITED)]  # nobody compares it where nothing is claimed
    return list(dict.fromkeys([*(name for name in first if name in names), *shown]))[:MOST]


def trade_offs(headlines: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of an accuracy and a risk among the headline metrics, those of the same group of clients together.

    >>> trade_offs(["accuracy_minority", "accuracy_majority", "mia_auc_majority"])
    [('accuracy_majority', 'mia_auc_majority')]
    """
    accuracies = [name for name in headlines if metric(name).family == ACCURACY]
    risks = [name for name in headlines if metric(name).family in ATTACKS and metric(name).unit == "fraction"]
    if not accuracies:
        return []

    def group(name: str) -> str:
        return next((ending for ending in GROUPS if name.endswith(ending)), "")

    of_group = {group(name): name for name in reversed(accuracies)}
    return [(of_group.get(group(risk), accuracies[0]), risk) for risk in risks]
