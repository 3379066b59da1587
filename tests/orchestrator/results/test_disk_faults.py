"""A disk that refuses one call, or all from then on, at every moment of a sweep: a sentence, and
the next run ends alike.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.commands import Choices
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import load_sweep
from orchestrator.results.paths import Folder
from orchestrator.results.sweeps import trial_rows
from orchestrator.results.writing import WriteError
from tests.support.command import same_results
from tests.support.failing_disk import FailingDisk
from tests.support.inline_sweep import run_sweep_inline

SWEEP = """
name: tiny
base:
  rounds: 2
  data: {name: digits, clients: 4, examples_per_client: 10, split: dirichlet}
  model: {name: mlp, hidden: []}
  training: {lr: 0.1, epochs: 1, batch_size: 10}
  privacy: {name: none, audit_every: 0}
"""
ERRORS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO)
NEVER = 10**6
PARTS = 8


def run_with_driver(sweep: Path, results: Path) -> list[dict[str, Any]]:
    """Run the sweep, or resume it; return the rows of its trials."""
    run_sweep_inline(load_sweep(sweep), Choices(results))
    return trial_rows(Folder(results / "tiny"))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "tiny.yaml"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="module")
def undisturbed(sweep: Path) -> FailingDisk:
    """What the sweep leaves on a disk that does not fail, and the calls by which it changes its
    folder.
    """
    disk = FailingDisk(sweep.parent / "undisturbed", errno.EIO, NEVER)
    with disk.attached():
        run_with_driver(sweep, disk.root)
    assert len(disk.calls) > 50 and {"open", "replace", "unlink", "mkdir", "rmdir"} <= set(
        disk.calls
    )
    return disk


def survived(sweep: Path, undisturbed: FailingDisk, disk: FailingDisk) -> str:
    """Run the sweep on a disk that fails, and again on one that does not; return what was said."""
    said = ""
    with disk.attached():
        try:
            rows = run_with_driver(sweep, disk.root)
        except (ConfigError, WriteError) as error:
            said = str(error)
        else:
            assert [row["status"] for row in rows] == ["finished"], rows
    where = (disk.calls[disk.first], errno.errorcode[disk.number], said)
    if said:
        assert os.strerror(disk.number).lower() in said.lower(), where
        assert str(disk.root) in said and "\n" not in said, where
    rows = run_with_driver(sweep, disk.root)
    assert [row["status"] for row in rows] == ["finished"], where
    same_results(undisturbed.root, disk.root)
    assert not list(disk.root.rglob(".fedpriv-*")), where
    return said


@pytest.mark.parametrize("share", [0.2, 0.75])
def test_a_disk_that_fills_up(
    sweep: Path, undisturbed: FailingDisk, tmp_path: Path, share: float
) -> None:
    disk = FailingDisk(tmp_path / "results", errno.ENOSPC, int(share * len(undisturbed.calls)))
    assert survived(sweep, undisturbed, disk)


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [True, False], ids=["from then on", "once"])
@pytest.mark.parametrize("part", range(PARTS))
def test_any_error_at_any_moment(
    sweep: Path, undisturbed: FailingDisk, tmp_path: Path, part: int, lasting: bool
) -> None:
    for first in range(part, len(undisturbed.calls), PARTS):
        number = ERRORS[(first // PARTS + lasting) % len(ERRORS)]
        survived(
            sweep,
            undisturbed,
            FailingDisk(tmp_path / str(first), number, first, None if lasting else first),
        )
