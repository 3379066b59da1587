"""Reading with checksums, and downloads where there is no network, a refusal, or a publisher."""

import http.client
import socket
import urllib.error

import pytest

from datasets import files
from datasets.federation import DataError

MD5_OF_ABC = "900150983cd24fb0d6963f7d28e17f72"


def test_a_file_is_read_if_its_md5_is_the_published_one(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert files.read(tmp_path / "a", MD5_OF_ABC) == files.read(tmp_path / "a") == b"abc"
    (tmp_path / "a").write_bytes(b"abcd")
    with pytest.raises(DataError, match=rf"{tmp_path}/a is damaged: .*{MD5_OF_ABC}"):
        files.read(tmp_path / "a", MD5_OF_ABC)
    with pytest.raises(DataError, match=rf"{tmp_path} cannot be read"):
        files.read(tmp_path)


def test_a_download_has_a_time_limit_and_none_is_made_where_it_is_off():
    limits, before = [], socket.getdefaulttimeout()

    def download(allowed):
        fetch = lambda: limits.append(socket.getdefaulttimeout())  # noqa: E731
        files.download("MNIST", fetch, "four files", "Put them there", allowed)

    download(True)
    with pytest.raises(
        DataError, match=r"MNIST is absent: looked for four files\. Downloading is off\. Put them"
    ):
        download(False)
    assert limits == [files.PATIENCE] and socket.getdefaulttimeout() == before


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("Error downloading x:\nTried y"), "Error downloading x: Tried y"),
        (TimeoutError(), "TimeoutError"),
        (
            urllib.error.URLError(socket.gaierror(-2, "Name or service not known")),
            "Name or service not known",
        ),
        (http.client.IncompleteRead(b""), "IncompleteRead"),
    ],
)
def test_a_failed_download_is_explained(error, reason):
    def fail():
        raise error

    with pytest.raises(DataError, match=rf"MNIST is absent: .*\(.*{reason}.*\)\. Put them there"):
        files.download("MNIST", fail, "four files", "Put them there", True)
