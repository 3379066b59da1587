"""The place of each trial in a figure: which swept keys become colors, positions on the axis and panels.

The first swept slot of an algorithm is the color. The minority ratio, or else the most suitable other key, is the
horizontal axis; every combination of the remaining keys has a panel. Keys that always change together count as one. If
the color stands for several keys, they are joined into one, `METHOD`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from orchestrator.report.data import SLOT_NAMES, Results, Row, Value, sort_key, text
from orchestrator.report.vocabulary import (
    PAIR,
    UNITS,
    colors,
    component_label,
    key_labels,
    method_label,
    setting_label,
    value_label,
)

MOST_COLORS = 8
# The slots that define an algorithm, the most important first. Data set and model are not part of an algorithm.
ALGORITHM = ("clustering.name", "privacy.name", "objective.name", "aggregation.name", "training.name")
AXES = ("data.split.minority_ratio", "data.split.minority", "data.split.majority")
METHOD = "method"  # a column of trials that joins several keys; it holds the list of their values

Point = tuple[Value, ...]


@dataclass(frozen=True)
class Arrangement:
    """The layout of a sweep's finished trials in a figure.

    Attributes:
        results: the results of the sweep.
        trials: the finished trials.
        hue: the key shown by color; None if there is none.
        axis: the keys shown along the horizontal axis.
        facets: the keys whose values have panels of their own.
        joined: the keys that the hue stands for if it is `METHOD`.
    """

    results: Results
    trials: tuple[Row, ...]
    hue: str | None
    axis: tuple[str, ...]
    facets: tuple[str, ...]
    joined: tuple[str, ...] = ()

    @cached_property
    def hues(self) -> list[Value]:
        """The values shown by color, sorted; a single None if color shows nothing."""
        return [point[0] for point in points(self.trials, (self.hue,))] if self.hue else [None]

    @cached_property
    def positions(self) -> list[Point]:
        """The values along the axis, sorted; a single () if there is no axis."""
        return points(self.trials, self.axis)

    @property
    def columns(self) -> list[Point]:
        """The positions, unless color shows the same: then a single () that stands for all of them."""
        return [()] if self.axis == (self.hue,) else self.positions

    @cached_property
    def panels(self) -> list[Point]:
        """The values of the facets, one panel each, sorted; a single () if there is no facet."""
        return points(self.trials, self.facets)

    def cell(self, panel: Point, position: Point, hue: Value) -> list[Row]:
        """The trials at one place of the figure, one for each seed; () stands for every position."""
        place = dict(zip((*self.facets, *self.axis), (*panel, *position), strict=bool(position)))
        if self.hue:
            place[self.hue] = hue
        return [trial for trial in self.trials if all(text(trial[key]) == text(place[key]) for key in place)]

    def measured(self, panel: Point, position: Point, hue: Value, metric: str) -> list[float]:
        """The values of a metric at one place of the figure."""
        return [float(t[metric]) for t in self.cell(panel, position, hue) if t.get(metric) is not None]

    @cached_property
    def palette(self) -> dict[str, str]:
        """The color of every value of the hue, by its text; a sweep of one algorithm uses that algorithm's color."""
        if self.joined:
            found = colors([self.hue_label(hue) for hue in self.hues])
            return {text(hue): found[self.hue_label(hue)] for hue in self.hues}
        named = self.hues if self.hue else [self.results.value(self.trials[0], "clustering.name")]
        found = colors(named)
        return found if self.hue else {"": next(iter(found.values()))}

    def hue_label(self, hue: Value) -> str:
        """The label of a color in the legend."""
        if self.joined:
            return method_label(self.joined, hue)
        if self.hue and not self.hue.endswith(".name"):
            return setting_label((self.hue,), (hue,))
        return value_label(self.hue, hue) if self.hue else self.algorithm

    def panel_label(self, panel: Point) -> str:
        """The label of a panel."""
        return setting_label(self.facets, panel)

    @property
    def algorithm(self) -> str:
        """The label of the algorithm of a sweep with only one, made from the slots with an unusual component."""
        return method_label(ALGORITHM, [self.results.value(self.trials[0], key) for key in ALGORITHM])

    @property
    def axis_label(self) -> str:
        """The label of the horizontal axis, with units."""
        labels = " / ".join(key_labels(self.axis))
        units = dict.fromkeys(unit for key in self.axis if (unit := self._unit(key)))
        return f"{labels} ({', '.join(units)})" if units else labels

    def position_label(self, position: Point) -> str:
        """The tick label of a position: its values, one below the other."""
        if self.joined and self.axis == (self.hue,):
            return self.hue_label(position[0]).replace(", ", "\n")
        return "\n".join(value_label(key, value) or "–" for key, value in zip(self.axis, position, strict=True))

    @property
    def datasets(self) -> str:
        """The labels of the sweep's data sets."""
        names = sorted({text(self.results.value(trial, "data.name")) for trial in self.trials} - {""})
        return ", ".join(component_label("data.name", name) for name in names) or "unknown data"

    def _unit(self, key: str) -> str:
        if key not in ("data.split.minority", "data.split.majority"):
            return UNITS.get(key, "")
        transform = self.results.value(self.trials[0], "data.split.transform")
        return {"rotation": "degrees", "brightness": "factor"}.get(text(transform), "")


