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
from tests.support.slot_components import EVERY, FOLDERS

ROOT = Path(__file__).parents[2]
SLOT = "algorithms.aggregation"
# Functions of a made-up aggregation that do not fit the contract; `apply` is missing.
WRONG = """
from typing import Any

def begin(config: Any, params: int) -> dict[str, Any]: ...
def weigh(config: Any, sizes: Any) -> Any: ...
def statistics(config: Any, more: int) -> tuple[str, ...]: ...
def warm_start(config: Any) -> None: ...
"""


def functions(folder: str, module: ModuleType) -> Iterator[Declared]:
    """Those of the contract that the component owes, and those that it has besides."""
    for one in declared(folder, module):
        if one.function and (one.owed or hasattr(module, one.name)):
            yield one


def test_functions_have_the_signatures_of_the_contract(tmp_path):
    """What mypy has to say about every component and a made-up one, by module and function; one process for all."""
    (tmp_path / "wrong.py").write_text(WRONG)
    spec = importlib.util.spec_from_file_location("wrong", tmp_path / "wrong.py")
    assert spec and spec.loader
    wrong = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wrong)
    checked = [(slot.folder, components(slot.folder)[name]) for slot, name in EVERY] + [(SLOT, wrong)]
    places, lines = [("", "")], ["from typing import Any"]
    for folder, module in checked:
        owed_here = [one.name for one in functions(folder, module) if one.owed]
        assert owed_here or contracts(folder, module) == (Attack,)
        for one in functions(folder, module):
            places.append((module.__name__, one.name))
            theirs, own = (
                f"{one.contract.__module__}.{one.contract.__name__}.{one.name}",
                f"{module.__name__}.{one.name}",
            )
            imports = f"import {one.contract.__module__}, {module.__name__}"
            lines.append(f"{imports}; _{len(lines)} = {theirs}; _{len(lines)} = {own}")
    file = tmp_path / "contract_check.py"
    file.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--no-pretty", "--no-error-summary", "--hide-error-context", str(file)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr  # errors were found, and mypy itself did not fail
    found = {places[int(line) - 1]: text for line, text in re.findall(rf"{file.name}:(\d+): error: (.+)", ran.stdout)}
    assert set(found) == {("wrong", name) for name in ("begin", "weigh", "apply", "statistics")}
    assert "has no attribute" in found.pop(("wrong", "apply"))
    assert all("Incompatible types in assignment" in text for text in found.values())


def test_a_constant_of_another_type_is_found():
    constants = {one.name: one for one in declared(SLOT, None)}
    for name, wrong in {"NEEDS": "all", "SENSITIVITY": "none", "LABEL": 3, "PRESETS": {"a": "b"}}.items():
        with pytest.raises(ValueError, match="validation error"):
            conforms(constants[name], wrong)


def test_what_is_owed_is_what_is_abstract_or_has_no_value():
    def names(key: str, module: Any = None) -> set[str]:
        return {one.name for one in owed(FOLDERS[key], module)}

    assert names("aggregation") == {"NEEDS", "weigh", "apply"}
    assert names("model") == {"build", "CONVOLUTIONAL", "BATCH_NORM"}
    assert names("data.split") == {"shortages", "partition"}
    assert names("attacks") == {"KINDS"}
    assert names("attacks", components("attacks")["sia"]) == {"KINDS", "observe", "conclude"}
    assert names("attacks", components("attacks")["shadow_mia"]) == {"KINDS", "audit"}
