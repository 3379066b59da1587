"""The figures of audits by canaries: the claimed epsilon against the audited one, and what the level of the noise tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.report.figures.arrangement import Arrangement, Point
from orchestrator.report.figures.drawing import (
    BODY,
    REFERENCE,
    PanelRow,
    Sheet,
    algorithm_handles,
    dashed_handle,
    grid,
    legend,
    marker,
    stroke,
    wrap,
)
from orchestrator.report.figures.marks import mean_note, means_with_intervals, measured, places
from orchestrator.report.values import Row, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLAIMED, AUDITED, CERTIFIED = "epsilon", "epsilon_audit", "epsilon_audit_certified"
RED = "#C62828"
PROOF: dict[str, Any] = {"marker": "_", "linestyle": "none", "markersize": 12, "markeredgewidth": 2}
RING: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 15, "fillstyle": "none", "color": RED}
APART = 1.05  # the factor between the claims of two seeds, which are equal, so that their marks do not cover each other
# Marks of the three things that metric privacy's audit measures.
TELLS = {
    "epsilon_audit_direction": ("o", "a canary of norm C, by the direction of the model's change"),
    "epsilon_audit_scale": ("s", "a canary of norm C, by the level of the noise"),
    "epsilon_scale_outlier": ("^", "the client that is told most of, by the level of the noise"),
}
SMALL = 0.1  # epsilon below which the axis is linear, so that 0 has a place


def audit(arr: Arrangement) -> Figure | None:
    """The epsilon that canaries leave to be told over the one that is claimed, on logarithmic axes."""
    shown = [trial for trial in arr.trials if _number(trial, CLAIMED) > 0 and _number(trial, AUDITED) > 0]
    if not shown:
        return None
    values = [_number(trial, name) for trial in shown for name in (CLAIMED, AUDITED, f"{AUDITED}_high")]
    values = [value for value in values if 0 < value < math.inf]
    low, high = min(values) / 3, max(values) * 2
    panels = [
        panel
        for panel in arr.panels
        if any(t in shown for _, _, at, hue in places(arr) for t in arr.cell(panel, at, hue))
    ]
    refuted = any(text(trial.get("audit_verdict")) == "refuted" for trial in shown)
    extra = [dashed_handle("audited = claimed"), stroke("certified with 95 %", color="black", **PROOF)]
    extra += [stroke("claim refuted", **RING)] if refuted else []
    note = "points: the estimate of one run; bars: its 95 % interval, if scores are normal; below the line is no proof"
    sheet = Sheet("Claimed epsilon of a client, and what canaries find in the releases", note, tuple(extra))
    figure, axes = wrap(arr, sheet, [arr.panel_label(panel) for panel in panels], "claimed epsilon", "audited epsilon")
    for ax, panel in zip(axes, panels, strict=True):
        ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
        ax.plot([low, high], [low, high], **REFERENCE)
        for _, _, position, hue in places(arr):
            runs = [trial for trial in arr.cell(panel, position, hue) if trial in shown]
            _runs(ax, runs, low, {"color": arr.palette[text(hue)], "marker": marker(arr, hue)})
    legend(figure, algorithm_handles(arr), sheet)
    return figure


def _runs(ax: Axes, runs: Sequence[Row], lowest: float, style: dict[str, Any]) -> None:
    """Draw the runs of a setting side by side; what is below the axis is drawn at its lower end."""
    for j, trial in enumerate(runs):
        x = _number(trial, CLAIMED) * APART ** (j - (len(runs) - 1) / 2)
        middle, proved = _number(trial, AUDITED), _number(trial, CERTIFIED)
        ends = [_number(trial, f"{AUDITED}_{end}") for end in ("low", "high")]
        known = not any(map(math.isnan, ends))
        bar = [[middle - max(ends[0], lowest)], [max(ends[1] - middle, 0)]] if known else None
        ax.errorbar([x], [middle], yerr=bar, capsize=2, markersize=5, linewidth=1.3, alpha=0.85, **style)
        if proved > lowest:
            ax.plot([x], [proved], **PROOF | {"color": style["color"], "markersize": 8})
        if text(trial.get("audit_verdict")) == "refuted":
            ax.plot([x], [middle], zorder=6, **RING)


def _number(trial: Row, name: str) -> float:
    value = trial.get(name)
    return float(value) if value is not None else math.nan


def noise_level(arr: Arrangement) -> Figure | None:
    """What metric privacy's releases tell of a client: by the direction of the change, and by the level of the noise."""
    shown = {name: look for name, look in TELLS.items() if measured(arr, name)}
    if not {"epsilon_audit_scale", "epsilon_scale_outlier"} & set(shown):
        return None
    note = mean_note(arr, "marks", "bars") + "; to somebody who knows all the rest; linear below 0.1"
    extra = tuple(stroke(label, color="black", linestyle="none", marker=shape) for shape, label in shown.values())
    sheet = Sheet("Metric privacy: does the level of the noise tell who is there?", note, extra)
    rows = [
        PanelRow(panel, ("epsilon_audit",), "epsilon at delta 1e-5", arr.panel_label(panel)) for panel in arr.panels
    ]
    return grid(arr, sheet, [""], rows, _level_panel, "patch")


def _level_panel(ax: Axes, arr: Arrangement, panel: Point, _metric: str) -> None:
    ax.set_yscale("symlog", linthresh=SMALL)
    for x, room, position, hue in places(arr):
        for k, (name, (shape, _)) in enumerate(TELLS.items()):
            values = arr.measured(panel, position, hue, name)
            at = x + (k - 1) * room / 4
            means_with_intervals(ax, [(at, values)], color=arr.palette[text(hue)], marker=shape)
        named = {text(trial.get("scale_outlier")) for trial in arr.cell(panel, position, hue)} - {""}
        values = arr.measured(panel, position, hue, "epsilon_scale_outlier")
        if len(named) == 1 and values:
            place: dict[str, Any] = {"xytext": (0, 8), "textcoords": "offset points", "ha": "center", "fontsize": BODY}
            ax.annotate(f"client {named.pop()}", (x + room / 4, max(values)), **place)
    ax.set_ylim(bottom=0)
    ax.margins(y=0.2)
