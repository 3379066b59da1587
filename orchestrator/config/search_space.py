"""The search space of a sweep: Ray Tune's words in the ``sweep`` section, and the points that they span.

``grid_search`` takes every value of a list, and every combination if several keys have one. The other words draw at
random, ``samples`` times. The draws do not come from Ray, so the trials are known before it starts and do not depend on it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from orchestrator.config.errors import ConfigProblem, Key, format_value, unknown_name

GRID = "grid_search"
SEARCH: Key = ("tune", "search")
MOST_TRIALS = 3000  # each is checked, which takes about a millisecond
MOST_CHOICES = 2000  # of a search, each of which is checked
MOST_NAMED = 10  # values that are listed twice


@dataclass(frozen=True)
class Axis:
    """One swept key.

    Attributes:
        key: dotted, from inside ``base``.
        word: ``grid_search`` or one of the random words.
        arguments: the list after the word.
    """

    key: str
    word: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Choice:
    """One value of a swept key, and its key in the sweep file."""

    value: Any
    key: Key


Point = dict[str, Choice]
"""One value for every swept key."""


def _loguniform(rng: Any, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _rounded(value: float, step: float) -> float:
    """The multiple of ``step`` next to ``value``, to twelve digits, so that steps of 0.1 do not give 0.30000000000000004."""
    return float(f"{round(value / step) * step:.12g}")


RANDOM: dict[str, tuple[Callable[..., Any] | None, str]] = {
    "choice": (None, "[value, value, ...]"),
    "uniform": (lambda rng, low, high: float(rng.uniform(low, high)), "[low, high]"),
    "loguniform": (_loguniform, "[low, high]"),
    "randint": (lambda rng, low, high: int(rng.integers(low, high)), "[low, high]"),
    "quniform": (lambda rng, low, high, step: _rounded(rng.uniform(low, high), step), "[low, high, step]"),
}
"""The random words: how each one draws (``choice`` draws a position) and the arguments that it takes."""

WORDS = (GRID, *RANDOM)


def axes(section: dict[str, Any], samples: int | None) -> tuple[list[Axis], list[ConfigProblem]]:
    """Read the ``sweep`` section.

    Args:
        section: the section, by dotted key.
        samples: the number of random draws from the top of the file, or None.

    Returns:
        The swept keys in the order of the file, and every problem with them.
    """
    read = [_axis(key, given) for key, given in section.items()]
    problems = [problem for _, wrong in read for problem in wrong]
    random = [key for key, given in section.items() if isinstance(given, dict) and not RANDOM.keys().isdisjoint(given)]
    if random and samples is None:
        sentence = f"is missing; it must be the number of random draws, which {random[0]} needs"
        problems.append(ConfigProblem(sentence, ("samples",)))
    if samples is not None and not random:
        sentence = f"is the number of random draws, but no swept key uses one of the words {', '.join(RANDOM)}"
        problems.append(ConfigProblem(sentence, ("samples",)))
    return [axis for axis, _ in read if axis is not None], problems


def _axis(key: str, given: Any) -> tuple[Axis | None, list[ConfigProblem]]:
    place: Key = ("sweep", key)
    sentence = ""
    if key == "base" or key.startswith("base."):
        sentence = f"swept keys start inside base; write {format_value(key[5:] or 'rounds')}"
    elif not all(key.split(".")):
        sentence = f"must be names joined by dots, such as training.lr, got {format_value(key)}"
    elif not isinstance(given, dict) or len(given) != 1:
        sentence = f"must be {{{GRID}: [value, ...]}} or one of {', '.join(RANDOM)}, got {format_value(given)}"
    elif (word := next(iter(given))) not in WORDS:
        sentence = unknown_name(f"unknown word {format_value(word)}", word, WORDS)
    if sentence:
        return None, [ConfigProblem(sentence, place)]
    arguments = given[word]
    if not isinstance(arguments, list):
        allowed = "a list of values" if word == GRID else RANDOM[word][1]
        return None, [ConfigProblem(f"must be {allowed}, got {format_value(arguments)}", (*place, word))]
    values = word in (GRID, "choice")
    wrong = _list_problems(arguments, word == "choice") if values else _bound_problems(word, arguments)
    axis = Axis(key, word, tuple(arguments)) if not wrong else None
    return axis, [ConfigProblem(text, (*place, word, *inner)) for inner, text in wrong]


def _list_problems(values: list[Any], repeats: bool) -> list[tuple[Key, str]]:
    """Problems of a list of values. With ``repeats``, a value may be listed twice, to be drawn more often."""
    if not values:
        return [((), "is empty; it must be a list with at least one value")]
    first: dict[str, int] = {}
    found: list[tuple[Key, str]] = []
    for place, value in enumerate(values):
        text = json.dumps(value, sort_keys=True)
        if text in first and not repeats:
            found.append(((place,), f"{format_value(value)} is listed twice; list each value once"))
        first.setdefault(text, place)
    more = len(found) - MOST_NAMED
    return found[:MOST_NAMED] + ([((), f"and {more} other values are listed twice")] if more > 0 else [])


def _bound_problems(word: str, bounds: list[Any]) -> list[tuple[Key, str]]:
    """Problems of the bounds of a random word."""
    kinds = (int,) if word == "randint" else (int, float)
    right = len(bounds) == (3 if word == "quniform" else 2) and all(type(bound) in kinds for bound in bounds)
    allowed = f"{RANDOM[word][1]} with low < high"
    if word == "randint":
        allowed += ", integers, where high itself is never drawn"
    if word == "loguniform":
        allowed, right = f"{allowed} and low > 0", right and bounds[0] > 0
    if word == "quniform":
        # A step below a billionth of the bounds would be lost in rounding.
        allowed, right = f"{allowed} and step > 0", right and bounds[2] > 1e-9 * max(abs(bounds[0]), abs(bounds[1]))
    if right and bounds[0] < bounds[1] and math.isfinite(bounds[1] - bounds[0]):
        return []
    return [((), f"must be {allowed}, got {format_value(bounds)}")]


def points(found: list[Axis], samples: int | None) -> tuple[list[Point], list[ConfigProblem]]:
    """The points of a sweep: for each random draw, every combination of the grids' values, in the order of the file.

    Each draw is combined with every point of the grids, so that the grids are compared at equal random values. Each key
    has its own random stream, so more samples or another random key do not change the existing draws. A draw that repeats
    an earlier one (``choice`` among few values) is dropped.

    Args:
        found: the swept keys.
        samples: number of random draws; None if no key is random.

    Returns:
        The points, and a problem if there are too many; then only the first point is returned.
    """
    grids = [axis for axis in found if axis.word == GRID]
    random = [axis for axis in found if axis.word != GRID]
    draws = (samples or 1) if random else 1
    number = math.prod(len(axis.arguments) for axis in grids) * draws
    problems = []
    if number > MOST_TRIALS:
        sentence = f"asks for {number} trials; a file may have at most {MOST_TRIALS}"
        problems.append(ConfigProblem(sentence, ("sweep",)))
        grids, draws = [Axis(axis.key, axis.word, axis.arguments[:1]) for axis in grids], 1
    drawn: dict[str, tuple[Choice, ...]] = {}  # without repetitions
    for row in zip(*(_draws(axis, draws) for axis in random), strict=True) if random else [()]:
        drawn.setdefault(json.dumps([choice.value for choice in row], sort_keys=True), row)
    keys = [axis.key for axis in (*grids, *random)]
    merged = [
        dict(zip(keys, (*combination, *draw), strict=True))
        for draw in drawn.values()
        for combination in product(*map(_ends, grids))
    ]
    return [{axis.key: point[axis.key] for axis in found} for point in merged], problems


def search_problems(found: list[Axis]) -> list[ConfigProblem]:
    """The reasons why a search cannot draw the swept keys; it draws all of them, so no key may have a grid."""
    if not found:
        return [ConfigProblem(f"has nothing to draw: no swept key uses one of the words {', '.join(RANDOM)}", SEARCH)]
    sentence = f"a search draws every swept key: write choice (or {', '.join(list(RANDOM)[1:])}) instead of {GRID}"
    grids = [ConfigProblem(sentence, ("sweep", axis.key, GRID)) for axis in found if axis.word == GRID]
    return grids + [
        ConfigProblem(
            f"has {len(axis.arguments)} values; a search may choose among {MOST_CHOICES}",
            ("sweep", axis.key, axis.word),
        )
        for axis in found
        if axis.word == "choice" and len(axis.arguments) > MOST_CHOICES
    ]


def corners(found: list[Axis]) -> list[Point]:
    """Points for checking a search space: each end or choice of one axis in turn, with the other axes at their first value."""
    ends = {axis.key: _ends(axis)[:MOST_CHOICES] for axis in found}
    first = {key: choices[0] for key, choices in ends.items()}
    return [first, *({**first, key: choice} for key, choices in ends.items() for choice in choices[1:])]


def _ends(axis: Axis) -> list[Choice]:
    """The values of a list, or the ends of a range."""
    place: Key = ("sweep", axis.key, axis.word)
    if axis.word in (GRID, "choice"):
        return [Choice(value, (*place, position)) for position, value in enumerate(axis.arguments)]
    low, high = axis.arguments[:2]
    if axis.word == "randint":
        high -= 1
    if axis.word == "quniform":
        low, high = (_rounded(end, axis.arguments[2]) for end in (low, high))
    return [Choice(end, place) for end in (low, high)]


def _draws(axis: Axis, draws: int) -> list[Choice]:
    import numpy as np  # most sweep files have no random word, and this import is a third of the time to read one

    rng = np.random.default_rng(np.random.SeedSequence(list(axis.key.encode())))
    draw, _ = RANDOM[axis.word]
    place: Key = ("sweep", axis.key, axis.word)
    if draw is not None:
        return [Choice(draw(rng, *axis.arguments), place) for _ in range(draws)]
    positions = rng.integers(0, len(axis.arguments), size=draws)
    return [Choice(axis.arguments[position], (*place, int(position))) for position in positions]
