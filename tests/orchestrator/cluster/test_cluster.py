"""Ray's start on this machine, told from joining a cluster; Ray itself is not started here."""

from types import SimpleNamespace

import pytest
import ray

from orchestrator.cluster.ray_session import ClusterError, ray_session

PLACE = SimpleNamespace(bundles=[{"CPU": 1.0}])


@pytest.fixture
def started(monkeypatch):
    """The addresses that Ray was asked to start at or join; as many starts fail as the test says."""
    asked: list[str] = []
    failing = SimpleNamespace(starts=0)

    def init(address: str, **options) -> None:
        asked.append(address)
        if len(asked) <= failing.starts:
            raise RuntimeError("the machine was too slow")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: asked.append("shutdown"))
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False}])
    return SimpleNamespace(asked=asked, failing=failing)


def test_what_was_started_is_stopped_and_dead_nodes_do_not_count(started):
    with ray_session(None, PLACE) as nodes:
        assert nodes == [{"CPU": 2.0}]
    assert started.asked == ["local", "shutdown"]


def test_a_start_that_fails_once_is_made_again_from_nothing(started):
    started.failing.starts = 1
    with ray_session("local", PLACE):
        pass
    assert started.asked == ["local", "shutdown", "local", "shutdown"]


@pytest.mark.parametrize(
    ("address", "tries"), [(None, ["local", "shutdown", "local"]), ("10.0.0.1:6379", ["10.0.0.1:6379"])]
)
def test_what_fails_for_good_is_told_with_the_address(started, address, tries):
    started.failing.starts = 9
    with pytest.raises(
        ClusterError, match=f"cannot use Ray \\({address or 'this machine'}\\): the machine was too slow"
    ):
        with ray_session(address, PLACE):
            pass
    assert started.asked == tries
