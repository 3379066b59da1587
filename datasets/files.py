"""Published files: their MD5 is checked when they are read, and torchvision downloads them where a network exists.

Every error ends as a `DataError` whose text names the file, where it was looked for, and the remedy.
"""

import hashlib
import importlib.util
import io
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from datasets.federation import DataError

PATIENCE = 10.0  # seconds without an answer after which a connection counts as dead


def read(path: Path, md5: str | None = None) -> bytes:
    """Return the content of a file. Raises DataError if it cannot be read, or has another MD5 than the published one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 is not None and found != md5:
        raise damage_error(path, f"the MD5 of its {len(content)} bytes is {found}, the published one is {md5}")
    return content


def gray_levels(encoded: bytes | None, side: int) -> NDArray[np.uint8]:
    """Return the gray levels [side, side] of an encoded image. Raises ValueError for another size, or what PIL raises."""
    from PIL import Image

    if encoded is None:
        raise ValueError("it is empty")
    image = Image.open(io.BytesIO(encoded))
    if image.size != (side, side):  # the size is available before the image is decoded
        raise ValueError(f"it has {image.width}x{image.height} pixels instead of {side}x{side}")
    return np.asarray(image.convert("L"))


def damage_error(path: Path, why: object) -> DataError:
    """Return the error for a file that exists but has the wrong content."""
    return DataError(f"{path} is damaged: {why}. Delete it and get it again")


def absence_error(dataset: str, sought: str, remedy: str) -> DataError:
    """Return the error for a data set that is not there: which files were looked for, and how to get them."""
    return DataError(f"{dataset} is absent: looked for {sought}. {remedy}")


def require(dataset: str, paths: Sequence[Path], remedy: str) -> None:
    """Raise the DataError of `absence_error`, which names the first missing file, unless all ``paths`` are files."""
    missing = [path for path in paths if not path.is_file()]
    if missing:
        more = f" and {len(missing) - 1} more files" if len(missing) > 1 else ""
        raise absence_error(dataset, f"{missing[0]}{more}", remedy)


def in_sklearn(file: str) -> Path:
    """Return where the installed scikit-learn keeps one of its tables; it is not imported, which takes seconds."""
    package = importlib.util.find_spec("sklearn")
    assert package and package.origin
    return Path(package.origin).parent / "datasets" / "data" / file


def download(dataset: str, fetch: Callable[[], object], sought: str, remedy: str, allowed: bool) -> None:
    """Download a data set. Nothing is tried twice.

    Args:
        dataset: what it is called in the error message.
        fetch: downloads it; torchvision and huggingface_hub show their progress on stderr.
        sought: the files that are missing, for the error message.
        remedy: how else to get them, for the error message.
        allowed: whether downloading is allowed.

    Raises:
        DataError: downloading is not allowed or fails, or the publisher does not answer.
    """
    if not allowed:
        raise absence_error(dataset, sought, f"Downloading is off. {remedy}")
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)  # torchvision sets no limit, so a silent network would block it forever
    try:
        fetch()
    except Exception as error:  # the kind of error depends on the library
        reason = " ".join(str(getattr(error, "reason", error)).split()) or type(error).__name__
        raise absence_error(dataset, sought, f"Downloading it failed ({reason}). {remedy}") from error
    finally:
        socket.setdefaulttimeout(timeout)
