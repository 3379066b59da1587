"""What the best trials of a sweep are, by the metrics that it compares them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.metrics.fronts import undominated
from algorithms.metrics.statistics import number
from orchestrator.config.metric_names import metric
from orchestrator.config.tune_section import Tune


def best_sentences(
    tune: Tune, rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]
) -> list[str]:
    """Name the best trials: by one metric the first best, by several those that none dominates."""
    names = tune.metrics
    measured = [row for row in rows if all(row.get(name) is not None for name in names)]
    if not measured:
        missing = " and ".join(map(repr, names))
        return [f"no finished trial has {missing}, so there is no best trial"]
    points = np.array([[row[name] for name in names] for row in measured])
    on_front = undominated(points * tune.signs)
    best = [row for row, is_best in zip(measured, on_front, strict=True) if is_best]
    if len(names) == 1:
        return [f"best {names[0]} {_shown(names[0], best[0])}: {titles[best[0]['id']]}"]
    lines = []
    for row in best:
        values = ", ".join(f"{name} {_shown(name, row)}" for name in names)
        lines.append((values, titles[row["id"]]))
    return [
        f"{len(best)} of {len(measured)} trials are on the front of {' and '.join(names)}",
        *(f"on the front: {values}: {title}" for values, title in sorted(lines)),
    ]


def _shown(name: str, row: Mapping[str, Any]) -> str:
    """The value of a metric with its own decimals."""
    described = metric(name)
    return number(row[name], described.digits, described.bound)
