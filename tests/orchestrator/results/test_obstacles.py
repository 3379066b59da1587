"""What stands in the way in a results folder: one sentence each, and nothing is written through a link."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import parse_sweep
from orchestrator.preparation import Choices, prepare
from orchestrator.results.folder import Folder, FolderError, claim, write_atomically
from orchestrator.results.integrity import read_sealed
from orchestrator.results.obstacles import MOST, in_the_way, report_in_the_way, store_in_the_way, unreadable
from tests.support.obstructed import NO_FILES, at_most, obstruct, outside, picture

TRIAL, BEGUN = "trials/0123456789", "trials/abcdef0123"
SWEEP = """
name: tiny
base: {rounds: 1, data: {name: digits, clients: 4, examples_per_client: 10, split: dirichlet}, model: mlp}
"""
FOLDERS = ("trials", "report", "shadows", ".fedpriv-tune", TRIAL, f"{TRIAL}/state", BEGUN, f"{BEGUN}/state")
OPENED = (".fedpriv.lock", "../mlflow.db", "../mlflow.db-wal", "../mlflow.db-journal", "../.mlflow.lock")
FILES = ("sweep.yaml", "trials.parquet", "tracking.json", "declared.json", ".fedpriv.json")
IN_TRIALS = (f"{TRIAL}/result.json", f"{TRIAL}/rounds.parquet", f"{TRIAL}/model.safetensors", f"{BEGUN}/config.yaml")
LINKS = ("link to a folder", "link to nothing", "link to itself")

CASES = [
    *((place, kind) for place in FOLDERS for kind in ("file", "link to a folder")),
    *((place, kind) for place in FOLDERS[:2] for kind in ("pipe", "socket", "link to nothing", "link to itself")),
    *((place, kind) for place in ("../mlartifacts", "../mlartifacts/tiny") for kind in ("file", *LINKS)),
    *((place, kind) for place in OPENED for kind in ("folder", "pipe", "link to a file", "link to nothing")),
    *((place, kind) for place in FILES for kind in ("folder", "pipe", "link to a folder", "link to a device")),
    *((place, kind) for place in IN_TRIALS for kind in NO_FILES),
    *((f"{BEGUN}/{name}", "folder") for name in ("rounds.parquet", "config.yaml", "model.safetensors", "error.txt")),
    (f"{TRIAL}/tracking.json", "folder"),
    (f"{BEGUN}/state/state.safetensors", "pipe"),
    (f"{BEGUN}/state/rounds-00000000.arrow", "link to a device"),
    ("shadows/0a.npz", "pipe"),
    ("report/tiny.html", "folder"),
    ("report/summary.md", "link to a folder"),
    ("trials/elsewhere", "link to a folder"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all sweeps as a run leaves it, with one trial that has ended and one that has begun."""
    results = tmp_path_factory.mktemp("whole") / "results"
    folder = Folder(results / "tiny")
    claim(folder, "tiny", SWEEP, "digest").release()
    for name in ("trials.parquet", "tracking.json", "report/tiny.html", "report/summary.md", "shadows/0a.npz"):
        write_atomically(folder.path / name, b"{}")
    for name in ("config.yaml", "result.json", "rounds.parquet", "model.safetensors", "tracking.json"):
        write_atomically(folder.path / TRIAL / name, b"{}")
    write_atomically(folder.path / BEGUN / "state" / "state.safetensors", b"{}")
    for name in ("mlflow.db", ".mlflow.lock", "mlartifacts/tiny/run/artifacts/sweep.yaml"):
        write_atomically(results / name, b"")
    return results


@pytest.fixture
def results(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "results"))


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr("orchestrator.preparation.data_problems", lambda *_, **__: [])
    with at_most(30):
        yield


