"""Membership metrics against scikit-learn and slow loops, and the reference attacks on signals
with known answers.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from algorithms.auditing.epsilon import estimate_of_auc, estimate_of_rates
from attacks.metrics import disparity, membership
from attacks.metrics import intervals as module
from attacks.metrics.intervals import intervals, measure_copies
from attacks.metrics.membership import MEASURES, Outputs
from attacks.metrics.success import Success, epsilon_of_auc_by_chance, epsilon_of_tpr_by_chance


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
    logits[np.arange(len(labels)), labels] = np.log(probability) - np.log1p(
        -np.asarray(probability)
    )
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
    """The gap attack's scores are 0.5 and -0.5: either nobody passes, or everybody whom the
    model classifies rightly.
    """
    for nonmembers, known in (
        (99, (False, False)),
        (100, (True, False)),
        (999, (True, False)),
        (1000, (True, True)),
    ):
        # Only if one non-member may pass the threshold, all four members pass it, too.
        scores = np.append([4.0, 2.0, 2.0, 2.0, 3.0], np.full(nonmembers - 1, -1.0))
        rates = membership.measure(scores, np.arange(len(scores)) < 4)
        values = [rates[name] for name in membership.LIMITS]
        assert values == [
            pytest.approx(1.0) if there else pytest.approx(np.nan, nan_ok=True) for there in known
        ]
    member = np.arange(2000) < 1000

    def found(passing):
        return membership.measure(
            np.where(member | (np.arange(2000) < 1000 + passing), 0.5, -0.5), member
        )

    assert np.isnan([found(11)["tpr_at_1_fpr"], found(2)["tpr_at_01_fpr"]]).all()
    assert (found(10)["tpr_at_1_fpr"], found(1)["tpr_at_01_fpr"]) == (1.0, 1.0)
    assert found(11)["auc"] == pytest.approx(1 - 0.011 / 2)


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_signals_are_those_of_the_softmax(classes, seed):
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(0, 3, (7, classes)).astype(np.float32), rng.integers(0, classes, 7)
    true = membership.probabilities(logits)[np.arange(7), labels]
    np.testing.assert_allclose(membership.probabilities(logits).sum(axis=1), 1)
    np.testing.assert_allclose(
        membership.losses(logits, labels), -np.log(true), rtol=1e-6, atol=1e-12
    )
    np.testing.assert_allclose(
        membership.confidences(logits, labels), np.log(true / (1 - true)), rtol=1e-6, atol=1e-6
    )


def test_the_confidence_attack_has_a_threshold_for_each_class():
    """Class 0 is easy for everybody, class 1 hard: one common threshold cannot part the members
    of both.
    """
    probability = [0.999, 0.998, 0.98, 0.97, 0.9, 0.8, 0.3, 0.2]
    member = [True, True, False, False] * 2
    outputs = outputs_of(probability, [0] * 4 + [1] * 4, member)
    assert (
        membership.balanced_accuracy(membership.confidence(outputs, outputs), outputs.member) == 1.0
    )
    assert (
        membership.balanced_accuracy(membership.loss_threshold(outputs, outputs), outputs.member)
        == 0.75
    )


@settings(deadline=None)
@given(st.integers(2, 5), st.integers(10, 60), st.integers(0, 2**32 - 1))
def test_the_gap_attack_is_as_accurate_as_half_the_gap(classes, each, seed):
    rng = np.random.default_rng(seed)
    logits, labels = (
        rng.normal(size=(2 * each, classes)).astype(np.float32),
        rng.integers(0, classes, 2 * each),
    )
    member = np.arange(2 * each) < each
    scores = membership.gap(None, Outputs(logits, labels, member))
    inside = sum(logits[i].argmax() == labels[i] for i in range(each)) / each
    outside = sum(logits[i].argmax() == labels[i] for i in range(each, 2 * each)) / each
    expected = 0.5 + (inside - outside) / 2
    assert membership.measure(scores, member)["balanced_accuracy"] == pytest.approx(
        expected, abs=1e-12
    )
    assert set(scores) <= {0.5, -0.5}


@pytest.mark.parametrize(
    ("nonmembers", "limit"), [(100, 0.01), (150, 0.01), (199, 0.01), (1000, 0.001), (30, 0.1)]
)
def test_a_tpr_at_a_small_fpr_by_chance_is_that_of_exchangeable_scores(nonmembers, limit):
    rng, member = np.random.default_rng(nonmembers), np.arange(50 + nonmembers) < 50
    found = np.array(
        [membership.tpr_at_fpr(rng.random(len(member)), member, limit) for _ in range(4000)]
    )
    expected = membership.tpr_by_chance(nonmembers, limit)
    assert found.mean() == pytest.approx(expected, abs=3.5 * found.std() / np.sqrt(len(found)))
    if nonmembers == 100:
        assert expected == 2 / 101 > 0.0195  # nearly twice the false positive rate that is seen


shares = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@given(shares)
def test_disparities_are_those_of_the_slow_definitions(values):
    n, mean = len(values), sum(values) / len(values)
    pairs = sum(abs(a - b) for a in values for b in values)
    assert (
        disparity.mad(values) == pytest.approx(pairs / n**2, abs=1e-12)
        and disparity.mad([0.1] * n) == 0
    )
    assert disparity.eod(values) == max(values) - min(values)
    if mean > 1e-6:
        gini = pairs / (2 * n**2 * mean)
        assert disparity.sen_welfare(values) == pytest.approx(mean * (1 - gini), abs=1e-12)
        variance = sum((value - mean) ** 2 for value in values) / n
        assert disparity.cov(values) == pytest.approx(variance**0.5 / mean, abs=1e-9)
        jain = sum(values) ** 2 / (n * sum(value**2 for value in values))
        assert disparity.fairness_index(disparity.cov(values)) == pytest.approx(jain)


def test_what_is_undefined_is_nan_and_warns_of_nothing():
    with np.errstate(all="raise"):
        assert np.isnan(disparity.cov([0.0, 0.0]))
        assert np.isnan(disparity.fairness_index(disparity.cov([0.0, 0.0])))
        assert disparity.sen_welfare([0.0, 0.0]) == 0
        for bad in (float("nan"), float("inf")):
            for measure in (disparity.cov, disparity.eod, disparity.mad, disparity.sen_welfare):
                assert np.isnan(measure([1.0, bad]))


def test_many_federations_at_once_have_the_disparities_of_each_alone():
    many = np.random.default_rng(0).random((3, 5, 7))
    many[0, 0], many[1, 1, 2] = 0, np.nan
    for measure in (disparity.cov, disparity.eod, disparity.mad, disparity.sen_welfare):
        each = [[measure(own) for own in some] for some in many]
        np.testing.assert_array_equal(measure(many), each)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_scipys_and_holds_the_share(drawn):
    hits, n = drawn
    theirs = stats.binomtest(hits, n).proportion_ci(method="wilson")
    low, high = disparity.wilson(hits, n)
    assert (float(low), float(high)) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0 <= low <= hits / n <= high <= 1


NOWHERE = dict.fromkeys(membership.MEASURES, (math.nan, math.nan))


def test_the_measures_of_a_membership_attack_are_those_of_an_example():
    rng = np.random.default_rng(0)
    member = np.arange(600) < 300
    success = Success.of(rng.normal(member * 1.0, 1) - 0.5, member, rng)
    rows = {row.metric: row for row in success.epsilons("risk")}
    assert list(rows) == [
        "epsilon_record",
        "epsilon_record_at_1_fpr",
        "epsilon_record_most",
    ]  # too few for 0.1 %
    of_auc, strict = rows["epsilon_record"], rows["epsilon_record_at_1_fpr"]
    assert of_auc.low < of_auc.value < of_auc.high and of_auc.chance == epsilon_of_auc_by_chance(
        300, 300
    )
    assert of_auc.value == pytest.approx(estimate_of_auc(success.values["auc"]).epsilon)
    # At the expected false positive rate: 3 of 300 may be above the threshold.
    assert strict.value == pytest.approx(
        estimate_of_rates(success.values["tpr_at_1_fpr"], 4 / 301).epsilon
    )
    assert strict.chance == epsilon_of_tpr_by_chance(300, 300, 0.01)
    certain = 0.05 ** (
        1 / 600
    )  # with which 600 guesses may all be right; delta takes a little of it
    assert rows["epsilon_record_most"].value == pytest.approx(
        math.log(certain / (1 - certain)), abs=0.03
    )
    nothing = Success(dict.fromkeys(membership.MEASURES, math.nan), NOWHERE, 0, 0).epsilons("risk")
    assert all(math.isnan(row.value) for row in nothing) and len(nothing) == 2


@pytest.mark.parametrize(("members", "nonmembers"), [(200, 200), (30, 150), (8, 120), (2, 100)])
def test_the_epsilon_of_an_example_by_chance_is_the_mean_over_exchangeable_scores(
    members, nonmembers
):
    """Through the measures, as a run has them; an estimate is never below 0, so its mean is
    above.
    """
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
    assert (
        epsilon_of_auc_by_chance(400, 20) == normal < drawn < 1.06 * normal
    )  # from one formula to the other
    assert (
        epsilon_of_auc_by_chance(20_000, 20_000) < 0.02
        and epsilon_of_tpr_by_chance(20_000, 20_000, 0.01) < 0.05
    )
    assert math.isnan(epsilon_of_auc_by_chance(0, 50)) and math.isnan(
        epsilon_of_tpr_by_chance(1, 100, 0.01)
    )


def normal(members, nonmembers, shift, seed):
    """Scores of members about ``shift``, of non-members about -``shift``, with deviation 1."""
    rng = np.random.default_rng(seed)
    scores = np.append(rng.normal(shift, 1, members), rng.normal(-shift, 1, nonmembers))
    return scores, np.arange(members + nonmembers) < members


@settings(deadline=None)
@given(st.integers(2, 12), st.integers(2, 12), st.booleans(), st.integers(0, 2**32 - 1))
def test_measures_of_copies_are_those_of_the_repeated_examples(m, n, ties, seed):
    rng = np.random.default_rng(seed)
    inside, outside = (
        np.sort(rng.integers(-3, 4, k) if ties else rng.normal(size=k))[::-1] for k in (m, n)
    )
    inside, outside = inside.astype(float), outside.astype(float)
    members, nonmembers = (
        rng.multinomial(m, np.full(m, 1 / m), 3),
        rng.multinomial(30 * n, np.full(n, 1 / n), 3),
    )
    found = measure_copies(inside, outside, members.astype(float), nonmembers.astype(float))
    for draw in range(3):
        scores = np.append(np.repeat(inside, members[draw]), np.repeat(outside, nonmembers[draw]))
        member = np.arange(len(scores)) < members[draw].sum()
        expected = membership.measure(scores, member)
        expected["tpr_at_1_fpr"] = membership.tpr_at_fpr(scores, member, 0.01)
        expected["tpr_at_01_fpr"] = membership.tpr_at_fpr(scores, member, 0.001)
        np.testing.assert_allclose(
            found[:, draw], [expected[name] for name in MEASURES], atol=1e-12
        )


def slowly(scores, member, rng, resamples, owner=None):
    """Draw examples, or whole clients, and measure; again and again."""
    values = []
    for _ in range(resamples):
        if owner is None:
            drawn = [rng.choice(own, len(own)) for own in map(np.flatnonzero, (member, ~member))]
        else:
            clients = np.unique(owner)
            drawn = [
                np.flatnonzero(owner == client) for client in rng.choice(clients, len(clients))
            ]
        chosen = np.concatenate(drawn)
        found = membership.measure(scores[chosen], member[chosen])
        for name, limit in module.LIMITS.items():
            found[name] = membership.tpr_at_fpr(scores[chosen], member[chosen], limit)
        values.append([found[name] for name in MEASURES])
    return np.array(values)


@pytest.mark.parametrize("by_client", [False, True])
def test_intervals_are_those_of_a_slow_bootstrap(by_client):
    """Ends are compared in units of the deviation of the resamples: quantiles of 1 000 and 4 000
    draws vary by 0.1.
    """
    scores, member = normal(120, 1100, 0.5, 0)
    owner = np.random.default_rng(1).integers(0, 15, len(scores)) if by_client else None
    found = intervals(scores, member, np.random.default_rng(0), 4000, owner)
    slow = slowly(scores, member, np.random.default_rng(2), 1000, owner)
    measured, by = membership.measure(scores, member), 1.0
    if by_client:
        sizes = np.bincount(owner)
        clients = sizes.sum() ** 2 / (sizes**2).sum()
        by = (
            stats.t(clients - 1).ppf(0.975)
            / stats.norm.ppf(0.975)
            * (clients / (clients - 1)) ** 0.5
        )
        assert 1.1 < by < 1.2
    for at, name in enumerate(MEASURES):
        value, widened = measured[name], 1.0 if name == "auc" else by
        if np.isnan(value):
            continue
        ends = [value + widened * (end - value) for end in np.quantile(slow[:, at], [0.025, 0.975])]
        assert found[name] == pytest.approx(tuple(ends), abs=0.3 * slow[:, at].std() + 1 / 120)


COVERED = 400  # planted attacks; 0.95 is measured with a deviation of 0.011


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0])
def test_nineteen_of_twenty_intervals_hold_the_truth(shift):
    truth = {"balanced_accuracy": stats.norm.cdf(shift), "auc": stats.norm.cdf(2 * shift / 2**0.5)}
    truth |= {"tpr": truth["balanced_accuracy"], "tnr": truth["balanced_accuracy"]}
    held = dict.fromkeys(truth, 0)
    for seed in range(COVERED):
        found = intervals(*normal(100, 100, shift, seed), np.random.default_rng([1, seed]), 400)
        for name, value in truth.items():
            held[name] += found[name][0] <= value <= found[name][1]
    for name in ("balanced_accuracy", "auc"):
        assert 0.92 <= held[name] / COVERED <= 0.985
    assert min(held["tpr"], held["tnr"]) / COVERED >= 0.9  # a share of 100 has steps of 0.01


@pytest.mark.parametrize("apart", [False, True])
def test_a_clients_members_and_non_members_are_drawn_together(apart):
    """What all scores of a client have in common cancels out; if it moves its two sides apart,
    it counts twice.
    """
    member, owner, held, widths = np.arange(1000) < 500, np.arange(1000) % 50, 0, []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        shift = rng.normal(0, 1, 50)[owner] * np.where(member | ~np.array(apart), 1, -1)
        low, high = intervals(shift + rng.normal(0, 0.5, 1000), member, rng, 200, owner)[
            "balanced_accuracy"
        ]
        held, widths = held + (low <= 0.5 <= high), [*widths, high - low]
    assert held >= 85  # of 95; a bootstrap of 50 clients is a little too narrow
    assert (
        np.mean(widths) > 0.18 if apart else np.mean(widths) < 0.08
    )  # drawn separately, 0.15 in both cases


def test_few_clients_of_unequal_sizes_have_intervals_that_are_wide_enough():
    """Members and non-members of 12 clients, who differ; with plain resampling 0.90 of these
    intervals hold 0.5.
    """
    rng, runs, held = np.random.default_rng(1), 200, 0
    for _ in range(runs):
        sizes = np.maximum(2, (rng.dirichlet(np.ones(12)) * 600).astype(int))
        owner = np.repeat(np.arange(12), 2 * sizes)
        member = np.concatenate([np.arange(2 * size) < size for size in sizes])
        scores = rng.normal(size=len(owner)) + rng.normal(size=12)[owner]
        low, high = intervals(scores - np.median(scores), member, rng, 200, owner)[
            "balanced_accuracy"
        ]
        held += low <= 0.5 <= high
    assert 0.93 - 0.015 < held / runs < 0.97 + 0.015


def test_the_auc_of_a_decision_has_the_interval_of_the_decision():
    """Scores that tie vary less than others: AUC and balanced accuracy are the same number here."""
    member = np.arange(400) < 200
    scores = np.where((np.arange(400) % 200) < np.where(member, 198, 194), 1.0, -1.0)
    found = intervals(scores, member, np.random.default_rng(0))
    assert found["auc"] == pytest.approx(found["balanced_accuracy"], abs=4e-3)


def test_a_rate_of_one_of_few_examples_is_not_certain():
    """Perfect on 20 + 10: each end is that of a formula."""
    scores, member = np.append(np.linspace(1, 2, 20), np.linspace(-2, -1, 10)), np.arange(30) < 20
    found = intervals(scores, member, np.random.default_rng(0))
    of_20, of_10 = (stats.binomtest(n, n).proportion_ci(method="wilson").low for n in (20, 10))
    assert found["tpr"] == pytest.approx((of_20, 1.0)) and found["tnr"] == pytest.approx(
        (of_10, 1.0)
    )
    assert found["auc"] == pytest.approx((of_20, 1.0))  # 3 / (1/20 + 1/10) pairs
    assert found["balanced_accuracy"] == pytest.approx(
        (1 - np.hypot(1 - of_20, 1 - of_10) / 2, 1.0)
    )
    assert np.isnan(found["tpr_at_1_fpr"]).all()
    all_members = intervals(np.ones(40), np.arange(40) < 20, np.random.default_rng(0))
    assert all_members["auc"][0] < 0.45 and all_members["auc"][1] > 0.55


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 15), st.integers(10, 15), st.booleans(), st.integers(0, 2**32 - 1))
def test_intervals_hold_what_was_measured_and_have_a_width(members, nonmembers, by_client, seed):
    rng = np.random.default_rng(seed)
    scores, member = (
        rng.integers(-2, 3, members + nonmembers).astype(float),
        np.arange(members + nonmembers) < members,
    )
    owner = rng.integers(-1, 4, len(scores)) if by_client else None
    measured, found = membership.measure(scores, member), intervals(scores, member, rng, 60, owner)
    for name, (low, high) in found.items():
        if not np.isnan(low):
            assert 0 <= low <= measured[name] <= high <= 1 and high - low > 0.01
        else:
            assert np.isnan(high) and (np.isnan(measured[name]) or by_client)


def test_what_is_not_measured_and_one_client_alone_have_no_interval():
    few = intervals(*normal(20, 9, 0.3, 0), np.random.default_rng(0))
    diverged = intervals(np.full(40, np.nan), np.arange(40) < 20, np.random.default_rng(0))
    scores, member = normal(30, 30, 0.3, 5)
    of_one = intervals(
        scores, member, np.random.default_rng(0), 100, np.where(member, 3, np.arange(60))
    )
    assert set(few) == set(diverged) == set(MEASURES)
    assert np.isnan([*few.values(), *diverged.values(), *of_one.values()]).all()
    found = intervals(*normal(50, 150, 0.3, 0), np.random.default_rng(0))
    assert not np.isnan(found["tpr_at_1_fpr"]).any() and np.isnan(found["tpr_at_01_fpr"]).all()
