"""The estimate of the published sweeps, on the real data sets under FEDPRIV_DATA."""

from __future__ import annotations

import os
import re
import shlex
import time
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.sweep_file import Sweep, load_sweep
from orchestrator.trial import worker_session
from tests.support.estimated import estimated
from tests.support.inline import inline_trial

pytestmark = [pytest.mark.realdata, pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

SWEEPS = sorted((Path(__file__).parents[2] / "sweeps").glob("*.yaml"))
LONGEST = 20.0  # seconds of this process' own time; beside busy programs the clock shows more
TRAINED = ("finp_har", "finp_har_as_released", "finp_local_epochs", "metric_privacy_control", "ifca_mir_mnist_ranges")


def small(path: Path) -> list[str]:
    """The settings of a sweep's small version, from the line in its header."""
    (line,) = re.findall(r"^# small: (.*)$", path.read_text(), re.MULTILINE)
    return [part for part in shlex.split(line) if part != "--set"]


def need(sweep: Sweep) -> None:
    """Skip where a data set is absent or not here as a whole; damaged data, or an error of ours, are no reason to."""
    found = [problem.sentence for problem in data_problems(sweep, download=False)]
    if found:
        assert all("is absent" in sentence or re.search(r"has \d+ .*, fewer than", sentence) for sentence in found), (
            found
        )
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


@pytest.mark.parametrize("name", TRAINED)
def test_the_estimate_is_within_a_factor_of_three_of_a_trial(name: str, tmp_path: Path) -> None:
    """The last trial of the small version, without Ray: of its processor time, which no other program changes."""
    path = next(path for path in SWEEPS if path.stem == name)
    sweep = load_sweep(path, small(path))
    need(sweep)
    worker_session.keep_freed_memory()
    run = sweep.runs[-1]
    found, messages = estimated(run, root := Path(os.environ["FEDPRIV_DATA"]))
    started = time.process_time()
    trial = inline_trial(run, tmp_path, root=root)
    while not trial.done:
        trial.advance()
    taken = time.process_time() - started
    print(f"{name}: estimated {found:.1f} s, taken {taken:.1f} s")
    assert taken / 3 < found < 3 * taken + messages
