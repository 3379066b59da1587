"""The worlds of client inference's paired test, and the test itself on federations whose answer is planted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import _cia_worlds as worlds
from attacks._cia_worlds import Replica
from attacks.interfaces import World
from attacks.metrics import paired
from datasets.federation import DataError, Federation
from orchestrator.config.run import resolve
from orchestrator.results.cache import PART
from orchestrator.trial import attack_tasks
from orchestrator.trial.random_streams import stream
from tests.support.inline import inline_trial
from tests.support.planted import finished, given, planted, table
from tests.support.toy_federation import images

pytestmark = pytest.mark.usefixtures("one_thread")

TARGET = 2
LOUD = {"name": "global_dp", "clip": 1.0, "noise_multiplier": 30.0}


def rows(x: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in x}


def equals(seed: int = 0, each: int = 12) -> Federation:
    """Three clients of one kind; the shadow set holds the target's own examples, so every stand-in is its equal.

    Others of the same kind would be no equals: what a model learns by heart of the target is what the test looks for.
    """
    data = planted(clients=3, each=each, minority=0, seed=seed)
    return replace(data, shadow=data.client(TARGET))


def odd(each: int = 12) -> Federation:
    """Three clients, the last of whom, the target, reads the labels the other way round, which no shadow example does."""
    return planted(clients=3, each=each, minority=1)


# Stand-ins


def test_a_stand_in_has_the_targets_classes_and_examples_of_the_shadow_set():
    data = odd()
    new = worlds.with_stand_in(data, TARGET, np.random.default_rng(0))
    assert (new.train.y == data.train.y).all() and (new.offsets == data.offsets).all()
    assert rows(new.client(TARGET).x) <= rows(data.shadow.x)
    assert len(rows(new.client(TARGET).x)) == len(data.client(TARGET))  # none twice
    label = {row.tobytes(): y for row, y in zip(data.shadow.x, data.shadow.y, strict=True)}
    own = new.client(TARGET)
    assert [label[row.tobytes()] for row in own.x] == own.y.tolist()
    for client in (0, 1):
        assert (new.client(client).x == data.client(client).x).all()
    other = worlds.with_stand_in(data, TARGET, np.random.default_rng(1))
    assert rows(other.client(TARGET).x) != rows(own.x)


def test_a_stand_in_wears_the_targets_transform():
    data = images()  # each client's images are turned by an angle of its own
    new = worlds.with_stand_in(data, TARGET, np.random.default_rng(0))
    own = slice(data.offsets[TARGET], data.offsets[TARGET + 1])
    assert set(new.example_strengths[own].tolist()) == {data.strengths[TARGET]}
    turned = data.prepare(data.shadow.x, np.full(len(data.shadow), data.strengths[TARGET]))
    assert rows(new.client(TARGET).x) <= rows(turned)
    assert (new.example_strengths[: own.start] == data.example_strengths[: own.start]).all()


def test_too_few_examples_are_repeated_evenly_and_counted():
    data = odd()
    target = data.client(TARGET)
    kept = np.concatenate([np.flatnonzero(data.shadow.y == 0)[:2], np.flatnonzero(data.shadow.y == 1)])
    few = replace(data, shadow=data.shadow[kept])
    new = worlds.with_stand_in(few, TARGET, np.random.default_rng(0))
    _, times = np.unique(new.client(TARGET).x[target.y == 0], axis=0, return_counts=True)
    needed = int((target.y == 0).sum())
    assert needed > 2 and len(times) == 2 and max(times) - min(times) <= 1
    assert worlds.distinct(few, TARGET) == pytest.approx((len(target) - needed + 2) / len(target))
    assert worlds.distinct(data, TARGET) == 1


def test_a_target_without_a_stand_in_is_a_sentence():
    data = odd()
    no_class = replace(data, shadow=data.shadow[data.shadow.y == 0])
    with pytest.raises(DataError, match=r"none of the \d+ in the server's shadow set is of class 1"):
        worlds.with_stand_in(no_class, TARGET, np.random.default_rng(0))
    nothing = replace(data, shadow=data.shadow[:0])
    with pytest.raises(DataError, match="needs a shadow set of the server, and planted gives it none"):
        worlds.with_stand_in(nothing, TARGET, np.random.default_rng(0))


def test_the_worlds_of_a_pair():
    data, fixed = odd(), lambda purpose, *place: stream(7, purpose, *place)
    made = {one.world: worlds.world_of(data, TARGET, one, fixed) for one in worlds.pairs(1, 3)}
    assert (made["in"].silent, made["in"].noisy, made["in"].data is data) == ((), True, True)
    assert (made["zero"].silent, made["zero"].noisy, made["zero"].data is data) == ((TARGET,), True, True)
    assert (made["stand_in"].silent, made["stand_in"].noisy) == ((), True)
    assert not made["reference"].noisy
    drawn = [rows(made[kind].data.client(TARGET).x) for kind in ("stand_in", "reference")]
    assert drawn[0] != drawn[1]
    second = worlds.world_of(data, TARGET, Replica("stand_in", 1, 3), fixed)
    assert rows(second.data.client(TARGET).x) != drawn[0]


# What the attacker holds


@pytest.mark.parametrize(("share", "examples"), [(0.1, 2), (0.01, 1), (1, 20)])
def test_the_attacker_holds_a_share_of_the_targets_examples(share, examples):
    data = odd(each=20)
    held = worlds.attacker_examples(data, TARGET, "subset", share)
    assert len(held) == examples
    assert rows(held.x) <= rows(data.client(TARGET).x)


def test_a_target_without_test_examples_is_a_sentence():
    data = replace(odd(), test_owner=np.full(24, -1))
    with pytest.raises(DataError, match="client 2 of planted has no test examples of its own; use shadow: subset"):
        worlds.attacker_examples(data, TARGET, "disjoint", 0.1)


def test_records_of_nobody_are_not_the_targets():
    data = odd()
    found = worlds.records_of_nobody(data, TARGET)
    assert (found.x == data.nonmembers.x[data.nonmember_owner != TARGET]).all()
    nobodys = images()
    strengths = nobodys.strengths[np.arange(len(nobodys.nonmembers)) % nobodys.clients]
    assert (worlds.records_of_nobody(nobodys, 0).x == nobodys.prepare(nobodys.nonmembers.x, strengths)).all()
    without = replace(data, nonmembers=data.nonmembers[:0], nonmember_owner=data.nonmember_owner[:0])
    assert (worlds.records_of_nobody(without, TARGET).x == data.test.x[data.test_owner != TARGET]).all()


# Whole runs


def attacked(data: Federation, folder: Path, privacy: Any = "none", **fields: Any) -> dict[str, float]:
    """The last round of a short run with eight pairs on ``data``."""
    run = given(
        rounds=2,
        training={"epochs": 5, "batch_size": 6},
        privacy=privacy,
        attacks=[{"name": "cia", "replicas": 8, "shadow_share": 1.0, **fields}],
    )
    trial = finished(inline_trial(run, folder, data))
    return {name: values[-1] for name, values in table(trial, "rounds").items() if name.startswith("cia_")}


@pytest.mark.parametrize("seed", [0, 5, 6])
def test_a_target_that_is_exchanged_for_its_equal_is_not_found(tmp_path, seed):
    row = attacked(equals(seed), tmp_path)
    assert row["cia_auc_low"] < 0.5 < row["cia_auc_high"] and row["cia_auc_p"] > 0.05
    assert row["cia_auc_nobody_low"] < 0.5 < row["cia_auc_nobody_high"] and row["cia_auc_nobody_p"] > 0.05
    assert row["cia_zero_auc"] == 1  # although it does matter whether it sends anything


def test_a_target_like_no_other_is_found_in_every_pair(tmp_path):
    row = attacked(odd(), tmp_path)
    assert row["cia_auc"] == row["cia_auc_round_1"] == row["cia_auc_round_2"] == row["cia_advantage"] == 1
    assert row["cia_auc_p"] == row["cia_p_least"] == 2 / 2**8
    assert (row["cia_pairs"], row["cia_round"], row["cia_stand_in_distinct"]) == (8, 2, 1)


def test_much_noise_hides_it(tmp_path):
    row = attacked(odd(), tmp_path, LOUD)
    assert abs(row["cia_auc"] - 0.5) < 0.1 and abs(row["cia_zero_auc"] - 0.5) < 0.1
    assert row["cia_auc_p"] > 0.05 and row["cia_advantage"] < 0.2


def measured(run: Any, world: World, number: int, whole: Federation) -> dict[str, float]:
    """The losses that one world of a pair ends with."""
    component = run.attacks[0]
    alone = replace(run, attacks=(), seed=attack_tasks.integer(run.seed, "replicas", number))
    return attack_tasks._measure(whole, world, alone, component)[run.rounds]


def test_the_worlds_of_a_pair_share_their_noise_and_a_reference_has_none():
    data, fixed = odd(), lambda purpose, *place: stream(0, purpose, *place)
    run = resolve(given(rounds=1, privacy=LOUD, attacks=["cia"]))
    losses = {
        (one.world, one.number): measured(run, worlds.world_of(data, TARGET, one, fixed), one.number, data)["nobody"]
        for one in worlds.pairs(2, 1)
    }
    between = abs(losses["in", 0] - losses["in", 1])
    for number in (0, 1):
        for world in ("stand_in", "zero"):
            assert abs(losses[world, number] - losses["in", number]) < 0.05 * between
        assert losses["reference", number] < 0.5 * losses["in", number]


def removed(data: Federation) -> Federation:
    """The federation without its last client: what OUT was before."""
    first, tested, held = data.offsets[-2], data.test_owner < TARGET, data.nonmember_owner < TARGET
    return replace(
        data,
        train=data.train[:first],
        offsets=data.offsets[:-1],
        groups=data.groups[:-1],
        strengths=data.strengths[:-1],
        example_strengths=data.example_strengths[:first],
        test=data.test[tested],
        test_owner=data.test_owner[tested],
        nonmembers=data.nonmembers[held],
        nonmember_owner=data.nonmember_owner[held],
    )


def test_records_of_nobody_tell_a_removed_client_but_not_its_stand_in():
    """Fewer clients get noise of another size, C / 2 instead of C / 3, which shows without any record of the target."""
    data, fixed = equals(), lambda purpose, *place: stream(0, purpose, *place)
    run = resolve(given(rounds=1, privacy={**LOUD, "noise_multiplier": 5.0}, attacks=["cia"]))
    federations: dict[str, list[World]] = {"in": [World(data)] * 8, "removed": [World(removed(data))] * 8}
    federations["stand_in"] = [worlds.world_of(data, TARGET, Replica("stand_in", i, 1), fixed) for i in range(8)]
    scores = {
        name: -np.array([measured(run, world, number, data)["nobody"] for number, world in enumerate(made)])
        for name, made in federations.items()
    }
    assert paired.swap_p(scores["in"], scores["stand_in"]) > 0.05
    assert abs(paired.auc(scores["in"], scores["stand_in"]) - 0.5) < 0.1
    assert paired.swap_p(scores["in"], scores["removed"]) < 0.05


def test_replicas_are_kept_under_all_that_they_depend_on(tmp_path):
    """Each world of each pair has a file; another run's worlds have others, and the same run finds its own again."""
    folder = tmp_path / "cache"
    folder.mkdir()

    def again(name: str, privacy: Any = "none", **fields: Any) -> dict[str, float]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "cache").symlink_to(folder)
        return attacked(odd(), tmp_path / name, privacy, rounds=[1], replicas=2, interval=False, **fields)

    def kept() -> dict[str, int]:
        return {path.name: (path / PART).stat().st_mtime_ns for path in folder.glob("replica-*")}

    first = again("first")
    names = kept()
    assert len(names) == 8
    assert {"target", "nobody", "distinct"} == set(json.loads((next(iter(folder.iterdir())) / PART).read_text())["1"])
    assert again("same") == first
    assert kept() == names
    again("half", shadow_share=0.5)
    again("other target", target=0)
    again("noise", LOUD)
    assert len(kept()) == 8 * 4


def test_replicas_have_reproducible_noise_where_the_run_has_not():
    run = resolve(given(privacy={"name": "global_dp", "noise": "secret"}))
    shared = attack_tasks.with_shared_noise(run)
    assert shared.repeatable and not run.repeatable
    assert shared.privacy.config.audit_every == 0  # type: ignore[attr-defined]
    assert replace(shared, privacy=run.privacy) == run
