"""The estimate of a dry run: what is counted beside runs that did it, and what is timed beside the time that it takes."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.engine import block as engine
from algorithms.interfaces import Run
from attacks import shadow_mia, sia
from attacks.interfaces import SeenUpdates, ShadowWork
from orchestrator.cluster.placement import placement
from orchestrator.config.resources import Resources
from orchestrator.config.run import resolve
from orchestrator.estimates import attack_speeds, speeds, stopwatch, trial, work
from orchestrator.estimates.speeds import Bench, TrainSpeed
from orchestrator.estimates.stopwatch import Stopwatch, grow
from orchestrator.estimates.trial import Estimator, Shares
from orchestrator.estimates.work import Deal, Rounds
from orchestrator.trial.federation import partition_data
from orchestrator.trial.local_clients import LocalClients
from tests.support.inline import inline_trial

pytestmark = pytest.mark.usefixtures("one_thread")


def a_run(rounds: int = 4, **given: Any) -> Run:
    digits = {"name": "digits", "clients": 8, "examples_per_client": 12}
    fields: dict[str, Any] = {"rounds": rounds, "data": digits, "model": {"name": "mlp", "hidden": [8]}}
    return resolve(fields | {"training": {"epochs": 2, "batch_size": 5, "clients_per_job": 3}} | given)


def an_estimator(run: Run, actors: int = 1) -> Estimator:
    return Estimator(Path(), placement(Resources(client_actors=actors), run.training.config))


# Counted work


CLUSTERED = {"name": "ifca", "clusters": 2, "restarts": 3, "restart_rounds": 2}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"evaluate_every": 3},
        {"clustering": CLUSTERED},
        {"clustering": CLUSTERED, "attacks": [{"name": "sia", "every": 2, "targets": 3}]},
        {"rounds": 5, "evaluate_every": 5, "attacks": [{"name": "shadow_mia", "every": 2}]},
        {"rounds": 3, "attacks": [{"name": "sia", "every": 2, "targets": 3}]},
        {"rounds": 3, "clustering": CLUSTERED, "attacks": [{"name": "shadow_mia", "every": 2}]},
    ],
)
def test_the_counted_work_is_what_a_run_does(tmp_path, given, monkeypatch):
    run = a_run(**given)
    done: list[tuple[str, Any]] = []
    jobs, audit, audits = LocalClients.run, shadow_mia.audit, []

    def spied(self, setup, asked):
        done.extend((job.method, job.args) for job in asked)
        return jobs(self, setup, asked)

    monkeypatch.setattr(LocalClients, "run", spied)
    monkeypatch.setattr(shadow_mia, "audit", lambda *given: audits.append(1) or audit(*given))
    one = inline_trial(run, tmp_path)
    while not one.done:
        one.advance()
    rounds, blocks = Rounds(run), len(work.blocks(run, 8))
    trained = [args for method, args in done if method == "train"]
    evaluated = [method for method, _ in done if method == "evaluate"]
    predicted = [method for method, _ in done if method == "predict"]
    assert len(trained) == len(rounds.done) * blocks
    assert (len(evaluated) / blocks, len(predicted) / run.clustering.config.clusters) == rounds.evaluations
    for attack in run.attacks:
        if "updates" in attack.module.KINDS:
            assert sum(attack.name in args[2] for args in trained) == rounds.observed(attack) * blocks
        else:
            clusters = run.clustering.config.clusters
            assert len(rounds.audits(attack)) <= len(audits) <= clusters * len(rounds.audits(attack))


def a_deal(sizes: list[int], shadow: int) -> Deal:
    return Deal(np.array(sizes), np.zeros(len(sizes), np.int64), 0, shadow)


def test_shadow_examples_by_hand_with_their_cap_and_their_size():
    """FEMNIST's shadow set has 100 000 examples, of which a shadow is given 10 000 at most and trained on half."""

    def examples(members: int, **fields: Any) -> int:
        (attack,) = a_run(attacks=[{"name": "shadow_mia", **fields}]).attacks
        work: ShadowWork = attack.module.shadow_work(attack.config, 7, members, 100_000)
        return work.examples

    for fields in ({}, {"shadow_training": "accuracy"}):
        assert examples(600_000, **fields) == 5000
        assert examples(400, **fields) == 400
    assert examples(400, shadow_training="accuracy", size_matched=False) == 5000


