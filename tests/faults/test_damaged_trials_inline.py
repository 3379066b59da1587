"""Each damaged trial by itself, in this process: its damage is named before anything of it is believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.results.folder import Folder
from orchestrator.results.integrity import ASIDE
from orchestrator.results.record import TrialIdentity, read_record
from orchestrator.results.tables import write_trials
from orchestrator.scheduling.earlier import Earlier, earlier_results
from orchestrator.scheduling.trials import TrialSpec, remaining_trials, trial_rows
from orchestrator.trial import outcome
from tests.support.damage import trees_equal
from tests.support.damaged_sweep import NAME, Damaged, Undamaged, damage_trial, trial_in, written_sweep
from tests.support.damaged_trials import CASES, COMPLETE, Case

ENDED = [case for case in CASES if case.came == COMPLETE]
BEGUN = [case for case in CASES if case.came != COMPLETE]


@pytest.fixture(scope="module")
def undamaged(tmp_path_factory, one_thread) -> Undamaged:
    scratch = tmp_path_factory.mktemp("scratch")
    return Undamaged.made(written_sweep(scratch / "damaged.yaml", 2), scratch)


def damaged(undamaged: Undamaged, case: Case, results: Path) -> Damaged:
    """A sweep of one trial, damaged as the case says, with its table."""
    spec, folder = undamaged.trials[case.restarts is True][1], Folder(results / NAME)
    rows = trial_rows(undamaged.folder, [spec])
    found = damage_trial(undamaged, case, spec, folder)
    write_trials(folder, rows if case.came == COMPLETE else trial_rows(folder, [spec]))
    return found


def examined(undamaged: Undamaged, folder: Folder, spec: TrialSpec) -> Earlier:
    return earlier_results(folder, [spec], undamaged.hashes)


@pytest.mark.parametrize("case", ENDED, ids=lambda case: case.name)
def test_results_that_are_damaged_are_named_and_set_aside(undamaged: Undamaged, tmp_path: Path, case: Case) -> None:
    one = damaged(undamaged, case, tmp_path)
    folder, expected = Folder(tmp_path / NAME), undamaged.folder.trial(one.spec.id)
    earlier = examined(undamaged, folder, one.spec)
    said = " ".join(earlier.repairs.planned())
    missing = remaining_trials(folder, [one.spec])
    if case.then == "kept":
        assert said == ""
        assert earlier.remaining([one.spec], missing) == []
        return
    assert case.is_named(one.folder.path, one.file, said)
    again = earlier.remaining([one.spec], missing)
    mended = " ".join(earlier.repairs.mend())
    if one.content is not None:
        aside = [path for path in one.file.parent.glob(f"{one.file.name}{ASIDE}*") if path.is_file()]
        assert one.content in [path.read_bytes() for path in aside]
        assert any(path.name in mended for path in aside)
    if again:
        assert read_record(one.folder) is None
    else:  # whatever was damaged is as it was
        assert trees_equal(one.folder.path, expected.path)


@pytest.mark.parametrize("case", BEGUN, ids=lambda case: case.name)
def test_a_trial_with_a_damaged_state_ends_as_if_nothing_had_happened(
    undamaged: Undamaged, tmp_path: Path, case: Case
) -> None:
    one = damaged(undamaged, case, tmp_path)
    folder, expected = Folder(tmp_path / NAME), undamaged.folder.trial(one.spec.id)
    earlier = examined(undamaged, folder, one.spec)
    assert earlier.remaining([one.spec], remaining_trials(folder, [one.spec])) == [one.spec]
    trial = trial_in(one.folder, one.spec, undamaged.sweep)
    said = f"{' '.join(earlier.sentences(1))} {trial.repaired or ''}"
    assert case.is_named(one.folder.path, one.file, said)
    while not trial.done:
        trial.advance()
    outcome.finish(one.folder, trial, TrialIdentity(one.spec.id, one.spec.run.to_dict(), None), 0.0)
    assert trees_equal(one.folder.path, expected.path)
