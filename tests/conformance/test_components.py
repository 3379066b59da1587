"""Every component of every slot passes the conformance suite, and all of a run counts in a
trial's identity.

Components are found, so a new file is tested without an edit here. Signatures are checked in
test_contracts.py, and in test_actors.py that the bytes do not depend on who does the work.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from datasets.components import components
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.slots import SLOTS
from orchestrator.conformance import suite
from tests.support.slot_components import described, every_component


@every_component
def test_a_component_passes_the_suite(slot, name):
    """What it declares and does, by every check of ``fedpriv check``; that they find mistakes is
    in test_mistakes.py.
    """
    findings = list(suite.findings(slot, name))
    assert {finding.check.title: finding.problems for finding in findings if finding.problems} == {}
    made = {finding.check.title for finding in findings if not finding.skipped}
    assert len(made) >= max(3, len(findings) - 1)


@pytest.mark.parametrize(
    ("objective", "aggregation", "read"),
    [("plain", "fedavg", False), ("finp", "fedavg", True), ("plain", "finp_ala", True)],
)
def test_curvature_is_part_of_the_trials_identity_where_it_is_read(objective, aggregation, read):
    run = resolve(described() | {"objective": objective, "aggregation": aggregation})
    assert run.measures_curvature == read
    for field, value in {
        "examples": 7,
        "solver": "power",
        "trace": "hutchinson",
        "rho_mode": "signed",
    }.items():
        changed = replace(run, curvature=run.curvature.model_copy(update={field: value}))
        assert (trial_id(changed) != trial_id(run)) == read, field


def test_the_fields_beside_the_slots_and_the_choice_of_components_are_part_of_the_trials_identity():
    run = resolve(described())
    changed = ({"rounds": 3}, {"seed": 1}, {"evaluate_every": 2}, {"attacks": ()})
    changed += ({"participation": "fixed"}, {"participation_rate": 0.5})
    assert (
        len({trial_id(other) for other in (run, *(replace(run, **change) for change in changed))})
        == 7
    )
    for slot in SLOTS:
        names = list(components(slot.folder))
        assert len({trial_id(resolve(described(slot, name))) for name in names}) == len(names)
