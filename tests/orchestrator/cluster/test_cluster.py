"""Ray's start on this machine, told from joining a cluster; Ray itself is not started here."""

import os
import stat
from types import SimpleNamespace

import psutil
import pytest
import ray
from ray._private import ray_constants

from orchestrator.cluster.address import ClusterError, Target
from orchestrator.cluster.ray_session import MODE, joined, ray_session, require_token

PLACE = SimpleNamespace(bundles=[{"CPU": 1.0}])
HERE, THERE = Target(), Target("10.0.0.1:6379", "--address")


@pytest.fixture
def started(monkeypatch):
    """The addresses that Ray was asked to start at or join; as many starts fail as the test
    says.
    """
    asked: list[str] = []
    failing = SimpleNamespace(starts=0, error=RuntimeError("the machine was too slow"))

    def init(address: str, **options) -> None:
        asked.append(address)
        if len(asked) <= failing.starts:
            raise failing.error

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: asked.append("shutdown"))
    monkeypatch.setattr(
        ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False}]
    )
    return SimpleNamespace(asked=asked, failing=failing)


@pytest.mark.parametrize("failures", [0, 1])
def test_what_was_started_is_stopped_and_a_start_that_fails_once_is_made_again(started, failures):
    started.failing.starts = failures
    with ray_session(HERE, PLACE) as nodes:
        assert nodes == [{"CPU": 2.0}]  # dead nodes do not count
    assert started.asked == ["local", "shutdown"] * (1 + failures)


UNNAMED = Target("10.0.0.1:6379", "/tmp/ray/ray_current_cluster")
REFUSED_TOKEN = ConnectionError("failed to connect")
REFUSED_TOKEN.__cause__ = type("AuthenticationError", (Exception,), {})("token mismatch")
SLOW = RuntimeError("the machine was too slow")


@pytest.mark.parametrize(
    ("target", "error", "said", "tries"),
    [
        (
            HERE,
            SLOW,
            r"cannot use Ray \(this machine\): the machine was too slow",
            2 * ["local", "shutdown"],
        ),
        (
            THERE,
            SLOW,
            r"cannot use Ray \(10.0.0.1:6379, from --address\): the machine was",
            ["10.0.0.1:6379", "shutdown"],
        ),
        (
            THERE,
            REFUSED_TOKEN,
            "the cluster asks for another token; see docs/cluster.md",
            ["10.0.0.1:6379", "shutdown"],
        ),
        (
            UNNAMED,
            SLOW,
            "too slow; --address local starts Ray on this machine",
            ["10.0.0.1:6379", "shutdown"],
        ),
    ],
)
def test_what_fails_for_good_is_told_with_the_address(started, target, error, said, tries):
    started.failing.starts, started.failing.error = 9, error
    with pytest.raises(ClusterError, match=said), ray_session(target, PLACE):
        pass
    assert started.asked == tries


def test_a_cluster_that_nobody_named_is_joined_with_a_word_on_why():
    assert "joined the Ray cluster at 10.0.0.1:6379 (1 node, 4 CPUs), which /tmp" in joined(
        UNNAMED, [{"CPU": 4.0}]
    )


@pytest.mark.parametrize("mode", ["token", None])
def test_a_head_with_another_mode_of_authentication_is_a_guess_that_names_the_variable(
    started, monkeypatch, mode
):
    monkeypatch.setenv(MODE, mode) if mode else monkeypatch.delenv(MODE, raising=False)
    started.failing.starts, started.failing.error = (
        9,
        ConnectionError("Failed to connect to Ray cluster"),
    )
    with pytest.raises(ClusterError) as refused, ray_session(THERE, PLACE):
        pass
    assert f"{MODE} is {mode or 'not set'} here" in str(refused.value)
    with pytest.raises(ClusterError) as refused, ray_session(HERE, PLACE):
        pass
    assert MODE not in str(refused.value)


def test_a_ray_that_is_started_here_asks_for_a_token_unless_the_user_says_otherwise(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    variables = {MODE: "disabled"}
    require_token(variables)
    assert variables == {MODE: "disabled"}
    require_token({"RAY_AUTH_TOKEN": "mine"})
    assert list(tmp_path.iterdir()) == []
    del variables[MODE]
    require_token(variables)
    assert variables == {MODE: "token"}


@pytest.mark.parametrize("before", [None, "", "made by Ray"])
def test_nobody_else_can_read_the_token(tmp_path, monkeypatch, before):
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / ".ray" / "auth_token"
    if before is not None:
        token.parent.mkdir()
        token.write_text(before)
        token.chmod(0o644)
    require_token({})
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    kept = token.read_text()
    assert kept == before if before else len(bytes.fromhex(kept)) == 32
    require_token({})
    assert token.read_text() == kept


def test_a_token_that_is_a_link_or_a_home_that_cannot_be_written_is_left_to_ray(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "other").chmod(0o644)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").symlink_to(tmp_path / "other")
    require_token({})
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o644
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    require_token({})


def test_a_ray_that_is_started_here_has_the_loopback_address_and_one_that_is_joined_has_not(
    started, monkeypatch
):
    addresses: list[str] = []
    monkeypatch.setattr(ray, "init", lambda **_: addresses.append(ray.util.get_node_ip_address()))
    before = ray_constants.ENABLE_RAY_CLUSTER
    with ray_session(HERE, PLACE):
        assert before == ray_constants.ENABLE_RAY_CLUSTER
    with ray_session(THERE, PLACE):
        pass
    assert addresses[0] == "127.0.0.1" != addresses[1]


@pytest.mark.slow
def test_nobody_can_reach_a_ray_that_is_started_here_from_another_machine():
    with ray_session(HERE, PLACE):
        assert ray.get(ray.remote(lambda: os.getpid()).remote()) != os.getpid()
        started_here = [psutil.Process(), *psutil.Process().children(recursive=True)]
        listening = {
            one.laddr.ip
            for process in started_here
            for one in process.net_connections()
            if one.status == "LISTEN"
        }
    assert listening and {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
