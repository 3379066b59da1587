"""Membership metrics against scikit-learn and slow loops, and the reference attacks on signals with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from attacks.metrics import client_risk, membership
from attacks.metrics.client_risk import Attacked, client_risks
from attacks.metrics.membership import Outputs, balanced_accuracy


@st.composite
def scored(draw):
    """Scores with many ties, and at least one member and one non-member."""
    values = draw(st.lists(st.integers(-5, 5), min_size=2, max_size=60))
    member = draw(st.lists(st.booleans(), min_size=len(values) - 2, max_size=len(values) - 2))
    return np.array(values, np.float64), np.array([True, False, *member])


def outputs_of(probability, labels, member) -> Outputs:
    """Two-class outputs whose true class has the given probabilities."""
    labels = np.asarray(labels)
    logits = np.zeros((len(labels), 2), np.float32)
    logits[np.arange(len(labels)), labels] = np.log(probability) - np.log1p(-np.asarray(probability))
    return Outputs(logits, labels, np.asarray(member))


@settings(deadline=None)
@given(scored())
def test_auc_is_that_of_scikit_learn_also_with_ties(case):
    scores, member = case
    assert membership.auc(scores, member) == pytest.approx(roc_auc_score(member, scores))


@settings(deadline=None)
@given(scored(), st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.5, 1.0]))
def test_tpr_at_fpr_is_the_best_of_all_thresholds(case, limit):
    scores, member = case
    best = 0.0
    for threshold in [*scores, np.inf]:
        false = sum(score >= threshold for score in scores[~member]) / (~member).sum()
        if false <= limit:
            best = max(best, sum(score >= threshold for score in scores[member]) / member.sum())
    assert membership.tpr_at_fpr(scores, member, limit) == pytest.approx(best)


@settings(deadline=None)
@given(scored())
def test_the_tuned_threshold_is_as_good_as_any(case):
    scores, member = case

    def accuracy(threshold: float) -> float:
        return ((scores[member] >= threshold).mean() + (scores[~member] < threshold).mean()) / 2

    tuned = membership.best_threshold(scores, member)
    assert accuracy(tuned) == pytest.approx(max(accuracy(threshold) for threshold in scores))
    assert membership.balanced_accuracy(scores - tuned, member) == pytest.approx(accuracy(tuned))


def test_a_threshold_lies_between_the_scores_that_it_parts():
    member = np.array([True, True, False, False])
    assert membership.best_threshold(np.array([4.0, 3.0, 1.0, 0.0]), member) == 2.0
    assert membership.best_threshold(np.full(4, 7.0), member) == 7.0
    neighbors = np.array([np.nextafter(1.0, 2.0), 1.0])
    tuned = membership.best_threshold(neighbors, np.array([True, False]))
    assert ((neighbors >= tuned) == [True, False]).all()


def test_every_measure_by_hand():
    """Three times the scores 3, 1, -1, -2 of members against 2, -3, -4, -5 of non-members."""
    scores = np.tile([3.0, 1.0, -1.0, -2.0, 2.0, -3.0, -4.0, -5.0], 3)
    member = np.tile([True] * 4 + [False] * 4, 3)
    found = membership.measure(scores, member)
    assert list(found) == list(membership.MEASURES)
    known = {"balanced_accuracy": 0.625, "tpr": 0.5, "tnr": 0.75, "auc": 13 / 16}
    assert {name: found[name] for name in known} == known
    assert np.isnan([found["tpr_at_1_fpr"], found["tpr_at_01_fpr"]]).all()


def test_a_rate_at_few_false_positives_needs_nonmembers_that_show_it_and_few_that_share_the_highest_score():
    """The gap attack's scores are 0.5 and -0.5: either nobody passes, or everybody whom the model classifies rightly."""
    for nonmembers, known in ((99, (False, False)), (100, (True, False)), (999, (True, False)), (1000, (True, True))):
        # Only if one non-member may pass the threshold, all four members pass it, too.
        scores = np.append([4.0, 2.0, 2.0, 2.0, 3.0], np.full(nonmembers - 1, -1.0))
        rates = membership.measure(scores, np.arange(len(scores)) < 4)
        values = [rates[name] for name in membership.LIMITS]
        assert values == [pytest.approx(1.0) if there else pytest.approx(np.nan, nan_ok=True) for there in known]
    member = np.arange(2000) < 1000

    def found(passing):
        return membership.measure(np.where(member | (np.arange(2000) < 1000 + passing), 0.5, -0.5), member)

    assert np.isnan([found(11)["tpr_at_1_fpr"], found(2)["tpr_at_01_fpr"]]).all()
    assert (found(10)["tpr_at_1_fpr"], found(1)["tpr_at_01_fpr"]) == (1.0, 1.0)
    assert found(11)["auc"] == pytest.approx(1 - 0.011 / 2)


