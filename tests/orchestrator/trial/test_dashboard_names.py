"""The names under which Ray's dashboard shows actors and tasks; Ray itself is replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray

from orchestrator.trial.attack_tasks import ShadowTasks, _shadows
from orchestrator.trial.client_actors import ClientPool, Job

TITLE = "quickstart ifca minority_ratio=0.1 seed=0"


class Remote:
    """Stands for an actor, a method or a task: it notes the names that it is given, and answers at once."""

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
