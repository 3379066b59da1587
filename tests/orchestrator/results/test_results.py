"""The results folder: who may write there, and files that are whole whatever happens."""

import errno
import os
import pickle
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.results.claim import Claim, obstacle
from orchestrator.results.log import Log
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.writing import HIDDEN, WriteError, write_atomically


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def take(folder: Folder) -> Claim:
    """Claim a folder as a run does, after it has looked whether it can be used."""
    if sentence := obstacle(folder, "sweep"):
        raise FolderError(sentence)
    return Claim(folder)


def test_paths_are_those_of_the_contract(tmp_path):
    folder = Folder(tmp_path / "sweep")
    trial = folder.trial("0123456789")
    assert folder.name == "sweep"
    assert trial.id == "0123456789"
    assert [path.relative_to(folder.path).as_posix() for path in (folder.sweep, folder.table)] == [
        "sweep.yaml",
        "trials.parquet",
    ]
    files = [trial.config, trial.model, trial.table("rounds"), trial.table("scores")]
    assert [path.relative_to(folder.path).as_posix() for path in files] == [
        "trials/0123456789/config.yaml",
        "trials/0123456789/model.safetensors",
        "trials/0123456789/rounds.parquet",
        "trials/0123456789/scores.parquet",
    ]


def test_trials_are_those_with_a_folder(tmp_path):
    folder = Folder(tmp_path / "sweep")
    assert folder.trials() == []
    for trial_id in ("b", "a"):
        folder.trial(trial_id).path.mkdir(parents=True)
    (folder.path / "trials" / "stray.txt").write_text("")
    assert [trial.id for trial in folder.trials()] == ["a", "b"]


class TestClaim:
    def test_what_a_killed_claim_left_does_not_count(self, tmp_path):
        (tmp_path / f"{HIDDEN}.lock").write_text("")
        (tmp_path / f"{HIDDEN}-sweep.yaml-1-1.tmp").write_text("half")
        assert obstacle(Folder(tmp_path), "sweep") is None
        with take(Folder(tmp_path)):
            assert not list(tmp_path.glob(".*.tmp"))

    def test_a_second_claim_waits_for_nobody(self, tmp_path):
        folder = Folder(tmp_path / "sweep")
        with take(folder):
            before = contents(tmp_path)
            with pytest.raises(FolderError, match=f"another fedpriv run is writing .*process {os.getpid()} on "):
                take(folder)
            assert contents(tmp_path) == before
        take(folder).release()

    def test_a_killed_process_holds_nothing(self, tmp_path):
        program = f"""
            import os, signal
            from pathlib import Path
            from orchestrator.results.claim import Claim
            from orchestrator.results.paths import Folder
            held = Claim(Folder(Path({str(tmp_path / "sweep")!r})))
            os.kill(os.getpid(), signal.SIGKILL)
        """
        died = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
        assert died.returncode == -signal.SIGKILL
        take(Folder(tmp_path / "sweep")).release()


def files_of_somebody_else(path: Path) -> None:
    path.mkdir()
    for name in ("thesis.tex", "b", "c", "d"):
        (path / name).write_text("mine")


IN_THE_WAY: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "files of somebody else": (files_of_somebody_else, ("did not write", "b, c, d, ...")),
    "another sweep": (lambda path: Log(path, "other").finish({}), ("another sweep", "'other'", "'sweep'")),
    "a file": (lambda path: path.write_text(""), ("but a folder belongs there",)),
    "a link to nowhere": (lambda path: path.symlink_to(path.parent / "nowhere"), ("but a folder belongs there",)),
}


