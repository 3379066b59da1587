"""Calibrated scores of source inference: a slow version, exchangeable examples, planted memories, models without numbers."""

import numpy as np
import pytest

from attacks.sia import Config, calibrated
from tests.support.source_inference import concluded, dealt

CALIBRATED = Config(score="calibrated")


def slowly_calibrated(losses, labels):
    """One model and one example at a time: its confidence among those of the class that other owners have."""
    models, owners, n = losses.shape
    phi, found = -np.log(np.expm1(losses)), np.empty(losses.shape)
    everything = [(i, r) for i in range(owners) for r in range(n)]
    small = {
        label
        for label in np.unique(labels)
        if any(sum(labels[i, r] == label for i, r in everything if i != k) <= 10 for k in range(models))
    }
    for k in range(models):
        for i, r in everything:
            like = [at for at in everything if at != (i, r) and at[0] != k]
            like = [at for at in like if labels[i, r] in small or labels[at] == labels[i, r]]
            reference = np.array([phi[k, *at] for at in like])
            found[k, i, r] = -(phi[k, i, r] - reference.mean()) / reference.std()
    return found


@pytest.mark.parametrize("classes", [1, 3, 12])
def test_the_slow_calibration_finds_the_same(classes):
    rng = np.random.default_rng(classes)
    losses, labels = rng.exponential(size=(4, 4, 15)), rng.integers(0, classes, (4, 15))
    labels[:, 0] = classes  # a rare class is compared with all
    np.testing.assert_allclose(calibrated(losses, labels), slowly_calibrated(losses, labels), rtol=1e-8)


def confident(base, rng, clients=10, n=40):
    """Losses of models whose confidence is ``base`` [models, classes] for a class, and noise; two classes in turn."""
    data = dealt([n] * clients, tests=0)
    labels = data.train.y.reshape(clients, n)
    phi = base[:, labels] + rng.normal(size=(clients, clients, n))
    return data, phi


def test_exchangeable_examples_are_traced_to_everybody_alike():
    """Models that are better at one class or at everything are not the guess for other clients' examples."""
    rng, found, plain = np.random.default_rng(0), [], []
    for _ in range(30):
        data, phi = confident(3 * rng.normal(size=(10, 2)), rng)
        losses = np.logaddexp(0, -phi)
        found.append(concluded(losses, CALIBRATED, data).metrics)
        plain.append(concluded(losses, None, data).metrics)
    assert np.mean([one["sia_mean"] for one in found]) == pytest.approx(0.1, abs=4 * (0.09 / 400 / 30) ** 0.5)
    assert np.mean([one["eod"] for one in found]) == pytest.approx(np.mean([one["eod_null"] for one in found]), rel=0.2)
    assert np.mean([one["eod"] for one in plain]) > 0.45  # the best model of a class gets all of this class


def test_planted_memories_are_found_behind_a_model_that_is_better_on_everything():
    rng = np.random.default_rng(1)
    base = np.zeros((10, 2))
    base[3] = 4.0
    data, phi = confident(base, rng)
    phi[np.arange(10), np.arange(10)] += 3.0  # each model knows its own examples better than others'
    losses = np.logaddexp(0, -phi)
    found, plain = concluded(losses, CALIBRATED, data), concluded(losses, None, data)
    assert plain.clients["sia_accuracy"][3] > 0.95 and np.delete(plain.clients["sia_accuracy"], 3).mean() < 0.4
    assert found.metrics["sia_mean"] > 0.85 and found.metrics["eod"] < 0.3
    np.testing.assert_array_equal(found.clients["target_loss"], plain.clients["target_loss"])  # in nats as before


def test_a_calibrated_model_without_numbers_is_not_suspected_and_does_not_disturb():
    rng = np.random.default_rng(2)
    data, phi = confident(np.zeros((10, 2)), rng)
    phi[np.arange(10), np.arange(10)] += 9.0
    losses = np.logaddexp(0, -phi)
    losses[0] = np.nan
    accuracy = concluded(losses, CALIBRATED, data).clients["sia_accuracy"]
    assert accuracy[0] == 0 and (accuracy[1:] > 0.95).all()
