"""What attacks on models found: ROC curves (Carlini et al. 2022), and claimed beside audited
epsilons.

The curves are made of the scores in ``scores.parquet``, those of the last attacked round. What
attacks on replicas of a run found in the run's own model stands beside the other attacks, and what
they found in the replicas in a panel of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from algorithms.core.columns import interval
from attacks.metrics import membership
from datasets.components import described
from orchestrator.config.metric_names import metric, metrics
from orchestrator.report.context import REFUTED, VERDICT, claim_of
from orchestrator.report.data import Row, over_seeds
from orchestrator.report.figures import drawing
from orchestrator.report.figures.arrangement import Arrangement
from orchestrator.report.vocabulary import PALETTE

Scores = tuple[membership.Doubles, Any]  # scores and membership [n]
Attacks = dict[str, list[Scores]]  # of the models of several seeds, by attack

# false positive rates besides a curve's own, as straight lines are bent on logarithmic axes
POINTS = 200
# what is attacked, besides models by name
GLOBAL = "global"
RUN = "run"
REPLICAS = "replicas"
EXPLAINED = {
    RUN: "; all models: each example is attacked in the model that its owner uses",
    REPLICAS: (
        "; replicas: the run trained again, each time on a random half of every client's examples"
    ),
}
PUBLISHED = (
    "risk"  # the attack that was chosen as the published risk; it coincides with one of the others
)
# Lengths of dashes and gaps by place in the palette, so that lines are told apart without their
# colors.
DASHES = (None, (5, 1.5), (6, 2, 1, 2), (2, 1), (1, 1.5), (7, 2, 1, 2, 1, 2), (1, 2.5), (9, 3))
WIDE: dict[str, Any] = {"color": drawing.GRAY, "linewidth": 6, "alpha": 0.5, "zorder": 1.5}
WIDE |= {"label": "the attack behind the published risk"}


def attack_roc(arr: Arrangement) -> Figure | None:
    """ROC curves of membership inference on each model: a panel for each setting and model, a
    curve for each attack.
    """
    panels: list[tuple[str, str, Attacks]] = []
    for place in itertools.product(arr.panels, arr.columns, arr.hues):
        by_target: dict[str, Attacks] = {}
        trials = arr.cell(*place).trials
        for trial in trials:
            for target, attack, scores in last_scores(arr, trial):
                target = over_seeds(target, len(trials))
                by_target.setdefault(target, {}).setdefault(attack, []).append(scores)
        panels += [
            (target, _heading(arr, target, place), by_target[target])
            for target in sorted(by_target)
        ]
    if not panels:
        return None
    styles = _styles({attack for *_, attacks in panels for attack in attacks})
    targets = len({target for target, *_ in panels})
    across = {2: 4, 4: 4}.get(
        targets, drawing.IN_A_ROW
    )  # a row for each setting, or for two of them
    title = "ROC curves of the attacks in the last attacked round"
    headings = [heading for _, heading, _ in panels]
    figure, axes = drawing.grid(arr, title, headings, across)
    lowest = min(
        _curves(ax, attacks, styles) for ax, (*_, attacks) in zip(axes, panels, strict=True)
    )
    for ax in axes:
        ax.plot([lowest, 1], [lowest, 1], **drawing.REFERENCE)
        ax.set(xscale="log", yscale="log", xlim=(lowest * 0.9, 1.1), ylim=(lowest * 0.9, 1.1))
    drawing.label_axes(axes, "false positive rate (fraction)", "true positive rate (fraction)")
    several = any(len(models) > 1 for *_, attacks in panels for models in attacks.values())
    note = (
        several * "lines: mean over seeds, replicas and models without a name, at equal false "
        "positive rates; "
    )
    note += (
        "numbers: area under the curve, all clients together; a line starts at the false "
        "positive rate of one non-member"
    )
    note += "".join(
        words for target, words in EXPLAINED.items() if any(target == of for of, *_ in panels)
    )
    entries = [drawing.stroke(**style) for style in styles.values()]
    return drawing.legend(figure, [*entries, drawing.stroke("guessing", **drawing.REFERENCE)], note)


def last_scores(arr: Arrangement, trial: Row) -> Iterator[tuple[str, str, Scores]]:
    """Target, attack and scores of the last round in which each attack of a trial was made.

    Examples of clients that left the model are not counted, and an attack without members or
    without non-members, or with a score that is not a number, is left out.
    """
    frame = arr.results.last_attacks(trial, "scores", ("target", "member", "score"))
    if frame is None:
        return
    if "left" in frame:
        frame = frame[~frame["left"].fillna(False).astype(bool)]
    # The run as a whole is its only model, if it has one; a clustering without a number of clusters
    # has.
    names = {RUN: GLOBAL} if arr.results.value(trial, "clustering.clusters") in (None, 1) else {}
    for (target, attack), rows in frame.groupby(["target", "attack"], sort=True):
        score = rows["score"].to_numpy("float64", na_value=float("nan"))
        member = rows["member"].to_numpy(bool)
        if 0 < member.sum() < len(member) and not np.isnan(score).any():
            model = (
                REPLICAS
                if str(target).startswith("replica ")
                else names.get(str(target), str(target))
            )
            yield model, str(attack), (score, member)


def _curves(ax: Axes, attacks: Attacks, styles: Mapping[str, dict[str, Any]]) -> float:
    """Draw the attacks on one model and write their areas.

    Returns the lowest false positive rate that can be drawn.
    """
    lowest = 1.0
    areas = list[Any]()
    for name in filter(attacks.__contains__, styles):
        scores = attacks[name]
        style = styles[name]
        first = max(1 / float((~member).sum()) for _, member in scores)
        curves = [membership.roc(*pair) for pair in scores]
        at = np.unique(
            np.concatenate([np.geomspace(first, 1, POINTS), *(fpr for fpr, _ in curves)])
        )
        at = at[at >= first]
        rates = np.mean([membership.rates_at(*curve, at) for curve in curves], axis=0).T.flatten()[
            1:
        ]
        ax.plot(at.repeat(2)[1:], np.where(rates > 0, rates, np.nan), **style)
        if name != PUBLISHED:
            area = np.mean([membership.auc(*pair) for pair in scores])
            areas.append(drawing.stroke(**style | {"label": f"{area:.3f}"}))
        lowest = min(lowest, first)
    ax.legend(
        handles=areas,
        loc="lower right",
        frameon=False,
        fontsize=drawing.BODY,
        labelspacing=0.2,
        borderpad=0,
    )
    return lowest


def _styles(names: Collection[str]) -> dict[str, dict[str, Any]]:
    """Line and label of each attack: as its component declares, the same in every sweep, or as
    is still free.
    """
    attacks = described("attacks")
    looks = {name: (attack.LABEL, attack.COLOR) for name, attack in attacks.items()}
    looks |= {name: look for attack in attacks.values() for name, look in attack.METHODS.items()}
    taken = {place for _, place in looks.values()}
    free = itertools.cycle(sorted({*range(len(PALETTE))} - taken) or range(len(PALETTE)))
    styles = {}
    for name in sorted({*names} - {PUBLISHED}):
        label, declared = looks.get(name, ("", None))
        at = next(free) if declared is None else declared
        line = {"color": PALETTE[at], "linestyle": (0, DASHES[at]), "linewidth": 1.6}
        styles[name] = line | {"label": label or name.replace("_", " ")}
    return styles | ({PUBLISHED: WIDE} if PUBLISHED in names else {})


def _heading(arr: Arrangement, target: str, place: tuple[Any, Any, Any]) -> str:
    named = {GLOBAL: "", RUN: "all models", REPLICAS: "replicas"}
    words = target.replace("_", " ")
    model = named.get(target, words if "model" in words else f"{words} model")
    return ", ".join(filter(None, (arr.heading(*place), model))) or arr.hue_label(place[-1])


RED = "#C62828"
PROOF: dict[str, Any] = {"marker": "_", "linestyle": "none", "markersize": 8, "markeredgewidth": 2}
RING: dict[str, Any] = {
    "marker": "o",
    "linestyle": "none",
    "markersize": 15,
    "fillstyle": "none",
    "color": RED,
}


def audit(arr: Arrangement) -> Figure | None:
    """The audited over the claimed epsilon of each run, with a panel for each value of the
    facets; linear up to 1.
    """
    declared = metrics().values()
    audited = next((entry for entry in declared if entry.audits and not entry.bound), None)
    if audited is None:
        return None
    proof = next(
        (
            entry.name
            for entry in declared
            if entry.audits == audited.audits and entry.bound == "lower"
        ),
        "",
    )
    names = (*interval(audited.name), proof)
    cells = {
        trial["id"]: [claim_of(trial, audited), *(trial.get(name) for name in names)]
        for trial in arr.trials
    }
    values = {
        at: [math.nan if cell is None else float(cell) for cell in row] for at, row in cells.items()
    }
    values = {ident: row for ident, row in values.items() if row[0] > 0 and row[1] >= 0}
    if not values:
        return None
    arr = replace(arr, trials=tuple(trial for trial in arr.trials if trial["id"] in values))
    largest = 1.6 * max(
        1.0, *(value for row in values.values() for value in row[:4] if value < math.inf)
    )
    title = (
        f"Claimed epsilon of {metric(audited.audits[-1]).protects}, and what canaries find in "
        "the releases"
    )
    figure, axes = drawing.grid(arr, title, list(map(arr.panel_label, arr.panels)))
    for ax, panel in zip(axes, arr.panels, strict=True):
        for scale in (ax.set_xscale, ax.set_yscale):
            scale("symlog", linthresh=1)
        ax.set(xlim=(0, largest), ylim=(-0.05, largest))
        _plain_ticks(ax, largest)
        ax.plot([0, largest], [0, largest], **drawing.REFERENCE)
        here = [
            (hue, trial) for of, _, hue, cell in arr.cells() if of == panel for trial in cell.trials
        ]
        for hue, trial in here:
            claimed, value, low, high, certified = values[trial["id"]]
            look = arr.look(hue)
            style = look | {"capsize": 2, "markersize": 5, "linewidth": 1.3, "alpha": 0.55}
            ax.errorbar(
                [claimed], [value], yerr=[[max(value - low, 0)], [max(high - value, 0)]], **style
            )
            ax.plot([claimed], [certified], color=look["color"], **PROOF)
            if trial.get(VERDICT) == REFUTED:
                ax.plot([claimed], [value], zorder=6, **RING)
    drawing.label_axes(axes, "claimed epsilon", "audited epsilon")
    entries = [
        *drawing.handles(arr, linestyle="none"),
        drawing.stroke("audited = claimed", **drawing.REFERENCE),
    ]
    if any(not math.isnan(certified) for *_, certified in values.values()):
        entries.append(drawing.stroke("certified with 95 %", **PROOF))
    if any(trial.get(VERDICT) == REFUTED for trial in arr.trials):
        entries.append(drawing.stroke("claim refuted", **RING))
    note = (
        "points: the estimate of one run; bars: its 95 % interval, if scores are normal; below "
        "the line is no proof"
    )
    return drawing.legend(figure, entries, note)


def _plain_ticks(ax: Axes, largest: float) -> None:
    """Label both axes with plain numbers such as 20 and 50 instead of powers of ten."""
    steps = (1, 2, 5) if largest < 100 else (1, 3) if largest < 10_000 else (1,)
    ticks = [
        0,
        *(
            step * 10.0**power
            for power in range(12)
            for step in steps
            if step * 10.0**power < largest
        ),
    ]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    ax.minorticks_off()