class TestRefusals:
    """Each: one sentence that names the folder, and nothing left behind."""

    def refused(self, folder: Folder, *words: str) -> None:
        root = folder.path.parent if folder.path.parent.exists() else folder.path.parent.parent
        before = sorted(os.listdir(root)) if root.is_dir() else None
        sentence = obstacle(folder, "sweep")
        assert sentence is not None
        for word in (*words, "--results"):
            assert word in sentence
        with pytest.raises(FolderError) as refusal:
            take(folder)
        assert str(refusal.value) == sentence
        if before is not None:
            assert sorted(os.listdir(root)) == before

    @pytest.mark.parametrize("kind", IN_THE_WAY)
    def test_what_is_in_its_place(self, tmp_path, kind):
        make, words = IN_THE_WAY[kind]
        make(tmp_path / "sweep")
        before = contents(tmp_path)
        self.refused(Folder(tmp_path / "sweep"), *words, str(tmp_path / "sweep"))
        assert contents(tmp_path) == before

    def test_a_file_above_it(self, tmp_path):
        (tmp_path / "file").write_text("")
        self.refused(Folder(tmp_path / "file" / "sweep"), "but a folder belongs there", str(tmp_path / "file"))

    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a place where nobody can write")
    def test_a_place_where_nobody_can_write(self):
        self.refused(Folder(Path("/proc/sweep")), "cannot be written")

    @pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
    def test_a_folder_without_permission(self, tmp_path):
        tmp_path.chmod(0o500)
        self.refused(Folder(tmp_path / "sweep"), "cannot be written")
        tmp_path.chmod(0o700)

    def test_a_damaged_manifest_is_no_obstacle(self, tmp_path):
        folder = Folder(tmp_path / "sweep")
        Log(folder.path, "sweep").finish({})
        folder.manifest.write_text("{")
        assert obstacle(folder, "sweep") is None

    def test_a_disk_that_fills_up_leaves_nothing(self, tmp_path, monkeypatch):
        def full(*_):
            raise WriteError(errno.ENOSPC, "the disk is full")

        monkeypatch.setattr("orchestrator.results.claim._lock", full)
        with pytest.raises(FolderError, match="the disk is full"):
            take(Folder(tmp_path / "a" / "sweep"))
        assert os.listdir(tmp_path) == []


class TestWriteAtomically:
    def test_bytes_and_callbacks(self, tmp_path):
        write_atomically(tmp_path / "new" / "a", b"one")
        write_atomically(tmp_path / "new" / "a", lambda file: file.write(b"two"))
        assert contents(tmp_path) == {"new/a": b"two"}

    @pytest.mark.parametrize("raised", [KeyboardInterrupt(), ValueError("no"), OSError(errno.ENOSPC, "full")])
    def test_what_fails_leaves_the_old_file(self, tmp_path, raised):
        def fails(file):
            file.write(b"half")
            raise raised

        write_atomically(tmp_path / "a", b"old")
        with pytest.raises((WriteError, KeyboardInterrupt, ValueError)):
            write_atomically(tmp_path / "a", fails)
        assert contents(tmp_path) == {"a": b"old"}

    def test_a_full_disk_is_one_sentence(self, tmp_path):
        def fails(file):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with pytest.raises(WriteError) as error:
            write_atomically(tmp_path / "a", fails)
        assert str(error.value) == f"{tmp_path / 'a'} could not be written: no space left on device"
        assert error.value.errno == errno.ENOSPC
        again = pickle.loads(pickle.dumps(error.value))
        assert (str(again), again.errno) == (str(error.value), errno.ENOSPC)

    def test_a_file_in_the_way_is_one_sentence(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(WriteError, match="could not be written: not a directory"):
            write_atomically(tmp_path / "file" / "a", b"")

    def test_a_limit_of_the_system(self, tmp_path):
        program = f"""
            import resource, signal
            from pathlib import Path
            from orchestrator.results.writing import WriteError, write_atomically
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            path = Path({str(tmp_path / "a")!r})
            write_atomically(path, bytes(500))
            try:
                write_atomically(path, bytes(5000))
            except WriteError as error:
                print(error)
        """
        assert resource.getrlimit(resource.RLIMIT_FSIZE)
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
        )
        assert ran.stdout.strip() == f"{tmp_path / 'a'} could not be written: file too large"
        assert contents(tmp_path) == {"a": bytes(500)}

    def test_a_kill_leaves_a_whole_file(self, tmp_path):
        program = f"""
            from pathlib import Path
            from orchestrator.results.writing import write_atomically
            path = Path({str(tmp_path / "a")!r})
            write_atomically(path, b"0" * 200_000)
            print("ready", flush=True)
            while True:
                for letter in b"12":
                    write_atomically(path, bytes([letter]) * 200_000)
        """
        running = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE)
        assert running.stdout is not None
        running.stdout.readline()
        try:
            for _ in range(200):
                seen = (tmp_path / "a").read_bytes()
                assert len(seen) == 200_000
                assert len(set(seen)) == 1
        finally:
            running.kill()
            running.wait()
        assert len((tmp_path / "a").read_bytes()) == 200_000

    def test_others_may_read_as_the_system_says(self, tmp_path):
        (tmp_path / "usual").write_text("")
        write_atomically(tmp_path / "a", b"")
        assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
