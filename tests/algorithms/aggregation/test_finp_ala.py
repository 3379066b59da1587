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
        statistics={} if rho is None else {"rho": np.array(rho)},
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


def test_without_a_penalty_it_is_the_plain_mean_and_measures_nothing():
    assert weights_for(None, rho="with_penalty") == ([0.25] * 4, 0)


def test_model_and_running_statistics_move_by_the_weighted_mean():
    config, sent = finp_ala.Config(), received([0, 0.25, 0.75, 1])
    chosen = reweight(sent, finp_ala.reweigh(config, sent)[0])
    params, state, metrics = finp_ala.apply(config, {}, np.array([10, 20], np.float32), chosen)
    assert params.tolist() == [10 + 0.5 + 0.5, 20 + 0.375 + 0.5]
    assert (params.dtype, state, metrics) == (np.float32, {}, {})
    assert chosen.buffers.tolist() == [0.375 + 0.25]


def run_with(objective, aggregation, **curvature):
    run = {"rounds": 1, "data": "digits", "model": "mlp", "objective": objective, "aggregation": aggregation}
    return check(run | ({"curvature": curvature} if curvature else {}))


def test_one_run_measures_curvature_in_one_way():
    for slots in (
        ("finp", "finp_ala"),
        ("finp", {"name": "finp_ala", "rho": "with_penalty"}),
        ("plain", "finp_ala"),
        ("finp", "fedavg"),
    ):
        run, problems = run_with(*slots, power_steps=7)
        assert not problems and run.curvature.power_steps == 7 and run.measures_curvature


def test_how_curvature_is_measured_is_refused_where_nobody_asks_for_it():
    for slots in (("plain", "fedavg"), ("plain", {"name": "finp_ala", "rho": "with_penalty"})):
        run, problems = run_with(*slots, power_steps=7)
        (sentence,) = map(str, problems)
        assert sentence.startswith("curvature: is read only where a component needs rho")
        assert not run.measures_curvature
