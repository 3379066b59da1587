"""What a run that was killed leaves of its Ray, and how a later run ends it.

Ray's processes end by themselves when the command that started them is killed, some of them only after a minute. So the
command records what it starts, beside Ray's own folder: its process, a word that it alone puts into the environment of
Ray's processes, and those that there are once Ray has started. What is on record, has the same number and start, or that
word, and whose command is no longer there, is certainly ours. Nothing else is ended: no cluster that was joined, no Ray of
another run that is at work, of another user, or of anything but this command.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.cluster.address import address_file
from orchestrator.cluster.processes import Process, descendants, end, machine, marked, running
from orchestrator.results.folder import WriteError, write_atomically
from orchestrator.results.integrity import Damage, DamageError, read_sealed, sealed, set_aside

WORD = "FEDPRIV_RAY"  # the variable in the environment of Ray's processes
# Ray's processes write titles over their arguments; this keeps them from writing over their environment as well.
READABLE = {"SPT_NOENV": "1"}
WORD_LENGTH = 32
PRIVATE, OTHERS_WRITE = 0o700, 0o022
NOTHING = "nothing is ended on its word"

_written: set[Path] = set()  # the records of this process


@dataclass(frozen=True)
class Record:
    """What one run says of itself.

    Attributes:
        head: the process of the command.
        word: the value of the variable `WORD`.
        machine: where the processes are, see `orchestrator.cluster.processes.machine`.
        processes: those of Ray that there were when it had started.
    """

    head: Process
    word: str
    machine: dict[str, str]
    processes: frozenset[Process] = field(default_factory=frozenset)

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON has it."""
        numbers = sorted([one.number, one.started] for one in self.processes)
        head = [self.head.number, self.head.started]
        return {"head": head, "word": self.word, "machine": self.machine, "processes": numbers}


def records_folder(environment: Mapping[str, str]) -> Path:
    """The folder of this user's records, which need not exist."""
    return address_file(environment).parent.parent / f"fedpriv-{os.geteuid()}"


