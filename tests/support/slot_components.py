"""All components of all slots, as they are found, and a short run in which any of them takes part."""

from __future__ import annotations

from typing import Any

import pytest

from algorithms.interfaces import Run
from datasets.components import Component, complete, components
from orchestrator.config.slots import SLOTS, Slot

FOLDERS = {slot.key: slot.folder for slot in SLOTS}
EVERY = [(slot, name) for slot in SLOTS for name in components(slot.folder)]
every_component = pytest.mark.parametrize(("slot", "name"), EVERY, ids=[f"{slot.key}-{name}" for slot, name in EVERY])
# Makes an attack cheap, where it has such fields.
SMALL = {"every": 1, "shadows": 1, "queries": 40, "replicas": 8, "targets": 5, "mock_updates": 3, "trees": 10}
DIGITS = {"name": "digits", "clients": 6, "examples_per_client": 20, "shadow_size": 60, "test_size": 60}


def of_slot(key: str) -> Any:
    return pytest.mark.parametrize("name", list(components(FOLDERS[key])))


def module_of(key: str, name: str) -> Any:
    """The component's module, completed with the defaults of its contract."""
    return complete(FOLDERS[key], name)


def attack(name: str) -> dict[str, Any]:
    fields = components("attacks")[name].Config.model_fields
    return {"name": name} | {field: value for field, value in SMALL.items() if field in fields}


def described(slot: Slot | None = None, name: str = "", **training: Any) -> dict[str, Any]:
    """A short run on digits in which the component ``name`` fills ``slot``."""
    run: dict[str, Any] = {
        "rounds": 2,
        "data": {**DIGITS, "split": {"minority_ratio": 0.34}},
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"lr": 0.1, "epochs": 1, "batch_size": 8, "clients_per_job": 4, **training},
        "attacks": [attack("shadow_mia")],
    }
    if slot is None:
        return run
    if slot.key == "objective" and module_of(slot.key, name).MODEL:  # trains nothing else
        run["model"] = module_of(slot.key, name).MODEL
    if slot.many:
        return run | {slot.key: [attack(name)]}
    if len(slot.path) == 2:
        outer, inner = map(str, slot.path)
        return run | {outer: {**run[outer], inner: name}}
    return run | {slot.key: name}


def chosen(run: Run, slot: Slot) -> Component[Any, Any]:
    filled = getattr(run, slot.field)
    return filled[0] if slot.many else filled
