"""Attack models: their arithmetic, what they learn, and that they repeat themselves exactly."""

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from attacks import _attack_models
from attacks._attack_models import ART, MLP, Adam, Branches
from attacks.metrics import membership
from attacks.metrics.membership import Outputs

NAMES = ["mlp", "mlp_per_class", "art"]


def planted(examples: int, rng: np.random.Generator, classes: int = 4) -> Outputs:
    """Models that are right about everybody, and far surer about members."""
    labels, member = rng.integers(0, classes, examples), np.arange(examples) % 2 == 0
    logits = rng.normal(0, 1, (examples, classes))
    logits[np.arange(examples), labels] += np.where(member, 6, 2)
    return Outputs(logits.astype(np.float32), labels, member)


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_signal_is_found_on_examples_that_were_not_seen(name):
    rng = np.random.default_rng(0)
    shadow, target = planted(600, rng), planted(2000, rng)
    scores = _attack_models.fit(name, shadow, rng)(target)
    assert scores.shape == (2000,)
    assert membership.balanced_accuracy(scores, target.member) > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_where_membership_is_random_nothing_is_found(name):
    rng = np.random.default_rng(1)
    shadow, target = planted(300, rng), planted(4000, rng)
    shadow = Outputs(shadow.logits, shadow.labels, rng.permutation(shadow.member))
    target = Outputs(target.logits, target.labels, rng.permutation(target.member))
    accuracy = membership.balanced_accuracy(
        _attack_models.fit(name, shadow, rng)(target), target.member
    )
    assert accuracy == pytest.approx(0.5, abs=1.96 * 0.5 / np.sqrt(4000))


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_do_not_depend_on_the_number_of_threads(name):
    shadow, target = planted(100, np.random.default_rng(2)), planted(3000, np.random.default_rng(3))
    found = set()
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.add(_attack_models.fit(name, shadow, np.random.default_rng(5))(target).tobytes())
    assert len(found) == 1


def test_a_class_that_shadows_saw_on_one_side_only_is_left_undecided():
    rng = np.random.default_rng(5)
    shadow = planted(400, rng)
    shadow = shadow[np.flatnonzero((shadow.labels != 1) | shadow.member)]
    target = planted(100, rng)
    scores = _attack_models.fit("mlp_per_class", shadow, rng)(target)
    assert (scores[target.labels == 1] == 0).all()
    assert (scores[target.labels != 1] != 0).all()


@pytest.mark.parametrize(("recipe", "parameters"), [(MLP, 769), (ART, 82_789)])
def test_outputs_and_gradient_are_those_of_pytorch(recipe, parameters):
    rng = np.random.default_rng(6)
    branches = [widths for widths in (recipe.softmax, recipe.label) if widths]
    net = Branches(branches, 10, rng)
    assert len(net.params) == parameters
    arrays = [
        torch.from_numpy(array.copy()).requires_grad_() for layer in net.layers for array in layer
    ]
    inputs = [rng.normal(size=(30, 10)).astype(np.float32) for _ in branches]
    targets = rng.integers(0, 2, (30, 1)).astype(np.float32)
    weights = rng.uniform(0.5, 2, (30, 1)).astype(np.float32)
    odds = torch_log_odds(branches, arrays, inputs)
    np.testing.assert_allclose(net.log_odds(inputs), odds.detach().numpy()[:, 0], atol=1e-5)
    torch.nn.functional.binary_cross_entropy_with_logits(
        odds, torch.from_numpy(targets), weight=torch.from_numpy(weights)
    ).backward()
    net.backward(inputs, targets, weights)
    gradients = np.concatenate([array.grad.numpy().ravel() for array in arrays])
    np.testing.assert_allclose(net.gradients, gradients, atol=1e-6)


def test_the_optimizer_is_adam():
    rng = np.random.default_rng(7)
    params = rng.normal(size=50).astype(np.float32)
    expected, mean, square = params.astype(np.float64), np.zeros(50), np.zeros(50)
    adam = Adam(1e-2, 50)
    for t in range(1, 21):
        gradients = rng.normal(size=50).astype(np.float32)
        adam.step(params, gradients)
        mean, square = (
            0.9 * mean + 0.1 * gradients,
            0.999 * square + 0.001 * gradients.astype(np.float64) ** 2,
        )
        expected -= 1e-2 * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(params, expected, atol=1e-6)


def torch_log_odds(branches, arrays, inputs):
    layers, ends = iter(zip(arrays[::2], arrays[1::2], strict=True)), []
    for x, widths in zip(inputs, branches, strict=True):
        h = torch.from_numpy(x)
        for _ in widths:
            weights, bias = next(layers)
            h = torch.relu(h @ weights + bias)
        ends.append(h)
    weights, bias = next(layers)
    return torch.cat(ends, dim=1) @ weights + bias
