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

from algorithms.core.metric import ACCURACY
from orchestrator.tracking.headlines import label, trade_offs
from orchestrator.tracking.labels import RUN, metric_key

KEY = "fedpriv"
TAG = f"mlflow.sharedViewState.{KEY}"
TRADE_OFF, SETTINGS = "trade-off", "headline metrics"
WIDTH = 190  # of a column in pixels: the names of most metrics fit
TITLE = "settings, mean over seeds"


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


def view(created: int, grouped_by: Sequence[str], headlines: Sequence[str], names: Collection[str]) -> str:
    """The value of the tag `TAG`.

    Args:
        created: time in milliseconds since 1970.
        grouped_by: the parameters that make a setting: the swept keys without the seeds.
        headlines: the metrics, by name, that are columns.
        names: all measured metrics, by name; each section of theirs is listed.
    """
    state = json.dumps(_state(grouped_by, headlines, names), separators=(",", ":"))
    packed = "deflate;" + base64.b64encode(zlib.compress(state.encode())).decode()
    return json.dumps({"name": TITLE, "createdAt": created, "updatedAt": created, "state": packed})


def unpacked(tag: str) -> dict[str, Any]:
    """The state of the page that a tag's value holds, as MLflow's page reads it."""
    packed = json.loads(tag)["state"].removeprefix("deflate;")
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return found


def _state(grouped_by: Sequence[str], headlines: Sequence[str], names: Collection[str]) -> dict[str, Any]:
    columns = [*(f"params.`{key}`" for key in grouped_by), *(f"metrics.`{metric_key(name)}`" for name in headlines)]
    groups = [{"mode": "param", "groupByData": key} for key in grouped_by]
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
        "groupBy": {"aggregateFunction": "average", "groupByKeys": groups} if groups else None,
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
        _chart("SCATTER", TRADE_OFF, f"{label(pair.risk)} against {label(pair.accuracy)}")
        | {"xaxis": _axis(pair.accuracy), "yaxis": _axis(pair.risk), "runsCountToCompare": 100}
        for pair in trade_offs(headlines)
    ]
    charts += [
        _chart("BAR", SETTINGS, label(name)) | {"metricKey": metric_key(name), "runsCountToCompare": 100}
        for name in headlines
    ]
    own = {metric_key(name).rpartition("/")[0] for name in names}
    first = metric_key(headlines[0]).rpartition("/")[0] if headlines else ACCURACY
    listed = [TRADE_OFF, SETTINGS, *sorted(own - {RUN}, key=lambda section: (section != first, section)), RUN]
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
