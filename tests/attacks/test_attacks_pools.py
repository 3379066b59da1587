"""Pools of records and their halves: who owns what, that nothing serves twice, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attacks import _halves
from attacks.calibrated_mia import Config
from attacks.interfaces import Pool
from datasets import ungrouped
from datasets.federation import DataError, Examples, Federation, Source
from datasets.roles import Roles
from orchestrator.trial.random_streams import stream as of_run
from tests.support.toy_federation import CLIENTS, EACH, images, noise


def stream(purpose: str, *place: int) -> np.random.Generator:
    return of_run(0, purpose, *place)


def pool_of(kind: str, data: Federation, stream: Any) -> Pool:
    return _halves.pool(Config(pool=kind), data, stream)


def halves_of(pool: Pool, replicas: int, stream: Any) -> np.ndarray:
    return _halves.halves(Config(replicas=replicas), pool, stream)


def problems(kind: str, data: Federation) -> list[tuple[str, str]]:
    return _halves.data_problems(Config(pool=kind), data)


def sorted_rows(x: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(x.reshape(len(x), -1))
    return np.unique(flat, axis=0)


def test_the_pool_of_a_client_is_what_it_trains_on_and_as_many_others():
    data = noise()
    pool = pool_of("matched", data, stream)
    assert np.bincount(pool.owner).tolist() == [2 * EACH] * CLIENTS and (np.diff(pool.owner) >= 0).all()
    assert len(pool) == 2 * len(data.train)
    for client in range(CLIENTS):
        own = pool.owner == client
        assert (pool.examples[own & pool.trained].x == data.client(client).x).all()
        held = pool.examples[own & ~pool.trained]
        # The same classes, so that no class tells who was trained on.
        assert np.bincount(held.y, minlength=10).tolist() == np.bincount(data.client(client).y, minlength=10).tolist()
    assert len(sorted_rows(pool.examples.x)) == len(pool)  # nothing serves twice


def test_held_back_records_wear_the_transform_of_the_client():
    data = images()
    pool = pool_of("auto", data, stream)
    assert (pool.strengths == data.strengths[pool.owner]).all()
    held = ~pool.trained
    stored = np.concatenate([data.nonmembers.x, data.shadow.x])
    candidates = data.prepare(stored, np.full(len(stored), 30.0, np.float32))
    own = pool.examples.x[held & (pool.owner == 0)]
    distances = np.abs(candidates.reshape(len(stored), 1, -1) - own.reshape(1, len(own), -1)).max(axis=2)
    assert (distances.min(axis=0) == 0).all()


def test_a_clients_own_nonmembers_come_before_those_of_nobody():
    data = noise()
    owner = data.nonmember_owner.copy()
    owner[:30] = 2
    pool = pool_of("auto", replace(data, nonmember_owner=owner), stream)
    held = pool.examples.x[(pool.owner == 2) & ~pool.trained]
    mine, offered = (np.bincount(one.y, minlength=10) for one in (data.client(2), data.nonmembers[:30]))
    assert len(held) == np.minimum(mine, offered).sum() // 2 * 2 > 20  # an odd one is dropped
    assert len(sorted_rows(np.concatenate([held, data.nonmembers.x[:30]]))) == 30
    others = pool.examples.x[(pool.owner != 2) & ~pool.trained]
    assert len(sorted_rows(np.concatenate([others, data.nonmembers.x[:30]]))) == len(others) + 30


def test_replicas_halve_every_client_at_random_and_the_next_gets_the_rest():
    pool = pool_of("auto", noise(), stream)
    inside = halves_of(pool, 8, stream)
    for client in range(CLIENTS):
        assert set(inside[:, pool.owner == client].sum(axis=1)) == {EACH}
    assert (inside == halves_of(pool, 8, stream)).all()
    assert (inside == halves_of(pool, 16, stream)[:8]).all()  # more replicas leave the first ones as they were
    overlap = (inside[0] & inside[2]).sum() / inside[0].sum()
    assert overlap == pytest.approx(0.5, abs=0.1)
    both = inside[::2][:, pool.trained].mean()
    assert both == pytest.approx(0.5, abs=0.05)  # training examples are in as often as others
    odd = replace(noise(), offsets=np.append(0, np.cumsum([41, 40, 39, 40, 40, 40])))
    pool = pool_of("training", odd, stream)
    assert pool.trained.all() and np.bincount(pool.owner).tolist() == [40, 40, 38, 40, 40, 40]
    inside = halves_of(pool, 6, stream)
    assert (inside.sum(axis=0) == 3).all() and (inside[::2] == ~inside[1::2]).all()


def test_a_replicas_federation_is_the_runs_with_other_training_examples():
    data = images()
    pool = pool_of("auto", data, stream)
    inside = halves_of(pool, 2, stream)[0]
    found = pool.federation(data, inside)
    assert found.sizes.tolist() == [EACH] * CLIENTS
    for client in range(CLIENTS):
        own = inside & (pool.owner == client)
        assert (found.client(client).x == pool.examples.x[own]).all()
        assert (found.client(client).y == pool.examples.y[own]).all()
    assert (found.example_strengths == pool.strengths[inside]).all()
    assert found.test is data.test and found.shadow is data.shadow and found.nonmembers is data.nonmembers
    assert (pool.federation(data, pool.trained).train.x == data.train.x).all()


def test_what_is_too_small_to_halve_is_refused():
    data = noise()
    single = replace(data, offsets=np.array([0, 1, *(np.arange(2, CLIENTS + 1) * EACH)]))
    ((field, sentence),) = problems("training", single)
    assert field == "pool" and "client 0 of toy has 1" in sentence
    assert problems("auto", single) == []  # a record that was held back makes two
    with pytest.raises(DataError, match="needs 2 examples or more"):
        pool_of("training", single, stream)


def test_a_matched_pool_is_refused_where_too_few_were_held_back():
    data = noise()
    few = replace(
        data, shadow=data.shadow[:20], nonmembers=data.nonmembers[:50], nonmember_owner=data.nonmember_owner[:50]
    )
    ((field, sentence),) = problems("matched", few)
    assert field == "pool" and "trains on 40" in sentence and "pool: auto" in sentence
    pool = pool_of("auto", few, stream)
    assert len(data.train) < len(pool) < 2 * len(data.train)
    nothing = replace(
        few, shadow=data.shadow[:0], nonmembers=data.nonmembers[:0], nonmember_owner=np.empty(0, np.int64)
    )
    assert pool_of("auto", nothing, stream).trained.all()


def people(own: int = 0) -> Federation:
    """Clients that are people, each with features of its own; the server's shadow set is other people's.

    Args:
        own: records that were held out from each client.
    """
    rng, each = np.random.default_rng(0), 100
    centers = 3 * rng.normal(size=(4, 6))

    def person(records: int) -> Examples:
        labels = np.arange(records) % 4
        moved = centers + rng.normal(size=(4, 6))
        return Examples((moved[labels] + 2 * rng.normal(size=(records, 6))).astype(np.float32), labels)

    clients, others = [person(each + own) for _ in range(CLIENTS)], [person(2 * each) for _ in range(CLIENTS)]
    x, y = (np.concatenate([getattr(one, name) for one in clients + others]) for name in ("x", "y"))
    size = each + own
    roles = Roles(
        clients=tuple(client * size + np.arange(each) for client in range(CLIENTS)),
        test=np.empty(0, np.int64),
        test_owner=np.empty(0, np.int64),
        nonmembers=np.concatenate([client * size + np.arange(each, size) for client in range(CLIENTS)]),
        nonmember_owner=np.repeat(np.arange(CLIENTS), own),
        shadow=np.arange(CLIENTS * size, len(y)),
    )
    subjects = np.concatenate([np.repeat(np.arange(CLIENTS), size), np.repeat(CLIENTS + np.arange(CLIENTS), 2 * each)])
    source = Source("people", 4, Examples(x, y), Examples(x[:0], y[:0]), subjects=subjects)
    return ungrouped.ungrouped_federation(source, roles)


def test_records_of_other_people_are_held_back_for_nobody():
    """Who wrote a record would tell whether it was trained on, even in a model that memorizes nothing."""
    data = people()
    assert not pool_of("auto", replace(data, strangers=False), stream).trained.all()  # they are there
    pool = pool_of("auto", data, stream)
    assert pool.trained.all()
    ((field, sentence),) = problems("matched", data)
    assert field == "pool" and "client 0 of people" in sentence and "pool: auto" in sentence
    assert problems("auto", data) == [] == problems("training", data)
    own = people(own=100)  # whoever held out own examples is compared with these
    assert own.strangers and problems("matched", own) == []
    pool = pool_of("matched", own, stream)
    assert len(pool) == 2 * len(own.train)
    assert (sorted_rows(pool.examples.x[~pool.trained]) == sorted_rows(own.nonmembers.x)).all()
