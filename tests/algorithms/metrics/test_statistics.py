"""Means, intervals, paired tests and printed bounds, against simulations, slow versions and
numbers worked out by hand.
"""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from algorithms.core.columns import parts
from algorithms.core.metric import Metric
from algorithms.metrics.statistics import (
    SIGNIFICANT,
    claims,
    estimate,
    holm,
    least_significant,
    limits,
    number,
    paired_test,
)
from orchestrator.config.metric_names import metric
from orchestrator.report.data import Setting


def test_three_values_have_students_interval_and_fewer_are_shown_themselves() -> None:
    # s = 0.1 and t(0.975, 2) = 4.302653, so half = 4.302653 * 0.1 / sqrt(3) = 0.2484138
    three, two, none = estimate([0.7, 0.8, 0.9]), estimate([0.81, 0.84]), estimate([])
    assert (three.low, three.high) == pytest.approx((0.5515862, 1.0484138), abs=1e-7)
    assert (two.cell(2), none.cell(3), none.text(3)) == (("0.81, 0.84", ""), ("", ""), "")
    assert all(map(math.isnan, (two.half, two.low, two.high, none.mean, none.half)))
    assert estimate([2.0, 2.0, 2.0]).half == 0 and estimate([-0.0001]).text(3) == "0.000"
    endless = estimate([math.inf, 1.0, 2.0])  # an epsilon without noise
    assert endless.mean == math.inf and math.isnan(endless.half)


def test_an_interval_ends_where_values_end() -> None:
    high = estimate([0.7, 0.8, 0.9], (0, 1))  # 0.8 ± 0.248
    assert high.cell(3) == ("0.800", "(0.552 to 1.000)")
    assert estimate([0.7, 0.8, 1.9], (0, 1)).high > 1, "such a metric is no rate after all"
    for name in (
        "epsilon_audit",
        "sia_cov",
        "whitebox_cov",
        "validation_loss",
        "distance",
        "seconds_per_round",
    ):
        assert limits(metric(name)) == (0, math.inf)
    for name in (
        "accuracy",
        "sia_fi",
        "fedmia_fi",
        "eod",
        "calibrated_fpr_set_to_1_fpr",
        "calibrated_auc_low",
    ):
        assert limits(metric(name)) == (0, 1)
    assert limits(metric("rho_spearman")) == limits(metric("rho_reliability")) == (-1, 1)
    for name in ("risk_gap", "cia_difference", "equalized_odds_signed", "unheard_of"):
        assert limits(metric(name)) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    "name", ["loss_change", "update_norm_gain", "sia_fi_shift", "rho_own", "accuracy_delta", "step"]
)
def test_no_name_and_no_unit_says_where_an_interval_ends(name: str) -> None:
    """An own ``loss_change`` of 0.10, 0.05, 0.00 was printed as 0.05 (0.00 to 0.17); 4.3027 *
    0.05 / sqrt(3) = 0.1242.
    """
    for unit in ("", "fraction", "nats", "clients", "seconds"):
        own = Metric(name, "Own", "own", unit=unit)
        assert estimate([0.10, 0.05, 0.00], limits(own)).cell(2) == ("0.05", "± 0.12")
    declared = Metric(name, "Own", "own", limits=(0.0, None), chance="its_null")
    assert estimate([0.10, 0.05, 0.00], limits(declared)).cell(2) == ("0.05", "(0.00 to 0.17)")
    assert [part.limits for part in parts(declared)] == [(0.0, None)]


def test_claims_have_a_largest_value_and_no_interval() -> None:
    made = claims([18.76, 18.76, 22.51])
    assert made.cell(2) == (made.text(2), "") == ("18.76 to 22.51", "")
    assert all(map(math.isnan, (made.half, made.low, made.high)))
    assert [claims([value]).cell(1)[0] for value in (3.035, 0.926)] == ["3.1", "0.93"]
    assert claims([2.0, 2.0]).cell(2)[0] == "2.00" and claims([]).cell(2) == ("", "")


@given(st.floats(0, 1e12), st.integers(0, 6))
def test_a_printed_bound_is_a_bound(value: float, digits: int) -> None:
    """Decimally: an epsilon of 0.3 is printed as 0.3, although its binary value is a little
    less.
    """
    upper, lower = number(value, digits, "upper"), number(value, digits, "lower")
    assert Decimal(lower) <= Decimal(repr(value)) <= Decimal(upper)
    assert Decimal(upper) - Decimal(repr(value)) < Decimal(10) ** -digits
    assert value == 0 or float(upper) <= 1.1 * value + 1e-320, "an upper bound keeps two digits"


