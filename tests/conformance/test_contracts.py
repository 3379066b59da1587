"""Components against the contracts of their slots: functions checked by mypy, constants by their declared types.

A module need not have what its contract has a default for, so modules are not assigned to the contract as a whole. Instead
each function is assigned to a variable that has the type of the contract's function.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from attacks.interfaces import Attack
from datasets.components import components
from orchestrator.config.slots import Declared, contracts, declared, owed
from orchestrator.conformance.declared import conforms
from tests.support.slot_components import EVERY, FOLDERS, every_component

ROOT = Path(__file__).parents[2]
SLOT = "algorithms.aggregation"
GOOD = '''
"""An aggregation that keeps to its contract."""
from typing import Any
import numpy as np
from algorithms.core.messages import ClientUpdates, Doubles, Floats, Ints
from algorithms.interfaces import Metrics, State

NEEDS = "mean"

def begin(config: Any, params: Floats) -> State:
    return {}

def weigh(config: Any, examples: Ints) -> Doubles:
    return np.ones(len(examples))

def apply(config: Any, state: State, params: Floats, received: ClientUpdates) -> tuple[Floats, State, Metrics]:
    return params + received.mean, state, {}

def equal_weights(config: Any) -> bool:
    return True
'''
# What is changed in the good one, and the function that must be complained of.
DAMAGED = {
    "other_argument": ("examples: Ints", "sizes: Ints", "weigh"),
    "other_argument_type": ("params: Floats) -> State", "params: int) -> State", "begin"),
    "other_result": ("-> bool:\n    return True", '-> str:\n    return "yes"', "equal_weights"),
    "missing": ("def apply", "def aggregate", "apply"),
    "argument_too_many": ("config: Any, examples: Ints", "config: Any, examples: Ints, more: int", "weigh"),
}


def functions(folder: str, module: ModuleType) -> Iterator[Declared]:
    """Those of the contract that the component owes, and those that it has besides."""
    for one in declared(folder, module):
        if one.function and (one.owed or hasattr(module, one.name)):
            yield one


def made_up(folder: Path, name: str, code: str) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What mypy has to say about every component and the made up ones: by module, by function. One process for all."""
    folder = tmp_path_factory.mktemp("contracts")
    checked = [(slot.folder, components(slot.folder)[name]) for slot, name in EVERY]
    checked.append((SLOT, made_up(folder, "good", GOOD)))
    for name, (old, new, _) in DAMAGED.items():
        assert old in GOOD
        checked.append((SLOT, made_up(folder, name, GOOD.replace(old, new))))
    places, lines = [("", "")], ["from typing import Any"]
    for slot, module in checked:
        for one in functions(slot, module):
            places.append((module.__name__, one.name))
            lines.append(
                f"import {one.contract.__module__}, {module.__name__}; "
                f"_{len(lines)} = {one.contract.__module__}.{one.contract.__name__}.{one.name}; "
                f"_{len(lines)} = {module.__name__}.{one.name}"
            )
    assert len(places) == len(lines)
    file = folder / "contract_check.py"
    file.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--no-pretty", "--no-error-summary", "--hide-error-context", str(file)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr  # errors were found, and mypy itself did not fail
    found: dict[str, dict[str, str]] = {module.__name__: {} for _, module in checked}
    for line, text in re.findall(rf"{file.name}:(\d+): error: (.+)", ran.stdout):
        module, function = places[int(line) - 1]
        found[module][function] = text
    return found


@every_component
def test_functions_have_the_signatures_of_the_contract(complaints, slot, name):
    module = components(slot.folder)[name]
    assert any(one.owed for one in functions(slot.folder, module)) or contracts(slot.folder, module) == (Attack,)
    assert complaints[module.__name__] == {}


# That the checks find something


def test_a_component_that_keeps_to_its_contract_has_no_complaint(complaints):
    assert complaints["good"] == {}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_wrong_signature_and_a_missing_function_are_found(complaints, name):
    function = DAMAGED[name][2]
    assert set(complaints[name]) == {function}
    expected = "has no attribute" if name == "missing" else "Incompatible types in assignment"
    assert expected in complaints[name][function]


def test_a_constant_of_another_type_is_found():
    constants = {one.name: one for one in declared(SLOT, None)}
    for name, wrong in {"NEEDS": "all", "SENSITIVITY": "none", "LABEL": 3, "PRESETS": {"a": "b"}}.items():
        with pytest.raises(ValueError, match="validation error"):
            conforms(constants[name], wrong)


def test_what_is_owed_is_what_is_abstract_or_has_no_value():
    def names(key: str, module: Any = None) -> set[str]:
        return {one.name for one in owed(FOLDERS[key], module)}

    assert names("aggregation") == {"NEEDS", "begin", "weigh", "apply"}
    assert names("model") == {"build", "CONVOLUTIONAL", "BATCH_NORM"}
    assert names("data.split") == {"shortages", "partition"}
    assert names("attacks") == {"KINDS"}
    assert names("attacks", components("attacks")["sia"]) == {"KINDS", "observe", "conclude"}
    assert names("attacks", components("attacks")["shadow_mia"]) == {"KINDS", "audit"}
