"""Measures over targets that are each other's references: coverage of the interval, thresholds, precision."""

import numpy as np
import pytest

from attacks import calibrated_mia
from attacks._halves import Pool
from attacks.interfaces import Answers
from attacks.metrics import membership, targets
from attacks.metrics.calibrated import METHODS, cross_scores
from attacks.metrics.targets import Targets, aucs, decide, over_targets, precision
from datasets.federation import Examples
from tests.attacks.test_attacks_calibrated import drawn, one_kind


def test_the_auc_of_many_targets_is_that_of_each():
    rng = np.random.default_rng(0)
    scores, member = rng.integers(0, 5, (6, 40)).astype(float), rng.random((6, 40)) < 0.4
    member[5] = False
    expected = [membership.auc(score, said) for score, said in zip(scores[:5], member[:5], strict=True)]
    found = aucs(scores, member)
    assert found[:5] == pytest.approx(expected) and np.isnan(found[5])
    scores[2, 3] = np.nan
    assert np.isnan(aucs(scores, member)[2])


def coverage(method: str, replicas: int, lift: float, truth: float | None = None) -> tuple[float, float]:
    """Shares of intervals that hold the truth: ours, and those that take pairs for independent."""
    means, ours, plain = [], [], []
    records = np.random.default_rng(99)
    center, spread, lifted = (
        2 * records.normal(size=80),
        np.exp(0.3 * records.normal(size=80)),
        records.exponential(size=80),
    )
    for seed in range(150):
        rng = np.random.default_rng([seed, 1])
        halves = np.stack([rng.permutation(80) < 40 for _ in range(replicas // 2)])
        inside = np.stack([halves, ~halves], axis=1).reshape(replicas, 80)
        phi = center + inside * lift * lifted + spread * rng.normal(size=inside.shape)
        found = aucs(cross_scores(method, phi, inside, one_kind(80)), inside)
        mean, low, high = over_targets(found)
        pairs = replicas // 2
        reach = (high - mean) / np.sqrt(2 * (pairs - 1) / (pairs - 2))
        means.append(mean)
        ours.append((low, high))
        plain.append((mean - reach, mean + reach))
    middle = np.mean(means) if truth is None else truth
    return tuple(np.mean([low <= middle <= high for low, high in one]) for one in (ours, plain))


@pytest.mark.parametrize("replicas", [8, 16])
@pytest.mark.parametrize("lift", [0.0, 1.0, 3.0])
def test_the_interval_covers_what_other_halves_would_have_given(replicas, lift):
    found, plain = coverage("lira", replicas, lift, 0.5 if not lift else None)
    assert found >= 0.92
    if not lift:
        assert plain < 0.9  # pairs are not independent: each is the other's reference


def test_without_three_pairs_there_is_no_interval_and_a_pair_without_a_value_does_not_count():
    assert over_targets(np.array([0.5, 0.6, 0.7, 0.8]))[0] == pytest.approx(0.65)
    assert np.isnan(over_targets(np.array([0.5, 0.6, 0.7, 0.8]))[1:]).all()
    assert np.isnan(over_targets(np.full(6, np.nan))).all()
    values = np.array([0.5, 0.6, np.nan, 0.9, 0.5, 0.7, 0.6, 0.6])
    mean, low, high = over_targets(values)
    assert mean == pytest.approx(np.mean([0.55, 0.6, 0.6])) and low < mean < high


def test_precision_at_a_prior_is_that_of_a_population_with_so_many_members():
    rng = np.random.default_rng(0)
    member = rng.random(2_000_000) < 0.01
    said = np.where(member, rng.random(len(member)) < 0.3, rng.random(len(member)) < 0.02)
    assert precision(0.3, 0.02, 0.01) == pytest.approx(member[said].mean(), abs=0.01)
    assert precision(0.02, 0.02, 0.1) == pytest.approx(0.1) and np.isnan(precision(0.0, 0.0, 0.1))


def test_precision_over_targets_is_at_the_mean_rates_with_an_interval():
    tpr, fpr = np.tile([0.2, 0.3], 8), np.tile([0.01, 0.0, 0.02, 0.01], 4)
    value, low, high = targets.precision_over_targets(tpr, fpr, 0.1)
    assert value == pytest.approx(precision(0.25, 0.01, 0.1)) and low < value < high
    assert np.isnan(targets.precision_over_targets(tpr[:4], fpr[:4], 0.1)[1:]).all()


def told(scores: np.ndarray) -> targets.Rehearsal:
    """Rehearsals whose scores need no references."""
    return lambda pair, replicas: scores[list(replicas)]


def answers_of(phi: np.ndarray, inside: np.ndarray) -> Answers:
    records = phi.shape[1]
    zeros = np.zeros(records, np.int64)
    pool = Pool(
        Examples(np.zeros((records, 1), np.float32), zeros), zeros, zeros == 0, np.zeros(records, np.float32), 1.0
    )
    return Answers(pool, inside, phi, phi[0], zeros, ("global",), zeros, ("all",))


def test_thresholds_do_not_look_at_the_target_or_at_its_complement():
    """Nor do rehearsals have them as references: whatever the third pair says and had, its thresholds are the same."""
    phi, inside = drawn(0, 16, 100, lift=2.0)
    of_another = phi.copy(), inside.copy()
    of_another[0][4:6] += 3 * np.random.default_rng(0).normal(size=(2, 100))
    of_another[1][4:6] = ~inside[4:6]

    def shifts(method: str, phi: np.ndarray, inside: np.ndarray) -> np.ndarray:
        seen = calibrated_mia._Seen(answers_of(phi, inside), np.arange(100))
        scores = cross_scores(method, phi, inside, one_kind(100))
        return scores - seen._of(method, "auto").replicas.scores

    for method in METHODS:
        before, after = shifts(method, phi, inside), shifts(method, *of_another)
        assert before[4:6] == pytest.approx(after[4:6], abs=1e-9), method
        assert np.abs(before[:4] - after[:4]).max() > 1e-3  # it does set thresholds of others


def test_where_others_had_all_records_or_none_there_is_no_threshold():
    phi, inside = drawn(0, 2, 8)
    inside[:, :4] = [[True], [False]]
    kind = np.repeat([0, 1], 4)
    inside[:, 4:] = [[True, False] * 2, [False, True] * 2]
    shifted, strict = decide(phi, phi, told(phi), inside, kind, np.zeros(2, np.int64))
    assert np.isnan(shifted[:, :4]).all() and not strict[:, :4].any() and not np.isnan(shifted[:, 4:]).any()
    found = Targets(shifted, strict, inside).estimates()
    assert np.isnan([value for estimate in found.values() for value in estimate]).all()


def test_each_kind_of_records_has_thresholds_of_its_own():
    phi, inside = drawn(0, 16, 200, lift=3.0)
    kind = np.arange(200) % 2
    shift = np.where(kind == 1, 50.0, 0.0)
    plain, strict = decide(phi, phi, told(phi), inside, kind, np.arange(16) // 2)
    moved, as_strict = decide(phi + shift, phi + shift, told(phi + shift), inside, kind, np.arange(16) // 2)
    assert moved == pytest.approx(plain) and (strict == as_strict).all()


def test_a_threshold_for_1_percent_is_passed_by_about_1_percent_of_another_targets_nonmembers():
    phi, inside = drawn(7, 16, 2000)
    strict = decide(phi, phi, told(phi), inside, one_kind(2000), np.arange(16) // 2)[1]
    rates = Targets(phi, strict, inside).measures()
    assert rates["fpr_set_to_1"].mean() == pytest.approx(0.01, abs=0.003)
    assert rates["tpr_set_to_1"].mean() == pytest.approx(0.01, abs=0.003)  # exchangeable
