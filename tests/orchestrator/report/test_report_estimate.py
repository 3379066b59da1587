"""The one rule for intervals: from three values on, ending where values end; fewer values are shown themselves."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.metric_names import metric
from orchestrator.report.data import Setting
from orchestrator.report.statistics import claims, estimate, limits, number, quantile


def test_the_interval_of_three_seeds_is_students() -> None:
    # s = 0.1 and t(0.975, 2) = 4.302653, so half = 4.302653 * 0.1 / sqrt(3) = 0.2484138
    one = estimate([0.7, 0.8, 0.9])
    assert one.mean == pytest.approx(0.8)
    assert one.half == pytest.approx(0.2484138, abs=1e-7)
    assert (one.low, one.high) == pytest.approx((0.5515862, 1.0484138), abs=1e-7)
    assert quantile(4) == pytest.approx(2.776445, abs=1e-6)


def test_one_seed_has_a_mean_and_no_interval_and_none_has_neither() -> None:
    one, none = estimate([0.7]), estimate([])
    assert (one.mean, one.n, none.n) == (0.7, 1, 0)
    assert all(map(math.isnan, (one.half, one.low, one.high, none.mean, none.half)))
    assert one.parts(3) == ("0.700", "")
    assert none.parts(3) == ("", "")
    assert none.shown(3) == ("", "")
    assert estimate([2.0, 2.0, 2.0]).half == 0
    assert estimate([-0.0001]).parts(3) == ("0.000", "")


def test_two_seeds_are_two_values_and_no_interval_in_figures_and_tables() -> None:
    found = estimate([0.81, 0.84])
    assert math.isnan(found.half)
    assert (found.values, found.n) == ((0.81, 0.84), 2)
    assert found.shown(2) == ("0.81, 0.84", "")


def test_an_interval_ends_where_values_end() -> None:
    high = estimate([0.7, 0.8, 0.9], (0, 1))  # 0.8 ± 0.248
    assert (high.low, high.high) == pytest.approx((0.5515862, 1.0))
    assert high.shown(3) == ("0.800", "(0.552 to 1.000)")
    assert estimate([1.0, 2.0, 6.0], limits(metric("violations"))).low == 0
    assert estimate([0.7, 0.8, 1.9], (0, 1)).high > 1, "such a metric is no rate after all"
    assert limits(metric("accuracy")) == (0, 1)
    assert limits(metric("seconds_per_round")) == (0, math.inf)
    for name in ("epsilon_audit", "sia_cov", "whitebox_cov", "validation_loss", "distance"):
        assert limits(metric(name)) == (0, math.inf)
    for name in ("sia_fi", "fedmia_fi", "eod", "calibrated_fpr_set_to_1_fpr", "calibrated_auc_low"):
        assert limits(metric(name)) == (0, 1)
    assert limits(metric("rho_spearman")) == (-1, 1)
    for name in ("risk_gap", "cia_difference", "equalized_odds_signed", "unheard_of"):
        assert limits(metric(name)) == (-math.inf, math.inf)


def test_an_infinite_value_stays_infinite_and_has_no_interval() -> None:
    endless = estimate([float("inf"), 1.0])  # an epsilon without noise
    assert endless.mean == float("inf")
    assert math.isnan(endless.half)


def test_claims_have_a_largest_value_and_no_interval() -> None:
    found = claims([18.76, 18.76, 22.51])
    assert found.shown(2) == found.parts(2) == ("18.76 to 22.51", "")
    assert all(map(math.isnan, (found.half, found.low, found.high)))
    assert claims([3.035]).shown(1)[0] == "3.1" and claims([0.926]).shown(1)[0] == "0.93"
    assert claims([2.0, 2.0]).shown(2)[0] == "2.00"
    assert claims([]).shown(2) == ("", "")


@given(st.floats(0, 1e12), st.integers(0, 6))
def test_a_printed_bound_is_a_bound(value: float, digits: int) -> None:
    """Decimally: an epsilon of 0.3 is printed as 0.3, although its binary value is a little less."""
    upper, lower = number(value, digits, "upper"), number(value, digits, "lower")
    assert Decimal(lower) <= Decimal(repr(value)) <= Decimal(upper)
    assert Decimal(upper) - Decimal(repr(value)) < Decimal(10) ** -digits
    assert value == 0 or float(upper) <= 1.1 * value + 1e-320, "an upper bound keeps two digits"


def test_bounds_are_declared_where_they_are_measured() -> None:
    upper = ("epsilon", "epsilon_cluster_1", "epsilon_example", "delta", "delta_example")
    assert {metric(name).bound for name in upper} == {"upper"}
    lower = (
        "epsilon_audit_certified",
        "epsilon_audit_certified_cluster_0",
        "cia_epsilon_certified",
        "cia_epsilon_most",
    )
    assert {metric(name).bound for name in lower} == {"lower"}
    assert metric("epsilon_audit").bound is None
    trials = tuple({"id": s, "status": "finished", "seed": s, "epsilon_audit_certified": 0.559} for s in "ab")
    assert Setting((), trials).estimate("epsilon_audit_certified").shown(1) == ("0.5, 0.5", "")
