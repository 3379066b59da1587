"""How well rho is measured: closed forms, another library, and clients with planted curvatures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from algorithms.core.configs import CurvatureConfig
from algorithms.curvature.ranking import (
    agreement,
    over_rounds,
    rank_agreement,
    relative_rank,
    step_up,
)

CONFIG = CurvatureConfig()
curvatures = st.lists(
    st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)),
    min_size=3,
    max_size=12,
    unique_by=lambda pair: pair[0],
)


def planted(clients: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Curvatures [measurement, client, 2] of unit spread: two wholes, and the two halves of the
    first.

    An error of variance ``noise`` ** 2 is in each whole, of twice that in each half; the first
    whole is the mean of its halves.
    """
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(clients, 2))
    halves = truth + math.sqrt(2) * noise * rng.normal(size=(2, clients, 2))
    return np.stack([halves.mean(axis=0), truth + noise * rng.normal(size=(clients, 2))]), halves


def rho(measured: np.ndarray) -> np.ndarray:
    return relative_rank(measured[:, 0], measured[:, 1], CONFIG)


def found_in(halves: np.ndarray, **fields) -> dict[str, float]:
    """The agreement for ``halves`` [halves, clients, 2], and the curvatures that are their mean."""
    whole = halves.mean(axis=0)
    return agreement(whole[:, 0], whole[:, 1], halves.swapaxes(0, 1), CurvatureConfig(**fields))


# The step from a half to the whole


@pytest.mark.parametrize("noise", [0.2, 0.5, 1.0, 2.0])
def test_stepping_up_is_exact_for_averages(noise):
    """Errors in the halves have variance 2 s^2 beside a true variance of 1, errors in the whole
    s^2.
    """
    halves, whole = 1 / (1 + 2 * noise**2), 1 / (1 + noise**2)
    assert step_up(halves) == pytest.approx(whole)


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.6, 1.0])
def test_the_reliability_is_the_correlation_with_as_many_other_examples(noise):
    """What it stands for is measured directly here, with a second set of examples that a run
    does not have.

    The rank by sharpness follows the eigenvalue; the distance of eq. 1 forgets on which side of the
    others a client is.
    """
    wholes, halves = planted(1500, noise, seed=1)
    found = found_in(halves, rho_mode="signed")
    assert found["rho_reliability"] == pytest.approx(
        stats.spearmanr(*wholes[:, :, 0]).statistic, abs=0.04
    )
    found = found_in(halves)
    assert found["rho_halves"] == pytest.approx(stats.spearmanr(*map(rho, halves)).statistic)
    assert found["rho_reliability"] == step_up(found["rho_halves"]) > found["rho_halves"]
    directly = stats.spearmanr(*map(rho, wholes)).statistic
    assert directly - 0.15 < found["rho_reliability"] < directly + 0.03, (
        "too low rather than too high"
    )
    assert found["rho_spearman"] == pytest.approx(stats.spearmanr(*wholes[0].T).statistic)


# What is undefined


def test_fewer_than_three_clients_or_equal_ones_have_no_correlation():
    two = np.array([1.0, 2.0])
    assert math.isnan(rank_agreement(two, two))
    assert agreement(two, two, np.zeros((2, 2, 2)), CONFIG) == {}
    same = np.ones(5)
    assert agreement(same, np.arange(5.0), np.ones((5, 2, 2)), CONFIG) == {}
    assert agreement(np.arange(5.0), np.arange(5.0), None, CONFIG) == {"rho_spearman": 1}


def test_a_client_without_a_half_is_not_compared():
    """It would be the most distant one in both halves, which says nothing of how well rho is
    measured.
    """
    _, halves = planted(30, 0.5, seed=2)
    lost = np.concatenate([halves, np.full((2, 1, 2), np.nan)], axis=1)
    lost[0, -1] = 50.0  # one half is there
    assert found_in(lost)["rho_halves"] == found_in(halves)["rho_halves"]
    assert found_in(lost)["rho_spearman"] == found_in(halves)["rho_spearman"]


# Over the rounds


def test_the_reliability_of_a_run_is_stepped_up_from_the_mean_of_its_rounds():
    rows = [
        {
            "rho_spearman": 0.2,
            "rho_halves": 0.0,
            "rho_reliability": 0.0,
            "rho_halves_majority": 0.5,
        },
        {"rho_spearman": 0.6},  # not due
        {"rho_spearman": None, "rho_halves": None},
        {"rho_spearman": float("nan"), "rho_halves": 0.5, "rho_reliability": 2 / 3},
    ]
    expected = {"rho_spearman": 0.4, "rho_halves": 0.25, "rho_reliability": 0.4}
    expected |= {"rho_halves_majority": 0.5, "rho_reliability_majority": 2 / 3}
    assert over_rounds(rows) == pytest.approx(expected)
    assert over_rounds([{"accuracy": 1.0}]) == {}


def test_curvatures_that_only_change_together_over_the_rounds_agree_over_everything_and_not_within_a_round():
    """Why the paper's "about 1", over clients and rounds, says nothing of the clients that rho
    compares.
    """
    rng = np.random.default_rng(0)
    trend = np.arange(20.0)[:, None]
    lambda_, trace = (
        trend + 0.5 * rng.normal(size=(20, 10)),
        trend + 0.5 * rng.normal(size=(20, 10)),
    )
    together = rank_agreement(lambda_.ravel(), trace.ravel())
    assert together == pytest.approx(stats.spearmanr(lambda_.ravel(), trace.ravel()).statistic)
    assert together > 0.95
    rows = [agreement(*both, None, CONFIG) for both in zip(lambda_, trace, strict=True)]
    assert abs(over_rounds(rows)["rho_spearman"]) < 0.2
    assert math.isnan(rank_agreement(np.ones(4), np.ones(4)))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=15))
def test_rank_correlation_is_scipys_also_with_ties(pairs):
    a, b = np.array(pairs, float).T
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert np.isnan(rank_agreement(a, b))
    else:
        assert rank_agreement(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