def refusal(results: Path, **choices) -> str:
    """What a run says that is refused, a line for each problem; nothing changes anywhere."""
    root = next(path for path in results.parents if os.path.lexists(path))
    before = picture(root)
    with pytest.raises(ConfigError) as refused:
        prepare(parse_sweep(SWEEP, Path("tiny.yaml")), Choices(results, **choices))
    assert picture(root) == before
    return str(refused.value)


def test_a_folder_that_a_run_has_left_has_nothing_in_the_way(results):
    folder = Folder(results / "tiny")
    assert in_the_way(folder) == unreadable(folder) == report_in_the_way(folder) == []
    assert store_in_the_way(results, "tiny") == []


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_a_run_is_refused_and_nothing_is_touched(results, tmp_path, place, kind):
    path = Path(os.path.normpath(results / "tiny" / place))
    obstruct(path, kind, outside(tmp_path))
    said = refusal(results)
    assert said.startswith(f"--results: {path} is a ") and "\n" not in said
    assert ("move it away" in said) and "Traceback" not in said
    if kind.startswith("link"):
        assert f"is a link to {os.readlink(path)}" in said
    if path.is_relative_to(results / "tiny"):
        with pytest.raises(FolderError) as refused:
            claim(Folder(results / "tiny"), "tiny", SWEEP, "other")
        assert str(path) in str(refused.value)


@pytest.mark.parametrize("kind", ["link to a folder", "link to nothing", "link to itself", "file", "pipe"])
def test_the_sweeps_own_folder_must_be_one(results, tmp_path, kind):
    obstruct(results / "tiny", kind, outside(tmp_path))
    said = refusal(results)
    assert str(results / "tiny") in said and "is not a folder" in said and "--results" in said


@pytest.mark.parametrize("kind", ["link to nothing", "link to itself", "file", "link to a device"])
def test_the_folder_of_all_sweeps_must_be_one(tmp_path, kind):
    obstruct(tmp_path / "results", kind, outside(tmp_path))
    assert f"{tmp_path / 'results'} is not a folder" in refusal(tmp_path / "results")


def test_the_folder_of_all_sweeps_may_be_a_link(results, tmp_path):
    (tmp_path / "latest").symlink_to(results)
    obstruct(results / "tiny" / "report", "file", outside(tmp_path))
    assert f"{tmp_path / 'latest'}/tiny/report is a file" in refusal(tmp_path / "latest")
    (results / "tiny" / "report").unlink()
    claim(Folder(tmp_path / "latest" / "tiny"), "tiny", SWEEP, "digest").release()


def test_links_to_files_that_are_replaced_are_no_obstacle(results, tmp_path):
    target = outside(tmp_path) / "store.db"
    for place in ("sweep.yaml", "trials.parquet", f"{TRIAL}/result.json", f"{TRIAL}/rounds.parquet"):
        (results / "tiny" / place).unlink()
        (results / "tiny" / place).symlink_to(target)
    assert in_the_way(Folder(results / "tiny")) == []
    before = picture(target.parent)
    claim(Folder(results / "tiny"), "tiny", SWEEP, "digest").release()
    assert picture(target.parent) == before
    assert (results / "tiny" / "sweep.yaml").read_text() == SWEEP


def test_many_are_not_all_listed(results):
    for number in range(MOST + 3):
        (results / "tiny" / "trials" / f"00000000{number:02x}").write_text("")
    said = refusal(results).splitlines()
    assert len(said) == MOST + 1 and "3 more" in said[-1]


def test_a_store_elsewhere_is_not_looked_for(results, tmp_path):
    obstruct(results / "mlflow.db", "link to a file", outside(tmp_path))
    obstruct(results / "tiny" / "report", "file", outside(tmp_path))
    assert "mlflow.db" not in refusal(results, tracking_uri="http://127.0.0.1:9")


@pytest.mark.parametrize("kind", NO_FILES)
def test_a_dry_run_waits_for_no_pipe(results, tmp_path, kind):
    obstruct(results / "tiny" / TRIAL / "result.json", kind, outside(tmp_path))
    assert f"{TRIAL}/result.json is a " in refusal(results, dry=True)


