"""Which Ray the command uses, and what answers there: servers of a few lines stand for Ray and
for others.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import commands
from orchestrator.cluster.address import (
    PREFACE,
    SETTINGS,
    ClusterError,
    Target,
    address_file,
    find_target,
)
from orchestrator.commands import Choices, prepare
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import parse_sweep
from tests.support.local_cluster import free_port

RAY = bytes([0, 0, 24, SETTINGS, 0, 0, 0, 0, 0])
WEB = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@pytest.fixture
def served() -> Iterator[Callable[[bytes], str]]:
    """Start a server that answers a client's first words with what the test says; returns its
    address.
    """
    servers: list[socket.socket] = []

    def serve(answer: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def talk() -> None:
            try:
                connection, _ = server.accept()
            except OSError:
                return  # nobody has asked before the end
            with connection:
                assert connection.recv(len(PREFACE)) == PREFACE
                connection.sendall(answer)

        threading.Thread(target=talk, daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield serve
    for server in servers:
        server.close()


def left(folder: Path, address: str) -> dict[str, str]:
    """The variables under which Ray's file, with ``address`` in it, is in ``folder``."""
    variables = {"RAY_TMPDIR": str(folder)}
    address_file(variables).parent.mkdir()
    address_file(variables).write_text(f"{address}\n")
    return variables


def test_without_an_address_or_a_cluster_here_ray_is_started(tmp_path):
    assert find_target(None, {"RAY_TMPDIR": str(tmp_path)}) == Target()


@pytest.mark.parametrize(
    ("asked", "variable"), [("local", None), (None, "local"), ("local", "10.0.0.1:6379")]
)
def test_local_joins_nothing_even_if_a_cluster_runs_here(asked, variable, tmp_path, served):
    variables = left(tmp_path, served(RAY)) | ({"RAY_ADDRESS": variable} if variable else {})
    assert find_target(asked, variables) == Target()


def test_the_option_counts_before_the_variable(served, tmp_path):
    first, second = served(RAY), served(RAY)
    assert find_target(first, {"RAY_ADDRESS": second}) == Target(first, "--address")
    assert find_target(None, {"RAY_ADDRESS": second}) == Target(second, "RAY_ADDRESS")


@pytest.mark.parametrize("asked", [None, "auto"])
def test_a_cluster_that_runs_here_is_joined_and_its_file_is_named(asked, served, tmp_path):
    address = served(RAY)
    variables = left(tmp_path, address)
    assert find_target(asked, variables) == Target(
        address, str(tmp_path / "ray" / "ray_current_cluster")
    )


@pytest.mark.parametrize(("answer", "reason"), [(None, "connection refused"), (WEB, "is not Ray")])
def test_an_old_file_is_named_and_not_followed(answer, reason, served, tmp_path):
    """Nothing answers there any more, or another program does, because it was given the port."""
    address = served(answer) if answer else f"127.0.0.1:{free_port()}"
    variables = left(tmp_path, address)
    target = find_target(None, variables)
    assert target.address is None
    assert all(
        words in target.note
        for words in (address, str(tmp_path / "ray" / "ray_current_cluster"), reason)
    )
    if answer is None:
        with pytest.raises(ClusterError, match="no Ray cluster answers at 127"):
            find_target("auto", variables)


@pytest.mark.parametrize("what", ["another user's", "link", "pipe"])
def test_what_is_no_file_of_this_user_is_named_and_not_followed(
    what, served, tmp_path, monkeypatch
):
    variables = left(tmp_path, served(RAY))
    file, me = address_file(variables), os.geteuid()
    if what == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    else:
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere") if what == "link" else os.mkfifo(file)
    target = find_target(None, variables)
    assert target.address is None and target.note.startswith(f"{file} is not followed")
    with pytest.raises(ClusterError, match="is not followed"):
        find_target("auto", variables)


def test_auto_without_a_cluster_is_refused(tmp_path):
    with pytest.raises(ClusterError, match="no cluster runs on this machine"):
        find_target("auto", {"RAY_TMPDIR": str(tmp_path)})


@pytest.mark.parametrize("backlog", [None, 0])
def test_a_server_that_says_nothing_or_accepts_nobody_is_given_up(backlog, monkeypatch):
    monkeypatch.setattr("orchestrator.cluster.address.ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as silent, ExitStack() as waiting:
        for _ in range(
            3 if backlog == 0 else 0
        ):  # its queue is full: not even a connection comes about
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(silent.getsockname())
        with pytest.raises(ClusterError, match="no answer"):
            find_target(f"127.0.0.1:{silent.getsockname()[1]}", {})


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:{}", "connection refused; --address local starts Ray on this machine"),
        ("ray://127.0.0.1:{}", "a cluster is joined at HOST:PORT"),
        ("nowhere.invalid:6379", "no Ray cluster answers at nowhere.invalid:6379"),
        (f"{'a' * 64}.example:6379", "no Ray cluster answers at a"),
        ("http://head:8265", r"http://head:8265 \(RAY_ADDRESS\) is for jobs"),
        *(
            (no, "is no address of a Ray cluster")
            for no in ("head", "head:", ":6379", "head:port", "head:0", "head:70000")
        ),
    ],
)
def test_what_is_no_address_or_no_host_is_refused(address, said):
    with pytest.raises(ClusterError, match=said):
        find_target(None, {"RAY_ADDRESS": address.format(free_port())})


LARGE = (
    "name: large\nbase: {rounds: 2, data: {name: digits, clients: 8}, model: {name: mlp, "
    "hidden: [100000000]}}\n"
)


def test_a_dry_run_does_not_measure_this_machine_where_a_run_would_use_a_cluster(
    served, tmp_path, monkeypatch
):
    monkeypatch.setattr(commands, "this_machine", lambda: 16e9)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    sweep, dry = parse_sweep(LARGE, Path("large.yaml")), Choices(tmp_path / "results", dry=True)
    with pytest.raises(
        ConfigError,
        match="this machine has 16.0 GB; --address HOST:PORT runs the sweep on a cluster",
    ):
        prepare(sweep, dry)
    left(tmp_path, served(RAY))
    assert prepare(sweep, dry).trials
    with pytest.raises(ConfigError, match="this machine has 16.0 GB"):
        prepare(sweep, replace(dry, address="local"))
    address_file({"RAY_TMPDIR": str(tmp_path)}).write_text(
        f"127.0.0.1:{free_port()}"
    )  # of a cluster that is gone
    with pytest.raises(ConfigError, match="this machine has 16.0 GB"):
        prepare(sweep, dry)
