"""What every component of every slot does: in a run of two rounds, and by itself.

Components are found, so a new file is tested without an edit here; what components declare is in test_components.py.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import datasets
from algorithms.core.choices import View
from algorithms.core.layout import Layout
from algorithms.core.messages import ClientUpdates, reweight
from algorithms.core.noise import Normals
from datasets.components import Component
from datasets.federation import Federation
from orchestrator.config.run import resolve
from orchestrator.trial.random_streams import stream
from tests.support.inline import inline_trial
from tests.support.planted import finished, left_behind, table
from tests.support.slot_components import EVERY, attack, described, module_of, of_slot

pytestmark = pytest.mark.usefixtures("one_thread")

BACKENDS = pytest.mark.parametrize("backend", ["loop", "vmap"])


@pytest.fixture(scope="module")
def digits() -> Federation:
    run = resolve(described())
    return datasets.build_federation(run.data, run.split, Path(), lambda purpose: stream(0, purpose))


def ran(run: dict[str, Any], folder: Path, digits: Federation) -> tuple[Any, dict[str, Any]]:
    trial = finished(inline_trial(run, folder, digits))
    return trial, left_behind(trial, folder)


PARTS = [(slot, name) for slot, name in EVERY if slot.key in ("clustering", "objective", "aggregation", "privacy")]


@BACKENDS
@pytest.mark.parametrize(("slot", "name"), PARTS, ids=[f"{slot.key}-{name}" for slot, name in PARTS])
def test_two_rounds_with_the_component_train_and_repeat_to_the_bit(tmp_path, digits, slot, name, backend):
    if backend == "vmap" and slot.key == "objective" and not module_of(slot.key, name).VMAP:
        backend = "auto"  # must then be the loop
    run = described(slot, name, backend=backend)
    trial, kept = ran(run, tmp_path / "first", digits)
    rows = kept["rounds"].to_pydict()
    assert rows["round"] == [0, 1]
    assert np.isfinite(rows["loss"]).all() and np.isfinite(rows["accuracy"]).all()
    assert kept["clients"].num_rows == 2 * 6
    start = inline_trial(run, tmp_path / "start", digits).state.models
    moved = [after.params - before.params for before, after in zip(start, trial.state.models, strict=True)]
    assert np.abs(moved).max() > 1e-4
    assert kept == ran(run, tmp_path / "again", digits)[1]


@of_slot("attacks")
def test_an_attack_finds_something_in_every_round_in_which_it_is_due(tmp_path, digits, name):
    trial, _ = ran(described() | {"attacks": [attack(name)]}, tmp_path, digits)
    rows = table(trial, "attacks")
    own = [i for i, made in enumerate(rows["attack"]) if made == name]
    in_every_round = {"models", "updates"} & set(module_of("attacks", name).KINDS)
    assert {rows["round"][i] for i in own} == ({1, 2} if in_every_round else {2})
    if "models" in module_of("attacks", name).KINDS:
        assert set(trial.state.names) <= {rows["target"][i] for i in own}
    else:
        assert len({rows["target"][i] for i in own}) > 1
    assert all(0 <= rows["value"][i] <= 1 for i in own if rows["metric"][i] == "balanced_accuracy")
    assert all(0 <= risk <= 1 for risk in trial.state.published_risks)


@of_slot("model")
def test_a_model_says_truly_what_it_is_made_of(name):
    from torch import nn

    from algorithms.core.network import Network

    module, rng = module_of("model", name), np.random.default_rng(0)
    network = Network(Component(name, module.Config(), "algorithms.models"), (3, 32, 32), 7)
    layers = list(network.module.modules())
    assert any(isinstance(layer, nn.Conv1d | nn.Conv2d) for layer in layers) == module.CONVOLUTIONAL
    assert any(isinstance(layer, nn.BatchNorm2d) for layer in layers) == module.BATCH_NORM
    network.load(network.initial(rng))
    assert network.logits(rng.random((2, 3, 32, 32), dtype=np.float32)).shape == (2, 7)


@of_slot("clustering")
def test_a_choice_does_not_depend_on_the_order_of_models_and_clients(name):
    module, rng = module_of("clustering", name), np.random.default_rng(0)
    config = module.Config()
    preferences = module.preferences(config, 30, np.random.default_rng(1))
    assert preferences.threshold.shape == preferences.beta.shape == (30,)
    assert ((preferences.beta >= 0) & (preferences.beta <= 1)).all()
    view = View(rng.uniform(0, 2, (30, config.clusters)), rng.uniform(0.5, 1, config.clusters), np.full(30, -1), 10)
    chosen, costs = module.choose(config, view, preferences)
    assert costs.shape == view.losses.shape
    assert (costs.argmin(axis=1) == chosen).all()
    models, clients = rng.permutation(config.clusters), rng.permutation(30)
    turned = View(view.losses[:, models][clients], view.published_risks[models], view.previous[clients], 10)
    turn = None if preferences.turn is None else preferences.turn[clients]
    theirs = replace(preferences, threshold=preferences.threshold[clients], beta=preferences.beta[clients], turn=turn)
    assert (models[module.choose(config, turned, theirs)[0]] == chosen[clients]).all()


@of_slot("objective")
def test_an_objective_leaves_padding_out(name):
    import torch

    from algorithms.core.network import Network

    module = module_of("objective", name)
    generator = torch.Generator().manual_seed(0)
    arrays = {"weight": torch.randn(4, 3, generator=generator)}
    x, y = torch.randn(5, 4, generator=generator), torch.tensor([0, 2, 1, -100, -100])
    forward: Any = lambda given, inputs: inputs @ given["weight"]  # noqa: E731
    if module.MODEL:
        model = Component(module.MODEL, module_of("model", module.MODEL).Config(), "algorithms.models")
        network = Network(model, (1, 8, 8), 3)
        network.load(network.initial(np.random.default_rng(0)))
        network.module.train()
        arrays, x = dict(network.module.named_parameters()), torch.randn(5, 1, 8, 8, generator=generator)
        forward = lambda _, inputs, **options: network.module(inputs, **options)  # noqa: E731

    sent = {key: array.detach() + 0.1 for key, array in arrays.items()}
    client = {key: {"sent": sent, "rho": torch.tensor(0.5)}[key] for key in module.NEEDS}

    def loss(examples: int) -> float:
        return module.loss(module.Config(), forward, arrays, x[:examples], y[:examples], client).item()

    assert loss(5) == pytest.approx(loss(3), rel=1e-6)
    assert loss(3) > 0


def sent(updates: np.ndarray, weights: np.ndarray) -> ClientUpdates:
    """What three clients sent of a model of two arrays."""
    return ClientUpdates(
        clients=np.arange(3),
        weights=weights,
        mean=weights @ updates.astype(np.float64),
        buffers=np.zeros(0),
        updates=updates,
        own_buffers=np.zeros((3, 0), np.float32),
        norms=np.linalg.norm(updates, axis=1),
        scales=np.ones(3),
        statistics={"rho": np.array([0.2, 0.5, 0.9])},
        layout=Layout(("body.weight", "body.bias"), ((2, 2), (2,))),
    )


@of_slot("aggregation")
def test_an_aggregation_leaves_its_arguments_and_its_states_shape_alone(name):
    module, rng = module_of("aggregation", name), np.random.default_rng(0)
    config, params = module.Config(), rng.normal(size=6).astype(np.float32)
    updates = rng.normal(size=(3, 6)).astype(np.float32)
    assert module.NEEDS in ("mean", "updates")
    weights = module.weigh(config, np.array([10, 20, 30]))
    assert weights.shape == (3,) and (weights > 0).all()
    received = sent(updates, weights / weights.sum())
    state = module.begin(config, params)
    for array in (params, updates, received.mean, received.weights, *state.values()):
        array.setflags(write=False)
    reweighed = module.reweigh(config, received)
    if reweighed is not None:
        chosen, _ = reweighed
        assert chosen.sum() == pytest.approx(1) and (chosen >= 0).all()
        received = reweight(received, chosen)
    moved, after, _ = module.apply(config, state, params, received)
    assert (moved.dtype, moved.shape) == (np.float32, (6,))
    assert {key: (array.dtype, array.shape) for key, array in after.items()} == {
        key: (array.dtype, array.shape) for key, array in state.items()
    }
    again, _, _ = module.apply(config, module.begin(config, params), params, received)
    assert again.tobytes() == moved.tobytes()


@of_slot("privacy")
def test_a_protection_is_a_function_of_what_it_is_given_and_of_its_stream(name):
    module, rng = module_of("privacy", name), np.random.default_rng(0)
    config, updates = module.Config(), rng.normal(size=(3, 6)).astype(np.float32)
    params = rng.normal(size=6).astype(np.float32)
    received = sent(updates, np.full(3, 1 / 3))
    for array in (params, updates, received.mean):
        array.setflags(write=False)
    assert module.NEEDS in ("mean", "updates")
    scales = module.bound(config, np.array([0.0, 1.0, 1e6]))
    assert scales.shape == (3,) and (scales > 0).all() and (scales <= 1).all()
    assert isinstance(module.NOISY, bool)
    noise = [Normals(6, np.random.default_rng(5)) if module.NOISY else None for _ in range(2)]
    released = [module.release(config, params, received, own)[0] for own in noise]
    assert (released[0].dtype, released[0].shape) == (np.float32, (6,))
    assert released[0].tobytes() == released[1].tobytes()
