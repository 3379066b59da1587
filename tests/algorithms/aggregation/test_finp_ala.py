"""ALA's weights by hand, what stands in for them, and which curvature a run measures."""

import numpy as np
import pytest

from algorithms.aggregation import finp_ala
from algorithms.core.messages import ClientUpdates, reweight
from orchestrator.config.run import check

UPDATES = np.array([[1, 0], [0, 1], [4, 4], [0, 8]], np.float32)
SIZES = np.array([10, 20, 30, 40])


def received(rho: list[float] | None) -> ClientUpdates:
    """What as many clients as there are ``rho`` sent of a model of two weights and one running mean."""
    clients = 4 if rho is None else len(rho)
    weights, updates = SIZES[:clients] / SIZES[:clients].sum(), UPDATES[:clients]
    return ClientUpdates(
        clients=np.arange(clients),
        weights=weights,
        mean=weights @ updates,
        buffers=np.zeros(1),
        updates=updates,
        own_buffers=np.arange(clients, dtype=np.float32)[:, None],
        scales=np.ones(clients),
        known={} if rho is None else {"rho": np.array(rho)},
    )


def weights_for(known: list[float] | None, **fields) -> tuple[list[float], float]:
    weights, metrics = finp_ala.reweigh(finp_ala.Config(**fields), received(known))
    return weights.tolist(), metrics["ala_fallback"]


def test_a_client_counts_by_how_little_it_stands_out():
    """1 - rho is 1, 3/4, 1/4, 0: half, three eighths, one eighth, nothing."""
    assert weights_for([0, 0.25, 0.75, 1]) == ([0.5, 0.375, 0.125, 0], 0)


def test_sizes_stand_in_where_all_stand_out():
    assert weights_for([1, 1, 1, 1]) == ([0.1, 0.2, 0.3, 0.4], 1)
    assert weights_for([1, 1 - 1e-10, 1, 1])[1] == 1


def test_sizes_stand_in_for_two_clients_who_cannot_stand_out():
    assert weights_for([0.2, 0.6]) == (pytest.approx([1 / 3, 2 / 3]), 1)


def test_a_single_client_is_all_there_is():
    assert weights_for([0]) == ([1], 0)


def test_without_a_penalty_it_is_the_plain_mean_and_asks_for_no_measurement():
    assert weights_for(None, rho="with_penalty") == ([0.25] * 4, 0)


def test_the_model_moves_by_the_weighted_mean_of_updates_and_its_statistics_do_too():
    config, sent = finp_ala.Config(), received([0, 0.25, 0.75, 1])
    chosen = reweight(sent, finp_ala.reweigh(config, sent)[0])
    params, state, metrics = finp_ala.apply(config, {}, np.array([10, 20], np.float32), chosen)
    assert params.tolist() == [10 + 0.5 + 0.5, 20 + 0.375 + 0.5]
    assert (params.dtype, state, metrics) == (np.float32, {}, {})
    assert chosen.buffers.tolist() == [0.375 + 0.25]


def problems(objective, aggregation) -> list[str]:
    run = {"rounds": 1, "data": "digits", "model": "mlp", "objective": objective, "aggregation": aggregation}
    return [str(problem) for problem in check(run)[1]]


def test_one_run_measures_curvature_in_one_way():
    penalty = {"name": "finp", "power_steps": 7}
    (found,) = problems(penalty, "finp_ala")
    assert "power_steps" in found and "7" in found
    assert not problems(penalty, {"name": "finp_ala", "power_steps": 7})
    assert not problems(penalty, {"name": "finp_ala", "rho": "with_penalty"})
    assert not problems("plain", {"name": "finp_ala", "power_steps": 7})
    assert not problems(penalty, "fedavg")
