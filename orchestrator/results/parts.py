"""The rows of an unfinished trial's tables, round by round, until they become the Parquet tables of its results."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from orchestrator.results.folder import write_atomically
from orchestrator.results.integrity import Damage, DamageError, set_aside
from orchestrator.results.stamped import read_stamped, stamped
from orchestrator.results.tables import Rows, as_table, join_tables, write_table
from orchestrator.results.writing import remove

EVERY_ROUND = "rounds"  # the table in which every round has its part
NAME = re.compile(r"(?P<table>.+)-(?P<round>\d{8,})\.arrow")


@dataclass(frozen=True)
class Parts:
    """The rows of an unfinished trial's tables, in the folder ``path``: one file per table and round.

    Each file is written atomically, so a process that is killed leaves only complete rounds. The files have Arrow's own
    format, which is 25 times faster to write than Parquet, and are removed when the trial has finished. A stamp at the
    end of each says of which trial, table and round it is.

    Attributes:
        path: the folder.
        owner: the trial, and its initialization.
    """

    path: Path
    owner: str = ""

    def append(self, table: str, round: int, rows: Rows) -> None:
        """Save the rows of ``table`` for one round, replacing earlier ones. Raises like `write_table`."""
        content = as_table(rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, content.schema) as file:
            file.write_table(content)
        whole = stamped(memoryview(sink.getvalue()), self._stamp(table, round))
        write_atomically(self._file(table, round), whole)

    def rounds(self, table: str) -> list[int]:
        """The rounds that have rows in ``table``, in ascending order. Raises DamageError if they cannot be listed."""
        return sorted(round for name, round in self._held() if name == table)

    def truncate(self, round: int) -> None:
        """Remove ``round`` and all later rounds from every table; a folder in a part's place is set aside."""
        for table, held in self._held():
            if held >= round:
                file = self._file(table, held)
                if file.is_dir() and not file.is_symlink():
                    set_aside(file)
                else:
                    remove(file)

    def read(self, table: str, start: int = 0) -> pa.Table:
        """The rows of ``table`` from the round ``start`` on, in order. Raises DamageError if a part is not as saved."""
        return join_tables([self._part(table, round) for round in self.rounds(table) if round >= start])

    def merge(self, table: str, path: Path) -> pa.Table:
        """Write all rows of ``table`` to the Parquet file ``path`` and return them.

        The bytes are those that `write_table` gives for the same rows, however they were divided into rounds. If no round
        has a row, no file is written.

        Raises:
            DamageError: a part is not what was saved; then nothing is written.
        """
        rows = self.read(table)
        if len(rows):
            write_table(path, rows)
        else:
            remove(path)
        return rows

    def require(self, rounds: int, counts: Mapping[str, int]) -> None:
        """Make sure that no part is missing.

        Args:
            rounds: the number of rounds done.
            counts: by table, how many of these rounds have a part; empty: not known.

        Raises:
            DamageError: a part is missing, or there is one too many.
        """
        held: dict[str, list[int]] = {EVERY_ROUND: []}
        for table, round in self._held():
            if round < rounds:
                held.setdefault(table, []).append(round)
        for round in sorted({*range(rounds)} - {*held[EVERY_ROUND]}):
            raise DamageError(Damage(self._file(EVERY_ROUND, round), "is missing"))
        for table in sorted({*held, *counts}) if counts else ():
            found, known = len(held.get(table, ())), counts.get(table, 0)
            if found != known:
                raise DamageError(
                    Damage(self.path, f"holds {found} parts of the table {table}, and {known} were saved")
                )

    def damages(self, rounds: int, counts: Mapping[str, int]) -> list[Damage]:
        """Read all parts of the first ``rounds`` rounds, and return what is wrong with them; see `require`."""
        try:
            held = sorted(self._held())
        except DamageError as error:
            return [error.damage]
        found = []
        try:
            self.require(rounds, counts)
        except DamageError as error:
            found.append(error.damage)
        for table, round in held:
            if round < rounds:
                try:
                    self._part(table, round)
                except DamageError as error:
                    found.append(error.damage)
        return found

    def counts(self, rounds: int) -> dict[str, int]:
        """By table, how many of the first ``rounds`` rounds have a part."""
        held = [table for table, round in self._held() if round < rounds]
        return {table: held.count(table) for table in sorted({*held})}

    def _part(self, table: str, round: int) -> pa.Table:
        """The rows of one part. Raises DamageError."""
        path = self._file(table, round)
        try:
            content = read_stamped(path, self._stamp(table, round), unstamped=True)
            with pa.ipc.open_file(pa.py_buffer(content)) as file:
                rows = file.read_all()
            rows.validate(full=True)
        except FileNotFoundError:
            raise DamageError(Damage(path, "is missing")) from None
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            if isinstance(error, DamageError):
                raise
            raise DamageError(Damage(path, "is not what was saved: it is no table of Arrow")) from error
        own = rows["round"].to_pylist() if table == EVERY_ROUND and "round" in rows.column_names else [round]
        if any(found != round for found in own):
            raise DamageError(Damage(path, "is not what was saved: it is of another round"))
        return rows

    def _held(self) -> list[tuple[str, int]]:
        try:
            names = [match for name in os.listdir(self.path) if (match := NAME.fullmatch(name))]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DamageError(Damage(self.path, "is no folder that can be read")) from error
        found = [(match["table"], int(match["round"])) for match in names]
        return [one for one, match in zip(found, names, strict=True) if self._file(*one).name == match.string]

    def _stamp(self, table: str, round: int) -> str:
        return f"{self.owner}/{self._file(table, round).name}"

    def _file(self, table: str, round: int) -> Path:
        return self.path / f"{table}-{round:08d}.arrow"
