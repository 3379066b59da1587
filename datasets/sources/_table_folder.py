"""A table that is one file, or several in a folder: one for each client, or one for each of the
parts train and test.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.federation import DataError
from datasets.sources import _folders as folders
from datasets.sources._own_files import nearest, reason
from datasets.sources._table_files import SUFFIXES, TableFile

if TYPE_CHECKING:
    import pandas as pd

FILE = "file"  # what is named like a column where the file says whose a row is
SHARD = re.compile(r"[-_.]?\d+[-_]of[-_]\d+$|(?<=part)[-_.]?\d+([-_][\w-]+)?$")


@dataclass(frozen=True)
class Tables:
    """Tables of the same columns, which are read as one.

    Attributes:
        path: the file, or the folder that they lie in.
        files: which they are, by name: the pieces of each.
        parts: which of the names are train and test; empty: the files do not say. The others are
            not read.
        others: what else lies there, as `datasets.sources._folders.unread` counts it.
    """

    path: Path
    files: Mapping[str, Sequence[TableFile]]
    parts: Mapping[str, str] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)

    @property
    def more(self) -> list[str]:
        """What may be named like a column, beside the columns: the file, where there are
        several.
        """
        return [FILE] if len(self.files) > 1 and not self.parts else []

    @property
    def read_files(self) -> list[tuple[str, TableFile]]:
        """The files that are read, each with its name, those of the training part first."""
        order = (
            sorted(self.parts, key=lambda name: folders.PARTS.index(self.parts[name])) or self.files
        )
        return [(name, piece) for name in order for piece in self.files[name]]

    @property
    def delimiter(self) -> str:
        """What separates the columns of text files."""
        return self.read_files[0][1].delimiter

    @property
    def decimal(self) -> str:
        """What numbers in text files have before their fraction."""
        return self.read_files[0][1].decimal

    @property
    def nulls(self) -> tuple[str, ...]:
        """The words that stand for a missing value, beside an empty cell."""
        return self.read_files[0][1].nulls

    @property
    def is_csv(self) -> bool:
        """Whether all are text files."""
        return all(piece.is_csv for _, piece in self.read_files)

    def names(self) -> list[str]:
        """Return the names of the columns.

        Raises DataError if a file cannot be read, or its columns are not those of all.
        """
        (first, table), *others = self.read_files
        names = table.names()
        for other, piece in others:
            found = piece.names()
            for has, lacks, columns in (
                (first, other, {*names} - {*found}),
                (other, first, {*found} - {*names}),
            ):
                if columns:
                    raise DataError(
                        f"data.path: of {self.path}, {has} has the column {min(columns)!r} "
                        f"and {lacks} has not; all must have the same, or name a file that is "
                        "read alone"
                    )
        if self.more and FILE in names:
            raise DataError(
                f"data.path: {self.path} has a column {FILE!r}, which is what its files are "
                "called; rename it"
            )
        return names

    def read(
        self, columns: Sequence[str], texts: Sequence[str] = (), **how: Any
    ) -> tuple[pd.DataFrame, list[str] | None]:
        """Read columns (as `TableFile` does), and whether each row is for training or testing,
        where the files say so.

        A column that holds texts in some files alone is read as texts in all.
        """
        import pandas as pd

        inside = [name for name in columns if name not in self.more]
        texts = [name for name in texts if name in inside]
        frames = [piece.read(inside, texts, **how) for _, piece in self.read_files]
        unlike = [
            name
            for frame in frames
            for name in frames[0].columns.symmetric_difference(frame.columns)
        ]
        if unlike:
            raise DataError(
                f"data.path: in {self.path}, column {unlike[0].partition('[')[0]!r} holds "
                "lists of several lengths; give all of them the same length, or leave the "
                "column out with data.drop"
            )
        mixed = []
        for name in frames[0]:
            kinds = {
                pd.api.types.infer_dtype(frame[name], skipna=True)
                for frame in frames
                if name in frame
            }
            if "string" in kinds and len(kinds - {"empty"}) > 1:
                mixed.append(name)
        if mixed:
            frames = [piece.read(inside, [*texts, *mixed], **how) for _, piece in self.read_files]
        frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
        for name in mixed:
            frame[name] = frame[name].map(str, na_action="ignore")
        of_file = [
            name
            for (name, _), rows in zip(self.read_files, frames, strict=True)
            for _ in range(len(rows))
        ]
        if FILE in columns and self.more:
            frame[FILE] = of_file
        return frame, [self.parts[name] for name in of_file] if self.parts else None

    def spelled(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return columns of text files as these spell them."""
        import pandas as pd

        return pd.concat(
            [piece.spelled(columns) for _, piece in self.read_files], ignore_index=True
        )

    def apart(self, frame: pd.DataFrame) -> list[pd.DataFrame]:
        """Return those rows of a frame, as it was read, that are of one file, for each file."""
        if len(self.read_files) < 2:
            return [frame]
        ends = accumulate((_length(piece) for _, piece in self.read_files), initial=0)
        return [frame.loc[start : end - 1] for start, end in pairwise(ends)]

    def placed(self, text: str) -> str:
        """Return a text about rows of all files, with the rows of their own files."""
        if len(self.read_files) < 2:
            return text
        lengths = [_length(piece) for _, piece in self.read_files]

        def place(match: re.Match[str]) -> str:
            row = int(match[1])
            for (_, piece), length in zip(self.read_files, lengths, strict=True):
                if row <= length:
                    return f"row {row} of {piece.path.relative_to(self.path)}"
                row -= length
            return match[0]

        return re.sub(r"\brow (\d+)\b", place, text)

    def remarks(self) -> list[str]:
        """Return which files are which part, and what is not read."""
        counts = Counter(self.others)
        for name in [name for name in self.files if self.parts and name not in self.parts]:
            counts[f"rows of {name}"] = sum(map(_length, self.files[name]))
        return [*folders.part_remarks(self.parts), *folders.unread(counts)]


