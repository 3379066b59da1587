"""How long a sweep still takes, from the rounds that are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median_low


@dataclass(frozen=True)
class Pace:
    """How far one trial is.

    Attributes:
        rounds: its number of rounds.
        done: the number of completed rounds.
        seconds: how long it has run; None if it has not started.
        running: whether it runs now.
        finished: whether it has finished, so that its seconds are those of a whole trial.
        steady: mean seconds of its rounds after the first, in which processes start and load packages; None if none is
            done.
    """

    rounds: int
    done: int
    seconds: float | None
    running: bool
    finished: bool
    steady: float | None = None


def remaining_seconds(trials: Iterable[Pace], total: int) -> float | None:
    """The time until all trials have ended; None before a second round is done.

    Trials that wait begin as others end, so that as many run at the same time as do now.

    Args:
        trials: the trials known so far; a search adds its own one after another.
        total: how many trials there will be.

    >>> remaining_seconds([Pace(10, 5, 30.0, True, False, steady=2.0)], total=2)
    30.0
    """
    known = list(trials)
    each = _seconds_per_round(known)
    if each is None:
        return None
    left = [each * (one.rounds - one.done) for one in known if one.running]
    waiting = [one.rounds for one in known if one.seconds is None]
    typical = sum(one.rounds for one in known) / len(known)
    unstarted = sum(waiting) + typical * max(0, total - len(known))
    if not unstarted:
        return max(left, default=0.0)
    return (sum(left) + each * unstarted) / max(1, len(left))


def _seconds_per_round(known: Sequence[Pace]) -> float | None:
    """How long a round lasts, with its share of a trial's beginning and end; None if it cannot be told yet.

    Of finished trials it is the median, because the first one waited for processes to start. Before two trials have
    finished, that wait is left out instead.
    """
    whole = [one.seconds / one.done for one in known if one.finished and one.done and one.seconds is not None]
    if len(whole) > 1:
        return median_low(whole)
    steady = [one.steady for one in known if one.steady is not None and (one.running or one.finished)]
    return fmean(steady) if steady else None


def duration(seconds: float) -> str:
    """A duration in words, for an estimate.

    >>> duration(41.3), duration(600), duration(9000)
    ('about 41 s', 'about 10 min', 'about 2.5 h')
    """
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
