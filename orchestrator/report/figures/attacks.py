"""What attacks on models found: ROC curves (Carlini et al. 2022), and claimed beside audited epsilons.

The curves are made of the scores in ``scores.parquet``, those of the last attacked round. What attacks on replicas of a
run found in the run's own model stands beside the other attacks, and what they found in the replicas in a panel of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

from algorithms.auditing.attacks import DELTA
from algorithms.auditing.epsilon import epsilon_gdp, mu_gdp
from orchestrator.report.data import Floats, Row, Value, text
from orchestrator.report.figures.arrangement import Arrangement, Point
from orchestrator.report.figures.drawing import (
    BODY,
    GRAY,
    IN_A_ROW,
    REFERENCE,
    Sheet,
    algorithm_handles,
    dashed_handle,
    legend,
    marker,
    measured,
    place_label,
    places,
    plain_ticks,
    stroke,
    wrap,
)
from orchestrator.report.vocabulary import PALETTE, component_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Scores = dict[tuple[str, str], tuple[Floats, Any]]  # scores and membership [n], by target and attack

CLOSE = 0.9  # false positive rate from which an attack with one threshold has no line, only its diamond
POINTS = 200  # false positive rates at which the curves of several seeds are averaged
GLOBAL, RUN, REPLICAS = "global", "run", "replicas"  # what is attacked, besides models by name
PUBLISHED = "risk"  # the attack that was chosen as the published risk; it coincides with one of the others
ONE_THRESHOLD: dict[str, Any] = {"marker": "D", "markersize": 6, "linestyle": "none", "zorder": 5, "clip_on": False}
WIDE: dict[str, Any] = {"color": GRAY, "linewidth": 6, "alpha": 0.5, "zorder": 1.5}


def attack_roc(arr: Arrangement) -> Figure | None:
    """ROC curves of membership inference on each model: a panel for each setting and model, a curve for each attack."""
    held = {trial["id"]: found for trial in arr.trials if (found := last_scores(arr, trial))}

    def models(panel: Point, at: Point, hue: Value) -> list[Scores]:
        return [one for trial in arr.cell(panel, at, hue) for one in held.get(trial["id"], ())]

    panels = [
        (target, hue, panel, at)
        for panel in arr.panels
        for at in arr.columns
        for hue in arr.hues
        for target in sorted({target for scores in models(panel, at, hue) for target, _ in scores})
    ]
    if not panels:
        return None
    names = sorted({attack for found in held.values() for one in found for _, attack in one})
    colors = zip((name for name in names if name != PUBLISHED), cycle(PALETTE), strict=False)
    own = {name: {"color": color, "linewidth": 1.6} for name, color in colors}
    styles = {name: own.get(name, WIDE) for name in names}
    targets = len({target for target, *_ in panels})
    several = any(len(models(panel, at, hue)) > 1 for _, hue, panel, at in panels)
    note = ("lines: mean over seeds, and over replicas, at equal false positive rates; " if several else "") + (
        "numbers: area under the curve; a line starts at the false positive rate of one non-member"
    )
    coarse = _with_one_threshold(one for found in held.values() for one in found)
    note += "; diamond: an attack that says only yes or no has one threshold" if coarse else ""
    handles = [
        stroke(_label(name), **style | (ONE_THRESHOLD if name in coarse else {})) for name, style in styles.items()
    ]
    sheet = Sheet("ROC curves of the attacks in the last attacked round", note, (dashed_handle("guessing"),))
    headings = [_heading(arr, *place) for place in panels]
    across = 2 * targets if targets * 2 <= IN_A_ROW + 1 and targets > 1 else IN_A_ROW
    xlabel, ylabel = "false positive rate (fraction)", "true positive rate\n(fraction)"
    figure, axes = wrap(arr, sheet, headings, xlabel, ylabel, across)
    lowest = 1.0
    for ax, (target, hue, panel, at) in zip(axes, panels, strict=True):
        lowest = min(lowest, _panel(ax, models(panel, at, hue), target, styles))
    for ax in axes:
        ax.plot([lowest, 1], [lowest, 1], **REFERENCE)
        ax.set(xscale="log", yscale="log", xlim=(lowest * 0.9, 1.1), ylim=(lowest * 0.9, 1.1))
    legend(figure, handles, sheet)
    return figure


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


def _panel(ax: Axes, models: list[Scores], target: str, styles: dict[str, dict[str, Any]]) -> float:
    """Draw the attacks on one model and write their areas. Returns the lowest false positive rate that can be drawn."""
    import numpy as np

    from attacks.metrics import membership

    lowest, areas = 1.0, []
    for name, style in styles.items():
        found = [scores[target, name] for scores in models if (target, name) in scores]
        if not found:
            continue
        first = max(1 / float((~member).sum()) for _, member in found)
        grid = np.geomspace(first, 1, POINTS)
        rates = np.mean([step(*membership.roc(*one), grid) for one in found], axis=0)
        single = name != PUBLISHED and all(_says_yes_or_no(score) for score, _ in found)
        # Of thresholds close to 1, all that is left of the mean over seeds is a stroke straight down.
        if not single or np.mean([_only_threshold(*one)[0] for one in found]) < CLOSE:
            ax.plot(grid, np.where(rates > 0, rates, np.nan), drawstyle="steps-post", **style)
        if single:
            x, y = np.mean([_only_threshold(*one) for one in found], axis=0)
            ax.plot([x], [y], color=style["color"], **ONE_THRESHOLD)
        if name != PUBLISHED:
            areas.append((float(np.mean([membership.auc(*one) for one in found])), style["color"]))
        lowest = min(lowest, first)
    place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "bottom", "fontsize": BODY - 1}
    for i, (area, color) in enumerate(reversed(areas)):
        ax.annotate(f"{area:.3f}", (0.98, 0.03 + 0.095 * i), color=color, **place)
    return lowest


def _with_one_threshold(models: Iterable[Scores]) -> set[str]:
    """The attacks that say only yes or no wherever they were made, besides the one that repeats another."""
    coarse: dict[str, bool] = {}
    for scores in models:
        for (_, name), (score, _) in scores.items():
            coarse[name] = coarse.get(name, True) and _says_yes_or_no(score)
    return {name for name, always in coarse.items() if always and name != PUBLISHED}


def _says_yes_or_no(score: Floats) -> bool:
    return len(set(score.tolist())) == 2


def _only_threshold(score: Floats, member: Any) -> tuple[float, float]:
    """The false and the true positive rate of an attack with two scores; its curve has no other corner."""
    yes = score == score.max()
    return float(yes[~member].mean()), float(yes[member].mean())


def _label(name: str) -> str:
    if name == PUBLISHED:
        return "the attack behind the published risk"
    label = component_label("attacks", name)
    return name.replace("_", " ") if label == name else label


def _heading(arr: Arrangement, target: str, hue: Value, panel: Point, position: Point) -> str:
    named = {GLOBAL: "", RUN: "all models", REPLICAS: "replicas"}
    model = named.get(target, f"{target.replace('_', ' ')} model")
    method = arr.hue_label(hue) if len(arr.hues) > 1 else ""
    return ", ".join(filter(None, (method, place_label(arr, panel, position), model))) or arr.algorithm


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
    found = {
        trial["id"]: Audited(
            claimed=_number(trial, "epsilon"),
            found=_number(trial, "epsilon_audit"),
            low=_number(trial, "epsilon_audit_low"),
            high=_number(trial, "epsilon_audit_high"),
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
        table = arr.results.frame(trial, "attacks", ("attack", "round", "metric", "value", "low", "high"))
        if table is None:
            continue
        rows = table[(table["attack"] == "risk") & (table["metric"] == "epsilon_record")]
        rows = rows[rows["round"] == rows["round"].max()]
        if len(rows):
            worst = rows.loc[rows["value"].fillna(-1).idxmax()]
            value, low, high = (_at_delta_of(trial, float(worst[name])) for name in ("value", "low", "high"))
            found[trial["id"]] = Audited(_number(trial, "epsilon_example"), value, low, high)
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
