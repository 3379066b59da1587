"""Metrics against hand-computed examples, and properties that hold whatever the data."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearns

from algorithms.metrics import classification, fairness, violations
from algorithms.metrics import clusters as sorting

ABSOLUTE = {"demographic_parity", "equal_opportunity", "equalized_odds"}
SIGNED = {"equal_opportunity_signed", "equalized_odds_signed"}


@st.composite
def predictions(draw, classes: int = 3):
    """Predictions, labels and group of some examples; both groups are present."""
    row = st.tuples(st.integers(0, classes - 1), st.integers(0, classes - 1), st.booleans())
    rows = draw(st.lists(row, min_size=2, max_size=40))
    predicted, labels, privileged = (np.array(column) for column in zip(*rows, strict=True))
    privileged[:2] = [True, False]
    return predicted, labels, privileged


def test_fairness_of_three_classes_by_hand():
    labels = np.array([0, 0, 1, 1, 2, 2])
    ours, theirs = np.array([0, 0, 1, 1, 2, 0]), np.array([0, 1, 1, 2, 2, 2])
    found = fairness.fairness(
        np.append(ours, theirs), np.tile(labels, 2), np.arange(12) < 6, classes=3
    )
    # Shares of predictions: (3, 2, 1) / 6 and (1, 2, 3) / 6.
    assert found["demographic_parity"] == pytest.approx((2 + 0 + 2) / 6 / 3)
    # True positive rates: (1, 1, 1/2) and (1/2, 1/2, 1).
    assert found["equal_opportunity"] == pytest.approx(0.5)
    assert found["equal_opportunity_signed"] == pytest.approx(0.5 / 3)
    # False positive rates: (1/4, 0, 0) and (0, 1/4, 1/4).
    assert found["equalized_odds"] == pytest.approx((0.5 + 0.25) / 2)
    assert found["equalized_odds_signed"] == pytest.approx(
        (0.5 + 0.25 + 0.5 - 0.25 - 0.5 - 0.25) / 6
    )


@settings(deadline=None)
@given(predictions())
def test_swapping_the_groups_turns_the_sign(case):
    predicted, labels, privileged = case
    one, other = (
        fairness.fairness(predicted, labels, group, 3) for group in (privileged, ~privileged)
    )
    assert set(one) == ABSOLUTE | SIGNED
    for name in one:
        turned = -other[name] if name in SIGNED else other[name]
        assert one[name] == pytest.approx(turned, nan_ok=True)


BY_CHANCE = ("demographic_parity", "equal_opportunity", "equalized_odds")


def decided(n: int, classes: int, seed: int, share: float = 0.8):
    """Predictions that are right three times of four, whatever the group."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    predicted = np.where(rng.random(n) < 0.7, labels, rng.integers(0, classes, n))
    return predicted, labels, rng.random(n) < share


@pytest.mark.parametrize(
    ("n", "classes", "share", "clients"),
    [(300, 4, 0.8, 300), (300, 4, 0.5, 12), (40, 10, 0.5, 40), (25, 3, 0.1, 25)],
)
def test_fairness_by_chance_is_the_mean_over_permuted_groups_of_clients(n, classes, share, clients):
    predicted, labels, group = decided(n, classes, n, share)
    group, owner = group[:clients], np.arange(n) * clients // n
    predicted = np.where(
        owner % 3 == 0, 0, predicted
    )  # some clients get one class only, so that examples are alike
    rng, draws = np.random.default_rng(0), 1500
    permuted = [
        fairness.fairness(predicted, labels, rng.permutation(group)[owner], classes)
        for _ in range(draws)
    ]
    found = fairness.by_chance(predicted, labels, group[owner], classes, 7 + 5 * owner, rng, draws)
    assert tuple(found) == BY_CHANCE
    for name in BY_CHANCE:
        slow = np.array([one[name] for one in permuted])
        slow = slow[
            ~np.isnan(slow)
        ]  # with few examples, a permutation may leave a group without any label to compare
        assert found[name] == pytest.approx(
            slow.mean(), abs=4 * slow.std() * (2 / len(slow)) ** 0.5
        )
        assert found[name] > 0.01


