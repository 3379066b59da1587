"""Where each trial stands in a figure: by color, along the axis, or in a panel of its own, from
the settings that vary.

The first swept slot of an algorithm is the color, with the fields that not all of its components
have; the first other key with numbers, or else the most suitable one, is the horizontal axis; every
combination of the remaining keys has a panel. Keys that always change together count as one. In a
figure of methods, color shows every variant of the algorithm, and nothing is along the axis.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orchestrator.report.data import SLOT_NAMES, Results, Row, Setting, Value, sort_key, text
from orchestrator.report.vocabulary import (
    ALGORITHM,
    PAIR,
    method_label,
    palette,
    setting_label,
    value_label,
)

MOST_COLORS = 8
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

Keys = tuple[str, ...]
Point = tuple[Value, ...]


@dataclass(frozen=True)
class Arrangement:
    """The layout of a sweep's finished trials in a figure.

    Attributes:
        results: the results of the sweep.
        trials: the finished trials.
        hue: the keys shown by color and marker.
        axis: the keys shown along the horizontal axis.
        facets: the keys whose values have panels of their own.
    """

    results: Results
    trials: tuple[Row, ...]
    hue: Keys
    axis: Keys
    facets: Keys

    @cached_property
    def hues(self) -> list[Point]:
        """The values shown by color, sorted; a single () if color shows nothing."""
        return points(self.trials, self.hue)

    @cached_property
    def positions(self) -> list[Point]:
        """The values along the axis, sorted; a single () if there is no axis."""
        return points(self.trials, self.axis)

    @property
    def columns(self) -> list[Point]:
        """The positions, unless color shows the same: then a single () that stands for all of
        them.
        """
        return [()] if self.axis == self.hue else self.positions

    @cached_property
    def panels(self) -> list[Point]:
        """The values of the facets, one panel each, sorted; a single () if there is no facet."""
        return points(self.trials, self.facets)

    def cell(self, panel: Point, position: Point, hue: Point) -> Setting:
        """The trials at one place of the figure; () stands for every position."""
        place = dict(zip((*self.facets, *self.axis), (*panel, *position), strict=bool(position)))
        values = {
            key: text(value)
            for key, value in (place | dict(zip(self.hue, hue, strict=True))).items()
        }
        return Setting(
            (),
            tuple(
                t for t in self.trials if all(text(t.get(key)) == it for key, it in values.items())
            ),
        )

    def places(self, spread: float = 0.3) -> Iterator[tuple[float, Point, Point]]:
        """Yield horizontal coordinate, position and hue of each place in a panel; colors stand
        side by side.
        """
        for i, position in enumerate(self.positions):
            if self.axis == self.hue:
                yield float(i), position, position
                continue
            for j, hue in enumerate(self.hues):
                yield i + (j - (len(self.hues) - 1) / 2) * spread / len(self.hues), position, hue

    def cells(self) -> list[tuple[Point, Point, Point, Setting]]:
        """Panel, position, hue and trials of every place that has trials."""
        at = [(panel, position, hue) for panel in self.panels for _, position, hue in self.places()]
        return [(*place, cell) for place in at if (cell := self.cell(*place)).trials]

    def has(self, name: str) -> bool:
        """Whether a final metric has something to show: a value that is not 0 in at least one
        trial.
        """
        return any(not is_nothing(trial.get(name)) for trial in self.trials)

    @property
    def ordered(self) -> bool:
        """Whether the axis has numbers or ranges and not names, so that a line between positions
        is meaningful.
        """
        return bool(self.axis) and not any(
            isinstance(v, str) or v is None for point in self.positions for v in point
        )

    @cached_property
    def _colors(self) -> list[str]:
        keys = self.hue or ALGORITHM
        return palette(
            keys,
            self.hues if self.hue else [[self.results.value(self.trials[0], key) for key in keys]],
        )

    def look(self, hue: Point) -> dict[str, Any]:
        """Color and marker of a hue; an algorithm has the same color in every sweep."""
        at = self.hues.index(hue)
        return {"color": self._colors[at], "marker": MARKERS[at % len(MARKERS)]}

    def hue_label(self, hue: Point) -> str:
        """The label of a color in the legend; in a sweep of one algorithm, that of the
        algorithm.
        """
        if len(self.hue) == 1 and self.hue[0].endswith(".name"):
            return value_label(self.hue[0], hue[0])
        if self.hue:
            return method_label(self.hue, hue)
        return method_label(
            ALGORITHM, [self.results.value(self.trials[0], key) for key in ALGORITHM]
        )

    def panel_label(self, panel: Point) -> str:
        """The label of a panel."""
        return setting_label(self.facets, panel)

    def position_label(self, position: Point) -> str:
        """The tick label of a position: its values, one below the other."""
        if self.axis == self.hue:
            return self.hue_label(position).replace(", ", "\n")
        return "\n".join(
            value_label(key, value) or "–" for key, value in zip(self.axis, position, strict=True)
        )

    def heading(self, panel: Point = (), position: Point = (), hue: Point = ()) -> str:
        """A place in words, such as "IFCA, minority ratio 0.1": what does not vary is left out,
        and what is () here.
        """
        words = self.position_label(position).replace("\n", ", ") if position else ""
        if position and not all(key.endswith(".name") for key in self.axis):
            words = setting_label(self.axis, position)
        method = self.hue_label(hue) if hue and len(self.hues) > 1 else ""
        of_panel = self.panel_label(panel) if panel else ""
        return ", ".join(filter(None, (method, words, of_panel)))

    @property
    def datasets(self) -> str:
        """The labels of the sweep's data sets."""
        names = sorted(
            {text(self.results.value(trial, "data.name")) for trial in self.trials} - {""}
        )
        return ", ".join(value_label("data.name", name) for name in names) or "unknown data"


