"""What a source makes of files that were looked at: how many examples each client has in the training and the test part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from datasets.federation import Ints, Source
from datasets.sources import arrays, image_folder, table

READERS: dict[str, Any] = {"table": table, "arrays": arrays, "image_folder": image_folder}
TEST_SHARE = 0.3


@dataclass(frozen=True)
class Division:
    """How many examples serve what, once repeated ones are dropped.

    Attributes:
        train: examples of the training part by client, in the order of the clients; all under "" where nobody says.
        test: those of the test part, in the same order.
        one_class: the clients all of whose training examples are of one class.
        repeats: examples that were dropped, as they repeat earlier ones.
    """

    train: dict[str, int] = field(default_factory=dict)
    test: dict[str, int] = field(default_factory=dict)
    one_class: tuple[str, ...] = ()
    repeats: int = 0

    @property
    def examples(self) -> int:
        """The number of different examples."""
        return sum(self.train.values()) + sum(self.test.values())


def division(source: str, fields: Mapping[str, Any], path: Path, found: int) -> Division:
    """Read the files as a run would.

    Args:
        source: the source that reads them: table, arrays or image_folder.
        fields: its fields, beside the path.
        path: the file or folder.
        found: the examples in it, repeated ones included.

    Raises:
        DataError: the source refuses them.
    """
    reader = READERS[source]
    chosen = {"path": str(path.absolute()), "test_share": TEST_SHARE, **fields, "duplicates": "drop"}
    read: Source = reader.load(reader.Config.model_validate(chosen), path.absolute().parent)
    repeats = found - len(read)
    if read.subjects is None:
        return Division({"": len(read.train)}, {"": len(read.test)}, (), repeats)
    parts = np.split(read.subjects, [len(read.train)])
    pairs = np.unique(np.stack([parts[0], read.train.y]), axis=1)[0]
    alone = np.flatnonzero(np.bincount(pairs, minlength=len(read.subject_names)) == 1)
    train, test = (_by_client(part, read.subject_names) for part in parts)
    return Division(train, test, tuple(read.subject_names[client] for client in alone), repeats)


def _by_client(subjects: Ints, names: tuple[str, ...]) -> dict[str, int]:
    return dict(zip(names, np.bincount(subjects, minlength=len(names)).tolist(), strict=True))
