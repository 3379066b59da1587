"""Hashes of code and data: what changes them, what a resumed sweep says of them, and which trials run again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from datasets.federation import Examples, Source
from orchestrator.cluster.data_checks import data_problems
from orchestrator.cluster.placement import Placement
from orchestrator.config.own_code import install
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.results import provenance
from orchestrator.results.fingerprints import DataHashes, data_hash, fingerprint, identity, own_code_hash
from orchestrator.results.folder import Folder
from orchestrator.results.record import read_begun, write_begun
from orchestrator.scheduling.earlier import Earlier, earlier_results
from orchestrator.scheduling.trials import TrialConfig, trial_specs
from orchestrator.trial.outcome import write_record
from tests.support.own_code import AGGREGATION, ATTACK, HELPER, written

SWEEP = """\
name: own
code: code
base:
  rounds: 2
  data: {name: digits, clients: 6, examples_per_client: 20}
  model: {name: mlp, hidden: [8]}
sweep:
  aggregation.name: {grid_search: [scaled, fedavg]}
  seed: {grid_search: [0, 1]}
"""
FILES = {"aggregation/scaled.py": AGGREGATION, "aggregation/_own.py": "", "attacks/norms.py": ATTACK}
FILES |= {"attacks/_norms.py": HELPER, "shared.py": "WIDTH = 1\n"}
OURS = "algorithms/aggregation/fedavg.py"


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Path]:
    written(tmp_path / "code", FILES)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    yield tmp_path / "sweep.yaml"
    install(())


def loaded(sweep: Path) -> tuple[Sweep, DataHashes]:
    """The sweep, and the hashes of its data."""
    found, hashes = load_sweep(sweep), DataHashes()
    assert data_problems(found, download=False, loaded=hashes.add) == []
    return found, hashes


def ran(sweep: Path) -> Folder:
    """The folder of a sweep whose trials have all finished, as far as their records say."""
    found, hashes = loaded(sweep)
    folder = Folder(sweep.parent / "results" / "own")
    for spec in trial_specs(found):
        write_record(folder.trial(spec.id), "finished", identity(spec.id, spec.run, hashes), began=0.0)
    return folder


def today(sweep: Path, folder: Folder, repeat: bool = False) -> Earlier:
    found, hashes = loaded(sweep)
    return earlier_results(folder, trial_specs(found), hashes, repeat=repeat)


# Code


def test_the_files_are_those_of_the_components_their_helpers_and_own_modules(beside):
    scaled, _, fedavg, _ = (spec.run for spec in trial_specs(load_sweep(beside)))
    files = fingerprint(scaled).files
    own = {path for path in files if path.startswith("code/")}
    assert own == {"code/aggregation/scaled.py", "code/aggregation/_own.py", "code/shared.py"}
    assert {"algorithms/models/mlp.py", "datasets/sources/digits.py"} <= files.keys()
    assert OURS not in files
    assert {path for path in fingerprint(fedavg).files if path.startswith("code/")} == {"code/shared.py"}
    assert OURS in fingerprint(fedavg).files


def test_hashes_do_not_say_where_the_code_lies(beside, tmp_path):
    before, cache = fingerprint(load_sweep(beside).runs[0]), own_code_hash()
    moved = written(tmp_path / "elsewhere", {"sweep.yaml": SWEEP})
    (tmp_path / "code").rename(moved / "code")
    assert fingerprint(load_sweep(moved / "sweep.yaml").runs[0]) == before
    assert own_code_hash() == cache != ""
    written(moved / "code", {"shared.py": "WIDTH = 2\n"})
    assert fingerprint(load_sweep(moved / "sweep.yaml").runs[0]).code != before.code
    assert own_code_hash() != cache


def test_the_record_has_the_hashes_and_they_pass_through_tune(beside):
    folder = ran(beside)
    found, hashes = loaded(beside)
    spec = trial_specs(found)[0]
    record = json.loads(folder.trial(spec.id).result.read_text())
    own = fingerprint(spec.run, hashes.of(spec.run))
    assert record["files"] == own.files
    assert (record["origin"]["code"], record["origin"]["data"]) == (own.code, own.data)
    assert len(own.data or "") == 16
    name = identity(spec.id, spec.run, hashes)
    config = TrialConfig(name, "results", ".", Placement(1, 0.0, 1, 1), 1.0, every_round=False)
    plain = json.loads(json.dumps(config.to_dict()))
    assert dict(TrialConfig.from_dict(plain).identity.files) == own.files


# What a resumed sweep says


def test_unchanged_code_is_complete(beside):
    earlier = today(beside, ran(beside))
    assert earlier.sentences(4) == []
    assert earlier.all_complete(4) == "all 4 trials are complete; nothing was trained"
    assert earlier.remaining(trial_specs(load_sweep(beside)), []) == []


def test_an_edited_component_is_named_and_its_trials_stand_or_run_again(beside, tmp_path):
    folder = ran(beside)
    (folder.shadows).mkdir()
    written(tmp_path / "code", {"aggregation/scaled.py": AGGREGATION + "\n# edited\n"})
    earlier = today(beside, folder)
    assert earlier.sentences(4) == [
        "2 of 4 complete trials were run with another code/aggregation/scaled.py",
        "their results stand; --repeat-changed runs them again",
    ]
    assert earlier.all_complete(4).startswith("all 4 trials have results, not all from today's code and data;")
    assert earlier.remaining(trial_specs(load_sweep(beside)), []) == []
    assert earlier.set_back(folder) == []
    again = today(beside, folder, repeat=True)
    specs = trial_specs(load_sweep(beside))
    assert again.sentences(4)[-1] == "2 of 4 trials run again"
    assert again.remaining(specs, []) == specs[:2]
    assert again.set_back(folder) == [spec.id for spec in specs[:2]]
    assert [folder.trial(spec.id).path.exists() for spec in specs] == [False, False, True, True]
    assert not folder.shadows.exists()


def interrupted(sweep: Path, begun: bool = True) -> Folder:
    """The folder of a sweep whose trials were interrupted, or failed, after a round; ``begun``: they say with what code."""
    found, hashes = loaded(sweep)
    folder = Folder(sweep.parent / "results" / "own")
    for place, spec in enumerate(trial_specs(found)):
        own, trial = identity(spec.id, spec.run, hashes), folder.trial(spec.id)
        if begun:
            write_begun(trial, own)
        written(trial.state, {"state.safetensors": "a round"})
        if place % 2:
            write_record(trial, "failed", own, began=0.0, reason="KeyError: 'x'")
    return folder


def test_trials_that_began_with_another_component_begin_anew(beside, tmp_path):
    folder = interrupted(beside)
    specs = trial_specs(load_sweep(beside))
    assert today(beside, folder).sentences(4) == []
    assert today(beside, folder).set_back(folder) == []
    written(tmp_path / "code", {"aggregation/scaled.py": AGGREGATION + "\n# edited\n"})
    earlier = today(beside, folder)
    assert earlier.sentences(4) == [
        "2 unfinished trials were begun with another code/aggregation/scaled.py: they begin anew, and what was saved is "
        "deleted"
    ]
    assert earlier.remaining(specs, specs) == specs
    assert all(folder.trial(spec.id).state.exists() for spec in specs)
    assert earlier.set_back(folder) == [spec.id for spec in specs[:2]]
    assert [folder.trial(spec.id).path.exists() for spec in specs] == [False, False, True, True]
    assert today(beside, folder).sentences(4) == []


def test_a_trial_that_is_resumed_keeps_what_it_began_with(beside, tmp_path):
    folder = interrupted(beside)
    found, hashes = loaded(beside)
    trial = folder.trial(trial_specs(found)[0].id)
    before = read_begun(trial)
    written(tmp_path / "code", {"shared.py": "WIDTH = 2\n"})
    own = identity(trial.id, load_sweep(beside).runs[0], hashes)
    write_begun(trial, own)
    assert read_begun(trial) == before
    (trial.state / "state.safetensors").unlink()
    assert read_begun(trial) == {}
    write_begun(trial, own)
    (trial.state / "state.safetensors").touch()
    assert read_begun(trial)["files"]["code/shared.py"] != before["files"]["code/shared.py"]


def test_states_of_before_are_resumed(beside, tmp_path):
    folder = interrupted(beside, begun=False)
    written(tmp_path / "code", {"aggregation/scaled.py": AGGREGATION + "\n# edited\n"})
    assert today(beside, folder).sentences(4) == []
    for trial in folder.trials():
        written(trial.state, {"origin.json": "[" if trial.result.exists() else "[]"})
    assert today(beside, folder).set_back(folder) == []


def test_unfinished_trials_with_other_data_begin_anew(beside, monkeypatch):
    folder = interrupted(beside)
    found, hashes = loaded(beside)
    monkeypatch.setattr(hashes, "of", lambda _: "another")
    earlier = earlier_results(folder, trial_specs(found)[:1], hashes)
    assert earlier.sentences(4)[0].startswith("1 unfinished trial was begun with other data: it begins anew, and what")


def test_other_data_are_noticed(beside, monkeypatch):
    folder = ran(beside)
    found, hashes = loaded(beside)
    monkeypatch.setattr(hashes, "of", lambda _: "another")
    assert earlier_results(folder, trial_specs(found), hashes).sentences(4)[0] == (
        "4 of 4 complete trials were run with other data"
    )


def test_nothing_is_claimed_of_results_without_hashes(beside, tmp_path):
    folder = ran(beside)
    for trial in folder.trials():
        record = json.loads(trial.result.read_text())
        del record["files"], record["origin"]["code"], record["origin"]["data"]
        trial.result.write_text(json.dumps(record))
    written(tmp_path / "code", {"aggregation/scaled.py": AGGREGATION + "\n# edited\n"})
    assert today(beside, folder).sentences(4) == []


def test_a_changed_sweep_names_the_trials_that_it_leaves_aside(beside):
    folder = ran(beside)
    beside.write_text(SWEEP.replace("[0, 1]", "[0, 2]"))
    assert today(beside, folder).sentences(4) == [
        "2 earlier trials are not of this sweep any more and left aside: "
        + ", ".join(sorted(["scaled seed=1", "fedavg seed=1"], key=_order(beside, folder)))
    ]
    beside.write_text(SWEEP.replace("rounds: 2", "rounds: 3"))
    (line,) = today(beside, folder).sentences(4)
    assert line.startswith("4 earlier trials are not of this sweep any more and left aside: ")
    assert line.count("rounds=2") == 3
    assert line.endswith(", ...")


def _order(sweep: Path, folder: Folder):
    """The key by which titles of trials are sorted like their folders."""
    now = sweep.read_text()
    sweep.write_text(SWEEP)
    ids = {spec.title: spec.id for spec in trial_specs(load_sweep(sweep))}
    sweep.write_text(now)
    return lambda title: ids[title]


# Data


SOURCE = Source(
    "made",
    2,
    Examples(np.zeros((4, 3), np.float32), np.array([0, 1, 0, 1])),
    Examples(np.ones((2, 3), np.float32), np.array([0, 1])),
)


@pytest.mark.parametrize(
    "changed",
    [
        {"train": Examples(np.zeros((4, 3), np.float64), SOURCE.train.y)},
        {"train": Examples(SOURCE.train.x, np.array([0, 1, 1, 1]))},
        {"test": Examples(SOURCE.test.x * 2, SOURCE.test.y)},
        {"classes": 3},
        {"mean": (0.5,)},
        {"subjects": np.arange(6)},
    ],
    ids=str,
)
def test_whatever_a_data_set_holds_is_in_its_hash(changed):
    assert data_hash(replace(SOURCE, **changed)) != data_hash(SOURCE)
    assert data_hash(replace(SOURCE)) == data_hash(SOURCE)


# The commit


def test_an_untracked_file_counts_as_a_change_of_the_commit(tmp_path, monkeypatch):
    def git(*words: str) -> None:
        own = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True)

    written(tmp_path, {"a.py": "", ".gitignore": "ignored\n"})
    git("init")
    git("add", "-A")
    git("commit", "-m", "first")
    monkeypatch.setattr(provenance, "CHECKOUT", tmp_path)

    def commit() -> str:
        return provenance.commit.__wrapped__() or ""

    assert len(commit()) == 12
    written(tmp_path, {"ignored": ""})
    assert "+" not in commit()
    written(tmp_path, {"attacks/new.py": ""})
    assert commit().endswith("+changes")
