"""Where a trial belongs in a figure: which swept key is told apart by color, which by position, which by panel.

The first slot that was swept is the color (the algorithm), the minority ratio or the most telling other key the
horizontal axis, and whatever else was swept a panel each. Keys that always change together count as one. Where the color
is to tell several keys apart, they are joined to one, `METHOD`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from orchestrator.report.data import Results
from orchestrator.report.swept import SLOT_NAMES
from orchestrator.report.values import Row, Value, sort_key, text
from orchestrator.report.vocabulary import (
    COMPONENTS,
    PAIR,
    UNITS,
    colors,
    key_labels,
    method_label,
    setting_label,
    value_label,
)

MOST_COLORS = 8
# The slots that make an algorithm, most telling first. A data set or a model is a circumstance, not an algorithm.
ALGORITHM = ("clustering.name", "privacy.name", "objective.name", "aggregation.name", "training.name")
AXES = ("data.split.minority_ratio", "data.split.minority", "data.split.majority")
METHOD = "method"  # a column of trials that joins several keys: the list of their values

Point = tuple[Value, ...]


@dataclass(frozen=True)
class Arrangement:
    """The finished trials of a sweep, laid out: ``hue`` key or None, ``axis`` keys (joined), ``facets`` keys.

    ``joined`` are the keys that the hue stands for where it is `METHOD`.
    """

    results: Results
    trials: tuple[Row, ...]
    hue: str | None
    axis: tuple[str, ...]
    facets: tuple[str, ...]
    joined: tuple[str, ...] = ()

    @cached_property
    def hues(self) -> list[Value]:
        """Values of the color, sorted; a single None if nothing is told apart by color."""
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
        """Color of every value of the hue, by its text. Trials of one algorithm have that algorithm's own color."""
        if self.joined:
            found = colors([self.hue_label(hue) for hue in self.hues])
            return {text(hue): found[self.hue_label(hue)] for hue in self.hues}
        named = self.hues if self.hue else [self.results.value(self.trials[0], "clustering.name")]
        found = colors(named)
        return found if self.hue else {"": next(iter(found.values()))}

    def hue_label(self, hue: Value) -> str:
        if self.joined:
            return method_label(self.joined, hue)
        if self.hue and not self.hue.endswith(".name"):
            return setting_label((self.hue,), (hue,))
        return value_label(self.hue, hue) if self.hue else self.algorithm

    def panel_label(self, panel: Point) -> str:
        return setting_label(self.facets, panel)

    @property
    def algorithm(self) -> str:
        """The algorithm where there is only one, from the slots that do not hold their usual component."""
        return method_label(ALGORITHM, [self.results.value(self.trials[0], key) for key in ALGORITHM])

    @property
    def axis_label(self) -> str:
        labels = " / ".join(key_labels(self.axis))
        units = dict.fromkeys(unit for key in self.axis if (unit := self._unit(key)))
        return f"{labels} ({', '.join(units)})" if units else labels

    def position_label(self, position: Point) -> str:
        """The values one below the other, as under a tick."""
        if self.joined and self.axis == (self.hue,):
            return self.hue_label(position[0]).replace(", ", "\n")
        return "\n".join(value_label(key, value) or "–" for key, value in zip(self.axis, position, strict=True))

    @property
    def datasets(self) -> str:
        names = sorted({text(self.results.value(trial, "data.name")) for trial in self.trials} - {""})
        return ", ".join(COMPONENTS.get(name, name) for name in names) or "unknown data"

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
    few = [key for key in ALGORITHM if key in varied and len(points(trials, (key,))) <= MOST_COLORS]
    told = _fitting(trials, (few[0], *_own(trials, few[0], varied))) if few else ()
    color = _color(Arrangement(results, trials, None, (), ()), told)
    hue, trials = color.hue, color.trials
    rest = [key for key in varied if key not in told and not _decides(trials, (hue,) if hue else (), key)]
    axis = _axis(trials, rest)
    if hue and not axis:
        return replace(color, axis=(hue,))
    seen = ((hue,) if hue else ()) + axis
    return replace(color, axis=axis, facets=tuple(key for key in rest if not _decides(trials, seen, key)))


def by_method(arr: Arrangement, trials: tuple[Row, ...] | None = None, besides: tuple[str, ...] = ()) -> Arrangement:
    """The trials with all that makes an algorithm told apart by color, as far as there are colors; the rest are panels.

    ``trials`` are those to be shown (all), ``besides`` keys that the figure tells apart in a way of its own.
    """
    trials = arr.trials if trials is None else trials
    varied = [key for key in arr.results.keys if key not in besides and len(points(trials, (key,))) > 1]
    slots = [key for key in ALGORITHM if key in varied]
    if any(key in slots for key in PAIR) and not any(key in besides for key in PAIR):
        trials = tuple(trial | {key: arr.results.value(trial, key) for key in PAIR} for trial in trials)
        slots += [key for key in PAIR if key not in slots]
    told = [key for slot in slots for key in (slot, *_own(trials, slot, varied))]
    told += [
        key for key in varied if key not in told and key.split(".")[0] in {slot.split(".")[0] for slot in ALGORITHM}
    ]
    joined = _fitting(trials, tuple(told))
    if not set(PAIR) <= set(joined):
        joined = tuple(key for key in joined if key in varied)
    color = _color(Arrangement(arr.results, trials, None, (), ()), joined)
    seen: tuple[str, ...] = (color.hue,) if color.hue else ()
    for key in varied:
        if key not in color.joined and not _decides(color.trials, seen, key):
            seen = (*seen, key)
    return replace(color, facets=tuple(key for key in seen if key != color.hue))


def _fitting(trials: tuple[Row, ...], keys: tuple[str, ...]) -> tuple[str, ...]:
    """As many of the keys, from the left, as there are colors for; without those that the others decide."""
    kept: tuple[str, ...] = ()
    for key in keys:
        new = key in PAIR or not _decides(trials, kept, key)
        if new and len(points(trials, (*kept, key))) <= MOST_COLORS:
            kept = (*kept, key)
    return kept


def _own(trials: tuple[Row, ...], slot: str, varied: list[str]) -> list[str]:
    """The fields of a swept slot that some of its components lack: on an axis of their own those would stand apart."""
    fields = [key for key in varied if key != slot and key.startswith(slot.removesuffix("name"))]
    return [key for key in fields if any(trial.get(key) is None for trial in trials)]


def _color(arr: Arrangement, keys: tuple[str, ...]) -> Arrangement:
    """The arrangement with these keys as its color; several are joined to one."""
    if len(keys) < 2:
        return replace(arr, hue=keys[0] if keys else None)
    trials = tuple(trial | {METHOD: [trial.get(key) for key in keys]} for trial in arr.trials)
    return replace(arr, trials=trials, hue=METHOD, joined=keys)


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
