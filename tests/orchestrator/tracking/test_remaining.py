"""How long a sweep still takes: worked out by hand for sweeps at several moments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tracking.screen import ScreenTrial, time_left

NOW = 100.0


def trial(
    status: str, done: int = 0, seconds: float = 0.0, each: float | None = 1.0, waited: float = 0.0
) -> ScreenTrial:
    """A trial of ten rounds that began so many seconds ago, and has reported its latest round ``waited`` seconds ago."""
    timed = [each] * (done - 1) if each is not None else []
    reported = NOW - waited if done else None
    began = NOW - seconds if status != "waiting" else None
    ended = NOW if status in ("finished", "failed") else None
    return ScreenTrial("", 10, status, done, began=began, reported=reported, ended=ended, timed=timed)


WAITING = trial("waiting")
FINISHED = trial("finished", 10, 20.0)  # 10 s of it beyond its rounds
SLOW = trial("finished", 10, 60.0)
HALF = trial("running", 5, 10.0)
BEGUN = trial("running")
ONE_ROUND = trial("running", 1, 30.0)
LAST = trial("running", 10, 12.0, waited=2.0)
NINE = trial("running", 9, 9.0)  # attacks on the final models are part of the tenth
LATE = trial("running", 9, 25.0, waited=12.0)
FAILED = trial("failed", 2, 100.0, each=50.0)


@pytest.mark.parametrize(
    ("trials", "total", "expected"),
    [
        ([WAITING, BEGUN], 2, None),
        ([WAITING, ONE_ROUND], 2, None),  # its first round says how long packages take to load
        ([FAILED, BEGUN], 2, None),  # how long a failed trial took tells nothing
        ([HALF], 1, (5.0, True)),  # 1 s a round, and nobody knows what comes after them
        ([HALF, BEGUN], 2, (10.0, True)),  # they run at the same time, so the longer one counts
        ([HALF, WAITING], 2, (15.0, True)),
        ([FINISHED, HALF], 2, (15.0, False)),  # five rounds, and what the trial that is over took beyond its rounds
        ([FINISHED, LAST], 2, (8.0, False)),  # all its rounds are done, but not what comes after them
        ([trial("finished", 10, 90.0), trial("running", 4, 50.0)], 2, (86.0, False)),  # however slow it was until now
        ([NINE], 1, None),  # before, 1 s stood for as long as the last attacks took
        ([NINE, HALF], 2, (5.0, True)),
        ([FINISHED, NINE], 2, (11.0, False)),
        ([FINISHED, LATE], 2, None),  # it has taken longer than the trial that is over
        ([FINISHED, LATE, WAITING], 3, (20.0, True)),
        ([SLOW, FINISHED, HALF], 3, (35.0, False)),  # beyond their rounds, 10 and 50 s
        ([SLOW, FINISHED, HALF, BEGUN, WAITING], 5, (57.5, False)),  # 35 + 40 + 40 s by two at a time
        ([SLOW, FINISHED, HALF], 4, (75.0, False)),  # a search has not drawn its fourth trial yet
        ([FINISHED, FINISHED, FAILED], 3, (0.0, False)),
    ],
)
def test_the_time_left(trials, total, expected):
    assert time_left(trials, total, NOW) == (None if expected is None else pytest.approx(expected))


trials = st.builds(
    trial,
    status=st.sampled_from(["waiting", "running", "finished", "failed", "stopped"]),
    done=st.integers(0, 10),
    seconds=st.floats(0, 1e6),
    each=st.one_of(st.none(), st.floats(0, 1e6)),
    waited=st.floats(0, 1e6),
)


@given(st.lists(trials, max_size=6), st.integers(0, 9))
def test_whatever_the_trials_it_is_no_negative_number(trials, total):
    left = time_left(trials, total, NOW)
    assert left is None or left[0] >= 0
