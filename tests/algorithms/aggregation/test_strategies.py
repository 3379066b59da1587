"""Aggregations with Flower's arithmetic: rounds that Flower 1.13.1 made, and answers by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from algorithms.aggregation import fedadagrad, fedadam, fedavg, fedavgm, fedmedian, fedyogi
from algorithms.core.choices import WarmStart
from algorithms.core.messages import ClientUpdates, weighted_sum
from datasets.source_configs import HeldOutConfig, SharedTestConfig
from orchestrator.config.run import resolve

FLOWER = np.load(Path(__file__).parents[2] / "fixtures" / "flower" / "strategies.npz")
STRATEGIES: dict[str, Any] = {
    "fedavg": fedavg,
    "fedavgm": fedavgm,
    "fedmedian": fedmedian,
    "fedopt": fedavg,
    "fedadam": fedadam,
    "fedadagrad": fedadagrad,
    "fedyogi": fedyogi,
}
OPTIMISERS = [fedavgm, fedadam, fedadagrad, fedyogi]
WARM = [fedavgm, fedyogi]


def received(updates: Any, weights: Any = None, scales: Any = None) -> ClientUpdates:
    """What updates [clients, d] become on their way through the server; equal weights and scales 1 unless given."""
    rows = np.asarray(updates, np.float32)
    shares = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
    shares, factors = shares / shares.sum(), np.ones(len(rows)) if scales is None else np.asarray(scales, np.float64)
    return ClientUpdates(
        clients=np.arange(len(rows)),
        weights=shares,
        mean=weighted_sum(shares * factors, rows),
        buffers=np.zeros(0),
        updates=rows,
        norms=np.linalg.norm(rows, axis=1),
        scales=factors,
    )


def after(module: Any, config: Any, start: Any, updates: list[Any]) -> list[float]:
    """The model after rounds in each of which one client sends an update [d], without noise."""
    params = np.asarray(start, np.float32)
    state = module.begin(config, params)
    for update in updates:
        params, state, _ = module.apply(config, state, params, received([update]))
    return params.tolist()


# Flower's own rounds


def clipped(updates: np.ndarray, clip: float) -> np.ndarray:
    return np.minimum(1, clip / np.linalg.norm(updates, axis=1))


def ours(module: Any, name: str, kind: str) -> np.ndarray:
    """Our result [rounds, d] of what Flower's clients sent, when every round sends what Flower sent."""
    config, results = module.Config(), []
    sent, clients = FLOWER[f"{name}.{kind}.sent"], FLOWER[f"{name}.{kind}.clients"]
    state = module.begin(config, sent[0])
    for params, models in zip(sent, clients, strict=True):
        updates = models - params
        scales = clipped(updates, float(FLOWER["clip"])) if kind == "private" else np.ones(len(updates))
        came = received(updates, module.weigh(config, FLOWER["examples"]), scales)
        result, state, _ = module.apply(config, state, params, came)
        results.append(result)
    return np.stack(results)


@pytest.mark.parametrize("kind", ["plain", "private"])
@pytest.mark.parametrize(("name", "module"), STRATEGIES.items())
def test_rounds_come_out_as_flower_made_them(name, module, kind):
    theirs = FLOWER[f"{name}.{kind}.result"]
    assert theirs.shape == (4, 21)
    np.testing.assert_allclose(ours(module, name, kind), theirs, rtol=1e-6, atol=1e-6)


def test_flowers_rounds_tell_the_strategies_apart():
    """Were their results alike, agreeing with them would show little: one strategy's rounds fail under another."""
    for name, other in (("fedavgm", fedavg), ("fedmedian", fedavg), ("fedyogi", fedadam), ("fedadam", fedadagrad)):
        assert np.abs(ours(other, name, "plain") - FLOWER[f"{name}.plain.result"]).max() > 1e-3


def test_flowers_private_rounds_clip_and_send_a_model_of_their_own():
    for name in STRATEGIES:
        sent, clients = FLOWER[f"{name}.private.sent"], FLOWER[f"{name}.private.clients"]
        scales = np.array([clipped(m - s, float(FLOWER["clip"])) for s, m in zip(sent, clients, strict=True)])
        assert (scales == 1).any() and (scales < 0.9).any(), name
        assert np.abs(sent[1:] - FLOWER[f"{name}.private.result"][:-1]).mean() > 0.01


# By hand


def test_momentum_by_hand():
    """g = -8, v = -8, x = 0.1 * 8; then g = -4, v = 0.5 * -8 - 4 = -8, x = 0.8 + 0.8; then g = 0, v = -4."""
    assert after(fedavgm, fedavgm.Config(), [0], [[8], [4], [0]]) == pytest.approx([0.8 + 0.8 + 0.4])


