"""Analytic membership: the toy by hand, least squares by numpy, what plain torch trains, and where
it ends.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from algorithms.core.columns import columns, register
from algorithms.core.layout import layout_of
from attacks import span
from attacks.interfaces import SeenRound
from attacks.span import Config, conclude, first_layer, layer_inputs, observe, residuals, row_space
from orchestrator.config.run import resolve
from tests.support.passive import EVERYONE, fixed, seen_by, start_of
from tests.support.toy_federation import CLIENTS, EACH, NONMEMBERS

NOTHING = np.empty((0, 12))


def network_of(module):
    """A network around a module of torch, in torch's own layout."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    layout = layout_of(trained, channels_last=False)

    def logits(x):
        module.eval()
        return module(torch.as_tensor(x)).detach().numpy()

    return SimpleNamespace(module=module, layout=layout, logits=logits)


def vector(module):
    parts = [p.detach().flatten() for p in module.parameters() if p.requires_grad]
    return torch.cat(parts).numpy().copy()


def trained(module, x, y, optimizer, steps=12):
    """Train on shuffled lots of three; return the parameters before and after."""
    before = vector(module)
    chance = torch.Generator().manual_seed(5)
    for _ in range(steps):
        lot = torch.randperm(len(x), generator=chance)[:3]
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x[lot]), y[lot]).backward()
        optimizer.step()
    return before, vector(module)


def attacked(module, members, others, optimizer, decay=False):
    """The residuals of members and of others after training on the members."""
    network = network_of(module)
    y = torch.arange(len(members)) % 2
    before, after = trained(module, members, y, optimizer)
    layer, problem = first_layer(network, members[:1])
    assert problem is None
    sent = span._matrix(layer, network, before)
    update = span._matrix(layer, network, after) - sent
    space = row_space(update, sent if decay else sent[:0], layer.reads_tokens)
    return [residuals(layer_inputs(layer, network, x), space) for x in (members, others)]


def dense(bias=True):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 16, bias=bias), nn.ReLU(), nn.Linear(16, 2))


def examples(count, seed=1):
    return torch.randn(count, 3, 4, generator=torch.Generator().manual_seed(seed))


def sgd(module, **fields):
    return torch.optim.SGD(module.parameters(), lr=0.3, **fields)


def test_residuals_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    update = rng.normal(size=(4, 12))
    asked = rng.normal(size=(7, 1, 12))
    space = row_space(update, NOTHING)
    found = residuals(asked, space)
    for one, value in zip(asked[:, 0], found, strict=True):
        weights = np.linalg.lstsq(update.T, one, rcond=None)[0]
        expected = np.linalg.norm(one - update.T @ weights) / np.linalg.norm(one)
        assert value == pytest.approx(expected, abs=1e-10)
    assert len(space) == 4


@pytest.mark.parametrize("fields", [{}, {"momentum": 0.9}, {"nesterov": True, "momentum": 0.5}])
@pytest.mark.parametrize("bias", [True, False])
def test_members_lie_in_the_span_of_what_plain_torch_trains(bias, fields):
    module = dense(bias)
    members, others = attacked(module, examples(6), examples(6, seed=2), sgd(module, **fields))
    assert members.max() < 1e-4 and others.min() > 0.2


def test_weight_decay_needs_the_rows_that_were_sent():
    """The update is a multiple of the weights plus the span, so 6 of 16 directions are not enough
    to hold a decayed update, and the rows of the weights end the separation of 12 inputs.
    """
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(40, 8), nn.ReLU(), nn.Linear(8, 2))
    members, others = (torch.randn(5, 40) for _ in range(2))
    inside, outside = attacked(module, members, others, sgd(module, weight_decay=0.1), decay=True)
    assert inside.max() < 1e-3 and outside.min() > 0.3


def test_adam_and_noise_end_it():
    rng = np.random.default_rng(0)
    module = dense()
    members, others = attacked(
        module, examples(6), examples(200, seed=2), torch.optim.Adam(module.parameters(), lr=0.01)
    )
    assert members.min() > 1e-3 or others.max() < 1e-3
    noisy = row_space(rng.normal(size=(16, 13)), np.empty((0, 13)))
    assert residuals(rng.normal(size=(9, 1, 13)), noisy).max() < 1e-6  # full rank: all are inside


def test_a_linear_combination_is_not_told_from_a_member():
    space = row_space(np.array([[1.0, 0, 0], [1, -1, 0]]), np.empty((0, 3)))
    asked = np.array([[[2.0, 5, 0]], [[0, 0, 1]]])
    assert residuals(asked, space).round(9).tolist() == [0, 1]


def test_an_update_that_is_not_finite_has_no_span():
    space = row_space(np.array([[np.nan, 1.0]]), np.empty((0, 2)))
    assert space.shape == (0, 2)
    assert residuals(np.ones((1, 1, 2)), space).tolist() == [1]


def test_tokens_that_occurred_are_the_rows_that_changed():
    torch.manual_seed(0)

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(20, 4)
            self.out = nn.Linear(4, 2)

        def forward(self, x):
            return self.out(self.table(x).mean(1))

    module = Bag()
    members = torch.tensor([[1, 2, 3], [3, 4, 5], [6, 6, 1]])
    others = torch.tensor([[1, 2, 9], [10, 11, 12]])
    inside, outside = attacked(module, members, others, sgd(module))
    assert inside.tolist() == [0, 0, 0]
    # One of three tokens is new: of the squared length 3, 1 is outside.
    assert outside.tolist() == pytest.approx([np.sqrt(1 / 3), 1])


