"""Which risks of a sweep count, the strongest kind of attack first: declared (`Metric.risk`) before any number is seen."""

from __future__ import annotations

from algorithms.core.metric import Risk
from orchestrator.metric_names import metric, metrics
from orchestrator.report.context import epsilons
from orchestrator.report.data import Results

OF_BUDGETS = Risk("", accuracies=("aggregated_accuracy", "accuracy"))


def risks(results: Results) -> list[tuple[str, ...]]:
    """The risks that a sweep measured, the strongest kind of attack first; those of one kind are side by side.

    Of each kind the first counts that was measured, in the order that the attacks declare. A risk needs an accuracy to stand
    beside. Without any attack, it is the budget of a guarantee, if several settings state one.
    """
    declared = [
        (entry.risk.rank, entry.risk, entry.name)
        for entry in metrics().values()
        if entry.risk and entry.risk.rank is not None
    ]
    first: dict[str, tuple[str, ...]] = {}
    for _, risk, name in sorted(declared, key=lambda entry: entry[0]):
        if _shows(results, name):
            first.setdefault(risk.kind or name, (name, *risk.beside))
    rows: list[tuple[str, ...]] = []
    for names in first.values():
        new = [name for name in dict.fromkeys(names) if not any(name in row for row in rows)]
        rows.append(tuple(name for name in new if _shows(results, name) and accuracy_of(results, name)))
    if any(rows):
        return [row for row in rows if row]
    stated = [name for name in epsilons() if sum(bool(setting.measured(name)) for setting in results.settings) > 1]
    rows = [(name,) for name in stated if accuracy_of(results, name)]
    return rows[:1]


def main_risk(results: Results) -> tuple[str, str] | None:
    """The first measured risk of the strongest kind of attack at hand, which the headline is about.

    The kinds are in a fixed order, so the choice does not depend on what they found.

    Returns:
        Its metric, and the metric of the accuracy that belongs to it (empty if it was not measured); None if no attack has
        such a result.
    """
    first = next((row[0] for row in risks(results)), "")
    risk = metric(first).risk
    if risk is None:
        return None
    return next((name for name in risk.instead if results.has(name)), first), accuracy_of(results, first)


def accuracy_of(results: Results, name: str) -> str:
    """The metric of the accuracy that belongs to a risk: the first measured one; empty if there is none."""
    return next((column for column in (metric(name).risk or OF_BUDGETS).accuracies if _shows(results, column)), "")


def _shows(results: Results, name: str) -> bool:
    """Whether a metric has a value that is not 0."""
    return any(abs(value) > 1e-12 for setting in results.settings for value in setting.measured(name))
