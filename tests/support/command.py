"""The command as a user gives it: a process of its own, real Ray, Tune and MLflow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TIMES = ("seconds", "seconds_per_round")

SWEEP = """
name: tiny
base:
  rounds: 4
  data: {name: digits, clients: 8, examples_per_client: 20, split: {minority_ratio: 0.25}}
  model: {name: mlp, hidden: [16]}
  training: {lr: 0.1, epochs: 1, batch_size: 10, clients_per_job: 3}
  clustering: {name: ifca, restarts: 2, restart_rounds: 2, warm_start_rounds: 1}
  attacks: [{name: shadow_mia, every: 2, shadows: 1}]
sweep:
  clustering.name: {grid_search: [ifca, ifca_mir]}
  training.lr: {grid_search: [0.1, 0.2]}
resources: {client_actors: 1, concurrent_trials: 1}
"""


def arguments(sweep: Path, results: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "orchestrator", "run", str(sweep), "--results", str(results), *options]


def environment(**more: str) -> dict[str, str]:
    """The variables of a command: those of this process, and no cluster or server that happens to be there."""
    inherited = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    return inherited | {"RAY_ADDRESS": "local"} | more


def fedpriv(sweep: Path, results: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a sweep to its end."""
    return subprocess.run(
        arguments(sweep, results, *options),
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(**variables),
        check=False,
    )


def signalled_after(number: int, words: str, sweep: Path, results: Path, *options: str) -> tuple[int, str]:
    """Start a sweep, and send its head process a signal once it has printed ``words``: exit code, and all that it printed."""
    printed, started, sent = "", time.monotonic(), False
    with subprocess.Popen(
        arguments(sweep, results, *options),
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env=environment(),
        preexec_fn=_heed_signals,
    ) as head:
        assert head.stdout is not None
        for line in head.stdout:
            printed += line
            assert time.monotonic() - started < 240, printed
            if words in line and not sent:
                head.send_signal(number)
                sent = True
        return head.wait(), printed


def _heed_signals() -> None:
    """What is started in the background ignores Ctrl-C, and below nohup a hangup; so would all that the tests start there."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def trials(results: Path, name: str = "tiny") -> list[dict]:
    return pq.read_table(results / name / "trials.parquet").to_pylist()


def timeless(path: Path) -> pa.Table:
    """A table without the columns that hold times."""
    table = pq.read_table(path)
    return table.drop_columns([name for name in TIMES if name in table.column_names])


def same_results(
    one: Path, other: Path, name: str = "tiny", tables: Sequence[str] = ("clients", "attacks", "scores")
) -> None:
    """Assert that two results folders hold the same bytes, times aside."""
    mine, yours = ({row["id"]: row for row in trials(results, name)} for results in (one, other))
    assert mine.keys() == yours.keys()
    for trial in mine:
        ours, theirs = (results / name / "trials" / trial for results in (one, other))
        for table in tables:
            assert (ours / f"{table}.parquet").read_bytes() == (theirs / f"{table}.parquet").read_bytes(), (
                trial,
                table,
            )
        assert timeless(ours / "rounds.parquet").equals(timeless(theirs / "rounds.parquet")), trial
        assert (ours / "model.safetensors").read_bytes() == (theirs / "model.safetensors").read_bytes(), trial
