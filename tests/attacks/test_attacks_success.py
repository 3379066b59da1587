"""The epsilon of an example that an attack's success comes to, and what it is by chance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from algorithms.auditing.epsilon import estimate_of_auc, estimate_of_rates
from attacks.metrics import membership
from attacks.metrics.success import Success, epsilon_of_auc_by_chance, epsilon_of_tpr_by_chance

NOWHERE = dict.fromkeys(membership.MEASURES, (math.nan, math.nan))


def test_the_measures_of_a_membership_attack_are_those_of_an_example():
    rng = np.random.default_rng(0)
    member = np.arange(600) < 300
    success = Success.of(rng.normal(member * 1.0, 1) - 0.5, member, rng)
    rows = {row.metric: row for row in success.epsilons("risk")}
    assert list(rows) == ["epsilon_record", "epsilon_record_at_1_fpr", "epsilon_record_most"]  # too few for 0.1 %
    of_auc, strict = rows["epsilon_record"], rows["epsilon_record_at_1_fpr"]
    assert of_auc.low < of_auc.value < of_auc.high and of_auc.chance == epsilon_of_auc_by_chance(300, 300)
    assert of_auc.value == pytest.approx(estimate_of_auc(success.values["auc"]).epsilon)
    # At the expected false positive rate: 3 of 300 may be above the threshold.
    assert strict.value == pytest.approx(estimate_of_rates(success.values["tpr_at_1_fpr"], 4 / 301).epsilon)
    assert strict.chance == epsilon_of_tpr_by_chance(300, 300, 0.01)
    certain = 0.05 ** (1 / 600)  # with which 600 guesses may all be right; delta takes a little of it
    assert rows["epsilon_record_most"].value == pytest.approx(math.log(certain / (1 - certain)), abs=0.03)
    nothing = Success(dict.fromkeys(membership.MEASURES, math.nan), NOWHERE, 0, 0).epsilons("risk")
    assert all(math.isnan(row.value) for row in nothing) and len(nothing) == 2


@pytest.mark.parametrize(("members", "nonmembers"), [(200, 200), (30, 150), (8, 120), (2, 100)])
def test_the_epsilon_of_an_example_by_chance_is_the_mean_over_exchangeable_scores(members, nonmembers):
    """Through the measures, as a run has them; an estimate is never below 0, so its mean is above."""
    rng, member = np.random.default_rng(members), np.arange(members + nonmembers) < members
    values, chance = {}, {}
    for _ in range(400):
        measured = membership.measure(rng.random(len(member)), member)
        for row in Success(measured, NOWHERE, members, nonmembers).epsilons("risk")[:2]:
            values.setdefault(row.metric, []).append(row.value)
            chance[row.metric] = row.chance
    assert list(values) == ["epsilon_record", "epsilon_record_at_1_fpr"]
    for metric, estimates in values.items():
        known = np.array([value for value in estimates if not math.isnan(value)])
        assert chance[metric] > 0.1
        assert abs(known.mean() - chance[metric]) < 3.5 * known.std() / np.sqrt(len(known)), metric


def test_an_epsilon_by_chance_is_the_same_either_way_and_falls_with_the_number_of_examples():
    drawn, normal = epsilon_of_auc_by_chance(19, 400), epsilon_of_auc_by_chance(20, 400)
    assert epsilon_of_auc_by_chance(400, 20) == normal < drawn < 1.06 * normal  # from one formula to the other
    assert epsilon_of_auc_by_chance(20_000, 20_000) < 0.02 and epsilon_of_tpr_by_chance(20_000, 20_000, 0.01) < 0.05
    assert math.isnan(epsilon_of_auc_by_chance(0, 50)) and math.isnan(epsilon_of_tpr_by_chance(1, 100, 0.01))
