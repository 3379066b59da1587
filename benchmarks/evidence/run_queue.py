"""Works off ``queue.yaml``: runs what ``docs/measured`` lacks, and writes each trial's numbers
there as soon as it has ended.

    uv run python benchmarks/evidence/run_queue.py RESULTS [LINE ...]

Start it in a clone of its own, so that no edit touches a running trial. It may be stopped at any
time: the next call resumes.
``NAME.parquet`` has the final metrics of the trials, ``NAME_rounds.parquet`` and
``NAME_clients.parquet`` their tables; ``run`` is the resolved run, and ``commit`` (of the clone
when the numbers are written down), ``torch`` and ``processor`` say what it was run with.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import pandas as pd
import yaml

if TYPE_CHECKING:
    from orchestrator.config.sweep_file import Sweep

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from machine import cpuinfo  # noqa: E402

CHECKOUT = HERE.parents[1]
RUN = (sys.executable, "-m", "orchestrator", "run")
MEASURED = CHECKOUT / "docs" / "measured"
WAIT = 60.0  # seconds between two looks at the trials of a running sweep
WRITING = Lock()  # of docs/measured
PATIENCE = "resources.timeout_seconds=28800"  # beside other work, a block of clients can take hours


@dataclass(frozen=True)
class Line:
    """One run of the queue.

    Attributes:
        name: of its files in ``docs/measured``.
        sweep: the sweep file, without its ending.
        set: the overrides.
        hours: on two cores, as estimated beforehand.
        numbers: how many published numbers it measures.
        decides: what it is run for.
    """

    name: str
    sweep: str
    set: list[str]
    hours: float
    numbers: int
    decides: str

    def command(self, *arguments: str) -> list[str]:
        """The command that runs the sweep, or resumes it."""
        options = [part for value in self.set for part in ("--set", value)]
        return [*RUN, f"sweeps/{self.sweep}.yaml", *options, "--set", PATIENCE, *arguments]


def queue() -> list[Line]:
    """All runs, in their order."""
    return [
        Line(**entry) for entry in yaml.safe_load((HERE / "queue.yaml").read_text(encoding="utf-8"))
    ]


def loaded(line: Line) -> tuple[Sweep, set[str]]:
    """The line's sweep, and the ids of its trials."""
    from orchestrator.config.run import trial_id
    from orchestrator.config.sweep_file import load_sweep

    sweep = load_sweep(CHECKOUT / "sweeps" / f"{line.sweep}.yaml", line.set)
    return sweep, {trial_id(run) for run in sweep.runs}


def append(file: Path, rows: pd.DataFrame) -> None:
    """Add the trials of ``rows`` that the table lacks."""
    if file.exists():
        before = pd.read_parquet(file)
        rows = pd.concat([before, rows[~rows["id"].isin(set(before["id"]))]], ignore_index=True)
    written = file.with_suffix(".new")
    rows.to_parquet(written, index=False)
    written.replace(file)


def processor() -> str:
    """The name of this machine's processor, and which of the extensions that matter here it has."""
    known = cpuinfo()
    flags = [
        flag
        for flag in ("avx512f", "avx512_bf16", "amx_bf16")
        if flag in known.get("flags", "").split()
    ]
    return " ".join([known.get("model name", platform.machine()), *flags])


def harvest(name: str, folder: Path, measured: Path = MEASURED) -> set[str]:
    """Append the finished trials of a sweep's folder to the tables called ``name``; return the
    ids of all in the table.
    """
    import torch

    import fedpriv
    from orchestrator.report.data import read_results

    table = measured / f"{name}.parquet"
    known = set(pd.read_parquet(table, columns=["id"])["id"]) if table.exists() else set()
    if not (folder / "trials.parquet").exists():
        return known
    results = fedpriv.load(folder)
    trials = results.trials
    finished = set(trials.loc[trials["status"] == "finished", "id"]) - known
    if finished:
        configs = read_results(folder).configs
        trials = trials.assign(
            run=[json.dumps(configs.get(key) or {}, sort_keys=True) for key in trials["id"]]
        )
        commit = subprocess.run(
            ["git", "rev-parse", "--short=10", "HEAD"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for file, rows in (
            (measured / f"{name}_rounds.parquet", results.rounds),
            (measured / f"{name}_clients.parquet", results.clients),
            (table, trials),
        ):
            rows = rows.rename(columns={"trial": "id"})
            made = {"commit": commit, "torch": torch.__version__, "processor": processor()}
            append(file, rows[rows["id"].isin(finished)].assign(**made))
    return known | finished


def work(line: Line, results: Path) -> int:
    """Run what is missing of a line; the exit code of the command, or 0 if nothing was."""
    sweep, ids = loaded(line)
    name = sweep.name
    missing = ids - harvest(line.name, results / name)
    print(
        f"{line.name}: {len(missing)} of {len(ids)} trials, about {line.hours} h for all; "
        f"{line.decides}",
        flush=True,
    )
    if not missing:
        return 0
    if missing == ids or (results / name).exists():
        return watched(line, line.command("--results", str(results)), results / name)
    from orchestrator.cluster.ray_session import local_cpus

    printed = subprocess.run(
        line.command("--print-config"), cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout
    commands = []
    for text in printed.split("\n---\n"):  # each trial with all its fields: the same id
        trial = text.split(":", 1)[0].removeprefix("# trial ")
        if trial in missing:
            file = results / f"{line.name}-{trial}" / "trial.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            command = [*RUN, str(file), "--set", PATIENCE, "--results", str(file.parent)]
            commands.append((line, command, file.parent / yaml.safe_load(text)["name"]))
    if len(commands) < len(missing):
        raise SystemExit(
            f"{line.name}: --print-config shows {len(commands)} of the {len(missing)} "
            "missing trials"
        )
    # As many at a time as there are cores, each with results and a cache of its own, and one where
    # nothing else may run.
    with ThreadPoolExecutor(1 if sweep.resources.concurrent_trials == 1 else local_cpus()) as pool:
        for code in pool.map(watched, *zip(*commands, strict=True)):
            if code:
                pool.shutdown(cancel_futures=True)
                return code
    return 0


def watched(line: Line, command: list[str], folder: Path) -> int:
    """Run a command, and write down the trials of its folder as they end; its exit code."""
    run = subprocess.Popen(command, cwd=CHECKOUT)
    code = None
    while code is None:
        with suppress(subprocess.TimeoutExpired):
            code = run.wait(WAIT)
        with WRITING:
            harvest(line.name, folder)
    return code


def main() -> int:
    """Work off the queue, or the lines that are named; stop at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("lines", nargs="*")
    options = parser.parse_args()
    os.nice(10)
    sys.path.insert(0, str(CHECKOUT))
    for line in queue():
        if (not options.lines or line.name in options.lines) and (
            code := work(line, options.results.resolve())
        ):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
