"""The estimate of a dry run: what is counted beside runs that did it, and what is timed beside the time that it takes."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.engine import block as engine
from algorithms.interfaces import Run
from attacks import shadow_mia
from attacks.interfaces import ShadowWork
from orchestrator.estimates import speeds, stopwatch, work
from orchestrator.estimates.speeds import Bench, TrainSpeed
from orchestrator.estimates.stopwatch import Stopwatch, grow
from orchestrator.estimates.work import Deal, Rounds
from orchestrator.trial.attack_round import models_due, of_kind, updates_due
from orchestrator.trial.federation import partition_data
from orchestrator.trial.local_clients import LocalClients
from tests.support.estimated import a_run
from tests.support.inline import inline_trial

pytestmark = pytest.mark.usefixtures("one_thread")


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
    assert len(trained) == rounds.done * blocks
    assert (len(evaluated) / blocks, len(predicted) / run.clustering.config.clusters) == rounds.evaluations
    for attack in run.attacks:
        if "updates" in attack.module.KINDS:
            assert sum(attack.name in args[2] for args in trained) == rounds.observed(attack) * blocks
        else:
            clusters = run.clustering.config.clusters
            times = sum(often for _, often in rounds.audits(attack))
            assert times <= len(audits) <= clusters * times


def visited(run: Run) -> tuple[int, tuple[int, int], list[list[int]], list[int]]:
    """The same by visiting every round: all rounds, evaluations, rounds of audits, and how often updates are looked at."""
    plan, several = run.clustering.module.starts(run.clustering.config), run.clustering.config.clusters > 1
    compared_after = min(plan.rounds, run.rounds - 1)
    begun = plan.initializations if compared_after else 1
    done = [*range(compared_after)] * (begun - 1) + [*range(run.rounds)]
    told = [(r + 1) % run.evaluate_every == 0 or r + 1 == run.rounds for r in done]
    due = [several or one or bool(models_due(run, r + 1)) for r, one in zip(done, told, strict=True)]
    audits = [[r for r in [*done, run.rounds] if one in models_due(run, r)] for one in of_kind(run, "models")]
    observed = [sum(one in updates_due(run, r) for r in done) for one in of_kind(run, "updates")]
    return len(done), (sum(due) + several * begun, sum(told)), audits, observed


@pytest.mark.parametrize("clustering", ["none", CLUSTERED, CLUSTERED | {"restart_rounds": 7}])
@pytest.mark.parametrize("rounds", [1, 2, 6, 7, 12, 61])
@pytest.mark.parametrize("periods", [(1, 1, 1, 1), (4, 6, 5, 3), (6, 4, 4, 30), (100, 12, 20, 70)])
def test_what_is_counted_by_arithmetic_is_what_every_round_asks(clustering, rounds, periods):
    evaluate, shadow, loss, sia = periods
    attacks = [
        {"name": "shadow_mia", "every": shadow},
        {"name": "client_mia", "every": loss},
        {"name": "sia", "every": sia},
    ]
    run = a_run(rounds=rounds, evaluate_every=evaluate, clustering=clustering, attacks=attacks)
    counted = Rounds(run)
    audits = [
        sorted(r for r, often in counted.audits(one) for _ in range(int(often))) for one in of_kind(run, "models")
    ]
    observed = [counted.observed(one) for one in of_kind(run, "updates")]
    all_rounds, evaluations, visits, looks = visited(run)
    assert (counted.done, counted.evaluations, observed) == (all_rounds, evaluations, looks)
    assert audits == [sorted(one) for one in visits]


def test_a_few_of_many_attacks_stand_for_all():
    audits = Rounds(run := a_run(rounds=10**15, attacks=[{"name": "shadow_mia", "every": 10}])).audits(run.attacks[0])
    assert len(audits) == work.MOST_AUDITS + 1
    assert sum(often for _, often in audits) == pytest.approx(10**14)
    assert sum(often * rounds for rounds, often in audits) == pytest.approx(10**29 / 2)


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
