"""The end of a run without Ray: its trials have ended, and the head tells MLflow; it can be killed at any of its steps."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator import execution
from orchestrator.execution import claim_folder
from orchestrator.preparation import Work
from orchestrator.results.folder import Folder, write_atomically
from orchestrator.results.provenance import origin
from orchestrator.results.record import read_record
from orchestrator.results.tables import read_table, write_trials
from orchestrator.scheduling.trials import trial_rows
from orchestrator.tracking import shared_view
from orchestrator.tracking import tracker as tracking
from orchestrator.tracking.events import MlflowListener
from orchestrator.tracking.local_runs import artifact_folder
from orchestrator.tracking.notebook_screen import screen_of

KILLED = 137
UPLOADING = ".artifact.uploading."
OWN = {"fedpriv.sent", "fedpriv.folder", "fedpriv.sweep", "mlflow.artifactLocation"}  # times and places differ
CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.copyfile"}


def moved(work: Work, results: Path) -> Work:
    """The same work in another folder of results."""
    folder = Folder(results / work.folder.name)
    return replace(work, folder=folder, choices=replace(work.choices, results=results))


def write_short_report(folder: Path, **_: Any) -> list[Path]:
    """Stands for the report, whose figures take seconds: three files that depend on the results alone."""
    from PIL import Image

    report = Folder(folder).report
    write_atomically(report / "summary.csv", Folder(folder).table.read_bytes())
    write_atomically(report / "trade_off.png", lambda file: Image.new("RGB", (900, 9)).save(file, "png"))
    write_atomically(report / "tiny.html", b"<html>")
    return [report / name for name in ("summary.csv", "trade_off.png", "tiny.html")]


def last_second(work: Work, trials: Path, interrupted: bool = False) -> None:
    """What the head does from the last round on: ``trials`` holds what the processes of the trials have written."""
    screen = screen_of(0)
    with claim_folder(work.folder, work.sweep):
        tracker = execution._tracker(work, screen)
        tracker.sweep_started(origin("cpu"))
        write_trials(work.folder, trial_rows(work.folder, work.trials))
        listener = MlflowListener(tracker, work.folder)
        for trial in work.trials:
            listener.on_planned(trial.id, trial.title, json.loads(json.dumps(trial.run.to_dict())), trial.values)
            listener.on_started(trial.id)
        shutil.copytree(trials, work.folder.path / "trials", dirs_exist_ok=True)
        (work.folder.path / ".fedpriv-tune" / "tune").mkdir(parents=True)
        steps.begin()
        for trial in work.trials:
            listener.on_rounds(trial.id, read_table(work.folder.trial(trial.id).table("rounds")).to_pylist())
            if not interrupted:
                listener.on_ended(trial.id, read_record(work.folder.trial(trial.id)) or {})
        shutil.rmtree(work.folder.path / ".fedpriv-tune")
        if interrupted:
            write_trials(work.folder, trial_rows(work.folder, work.trials))
            tracker.sweep_finished([], "unfinished")
            tracker.close(60)
        else:
            execution._close(work, screen, tracker)
            assert tracker.close(60)


def next_run(work: Work) -> None:
    """What the same command does afterwards, with nothing to train."""
    steps.begin()
    assert not work.missing()
    assert execution.execute(work) == 0


class Steps:
    """Counts what this process changes below a folder, and ends it without warning at one of these steps."""

    def __init__(self) -> None:
        self.count, self.last, self.counting = 0, 0, False
        self.below = ""

    def begin(self) -> None:
        self.counting = True

    def watch(self, below: Path, last: int) -> None:
        from sqlalchemy import event
        from sqlalchemy.engine import Engine

        self.below, self.last, self.count, self.counting = str(below), last, 0, False
        sys.addaudithook(self._audit)
        event.listen(Engine, "commit", lambda _: self._step())

    def _audit(self, name: str, given: tuple[Any, ...]) -> None:
        writes = name == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
        if self.counting and (writes or name in CHANGES) and str(given[0]).startswith(self.below):
            self._step()

    def _step(self) -> None:
        if self.counting:
            self.count += 1
            if self.count == self.last:
                os._exit(KILLED)


steps = Steps()


def in_a_process(act: Callable[[], object], below: Path, kill: int = 0) -> bool:
    """Do something in a copy of this process; True if it came to the step at which it is killed. What it prints is dropped."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sys.stdout = sys.stderr = open(below.parent / "log", "a", buffering=1)  # noqa: SIM115
            execution.write_report = write_short_report
            tracking.GATHER_SECONDS = 0.01
            steps.watch(below, kill)
            act()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED), (below.parent / "log").read_text()
    return code == KILLED


def held(results: Path) -> dict[str, Any]:
    """Everything that the store holds, without ids, times and places, in an order of its own."""
    with closing(sqlite3.connect(results / "mlflow.db")) as connection:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query).fetchall()

        names = {run: trial or "" for run, trial in rows(NAMES)}
        assert len(set(names.values())) == len(names), "a run is there twice"
        tags = [(names[run], key, value) for run, key, value in rows("SELECT run_uuid, key, value FROM tags")]
        tags += [("experiment", key, value) for key, value in rows("SELECT key, value FROM experiment_tags")]
        runs = rows("SELECT run_uuid, name, status, lifecycle_stage, end_time > 0, artifact_uri FROM runs")
        inputs = (
            "SELECT i.destination_id, d.name, d.digest FROM inputs i JOIN datasets d ON d.dataset_uuid = i.source_id"
        )
        return {
            "runs": sorted((names[run], *rest) for run, *rest, _ in runs),
            "tags": sorted((run, key, _tag(key, value, names)) for run, key, value in tags if key not in OWN),
            "params": sorted((names[run], *rest) for run, *rest in rows("SELECT run_uuid, key, value FROM params")),
            "metrics": sorted(
                (names[run], *rest) for run, *rest in rows("SELECT run_uuid, key, step, value FROM metrics")
            ),
            "latest": sorted(
                (names[run], *rest) for run, *rest in rows("SELECT run_uuid, key, value FROM latest_metrics")
            ),
            "inputs": sorted((names[run], *rest) for run, *rest in rows(inputs)),
            "artifacts": {names[run]: _files(artifact_folder(uri)) for run, *_, uri in runs},
        }


NAMES = "SELECT r.run_uuid, t.value FROM runs r LEFT JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'fedpriv.trial'"


def _tag(key: str, value: str, names: dict[str, str]) -> str:
    if key == shared_view.TAG:
        return json.dumps(shared_view.unpacked(value))
    for run, name in names.items():
        value = value.replace(run, f"<{name}>")
    return value


def _files(folder: Path) -> dict[str, bytes]:
    """All artifacts; MLflow lists no file with the name that it gives to what it is still writing."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith(UPLOADING))
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}
