"""A results folder that was moved or copied: its store gets the new place of the artifacts.

MLflow writes the absolute path of its artifacts into the store when an experiment is created, and has no operation that
changes it; so this is done in the file. It is guarded: if the store cannot be read, it stays as it is.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

ARTIFACTS = "mlartifacts"
COLUMNS = (("experiments", "artifact_location"), ("runs", "artifact_uri"), ("logged_models", "artifact_location"))


def placed(address: str, results: Path) -> str:
    """The address of artifacts that are now in ``results``, for one that may still name the folder's former place.

    Args:
        address: an address that begins with ``file:``.
        results: the folder of all sweeps, absolute.
    """
    _, mark, rest = address.rpartition(f"/{ARTIFACTS}/")
    here = results / ARTIFACTS
    return f"{here.as_uri()}/{rest}" if mark and here.is_dir() else address


def follow(results: Path) -> None:
    """Point the store in ``results`` to the artifacts in ``results``, where it still names the folder's former place.

    Args:
        results: the folder of all sweeps, absolute.
    """
    store = results / "mlflow.db"
    if not store.is_file() or not (results / ARTIFACTS).is_dir():
        return
    for table, column in COLUMNS:
        with suppress(sqlite3.Error), closing(sqlite3.connect(store, timeout=10)) as connection, connection:
            found = connection.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {column} LIKE 'file:%'")  # noqa: S608
            for (former,) in found.fetchall():
                if (now := placed(former, results)) != former:
                    change = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"  # noqa: S608
                    connection.execute(change, (now, former))
