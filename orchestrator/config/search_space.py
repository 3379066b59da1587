"""The search space of a sweep: Ray Tune's words in the ``sweep`` section, and the points that
they span.

``grid_search`` takes every value of a list, and every combination if several keys have one. The
other words draw at random, ``samples`` times. The draws do not come from Ray, so the trials are
known before it starts and do not depend on it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from orchestrator.config.errors import ConfigProblem, Key, format_value, unknown_name

if TYPE_CHECKING:
    from numpy.random import Generator

GRID = "grid_search"
MOST_TRIALS = 3000  # each is checked, which takes about a millisecond


def _rounded(value: float, step: float) -> float:
    """The multiple of ``step`` next to ``value``, to twelve digits, so that steps of 0.1 do not
    give 0.30000000000000004.
    """
    return float(f"{round(value / step) * step:.12g}")


# The random words: how each one draws (``choice`` draws a position) and the arguments that it
# takes.
RANDOM: dict[str, tuple[Callable[..., Any] | None, str]] = {
    "choice": (None, "[value, value, ...]"),
    "uniform": (lambda rng, low, high: float(rng.uniform(low, high)), "[low, high]"),
    "loguniform": (
        lambda rng, low, high: float(math.exp(rng.uniform(math.log(low), math.log(high)))),
        "[low, high] with 0 < low",
    ),
    "randint": (
        lambda rng, low, high: int(rng.integers(low, high)),
        "[low, high], integers, high itself is not drawn",
    ),
    "quniform": (
        lambda rng, low, high, q: _rounded(rng.uniform(low, high), q),
        "[low, high, step], multiples of step",
    ),
}
WORDS = {GRID: "[value, value, ...]"} | {word: arguments for word, (_, arguments) in RANDOM.items()}


@dataclass(frozen=True)
class Choice:
    """One value of a swept key, and its key in the sweep file."""

    value: Any
    key: Key


Point = dict[str, Choice]  # one value for every swept key


@dataclass(frozen=True)
class Axis:
    """A swept key, dotted, from inside ``base``, with its word and the list after the word."""

    key: str
    word: str
    arguments: tuple[Any, ...]

    def choices(self) -> list[Choice]:
        """The values of a list, or the ends of a range."""
        place: Key = ("sweep", self.key, self.word)
        if self.word in (GRID, "choice"):
            return [
                Choice(value, (*place, position)) for position, value in enumerate(self.arguments)
            ]
        low, high, *step = self.arguments
        ends = (low, high - 1) if self.word == "randint" else (low, high)
        return [Choice(_rounded(end, *step) if step else end, place) for end in ends]

    def draws(self, count: int, rng: Generator | None = None) -> list[Choice]:
        """Random values from ``rng``, or from a stream of the key's own."""
        # most sweep files have no random word, and this import is a third of the time to read one
        import numpy as np

        rng = rng or np.random.default_rng(np.random.SeedSequence(list(self.key.encode())))
        draw, _ = RANDOM[self.word]
        if draw is None:
            values = self.choices()
            return [values[position] for position in rng.integers(0, len(values), size=count)]
        return [
            Choice(draw(rng, *self.arguments), ("sweep", self.key, self.word)) for _ in range(count)
        ]


def axes(section: dict[str, Any], samples: int | None) -> tuple[list[Axis], list[ConfigProblem]]:
    """Read the ``sweep`` section, by dotted key; ``samples`` is the number of random draws from
    the top of the file.

    Returns:
        The swept keys in the order of the file, and every problem with them.
    """
    swept = list[Axis]()
    problems = list[ConfigProblem]()
    for key, entry in section.items():
        sentence, inside = _wrong(key, entry)
        if sentence:
            problems.append(ConfigProblem(sentence, ("sweep", key, *inside)))
        else:
            ((word, arguments),) = entry.items()
            swept.append(Axis(key, word, tuple(arguments)))
    random = [
        key
        for key, entry in section.items()
        if isinstance(entry, dict) and not RANDOM.keys().isdisjoint(entry)
    ]
    sentence = ""
    if random and samples is None:
        sentence = f"is missing; it must be the number of random draws, which {random[0]} needs"
    elif samples is not None and not random:
        sentence = (
            "is the number of random draws, but no swept key uses one of the words "
            f"{', '.join(RANDOM)}"
        )
    return swept, problems + ([ConfigProblem(sentence, ("samples",))] if sentence else [])


