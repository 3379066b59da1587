"""What every component of every slot declares, and that all of it counts in a trial's identity. Members are found, so
a new file is tested without an edit here; what components do is in test_conformance_runs.py."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from datasets.components import Config, components
from orchestrator.config.run import SLOTS, resolve, trial_id
from tests.support.slot_components import FOLDERS, chosen, described, every_component

# What a module has besides its Config; see the docstrings of the slots' packages.
OWED = {
    "data": ("load",),
    "data.split": ("problems", "shortages", "partition"),
    "model": ("build", "CONVOLUTIONAL", "BATCH_NORM"),
    "training": ("schedule", "one_epoch", "learning_rate", "shape_problem"),
    "clustering": ("preferences", "choose"),
    "objective": ("loss",),
    "aggregation": ("NEEDS", "begin", "weigh", "apply"),
    "privacy": ("NEEDS", "NOISY", "bound", "release"),
    "attacks": ("STAGE",),
}


# What every component declares


@every_component
def test_a_member_says_what_it_is(slot, name):
    module = components(slot.folder)[name]
    assert (module.__doc__ or "").strip()
    assert module.Config.__module__ == module.__name__
    assert module.Config.__doc__ and module.Config.__doc__ != Config.__doc__
    missing = [owed for owed in OWED[slot.key] if not hasattr(module, owed)]
    assert not missing
    for function in OWED[slot.key]:
        if callable(getattr(module, function)):
            assert inspect.getdoc(getattr(module, function)), function


@every_component
def test_every_field_is_described_in_one_line_and_has_a_default_that_is_allowed(slot, name):
    config = components(slot.folder)[name].Config
    for field, info in config.model_fields.items():
        assert info.description and "\n" not in info.description, field
        assert len(info.description) < 120, field
    assert config.model_validate(config().model_dump()) == config()


@every_component
def test_a_config_is_frozen_and_knows_its_fields(slot, name):
    config = components(slot.folder)[name].Config()
    assert isinstance(config, Config)
    with pytest.raises(ValidationError):
        type(config).model_validate({"no_such_field": 1})
    for field, value in config:
        with pytest.raises(ValidationError):
            setattr(config, field, value)


@every_component
def test_numbers_have_a_range(slot, name):
    """Checked where the schema can tell it; a tuple may be checked by a validator."""
    schema = components(slot.folder)[name].Config.model_json_schema()
    limits = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}
    for field, described_as in schema.get("properties", {}).items():
        for kind in (described_as, *described_as.get("anyOf", ())):
            if kind.get("type") in ("integer", "number") and "enum" not in kind and "const" not in kind:
                assert limits & set(kind), field


@every_component
def test_what_is_no_number_is_refused(slot, name):
    config = components(slot.folder)[name].Config()
    for field, value in config:
        if isinstance(value, float):
            for wrong in (float("nan"), float("inf"), "0.5"):
                with pytest.raises(ValidationError):
                    type(config)(**{field: wrong})


def test_reading_every_component_loads_neither_torch_nor_another_slow_package():
    """The head process and the driver pay for what a component imports at its top."""
    slow = "torch", "torchvision", "sklearn", "pandas", "mlflow", "ray"
    code = (
        "import orchestrator, sys; from datasets.components import components\n"
        f"for folder in {list(FOLDERS.values())}: components(folder)\n"
        f"print([name for name in {slow} if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
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


@every_component
def test_every_field_of_every_component_is_part_of_the_trials_identity(slot, name):
    run = resolve(described(slot, name))
    component = chosen(run, slot)
    assert component.name == name
    ids = [trial_id(run)]
    for _, config in changes(component.config):
        other = replace(component, config=config)
        filled: dict[str, Any] = {slot.field: (other,) if slot.many else other}
        ids.append(trial_id(replace(run, **filled)))
    assert len(ids) == 1 + len(type(component.config).model_fields)
    assert len(set(ids)) == len(ids)


def test_the_fields_beside_the_slots_are_part_of_the_trials_identity():
    run = resolve(described())
    changed = ({"rounds": 3}, {"seed": 1}, {"evaluate_every": 2}, {"attacks": ()})
    changed += ({"participation": "fixed"}, {"participation_rate": 0.5})
    assert len({trial_id(one) for one in (run, *(replace(run, **change) for change in changed))}) == 7


@pytest.mark.parametrize("slot", SLOTS, ids=lambda slot: slot.key)
def test_which_member_fills_a_slot_is_part_of_the_trials_identity(slot):
    names = list(components(slot.folder))
    assert len({trial_id(resolve(described(slot, name))) for name in names}) == len(names)


@every_component
def test_a_run_is_read_back_as_it_was_written(slot, name):
    run = resolve(described(slot, name))
    again = resolve(json.loads(json.dumps(run.to_dict())))
    assert again == run
    assert trial_id(again) == trial_id(run)