@contextmanager
def on_record() -> Iterator[None]:
    """Record the Ray that is started in the ``with``, until `off_record`.

    Where nothing can be recorded, Ray is started all the same.
    """
    head, here = running(os.getpid()), machine()
    if head is None or here is None:
        yield
        return
    record = Record(head, secrets.token_hex(WORD_LENGTH // 2), here)
    _write(record)
    added = READABLE | {WORD: record.word}
    before = {name: os.environ.get(name) for name in added}
    os.environ |= added
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    _write(Record(head, record.word, here, frozenset(descendants(_started()))))


def off_record() -> None:
    """Remove what this process has recorded: its Ray has been shut down.

    Containers that share a folder have processes of the same number, so only what was written here is removed.
    """
    while _written:
        with suppress(OSError):
            _written.pop().unlink()


def end_left_behind(environment: Mapping[str, str]) -> list[str]:
    """End what earlier runs of this user have left running on this machine.

    Args:
        environment: the environment variables, which say where Ray's folder is.

    Returns:
        Sentences for the user: what was ended, and which records cannot be believed.
    """
    folder, here = records_folder(environment), machine()
    if here is None or not os.path.lexists(folder):
        return []
    if problem := _not_ours(folder, stat.S_ISDIR):
        return [f"{folder} {problem}: what killed runs leave running is neither recorded there nor ended"]
    sentences: list[str] = []
    records = {path: record for path in sorted(folder.glob("*.json")) if (record := _believed(path, sentences))}
    over = {path: record for path, record in records.items() if _is_over(record, here)}
    at_work = {record.head for path, record in records.items() if path not in over}
    processes = _processes_of(over, here, at_work)
    for path, record in over.items():
        found = processes[path]
        stubborn = end(found)
        if ended := len(found - stubborn):
            sentences.append(f"ended {_count(ended)} that an earlier run ({_name(record.head)}, killed) left behind")
        if stubborn:
            names = ", ".join(_name(one) for one in sorted(stubborn))
            sentences.append(
                f"{names}: could not be ended; an earlier run ({_name(record.head)}, killed) left it behind"
            )
        else:
            path.unlink(missing_ok=True)
    return sentences


def _processes_of(over: Mapping[Path, Record], here: dict[str, str], spared: set[Process]) -> dict[Path, set[Process]]:
    """What is left of each of these runs: their recorded processes, and all that have their word."""
    mine = {path: record for path, record in over.items() if record.machine == here}
    recorded = {path: {one for one in record.processes if running(one.number) == one} for path, record in mine.items()}
    words = {f"{WORD}={record.word}": path for path, record in mine.items()}
    for process, word in marked(words) if words else ():
        if process.started >= mine[words[word]].head.started:
            recorded[words[word]].add(process)
    spared = spared | {one for one in [running(os.getpid())] if one}
    return {path: recorded.get(path, set()) - spared for path in over}


def _is_over(record: Record, here: dict[str, str]) -> bool:
    """Whether the run has ended for certain: its process is gone, or the machine has been started again since."""
    if record.machine == here:
        return running(record.head.number) != record.head
    return record.machine["host"] == here["host"] and record.machine["boot"] != here["boot"]


def _believed(path: Path, sentences: list[str]) -> Record | None:
    """The record in a file; None, with a sentence, if it is not what a run of this user has written."""
    if problem := _not_ours(path, stat.S_ISREG):
        sentences.append(f"{path} {problem}: {NOTHING}")
        return None
    try:
        return _read(path)
    except FileNotFoundError:  # the run has ended just now
        return None
    except DamageError as error:
        with suppress(OSError):
            sentences.append(f"{error}: set aside as {set_aside(path).name}, and {NOTHING}")
        return None


def _read(path: Path) -> Record:
    held = read_sealed(path)
    try:
        head, processes = _process(held["head"], least=1), [_process(one) for one in held["processes"]]
        word, where = held["word"], held["machine"]
        if not isinstance(word, str) or len(word) != WORD_LENGTH or not word.isalnum():
            raise ValueError(word)
        if where.keys() != {"host", "boot", "namespace"} or not all(isinstance(one, str) for one in where.values()):
            raise ValueError(where)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamageError(Damage(path, "is not what was saved: it is no record of a run")) from error
    return Record(head, word, where, frozenset(processes))


def _process(held: Any, least: int = 2) -> Process:
    """The process in a record; number 1 is what a container was started for, which may be the command, but never Ray's."""
    number, started = held
    if type(number) is not int or type(started) is not int or number < least or started < 0:
        raise ValueError(held)
    return Process(number, started)


def _not_ours(path: Path, is_kind: Callable[[int], bool]) -> str | None:
    """Why a file or folder cannot be this user's own, to be read after its name; None if it is."""
    try:
        held = path.lstat()
    except OSError:
        return None
    if stat.S_ISLNK(held.st_mode):
        return "is a link, which is not followed"
    if held.st_uid != os.geteuid():
        return "belongs to another user"
    if not is_kind(held.st_mode):
        return "is not what a run has made there"
    return "can be written by others" if stat.S_IMODE(held.st_mode) & OTHERS_WRITE else None


def _write(record: Record) -> None:
    folder = records_folder(os.environ)
    with suppress(OSError, WriteError):
        folder.mkdir(PRIVATE, parents=True, exist_ok=True)
        if not _not_ours(folder, stat.S_ISDIR):
            path = folder / f"{record.head.number}-{record.word}.json"
            write_atomically(path, json.dumps(sealed(record.to_dict())).encode())
            _written.add(path)


def _started() -> list[int]:
    """The numbers of the processes that Ray has started for this one; none where this Ray does not tell."""
    from ray._private import worker

    lists = getattr(worker._global_node, "all_processes", {}).values()
    return [info.process.pid for infos in lists for info in infos]


def _name(process: Process) -> str:
    return f"process {process.number}"


def _count(number: int) -> str:
    return f"{number} process{'' if number == 1 else 'es'}"
