"""The results folder: who may write there, and files that are whole whatever happens."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from orchestrator.commands import Choices, prepare
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import parse_sweep
from orchestrator.results.claim import Claim, obstacle
from orchestrator.results.log import GROWING, Log
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.writing import HIDDEN, WriteError, write_atomically
from tests.support.failing_disk import FailingDisk

TINY = """
name: tiny
base: {rounds: 1, data: {name: digits, clients: 4, examples_per_client: 10, split: dirichlet}, model: mlp}
sweep: {seed: {grid_search: [0]}}
"""
AT_ONCE = 16
IMPORTS = """
import os, signal
from pathlib import Path
from orchestrator.results.claim import Claim
from orchestrator.results.paths import Folder
from orchestrator.results.writing import write_atomically
"""


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


def take_all(folders: list[Folder]) -> list[Claim | FolderError]:
    """Claim each folder from a thread of its own, all in the same moment.

    Locks of threads exclude each other, too.
    """
    barrier = threading.Barrier(len(folders))

    def claim(folder: Folder) -> Claim | FolderError:
        barrier.wait()
        try:
            return Claim(folder)
        except FolderError as error:
            return error

    with ThreadPoolExecutor(len(folders)) as pool:
        return list(pool.map(claim, folders))


def program(text: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", IMPORTS + textwrap.dedent(text)], stdout=subprocess.PIPE
    )


@pytest.mark.parametrize("fresh", [True, False])
def test_of_many_at_the_same_moment_one_has_the_folder(fresh, tmp_path):
    for number in range(10):
        folder = Folder(tmp_path / str(number) / "tiny")
        if not fresh:
            Claim(folder).release()
        claims = take_all([folder] * AT_ONCE)
        (taken,) = [one for one in claims if isinstance(one, Claim)]
        refused = [str(one) for one in claims if isinstance(one, FolderError)]
        assert len(refused) == AT_ONCE - 1
        assert all(
            one.startswith(f"another fedpriv run is writing to {folder.path} (process ")
            for one in refused
        )
        assert [path.name for path in folder.path.iterdir()] == [".fedpriv.lock"]
        taken.release()
        Claim(folder).release()


def test_what_a_killed_claim_left_does_not_count(tmp_path):
    (tmp_path / f"{HIDDEN}.lock").write_text("")
    (tmp_path / f"{HIDDEN}-sweep.yaml-1-1.tmp").write_text("half")
    assert obstacle(Folder(tmp_path), "sweep") is None
    with Claim(Folder(tmp_path)):
        assert not list(tmp_path.glob(".*.tmp"))


def test_a_run_that_is_at_work_is_told_before_anything_is_started_and_loses_nothing(tmp_path):
    folder, sweep = Folder(tmp_path / "tiny"), parse_sweep(TINY, Path("tiny.yaml"))
    with Claim(folder):
        before = contents(tmp_path)
        with pytest.raises(
            ConfigError, match=f"another fedpriv run is writing .*process {os.getpid()} on "
        ):
            prepare(sweep, Choices(tmp_path))
        prepare(sweep, Choices(tmp_path, dry=True))
        assert contents(tmp_path) == before
    prepare(sweep, Choices(tmp_path))


def test_a_killed_process_holds_nothing(tmp_path):
    died = program(f"""
        claim = Claim(Folder(Path({str(tmp_path / "sweep")!r})))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert died.wait() == -signal.SIGKILL
    assert obstacle(Folder(tmp_path / "sweep"), "sweep") is None
    Claim(Folder(tmp_path / "sweep")).release()


def files_of_somebody_else(path: Path) -> None:
    path.mkdir()
    for name in ("thesis.tex", "b", "c", "d"):
        (path / name).write_text("mine")


IN_THE_WAY: dict[str, tuple[Callable[[Path], Any], str]] = {
    "files of somebody else": (files_of_somebody_else, "b, c, d, ..."),
    "another sweep": (lambda path: Log(path, "other").finish({}), "'other'"),
    "a file": (lambda path: path.write_text(""), "no folder"),
    "a link to nowhere": (lambda path: path.symlink_to(path.parent / "nowhere"), "no folder"),
}


def refused(path: Path, *words: str) -> None:
    sentence = obstacle(Folder(path), "sweep")
    assert (
        sentence is not None
        and "\n" not in sentence
        and all(word in sentence for word in (*words, "--results"))
    )


@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_what_is_in_its_place_is_named_and_left(tmp_path, kind):
    make, word = IN_THE_WAY[kind]
    make(tmp_path / "sweep")
    before = contents(tmp_path)
    refused(tmp_path / "sweep", word, str(tmp_path / "sweep"))
    assert contents(tmp_path) == before


def test_what_is_above_it_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file" / "sweep", str(tmp_path / "file"))
    refused(tmp_path / ("x" * 300))
    if Path("/proc/self").exists():
        refused(Path("/proc/sweep"))
    if os.geteuid():  # the superuser may write everywhere
        tmp_path.chmod(0o500)
        refused(tmp_path / "sweep")
        tmp_path.chmod(0o700)


def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "new" / "a"
    write_atomically(path, b"old")
    for first in (0, 1):
        disk = FailingDisk(tmp_path, errno.ENOSPC, first, first)
        with disk.attached(), pytest.raises(WriteError) as error:
            write_atomically(path, b"new")
        assert contents(tmp_path) == {"new/a": b"old"}
    assert str(error.value) == f"{path} could not be written: no space left on device"
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.errno) == (str(error.value), errno.ENOSPC)
    with pytest.raises(WriteError, match="not a directory"):
        write_atomically(path / "b", b"")


def test_a_file_has_the_usual_mode_and_replaces_a_link_but_not_its_target(tmp_path):
    (tmp_path / "target").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "link", b"ours")
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"theirs"
    assert (tmp_path / "link").stat().st_mode == (tmp_path / "target").stat().st_mode


def test_what_grows_is_not_begun_again_where_its_folder_is_gone(tmp_path):
    log, name = Log(tmp_path / "a", "a"), f"rows{GROWING}"
    log.extend(name, b"1")
    log.path.rename(tmp_path / "renamed")
    with pytest.raises(WriteError, match="no such file"):
        log.extend(name, b"2")
    assert os.listdir(tmp_path) == ["renamed"]