def tables_at(file: TableFile) -> Tables:
    """Return the tables at the path of ``file``, which may be a folder; each is read as ``file``
    would be.

    Raises DataError if a folder holds no table, or one with the name of a part beside others.
    """
    path = file.path
    if not path.is_dir() or (path / "state.json").is_file():
        return Tables(path, {"": [file]})
    saved = path / "dataset_dict.json"
    if saved.is_file():
        splits = _splits(saved)
        parts = folders.parts(splits)
        if not parts and len(splits) > 1:
            raise DataError(
                f"data.path: {path} holds the data sets {', '.join(splits)}; train and test "
                f"are read, or name the folder of one of them{nearest('test', splits)}"
            )
        return Tables(path, {split: [replace(file, path=path / split)] for split in splits}, parts)
    files, _ = folders.walked(path)
    named = _named([found for found in files if found.suffix.lower() in SUFFIXES])
    pieces = dict[str, list[TableFile]]()
    others = Counter[str]()
    for found in files:
        if found in named:
            pieces.setdefault(named[found], []).append(replace(file, path=path / found))
        else:
            place = found.parts[0] if len(found.parts) > 1 else "the folder itself"
            others[f"{found.suffix.lower() or 'without suffix'} in {place}"] += 1
    if not pieces:
        there = folders.unread(others)
        raise DataError(
            "; ".join([f"data.path: {path} holds no table ({', '.join(SUFFIXES)})", *there])
        )
    parts = folders.parts(pieces)
    if (
        not parts
        and len(pieces) > 1
        and (lone := [name for name in pieces if folders.part_of(name)])
    ):
        raise DataError(
            f"data.path: {path} has the table {lone[0]!r}, which is the name of a part; parts "
            "are read where there are both, train and test. Name that file alone, or rename "
            "it"
        )
    return Tables(path, pieces, parts, others)


def _named(tables: Sequence[Path]) -> dict[Path, str]:
    """The names of the tables that are read: of those on top, or else of those of a single
    sub-folder, or of sub-folders.
    """
    top = [path for path in tables if len(path.parts) == 1]
    if top or len({path.parts[0] for path in tables}) == 1:
        return {path: SHARD.sub("", path.stem) for path in top or tables}
    return {path: path.parts[0] for path in tables}


def _length(piece: TableFile) -> int:
    try:
        return len(piece.read(piece.names()[:1]))
    except DataError:  # what is not read may be damaged
        return 0


def _splits(saved: Path) -> list[str]:
    try:
        return list(json.loads(saved.read_text(encoding="utf-8"))["splits"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"data.path: {saved} cannot be read: {reason(error)}") from error
