"""How long a sweep still takes: worked out by hand for sweeps at several moments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tracking.remaining import Left, Pace, time_left

WAITING = Pace(10, 0, None, running=False, finished=False)
FINISHED = Pace(10, 10, 20.0, running=False, finished=True, steady=1.0)  # 10 s of it after its rounds
SLOW = Pace(10, 10, 60.0, running=False, finished=True, steady=1.0)
HALF = Pace(10, 5, 10.0, running=True, finished=False, steady=1.0)
BEGUN = Pace(10, 0, 0.0, running=True, finished=False)
ONE_ROUND = Pace(10, 1, 30.0, running=True, finished=False)
LAST = Pace(10, 10, 12.0, running=True, finished=False, steady=1.0)
NINE = Pace(10, 9, 9.0, running=True, finished=False, steady=1.0)  # attacks on the final models are part of the tenth
LATE = Pace(10, 9, 25.0, running=True, finished=False, steady=1.0)
FAILED = Pace(10, 2, 100.0, running=False, finished=False, steady=50.0)


@pytest.mark.parametrize(
    ("trials", "total", "expected"),
    [
        ([WAITING, BEGUN], 2, None),
        ([WAITING, ONE_ROUND], 2, None),  # its first round says how long packages take to load
        ([FAILED, BEGUN], 2, None),  # how long a failed trial took tells nothing
        ([HALF], 1, Left(5.0, at_least=True)),  # 1 s a round, and nobody knows what comes after them
        ([HALF, BEGUN], 2, Left(10.0, at_least=True)),  # they run at the same time, so the longer one counts
        ([HALF, WAITING], 2, Left(15.0, at_least=True)),
        ([FINISHED, HALF], 2, Left(10.0, at_least=False)),  # as long as the trial that is over: 20 s
        ([FINISHED, LAST], 2, Left(8.0, at_least=False)),  # all its rounds are done, but not what comes after them
        ([NINE], 1, None),  # before, 1 s stood for as long as the last attacks took
        ([NINE, HALF], 2, Left(5.0, at_least=True)),
        ([FINISHED, NINE], 2, Left(11.0, at_least=False)),
        ([FINISHED, LATE], 2, None),  # it has taken longer than the trial that is over
        ([FINISHED, LATE, WAITING], 3, Left(21.0, at_least=True)),
        ([SLOW, FINISHED, HALF], 3, Left(10.0, at_least=False)),
        ([SLOW, FINISHED, HALF, BEGUN, WAITING], 5, Left(25.0, at_least=False)),  # 10 + 20 + 20 s by two at a time
        ([SLOW, FINISHED, HALF], 4, Left(30.0, at_least=False)),  # a search has not drawn its fourth trial yet
        ([FINISHED, FINISHED, FAILED], 3, Left(0.0, at_least=False)),
    ],
)
def test_the_time_left(trials, total, expected):
    assert time_left(trials, total) == expected


paces = st.builds(
    Pace,
    rounds=st.integers(5, 9),
    done=st.integers(0, 5),
    seconds=st.one_of(st.none(), st.floats(0, 1e6)),
    running=st.booleans(),
    finished=st.booleans(),
    steady=st.one_of(st.none(), st.floats(0, 1e6)),
)


@given(st.lists(paces, max_size=6), st.integers(0, 9))
def test_whatever_the_trials_it_is_no_negative_number(trials, total):
    found = time_left(trials, total)
    assert found is None or found.seconds >= 0