@pytest.mark.parametrize(
    ("scores", "members"),
    [([1.0] + 9 * [-1.0], 1), (12 * [1.0], 12), (12 * [1.0], 0), ([np.nan] + 40 * [1.0], 20)],
    ids=["nine non-members", "members alone", "non-members alone", "no number"],
)
def test_of_too_few_examples_and_of_no_number_nothing_is_known(scores, members):
    found = membership.measure(np.array(scores), np.arange(len(scores)) < members)
    assert set(found) == set(membership.MEASURES) and np.isnan(list(found.values())).all()


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_signals_are_those_of_the_softmax(classes, seed):
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(0, 3, (7, classes)).astype(np.float32), rng.integers(0, classes, 7)
    true = membership.probabilities(logits)[np.arange(7), labels]
    np.testing.assert_allclose(membership.probabilities(logits).sum(axis=1), 1)
    np.testing.assert_allclose(membership.losses(logits, labels), -np.log(true), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(membership.confidences(logits, labels), np.log(true / (1 - true)), rtol=1e-6, atol=1e-6)


def test_confidences_tell_examples_apart_where_the_softmax_is_saturated():
    logits, labels = np.array([[300.0, 0.0], [400.0, 0.0]], np.float32), np.zeros(2, np.int64)
    assert membership.confidences(logits, labels).tolist() == [300.0, 400.0]
    first, second = membership.losses(logits, labels)
    assert first > second > 0


def test_the_confidence_attack_has_a_threshold_for_each_class():
    """Class 0 is easy for everybody, class 1 hard: one common threshold cannot part the members of both."""
    probability = [0.999, 0.998, 0.98, 0.97, 0.9, 0.8, 0.3, 0.2]
    member = [True, True, False, False] * 2
    outputs = outputs_of(probability, [0] * 4 + [1] * 4, member)
    assert membership.balanced_accuracy(membership.confidence(outputs, outputs), outputs.member) == 1.0
    assert membership.balanced_accuracy(membership.loss_threshold(outputs, outputs), outputs.member) == 0.75


def test_the_worst_case_is_that_of_each_known_measure_and_the_rates_of_the_most_accurate():
    unknown = dict.fromkeys(membership.MEASURES, float("nan"))
    one = {**dict.fromkeys(membership.MEASURES, 0.4), "tpr_at_01_fpr": float("nan")}
    two = {**one, "balanced_accuracy": 0.3, "auc": 0.5, "tpr": 0.9}
    found = membership.worst_case([unknown, two, one])
    assert np.isnan(found.pop("tpr_at_01_fpr"))
    assert found == {"balanced_accuracy": 0.4, "tpr": 0.4, "tnr": 0.4, "auc": 0.5, "tpr_at_1_fpr": 0.4}
    assert np.isnan(list(membership.worst_case([unknown]).values())).all()


@settings(deadline=None)
@given(st.integers(2, 5), st.integers(10, 60), st.integers(0, 2**32 - 1))
def test_the_gap_attack_is_as_accurate_as_half_the_gap(classes, each, seed):
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(2 * each, classes)).astype(np.float32), rng.integers(0, classes, 2 * each)
    member = np.arange(2 * each) < each
    scores = membership.gap(None, Outputs(logits, labels, member))
    inside = sum(logits[i].argmax() == labels[i] for i in range(each)) / each
    outside = sum(logits[i].argmax() == labels[i] for i in range(each, 2 * each)) / each
    expected = 0.5 + (inside - outside) / 2
    assert membership.measure(scores, member)["balanced_accuracy"] == pytest.approx(expected, abs=1e-12)
    assert set(scores) <= {0.5, -0.5}


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(-1, 3)), max_size=40))
def test_rates_of_clients_are_those_of_their_own_examples(rows):
    said, member, client = (np.array([row[i] for row in rows], kind) for i, kind in enumerate((bool, bool, int)))
    found = client_risks(Attacked(np.where(said, 1.0, -1.0), member, client), np.arange(4))
    for i in range(4):
        own = client == i
        inside, outside = said[own & member], said[own & ~member]
        tpr = inside.mean() if len(inside) else np.nan
        tnr = (~outside).mean() if len(outside) >= 10 else np.nan
        assert (found.tpr[i], found.tnr[i]) == pytest.approx((tpr, tnr), nan_ok=True)
        assert (found.members[i], found.nonmembers[i]) == (len(inside), len(outside))


@pytest.mark.parametrize(("nonmembers", "limit"), [(100, 0.01), (150, 0.01), (199, 0.01), (1000, 0.001), (30, 0.1)])
def test_a_tpr_at_a_small_fpr_by_chance_is_that_of_exchangeable_scores(nonmembers, limit):
    rng, member = np.random.default_rng(nonmembers), np.arange(50 + nonmembers) < 50
    found = np.array([membership.tpr_at_fpr(rng.random(len(member)), member, limit) for _ in range(4000)])
    expected = membership.tpr_by_chance(nonmembers, limit)
    assert found.mean() == pytest.approx(expected, abs=3.5 * found.std() / np.sqrt(len(found)))
    if nonmembers == 100:
        assert expected == 2 / 101 > 0.0195  # nearly twice the false positive rate that is seen