def test_a_full_step_without_momentum_is_fedavg_with_or_without_noise():
    rng = np.random.default_rng(0)
    config = fedavgm.Config(lr=1.0, momentum=0.0)
    params = rng.normal(size=50).astype(np.float32)
    state = fedavgm.begin(config, params)
    for _ in range(4):
        came = received(rng.normal(size=(3, 50)), [1, 2, 3])
        expected, _, _ = fedavg.apply(fedavg.Config(), {}, params, came)
        result, state, _ = fedavgm.apply(config, state, params, came)
        assert np.abs(result - expected).max() < 1e-6
        params = (result + rng.normal(size=50)).astype(np.float32)


def test_a_median_by_hand_is_of_the_updates_as_they_count():
    """Four clients, scales 1, 1, 1/10, 1: medians of (1, 2, 10, 4) = 3 and of (0, 0, -8, 6) = 0, added to (5, 1)."""
    came = received([[1, 0], [2, 0], [100, -80], [4, 6]], [1, 1, 1, 97], [1, 1, 0.1, 1])
    moved, state, metrics = fedmedian.apply(fedmedian.Config(), {}, np.array([5, 1], np.float32), came)
    assert moved.tolist() == [8, 1]
    assert (moved.dtype, state, metrics) == (np.float32, {}, {})
    assert fedmedian.weigh(fedmedian.Config(), np.array([3, 9])).tolist() == [1, 1]


def test_a_median_of_an_odd_number_of_clients_is_one_of_them():
    came = received([[1, 9], [7, 8], [3, -1]])
    moved, _, _ = fedmedian.apply(fedmedian.Config(), {}, np.zeros(2, np.float32), came)
    assert moved.tolist() == [3, 8]


@pytest.mark.parametrize("piece", [1, 40, 1 << 20])
def test_a_median_taken_in_pieces_is_the_median(piece, monkeypatch):
    monkeypatch.setattr(fedmedian, "PIECE", piece)
    rng = np.random.default_rng(1)
    updates, params = rng.normal(size=(6, 101)).astype(np.float32), rng.normal(size=101).astype(np.float32)
    scales = rng.uniform(0.2, 1, 6)
    moved, _, _ = fedmedian.apply(fedmedian.Config(), {}, params, received(updates, scales=scales))
    np.testing.assert_allclose(moved, np.median(params + scales[:, None] * updates, axis=0), rtol=1e-6, atol=1e-6)


def test_adams_first_step_is_its_rate_whatever_the_size_of_the_update():
    """m / sqrt(v) = 0.1 Delta / sqrt(0.01 Delta^2), a sign; the rate is 0.1 * sqrt(1 - 0.99^2) / (1 - 0.9^2) = 0.07425."""
    assert after(fedadam, fedadam.Config(), [0, 0], [[5, -0.01]]) == pytest.approx([0.07425, -0.07425], rel=1e-4)


def test_adams_corrections_are_readings_of_one_exponent():
    flower, adam, none = (fedadam.Config(bias_correction=reading) for reading in ("flower", "adam", "none"))
    assert [fedadam.rate(adam, t + 1) for t in (1, 2, 9)] == [fedadam.rate(flower, t) for t in (1, 2, 9)]
    assert fedadam.rate(adam, 1) == pytest.approx(0.1)
    assert fedadam.rate(none, 7) == 0.1


