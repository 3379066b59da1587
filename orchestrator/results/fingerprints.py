"""Hashes of the code and the data of a trial, and how they differ from those of its record.

A trial's id is made of its configuration alone. What else its numbers depend on and what somebody edits between two runs
is hashed when the sweep starts: the files of the run's components with the helpers beside them, the own modules of
``code:`` and the module of a model that is named by a dotted path; and the data set as it was loaded. The engine below
is the same for all trials, and the record's commit stands for it.
"""

from __future__ import annotations

import hashlib
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from algorithms.interfaces import Run
from datasets.components import Component, components
from datasets.federation import Source, add_to_digest
from orchestrator import CHECKOUT
from orchestrator.config import own_code
from orchestrator.config.own_files import python_files, said
from orchestrator.config.slots import chosen_components
from orchestrator.results.provenance import commit
from orchestrator.results.record import TrialIdentity

DIGITS = 16  # of a hash, hexadecimal


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
        return _hash(repr(sorted(self.files.items())).encode())

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
        changed = sorted(path for path in before.keys() | self.files.keys() if before.get(path) != self.files.get(path))
        loaded = record.get("origin", {}).get("data")
        return changed + (["data"] if self.data and loaded and loaded != self.data else [])


def fingerprint(run: Run, data: str | None = None) -> Fingerprint:
    """Hash the source files of a run.

    Args:
        run: the run.
        data: the hash of its data set, see `DataHashes`.
    """
    return Fingerprint(dict(sorted(_files(run))), data)


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


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=DIGITS // 2).hexdigest()


def _files(run: Run) -> Iterator[tuple[str, str]]:
    for _, component in chosen_components(run):
        module = components(component.folder)[component.name]
        yield from _component_files(Path(inspect.getfile(module)))
        # A model by dotted path: `callable: "mypkg.nets:Net"`.
        if isinstance(named := getattr(component.config, "callable", None), str):
            yield from _named_module(named.partition(":")[0])
    code = own_code.installed()
    for place in sorted({place for one in code.found for place in one.modules.values()}):
        for file in python_files([place]):
            yield _said(file), _hash(file.read_bytes())


@cache
def _helpers(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("_[!_]*.py")))


def _component_files(file: Path) -> Iterator[tuple[str, str]]:
    """A component's file, and the helpers in its folder."""
    for one in (file, *_helpers(file.parent)):
        yield _said(one), _hash(one.read_bytes())


def _named_module(name: str) -> Iterator[tuple[str, str]]:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return
    if spec and spec.origin and Path(spec.origin).suffix == ".py" and "site-packages" not in Path(spec.origin).parts:
        yield f"{name.replace('.', '/')}.py", _hash(Path(spec.origin).read_bytes())


def _said(file: Path) -> str:
    """The path of a file in the checkout, beside a sweep or in a distribution, without what is this machine's own."""
    if file.is_relative_to(CHECKOUT) and "site-packages" not in file.parts:
        return file.relative_to(CHECKOUT).as_posix()
    if own := said(file, own_code.installed().paths):
        return own
    parts = file.parts
    below = parts.index("site-packages") + 1 if "site-packages" in parts else len(parts) - 2
    return Path(*parts[below:]).as_posix()


@dataclass(frozen=True)
class Changed:
    """A trial with a result that was run with other code or data than today's.

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
    return [
        f"{count} of {complete} complete trials {'was' if count == 1 else 'were'} run with "
        f"{'other data' if name == 'data' else f'another {name}'}"
        for name, count in sorted(counts.items())
    ]
