"""Components against the contracts of their slots: functions checked by mypy, constants by their
declared types.

A module need not have what its contract has a default for, so modules are not assigned to the
contract as a whole. Instead each function is assigned to a variable that has the type of the
contract's function.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from datasets.components import components
from orchestrator.config.slots import conforms, declared
from tests.support.slot_components import EVERY, FOLDERS

ROOT = Path(__file__).parents[2]
SLOT = "algorithms.aggregation"


def test_functions_have_the_signatures_of_the_contract(tmp_path):
    """What mypy says of every component, in one process; the last pair does not fit, so that
    something is found.
    """
    pairs = []
    for slot, name in EVERY:
        module = components(slot.folder)[name]
        functions = [item for item in declared(slot.folder, module) if item.function]
        pairs += [
            (item, module.__name__, item.name)
            for item in functions
            if item.owed or hasattr(module, item.name)
        ]
    apply = next(item for item in declared(SLOT, None) if item.name == "apply")
    pairs.append((apply, "algorithms.aggregation.fedavg", "weigh"))
    lines = ["from typing import Any"]
    for i, (item, module, name) in enumerate(pairs):
        imports = f"import {item.contract.__module__}, {module}"
        theirs = f"{item.contract.__module__}.{item.contract.__name__}.{item.name}"
        lines.append(f"{imports}; _{i} = {theirs}; _{i} = {module}.{name}")
    file = tmp_path / "contract_check.py"
    file.write_text("\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-pretty",
        "--no-error-summary",
        "--hide-error-context",
        str(file),
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert len(pairs) > len(EVERY)
    errors = re.findall(rf"{file.name}:(\d+): error: (.+)", ran.stdout)
    assert [int(line) for line, _ in errors] == [len(lines)], ran.stdout + ran.stderr
    assert "Incompatible types in assignment" in errors[0][1]


def test_a_constant_of_another_type_is_found():
    constants = {item.name: item for item in declared(SLOT, None)}
    for name, wrong in {
        "NEEDS": "all",
        "SENSITIVITY": "none",
        "LABEL": 3,
        "PRESETS": {"a": "b"},
    }.items():
        with pytest.raises(ValueError, match="validation error"):
            conforms(constants[name], wrong)


def test_what_is_owed_is_what_is_abstract_or_has_no_value():
    def names(key: str, module: Any = None) -> set[str]:
        return {item.name for item in declared(FOLDERS[key], module) if item.owed}

    assert names("aggregation") == {"NEEDS", "weigh", "apply"}
    assert names("model") == {"build", "CONVOLUTIONAL", "BATCH_NORM"}
    assert names("data.split") == {"shortages", "partition"}
    assert names("attacks", components("attacks")["sia"]) == {"KINDS", "observe", "conclude"}
