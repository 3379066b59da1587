"""Processes of a sweep that are killed without warning, and what must come out all the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.support.command import arguments, environment, trials
from tests.support.local_cluster import process_table

# What Ray writes over the name of a worker process while it works.
VICTIMS = {
    "a client actor": ("ray::ClientActor",),
    "a shadow task": ("ray::shadow for ", "ray::audit for "),
    "the trial": ("ray::ResourceTrainable", "ray::Driver"),
}
HEAD = "the head"
PATIENCE = 300.0  # seconds without a line, or until all processes are gone


@dataclass
class Kill:
    """``who`` is killed, ``delay`` seconds after the sweep has printed so many ``lines``, or as soon as there is one."""

    who: str
    lines: int
    delay: float
    done: bool = False

    @staticmethod
    def at_random(rng: random.Random, lines: int) -> Kill:
        """At any moment of a sweep that prints so many ``lines`` of rounds; shadow tasks end with the first third."""
        who = rng.choice([*VICTIMS, HEAD])
        last = lines // 3 if who == "a shadow task" else lines - 4
        return Kill(who, rng.randrange(0 if who != HEAD else 1, last), rng.uniform(0, 0.5))

    def __str__(self) -> str:
        return f"{self.who} {self.delay:.2f} s after line {self.lines}"


@dataclass
class Disturbed:
    """What came of a sweep that was disturbed: every session's lines, the exit code of the last one, left-over processes."""

    sessions: list[list[str]] = field(default_factory=list)
    code: int | None = None
    left: set[int] = field(default_factory=set)

    @property
    def text(self) -> str:
        return "\n--- again\n".join("\n".join(lines) for lines in self.sessions)

    def told_rounds(self) -> Iterator[list[str]]:
        """For each session, trial and round of every line that tells of a round which counts."""
        for lines in self.sessions:
            yield [line.partition("  accuracy")[0].partition("  ")[2] for line in lines if "  round " in line]


def disturbed(sweep: Path, results: Path, kills: list[Kill], *options: str) -> Disturbed:
    """Run ``sweep`` with these kills; where the head dies, run the same command again, until it comes to its end."""
    came = Disturbed()
    printed = 0
    while came.code is None:
        lines: list[str] = []
        came.sessions.append(lines)
        with subprocess.Popen(
            arguments(sweep, results, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            env=environment(),
        ) as head:
            assert head.stdout is not None
            killer = threading.Thread(target=_kill, args=(head, kills, lines, printed), daemon=True)
            killer.start()
            for line in head.stdout:
                lines.append(line.rstrip())
            came.code = head.wait()
            killer.join()
        printed += _rounds(lines)
        if came.code == -signal.SIGKILL:
            came.code = None
            assert any(kill.who == HEAD and kill.done for kill in kills), "killed by somebody else"
    return came


def _rounds(lines: list[str]) -> int:
    return sum("  round " in line for line in lines)


def _kill(head: subprocess.Popen[str], kills: list[Kill], lines: list[str], before: int) -> None:
    """Wait for the moment of each kill that is still to be done, in their order."""
    for kill in kills:
        while not kill.done and head.poll() is None:
            if before + _rounds(lines) >= kill.lines:
                time.sleep(kill.delay)
                kill.done = _killed(head, kill.who)
            else:
                time.sleep(0.01)


def _killed(head: subprocess.Popen[str], who: str) -> bool:
    """Kill one of these processes as soon as there is one. False if the sweep ends before."""
    while head.poll() is None:
        for pid in [head.pid] if who == HEAD else named(head.pid, VICTIMS[who]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        time.sleep(0.03)
    return False


def below(leader: int) -> set[int]:
    """All processes that come from ``leader``, itself among them."""
    table, found = process_table(), {leader}
    while more := {pid for pid, (parent, _) in table.items() if parent in found} - found:
        found |= more
    return found


def named(leader: int, names: tuple[str, ...]) -> list[int]:
    """The processes below ``leader`` with such a name, the youngest first: of two the one that has just begun."""
    found = []
    for pid in below(leader):
        with suppress(OSError):
            if (Path("/proc") / str(pid) / "cmdline").read_text(errors="replace").startswith(names):
                found.append(pid)
    return sorted(found, reverse=True)


def mlflow_holds_each_run_once(results: Path, uri: str | None = None) -> None:
    """Assert that the sweep has one parent run, every trial one run below it, and every round one value."""
    from mlflow import MlflowClient

    client = MlflowClient(uri or f"sqlite:///{results / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "tiny"]
    runs = client.search_runs([experiment.experiment_id])
    children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    assert len(runs) == len(children) + 1
    held = {run.data.tags["fedpriv.trial"]: run for run in children}
    assert held.keys() == {row["id"] for row in trials(results)}
    assert len(held) == len(children)
    for run in children:
        assert run.info.status == "FINISHED"
        steps = [point.step for point in client.get_metric_history(run.info.run_id, "accuracy/loss")]
        config = results / "tiny" / "trials" / run.data.tags["fedpriv.trial"] / "config.yaml"
        assert sorted(steps) == list(range(1, yaml.safe_load(config.read_text())["rounds"] + 1))
