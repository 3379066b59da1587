"""Files that end with a stamp: whatever is changed of them, nothing else than what was written is read."""

from __future__ import annotations

import os

import numpy as np
import pytest

from orchestrator.results.integrity import DamageError
from orchestrator.results.stamped import is_stamped, read_stamped, stamped


@pytest.mark.parametrize("content", [b"", b"a", b"\x00fedpriv", os.urandom(1000)])
def test_what_was_stamped_is_read(tmp_path, content):
    (tmp_path / "file").write_bytes(stamped(content, "trial/größe"))
    assert read_stamped(tmp_path / "file", "trial/größe") == content


def test_every_bit_and_every_end_counts(tmp_path):
    path, whole = tmp_path / "file", stamped(b"rows", "a")
    for at in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(DamageError, match="is not what was saved"):
                read_stamped(path, "a")
        path.write_bytes(whole[:at])
        with pytest.raises(DamageError, match="is empty" if at == 0 else "its end is missing"):
            read_stamped(path, "a")


def test_a_copy_of_another_file_is_named(tmp_path):
    (tmp_path / "file").write_bytes(stamped(b"rows", "one"))
    with pytest.raises(DamageError, match="file is a copy of another file: one"):
        read_stamped(tmp_path / "file", "two")


def test_a_file_without_a_stamp_is_read_only_if_it_may_have_none(tmp_path):
    (tmp_path / "file").write_bytes(b"rows")
    assert not is_stamped(b"rows")
    assert read_stamped(tmp_path / "file", "one", unstamped=True) == b"rows"
    with pytest.raises(DamageError, match="its end is missing"):
        read_stamped(tmp_path / "file", "one")


def test_what_is_no_file_is_not_read(tmp_path):
    (tmp_path / "file").write_bytes(stamped(b"rows", "one"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for name, kind in (("folder", "a folder"), ("link", "a link"), ("pipe", "no file")):
        with pytest.raises(DamageError, match=f"{name} is {kind} where a file belongs"):
            read_stamped(tmp_path / name, "one")
    with pytest.raises(FileNotFoundError):
        read_stamped(tmp_path / "nothing", "one")


def test_garbage_is_no_stamp(tmp_path):
    rng = np.random.default_rng(0)
    for size in (1, 8, 20, 28, 29, 500):
        (tmp_path / "file").write_bytes(rng.bytes(size) + b"\x00fedpriv")
        with pytest.raises(DamageError, match="its checksum differs"):
            read_stamped(tmp_path / "file", "one")
