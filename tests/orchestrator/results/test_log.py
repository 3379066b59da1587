"""The format of all results: what was written is read, and whatever else stands there is never
believed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.results.log import (
    GROWING,
    MANIFEST,
    DamageError,
    Log,
    Part,
    cached,
    damage_of,
    in_parallel,
    quarantine,
    read_manifest,
    verify,
)
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.sweeps import sweeps_in, trial_rows, write_sweep
from orchestrator.results.writing import WriteError

FACTS = {
    "status": "finished",
    "metrics": {"epsilon": float("inf"), "accuracy": 0.1 + 0.2},
    "notes": ["a"],
}
PARTS = {"rounds.parquet": b"rows", "model": bytes(range(256)), "empty": b""}


def written(path: Path, owner: str = "abc") -> Log:
    log = Log(path, owner)
    for name, content in PARTS.items():
        log.append(name, content)
    log.finish(FACTS)
    return log


def test_what_was_written_is_read(tmp_path):
    written(tmp_path / "a")
    manifest = verify(tmp_path / "a", "abc")
    assert manifest.facts == FACTS and manifest.owner == "abc"
    assert {name: manifest.read(name) for name in manifest.parts} == PARTS
    assert manifest.parts["empty"] == Part.of(b"")


def test_a_folder_without_a_manifest_is_not_finished(tmp_path):
    log = Log(tmp_path / "a", "abc")
    log.append("rows", b"rows")
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "a")
    assert damage_of(tmp_path / "a") is None
    log.finish({})
    log.append("later", b"not yet")
    assert set(verify(tmp_path / "a").parts) == {"rows"}


def test_what_is_dropped_is_there_until_the_next_manifest_and_gone_afterwards(tmp_path):
    log = written(tmp_path / "a")
    log.drop("rounds.parquet")
    log.append("state-2", b"two")
    assert "rounds.parquet" in verify(tmp_path / "a").parts
    log.finish(FACTS)
    assert set(verify(tmp_path / "a").parts) == {"model", "empty", "state-2"}
    assert not (tmp_path / "a" / "rounds.parquet").exists()


def test_a_part_that_grows_has_the_bytes_up_to_the_last_manifest(tmp_path):
    log, name = Log(tmp_path / "a", "abc"), f"rows{GROWING}"
    for content in (b"1", b"22"):
        log.extend(name, content)
    log.finish(FACTS)
    log.extend(name, b"not yet")
    assert verify(tmp_path / "a").read(name) == b"122"
    log = Log(tmp_path / "a", "abc", dict(verify(tmp_path / "a").parts))  # another process goes on
    log.extend(name, b"333")
    assert log.finish(FACTS).parts[name] == Part.of(b"122333")
    assert (tmp_path / "a" / name).read_bytes() == b"122333"
    for damaged in (b"122", b"122334", b""):
        (tmp_path / "a" / name).write_bytes(damaged)
        assert damage_of(tmp_path / "a").path == tmp_path / "a" / name
        with pytest.raises(DamageError):
            Log(tmp_path / "a", "abc", dict(log.parts)).extend(name, b"4")


@given(st.sampled_from([MANIFEST, *PARTS]), st.data())
def test_no_changed_byte_is_believed(tmp_path_factory, name, data):
    folder = written(tmp_path_factory.mktemp("log") / "a").path
    manifest, content = read_manifest(folder), bytearray((folder / name).read_bytes())
    cut = data.draw(st.integers(0, len(content)))
    how = data.draw(st.sampled_from(["flip", "cut", "longer"]))
    if how == "flip" and cut < len(content):
        content[cut] ^= data.draw(st.integers(1, 255))
    elif how == "cut" and cut < len(content):
        content = content[:cut]
    else:
        content += b"!"
    (folder / name).write_bytes(content)
    damage = damage_of(folder, "abc")
    if (
        damage is None
    ):  # JSON has several spellings of a value: blanks and the like say nothing else
        assert name == MANIFEST and read_manifest(folder) == manifest
    else:
        assert damage.path == folder / name


def a_socket(path: Path) -> None:
    with contextlib.chdir(path.parent):  # a socket's path is short
        socket.socket(socket.AF_UNIX).bind(path.name)


OBSTACLES: dict[str, Callable[[Path], None]] = {
    "nothing": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "folder": lambda path: path.mkdir(),
    "pipe": lambda path: os.mkfifo(path),
    "socket": a_socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link to nowhere": lambda path: path.symlink_to(path.parent / "nowhere"),
    "loop": lambda path: path.symlink_to(path),
}


@pytest.mark.parametrize("kind", OBSTACLES)
@pytest.mark.parametrize("name", [MANIFEST, "model"])
def test_whatever_stands_in_place_of_a_file_is_damage_and_nobody_waits(tmp_path, name, kind):
    folder = written(tmp_path / "a").path
    (folder / name).unlink()
    OBSTACLES[kind](folder / name)
    damage = damage_of(folder, "abc")
    if name == MANIFEST and kind == "nothing":
        assert damage is None  # not finished
    else:
        assert damage.path == folder / name
    quarantine(folder)
    assert damage_of(written(tmp_path / "a").path, "abc") is None


def test_a_manifest_of_another_owner_or_format_or_with_parts_elsewhere(tmp_path):
    written(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert damage_of(tmp_path / "b", "b").path == tmp_path / "b" / MANIFEST
    plain = json.loads((tmp_path / "a" / MANIFEST).read_text())
    (tmp_path / "a" / MANIFEST).write_text(json.dumps(plain | {"format": 2}))
    assert "format '2'" in str(damage_of(tmp_path / "a"))
    for name in ("../../secret", "/etc/passwd", "a//b", ".."):
        Log(tmp_path / "c", "c", {name: Part.of(b"")}).finish({})
        assert damage_of(tmp_path / "c").path == tmp_path / "c" / MANIFEST


def test_what_is_set_aside_keeps_its_content_and_finds_a_free_name(tmp_path):
    names = []
    for content in (b"1", b"2", b"3"):
        (tmp_path / "a").write_bytes(content)
        names.append(quarantine(tmp_path / "a"))
    assert [path.name for path in names] == ["a.damaged", "a.damaged-2", "a.damaged-3"]
    assert [path.read_bytes() for path in names] == [b"1", b"2", b"3"]
    with pytest.raises(WriteError):
        quarantine(tmp_path / "nothing")


class TestCache:
    def test_an_entry_is_made_once_and_again_if_it_is_damaged(self, tmp_path):
        made = []

        def make() -> bytes:
            made.append(1)
            return b"shadow"

        for damage in (None, None, b"shadoW", b""):
            if damage is not None:
                (tmp_path / "key" / Part.of(b"shadow").digest).write_bytes(damage)
            assert cached(tmp_path, "key", make) == b"shadow"
        assert len(made) == 3
        shutil.copytree(tmp_path / "key", tmp_path / "other")
        cached(tmp_path, "other", make)
        assert len(made) == 4

    @pytest.mark.parametrize("kind", OBSTACLES)
    def test_whatever_stands_in_its_place_is_replaced(self, tmp_path, kind):
        OBSTACLES[kind](tmp_path / "key")
        assert cached(tmp_path, "key", lambda: b"shadow") == b"shadow"
        assert damage_of(tmp_path / "key", "key") is None

    def test_beyond_the_limit_those_entries_go_that_were_used_least_recently(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("orchestrator.results.log.LIMIT", 4000)  # three entries
        monkeypatch.setattr("orchestrator.results.log.LOOK", 1)
        Log(tmp_path / "half", "half").append("part", bytes(5000))  # by another process

        def used(key: str) -> bytes:
            return cached(tmp_path, key, lambda: key.encode() * 1000)

        for at, key in enumerate(("a", "b", "c", "a", "d", "b")):
            used(key)
            if at < 3:
                os.utime(tmp_path / key, (at, at))
        assert sorted(os.listdir(tmp_path)) == ["a", "b", "d", "half"]
        assert in_parallel(used, list("abcdefgh" * 25)) == [
            key.encode() * 1000 for key in "abcdefgh" * 25
        ]


class TestSweep:
    PLAN = ({"id": "0a", "seed": 0, "lr": 0.1}, {"id": "0b", "seed": 1, "lr": 0.1})

    def test_rows_follow_from_the_manifests(self, tmp_path):
        folder = Folder(tmp_path / "s")
        write_sweep(folder, "s", "name: s\n", self.PLAN)
        Log(folder.trial("0b").path, "0b").finish(
            {"status": "finished", "metrics": {"accuracy": 0.5}}
        )
        rows = {row["id"]: row for row in trial_rows(folder)}
        assert (rows["0a"]["status"], rows["0b"]["status"], rows["0b"]["accuracy"]) == (
            "unfinished",
            "finished",
            0.5,
        )
        assert folder.sweep.read_text() == "name: s\n" and folder.table.is_file()
        assert [one.path for at in (tmp_path, folder.path) for one in sweeps_in(at)] == [
            folder.path
        ] * 2

    def test_the_id_stays_when_the_sweep_changes_or_moves_and_a_damaged_manifest_is_written_anew(
        self, tmp_path
    ):
        folder = Folder(tmp_path / "s")
        write_sweep(folder, "s", "name: s\n", self.PLAN)
        first = read_manifest(folder.path).facts["id"]
        folder.path.rename(tmp_path / "t")
        folder = Folder(tmp_path / "t")
        assert write_sweep(folder, "s", "name: s\n# changed\n", self.PLAN[:1]) == []
        assert read_manifest(folder.path).facts["id"] == first
        folder.manifest.write_text("{")
        (said,) = write_sweep(folder, "s", "name: s\n", self.PLAN)
        assert (
            str(folder.manifest) in said
            and (folder.path / "manifest.json.damaged").read_text() == "{"
        )
        assert read_manifest(folder.path, "s").facts["id"] != first

    @pytest.mark.parametrize(
        "trial", ["../../../etc", "", "a/b", "A b", "\u202e", ".", "a" * 101, "a\x1b[2J"]
    )
    def test_what_is_no_id_is_no_path(self, tmp_path, trial):
        with pytest.raises(FolderError):
            Folder(tmp_path).trial(trial)
