"""Results as a log: a folder has parts, which never change, and a manifest, written last, that
vouches for them.

    FOLDER/<part>           a file, written whole or not at all
    FOLDER/manifest.json    format, owner, facts, size and BLAKE2b of every part, and a checksum

A part whose name ends in `GROWING` is added to instead: the manifest vouches for its first bytes.
Four verbs serve sweeps, trials, saved states, shadow models and replicas alike: `Log.append` a
part, `Log.finish` the manifest, `verify` a folder, read a part of it with `Manifest.read`. A folder
without a manifest is not finished, and what its manifest does not name is not there. What does not
verify is never believed: `quarantine` renames it, and its content is made again. Behind a checksum
no value is looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from datasets.federation import printable
from orchestrator.results.writing import (
    open_plain,
    read_plain,
    refusals,
    remove,
    write_atomically,
    write_behind,
)

FORMAT = 1
MANIFEST = "manifest.json"
DAMAGED = ".damaged"  # is added to the name of what was set aside
# ends the name of a part that is added to; bytes beyond its size in the manifest do not count
GROWING = ".grows"
DIGEST_BYTES = 16
THREADS = 8  # hashing and reading give up the interpreter's lock
# bytes that a sweep's cache may hold, and that are added between two looks at all of it
LIMIT = 20e9
LOOK = 1e9

Item = TypeVar("Item")
Result = TypeVar("Result")
Form: TypeAlias = Callable[[Any], object]


class DamageError(ValueError):
    """A folder is not what was saved.

    Its text is the file's ``path`` and the ``problem``: "is missing".
    """

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{printable(str(path))} {problem}")
        self.path = path
        self.problem = problem


@dataclass(frozen=True)
class Part:
    """Size in bytes and BLAKE2b (hexadecimal) of a part."""

    size: int
    digest: str

    @classmethod
    def of(cls, content: bytes | memoryview) -> Part:
        """The part with this content.

        >>> Part.of(b"")
        Part(size=0, digest='cae66941d9efbd404e4d88758ea67670')
        """
        return cls(len(content), hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest())


@dataclass(frozen=True)
class Manifest:
    """What the manifest of a folder says.

    Attributes:
        owner: whose results these are: a trial's id, a sweep's name, a key of a cache.
        facts: what the folder says of itself, as JSON has it.
        parts: its files by name.
    """

    path: Path
    owner: str
    facts: Mapping[str, Any]
    parts: Mapping[str, Part]

    @property
    def digest(self) -> str:
        """The checksum of the manifest, and so of the whole folder."""
        canonical = json.dumps(self.plain(), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(canonical.encode(), digest_size=DIGEST_BYTES).hexdigest()

    def plain(self) -> dict[str, Any]:
        """The manifest as JSON has it, without its checksum."""
        parts = {name: [part.size, part.digest] for name, part in self.parts.items()}
        return {"format": FORMAT, "owner": self.owner, "facts": self.facts, "parts": parts}

    def read(self, name: str) -> bytes:
        """The content of a part. Raises DamageError unless it is what was saved."""
        path = self.path / name
        part = self.parts.get(name)
        if part is None:
            raise DamageError(path, "is missing")
        with _damage(path), open_plain(path) as file:
            held = os.fstat(file.fileno()).st_size
            if held < part.size or (held > part.size and not name.endswith(GROWING)):
                raise DamageError(
                    path, f"is not what was saved: it has {held:,} bytes instead of {part.size:,}"
                )
            content = file.read(part.size)
        if Part.of(content) != part:
            raise DamageError(path, "is not what was saved: its checksum differs")
        return content


@dataclass
class Log:
    """A folder that this process writes, with its parts so far; it is made when it is needed."""

    path: Path
    owner: str
    parts: dict[str, Part] = field(default_factory=dict)
    _dropped: list[str] = field(default_factory=list)
    _running: dict[str, Any] = field(default_factory=dict)  # the hashes of growing parts

    def append(self, name: str, content: bytes | memoryview) -> None:
        """Write a part; without the manifest, it is not there yet. Raises WriteError."""
        write_atomically(self.path / name, content)
        self.parts[name] = Part.of(content)

    def extend(self, name: str, content: bytes | memoryview) -> None:
        """Add to a growing part, which is begun if needed; what is added is not there before the
        manifest.

        Raises:
            DamageError: what is there is not what was written.
            WriteError: it could not be written.
        """
        size = self.parts[name].size if name in self.parts else 0
        if name not in self._running:
            self._running[name] = hashlib.blake2b(
                self.read(name) if size else b"", digest_size=DIGEST_BYTES
            )
        write_behind(self.path / name, size, content)
        self._running[name].update(content)
        self.parts[name] = Part(size + len(content), self._running[name].hexdigest())

    def read(self, name: str) -> bytes:
        """The content of a part. Raises DamageError unless it is what was written."""
        return Manifest(self.path, self.owner, {}, self.parts).read(name)

    def drop(self, name: str) -> None:
        """Let the next manifest do without a part; its file is deleted after that."""
        if self.parts.pop(name, None):
            self._dropped.append(name)

    def finish(self, facts: Mapping[str, Any]) -> Manifest:
        """Write the manifest, with ``facts`` as JSON has them: all parts so far are there from
        now on. Raises WriteError.
        """
        manifest = Manifest(self.path, self.owner, json.loads(json.dumps(facts)), dict(self.parts))
        # Compact, for a running trial writes it after every round.
        write_atomically(
            self.path / MANIFEST,
            json.dumps(manifest.plain() | {"checksum": manifest.digest}).encode(),
        )
        while self._dropped:
            remove(self.path / self._dropped.pop())
        return manifest


def read_manifest(folder: Path, owner: str | None = None, form: Form = dict) -> Manifest:
    """Read the manifest of a folder, without looking at the parts.

    Args:
        folder: the folder.
        owner: whose results it must hold; None: anybody's.
        form: raises ValueError if facts are not what such a folder says of itself.

    Raises:
        FileNotFoundError: there is none, so the folder is not finished.
        DamageError: it is not what was saved.
    """
    path = folder / MANIFEST
    try:
        with _damage(path, may_miss=True):
            content = read_plain(path)
        plain = json.loads(content, parse_int=_whole)
        if b"\\ud" in content.lower():
            json.dumps(plain, ensure_ascii=False).encode()  # raises where a text is none
        if plain["format"] != FORMAT:
            raise DamageError(
                path,
                f"has the format {str(plain['format'])[:20]!r}; this version reads format {FORMAT}",
            )
        parts = {name: Part(*part) for name, part in plain["parts"].items()}
        manifest = Manifest(folder, plain["owner"], plain["facts"], parts)
        if manifest.digest != plain["checksum"] or not all(map(_is_name, parts)):
            raise DamageError(path, "is not what was saved: its checksum differs")
        if (
            not isinstance(manifest.owner, str)
            or type(manifest.facts) is not dict
            or not all(map(_is_part, parts.values()))
        ):
            raise TypeError
        form(manifest.facts)
    except DamageError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamageError(
            path, "is not what was saved: it is no manifest of such a folder"
        ) from error
    if owner not in (None, manifest.owner):
        raise DamageError(path, f"is that of {manifest.owner[:60]!a}, not of {owner!a}")
    return manifest


def _whole(digits: str) -> int:
    """A whole number. Raises ValueError for one that is larger than any float."""
    if len(digits) > 300:
        raise ValueError(digits[:20])
    return int(digits)


def _is_name(name: str) -> bool:
    """Whether a part can have this name: it is that of a file in the folder, and can be printed."""
    return name.isprintable() and "/" not in name and name not in ("", ".", "..", MANIFEST)


def _is_part(part: Part) -> bool:
    return type(part.size) is int and part.size >= 0 and isinstance(part.digest, str)


def verify(
    folder: Path, owner: str | None = None, skip: Sequence[str] = (), form: Form = dict
) -> Manifest:
    """Read the manifest of a folder, and compare all parts with it, but for those to ``skip``.

    ``form`` is that of `read_manifest`.

    Raises:
        FileNotFoundError: there is no manifest, so the folder is not finished.
        DamageError: it is not what was saved; the first file that differs.
    """
    manifest = read_manifest(folder, owner, form)
    for name in manifest.parts:
        if name not in skip:
            manifest.read(name)
    return manifest


def damage_of(
    folder: Path, owner: str | None = None, skip: Sequence[str] = (), form: Form = dict
) -> DamageError | None:
    """What is damaged of a folder, the first of it; None if it verifies, or is not finished.

    Arguments like `verify`.
    """
    damage: DamageError | None = None
    for _ in range(2):  # a run may write while we read
        try:
            verify(folder, owner, skip, form)
            return None
        except FileNotFoundError:
            return None
        except DamageError as error:
            damage = error
    return damage


def in_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of a function that reads files, for many folders at a time, in their order."""
    with ThreadPoolExecutor(min(THREADS, 2 * (os.cpu_count() or 1))) as pool:
        return list(pool.map(function, items))


