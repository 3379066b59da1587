"""How long a sweep still takes, from the rounds that are done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, median_low

YEAR = 365 * 24 * 3600.0


@dataclass(frozen=True)
class Pace:
    """How far one trial is.

    Attributes:
        rounds: its number of rounds.
        done: the number of completed rounds.
        seconds: how long it has run, without what its processes took to start; None if it has not started.
        running: whether it runs now.
        finished: whether it has finished, so that its seconds are those of a whole trial.
        steady: mean seconds of its rounds after the first, in which packages are loaded; None if none is done.
    """

    rounds: int
    done: int
    seconds: float | None
    running: bool
    finished: bool
    steady: float | None = None


@dataclass(frozen=True)
class Left:
    """The time until all trials have ended.

    Attributes:
        seconds: the estimate.
        at_least: whether only rounds could be counted, because no trial has shown what comes after them, such as attacks
            that train models of their own, or because a trial takes longer than those that have finished.
    """

    seconds: float
    at_least: bool

    def __str__(self) -> str:
        return f"{'at least ' if self.at_least else ''}{duration(self.seconds)}"


def time_left(trials: Iterable[Pace], total: int) -> Left | None:
    """The time until all trials have ended; None before a second round is done, and where it is not known.

    Trials that wait begin as others end, so that as many run at the same time as do now. A trial takes as long as the
    median of those that have finished; before one has, at least its rounds are counted. What is left of a trial that has
    taken longer is not known, nor is its last round, at whose end come attacks on the final models.

    Args:
        trials: the trials known so far; a search adds its own one after another.
        total: how many trials there will be.

    >>> str(time_left([Pace(10, 5, 30.0, True, False, steady=2.0)], total=2))
    'at least about 30 s'
    """
    known = list(trials)
    whole = [one.seconds / one.rounds for one in known if one.finished and one.rounds and one.seconds is not None]
    steady = [one.steady for one in known if one.steady is not None and (one.running or one.finished)]
    if not whole and not steady:
        return None
    round_seconds = fmean(steady) if steady else 0.0
    each = median_low(whole) if whole else round_seconds
    running = [one for one in known if one.running]
    usual = [each * one.rounds - (one.seconds or 0.0) if whole else 0.0 for one in running]
    left = [max(by, round_seconds * (one.rounds - one.done)) for by, one in zip(usual, running, strict=True)]
    last = [by <= 0 and one.done >= one.rounds - 1 for by, one in zip(usual, running, strict=True)]
    waiting = [one.rounds for one in known if one.seconds is None and not one.running]
    typical = fmean(one.rounds for one in known)
    unstarted = each * (sum(waiting) + typical * max(0, total - len(known)))
    if last and all(last) and not unstarted:
        return None
    seconds = max(left, default=0.0) if not unstarted else (sum(left) + unstarted) / max(1, len(left))
    return Left(seconds, at_least=not whole or any(last))


def duration(seconds: float) -> str:
    """A duration in words, for an estimate.

    >>> duration(41.3), duration(600), duration(9000)
    ('about 41 s', 'about 10 min', 'about 2.5 h')
    >>> duration(3e6), duration(1e9), duration(1e300)
    ('about 833.3 h', 'about 32 years', 'more than 1000 years')
    """
    if seconds >= 1000 * YEAR:
        return "more than 1000 years"
    if seconds >= YEAR:
        return f"about {seconds / YEAR:.0f} years"
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
