"""Client inference: the published difference by hand, the paired test of given losses, and of
whole federations.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.core.messages import Weights
from algorithms.core.network import Network
from algorithms.engine import backends
from attacks import cia
from attacks.cia import Config, Replica
from attacks.interfaces import AttackedModel, Cluster, World
from attacks.metrics import paired
from datasets.federation import DataError, Examples, Federation
from orchestrator.config.run import check, resolve
from orchestrator.conformance.example_runs import InlineShadows, inline_trial
from orchestrator.trial import attack_tasks
from orchestrator.trial.random_streams import stream
from orchestrator.trial.worker_session import Session, Setup
from tests.support.federations import rows
from tests.support.planted import finished, given, planted, table
from tests.support.toy_federation import columns_of, images


class Told:
    """A network whose loss on an example is what the example's first feature says."""

    def load(self, weights: Weights) -> None: ...

    def logits(self, x: np.ndarray) -> np.ndarray:
        wanted = np.exp(-np.abs(x[:, 0].astype(float)))
        return np.stack([np.log(wanted), np.log1p(-wanted)], axis=1).astype(np.float32)


WEIGHTS = Weights(np.zeros(0), np.zeros(0))


def federations(count: int, rounds: int) -> tuple[Replica, ...]:
    return cia.replicas(Config(replicas=count, rounds=(rounds,)), rounds)


def telling():
    """Three clients; the target's training examples have a loss of 2, its test examples 3, those
    of others 1.

    Of the non-members, the target's have a loss of 5 and those of others 4.
    """
    data = planted(clients=3, each=20, minority=1)
    train, test, out = data.train.x.copy(), data.test.x.copy(), data.nonmembers.x.copy()
    train[data.owner() == 2, 0], test[:, 0] = 2, np.where(data.test_owner == 2, 3, 1)
    out[:, 0] = np.where(data.nonmember_owner == 2, 5, 4)
    zero = lambda examples, x: replace(examples, x=x, y=np.zeros(len(x), np.int64))  # noqa: E731
    return replace(
        data,
        train=zero(data.train, train),
        test=zero(data.test, test),
        nonmembers=zero(data.nonmembers, out),
    )


def test_by_hand_the_losses_and_the_published_difference():
    network, weights = Told(), WEIGHTS
    measured = cia.measure(Config(), telling(), network, weights)
    assert measured == pytest.approx({"target": 2, "nobody": 4, "distinct": 1})
    assert cia.measure(Config(shadow="disjoint"), telling(), network, weights)[
        "target"
    ] == pytest.approx(3)
    attacked = (
        Cluster(telling(), 0, np.zeros(3, int)),
        network,
        weights,
        (),
        np.random.default_rng(0),
    )
    audit = cia.audit(
        Config(), AttackedModel(*attacked, sent=(), trained=np.zeros(3, int), stream=stream)
    )
    assert audit.risk is None
    assert columns_of(audit)["cia_aggregated_loss"] == pytest.approx((8 + 8 + 24) / 24)
    assert columns_of(audit)["cia_difference"] == pytest.approx((2 - 5 / 3) / 2)


def found(count: int, rounds: dict[int, dict[str, float]], spread: float = 0.0):
    """Measurements of ``count`` pairs: the loss on the target by round and world, plus what each
    pair adds to all.
    """
    worlds = []
    for replica in federations(count, max(rounds)):
        own = spread * replica.number
        by_round = {
            r: {"target": losses[replica.world] + own, "nobody": 1.0 + own, "distinct": 0.5}
            for r, losses in rounds.items()
        }
        worlds.append((replica, by_round))
    return worlds


HIDDEN = {"in": 1.0, "stand_in": 1.0, "zero": 1.0, "reference": 1.0}
SHOWN = HIDDEN | {"in": 0.5, "zero": 2.0}


def compared(config: Config, worlds) -> dict[str, float]:
    return dict(columns_of(cia.compare(config, worlds, np.random.default_rng(0))))


