"""Attacks on one model at hand: scores with a known AUC, the attacks' own numbers on the same
arrays, gradients by hand.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attacks import _one_model as one_model
from attacks.metrics import calibrated, membership
from attacks.metrics.membership import Outputs


def outputs(shift: float, size: int, seed: int = 0, classes: int = 3) -> Outputs:
    """Logits of normal noise, with ``shift`` added to the true class of members: the first half
    of the examples.
    """
    rng = np.random.default_rng([seed, 5])
    labels = rng.integers(0, classes, 2 * size)
    member = np.arange(2 * size) < size
    logits = np.zeros((2 * size, classes))
    logits[np.arange(2 * size), labels] = rng.normal(size=2 * size) + shift * member
    return Outputs(logits.astype(np.float32), labels, member)


def measured(
    found: dict[str, one_model.Attacked], member: np.ndarray
) -> dict[tuple[str, str], float]:
    rows = one_model.measures(found, member, np.random.default_rng(1))
    return {(row.of.name, row.metric): row.value for row in rows}


def test_numbers_are_those_of_the_attacks_themselves() -> None:
    given = outputs(1.0, 150)
    references = [outputs(0.0, 150, seed).logits for seed in (1, 2, 3)]
    found = one_model.attack(given, None, references, np.random.default_rng(3))
    first = one_model.halves(given.member, np.random.default_rng(3))
    assert (first[given.member].sum(), first[~given.member].sum()) == (75, 75)
    for half in (first, ~first):
        for name, attack in (
            ("loss", membership.loss_threshold),
            ("confidence", membership.confidence),
        ):
            np.testing.assert_allclose(found[name].decided[half], attack(given[~half], given[half]))
    np.testing.assert_array_equal(
        found["loss"].ranked, -membership.losses(given.logits, given.labels)
    )
    phi = np.stack([membership.confidences(logits, given.labels) for logits in references])
    beside = calibrated.References(phi, np.zeros(phi.shape, bool), np.zeros(300, np.int64))
    for name in one_model.CALIBRATED:
        target = membership.confidences(given.logits, given.labels)
        np.testing.assert_array_equal(
            found[name].ranked, calibrated.METHODS[name](target, beside, "auto")
        )
    values = measured(found, given.member)
    assert values["gap", "balanced_accuracy"] == membership.balanced_accuracy(
        found["gap"].ranked, given.member
    )
    assert values["rmia_offline", "auc"] == membership.auc(
        found["rmia_offline"].ranked, given.member
    )


def test_no_threshold_is_chosen_with_the_example_that_it_judges() -> None:
    """Where nothing can be told, the accuracy is that of a coin on average; a threshold on the
    same examples gives more.
    """
    accuracies, own = [], []
    for seed in range(60):
        given = outputs(0.0, 20, seed)
        found = one_model.attack(given, None, [], np.random.default_rng(seed))
        accuracies.append(
            [
                membership.balanced_accuracy(found[name].decided, given.member)
                for name in ("loss", "entropy")
            ]
        )
        own.append(
            membership.balanced_accuracy(membership.loss_threshold(given, given), given.member)
        )
    assert np.mean(accuracies, axis=0) == pytest.approx([0.5, 0.5], abs=0.035)
    assert np.mean(own) > 0.55


def test_references_equal_to_the_model_leave_offline_lira_nothing_to_tell_and_others_no_ties() -> (
    None
):
    """Its score is the distance from the references: 0 for all examples where they say the same,
    so no TPR at 1 %.

    Nothing is clamped: where softmax rounds to 1 even in double precision, examples are still all
    apart.
    """
    given = outputs(1.0, 150)
    same = one_model.attack(given, None, [given.logits, given.logits], np.random.default_rng(0))[
        "lira_offline"
    ]
    assert not same.ranked.any()
    values = measured({"same": same}, given.member)
    assert values["same", "auc"] == 0.5 and np.isnan(values["same", "tpr_at_1_fpr"])
    sure = Outputs(
        given.logits + np.float32(60) * np.eye(3, dtype=np.float32)[given.labels],
        given.labels,
        given.member,
    )
    assert (membership.probabilities(sure.logits).max(axis=1) == 1).all()
    far = one_model.attack(
        sure, None, [outputs(0.0, 150, seed).logits for seed in (1, 2)], np.random.default_rng(0)
    )
    assert len(np.unique(far["lira_offline"].ranked)) == len(given)


def test_modified_entropy_is_that_of_the_formula_and_finite_where_a_probability_rounds_to_one() -> (
    None
):
    given = outputs(1.0, 50)
    p = membership.probabilities(given.logits)
    rows = np.arange(100)
    log_rest = np.log(1 - p)
    slow = -(1 - p[rows, given.labels]) * np.log(p[rows, given.labels])
    slow -= (p * log_rest).sum(axis=1) - (p * log_rest)[rows, given.labels]
    np.testing.assert_allclose(one_model.modified_entropy(given.logits, given.labels), slow)
    extreme = np.array([[800.0, 0.0], [800.0, 0.0]])
    assert one_model.modified_entropy(extreme, np.array([0, 1])).tolist() == [0.0, 1600.0]


def test_a_gradients_norm_is_the_one_that_a_linear_model_has_by_hand() -> None:
    """The gradient of a linear layer is (p - e_y) x^T and p - e_y, so its norm is |p - e_y|
    sqrt(|x|^2 + 1).
    """
    torch.manual_seed(0)
    module, x, y = torch.nn.Linear(4, 3), torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    found = one_model.gradient_norms(module, x, y)
    error = torch.softmax(module(x), 1).detach() - torch.nn.functional.one_hot(y, 3)
    by_hand = error.norm(dim=1) * (x.norm(dim=1) ** 2 + 1).sqrt()
    np.testing.assert_allclose(found, by_hand.numpy(), rtol=1e-5)
    assert module.weight.grad is None
