"""The sweep files that we ship, with the real components: each is read, each trial is one run that reads back."""

from pathlib import Path

import pytest

from orchestrator.config.run import resolve, trial_id
from orchestrator.config.slots import SLOTS
from orchestrator.config.sweep_file import load_sweep

SWEEPS = Path(__file__).parents[3] / "sweeps"


@pytest.mark.parametrize("path", sorted(SWEEPS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_sweep_is_read(path: Path) -> None:
    sweep = load_sweep(path)
    assert len({trial_id(run) for run in sweep.runs}) == len(sweep.runs)
    for run in sweep.runs:
        assert resolve(run.to_dict()) == run


def test_no_field_of_a_component_takes_the_place_of_its_name() -> None:
    from datasets.components import components

    for slot in SLOTS:
        inside = {"name", *(other.field for other in SLOTS if other.path[:-1] == slot.path)}
        for module in components(slot.folder).values():
            assert inside.isdisjoint(module.Config.model_fields)