def arrange(results: Results) -> Arrangement | None:
    """The layout for the figures of a sweep; None if no trial has finished."""
    trials = tuple(trial for trial in results.trials if trial["status"] == "finished")
    varied = _varied(results.keys, trials)
    few = [
        key for key in ALGORITHM if key in varied and len(points(trials, (key,))) <= MOST_COLORS
    ][:1]
    hue = _new_keys(
        trials,
        [key for slot in few for key in (slot, *_partial(trials, slot, varied))],
        most=MOST_COLORS,
    )
    rest = [key for key in varied if key not in hue and not _decide(trials, hue, key)]
    axis = _axis(trials, rest) or hue
    return (
        Arrangement(results, trials, hue, axis, _new_keys(trials, rest, (*hue, *axis)))
        if trials
        else None
    )


def by_method(arr: Arrangement, besides: Collection[str] = ()) -> Arrangement:
    """The layout in which each variant of an algorithm has a color, as far as colors suffice;
    other keys have panels.

    The keys ``besides`` are shown in another way.
    """
    varied = [key for key in _varied(arr.results.keys, arr.trials) if key not in besides]
    slots = [key for key in ALGORITHM if key in varied]
    paired = (
        PAIR
        if any(key in slots for key in PAIR) and not any(key in besides for key in PAIR)
        else ()
    )
    trials = tuple(
        trial | {key: arr.results.value(trial, key) for key in paired} for trial in arr.trials
    )
    slots += [key for key in paired if key not in slots]
    sections = {slot.split(".")[0] for slot in ALGORITHM}
    keys = [key for slot in slots for key in (slot, *_partial(trials, slot, varied))]
    keys += [key for key in varied if key not in keys and key.split(".")[0] in sections]
    hue = _new_keys(trials, keys, keep=paired, most=MOST_COLORS)
    if not set(PAIR) <= set(hue):  # only together do they have the literature's name
        hue = tuple(key for key in hue if key in varied)
    return Arrangement(arr.results, trials, hue, (), _new_keys(trials, varied, hue))


def points(trials: Collection[Row], keys: Keys) -> list[Point]:
    """The distinct values of ``keys`` over the trials, sorted."""
    values = {
        tuple(text(trial.get(key)) for key in keys): tuple(trial.get(key) for key in keys)
        for trial in trials
    }
    return sorted(values.values(), key=lambda point: tuple(map(sort_key, point)))


def is_nothing(value: Value) -> bool:
    """Whether a value is missing or 0, apart from rounding errors.

    A panel of such values alone is left out.
    """
    return value is None or abs(float(value)) < 1e-12


def _varied(keys: Keys, trials: tuple[Row, ...]) -> list[str]:
    return [key for key in keys if len(points(trials, (key,))) > 1]


def _decide(trials: tuple[Row, ...], keys: Keys, other: str) -> bool:
    """Whether the values of ``keys`` determine the value of ``other``."""
    return len(points(trials, keys)) == len(points(trials, (*keys, other)))


def _new_keys(
    trials: tuple[Row, ...],
    keys: list[str],
    shown: Keys = (),
    keep: Keys = (),
    most: float = math.inf,
) -> Keys:
    """The keys from the left, without those that what is ``shown`` and the keys before them
    determine, except to ``keep``.

    A key that would give more than ``most`` combinations of values is left out.
    """
    new: Keys = ()
    for key in keys:
        adds = key in keep or not _decide(trials, (*shown, *new), key)
        if adds and len(points(trials, (*new, key))) <= most:
            new = (*new, key)
    return new


def _partial(trials: tuple[Row, ...], slot: str, varied: list[str]) -> list[str]:
    """The fields of a swept slot that some of its components lack; they cannot have an axis of
    their own.
    """
    fields = [key for key in varied if key != slot and key.startswith(slot.removesuffix("name"))]
    return [key for key in fields if any(trial.get(key) is None for trial in trials)]


def _axis(trials: tuple[Row, ...], keys: list[str]) -> Keys:
    """The first key with numbers or ranges, or else components, with the keys that always change
    together with it.
    """

    def rank(key: str) -> int:
        values = [trial.get(key) for trial in trials]
        ends = [end for value in values for end in (value if isinstance(value, list) else [value])]
        numbers = all(isinstance(end, int | float) for end in ends)
        return 0 if numbers else 1 if key in SLOT_NAMES and key != "data.name" else 2

    first = min(keys, key=rank, default="")
    return tuple(
        key for key in keys if _decide(trials, (first,), key) and _decide(trials, (key,), first)
    )
