"""What every component of every slot declares, and that all of it counts in a trial's identity.

Components are found, so a new file is tested without an edit here. What they owe is read off their contracts, whose signatures
are checked in test_contracts.py; what components do is in test_runs.py.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from datasets.components import components
from orchestrator.config.contracts import owed
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.slots import SLOTS
from orchestrator.conformance import declared
from tests.support.slot_components import FOLDERS, described, every_component

# What every component declares


@every_component
def test_a_component_has_what_its_contract_asks_for_and_documents_it(slot, name):
    assert owed(slot.folder, components(slot.folder)[name])
    assert list(declared.contract_problems(slot, name)) == []


@every_component
def test_no_public_name_is_almost_one_of_the_contract(slot, name):
    assert list(declared.misspelled_names(slot, name)) == []


@every_component
def test_every_field_is_described_in_one_line_with_an_allowed_default(slot, name):
    assert list(declared.description_problems(slot, name)) == []


@every_component
def test_a_config_is_frozen_and_knows_its_fields(slot, name):
    assert list(declared.freezing_problems(slot, name)) == []


@every_component
def test_numbers_have_a_range(slot, name):
    """Checked where the schema can tell it; a tuple may be checked by a validator."""
    assert list(declared.range_problems(slot, name)) == []


@every_component
def test_what_is_no_number_is_refused(slot, name):
    assert list(declared.number_problems(slot, name)) == []


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


@every_component
def test_every_field_that_is_read_is_part_of_the_trials_identity(slot, name):
    assert list(declared.identity_problems(slot, name)) == []


@pytest.mark.parametrize(
    ("objective", "aggregation", "read"),
    [("plain", "fedavg", False), ("finp", "fedavg", True), ("plain", "finp_ala", True)],
)
def test_curvature_is_part_of_the_trials_identity_where_it_is_read(objective, aggregation, read):
    run = resolve(described() | {"objective": objective, "aggregation": aggregation})
    assert run.measures_curvature == read
    for field, changed in declared.changes(run.curvature):
        before = declared.reading(run.curvature, field)
        assert changed is not None and before is not None, field
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
    assert list(declared.reading_problems(slot, name)) == []
