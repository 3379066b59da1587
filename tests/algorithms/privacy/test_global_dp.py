"""Global differential privacy: clipping and noise by hand, sensitivity by trying, and when an
epsilon is stated.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from algorithms.core import accounting
from algorithms.core.accounting import PrivacyEvent, Spending
from algorithms.interfaces import Outcome
from algorithms.privacy import global_dp, metric_privacy
from algorithms.privacy.global_dp import Config
from tests.support.noise_runs import (
    REPRODUCIBLE,
    SECRET,
    is_standard_deviation,
    normals,
    received,
    run,
    updates,
)

START = np.zeros(12, np.float32)


def noise_of(config: Config, got, size: int = 40_000, seed: int = 0) -> tuple[np.ndarray, dict]:
    """The noise alone, on a model of ``size`` zeros."""
    return global_dp.release(config, np.zeros(size, np.float32), got, normals(size, seed))


def test_updates_are_scaled_to_the_clip_and_short_ones_are_left_alone():
    norms = np.array([0.0, 1.0, 5.0, 10.0, 1e30])
    assert global_dp.bound(Config(clip=5.0), norms).tolist() == [1, 1, 1, 0.5, 5e-30]


@pytest.mark.parametrize(
    "component", [global_dp, metric_privacy], ids=["global_dp", "metric_privacy"]
)
def test_an_update_that_is_not_finite_counts_as_zero(component):
    assert component.bound(component.Config(), np.array([np.nan, np.inf, 10.0])).tolist() == [
        0,
        0,
        0.5,
    ]


def test_noise_has_the_standard_deviation_of_the_paper_for_equal_weights():
    """z C / n = 0.01 * 5 / 4 = 0.0125 (four clients of the paper's tables), under either
    sensitivity.
    """
    for sensitivity in ("weights", "uniform"):
        config = Config(sensitivity=sensitivity)
        noise, metrics = noise_of(config, received(global_dp, config, updates(4)))
        assert metrics["noise_std"] == pytest.approx(0.0125)
        assert noise.dtype == np.float32
        assert is_standard_deviation(noise, 0.0125)
        assert not is_standard_deviation(noise, 0.0125 * 1.03)
        assert stats.kstest(noise / 0.0125, "norm").pvalue > 1e-4


def test_with_examples_as_weights_the_largest_client_is_the_sensitivity():
    """The paper's four clients by quantity: 35, 15, 40 and 10 percent of the examples."""
    sds = {}
    for sensitivity in ("weights", "uniform"):
        config = Config(noise_multiplier=1.0, sensitivity=sensitivity)
        got = received(global_dp, config, updates(4), np.array([1792, 768, 2048, 512]))
        sds[sensitivity] = noise_of(config, got, 12)[1]["noise_std"]
    assert sds == pytest.approx({"weights": 0.4 * 5, "uniform": 5 / 4})


def test_what_a_round_reports_by_hand():
    """Two clients that moved by 3 and by 8 along the same axis, C = 4: the mean moves by 3.5."""
    moves = np.zeros((2, 12), np.float32)
    moves[:, 0] = 3, 8
    config = Config(clip=4.0, noise_multiplier=0.5)
    _, metrics = global_dp.release(config, START, received(global_dp, config, moves), normals())
    assert metrics == pytest.approx(
        {
            "noise_std": 1.0,
            "clip_fraction": 0.5,
            "updates_dropped": 0,
            "update_norm": 5.5,
            "update_norm_max": 8.0,
            "noise_to_update": math.sqrt(12) / 3.5,
        }
    )
    _, metrics = noise_of(config, received(global_dp, config, np.zeros((3, 12), np.float32)), 12)
    assert math.isnan(metrics["noise_to_update"])


@given(
    seed=st.integers(0, 10_000),
    clients=st.integers(2, 6),
    clip=st.floats(0.1, 10),
    equal=st.booleans(),
)
def test_no_client_moves_the_clipped_mean_further_than_accounted_for(seed, clients, clip, equal):
    config, sent = Config(clip=clip), updates(clients, seed)
    examples = np.ones(clients) if equal else np.random.default_rng(seed).integers(1, 100, clients)
    mean = lambda rows: received(global_dp, config, rows, examples).mean  # noqa: E731
    one_client = clip * examples.max() / examples.sum()
    for i in range(clients):
        silent, other = sent.copy(), sent.copy()
        silent[i], other[i] = 0, -7 * sent[i]
        assert np.linalg.norm(mean(sent) - mean(silent)) <= one_client * (1 + 1e-6)
        assert np.linalg.norm(mean(sent) - mean(other)) <= 2 * one_client * (1 + 1e-6)


# The account


def account(*events: tuple[int, PrivacyEvent]) -> Outcome:
    """The outcome of a run of which only the account is known: pairs of a model and an event."""
    return Outcome(
        [], [Spending(0, cluster, 0, event) for cluster, event in events], np.ones(1, np.int64)
    )


def spent(config: Config, where, clients: int = 10, examples=None) -> tuple[PrivacyEvent, dict]:
    """An event of the run, and what three such rounds come to."""
    config = global_dp.resolve(config, where)
    assert global_dp.problems(config, where) == []
    one = global_dp.event(config, received(global_dp, config, updates(clients), examples), where)
    return one, global_dp.final_metrics(config, where, account(*[(0, one)] * where.rounds))


def test_all_clients_with_equal_weights_spend_z_whoever_the_neighbors_are():
    for neighboring, z in (("add_or_remove_one", 2.0), ("replace_one", 1.0)):
        one, told = spent(Config(noise_multiplier=2.0, neighboring=neighboring), run())
        assert one == PrivacyEvent(pytest.approx(z), "all", 1.0, 10)
        assert told["guarantee"] == "dp" + REPRODUCIBLE
        assert told["epsilon"] == pytest.approx(accounting.epsilon([one] * 3, 1e-5, neighboring))
        assert told["epsilon"] == pytest.approx(
            accounting.epsilon([replace(one, noise_multiplier=z / 3**0.5)], 1e-5, "replace_one")
        )


def test_noise_that_is_too_small_for_the_weights_is_accounted_for_as_such():
    """One client of ten has 91 of 100 examples; C/n is a ninth of what it moves."""
    one, _ = spent(
        Config(noise_multiplier=1.0, sensitivity="uniform"),
        run(),
        examples=np.array([91] + [1] * 9),
    )
    assert one.noise_multiplier == pytest.approx(0.1 / 0.91)


def test_a_poisson_round_is_divided_by_the_expected_number_of_clients():
    where = run(participation="poisson", participation_rate=0.4)
    config = global_dp.resolve(Config(noise_multiplier=1e-9, clip=100.0), where)
    assert config.divisor == 4.0
    for came in (1, 3, 7):
        sent = updates(came)
        got = received(global_dp, config, sent)
        moved = (START + got.mean).astype(np.float32)
        released, metrics = global_dp.release(config, moved, got, normals())
        assert released == pytest.approx(sent.sum(axis=0) / 4, abs=1e-5)
        assert metrics["noise_std"] == pytest.approx(1e-9 * 100 / 4)
        moved_by = np.linalg.norm(sent.sum(axis=0) / 4)
        assert metrics["noise_to_update"] == pytest.approx(2.5e-8 * math.sqrt(12) / moved_by)
        assert global_dp.event(config, got, where) == PrivacyEvent(
            pytest.approx(1e-9), "poisson", 0.4, came
        )


def test_a_poisson_account_holds_only_where_empty_rounds_are_noisy_too():
    where = run(participation="poisson", participation_rate=0.4)
    one, told = spent(Config(noise_multiplier=1.0), where, clients=0)
    assert told["guarantee"] == "dp" + REPRODUCIBLE and told[
        "epsilon"
    ] == accounting.dp_sgd_epsilon(1.0, 0.4, 3, 1e-5)
    config = global_dp.resolve(Config(noise_multiplier=1.0), where)
    told = global_dp.final_metrics(config, where, account((0, one), (0, one)))
    assert told["epsilon"] is None and "no client took part" in told["guarantee"]


def test_a_divisor_is_refused_where_nothing_is_divided_by_it():
    config = Config(divisor=4.0, neighboring="add_or_remove_one")
    poisson = {"participation": "poisson", "participation_rate": 0.4}
    assert global_dp.problems(config, run(**poisson)) == []
    for other in (
        {},
        poisson | {"aggregation__name": "fedmedian"},
        poisson | {"aggregation__config__weights": "examples"},
    ):
        ((field, sentence),) = global_dp.problems(config, run(**other))
        assert field == "divisor" and "got 4" in sentence


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ({"aggregation__name": "fedmedian"}, "fedmedian"),
        ({"aggregation__name": "fedyogi"}, "fedyogi"),
        ({"aggregation__name": "finp_pca"}, "finp_pca"),
        ({"model__module__BATCH_NORM": True}, "batch normalization"),
        ({"measures_curvature": True}, "curvature"),
        (
            {
                "participation": "fixed",
                "participation_rate": 0.5,
                "aggregation__config__weights": "examples",
            },
            "uniform",
        ),
        (
            {
                "participation": "poisson",
                "participation_rate": 0.5,
                "aggregation__config__weights": "examples",
            },
            "uniform",
        ),
        ({"privacy": {"noise_divisor": 2.29}}, "noise_divisor comes from"),
        ({"privacy": {"noise_multiplier": 0.0}}, "noise is added"),
        ({"privacy": {"noise_multiplier": 1e-12}}, "noise is added"),
        ({"clustering__config__clusters": 2}, "choose models by losses"),
        ({"clustering__config__restarts": 3}, "initializations are compared"),
    ],
)
def test_no_epsilon_is_stated_where_none_holds_and_the_reason_is(other, word):
    other = dict(other)
    fields = {"noise_multiplier": 1.0} | other.pop("privacy", {})
    _, told = spent(Config(**fields), run(**other), clients=5)
    assert told["epsilon"] is None
    assert told["guarantee"].startswith("none: ") and word in told["guarantee"]


