"""The figures of audits: the claimed epsilon against the audited one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from algorithms.auditing.attacks import DELTA
from algorithms.auditing.epsilon import epsilon_gdp, mu_gdp
from orchestrator.report.figures.arrangement import Arrangement
from orchestrator.report.figures.drawing import (
    REFERENCE,
    Sheet,
    algorithm_handles,
    dashed_handle,
    legend,
    marker,
    stroke,
    wrap,
)
from orchestrator.report.figures.marks import measured, places, plain_ticks
from orchestrator.report.figures.settings import table_of
from orchestrator.report.values import Row, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RED = "#C62828"
PROOF: dict[str, Any] = {"marker": "_", "linestyle": "none", "markersize": 8, "markeredgewidth": 2}
RING: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 15, "fillstyle": "none", "color": RED}
NOTHING: dict[str, Any] = {"marker": "v", "linestyle": "none", "markersize": 7, "fillstyle": "none", "clip_on": False}


@dataclass(frozen=True)
class Audited:
    """A claim, and what an audit found.

    Attributes:
        claimed: the claimed epsilon.
        found: the estimated one.
        low: the lower end of its 95 % interval; NaN if there is none.
        high: the upper end.
        certified: the epsilon that is certified; NaN if there is none.
        refuted: whether the claim is refuted.
    """

    claimed: float
    found: float
    low: float
    high: float
    certified: float = math.nan
    refuted: bool = False


def audit(arr: Arrangement) -> Figure | None:
    """The epsilon of a client that canaries leave to be told over the one that is claimed, on logarithmic axes."""
    names = ("epsilon", "epsilon_audit", "epsilon_audit_low", "epsilon_audit_high")
    found = {
        trial["id"]: replace(
            _audited([_number(trial, name) for name in names]),
            certified=_number(trial, "epsilon_audit_certified"),
            refuted=text(trial.get("audit_verdict")) == "refuted",
        )
        for trial in arr.trials
    }
    note = "points: the estimate of one run; bars: its 95 % interval, if scores are normal; below the line is no proof"
    return _against(arr, found, "Claimed epsilon of a client, and what canaries find in the releases", note)


def audit_example(arr: Arrangement) -> Figure | None:
    """The epsilon of an example that a membership attack's AUC comes to over the one that DP-SGD claims, at its delta."""
    found = {}
    for trial in arr.trials if measured(arr, "epsilon_example") else ():
        table = table_of(arr, trial, "attacks", ("attack", "round", "metric", "value", "low", "high"))
        if table is None:
            continue
        rows = table[(table["attack"] == "risk") & (table["metric"] == "epsilon_record")]
        rows = rows[rows["round"] == rows["round"].max()]
        if len(rows):
            worst = rows.loc[rows["value"].fillna(-1).idxmax()]
            ends = [_at_delta_of(trial, float(worst[name])) for name in ("value", "low", "high")]
            found[trial["id"]] = _audited([_number(trial, "epsilon_example"), *ends])
    note = (
        "points: the estimate from the AUC of the attack on the final model of one run; bars: its 95 % interval over examples; "
        "both at the delta of the claim; the claim is for all rounds and any attack, so below the line is no proof"
    )
    return _against(arr, found, "Claimed epsilon of an example, and what a membership attack finds", note)


def _at_delta_of(trial: Row, epsilon: float) -> float:
    """Return an attack's epsilon, which is stored at delta 1e-5, at the delta of the trial's claim."""
    delta = _number(trial, "delta_example")
    if math.isnan(delta) or delta == DELTA or not math.isfinite(epsilon):
        return epsilon
    return epsilon_gdp(mu_gdp(epsilon, DELTA), delta) if epsilon else 0.0


def _audited(numbers: Sequence[float]) -> Audited:
    claimed, found, low, high = numbers
    return Audited(claimed, found, low, high)


def _against(arr: Arrangement, found: Mapping[str, Audited], title: str, note: str) -> Figure | None:
    """A panel for each value of the facets, with a diagonal; None without a claim that was audited."""
    found = {ident: one for ident, one in found.items() if one.claimed > 0 and one.found >= 0}
    trials = tuple(trial for trial in arr.trials if trial["id"] in found)
    values = [value for one in found.values() for value in (one.claimed, one.found, one.high) if 0 < value < math.inf]
    if not trials:
        return None
    arr = replace(arr, trials=trials)
    low, high = min(values) / 3, max(values) * 2
    extra = [dashed_handle("audited = claimed")]
    if any(one.certified > low for one in found.values()):
        extra.append(stroke("certified with 95 %", color="black", **PROOF))
    if any(one.found < low for one in found.values()):
        extra.append(stroke("estimate 0", color="black", **NOTHING))
    if any(one.refuted for one in found.values()):
        extra.append(stroke("claim refuted", **RING))
    sheet = Sheet(title, note, tuple(extra))
    figure, axes = wrap(arr, sheet, list(map(arr.panel_label, arr.panels)), "claimed epsilon", "audited epsilon")
    for ax, panel in zip(axes, arr.panels, strict=True):
        ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
        plain_ticks(ax, high / low)
        ax.plot([low, high], [low, high], **REFERENCE)
        for _, _, position, hue in places(arr):
            style = {"color": arr.palette[text(hue)], "marker": marker(arr, hue)}
            runs = [found[trial["id"]] for trial in arr.cell(panel, position, hue)]
            for one in runs:  # at its claim: a point that is moved aside may lie on the other side of the line
                _mark(ax, one, low, style)
    legend(figure, algorithm_handles(arr), sheet)
    return figure


def _mark(ax: Axes, one: Audited, lowest: float, style: dict[str, Any]) -> None:
    """Draw a run; what is below the axis is drawn at its lower end."""
    x, middle = one.claimed, max(one.found, lowest)
    known = not (math.isnan(one.low) or math.isnan(one.high))
    bar = [[max(middle - max(one.low, lowest), 0)], [max(one.high - middle, 0)]] if known else None
    look = style | ({"marker": "none"} if one.found < lowest else {})
    ax.errorbar([x], [middle], yerr=bar, capsize=2, markersize=5, linewidth=1.3, alpha=0.55, **look)
    if one.found < lowest:
        ax.plot([x], [lowest], color=style["color"], **NOTHING)
    if one.certified > lowest:
        ax.plot([x], [one.certified], color=style["color"], **PROOF)
    if one.refuted:
        ax.plot([x], [middle], zorder=6, **RING)


def _number(trial: Row, name: str) -> float:
    value = trial.get(name)
    return float(value) if value is not None else math.nan
