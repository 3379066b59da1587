"""How long a sweep still takes: worked out by hand for sweeps at several moments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tracking.remaining import Pace, remaining_seconds

WAITING = Pace(10, 0, None, running=False, finished=False)
FINISHED = Pace(10, 10, 20.0, running=False, finished=True, steady=2.0)
FIRST = Pace(10, 10, 60.0, running=False, finished=True, steady=2.0)  # 40 s of it until its processes were loaded
HALF = Pace(10, 5, 50.0, running=True, finished=False, steady=3.0)
BEGUN = Pace(10, 0, 1.0, running=True, finished=False)
ONE_ROUND = Pace(10, 1, 30.0, running=True, finished=False)
FAILED = Pace(10, 2, 100.0, running=False, finished=False, steady=50.0)


@pytest.mark.parametrize(
    ("trials", "total", "seconds"),
    [
        ([WAITING, BEGUN], 2, None),
        ([WAITING, ONE_ROUND], 2, None),  # its first round says how long packages take to load
        ([FAILED, BEGUN], 2, None),  # how long a failed trial took tells nothing
        ([HALF], 1, 15.0),  # 3 s a round
        ([HALF, BEGUN], 2, 30.0),  # they run at the same time, so the longer one counts
        ([HALF, WAITING], 2, 45.0),
        ([FIRST, WAITING], 2, 20.0),  # 2 s a round, not 6
        ([FIRST, FINISHED, HALF], 3, 10.0),  # 2 s a round, as in most trials that are over
        ([FIRST, FINISHED, HALF, BEGUN, WAITING], 5, 25.0),  # 10 + 20 + 20 s of work by two at a time
        ([FIRST, FINISHED, HALF], 4, 30.0),  # a search has not drawn its fourth trial yet
        ([FINISHED, FINISHED, FAILED], 3, 0.0),
    ],
)
def test_the_time_left(trials, total, seconds):
    assert remaining_seconds(trials, total) == seconds


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
    found = remaining_seconds(trials, total)
    assert found is None or found >= 0