def arrange(results: Results) -> Arrangement | None:
    """The layout for the figures of a sweep; None if no trial has finished."""
    trials = tuple(trial for trial in results.trials if trial["status"] == "finished")
    if not trials:
        return None
    varied = [key for key in results.keys if len(points(trials, (key,))) > 1]
    few = [key for key in ALGORITHM if key in varied and len(points(trials, (key,))) <= MOST_COLORS]
    color_keys = _fitting(trials, (few[0], *_own(trials, few[0], varied))) if few else ()
    color = _color(Arrangement(results, trials, None, (), ()), color_keys)
    hue, trials = color.hue, color.trials
    rest = [key for key in varied if key not in color_keys and not _decides(trials, (hue,) if hue else (), key)]
    axis = _axis(trials, rest)
    if hue and not axis:
        return replace(color, axis=(hue,))
    seen = ((hue,) if hue else ()) + axis
    return replace(color, axis=axis, facets=tuple(key for key in rest if not _decides(trials, seen, key)))


def by_method(arr: Arrangement, trials: tuple[Row, ...] | None = None, besides: tuple[str, ...] = ()) -> Arrangement:
    """The layout in which each variant of an algorithm has a color, as far as colors suffice; other keys have panels.

    Args:
        arr: the usual layout.
        trials: the trials to show; default: all.
        besides: keys that the figure shows in another way.
    """
    trials = arr.trials if trials is None else trials
    varied = [key for key in arr.results.keys if key not in besides and len(points(trials, (key,))) > 1]
    slots = [key for key in ALGORITHM if key in varied]
    if any(key in slots for key in PAIR) and not any(key in besides for key in PAIR):
        trials = tuple(trial | {key: arr.results.value(trial, key) for key in PAIR} for trial in trials)
        slots += [key for key in PAIR if key not in slots]
    algorithm_keys = [key for slot in slots for key in (slot, *_own(trials, slot, varied))]
    algorithm_keys += [
        key
        for key in varied
        if key not in algorithm_keys and key.split(".")[0] in {slot.split(".")[0] for slot in ALGORITHM}
    ]
    joined = _fitting(trials, tuple(algorithm_keys))
    if not set(PAIR) <= set(joined):
        joined = tuple(key for key in joined if key in varied)
    color = _color(Arrangement(arr.results, trials, None, (), ()), joined)
    seen: tuple[str, ...] = (color.hue,) if color.hue else ()
    for key in varied:
        if key not in color.joined and not _decides(color.trials, seen, key):
            seen = (*seen, key)
    return replace(color, facets=tuple(key for key in seen if key != color.hue))


def _fitting(trials: tuple[Row, ...], keys: tuple[str, ...]) -> tuple[str, ...]:
    """The keys from the left, as many as colors suffice for, without those that the others determine."""
    kept: tuple[str, ...] = ()
    for key in keys:
        new = key in PAIR or not _decides(trials, kept, key)
        if new and len(points(trials, (*kept, key))) <= MOST_COLORS:
            kept = (*kept, key)
    return kept


def _own(trials: tuple[Row, ...], slot: str, varied: list[str]) -> list[str]:
    """The fields of a swept slot that some of its components lack; they cannot have an axis of their own."""
    fields = [key for key in varied if key != slot and key.startswith(slot.removesuffix("name"))]
    return [key for key in fields if any(trial.get(key) is None for trial in trials)]


def _color(arr: Arrangement, keys: tuple[str, ...]) -> Arrangement:
    """The arrangement with these keys shown by color; several keys are joined into one."""
    if len(keys) < 2:
        return replace(arr, hue=keys[0] if keys else None)
    trials = tuple(trial | {METHOD: [trial.get(key) for key in keys]} for trial in arr.trials)
    return replace(arr, trials=trials, hue=METHOD, joined=keys)


def points(trials: Iterable[Row], keys: tuple[str, ...]) -> list[Point]:
    """The distinct values of ``keys`` over the trials, sorted."""
    found = {tuple(text(trial.get(key)) for key in keys): tuple(trial.get(key) for key in keys) for trial in trials}
    return sorted(found.values(), key=lambda point: tuple(sort_key(value) for value in point))


def _axis(trials: tuple[Row, ...], keys: list[str]) -> tuple[str, ...]:
    """The key for the axis, with the keys that always change together with it."""
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
    """Whether the values of ``keys`` determine the value of ``other``."""
    return len(points(trials, keys)) == len(points(trials, (*keys, other)))
