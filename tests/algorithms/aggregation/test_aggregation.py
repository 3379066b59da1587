"""The server's half of a round: parts joined, weighed and added in float64, and FedAvg by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.aggregation import fedavg
from algorithms.core import messages
from algorithms.core.layout import Layout
from algorithms.core.messages import ClientUpdates, PartialSum, Weights
from algorithms.engine import server
from orchestrator.config.run import resolve

fast = settings(max_examples=60, deadline=None)


def part(
    clients: list[int], weights: list[float], updates: Any, buffers: Any = None, keep: bool = False
) -> PartialSum:
    """What one block sends, from its clients' updates [clients, d]."""
    rows, weighed = np.asarray(updates, np.float32), np.asarray(weights, np.float64)
    extra = np.zeros((len(rows), 0)) if buffers is None else np.asarray(buffers, np.float64)
    norms, scales = np.linalg.norm(rows, axis=1), np.ones(len(rows))
    kept = (rows, extra.astype(np.float32)) if keep else (None, None)
    return PartialSum(
        np.array(clients), weighed, norms, scales, weighed @ rows, weighed @ extra, *kept
    )


def gather(parts: list[PartialSum], known: Any = None) -> ClientUpdates:
    return messages.gather(parts, Layout((), ()), known or {})


def test_by_hand_the_mean_is_weighted_over_all_blocks():
    """Weights 1, 3 and 4: (1 * 8 + 3 * 0 + 4 * 2) / 8 = 2 and (1 * 0 + 3 * 8 + 4 * -4) / 8 = 1."""
    joined = gather(
        [part([0, 2], [1, 3], [[8, 0], [0, 8]], [[1.0], [5.0]]), part([5], [4], [[2, -4]], [[2.0]])]
    )
    assert joined.mean.tolist() == [2, 1]
    assert joined.buffers.tolist() == [(1 + 15 + 8) / 8]
    assert joined.weights.tolist() == [1 / 8, 3 / 8, 4 / 8]
    assert joined.clients.tolist() == [0, 2, 5]
    assert joined.updates is None
    assert joined.mean.dtype == joined.buffers.dtype == np.float64
    parts = [
        part([i], [1.0], [[float(i)]], keep=True) for i in (3, 1)
    ]  # in this order, with what is known of them
    joined = gather(parts, {"rho": np.array([0.1, 0.2, 0.3, 0.4])})
    assert (joined.clients.tolist(), joined.statistics["rho"].tolist()) == ([3, 1], [0.4, 0.2])
    assert joined.updates is not None and joined.updates.tolist() == [[3], [1]]


def test_sums_are_taken_in_float64():
    """In float32 a thousand times 1e-4 is lost beside 4096."""
    parts = [part([0], [1.0], [[4096.0]])] + [part([i], [1.0], [[1e-4]]) for i in range(1, 1001)]
    expected = (4096 + 1000 * float(np.float32(1e-4))) / 1001
    assert gather(parts).mean[0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [np.nan, 1.0]])
def test_weights_that_sum_to_nothing_are_an_error(weights):
    with pytest.raises(ValueError, match="weights sum to zero"):
        gather([part([0], weights[:1], [[1.0]]), part([1], weights[1:], [[1.0]])])


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
@fast
def test_the_cut_into_blocks_does_not_matter_to_1e_12(clients, size, seed):
    rng = np.random.default_rng(seed)
    updates, weights = (
        rng.normal(size=(clients, 5)).astype(np.float32),
        rng.uniform(0.1, 50, clients),
    )
    blocks = [list(range(at, min(at + size, clients))) for at in range(0, clients, size)]
    joined = gather([part(block, weights[block].tolist(), updates[block]) for block in blocks])
    np.testing.assert_allclose(
        joined.mean, np.average(updates.astype(np.float64), axis=0, weights=weights), atol=1e-12
    )
    np.testing.assert_allclose(joined.weights, weights / weights.sum(), atol=1e-15)


# FedAvg


