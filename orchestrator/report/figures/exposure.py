"""What every attack finds beyond guessing, by what its attacker must see: which view is
dangerous, and what closes it.

    share of the possible = (value - chance) / (1 - chance)        0: guessing; 1: always right; for each run of a setting

So that attacks with different questions can stand side by side. It is a figure of sweeps whose
attackers see different things; of one view alone, the trade-off says more.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace

from matplotlib.figure import Figure

from algorithms.core.metric import Metric
from algorithms.core.views import ADVERSARIES, Sight
from algorithms.metrics.statistics import Estimate, estimate
from attacks.interfaces import sees
from orchestrator.report.context import attacks_of
from orchestrator.report.data import Setting, independent, repeat
from orchestrator.report.figures import drawing
from orchestrator.report.figures.arrangement import Arrangement, by_method, is_nothing

TITLE = "Exposure by what the attacker sees"
# inches of a panel's width
PER_ATTACK = 1.6
MOST = 9.5
LINE = 15  # characters of a label's line


def exposure(arr: Arrangement) -> Figure | None:
    """The risk that each attack declares, beyond chance, by view and setting: means over seeds
    with intervals.
    """
    arr = by_method(arr)
    attacks = risks_by_view(arr)
    if len({view for view, _ in attacks}) < 2:
        return None
    width = min(max(drawing.WIDTH, PER_ATTACK * len(attacks)), MOST)
    across = max(1, int(11 / width))
    figure, axes = drawing.grid(
        arr, TITLE, [arr.panel_label(panel) for panel in arr.panels], across, width
    )
    for ax, panel in zip(axes, arr.panels, strict=True):
        ax.axhline(0, **drawing.REFERENCE)
        for j, hue in enumerate(arr.hues):
            beside = 0.5 * ((j + 0.5) / len(arr.hues) - 0.5)
            cell = arr.cell(panel, (), hue)
            found = [(i + beside, beyond_chance(cell, risk)) for i, (_, risk) in enumerate(attacks)]
            drawing.marks(ax, found, **arr.look(hue))
        pairs = [(view.replace("_", " "), risk.label) for view, risk in attacks]
        labels = ["\n".join(textwrap.fill(words, LINE) for words in pair) for pair in pairs]
        ax.set_xticks(range(len(attacks)), labels, fontsize=drawing.BODY)
        ax.set_xlim(-0.6, len(attacks) - 0.4)
    drawing.same_scale(axes, [""] * len(axes))
    drawing.label_axes(axes, "", "success beyond chance (share of the possible)")
    counts = [cell.repetitions for *_, cell in arr.cells()]
    note = (
        f"{drawing.mean_note(counts)}; first line of a label: what the attacker sees, the most "
        "first"
    )
    return drawing.legend(
        figure, [*drawing.handles(arr), drawing.stroke("by chance", **drawing.REFERENCE)], note
    )


def risks_by_view(arr: Arrangement) -> list[tuple[Sight, Metric]]:
    """View and first measured risk of every attack as trials configure it, those that see most
    first.
    """
    views = list(ADVERSARIES)
    found = dict[tuple[int, str, str], Metric]()
    for trial in arr.trials:
        for name, attack in attacks_of(arr.results, trial).items():
            risks = (
                [m for m in attack.METRICS if m.risk and m.risk.rank is not None and m.chance]
                if attack
                else []
            )
            measured = [risk for risk in risks if not is_nothing(trial.get(risk.name))]
            if measured:
                risk = min(measured, key=lambda metric: (metric.risk.rank, metric.name))
                found[views.index(sees(attack)), name, risk.name] = risk
    return [
        (views[view], risk)
        for (view, *_), risk in sorted(found.items(), key=lambda entry: entry[0])
    ]


def beyond_chance(cell: Setting, risk: Metric) -> Estimate:
    """The mean and interval of the share of the possible over the runs of a setting in which
    guessing may fail.

    >>> from algorithms.core.metric import SOURCE, Risk
    >>> risk = Metric("sia", SOURCE, "SIA", chance="null", risk=Risk("..."))
    >>> trials = [{"status": "finished", "seed": i, "sia": x, "null": p} for i, (x, p) in enumerate([(0.6, 0.2), (1, 1)])]
    >>> round(beyond_chance(Setting((), tuple(trials)), risk).mean, 6)
    0.5
    """
    values = []
    for trial in cell.finished:
        name = risk.chance if isinstance(risk.chance, str) else ""
        value = trial.get(risk.name)
        chance = trial.get(name) if name else risk.chance
        if value is not None and chance is not None and float(chance) < 1:
            values.append((repeat(trial), (float(value) - float(chance)) / (1 - float(chance))))
    return replace(estimate(independent(values)), highest=1.0)
