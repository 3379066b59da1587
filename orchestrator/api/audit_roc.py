"""The ROC curves of attacks on one model, with logarithmic axes (Carlini et al. 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from attacks.metrics import membership
from attacks.metrics.membership import Bools, Doubles
from orchestrator.api.printed import shown_in_notebook
from orchestrator.report.figures.drawing import BODY, REFERENCE, RESOLUTION
from orchestrator.report.vocabulary import PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 3  # points of a curve that are marked: a line to a rate of 0 has no place on logarithmic axes


def roc_figure(ranked: Mapping[str, Doubles], member: Bools) -> Figure:
    """Draw a curve for each attack, and what guessing gives.

    Args:
        ranked: scores [n] by attack.
        member: [n].
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.8), dpi=RESOLUTION, layout="constrained", facecolor="white")
    ax = figure.subplots()
    lowest = 1 / int((~member).sum())
    for i, (name, scores) in enumerate(ranked.items()):
        fpr, tpr = membership.roc(scores, member)
        label = f"{name.replace('_', ' ')}, AUC {membership.auc(scores, member):.3f}"
        style = ("-" if i < len(PALETTE) else "--") + ("o" if len(fpr) <= FEW else "")
        ax.plot(fpr, np.where(tpr > 0, tpr, np.nan), style, color=PALETTE[i % len(PALETTE)], label=label, linewidth=1.6)
    ax.plot([lowest, 1], [lowest, 1], label="guessing", **REFERENCE)
    ax.set(xscale="log", yscale="log", xlim=(lowest * 0.9, 1.1), ylim=(lowest * 0.9, 1.1))
    ax.set_xlabel("false positive rate (fraction)", fontsize=BODY)
    ax.set_ylabel("true positive rate (fraction)", fontsize=BODY)
    ax.set_title("Membership inference on the model", fontsize=BODY + 1, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#E3E3E3", linewidth=0.8)
    ax.legend(fontsize=BODY - 1, frameon=False)
    return shown_in_notebook(figure)
