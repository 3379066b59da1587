"""``fedpriv clean``: what it lists and deletes, and all that it leaves alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.results.caches import caches
from orchestrator.results.folder import Folder, claim


@pytest.fixture(autouse=True)
def own_records(tmp_path, monkeypatch) -> None:
    """Runs that other tests kill are not for these to clean up."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "ray"))


@pytest.fixture
def results(tmp_path) -> Path:
    """Two sweeps with caches, one without, a folder of somebody else, and the store of MLflow."""
    root = tmp_path / "results"
    for name, sizes in {"first": (1_000_000, 500_000), "second": (2_000_000,), "third": ()}.items():
        folder = Folder(root / name)
        claim(folder, name, f"name: {name}\n", "digest").release()
        folder.trial("abc").path.mkdir(parents=True)
        folder.trial("abc").result.write_text("{}")
        for number, size in enumerate(sizes):
            folder.shadows.mkdir(exist_ok=True)
            (folder.shadows / f"{number}.npz").write_bytes(bytes(size))
    (root / "thesis" / "shadows").mkdir(parents=True)
    (root / "thesis" / "shadows" / "mine.txt").write_text("mine")
    (root / "mlflow.db").touch()
    return root


def everything(root: Path) -> set[Path]:
    return {path.relative_to(root) for path in root.rglob("*")}


def test_the_caches_of_all_sweeps_are_listed_and_nothing_is_deleted_without_a_yes(results, capsys):
    before = everything(results)
    assert main(["clean", str(results)]) == 0  # nobody is there to ask
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["first", "2", "files", "1.5", "MB"],
        ["second", "1", "files", "2.0", "MB"],
    ]
    assert lines[2] == "nothing was deleted; --yes deletes without asking"
    assert everything(results) == before


def test_with_yes_the_caches_go_and_all_else_stays(results, capsys):
    before = everything(results)
    assert main(["clean", str(results), "--yes"]) == 0
    gone = before - everything(results)
    assert {str(path) for path in gone} == {
        "first/shadows", "first/shadows/0.npz", "first/shadows/1.npz", "second/shadows", "second/shadows/0.npz"
    }  # fmt: skip
    assert capsys.readouterr().out.splitlines()[-1] == "deleted 3.5 MB"
    assert main(["clean", str(results), "--yes"]) == 0
    assert "nothing to delete" in capsys.readouterr().out


def test_one_sweep_can_be_named(results):
    assert main(["clean", str(results / "first"), "--yes"]) == 0
    assert not (results / "first" / "shadows").exists()
    assert (results / "second" / "shadows" / "0.npz").exists()


@pytest.mark.parametrize(("answer", "deleted"), [("y", True), ("yes", True), ("n", False), ("", False)])
def test_on_a_terminal_it_asks(results, monkeypatch, capsys, answer, deleted):
    asked = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda words: asked.append(words) or answer)
    assert main(["clean", str(results)]) == 0
    assert asked == ["Delete 3 files (3.5 MB)? [y/N] "]
    assert (results / "first" / "shadows").exists() != deleted


@pytest.mark.parametrize("place", ["", "first"])
def test_links_are_never_followed(results, tmp_path, place, capsys):
    link = tmp_path / "link"
    link.symlink_to(results / place)
    assert main(["clean", str(link), "--yes"]) == 2
    assert "is a link to" in capsys.readouterr().err
    assert (results / "first" / "shadows" / "0.npz").exists()


def test_what_links_lead_to_is_never_deleted(results, tmp_path):
    """A linked sweep, a linked cache, and a link within a cache."""
    (tmp_path / "archive").mkdir()
    (results / "first").rename(tmp_path / "archive" / "first")
    (results / "linked").symlink_to(tmp_path / "archive" / "first")
    (results / "third" / "shadows").symlink_to(tmp_path / "archive" / "first" / "shadows")
    (results / "second" / "shadows" / "more").symlink_to(tmp_path / "archive")
    assert [cache.sweep.name for cache in caches(results)] == ["second"]
    assert main(["clean", str(results), "--yes"]) == 0
    assert (tmp_path / "archive" / "first" / "shadows" / "0.npz").exists()
    assert (results / "third" / "shadows").is_symlink()


@pytest.mark.parametrize("place", ["thesis", "absent", "mlflow.db", "first/trials", "first/shadows"])
def test_what_holds_no_results_is_refused(results, place, capsys):
    before = everything(results)
    assert main(["clean", str(results / place), "--yes"]) == 2
    assert "give RESULTS or RESULTS/<sweep>" in capsys.readouterr().err
    assert everything(results) == before


def test_the_cache_of_a_sweep_that_runs_is_left_to_it(results, capsys):
    with claim(Folder(results / "first"), "first", "name: first\n", "digest"):
        assert main(["clean", str(results), "--yes"]) == 1
    shown = capsys.readouterr()
    assert "first: not deleted: another fedpriv run is writing" in shown.err
    assert shown.out.splitlines()[-1] == "deleted 2.0 MB"
    assert (results / "first" / "shadows" / "0.npz").exists()


def test_without_a_folder_only_processes_are_ended(results, monkeypatch, capsys):
    before = everything(results)
    monkeypatch.chdir(results)
    assert main(["clean", "--yes"]) == 0
    assert capsys.readouterr().out == "no killed run has left processes behind\n"
    monkeypatch.setattr("orchestrator.cluster.left_behind.end_left_behind", lambda _: ["ended 2 processes"])
    assert main(["clean", "--yes"]) == 0
    assert capsys.readouterr().out == "ended 2 processes\n"
    assert everything(results) == before


def test_with_a_folder_processes_are_ended_first_unless_it_is_refused(results, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(
        "orchestrator.cluster.left_behind.end_left_behind", lambda _: calls.append(1) or ["ended 2 processes"]
    )
    assert main(["clean", str(results / "third")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "ended 2 processes"
    assert main(["clean", str(results / "thesis")]) == 2
    assert calls == [1]