def test_by_chance_is_what_it_is_against_very_many_nonmembers_or_against_none():
    assert membership.by_chance(10**7) == pytest.approx(membership.CHANCE, rel=1e-3)
    assert np.isnan(membership.tpr_by_chance(0, 0.01)) and membership.by_chance(0)["auc"] == 0.5
    assert membership.tpr_by_chance(2900, 0.01) == 30 / 2901  # 0.01 x 2900 is below 29 in floating point


@pytest.mark.parametrize("n", [10, 80, 700, 5000, 200_000])
def test_equal_numbers_are_one_binomial_however_large(n):
    """2n heads in a row: the accuracy is Bin(2n, 1/2) / 2n."""
    limits = 0.5 + np.array([-2, -0.3, 0, 0.5, 1, 2, 3]) / np.sqrt(n)
    expected = stats.binom.sf(np.floor(limits * 2 * n + 1e-6), 2 * n, 0.5)
    np.testing.assert_allclose(client_risk.guessing(n, n, limits), expected, rtol=1e-6, atol=1e-12)


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(1, 50))
def test_an_accuracy_that_equals_the_limit_does_not_exceed_it(members, nonmembers):
    """Every accuracy that can occur is a limit here, computed as an attack's is, with its rounding."""
    found, refused = np.mgrid[0 : members + 1, 0 : nonmembers + 1]
    accuracy = (found / members + refused / nonmembers) / 2
    mass = stats.binom.pmf(found, members, 0.5) * stats.binom.pmf(refused, nonmembers, 0.5)
    at = np.unique(accuracy)[:: max(1, accuracy.size // 40)]
    expected = [(mass * (accuracy > limit + 1e-9)).sum() for limit in at]
    np.testing.assert_allclose(client_risk.guessing(members, nonmembers, at), expected, atol=1e-12)


def test_without_examples_or_a_limit_nothing_is_known():
    assert np.isnan(client_risk.guessing(0, 5, [0.5, 0.6])).all() and np.isnan(client_risk.guessing(5, 0, 0.5))
    found = client_risk.guessing(5, 5, [np.nan, 0.5, np.inf, -np.inf])
    assert np.isnan(found[0]) and found[2:].tolist() == [0.0, pytest.approx(1.0)]
    assert np.isnan(client_risk.worst_by_chance([], [])) and np.isnan(client_risk.worst_by_chance([0, 3], [4, 0]))


@pytest.mark.parametrize(
    ("members", "nonmembers"),
    [([8] * 40, [8] * 40), ([20] * 200, [20] * 200), ([3, 10, 50, 200] * 5, [10, 7, 50, 90] * 5), ([30], [12])],
)
def test_the_worst_of_many_coins_is_what_simulation_gives(members, nonmembers):
    rng, draws = np.random.default_rng(1), 20_000
    tpr = rng.binomial(members, 0.5, (draws, len(members))) / members
    tnr = rng.binomial(nonmembers, 0.5, (draws, len(members))) / nonmembers
    worst = ((tpr + tnr) / 2).max(axis=1)
    found = client_risk.worst_by_chance(members, nonmembers)
    assert found == pytest.approx(worst.mean(), abs=4 * worst.std() / draws**0.5 + 1e-4)


def attacked(*rows: tuple[int, ...]) -> Attacked:
    """From (client, members that are found and missed, non-members that are rejected and mistaken)."""
    client, *counts = np.array(rows).T
    counts = np.array(counts).T
    said = np.concatenate([np.repeat([1.0, -1.0, -1.0, 1.0], own) for own in counts])
    member = np.concatenate([np.repeat([True, True, False, False], own) for own in counts])
    return Attacked(said, member, np.repeat(client, counts.sum(axis=1)))


def test_few_non_members_are_replaced_by_those_of_the_peers() -> None:
    """Clients 0 and 1 are peers with 9 and 3 non-members, client 2 is alone with 9."""
    found = client_risks(attacked((0, 1, 1, 6, 3), (1, 2, 0, 0, 3), (2, 1, 0, 9, 0)), np.array([7, 7, 8]))
    assert found.tnr[:2].tolist() == [6 / 12, 6 / 12]
    assert found.nonmembers.tolist() == [12, 12, 9]
    assert np.isnan(found.tnr[2]) and np.isnan(found.risk[2])


def test_the_risk_of_all_is_that_of_the_model_and_of_none_is_unknown() -> None:
    everybody = attacked((0, 5, 3, 8, 4), (2, 1, 3, 8, 2))
    assert everybody.accuracy == pytest.approx(balanced_accuracy(everybody.score, everybody.member))
    assert everybody.of(np.array([True, False, False])).accuracy == pytest.approx((5 / 8 + 8 / 12) / 2)
    assert np.isnan(everybody.of(np.array([False, True, False])).accuracy)
    joined = Attacked.join([everybody.of(np.array(one)) for one in ([True, False, False], [False, True, True])])
    assert joined.accuracy == pytest.approx(everybody.accuracy)
    assert np.isnan(Attacked.join([]).accuracy)
