"""Tracking on a real MLflow server that is not there yet, goes away and comes back, and processes that are killed."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from orchestrator.results.folder import Folder, claim
from orchestrator.results.tables import read_table
from orchestrator.tracking import places
from orchestrator.tracking import tracker as tracking
from orchestrator.tracking.tracker import Tracker
from tests.support.tracked import NAME, Seen, empty_store, expected, rows, run_trial, save

__all__ = ["empty_store"]


class Server:
    """An MLflow server of its own in ``folder``, on a free port of this machine."""

    def __init__(
        self, folder: Path, command: list[str] | None = None, environment: dict[str, str] | None = None
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.folder, self.command, self.environment = folder, command, environment
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        places.configure_environment()
        ours = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
        ours += ["--artifacts-destination", str(self.folder / "artifacts"), "--workers", "1"]
        command = [*(self.command or ours), "--host", "127.0.0.1", "--port", str(self.port)]
        environment = {**(self.environment or os.environ), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        deadline = time.monotonic() + 120
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=5).close()
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
            else:
                return
        pytest.fail(f"no server: {(self.folder / 'server.log').read_text()[-2000:]}")

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture
def server(tmp_path, empty_store, monkeypatch):
    """A server that has not been started; stopped when the test ends, however it ends."""
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "mlflow.db").write_bytes(empty_store.read_bytes())
    monkeypatch.setattr(tracking, "GATHER_SECONDS", 0.05)
    monkeypatch.setattr(tracking, "LONGEST_PAUSE", 0.2)
    found = Server(folder)
    yield found
    found.kill()


@pytest.fixture
def results(tmp_path) -> Path:
    claim(Folder(tmp_path / "results" / NAME), NAME, "name: my sweep\n", "digest").release()
    return tmp_path / "results"


def wait_until_sent(tracker: Tracker) -> None:
    deadline = time.monotonic() + 60
    while tracker._pending() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not tracker._pending()


@pytest.mark.slow
def test_a_server_that_comes_late_misses_nothing(server, results, capfd):
    warnings: list[str] = []
    tracker = Tracker(results, NAME, server.uri, warnings.append)
    tracker.sweep_started({"device": "cpu"})
    run_trial(tracker, "a", rows(6), {"violations": 2.0})
    while not warnings:
        time.sleep(0.02)
    server.start()
    run_trial(tracker, "b", rows(4, scale=2.0), {})
    tracker.sweep_finished([tracker.folder.sweep], "finished")
    assert tracker.close(120)
    assert capfd.readouterr().out == ""
    assert len(warnings) == 1
    assert f"{server.uri} does not accept data (connection refused)" in warnings[0]
    seen = Seen(results, server.uri)
    assert len(seen.runs) == 3
    assert len(seen.parents) == 1
    assert seen.metrics("a") == expected(rows(6), {"violations": 2.0})
    assert seen.metrics("b") == expected(rows(4, scale=2.0))
    assert seen.artifacts("a") == ["clients.parquet", "config.yaml", "rounds.parquet", "tables"]
    assert seen.artifacts("") == ["sweep.yaml"]
    assert not (results / "mlflow.db").exists()


def test_a_server_that_never_comes_costs_little(server, results):
    warnings: list[str] = []
    tracker = Tracker(results, NAME, server.uri.replace("//", "//me:secret@"), warnings.append)
    run_trial(tracker, "a", rows(6), {})
    started = time.monotonic()
    assert not tracker.close(60)
    assert time.monotonic() - started < 50
    assert len(warnings) == 1
    assert "secret" not in warnings[0]


@pytest.mark.slow
def test_a_killed_server_loses_nothing_and_doubles_nothing(server, results):
    warnings: list[str] = []
    everything = rows(400)
    server.start()
    tracker = Tracker(results, NAME, server.uri, warnings.append)
    tracker.sweep_started()
    tracker.trial_started("a", {"seed": 1}, {}, "ifca seed=1")
    tracker.rounds("a", everything[:50])
    wait_until_sent(tracker)
    for at in range(50, 350, 3):  # the server dies while rounds come in, and stays away while more do
        tracker.rounds("a", everything[at : at + 3])
        time.sleep(0.01)
        if at == 200:
            server.kill()
    while not warnings:
        time.sleep(0.02)
    server.start()
    tracker.rounds("a", everything[350:])
    wait_until_sent(tracker)
    assert Seen(results, server.uri).metrics("a") == expected(everything)

    # It dies again before the end, and what it missed is sent by the next process.
    server.kill()
    tracker.trial_finished("a", "finished", {"violations": 5.0}, save(tracker.folder, "a", everything))
    tracker.sweep_finished([], "finished")
    assert not tracker.close(60)
    server.start()
    later = Tracker(results, NAME, server.uri, warnings.append)
    later.reconcile(later.folder.path)
    later.sweep_started()
    later.sweep_finished([], "finished")
    assert later.close(60)
    assert len(warnings) == 1
    seen = Seen(results, server.uri)
    assert len(seen.runs) == 2
    assert seen.metrics("a") == expected(everything, {"violations": 5.0})
    assert seen.trial("a").info.status == "FINISHED"
    assert seen.artifacts("a") == ["clients.parquet", "config.yaml", "rounds.parquet", "tables"]


PROGRAM = """
    import sys, time
    from pathlib import Path
    from orchestrator.tracking import tracker as tracking
    from orchestrator.tracking.tracker import Tracker
    from tests.support.tracked import rows, run_trial

    tracking.GATHER_SECONDS = 0.05
    results, name, uri, rounds = Path(sys.argv[1]), sys.argv[2], sys.argv[3] or None, int(sys.argv[4])
    tracker = Tracker(results, name, uri)
    tracker.reconcile(tracker.folder.path)
    tracker.sweep_started()
    tracker.trial_started("a", {"seed": 1}, {}, "ifca seed=1")
    print("started", flush=True)
    for row in rows(rounds):
        tracker.rounds("a", [row])
        time.sleep(0.005)
    run_trial(tracker, "a", rows(rounds), {"violations": 5.0})
    tracker.sweep_finished([], "finished")
    print("sent" if tracker.close(120) else "unsent", flush=True)
