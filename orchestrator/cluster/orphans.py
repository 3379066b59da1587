"""What a run that was killed leaves of its Ray, and how a later run ends it.

Ray's processes end by themselves when the command that started them is killed, some of them only after a minute. So the
command records, beside Ray's own folder, its process, those of its Ray, and a word that it alone puts into their
environment. What is on record or has that word, and whose command is gone, is certainly ours; nothing else is ended.
A process is its number and the time at which it started, because numbers are given out again.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from orchestrator.cluster.address import address_file
from orchestrator.results.writing import WriteError, read_plain, write_atomically

WORD = "FEDPRIV_RAY"  # the variable in the environment of Ray's processes
READABLE = (
    "SPT_NOENV"  # keeps Ray's processes, which write titles over their arguments, from overwriting the environment
)
POLITE, LAST = 1.0, 2.0  # seconds from asking a process to end to killing it, and to wait after that

_written: set[Path] = set()  # the records of this process


def records_folder(environment: Mapping[str, str]) -> Path:
    """The folder of this user's records, which need not exist."""
    return address_file(environment).parent.parent / f"fedpriv-{os.geteuid()}"


@contextmanager
def on_record() -> Iterator[None]:
    """Record the Ray that is started in the ``with``, until `off_record`; it starts where nothing can be recorded, too."""
    word, before = secrets.token_hex(16), dict(os.environ)
    _write(word, [])
    os.environ |= {WORD: word, READABLE: "1"}
    try:
        yield
    finally:
        for name in (WORD, READABLE):
            os.environ.pop(name)
            os.environ |= {name: before[name]} if name in before else {}
    children = psutil.Process().children(recursive=True)
    _write(word, [process for process in children if _has(process, word)])


def off_record() -> None:
    """Remove what this process has recorded: its Ray has been shut down."""
    while _written:
        with suppress(OSError):
            _written.pop().unlink()


def end_orphans(environment: Mapping[str, str]) -> list[str]:
    """End what killed runs of this user have left running on this machine.

    Args:
        environment: the environment variables, which say where Ray's folder is.

    Returns:
        Sentences for the user on what was ended, or could not be.
    """
    sentences = []
    for path in _records(records_folder(environment)):
        try:
            record = json.loads(read_plain(path))
            here = record["machine"] == _machine()
            head = _process(record["head"]) if here else None
            orphans = [process for plain in record["processes"] if here and (process := _process(plain))]
            word = str(record["word"])
        except (OSError, ValueError, TypeError, KeyError):
            with suppress(OSError):
                path.unlink()
            continue
        if not here and (record["machine"][0] != _machine()[0]):
            continue  # another machine, or a container, that shares this folder
        if head:
            continue
        if here:
            orphans += [process for process in psutil.process_iter() if _has(process, word) and process not in orphans]
        stubborn = _end([process for process in orphans if process.pid != os.getpid()])
        owner = f"an earlier run (process {record['head'][0]}, killed)"
        if ended := len(orphans) - len(stubborn):
            sentences.append(f"ended {ended} process{'' if ended == 1 else 'es'} that {owner} left behind")
        sentences += [f"process {process.pid} could not be ended; {owner} left it behind" for process in stubborn]
        if not stubborn:
            path.unlink(missing_ok=True)
    return sentences


def _end(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Ask processes to end, and kill those that do not; return the ones that are still there."""
    for send, patience in ((psutil.Process.terminate, POLITE), (psutil.Process.kill, LAST)):
        for process in processes:
            with suppress(psutil.Error):
                send(process)  # psutil makes sure that it is still the same process
        processes = [one for one in psutil.wait_procs(processes, timeout=patience)[1] if not _is_zombie(one)]
    return processes


def _is_zombie(process: psutil.Process) -> bool:
    """Whether a process has ended and is only not forgotten: whoever inherited it does not ask how it ended."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _process(plain: Any) -> psutil.Process | None:
    """The process with this number and start; None if it has ended."""
    number, started = plain
    with suppress(psutil.Error, ValueError):
        process = psutil.Process(int(number))
        if abs(process.create_time() - float(started)) < 0.1 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _has(process: psutil.Process, word: str) -> bool:
    """Whether a process of this user has the word in its environment."""
    with suppress(psutil.Error, OSError):
        return bool(process.uids().real == os.geteuid() and process.environ().get(WORD) == word)
    return False


def _machine() -> list[Any]:
    """What numbers and starts of processes refer to: the host, and when it started."""
    return [socket.gethostname(), round(psutil.boot_time())]


def _records(folder: Path) -> list[Path]:
    """The records of this user; none in a folder that somebody else could have written to."""
    try:
        about = folder.lstat()
    except OSError:
        return []
    private = about.st_uid == os.geteuid() and not about.st_mode & 0o022 and folder.is_dir() and not folder.is_symlink()
    return sorted(folder.glob("*.json")) if private else []


def _write(word: str, processes: list[psutil.Process]) -> None:
    folder, head = records_folder(os.environ), psutil.Process()
    plain = {
        "head": [head.pid, head.create_time()],
        "word": word,
        "machine": _machine(),
        "processes": [[process.pid, process.create_time()] for process in processes],
    }
    with suppress(OSError, WriteError, psutil.Error):
        folder.mkdir(0o700, parents=True, exist_ok=True)
        path = folder / f"{head.pid}-{word}.json"
        write_atomically(path, json.dumps(plain).encode())
        _written.add(path)
