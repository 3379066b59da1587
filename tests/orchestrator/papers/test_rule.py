"""The rule for verdicts: decided by hand, and beside other ways to compute."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from orchestrator.papers import rule
from orchestrator.papers.effects import MeasuredPart
from orchestrator.papers.rule import Effect
from orchestrator.papers.verdict_page import HEAD, cells
from orchestrator.papers.verdicts import judge_parts

NAN = math.nan


def verdict_of(effect: Effect) -> str:
    """The verdict on a part that is alone in its family."""
    (part,) = judge_parts([MeasuredPart("paper/claim", "part", "", effect)])
    return part.verdict


@pytest.mark.parametrize(
    ("values", "printed", "kind", "expected"),
    [
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.12, "higher", rule.SUPPORTED),
        (
            [0.10, 0.11, 0.12, 0.10, 0.11],
            NAN,
            "higher",
            rule.SUPPORTED,
        ),  # nothing is printed but the direction
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.30, "higher", rule.SMALLER),
        (
            [0.10, 0.11, 0.12, 0.10, 0.11],
            0.04,
            "higher",
            rule.LARGER,
        ),  # 0.108 +- 0.010, 0.09 would be of the size
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.05, "higher", rule.SUPPORTED),  # touches it
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.17, "higher", rule.SMALLER),
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.16, "higher", rule.SUPPORTED),
        ([-0.10, -0.11, -0.12, -0.10, -0.11], -0.04, "lower", rule.LARGER),
        ([-0.10, -0.11, -0.12, -0.10, -0.11], -0.30, "lower", rule.SMALLER),
        ([0.10, 0.11, 0.12, 0.10, 0.11], -0.12, "lower", rule.REVERSED),
        ([0.01, -0.01, 0.00, 0.01, -0.01], 0.12, "higher", rule.NO_EFFECT),
        (
            [0.010, 0.011, 0.012, 0.010, 0.011],
            0.12,
            "higher",
            rule.TINY,
        ),  # surely there, and surely below the margin
        ([0.010, 0.011, 0.012, 0.010, 0.011], NAN, "higher", rule.TINY),
        (
            [0.010, 0.011, 0.012, 0.010, 0.011],
            0.01,
            "higher",
            rule.SUPPORTED,
        ),  # as small as printed
        ([0.010, 0.011, 0.012, 0.010, 0.011], -0.12, "lower", rule.NO_EFFECT),
        (
            [0.10] * 5,
            0.12,
            "higher",
            rule.INCONCLUSIVE,
        ),  # equal values have the p of the sign test, 2 / 2^5
        ([0.10] * 6, 0.12, "higher", rule.SUPPORTED),
        ([0.0] * 4 + [0.0], 0.12, "higher", rule.NO_EFFECT),  # one-sided 1 / 2^5
        (
            [0.06, -0.02, 0.03, 0.07, 0.01],
            -0.10,
            "lower",
            rule.CONTRADICTED,
        ),  # 0.03 +- 0.045: zero inside, -0.05 outside
        (
            [0.06, -0.02, 0.03, 0.07, 0.01],
            -0.06,
            "lower",
            rule.INCONCLUSIVE,
        ),  # -0.01 inside, it touches the margin
        ([0.06, -0.02, 0.03, 0.07, 0.01], 0.06, "higher", rule.INCONCLUSIVE),
        (
            [0.07, 0.13, 0.02, 0.12, 0.05],
            0.01,
            "higher",
            rule.INCONCLUSIVE,
        ),  # 0.078 +- 0.058: more than printed
        ([0.06, -0.02, 0.03, 0.07, 0.01], NAN, "higher", rule.INCONCLUSIVE),
        # 0.85 +- 0.45: wide, but all of it lies beyond the margin; 0.50 +- 0.45 and 0.50 +- 0.47 do
        # not, to 0.05
        ([1.21, 0.49, 1.21, 0.49, 0.85], 0.07, "higher", rule.LARGER),
        ([1.21, 0.49, 1.21, 0.49, 0.85], 0.07, "lower", rule.REVERSED),
        ([1.21, 0.49, 1.21, 0.49, 0.85], 1.50, "higher", rule.SMALLER),
        ([0.86, 0.14, 0.86, 0.14, 0.50], 0.07, "higher", rule.SUPPORTED),
        ([0.88, 0.12, 0.88, 0.12, 0.50], 0.07, "higher", rule.INCONCLUSIVE),
        ([0.10, 0.11, 0.12, 0.10], 0.12, "higher", rule.INCONCLUSIVE),  # four pairs
        ([0.10], 0.12, "higher", rule.ONE_RUN),
        ([], 0.12, "higher", rule.NOT_TESTED),
        ([0.01, -0.01, 0.00, 0.01, -0.01], 0.01, "within", rule.SUPPORTED),
        ([0.10, 0.11, 0.12, 0.10, 0.11], 0.01, "within", rule.BEYOND),
        ([0.10, -0.11, 0.12, 0.10, -0.11], 0.01, "within", rule.INCONCLUSIVE),
    ],
)
def test_verdicts_by_hand(values: list[float], printed: float, kind: str, expected: str) -> None:
    assert verdict_of(Effect(tuple(values), printed, 0.05, kind)) == expected


def test_a_claim_that_nothing_is_lost_allows_a_gain() -> None:
    def verdict(*values: float) -> str:
        return verdict_of(Effect(values, NAN, 0.05, "not lower"))

    assert (
        verdict(0.10, 0.11, 0.12, 0.10, 0.11)
        == verdict(0.01, -0.01, 0.00, 0.01, -0.01)
        == rule.SUPPORTED
    )
    assert verdict(-0.10, -0.11, -0.12, -0.10, -0.11) == rule.BEYOND
    assert verdict(-0.06, 0.02, -0.03, -0.07, -0.01) == rule.INCONCLUSIVE


def test_another_size_than_printed_is_corrected_for_all_claims() -> None:
    """The size is the printed effect and the margin around it."""
    near = Effect((0.06, -0.02, 0.03, 0.07, 0.01), -0.07, 0.05, "lower")  # 0.03 +- 0.045
    assert near.p_size == pytest.approx(stats.ttest_1samp(near.values, -0.02).pvalue)
    assert 0.025 < near.p_size < 0.05 and verdict_of(near) == rule.CONTRADICTED
    assert [part.verdict for part in judge_parts([MeasuredPart("p/c", "", "", near)] * 2)] == [
        rule.INCONCLUSIVE
    ] * 2
    large = Effect((0.10, 0.11, 0.12, 0.10, 0.12), 0.0465, 0.05, "higher")  # 0.11 +- 0.012
    assert 0.025 < large.p_size < 0.05 and verdict_of(large) == rule.LARGER
    assert [part.verdict for part in judge_parts([MeasuredPart("p/c", "", "", large)] * 2)] == [
        rule.SUPPORTED
    ] * 2


def test_a_value_is_compared_with_the_printed_one() -> None:
    def verdict(printed: float, *values: float) -> str:
        return verdict_of(Effect(values, printed, 0.05, "value"))

    assert verdict(0.94, 0.93, 0.94, 0.95, 0.94, 0.93) == rule.SUPPORTED
    assert verdict(0.94, 0.73, 0.74, 0.75, 0.74, 0.73) == rule.OTHER_VALUE
    assert verdict(0.0, 0.73, 0.74, 0.75, 0.74, 0.73) == rule.OTHER_VALUE
    assert verdict(1.00, 0.94, 0.95, 0.96, 0.95, 0.94) == rule.INCONCLUSIVE  # it touches the margin
    assert verdict(1.00, 0.70, 1.20, 0.80, 0.90, 1.00) == rule.INCONCLUSIVE


def test_a_value_at_the_end_of_its_range_is_asked_to_be_at_least_a_bound() -> None:
    def verdict(*values: float) -> str:
        return verdict_of(Effect(values, 1.0, 0.05, "at least"))

    assert (
        verdict(0.97, 0.98, 0.99, 0.98, 0.97)
        == verdict(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
        == rule.SUPPORTED
    )
    assert verdict(0.93, 0.92, 0.93, 0.94, 0.93) == rule.OTHER_VALUE
    assert verdict(0.94, 0.95, 0.96, 0.95, 0.94) == rule.INCONCLUSIVE


def test_p_values_and_intervals_are_scipys() -> None:
    values = (0.06, -0.02, 0.03, 0.07, 0.01, 0.02)
    effect = Effect(values, NAN, 0.05, "higher")
    assert effect.p_difference == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    low, high = (
        stats.ttest_1samp(values, bound, alternative=side).pvalue
        for bound, side in ((-0.05, "greater"), (0.05, "less"))
    )
    assert effect.p_equivalence == pytest.approx(max(low, high))
    ends = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (effect.mean - effect.half(0.9), effect.mean + effect.half(0.9)) == pytest.approx(
        tuple(ends)
    )


@pytest.mark.parametrize(
    ("sds", "expected"), [(2.9, "yes"), (3.2, "NO"), (-2.9, "yes"), (-3.2, "NO")]
)
def test_a_printed_effect_is_predicted_if_another_pair_may_have_it(
    sds: float, expected: str
) -> None:
    values = (
        1.0,
        2.0,
        3.0,
        4.0,
        5.0,
    )  # deviation 1.58, t 2.776: 3.04 deviations, with the uncertainty of the mean
    printed = 3 + sds * float(np.std(values, ddof=1))
    effect = Effect(values, printed, 1.0, "higher")
    line = dict(zip(HEAD[1:], cells(MeasuredPart("p/c", "", "", effect)), strict=True))
    assert line["predicted"] == expected
    for effect in (Effect(values, NAN, 1.0, "higher"), Effect(values[:1], 1.0, 1.0, "higher")):
        assert cells(MeasuredPart("p/c", "", "", effect))[HEAD.index("predicted") - 1] == ""


@pytest.mark.parametrize(
    "mean", [1.0, 2.5, 0.2, 0.0]
)  # no difference; one beyond the margin; none beyond it
@pytest.mark.parametrize("others", [0, 7])
def test_the_pairs_that_are_needed_decide_in_four_of_five_cases(mean: float, others: int) -> None:
    """A third fewer do not."""
    spread, rng = 2.0, np.random.default_rng(3)
    pilot = Effect(
        tuple(np.array([spread, -spread] * 10) * math.sqrt(19 / 20) + mean), NAN, 1.0, "higher"
    )
    undecided = [Effect(tuple(rng.normal(0, 100, 6)), NAN, 1.0, "higher")] * others

    def decided(n: int) -> float:
        drawn = [Effect(tuple(rng.normal(mean, spread, n)), NAN, 1.0, "higher") for _ in range(300)]
        judged = [
            judge_parts([MeasuredPart("p/c", "", "", one) for one in (effect, *undecided)])
            for effect in drawn
        ]
        return float(np.mean([parts[0].verdict != rule.INCONCLUSIVE for parts in judged]))

    needed = pilot.pairs_needed(others + 1)
    assert needed is not None
    assert decided(needed) > 0.74 and decided(needed * 2 // 3) < 0.74
    (part, *_) = judge_parts([MeasuredPart("p/c", "", "", one) for one in (pilot, *undecided)])
    assert part.tests == others + 1


def test_a_claim_of_several_parts() -> None:
    def together(*verdicts: str) -> str:
        return rule.together({*verdicts})

    assert together(rule.SUPPORTED, rule.SUPPORTED) == rule.SUPPORTED
    assert together(rule.SUPPORTED, rule.LARGER) == rule.LARGER  # all of it is on the claimed side
    assert together(rule.LARGER, rule.SMALLER) == rule.SMALLER
    assert (
        together(rule.LARGER, rule.CONTRADICTED)
        == together(rule.LARGER, rule.NOT_TESTED)
        == rule.IN_PART
    )
    assert (
        together(rule.SUPPORTED, rule.NOT_TESTED)
        == together(rule.SUPPORTED, rule.NO_EFFECT)
        == rule.IN_PART
    )
    assert (
        together(rule.SUPPORTED, rule.REVERSED)
        == together(rule.SMALLER, rule.BEYOND)
        == rule.AGAINST_IN_PART
    )
    assert (
        together(rule.REVERSED, rule.NOT_TESTED)
        == together(rule.BEYOND, rule.CONTRADICTED)
        == rule.AGAINST_IN_PART
    )
    assert together(rule.REVERSED, rule.NO_EFFECT) == rule.NO_EFFECT
    assert together(rule.INCONCLUSIVE, rule.NOT_TESTED) == rule.INCONCLUSIVE  # of what was tested


def test_a_claim_without_readings_is_corrected_with_those_of_each_reading() -> None:
    clear, weak = (
        Effect((0.10, 0.11, 0.12, 0.10, 0.11), NAN, 0.05, "higher"),
        Effect((0.1, 0.0, 0.1, 0.0, 0.1), NAN, 0.05, "higher"),
    )
    parts = [
        MeasuredPart("p/a", "", "", clear),
        MeasuredPart("p/b", "", "x", weak),
        MeasuredPart("p/b", "", "y", weak),
        MeasuredPart("p/c", "", "y", weak),
    ]
    alone = clear.p_difference
    assert judge_parts(parts[:1])[0].p_holm == alone
    assert judge_parts(parts[:2])[0].p_holm == pytest.approx(2 * alone)
    assert judge_parts(parts)[0].p_holm == pytest.approx(3 * alone)  # those of y
    assert (
        judge_parts([parts[0], MeasuredPart("q/a", "", "", weak)])[0].p_holm == alone
    )  # another paper
    other_field = [MeasuredPart("p/d", "", reading, weak) for reading in ("u", "v")]
    judged = judge_parts([*parts, *other_field])
    assert judged[0].p_holm == pytest.approx(4 * alone) and [part.tests for part in judged] == [
        4,
        3,
        4,
        4,
        4,
        4,
    ]
