"""What attacks on models found: ROC curves (Carlini et al. 2022), and claimed beside audited epsilons.

The curves are made of the scores in ``scores.parquet``, those of the last attacked round. What attacks on replicas of a
run found in the run's own model stands beside the other attacks, and what they found in the replicas in a panel of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

from orchestrator.metric_names import kind, metrics
from orchestrator.report.context import REFUTED, VERDICT
from orchestrator.report.data import Floats, Row, Setting, text
from orchestrator.report.figures.arrangement import Arrangement, Point
from orchestrator.report.figures.drawing import (
    GRAY,
    IN_A_ROW,
    RATES,
    REFERENCE,
    grid,
    handles,
    label_axes,
    legend,
    stroke,
    write_areas,
)
from orchestrator.report.vocabulary import PALETTE, component_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Scores = dict[tuple[str, str], tuple[Floats, Any]]  # scores and membership [n], by target and attack

POINTS = 200  # false positive rates at which the curves of several seeds are averaged
ROC = ("false_positive_rate", "true_positive_rate")
GLOBAL, RUN, REPLICAS = "global", "run", "replicas"  # what is attacked, besides models by name
PUBLISHED = "risk"  # the attack that was chosen as the published risk; it coincides with one of the others
WIDE: dict[str, Any] = {"color": GRAY, "linewidth": 6, "alpha": 0.5, "zorder": 1.5}


def attack_roc(arr: Arrangement) -> Figure | None:
    """ROC curves of membership inference on each model: a panel for each setting and model, a curve for each attack."""
    by_trial = {trial["id"]: last_scores(arr, trial) for trial in arr.trials}

    def models(cell: Setting) -> list[Scores]:
        return [one for trial in cell.trials for one in by_trial[trial["id"]]]

    places = [(panel, at, hue) for panel in arr.panels for at in arr.columns for hue in arr.hues]
    cells = [(place, models(arr.cell(*place))) for place in places]
    panels = [
        (target, place, found)
        for place, found in cells
        for target in sorted({target for scores in found for target, _ in scores})
    ]
    if not panels:
        return None
    names = sorted({attack for *_, found in panels for scores in found for _, attack in scores})
    colors = zip((name for name in names if name != PUBLISHED), cycle(PALETTE), strict=False)
    plain = {name: {"color": color, "linewidth": 1.6} for name, color in colors}
    styles = {name: plain.get(name, WIDE) for name in names}
    targets = len({target for target, *_ in panels})
    across = 2 * targets if 1 < targets <= 2 else IN_A_ROW
    headings = [_heading(arr, target, place) for target, place, _ in panels]
    title = "ROC curves of the attacks in the last attacked round"
    figure, axes = grid(arr, title, headings, across, 3.4 if across <= IN_A_ROW else 2.75)
    lowest = min(_curves(ax, found, target, styles) for ax, (target, _, found) in zip(axes, panels, strict=True))
    for ax in axes:
        ax.plot([lowest, 1], [lowest, 1], **REFERENCE)
        ax.set(xscale="log", yscale="log", xlim=(lowest * 0.9, 1.1), ylim=(lowest * 0.9, 1.1))
    label_axes(axes, "false positive rate (fraction)", "true positive rate (fraction)", across)
    several = any(len(found) > 1 for *_, found in panels)
    note = ("lines: mean over seeds, and over replicas, at equal false positive rates; " if several else "") + (
        "numbers: area under the curve; a line starts at the false positive rate of one non-member"
    )
    entries = [stroke(_label(name), **style) for name, style in styles.items()]
    return legend(figure, [*entries, stroke("guessing", **REFERENCE)], note)


def last_scores(arr: Arrangement, trial: Row) -> list[Scores]:
    """The scores of the last round in which each attack of a trial was made: of its own models, then of each replica.

    Examples of clients that left the model are not counted, and an attack without members or without non-members, or
    with a score that is not a number, is left out.
    """
    import numpy as np

    frame = arr.results.frame(trial, "scores", ("attack", "round", "target", "member", "score"))
    if frame is None:
        return []
    frame = frame[frame["round"] == frame.groupby("attack")["round"].transform("max")]
    if "left" in frame:
        frame = frame[~frame["left"].fillna(False).astype(bool)]
    # The run as a whole is its only model, if it has one; a clustering without a number of clusters has.
    alone = arr.results.value(trial, "clustering.clusters") in (None, 1)
    own: Scores = {}
    replicas: list[Scores] = []
    for (target, attack), rows in frame.groupby(["target", "attack"], sort=True):
        score, member = rows["score"].to_numpy("float64", na_value=float("nan")), rows["member"].to_numpy(bool)
        if not 0 < member.sum() < len(member) or np.isnan(score).any():
            continue
        if str(target).startswith("replica "):
            replicas.append({(REPLICAS, str(attack)): (score, member)})
        else:
            own[GLOBAL if alone and target == RUN else str(target), str(attack)] = score, member
    return [one for one in (own, *replicas) if one]


def step(fpr: Floats, tpr: Floats, at: Floats) -> Floats:
    """The true positive rate of the best threshold whose false positive rate is at most ``at``; nothing is interpolated.

    Args:
        fpr: false positive rates of a curve, ascending from 0.
        tpr: its true positive rates.
        at: false positive rates, at least 0.
    """
    import numpy as np

    return tpr[np.searchsorted(fpr, at * (1 + 1e-12), side="right") - 1]


def _curves(ax: Axes, models: list[Scores], target: str, styles: Mapping[str, dict[str, Any]]) -> float:
    """Draw the attacks on one model and write their areas. Returns the lowest false positive rate that can be drawn."""
    import numpy as np

    from attacks.metrics import membership

    lowest, areas = 1.0, dict[str, float]()
    for name, style in styles.items():
        scores = [one[target, name] for one in models if (target, name) in one]
        if not scores:
            continue
        first = max(1 / float((~member).sum()) for _, member in scores)
        at = np.geomspace(first, 1, POINTS)
        rates = np.mean([step(*membership.roc(*one), at) for one in scores], axis=0)
        ax.plot(at, np.where(rates > 0, rates, np.nan), drawstyle="steps-post", **style)
        if name != PUBLISHED:
            areas[style["color"]] = float(np.mean([membership.auc(*one) for one in scores]))
        lowest = min(lowest, first)
    write_areas(ax, areas)
    return lowest


def _label(name: str) -> str:
    if name == PUBLISHED:
        return "the attack behind the published risk"
    label = component_label("attacks", name)
    return name.replace("_", " ") if label == name else label


def _heading(arr: Arrangement, target: str, place: tuple[Any, Any, Any]) -> str:
    named = {GLOBAL: "", RUN: "all models", REPLICAS: "replicas"}
    model = named.get(target, f"{target.replace('_', ' ')} model")
    return ", ".join(filter(None, (arr.heading(*place), model))) or arr.hue_label(place[-1])


def classifier_roc(arr: Arrangement) -> Figure | None:
    """Micro-averaged ROC curves of the final models on the server's test data, a panel for each position and facet."""
    import numpy as np

    from algorithms.metrics.classification import area

    if kind(arr.results.metrics) == "groups":
        return None  # the groups' models have figures of their own
    frames = {trial["id"]: arr.results.frame(trial, "roc", ROC) for trial in arr.trials}
    tables = {
        ident: [frame[name].to_numpy(float) for name in ROC] for ident, frame in frames.items() if frame is not None
    }

    def curves(*place: Point) -> dict[str, list[list[Floats]]]:
        """The curves at one place, by color."""
        cells = {arr.look(hue)["color"]: arr.cell(*place, hue).trials for hue in arr.hues}
        found = {color: [tables[one["id"]] for one in trials if one["id"] in tables] for color, trials in cells.items()}
        return {color: same for color, same in found.items() if same}

    panels = [(place, found) for place in itertools.product(arr.panels, arr.columns) if (found := curves(*place))]
    if not panels:
        return None
    title = "ROC curves of the classifier on the server's test data, one class against the rest"
    figure, axes = grid(arr, title, [arr.heading(*place) for place, _ in panels])
    at = np.linspace(0, 1, POINTS)
    for ax, (_, by_color) in zip(axes, panels, strict=True):
        ax.plot([0, 1], [0, 1], **REFERENCE)
        ax.set(xlim=RATES, ylim=RATES)
        for color, same in by_color.items():
            ax.plot(at, np.mean([np.interp(at, *curve) for curve in same], axis=0), color=color, linewidth=1.8)
        write_areas(ax, {color: float(np.mean([area(*curve) for curve in same])) for color, same in by_color.items()})
    label_axes(axes, "false positive rate (fraction)", "true positive rate (fraction)")
    several = any(len(same) > 1 for _, by_color in panels for same in by_color.values())
    note = (
        "lines: mean over seeds at equal false positive rates; " if several else ""
    ) + "numbers: area under the curve"
    return legend(figure, [*handles(arr, marker=""), stroke("guessing", **REFERENCE)], note)


