"""The one rule for intervals: from three values on, ending where values end; fewer values are shown themselves."""

import math

import pytest

from orchestrator.metric_names import metric
from orchestrator.report.estimate import claim_words, claims, estimate, limits, number, quantile


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
    assert claim_words(found, lambda value: number(value, 2)) == "22.51, the largest of 3 runs (18.76 to 22.51)"
    assert claim_words(claims([2.0, 2.0]), lambda value: number(value, 2)) == claims([2.0, 2.0]).shown(2)[0] == "2.00"
    assert claims([]).shown(2) == ("", "")