def test_a_dry_run_writes_nothing_and_so_does_not_mind_links(results, tmp_path):
    obstruct(results / "tiny" / "report", "link to a folder", outside(tmp_path))
    prepare(parse_sweep(SWEEP, Path("tiny.yaml")), Choices(results, dry=True))


def test_what_was_set_aside_and_what_is_not_ours_is_left_alone(results, tmp_path):
    for place, kind in (
        (f"{TRIAL}/result.json.damaged", "folder"),
        (f"{TRIAL}/notes", "link to a folder"),
        ("plans", "link to a folder"),
        ("trials/README", "file"),
    ):
        obstruct(results / "tiny" / place, kind, outside(tmp_path))
    assert in_the_way(Folder(results / "tiny")) == []


# Permissions


@pytest.mark.parametrize("place", ["trials", "report", BEGUN, f"{BEGUN}/state"])
def test_a_folder_that_cannot_be_written_to(results, monkeypatch, place):
    locked_away = str(results / "tiny" / place)
    monkeypatch.setattr(os, "access", lambda path, *_: str(path) != locked_away)
    assert f"{locked_away} cannot be written to: change its permissions" in refusal(results)


def test_an_ended_trial_may_be_locked_away(results, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, *_: Path(path) != results / "tiny" / TRIAL)
    assert in_the_way(Folder(results / "tiny")) == []


def test_a_folder_that_cannot_be_changed(results):
    folder = results / "tiny" / "report"
    if shutil.which("chattr") is None or subprocess.run(["chattr", "+i", folder], capture_output=True).returncode:
        pytest.skip("no folder can be made unchangeable here")
    try:
        assert f"{folder} cannot be written to" in refusal(results)
    finally:
        subprocess.run(["chattr", "-i", folder], check=True)


# Names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a\nb", r"/a\nb/tiny' has a line break"),
        ("a\0b", "has a line break or another character"),
        (os.fsdecode(b"a\xff"), "character in its path that cannot be printed"),
        ("a" * 256, "it has 256 bytes, the system allows 255"),
        ("ü" * 128, "it has 256 bytes, the system allows 255"),
        ("/".join(["a" * 99] * 40), "the system allows 4096, and files in it need up to 300 more"),
    ],
)
def test_paths_that_cannot_be(tmp_path, name, words):
    said = refusal(tmp_path / name)
    assert words in said and "--results" in said and "\n" not in said and len(said) < 700


def test_somebody_who_is_unknown(tmp_path):
    with pytest.raises(ConfigError, match="~nobody-of-that-name/results names the home of somebody who is unknown"):
        prepare(parse_sweep(SWEEP, Path("tiny.yaml")), Choices(Path("~nobody-of-that-name/results")))


# The record of the folder


MARKS = (".fedpriv.json", ".fedpriv.copy.json")


@pytest.mark.parametrize(
    "content", ["", "[]", '{"name": "tiny"}', '{"name": 5, "id": "a"}', '{"name": "tiny", "id": "a", "checksum": "b"}']
)
def test_a_record_that_was_damaged_is_named(results, content):
    for name in MARKS:
        (results / "tiny" / name).write_text(content)
    said = refusal(results)
    assert f"{results}/tiny/.fedpriv.json is " in said and "it is unknown which sweep" in said


def test_a_record_of_an_earlier_version_is_read(results):
    identity = "ab" * 16
    (results / "tiny" / MARKS[1]).unlink()
    (results / "tiny" / MARKS[0]).write_text(json.dumps({"name": "tiny", "id": identity, "digest": "c"}))
    claim(Folder(results / "tiny"), "tiny", SWEEP, "c").release()
    assert Folder(results / "tiny").identity() == identity
    for name in MARKS:
        held = read_sealed(results / "tiny" / name)
        assert (held["name"], held["id"], held["digest"]) == ("tiny", identity, "c")


