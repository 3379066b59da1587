"""What killed runs leave running: sleepers stand for Ray's processes, and for those of others, which must not be touched."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cluster import left_behind
from orchestrator.cluster.left_behind import (
    WORD,
    Record,
    end_left_behind,
    off_record,
    on_record,
    records_folder,
)
from orchestrator.cluster.processes import Process, machine, running
from orchestrator.results.integrity import sealed

pytestmark = pytest.mark.skipif(machine() is None, reason="needs /proc")

A, B = "a" * 32, "b" * 32


class Sleeper:
    """A process that ends only if it is told to."""

    def __init__(self, word: str | None = None) -> None:
        variables = {WORD: word} if word else {}
        self.child = subprocess.Popen(["sleep", "60"], env=os.environ | variables)
        found = running(self.child.pid)
        assert found is not None
        self.process = found

    @property
    def is_alive(self) -> bool:
        return self.child.poll() is None

    def stop(self) -> Process:
        self.child.kill()
        self.child.wait()
        return self.process


@pytest.fixture
def sleeper() -> Iterator[Callable[..., Sleeper]]:
    begun: list[Sleeper] = []

    def begin(word: str | None = None) -> Sleeper:
        begun.append(Sleeper(word))
        return begun[-1]

    yield begin
    for one in begun:
        one.stop()


@pytest.fixture
def killed(sleeper) -> Process:
    """A head that was killed: it started before all others, and is gone."""
    return sleeper().stop()


@pytest.fixture
def variables(tmp_path, monkeypatch) -> dict[str, str]:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    return {"RAY_TMPDIR": str(tmp_path)}


def saved(variables: dict[str, str], record: Record) -> Path:
    folder = records_folder(variables)
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{record.head.number}-{record.word}.json"
    path.write_text(json.dumps(sealed(record.to_dict())))
    return path


def record_of(head: Process, *processes: Process, word: str = A) -> Record:
    return Record(head, word, machine(), frozenset(processes))


def test_without_records_no_process_is_looked_at(variables, monkeypatch):
    monkeypatch.setattr(left_behind, "marked", lambda _: pytest.fail("all processes were read"))
    assert end_left_behind(variables) == []
    assert not records_folder(variables).exists()


def test_what_a_killed_run_has_recorded_is_ended_and_nothing_else(variables, killed, sleeper):
    one, other, foreign = sleeper(), sleeper(), sleeper()
    path = saved(variables, record_of(killed, one.process, other.process))
    told = f"ended 2 processes that an earlier run (process {killed.number}, killed) left behind"
    assert end_left_behind(variables) == [told]
    assert one.child.wait() == other.child.wait() == -signal.SIGTERM
    assert foreign.is_alive
    assert not path.exists()
    assert end_left_behind(variables) == []


def test_what_came_later_is_known_by_the_word_in_its_environment(variables, killed, sleeper):
    worker, of_another_run = sleeper(A), sleeper(B)
    saved(variables, record_of(killed))
    assert end_left_behind(variables) == [
        f"ended 1 process that an earlier run (process {killed.number}, killed) left behind"
    ]
    assert worker.child.wait() == -signal.SIGTERM
    assert of_another_run.is_alive


def test_of_a_run_whose_processes_have_ended_nothing_is_said(variables, killed, sleeper):
    path = saved(variables, record_of(killed, sleeper().stop()))
    assert end_left_behind(variables) == []
    assert not path.exists()


def test_a_run_that_is_at_work_is_left_alone(variables, sleeper):
    head, raylet, worker = sleeper(), sleeper(), sleeper(A)
    path = saved(variables, record_of(head.process, raylet.process))
    assert end_left_behind(variables) == []
    assert head.is_alive and raylet.is_alive and worker.is_alive
    assert path.exists()


def test_a_run_within_a_worker_of_a_killed_one_is_left_alone(variables, killed, sleeper):
    """It has the word of the other in its environment; its own Ray has its own."""
    head, worker = sleeper(A), sleeper(B)
    saved(variables, record_of(killed))
    saved(variables, record_of(head.process, worker.process, word=B))
    assert end_left_behind(variables) == []
    assert head.is_alive and worker.is_alive


def test_this_process_is_never_ended(variables, killed, monkeypatch):
    saved(variables, record_of(killed, running(os.getpid())))
    assert end_left_behind(variables) == []


def test_numbers_that_were_given_to_other_programs_since_are_left_alone(variables, killed, sleeper):
    head, other = sleeper(), sleeper()
    earlier = replace(head.process, started=head.process.started - 1)
    path = saved(variables, record_of(earlier, replace(other.process, started=other.process.started - 1)))
    assert end_left_behind(variables) == []
    assert head.is_alive and other.is_alive
    assert not path.exists()  # the run itself is over


def test_a_process_with_the_word_that_is_older_than_the_run_is_left_alone(variables, killed, sleeper):
    older = sleeper(A)
    saved(variables, record_of(replace(killed, started=older.process.started + 1)))
    assert end_left_behind(variables) == []
    assert older.is_alive


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"host": "other", "boot": "other"}, True),
        ({"namespace": "pid:[1]"}, True),
        ({"boot": "before"}, False),
    ],
)
def test_numbers_of_another_machine_container_or_start_mean_nothing_here(change, kept, variables, killed, sleeper):
    recorded, worker = sleeper(), sleeper(A)
    record = record_of(killed, recorded.process)
    path = saved(variables, replace(record, machine=record.machine | change))
    assert end_left_behind(variables) == []
    assert recorded.is_alive and worker.is_alive
    assert path.exists() == kept


def test_two_killed_runs_are_told_apart(variables, sleeper):
    heads = sorted(sleeper().stop() for _ in "ab")
    sleepers = [sleeper(), sleeper(B)]
    saved(variables, record_of(heads[0], sleepers[0].process))
    saved(variables, record_of(heads[1], word=B))
    told = [f"ended 1 process that an earlier run (process {head.number}, killed) left behind" for head in heads]
    assert sorted(end_left_behind(variables)) == sorted(told)
    assert not any(one.child.wait() == 0 for one in sleepers)


def test_what_cannot_be_ended_is_named_and_stays_on_record(variables, killed, sleeper, monkeypatch):
    one = sleeper()
    path = saved(variables, record_of(killed, one.process))
    monkeypatch.setattr(left_behind, "end", set)
    assert end_left_behind(variables) == [
        f"process {one.process.number}: could not be ended; an earlier run (process {killed.number}, killed) left it behind"
    ]
    assert path.exists()


DAMAGED = {
    "empty": lambda _: b"",
    "truncated": lambda text: text[: len(text) // 2],
    "of other bytes": lambda _: b"\xff\x00\x01",
    "a list": lambda _: b"[1, 2]",
    "changed": lambda text: text.replace(b'"word": "a', b'"word": "c'),
    "without processes": lambda _: json.dumps(sealed({"head": [5, 5], "word": A, "machine": machine()})).encode(),
}
NUMBERS = (
    [-1, 0],
    [0, 0],
    [1, -1],
    [True, 5],
    [5],
    [5, 6, 7],
    [5, -6],
    ["5", 6],
    [5.0, 6],
    [2**80],
    None,
    "ab",
    {"a": 1},
)


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_record_is_named_once_and_nothing_is_ended_on_its_word(damage, variables, killed, sleeper):
    recorded, worker = sleeper(), sleeper(A)
    path = saved(variables, record_of(killed, recorded.process))
    path.write_bytes(DAMAGED[damage](path.read_bytes()))
    (said,) = end_left_behind(variables)
    assert said.startswith(f"{path} is ")
    assert said.endswith(f": set aside as {path.name}.damaged, and nothing is ended on its word")
    assert recorded.is_alive and worker.is_alive
    assert end_left_behind(variables) == []


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
@pytest.mark.parametrize("place", ["head", "processes"])
def test_numbers_that_no_process_has_are_damage(numbers, place, variables, killed):
    record = record_of(killed, killed).to_dict()
    path = saved(variables, record_of(killed))
    path.write_text(json.dumps(sealed(record | {place: numbers if place == "head" else [numbers]})))
    (said,) = end_left_behind(variables)
    assert "it is no record of a run" in said


def test_the_first_process_of_a_container_may_be_a_run_but_not_of_its_ray(variables, killed):
    first = running(1)
    assert first is not None
    path = saved(variables, record_of(first))
    assert end_left_behind(variables) == []
    assert path.exists()  # it is at work
    saved(variables, record_of(killed, first, word=B))
    (said,) = end_left_behind(variables)
    assert "it is no record of a run" in said


@pytest.mark.parametrize("change", [{"word": ""}, {"word": "FEDPRIV"}, {"word": 5}, {"machine": {}}, {"machine": "m"}])
def test_other_values_that_no_record_has_are_damage(change, variables, killed):
    path = saved(variables, record_of(killed))
    path.write_text(json.dumps(sealed(record_of(killed).to_dict() | change)))
    assert "it is no record of a run" in end_left_behind(variables)[0]


def test_a_link_in_place_of_a_record_is_not_followed(variables, killed, sleeper, tmp_path):
    recorded = sleeper()
    path = saved(variables, record_of(killed, recorded.process))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    said = f"{path} is a link, which is not followed: nothing is ended on its word"
    assert end_left_behind(variables) == [said]
    assert recorded.is_alive and path.is_symlink()


FOLDERS = {
    "is a link, which is not followed": lambda folder: (
        folder.rename(f"{folder}-2"),
        folder.symlink_to(f"{folder}-2"),
    ),
    "can be written by others": lambda folder: folder.chmod(0o777),
    "is not what a run has made there": lambda folder: (folder.rename(f"{folder}-2"), folder.write_text("")),
}


@pytest.mark.parametrize("problem", FOLDERS)
def test_a_folder_that_is_not_ours_alone_is_not_used(problem, variables, killed, sleeper, monkeypatch):
    monkeypatch.setattr(left_behind, "_started", list)
    recorded = sleeper()
    folder = saved(variables, record_of(killed, recorded.process)).parent
    FOLDERS[problem](folder)
    (said,) = end_left_behind(variables)
    assert said.startswith(f"{folder} {problem}: what killed runs leave running is neither recorded")
    with on_record():
        pass
    assert recorded.is_alive
    assert not [path for path in folder.parent.rglob("*.json") if path.name.startswith(f"{os.getpid()}-")]


def test_the_folder_and_the_records_of_another_user_are_not_used(variables, killed, sleeper, monkeypatch):
    recorded, me = sleeper(), os.geteuid()
    folder = saved(variables, record_of(killed, recorded.process)).parent
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert end_left_behind(variables) == []  # the other user's folder has another name
    folder.rename(records_folder(variables))
    (said,) = end_left_behind(variables)
    assert "belongs to another user" in said
    assert recorded.is_alive


def test_a_run_is_on_record_from_before_ray_starts_until_it_has_shut_down(variables, sleeper, monkeypatch):
    monkeypatch.delenv(WORD, raising=False)
    raylet = sleeper()
    monkeypatch.setattr(left_behind, "_started", lambda: [raylet.process.number])
    with on_record():
        (path,) = records_folder(variables).iterdir()
        word = os.environ[WORD]
        before = left_behind._read(path)
        worker = sleeper(word)
    after = left_behind._read(path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert WORD not in os.environ and "SPT_NOENV" not in os.environ
    assert before == Record(running(os.getpid()), word, machine())
    assert after == replace(before, processes=frozenset({raylet.process}))
    assert end_left_behind(variables) == []  # this process is at work
    namesake = saved(variables, replace(before, word=A))  # of another container that shares the folder
    off_record()
    assert not path.exists() and namesake.exists()
    assert raylet.is_alive and worker.is_alive


def test_ray_starts_also_where_nothing_can_be_recorded(variables, monkeypatch):
    monkeypatch.setattr(left_behind, "_started", list)
    records_folder(variables).write_text("a file")
    with on_record():
        assert WORD in os.environ
    off_record()
    monkeypatch.setattr(left_behind, "machine", lambda: None)
    with on_record():
        assert WORD not in os.environ
