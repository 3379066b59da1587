"""Hashes of the code and the data of a trial, and how they differ from those of its record.

A trial's id is made of its configuration alone. What else its numbers depend on and what somebody edits between two runs
is hashed when the sweep starts: the files of the run's components, the module of a model that is named by a dotted path,
the engine of all trials (algorithms/engine and algorithms/core), and all that these import, as far as it lies in
datasets/, algorithms/, attacks/, in own code or in a package that is installed for editing
(`orchestrator.results.imported_files`); and the data set as it was loaded. For the orchestrator, the record's commit
stands.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algorithms.interfaces import Run
from datasets.components import Component, components
from datasets.federation import Source, add_to_digest
from orchestrator.config import own_code
from orchestrator.config.slots import chosen_components
from orchestrator.results.imported_files import DIGITS, SourceFile, content_hash, engine_modules, reached
from orchestrator.results.provenance import commit
from orchestrator.results.record import TrialIdentity

NAMED = 6  # files that have a sentence each


@dataclass(frozen=True)
class Fingerprint:
    """What a trial's numbers depend on besides its configuration.

    Attributes:
        files: the hash of each source file, by a path that says the same on every machine.
        data: the hash of the loaded data set; None where it was not loaded.
    """

    files: Mapping[str, str]
    data: str | None = None

    @property
    def code(self) -> str:
        """The hash of all files."""
        return content_hash(repr(sorted(self.files.items())).encode())

    def origin(self) -> dict[str, str]:
        """The hashes of code and data, for the origin in a trial's record."""
        return {"code": self.code} | ({"data": self.data} if self.data else {})

    def differences(self, record: Mapping[str, Any]) -> list[str]:
        """Return what has changed since a trial was recorded: paths of files, and "data".

        Args:
            record: the trial's record; an older one without hashes differs in nothing.
        """
        before = record.get("files")
        if not isinstance(before, dict):
            return []
        paths = before.keys() | self.files.keys()
        if not any(path.startswith("algorithms/engine/") for path in before):
            paths = before.keys() & self.files.keys()  # the first records held other files
        changed = sorted(path for path in paths if before.get(path) != self.files.get(path))
        loaded = record.get("origin", {}).get("data")
        return changed + (["data"] if self.data and loaded and loaded != self.data else [])


def fingerprint(run: Run, data: str | None = None) -> Fingerprint:
    """Hash the source files of a run.

    Args:
        run: the run.
        data: the hash of its data set, see `DataHashes`.
    """
    return Fingerprint(dict(sorted({one.name: one.hash for one in _files(run)}.items())), data)


def own_code_hash() -> str:
    """Return the hash of all own code in this process; empty if there is none. Caches of trained models depend on it."""
    return "".join(one.state for one in own_code.installed().found)


def identity(trial: str, run: Run, data: DataHashes) -> TrialIdentity:
    """Return what the record of a trial is to say it is.

    Args:
        trial: its id.
        run: its run.
        data: the hashes of the data sets.
    """
    found = fingerprint(run, data.of(run))
    return TrialIdentity(trial, run.to_dict(), commit(), tuple(found.files.items()), found.origin())


class DataHashes:
    """The hashes of the data sets that a sweep loads, by what was loaded."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def add(self, data: Component[Any, Any], source: Source) -> None:
        """Hash a data set.

        Args:
            data: the component that loaded it.
            source: what it loaded.
        """
        key = self._key(data)
        if key not in self._found:
            self._found[key] = data_hash(source)

    def of(self, run: Run) -> str | None:
        """Return the hash of the data set of a run; None if it was not loaded here."""
        return self._found.get(self._key(run.data))

    def _key(self, data: Component[Any, Any]) -> str:
        """What decides what is read: all fields but the number of clients and the seed of the split."""
        return repr((data.name, data.config.model_copy(update={"clients": 1, "split_seed": None})))


def data_hash(source: Source) -> str:
    """Return the hash of a loaded data set: of its examples and labels, and of all else that it says of them."""
    digest = hashlib.blake2b(digest_size=DIGITS // 2)
    for name, value in sorted(vars(source).items()):
        digest.update(name.encode())
        for part in (value.x, value.y) if hasattr(value, "x") else (value,):
            if hasattr(part, "dtype") and part.dtype != object:
                add_to_digest(digest, part)
            else:
                digest.update(repr(part.tolist() if hasattr(part, "dtype") else part).encode())
    return digest.hexdigest()


def _files(run: Run) -> Iterator[SourceFile]:
    yield from reached(engine_modules())
    chosen = [component for _, component in chosen_components(run)]
    yield from reached((components(one.folder)[one.name].__name__ for one in chosen), installed=True)
    # A model by dotted path: `callable: "mypkg.nets:Net"`.
    named = (getattr(one.config, "callable", None) for one in chosen)
    yield from reached(one.partition(":")[0] for one in named if isinstance(one, str))


@dataclass(frozen=True)
class Changed:
    """A trial that was run, or begun, with other code or data than today's.

    Attributes:
        trial: its id.
        differences: the files that differ, and "data".
    """

    trial: str
    differences: tuple[str, ...]


def changed_sentences(changed: Sequence[Changed], complete: int) -> list[str]:
    """Say which complete trials were run with other code or data, a sentence for each file.

    >>> changed_sentences([Changed("a", ("attacks/sia.py",)), Changed("b", ("data",))], 8)
    ['1 of 8 complete trials was run with another attacks/sia.py', '1 of 8 complete trials was run with other data']
    """
    counts = Counter(name for one in changed for name in one.differences)
    # Data first, and of many files, as after an update of fedpriv, those that most trials ran with.
    names = sorted(counts, key=lambda name: (name != "data", -counts[name], name))
    told = sorted(names if len(names) <= NAMED else names[: NAMED - 1])
    sentences = [
        f"{counts[name]} of {complete} complete trials {'was' if counts[name] == 1 else 'were'} run with "
        f"{'other data' if name == 'data' else f'another {name}'}"
        for name in told
    ]
    return sentences + (
        [f"... and with {len(names) - len(told)} more files that differ"] if told != sorted(names) else []
    )


def begun_sentence(begun: Sequence[Changed]) -> str:
    """Say which unfinished trials began with other code or data, so that they begin anew; empty if there are none.

    >>> begun_sentence([Changed("a", ("attacks/sia.py",)), Changed("b", ("attacks/sia.py", "data"))])
    '2 unfinished trials were begun with another attacks/sia.py, other data: they begin anew, and what was saved is deleted'
    """
    if not begun:
        return ""
    names = sorted({name for one in begun for name in one.differences}, key=lambda name: (name == "data", name))
    what = ", ".join("other data" if name == "data" else f"another {name}" for name in names)
    one = len(begun) == 1
    return (
        f"{len(begun)} unfinished {'trial was' if one else 'trials were'} begun with {what}: "
        f"{'it begins' if one else 'they begin'} anew, and what was saved is deleted"
    )
