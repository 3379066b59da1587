"""Macro F1 and macro precision, against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics as sklearns

from algorithms.metrics import classification


def decided(classes: int, examples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, examples)
    logits = rng.normal(size=(examples, classes)).astype(np.float32)
    logits[np.arange(examples), labels] += 1
    return logits, labels


@pytest.mark.parametrize(("classes", "examples"), [(2, 30), (4, 200), (10, 77)])
def test_they_are_those_of_scikit_learn(classes, examples):
    logits, labels = decided(classes, examples, classes)
    predicted = logits.argmax(axis=1)
    f1, precision = classification.macro_f1_precision(predicted, labels, classes)
    assert f1 == pytest.approx(sklearns.f1_score(labels, predicted, average="macro"))
    assert precision == pytest.approx(sklearns.precision_score(labels, predicted, average="macro", zero_division=0))


def test_a_class_never_predicted_has_precision_0_an_absent_one_none():
    predicted, labels = np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1])
    assert classification.macro_f1_precision(predicted, labels, 5) == (pytest.approx((6 / 7 + 0) / 2), 0.375)
