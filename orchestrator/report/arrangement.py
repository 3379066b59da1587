"""Where a trial belongs in a figure: which swept key is told apart by colour, which by position, which by panel.

The first slot that was swept is the colour (the algorithm), the minority ratio or the most telling other key the
horizontal axis, and whatever else was swept a panel each. Keys that always change together count as one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from orchestrator.report.results import Results
from orchestrator.report.swept import SLOT_NAMES
from orchestrator.report.values import Row, Value, sort_key, text
from orchestrator.report.vocabulary import MEMBERS, UNITS, colours, key_labels, value_label

MOST_COLOURS = 8
# The slots that make an algorithm, most telling first. A data set or a model is a circumstance, not an algorithm.
ALGORITHM = ("clustering.name", "privacy.name", "objective.name", "aggregation.name", "training.name")
AXES = ("data.split.minority_ratio", "data.split.minority", "data.split.majority")

Point = tuple[Value, ...]


@dataclass(frozen=True)
class Arrangement:
    """The finished trials of a sweep, laid out: ``hue`` key or None, ``axis`` keys (joined), ``facets`` keys."""

    results: Results
    trials: tuple[Row, ...]
    hue: str | None
    axis: tuple[str, ...]
    facets: tuple[str, ...]

    @cached_property
    def hues(self) -> list[Value]:
        """Values of the colour, sorted; a single None if nothing is told apart by colour."""
        return [point[0] for point in points(self.trials, (self.hue,))] if self.hue else [None]

    @cached_property
    def positions(self) -> list[Point]:
        """Values along the axis, sorted; a single () if there is no axis."""
        return points(self.trials, self.axis)

    @cached_property
    def panels(self) -> list[Point]:
        """Values of the remaining keys, one panel each, sorted; a single () if there is none."""
        return points(self.trials, self.facets)

    def cell(self, panel: Point, position: Point, hue: Value) -> list[Row]:
        """The trials at one place of the figure, one per seed."""
        place = {**dict(zip(self.facets, panel, strict=True)), **dict(zip(self.axis, position, strict=True))}
        if self.hue:
            place[self.hue] = hue
        return [trial for trial in self.trials if all(text(trial[key]) == text(place[key]) for key in place)]

    def measured(self, panel: Point, position: Point, hue: Value, metric: str) -> list[float]:
        return [float(t[metric]) for t in self.cell(panel, position, hue) if t.get(metric) is not None]

    @cached_property
    def palette(self) -> dict[str, str]:
        """Colour of every value of the hue, by its text. Trials of one algorithm have that algorithm's own colour."""
        named = self.hues if self.hue else [self.results.value(self.trials[0], "clustering.name")]
        found = colours(named)
        return found if self.hue else {"": next(iter(found.values()))}

    def hue_label(self, hue: Value) -> str:
        return value_label(self.hue, hue) if self.hue else self.algorithm

    @property
    def algorithm(self) -> str:
        """The algorithm where there is only one, from the slots that do not hold their usual member."""
        usual = {"none", "plain", "local_sgd", "fedavg", ""}
        names = [text(self.results.value(self.trials[0], key)) for key in ALGORITHM]
        telling = [MEMBERS.get(name, name) for name in names if name not in usual]
        return " + ".join(telling) or "FedAvg"

    @property
    def axis_label(self) -> str:
        labels = " / ".join(key_labels(self.axis))
        units = dict.fromkeys(unit for key in self.axis if (unit := self._unit(key)))
        return f"{labels} ({', '.join(units)})" if units else labels

    def position_label(self, position: Point) -> str:
        """The values one below the other, as under a tick."""
        return "\n".join(value_label(key, value) or "–" for key, value in zip(self.axis, position, strict=True))

    @property
    def datasets(self) -> str:
        names = sorted({text(self.results.value(trial, "data.name")) for trial in self.trials} - {""})
        return ", ".join(MEMBERS.get(name, name) for name in names) or "unknown data"

    def _unit(self, key: str) -> str:
        if key not in ("data.split.minority", "data.split.majority"):
            return UNITS.get(key, "")
        transform = self.results.value(self.trials[0], "data.split.transform")
        return {"rotation": "degrees", "brightness": "factor"}.get(text(transform), "")


def arrange(results: Results) -> Arrangement | None:
    """The layout of a sweep's figures; None if no trial has finished."""
    trials = tuple(trial for trial in results.trials if trial["status"] == "finished")
    if not trials:
        return None
    varied = [key for key in results.keys if len(points(trials, (key,))) > 1]
    few = [key for key in ALGORITHM if key in varied and len(points(trials, (key,))) <= MOST_COLOURS]
    hue = few[0] if few else None
    rest = [key for key in varied if key != hue and not _decides(trials, (hue,) if hue else (), key)]
    axis = _axis(trials, rest)
    if hue and not axis:
        return Arrangement(results, trials, hue, (hue,), ())
    told = ((hue,) if hue else ()) + axis
    return Arrangement(results, trials, hue, axis, tuple(key for key in rest if not _decides(trials, told, key)))


def points(trials: Iterable[Row], keys: tuple[str, ...]) -> list[Point]:
    """The distinct values of ``keys`` over the trials, sorted."""
    found = {tuple(text(trial.get(key)) for key in keys): tuple(trial.get(key) for key in keys) for trial in trials}
    return sorted(found.values(), key=lambda point: tuple(sort_key(value) for value in point))


def _axis(trials: tuple[Row, ...], keys: list[str]) -> tuple[str, ...]:
    """The key for the axis, with those that stand in one-to-one relation to it."""
    if not keys:
        return ()
    first = min(keys, key=lambda key: (_rank(trials, key), keys.index(key)))
    same = [key for key in keys if _decides(trials, (first,), key) and _decides(trials, (key,), first)]
    return tuple(sorted(same, key=lambda key: (AXES.index(key) if key in AXES else len(AXES), key)))


def _rank(trials: tuple[Row, ...], key: str) -> int:
    if key in AXES:
        return AXES.index(key)
    if all(isinstance(trial.get(key), int | float) for trial in trials):
        return 10
    return 20 if key in SLOT_NAMES and key != "data.name" else 30


def _decides(trials: tuple[Row, ...], keys: tuple[str, ...], other: str) -> bool:
    """Whether the values of ``keys`` leave only one value for ``other``."""
    return len(points(trials, keys)) == len(points(trials, (*keys, other)))