RED = "#C62828"
PROOF: dict[str, Any] = {"marker": "_", "linestyle": "none", "markersize": 8, "markeredgewidth": 2}
RING: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 15, "fillstyle": "none", "color": RED}


@dataclass(frozen=True)
class Audited:
    """A claim of a run, and what an audit found; NaN where there is no such number.

    Attributes:
        claimed: the claimed epsilon.
        value: the estimated one.
        low: the lower end of its 95 % interval.
        high: the upper end.
        certified: the epsilon that is certified.
        refuted: whether the claim is refuted.
    """

    claimed: float
    value: float
    low: float
    high: float
    certified: float = math.nan
    refuted: bool = False


def audit(arr: Arrangement) -> Figure | None:
    """The epsilon of a client that canaries leave to be told over the one that is claimed."""
    estimates = [one for one in metrics().values() if one.audits and not one.bound]
    proofs = {one.audits: one.name for one in metrics().values() if one.audits and one.bound == "lower"}
    audits = {
        trial["id"]: Audited(
            _number(trial, one.audits),
            _number(trial, one.name),
            _number(trial, f"{one.name}_low"),
            _number(trial, f"{one.name}_high"),
            _number(trial, proofs.get(one.audits, "")),
            text(trial.get(VERDICT)) == REFUTED,
        )
        for one in estimates
        for trial in arr.trials
    }
    note = "points: the estimate of one run; bars: its 95 % interval, if scores are normal; below the line is no proof"
    return _against(arr, audits, "Claimed epsilon of a client, and what canaries find in the releases", note)


