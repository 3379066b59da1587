"""Streams of random numbers: each a function of its name, and none like another."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.trial.random_streams import PURPOSES, integer, sequence, stream

places = st.lists(st.integers(0, 10_000), max_size=3)
purposes = st.sampled_from(sorted(PURPOSES))


def words(seed: int, purpose: str, *place: int) -> tuple[int, ...]:
    return tuple(sequence(seed, purpose, *place).generate_state(4).tolist())


@given(st.integers(0, 2**63), purposes, places)
def test_a_stream_is_a_function_of_its_name(seed, purpose, place):
    first, again = stream(seed, purpose, *place), stream(seed, purpose, *place)
    assert first.random(5).tolist() == again.random(5).tolist()
    assert integer(seed, purpose, *place) == integer(seed, purpose, *place)


def test_drawing_from_one_stream_does_not_move_another():
    untouched = stream(0, "batches", 1, 2).random(3).tolist()
    stream(0, "batches", 1, 1).random(1000)
    stream(0, "selection", 1, 2).random(1000)
    assert stream(0, "batches", 1, 2).random(3).tolist() == untouched


def test_no_two_seeds_purposes_rounds_or_clients_share_a_stream():
    names = list(product(range(4), PURPOSES, range(12), range(12)))
    assert len({words(*name) for name in names}) == len(names)
    few = list(product(range(40), PURPOSES))
    assert len({words(*name) for name in few}) == len(few)
    lists = [
        (0, "shadow_halves", k, *range(start, end)) for k in range(3) for end in range(1, 9) for start in range(end)
    ]
    assert len({words(*name) for name in lists}) == len(lists)


def test_streams_are_uncorrelated():
    drawn = np.array([stream(0, "batches", 3, client).random(2000) for client in range(10)])
    correlations = np.corrcoef(drawn) - np.eye(10)
    assert abs(correlations).max() < 0.1
    assert abs(drawn.mean() - 0.5) < 0.01


@given(st.integers(0, 2**40), purposes, places)
def test_an_integer_is_a_seed_that_everything_takes(seed, purpose, place):
    value = integer(seed, purpose, *place)
    assert type(value) is int
    assert 0 <= value < 2**63


def test_integers_fill_their_range():
    values = [integer(0, "shadow_training", k) / 2**63 for k in range(400)]
    assert len(set(values)) == 400
    assert min(values) < 0.02 and max(values) > 0.98


def test_an_unnamed_purpose_is_an_error():
    with pytest.raises(KeyError):
        stream(0, "whatever")


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
