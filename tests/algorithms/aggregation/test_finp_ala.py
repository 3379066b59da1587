"""ALA's weights by hand, what stands in for them, and which curvature a run measures."""

import numpy as np
import pytest

from algorithms.aggregation import finp_ala
from algorithms.core.messages import ClientUpdates, reweight
from tests.support.received import received

UPDATES, SIZES = [[1, 0], [0, 1], [4, 4], [0, 8]], [10, 20, 30, 40]


def informed(rho: list[float] | None) -> ClientUpdates:
    """What as many clients as there are ``rho`` sent."""
    clients = 4 if rho is None else len(rho)
    return received(UPDATES[:clients], SIZES[:clients], **({} if rho is None else {"rho": rho}))


@pytest.mark.parametrize(
    ("rho", "fields", "weights", "fallback"),
    [
        ([0, 0.25, 0.75, 1], {}, [0.5, 0.375, 0.125, 0], 0),  # 1 - rho is 1, 3/4, 1/4, 0
        ([1, 1, 1, 1], {}, [0.1, 0.2, 0.3, 0.4], 1),  # sizes stand in where all stand out
        ([1, 1 - 1e-10, 1, 1], {}, [0.1, 0.2, 0.3, 0.4], 1),
        ([0.2, 0.6], {}, [1 / 3, 2 / 3], 1),  # neither of two can stand out
        ([0], {}, [1], 0),
        (None, {"rho": "with_penalty"}, [0.25] * 4, 0),  # nobody measures it
    ],
)
def test_a_client_counts_by_how_little_it_stands_out(rho, fields, weights, fallback):
    found, metrics = finp_ala.reweigh(finp_ala.Config(**fields), informed(rho))
    assert (found.tolist(), metrics) == (pytest.approx(weights), {"ala_fallback": fallback})


def test_model_and_running_statistics_move_by_the_weighted_mean():
    config, sent = finp_ala.Config(), informed([0, 0.25, 0.75, 1])
    chosen = reweight(sent, finp_ala.reweigh(config, sent)[0])
    params, state, metrics = finp_ala.apply(config, {}, np.array([10, 20], np.float32), chosen)
    assert params.tolist() == [10 + 0.5 + 0.5, 20 + 0.375 + 0.5]
    assert (params.dtype, state, metrics) == (np.float32, {}, {})
    assert chosen.buffers.tolist() == [2 * 0.375 + 4 * 0.125, 0.5 + 3 * 0.375 + 5 * 0.125]
