"""Sweep files with huge and tiny values, each through the check and the dry run in a forked process.

A process per value, with everything imported before it is forked, is bounded in memory and time, so that a value which
would take the whole machine shows as a finding and not as a dead one.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.reach_cases import Case, every_case, sample, write_files

SECONDS, BYTES = 5.0, 1 << 30
YARDSTICK = 0.1  # seconds that `slowdown` takes on a slow machine with nothing else to do
SPARE = 1 << 30  # of addresses, which libraries reserve and do not use
HALT = 15  # seconds of the processor after which a process is given up
OURS = ("orchestrator.commands", "orchestrator.estimates.dry_run")
LOADED = (
    *OURS,
    "orchestrator.scheduling.search",
    *("optuna", "scipy.optimize", "scipy.special", "scipy.stats", "sklearn.ensemble", "torch._dynamo", "torch.func"),
)


@dataclass(frozen=True)
class Result:
    """What came of a case.

    Attributes:
        case: the case.
        seconds: of the processor that it took, on a machine with nothing else to do.
        grown: bytes by which the process grew.
        outcome: ``plan``, ``refused``, or what went wrong.
        said: what was printed, with the refusal.
    """

    case: Case
    seconds: float
    grown: int
    outcome: str
    said: str

    @property
    def wrong(self) -> str:
        """What is wrong; empty if nothing is."""
        found = [] if self.outcome in ("plan", "refused") else [self.outcome]
        found += [f"took {self.seconds:.1f} s"] if self.seconds > SECONDS else []
        found += [f"took {self.grown / 1e9:.2f} GB"] if self.grown > BYTES else []
        found += [f"warns: {line}" for line in self.said.splitlines() if "Warning" in line][:1]
        found += [f"prints {line[:200]}" for line in self.said.splitlines() if unreadable(line)][:1]
        return "; ".join(found)


def unreadable(line: str) -> bool:
    """Whether a line holds a number that nobody reads, or a whole page."""
    if not line.startswith("estimate") and "a trial takes" not in line:
        return len(line) > 1000
    return bool(re.search(r"\binf\b|\bnan\b|[0-9]{9}|e\+[0-9]", line))


def prepare_process(folder: Path, names: Sequence[str] = LOADED) -> None:
    """Import and load what every case needs, so that the forked processes do not.

    Args:
        folder: an empty folder.
        names: the modules to import.
    """
    for name in names:
        importlib.import_module(name)
    import torch

    from datasets.components import components
    from orchestrator.config.slots import SLOTS
    from orchestrator.estimates import small_runs

    torch.set_num_threads(1)
    small_runs.EACH = 0.02  # seconds: what is timed here is not needed
    write_files(folder)
    os.environ["FEDPRIV_DATA"] = str(folder / "none")
    for slot in SLOTS:
        components(slot.folder)


def run_case(case: Case, folder: Path) -> tuple[str, str]:
    """The outcome of a case in this process, and what the refusal says."""
    from orchestrator import commands
    from orchestrator.commands import Choices
    from orchestrator.config.errors import ConfigError

    path = folder / "reach.yaml"
    path.write_text(case.text)
    try:
        code = commands.run(path, (), Choices(folder / "results", dry=True))
    except ConfigError as refusal:
        return "refused", str(refusal)
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f"{Path(one.filename).name}:{one.lineno}" for one in frames if "site-packages" not in one.filename][-3:]
        return f"{type(error).__name__}: {str(error)[:200]} at {' '.join(own)}", ""
    return ("plan" if code == 0 else f"exit code {code}"), ""


def run_forked(case: Case, folder: Path) -> Result:
    """The result of a case, in a process of its own."""
    log = folder / f"log-{os.getpid()}"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _confine(log)
            begun, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            outcome, said = run_case(case, folder)
            sys.stdout.flush()
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            spent = (time.process_time() - begun) / slowdown()
            answer = json.dumps([spent, grown * 1024, outcome, said[:20_000]])
            os.write(writing, answer.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    said = log.read_text(errors="replace")
    if not answer:
        return Result(case, 0.0, 0, f"died ({status}) {_where(said)}", said)
    seconds, grown, outcome, refusal = json.loads(answer)
    return Result(case, seconds, grown, outcome, said + refusal)


def slowdown() -> float:
    """How many times slower this process is now than on a machine with nothing else to do; at least 1."""
    begun = time.process_time()
    sum(number * number for number in range(1_000_000))
    return max(1.0, (time.process_time() - begun) / YARDSTICK)


def _confine(log: Path) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + BYTES + SPARE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGXCPU, file=2, chain=True)
    spent = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (spent + HALT, spent + HALT + 1))


def _where(said: str) -> str:
    frames = re.findall(r'File "([^"]+)", line (\d+) in (\w+)', said)
    return " < ".join(f"{Path(file).name}:{line} {name}" for file, line, name in frames if "site-packages" not in file)[
        :300
    ]


def run_all(cases: Sequence[Case], folder: Path, processes: int = 1) -> Iterator[Result]:
    """The results of all cases, in any order; `prepare_process` must have been called.

    Args:
        cases: the cases.
        folder: an empty folder.
        processes: how many cases run at the same time.
    """
    workers, streams = [], []
    for number in range(processes):
        reading, writing = os.pipe()
        worker = os.fork()
        if worker == 0:
            os.close(reading)
            own = folder / str(number)
            own.mkdir()
            write_files(own)
            with os.fdopen(writing, "w") as stream:
                for place in range(number, len(cases), processes):
                    one = run_forked(cases[place], own)
                    print(
                        json.dumps([place, one.seconds, one.grown, one.outcome, one.said[:20_000]]),
                        file=stream,
                        flush=True,
                    )
            os._exit(0)
        os.close(writing)
        workers.append(worker)
        streams.append(os.fdopen(reading))
    for stream in streams:
        for line in stream:
            place, *rest = json.loads(line)
            yield Result(cases[place], *rest)
    for worker in workers:
        os.waitpid(worker, 0)


if __name__ == "__main__":
    of, place, processes = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    prepare_process(place, OURS if of == "sample" else LOADED)
    for result in run_all(sample() if of == "sample" else every_case(), place, processes):
        print(json.dumps([str(result.case), result.outcome, result.wrong]), flush=True)