"""


def process(results: Path, name: str = NAME, uri: str = "", rounds: int = 300) -> subprocess.Popen:
    arguments = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(results), name, uri, str(rounds)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_what_the_next_completes(results):
    first = process(results)
    try:
        assert first.stdout is not None
        first.stdout.readline()
        deadline = time.monotonic() + 120
        while not (results / "mlflow.db").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(1.0)  # in the middle of making runs and sending rounds
    finally:
        first.kill()
        first.wait()
    second = process(results)
    assert second.communicate(timeout=300)[0].split()[-1] == "sent"
    seen = Seen(results)
    assert len(seen.runs) == 2
    assert seen.metrics("a") == expected(rows(300), {"violations": 5.0})
    assert read_table(Folder(results / NAME).trial("a").table("rounds")).num_rows == 300


@pytest.mark.slow
def test_three_sweeps_that_start_at_once_share_a_new_store(tmp_path):
    results, names = tmp_path / "results", ["one", "two", "three"]
    running = [process(results, name, rounds=5) for name in names]
    try:
        outputs = [one.communicate(timeout=300)[0] for one in running]
    finally:
        for one in running:
            one.kill()
    assert [output.split()[-1] for output in outputs] == ["sent"] * 3
    for name in names:
        seen = Seen(results, name=name)
        assert len(seen.runs) == 2
        assert seen.metrics("a") == expected(rows(5), {"violations": 5.0})


@pytest.mark.slow
def test_the_user_interface_shows_what_was_run(tmp_path, empty_store):
    results = tmp_path / "my results #1"
    results.mkdir()
    (results / "mlflow.db").write_bytes(empty_store.read_bytes())
    tracker = Tracker(results, NAME)
    run_trial(tracker, "a", rows(3), {})
    assert tracker.close(60)
    command, environment = places.ui(results, 0, "127.0.0.1")
    shown = Server(tmp_path, command, environment)
    try:
        shown.start()
        seen = Seen(results, shown.uri)
        assert seen.metrics("a") == expected(rows(3))
        assert seen.artifacts("a") == ["clients.parquet", "config.yaml", "rounds.parquet", "tables"]
        run = seen.trial("a").info.run_id
        address = f"{shown.uri}/get-artifact?path=config.yaml&run_id={run}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert answer.read() == tracker.folder.trial("a").config.read_bytes()
    finally:
        shown.kill()
