"""A run's federation: the run, the dry run and the check of memory partition the data alike."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import torch

from algorithms.interfaces import Run
from datasets.federation import Federation
from orchestrator.cluster.placement import Placement
from orchestrator.config.run import resolve
from orchestrator.estimates.small_runs import SmallRuns
from orchestrator.results.log import MANIFEST
from orchestrator.results.record import TrialIdentity
from orchestrator.scheduling.driver import Driver
from orchestrator.scheduling.trials import TrialConfig
from orchestrator.trial import federation, worker_session
from orchestrator.trial.client_actors import LocalClients
from orchestrator.trial.federation import federation_key, partition_data

pytestmark = pytest.mark.usefixtures("one_thread")


def a_run(seed: int = 1, **data: Any) -> Run:
    digits = {"name": "digits", "clients": 6, "examples_per_client": 10, "split": {"minority_ratio": 0.34}}
    given = {"rounds": 1, "seed": seed, "data": digits | data, "model": {"name": "mlp", "hidden": [4]}}
    return resolve(given | {"training": {"epochs": 1}})


def content(data: Federation) -> tuple[bytes, ...]:
    """Who has which example, and what is left for the server."""
    parts = (data.train, data.test, data.nonmembers, data.shadow)
    return (*(part.x.tobytes() + part.y.tobytes() for part in parts), data.offsets.tobytes(), data.groups.tobytes())


def test_the_seed_of_the_split_decides_alone_where_it_is_given() -> None:
    expected = content(partition_data(a_run(split_seed=7), Path()))
    assert content(partition_data(a_run(seed=2, split_seed=7), Path())) == expected
    assert content(partition_data(a_run(split_seed=8), Path())) != expected
    assert content(partition_data(a_run(seed=7), Path())) == expected
    assert content(partition_data(a_run(seed=1), Path())) != expected


def test_equal_keys_are_equal_federations() -> None:
    keys = [federation_key(a_run(seed=seed, split_seed=7), Path()) for seed in (1, 2)]
    assert keys[0] == keys[1]
    others = [federation_key(run, Path()) for run in (a_run(split_seed=8), a_run(seed=7), a_run(seed=8))]
    others.append(federation_key(a_run(split_seed=7), Path("elsewhere")))
    assert len({*keys, *others}) == 5


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Federation]:
    """The federations that are made from here on, and no GPU and no Ray to make them with."""
    found: list[Federation] = []
    build = federation.datasets.build_federation

    def spied(*arguments: Any, **named: Any) -> Federation:
        found.append(build(*arguments, **named))
        return found[-1]

    monkeypatch.setattr(federation.datasets, "build_federation", spied)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=2**30))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "none")
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 0)
    monkeypatch.setattr(worker_session, "keep_freed_memory", lambda: None)  # it holds for the rest of a process' life
    for name in ("put", "get"):
        monkeypatch.setattr(ray, name, lambda value: value)
    return found


def opened_by_a_driver(run: Run, folder: Path) -> Federation:
    """The federation of the trial that a driver opens, without Tune and without actors."""
    driver: Any = object.__new__(Driver)
    driver.clients, driver.shadows, driver._data = LocalClients(), SimpleNamespace(), ("", None)
    identity, place = TrialIdentity("abc", run.to_dict(), None), Placement(1, 0.0, 1, 1)
    (folder / MANIFEST).touch()
    driver._take(TrialConfig(identity, str(folder), ".", place, 1.0, every_round=False))
    return driver._open().data


@pytest.mark.parametrize("split_seed", [None, 7])
def test_the_dry_run_and_the_check_of_memory_partition_as_the_run_does(
    tmp_path: Path, made: list[Federation], split_seed: int | None
) -> None:
    run = a_run(split_seed=split_seed)
    ran = opened_by_a_driver(run, tmp_path)
    SmallRuns(lambda run: Path()).data(run)
    assert len(made) == 2
    assert {content(one) for one in made} == {content(ran)}
    assert content(ran) == content(partition_data(a_run(seed=split_seed or 1), Path()))
