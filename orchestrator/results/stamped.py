"""Binary files that end with a stamp: what they are, and a checksum of that and of their content.

    content | what it is, UTF-8 | bytes of that, 4 | checksum, 16 | mark, 8

The stamp is taken off before the content is read, so the formats of others stay theirs.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from orchestrator.results.integrity import DIGEST_BYTES, Damage, DamageError

MARK = b"\x00fedpriv"
LENGTH = 4  # bytes of a name's length, little-endian
TAIL = LENGTH + DIGEST_BYTES + len(MARK)
CHANGED = "is not what was saved: its checksum differs"

KINDS = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISREG, ""))


def read_regular(path: Path) -> bytes:
    """Read a file that must be a file, and neither a link nor a folder.

    Raises:
        FileNotFoundError: there is no such file.
        DamageError: it is something else, or cannot be read.
    """
    require_regular(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamageError(Damage(path, f"cannot be read: {(error.strerror or str(error)).lower()}")) from error


def require_regular(path: Path) -> None:
    """Raise DamageError if ``path`` is no plain file of its own, FileNotFoundError if there is nothing."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamageError(Damage(path, f"cannot be read: {(error.strerror or str(error)).lower()}")) from error
    found = next((name for is_kind, name in KINDS if is_kind(mode)), "no file")
    if found:
        raise DamageError(Damage(path, f"is {found} where a file belongs"))


def stamped(content: bytes | memoryview, name: str) -> bytes:
    """Return ``content`` with its stamp.

    Args:
        content: the bytes of a file.
        name: what they are: no other file of ours has this name.
    """
    own = name.encode()
    return b"".join((content, own, len(own).to_bytes(LENGTH, "little"), _digest(content, own), MARK))


def is_stamped(whole: bytes) -> bool:
    """Whether the bytes of a file end with a stamp, which need not be right."""
    return whole.endswith(MARK)


def read_stamped(path: Path, name: str, unstamped: bool = False) -> bytes:
    """Read what was written with a stamp, and return its content.

    Args:
        path: the file.
        name: what it must be.
        unstamped: whether a file without a stamp, as earlier versions wrote them, is returned as it is.

    Raises:
        FileNotFoundError: there is no such file.
        DamageError: it cannot be read, has no stamp, is something else, or its content is not what was saved.
    """
    whole = read_regular(path)
    if not whole:
        raise DamageError(Damage(path, "is empty"))
    if not is_stamped(whole):
        if unstamped:
            return whole
        raise DamageError(Damage(path, "is not what was saved: its end is missing"))
    end = len(whole) - TAIL
    start = end - int.from_bytes(whole[end : end + LENGTH], "little") if end >= 0 else -1
    if start < 0:
        raise DamageError(Damage(path, CHANGED))
    content, own = memoryview(whole)[:start], whole[start:end]
    if whole[end + LENGTH : -len(MARK)] != _digest(content, own):
        raise DamageError(Damage(path, CHANGED))
    if own != name.encode():
        raise DamageError(Damage(path, f"is a copy of another file: {own.decode()}"))
    return bytes(content)


def _digest(content: bytes | memoryview, name: bytes) -> bytes:
    digest = hashlib.blake2b(name, digest_size=DIGEST_BYTES, salt=b"stamp")
    digest.update(content)
    return digest.digest()