def test_a_record_that_is_missing_is_named(results):
    for name in MARKS:
        (results / "tiny" / name).unlink()
    assert f"{results}/tiny/.fedpriv.json is missing" in refusal(results)


# Other commands


def said_by(capsys, *arguments: object) -> tuple[int, str]:
    code = main([str(one) for one in arguments])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "kind"),
    [("report", "link to a folder"), ("report", "file"), ("report/tiny.html", "folder"), (f"{TRIAL}/rounds.parquet", "pipe")],
)  # fmt: skip
@pytest.mark.parametrize("only", [[], ["--html"]])
def test_a_report_is_refused(results, tmp_path, capsys, place, kind, only):
    obstruct(results / "tiny" / place, kind, outside(tmp_path))
    before = picture(tmp_path)
    code, said = said_by(capsys, "report", results / "tiny", *only)
    assert code == 2 and f"{results}/tiny/{place} is a " in said
    assert picture(tmp_path) == before


def test_loading_waits_for_no_pipe(results, tmp_path):
    import fedpriv

    obstruct(results / "tiny" / TRIAL / "config.yaml", "pipe", outside(tmp_path))
    with pytest.raises(ConfigError, match="config.yaml is a named pipe"):
        fedpriv.load(results / "tiny")


@pytest.mark.parametrize("kind", ["link to a file", "pipe", "link to nothing"])
def test_the_user_interface_is_not_started_on_a_store_elsewhere(results, tmp_path, capsys, monkeypatch, kind):
    monkeypatch.setattr(os, "execvpe", lambda *_: pytest.fail("it was started"))
    obstruct(results / "mlflow.db", kind, outside(tmp_path))
    code, said = said_by(capsys, "ui", results)
    assert code == 2 and f"ui: {results / 'mlflow.db'} is a " in said


def test_cleaning_touches_nothing_behind_links_and_waits_for_no_pipe(results, tmp_path, capsys):
    elsewhere = outside(tmp_path)
    (results / "tiny" / "shadows" / "link").symlink_to(elsewhere)
    for name, kind in (("other", "link to a folder"), ("third/.fedpriv.json", "pipe")):
        obstruct(results / name, kind, elsewhere)
    before = picture(elsewhere)
    assert said_by(capsys, "clean", results, "--yes") == (0, "")
    assert not (results / "tiny" / "shadows").exists() and picture(elsewhere) == before


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "pipe"])
def test_cleaning_stops_at_a_lock_that_is_none(results, tmp_path, capsys, kind):
    elsewhere = outside(tmp_path)
    obstruct(results / "tiny" / ".fedpriv.lock", kind, elsewhere)
    before = picture(elsewhere)
    code, said = said_by(capsys, "clean", results, "--yes")
    assert code == 1 and "tiny/.fedpriv.lock" in said
    assert picture(elsewhere) == before and (results / "tiny" / "shadows" / "0a.npz").exists()


def test_a_new_sweep_file_is_not_written_through_a_link(tmp_path, capsys, monkeypatch):
    elsewhere = outside(tmp_path)
    table = tmp_path / "table.csv"
    table.write_text("a,b,label\n" + "".join(f"{n % 7},{n % 5},{'xy'[n % 2]}\n" for n in range(200)))
    (tmp_path / ".sweep.yaml.new").symlink_to(elsewhere / "store.db")
    before = picture(elsewhere)
    code, said = said_by(capsys, "new", table, "--label", "label", "--output", tmp_path / "sweep.yaml")
    assert (code, said) == (0, "") and picture(elsewhere) == before
    (tmp_path / "link.yaml").symlink_to(elsewhere / "nothing")
    code, said = said_by(capsys, "new", table, "--label", "label", "--output", tmp_path / "link.yaml")
    assert code == 2 and "exists already" in said