def test_all_that_the_paired_test_reports_by_hand():
    """Of several rounds the last one is the headline; an attacker may decide the wrong way
    round; intervals are optional.
    """
    metrics = compared(Config(rounds=(1, 5), replicas=8), found(8, {1: HIDDEN, 5: SHOWN}))
    assert (metrics["cia_auc"], metrics["cia_auc_round_1"], metrics["cia_auc_round_5"]) == (
        1,
        0.5,
        1,
    )
    assert (metrics["cia_round"], metrics["cia_pairs"], metrics["cia_auc_p"]) == (5, 8, 2 / 2**8)
    metrics = compared(Config(rounds=(1,), replicas=8), found(8, {1: HIDDEN | {"in": 2.0}}))
    assert (metrics["cia_auc"], metrics["cia_advantage"], metrics["cia_balanced_accuracy"]) == (
        0,
        1,
        1,
    )
    assert metrics["cia_auc_high"] == pytest.approx(1 - metrics["cia_low_most"])
    metrics = compared(Config(rounds=(1,), replicas=4, interval=False), found(4, {1: SHOWN}))
    assert (metrics["cia_auc"], metrics["cia_auc_p"]) == (1, 2 / 2**4) and np.isnan(
        metrics["cia_low_most"]
    )
    assert not {"cia_auc_low", "cia_zero_auc_high", "cia_balanced_accuracy"} & set(metrics)
    metrics = compared(Config(rounds=(1,), replicas=16), found(16, {1: SHOWN}))
    assert metrics["cia_auc"] == metrics["cia_zero_auc"] == metrics["cia_advantage"] == 1
    assert metrics["cia_balanced_accuracy"] == metrics["cia_auc_high"] == 1
    assert metrics["cia_auc_low"] == metrics["cia_low_most"] == pytest.approx(0.8804, abs=1e-3)
    assert metrics["cia_p_least"] == metrics["cia_auc_p"] == 2**-15
    assert metrics["cia_epsilon_most"] == pytest.approx(0.53, abs=0.01)
    assert metrics["cia_epsilon_certified"] == pytest.approx(metrics["cia_epsilon_most"], abs=1e-3)
    assert (metrics["cia_auc_nobody"], metrics["cia_auc_nobody_p"]) == (0.5, 1)
    assert metrics["cia_stand_in_distinct"] == 0.5


def test_the_paired_test_has_an_epsilon_and_what_half_of_the_pairs_certify():
    """Of all pairs told apart: a finite estimate, no upper end, and no more than eight runs of
    either kind can show.
    """
    metrics = compared(Config(rounds=(1,), replicas=16), found(16, {1: SHOWN}))
    for name in ("cia_epsilon", "cia_zero_epsilon"):
        assert metrics[f"{name}_low"] < metrics[name] < 30 and np.isnan(metrics[f"{name}_high"])
        assert metrics[f"{name}_certified"] == pytest.approx(paired.most_epsilon(8), abs=1e-3)
    one = compared(Config(rounds=(1,), replicas=2, interval=False), found(2, {1: SHOWN}))
    assert (
        one["cia_epsilon"] > 0
        and np.isnan(one["cia_epsilon_certified"])
        and "cia_epsilon_low" not in one
    )


def test_a_reference_takes_away_what_differs_from_pair_to_pair():
    worlds = found(8, {1: SHOWN}, spread=3.0)
    assert compared(Config(rounds=(1,), replicas=8), worlds)["cia_auc"] == 1
    alone = compared(Config(rounds=(1,), replicas=8, score="loss"), worlds)
    assert alone["cia_auc"] == 0.5


def test_pairs_with_a_federation_that_diverged_are_left_out_and_too_few_decide_nothing():
    def without(worlds, lost):
        return [
            (one, {} if (one.world, one.number) in lost else by_round) for one, by_round in worlds
        ]

    worlds, config = found(8, {1: SHOWN}), Config(rounds=(1,), replicas=8)
    metrics = compared(config, without(worlds, {("zero", 3)}))
    assert (metrics["cia_pairs"], metrics["cia_auc"], metrics["cia_auc_p"]) == (7, 1, 2 / 2**7)
    assert np.isnan(metrics["cia_auc_low"])  # fewer than eight pairs
    metrics = compared(config, without(worlds, {("reference", number) for number in range(7)}))
    assert metrics["cia_pairs"] == 1 and np.isnan(metrics["cia_auc"])
    metrics = compared(
        config, without(worlds, {(kind, number) for kind in cia.WORLDS for number in range(8)})
    )
    assert metrics["cia_pairs"] == 0 and np.isnan(metrics["cia_auc"]) and metrics["cia_round"] == 1


