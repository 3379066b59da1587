"""The files of the local store, checked without MLflow: whether MLflow can use them, and if not, why, in one sentence."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from orchestrator.results.integrity import set_aside
from orchestrator.tracking.moved import ARTIFACTS
from orchestrator.tracking.places import LOCAL

LOCK_SECONDS = 5.0  # wait for another program that writes
WHOLE_BYTES = 100e6  # SQLite checks 100 MB in a quarter of a second, if they are in memory
MOST_ROWS = 200_000  # a table with more is then left out
MAGIC = b"SQLite format 3\0"
JOURNALS = ("-journal", "-wal", "-shm")
TABLES = {
    *("alembic_version", "experiments", "experiment_tags", "runs", "tags", "params", "metrics", "latest_metrics"),
    *("inputs", "input_tags", "datasets", "logged_models"),
}
PERMISSIONS = "change its permissions and those of its folder"
SETS_ASIDE = "{} sets it aside and fills a new store from the results"


@dataclass(frozen=True)
class StoreTrouble:
    """Why MLflow cannot use the local store.

    Attributes:
        path: the file, or the folder of artifacts.
        problem: what is wrong, to be read after the path.
        help: what helps besides a new store; empty if nothing does.
        passing: whether it may pass by itself, because another program uses the file.
        forbidden: whether only the right to read or to write is missing.
    """

    path: Path
    problem: str
    help: str = ""
    passing: bool = False
    forbidden: bool = False

    @property
    def replaceable(self) -> bool:
        """Whether a new store helps: one that is only locked or write-protected may be in order."""
        return not self.passing and not self.forbidden

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"

    def refusal(self, option: str) -> str:
        """The sentence that refuses a run, with what helps.

        Args:
            option: what the user gives to set the store aside.
        """
        helps = [self.help] if self.help else []
        helps += [SETS_ASIDE.format(option)] if self.replaceable else []
        return "; ".join(filter(None, (str(self), ", or ".join(helps))))


def store_trouble(
    results: Path, patience: float = LOCK_SECONDS, whole: bool = False, writing: bool = True
) -> StoreTrouble | None:
    """Why MLflow cannot use the store beside the results; None if it can, or if there is none yet.

    A file of up to `WHOLE_BYTES` is checked whole; of a larger one the longest tables are left out.

    Args:
        results: the folder of all sweeps.
        patience: seconds to wait for another program that writes to the store.
        whole: check everything, however long it takes.
        writing: whether MLflow is to write to the store, too; somebody else's, or one in an archive, is only read.
    """
    artifacts, path = results / ARTIFACTS, results / LOCAL
    if os.path.lexists(artifacts) and not artifacts.is_dir():
        kept = "is no folder, but MLflow keeps the files of its runs in a folder of that name"
        return StoreTrouble(artifacts, kept, "move it away")
    if not os.path.lexists(path):
        return None
    if not path.is_file():
        return StoreTrouble(path, "is no file, but MLflow keeps its runs in a file of that name", "move it away")
    try:
        with open(path, "rb") as file:
            head = file.read(len(MAGIC))
        if head != MAGIC:
            what = "no store of MLflow: it is no data base of SQLite" if head else "empty"
            return StoreTrouble(path, f"is {what}")
        with closing(_opened(path, patience)) as connection:
            unwritable = _unwritable(connection, path) if writing else None
            return unwritable or _trouble(connection, path, whole or path.stat().st_size <= WHOLE_BYTES)
    except OSError as error:
        problem = f"cannot be read: {(error.strerror or str(error)).lower()}"
        forbidden = isinstance(error, PermissionError)
        return StoreTrouble(path, problem, PERMISSIONS if forbidden else "", forbidden=forbidden)
    except sqlite3.Error as error:
        return _named(error, path)


def _opened(path: Path, patience: float) -> sqlite3.Connection:
    """A connection that can roll back what a killed process has begun to write; without that right it only reads."""
    address = f"{Path(os.path.abspath(path)).as_uri()}?mode=rw"
    return sqlite3.connect(address, timeout=patience, isolation_level=None, uri=True)


def _named(error: sqlite3.Error, path: Path) -> StoreTrouble:
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreTrouble(path, "is locked by another program", passing=True)
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StoreTrouble(path, "cannot be written to", PERMISSIONS, forbidden=True)
    return StoreTrouble(path, f"is damaged ({error})")


def _unwritable(connection: sqlite3.Connection, path: Path) -> StoreTrouble | None:
    """Why nothing can be written to an open file. Raises sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")  # needs the right to write
    connection.execute("ROLLBACK")
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return None
    return StoreTrouble(path, "cannot be written to", PERMISSIONS, forbidden=True)