@pytest.mark.parametrize(("weights", "expected"), [("examples", 5 + 3 / 4), ("uniform", 5 + 1 / 2)])
def test_the_model_moves_by_the_mean_update(weights, expected):
    config = fedavg.Config(weights=weights)
    counted = fedavg.weigh(config, np.array([10, 30])).tolist()
    assert counted == ([10, 30] if weights == "examples" else [1, 1])
    received = gather([part([0, 1], counted, [[0.0], [1.0]])])
    params, state, metrics = fedavg.apply(config, {}, np.array([5.0], np.float32), received)
    assert (params.tolist(), params.dtype) == ([expected], np.float32)
    assert (state, metrics) == ({}, {})


def test_the_update_is_added_before_it_is_rounded():
    """Half a step above 1 rounds down to 1, a hair more than half rounds up; float32 would have
    dropped the hair.
    """
    hair = 2.0**-24 * (1 + 2.0**-26)
    start = np.ones(1, np.float32)
    received = ClientUpdates(np.array([0]), np.ones(1), np.array([hair]), np.zeros(0), None)
    params, _, _ = fedavg.apply(fedavg.Config(), {}, start, received)
    assert params[0] == np.float32(1 + 2.0**-23)


def test_a_step_moves_the_parameters_and_replaces_the_statistics():
    run = resolve({"rounds": 1, "data": "digits", "model": "mlp"})
    model = Weights(np.array([1.0, 2.0], np.float32), np.array([7.0], np.float32))
    state = server.begin(run, model)
    received = gather([part([0, 1], [1.0, 3.0], [[4.0, 0.0], [0.0, 4.0]], [[1.0], [5.0]])])
    after = server.step(run, state, model, received, None)
    assert after.model.params.tolist() == [2.0, 5.0]
    assert after.model.buffers.tolist() == [4.0]
    assert (after.model.params.dtype, after.model.buffers.dtype) == (np.float32, np.float32)
    assert (state, after.state, after.metrics, after.event) == ({}, {}, {}, None)
    assert after.weights.tolist() == [0.25, 0.75]
    assert (model.params.tolist(), model.buffers.tolist()) == ([1.0, 2.0], [7.0])


def test_everybody_some_or_whoever_is_drawn_takes_part():
    rng = np.random.default_rng(0)
    assert server.sample_cohort("all", 1.0, 5, rng).tolist() == [0, 1, 2, 3, 4]
    fixed = [server.sample_cohort("fixed", 0.4, 10, rng) for _ in range(200)]
    assert {len(drawn) for drawn in fixed} == {4}
    assert all((np.diff(drawn) > 0).all() for drawn in fixed)
    np.testing.assert_allclose(
        np.bincount(np.concatenate(fixed), minlength=10) / 200, 0.4, atol=0.12
    )
    assert len(server.sample_cohort("fixed", 0.01, 10, rng)) == 1
    poisson = [len(server.sample_cohort("poisson", 0.3, 10, rng)) for _ in range(500)]
    assert np.mean(poisson) == pytest.approx(3, abs=0.3)
    assert np.var(poisson) == pytest.approx(10 * 0.3 * 0.7, rel=0.3)
    assert min(poisson) == 0


FINP = {"rounds": 1, "data": "digits", "model": "mlp", "objective": "finp"}


def test_a_client_is_ranked_in_its_cluster_and_keeps_its_rho_while_away():
    """In a cluster of three the one that lies apart has 1, the others half of it; cluster 1 is
    on another scale.
    """
    known = {"rho": np.full(7, 0.5), "lambda_max": np.array([1.0, 1, 2, 100, 100, 300, 7])}
    known["hessian_trace"] = known["lambda_max"] * 3
    clusters = np.array([0, 0, 0, 1, 1, 1, 1])
    after = server.rank_clients(
        resolve(FINP), known, np.arange(6), clusters, [np.random.default_rng(0)] * 3
    )
    assert after["rho"].tolist() == [0.5, 0.5, 1, 0.5, 0.5, 1, 0.5]
    assert known["rho"].tolist() == [0.5] * 7
    assert (
        server.rank_clients(resolve(FINP | {"objective": "plain"}), {}, np.arange(2), clusters, [])
        == {}
    )
