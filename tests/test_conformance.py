"""What every member of every slot owes to the others. Members are found, so a new file is tested without an edit here."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError

import datasets
from algorithms.clustering.preference import View
from algorithms.flat import Layout
from algorithms.messages import Received, reweighted
from datasets.federation import Federation
from datasets.slot import Config, members
from orchestrator.config import SLOTS, Member, Run, Slot, resolve, trial_id
from orchestrator.rng import stream
from tests.inline import inline_trial
from tests.planted import finished, left_behind, table

pytestmark = pytest.mark.usefixtures("one_thread")

FOLDERS = {slot.key: slot.folder for slot in SLOTS}
EVERY = [(slot, name) for slot in SLOTS for name in members(slot.folder)]
every_member = pytest.mark.parametrize(("slot", "name"), EVERY, ids=[f"{slot.key}-{name}" for slot, name in EVERY])
BACKENDS = pytest.mark.parametrize("backend", ["loop", "vmap"])
# What a module has besides its Config; see the docstrings of the slots' packages.
OWED = {
    "data": ("load",),
    "data.split": ("problems", "shortages", "deal"),
    "model": ("build", "CONVOLUTIONAL", "BATCH_NORM"),
    "training": ("schedule", "one_epoch", "learning_rate", "unfit"),
    "clustering": ("preferences", "choose"),
    "objective": ("loss",),
    "aggregation": ("NEEDS", "begin", "weigh", "apply"),
    "privacy": ("NEEDS", "bound", "release"),
    "attacks": ("STAGE",),
}
# Makes an attack cheap, where it has such fields.
SMALL = {"shadows": 1, "max_epochs": 2, "queries": 40, "replicas": 2, "targets": 5, "mock_updates": 3, "trees": 10}
DIGITS = {"name": "digits", "clients": 6, "examples_per_client": 20, "shadow_size": 60, "test_size": 60}


def of_slot(key: str) -> Any:
    return pytest.mark.parametrize("name", list(members(FOLDERS[key])))


def module_of(key: str, name: str) -> Any:
    return members(FOLDERS[key])[name]


def attack(name: str) -> dict[str, Any]:
    fields = members("attacks")[name].Config.model_fields
    return {"name": name, "every": 1} | {field: value for field, value in SMALL.items() if field in fields}


def described(slot: Slot | None = None, name: str = "", **training: Any) -> dict[str, Any]:
    """A short run on digits in which the member ``name`` fills ``slot``."""
    run: dict[str, Any] = {
        "rounds": 2,
        "data": {**DIGITS, "split": {"minority_ratio": 0.34}},
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"lr": 0.1, "epochs": 1, "batch_size": 8, "cohort_size": 4, **training},
        "attacks": [attack("shadow_mia")],
    }
    if slot is None:
        return run
    if model := getattr(members(slot.folder)[name], "MODEL", None):  # trains nothing else
        run["model"] = model
    if slot.many:
        return run | {slot.key: [attack(name)]}
    if len(slot.path) == 2:
        outer, inner = map(str, slot.path)
        return run | {outer: {**run[outer], inner: name}}
    return run | {slot.key: name}


def chosen(run: Run, slot: Slot) -> Member:
    filled = getattr(run, slot.field)
    return filled[0] if slot.many else filled


# What every member declares


@every_member
def test_a_member_says_what_it_is(slot, name):
    module = members(slot.folder)[name]
    assert (module.__doc__ or "").strip()
    assert module.Config.__module__ == module.__name__
    assert module.Config.__doc__ and module.Config.__doc__ != Config.__doc__
    missing = [owed for owed in OWED[slot.key] if not hasattr(module, owed)]
    assert not missing
    for function in OWED[slot.key]:
        if callable(getattr(module, function)):
            assert inspect.getdoc(getattr(module, function)), function


@every_member
def test_every_field_is_described_in_one_line_and_has_a_default_that_is_allowed(slot, name):
    config = members(slot.folder)[name].Config
    for field, info in config.model_fields.items():
        assert info.description and "\n" not in info.description, field
        assert len(info.description) < 120, field
    assert config.model_validate(config().model_dump()) == config()


@every_member
def test_a_config_is_frozen_and_knows_its_fields(slot, name):
    config = members(slot.folder)[name].Config()
    assert isinstance(config, Config)
    with pytest.raises(ValidationError):
        type(config).model_validate({"no_such_field": 1})
    for field, value in config:
        with pytest.raises(ValidationError):
            setattr(config, field, value)


@every_member
def test_numbers_have_a_range(slot, name):
    """Checked where the schema can tell it; a tuple may be checked by a validator."""
    schema = members(slot.folder)[name].Config.model_json_schema()
    limits = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}
    for field, described_as in schema.get("properties", {}).items():
        for kind in (described_as, *described_as.get("anyOf", ())):
            if kind.get("type") in ("integer", "number") and "enum" not in kind and "const" not in kind:
                assert limits & set(kind), field


@every_member
def test_what_is_no_number_is_refused(slot, name):
    config = members(slot.folder)[name].Config()
    for field, value in config:
        if isinstance(value, float):
            for wrong in (float("nan"), float("inf"), "0.5"):
                with pytest.raises(ValidationError):
                    type(config)(**{field: wrong})


def test_reading_every_member_loads_neither_torch_nor_another_slow_package():
    """The head process and the driver pay for what a member imports at its top."""
    slow = "torch", "torchvision", "sklearn", "pandas", "mlflow", "ray"
    code = (
        "import orchestrator, sys; from datasets.slot import members\n"
        f"for folder in {list(FOLDERS.values())}: members(folder)\n"
        f"print([name for name in {slow} if name in sys.modules])"
    )
    root = Path(__file__).parent.parent
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# Identity


def alternatives(value: Any, schema: dict[str, Any]) -> Iterator[Any]:
    """Values that could stand instead of ``value``; most are not allowed."""
    for kind in (schema, *schema.get("anyOf", ())):
        yield from kind.get("enum", ())
        yield from [kind["const"]] if "const" in kind else ()
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, value - 1, value / 2, value * 0.9, value + 0.1)
    yield from (3, 0.25, None, "another", [3], (3,), (0.5, 0.75))


def changes(config: BaseModel) -> Iterator[tuple[str, BaseModel]]:
    """For each field a config that differs from ``config`` in this field alone."""
    schema = type(config).model_json_schema().get("properties", {})
    for field, value in config:
        for candidate in alternatives(value, schema[field]):
            try:
                changed = type(config).model_validate(dict(config) | {field: candidate})
            except ValidationError:
                continue
            if changed != config:
                yield field, changed
                break
        else:
            pytest.fail(f"no other value found for {field}")


@every_member
def test_every_field_of_every_member_is_part_of_the_trials_identity(slot, name):
    run = resolve(described(slot, name))
    member = chosen(run, slot)
    assert member.name == name
    ids = [trial_id(run)]
    for _, config in changes(member.config):
        other = replace(member, config=config)
        filled: dict[str, Any] = {slot.field: (other,) if slot.many else other}
        ids.append(trial_id(replace(run, **filled)))
    assert len(ids) == 1 + len(type(member.config).model_fields)
    assert len(set(ids)) == len(ids)


def test_the_fields_beside_the_slots_are_part_of_the_trials_identity():
    run = resolve(described())
    changed = ({"rounds": 3}, {"seed": 1}, {"evaluate_every": 2}, {"attacks": ()})
    changed += ({"participation": "fixed"}, {"participation_rate": 0.5})
    assert len({trial_id(one) for one in (run, *(replace(run, **change) for change in changed))}) == 7


@pytest.mark.parametrize("slot", SLOTS, ids=lambda slot: slot.key)
def test_which_member_fills_a_slot_is_part_of_the_trials_identity(slot):
    names = list(members(slot.folder))
    assert len({trial_id(resolve(described(slot, name))) for name in names}) == len(names)


@every_member
def test_a_run_is_read_back_as_it_was_written(slot, name):
    run = resolve(described(slot, name))
    again = resolve(json.loads(json.dumps(run.to_dict())))
    assert again == run
    assert trial_id(again) == trial_id(run)


# What every member does


@pytest.fixture(scope="module")
def digits() -> Federation:
    run = resolve(described())
    return datasets.build(run.data, run.split, Path(), lambda purpose: stream(0, purpose))


def ran(run: dict[str, Any], folder: Path, digits: Federation) -> tuple[Any, dict[str, Any]]:
    trial = finished(inline_trial(run, folder, digits))
    return trial, left_behind(trial, folder)


PARTS = [(slot, name) for slot, name in EVERY if slot.key in ("clustering", "objective", "aggregation", "privacy")]


@BACKENDS
@pytest.mark.parametrize(("slot", "name"), PARTS, ids=[f"{slot.key}-{name}" for slot, name in PARTS])
def test_two_rounds_with_the_member_train_and_are_the_same_when_repeated(tmp_path, digits, slot, name, backend):
    if backend == "vmap" and not getattr(members(slot.folder)[name], "VMAP", True):
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
def test_an_attack_finds_something_in_every_round_about_every_model_or_client(tmp_path, digits, name):
    trial, _ = ran(described() | {"attacks": [attack(name)]}, tmp_path, digits)
    rows = table(trial, "attacks")
    own = [i for i, made in enumerate(rows["attack"]) if made == name]
    stage = module_of("attacks", name).STAGE
    assert {rows["round"][i] for i in own} == ({1, 2} if stage == "models" else {0, 1})
    if stage == "models":
        assert set(trial.state.names) <= {rows["target"][i] for i in own}
    else:
        assert len({rows["target"][i] for i in own}) > 1
    assert all(0 <= rows["value"][i] <= 1 for i in own if rows["metric"][i] == "balanced_accuracy")
    assert all(0 <= risk <= 1 for risk in trial.state.risks)


@of_slot("model")
def test_a_model_says_truly_what_it_is_made_of(name):
    from torch import nn

    from algorithms.network import Network

    module, rng = module_of("model", name), np.random.default_rng(0)
    network = Network(Member(name, module.Config(), "algorithms.models"), (3, 32, 32), 7)
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
    turned = View(view.losses[:, models][clients], view.risks[models], view.previous[clients], 10)
    theirs = replace(preferences, threshold=preferences.threshold[clients], beta=preferences.beta[clients])
    assert (models[module.choose(config, turned, theirs)[0]] == chosen[clients]).all()


@of_slot("objective")
def test_an_objective_leaves_padding_out(name):
    import torch

    from algorithms.network import Network

    module = module_of("objective", name)
    generator = torch.Generator().manual_seed(0)
    arrays = {"weight": torch.randn(4, 3, generator=generator)}
    x, y = torch.randn(5, 4, generator=generator), torch.tensor([0, 2, 1, -100, -100])
    forward: Any = lambda given, inputs: inputs @ given["weight"]  # noqa: E731
    if hasattr(module, "MODEL"):
        model = Member(module.MODEL, module_of("model", module.MODEL).Config(), "algorithms.models")
        network = Network(model, (1, 8, 8), 3)
        network.load(network.initial(np.random.default_rng(0)))
        network.module.train()
        arrays, x = dict(network.module.named_parameters()), torch.randn(5, 1, 8, 8, generator=generator)
        forward = lambda _, inputs, **options: network.module(inputs, **options)  # noqa: E731

    def loss(records: int) -> float:
        return module.loss(module.Config(), forward, arrays, x[:records], y[:records], {}).item()

    assert loss(5) == pytest.approx(loss(3), rel=1e-6)
    assert loss(3) > 0


def sent(updates: np.ndarray, weights: np.ndarray) -> Received:
    """What three clients sent of a model of two arrays."""
    return Received(
        clients=np.arange(3),
        weights=weights,
        mean=weights @ updates.astype(np.float64),
        buffers=np.zeros(0),
        updates=updates,
        own_buffers=np.zeros((3, 0), np.float32),
        norms=np.linalg.norm(updates, axis=1),
        scales=np.ones(3),
        known={"rho": np.array([0.2, 0.5, 0.9])},
        layout=Layout(("body.weight", "body.bias"), ((2, 2), (2,))),
    )


@of_slot("aggregation")
def test_an_aggregation_changes_nothing_that_it_was_given_and_keeps_the_kind_of_its_state(name):
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
    if hasattr(module, "reweigh"):
        chosen, _ = module.reweigh(config, received)
        assert chosen.sum() == pytest.approx(1) and (chosen >= 0).all()
        received = reweighted(received, chosen)
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
    released = [module.release(config, params, received, np.random.default_rng(5))[0] for _ in range(2)]
    assert (released[0].dtype, released[0].shape) == (np.float32, (6,))
    assert released[0].tobytes() == released[1].tobytes()
