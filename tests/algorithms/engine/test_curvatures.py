"""Which examples a client measures its curvature on, when halves are measured, and what comes of
it in a run.
"""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from algorithms.core.messages import BlockResult
from algorithms.core.network import Network
from algorithms.curvature import hessian
from algorithms.curvature.ranking import relative_rank, step_up
from algorithms.engine import block as work
from algorithms.engine import server
from algorithms.engine.round import RoundState, compare_curvatures
from algorithms.interfaces import Outcome, Run
from datasets.federation import Federation
from orchestrator.config.run import resolve
from orchestrator.trial.metric_rows import curvature_metrics, final_metrics
from tests.support.passive import fixed
from tests.support.planted import finished, given, opened, planted

SIZES = [12, 21, 7, 30, 9, 1]
DATA = planted(clients=6, each=SIZES, minority=2)
FINP: dict[str, Any] = {"objective": {"name": "finp"}, "model": {"name": "mlp", "hidden": [4]}}


def trained(run: Run, data: Federation) -> tuple[Network, work.TrainedBlock]:
    """Clients that all have the initial model."""
    network = Network(run.model, data.shape, data.classes, "cpu")
    params = network.initial(np.random.default_rng(0)).params
    n = data.clients
    return network, work.TrainedBlock(
        np.stack([params] * n), np.zeros((n, 0), np.float32), np.zeros(n)
    )


def measured_on(
    monkeypatch, run: Run, data: Federation
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The examples that each call was made on, as sets of inputs: of the wholes, and of the
    halves.
    """
    calls: list[np.ndarray] = []
    plain = hessian.spectrum
    monkeypatch.setattr(
        hessian, "spectrum", lambda network, x, *rest: calls.append(x) or plain(network, x, *rest)
    )
    network, block = trained(run, data)
    clients = list(range(data.clients))
    work.measure_curvatures(run, data, network, clients, block, fixed)
    wholes = calls.copy()
    calls.clear()
    work.measure_curvatures(run, data, network, clients, block, fixed, parts=2)
    return wholes, calls


def rows(x: np.ndarray) -> list[bytes]:
    return sorted(one.tobytes() for one in x)


@pytest.mark.parametrize("examples", [1, 2, 8, 1024])
def test_the_halves_divide_the_examples_of_the_whole(monkeypatch, examples):
    run = resolve(given(1, **FINP, curvature={"examples": examples}))
    wholes, halves = measured_on(monkeypatch, run, DATA)
    expected = [x for x in wholes if len(x) > 1]
    assert len(halves) == 2 * len(expected)
    for whole, first, second in zip(expected, halves[::2], halves[1::2], strict=True):
        assert rows(np.concatenate([first, second])) == rows(whole)
        assert 0 <= len(first) - len(second) <= 1


def test_a_client_with_one_example_has_no_halves():
    run = resolve(given(1, **FINP))
    network, block = trained(run, DATA)
    found = work.measure_curvatures(run, DATA, network, range(6), block, fixed, parts=2)
    assert np.isfinite(found[:5]).all()
    assert np.isnan(found[5]).all()


@pytest.mark.parametrize(
    ("every", "due"), [(0, []), (1, [1, 2, 3, 4, 5, 6, 7]), (3, [3, 6, 7]), (7, [7]), (20, [7])]
)
def test_halves_are_due_every_so_many_rounds_and_in_the_last(every, due):
    run = resolve(given(7, **FINP, curvature={"reliability_every": every}))
    assert [round_ + 1 for round_ in range(7) if server.reliability_due(run, round_)] == due
    assert not any(server.reliability_due(resolve(given(7)), round_) for round_ in range(7))


# In a run


def test_the_halves_change_nothing_that_the_run_depends_on(tmp_path):
    kept = []
    for every in (2, 0):
        run = given(3, **FINP, curvature={"reliability_every": every})
        state = finished(opened(run, tmp_path / str(every), DATA)).state
        kept.append(
            [
                state.models[0].params.tobytes(),
                *(values.tobytes() for values in state.statistics.values()),
            ]
        )
    assert kept[0] == kept[1]


def test_each_cluster_is_compared_by_itself():
    """Rho of two clusters together would correlate because of their different scales."""
    run = resolve(given(1, **FINP, curvature={"reliability_every": 1}))
    rng = np.random.default_rng(0)
    scale = np.repeat([1.0, 1000.0], 8)
    whole, halves = scale * rng.random((2, 16)), scale[:, None, None] * rng.random((16, 2, 2))
    statistics = {"lambda_max": whole[0], "hessian_trace": whole[1]}
    cohort, assignment = np.delete(np.arange(16), 3), np.repeat([0, 1], 8)  # client 3 is away
    state = RoundState([], [], assignment, statistics)
    result = BlockResult(cohort, {}, {}, {}, {}, halves[cohort])
    found = compare_curvatures(run, state, [result])
    for cluster, own in ((0, cohort[:7]), (1, cohort[7:])):
        r = stats.spearmanr(
            *(relative_rank(*halves[own, half].T, run.curvature) for half in (0, 1))
        ).statistic
        assert found[cluster]["rho_halves"] == pytest.approx(r)
        assert found[cluster]["rho_reliability"] == pytest.approx(step_up(r))
        assert found[cluster]["rho_spearman"] == pytest.approx(
            stats.spearmanr(*whole[:, own]).statistic
        )
    assert (
        compare_curvatures(resolve(given(1)), state, [result])
        == compare_curvatures(run, state, [])
        == {}
    )


def test_what_a_run_reports_of_rho(tmp_path):
    """Correlations of each round's clients by another library, halves in the rounds in which
    they are due, and final means.
    """
    given_ = given(5, **FINP, curvature={"reliability_every": 2})
    trial = finished(opened(given_, tmp_path, planted(clients=8, each=20, minority=2)))
    rounds, clients = trial.rows("rounds").to_pylist(), trial.rows("clients")
    top, trace = (
        clients[name].to_numpy().reshape(5, 8) for name in ("lambda_max", "hessian_trace")
    )
    expected = [stats.spearmanr(*both).statistic for both in zip(top, trace, strict=True)]
    assert [row["rho_spearman"] for row in rounds] == pytest.approx(expected)
    due = [row["round"] + 1 for row in rounds if row.get("rho_halves") is not None]
    assert due == [2, 4, 5]
    assert all(
        row["rho_reliability"] == step_up(row["rho_halves"])
        for row in rounds
        if row["round"] + 1 in due
    )
    final = final_metrics(trial.run, Outcome(rounds, [], trial.data.sizes)) | curvature_metrics(
        clients
    )
    halves = np.mean([row["rho_halves"] for row in rounds if row["round"] + 1 in due])
    assert final["rho_spearman"] == pytest.approx(np.mean(expected))
    assert (final["rho_halves"], final["rho_reliability"]) == pytest.approx(
        (halves, step_up(halves))
    )
    assert final["rho_spearman_all"] == pytest.approx(
        stats.spearmanr(top.ravel(), trace.ravel()).statistic
    )
    assert curvature_metrics(clients.select(["client"])) == {}
