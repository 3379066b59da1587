"""Damage of what a sweep has besides its trials: MLflow's store, its own files, folders that are links or files."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from orchestrator.results.integrity import file_checksum
from tests.support import damage

NAME = "tiny"
Change = Callable[[Path, Path], object]
"""``change(path, outside)`` damages what is at ``path``; ``outside`` is a folder of somebody else."""
Then = Literal["restored", "refused", "renewed", "either", "deleted"]


@dataclass(frozen=True)
class Case:
    """A damaged folder of results.

    Attributes:
        name: what happens to which file.
        path: the file or folder, below the folder of all results.
        change: the damage.
        then: "restored": the next run restores all, with the exit code 0; "refused": it ends with the code 2 and a
            sentence that names ``path``; "renewed": so, and restores all with ``--new-store``; "either": one of them;
            "deleted": as "restored", but for MLflow, where the user has deleted runs, which stay deleted.
        checked: the exit code of ``fedpriv check``; None: any but a crash.
    """

    name: str
    path: str
    change: Change
    then: Then = "restored"
    checked: int | None = None


def first_trial(results: Path) -> Path:
    return sorted(path for path in (results / NAME / "trials").iterdir() if path.is_dir())[0]


def removed(path: Path, _: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def a_file(path: Path, outside: Path) -> None:
    removed(path, outside) if os.path.lexists(path) else None
    path.write_text("a file")


def a_folder(path: Path, outside: Path) -> None:
    removed(path, outside) if os.path.lexists(path) else None
    path.mkdir()
    (path / "inside").write_text("of somebody")


def a_pipe(path: Path, outside: Path) -> None:
    removed(path, outside) if os.path.lexists(path) else None
    os.mkfifo(path)


def a_link(path: Path, outside: Path) -> None:
    """The file or folder lies elsewhere, and a link to it is in its place."""
    if not os.path.lexists(path):
        path.mkdir()
    shutil.move(path, outside / path.name)
    path.symlink_to(outside / path.name)


def a_link_to_others(path: Path, outside: Path) -> None:
    """A link to a folder or file of somebody else."""
    is_file = path.is_file()
    removed(path, outside) if os.path.lexists(path) else None
    path.symlink_to(outside / "letter.txt" if is_file else outside / "letters")


def of(way: damage.Way) -> Change:
    return lambda path, _: way(path, path)


def content(text: str | bytes) -> Change:
    return of(damage.text(text))


def other_data_base(path: Path, _: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as base:
        base.execute("create table letters (id integer)")
        base.commit()


def statement(sql: str) -> Change:
    """The data base of MLflow after a statement."""

    def change(path: Path, _: Path) -> None:
        with closing(sqlite3.connect(path)) as base:
            base.execute(sql)
            base.commit()

    return change


def pages(path: Path, _: Path) -> None:
    """Several pages of a data base are overwritten, but not its first."""
    size = path.stat().st_size
    with open(path, "r+b") as file:
        for at in range(8192, size, 12288):
            file.seek(at)
            file.write(os.urandom(2048))


def mapping(**entries: Any) -> Change:
    return of(damage.unsealed(lambda held: held.update(entries)))


def edited_table(path: Path, _: Path) -> None:
    frame = pd.read_parquet(path)
    frame["accuracy"] += 0.125
    frame.to_parquet(path)


RUNNING = "update runs set status = 'RUNNING', end_time = null where run_uuid "


def end_lost(path: Path, outside: Path) -> None:
    """As a kill between the last trial and the report leaves it; ``path`` is the sweep's folder."""
    removed(path / "report", outside)
    mapping(status=None, ended=0, there="", files=[], report="")(path / "tracking.json", outside)
    statement(RUNNING + "not in (select run_uuid from tags where key = 'mlflow.parentRunId')")(
        path.parent / "mlflow.db", outside
    )


