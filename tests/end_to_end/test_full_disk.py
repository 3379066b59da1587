"""A disk that is full, and one that is taken away: a sentence, and what was saved before is
whole.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.command import SWEEP, arguments, fedpriv, same_results, trials, watched
from tests.support.inline_sweep import undisturbed

pytestmark = pytest.mark.slow

LONG = SWEEP.replace("rounds: 4", "rounds: 30")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes in memory.

    Disks that fill up at any other moment are tried in results/test_disk_faults.py.
    """
    if os.geteuid():
        pytest.skip("only root may mount a disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if (mounted := subprocess.run(mount, capture_output=True, check=False)).returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def written(folder: Path, text: str) -> Path:
    (folder / "tiny.yaml").write_text(text)
    return folder / "tiny.yaml"


def fill(disk: Path) -> None:
    """Take all the room that there is."""
    with open(disk / "filler", "wb", buffering=0) as filler:
        for size in (2**16, 2**12, 1):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError:
                continue


def resumes(sweep: Path, results: Path, folder: Path) -> None:
    """The same command ends as if nothing had been."""
    again = fedpriv(sweep, results)
    assert again.returncode == 0, again.stdout + again.stderr
    same_results(undisturbed(sweep, folder / "undisturbed"), results)


def test_a_full_disk_stops_the_sweep_with_a_sentence(disk, tmp_path):
    sweep = written(tmp_path, LONG)
    code, printed = watched(arguments(sweep, disk), ("finished in", lambda _: fill(disk)))
    assert code == 1 and "Traceback" not in printed, printed
    assert "could not be written: no space left on device" in printed
    assert "everything saved before is intact, and the same command resumes from there" in printed
    records = {
        path.parent: json.loads(path.read_text())["facts"]
        for path in disk.glob("tiny/trials/*/manifest.json")
    }
    finished = [folder for folder, record in records.items() if record["status"] == "finished"]
    assert finished and len(trials(disk)) == 4
    assert all(pq.read_table(folder / "rounds.parquet").num_rows == 30 for folder in finished)
    (disk / "filler").unlink()
    resumes(sweep, disk, tmp_path)


def test_a_folder_that_is_renamed_under_a_run_is_not_made_again(tmp_path):
    sweep, results, elsewhere = (
        written(tmp_path, LONG),
        tmp_path / "results",
        tmp_path / "elsewhere",
    )
    code, printed = watched(
        arguments(sweep, results), ("finished in", lambda _: (results / "tiny").rename(elsewhere))
    )
    assert code == 1 and "Traceback" not in printed, printed
    assert "could not be written: no such file or directory" in printed
    assert not (results / "tiny" / "trials").exists()
    shutil.rmtree(results / "tiny", ignore_errors=True)
    elsewhere.rename(results / "tiny")
    resumes(sweep, results, tmp_path)