def test_what_cannot_be_attacked_is_refused():
    wrong = [
        (given(attacks=["cia"], clustering="ifca"), "one global model"),
        (given(attacks=[{"name": "cia", "target": 20}]), "numbered from 0; got 20"),
        (given(attacks=[{"name": "cia", "replicas": 1}]), "0 or at least 8; got 1"),
        (
            given(attacks=[{"name": "cia", "replicas": 1, "interval": False}]),
            "0 or at least 2; got 1",
        ),
        (given(attacks=[{"name": "cia", "replicas": 7}]), "at least 8 pairs of federations; got 7"),
        (
            given(attacks=[{"name": "cia", "rounds": [9]}]),
            "no round of the paired test is one of the run's 4; got 9",
        ),
        (
            given(attacks=[{"name": "cia", "rounds": list(range(1, 12))}]),
            "after at most 10 rounds; got 11",
        ),
    ]
    for run, sentence in wrong:
        assert sentence in " ".join(str(problem) for problem in check(run)[1])
    for rounds, expected in ((1, (1,)), (7, (1, 7))):  # by default
        config = resolve(given(rounds=rounds, attacks=["cia"])).attacks[0].config
        assert (
            config.rounds == expected == tuple(r for r in range(1, 8) if cia.looks_after(config, r))
        )
    for replicas, interval in ((0, True), (8, True), (7, False), (2, False)):
        fields = {"replicas": replicas} | ({} if interval else {"interval": False})
        assert check(given(attacks=[{"name": "cia", **fields}]))[1] == []


TARGET = 2
LOUD = {"name": "global_dp", "clip": 1.0, "noise_multiplier": 30.0}


def equals(seed: int = 0, each: int = 12) -> Federation:
    """Three clients of one kind; the shadow set holds the target's own examples, so every
    stand-in is its equal.

    Others of the same kind would be no equals: what a model learns by heart of the target is what
    the test looks for.
    """
    data = planted(clients=3, each=each, minority=0, seed=seed)
    return replace(data, shadow=data.client(TARGET))


def odd(each: int = 12) -> Federation:
    """Three clients, the last of whom, the target, reads the labels the other way round, which
    no shadow example does.
    """
    return planted(clients=3, each=each, minority=1)


def test_a_stand_in_has_the_targets_classes_and_examples_of_the_shadow_set():
    data = odd()
    new = cia.with_stand_in(data, TARGET, np.random.default_rng(0))
    assert (new.train.y == data.train.y).all() and (new.offsets == data.offsets).all()
    assert rows(new.client(TARGET).x) <= rows(data.shadow.x)
    assert len(rows(new.client(TARGET).x)) == len(data.client(TARGET))  # none twice
    label = {row.tobytes(): y for row, y in zip(data.shadow.x, data.shadow.y, strict=True)}
    own = new.client(TARGET)
    assert [label[row.tobytes()] for row in own.x] == own.y.tolist()
    for client in (0, 1):
        assert (new.client(client).x == data.client(client).x).all()
    other = cia.with_stand_in(data, TARGET, np.random.default_rng(1))
    assert rows(other.client(TARGET).x) != rows(own.x)
    turned = images()  # each client's images are turned by an angle of its own
    new, angle = (
        cia.with_stand_in(turned, TARGET, np.random.default_rng(0)),
        turned.strengths[TARGET],
    )
    assert set(new.example_strengths[turned.owner() == TARGET].tolist()) == {angle}
    assert rows(new.client(TARGET).x) <= rows(
        turned.prepare(turned.shadow.x, np.full(len(turned.shadow), angle))
    )


