"""Streams of random numbers: each a function of its name, and none like another."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.trial.random_streams import PURPOSES, integer, sequence, stream

places = st.lists(st.integers(0, 10_000), max_size=3)
purposes = st.sampled_from(sorted(PURPOSES))


def words(seed: int, purpose: str, *place: int) -> tuple[int, ...]:
    return tuple(sequence(seed, purpose, *place).generate_state(4).tolist())


@given(st.integers(0, 2**63), purposes, places)
def test_a_stream_is_a_function_of_its_name_and_an_integer_of_it_a_seed(seed, purpose, place):
    first, again = stream(seed, purpose, *place), stream(seed, purpose, *place)
    assert first.random(5).tolist() == again.random(5).tolist()
    value = integer(seed, purpose, *place)
    assert type(value) is int and 0 <= value < 2**63 and value == integer(seed, purpose, *place)


def test_no_two_seeds_purposes_rounds_or_clients_share_a_stream():
    halves = [(k, *range(start, end)) for k in range(3) for end in range(1, 9) for start in range(end)]
    for names in (
        [*product(range(4), PURPOSES, range(12), range(12))],
        [*product(range(40), PURPOSES)],
        [(0, "shadow_halves", *half) for half in halves],
    ):
        assert len({words(*name) for name in names}) == len(names)


def test_streams_are_uncorrelated_and_integers_fill_their_range():
    drawn = np.array([stream(0, "batches", 3, client).random(2000) for client in range(10)])
    correlations = np.corrcoef(drawn) - np.eye(10)
    assert abs(correlations).max() < 0.1
    assert abs(drawn.mean() - 0.5) < 0.01
    values = [integer(0, "shadow_training", k) / 2**63 for k in range(400)]
    assert len(set(values)) == 400 and min(values) < 0.02 and max(values) > 0.98


def test_purposes_keep_their_numbers():
    """Results that were published depend on these; a new purpose goes to the end."""
    first = (
        "partition", "groups", "strengths", "test_owners", "test_strengths", "initial_weights", "preferences", "warm_start",
        "selection", "batches", "shadow_halves", "shadow_strengths", "shadow_training", "audit", "noise",
    )  # fmt: skip
    assert [PURPOSES[name] for name in first] == list(range(len(first)))
    assert len(set(PURPOSES.values())) == len(PURPOSES)


def test_a_stream_gives_the_numbers_that_it_gave_when_this_was_written():
    assert stream(0, "batches", 1, 2).integers(0, 1000, 5).tolist() == [658, 743, 747, 519, 77]
    assert integer(7, "shadow_training", 0, 3) == 574939214632697533
