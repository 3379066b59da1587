"""How long a sweep still takes, from the rounds that are done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How far one trial is.

    Attributes:
        rounds: its number of rounds.
        done: the number of completed rounds.
        seconds: how long it has run; None if it has not started.
        running: whether it runs now.
        finished: whether it has finished, so that its seconds are those of a whole trial.
    """

    rounds: int
    done: int
    seconds: float | None
    running: bool
    finished: bool


def remaining_seconds(trials: Iterable[Pace], total: int) -> float | None:
    """The time until all trials have ended; None before the first round is done.

    A round is taken to last as long as in the trials that have finished, or else in those that run. Trials that wait
    begin as others end, so that as many run at the same time as do now.

    Args:
        trials: the trials known so far; a search adds its own one after another.
        total: how many trials there will be.

    >>> remaining_seconds([Pace(10, 10, 20.0, False, True), Pace(10, 5, 10.0, True, False)], total=4)
    50.0
    """
    known = list(trials)
    timed = [one for one in known if one.finished and one.done] or [one for one in known if one.running and one.done]
    if not timed:
        return None
    each = sum(one.seconds or 0.0 for one in timed) / sum(one.done for one in timed)
    left = [each * (one.rounds - one.done) for one in known if one.running]
    waiting = [one.rounds for one in known if one.seconds is None]
    typical = sum(one.rounds for one in known) / len(known)
    unstarted = sum(waiting) + typical * max(0, total - len(known))
    if not unstarted:
        return max(left, default=0.0)
    return (sum(left) + each * unstarted) / max(1, len(left))


def duration(seconds: float) -> str:
    """A duration in words, for an estimate.

    >>> duration(41.3), duration(600), duration(9000)
    ('about 41 s', 'about 10 min', 'about 2.5 h')
    """
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
