"""The final metrics of an attack that measures round by round: means over its rounds, or its
last values.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from algorithms.core.columns import register
from algorithms.core.metric import Metric
from algorithms.interfaces import Metrics, Outcome


def defined(outcome: Outcome, metric: str) -> list[float]:
    """Return the values of a metric in the attacked rounds of a run, without those that are
    undefined.
    """
    return [
        row[metric]
        for row in outcome.rows
        if row.get(metric) is not None and np.isfinite(row[metric])
    ]


def means_over_rounds(outcome: Outcome, metrics: Iterable[Metric]) -> Metrics:
    """Return the mean of each metric over the rounds in which it is defined; None if there are
    none.
    """
    values_of = {name: defined(outcome, name) for name in register(metrics)}
    return {
        metric: float(np.mean(values)) if values else None for metric, values in values_of.items()
    }


def last_values(outcome: Outcome, metrics: Iterable[Metric]) -> Metrics:
    """Return the last defined value of each metric, of attacks whose rounds add up; None if
    there is none.
    """
    return {name: next(reversed(defined(outcome, name)), None) for name in register(metrics)}
