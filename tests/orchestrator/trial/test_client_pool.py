"""How the pool divides jobs among its actors, whose jobs take a second per example; the names
that Ray's dashboard shows.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.trial.attack_tasks import ShadowTasks, _shadows
from orchestrator.trial.client_actors import ClientPool, Job

Answer = tuple[float, int]  # when a job is done, and its number


def taken(seconds: list[int], actors: int, latency: float = 0.0) -> float:
    """Run jobs of these lengths and return what they take together; a message takes ``latency``
    seconds to an actor.
    """
    now, free, pool = [0.0], [0.0] * actors, object.__new__(ClientPool)

    def actor(at: int) -> Any:
        def remote(_: Any, number: int, long: float) -> Answer:
            free[at] = max(free[at], now[0] + latency) + long
            return free[at], number

        return type(
            "Actor",
            (),
            {"train": SimpleNamespace(options=lambda **_: SimpleNamespace(remote=remote))},
        )()

    def wait(answers: list[Answer], timeout: float) -> tuple[list[Answer], list[Answer]]:
        now[0] = max(now[0], min(answers)[0])
        return [min(answers)], []

    pool.actors, pool.timeout, pool.title = [actor(at) for at in range(actors)], 1.0, ""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ray, "wait", wait)
        patched.setattr(ray, "get", lambda answer: answer[1])
        jobs = [Job("train", (number, long), long) for number, long in enumerate(seconds)]
        assert pool.run(SimpleNamespace(), jobs) == list(range(len(seconds)))  # type: ignore[arg-type]
    return now[0]


def test_clients_of_different_sizes_end_together():
    assert (
        taken([1434, 614, 1638, 410], actors=2) == 2048
    )  # those of metric privacy's non-IID split: half of all
    assert (
        taken([100, 50, 50, 1, 1, 1], actors=2) == 102
    )  # nothing is sent ahead to the actor with the longest job


def test_actors_that_hang_are_replaced_before_the_next_trial(monkeypatch, names):
    pool = ClientPool([{}, {}], 1.0)
    hanging = list(pool.actors)
    killed: list[Any] = []
    monkeypatch.setattr(ray, "wait", lambda refs, timeout: ([], refs))
    monkeypatch.setattr(ray, "kill", killed.append)
    with pytest.raises(TimeoutError):
        pool.run(SimpleNamespace(), [Job("train", ())])  # type: ignore[arg-type]
    assert (
        killed == hanging
        and len(pool.actors) == 2
        and not {*map(id, pool.actors)} & {*map(id, hanging)}
    )


def test_a_job_travels_while_another_is_computed():
    assert taken([1] * 20, actors=2, latency=0.5) <= 10 + 3 * 0.5
    assert taken([1] * 20, actors=1, latency=0.5) == 20 + 0.5


@given(st.lists(st.integers(1, 100), min_size=1, max_size=12))
def test_no_actor_is_idle_for_longer_than_one_job_takes(seconds):
    assert taken(seconds, actors=2) <= sum(seconds) / 2 + max(seconds)
    assert taken(seconds, actors=1) == sum(seconds)


TITLE = "quickstart ifca minority_ratio=0.1 seed=0"


class Remote:
    """Stands for an actor, a method or a task: it notes the names that it is given, and answers
    at once.
    """

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def options(self, **given: Any) -> Remote:
        self.names.append(given["name"])
        return self

    def remote(self, *_: Any) -> Any:
        return Remote(self.names)

    def __getattr__(self, method: str) -> Remote:
        return Remote(self.names)


@pytest.fixture
def names(monkeypatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(ray, "remote", lambda _: Remote(found))
    monkeypatch.setattr(ray, "wait", lambda refs, timeout: (refs, []))
    monkeypatch.setattr(ray, "get", lambda ref: ref)
    return found


def test_actors_jobs_and_tasks_are_named_after_the_sweep_the_trial_and_the_attack(names):
    ClientPool([{}, {}], 1.0, "quickstart")
    ClientPool([{}], 1.0, "quickstart")
    assert len(set(names)) == 3
    assert all(name.startswith("clients of quickstart, ") for name in names)
    pool, tasks = ClientPool([{}], 1.0, "quickstart"), ShadowTasks([{}], 1.0)
    pool.title = tasks.title = TITLE
    names.clear()
    pool.run(SimpleNamespace(), [Job("train", ()), Job("evaluate", ())])  # type: ignore[arg-type]
    tasks.gathered(_shadows, "shadow_mia", [()])
    assert names == [
        f"ClientActor.train, {TITLE}",
        f"ClientActor.evaluate, {TITLE}",
        f"shadows for shadow_mia, {TITLE}",
    ]
