"""How the pool divides jobs among its actors; Ray is replaced by actors whose jobs take a second per example."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.trial.client_actors import ClientPool, Job


class Clock:
    """The simulated time, and what Ray does in it: a message takes ``latency`` seconds to an actor."""

    def __init__(self, latency: float) -> None:
        self.now, self.latency = 0.0, latency

    def wait(self, refs: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        first = min(refs, key=lambda ref: ref.end)
        self.now = max(self.now, first.end)
        assert timeout
        return [first], []


class Actor:
    """Does its jobs one after another, in the order in which they arrive."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.free = clock, 0.0

    @property
    def train(self) -> Actor:
        return self

    def options(self, **_: Any) -> Actor:
        return self

    def remote(self, _: Any, number: int, seconds: float) -> Any:
        self.free = max(self.free, self.clock.now + self.clock.latency) + seconds
        ref: Any = type("Ref", (), {"end": self.free, "number": number})()
        return ref


def taken(seconds: list[int], actors: int, latency: float = 0.0) -> float:
    """Run jobs of these lengths and return what they take together; their results come back in their order."""
    clock, pool = Clock(latency), object.__new__(ClientPool)
    pool.actors, pool.timeout, pool.title = [Actor(clock) for _ in range(actors)], 1.0, ""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ray, "wait", clock.wait)
        patched.setattr(ray, "get", lambda ref: ref.number)
        jobs = [Job("train", (number, long), long) for number, long in enumerate(seconds)]
        assert pool.run(SimpleNamespace(), jobs) == list(range(len(seconds)))  # type: ignore[arg-type]
    return clock.now


def test_clients_of_different_sizes_end_together():
    assert taken([1434, 614, 1638, 410], actors=2) == 2048  # those of metric privacy's non-IID split: half of all
    assert taken([100, 50, 50, 1, 1, 1], actors=2) == 102  # nothing is sent ahead to the actor with the longest job


def test_a_job_travels_while_another_is_computed():
    assert taken([1] * 20, actors=2, latency=0.5) <= 10 + 3 * 0.5


@given(st.lists(st.integers(1, 100), min_size=1, max_size=12))
def test_no_actor_is_idle_for_longer_than_one_job_takes(seconds):
    assert taken(seconds, actors=2) <= sum(seconds) / 2 + max(seconds)
    assert taken(sorted(seconds), actors=2) == taken(sorted(seconds)[::-1], actors=2)
    assert taken(seconds, actors=1) == sum(seconds)
