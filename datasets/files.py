"""Published files: their MD5 is checked when they are read, and torchvision downloads them where
a network exists.

Every error ends as a `DataError` whose text names the file, where it was looked for, and the
remedy.
"""

import hashlib
import importlib
import importlib.util
import io
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from datasets.federation import DataError, Examples

PATIENCE = 10.0  # seconds without an answer after which a connection counts as dead


def read(path: Path, md5: str | None = None) -> bytes:
    """Return the content of a file.

    Raises DataError if it cannot be read, or has another MD5 than the published one.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 is not None and actual != md5:
        raise damage_error(
            path, f"the MD5 of its {len(content)} bytes is {actual}, the published one is {md5}"
        )
    return content


def encoded_images(
    path: Path, side: int, classes: int, labels: Sequence[str] = ("label",)
) -> Examples:
    """Read a parquet file of Hugging Face with encoded images: the struct {bytes, path} in the
    column ``image``.

    Returns gray levels, uint8 [n, 1, side, side], and labels 0..classes-1, from the first of the
    columns ``labels`` that there is. Raises DataError, with file and (of an image or a label) row,
    if the file is damaged.
    """
    import pandas as pd
    from PIL import Image

    content = io.BytesIO(read(path))
    try:
        frame = pd.read_parquet(content)
    except (ValueError, OSError) as error:  # pyarrow's own errors are one or the other
        raise damage_error(path, " ".join(str(error).split())) from error
    label = next((name for name in labels if name in frame), None)
    if label is None or "image" not in frame:
        raise damage_error(
            path, f"it has the columns {', '.join(frame)} and not image and {' or '.join(labels)}"
        )
    x = np.empty((len(frame), 1, side, side), np.uint8)
    for row, encoded in enumerate(frame["image"]):
        try:
            image = Image.open(io.BytesIO(encoded["bytes"]))
            if image.size != (side, side):  # the size is available before the image is decoded
                raise ValueError(
                    f"it has {image.width}x{image.height} pixels instead of {side}x{side}"
                )
            x[row, 0] = np.asarray(image.convert("L"))
        except (
            Exception
        ) as error:  # PIL has many kinds of errors for damaged images, SyntaxError among them
            raise damage_error(path, f"the image in row {row} cannot be read ({error})") from error
    wrong = np.flatnonzero(~frame[label].isin(range(classes)))
    if len(wrong):
        value = frame[label].iloc[wrong[0]]
        raise damage_error(
            path,
            f"the label in row {wrong[0]} is {value}; it must be an integer in 0..{classes - 1}",
        )
    return Examples(x, frame[label].to_numpy(np.int64))


def damage_error(path: Path, why: object) -> DataError:
    """Return the error for a file that exists but has the wrong content."""
    return DataError(f"{path} is damaged: {why}. Delete it and get it again")


def absence_error(dataset: str, sought: str, remedy: str) -> DataError:
    """Return the error for a data set that is not there: which files were looked for, and how to
    get them.
    """
    return DataError(f"{dataset} is absent: looked for {sought}. {remedy}")


def require(dataset: str, paths: Sequence[Path], remedy: str) -> None:
    """Raise the DataError of `absence_error`, which names the first missing file, unless all
    ``paths`` are files.
    """
    missing = [path for path in paths if not path.is_file()]
    if missing:
        more = f" and {len(missing) - 1} more files" if len(missing) > 1 else ""
        raise absence_error(dataset, f"{missing[0]}{more}", remedy)


def in_sklearn(file: str) -> Path:
    """Return where the installed scikit-learn keeps one of its tables; it is not imported, which
    takes seconds.
    """
    package = importlib.util.find_spec("sklearn")
    assert package and package.origin
    return Path(package.origin).parent / "datasets" / "data" / file


def download(
    dataset: str, fetch: Callable[[], object], sought: str, remedy: str, allowed: bool
) -> None:
    """Download a data set by calling ``fetch``. Nothing is tried twice.

    Raises the DataError of `absence_error`, which names the missing files (``sought``) and how else
    to get them (``remedy``), if downloading is not ``allowed`` or fails, or the publisher does not
    answer.
    """
    if not allowed:
        raise absence_error(dataset, sought, f"Downloading is off. {remedy}")
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(
        PATIENCE
    )  # torchvision sets no limit, so a silent network would block it forever
    try:
        fetch()
    except Exception as error:  # the kind of error depends on the library
        reason = " ".join(str(getattr(error, "reason", error)).split()) or type(error).__name__
        raise absence_error(
            dataset, sought, f"Downloading it failed ({reason}). {remedy}"
        ) from error
    finally:
        socket.setdefaulttimeout(timeout)


def torchvision(name: str, root: Path) -> None:
    """Download a data set of torchvision in its layout and with its checksums; it shows its
    progress on stderr.
    """
    getattr(importlib.import_module("torchvision.datasets"), name)(root, download=True)
