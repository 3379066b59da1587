"""What an unfinished trial saved may be damaged in any way: it begins anew, says so, and ends like an undisturbed one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.integrity import DamageError
from orchestrator.results.record import STATE, TrialIdentity, write_begun
from orchestrator.trial import outcome
from orchestrator.trial.saved import examine, state_damages
from orchestrator.trial.state import load_state, save_state
from tests.support.planted import clustered, finished, given, left_behind, opened, planted, rewrite

pytestmark = pytest.mark.usefixtures("one_thread")

DATA = planted(clients=4, each=8, minority=1, features=4)
PLAIN = given(3, training={"clients_per_job": 4})
COMPARING = given(3, clustering=clustered(restarts=2, restart_rounds=1), training={"clients_per_job": 4})
NOISY = {"name": "global_dp", "noise_multiplier": 1.0, "clip": 5.0}
RUNS = {"plain": PLAIN, "comparing": COMPARING}
PART = "start-0/rounds-00000001.arrow"

Damaging = Callable[[Path], Any]


def trial_folder(path: Path) -> TrialFolder:
    return Folder(path).trial("t")


def interrupted(run: Any, path: Path, rounds: int) -> Path:
    """The folder of a trial that was killed after some rounds, of all its initializations."""
    trial = opened(run, path, DATA)
    write_begun(trial.around.folder, TrialIdentity("t", {}, None, (("a.py", "1"),), {"code": "2"}))
    for _ in range(rounds):
        trial.advance()
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, one_thread: Any) -> dict[str, tuple[Path, dict[str, Any]]]:
    """By name of a run: a folder after two rounds (or one of the first initialization), and what the run leaves."""
    found = {}
    for name, run in RUNS.items():
        path = tmp_path_factory.mktemp(name)
        whole = left_behind(finished(opened(run, path / "whole", DATA)), path / "whole")
        found[name] = interrupted(run, path / "left", 1 if run is COMPARING else 2), whole
    return found


def assert_begins_anew(path: Path, run: Any, whole: dict[str, Any], names: str) -> None:
    """The trial says in a sentence which file is damaged, and ends like one that was never disturbed."""
    state = trial_folder(path).state
    trial = opened(run, path, DATA)
    sentence = trial.repaired
    assert sentence is not None and sentence.startswith(str(state / names) + " ")
    assert sentence.endswith(f": {state} is set aside as state.damaged, and the trial begins anew")
    assert trial.state.round == 0 and trial.state.resumed == [] and (state.parent / "state.damaged").exists()
    assert left_behind(finished(trial), path) == whole
    assert opened(run, path, DATA).repaired is None


def copied(kept: Any, run: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept[run][0], tmp_path / "trial"))


def cut(share: float) -> Damaging:
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def replaced_by_folder(path: Path) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)


def replaced_by_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def of_another_trial(path: Path) -> None:
    save_state(load_state(path), path, "other")


def without_metadata(path: Path) -> None:
    from safetensors.numpy import save

    path.write_bytes(save({"losses": np.zeros((4, 1))}))


def flipped(path: Path) -> None:
    """Change a weight by one bit: its model is the largest array, at the end."""
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


BYTES: dict[str, Damaging] = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": cut(0.6),
    "half a header": cut(0.1),
    "garbage": lambda path: path.write_bytes(np.random.default_rng(0).bytes(3000)),
    "text": lambda path: path.write_text("no state"),
    "a folder": replaced_by_folder,
    "a link": replaced_by_link,
    "one bit": flipped,
}
FILES: dict[str, Damaging] = {
    **BYTES, "missing": Path.unlink, "of another trial": of_another_trial, "no metadata": without_metadata,
}  # fmt: skip


@pytest.mark.parametrize("damaging", FILES.values(), ids=FILES)
def test_a_damaged_state_is_set_aside(tmp_path, kept, damaging):
    path = copied(kept, "plain", tmp_path)
    damaging(trial_folder(path).state / STATE)
    assert [one.path.name for one in state_damages(trial_folder(path))] == [STATE]
    assert_begins_anew(path, PLAIN, kept["plain"][1], STATE)


@pytest.mark.parametrize("damaging", FILES.values(), ids=FILES)
def test_a_damaged_best_initialization_is_set_aside_while_others_are_compared(tmp_path, kept, damaging):
    path = copied(kept, "comparing", tmp_path)
    damaging(trial_folder(path).state / "best.safetensors")
    assert [one.path.name for one in state_damages(trial_folder(path))] == ["best.safetensors"]
    if damaging is flipped:
        assert_begins_anew(path, COMPARING, kept["comparing"][1], "best.safetensors")


def edited(path: Path, **plain: Any) -> None:
    rewrite(path, lambda _, values: values.update(plain))


def array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Damaging:
    return lambda path: rewrite(path, lambda arrays, _: arrays.update({name: change(arrays[name])}))


def filled(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: np.full_like(array, value)


SPENT = {"round": 0, "cluster": 0, "start": 0, "event": {"noise_multiplier": 1.0}}
VALUES: dict[str, Damaging] = {
    "NaN weights": array("model.0.params", filled(np.nan)),
    "infinite weights": array("model.0.params", filled(np.inf)),
    "a smaller model": array("model.0.params", lambda array: array[:-1]),
    "doubles": array("model.0.params", lambda array: array.astype(np.float64)),
    "other buffers": array("model.0.buffers", lambda _: np.zeros(3, np.float32)),
    "NaN losses": array("losses", lambda array: np.where(np.arange(4)[:, None] == 1, np.nan, array)),
    "losses of other clients": array("losses", lambda array: array[:-1]),
    "losses in a row": array("losses", lambda array: array.ravel()),
    "accuracies beyond 1": array("accuracies", filled(1.5)),
    "NaN choices": array("selection", filled(np.nan)),
    "a cluster too many": array("assignment", filled(1)),
    "nobody's models": array("assignment", filled(-1)),
    "assignments as floats": array("assignment", lambda array: array.astype(np.float64)),
    "another reference": array("reference", filled(7)),
    "users as numbers": array("users", lambda array: array.astype(np.int64)),
    "trained later": array("trained_rounds", filled(9)),
    "queries below 0": array("queried", filled(-1)),
    "a NaN that was published": array("published_risks", filled(np.nan)),
    "a history of others": array("history", filled(3)),
    "a longer history": array("history", lambda array: np.vstack([array, array])),
    "statistics of others": array("statistics.weight", lambda array: array[:-1]),
    "no losses": lambda path: rewrite(path, lambda arrays, _: arrays.pop("losses")),
    "no model": lambda path: rewrite(path, lambda arrays, _: arrays.pop("model.0.params")),
    "round -1": lambda path: edited(path, round=-1),
    "a round beyond the end": lambda path: edited(path, round=4),
    "a round without history": lambda path: edited(path, round=True),
    "a round in words": lambda path: edited(path, round="two"),
    "a start that is none": lambda path: edited(path, start=1),
    "a start in half": lambda path: edited(path, start=0.5),
    "a comparison that is none": lambda path: edited(path, outer={"best": [0.1, 0]}),
    "a list as comparison": lambda path: edited(path, outer=[]),
    "a text as best": lambda path: edited(path, outer={"best": "0"}),
    "settled by a text": lambda path: edited(path, outer={"settled": "yes"}),
    "resumed in words": lambda path: edited(path, resumed=["one"]),
    "resumed beyond the end": lambda path: edited(path, resumed=[4]),
    "resumed never": lambda path: edited(path, resumed=None),
    "names as numbers": lambda path: edited(path, names=[1]),
    "too many names": lambda path: edited(path, names=["global", "other"]),
    "spent by nobody": lambda path: edited(path, spent=[{"round": 0}]),
    "spent as a number": lambda path: edited(path, spent=3),
    "spent by another model": lambda path: edited(path, spent=[SPENT | {"cluster": 1}]),
    "spent after the end": lambda path: edited(path, spent=[SPENT | {"round": 3}]),
    "spent less than nothing": lambda path: edited(path, spent=[SPENT | {"event": {"noise_multiplier": -1.0}}]),
    "spent with another sampler": lambda path: edited(
        path, spent=[SPENT | {"event": {"noise_multiplier": 1.0, "sampler": "some"}}]
    ),
    "an unknown field": lambda path: edited(path, more=1),
    "counts as text": lambda path: edited(path, parts={"rounds": "2"}),
}  # fmt: skip


@pytest.mark.parametrize("damaging", VALUES.values(), ids=VALUES)
def test_wrong_values_are_noticed_without_a_checksum(tmp_path, kept, damaging):
    """As in a state that an earlier version wrote."""
    path = copied(kept, "plain", tmp_path)
    damaging(trial_folder(path).state / STATE)
    trial = opened(PLAIN, path, DATA)
    # A wrong round, start or best initialization is noticed by what there should be then.
    assert trial.repaired is not None and trial.repaired.startswith(str(trial.saved.parent) + "/")
    assert trial.state.round == 0 and not trial.saved.exists()


@pytest.mark.parametrize("run", RUNS)
def test_a_state_of_an_earlier_version_is_resumed_if_its_values_are_right(tmp_path, kept, run):
    path = copied(kept, run, tmp_path)
    for file in trial_folder(path).state.glob("*.safetensors"):
        rewrite(file, lambda _, plain: plain.pop("parts"))
    trial = opened(RUNS[run], path, DATA)
    assert trial.repaired is None and trial.state.resumed == [0 if run == "comparing" else 2]
    assert left_behind(finished(trial), path) == kept[run][1]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (PLAIN | {"rounds": 1}, "is of round 2 of initialization 0, which the run does not have"),
        (PLAIN | {"model": {"name": "mlp", "hidden": [3]}}, "holds a model of another architecture"),
        (PLAIN | {"clustering": clustered()}, "holds 1 models, not 2"),
        (COMPARING, "holds 1 models, not 2"),
    ],
    ids=["rounds", "model", "clusters", "initializations"],
)
def test_a_whole_state_of_another_run_is_none_of_this_one(tmp_path, kept, other, problem):
    path = copied(kept, "plain", tmp_path)
    trial = opened(other, path, DATA)
    assert trial.repaired is not None and f"{STATE} {problem}: " in trial.repaired


def test_a_whole_state_with_other_clients_is_none_of_this_run(tmp_path, kept):
    path = copied(kept, "plain", tmp_path)
    trial = opened(PLAIN, path, planted(clients=5, each=8, minority=1, features=4))
    assert trial.repaired is not None and " holds 4 clients, not 5: " in trial.repaired


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


# Noise


def test_secret_noise_is_not_drawn_again_for_a_damaged_state(tmp_path):
    run = PLAIN | {"privacy": NOISY | {"noise": "secret"}}
    interrupted(run, tmp_path, 2)
    folder = trial_folder(tmp_path)
    cut(0.5)(folder.state / STATE)
    before = sorted(folder.path.rglob("*"))
    for _ in range(2):  # and in every later run
        with pytest.raises(DamageError, match=r"state.safetensors is not what was saved.*: restore .* from a copy"):
            opened(run, tmp_path, DATA)
    assert sorted(folder.path.rglob("*")) == before
    shutil.rmtree(folder.state)
    assert opened(run, tmp_path, DATA).state.spent == []


def test_reproducible_noise_is_repeated_and_counts_once(tmp_path):
    run = PLAIN | {"privacy": NOISY}
    undisturbed = finished(opened(run, tmp_path / "whole", DATA))
    spent, whole = undisturbed.state.spent, left_behind(undisturbed, tmp_path / "whole")
    path = interrupted(run, tmp_path / "left", 2)
    cut(0.5)(trial_folder(path).state / STATE)
    again = finished(opened(run, path, DATA))
    assert len(again.state.spent) == 3 and again.state.spent == spent
    assert left_behind(again, path) == whole


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
