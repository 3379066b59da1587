"""All components of all slots, as they are found, for tests that look at each of them."""

from __future__ import annotations

from typing import Any

import pytest

from datasets.components import complete, components
from orchestrator.config.slots import SLOTS
from orchestrator.conformance.example_runs import attack, described

FOLDERS = {slot.key: slot.folder for slot in SLOTS}
EVERY = [(slot, name) for slot in SLOTS for name in components(slot.folder)]
every_component = pytest.mark.parametrize(
    ("slot", "name"), EVERY, ids=[f"{slot.key}-{name}" for slot, name in EVERY]
)


def module_of(key: str, name: str) -> Any:
    return complete(FOLDERS[key], name)


def of_slot(key: str) -> Any:
    return pytest.mark.parametrize("name", list(components(FOLDERS[key])))


__all__ = ["EVERY", "FOLDERS", "attack", "described", "every_component", "module_of", "of_slot"]
