"""A store that MLflow cannot use is named before MLflow is imported, and can be set aside for a new one."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from orchestrator.config.errors import ConfigError
from orchestrator.preparation import Choices, store_checked
from orchestrator.results.folder import Folder, claim
from orchestrator.subcommands import ui
from orchestrator.tracking import mlflow_lookup, store_file
from orchestrator.tracking.new_store import fill_again, set_aside_sentences
from orchestrator.tracking.store_file import set_store_aside, store_trouble
from orchestrator.tracking.tracker import Tracker
from tests.support.told_sweep import copied, tell, told
from tests.support.tracked import NAME, Seen, empty_store, results, rewritten

__all__ = ["copied", "empty_store", "results", "told"]


HOLDS = "the new store holds the sweep the other beside it, too"


def run(store: Path, *commands: str) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        for command in commands:
            connection.execute(command)


def another(store: Path) -> None:
    store.unlink()
    run(store, "CREATE TABLE recipes (name TEXT)")


def folder(store: Path) -> None:
    store.unlink()
    store.mkdir()


def page_of(store: Path, table: str) -> None:
    """Overwrite the first page of a table; the file's head stays as it is."""
    with closing(sqlite3.connect(store)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with open(store, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(os.urandom(size))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "garbage": (lambda store: store.write_bytes(b"\x07" * 9000), "is no store of MLflow: it is no data base of SQLite"),
    "empty": (lambda store: store.write_bytes(b""), "is empty"),
    "cut in the middle": (lambda store: os.truncate(store, store.stat().st_size // 2), "is damaged"),
    "cut in the head": (lambda store: os.truncate(store, 50), "is damaged"),
    "another data base": (another, "it is a data base of something else"),
    "a page": (lambda store: page_of(store, "runs"), "is damaged"),
    "a folder": (folder, "is no file"),
    "a link to nowhere": (lambda store: (store.unlink(), store.symlink_to("nowhere")), "is no file"),
    "a table": (lambda store: run(store, "DROP TABLE metrics"), "is damaged: it lacks MLflow's table 'metrics'"),
    "old": (
        lambda store: run(store, "UPDATE alembic_version SET version_num = '451aebb31d03'"),
        "was written by an older version of MLflow, or its making was interrupted; copy it, then `mlflow db upgrade",
    ),
    "unfinished": (lambda store: run(store, "DELETE FROM alembic_version"), "form (None) that the installed MLflow"),
    "new": (
        lambda store: run(store, "UPDATE alembic_version SET version_num = 'ffffffffffff'"),
        "(ffffffffffff) that the installed MLflow does not know; install the version of MLflow that wrote it",
    ),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_store_is_named_and_set_aside(results: Path, kind: str) -> None:
    damage, words = DAMAGES[kind]
    store = results / "mlflow.db"
    assert store_trouble(results) is None
    damage(store)
    trouble = store_trouble(results, patience=0.1)
    assert trouble is not None and not trouble.passing
    (problem,) = store_checked(Choices(results), results)[1]
    assert str(problem).startswith(f"--results: {store} ") and words in str(problem), problem
    assert str(problem).endswith("--new-store sets it aside and fills a new store from the results")
    assert store_checked(Choices(results, new_store=True), results) == ([], [])

    ((_, aside),) = set_store_aside(results)
    assert aside == results / "mlflow.db.damaged" and os.path.lexists(aside)
    assert not os.path.lexists(store) and store_trouble(results) is None


def test_a_second_damaged_store_takes_its_journals_along(results: Path) -> None:
    for number in ("", "-2"):
        for name in ("mlflow.db", "mlflow.db-journal", "mlflow.db-wal"):
            (results / name).write_bytes(name.encode() * 9)
        ((_, aside),) = set_store_aside(results)
        assert aside.name == f"mlflow.db.damaged{number}"
        assert (results / f"{aside.name}-wal").read_bytes() == b"mlflow.db-wal" * 9
    assert len([name for name in os.listdir(results) if "damaged" in name]) == 6


def test_a_file_in_the_place_of_the_artifacts_is_named_and_set_aside(results: Path) -> None:
    (results / "mlartifacts").write_text("mine")
    (problem,) = store_checked(Choices(results, from_python=True), results)[1]
    assert "mlartifacts is no folder" in str(problem) and "move it away, or new_store=True sets it aside" in str(
        problem
    )
    (sentence,) = set_aside_sentences(results)
    assert sentence.endswith("set aside as mlartifacts.damaged")
    assert (results / "mlartifacts.damaged").read_text() == "mine" and (results / "mlflow.db").is_file()


def test_without_the_right_to_write_it_is_named(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    trouble = store_trouble(results)
    assert trouble is not None and "cannot be written to" in str(trouble) and "permissions" in trouble.help
    for choices in (Choices(results), Choices(results, new_store=True)):
        (problem,) = store_checked(choices, results)[1]
        assert str(problem).endswith("cannot be written to; change its permissions and those of its folder")
    assert set_store_aside(results) == [], "it may be in order"
    assert not Tracker(results, NAME).store_is_damaged


def test_a_store_that_can_only_be_read_has_its_page(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(os, "execvpe", lambda *_: None)
    with closing(sqlite3.connect(results / "mlflow.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # as of a sweep that runs
        ui.execute(_options(results))
    assert "open http://127.0.0.1:5000/#/experiments" in capsys.readouterr().out


def test_a_store_that_may_not_be_read_is_left_alone(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store_file, "open", refused, raising=False)
    with pytest.raises(ConfigError, match="cannot be read: permission denied; change its permissions") as said:
        ui.execute(_options(results))
    assert "--new-store" not in str(said.value)


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """As if another program wrote to the store for a long time."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


def test_a_locked_store_stops_nobody_and_is_named(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_trouble, "__defaults__", (0.1, False, True))
    said = list[str]()
    rewritten(copied / NAME / "tracking.json", there="")
    with locked(copied / "mlflow.db"):
        notes, problems = store_checked(Choices(copied), copied)
        assert not problems and "mlflow.db is locked by another program; the sweep runs all the same" in notes[0]
        (refused,) = store_checked(Choices(copied, new_store=True), copied)[1]
        assert "is locked by another program; end that program" in str(refused)
        assert set_store_aside(copied) == []
        tracker = Tracker(copied, NAME, None, said.append)
        tracker.reconcile(tracker.folder.path)
        began = time.monotonic()
        assert not tracker.close(60)
        assert time.monotonic() - began < 30
        assert tracker.trouble == f"{copied / 'mlflow.db'} is locked by another program"
        assert not tracker.store_is_damaged
        with pytest.raises(ConfigError, match="is locked by another program; wait until that has ended"):
            ui.execute(_options(copied))
    assert "mlflow.db is locked by another program" in said[0]
    tracker = Tracker(copied, NAME)
    tracker.reconcile(tracker.folder.path)
    assert tracker.behind and tracker.close(60)


def test_a_store_that_is_damaged_during_a_run_is_named(results: Path) -> None:
    said = list[str]()
    tracker = Tracker(results, NAME, None, said.append)
    tracker.sweep_started()
    tracker._wake.set()  # not when the first trial begins
    for _ in range(600):
        if tracker._sweep.sent == tracker._sweep.version:
            break
        time.sleep(0.05)
    (results / "mlflow.db").write_bytes(b"\x07" * 90000)
    tell(tracker)
    assert not tracker.close(60)
    assert tracker.store_is_damaged
    assert f"{results / 'mlflow.db'} is no store of MLflow" in tracker.trouble
    assert len(said) == 1 and tracker.trouble in said[0]


def test_a_new_store_gets_all_sweeps_again(copied: Path, empty_store: Path) -> None:
    other = Folder(copied / "the other")
    claim(other, other.name, "name: the other\n", "digest").release()
    tracker = Tracker(copied, other.name)
    tell(tracker, kinds=("ifca",))
    assert tracker.close(60)
    before = {name: len(Seen(copied, name=name).runs) for name in (NAME, other.name)}
    assert before == {NAME: 5, other.name: 3}
    old = sorted(path.name for path in (copied / "mlartifacts" / NAME).iterdir())
    os.truncate(copied / "mlflow.db", 9000)

    (sentence,) = set_aside_sentences(copied)
    assert "set aside as mlflow.db.damaged; the files of its runs stay in mlartifacts" in sentence
    shutil.copy(empty_store, copied / "mlflow.db")
    tracker = Tracker(copied, NAME)
    tracker.reconcile(tracker.folder.path)
    assert tracker.behind and tracker.close(60)
    assert filled(tracker.folder) == [HOLDS]
    assert {name: len(Seen(copied, name=name).runs) for name in before} == before
    assert Seen(copied).artifacts("", "report") == ["report/trade_off.png"]
    assert {path.name for path in (copied / "mlartifacts" / NAME).iterdir()} > set(old)
    assert filled(tracker.folder) == []


def filled(own: Folder) -> list[str]:
    return fill_again(own, 60, "--log-models")


@pytest.fixture
def beside(copied: Path, empty_store: Path) -> tuple[Folder, Folder]:
    """A sweep that a new store holds, and one beside it that the old one held."""
    other = Folder(copied / "the other")
    claim(other, other.name, "name: the other\n", "digest").release()
    tracker = Tracker(copied, other.name)
    tell(tracker, kinds=("ifca",))
    assert tracker.close(60)
    shutil.copy(empty_store, copied / "mlflow.db")
    tracker = Tracker(copied, NAME)
    tracker.reconcile(tracker.folder.path)
    assert tracker.close(60)
    return tracker.folder, other


@pytest.mark.parametrize("record", ["missing", "damaged"])
def test_a_new_store_gets_a_sweep_without_a_record_of_its_own(beside: tuple[Folder, Folder], record: str) -> None:
    own, other = beside
    other.tracking.write_bytes(b"{")
    if record == "missing":
        other.tracking.unlink()
    said = filled(own)
    assert said[-1] == HOLDS
    assert [sentence.rpartition(": ")[2] for sentence in said[:-1]] == (
        ["set aside as tracking.json.damaged, and written anew from the results"] if record == "damaged" else []
    )
    seen = Seen(own.path.parent, name=other.name)
    assert {run.info.status for run in seen.runs} == {"FINISHED"} and len(seen.runs) == 3
    assert seen.artifacts("", "report") == ["report/trade_off.png"]
    assert filled(own) == []


def test_what_a_new_store_does_not_get_is_named(beside: tuple[Folder, Folder]) -> None:
    own, other = beside
    for one in (other, *other.trials()):
        rewritten(one.tracking, there="http://host:5000")
    assert filled(own) == [], "it was sent to a server"
    rewritten(other.trial("ifca0").tracking, there="mlflow.db", models="mlflow.db")
    with claim(other, other.name, "name: the other\n", "digest"):
        assert filled(own) == ["the new store does not hold the sweep the other yet; the next run of each sends it"]
    assert filled(own) == [HOLDS, "the next run of the sweep the other with --log-models sends the trained models"]
    for file in other.path.glob(".fedpriv*.json*"):
        file.write_bytes(b"{")
    assert len(filled(own)) == 1, "to whom its runs belong is unknown"


def test_a_store_in_order_is_not_set_aside(results: Path) -> None:
    (sentence,) = set_aside_sentences(results)
    assert "in order" in sentence and (results / "mlflow.db").is_file()


def test_a_server_has_no_store_to_set_aside(results: Path) -> None:
    (problem,) = store_checked(Choices(results, tracking_uri="http://host:5000", new_store=True), results)[1]
    assert str(problem).startswith("--new-store: is for the store in")
    (results / "mlflow.db").write_bytes(b"")
    assert store_checked(Choices(results, tracking_uri="http://host:5000"), results) == ([], [])


def test_a_journal_without_its_store_does_not_reach_the_next_store(
    tmp_path: Path, empty_store: Path, monkeypatch
) -> None:
    (tmp_path / "mlflow.db-journal").write_bytes(b"old")
    (tmp_path / ".mlflow-9.new").write_bytes(b"half")

    class Client:
        def __init__(self, tracking_uri: str) -> None:
            shutil.copy(empty_store, tracking_uri.removeprefix("sqlite:///"))

        def search_experiments(self, max_results: int) -> None: ...

    monkeypatch.setattr("mlflow.MlflowClient", Client)
    mlflow_lookup.create(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["mlflow.db", "mlflow.db-journal.damaged"]


def test_a_large_store_is_checked_in_part(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = results / "mlflow.db"
    run(store, "CREATE TABLE long (number INTEGER)", "INSERT INTO long VALUES (1), (2), (3)")
    with closing(sqlite3.connect(store)) as connection:
        monkeypatch.setattr(store_file, "MOST_ROWS", 2)
        assert not store_file._is_short(connection, "long")
        assert store_file._is_short(connection, "runs")
    asked, opened = list[str](), store_file._opened

    def traced(path: Path, patience: float) -> sqlite3.Connection:
        connection = opened(path, patience)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(store_file, "_opened", traced)
    monkeypatch.setattr(store_file, "WHOLE_BYTES", 1)
    assert store_trouble(results) is None
    checks = [one for one in asked if "quick_check" in one]
    assert "PRAGMA quick_check('runs')" in checks and "PRAGMA quick_check('long')" not in checks
    page_of(store, "runs")
    assert store_trouble(results) is not None


def test_the_page_of_a_damaged_store_is_refused_with_the_sentence(results: Path) -> None:
    (results / "mlflow.db").write_bytes(b"\x07" * 9000)
    with pytest.raises(ConfigError, match="no store of MLflow.*`fedpriv run SWEEP.yaml --new-store` sets it aside"):
        ui.execute(_options(results))


def _options(results: Path):
    from argparse import Namespace

    return Namespace(results=results, host="127.0.0.1", port=5000)
