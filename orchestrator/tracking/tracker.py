"""Experiment tracking: a record of what MLflow should have of a sweep, and a thread that sends it.

Only the head process of the sweep calls the `Tracker`. A call just records what MLflow should have; the thread compares
this with what MLflow has and sends the difference. So a slow or absent server never delays training, failed operations
are repeated, and nothing is sent twice. The same mechanism catches up after a resumed sweep, after a server was away and
after a process was killed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.tracking import labels, shared_view
from orchestrator.tracking.labels import SENT_TAG, flatten, reason, scalar_metrics, texts, without_password
from orchestrator.tracking.lacking import compare, lacks_models
from orchestrator.tracking.mlflow_lookup import ROUND, Held, is_refusal
from orchestrator.tracking.mlflow_store import Store
from orchestrator.tracking.pages import Pages
from orchestrator.tracking.pending import ATTEMPTS, PendingTrial, digest, now, saved_rows, sweep_files, trial_files
from orchestrator.tracking.places import DEFAULT_SERVER, LOCAL, configure_environment, named_server
from orchestrator.tracking.recorded import recalled, record
from orchestrator.tracking.restored import Planned, restored

IDLE_SECONDS = 20.0  # longest wait for the first event, so that importing MLflow does not slow the sweep's start
GATHER_SECONDS = 1.0  # rounds that end within this time share a batch: 30 metrics take 15 ms, 600 in one batch 60 ms
LONGEST_PAUSE = 30.0  # between two attempts to reach a server that is away
ROWS_IN_MEMORY = 2000  # per trial; if there are more, they are read from the trial's table once MLflow is back

AWAY = (
    "MLflow cannot be used now: {} does not accept data ({}). The sweep continues, its files are complete, and the "
    "missing data are sent when MLflow answers again, or by the next run of this sweep"
)
REFUSAL = "MLflow refuses a run: {} does not accept {!r} ({}). The sweep continues, and its files are complete"


class Tracker:
    """Sends the events of one sweep to MLflow. No method except `close` waits for MLflow, and none raises.

    Create it after the results folder has been claimed, because the claim writes the identity by which runs are found
    again. A run has one row per round; a round that MLflow already has is not sent again.

    Args:
        results: the folder of all sweeps; the sweep's own folder is ``results / sweep_name``.
        sweep_name: the name of the sweep.
        tracking_uri: an MLflow server; None for MLFLOW_TRACKING_URI, or else the store in ``results``.
        warn: is called, also from another thread, with a sentence, once for each kind of trouble with MLflow.
        with_models: whether the trained models of trials are sent, too, one for each group.
    """

    def __init__(
        self,
        results: Path,
        sweep_name: str,
        tracking_uri: str | None = None,
        warn: Callable[[str], object] = print,
        with_models: bool = False,
    ) -> None:
        configure_environment()
        results = Path(os.path.abspath(results))
        self.folder = Folder(results / sweep_name)
        self._where = without_password(named_server(tracking_uri) or LOCAL)
        self._store = Store(results, sweep_name, self.folder.identity(), tracking_uri)
        self._warn, self._warned, self._with_models = warn, set[str](), with_models
        self._lock = threading.RLock()
        self._trials: dict[str, PendingTrial] = {}
        self._sweep = recalled(self.folder, self._tell) or PendingTrial("", sweep_name, {}, started=now(), live=False)
        self.trouble = ""
        self._sweep.sent = self._sweep.version
        self._pages = Pages(self._store, self.folder, self._sweep, self._trials, self._say if with_models else None)
        self._wake, self._closing, self._done = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)
        self._thread.start()

    def sweep_started(self, tags: Mapping[str, str] | None = None) -> None:
        """Record that the sweep has started or was resumed; its sweep.yaml becomes an artifact."""
        with self._lock:
            self._sweep.tags = labels.run_tags(tags or {}, self.folder.path)
            self._sweep.files = [(str(self.folder.sweep), "")]
            self._sweep.begin()
            record(self.folder, self._sweep)

    def trial_started(self, trial_id: str, params: Mapping[str, Any], tags: Mapping[str, str], name: str) -> None:
        """Record that a trial has started or was resumed.

        Args:
            trial_id: the trial's id.
            params: the resolved run, nested or flat.
            tags: tags, such as the provenance.
            name: a readable name.
        """
        folder = self.folder.trial(trial_id)
        with self._lock:
            known = self._trials.get(trial_id) or recalled(folder, self._tell)
            wanted = self._trials[trial_id] = known or PendingTrial(trial_id, name, {}, folder=folder)
            wanted.name, wanted.params, wanted.tags = name, flatten(params), labels.run_tags(tags, folder.path)
            wanted.finals = {}
            wanted.begin()
            record(folder, wanted)

    def rounds(self, trial_id: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Record rounds: one row each, with ``round`` and the metrics. Values that are not finite numbers are left out."""
        at = now()
        with self._lock:
            wanted = self._trials.get(trial_id)
            if wanted is None:
                return
            for row in rows:
                if row.get(ROUND) is not None:
                    wanted.rows[int(row[ROUND])] = (at, scalar_metrics(row))
            if len(wanted.rows) > ROWS_IN_MEMORY:
                wanted.rows, wanted.on_disk = {}, True
            wanted.version += 1
        self._wake.set()

    def trial_finished(self, trial_id: str, status: str, finals: Mapping[str, Any] | None, folder: Path) -> None:
        """Record that a trial has ended.

        Args:
            trial_id: the trial's id.
            status: finished, stopped, diverged, failed or unfinished.
            finals: the final metrics; texts, such as a guarantee, become tags.
            folder: the trial's folder, with its tables.
        """
        with self._lock:
            wanted = self._trials.get(trial_id)
            if wanted is None:
                return
            wanted.finals, wanted.tags = scalar_metrics(finals or {}), wanted.tags | texts(finals or {})
            wanted.folder, wanted.on_disk = TrialFolder(Path(folder)), True
            wanted.end(status, now())
            record(wanted.folder, wanted)
        self._wake.set()

    def sweep_finished(self, report_files: Iterable[Path], status: str) -> None:
        """Record that the sweep has ended; the files of its report become artifacts in the same subfolders."""
        files = sweep_files(self.folder, report_files)
        with self._lock:
            self._sweep.files, self._sweep.report = files, digest(files)
            self._sweep.end(status, now())
            record(self.folder, self._sweep)
            for wanted in self._trials.values():
                if wanted.status is None:
                    wanted.end("unfinished", now())
        self._wake.set()

    def report_written(self, report_files: Iterable[Path], status: str, tags: Mapping[str, str] | None = None) -> None:
        """Record that the report of a complete sweep was written again; it is sent if it is not the one that was sent.

        Args:
            report_files: the files of the report.
            status: how the sweep has ended.
            tags: tags of a sweep of which nothing is recorded any more.
        """
        files = sweep_files(self.folder, report_files)
        with self._lock:
            sweep, found = self._sweep, digest(files)
            sweep.files = files
            if (sweep.report, sweep.status) == (found, status):
                return
            trials = self._trials.values()
            if not sweep.tags:
                sweep.tags = labels.run_tags(tags or {}, self.folder.path)
                sweep.started = min((trial.started for trial in trials if trial.started), default=sweep.started)
            sweep.report = found
            sweep.end(status, sweep.ended or max((trial.ended for trial in trials), default=0) or now())
            record(self.folder, sweep)
        self._wake.set()

    def reconcile(self, folder: Path, planned: Mapping[str, Planned] | None = None) -> None:
        """Send what MLflow lacks of the sweep's ``folder``, whichever process has written it.

        A trial that this MLflow has completely is skipped, so a complete sweep needs no work.

        Args:
            folder: the sweep's folder.
            planned: how the sweep's trials are named, by id, for those of which nothing is recorded.
        """
        runs = self._store.local_runs()
        with self._lock:
            for trial in Folder(Path(folder)).trials():
                wanted = self._trials.get(trial.id) or restored(trial, (planned or {}).get(trial.id), self._tell)
                if wanted:
                    self._trials[trial.id] = wanted
                    compare(wanted, self._where, self.folder, runs, self._with_models)
            compare(self._sweep, self._where, self.folder, runs)
            if self._sweep.deleted and any(wanted.pending for wanted in self._trials.values()):
                self._sweep.version += 1  # runs of trials are below it, so it is made again, and then completely
        self._wake.set()

    @property
    def without_models(self) -> int:
        """The number of trials whose trained models are to be sent and are not there yet."""
        with self._lock:
            return sum(map(self._lacks_models, self._trials.values()))

    def _lacks_models(self, wanted: PendingTrial) -> bool:
        return self._with_models and lacks_models(wanted, self._where)

    @property
    def is_local(self) -> bool:
        """Whether MLflow is the store beside the results, which ``fedpriv ui`` opens."""
        return self._where == LOCAL

    @property
    def store_is_damaged(self) -> bool:
        """Whether the store beside the results has to be replaced before it takes anything."""
        trouble = self._store.trouble()
        return trouble is not None and trouble.replaceable

    def link(self) -> str:
        """The address of the sweep's ready-made view: on its server, or on the one that ``fedpriv ui`` starts.

        Empty while MLflow does not hold the sweep, and for a store that has no pages.
        """
        server = DEFAULT_SERVER if self.is_local else self._where
        with self._lock:
            known = self._sweep.experiment if self._sweep.there == self._where else ""
        return shared_view.link(server, known) if known and server.startswith(("http://", "https://")) else ""

    @property
    def behind(self) -> bool:
        """Whether there is something left to send to MLflow."""
        return bool(self._pending())

    def close(self, timeout: float = 30.0) -> bool:
        """Send the rest, for at most ``timeout`` seconds, or less if MLflow is away. True if everything was sent."""
        self._closing.set()
        self._wake.set()
        self._done.wait(timeout)
        with self._lock:
            return all(wanted.version == wanted.sent for wanted in (*self._trials.values(), self._sweep))

    def _pending(self) -> list[PendingTrial]:
        """The runs with something to send; those without failures come first, so that no run waits for a failing one."""
        with self._lock:
            pending = [wanted for wanted in (*self._trials.values(), self._sweep) if wanted.pending]
        return sorted(pending, key=lambda wanted: wanted.failures)

    def _work(self) -> None:
        """The thread's loop: wait for events, gather them, send them; after each failure wait longer."""
        away = 0
        while not self._done.is_set():
            self._wake.wait(IDLE_SECONDS)
            self._closing.wait(min(2.0**away, LONGEST_PAUSE) if away else GATHER_SECONDS)
            self._wake.clear()
            last = self._closing.is_set()
            reached = self._send_all()
            away = 0 if reached else away + 1
            if self._pending() and not (last and away):
                self._wake.set()
            elif last:
                self._done.set()

    def _send_all(self) -> bool:
        """Send everything that is pending. False if MLflow cannot be reached."""
        for wanted in self._pending():
            try:
                self._send(wanted)
            except Exception as error:  # no error here may stop the training
                self._store.forget()
                wanted.failures += 1
                trouble = self._store.trouble()
                self.trouble = str(trouble or reason(error))
                if trouble or not is_refusal(error):
                    self._say(AWAY.format(self._where, self.trouble))
                    return False
                wanted.refusals += 1
                if wanted.refusals == ATTEMPTS:
                    self._say(REFUSAL.format(self._where, wanted.name, self.trouble))
        return True

    def _send(self, wanted: PendingTrial) -> None:
        """Send one run in its current version. Raises MLflow's errors."""
        store, sweep = self._store, self._sweep
        with self._lock:
            version, status, ended, rows = wanted.version, wanted.status, wanted.ended, dict(wanted.rows)
            from_disk, files, complete = wanted.on_disk, list(wanted.files), wanted.mark
        store.open("", sweep.name, sweep.started, sweep.tags)
        held = self._opened(wanted)
        whole = bool(complete) and held.tags.get(SENT_TAG) == complete
        if not whole or wanted.again:
            if not status:
                store.resume(held)
            store.describe(held, wanted.name, wanted.params, {**wanted.tags, "status": status or "running"})
            samples = saved_rows(wanted.folder, wanted.started, ended) if wanted.folder and from_disk else {}
            store.send(held, samples | rows)
            if status and status != "unfinished":
                files += trial_files(wanted.folder) if wanted.folder else []
                store.finals(held, wanted.finals, ended)
            there = [(Path(file), below) for file, below in files if Path(file).exists()]
            store.upload(held, there, only_missing=whole)
            self._pages.send(held, wanted, only_missing=whole)
            if status:
                store.end(held, labels.status_in_mlflow(status), ended, complete)
        elif wanted.folder and self._lacks_models(wanted):
            self._pages.send_models(held, wanted.folder)
        with self._lock:
            # Changes since then have a higher version and are sent next time.
            wanted.rows = {round_: row for round_, row in wanted.rows.items() if rows.get(round_) is not row}
            wanted.on_disk = wanted.on_disk and wanted.version != version
            wanted.sent, wanted.failures, wanted.refusals = version, 0, 0
            wanted.again = wanted.again and wanted.version != version
            if status and wanted.version == version:
                wanted.there, wanted.experiment = self._where, store.experiment
                wanted.models = self._where if self._with_models and wanted.trial else wanted.models
                record(wanted.folder or self.folder, wanted)

    def _opened(self, wanted: PendingTrial) -> Held:
        """The run in MLflow; one of an earlier version, or that lost rounds, is made anew, for metrics stay as they are."""
        held = self._store.open(wanted.trial, wanted.name, wanted.started, wanted.tags)
        if (held.former or wanted.anew) and wanted.folder and (wanted.live or wanted.folder.table("rounds").exists()):
            self._store.renew(wanted.trial)
            wanted.models, wanted.anew = "", False
            held = self._store.open(wanted.trial, wanted.name, wanted.started, wanted.tags)
        return held

    def _say(self, sentence: str) -> None:
        """Warn the user, once for each kind of trouble."""
        kind = sentence.partition(":")[0]
        if kind not in self._warned:
            self._warned.add(kind)
            self._tell(sentence)

    def _tell(self, sentence: str) -> None:
        with suppress(Exception):
            self._warn(sentence)
