"""The epsilon of an attack's success: closed forms by simulation, what is certified, and what never can be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from algorithms.auditing import attacks
from attacks.metrics import membership, paired
from attacks.metrics.intervals import intervals
from attacks.metrics.record_epsilon import of_auc_by_chance, of_tpr_by_chance, record_epsilons

EXACT = {0.5: 9.9973, 1.0: 4.3772, 2.0: 1.9931, 4.0: 0.9263}  # at delta 1e-5


@pytest.mark.parametrize(("z", "epsilon"), EXACT.items())
def test_scores_of_a_gaussian_mechanism_come_to_its_epsilon(z, epsilon):
    rng = np.random.default_rng(3)
    member = np.arange(80_000) < 40_000
    scores = rng.normal(member / z, 1)
    assert attacks.of_auc(membership.auc(scores, member)).epsilon == pytest.approx(epsilon, rel=0.1)
    rate = membership.tpr_at_fpr(scores, member, 0.01)
    assert attacks.of_rates(rate, 0.01).epsilon == pytest.approx(epsilon, rel=0.1)


def test_an_attack_below_chance_counts_only_if_it_may_decide_the_other_way_round():
    assert attacks.of_auc(0.3, 0.2, 0.4).epsilon == 0.0
    turned, plain = attacks.of_auc(0.3, 0.2, 0.45, either_way=True), attacks.of_auc(0.7, 0.55, 0.8, either_way=True)
    assert (turned.epsilon, turned.low, turned.high) == pytest.approx((plain.epsilon, plain.low, plain.high))
    perfect = attacks.of_auc(1.0, 0.8, 1.0, comparisons=240)
    assert perfect.low < perfect.epsilon < perfect.high == attacks.of_auc(1.0).epsilon == math.inf
    both = attacks.of_auc(0.52, 0.3, 0.7, either_way=True)
    assert both.low == 0.0 and both.high == pytest.approx(attacks.of_auc(0.7).epsilon)


def test_what_pairs_certify_is_below_the_truth_and_below_what_half_of_them_can():
    """Of 200 repetitions of a Gaussian mechanism with shared randomness in the pairs, 5 % may exceed the truth."""
    truth, found = EXACT[1.0], []
    for repetition in range(200):
        rng = np.random.default_rng([5, repetition])
        shared = rng.normal(size=32)
        ins, outs = (0.8 * shared + 0.6 * rng.normal(size=32) + mean for mean in (1.0, 0.0))
        found.append(paired.certified_epsilon(ins, outs))
    assert np.mean(np.array(found) > truth) <= 0.05
    assert max(found) <= paired.most_epsilon(16)
    far = np.arange(32.0)
    for sides in ((far + 100, far), (far, far + 100)):
        assert paired.certified_epsilon(*sides) == pytest.approx(paired.most_epsilon(16), abs=1e-3)


def test_the_estimate_of_pairs_has_an_interval_that_holds_the_truth():
    truth, held, middles = EXACT[1.0], 0, []
    for repetition in range(100):
        rng = np.random.default_rng([6, repetition])
        one = paired.epsilon(rng.normal(1, 1, 32), rng.normal(0, 1, 32))
        held += one.low <= truth <= one.high
        middles.append(one.epsilon)
    assert held >= 90 and np.median(middles) == pytest.approx(truth, rel=0.1)
    rng = np.random.default_rng(0)
    assert paired.epsilon(rng.normal(size=16), rng.normal(size=16)).low == 0.0
    assert paired.certified_epsilon(np.ones(16), np.ones(16)) == 0.0


def test_the_measures_of_a_membership_attack_are_those_of_an_example():
    rng = np.random.default_rng(0)
    member = np.arange(600) < 300
    scores = rng.normal(member * 1.0, 1) - 0.5
    found, ranges = membership.measure(scores, member), intervals(scores, member, rng)
    rows = {one.metric: one for one in record_epsilons("risk", found, ranges, 300, 300)}
    assert list(rows) == ["epsilon_record", "epsilon_record_at_1_fpr", "epsilon_record_most"]  # too few for 0.1 %
    one = rows["epsilon_record"]
    assert one.low < one.value < one.high and one.chance == of_auc_by_chance(300, 300)
    assert one.value == pytest.approx(attacks.of_auc(found["auc"]).epsilon)
    strict = rows["epsilon_record_at_1_fpr"]  # at the expected false positive rate: 3 of 300 may be above the threshold
    assert strict.value == pytest.approx(attacks.of_rates(found["tpr_at_1_fpr"], 4 / 301).epsilon)
    assert strict.chance == of_tpr_by_chance(300, 300, 0.01)
    certain = 0.05 ** (1 / 600)  # with which 600 guesses may all be right; delta takes a little of it
    assert rows["epsilon_record_most"].value == pytest.approx(math.log(certain / (1 - certain)), abs=0.03)


def test_without_examples_the_measures_are_missing_and_not_an_error():
    nothing = dict.fromkeys(membership.MEASURES, math.nan)
    rows = record_epsilons("risk", nothing, dict.fromkeys(membership.MEASURES, (math.nan, math.nan)), 0, 0)
    assert [one.metric for one in rows] == ["epsilon_record", "epsilon_record_most"]
    assert all(math.isnan(one.value) for one in rows)


@pytest.mark.parametrize(("members", "nonmembers"), [(100, 100), (200, 200), (30, 150), (8, 120), (2, 100)])
def test_the_epsilon_of_an_example_by_chance_is_the_mean_over_exchangeable_scores(members, nonmembers):
    """Through the measures, as a run has them; an estimate is never below 0, so its mean is above."""
    rng, member = np.random.default_rng(members), np.arange(members + nonmembers) < members
    nowhere, values, chance = dict.fromkeys(membership.MEASURES, (math.nan, math.nan)), {}, {}
    for _ in range(400):
        found = membership.measure(rng.random(len(member)), member)
        for one in record_epsilons("risk", found, nowhere, members, nonmembers)[:2]:
            values.setdefault(one.metric, []).append(one.value)
            chance[one.metric] = one.chance
    assert list(values) == ["epsilon_record", "epsilon_record_at_1_fpr"]
    for metric, all_of_them in values.items():
        known = np.array([one for one in all_of_them if not math.isnan(one)])
        assert chance[metric] > 0.1
        assert abs(known.mean() - chance[metric]) < 3.5 * known.std() / np.sqrt(len(known)), metric


def test_an_epsilon_by_chance_is_the_same_either_way_and_falls_with_the_number_of_examples():
    drawn, normal = of_auc_by_chance(19, 400), of_auc_by_chance(20, 400)
    assert of_auc_by_chance(400, 20) == normal < drawn < 1.06 * normal  # from one formula to the other
    assert of_auc_by_chance(400, 19) == drawn
    assert of_auc_by_chance(20_000, 20_000) < 0.02 and of_tpr_by_chance(20_000, 20_000, 0.01) < 0.05
    assert math.isnan(of_auc_by_chance(0, 50)) and math.isnan(of_tpr_by_chance(1, 100, 0.01))
