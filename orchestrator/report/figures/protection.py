"""The figures of metric privacy: noise by round, the classifiers' ROC, client inference, and accuracy by mechanism."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from orchestrator.report.data import Floats
from orchestrator.report.estimate import FEWEST
from orchestrator.report.figures.arrangement import Arrangement, Point, by_method
from orchestrator.report.figures.curves import curve, in_rounds
from orchestrator.report.figures.drawing import (
    BODY,
    GRAY,
    RATES,
    REFERENCE,
    PanelRow,
    Sheet,
    algorithm_handles,
    blank,
    dashed_handle,
    grid,
    label_columns,
    label_row,
    legend,
    marker,
    stroke,
    wrap,
)
from orchestrator.report.figures.marks import bars, intervals, mean_note, measured, places
from orchestrator.report.figures.settings import own_positions, place_label, trials_at
from orchestrator.report.values import text
from orchestrator.report.vocabulary import value_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRIVACY = "privacy.name"
BY_ROUND = {
    "noise_std": "standard deviation of the noise in a weight",
    "distance": "distance d of the clients' models",
    "noise_to_update": "norm of the noise / norm of the mean update",
}
STROKES = {"metric_privacy": "-", "global_dp": "--"}
DOTTED = REFERENCE | {"linestyle": ":"}
UNNAMED = (":", "-.")  # line styles of further kinds of noise
JUDGED = {
    "aggregated_accuracy": "accuracy, clients' test data\n(fraction)",
    "test_accuracy": "accuracy, server's test data\n(fraction)",
    "f1_macro": "macro F1, server's test data",
}
GRID = 200  # false positive rates at which ROC curves are averaged


def noise(arr: Arrangement) -> Figure | None:
    """The noise that the server adds, and the distance that scales it in metric privacy; colors are strategies."""
    from matplotlib.ticker import MaxNLocator

    noisy = tuple(t for t in arr.trials if any(row.get("noise_std") is not None for row in arr.results.rounds[t["id"]]))
    if not noisy:
        return None
    note = mean_note(arr, "lines", "bands")
    arr = by_method(arr, noisy, besides=(PRIVACY,))
    kinds = sorted(
        {text(arr.results.value(trial, PRIVACY)) for trial in noisy}, key=lambda kind: kind != "metric_privacy"
    )
    strokes = dict(zip((kind for kind in kinds if kind not in STROKES), UNNAMED, strict=False)) | STROKES
    shown = [name for name in BY_ROUND if in_rounds(arr, name)]
    extra = [stroke(value_label(PRIVACY, kind), linestyle=strokes.get(kind, "-")) for kind in kinds]
    extra += [stroke("d = 1: the same noise as global-DP", **DOTTED)] if "distance" in shown else []
    sheet = Sheet("Noise of the server over the rounds", note, tuple(extra))
    figure, axes = blank(arr, sheet, len(arr.panels), len(shown), 3.4, shared="col")
    for line, panel in zip(axes, arr.panels, strict=True):
        for ax, name in zip(line, shown, strict=True):
            if name == "distance":
                ax.axhline(1, **DOTTED)
            for hue in arr.hues:
                for kind in kinds:
                    here = [t for t in arr.cell(panel, (), hue) if text(arr.results.value(t, PRIVACY)) == kind]
                    curve(ax, arr, here, name, color=arr.palette[text(hue)], linestyle=strokes.get(kind, "-"))
            ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        label_row(line, "", arr.panel_label(panel))
    for ax in axes[0]:
        ax.set_ylim(bottom=0)
    label_columns(axes, [BY_ROUND[name] for name in shown], "round")
    legend(figure, algorithm_handles(arr, "line"), sheet)
    return figure


def classifier_roc(arr: Arrangement) -> Figure | None:
    """Micro-averaged ROC curves of the final models on the server's test data, a panel for each position and facet."""
    if any(trial.get("accuracy_majority") is not None for trial in arr.trials):
        return None  # sweeps with groups have several models and other figures
    columns = ("false_positive_rate", "true_positive_rate")
    held = {trial["id"]: table for trial in arr.trials if (table := arr.results.columns(trial, "roc", columns))}
    panels = [(panel, position) for panel in arr.panels for position in own_positions(arr)]
    panels = [
        place for place in panels if any(t["id"] in held for hue in arr.hues for t in trials_at(arr, *place, hue))
    ]
    if not panels:
        return None
    several = any(len(trials_at(arr, *place, hue)) > 1 for place in panels for hue in arr.hues)
    note = "lines: mean over seeds at equal false positive rates; " if several else ""
    note += "numbers: area under the curve"
    sheet = Sheet(
        "ROC curves of the classifier on the server's test data, one class against the rest",
        note,
        (dashed_handle("guessing"),),
    )
    headings = [place_label(arr, *place) for place in panels]
    figure, axes = wrap(arr, sheet, headings, "false positive rate (fraction)", "true positive rate\n(fraction)")
    for ax, place in zip(axes, panels, strict=True):
        ax.plot([0, 1], [0, 1], **REFERENCE)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        for j, hue in enumerate(arr.hues):
            trials = [trial for trial in trials_at(arr, *place, hue) if trial["id"] in held]
            _roc_curve(ax, [held[trial["id"]] for trial in trials], arr.palette[text(hue)], len(arr.hues) - 1 - j)
    legend(figure, algorithm_handles(arr, "line"), sheet)
    return figure


