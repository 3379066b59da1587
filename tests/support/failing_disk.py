"""A disk that fails: the calls by which this process changes files below a folder are counted,
and some are refused.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CALLS = ("mkdir", "rename", "replace", "rmdir", "unlink")


@dataclass
class FailingDisk:
    """Refuses what would change files below ``root``.

    Attributes:
        root: the folder.
        number: the system's error number, such as ``errno.ENOSPC``.
        first: the number of the call, counted from 0, that is the first to fail.
        last: the last one that fails; None: all that follow fail, too.
        calls: the names of the calls so far.
    """

    root: Path
    number: int
    first: int
    last: int | None = None
    calls: list[str] = field(default_factory=list)

    def check(self, name: str, path: Any) -> None:
        """Count a call; raise what the system would if it is one that fails."""
        if isinstance(path, int) or not self._below(os.fsdecode(path)):
            return
        number = len(self.calls)
        self.calls.append(name)
        if number >= self.first and (self.last is None or number <= self.last):
            raise OSError(self.number, os.strerror(self.number), os.fsdecode(path))

    def _below(self, path: str) -> bool:
        relative = not os.path.isabs(path)  # below an open folder: `shutil.rmtree`
        return relative or path == str(self.root) or path.startswith(f"{self.root}{os.sep}")

    @contextmanager
    def attached(self) -> Iterator[FailingDisk]:
        """Take the place of the system's calls for the length of the ``with``."""
        kept = {name: getattr(os, name) for name in (*CALLS, "open")}
        opening = builtins.open

        def opened(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
            if not set(mode).isdisjoint("wxa+"):
                self.check("open", file)
            return opening(file, mode, *args, **named)

        def low_level(path: Any, flags: int, *args: Any, **named: Any) -> int:
            if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                self.check("open", path)
            return kept["open"](path, flags, *args, **named)

        for name in CALLS:
            setattr(os, name, self._checked(name, kept[name]))
        os.open, builtins.open, io.open = low_level, opened, opened
        try:
            yield self
        finally:
            for name, real in kept.items():
                setattr(os, name, real)
            builtins.open = io.open = opening

    def _checked(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *args: Any, **named: Any) -> Any:
            self.check(name, path)
            return real(path, *args, **named)

        return called
