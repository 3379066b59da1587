"""The rows of an unfinished trial, its folders and what it began with may be damaged in any way: it begins anew."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.results.folder import TrialFolder
from orchestrator.results.integrity import DamageError
from orchestrator.results.record import STATE, TrialIdentity
from orchestrator.trial import outcome
from orchestrator.trial.saved import examine, state_damages
from tests.support.left_trials import (
    BYTES,
    COMPARING,
    DATA,
    PART,
    PLAIN,
    Damaging,
    Kept,
    assert_begins_anew,
    copied,
    cut,
    kept_trials,
    trial_folder,
)
from tests.support.planted import finished, left_behind, opened

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, one_thread: Any) -> Kept:
    return kept_trials(tmp_path_factory)


# Rows


def copied_from(name: str) -> Damaging:
    return lambda path: shutil.copy(path.parent / name, path)


def of_another_trials_round(path: Path) -> None:
    content = path.read_bytes()
    assert content.count(b"t/start-0/") == 1
    path.write_bytes(content.replace(b"t/start-0/", b"u/start-0/"))


PARTS: dict[str, Damaging] = {
    **BYTES, "missing": Path.unlink, "another round": copied_from("rounds-00000000.arrow"),
    "another table": copied_from("clients-00000001.arrow"), "another trial": of_another_trials_round,
}  # fmt: skip


@pytest.mark.parametrize("damaging", PARTS.values(), ids=PARTS)
def test_rows_that_are_damaged_let_the_trial_begin_anew(tmp_path, kept, damaging):
    path = copied(kept, "plain", tmp_path)
    damaging(trial_folder(path).state / PART)
    assert [one.path.name for one in state_damages(trial_folder(path))][:1] == [Path(PART).name]
    assert_begins_anew(path, PLAIN, kept["plain"][1], PART)


def test_a_table_that_lacks_a_round_is_noticed_although_not_every_round_has_rows(tmp_path, kept):
    path = copied(kept, "plain", tmp_path)
    (trial_folder(path).state / "start-0/clients-00000001.arrow").unlink()
    (damage,) = state_damages(trial_folder(path))
    assert damage.problem == "holds 1 parts of the table clients, and 2 were saved"
    assert_begins_anew(path, PLAIN, kept["plain"][1], "start-0")


def test_rows_of_the_best_initialization_are_looked_at_while_others_are_compared(tmp_path, kept):
    path = copied(kept, "comparing", tmp_path)
    (trial_folder(path).state / "start-0/rounds-00000000.arrow").write_bytes(b"")
    assert_begins_anew(path, COMPARING, kept["comparing"][1], "start-0/rounds-00000000.arrow")


def test_rows_of_a_later_round_than_the_state_are_forgotten(tmp_path, kept):
    path = copied(kept, "plain", tmp_path)
    start = trial_folder(path).state / "start-0"
    shutil.copy(start / "rounds-00000001.arrow", start / "rounds-00000007.arrow")
    (start / "rounds-00000002.arrow").mkdir()
    trial = opened(PLAIN, path, DATA)
    assert trial.repaired is None and trial.parts.rounds("rounds") == [0, 1]
    assert left_behind(finished(trial), path) == kept["plain"][1]


def test_rows_that_go_missing_while_the_trial_runs_let_it_fail_and_then_begin_anew(tmp_path, kept):
    path, folder = copied(kept, "plain", tmp_path), trial_folder(tmp_path / "trial")
    trial = finished(opened(PLAIN, path, DATA))
    (folder.state / PART).unlink()
    identity = TrialIdentity("t", trial.run.to_dict(), None)
    with pytest.raises(DamageError, match=f"{Path(PART).name} is missing"):
        outcome.finish(folder, trial, identity, 0.0)
    assert not folder.result.exists() and not folder.table("rounds").exists()
    record = outcome.give_up(folder, trial, "diverged", "NaN", identity, 0.0)  # ended, if it had its rows
    assert record["status"] == "failed" and record["reason"].endswith("is missing")
    assert_begins_anew(path, PLAIN, kept["plain"][1], PART)


# Folders, and what the trial began with


@pytest.mark.parametrize("name", ["", "start-0"])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_folder_is_set_aside(tmp_path, kept, name, kind):
    path = copied(kept, "plain", tmp_path)
    place = trial_folder(path).state / name
    place.rename(tmp_path / "elsewhere")
    place.write_text("") if kind == "file" else place.symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    trial = opened(PLAIN, path, DATA)
    assert trial.repaired is not None and trial.repaired.startswith(f"{place} is a {kind}")
    assert left_behind(finished(trial), path) == kept["plain"][1]
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


ORIGINS: dict[str, Damaging] = {
    **{name: damaging for name, damaging in BYTES.items() if name != "one bit"},
    "another hash": lambda path: path.write_text(path.read_text().replace('"2"', '"3"')),
    "a list": lambda path: path.write_text("[]"),
    "numbers": lambda path: path.write_text('{"files": {"a": 1}, "origin": {}}'),
    "half": lambda path: path.write_text('{"files": {}}'),
}  # fmt: skip


@pytest.mark.parametrize("damaging", ORIGINS.values(), ids=ORIGINS)
def test_a_trial_of_which_it_is_not_known_what_it_began_with_begins_anew(tmp_path, kept, damaging):
    path = copied(kept, "plain", tmp_path)
    damaging(trial_folder(path).state / "origin.json")
    trial = opened(PLAIN, path, DATA)
    assert trial.repaired is not None and trial.repaired.startswith(str(trial_folder(path).state / "origin.json") + " ")
    assert trial.state.round == 0


def test_what_a_trial_began_with_may_be_unknown_as_in_earlier_versions(tmp_path, kept):
    path = copied(kept, "plain", tmp_path)
    for content in (None, '{"files": {"a.py": "1"}, "origin": {"code": "2"}}'):
        file = trial_folder(path).state / "origin.json"
        file.unlink(missing_ok=True)
        if content:
            file.write_text(content)
        assert state_damages(trial_folder(path)) == []
    assert opened(PLAIN, path, DATA).state.round == 2


# Stopped by a scheduler


def test_a_stopped_trial_whose_state_is_damaged_has_failed(tmp_path, kept):
    path = copied(kept, "plain", tmp_path)
    folder = trial_folder(path)
    identity = TrialIdentity("t", {"rounds": 3, "training": {"device": "cpu"}, "privacy": {}}, None)
    by = {"name": "asha", "metric": "accuracy"}
    assert outcome.stop(folder, identity, 0.0, by, (1, 0.5))["status"] == "stopped"
    for file in (folder.state / PART, folder.state / STATE):
        cut(0.5)(file)
        record = outcome.stop(folder, identity, 0.0, by, (1, 0.5))
        assert record["status"] == "failed" and record["reason"].startswith(f"{file} is not what was saved")


# Anywhere


@pytest.mark.parametrize("name", [STATE, PART, "start-0/clients-00000000.arrow", "origin.json"])
def test_whatever_bit_is_changed_and_wherever_a_file_ends_nothing_wrong_is_believed(tmp_path, kept, name):
    path, rng = copied(kept, "plain", tmp_path), np.random.default_rng(0)
    file = trial_folder(path).state / name
    whole, before = file.read_bytes(), believed(trial_folder(path))
    for number in range(150):
        content = bytearray(whole)
        at = int(rng.integers(len(whole)))
        if number % 3:
            content[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(content if number % 3 else content[:at])
        damages = state_damages(trial_folder(path))
        assert {one.path for one in damages} <= {file}
        assert damages or believed(trial_folder(path)) == before, (number, at)


def believed(folder: TrialFolder) -> Any:
    """All that a trial would resume with."""
    from orchestrator.results.record import read_begun
    from orchestrator.trial.saved import table_parts

    state = examine(folder).state
    assert state is not None
    parts = table_parts(folder, 0)
    rows = [parts.read(table).to_pylist() for table in ("rounds", "clients")]
    plain = (state.round, state.outer, state.names, state.spent, state.resumed, state.parts)
    arrays = [state.models[0].params, state.losses, state.assignment, state.history, state.statistics["weight"]]
    return repr((rows, plain, [array.tobytes() for array in arrays], read_begun(folder)))
