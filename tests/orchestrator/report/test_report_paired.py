"""The statistics of paired repetitions, against simulations, slow versions and numbers worked out by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from orchestrator.report.statistics import (
    SIGNIFICANT,
    estimate,
    holm,
    least_significant,
    paired_test,
)

EXPERIMENTS, DEALS = 2000, 5


def experiments(effect: float) -> tuple[np.ndarray, np.ndarray]:
    """Two methods on the same partitions [experiments, partitions], which differ six times as much as the methods."""
    rng = np.random.default_rng(11)
    partition = rng.normal(0.6, 0.085, (EXPERIMENTS, DEALS))
    return partition + rng.normal(0, 0.014, partition.shape) + effect, partition + rng.normal(0, 0.014, partition.shape)


def test_the_paired_interval_covers_the_difference_and_the_unpaired_one_is_much_wider() -> None:
    method, baseline = experiments(-0.03)
    found = [estimate(list(row)) for row in method - baseline]
    covered = np.mean([one.low <= -0.03 <= one.high for one in found])
    assert 0.93 < covered < 0.97
    alone = [(estimate(list(a)).half, estimate(list(b)).half) for a, b in zip(method, baseline, strict=True)]
    unpaired = np.mean([math.hypot(a, b) for a, b in alone])
    assert unpaired > 4 * np.mean([one.half for one in found])


def test_the_paired_test_rejects_one_true_hypothesis_in_twenty_and_agrees_with_the_interval() -> None:
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
    assert paired_test([2.0, 2.0, 2.0, 2.0]) == 0.125, "of 16 choices of signs, two are as extreme"
    assert math.isnan(paired_test([1.0, math.inf, 2.0]))


@pytest.mark.parametrize("pairs", [3, 5, 12])
@pytest.mark.parametrize("tests", [1, 2, 33])
def test_a_difference_is_significant_from_so_many_standard_deviations_on(pairs: int, tests: int) -> None:
    shape = np.random.default_rng(pairs).standard_normal(pairs)
    shape = (shape - shape.mean()) / shape.std(ddof=1)
    for times, rejected in ((1.001, True), (0.999, False)):
        p = paired_test(list(shape + times * least_significant(pairs, tests)))
        assert (holm([p, *[1.0] * (tests - 1)])[0] < SIGNIFICANT) == rejected


def slow_holm(p_values: list[float]) -> list[float]:
    """Holm's procedure as he states it: for which levels is each hypothesis rejected? By trying all levels of interest."""
    levels = sorted({min(1.0, p * m) for p in p_values for m in range(1, len(p_values) + 1)} | {1.0})

    def rejected(level: float) -> set[int]:
        out: set[int] = set()
        for rank, at in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
            if p_values[at] > level / (len(p_values) - rank) + 1e-15:
                break
            out.add(at)
        return out

    return [min((level for level in levels if at in rejected(level)), default=1.0) for at in range(len(p_values))]


def test_holms_correction() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # by hand
    rng = np.random.default_rng(3)
    for size in range(1, 9):
        p_values = list(rng.uniform(0, 0.3, size))
        assert holm(p_values) == pytest.approx(slow_holm(p_values))
    with_gap = holm([0.01, math.nan, 0.02])
    assert (with_gap[0], with_gap[2]) == pytest.approx((0.02, 0.02))
    assert math.isnan(with_gap[1])