def cia(arr: Arrangement) -> Figure | None:
    """Client inference by strategy and mechanism: the AUC of the paired test, and the difference as published."""
    rounds = {round_ for trial in arr.trials if (round_ := trial.get("cia_round")) is not None}
    after = f", round {float(rounds.pop()):g}" if len(rounds) == 1 else ""
    rows = {
        "cia_auc": f"AUC of the paired test{after}\n(fraction)",
        "cia_difference": "difference of losses\n(fraction of the target's)",
    }
    shown = [name for name in rows if measured(arr, name)]
    if not shown:
        return None
    extra = (dashed_handle("guessing (0.5)"),) if "cia_auc" in shown else ()
    note = mean_note(arr, "marks and bars", "whiskers of the difference")
    if "cia_auc" in shown:
        note += (
            "; whiskers of the AUC: 95 % interval over the pairs of federations of one run; an AUC near 0 is success"
        )
    sheet = Sheet("Client inference: can an attacker tell that a client takes part?", note, extra)
    panels = [PanelRow(panel, (name,), rows[name], arr.panel_label(panel)) for panel in arr.panels for name in shown]
    return grid(arr, sheet, [""], panels, _cia_panel)


def accuracy_of_protected(arr: Arrangement) -> Figure | None:
    """Accuracy of the final model by strategy and mechanism, on the clients' and on the server's test data."""
    shown = [name for name in JUDGED if measured(arr, name)]
    if not shown:
        return None
    rows = [PanelRow(panel, (name,), JUDGED[name], arr.panel_label(panel)) for panel in arr.panels for name in shown]
    sheet = Sheet("Accuracy of the final model", mean_note(arr), within=RATES)
    return grid(arr, sheet, [""], rows, intervals)


def is_protected(arr: Arrangement) -> bool:
    """Whether a sweep without groups has a trial with a privacy mechanism."""
    kinds = {text(arr.results.value(trial, PRIVACY)) for trial in arr.trials} - {"", "none"}
    return bool(kinds) and not any(trial.get("accuracy_majority") is not None for trial in arr.trials)


def _roc_curve(ax: Axes, tables: list[dict[str, Floats]], color: str, line: int) -> None:
    """Draw the mean of the curves, and write their mean area as the ``line``-th number from the bottom."""
    import numpy as np

    from algorithms.metrics.classification import area

    if not tables:
        return
    at = np.linspace(0, 1, GRID)
    rates = [np.interp(at, table["false_positive_rate"], table["true_positive_rate"]) for table in tables]
    areas = [area(table["false_positive_rate"], table["true_positive_rate"]) for table in tables]
    ax.plot(at, np.mean(rates, axis=0), color=color, linewidth=1.8)
    place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "bottom", "fontsize": BODY}
    ax.annotate(f"{np.mean(areas):.3f}", (0.97, 0.05 + 0.1 * line), color=color, **place)


def _cia_panel(ax: Axes, arr: Arrangement, panel: Point, metric: str) -> None:
    if metric == "cia_difference":
        bars(ax, arr, panel, metric)
        ax.axhline(0, color=GRAY, linewidth=0.8)
        return
    ax.axhline(0.5, **REFERENCE)
    for x, room, position, hue in places(arr):
        ends = ("cia_auc", "cia_auc_low", "cia_auc_high")
        runs = [
            [float(trial[end]) if trial.get(end) is not None else math.nan for end in ends]
            for trial in arr.cell(panel, position, hue)
            if trial.get("cia_auc") is not None
        ]
        if len(runs) >= FEWEST:
            runs = [[sum(values) / len(values) for values in zip(*runs, strict=True)]]
        style: dict[str, Any] = {"color": arr.palette[text(hue)], "marker": marker(arr, hue), "capsize": 3}
        for j, (middle, low, high) in enumerate(runs):
            at = x + (j - (len(runs) - 1) / 2) * room / 2
            bar = None if math.isnan(low) else [[middle - low], [high - middle]]
            ax.errorbar([at], [middle], yerr=bar, **style)
    ax.set_ylim(-0.05, 1.05)  # so that marks at 0 and 1 are not cut off