def test_too_few_examples_are_repeated_evenly_and_counted_and_without_any_or_a_share_of_them_it_is_refused():
    data = odd()
    target = data.client(TARGET)
    chosen = np.concatenate(
        [np.flatnonzero(data.shadow.y == 0)[:2], np.flatnonzero(data.shadow.y == 1)]
    )
    few = replace(data, shadow=data.shadow[chosen])
    new = cia.with_stand_in(few, TARGET, np.random.default_rng(0))
    _, times = np.unique(new.client(TARGET).x[target.y == 0], axis=0, return_counts=True)
    needed = int((target.y == 0).sum())
    assert needed > 2 and len(times) == 2 and max(times) - min(times) <= 1
    distinct = [cia.measure(Config(), one, Told(), WEIGHTS)["distinct"] for one in (few, data)]
    assert distinct == pytest.approx([(len(target) - needed + 2) / len(target), 1])
    for shadow, sentence in (
        (data.shadow[data.shadow.y == 0], "is of class 1"),
        (data.shadow[:0], "gives it none"),
    ):
        ((field, lack),) = cia.data_problems(Config(target=TARGET), replace(data, shadow=shadow))
        assert field == "replicas" and sentence in lack
    for share, examples in ((0.1, 1), (0.01, 1), (0.5, 6), (1, 12)):
        held = cia.attacker_examples(Config(shadow_share=share), data)
        assert len(held) == examples and rows(held.x) <= rows(target.x)
    with pytest.raises(DataError, match="use shadow: subset"):
        cia.attacker_examples(Config(shadow="disjoint"), replace(data, test_owner=np.full(24, -1)))


def test_the_worlds_of_a_pair():
    data, fixed = odd(), lambda purpose, *place: stream(7, purpose, *place)
    made = {one.world: cia.world(Config(), data, one, fixed) for one in federations(1, 3)}
    assert (made["in"].silent, made["in"].noisy, made["in"].data is data) == ((), True, True)
    assert (made["zero"].silent, made["zero"].noisy, made["zero"].data is data) == (
        (TARGET,),
        True,
        True,
    )
    assert (made["stand_in"].silent, made["stand_in"].noisy) == ((), True)
    assert not made["reference"].noisy
    drawn = [rows(made[kind].data.client(TARGET).x) for kind in ("stand_in", "reference")]
    assert drawn[0] != drawn[1]
    second = cia.world(Config(), data, Replica("stand_in", 1, 3), fixed)
    assert rows(second.data.client(TARGET).x) != drawn[0]


def test_examples_of_nobody_are_not_the_targets():
    data = odd()
    found = cia.examples_of_nobody(data, TARGET)
    assert (found.x == data.nonmembers.x[data.nonmember_owner != TARGET]).all()
    nobodys = images()
    strengths = nobodys.strengths[np.arange(len(nobodys.nonmembers)) % nobodys.clients]
    assert (
        cia.examples_of_nobody(nobodys, 0).x == nobodys.prepare(nobodys.nonmembers.x, strengths)
    ).all()
    without = replace(
        data, nonmembers=data.nonmembers[:0], nonmember_owner=data.nonmember_owner[:0]
    )
    assert (
        cia.examples_of_nobody(without, TARGET).x == data.test.x[data.test_owner != TARGET]
    ).all()


def attacked(
    data: Federation, folder: Path, privacy: Any = "none", **fields: Any
) -> dict[str, float]:
    """The last round of a short run with eight pairs on ``data``."""
    run = given(
        rounds=2,
        training={"epochs": 5, "batch_size": 6},
        privacy=privacy,
        attacks=[{"name": "cia", "replicas": 8, "shadow_share": 1.0, **fields}],
    )
    trial = finished(inline_trial(run, folder, data))
    return {
        name: values[-1]
        for name, values in table(trial, "rounds").items()
        if name.startswith("cia_")
    }


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (5, 6))]
)
def test_a_target_that_is_exchanged_for_its_equal_is_not_found(tmp_path, seed):
    row = attacked(equals(seed), tmp_path)
    assert row["cia_auc_low"] < 0.5 < row["cia_auc_high"] and row["cia_auc_p"] > 0.05
    assert (
        row["cia_auc_nobody_low"] < 0.5 < row["cia_auc_nobody_high"]
        and row["cia_auc_nobody_p"] > 0.05
    )
    assert row["cia_zero_auc"] == 1  # although it does matter whether it sends anything


