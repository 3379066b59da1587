"""A sweep that is killed again and again, at any moment and wherever it hurts, and what must come out all the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from orchestrator.results.paths import Folder
from tests.support.command import arguments, environment
from tests.support.local_cluster import below, named

HEAD, POWER, DRIVER = "the head", "all processes at once", "the driver"
ACTOR, TASK, RAYLET, GCS = "a client actor", "a task", "the raylet", "the gcs"
TASKS = ("ray::shadow for ", "ray::audit for ", "ray::replica", "ray::own_confidence for ")
NAMES = {ACTOR: ("ray::ClientActor",), TASK: TASKS, DRIVER: ("ray::ResourceTrainable", "ray::Driver")}
RAY = {RAYLET: "/raylet/raylet", GCS: "/gcs/gcs_server"}
DEADLY = (HEAD, POWER, RAYLET, GCS)  # the session does not survive them
WEIGHTS = {HEAD: 6, POWER: 4, ACTOR: 4, TASK: 3, DRIVER: 2, RAYLET: 1, GCS: 1}
EARLY = ("start", "claim", "ray", "driver")  # while a session starts
LATE = ("trained", "report", "sent")  # after the last trial
SESSION = float(os.environ.get("FEDPRIV_KILLS_PATIENCE", "600"))  # seconds without any progress: the session hangs
TOO_SLOW = "The current node timed out during startup"
MOST = 40  # sessions


@dataclass
class Kill:
    """Somebody is killed ``delay`` seconds after a moment: a stage of a session, or so many told ``rounds`` of all sessions."""

    who: str
    moment: str
    rounds: int
    delay: float
    done: str = ""

    def __str__(self) -> str:
        when = f"{self.rounds} rounds were told" if self.moment == "rounds" else self.moment
        return f"{self.who}, {self.delay:.2f} s after: {when} ({self.done or 'not done'})"


def drawn_kills(rng: random.Random, count: int, rounds: int) -> list[Kill]:
    """Draw kills of a sweep that tells of so many ``rounds``, in the order in which they are done."""
    kills = []
    for _ in range(count):
        who = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        phase = rng.choices(("early", "rounds", "late"), (3, 6, 3))[0]
        if phase == "early":
            kills.append(Kill(who, rng.choice(EARLY), 0, rng.uniform(0, 3)))
        elif phase == "rounds":
            kills.append(Kill(who, "rounds", rng.randrange(1, rounds + 1), rng.uniform(0, 1)))
        else:
            late = who if who in DEADLY else rng.choice((HEAD, POWER))
            kills.append(Kill(late, rng.choice(LATE), rounds, rng.uniform(0, 2)))
    early = [kill for kill in kills if kill.moment in EARLY]
    order = sorted((kill for kill in kills if kill not in early), key=lambda kill: (kill.moment in LATE, kill.rounds))
    for kill in early:  # a session begins after each deadly kill
        after = [0, *(at + 1 for at, one in enumerate(order) if one.who in DEADLY)]
        order.insert(rng.choice(after), kill)
    return order


@dataclass
class Killed:
    """A sweep that was killed: every session's log, the last one's exit code, and the processes that it left over."""

    kills: list[Kill]
    logs: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    hung: bool = False

    def __str__(self) -> str:
        logs = "\n".join(f"--- session {i + 1}, exit code {code}\n{log}" for i, (code, log) in enumerate(self._pairs()))
        return "\n".join(map(str, self.kills)) + f"\nleft over: {self.left}\n{logs}"

    def _pairs(self) -> list[tuple[int, str]]:
        return list(zip(self.codes, self.logs, strict=False))


class Run:
    """Gives the command until the sweep is complete and all kills are done."""

    def __init__(
        self,
        sweep: Path,
        results: Path,
        kills: list[Kill],
        trials: int,
        say: Callable[[str], object] = print,
        soon: float = 5.0,
    ):
        """Keep the arguments.

        Args:
            sweep: the sweep file.
            results: the folder of results.
            kills: what is killed, in this order.
            trials: the number of the sweep's trials.
            say: is told what happens.
            soon: seconds to wait for a victim; then somebody else is killed.
        """
        self.sweep, self.results, self.trials, self.say, self.soon = sweep, results, trials, say, soon
        self.folder = Folder(results / sweep.stem)
        self.came = Killed(kills)
        self.seen: dict[int, float] = {}
        self.told = 0
        self.began = 0.0

    def to_the_end(self, expected: int = 0) -> Killed:
        """Give the command until it ends with the ``expected`` code and no kill is left, or as it must not."""
        came = self.came
        while True:
            deadly = self.session()
            if not deadly and TOO_SLOW in came.logs[-1] and came.logs.count(came.logs[-1]) < 4:
                continue  # Ray waits half a minute for its own processes, however busy the machine is
            if came.hung or len(came.codes) > MOST or (not deadly and came.codes[-1] != expected):
                break
            if not deadly and not any(not kill.done for kill in came.kills):
                break
            for kill in came.kills if not deadly else ():
                if not kill.done:  # the sweep was complete before its moment: a further run is killed
                    kill.who, kill.moment = kill.who if kill.who in (HEAD, POWER) else HEAD, "start"
                    kill.delay = min(kill.delay, 0.8 * (time.time() - self.began))
        came.left += self._left()
        return came

    def session(self) -> bool:
        """Run the command once; return whether it was killed, or the Ray below it."""
        number, self.began = len(self.came.logs), time.time()
        path = self.results.with_name(f"{self.results.name}-session-{number + 1}.log")
        self.results.mkdir(parents=True, exist_ok=True)
        command = arguments(self.sweep, self.results)
        with open(path, "wb") as log:
            head = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment())
        deadly = self._watch(head, path)
        text = path.read_text(errors="replace")
        self.told += _rounds(text)
        self.came.logs.append(text)
        self.came.codes.append(head.returncode)
        self.say(f"session {number + 1}: exit code {head.returncode} after {time.time() - self.began:.0f} s")
        return deadly

    def _watch(self, head: subprocess.Popen[bytes], log: Path) -> bool:
        """Do the kills whose moments come, until the session ends."""
        deadly, reached, sampled, moved = False, 0.0, 0.0, self.began
        while head.poll() is None:
            now = time.time()
            if now - moved > SESSION:
                self.came.hung = True
                self.came.left = [f"{one} {_command(one)[:80]}" for one in sorted(below(head.pid))]
                self._kill(POWER, head.pid)
                head.wait()
                break
            if now - sampled > 1:
                sampled, moved = now, max(moved, _latest(log, self.results))
                self._sample(head.pid)
            kill = next((one for one in self.came.kills if not one.done), None)
            if kill is not None and not deadly:
                reached = reached or (now if self._has_come(kill, head.pid, log) else 0.0)
                if reached and now - reached >= kill.delay and (who := self._victim(kill, head.pid, now - reached)):
                    self._sample(head.pid)
                    kill.done = f"session {len(self.came.logs) + 1}, {now - self.began:.1f} s, {who}"
                    self._kill(who, head.pid)
                    self.say(f"killed: {kill}")
                    deadly, reached = who in DEADLY, 0.0
            time.sleep(0.02)
        return deadly

    def _has_come(self, kill: Kill, head: int, log: Path) -> bool:
        """Whether the moment of a kill has come in this session."""
        if kill.moment == "rounds":
            new = _rounds(log.read_text(errors="replace"))
            return self.told + new >= kill.rounds and bool(new or named(head, NAMES[DRIVER]))
        if kill.moment == "claim":
            return _since(self.folder.path / ".fedpriv.lock", self.began)
        if kill.moment == "ray":
            return bool(_of_ray(head, RAY[RAYLET]))
        if kill.moment == "driver":
            return bool(named(head, NAMES[DRIVER]))
        if kill.moment == "trained":
            ended = [trial for trial in self.folder.trials() if trial.manifest.exists() and not trial.state.exists()]
            return len(ended) >= self.trials and _since(self.folder.path / ".fedpriv.lock", self.began)
        if kill.moment == "report":
            return any(_since(path, self.began) for path in self.folder.report.glob("*"))
        if kill.moment == "sent":
            return _since(self.folder.tracking, self.began) and self._has_come(Kill("", "trained", 0, 0), head, log)
        return True

    def _victim(self, kill: Kill, head: int, waited: float) -> str | None:
        """Who is killed: the one that was drawn, or the next one that there is if he does not come soon."""
        others = (kill.who,) if waited - kill.delay < self.soon else (kill.who, ACTOR, DRIVER, HEAD)
        return next((who for who in others if self._processes(who, head)), None)

    def _processes(self, who: str, head: int) -> list[int]:
        if who == POWER:
            return sorted(below(head))
        if who in RAY:
            return _of_ray(head, RAY[who])
        return [head] if who == HEAD else named(head, NAMES[who])[:1]

    def _kill(self, who: str, head: int) -> None:
        for process in self._processes(who, head):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _sample(self, head: int) -> None:
        """Remember the processes of the session, each with the moment of its start."""
        self.seen |= {process: began for process in below(head) if (began := _began(process))}

    def _left(self, patience: float = 120.0) -> list[str]:
        """The processes of all sessions that have not ended after so many seconds."""
        deadline = time.monotonic() + patience
        while True:
            left = [process for process, began in self.seen.items() if _began(process) == began]
            if not left or time.monotonic() > deadline:
                return [f"{process} {_command(process)}" for process in left]
            time.sleep(0.5)


def _rounds(text: str) -> int:
    return sum("  round " in line for line in text.splitlines())


def _latest(*places: Path) -> float:
    """When a file there was last written."""
    found = [0.0]
    for path in (one for place in places for one in (place, *place.rglob("*"))):
        with suppress(OSError):
            found.append(path.stat().st_mtime)
    return max(found)


def _since(path: Path, began: float) -> bool:
    with suppress(OSError):
        return path.stat().st_mtime >= began
    return False


def _of_ray(head: int, part: str) -> list[int]:
    return [process for process in below(head) if part in _command(process).partition(" ")[0]]


def _command(process: int) -> str:
    with suppress(psutil.Error):
        return " ".join(psutil.Process(process).cmdline())
    return ""


def _began(process: int) -> float:
    """When a process began; 0 if it has ended."""
    with suppress(psutil.Error):
        found = psutil.Process(process)
        return 0.0 if found.status() == psutil.STATUS_ZOMBIE else found.create_time()
    return 0.0