def _wrong(key: str, entry: Any) -> tuple[str, Key]:
    """What is wrong with a swept key, as a sentence, and where below it; an empty sentence if
    nothing is.
    """
    if key.partition(".")[0] == "base":
        return f"swept keys start inside base; write {format_value(key[5:] or 'rounds')}", ()
    if not isinstance(entry, dict) or len(entry) != 1:
        return (
            f"must be {{{GRID}: [value, ...]}} or one of {', '.join(RANDOM)}, got "
            f"{format_value(entry)}",
            (),
        )
    ((word, arguments),) = entry.items()
    if word not in WORDS:
        return unknown_name(f"unknown word {format_value(word)}", word, WORDS), ()
    usable = isinstance(arguments, list) and arguments
    if not usable or (word not in (GRID, "choice") and not _is_range(word, arguments)):
        return f"must be {WORDS[word]}, got {format_value(arguments)}", (word,)
    first: dict[str, int] = {}
    texts = [json.dumps(value, sort_keys=True) for value in arguments] if word == GRID else []
    twice = [place for place, text in enumerate(texts) if first.setdefault(text, place) < place]
    return (
        (f"{format_value(arguments[twice[0]])} is listed twice", (word, twice[0]))
        if twice
        else ("", ())
    )


def _is_range(word: str, bounds: list[Any]) -> bool:
    kinds = (int,) if word == "randint" else (int, float)
    if len(bounds) != 2 + (word == "quniform") or not all(type(bound) in kinds for bound in bounds):
        return False
    low, high, *steps = bounds
    right = low < high and math.isfinite(high - low) and (low > 0 or word != "loguniform")
    # A step below a billionth of the bounds would be lost in rounding; what is rounded to a
    # multiple can leave other bounds.
    large = all(step > 1e-9 * max(abs(low), abs(high)) for step in steps)
    return (
        right
        and large
        and all(
            math.isclose(end, round(end / q) * q, rel_tol=1e-6)
            for q in steps
            for end in (low, high)
        )
    )


def points(swept: list[Axis], samples: int | None) -> tuple[list[Point], list[ConfigProblem]]:
    """The points of a sweep: for each random draw, every combination of the grids' values, in
    the order of the file.

    Each draw is combined with every point of the grids, so that the grids are compared at equal
    random values. Each key has its own random stream, so more samples or another random key do not
    change the existing draws. A draw that repeats an earlier one (``choice`` among few values) is
    dropped.

    Returns:
        The points, and a problem if there are too many; then only the first point is returned.
    """
    grids = [axis for axis in swept if axis.word == GRID]
    random = [axis for axis in swept if axis.word != GRID]
    draws = (samples or 1) if random else 1
    number = math.prod(len(axis.arguments) for axis in grids) * draws
    problems = []
    if number > MOST_TRIALS:
        sentence = f"asks for {number} trials; a file may have at most {MOST_TRIALS}"
        problems.append(ConfigProblem(sentence, ("sweep",)))
        grids = [Axis(axis.key, axis.word, axis.arguments[:1]) for axis in grids]
        draws = 1
    distinct: dict[str, tuple[Choice, ...]] = {}  # without repetitions
    for row in zip(*(axis.draws(draws) for axis in random), strict=True) if random else [()]:
        distinct.setdefault(json.dumps([choice.value for choice in row], sort_keys=True), row)
    keys = [axis.key for axis in (*grids, *random)]
    combined = list(product(*(axis.choices() for axis in grids)))
    merged = [
        dict(zip(keys, (*choices, *draw), strict=True))
        for draw in distinct.values()
        for choices in combined
    ]
    return [{axis.key: point[axis.key] for axis in swept} for point in merged], problems


def search_problems(swept: list[Axis]) -> list[ConfigProblem]:
    """The reasons why a search cannot draw the swept keys; it draws all of them, so no key may
    have a grid.
    """
    if not swept:
        return [
            ConfigProblem(
                f"has nothing to draw: no swept key uses one of {', '.join(RANDOM)}",
                ("tune", "search"),
            )
        ]
    sentence = (
        f"a search draws every swept key: write choice (or {', '.join(list(RANDOM)[1:])}) "
        f"instead of {GRID}"
    )
    return [
        ConfigProblem(sentence, ("sweep", axis.key, axis.word))
        for axis in swept
        if axis.word == GRID
    ]


def corners(swept: list[Axis]) -> list[Point]:
    """Points for checking a search space: each end or choice of one axis in turn, with the other
    axes at their first value.
    """
    ends = {axis.key: axis.choices() for axis in swept}
    first = {key: choices[0] for key, choices in ends.items()}
    return [
        first,
        *({**first, key: choice} for key, choices in ends.items() for choice in choices[1:]),
    ]
