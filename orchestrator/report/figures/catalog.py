"""The list of all figures of a report. Each is a function of an `Arrangement` that returns None without data.

The figures of the IFCA-MIR paper (Figures 1 to 8) are here and in `curves`, those of FinP in `exposure`, and those of
metric privacy in `protection`. To add a figure, write a function and add it to `FIGURES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.report.data import Results
from orchestrator.report.figures.arrangement import Arrangement, Point, arrange
from orchestrator.report.figures.curves import convergence, motivation
from orchestrator.report.figures.drawing import (
    BODY,
    GRAY,
    RATES,
    REFERENCE,
    Draw,
    PanelRow,
    Sheet,
    bars,
    box_note,
    boxes,
    dashed_handle,
    grid,
    intervals,
    mean_note,
)
from orchestrator.report.figures.exposure import clients_exposed, curvature, exposure, weights
from orchestrator.report.figures.protection import cia, is_protected, noise, roc, trade_off

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUPS = ("majority", "minority")
FAIRNESS = {
    "demographic_parity": "demographic parity",
    "equal_opportunity": "equal opportunity",
    "equalized_odds": "equalized odds",
}


def figures(results: Results) -> Iterator[tuple[str, Figure]]:
    """Yield the name and figure of everything that these results can show, one at a time to save memory."""
    arr = arrange(results)
    if arr is None:
        return
    for name, draw in FIGURES.items():
        figure = draw(arr)
        if figure is not None:
            yield name, figure


def accuracy(arr: Arrangement) -> Figure | None:
    """Accuracy over all clients, if the sweep has no groups; `trade_off` shows it for sweeps with privacy mechanisms."""
    if is_protected(arr) or any(_has(arr, f"accuracy_{group}") for group in GROUPS):
        return None
    return _panels(arr, Sheet("Accuracy", box_note(arr)), {"accuracy": ""}, "accuracy (fraction)", boxes)


def accuracy_by_group(arr: Arrangement) -> Figure | None:
    """Accuracy by true group: each client's test data under the model that the client uses."""
    sheet = Sheet("Accuracy of the clients of each group, with the model that they use", box_note(arr))
    names = {f"accuracy_{group}": f"{group} clients" for group in GROUPS}
    return _panels(arr, sheet, names, "accuracy (fraction)", boxes)


def accuracy_by_model(arr: Arrangement) -> Figure | None:
    """Accuracy of each model on the test data of its own group, as the paper plots it."""
    sheet = Sheet("Accuracy of each model on its own group's data", box_note(arr))
    names = {f"model_accuracy_{group}": f"{group} model" for group in GROUPS}
    return _panels(arr, sheet, names, "accuracy (fraction)", boxes)


def mia(arr: Arrangement) -> Figure | None:
    """Balanced accuracy of membership inference against each model."""
    sheet = Sheet("Membership inference against each model", mean_note(arr), (dashed_handle("guessing (0.5)"),), RATES)
    names = {f"mia_accuracy_{group}": f"{group} model" for group in GROUPS}

    def draw(ax: Axes, arr: Arrangement, panel: Point, metric: str) -> None:
        ax.axhline(0.5, **REFERENCE)
        intervals(ax, arr, panel, metric)

    return _panels(arr, sheet, names, "attack accuracy (fraction)", draw)


def violations(arr: Arrangement) -> Figure | None:
    """Number of clients whose privacy tolerance the attack on their model exceeds, in total and by true group."""
    sheet = Sheet("Clients whose privacy tolerance is exceeded", mean_note(arr, "bars", "whiskers"))
    names = {"violations": "all clients"} | {f"violations_{group}": f"{group} clients" for group in GROUPS}
    return _panels(arr, sheet, names, "violations (clients)", bars)


def fairness(arr: Arrangement) -> Figure | None:
    """The three fairness metrics between groups: signed values, if there are any, and absolute values."""
    arr = _with_last_round(arr, tuple(f"{name}_signed" for name in FAIRNESS))
    kinds = {"_signed": "majority − minority (fraction)", "": "absolute difference (fraction)"}
    shown = [kind for kind in kinds if any(_has(arr, name + kind) for name in FAIRNESS)]
    names = {name: label for name, label in FAIRNESS.items() if any(_has(arr, name + kind) for kind in shown)}
    if not names:
        return None
    rows = [
        PanelRow(panel, tuple(name + kind for name in names), kinds[kind], arr.panel_label(panel))
        for panel in arr.panels
        for kind in shown
    ]
    sheet = Sheet("Fairness: differences between the groups", mean_note(arr), (dashed_handle("equal treatment (0)"),))
    return grid(arr, sheet, list(names.values()), rows, _fairness_panel)


FIGURES: dict[str, Callable[[Arrangement], Figure | None]] = {
    "accuracy": accuracy,
    "accuracy_by_group": accuracy_by_group,
    "accuracy_by_model": accuracy_by_model,
    "mia": mia,
    "violations": violations,
    "fairness": fairness,
    "convergence": convergence,
    "motivation": motivation,
    "exposure": exposure,
    "clients_exposed": clients_exposed,
    "weights": weights,
    "curvature": curvature,
    "trade_off": trade_off,
    "noise": noise,
    "cia": cia,
    "roc": roc,
}


def _fairness_panel(ax: Axes, arr: Arrangement, panel: Point, metric: str) -> None:
    ax.axhline(0, **REFERENCE)
    intervals(ax, arr, panel, metric)
    if metric == "demographic_parity_signed":
        note = "always 0: in each group, the\nfractions of all classes add up to 1"
        ax.annotate(note, (0.5, 0.9), xycoords="axes fraction", ha="center", va="top", fontsize=BODY - 1, color=GRAY)


def _panels(arr: Arrangement, sheet: Sheet, names: dict[str, str], ylabel: str, draw: Draw) -> Figure | None:
    """A figure with a column for each measured metric and a row for each value of the facets."""
    shown = {name: label for name, label in names.items() if _has(arr, name)}
    if not shown:
        return None
    rows = [PanelRow(panel, tuple(shown), ylabel, arr.panel_label(panel)) for panel in arr.panels]
    return grid(arr, sheet, list(shown.values()), rows, draw)


def _has(arr: Arrangement, metric: str) -> bool:
    return any(trial.get(metric) is not None for trial in arr.trials)


def _with_last_round(arr: Arrangement, names: tuple[str, ...]) -> Arrangement:
    """The arrangement with values from each trial's last round, for metrics that are missing in the final metrics."""
    last = {ident: rounds[-1] for ident, rounds in arr.results.rounds.items() if rounds}
    found = [{name: last.get(trial["id"], {}).get(name) for name in names} for trial in arr.trials]
    held = [{name: value for name, value in trial.items() if value is not None} for trial in arr.trials]
    return replace(arr, trials=tuple({**trial, **f, **h} for trial, f, h in zip(arr.trials, found, held, strict=True)))