def test_adam_with_its_own_correction_steps_like_torchs():
    import torch
    from torch.optim.adam import adam  # the function: the class's first use loads a compiler

    updates = np.random.default_rng(3).normal(size=(5, 8)).astype(np.float32)
    weight, mean, square = torch.zeros(3, 8, dtype=torch.float64)
    step = torch.tensor(0.0)
    own: Any = {"amsgrad": False, "lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-9, "weight_decay": 0.0}
    for update in updates:  # a step of descent: the gradient is what points away from the clients' models
        gradient = -torch.from_numpy(update).double()
        adam([weight], [gradient], [mean], [square], [], [step], foreach=False, maximize=False, **own)
    moved = after(fedadam, fedadam.Config(bias_correction="adam"), np.zeros(8), list(updates))
    np.testing.assert_allclose(moved, weight.numpy(), rtol=1e-5, atol=1e-6)


def test_adam_without_memory_steps_by_signs():
    """beta_1 = beta_2 = 0: each step is eta times the sign of the update."""
    config = fedadam.Config(beta_1=0.0, beta_2=0.0)
    assert after(fedadam, config, [0, 0], [[3, -1], [1e-3, -9]]) == pytest.approx([0.2, -0.2])


def test_adagrad_by_hand():
    """Updates 3 and 4: 0.1 * (3 / 3) + 0.1 * (4 / 5)."""
    assert after(fedadagrad, fedadagrad.Config(), [0], [[3], [4]]) == pytest.approx([0.18])


def test_yogi_by_hand():
    """v = 0.01 * 4^2, m = 0.4; then Delta = 0: v stays, m = 0.36. Adam's v would have shrunk."""
    config = fedyogi.Config()
    first = 0.01 * 0.4 / (0.4 + 1e-3)
    assert after(fedyogi, config, [0], [[4]]) == pytest.approx([first], rel=1e-5)
    assert after(fedyogi, config, [0], [[4], [0]]) == pytest.approx([first + 0.01 * 0.36 / (0.4 + 1e-3)], rel=1e-5)


# The server's own copy


@pytest.mark.parametrize("module", OPTIMISERS)
def test_noise_that_was_sent_does_not_stay_in_the_servers_copy(module):
    """Clients that undo the noise exactly leave the server where it would have been without any."""
    rng, config = np.random.default_rng(2), module.Config()
    start, noise = rng.normal(size=30).astype(np.float32), rng.normal(size=(3, 30))
    updates = rng.normal(size=(3, 30))
    quiet = after(module, config, start, list(updates))
    params, state = start, module.begin(config, start)
    for round_ in range(3):
        sent = (params + noise[round_]).astype(np.float32)
        undone = updates[round_] + params.astype(np.float64) - sent
        params, state, metrics = module.apply(config, state, sent, received([undone]))
    np.testing.assert_allclose(params, quiet, atol=1e-4)
    assert state["current"].tobytes() == params.tobytes()
    assert metrics["server_step"] > 0


@pytest.mark.parametrize("module", OPTIMISERS)
def test_what_the_server_reports_is_the_length_of_its_step(module):
    config, start = module.Config(), np.zeros(7, np.float32)
    moved, _, metrics = module.apply(config, module.begin(config, start), start, received(np.ones((2, 7))))
    assert metrics == {"server_step": pytest.approx(np.linalg.norm(moved))}


@pytest.mark.parametrize("module", OPTIMISERS)
def test_a_server_keeps_no_hold_on_the_model_that_it_began_with(module):
    start = np.zeros(3, np.float32)
    state = module.begin(module.Config(), start)
    start[:] = 1
    assert not state["current"].any()


# The start


def run_with(shadow_size: int | None) -> Any:
    data = SharedTestConfig(shadow_size=shadow_size) if shadow_size is not None else HeldOutConfig(shadow_size=None)
    return SimpleNamespace(data=SimpleNamespace(config=data))


def test_the_papers_warm_strategies_start_warm_and_the_others_cold():
    for module in WARM:
        assert module.Config().warm_start_epochs == 20
    for module in (fedavg, fedadam, fedadagrad, fedmedian):
        assert module.Config().warm_start_epochs == 0
    for module in STRATEGIES.values():
        assert (module.Config().warm_start_lr, module.Config().warm_start_batch) == (1e-3, 32)


@pytest.mark.parametrize("module", WARM)
def test_a_warm_start_without_examples_is_refused(module):
    ((field, sentence),) = module.problems(module.Config(), run_with(0))
    assert field == "warm_start_epochs"
    assert "20 epochs" in sentence and "data.shadow_size is 0" in sentence
    assert module.problems(module.Config(), run_with(10)) == []
    assert module.problems(module.Config(), run_with(None)) == []
    assert module.problems(module.Config(warm_start_epochs=0), run_with(0)) == []


def test_fedopt_is_fedavg_from_a_warm_start():
    base = {"rounds": 1, "data": "digits", "model": "mlp"}
    preset = resolve(base | {"aggregation": "fedopt"})
    assert preset == resolve(base | {"aggregation": {"name": "fedavg", "warm_start_epochs": 20}})
    assert preset.aggregation.module.warm_start(preset.aggregation.config) == WarmStart(20, 1e-3, 32)
    equal = resolve(base | {"aggregation": {"name": "fedopt", "weights": "uniform", "warm_start_epochs": 5}})
    assert (equal.aggregation.name, equal.aggregation.config.weights) == ("fedavg", "uniform")
    assert equal.aggregation.config.warm_start_epochs == 5
    plain = resolve(base | {"aggregation": "fedavg"}).aggregation
    assert plain.module.warm_start(plain.config) is None


@pytest.mark.parametrize(
    ("module", "field", "value"),
    [(fedavgm, "momentum", 1.0), (fedavgm, "lr", 0.0), (fedadam, "beta_2", 1.0), (fedyogi, "tau", 0.0)],
)
def test_steps_that_cannot_be_taken_are_refused(module, field, value):
    with pytest.raises(ValidationError, match=field):
        module.Config(**{field: value})