def test_an_empty_group_has_no_fairness_by_chance_and_a_seed_repeats_it():
    predicted, labels, privileged = decided(50, 3, 0)

    def null(*given, seed):
        chance = np.random.default_rng(seed)
        return fairness.by_chance(*given, 3, np.arange(len(given[0])), chance)

    for group in (np.ones(50, bool), np.zeros(50, bool)):
        assert np.isnan(list(null(predicted, labels, group, seed=0).values())).all()
    none = np.zeros(0, np.int64)
    assert np.isnan(list(null(none, none, none > 0, seed=0).values())).all()
    assert null(predicted, labels, privileged, seed=5) == null(
        predicted, labels, privileged, seed=5
    )


def test_a_risk_equal_to_the_tolerance_is_no_violation():
    thresholds, risks = np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.6, 0.75])
    assignment = np.array([0, 0, 1, 1])
    assert violations.violations(thresholds, risks, assignment) == 2
    assert (
        violations.violations(
            thresholds, risks, assignment, among=np.array([True, True, False, False])
        )
        == 1
    )
    assert violations.violations(thresholds, risks, assignment, among=np.zeros(4, bool)) == 0


def test_violations_are_unknown_only_where_a_risk_in_use_is_unknown():
    thresholds, risks = np.full(3, 0.6), np.array([0.7, np.nan])
    assert violations.violations(thresholds, risks, np.array([0, 0, 0])) == 3
    assert np.isnan(violations.violations(thresholds, risks, np.array([0, 0, 1])))
    assert (
        violations.violations(
            thresholds, risks, np.array([0, 0, 1]), among=np.array([True, True, False])
        )
        == 2
    )


def test_the_violations_by_chance_are_those_of_simulated_attackers_who_guess():
    """The sizes of the quickstart: 40 clients, tolerances from 0.5 to 0.8, 80 examples of one
    model, 700 of another.
    """
    rng, draws = np.random.default_rng(0), 4000
    thresholds, assignment = rng.permutation(np.linspace(0.5, 0.8, 40)), np.repeat([0, 1], [34, 6])
    examples = np.array([700, 80])

    def exceeds(cluster: int, limits: np.ndarray) -> np.ndarray:
        n = examples[cluster]  # members, and as many non-members: together one binomial
        return stats.binom.sf(np.floor(limits * 2 * n + 1e-9), 2 * n, 0.5)

    found = []
    for _ in range(draws):
        said = [rng.random((2, n)) < 0.5 for n in examples]  # of members, of non-members
        risks = np.array([(one[0].mean() + (~one[1]).mean()) / 2 for one in said])
        found.append(violations.violations(thresholds, risks, assignment))
    expected = violations.violations_null(thresholds, assignment, exceeds)
    assert expected == pytest.approx(np.mean(found), abs=4 * np.std(found) / draws**0.5)
    assert 0.8 < expected < 2


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ([0, 0, 1, 1], 1.0),
        ([1, 1, 0, 0], 1.0),
        ([0, 0, 0, 0], 0.5),
        ([0, 1, 0, 1], 0.5),
        ([0, 0, 0, 1], 0.75),
    ],
)
def test_purity(assignment, expected):
    assert sorting.purity(np.array(assignment), np.array([0, 0, 1, 1]), 2) == expected


