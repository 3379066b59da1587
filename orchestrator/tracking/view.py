"""A ready-made view of a sweep in MLflow's list of runs: settings and headline metrics as columns, the trade-off on top.

MLflow's pages keep such a view in a tag of the experiment, and an address with the tag's key opens it. The form of the tag
is not documented; it was read in MLflow 3.17. Where another version does not understand it, its page says so and shows
the runs in its own way.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Sequence
from typing import Any

from algorithms.core.metric import ACCURACY, CLIENT, MEMBERSHIP, SOURCE
from orchestrator.metric_names import metric, table_columns
from orchestrator.report.data import REPEATS
from orchestrator.tracking.labels import RUN, SETTING, metric_key

KEY = "fedpriv"
TAG = f"mlflow.sharedViewState.{KEY}"
TRADE_OFF, SETTINGS = "trade-off", "headline metrics"
WIDTH = 190  # of a column in pixels: the names of most metrics fit
TITLE = "settings, mean over seeds"
PRIMARY, HIGHER = "mlflow.experiment.primaryMetric.name", "mlflow.experiment.primaryMetric.greaterIsBetter"
MOST = 6  # headline metrics
ATTACKS = (MEMBERSHIP, SOURCE, CLIENT)
GROUPS = ("_minority", "_majority")
CLAIMED, AUDITED = "epsilon", "epsilon_audit"


def link(server: str, experiment: str) -> str:
    """The address that opens the view of an experiment, as a table.

    >>> link("http://127.0.0.1:5000/", "3")
    'http://127.0.0.1:5000/#/experiments/3/runs?workflowType=machine_learning&viewStateShareKey=fedpriv'
    """
    return f"{server.rstrip('/')}/#{place(experiment)}"


def place(experiment: str, charts: bool = False) -> str:
    """The part of the address after ``#``; with ``charts``, it opens the charts, the trade-off first."""
    table = f"/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={KEY}"
    return f"{table}&compareRunsMode=CHART" if charts else table


def tags(swept: Sequence[str], names: Collection[str], first: Sequence[str] = ()) -> dict[str, str]:
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
    state = json.dumps(_state(keys, headlines, names), separators=(",", ":"))
    packed = "deflate;" + base64.b64encode(zlib.compress(state.encode())).decode()
    return {
        TAG: json.dumps({"name": TITLE, "createdAt": 0, "updatedAt": 0, "state": packed}),
        PRIMARY: metric_key(headlines[0]),
        HIGHER: str(metric(headlines[0]).direction != "lower"),
    }


def _state(swept: Sequence[str], headlines: Sequence[str], names: Collection[str]) -> dict[str, Any]:
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
    charts = [
        _chart("SCATTER", TRADE_OFF, f"{label(risk)} against {label(accuracy)}")
        | {"xaxis": _axis(accuracy), "yaxis": _axis(risk), "runsCountToCompare": 100}
        for accuracy, risk in trade_offs(headlines)
    ]
    charts += [
        _chart("BAR", SETTINGS, label(name)) | {"metricKey": metric_key(name), "runsCountToCompare": 100}
        for name in headlines
    ]
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


def _chart(kind: str, section: str, title: str) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"{section}: {title}",
        "metricSectionId": section,
        "displayName": title,
        "deleted": False,
        "isGenerated": False,
    }


def _axis(name: str) -> dict[str, str]:
    return {"key": metric_key(name), "type": "METRIC"}


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
    of_group = {_group(name): name for name in reversed(accuracies)}
    return [(of_group.get(_group(risk), accuracies[0]), risk) for risk in risks]


def label(name: str) -> str:
    """The label of a metric where no heading says its family.

    >>> label("accuracy_minority"), label("test_accuracy")
    ('accuracy, minority clients', 'server test accuracy')
    """
    declared = metric(name)
    bare = declared.family == ACCURACY and name.startswith("accuracy") and "accuracy" not in declared.label
    return f"accuracy, {declared.label}" if bare else declared.label


def _group(name: str) -> str:
    return next((group for group in GROUPS if name.endswith(group)), "")
