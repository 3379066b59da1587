"""Aggregations with Flower's arithmetic: rounds that Flower 1.13.1 made, and answers by hand."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from algorithms.aggregation import fedadagrad, fedadam, fedavgm, fedmedian, fedyogi
from algorithms.core.choices import WarmStart
from algorithms.core.network import Network
from algorithms.engine.block import pretrain
from datasets.components import complete
from datasets.source_configs import HeldOutConfig, SharedTestConfig
from orchestrator.config.run import resolve
from tests.support.planted import planted
from tests.support.received import received

FLOWER = np.load(Path(__file__).parents[2] / "fixtures" / "flower" / "strategies.npz")
NAMES = ("fedavg", "fedavgm", "fedmedian", "fedadam", "fedadagrad", "fedyogi")
STRATEGIES: dict[str, Any] = {name: complete("algorithms.aggregation", name) for name in NAMES}
STRATEGIES["fedopt"] = STRATEGIES["fedavg"]
OPTIMISERS = [fedavgm, fedadam, fedadagrad, fedyogi]
WARM = [fedavgm, fedyogi]


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
    """Our result [rounds, d] of what Flower's clients sent, when every round sends what Flower
    sent.
    """
    config, results = module.Config(), []
    sent, clients = FLOWER[f"{name}.{kind}.sent"], FLOWER[f"{name}.{kind}.clients"]
    state = module.begin(config, sent[0])
    for params, models in zip(sent, clients, strict=True):
        updates = models - params
        scales = (
            clipped(updates, float(FLOWER["clip"])) if kind == "private" else np.ones(len(updates))
        )
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


# By hand

YOGI = 0.01 * 0.4 / (0.4 + 1e-3)


@pytest.mark.parametrize(
    ("module", "fields", "updates", "expected"),
    [
        # g = -8, v = -8, x = 0.1 * 8; then g = -4, v = 0.5 * -8 - 4 = -8, x = 0.8 + 0.8; then g =
        # 0, v = -4.
        (fedavgm, {}, [[8], [4], [0]], [0.8 + 0.8 + 0.4]),
        # m / sqrt(v) = 0.1 Delta / sqrt(0.01 Delta^2), a sign; the rate is 0.1 * sqrt(1 - 0.99^2) /
        # (1 - 0.9^2) = 0.07425.
        (fedadam, {}, [[5, -0.01]], [0.07425, -0.07425]),
        (
            fedadam,
            {"beta_1": 0.0, "beta_2": 0.0},
            [[3, -1], [1e-3, -9]],
            [0.2, -0.2],
        ),  # signs, times eta
        (fedadagrad, {}, [[3], [4]], [0.1 * (3 / 3) + 0.1 * (4 / 5)]),
        # v = 0.01 * 4^2, m = 0.4; then Delta = 0: v stays, m = 0.36. Adam's v would have shrunk.
        (fedyogi, {}, [[4]], [YOGI]),
        (fedyogi, {}, [[4], [0]], [YOGI + 0.01 * 0.36 / (0.4 + 1e-3)]),
    ],
)
def test_steps_by_hand(module, fields, updates, expected):
    start = np.zeros(len(expected))
    assert after(module, module.Config(**fields), start, updates) == pytest.approx(
        expected, rel=1e-4
    )


def test_a_median_by_hand_is_of_the_updates_as_they_count():
    """Four clients, scales 1, 1, 1/10, 1: medians of (1, 2, 10, 4) = 3 and of (0, 0, -8, 6) = 0,
    added to (5, 1).
    """
    came = received([[1, 0], [2, 0], [100, -80], [4, 6]], [1, 1, 1, 97], [1, 1, 0.1, 1])
    moved, state, metrics = fedmedian.apply(
        fedmedian.Config(), {}, np.array([5, 1], np.float32), came
    )
    assert moved.tolist() == [8, 1]
    assert (moved.dtype, state, metrics) == (np.float32, {}, {})
    assert fedmedian.weigh(fedmedian.Config(), np.array([3, 9])).tolist() == [1, 1]


@pytest.mark.parametrize("piece", [1, 40, 1 << 20])
def test_a_median_taken_in_pieces_is_the_median(piece, monkeypatch):
    monkeypatch.setattr(fedmedian, "PIECE", piece)
    rng = np.random.default_rng(1)
    updates, params = (
        rng.normal(size=(6, 101)).astype(np.float32),
        rng.normal(size=101).astype(np.float32),
    )
    scales = rng.uniform(0.2, 1, 6)
    moved, _, _ = fedmedian.apply(fedmedian.Config(), {}, params, received(updates, scales=scales))
    np.testing.assert_allclose(
        moved, np.median(params + scales[:, None] * updates, axis=0), rtol=1e-6, atol=1e-6
    )


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
        before = params
        params, state, metrics = module.apply(config, state, sent, received([undone]))
    np.testing.assert_allclose(params, quiet, atol=1e-4)
    assert state["current"].tobytes() == params.tobytes()
    assert metrics["server_step"] == pytest.approx(np.linalg.norm(params - before), rel=1e-3)


# The start


@pytest.mark.parametrize("module", WARM)
def test_a_warm_start_without_examples_is_refused(module):
    def problems(data: Any, **fields: Any) -> Any:
        return module.problems(
            module.Config(**fields), SimpleNamespace(data=SimpleNamespace(config=data))
        )

    ((field, sentence),) = problems(SharedTestConfig(shadow_size=0))
    assert field == "warm_start_epochs" and "20 epochs" in sentence
    assert (
        problems(SharedTestConfig(shadow_size=10))
        == problems(HeldOutConfig(shadow_size=None))
        == []
    )
    assert problems(SharedTestConfig(shadow_size=0), warm_start_epochs=0) == []


def test_a_warm_start_has_the_epsilon_of_the_clients_adam_and_drops_batches_like_them():
    data = planted()

    def moved(**training: Any) -> Any:
        base = {"rounds": 1, "data": "digits", "model": "mlp", "aggregation": "fedopt"}
        run = resolve(base | {"training": {"optimizer": "adam", **training}})
        network = Network(run.model, data.shape, data.classes, "cpu")
        before = network.weights().params.copy()
        return pretrain(run, data, network, np.random.default_rng(0)).params - before

    usual = moved(adam_epsilon=1e-8)
    assert np.array_equal(usual, moved()) and np.abs(usual).max() > 0.01
    assert (
        0 < np.abs(moved(adam_epsilon=1.0)).max() < 0.005
    )  # steps of lr times the gradient, in the place of its sign
    assert len(data.shadow) % 32 and not np.array_equal(usual, moved(drop_last=True))
    data = replace(data, shadow=data.shadow[:32])
    assert np.array_equal(moved(), moved(drop_last=True)), "the only batch stays"


def test_fedopt_is_fedavg_from_a_warm_start():
    base = {"rounds": 1, "data": "digits", "model": "mlp"}
    preset = resolve(base | {"aggregation": "fedopt"})
    assert preset == resolve(base | {"aggregation": {"name": "fedavg", "warm_start_epochs": 20}})
    assert preset.aggregation.module.warm_start(preset.aggregation.config) == WarmStart(
        20, 1e-3, 32
    )
    plain = resolve(base | {"aggregation": "fedavg"}).aggregation
    assert plain.module.warm_start(plain.config) is None
