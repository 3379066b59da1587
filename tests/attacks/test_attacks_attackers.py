"""The mean success of several attackers against slow obvious versions, and how often its interval holds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.metrics import membership
from attacks.metrics.attackers import MEASURED, best, placements, successes

fast = settings(max_examples=60, deadline=None)


@fast
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 12), st.integers(10, 16))
def test_each_attackers_success_is_that_of_its_own_examples(seed: int, count: int, members: int, others: int) -> None:
    rng = np.random.default_rng(seed)
    n = members + others
    scores, member = rng.integers(-3, 4, (count, n)).astype(float), np.arange(n) < members
    asked = rng.random((count, n)) < 0.9
    found = successes(scores, asked, member)
    for i in range(count):
        own = membership.measure(scores[i, asked[i]], member[asked[i]])
        for name in MEASURED:
            assert found.by_attacker[name][i] == pytest.approx(own[name], nan_ok=True)
    for name in MEASURED:
        known = found.by_attacker[name][~np.isnan(found.by_attacker[name])]
        value, low, high = found.mean[name]
        assert value == pytest.approx(known.mean() if len(known) else np.nan, nan_ok=True)
        assert np.isnan(value) or np.isnan(low) or low <= value <= high


def test_a_placement_is_the_share_of_pairs_that_are_ordered_rightly() -> None:
    rng = np.random.default_rng(1)
    scores, member = rng.integers(0, 5, 30).astype(float), rng.random(30) < 0.4
    pairs = np.sign(scores[member][:, None] - scores[~member][None, :]) / 2 + 0.5
    found = placements(scores, member)
    assert found[member] == pytest.approx(pairs.mean(axis=1))
    assert found[~member] == pytest.approx(pairs.mean(axis=0))


def test_for_one_attacker_the_interval_is_that_of_delong_by_pairs() -> None:
    """Sen's variance, written out over all pairs: var(rows) / m + var(columns) / n."""
    rng = np.random.default_rng(2)
    scores, member = rng.normal(size=50), np.arange(50) < 20
    wins = (scores[:20, None] > scores[None, 20:]).astype(float)
    reach = 1.959963985 * np.sqrt(wins.mean(axis=1).var(ddof=1) / 20 + wins.mean(axis=0).var(ddof=1) / 30)
    value, low, high = successes(scores[None], np.ones((1, 50), bool), member).mean["auc"]
    assert (value, low, high) == pytest.approx((wins.mean(), wins.mean() - reach, wins.mean() + reach), abs=1e-6)


@pytest.mark.parametrize("name", MEASURED)
def test_attackers_that_agree_know_no_more_than_one(name: str) -> None:
    rng = np.random.default_rng(3)
    scores, member = rng.normal(size=60), np.arange(60) < 30
    one = successes(scores[None], np.ones((1, 60), bool), member).mean[name]
    five = successes(np.tile(scores, (5, 1)), np.ones((5, 60), bool), member).mean[name]
    assert five == pytest.approx(one)


@pytest.mark.parametrize(("name", "shift"), [("auc", 0.0), ("auc", 1.0), ("balanced_accuracy", 1.0)])
def test_the_interval_holds_the_truth_in_nineteen_of_twenty_federations(name: str, shift: float) -> None:
    """Six attackers with thresholds of their own ask about the same examples; AUC of N(shift, 1) against N(0, 1)."""
    from scipy.stats import norm

    rng, m, n, held = np.random.default_rng(4), 60, 80, 0
    offsets = np.linspace(0, 1, 6)
    truth = norm.cdf(shift / np.sqrt(2))
    if name == "balanced_accuracy":
        truth = np.mean((norm.sf(offsets - shift) + norm.cdf(offsets)) / 2)
    member = np.arange(m + n) < m
    for _ in range(400):
        signal = rng.normal(size=m + n) + shift * member
        found = successes(signal[None] - offsets[:, None], np.ones((6, m + n), bool), member)
        held += found.mean[name][1] <= truth <= found.mean[name][2]
    assert 0.92 <= held / 400 <= 0.98


def test_what_is_found_without_exception_has_wilsons_interval() -> None:
    member = np.arange(40) < 20
    found = successes(np.where(member, 1.0, -1.0)[None], np.ones((1, 40), bool), member)
    assert found.mean["auc"] == pytest.approx((1, 0.839, 1), abs=1e-3)


def test_whoever_cannot_be_measured_is_left_out() -> None:
    member = np.arange(30) < 15
    asked = np.ones((3, 30), bool)
    asked[0, :15] = False  # no member to tell
    asked[1, 18:] = False  # three non-members
    found = successes(np.where(member, 1.0, -1.0) * np.ones((3, 1)), asked, member)
    assert np.isnan(found.by_attacker["auc"]).tolist() == [True, True, False]
    assert best(found) == 2
    assert best(successes(np.zeros((1, 30)), asked[:1], member)) is None
    assert np.isnan(successes(np.zeros((1, 30)), asked[:1], member).mean["auc"][0])
