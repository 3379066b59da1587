"""Which attack is the strongest is decided on shadow models: it is the right one, and choosing it is no advantage."""

import numpy as np
import pytest

from attacks._shadows import pool_outputs
from attacks.metrics.membership import Outputs, balanced_accuracy
from attacks.shadow_mia import ATTACKS, Config, strongest


def outputs(confidence_of_members: float, seed: int, flipped: bool = False) -> Outputs:
    """Two classes; members are more confident in their class by so many nats, in class 1 the other way round."""
    rng = np.random.default_rng(seed)
    labels, member = rng.integers(0, 2, 400), np.arange(400) < 200
    sign = np.where(flipped & (labels == 1), -1, 1)
    margin = rng.normal(5, 1, 400) + confidence_of_members * member * sign
    logits = np.zeros((400, 2), np.float32)
    logits[np.arange(400), labels] = margin
    return Outputs(logits, labels, member)


def test_the_strongest_attack_is_found_on_shadows():
    shadows = [outputs(4.0, seed) for seed in range(3)]
    assert strongest(Config(attack_model="mlp"), shadows, np.random.default_rng(0)) in ("loss_threshold", "confidence")
    # Every prediction is right, so the gap says nothing; and one threshold for both classes does no good here.
    turned = [outputs(4.0, seed, flipped=True) for seed in range(3)]
    assert strongest(Config(), turned, np.random.default_rng(0)) in ("confidence", "shadow_mia")
    assert strongest(Config(), shadows[:1], np.random.default_rng(0)) in ("loss_threshold", "confidence", "shadow_mia")


@pytest.mark.parametrize("each", [1, 2])
def test_one_shadow_model_with_hardly_any_example_chooses_an_attack_all_the_same(each):
    rng, member = np.random.default_rng(0), np.arange(2 * each) < each
    only = Outputs(rng.normal(size=(2 * each, 3)).astype(np.float32), rng.integers(0, 3, 2 * each), member)
    chosen = strongest(Config(), [only], rng)
    assert chosen in ATTACKS and (chosen == "gap" or each > 1)


def test_the_choice_of_the_strongest_attack_makes_guessing_no_better():
    """Members and non-members are exchangeable, so whichever attack is chosen is right half of the time."""
    accuracies = []
    for seed in range(60):
        shadows, target = [outputs(0.0, 10 * seed + k) for k in range(2)], outputs(0.0, 10 * seed + 9)
        rng = np.random.default_rng(seed)
        chosen = strongest(Config(attack_examples=20), shadows, rng)
        score = ATTACKS[chosen](Config(attack_examples=20), pool_outputs(shadows), rng)(target)
        accuracies.append(balanced_accuracy(score, target.member))
    error = np.std(accuracies, ddof=1) / np.sqrt(len(accuracies))
    assert np.mean(accuracies) == pytest.approx(0.5, abs=2.5 * error)
    assert error < 0.006
