"""``fedpriv.audit``: membership inference against a torch module that was trained elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from attacks import _one_model as one_model
from attacks.interfaces import Measure
from attacks.metrics import membership
from attacks.metrics.membership import NAN, NONMEMBERS_AT_01_FPR, NONMEMBERS_AT_1_FPR, Bools, Outputs
from orchestrator.api.audit_inputs import examples_of, modules_of, refuse
from orchestrator.api.printed import shown_in_notebook
from orchestrator.config.errors import format_value, unknown_name
from orchestrator.report.figures.drawing import BODY, REFERENCE, RESOLUTION
from orchestrator.report.statistics import number
from orchestrator.report.vocabulary import PALETTE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import nn

COLUMNS = {
    "auc": "AUC",
    "balanced_accuracy": "balanced accuracy",
    "tpr_at_1_fpr": "TPR at 1 % FPR",
    "tpr_at_01_fpr": "TPR at 0.1 % FPR",
    "epsilon_record": "epsilon",
}
FIGURES = ("roc",)
FEW = 3  # points of a curve that are marked: a line to a rate of 0 has no place on logarithmic axes
CHANCE = "by chance"
NOTES = (
    "In parentheses: 95 % intervals over examples; that another training would give another model is not in them.",
    "Thresholds are tuned on one half of the examples and judged on the other. Compare a row with the last one; the best "
    "of several rows is above it also by luck.",
    "epsilon: what the AUC comes to for one example at delta 1e-5. It is an estimate from below, because a better attack "
    "may find more, and certifies nothing.",
)


def audit(
    module: nn.Module,
    members: tuple[Any, Any],
    nonmembers: tuple[Any, Any],
    references: Sequence[nn.Module] | None = None,
    *,
    gradients: bool = True,
    batch_size: int = 256,
    seed: int = 0,
) -> Audit:
    """Attack a trained model: can one tell which examples it was trained on?

    The module is called in evaluation mode where its parameters are, and is left as it was.

    Args:
        module: returns logits [n, classes] of examples [n, ...].
        members: ``(x, y)``: examples that it was trained on [n, ...], and their labels [n], as arrays or tensors, in the
            form in which the module takes them.
        nonmembers: ``(x, y)``: examples of the same distribution that it was not trained on.
        references: models that were trained in the same way on other examples, none of these; they calibrate the attacks
            of Carlini et al. (2022), Zarifzadeh et al. (2024) and Lassila et al. (2025). None: these are left out.
        gradients: also attack by the norms of the examples' gradients, which takes one backward pass for each.
        batch_size: examples in a forward pass.
        seed: of the halves on which thresholds are tuned, and of the intervals' resamples.

    Returns:
        What the attacks found.

    Raises:
        ConfigError: an argument cannot be used; the text names all problems of the first argument that has any.
    """
    for name, given, least in (("batch_size", batch_size, 1), ("seed", seed, 0)):
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
            refuse(name, f"must be an integer >= {least}, got {format_value(given)}")
    modules = modules_of(module, references)
    examples = examples_of(members, nonmembers, module, batch_size)
    logits = {name: examples.logits(name, one) for name, one in modules.items()}
    attacked = logits.pop("module")
    for name, reference in logits.items():
        if reference.shape[1] != attacked.shape[1]:
            refuse(name, f"gives {reference.shape[1]} classes, but module gives {attacked.shape[1]}")
    norms = examples.gradient_norms("module", module) if gradients else None
    outputs, rng = Outputs(attacked, examples.y, examples.member), np.random.default_rng([seed, 0])
    found = one_model.attack(outputs, norms, list(logits.values()), rng)
    measures = one_model.measures(found, examples.member, np.random.default_rng([seed, 1]))
    return Audit(tuple(measures), {name: one.ranked for name, one in found.items()}, examples.member)


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What the attacks on one model found.

    Attributes:
        found: every number, attack after attack.
        ranked: by attack, the scores [n] of members and then non-members; the higher, the likelier a member.
        member: [n] whether the example is a member.
    """

    found: tuple[Measure, ...]
    ranked: dict[str, Any]
    member: Bools

    @property
    def table(self) -> pd.DataFrame:
        """What is worth a look first, as texts: a row for each attack, with intervals, and last what guessing gives."""
        import pandas as pd

        measures = {(one.subject, one.metric): one for one in self.found}
        lines = {name: [_cell(measures.get((name, metric))) for metric in COLUMNS] for name in self.ranked}
        first = [measures.get((next(iter(lines)), metric)) for metric in COLUMNS]
        by_chance = [NAN if one is None or np.isnan(one.value) else one.chance for one in first]
        lines[CHANCE] = [number(value, 3) for value in by_chance]
        return pd.DataFrame.from_dict(lines, orient="index", columns=list(COLUMNS.values()))

    @property
    def measures(self) -> pd.DataFrame:
        """Every number, one row each: ``attack``, ``metric``, ``value``, ``low``, ``high``, ``chance`` (docs/python.md)."""
        import pandas as pd

        columns = ["attack", "metric", "value", "low", "high", "chance"]
        return pd.DataFrame(map(attrgetter("subject", *columns[1:]), self.found), columns=columns)

    @property
    def scores(self) -> pd.DataFrame:
        """One row per example, members first: whether it is a ``member``, and its score by each attack."""
        import pandas as pd

        return pd.DataFrame({"member": self.member, **self.ranked})

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read the table, and why cells are empty."""
        nonmembers = int((~self.member).sum())
        needs = {"1 %": NONMEMBERS_AT_1_FPR, "0.1 %": NONMEMBERS_AT_01_FPR}
        lost = [f"{rate} FPR takes {n} non-members" for rate, n in needs.items() if nonmembers < n]
        rates = {one.subject: one.value for one in self.found if one.metric == "tpr_at_1_fpr"}
        tied = [name for name, rate in rates.items() if np.isnan(rate) and nonmembers >= NONMEMBERS_AT_1_FPR]
        lost += [f"too many non-members share the highest score of {name}" for name in tied]
        size = f"{len(self.member) - nonmembers} members, {nonmembers} non-members."
        return (size, *NOTES, *([f"Empty: {', '.join(lost)}."] if lost else []))

    def figure(self, name: str = "roc") -> Figure:
        """Draw "roc", the curves of all attacks on logarithmic axes (Carlini et al. 2022); ConfigError for another name."""
        if name not in FIGURES:
            refuse("name", unknown_name(f"no figure {name!r}", str(name), FIGURES))
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.8), dpi=RESOLUTION, layout="constrained", facecolor="white")
        ax = figure.subplots()
        lowest = 1 / int((~self.member).sum())
        for i, (name, scores) in enumerate(self.ranked.items()):
            fpr, tpr = membership.roc(scores, self.member)
            label = f"{name.replace('_', ' ')}, AUC {membership.auc(scores, self.member):.3f}"
            style = ("-" if i < len(PALETTE) else "--") + ("o" if len(fpr) <= FEW else "")
            ax.plot(
                fpr, np.where(tpr > 0, tpr, np.nan), style, color=PALETTE[i % len(PALETTE)], label=label, linewidth=1.6
            )
        ax.plot([lowest, 1], [lowest, 1], label="guessing", **REFERENCE)
        ax.set(xscale="log", yscale="log", xlim=(lowest * 0.9, 1.1), ylim=(lowest * 0.9, 1.1))
        ax.set_xlabel("false positive rate (fraction)", fontsize=BODY)
        ax.set_ylabel("true positive rate (fraction)", fontsize=BODY)
        ax.set_title("Membership inference on the model", fontsize=BODY + 1, loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#E3E3E3", linewidth=0.8)
        ax.legend(fontsize=BODY - 1, frameon=False)
        return shown_in_notebook(figure)

    def __repr__(self) -> str:
        """The table and its notes as text."""
        return "\n".join([self.table.to_string(), "", *self.notes])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        notes = " ".join(map(escape, self.notes))
        return f"{self.table.to_html()}<p><small>{notes}</small></p>"


def _cell(one: Measure | None) -> str:
    if one is None or np.isnan(one.value):
        return ""
    ends = "" if np.isnan(one.low) or np.isnan(one.high) else f" ({number(one.low, 3)} to {number(one.high, 3)})"
    return f"{number(one.value, 3)}{ends}"