def test_bounds_are_declared_where_they_are_measured() -> None:
    bounds = {
        "epsilon_cluster_1": "upper",
        "epsilon_example": "upper",
        "delta": "upper",
        "epsilon_audit": None,
    }
    bounds |= {"epsilon_audit_certified_cluster_0": "lower", "cia_epsilon_certified": "lower"}
    assert {name: metric(name).bound for name in bounds} == bounds
    trials = tuple(
        {"id": s, "status": "finished", "seed": s, "epsilon_audit_certified": 0.559} for s in "ab"
    )
    assert Setting((), trials).estimate("epsilon_audit_certified").cell(1) == ("0.5, 0.5", "")


# Pairs

EXPERIMENTS, DEALS = 2000, 5


def experiments(effect: float) -> tuple[np.ndarray, np.ndarray]:
    """Two methods on the same partitions [experiments, partitions], which differ six times as
    much as the methods.
    """
    rng = np.random.default_rng(11)
    partition = rng.normal(0.6, 0.085, (EXPERIMENTS, DEALS))
    return partition + rng.normal(0, 0.014, partition.shape) + effect, partition + rng.normal(
        0, 0.014, partition.shape
    )


def test_the_paired_interval_covers_the_difference_and_the_unpaired_one_is_much_wider() -> None:
    method, baseline = experiments(-0.03)
    found = [estimate(list(row)) for row in method - baseline]
    covered = np.mean([one.low <= -0.03 <= one.high for one in found])
    assert 0.93 < covered < 0.97
    alone = [
        (estimate(list(a)).half, estimate(list(b)).half)
        for a, b in zip(method, baseline, strict=True)
    ]
    unpaired = np.mean([math.hypot(a, b) for a, b in alone])
    assert unpaired > 4 * np.mean([one.half for one in found])


def test_the_paired_test_rejects_one_true_hypothesis_in_twenty_and_agrees_with_the_interval() -> (
    None
):
    method, baseline = experiments(0.0)
    found = [(estimate(list(row)), paired_test(list(row))) for row in method - baseline]
    assert 0.03 < np.mean([p < 0.05 for _, p in found]) < 0.07
    assert all((p < 0.05) == (not one.low <= 0 <= one.high) for one, p in found)
    expected = stats.ttest_rel(method[:50], baseline[:50], axis=1).pvalue
    assert [p for _, p in found[:50]] == pytest.approx(list(expected))


def test_few_or_equal_differences() -> None:
    for few in ([], [0.1], [0.1, 0.2]):
        one, p = estimate(few), paired_test(few)
        assert (math.isnan(p), math.isnan(one.half), one.values) == (True, True, tuple(few))
    assert paired_test([0.0, 0.0, 0.0]) == paired_test([0.1 + 0.2 - 0.3, 0.0, 0.0]) == 1
    assert estimate([0.8, 0.8, 0.8]).half == 0
    assert paired_test([2.0, 2.0, 2.0, 2.0]) == 0.125, "of 16 choices of signs, two are as extreme"
    assert math.isnan(paired_test([1.0, math.inf, 2.0]))


@pytest.mark.parametrize("pairs", [3, 5, 12])
@pytest.mark.parametrize("tests", [1, 2, 33])
def test_a_difference_is_significant_from_so_many_standard_deviations_on(
    pairs: int, tests: int
) -> None:
    shape = np.random.default_rng(pairs).standard_normal(pairs)
    shape = (shape - shape.mean()) / shape.std(ddof=1)
    for times, rejected in ((1.001, True), (0.999, False)):
        p = paired_test(list(shape + times * least_significant(pairs, tests)))
        assert (holm([p, *[1.0] * (tests - 1)])[0] < SIGNIFICANT) == rejected


def slow_holm(p_values: list[float]) -> list[float]:
    """Holm's procedure as he states it: for which levels is each hypothesis rejected? By trying
    all levels of interest.
    """
    levels = sorted(
        {min(1.0, p * m) for p in p_values for m in range(1, len(p_values) + 1)} | {1.0}
    )

    def rejected(level: float) -> set[int]:
        out: set[int] = set()
        for rank, at in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
            if p_values[at] > level / (len(p_values) - rank) + 1e-15:
                break
            out.add(at)
        return out

    return [
        min((level for level in levels if at in rejected(level)), default=1.0)
        for at in range(len(p_values))
    ]


def test_holms_correction() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # by hand
    rng = np.random.default_rng(3)
    for size in range(1, 9):
        p_values = list(rng.uniform(0, 0.3, size))
        assert holm(p_values) == pytest.approx(slow_holm(p_values))
    with_gap = holm([0.01, math.nan, 0.02])
    assert (with_gap[0], with_gap[2]) == pytest.approx((0.02, 0.02))
    assert math.isnan(with_gap[1])
