"""The list of all figures of a report. Each is a function of an `Arrangement` that returns None without data.

The figures of the IFCA-MIR paper (Figures 1 to 8) are here and in `curves`, those of FinP in `exposure`, and those of
metric privacy in `protection`, and those of audits in `audited`. To add a figure, write a function and add it to `FIGURES`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.report.data import Results
from orchestrator.report.estimate import FEWEST
from orchestrator.report.figures.arrangement import Arrangement, Point, arrange
from orchestrator.report.figures.attack_roc import attack_roc
from orchestrator.report.figures.audited import audit, audit_example, noise_level
from orchestrator.report.figures.clients_exposed import CLIENTS_EXPOSED
from orchestrator.report.figures.curves import convergence, motivation
from orchestrator.report.figures.drawing import (
    GRAY,
    RATES,
    Draw,
    PanelRow,
    Sheet,
    dashed_handle,
    grid,
    stroke,
)
from orchestrator.report.figures.exposure import curvature, exposure, weights
from orchestrator.report.figures.marks import bars, box_note, boxes, chances, intervals, mean_note, measured, seeds
from orchestrator.report.figures.protection import accuracy_of_protected, cia, classifier_roc, is_protected, noise
from orchestrator.report.figures.trade_off import trade_off

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUPS = ("majority", "minority")
EQUAL: dict[str, Any] = {"color": GRAY, "linewidth": 0.8, "zorder": 1}
FAIRNESS = {  # the signed demographic parity is always 0 and has no panel, so that its column is the last
    "equal_opportunity": "equal opportunity",
    "equalized_odds": "equalized odds",
    "demographic_parity": "demographic parity",
}


def figures(results: Results, names: Container[str] | None = None) -> Iterator[tuple[str, Figure]]:
    """Yield the name and figure of everything that these results can show, one at a time to save memory.

    Args:
        results: the results of a sweep.
        names: the figures that are wanted; default: all.
    """
    arr = arrange(results)
    if arr is None:
        return
    for name, draw in FIGURES.items():
        figure = draw(arr) if names is None or name in names else None
        if figure is not None:
            yield name, figure


def accuracy(arr: Arrangement) -> Figure | None:
    """Accuracy over all clients, if the sweep has no groups; by mechanism and test set, if it has privacy mechanisms."""
    if is_protected(arr):
        return accuracy_of_protected(arr)
    if any(measured(arr, f"accuracy_{group}") for group in GROUPS):
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


def risk(arr: Arrangement) -> Figure | None:
    """Accuracy of membership inference on the clients' own examples, each under the model that its client uses."""
    names = {f"risk_{group}": f"{group} clients" for group in reversed(GROUPS)} | {"risk_worst_client": "worst client"}
    sheet = Sheet("Membership inference on the clients' examples, under the model that each uses", mean_note(arr))
    return _panels(arr, sheet, names, "attack accuracy (fraction)", intervals)


def mia(arr: Arrangement) -> Figure | None:
    """Balanced accuracy of membership inference against each model."""
    sheet = Sheet("Membership inference against each model", mean_note(arr))
    kinds = [*GROUPS] if any(measured(arr, f"mia_accuracy_{group}") for group in GROUPS) else ["global"]
    names = {f"mia_accuracy_{kind}": f"{kind} model" for kind in kinds}
    if not any(measured(arr, name) for name in names):
        names = {"mia_accuracy_worst": "worst model", "mia_accuracy": "mean over models"}
    return _panels(arr, sheet, names, "attack accuracy (fraction)", intervals)


def movers(arr: Arrangement) -> Figure | None:
    """Accuracy of membership inference on the examples of the clients that moved to another model."""
    names = {"movers_risk_left": "under the model that they left", "movers_risk": "under the model that they use"}
    sheet = Sheet("Membership inference on the examples of the clients that moved", mean_note(arr))
    return _panels(arr, sheet, names, "attack accuracy (fraction)", intervals)


def violations(arr: Arrangement) -> Figure | None:
    """Number of clients whose privacy tolerance the attack on their model exceeds, in total and by true group."""
    sheet = Sheet("Clients whose privacy tolerance is exceeded", mean_note(arr, "bars", "whiskers"))
    names = {"violations": "all clients"} | {f"violations_{group}": f"{group} clients" for group in GROUPS}
    return _panels(arr, sheet, names, "violations (clients)", bars)