def test_a_target_like_no_other_is_found_in_every_pair(tmp_path):
    row = attacked(odd(), tmp_path)
    assert (
        row["cia_auc"]
        == row["cia_auc_round_1"]
        == row["cia_auc_round_2"]
        == row["cia_advantage"]
        == 1
    )
    assert row["cia_auc_p"] == row["cia_p_least"] == 2 / 2**8
    assert (row["cia_pairs"], row["cia_round"], row["cia_stand_in_distinct"]) == (8, 2, 1)


def measured(run: Any, world: World, number: int, whole: Federation) -> dict[str, float]:
    """The losses that one world of a pair ends with."""
    component = run.attacks[0]
    alone = replace(run, attacks=(), seed=attack_tasks.integer(run.seed, "replicas", number))
    worker = Session(run, whole, Network(run.model, whole.shape, whole.classes))
    (by_round,) = attack_tasks._measured(alone, component, worker, [world], Setup("", []))
    return by_round[run.rounds]


def test_the_worlds_of_a_pair_share_their_noise_and_a_reference_has_none():
    data, fixed = odd(), lambda purpose, *place: stream(0, purpose, *place)
    run = resolve(given(rounds=1, privacy=LOUD, attacks=["cia"]))
    losses = {
        (one.world, one.number): measured(
            run, cia.world(Config(), data, one, fixed), one.number, data
        )["nobody"]
        for one in federations(2, 1)
    }
    between = abs(losses["in", 0] - losses["in", 1])
    for number in (0, 1):
        for world in ("stand_in", "zero"):
            assert abs(losses[world, number] - losses["in", number]) < 0.05 * between
        assert losses["reference", number] < 0.5 * losses["in", number]


LOCAL = {"name": "local_dp", "noise_multiplier": 0.5, "clip": 0.5}
SLOTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one after another": {"training": {"backend": "loop"}},
    "server noise": {"privacy": LOUD},
    "local noise": {"privacy": LOCAL},
    "sampled, warm": {
        "participation": "fixed",
        "participation_rate": 0.5,
        "aggregation": {"name": "fedopt", "warm_start_epochs": 1},
    },
}


@pytest.mark.parametrize("slots", SLOTS.values(), ids=SLOTS)
def test_a_replica_is_the_run_with_its_seed_bit_for_bit_and_worlds_at_once_are_those_one_by_one(
    tmp_path, slots
):
    data, fixed = odd(), lambda purpose, *place: stream(0, purpose, *place)
    seed = attack_tasks.integer(0, "replicas", 1)  # as large as those of replicas
    run = resolve(
        given(
            rounds=2,
            seed=seed,
            attacks=[{"name": "cia", "rounds": [1, 2], "shadow_share": 1.0}],
            **slots,
        )
    )
    worlds = {one.world: cia.world(Config(), data, one, fixed) for one in federations(1, 2)}
    alone = replace(run, attacks=())
    worker = Session(run, data, Network(run.model, data.shape, data.classes))
    once = {
        kind: attack_tasks._measured(alone, run.attacks[0], worker, [world], Setup("", []))
        for kind, world in worlds.items()
    }
    trial = inline_trial(alone, tmp_path, data)
    for rounds in (1, 2):
        trial.advance()
        assert once["in"][0][rounds] == cia.measure(
            run.attacks[0].config, data, worker.network, trial.state.models[0]
        )
    together = attack_tasks._measured(
        alone, run.attacks[0], worker, list(worlds.values()), Setup("", [])
    )
    for (kind, (single,)), joint in zip(once.items(), together, strict=True):
        assert [joint[r] for r in (1, 2)] == [pytest.approx(single[r], rel=1e-4) for r in (1, 2)], (
            kind
        )
    assert len({one[0][2]["target"] for one in once.values()}) == 4


