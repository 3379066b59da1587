"""A disk that is full, and one that is taken away: a sentence, and what was saved before is whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.command import SWEEP, arguments, environment, fedpriv, same_results, trials
from tests.support.undisturbed import undisturbed

LONG = SWEEP.replace("rounds: 4", "rounds: 30")


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A disk of a few megabytes, or as many kilobytes as a test says, in memory."""
    if os.geteuid():
        pytest.skip("only root may mount a disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    size = f"size={getattr(request, 'param', 12 * 1024)}k"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Take all the room that there is."""
    file = disk / "filler"
    with open(file, "wb", buffering=0) as filler:
        for size in (2**16, 2**12, 1):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError:
                continue
    return file


def printed_until(words: str, sweep: Path, results: Path, then) -> tuple[int, str]:
    """Run the sweep and do ``then`` once it has printed ``words``. Returns the exit code and all that was printed."""
    with subprocess.Popen(
        arguments(sweep, results),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
        env=environment(),
    ) as head:
        assert head.stdout is not None
        printed = ""
        for line in head.stdout:
            if words in line and words not in printed:
                then()
            printed += line
        return head.wait(), printed


@pytest.mark.slow
def test_a_full_disk_stops_the_sweep_with_a_sentence(disk, tmp_path):
    sweep = tmp_path / "tiny.yaml"
    sweep.write_text(LONG)
    code, printed = printed_until("finished in", sweep, disk, lambda: fill(disk))
    assert code == 1, printed
    assert "could not be written: no space left on device" in printed
    assert "everything saved before is intact, and the same command resumes from there" in printed
    assert "Traceback" not in printed
    records = {path.parent: json.loads(path.read_text())["facts"] for path in disk.glob("tiny/trials/*/manifest.json")}
    finished = [folder for folder, record in records.items() if record["status"] == "finished"]
    assert finished
    for folder in finished:
        assert pq.read_table(folder / "rounds.parquet").num_rows == 30
    assert len(trials(disk)) == 4
    (disk / "filler").unlink()
    again = fedpriv(sweep, disk)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "are complete and are not repeated" in again.stdout
    same_results(undisturbed(sweep, tmp_path / "undisturbed"), disk)


# From a disk that has room for a few files of the first trial to one that fills up with the report or in MLflow.
@pytest.mark.slow
@pytest.mark.parametrize("disk", [40, 130, 500, 1100, 1900, 2600], indirect=True, ids="{} kB".format)
def test_a_disk_that_fills_up_at_some_moment(disk, tmp_path):
    sweep = tmp_path / "tiny.yaml"
    sweep.write_text(SWEEP)
    ended = fedpriv(sweep, disk)
    said = ended.stdout + ended.stderr
    assert ended.returncode in (0, 1, 2) and "Traceback" not in said, said
    assert ended.returncode == 0 or "no space left on device" in said.lower(), said
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    again = fedpriv(sweep, disk)
    assert again.returncode == 0, again.stdout + again.stderr
    same_results(undisturbed(sweep, tmp_path / "undisturbed"), disk)


@pytest.mark.slow
def test_a_folder_that_is_renamed_under_a_run_is_not_made_again(tmp_path):
    sweep, results = tmp_path / "tiny.yaml", tmp_path / "results"
    sweep.write_text(LONG)
    elsewhere = tmp_path / "elsewhere"
    code, printed = printed_until("finished in", sweep, results, lambda: (results / "tiny").rename(elsewhere))
    assert code == 1 and "Traceback" not in printed, printed
    assert "could not be written: no such file or directory" in printed
    assert not (results / "tiny" / "trials").exists()
    shutil.rmtree(results / "tiny", ignore_errors=True)
    elsewhere.rename(results / "tiny")
    assert fedpriv(sweep, results).returncode == 0
    same_results(undisturbed(sweep, tmp_path / "undisturbed"), results)
