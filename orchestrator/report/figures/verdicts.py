"""The figure of verdicts: measured and printed effects, in units of their margins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.papers.effects import MeasuredPart
from orchestrator.papers.verdicts import Verdict
from orchestrator.report.figures.drawing import REFERENCE, RESOLUTION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def forest(judged: Sequence[Verdict]) -> Figure | None:
    """Every measured part in units of its margin: effect with 95 % interval, and the printed
    effect; None without any.
    """
    from matplotlib.figure import Figure

    parts = [(verdict, part) for verdict in judged for part in verdict.parts if part.effect.n]
    if not parts:
        return None
    size = (9, 1.4 + 0.3 * len(parts))
    figure = Figure(figsize=size, dpi=RESOLUTION, layout="constrained", facecolor="white")
    ax = figure.subplots()
    ax.axvspan(-1, 1, color="0.92", zorder=0, label="within the margin")
    ax.axvline(0, **REFERENCE)
    for line, (_, part) in enumerate(parts):
        _draw(ax, part, -line)
    labels = [f"{verdict.claim.claim}, {part.label}" for verdict, part in parts]
    ax.set_ylim(-len(parts), 1)
    ax.set_yticks([-line for line in range(len(parts))], labels, fontsize=8)
    ax.plot([], [], "o", color="C0", label="measured, 95 % interval")
    ax.plot([], [], "x", color="C0", label="measured, fewer than five pairs")
    ax.plot([], [], "D", color="C1", mfc="none", label="printed")
    ax.set_xlabel("effect, in units of its margin (of a value: its distance from the printed one)")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _draw(ax: Axes, part: MeasuredPart, y: float) -> None:
    """Draw a part at the height ``y``."""
    effect = part.effect
    mean = (effect.mean - effect.target) / effect.margin
    printed = (effect.printed - effect.target) / effect.margin
    half = effect.half() / effect.margin if effect.enough else 0.0
    sign = "o" if half else "x"
    ax.errorbar(mean, y, xerr=half or None, fmt=sign, color="C0", ms=5, capsize=3)
    ax.plot(printed, y, "D", color="C1", ms=5, mfc="none")
