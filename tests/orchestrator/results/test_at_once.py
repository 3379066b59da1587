"""Several processes want the same folder at the same moment: one has it, the others are told at once, nothing is damaged."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.commands import Choices, prepare
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import parse_sweep
from orchestrator.results.claim import Claim, at_work
from orchestrator.results.paths import Folder, FolderError

TINY = """
name: tiny
base: {rounds: 1, data: {name: digits, clients: 4, examples_per_client: 10, split: dirichlet}, model: mlp}
sweep: {seed: {grid_search: [0]}}
"""
AT_ONCE = 16


def all_at_once(folders: list[Folder]) -> list[Claim | FolderError]:
    """Claim each folder from a thread of its own, all in the same moment. Locks of threads exclude each other, too."""
    barrier = threading.Barrier(len(folders))

    def take(folder: Folder) -> Claim | FolderError:
        barrier.wait()
        try:
            return Claim(folder)
        except FolderError as error:
            return error

    with ThreadPoolExecutor(len(folders)) as pool:
        return list(pool.map(take, folders))


@pytest.mark.parametrize("_again", range(10))
@pytest.mark.parametrize("fresh", [True, False])
def test_of_many_at_the_same_moment_one_has_the_folder(fresh, tmp_path, _again):
    folder = Folder(tmp_path / "results" / "tiny")
    if not fresh:
        Claim(folder).release()
    came = all_at_once([folder] * AT_ONCE)
    (held,) = [one for one in came if isinstance(one, Claim)]
    refused = [str(one) for one in came if isinstance(one, FolderError)]
    assert len(refused) == AT_ONCE - 1
    assert all(one.startswith(f"another fedpriv run is writing to {folder.path} (process ") for one in refused)
    assert [path.name for path in folder.path.iterdir()] == [".fedpriv.lock"]
    held.release()
    Claim(folder).release()


@pytest.mark.parametrize("_again", range(10))
def test_different_sweeps_in_the_same_fresh_folder_all_have_theirs(tmp_path, _again):
    folders = [Folder(tmp_path / "results" / f"sweep-{number}") for number in range(AT_ONCE)]
    came = all_at_once(folders)
    assert all(isinstance(one, Claim) for one in came), came
    for one in came:
        one.release()


def test_a_run_that_is_at_work_is_told_before_anything_is_started(tmp_path):
    folder = Folder(tmp_path / "tiny")
    assert at_work(folder) is None
    sweep = parse_sweep(TINY, Path("tiny.yaml"))
    with Claim(folder):
        with pytest.raises(ConfigError, match="another fedpriv run is writing to "):
            prepare(sweep, Choices(tmp_path))
        prepare(sweep, Choices(tmp_path, dry=True))
    assert at_work(folder) is None
    prepare(sweep, Choices(tmp_path))


def test_looking_takes_nothing_from_the_one_that_has_the_folder(tmp_path):
    folder = Folder(tmp_path / "tiny")
    with Claim(folder):
        before = (folder.path / ".fedpriv.lock").read_text()
        assert before in str(at_work(folder))
        assert (folder.path / ".fedpriv.lock").read_text() == before
        with pytest.raises(FolderError, match="another fedpriv run"):
            Claim(folder)
