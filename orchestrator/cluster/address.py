"""Which Ray the command uses: a cluster that was named, one that runs on this machine, or Ray
started for this command.

In this order count: ``--address``, the variable RAY_ADDRESS, and the file in which ``ray start``
leaves the address of the node's cluster, if it is this user's own. Whoever is submitted to a
cluster (`ray submit`) names no address, so the file is what makes a sweep use all nodes and not
only the cores of the first one. ``local`` stands for Ray on this machine alone.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOCAL = "local"
AUTO = "auto"
ANSWER_SECONDS = 5.0  # for a connection, and for the first bytes that come back
LONGEST = 4096  # bytes of an address
ALONE = "--address local starts Ray on this machine"
JOIN = "--address HOST:PORT joins the cluster that it names"

# Ray speaks HTTP/2. A client begins with this text and its settings (an empty frame); a server
# answers with its settings.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
# the kind of frame, in its fourth byte, and the bytes of a frame's header
SETTINGS = 4
HEADER = 9


class ClusterError(ValueError):
    """No cluster could be reached or started. The message says which address was tried."""


class StallError(RuntimeError):
    """No trial can go on: the cluster has no room, or Ray has died.

    The message is a sentence for the user.
    """


@dataclass(frozen=True)
class Target:
    """The Ray that the command uses."""

    address: str | None = None  # what Ray is asked to join; None to start it on this machine
    origin: str = ""  # what names the address; empty for this machine
    note: str = ""  # for the user, such as about an old file that names a cluster which is gone

    def __str__(self) -> str:
        return "this machine" if self.address is None else f"{self.address}, from {self.origin}"


def find_target(address: str | None, environment: Mapping[str, str]) -> Target:
    """Choose the Ray for an option ``--address`` and environment variables, and make sure that
    something answers there.

    Raises:
        ClusterError: the address is none, or no Ray answers there; found within some seconds.
    """
    named, origin = (
        (address, "--address") if address else (environment.get("RAY_ADDRESS"), "RAY_ADDRESS")
    )
    if named == LOCAL:
        return Target()
    if named and named != AUTO:
        _reach(named, origin)
        return Target(named, origin)
    file = address_file(environment)
    try:
        running = _own_text(file)
        if running:
            _reach(running, str(file))
            return Target(running, str(file))
    except ClusterError as error:
        if named:
            raise
        return Target(note=f"{error}; `ray stop` removes that file")
    if named:
        raise ClusterError(
            f"{origin} is {AUTO!r}, and no cluster runs on this machine: `ray start` would "
            f"have written its address to {file}; give the address as HOST:PORT"
        )
    return Target()


def address_file(environment: Mapping[str, str]) -> Path:
    """The file in which ``ray start`` leaves the address of the cluster of this machine."""
    folder = environment.get("RAY_TMPDIR")
    if folder is None and sys.platform.startswith("linux"):
        folder = environment.get("TMPDIR")
    return Path(folder or "/tmp", "ray", "ray_current_cluster")


def _own_text(file: Path) -> str:
    """What this user's Ray wrote to its file; empty if there is none.

    Ray lets every user write to the folder of that file, and whose cluster is joined runs what code
    it likes here.

    Raises:
        ClusterError: the file is a link, or no file of this user.
    """
    try:
        with open(
            os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), errors="replace"
        ) as opened:
            status = os.fstat(opened.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                return opened.read(LONGEST).strip()
            reason = "it is no file of this user"
    except FileNotFoundError:
        return ""
    except OSError as error:
        reason = str(error.strerror)
    raise ClusterError(f"{file} is not followed ({reason}); {JOIN}")


def _reach(address: str, origin: str) -> None:
    """Make sure that a Ray answers at ``address``.

    Raises ClusterError with a sentence that names ``origin``.
    """
    where = address if origin == "--address" else f"{address} ({origin})"
    if address.startswith(("http://", "https://", "ray://")):
        raise ClusterError(
            f"{where} is for jobs (`ray job submit`) or Ray's client; a cluster is joined "
            "at HOST:PORT, as `ray start` says it"
        )
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ClusterError(
            f"{where} is no address of a Ray cluster: HOST:PORT, {AUTO!r} or {LOCAL!r}"
        )
    try:
        is_ray = _speaks(host.strip("[]"), int(port))
    except (OSError, UnicodeError) as error:  # the latter of a host's name that cannot be encoded
        said = str(getattr(error, "strerror", None) or error).lower()
        reason = "no answer" if isinstance(error, TimeoutError) else said
        raise ClusterError(f"no Ray cluster answers at {where}: {reason}; {ALONE}") from error
    if not is_ray:
        raise ClusterError(f"what answers at {where} is not Ray; {ALONE}")


def _speaks(host: str, port: int) -> bool:
    """Whether what answers speaks as Ray does, or has TLS; looking up a name takes as long as
    the system allows.
    """
    with socket.create_connection((host, port), timeout=ANSWER_SECONDS) as connection:
        connection.sendall(PREFACE)
        encrypted = os.environ.get("RAY_USE_TLS", "0") == "1"
        frame = b"" if encrypted else connection.recv(HEADER, socket.MSG_WAITALL)
        return encrypted or (len(frame) == HEADER and frame[3] == SETTINGS)