def test_shadow_models_by_hand():
    """Those that imitate the federation are trained for all its rounds; others are taken to stop halfway."""
    imitating, alone = ({"name": "shadow_mia", "shadows": 2, "signal": "server_only"} | more for more in (
        {}, {"shadow_training": "accuracy", "max_epochs": 30}))  # fmt: skip
    for given, expected in ((imitating, ShadowWork(3, 20, rounds=7)), (alone, ShadowWork(3, 20, passes=15.0))):
        (attack,) = a_run(attacks=[given]).attacks
        assert attack.module.shadow_work(attack.config, 7, 20, 1000) == expected


def test_the_imitation_of_a_federation_has_its_clients_with_a_share_of_their_examples():
    assert work.imitation(a_deal([10, 30], 1000), 40).sizes.tolist() == [10, 30]
    assert work.imitation(a_deal([10, 30], 40), 20).sizes.tolist() == [5, 15]


def test_clusters_have_their_groups_or_equal_shares():
    two = a_run(clustering={"name": "ifca", "clusters": 2})
    deal = Deal(np.array([10, 20, 30]), np.array([0, 1, 0]), 0, 0)
    assert [own.sizes.tolist() for own in work.cluster_deals(two, deal)] == [[10, 30], [20]]
    assert [own.sizes.tolist() for own in work.cluster_deals(two, a_deal([10, 20, 30], 0))] == [[10, 30], [20]]
    assert [own.sizes.tolist() for own in work.cluster_deals(a_run(), a_deal([10, 20, 30], 0))] == [[10, 20, 30]]


def test_batches_that_are_whole_clients_are_said():
    deal = a_deal([12, 40], 0)
    large = a_run(training={"batch_size": 512})
    assert work.whole_batches(large, deal) == (
        "training.batch_size 512 is more than the largest client has (40): batches are whole clients"
    )
    assert work.whole_batches(a_run(training={"batch_size": 40}), deal) is None


# Speeds


def test_a_blocks_seconds_by_hand():
    plans = [np.zeros((3, 5), int), np.array([[0, 1, 2, 3, 4], [5, 6, -1, -1, -1]])]
    assert TrainSpeed(client=1, example=10).block_seconds(plans) == 2 + 10 * (15 + 7)
    # Two steps of both clients, and a third of one.
    assert TrainSpeed(client=1, step=10, further=4).block_seconds(plans) == 2 + 2 * 14 + 10


def test_few_examples_are_trained_on_however_large_the_clients(monkeypatch):
    """Whole blocks of clients with 500 examples were trained twice to time one step."""
    digits: dict[str, Any] = {"name": "digits", "clients": 2, "examples_per_client": 500, "shadow_size": 0}
    digits |= {"split": {"minority_ratio": 0.5}}
    run = a_run(data=digits, training={"epochs": 50, "batch_size": 32, "backend": "loop"})
    data, seen, train = partition_data(run, Path()), [], engine.loop.train

    def slow(network, x, y, batches, *rest):
        seen.append(int((batches >= 0).sum()))
        end = time.process_time() + 0.002 * seen[-1]
        while time.process_time() < end:
            pass
        return train(network, x, y, batches, *rest)

    monkeypatch.setattr(engine.loop, "train", slow)
    speed = speeds.train_speed(Bench.of(run, data, 0.4), [0, 1])
    assert sum(seen) < 500
    assert 0.002 < speed.example < 0.004