NAMING = [
    # assignment, groups, previous, names
    ([0, 0, 0, 1], [0, 0, 0, 1], (), ("majority", "minority")),
    ([1, 1, 1, 0], [0, 0, 0, 1], (), ("minority", "majority")),
    ([1, 1, 1, 0], [0, 0, 0, 1], ("majority", "minority"), ("minority", "majority")),
    # Most minority clients have moved; the one who stayed still names the model.
    ([0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 1, 1], (), ("majority", "minority")),
    # Model 1 is empty and takes what is left.
    ([0, 0, 0, 0], [0, 0, 0, 1], (), ("majority", "minority")),
    ([1, 1, 1, 1], [0, 0, 0, 1], ("majority", "minority"), ("minority", "majority")),
    # A tie keeps the names, or follows the order of the models.
    ([0, 1, 0, 1], [0, 0, 1, 1], ("minority", "majority"), ("minority", "majority")),
    ([0, 1, 0, 1], [0, 0, 1, 1], (), ("majority", "minority")),
    ([1, 1, 1, 1], [0, 0, 1, 1], ("minority", "majority"), ("minority", "majority")),
    # Both models are mostly used by the majority; the purer user base does not win, more agreement
    # does.
    ([0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1], (), ("majority", "minority")),
]


@pytest.mark.parametrize(("assignment", "groups", "previous", "expected"), NAMING)
def test_models_are_named_after_the_groups_that_use_them(assignment, groups, previous, expected):
    assert sorting.name_models(np.array(assignment), np.array(groups), 2, previous) == expected


def test_one_model_is_named_after_the_group_that_is_most_of_its_users():
    assert sorting.name_models(np.zeros(3, np.int64), np.array([0, 0, 1]), 1) == ("majority",)
    assert sorting.name_models(np.zeros(3, np.int64), np.array([0, 1, 1]), 1) == ("minority",)


def test_models_beyond_the_groups_are_the_others():
    assignment, groups = np.array([2, 2, 2, 0, 1]), np.array([0, 0, 0, 1, 0])
    assert sorting.name_models(assignment, groups, 3) == ("minority", "other_1", "majority")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=30))
def test_no_other_naming_agrees_more_with_the_groups(clients):
    assignment, groups = (np.array(column) for column in zip(*clients, strict=True))

    def agreement(names) -> int:
        return sum(names[j] == ("majority", "minority")[g] for j, g in clients)

    every = ["majority", "minority", "-", "-", "-"]
    best = max(agreement(names) for names in permutations(every))
    found = sorting.name_models(assignment, groups, 5)
    assert agreement(found) == best
    assert len(set(found)) == 5
    assert sorting.name_models(assignment, groups, 5, previous=found) == found


def test_gaps_run_from_the_minority_model_to_the_majority_model():
    losses, models = np.array([[0.2, 0.9], [0.5, 0.1]]), ("minority", "majority")
    np.testing.assert_allclose(sorting.loss_gap(losses, models), [0.7, -0.4])
    assert sorting.risk_gap(np.array([0.75, 0.55]), models) == pytest.approx(0.2)
    assert np.isnan(sorting.loss_gap(losses[:, :1], ("majority",))).all()
    assert np.isnan(sorting.risk_gap(np.array([0.6]), ("majority",)))


def outputs(classes: int, examples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, examples)
    logits = rng.normal(size=(examples, classes)).astype(np.float32)
    logits[np.arange(examples), labels] += 1
    return logits, labels


@pytest.mark.parametrize(("classes", "examples"), [(2, 30), (4, 200), (10, 77)])
def test_macro_f1_and_precision_are_those_of_scikit_learn(classes, examples):
    logits, labels = outputs(classes, examples, classes)
    predicted = logits.argmax(axis=1)
    f1, precision = classification.macro_f1_precision(predicted, labels, classes)
    assert f1 == pytest.approx(sklearns.f1_score(labels, predicted, average="macro"))
    assert precision == pytest.approx(
        sklearns.precision_score(labels, predicted, average="macro", zero_division=0)
    )


def test_a_class_never_predicted_has_precision_0_an_absent_one_none():
    predicted, labels = np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1])
    assert classification.macro_f1_precision(predicted, labels, 5) == (
        pytest.approx((6 / 7 + 0) / 2),
        0.375,
    )
