"""Hashes of code and data: what changes them, what a resumed sweep says of them, and which trials run again."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from datasets.federation import Examples, Source
from orchestrator.cluster.placement import Placement
from orchestrator.config.run import resolve
from orchestrator.config.sweep_file import load_sweep
from orchestrator.conformance.example_runs import described
from orchestrator.results import provenance
from orchestrator.results.fingerprints import (
    Changed,
    changed_sentences,
    data_hash,
    fingerprint,
    identity,
    own_code_hash,
)
from orchestrator.results.folder import Folder
from orchestrator.results.imported_files import reached
from orchestrator.results.integrity import sealed
from orchestrator.scheduling.earlier import earlier_results
from orchestrator.scheduling.trials import TrialConfig, trial_specs
from tests.support.earlier_runs import FILES, SCALED, SWEEP, beside, loaded, ran, today
from tests.support.own_code import written

__all__ = ["beside"]
OURS = "algorithms/aggregation/fedavg.py"


def test_the_files_are_those_of_the_components_and_what_they_import(beside):
    scaled, _, fedavg, _ = (spec.run for spec in trial_specs(load_sweep(beside)))
    files = fingerprint(scaled).files
    own = {path for path in files if path.startswith("code/")}
    assert own == {"code/aggregation/scaled.py", "code/aggregation/_own.py", "code/shared.py"}
    assert {"algorithms/models/mlp.py", "datasets/sources/digits.py"} <= files.keys()
    assert OURS not in files
    assert not any(path.startswith("code/") for path in fingerprint(fedavg).files)
    assert OURS in fingerprint(fedavg).files
    assert {"datasets/roles.py", "algorithms/engine/server.py", "algorithms/core/clipping.py"} <= files.keys()
    assert "datasets/sources/_columns.py" not in files, "digits are no table"
    assert not any(path.startswith(("attacks/", "orchestrator/")) for path in files), "there is no attack"
    assert "attacks/metrics/membership.py" in fingerprint(resolve(described())).files


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


@pytest.mark.parametrize(
    ("line", "found"),
    {
        "from . import blocks": True,
        "from .blocks import WIDTH": True,
        "import mypkg.blocks as b": True,
        "def late():\n    from mypkg.blocks import WIDTH": True,
        "try:\n    from mypkg.blocks import WIDTH\nexcept ImportError:\n    pass": True,
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import blocks": False,
        "import numpy, torch, json, orchestrator.cli": False,
    }.items(),
)
def test_what_a_package_imports_of_its_own_is_found(tmp_path, monkeypatch, line, found):
    written(tmp_path / "mypkg", {"__init__.py": "", "nets.py": line + "\n", "blocks.py": ""})
    monkeypatch.syspath_prepend(tmp_path)
    names = {one.name for one in reached(["mypkg.nets"])}
    assert names == {"mypkg/__init__.py", "mypkg/nets.py"} | ({"mypkg/blocks.py"} if found else set())


def test_an_edit_is_noticed_in_the_same_process(tmp_path, monkeypatch):
    written(tmp_path / "editedpkg", {"nets.py": "", "blocks.py": ""})
    monkeypatch.syspath_prepend(tmp_path)
    assert {one.name for one in reached(["editedpkg.nets"])} == {"editedpkg/nets.py"}
    written(tmp_path / "editedpkg", {"nets.py": "from . import blocks\n"})
    before = {one.name: one.hash for one in reached(["editedpkg.nets"])}
    assert before.keys() == {"editedpkg/nets.py", "editedpkg/blocks.py"}
    written(tmp_path / "editedpkg", {"blocks.py": "WIDTH = 2\n"})
    after = {one.name: one.hash for one in reached(["editedpkg.nets"])}
    assert {name for name in after if after[name] != before[name]} == {"editedpkg/blocks.py"}


def test_of_own_code_that_imports_by_name_everything_counts(beside, tmp_path):
    written(tmp_path / "code", {"shared.py": "import importlib\n"})
    own = {path for path in fingerprint(load_sweep(beside).runs[0]).files if path.startswith("code/")}
    assert own == {f"code/{name}" for name in FILES}


def test_of_the_first_records_only_the_files_that_they_hold_are_compared(beside):
    now = fingerprint(load_sweep(beside).runs[0])
    old = {path: found for path, found in now.files.items() if not path.startswith("algorithms/engine/")}
    assert now.differences({"files": old | {"datasets/sources/_columns.py": "another"}}) == []
    assert now.differences({"files": old | {"code/shared.py": "another"}}) == ["code/shared.py"]
    assert now.differences({"files": dict(now.files) | {"code/gone.py": "another"}}) == ["code/gone.py"]


# What a resumed sweep says


def test_unchanged_code_is_complete(beside):
    earlier = today(beside, ran(beside))
    assert earlier.sentences(4) == []
    assert earlier.all_complete(4) == "all 4 trials are complete; nothing was trained"
    assert earlier.remaining(trial_specs(load_sweep(beside)), []) == []


def test_an_edited_component_is_named_and_its_trials_stand_or_run_again(beside, tmp_path):
    folder = ran(beside)
    (folder.shadows).mkdir()
    written(tmp_path / "code", {"aggregation/scaled.py": SCALED + "\n# edited\n"})
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


def test_of_many_files_a_few_are_named():
    changed = [Changed("a", ("data", *(f"{letter}.py" for letter in "abcdefgh"))), Changed("b", ("h.py",))]
    assert changed_sentences(changed, 8) == [
        "1 of 8 complete trials was run with another a.py",
        "1 of 8 complete trials was run with another b.py",
        "1 of 8 complete trials was run with another c.py",
        "1 of 8 complete trials was run with other data",
        "2 of 8 complete trials were run with another h.py",
        "... and with 4 more files that differ",
    ]


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
        trial.result.write_text(json.dumps(sealed(record)))
    written(tmp_path / "code", {"aggregation/scaled.py": SCALED + "\n# edited\n"})
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
