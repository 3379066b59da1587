"""Every component of every slot passes the conformance suite, and all of a run counts in a trial's identity.

Components are found, so a new file is tested without an edit here. Signatures are checked in test_contracts.py, and in
test_actors.py that the bytes do not depend on who does the work.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from datasets.components import components
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.slots import SLOTS
from orchestrator.conformance import suite
from tests.support.slot_components import FOLDERS, described, every_component


@pytest.mark.usefixtures("one_thread")
@every_component
def test_a_component_passes_the_suite(slot, name):
    """What it declares and does, by every check of ``fedpriv check``; that they find mistakes is in test_mistakes.py."""
    findings = list(suite.findings(slot, name))
    assert {one.check.title: one.problems for one in findings if one.problems} == {}
    made = {one.check.title for one in findings if not one.skipped}
    assert len(made) >= max(3, len(findings) - 1)


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


@pytest.mark.parametrize(
    ("objective", "aggregation", "read"),
    [("plain", "fedavg", False), ("finp", "fedavg", True), ("plain", "finp_ala", True)],
)
def test_curvature_is_part_of_the_trials_identity_where_it_is_read(objective, aggregation, read):
    run = resolve(described() | {"objective": objective, "aggregation": aggregation})
    assert run.measures_curvature == read
    for field, value in {"examples": 7, "solver": "power", "trace": "hutchinson", "rho_mode": "signed"}.items():
        changed = replace(run, curvature=run.curvature.model_copy(update={field: value}))
        assert (trial_id(changed) != trial_id(run)) == read, field


def test_the_fields_beside_the_slots_are_part_of_the_trials_identity():
    run = resolve(described())
    changed = ({"rounds": 3}, {"seed": 1}, {"evaluate_every": 2}, {"attacks": ()})
    changed += ({"participation": "fixed"}, {"participation_rate": 0.5})
    assert len({trial_id(one) for one in (run, *(replace(run, **change) for change in changed))}) == 7


@pytest.mark.parametrize("slot", SLOTS, ids=lambda slot: slot.key)
def test_which_component_fills_a_slot_is_part_of_the_trials_identity(slot):
    names = list(components(slot.folder))
    assert len({trial_id(resolve(described(slot, name))) for name in names}) == len(names)
