"""A thread of the head process that keeps MLflow up to date while a sweep runs: live rounds, and
`sync` at every end.

No trial waits for MLflow. If it is away, what was to be sent live is forgotten, and the next `sync`
sends what is missing.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.results.claim import Claim
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.provenance import origin
from orchestrator.results.sweeps import content_hash, sweeps_in
from orchestrator.results.writing import read_plain, write_atomically
from orchestrator.tracking.labels import runs_link, trial_name
from orchestrator.tracking.store import (
    JOURNALS,
    LOCAL,
    artifacts,
    configure_environment,
    connect,
    named_server,
    reason,
    remedy,
    without_password,
)

if TYPE_CHECKING:
    from mlflow.entities import Metric

    from orchestrator.tracking.sync import MlflowSweep

# what comes within this time shares a request: 30 metrics take 15 ms, 600 in one batch 60 ms
GATHER_SECONDS = 1.0
ATTEMPTS = 3  # in a row, until a run ends without MLflow
LONGEST_PAUSE = 30.0  # between two attempts to reach a server that is away
AWAY = (
    "MLflow cannot be used now: {} does not accept data ({}). The sweep continues, its files "
    "are complete, and the missing data are sent when MLflow answers again, or by the next "
    "run of this sweep"
)
REFUSED = (
    "MLflow refuses this sweep: {} answers ({}); {}. The sweep continues, its files are "
    "complete, and its next run sends the missing data"
)


class Tracker:
    """A listener that sends one sweep to MLflow.

    Only `finish` waits for it, and no method raises MLflow's errors.

    Attributes:
        where: the server, or the store beside the results.
        trouble: why MLflow could not be used the last time; empty if it could.

    Args:
        results: the folder of all sweeps; the sweep's own folder is ``results / sweep_name``.
        tracking_uri: an MLflow server; None for MLFLOW_TRACKING_URI, or else the store in
            ``results``.
        say: is called, also from the thread, with a sentence, once for each kind of trouble.
    """

    def __init__(
        self,
        results: Path,
        sweep_name: str,
        tracking_uri: str | None = None,
        say: Callable[[str], object] = print,
        with_models: bool = False,
    ) -> None:
        configure_environment()
        self.folder = Folder(Path(os.path.abspath(results)) / sweep_name)
        self.where = without_password(named_server(tracking_uri) or LOCAL)
        self.trouble = ""
        self._uri = tracking_uri
        self._say = say
        self._troubles: set[str] = set()
        self._with_models = with_models
        self._events: queue.Queue[tuple[str, str, Any]] = queue.Queue()
        # Runs and swept values.
        self._planned: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._live: dict[str, str] = {}
        self._sweep: MlflowSweep | None = None
        self._is_complete = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)

    def begin(self) -> None:
        """Load MLflow, beside what else starts, and then send what happens."""
        self._thread.start()

    def on_planned(
        self,
        trial: str,
        title: str,  # noqa: ARG002
        run: dict[str, Any],
        swept: Mapping[str, Any],
    ) -> None:
        self._planned[trial] = (
            run,
            {key: value for key, value in swept.items() if value is not None},
        )

    def on_started(self, trial: str) -> None:
        self._events.put(("start", trial, None))

    def on_rounds(self, trial: str, rows: list[dict[str, Any]]) -> None:
        self._events.put(("rounds", trial, (rows, int(1000 * time.time()))))

    def on_note(self, trial: str, note: str, lasting: bool) -> None:
        pass  # MLflow has it at the end of the trial

    def on_ended(self, trial: str, record: dict[str, Any]) -> None:  # noqa: ARG002
        self._events.put(("end", trial, None))

    def finish(self, seconds: float) -> bool:
        """Send all that MLflow lacks of the sweep, for so many seconds at most.

        True if MLflow has everything.
        """
        if self._thread.ident is None:  # it was not begun, because no trial ran
            with suppress(OSError, ValueError, RecursionError):
                seen = json.loads(read_plain(self.folder.tracking))
                if not self._with_models and self.is_local and self._seen() == seen:
                    return True
            self.begin()
        if not self._is_complete:
            self._events.put(("finish", "", None))
            self._done.wait(seconds)
        return self._is_complete

    @property
    def is_local(self) -> bool:
        """Whether MLflow is the store beside the results, which ``fedpriv ui`` opens."""
        return self.where == LOCAL

    def link(self) -> str:
        """The address of the sweep's ready-made view on its server; empty if it has none."""
        return (
            runs_link(self.where, self._sweep.experiment)
            if self._sweep and self.where.startswith("http")
            else ""
        )

    def _work(self) -> None:
        """The thread's loop: gather events, send them; after a failure wait longer, and begin
        with what the disk says.
        """
        with suppress(
            Exception
        ):  # MLflow takes a second to load; what is wrong with it is said when it is used
            importlib.import_module("orchestrator.tracking.sync")
        failures = 0
        while not self._done.is_set():
            events = [self._events.get()]
            time.sleep(0 if events[0][0] == "finish" else GATHER_SECONDS)
            while not self._events.empty():
                events.append(self._events.get())
            try:
                self._send(events)
                failures = 0
                self.trouble = ""
            except Exception as error:  # no error here may stop the training
                failures += 1
                answers = self._sweep is not None  # then it is the trial that MLflow does not take
                self._sweep = None
                self.trouble = reason(error)
                self._live.clear()
                wanted = remedy(error, self.folder.name)
                self._tell((REFUSED if wanted else AWAY).format(self.where, self.trouble, wanted))
                if failures >= ATTEMPTS and any(kind == "finish" for kind, *_ in events):
                    self._done.set()
                again = ("finish",) if answers and failures >= ATTEMPTS else ("end", "finish")
                for event in (event for event in events if event[0] in again):
                    self._events.put(event)
                time.sleep(min(0.5 * 2.0 ** min(failures, 10), LONGEST_PAUSE))

    def _send(self, events: Sequence[tuple[str, str, Any]]) -> None:
        """Send what has happened. Raises MLflow's errors."""
        from orchestrator.tracking.projection import round_points, run_tags
        from orchestrator.tracking.sync import MlflowSweep

        if self._sweep is None:
            results = self.folder.path.parent
            self._sweep = MlflowSweep(
                self.folder, connect(results, self._uri), artifacts(results, self._uri)
            )
        points: dict[str, list[Metric]] = {}
        ended: set[str] | None = set()
        for kind, trial, content in events:
            if kind == "start":
                run, swept = self._planned[trial]
                tags = run_tags(run, swept, origin(run["training"]["device"])) | {
                    "status": "running"
                }
                self._live[trial] = self._sweep.open_trial(trial, trial_name(swept) or trial, tags)
                points.pop(trial, None)
            elif kind == "rounds" and trial in self._live:
                points.setdefault(trial, []).extend(round_points(*content))
            elif kind == "end" and ended is not None:
                ended.add(trial)
            elif kind == "finish":
                ended = None  # all of them
        for trial, values in points.items():
            self._sweep.log_points(self._live[trial], values)
        if ended or ended is None:
            swept_values = {trial: swept for trial, (_, swept) in self._planned.items()}
            models = self._tell if self._with_models else None
            self._sweep.sync(self._live, ended, swept_values, models)
            for trial in ended or ():
                self._live.pop(trial, None)
            if ended is None:
                write_atomically(self.folder.tracking, json.dumps(self._seen()).encode())
                self._is_complete = True
                self._done.set()

    def _seen(self) -> dict[str, Any]:
        """Where MLflow and the results are, what there is to send, and the size and time of the
        store beside the results.

        If all is as after the last `sync`, MLflow lacks nothing, and need not be loaded to say so.
        """
        trials = hashlib.blake2b(digest_size=8)
        for trial in self.folder.trials():
            with suppress(OSError):
                trials.update(read_plain(trial.manifest))
        store = self.folder.path.parent / LOCAL
        files = [
            file
            for file in (store, *(Path(f"{store}{ending}") for ending in JOURNALS))
            if file.is_file()
        ]
        stats = [
            (status.st_ino, status.st_size, status.st_mtime_ns) for status in map(os.stat, files)
        ]
        place = {"where": self.where, "folder": str(self.folder.path)}
        return place | {
            "sweep": content_hash(self.folder),
            "trials": trials.hexdigest(),
            "store": [*map(list, stats)],
        }

    def _tell(self, sentence: str) -> None:
        """Warn the user, once for each kind of trouble."""
        kind = sentence.partition(":")[0]
        if kind not in self._troubles:
            self._troubles.add(kind)
            with suppress(Exception):
                self._say(sentence)


def fill(results: Path) -> list[str]:
    """Send the sweeps in ``results`` to the store there; return sentences on what was done.

    A sweep that another process runs is left to that process, one that was sent to a server to the
    server.

    Raises:
        FolderError: there can be no store.
        Exception: MLflow's errors, if it cannot open the store.
    """
    from orchestrator.tracking.sync import MlflowSweep

    client = connect(results)
    sent: list[str] = []
    missed: list[str] = []
    for folder in sweeps_in(results):
        with suppress(OSError, ValueError, AttributeError, RecursionError):
            if json.loads(read_plain(folder.tracking)).get("where", LOCAL) != LOCAL:
                continue
        if folder.links():
            missed.append(folder.name)
            continue
        try:
            with Claim(folder):
                if MlflowSweep(folder, client, artifacts(results)).sync():
                    sent.append(folder.name)
        except FolderError:  # it runs now
            continue
        except Exception:  # whatever MLflow raises, as for a store that is only readable
            missed.append(folder.name)
    sentences = [f"MLflow holds {', '.join(sent)}, too"] if sent else []
    if missed:
        sentences.append(
            f"MLflow does not hold {', '.join(missed)} yet; the next run of each sends it"
        )
    return sentences