def quarantine(path: Path) -> Path:
    """Rename what does not verify to a free name ``….damaged``, which is returned.

    Raises WriteError.
    """
    names = (
        path.with_name(f"{path.name}{DAMAGED}{f'-{number}' if number > 1 else ''}")
        for number in count(1)
    )
    aside = next(name for name in names if not os.path.lexists(name))
    with refusals(path, "is damaged and cannot be set aside"):
        os.rename(path, aside)
    return aside


def stored(cache: Path | None, key: str) -> bytes | None:
    """Return the content of an entry of a sweep's cache; None if it is not there or damaged, or
    there is no cache.

    Entries are what trials of the sweep have trained for all of them: a folder with one part each,
    named by the hash of all that its content depends on.
    """
    with suppress(OSError, DamageError):
        if cache is not None:
            manifest = read_manifest(cache / key, key)
            with suppress(OSError):
                os.utime(manifest.path)  # it was used, see `evict`
            if len(manifest.parts) == 1:
                return manifest.read(*manifest.parts)
    return None


def cached(cache: Path | None, key: str, make: Callable[[], bytes]) -> bytes:
    """Return the content of an entry, which is made if it is not there or damaged.

    Raises WriteError.

    Two processes may make the same entry at once, and differ in what they measured of time: a
    part's name is its digest, so that either manifest stands with its own.
    """
    if cache is None:
        return make()
    content = stored(cache, key)
    if content is None:
        log = Log(cache / key, key)
        content = make()
        if os.path.lexists(log.path) and not log.path.is_dir():
            # Another process may have evicted it, or made a folder.
            with suppress(IsADirectoryError, PermissionError):
                log.path.unlink(missing_ok=True)
        digest = Part.of(content).digest
        log.append(digest, content)
        log.finish({})
        # The digest decides like chance, so that no process has to know what others have added
        # since the last look.
        if int(digest, 16) < len(content) / LOOK * 256**DIGEST_BYTES:
            evict(cache)
    return content


