"""Validation metrics: those of ``accuracy``, by hand, and in the rows of a run; without validation there is no trace."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasets.federation import Examples, Federation
from orchestrator.trial import client_actors, metric_rows
from tests.support.planted import clustered, finished, given, opened, planted, table

pytestmark = pytest.mark.usefixtures("one_thread")

# Two models of two classes on four examples: the first is right on the first three, the second on the last alone.
LABELS = np.array([0, 1, 0, 1])
LOGITS = np.log(
    np.array([[[0.8, 0.2], [0.4, 0.6], [0.9, 0.1], [0.7, 0.3]], [[0.1, 0.9], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5001]]])
).astype(np.float32)


def federation(owners: Any, clients: int = 5, minority: int = 1) -> Federation:
    examples = Examples(np.zeros((4, 10), np.float32), LABELS)
    return replace(planted(clients, 5, minority), validation=examples, validation_owner=np.array(owners))


def test_by_hand_every_group_counts_by_its_clients() -> None:
    """Client 4 is the minority, with three of the examples; the majority's client 0 has one and uses the first model."""
    found = metric_rows.validation(LOGITS, federation([0, 4, 4, 4]), np.array([0, 0, 0, 0, 1]))
    assert found["validation_accuracy"] == pytest.approx(4 / 5 * 1 + 1 / 5 * 1 / 3)
    majority, minority = -np.log(0.8), -(np.log(0.4) + np.log(0.2) + np.log(0.5001 / 1.0001)) / 3
    assert found["validation_loss"] == pytest.approx(4 / 5 * majority + 1 / 5 * minority, rel=1e-5)


def test_by_hand_examples_of_nobody_are_judged_under_the_most_used_model() -> None:
    found = metric_rows.validation(LOGITS, federation([-1] * 4), np.array([0, 1, 0, 0, 1]))
    assert found["validation_accuracy"] == 3 / 4
    mixed = metric_rows.validation(LOGITS, federation([-1, -1, 0, 4]), np.array([0, 0, 0, 0, 0]))
    assert mixed["validation_accuracy"] == pytest.approx(4 / 5 * 1 + 1 / 5 * 0)
    of_one_group = metric_rows.validation(LOGITS, federation([0, 1, 2, 3]), np.zeros(5, np.int64))
    assert of_one_group["validation_accuracy"] == 3 / 4  # the other counts for nothing


@pytest.mark.parametrize("fields", [{}, {"clustering": clustered()}])
def test_on_the_test_examples_it_is_the_accuracy(tmp_path: Path, fields: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(client_actors, "PREDICTED", 7)
    data = planted()
    twice = replace(data, validation=data.test, validation_owner=data.test_owner)
    trial = finished(opened(given(rounds=3, evaluate_every=2, **fields), tmp_path, twice))
    rows = table(trial, "rounds")
    assert rows["validation_accuracy"] == rows["accuracy"]
    assert rows["validation_accuracy"][0] is None and rows["validation_accuracy"][2] > 0.5  # measured when evaluated
    if not fields:
        assert rows["validation_loss"][2] < rows["validation_loss"][1]