def fairness(arr: Arrangement) -> Figure | None:
    """The three fairness metrics between groups: signed values, if there are any, and absolute values."""
    arr = _with_last_round(arr, tuple(f"{name}_signed" for name in FAIRNESS))
    kinds = {"_signed": "majority − minority (fraction)", "": "absolute difference (fraction)"}
    shown = [kind for kind in kinds if any(measured(arr, name + kind) for name in FAIRNESS)]
    names = {name: label for name, label in FAIRNESS.items() if any(measured(arr, name + kind) for kind in shown)}
    if not names:
        return None
    rows = [
        PanelRow(
            panel,
            tuple(name + kind if measured(arr, name + kind) else "" for name in names),
            kinds[kind],
            arr.panel_label(panel),
        )
        for panel in arr.panels
        for kind in reversed(shown)  # the row that may lack a panel comes last
    ]
    extra = (stroke("equal treatment (0)", **EQUAL), *_chance_handle(arr, tuple(names)))
    sheet = Sheet("Fairness: differences between the groups", mean_note(arr), extra)
    return grid(arr, sheet, list(names.values()), rows, _fairness_panel)


FIGURES: dict[str, Callable[[Arrangement], Figure | None]] = {
    "trade_off": trade_off,
    "risk": risk,
    "mia": mia,
    "attack_roc": attack_roc,
    **CLIENTS_EXPOSED,
    "violations": violations,
    "movers": movers,
    "accuracy": accuracy,
    "accuracy_by_group": accuracy_by_group,
    "accuracy_by_model": accuracy_by_model,
    "fairness": fairness,
    "convergence": convergence,
    "motivation": motivation,
    "exposure": exposure,
    "weights": weights,
    "curvature": curvature,
    "noise": noise,
    "audit": audit,
    "audit_example": audit_example,
    "noise_level": noise_level,
    "cia": cia,
    "classifier_roc": classifier_roc,
}
FORMER = ("clients_exposed", "roc")  # names of figures in earlier versions, which a new report removes


def _fairness_panel(ax: Axes, arr: Arrangement, panel: Point, metric: str) -> None:
    ax.axhline(0, **EQUAL)
    intervals(ax, arr, panel, metric)


def _panels(arr: Arrangement, sheet: Sheet, names: dict[str, str], ylabel: str, draw: Draw) -> Figure | None:
    """A figure with a column for each measured metric and a row for each value of the facets."""
    shown = {name: label for name, label in names.items() if measured(arr, name)}
    if not shown:
        return None
    within = RATES if ylabel.endswith("(fraction)") else sheet.within
    extra = (*sheet.extra, *(_chance_handle(arr, tuple(shown)) if draw is not boxes else ()))
    rows = [PanelRow(panel, tuple(shown), ylabel, arr.panel_label(panel)) for panel in arr.panels]
    sheet = replace(sheet, extra=extra, within=within)
    return grid(
        arr, sheet, list(shown.values()), rows, draw, "patch" if draw is bars and seeds(arr)[1] >= FEWEST else "marker"
    )


def _chance_handle(arr: Arrangement, names: tuple[str, ...]) -> tuple[Any, ...]:
    """The legend entry of the value by chance, with the number if it is the same for all metrics that have one."""
    found = {round(value, 9) for name in names for value in chances(arr.trials, name)}
    if not found:
        return ()
    return (dashed_handle(f"guessing ({found.pop():g})" if len(found) == 1 else "by chance"),)


def _with_last_round(arr: Arrangement, names: tuple[str, ...]) -> Arrangement:
    """The arrangement with values from each trial's last round, for metrics that are missing in the final metrics."""
    last = {ident: rounds[-1] for ident, rounds in arr.results.rounds.items() if rounds}
    found = [{name: last.get(trial["id"], {}).get(name) for name in names} for trial in arr.trials]
    held = [{name: value for name, value in trial.items() if value is not None} for trial in arr.trials]
    return replace(arr, trials=tuple({**trial, **f, **h} for trial, f, h in zip(arr.trials, found, held, strict=True)))