def test_patches_of_a_convolution_lie_in_the_span_of_what_it_trains():
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
    module = nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4, 2))
    members, others = (torch.randn(n, 3, 4, 4) for n in (1, 3))
    inside, outside = attacked(module, members, others, sgd(module))
    assert outside.min() > 0.1 and inside.mean() < outside.mean()


def test_behind_frozen_layers_the_first_trained_layer_is_read():
    module = dense()
    frozen = nn.Sequential(nn.Flatten(), nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 16))
    for parameter in frozen[1].parameters():
        parameter.requires_grad_(False)
    layer, problem = first_layer(network_of(frozen), examples(1))
    assert problem is None and (layer.weight, layer.bias) == ("3.weight", "3.bias")
    assert first_layer(network_of(module), examples(1))[0].weight == "1.weight"


@pytest.mark.parametrize(
    "first",
    [nn.Conv2d(1, 16, 3), nn.Conv2d(2, 4, 3, groups=2), nn.BatchNorm2d(1), nn.PReLU()],
    ids=["more outputs than inputs", "groups", "normalization", "activation"],
)
def test_a_model_that_the_attack_does_not_apply_to_is_told(first):
    channels = 2 if isinstance(first, nn.Conv2d) and first.groups == 2 else 1
    image = np.zeros((1, channels, 6, 6), np.float32)
    layer, problem = first_layer(network_of(nn.Sequential(first)), image)
    assert layer is None and problem


def test_weight_decay_is_that_of_the_training():
    bare = {
        "data": {"name": "digits", "clients": 4, "examples_per_client": 20, "split": "dirichlet"},
        "model": "mlp",
        "attacks": ["span"],
        "rounds": 1,
    }
    plain = resolve(bare).attacks[0].config.weight_decay
    decayed = resolve(bare | {"training": {"weight_decay": 0.01}}).attacks[0].config.weight_decay
    assert (plain, decayed) == ("no", "yes")


def row(found):
    return columns(found.numbers, register(span.METRICS))


def test_clients_are_compared_and_traced_by_their_own_updates(noise, network, experts):
    config = Config(compared=NONMEMBERS)
    queries = span.queries_of(config, noise, fixed)
    members = queries.members.shape[1]
    residual = np.full((CLIENTS, len(queries.labels)), 0.5)
    for client in range(CLIENTS):
        residual[client, queries.numbers[client][:members]] = 0.0
    observed = {"residual": residual, "rank": np.full(CLIENTS, float(EACH))}
    found = conclude(config, SeenRound(noise, observed, EVERYONE, 0, fixed, {}))
    assert row(found)["span_auc"] == pytest.approx(1) and row(found)["span_sia"] == 1
    assert row(found)["span_rank"] == EACH
    assert row(found)["span_sia_null"] == pytest.approx(1 / CLIENTS)
    alike = observed | {"residual": np.full_like(residual, 0.5)}
    null = conclude(config, SeenRound(noise, alike, EVERYONE, 0, fixed, {}))
    assert row(null)["span_auc"] == pytest.approx(0.5)
    assert row(null)["span_sia"] == pytest.approx(1 / CLIENTS)


def test_a_block_is_observed_as_its_clients_one_by_one(noise, network, experts):
    config = Config(compared=NONMEMBERS)
    together = observe(config, seen_by(noise, network, experts))
    alone = [observe(config, seen_by(noise, network, experts, [i])) for i in EVERYONE]
    np.testing.assert_array_equal(
        together["residual"], np.concatenate([one["residual"] for one in alone])
    )
    assert ((together["residual"] >= 0) & (together["residual"] <= 1 + 1e-9)).all()


def test_clients_that_sent_back_what_they_got_are_at_chance(noise, network):
    config = Config(compared=NONMEMBERS)
    same = [start_of(network)] * CLIENTS
    found = conclude(
        config,
        SeenRound(noise, observe(config, seen_by(noise, network, same)), EVERYONE, 0, fixed, {}),
    )
    assert row(found)["span_auc"] == pytest.approx(0.5) and row(found)["span_rank"] == 0


@pytest.mark.slow
def test_intervals_cover_chance_where_updates_are_noise():
    """200 null federations: the mean AUC's interval covers 0.5 in 0.93 to 0.97 (± 3 deviations of
    a share of 200: 0.046).
    """
    from attacks.metrics import client_auc

    rng = np.random.default_rng(0)
    covered = []
    for _ in range(200):
        scores = np.empty((10, 120))
        for client in range(10):
            space = row_space(rng.normal(size=(8, 30)), np.empty((0, 30)))
            scores[client] = -residuals(rng.normal(size=(120, 1, 30)), space)
        numbers = np.arange(1200).reshape(10, 120)
        found = client_auc.measure(scores[:, :20], scores[:, 20:], numbers)
        covered.append(found.mean_low <= 0.5 <= found.mean_high)
    assert 0.95 - 0.046 < np.mean(covered) < 0.95 + 0.046
