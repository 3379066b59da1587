"""A sweep that is killed again and again, at any moment and wherever it hurts, and what must
come out all the same.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator.results.paths import Folder
from tests.support.command import arguments, environment
from tests.support.local_cluster import below, named

HEAD, POWER, DRIVER = "the head", "all processes at once", "the driver"
ACTOR, TASK, RAYLET, GCS = "a client actor", "a task", "the raylet", "the gcs"
TASKS = (
    "ray::shadows for ",
    "ray::audit for ",
    "ray::replica",
    "ray::halves_replicas for ",
    "ray::own_confidence for ",
)
NAMES = {
    ACTOR: ("ray::ClientActor",),
    TASK: TASKS,
    DRIVER: ("ray::ResourceTrainable", "ray::Driver"),
}
RAY = {RAYLET: "/raylet/raylet", GCS: "/gcs/gcs_server"}
DEADLY = (HEAD, POWER, RAYLET, GCS)  # the session does not survive them
WEIGHTS = {HEAD: 6, POWER: 4, ACTOR: 4, TASK: 3, DRIVER: 2, RAYLET: 1, GCS: 1}
EARLY = ("start", "claim", "ray", "driver")  # while a session starts
LATE = ("trained", "report", "sent")  # after the last trial
SESSION = float(
    os.environ.get("FEDPRIV_KILLS_PATIENCE", "600")
)  # seconds without any progress: the session hangs
SOON = 5.0  # seconds to wait for a victim; then somebody else is killed
TOO_SLOW = "The current node timed out during startup"
MOST = 40  # sessions


@dataclass
class Kill:
    """Somebody is killed ``delay`` seconds after a moment: a stage of a session, or so many told
    ``rounds`` of all sessions.
    """

    who: str
    moment: str
    rounds: int
    delay: float
    done: str = ""


def drawn_kills(rng: random.Random, count: int, rounds: int) -> list[Kill]:
    """Draw kills of a sweep that tells of so many ``rounds``, in the order in which they are
    done.
    """
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
    order = sorted(
        (kill for kill in kills if kill not in early),
        key=lambda kill: (kill.moment in LATE, kill.rounds),
    )
    for kill in early:  # a session begins after each deadly kill
        after = [0, *(at + 1 for at, one in enumerate(order) if one.who in DEADLY)]
        order.insert(rng.choice(after), kill)
    return order


class Run:
    """Gives the command until the sweep is complete and all kills are done.

    Attributes:
        kills: what is killed, in this order.
        logs: what each session printed; ``codes`` are the exit codes.
        left: the processes that the sessions left over.
        hung: whether a session came to a standstill.
    """

    def __init__(self, sweep: Path, results: Path, kills: list[Kill], trials: int) -> None:
        self.sweep, self.results, self.trials, self.kills = sweep, results, trials, kills
        self.folder = Folder(results / sweep.stem)
        self.logs, self.codes, self.left, self.hung = list[str](), list[int](), list[str](), False
        self.seen: dict[int, float] = {}
        self.began = 0.0

    def __str__(self) -> str:
        logs = [
            f"--- exit code {code}\n{log}" for code, log in zip(self.codes, self.logs, strict=True)
        ]
        return "\n".join([*map(str, self.kills), f"left over: {self.left}", *logs])

    def to_the_end(self, expected: int) -> None:
        """Give the command until it ends with the ``expected`` code and no kill is left, or as
        it must not.
        """
        while not self.hung and len(self.codes) <= MOST:
            if self.session():
                continue
            if TOO_SLOW in self.logs[-1] and self.logs.count(self.logs[-1]) < 4:
                # Ray waits half a minute for its own processes, however busy the machine is
                continue
            waiting = [kill for kill in self.kills if not kill.done]
            if self.codes[-1] != expected or not waiting:
                break
            for (
                kill
            ) in waiting:  # the sweep was complete before its moment: a further run is killed
                kill.who, kill.moment = kill.who if kill.who in (HEAD, POWER) else HEAD, "start"
                kill.delay = min(kill.delay, 0.8 * (time.time() - self.began))
        deadline = time.monotonic() + 120
        while (
            alive := [pid for pid, began in self.seen.items() if _began(pid) == began]
        ) and time.monotonic() < deadline:
            time.sleep(0.5)
        self.left += [f"{pid} {_command(pid)}" for pid in alive]

    def session(self) -> bool:
        """Run the command once; return whether it was killed, or the Ray below it."""
        self.began = time.time()
        path = self.results.with_name(f"{self.results.name}-session-{len(self.logs) + 1}.log")
        self.results.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as log:
            command = arguments(self.sweep, self.results)
            head = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment()
            )
        deadly = self._watch(head, path)
        self.logs.append(path.read_text(errors="replace"))
        self.codes.append(head.returncode)
        return deadly

    def _watch(self, head: subprocess.Popen[bytes], log: Path) -> bool:
        """Do the kills whose moments come, until the session ends."""
        deadly, reached, sampled, moved = False, 0.0, 0.0, self.began
        while head.poll() is None:
            now = time.time()
            if now - moved > SESSION:
                self.hung = True
                self.left = [f"{pid} {_command(pid)[:80]}" for pid in sorted(below(head.pid))]
                self._kill(POWER, head.pid)
                head.wait()
                break
            if now - sampled > 1:
                sampled, moved = now, max(moved, _latest(log, self.results))
                self._sample(head.pid)
            kill = next((one for one in self.kills if not one.done), None)
            if kill is not None and not deadly:
                reached = reached or (now if self._has_come(kill, head.pid, log) else 0.0)
                if (
                    reached
                    and now - reached >= kill.delay
                    and (who := self._victim(kill, head.pid, now - reached))
                ):
                    self._sample(head.pid)
                    kill.done = f"session {len(self.logs) + 1}, {now - self.began:.1f} s, {who}"
                    self._kill(who, head.pid)
                    deadly, reached = who in DEADLY, 0.0
            time.sleep(0.02)
        return deadly

    def _has_come(self, kill: Kill, head: int, log: Path) -> bool:
        """Whether the moment of a kill has come in this session."""
        claimed = _since(self.folder.path / ".fedpriv.lock", self.began)
        if kill.moment == "rounds":
            told = [
                text.count("  round ") for text in (*self.logs, log.read_text(errors="replace"))
            ]
            return sum(told) >= kill.rounds and bool(told[-1] or named(head, NAMES[DRIVER]))
        if kill.moment in ("ray", "driver"):
            return bool(_processes(RAYLET if kill.moment == "ray" else DRIVER, head))
        if kill.moment == "report":
            return any(_since(path, self.began) for path in self.folder.report.glob("*"))
        if kill.moment in ("trained", "sent"):
            ended = [
                trial
                for trial in self.folder.trials()
                if trial.manifest.exists() and not trial.state.exists()
            ]
            sent = kill.moment == "trained" or _since(self.folder.tracking, self.began)
            return claimed and sent and len(ended) >= self.trials
        return claimed or kill.moment == "start"

    def _victim(self, kill: Kill, head: int, waited: float) -> str | None:
        """Who is killed: the one that was drawn, or the next one that there is if he does not
        come soon.
        """
        others = (kill.who,) if waited - kill.delay < SOON else (kill.who, ACTOR, DRIVER, HEAD)
        return next((who for who in others if _processes(who, head)), None)

    def _kill(self, who: str, head: int) -> None:
        for process in _processes(who, head):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _sample(self, head: int) -> None:
        """Remember the processes of the session, each with the moment of its start."""
        self.seen |= {process: began for process in below(head) if (began := _began(process))}


def _processes(who: str, head: int) -> list[int]:
    if who in (HEAD, POWER):
        return sorted(below(head)) if who == POWER else [head]
    if who in RAY:
        return [
            process for process in below(head) if RAY[who] in _command(process).partition(" ")[0]
        ]
    return named(head, NAMES[who])[:1]


def _latest(*places: Path) -> float:
    """When a file there was last written."""
    times = [0.0]
    for path in (one for place in places for one in (place, *place.rglob("*"))):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def _since(path: Path, began: float) -> bool:
    with suppress(OSError):
        return path.stat().st_mtime >= began
    return False


def _command(process: int) -> str:
    with suppress(psutil.Error):
        return " ".join(psutil.Process(process).cmdline())
    return ""


def _began(process: int) -> float:
    """When a process began; 0 if it has ended."""
    with suppress(psutil.Error):
        process_ = psutil.Process(process)
        return 0.0 if process_.status() == psutil.STATUS_ZOMBIE else process_.create_time()
    return 0.0
