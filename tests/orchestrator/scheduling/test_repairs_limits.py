"""What a run may not do about damaged results: give up what it cannot make again, or believe what nobody wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep
from orchestrator.results.fingerprints import DataHashes
from orchestrator.results.folder import Folder
from orchestrator.results.integrity import sealed
from orchestrator.results.mark import copy_of
from orchestrator.results.record import SECRET_NOISE, TrialIdentity, read_record, save_record
from orchestrator.scheduling.earlier import earlier_results
from orchestrator.scheduling.repairs import find_repairs
from orchestrator.scheduling.trials import trial_specs
from orchestrator.trial import outcome
from tests.support.saved_sweep import SWEEP, contents, made_older, repairs_of, sweep_in, work_on


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return sweep_in(tmp_path)


def test_a_rerun_that_comes_to_less_does_not_vouch_for_what_was_there(saved_folder: Folder, sweep: Sweep) -> None:
    trial = saved_folder.trials()[0]
    trial.table("rounds").write_bytes(b"")
    repairs_of(saved_folder, sweep).mend()
    identity = TrialIdentity(trial.id, {"privacy": {}, "training": {"device": "cpu"}}, None)
    outcome.give_up(trial, None, "diverged", "NaN", identity, 0.0)
    assert sorted(path.name for path in trial.path.iterdir()) == [
        "config.yaml",
        "result.json",
        "rounds.parquet.damaged",
    ]


def test_where_neither_has_a_checksum_the_record_is_believed_and_nothing_is_lost(
    saved_folder: Folder, sweep: Sweep
) -> None:
    made_older(saved_folder)
    table = pq.read_table(saved_folder.table).replace_schema_metadata(None).to_pandas()
    table.loc[0, "accuracy"] += 0.125
    table.to_parquet(saved_folder.table)
    found = repairs_of(saved_folder, sweep)
    assert found.again == [] and [one.path for one in found.beside] == [saved_folder.table]


def test_a_former_trial_whose_configuration_is_damaged_is_left_aside(saved_folder: Folder, tmp_path: Path) -> None:
    smaller = sweep_in(tmp_path, SWEEP.replace("[0.05, 0.1]", "[0.05]"))
    (spec,) = trial_specs(smaller)
    (other,) = [one for one in saved_folder.trials() if one.id != spec.id]
    for content in (b"seed: \xff\xfe", b"seed: 2020-99-99", b"[" * 5000):
        other.config.write_bytes(content)
        (sentence,) = earlier_results(saved_folder, [spec], DataHashes()).sentences(1)
        assert sentence == f"1 earlier trial is not of this sweep any more and left aside: {other.id}"


def test_a_search_does_not_give_up_noise_that_was_secret(saved_folder: Folder, tmp_path: Path) -> None:
    smaller = sweep_in(tmp_path, SWEEP.replace("[0.05, 0.1]", "[0.05]"))
    (spec,) = trial_specs(smaller)
    (other,) = [one for one in saved_folder.trials() if one.id != spec.id]
    record = read_record(other)
    assert record is not None
    save_record(other, {name: one for name, one in record.items() if name != "checksums"} | {"notes": [SECRET_NOISE]})
    other.config.write_bytes(b"\xff")
    before = contents(saved_folder)
    with pytest.raises(ConfigError, match=r"config.yaml .* and its trial drew secret noise"):
        find_repairs(saved_folder, [spec], drawing=True)
    assert contents(saved_folder) == before


def test_a_mark_that_no_run_can_restore_is_named_by_a_dry_run(saved_folder: Folder, sweep: Sweep) -> None:
    copy_of(saved_folder.record).unlink()
    saved_folder.record.write_bytes(b"")
    (said,) = [one for one in repairs_of(saved_folder, sweep).planned() if str(saved_folder.record) in one]
    assert said.startswith(f"{saved_folder.record} is empty; restore it from a copy, or move the folder away")


def test_damaged_trials_that_ran_with_other_code_are_named_once(saved_folder: Folder, sweep: Sweep) -> None:
    for trial in saved_folder.trials():
        held = json.loads(trial.result.read_text())
        trial.result.write_text(json.dumps(sealed(held | {"files": {"algorithms/models/mlp.py": "other"}})))
    trial, _ = saved_folder.trials()
    trial.model.unlink()
    earlier = work_on(saved_folder, sweep).earlier
    assert earlier.sentences(2) == [
        "1 of 2 complete trials was run with another algorithms/models/mlp.py",
        "their results stand; --repeat-changed runs it again",
    ]
    repeated = work_on(saved_folder, sweep, repeat_changed=True).earlier
    assert repeated.mend() == [f"{trial.model} is missing: the trial runs again as a whole"]
    assert trial.result.exists()
    assert sorted(repeated.set_back(saved_folder)) == sorted(one.id for one in trial_specs(sweep))
