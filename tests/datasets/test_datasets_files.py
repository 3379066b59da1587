"""Reading with checksums, and fetching where there is no network, a refusal, or a publisher."""

import http.client
import socket
import types
import urllib.error

import pytest

from datasets import files
from datasets.federation import DataError

MD5_OF_ABC = "900150983cd24fb0d6963f7d28e17f72"


def test_a_file_with_the_published_md5_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert files.read(tmp_path / "a", MD5_OF_ABC) == files.read(tmp_path / "a") == b"abc"


def test_a_file_with_another_md5_is_damaged(tmp_path):
    (tmp_path / "a").write_bytes(b"abcd")
    with pytest.raises(
        DataError, match=rf"{tmp_path}/a is damaged: the MD5 of its 4 bytes is .*{MD5_OF_ABC}.*Delete it"
    ):
        files.read(tmp_path / "a", MD5_OF_ABC)


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(DataError, match=rf"{tmp_path} cannot be read: Is a directory"):
        files.read(tmp_path)


def fetch(tmp_path, allowed=True):
    files.fetch("MNIST", tmp_path, "four files in x", "Put them there", allowed)


@pytest.fixture
def published(monkeypatch):
    """torchvision as it would answer; what it was asked for and under which time limit is kept in ``.calls``."""
    publisher = types.SimpleNamespace(calls=[], error=None)

    def mnist(root, download):
        publisher.calls.append((root, download, socket.getdefaulttimeout()))
        if publisher.error is not None:
            raise publisher.error

    monkeypatch.setattr(files.importlib, "import_module", lambda name: types.SimpleNamespace(MNIST=mnist))
    return publisher


def test_torchvision_downloads_under_a_time_limit(tmp_path, published):
    before = socket.getdefaulttimeout()
    fetch(tmp_path)
    assert published.calls == [(tmp_path, True, files.PATIENCE)]
    assert socket.getdefaulttimeout() == before


def test_nothing_is_asked_if_downloading_is_off(tmp_path, published):
    with pytest.raises(DataError, match=r"MNIST is absent: looked for four files in x\. Downloading is off\. Put them"):
        fetch(tmp_path, allowed=False)
    assert published.calls == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("Error downloading x:\nTried y"), "Error downloading x: Tried y"),
        (TimeoutError(), "TimeoutError"),
        (urllib.error.URLError(socket.gaierror(-2, "Name or service not known")), "Name or service not known"),
        (http.client.IncompleteRead(b""), "IncompleteRead"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
    ],
)
def test_a_failed_download_is_tried_once_and_explained(tmp_path, published, error, reason):
    published.error = error
    with pytest.raises(DataError, match=rf"MNIST is absent: .* Downloading it failed \(.*{reason}"):
        fetch(tmp_path)
    assert len(published.calls) == 1
