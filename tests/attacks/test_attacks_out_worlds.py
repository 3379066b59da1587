"""How a client stands among the others: by hand, by a slow loop, and where nobody differs from the others."""

from math import erf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attacks.metrics.membership import confidences_of_losses, losses
from attacks.metrics.out_worlds import others, standing


def slow(values, records, worlds, kind):
    """One client and one record at a time, from the formulas of the module's docstring."""
    found = np.empty(records.shape)
    for c in range(len(values)):
        world = [k for k in range(len(values)) if k != c and worlds[k] == worlds[c]]
        if len(world) < 2:
            world = [k for k in range(len(values)) if k != c]
        samples = [[values[k, x] for k in world] for x in records[c]]
        pooled = float(np.mean([np.var(sample, ddof=1) for sample in samples]))
        for r, sample in enumerate(samples):
            n, mean = len(sample), float(np.mean(sample))
            apart, square = values[c, records[c, r]] - mean, sum((one - mean) ** 2 for one in sample)
            if kind == "gaussian":
                found[c, r] = (1 + erf(apart / sqrt(square / n + 1e-8) / sqrt(2))) / 2
            else:
                shape = 2 + (n - 1) / 2
                scale = sqrt((pooled + square / 2) / shape * (1 + 1 / n))
                found[c, r] = stats.t.cdf(apart / scale, 2 * shape)
    return found


@given(
    st.integers(3, 7),
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from(["student", "gaussian"]),
    st.integers(0, 9999),
)
def test_the_slow_loop_finds_the_same(clients, each, models, kind, seed):
    rng = np.random.default_rng(seed)
    values, records = rng.normal(3, 2, (clients, 8)), rng.integers(0, 8, (clients, each))
    worlds = rng.integers(0, models, clients)
    own = np.take_along_axis(values, records, axis=1)
    found = standing(own, others(values, records, worlds), kind)
    np.testing.assert_allclose(found, slow(values, records, worlds, kind), rtol=1e-7, atol=1e-12)


def test_two_others_by_hand():
    """Others measured 1 and 3: mean 2, deviation 1 (ddof 0), so a client at 3 stands at Phi(1), one at 2 in the middle."""
    values = np.array([[3.0, 2.0], [1.0, 1.0], [3.0, 3.0]])
    world = others(values, np.tile(np.arange(2), (3, 1)), np.zeros(3, int))
    assert (
        world.count.tolist() == [2, 2, 2] and world.mean[0].tolist() == [2, 2] and world.squares[0].tolist() == [2, 2]
    )
    np.testing.assert_allclose(standing(values, world, "gaussian")[0], [0.8413447, 0.5], atol=1e-6)
    # Pooled variance 2, a_n = 2.5, b_n = 3, scale^2 = 1.2 * 1.5.
    np.testing.assert_allclose(standing(values, world, "student")[0], [stats.t.cdf(1 / 1.8**0.5, 5), 0.5], atol=1e-12)


def test_one_client_beside_another_has_no_world():
    values = np.array([[1.0], [2.0]])
    for kind in ("student", "gaussian"):
        assert np.isnan(standing(values, others(values, np.zeros((2, 1), int), np.zeros(2, int)), kind)).all()


@pytest.mark.parametrize("clients", [3, 5, 10, 20])
def test_where_nobody_differs_standings_are_uniform(clients):
    """The published normal with ddof 0 calls many more records extreme than are, 20 % instead of 1 with three clients."""
    values = np.random.default_rng(clients).normal(size=(clients, 4000))
    world = others(values, np.tile(np.arange(4000), (clients, 1)), np.zeros(clients, int))
    student, gaussian = (standing(values, world, kind).ravel() for kind in ("student", "gaussian"))
    assert student.mean() == pytest.approx(0.5, abs=1e-3) and gaussian.mean() == pytest.approx(0.5, abs=1e-3)
    assert 0.007 < (student > 0.99).mean() < 0.015
    assert (gaussian > 0.99).mean() > {3: 0.18, 5: 0.07, 10: 0.03, 20: 0.018}[clients]
    assert abs((student > 0.9).mean() - 0.1) < abs((gaussian > 0.9).mean() - 0.1)


def test_a_loss_and_its_confidence_are_the_same_knowledge():
    confidence = np.concatenate([np.linspace(-600, 600, 25), [-1e-9, 1e-9]])
    logits = np.stack([confidence, np.zeros(len(confidence))], axis=1)
    np.testing.assert_allclose(
        confidences_of_losses(losses(logits, np.zeros(len(confidence), int))), confidence, rtol=1e-12, atol=1e-15
    )
    assert np.isfinite(confidences_of_losses(np.array([np.nan, np.inf, 0.0, 1e9]))).all()
