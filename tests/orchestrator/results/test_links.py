"""Single calls that write, delete and read: never through a link, never where a results folder has gone."""

from __future__ import annotations

import os

import pytest

from orchestrator.results.folder import Folder, FolderError, WriteError, claim, locked, write_atomically
from orchestrator.results.integrity import DamageError, read_sealed
from orchestrator.results.writing import hold, let_go, read_plain, remove, remove_folder
from tests.support.obstructed import NO_FILES, obstruct, outside, picture

SWEEP = "name: tiny"


def test_what_is_written_replaces_a_link(tmp_path):
    target = outside(tmp_path) / "store.db"
    before = picture(target.parent)
    (tmp_path / "file").symlink_to(target)
    write_atomically(tmp_path / "file", b"ours")
    assert (tmp_path / "file").read_bytes() == b"ours" and not (tmp_path / "file").is_symlink()
    assert picture(target.parent) == before


def test_what_is_deleted_is_the_link(tmp_path):
    elsewhere = outside(tmp_path)
    before = picture(elsewhere)
    (tmp_path / "file").symlink_to(elsewhere / "store.db")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(elsewhere)
    (tmp_path / "link").symlink_to(elsewhere)
    remove(tmp_path / "file")
    remove(tmp_path / "none")
    remove_folder(tmp_path / "folder")
    remove_folder(tmp_path / "none")
    with pytest.raises(WriteError, match="link could not be deleted: it is a link to .*outside"):
        remove_folder(tmp_path / "link")
    assert sorted(os.listdir(tmp_path)) == ["link", "outside"] and picture(elsewhere) == before


def test_a_folder_in_place_of_a_file_is_one_sentence(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    for attempt in (lambda path: write_atomically(path, b""), remove):
        with pytest.raises(WriteError) as error:
            attempt(tmp_path / "a")
        assert str(error.value).startswith(f"{tmp_path / 'a'} could not be ") and "\n" not in str(error.value)
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_is_gone_is_not_made_again(tmp_path):
    folder = Folder(tmp_path / "tiny")
    with claim(folder, "tiny", SWEEP, ""):
        folder.path.rename(tmp_path / "renamed")
        with pytest.raises(WriteError) as error:
            write_atomically(folder.trial("a").state / "b", b"")
        assert str(error.value) == (
            f"{folder.path}/trials/a/state/b could not be written: {folder.path} was deleted or renamed while results "
            "were written there; move it back"
        )
        assert os.listdir(tmp_path) == ["renamed"]
        hold(tmp_path / "renamed")
        write_atomically(tmp_path / "renamed" / "trials" / "a" / "b", b"")
        let_go(tmp_path / "renamed")
    write_atomically(folder.trial("a").path / "b", b"")


@pytest.mark.parametrize("kind", [*NO_FILES, "folder", "link to a folder"])
def test_what_is_no_file_is_not_read(tmp_path, kind):
    obstruct(tmp_path / "file", kind, outside(tmp_path))
    with pytest.raises(OSError, match=r"regular|directory|symbolic|device"):
        read_plain(tmp_path / "file")
    with pytest.raises(DamageError, match="file cannot be read: "):
        read_sealed(tmp_path / "file")


def test_a_lock_that_is_held_names_its_owner_and_one_of_bytes_is_no_trouble(tmp_path):
    folder = Folder(tmp_path / "tiny")
    claim(folder, "tiny", SWEEP, "").release()
    (folder.path / ".fedpriv.lock").write_bytes(b"\xff\xfe")
    with locked(folder), pytest.raises(FolderError, match=f"process {os.getpid()} on "), locked(folder):
        pass