def test_work_grows_until_it_can_be_timed(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(stopwatch.time, "process_time", lambda: now[0])

    def act(amount: int) -> None:
        calls.append(amount)
        now[0] += 0.001 * amount

    assert grow(act, 10_000, 1.0) == (128, pytest.approx(0.128))
    assert now[0] < 1
    now[0], calls[:] = 0.0, []
    assert grow(act, 20, 1.0) == (20, pytest.approx(0.02))
    assert grow(act, 10_000, 0.0001) == (8, pytest.approx(0.008))  # once, however long it takes


def test_a_measurement_is_made_once_and_a_similar_one_stands_in_when_the_time_is_spent():
    watch = Stopwatch(limit=0.0)
    assert watch.once("a", 1, lambda: "first") == "first"
    assert watch.once("a", 1, lambda: "again") == "first"
    assert watch.once("a", 2, lambda: "late") == "first"
    assert watch.once("b", 2, lambda: "other") == "other"
    assert Stopwatch(limit=9.0).once("a", 2, lambda: "new") == "new"


@pytest.mark.parametrize(
    ("examples", "kept", "expected"),
    [
        (10, 0, 10 * (1 + 3 * 2)),  # a single batch is always kept
        (100, 0, 100 * (1 + 3 * 5)),
        (100, 64, 100 + 3 * (64 * 2 + 36 * 5)),
        (100, 640, 100 * (1 + 3 * 2)),
    ],
)
def test_the_seconds_of_curvature_by_hand(examples, kept, expected):
    assert speeds.CurvatureSpeed(example=1, product=2, anew=5, products=3, kept=kept).seconds(examples) == expected


def test_products_are_counted_by_the_search_itself_and_at_most_as_many_as_allowed():
    run = a_run(objective="finp", curvature={"solver": "power", "power_steps": 7, "tolerance": 1e-9})
    data = partition_data(run, Path())
    assert speeds.curvature_speed(Bench.of(run, data, 0.5)).products == 7
    loose = a_run(objective="finp", curvature={"solver": "power", "power_steps": 50, "tolerance": 0.5})
    assert speeds.curvature_speed(Bench.of(loose, data, 0.5)).products < 10


# Attacks


def observed_by_all(bench: Bench, attack: Any, network: Any) -> None:
    """The attack on all blocks, one after another."""
    start = bench.start()
    for block in work.blocks(bench.run, bench.data.clients):
        params = np.repeat(start.params[None], len(block), axis=0)
        nothing, chosen = np.zeros((len(block), 0), np.float32), np.zeros(len(block), np.int64)
        seen = SeenUpdates(
            bench.data, network, [start], chosen, params, nothing, block, speeds.own, 0, lambda *_: start.params
        )
        attack.module.observe(attack.config, seen)


@pytest.mark.parametrize(
    "attack",
    [
        {"name": "sia", "targets": 5},
        {"name": "whitebox_mia", "queries": 10, "mock_updates": 3, "every": 1},
        {"name": "fedmia", "targets": 5, "signals": "all"},
    ],
)
def test_passes_of_an_attack_are_counted_without_being_made(attack):
    run = a_run(attacks=[attack])
    bench, (component,) = Bench.of(run, partition_data(run, Path()), 0.1), run.attacks
    network = attack_speeds.counting(bench)
    expected = attack_speeds.counted(network, lambda: observed_by_all(bench, component, network))
    found = attack_speeds.observation(bench, component, len(work.blocks(run, 8)))
    assert (found.shown, found.learned) == (expected.shown, expected.learned)
    assert found.steps == expected.steps
    if component.name == "sia":
        assert found.shown == 8 * 8 * 5  # every client's model on 5 examples of every client
        assert isinstance(component.config, sia.Config)
    elif component.name == "whitebox_mia":
        assert found.steps == 8 * 2 * 10  # the trainer's examples are learned from
    else:
        records = 8 * (5 + component.config.compared)  # transformed, so that no two clients share a non-member
        assert (found.shown, found.learned) == (8 * records, len(work.blocks(run, 8)) * records)


@pytest.mark.parametrize("trainer", [0, 1, 5])
def test_trainings_that_an_attack_repeats_are_counted_for_whichever_client(trainer, monkeypatch):
    """Three of one client, who trains for 2 epochs on 12 examples; the actors do not share them."""
    attack = {"name": "whitebox_mia", "queries": 10, "mock_updates": 3, "every": 2, "trainer": trainer}
    run = a_run(rounds=4, attacks=[attack])
    bench = Bench.of(run, partition_data(run, Path()), 0.1)
    found = attack_speeds.observation(bench, run.attacks[0], 3)
    assert (found.trainings, found.trained, found.steps) == (3, 3 * 12, 8 * 2 * 10)
    monkeypatch.setattr(attack_speeds, "gradient_seconds", lambda _bench: (0.0, 0.0))
    for actors in (1, 3):
        with_attack = shares(run, monkeypatch, actors).attacks
        assert with_attack == pytest.approx(2 * 3 * 12 * 2, abs=1)


def test_an_attack_on_models_is_timed_with_shadows_that_nobody_trained():
    run = a_run(attacks=[{"name": "shadow_mia", "queries": 20}])
    found = attack_speeds.audit(Bench.of(run, partition_data(run, Path()), 0.1), run.attacks[0], 30, 3)
    assert found.shown == 2 * 20
    assert found.seconds > 0


# A trial


FIXED = {
    "train_speed": TrainSpeed(client=0.0, example=1.0),
    "evaluation_seconds": 10.0,
    "curvature_speed": speeds.CurvatureSpeed(example=100.0, product=0.0, anew=0.0, products=0),
    "pass_seconds": 1000.0,
    "server_seconds": 0.0,
}


def shares(run: Run, monkeypatch: pytest.MonkeyPatch, actors: int = 1) -> Shares:
    """The estimate where speeds are known and a trial has no other seconds."""
    for name, value in FIXED.items():
        monkeypatch.setattr(speeds, name, lambda *_, value=value: value)
    for name in ("TRIAL_SECONDS", "ROUND_SECONDS", "ALONE_SECONDS", "JOB_SECONDS", "TASK_SECONDS"):
        monkeypatch.setattr(trial, name, 0.0)
    monkeypatch.setattr(trial, "BYTES_PER_SECOND", float("inf"))
    return an_estimator(run, actors).shares(run)


def test_training_evaluation_and_curvature_by_hand(monkeypatch):
    run = a_run(rounds=4, objective="finp", evaluate_every=2, curvature={"examples": 7})
    found, tests = shares(run, monkeypatch), len(partition_data(run, Path()).test)
    assert found.training == 4 * 8 * 12 * 2
    assert found.evaluation == 10 * 2 * (8 * 12 + tests)
    assert found.curvature == (4 + 1) * 8 * 7 * 100  # the last round also measures two halves, which cost as much
    assert shares(a_run(rounds=4), monkeypatch).curvature == 0
    for every, halves in ((0, 0), (1, 4), (2, 2), (3, 2), (4, 1)):
        run = a_run(rounds=4, objective="finp", curvature={"examples": 7, "reliability_every": every})
        assert shares(run, monkeypatch).curvature == (4 + halves) * 8 * 7 * 100


def test_two_actors_share_the_blocks_and_a_part_of_the_clients_takes_part(monkeypatch):
    alone, shared = shares(a_run(), monkeypatch), shares(a_run(), monkeypatch, actors=2)
    assert shared.training == pytest.approx(alone.training * 2 / 3)  # three blocks
    half = shares(a_run(participation="fixed", participation_rate=0.5), monkeypatch)
    assert half.training == alone.training / 2


def test_attacks_on_updates_shadows_and_replicas_are_part_of_it(monkeypatch):
    run = a_run(rounds=3, attacks=[{"name": "sia", "targets": 5}])
    assert shares(run, monkeypatch).attacks == pytest.approx(3 * 8 * 8 * 5 * 10, rel=0.01)
    attack = {"name": "shadow_mia", "every": 5, "shadows": 3}
    of_models = shares(a_run(rounds=3, attacks=[attack]), monkeypatch)
    data = partition_data(a_run(rounds=3, attacks=[attack]), Path())
    plain = shares(a_run(rounds=3), monkeypatch)
    size = min(8 * 12, len(data.shadow) // 2)
    assert size == 8 * 12  # so each of the three is trained like the run itself, and asked about as many others, too
    assert of_models.shadows == 3 * (plain.training + 2 * size * 10)
    replicas = shares(a_run(rounds=3, attacks=[{"name": "cia", "replicas": 8, "rounds": [1, 3]}]), monkeypatch)
    # Eight pairs of four federations, each as long as the run itself, and their models are looked at.
    assert replicas.replicas >= 32 * (plain.training + plain.evaluation)
    assert replicas.replicas == pytest.approx(32 * (plain.training + plain.evaluation), rel=0.6)


def test_replicas_on_halves_are_part_of_it(monkeypatch):
    attack = {"name": "calibrated_mia", "replicas": 8, "pool": "training"}
    run = a_run(rounds=3, participation="fixed", participation_rate=0.5, attacks=[attack])
    found = shares(run, monkeypatch)
    # A replica trains on half of 12 examples of 8 clients, and is asked about all of them; two tasks of four.
    assert found.replicas == 8 * (0.5 * 3 * 8 * 6 * 2 + 10 * 8 * 12)
    assert shares(run, monkeypatch, actors=2).replicas == found.replicas / 2
    assert found.attacks >= 10 * 8 * 12  # the run's own models are asked, too
    matched = shares(a_run(rounds=3, attacks=[attack | {"pool": "matched"}]), monkeypatch)
    assert matched.replicas == 8 * (3 * 8 * 12 * 2 + 10 * 2 * 8 * 12)
    loop = {"epochs": 2, "batch_size": 5, "clients_per_job": 3, "backend": "loop"}
    assert shares(a_run(rounds=3, training=loop, attacks=[attack]), monkeypatch, actors=3).replicas == pytest.approx(
        3 * (3 * 8 * 6 * 2 + 10 * 8 * 12)  # eight tasks of one replica by three workers
    )


EVERYTHING: dict[str, dict[str, Any]] = {
    "groups and shadows": {
        "clustering": {"name": "ifca", "clusters": 2},
        "training": {"epochs": 10, "batch_size": 10, "lr": 0.1},
        "attacks": [{"name": "shadow_mia", "every": 5}],
    },
    "curvature and source inference": {
        "objective": "finp",
        "curvature": {"solver": "power", "power_steps": 30, "trace": "hutchinson", "probes": 30, "tolerance": 1e-9},
        "training": {"epochs": 5, "batch_size": 10},
        "attacks": [{"name": "sia", "targets": 10}],
    },
    "replicas": {
        "training": {"epochs": 5, "batch_size": 10, "backend": "loop"},
        "attacks": [{"name": "cia", "replicas": 2, "interval": False, "rounds": [5]}],
    },
    "replicas on halves": {
        "training": {"epochs": 5, "batch_size": 10},
        "attacks": [{"name": "calibrated_mia", "replicas": 8}],
    },
}


@pytest.mark.slow  # on a machine that does other things as well, steps take longer than their processor time
@pytest.mark.parametrize("given", EVERYTHING.values(), ids=EVERYTHING)
def test_the_estimate_is_within_a_factor_of_two_of_the_processor_time_of_a_run(tmp_path, given):
    estimated = an_estimator(run := a_run(rounds=10, model={"name": "mlp", "hidden": [64]}, **given)).shares(run)
    started, one = time.process_time(), inline_trial(run, tmp_path)
    while not one.done:
        one.advance()
    taken = time.process_time() - started
    # Beside processes of their own there are further seconds, which this trial does not take.
    messages = trial.TRIAL_SECONDS + 10 * (trial.ROUND_SECONDS + 3 * 2 * trial.JOB_SECONDS)
    assert taken / 2 < estimated.total < 2 * taken + messages