def trial_end_lost(path: Path, outside: Path) -> None:
    """The same of a trial; ``path`` is its file."""
    mapping(status=None, ended=0, there="")(path, outside)
    of_trial = f"key = 'fedpriv.trial' and value = '{path.parent.name}'"
    statement(f"{RUNNING} in (select run_uuid from tags where {of_trial})")(path.parents[3] / "mlflow.db", outside)


def leftovers(path: Path, _: Path) -> None:
    """Files that a killed process was writing; ``path`` is the sweep's folder."""
    for place in (path, path / "report", first_trial(path.parent)):
        (place / ".fedpriv-result.json-1-1.tmp").write_text("half")
    (path / ".fedpriv-tune" / "tune").mkdir(parents=True)
    (path / ".fedpriv-tune" / "tune" / "tuner.pkl").write_bytes(damage.GARBAGE)


def half_a_report(path: Path, _: Path) -> None:
    files = sorted(path.iterdir())
    for file in files[::2]:
        file.unlink()
    for file in files[1::2]:
        os.truncate(file, file.stat().st_size // 2)


FILES: dict[str, Change] = {
    "missing": removed,
    "empty": of(damage.empty),
    "half": of(damage.half),
    "garbage": of(damage.garbage),
    "a folder": a_folder,
}
TRIAL = f"{NAME}/trials/*"


def _store() -> list[Case]:
    base = "mlflow.db"
    renewed = {how: FILES[how] for how in ("half", "garbage")} | {"another data base": other_data_base, "pages": pages}
    cases = [Case(f"{base}: {how}", base, change, "renewed") for how, change in renewed.items()]
    lost = "delete from runs where run_uuid in (select run_uuid from tags where key = 'fedpriv.trial' limit 1)"
    of_trials = "run_uuid in (select run_uuid from tags where key = 'fedpriv.trial')"
    return [
        *cases,
        Case(f"{base}: missing", base, removed),
        Case(f"{base}: empty", base, FILES["empty"], "either"),
        Case(f"{base}: a folder", base, a_folder, "refused"),
        Case(f"{base}: a pipe", base, a_pipe, "refused"),
        Case(f"{base}: a link to another file", base, a_link_to_others, "either"),
        Case(f"{base}: a table is gone", base, statement("drop table metrics"), "renewed"),
        Case(f"{base}: metrics of the trials are gone", base, statement(f"delete from metrics where {of_trials}")),
        Case(f"{base}: a run is gone", base, statement(lost)),
        Case(f"{base}: runs were deleted", base, statement("update runs set lifecycle_stage = 'deleted'"), "deleted"),
        Case("mlartifacts: missing", "mlartifacts", removed),
        Case("mlartifacts: a file", "mlartifacts", a_file, "refused"),
        Case("mlartifacts: a link", "mlartifacts", a_link, "either"),
        Case("mlartifacts: a link to others", "mlartifacts", a_link_to_others, "either"),
    ]


def _tracking() -> list[Case]:
    cases = []
    for where, file in (("sweep", f"{NAME}/tracking.json"), ("trial", f"{TRIAL}/tracking.json")):
        ways = {
            **{how: FILES[how] for how in ("missing", "empty", "half", "garbage", "a folder")},
            "a list": content("[]"),
            "texts as times": mapping(started="yesterday", ended="today"),
            "numbers as tags": mapping(tags=5),
            "files of somebody else": mapping(files=[["/etc/hostname", ""]]),
            "very deep": of(damage.deep()),
        }
        cases += [
            Case(f"tracking.json of the {where}: {how}", file, change, "refused" if change is a_folder else "restored")
            for how, change in ways.items()
        ]
    return [
        *cases,
        Case("a kill before the report", NAME, end_lost),
        Case("a kill before the end of a trial's run", f"{TRIAL}/tracking.json", trial_end_lost),
        Case("what a kill left", NAME, leftovers),
    ]


def _sweep() -> list[Case]:
    mark, sweep, table, lock = (
        f"{NAME}/{name}" for name in (".fedpriv.json", "sweep.yaml", "trials.parquet", ".fedpriv.lock")
    )
    declared, report = f"{NAME}/declared.json", f"{NAME}/report"
    damaged = [
        Case(f".fedpriv.json: {how}", mark, FILES[how], "either", 1) for how in ("empty", "half", "garbage", "a folder")
    ]
    return [
        *damaged,
        Case(".fedpriv.json: missing", mark, removed, "either"),
        Case(".fedpriv.json: of another sweep", mark, mapping(name="other"), "either"),
        Case(".fedpriv.json: a number as name", mark, mapping(name=5), "either", 1),
        *(Case(f"sweep.yaml: {how}", sweep, FILES[how], checked=1) for how in ("missing", "empty", "garbage")),
        Case("sweep.yaml: edited", sweep, of(damage.appended), checked=1),
        Case("sweep.yaml: a folder", sweep, a_folder, "either", 1),
        *(Case(f"trials.parquet: {how}", table, FILES[how], checked=1) for how in ("empty", "half", "garbage")),
        Case("trials.parquet: missing", table, removed),
        Case("trials.parquet: edited", table, edited_table, checked=1),
        Case("trials.parquet: a folder", table, a_folder, "either", 1),
        Case("declared.json: garbage", declared, content(damage.GARBAGE)),
        Case("declared.json: numbers", declared, content('[{"slot": 5, "name": ["x"]}, 7]')),
        Case("declared.json: a folder", declared, a_folder, "either"),
        Case("report: missing", report, removed),
        Case("report: half", report, half_a_report),
        Case("report: a file", report, a_file, "either"),
        Case("report: a link", report, a_link_to_others, "either"),
        Case("report: a page that is a link", f"{report}/{NAME}.html", a_link_to_others, "either"),
        Case("shadows: a file", f"{NAME}/shadows", a_file, "either"),
        Case("shadows: a link", f"{NAME}/shadows", a_link_to_others, "either"),
        Case("trials: a file", f"{NAME}/trials", a_file, "refused"),
        Case("trials: a link", f"{NAME}/trials", a_link, "either"),
        Case("trials: a link to others", f"{NAME}/trials", a_link_to_others, "refused"),
        Case("a trial: a link", TRIAL, a_link, "either"),
        Case("a trial's record: a pipe", f"{TRIAL}/result.json", a_pipe, "either", 1),
        Case("a trial's table: a link", f"{TRIAL}/clients.parquet", a_link, "either"),
        Case("the sweep: a link", NAME, a_link, "either"),
        Case("the sweep: a file", NAME, a_file, "refused"),
        Case("the lock: a folder", lock, a_folder, "either"),
        Case("the lock: a link", lock, a_link_to_others, "either"),
        Case("the lock: a pipe", lock, a_pipe, "either"),
        Case("a file of somebody else among the trials", f"{NAME}/trials/notes.txt", a_file),
        Case("a folder of somebody else among the trials", f"{NAME}/trials/notes", a_folder),
    ]


CASES = [*_store(), *_tracking(), *_sweep()]


def target(results: Path, case: Case) -> Path:
    """The path of a case; of several trials the first."""
    return (
        Path(str(results / case.path).replace(str(results / TRIAL), str(first_trial(results))))
        if "*" in case.path
        else results / case.path
    )


def letters(outside: Path) -> dict[str, str]:
    """Make a folder of somebody else with a file and a folder in it, and return what it holds."""
    (outside / "letters").mkdir(parents=True)
    for name in ("letter.txt", "letters/one.txt"):
        (outside / name).write_text(f"Dear friend, this is {name}.")
    return held_outside(outside)


def held_outside(outside: Path) -> dict[str, str]:
    """The checksum of all that the folder of somebody else holds."""
    return {
        str(path.relative_to(outside)): file_checksum(path) if path.is_file() else ""
        for path in sorted(outside.rglob("*"))
    }