@pytest.mark.parametrize(
    ("participation", "rate", "clients"), [("all", 1.0, 10), ("poisson", 0.4, 7), ("fixed", 0.3, 3)]
)
def test_what_a_trial_with_secret_noise_leaves_gives_its_epsilon(participation, rate, clients):
    """The files of a run with reproducible noise protect nobody, and leave no account."""
    where = run(participation=participation, participation_rate=rate, data__config__clients=10)
    _, told = spent(Config(noise_multiplier=1.0, noise="secret"), where, clients)
    assert told["guarantee"] == "dp" + SECRET
    ledger = json.loads(told["guarantee_events"])
    events = [PrivacyEvent(*event) for count, *event in ledger["events"] for _ in range(count)]
    assert accounting.epsilon(events, 1e-5, ledger["neighboring"]) == told["epsilon"] > 0
    _, reproducible = spent(Config(noise_multiplier=1.0), where, clients)
    assert (
        reproducible["guarantee"] == "dp" + REPRODUCIBLE and "guarantee_events" not in reproducible
    )


def test_each_model_of_several_has_the_epsilon_of_those_who_stay():
    where = run(clustering__config__clusters=2)
    config = global_dp.resolve(Config(noise_multiplier=1.0), where)
    one = global_dp.event(config, received(global_dp, config, updates(5)), where)
    told = global_dp.final_metrics(config, where, account(*[(0, one)] * 3, *[(1, one)] * 2))
    assert told["epsilon"] is None
    for name in ("guarantee", "guarantee_cluster_0", "guarantee_cluster_1"):
        assert "choose models by losses" in told[name]
    for j, rounds in ((0, 3), (1, 2)):
        assert told[f"epsilon_cluster_{j}"] == accounting.epsilon(
            [one] * rounds, 1e-5, "add_or_remove_one"
        )
