"""Times small pieces of work: each once for all trials, and no longer than a plan may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")

FEWEST = 8  # what is tried first: a step on this many examples takes a few seconds even with a large network
GROWTH = 4
LONG = 5.0  # seconds from which a first call is not repeated


class Stopwatch:
    """Keeps what was measured; once ``limit`` seconds are spent, a similar measurement stands in for a new one.

    Attributes:
        limit: seconds that all measurements may take together.
        spent: seconds that they have taken so far.
    """

    def __init__(self, limit: float) -> None:
        """Begin without any measurement."""
        self.limit, self.spent = limit, 0.0
        self._found: dict[str, dict[str, Any]] = {}

    def once(self, kind: Any, key: Any, measure: Callable[[], Result]) -> Result:
        """Return the measurement of this kind and key.

        Args:
            kind: what is measured, and all that another measurement must have in common with it to stand in for it.
            key: what it depends on besides; compared by its ``repr``.
            measure: makes the measurement. It is not called if the key was measured before, nor if the time is spent
                and there is another measurement of this kind; then the latest of these is returned.
        """
        known = self._found.setdefault(repr(kind), {})
        if repr(key) not in known:
            if known and self.spent >= self.limit:
                return next(reversed(known.values()))
            started = time.perf_counter()
            known[repr(key)] = measure()
            self.spent += time.perf_counter() - started
        return known[repr(key)]


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the seconds that one call takes; while other programs have the processor, they do not count."""
    started, before = time.perf_counter(), time.process_time()
    work()
    return min(time.perf_counter() - started, time.process_time() - before)


def least(work: Callable[[], Any]) -> float:
    """Return the seconds of the faster of two calls: the first often prepares something that later ones find."""
    return min(seconds_of(work), seconds_of(work))


def grow(work: Callable[[int], Any], most: int, seconds: float) -> tuple[int, float]:
    """Time more and more of the same work, until it takes long enough to be measured.

    Args:
        work: does an amount of work, such as training on that many examples.
        most: the largest sensible amount.
        seconds: about what all calls may take together, besides the first one or two.

    Returns:
        The amount of the last call, and the seconds that it took.
    """
    amount = max(1, min(FEWEST, most))
    taken = seconds_of(partial(work, amount))
    if taken < LONG:  # the very first call may only have loaded code
        taken = min(taken, seconds_of(partial(work, amount)))
    deadline = time.perf_counter() + seconds
    while time.perf_counter() + taken < deadline:
        # The first call of each size also prepares memory and kernels, so it is repeated before it counts.
        taken = min(taken, seconds_of(partial(work, amount)))
        if amount >= most or time.perf_counter() + 2 * GROWTH * taken > deadline:
            break
        amount = min(most, GROWTH * amount)
        taken = seconds_of(partial(work, amount))
    return amount, taken
