"""Which risks of a sweep count, the strongest kind of attack first: declared (`Metric.risk`) before any number is seen."""

from __future__ import annotations

from algorithms.core.metric import CLIENT, MEMBERSHIP, SOURCE, Metric, Risk
from orchestrator.metric_names import metric, metrics
from orchestrator.report.context import epsilons
from orchestrator.report.data import Results

FAMILIES = (MEMBERSHIP, SOURCE, CLIENT)
UNDECLARED = Risk("", accuracies=("aggregated_accuracy", "accuracy"))


def risks(results: Results) -> list[tuple[str, ...]]:
    """The risks that a sweep measured, the strongest kind of attack first; those of one kind are side by side.

    Of each kind the first counts that was measured, in the order that the attacks declare. In a family of attacks without
    any declared risk, it is the first fraction of which less is better. A risk needs an accuracy to stand beside.
    """
    known = [one for one in metrics().values() if one.risk and one.risk.rank is not None and _shows(results, one.name)]
    first: dict[str, Metric] = {}
    for one in sorted(known, key=lambda one: one.risk.rank or 0 if one.risk else 0):
        first.setdefault((one.risk.kind if one.risk else "") or one.name, one)
    rows: list[tuple[str, ...]] = []
    for one in first.values():
        kind = dict.fromkeys((one.name, *(one.risk.beside if one.risk else ())))
        rows.append(_plotted(results, [name for name in kind if not any(name in row for row in rows)]))
    seen = {metric(row[0]).family for row in rows if row}
    for family in FAMILIES:
        other = [metric(name) for name in results.metrics if metric(name).family == family and family not in seen]
        rows.append(
            _plotted(results, [one.name for one in other if (one.direction, one.unit) == ("lower", "fraction")])[:1]
        )
    if not any(rows):  # without any attack, the budget of a guarantee, if several settings state one
        stated = [
            name
            for name in epsilons()
            if sum(bool(one.measured(name)) for one in results.settings) > 1 and accuracy_of(results, name)
        ]
        rows = [(name,) for name in stated[:1]]
    return [row for row in rows if row]


def main_risk(results: Results) -> tuple[str, str] | None:
    """The first measured risk of the strongest kind of attack at hand, which the headline is about.

    The kinds are in a fixed order, so the choice does not depend on what they found.

    Returns:
        Its metric, and the metric of the accuracy that belongs to it (empty if it was not measured); None if no attack has
        such a result.
    """
    first = next((row[0] for row in risks(results)), "")
    if not first or metric(first).protects:
        return None
    name = next((one for one in (metric(first).risk or UNDECLARED).instead if results.has(one)), first)
    return name, accuracy_of(results, first)


def accuracy_of(results: Results, name: str) -> str:
    """The metric of the accuracy that belongs to a risk: the first measured one; empty if there is none."""
    return next((one for one in (metric(name).risk or UNDECLARED).accuracies if _shows(results, one)), "")


def _plotted(results: Results, names: list[str]) -> tuple[str, ...]:
    return tuple(name for name in names if _shows(results, name) and accuracy_of(results, name))


def _shows(results: Results, name: str) -> bool:
    """Whether a metric has a value that is not 0."""
    return any(abs(value) > 1e-12 for setting in results.settings for value in setting.measured(name))
