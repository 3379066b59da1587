"""Sealed files and files that are set aside."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from orchestrator.results.integrity import DamageError, checksum, file_checksum, read_sealed, sealed, set_aside

RECORD = {"id": "ab", "metrics": {"accuracy": 0.5, "loss": 1e-300}, "rounds": {2: "a", 10: "b"}, "notes": ["ü", None]}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(sealed(RECORD)))
    return path


def test_what_was_sealed_is_read(saved):
    assert read_sealed(saved) == json.loads(json.dumps(RECORD))


def test_nan_survives(tmp_path):
    path = tmp_path / "nan.json"
    path.write_text(json.dumps(sealed({"risk": math.nan})))
    assert math.isnan(read_sealed(path)["risk"])


def test_every_changed_digit_is_noticed(saved):
    text = saved.read_text()
    for place, letter in enumerate(text):
        if letter.isdigit():
            saved.write_text(text[:place] + str((int(letter) + 1) % 10) + text[place + 1 :])
            with pytest.raises(DamageError, match="result.json is not what was saved"):
                read_sealed(saved)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\x00", b'{"a": ' + b"9" * 5000 + b"}", b"[" * 10**5]
)
def test_what_is_no_mapping_is_named(saved, content):
    saved.write_bytes(content)
    with pytest.raises(DamageError, match="result.json is ") as refused:
        read_sealed(saved)
    assert refused.value.damage.path == saved


def test_a_folder_in_its_place_is_named(tmp_path):
    with pytest.raises(DamageError, match="cannot be read: is a directory"):
        read_sealed(tmp_path)


def test_a_file_of_an_earlier_version_has_no_seal(tmp_path):
    path = tmp_path / "old.json"
    path.write_text('{"id": "ab"}')
    assert read_sealed(path) == {"id": "ab"}


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_sealed(tmp_path / "none.json")


def test_files_set_aside_do_not_replace_each_other(tmp_path):
    path = tmp_path / "state.safetensors"
    names = []
    for number in range(3):
        path.write_text(str(number))
        names.append(set_aside(path).name)
    assert names == [f"state.safetensors.damaged{more}" for more in ("", "-2", "-3")]
    assert [(tmp_path / name).read_text() for name in names] == ["0", "1", "2"]


def test_a_file_has_the_checksum_of_its_bytes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    assert file_checksum(path) == checksum(b"abc") == "cf4ab791c62b8d2b2109c90275287816"