class Asked(InlineShadows):
    """Tells which replicas each task has."""

    tasks: list[list[str]]

    def gathered(self, function: Any, attack: str, calls: Any) -> list[Any]:
        self.tasks = [[one.world for one in group] for _, _, group in calls]
        return super().gathered(function, attack, calls)


@pytest.mark.parametrize(
    ("slots", "rounds", "cached", "size"),
    [
        ({}, [2], False, 4),
        ({"training": {"backend": "loop"}}, [2], True, 1),  # as long as a federation each
        ({"training": {"backend": "loop"}}, [1], False, 1),
        ({"training": {"backend": "loop"}}, [1], True, 4),  # the first trains for all
    ],
)
def test_a_task_trains_the_worlds_of_a_pair_where_that_is_hardly_longer_than_one(
    tmp_path, slots, rounds, cached, size
):
    attack = {"name": "cia", "replicas": 2, "interval": False, "rounds": rounds}
    trial = inline_trial(given(rounds=2, attacks=[attack], **slots), tmp_path, odd())
    setup = replace(trial.context.setup, cache=tmp_path / "cache" if cached else None)
    asked = Asked()
    asked.replicate(setup, trial.run, trial.run.attacks[0])
    assert asked.tasks == [
        list(cia.WORLDS)[at : at + size] for _ in range(2) for at in range(0, 4, size)
    ]


def test_fewer_replicas_train_at_once_where_each_clients_update_is_held():
    sums, updates = (resolve(given(aggregation=name)) for name in ("fedavg", "fedmedian"))
    clients, block = sums.data.config.clients, sums.training.config.block_size
    parameters = backends.MOST_BYTES // (4 * 2 * clients)  # two federations' updates
    assert clients > 2 * block
    assert [backends.together(run, 1, parameters) for run in (sums, updates)] == [4, 2]
    assert backends.together(sums, backends.MOST_BYTES, 1) == 1


def test_where_one_world_diverges_the_others_of_its_pair_are_trained_and_it_keeps_what_it_had():
    data = odd()
    run = resolve(given(rounds=3, attacks=[{"name": "cia", "rounds": [1, 2, 3]}]))
    wild = replace(data, train=Examples(data.train.x * np.float32(1e30), data.train.y))
    worker = Session(run, data, Network(run.model, data.shape, data.classes))
    sane, lost = attack_tasks._measured(
        replace(run, attacks=()), run.attacks[0], worker, [World(data), World(wild)], Setup("", [])
    )
    assert sorted(sane) == [1, 2, 3] and len(lost) < 3


def test_replicas_are_kept_under_all_that_they_depend_on(tmp_path):
    """The worlds of each pair have an entry; another run's worlds have others, and the same run
    finds its own again.
    """
    folder = tmp_path / "cache"
    folder.mkdir()

    def again(name: str, privacy: Any = "none", **fields: Any) -> dict[str, float]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "cache").symlink_to(folder)
        return attacked(
            odd(), tmp_path / name, privacy, rounds=[1], replicas=2, interval=False, **fields
        )

    first = again("first")
    entries = {
        path.name: (path / "manifest.json").stat().st_mtime_ns for path in folder.glob("replicas-*")
    }
    assert len(entries) == 2 and again("same") == first
    assert {
        path.name: (path / "manifest.json").stat().st_mtime_ns for path in folder.glob("replicas-*")
    } == entries
    for number, fields in enumerate(({"shadow_share": 0.5}, {"target": 0}, {"privacy": LOUD})):
        again(f"other {number}", **fields)
    assert len(list(folder.glob("replicas-*"))) == 2 * 4


def test_replicas_have_reproducible_noise_where_the_run_has_not():
    run = resolve(given(privacy={"name": "global_dp", "noise": "secret"}))
    shared = attack_tasks.with_shared_noise(run)
    assert shared.repeatable and not run.repeatable
    assert shared.privacy.config.audit_every == 0  # type: ignore[attr-defined]
    assert replace(shared, privacy=run.privacy) == run
