"""The calibrated family against other libraries' own functions, slow obvious versions and
planted members.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from attacks import calibrated_mia
from attacks.interfaces import Answers, Pool
from attacks.metrics import calibrated, membership, targets
from attacks.metrics.calibrated import METHODS, References, cross_scores
from attacks.metrics.targets import Targets, aucs, decide, over_targets, precision
from datasets.federation import Examples
from tests.support.audit_oracles import comparison, oracles, ours, stored

FEW, MANY = stored("few"), stored("many")


def drawn(
    seed: int, replicas: int, records: int, lift: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Confidences of complementary replicas in which members are lifted, by another amount for
    every record.
    """
    rng = np.random.default_rng(seed)
    halves = np.stack([rng.permutation(records) < records // 2 for _ in range(replicas // 2)])
    inside = np.stack([halves, ~halves], axis=1).reshape(replicas, records)
    phi = 2 * rng.normal(size=records) + inside * lift * rng.exponential(size=records)
    return phi + np.exp(0.3 * rng.normal(size=records)) * rng.normal(size=inside.shape), inside


def one_kind(records: int) -> np.ndarray:
    return np.zeros(records, np.int64)


@pytest.mark.parametrize(
    ("name", "variance"), [("few", "pooled"), ("few", "own"), ("many", "pooled"), ("many", "own")]
)
def test_lira_online_is_that_of_tensorflow_privacy(name, variance):
    target, references, _ = stored(name)
    theirs = oracles()[f"tensorflow_both_mean_{variance}_{name}"]
    assert METHODS["lira"](target, references, variance) == pytest.approx(
        theirs, rel=1e-9, abs=1e-9
    )


def test_lira_with_own_deviations_is_that_of_leakpro_from_64_references_on():
    target, references, _ = MANY
    theirs = oracles()["leakpro_lira_online_many"]
    assert METHODS["lira"](target, references, "auto") == pytest.approx(theirs, rel=1e-9, abs=1e-9)
    z = METHODS["lira_offline"](target, references, "auto")
    assert stats.norm.logcdf(z) == pytest.approx(
        oracles()["leakpro_lira_offline_many"], rel=1e-6, abs=1e-9
    )


def test_base_is_that_of_leakpro():
    for kind, method in (("online", "base"), ("offline", "base_offline")):
        assert METHODS[method](*FEW[:2]) == pytest.approx(
            oracles()[f"leakpro_base_{kind}"], rel=1e-6, abs=1e-6
        )


def test_rmia_is_that_of_leakpro_and_of_privacy_meter():
    records = len(FEW[0])
    # LeakPro adds 1e-6 to what it divides by, which may change the order of records that are nearly
    # tied.
    assert METHODS["rmia"](*FEW[:2]) == pytest.approx(
        oracles()["leakpro_rmia_online"], abs=2.5 / records
    )
    assert METHODS["rmia_offline"](*FEW[:2]) == pytest.approx(
        oracles()["meter_rmia_offline"], abs=1.5 / records
    )


def test_the_stored_comparison_is_what_all_of_them_say():
    table = comparison()["target"]
    for method, said in ours().items():
        assert table["fedpriv"][method] == pytest.approx(said, rel=1e-9), method
    assert table["fedpriv"]["base"]["auc"] == pytest.approx(
        table["LeakPro"]["base"]["auc"], abs=1e-9
    )
    theirs = table["ML Privacy Meter"]["rmia_offline"]["auc"]
    assert table["fedpriv"]["rmia_offline"]["auc"] == pytest.approx(theirs, abs=1e-3)
    assert table["fedpriv"]["loss"]["auc"] == pytest.approx(
        table["ML Privacy Meter"]["loss"]["auc"], abs=1e-9
    )
    said = [table[one]["lira"]["epsilon_one_run"] for one in ("fedpriv", "jax_privacy")]
    assert said[0] == pytest.approx(said[1], abs=1e-5)


def test_records_far_below_the_others_are_no_members_offline():
    """The published LiRA's offline score is two-sided, which takes them for members, as
    TensorFlow Privacy's does.
    """
    target, references, member = FEW
    low = np.argmin(METHODS["lira_offline"](target, references))
    ranks = stats.rankdata(METHODS["lira_offline"](target, references))
    two_sided = oracles()["tensorflow_out_mean_pooled_few"]
    assert ranks[low] == 1 and stats.rankdata(two_sided)[low] > len(target) / 2
    offline = membership.auc(METHODS["lira_offline"](target, references), member)
    assert offline > membership.auc(two_sided, member) + 0.1


def test_all_methods_are_what_their_formulas_say_record_by_record():
    phi, inside = drawn(0, 10, 30, lift=1.0)
    target = phi[9] + 0.5
    references = References(phi, inside, np.arange(30) % 2)
    log_p, l_target = -np.log1p(np.exp(-phi)), -np.log1p(np.exp(-target))
    residuals = {side: [] for side in (True, False)}
    for k in range(30):
        for side in (True, False):
            own = phi[inside[:, k] == side, k]
            residuals[side] += (own - own.mean()).tolist()
    s = {side: np.sqrt(np.mean(np.square(residuals[side]))) for side in (True, False)}
    for k in range(30):
        came, stayed = phi[inside[:, k], k], phi[~inside[:, k], k]
        ratio = stats.norm.logpdf(target[k], came.mean(), s[True])
        ratio -= stats.norm.logpdf(target[k], stayed.mean(), s[False])
        assert METHODS["lira"](target, references)[k] == pytest.approx(ratio)
        assert METHODS["lira_offline"](target, references)[k] == pytest.approx(
            (target[k] - stayed.mean()) / s[False]
        )
        base = l_target[k] - logsumexp(log_p[:, k]) + np.log(10)
        assert METHODS["base"](target, references)[k] == pytest.approx(base)
        r = {z: np.exp(l_target[z]) / np.exp(log_p[:, z]).mean() for z in range(30)}
        share = np.mean([r[k] > r[z] for z in range(30) if z % 2 == k % 2])
        assert METHODS["rmia"](target, references)[k] == pytest.approx(share)
        assert METHODS["loss"](target, references)[k] == target[k]


def test_bavaria_is_the_textbooks_predictive():
    """Against numerical integration of the normal likelihood over the posterior of mean and
    variance.
    """
    phi, inside = drawn(3, 8, 40, lift=1.0)
    side = calibrated.moments(phi, inside)
    own = phi[inside[:, 7], 7]
    center = float(phi[inside].mean())
    pooled = side.squares.sum() / (side.count - 1).sum()
    variances = np.exp(np.linspace(-9, 9, 600)) * pooled
    means = np.linspace(own.mean() - 40, own.mean() + 40, 1601)
    v, m = np.meshgrid(variances, means, indexing="ij")
    log = stats.invgamma.logpdf(
        v, calibrated.PRIOR_SHAPE, scale=(calibrated.PRIOR_SHAPE - 1) * pooled
    ) + np.log(v)
    log += stats.norm.logpdf(m, center, np.sqrt(v / calibrated.PRIOR_COUNT))
    log += sum(stats.norm.logpdf(x, m, np.sqrt(v)) for x in own)
    for x in (own.mean(), own.mean() + 3):
        target = np.zeros(40)
        target[7] = x
        expected = logsumexp(log + stats.norm.logpdf(x, m, np.sqrt(v))) - logsumexp(log)
        assert calibrated.predictive(target, side)[7] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_memorized_examples_are_told_apart_and_exchangeable_ones_are_not(method):
    """Hard examples that are known by heart where they were trained on; otherwise 0.5 within
    four standard errors.
    """
    phi, inside = drawn(1, 16, 200)
    assert (
        aucs(cross_scores(method, phi + 12.0 * inside - 4, inside, one_kind(200)), inside).min()
        > 0.95
    )
    means = []
    for seed in range(30):
        phi, inside = drawn(seed, 8, 60)
        scores = cross_scores(method, phi, inside, one_kind(60))
        means.append(
            np.mean(
                [membership.auc(score, said) for score, said in zip(scores, inside, strict=True)]
            )
        )
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    assert error < 0.01 and abs(np.mean(means) - 0.5) < 4 * error


def test_a_target_is_scored_without_its_complement():
    """With it, a record that was in fewer references was in the target, whatever the
    confidences.
    """
    phi, inside = drawn(4, 16, 400)
    assert cross_scores("base", phi, inside, one_kind(400))[3] == pytest.approx(
        METHODS["base"](
            phi[3],
            References(np.delete(phi, [2, 3], 0), np.delete(inside, [2, 3], 0), one_kind(400)),
        )
    )


def coverage(
    method: str, replicas: int, lift: float, truth: float | None = None
) -> tuple[float, float]:
    """Shares of intervals that hold the truth: ours, and those that take pairs for independent."""
    means, ours, plain = [], [], []
    records = np.random.default_rng(99)
    center, spread = 2 * records.normal(size=80), np.exp(0.3 * records.normal(size=80))
    lifted = records.exponential(size=80)
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
    assert (
        over_targets(np.ones(16))[0] == 1 and np.isnan(over_targets(np.ones(16))[1:]).all()
    )  # not certain of 1
    values = np.array([0.5, 0.6, np.nan, 0.9, 0.5, 0.7, 0.6, 0.6])
    mean, low, high = over_targets(values)
    assert mean == pytest.approx(np.mean([0.55, 0.6, 0.6])) and low < mean < high


def test_precision_over_targets_is_at_the_mean_rates_with_an_interval():
    tpr, fpr = np.tile([0.2, 0.3], 8), np.tile([0.01, 0.0, 0.02, 0.01], 4)
    value, low, high = targets.precision_over_targets(tpr, fpr, 0.1)
    assert value == pytest.approx(precision(0.25, 0.01, 0.1)) and low < value < high
    assert precision(0.02, 0.02, 0.1) == pytest.approx(0.1) and np.isnan(precision(0.0, 0.0, 0.1))
    assert np.isnan(targets.precision_over_targets(tpr[:4], fpr[:4], 0.1)[1:]).all()


def told(scores: np.ndarray) -> targets.Rehearsal:
    """Rehearsals whose scores need no references."""
    return lambda pair, replicas: scores[list(replicas)]


def answers_of(phi: np.ndarray, inside: np.ndarray) -> Answers:
    records = phi.shape[1]
    zeros = np.zeros(records, np.int64)
    pool = Pool(
        Examples(np.zeros((records, 1), np.float32), zeros),
        zeros,
        zeros == 0,
        np.zeros(records, np.float32),
    )
    return Answers(pool, inside, phi, phi[0], zeros, ("global",), zeros, ("all",))


def test_thresholds_do_not_look_at_the_target_or_at_its_complement():
    """Nor do rehearsals have them as references: whatever the third pair says and had, its
    thresholds are the same.
    """
    phi, inside = drawn(0, 16, 100, lift=2.0)
    of_another = phi.copy(), inside.copy()
    of_another[0][4:6] += 3 * np.random.default_rng(0).normal(size=(2, 100))
    of_another[1][4:6] = ~inside[4:6]

    def shifts(method: str, phi: np.ndarray, inside: np.ndarray) -> np.ndarray:
        seen = calibrated_mia.Seen(answers_of(phi, inside), np.arange(100), "auto")
        scores = cross_scores(method, phi, inside, one_kind(100))
        return scores - seen.attack(method).replicas.scores

    for method in METHODS:
        before, after = shifts(method, phi, inside), shifts(method, *of_another)
        assert before[4:6] == pytest.approx(after[4:6], abs=1e-9), method
        assert np.abs(before[:4] - after[:4]).max() > 1e-3  # it does set thresholds of others


def test_a_threshold_for_1_percent_is_passed_by_about_1_percent_of_another_targets_nonmembers():
    phi, inside = drawn(7, 16, 2000)
    strict = decide(phi, phi, told(phi), inside, one_kind(2000), np.arange(16) // 2)[1]
    rates = Targets(phi, strict, inside).measures()
    assert rates["fpr_set_to_1"].mean() == pytest.approx(0.01, abs=0.003)
    assert rates["tpr_set_to_1"].mean() == pytest.approx(0.01, abs=0.003)  # exchangeable


def test_fewer_than_99_nonmembers_set_no_threshold_for_1_percent():
    """Of 40, the highest would be passed by 2.4 %."""
    phi, inside = drawn(7, 4, 40)
    shifted, strict = decide(phi, phi, told(phi), inside, one_kind(40), np.arange(4) // 2)
    rates = Targets(shifted, strict, inside).measures()
    assert (
        np.isnan([rates["fpr_set_to_1"], rates["tpr_set_to_1"]]).all()
        and not np.isnan(rates["auc"]).any()
    )


def test_each_kind_has_thresholds_of_its_own_and_none_where_others_had_all_examples_or_none():
    phi, inside = drawn(0, 16, 200, lift=3.0)
    kind = np.arange(200) % 2
    moved = phi + np.where(kind == 1, 50.0, 0.0)
    (plain, strict), (shifted, as_strict) = (
        decide(scores, scores, told(scores), inside, kind, np.arange(16) // 2)
        for scores in (phi, moved)
    )
    assert shifted == pytest.approx(plain) and np.array_equal(strict, as_strict)
    phi, inside = drawn(0, 2, 8)
    inside[:, :4], inside[:, 4:] = [[True], [False]], [[True, False] * 2, [False, True] * 2]
    shifted, strict = decide(
        phi, phi, told(phi), inside, np.repeat([0, 1], 4), np.zeros(2, np.int64)
    )
    assert (
        np.isnan(shifted[:, :4]).all()
        and np.isnan(strict).all()
        and not np.isnan(shifted[:, 4:]).any()
    )
    estimates = Targets(shifted, strict, inside).estimates()
    assert np.isnan([value for estimate in estimates.values() for value in estimate]).all()