def _against(arr: Arrangement, audits: Mapping[str, Audited], title: str, note: str) -> Figure | None:
    """A panel for each value of the facets, with a diagonal, linear up to 1; None without a claim that was audited."""
    audits = {ident: one for ident, one in audits.items() if one.claimed > 0 and one.value >= 0}
    arr = replace(arr, trials=tuple(trial for trial in arr.trials if trial["id"] in audits))
    if not audits:
        return None
    largest = max(x for one in audits.values() for x in (one.claimed, one.value, one.high, 1.0) if 0 <= x < math.inf)
    figure, axes = grid(arr, title, list(map(arr.panel_label, arr.panels)))
    for ax, panel in zip(axes, arr.panels, strict=True):
        for scale in (ax.set_xscale, ax.set_yscale):
            scale("symlog", linthresh=1)
        ax.set(xlim=(0, 1.6 * largest), ylim=(-0.05, 1.6 * largest))
        _plain_ticks(ax, 1.6 * largest)
        ax.plot([0, 1.6 * largest], [0, 1.6 * largest], **REFERENCE)
        for of, *_, hue, cell in arr.cells():
            for trial in cell.trials if of == panel else ():
                _mark(ax, audits[trial["id"]], arr.look(hue))
    label_axes(axes, "claimed epsilon", "audited epsilon")
    entries = [*handles(arr, linestyle="none"), stroke("audited = claimed", **REFERENCE)]
    if any(not math.isnan(one.certified) for one in audits.values()):
        entries.append(stroke("certified with 95 %", **PROOF))
    if any(one.refuted for one in audits.values()):
        entries.append(stroke("claim refuted", **RING))
    return legend(figure, entries, note)


def _plain_ticks(ax: Axes, largest: float) -> None:
    """Label both axes with plain numbers such as 20 and 50 instead of powers of ten."""
    steps = (1, 2, 5) if largest < 100 else (1, 3) if largest < 10_000 else (1,)
    ticks = [0, *(step * 10.0**power for power in range(12) for step in steps if step * 10.0**power < largest)]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    ax.minorticks_off()


def _mark(ax: Axes, one: Audited, style: dict[str, Any]) -> None:
    """Draw a run at its claim: a point that is moved aside may lie on the other side of the line."""
    known = not (math.isnan(one.low) or math.isnan(one.high))
    bar = [[max(one.value - one.low, 0)], [max(one.high - one.value, 0)]] if known else None
    look: dict[str, Any] = {"capsize": 2, "markersize": 5, "linewidth": 1.3, "alpha": 0.55}
    ax.errorbar([one.claimed], [one.value], yerr=bar, **look, **style)
    if not math.isnan(one.certified):
        ax.plot([one.claimed], [one.certified], color=style["color"], **PROOF)
    if one.refuted:
        ax.plot([one.claimed], [one.value], zorder=6, **RING)


def _number(trial: Row, name: str) -> float:
    value = trial.get(name)
    return float(value) if value is not None else math.nan