def evict(cache: Path) -> int:
    """Delete entries of a cache, the least recently used first, while they exceed `LIMIT`;
    return the bytes that remain.
    """
    # Without a manifest, an entry is being written. Several processes may evict at once.
    entries = []
    for manifest in (path for path in cache.glob(f"*/{MANIFEST}") if not path.parent.is_symlink()):
        with suppress(OSError):  # another process deletes it, too
            size = sum(file.lstat().st_size for file in manifest.parent.iterdir())
            entries.append((manifest.parent.lstat().st_mtime_ns, size, manifest))
    held = sum(size for _, size, _ in entries)
    for _, size, manifest in sorted(entries):
        if held > LIMIT:
            held -= size
            with suppress(OSError):
                manifest.unlink()  # only one process gets beyond this
                for part in manifest.parent.glob("[!.]*"):  # not what somebody writes again
                    part.unlink()
                manifest.parent.rmdir()
    return held


@contextmanager
def _damage(path: Path, may_miss: bool = False) -> Iterator[None]:
    """Turn what the system refuses into a DamageError, or FileNotFoundError of what may be
    missing.
    """
    try:
        yield
    except FileNotFoundError as error:
        if may_miss:
            raise
        raise DamageError(path, "is missing") from error
    except OSError as error:
        raise DamageError(
            path, f"cannot be read: {(error.strerror or str(error)).lower()}"
        ) from error
    except MemoryError as error:
        raise DamageError(path, "cannot be read: it is larger than the memory") from error
