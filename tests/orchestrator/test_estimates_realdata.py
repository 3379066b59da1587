"""The estimate of the published sweeps, on the real data sets under FEDPRIV_DATA."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.sweep_file import Sweep, load_sweep

pytestmark = [pytest.mark.realdata, pytest.mark.slow]

SWEEPS = sorted((Path(__file__).parents[2] / "sweeps").glob("*.yaml"))
LONGEST = 20.0  # seconds of this process' own time; beside busy programs the clock shows more


def need(sweep: Sweep) -> None:
    """Skip where a data set is absent or not here as a whole; damaged data, or an error of ours,
    are no reason to.
    """
    found = [problem.sentence for problem in data_problems(sweep, download=False)]
    if found:
        assert all(
            "is absent" in one or re.search(r"has \d+ .*, fewer than", one) for one in found
        ), found
        pytest.skip(found[0])


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_sweep_is_estimated_within_twenty_seconds(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "local")
    need(load_sweep(path, []))
    started = time.process_time()
    assert main(["run", str(path), "--results", str(tmp_path), "--dry-run"]) == 0
    assert time.process_time() - started < LONGEST
    assert "estimate: about" in capsys.readouterr().out