def _trouble(connection: sqlite3.Connection, path: Path, whole: bool) -> StoreTrouble | None:
    """What is wrong with an open file. Raises sqlite3.Error."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if not TABLES.intersection(tables):
        return StoreTrouble(path, "is no store of MLflow: it is a data base of something else")
    if lacking := sorted(TABLES.difference(tables)):
        return StoreTrouble(path, f"is damaged: it lacks MLflow's table {lacking[0]!r}")
    checked: list[str] = [""] if whole else [f"('{name}')" for name in tables if _is_short(connection, name)]
    for which in checked:
        (found,) = connection.execute(f"PRAGMA quick_check{which or '(1)'}").fetchone()
        if found != "ok":
            return StoreTrouble(path, f"is damaged ({' '.join(str(found).split())})")
    return _misfit(connection, path)


def _is_short(connection: sqlite3.Connection, table: str) -> bool:
    try:
        (last,) = connection.execute(f"SELECT max(rowid) FROM '{table}'").fetchone()  # noqa: S608
    except sqlite3.OperationalError:  # a table without row numbers
        return True
    return (last or 0) <= MOST_ROWS


def _misfit(connection: sqlite3.Connection, path: Path) -> StoreTrouble | None:
    """Whether the tables are laid out as another version of MLflow has them."""
    known, latest = _schemas()
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    version = row[0] if row else None
    if not latest or version in latest:
        return None
    if version in known:
        upgrade = f"copy it, then `mlflow db upgrade 'sqlite:///{path}'` brings it up to date"
        return StoreTrouble(path, "was written by an older version of MLflow, or its making was interrupted", upgrade)
    newer = f"has a form ({version}) that the installed MLflow does not know"
    return StoreTrouble(path, newer, "install the version of MLflow that wrote it")


@cache
def _schemas() -> tuple[set[str], set[str]]:
    """The forms of a store that the installed MLflow knows, and the latest; empty if its files do not tell them."""
    found = find_spec("mlflow")
    known, former = set[str](), set[str]()
    for place in (found.submodule_search_locations or ()) if found else ():
        for file in Path(place, "store", "db_migrations", "versions").glob("*.py"):
            text = file.read_text(errors="replace")
            known.update(re.findall(r'^revision\b[^=\n]*= *["\'](\w+)', text, re.MULTILINE))
            former.update(re.findall(r'^down_revision\b[^=\n]*= *["\'](\w+)', text, re.MULTILINE))
    return known, known - former


def set_store_aside(results: Path) -> list[tuple[StoreTrouble, Path]]:
    """Rename what MLflow cannot use, a store with its journals; return what was wrong and the new paths.

    A store that is in order, that another program uses or that is write-protected is left alone. So are the files of its
    runs in the folder of artifacts: new runs get folders of their own there. Raises OSError.

    Args:
        results: the folder of all sweeps.
    """
    found = []
    with store_lock(results):
        while (trouble := store_trouble(results, whole=True)) and trouble.replaceable:
            found.append((trouble, set_aside(trouble.path)))
            if trouble.path == results / LOCAL:
                set_journals_aside(results, found[-1][1])
    return found


def set_journals_aside(results: Path, store: Path) -> None:
    """Rename the journals of a store that is no longer there: SQLite would write them into the next one.

    Args:
        results: the folder of all sweeps.
        store: the new path of the store, beside which SQLite looks for them; its old path if it is not known.
    """
    for ending in JOURNALS:
        journal = results / f"{LOCAL}{ending}"
        if os.path.lexists(journal):
            target = store.with_name(f"{store.name}{ending}")
            aside = set_aside(journal)
            if store.name != LOCAL and not os.path.lexists(target):
                os.rename(aside, target)


@contextmanager
def store_lock(results: Path) -> Iterator[None]:
    """Wait for the lock on making a store beside the results, which one process of this machine has at a time."""
    with open(results / ".mlflow.lock", "a") as file:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
