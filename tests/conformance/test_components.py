"""What every component of every slot declares, and that all of it counts in a trial's identity.

Components are found, so a new file is tested without an edit here. What they owe is read off their contracts, whose signatures
are checked in test_contracts.py; what components do is in test_runs.py.
"""

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
from orchestrator.config.contracts import owed
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.slots import SLOTS
from tests.support.slot_components import FOLDERS, chosen, described, every_component

# What every component declares


@every_component
def test_a_component_has_what_its_contract_asks_for_and_documents_it(slot, name):
    module = components(slot.folder)[name]
    assert (module.__doc__ or "").strip()
    assert module.Config.__module__ == module.__name__
    assert module.Config.__doc__ and module.Config.__doc__ != Config.__doc__
    needed = owed(slot.folder, module)
    assert needed
    assert [one.name for one in needed if not hasattr(module, one.name)] == []
    assert [one.name for one in needed if one.function and not inspect.getdoc(getattr(module, one.name))] == []


@every_component
def test_every_field_is_described_in_one_line_with_an_allowed_default(slot, name):
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


def test_finding_every_component_imports_no_slow_package():
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


def deciding(config: Config, field: str) -> Iterator[Config]:
    """``config`` with another value in one field other than ``field``; it need not be a value that is allowed."""
    schema = type(config).model_json_schema().get("properties", {})
    for other, value in config:
        if other != field:
            chosen = schema[other].get("enum", ())
            larger = (value + 1,) if isinstance(value, int | float) else ()
            yield from (config.model_copy(update={other: candidate}) for candidate in (*chosen, *larger))


def reading(config: Config, field: str) -> Config:
    """A config in which ``field`` is read: ``config``, or one with other values in a field or two that decide it."""
    near = [config]
    for _ in range(3):
        for one in near:
            if field not in one.unread_fields():
                return one
        near = [further for one in near for further in deciding(one, field)]
    pytest.fail(f"{field} is never read")


@every_component
def test_every_field_that_is_read_is_part_of_the_trials_identity(slot, name):
    # The choice of noise is read only where something is noisy.
    private = {"training": "dp_sgd"} if slot.key == "privacy" else {}
    run = resolve(described(slot, name) | private)
    component = chosen(run, slot)
    assert component.name == name

    def identity(config: Config) -> str:
        other = replace(component, config=config)
        filled: dict[str, Any] = {slot.field: (other,) if slot.many else other}
        return trial_id(replace(run, **filled))

    own, found = component.config, [trial_id(run)]
    for field, changed in changes(own):
        read = reading(own, field)
        found.append(identity(read.model_copy(update={field: getattr(changed, field)})))
        assert found[-1] != identity(read), field
        if field in own.unread_fields():
            assert identity(own.model_copy(update={field: getattr(changed, field)})) == found[0], field
    assert len(found) == 1 + len(type(own).model_fields)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("objective", "aggregation", "read"),
    [("plain", "fedavg", False), ("finp", "fedavg", True), ("plain", "finp_ala", True)],
)
def test_curvature_is_part_of_the_trials_identity_where_it_is_read(objective, aggregation, read):
    run = resolve(described() | {"objective": objective, "aggregation": aggregation})
    assert run.measures_curvature == read
    for field, changed in changes(run.curvature):
        before = reading(run.curvature, field)
        after = before.model_copy(update={field: getattr(changed, field)})
        ids = {trial_id(replace(run, curvature=one)) for one in (before, after)}
        assert len(ids) == (2 if read else 1), field


def test_the_fields_beside_the_slots_are_part_of_the_trials_identity():
    run = resolve(described())
    changed = ({"rounds": 3}, {"seed": 1}, {"evaluate_every": 2}, {"attacks": ()})
    changed += ({"participation": "fixed"}, {"participation_rate": 0.5})
    assert len({trial_id(one) for one in (run, *(replace(run, **change) for change in changed))}) == 7


@pytest.mark.parametrize("slot", SLOTS, ids=lambda slot: slot.key)
def test_which_component_fills_a_slot_is_part_of_the_trials_identity(slot):
    names = list(components(slot.folder))
    assert len({trial_id(resolve(described(slot, name))) for name in names}) == len(names)


@every_component
def test_a_run_is_read_back_as_it_was_written(slot, name):
    run = resolve(described(slot, name))
    again = resolve(json.loads(json.dumps(run.to_dict())))
    assert again == run
    assert trial_id(again) == trial_id(run)
