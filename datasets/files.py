"""Published files: checked against their published MD5 when read, fetched by torchvision where a network exists.

Everything that can be wrong ends as one `DataError` whose text says which file, where it was looked for and what to do.
"""

import hashlib
import http.client
import importlib
import socket
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datasets.federation import DataError

# Where torchvision downloads from; asked first, because importing torchvision only to learn that there is no network
# costs seconds.
PUBLISHERS = {
    "MNIST": "https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
    "CIFAR10": "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
}
PATIENCE = 10.0  # seconds without an answer after which a connection counts as dead


def read(path: Path, md5: str | None = None) -> bytes:
    """The content of ``path``. Raises DataError if it cannot be read or its MD5 is not the published one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 is not None and found != md5:
        raise damage_error(path, f"the MD5 of its {len(content)} bytes is {found}, the published one is {md5}")
    return content


def damage_error(path: Path, why: object) -> DataError:
    """The refusal of a file that is there but is not what it should be."""
    return DataError(f"{path} is damaged: {why}. Delete it and get it again")


def absence_error(dataset: str, sought: str, remedy: str) -> DataError:
    """The refusal of a data set of which what was ``sought`` is not there."""
    return DataError(f"{dataset} is absent: looked for {sought}. {remedy}")


def fetch(dataset: str, root: Path, sought: str, remedy: str, allowed: bool) -> None:
    """Download torchvision's data set of this name into ``root``, in torchvision's layout and with its checksums.

    torchvision shows its progress on stderr. Raises DataError, naming what was ``sought``, if downloading is not
    ``allowed``, if the publisher does not answer, or if the download fails; nothing is tried twice.
    """
    if not allowed:
        raise absence_error(dataset, sought, f"Downloading is off. {remedy}")
    try:
        with _patience(PATIENCE):
            _ask(PUBLISHERS[dataset])
            published = getattr(importlib.import_module("torchvision.datasets"), dataset)
            published(root, download=True)
    except (OSError, RuntimeError, EOFError, http.client.HTTPException, tarfile.TarError) as error:
        raise absence_error(dataset, sought, f"Downloading it failed ({_reason(error)}). {remedy}") from error


def _ask(address: str) -> None:
    """Raises OSError unless somebody answers at this address; any answer will do."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=PATIENCE).close()
    except urllib.error.HTTPError as answer:
        answer.close()


@contextmanager
def _patience(seconds: float) -> Iterator[None]:
    """Give connections a time limit, which torchvision does not set and without which a silent network hangs."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _reason(error: BaseException) -> str:
    """One line of what went wrong."""
    return " ".join(str(getattr(error, "reason", error)).split()) or type(error).__name__
