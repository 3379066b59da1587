"""The estimate of a trial: its parts by hand, and the whole beside the time that a run takes."""

import time
from pathlib import Path
from typing import Any

import pytest

from datasets.sources import digits
from orchestrator.estimates import trial
from orchestrator.trial.federation import partition_data
from tests.support.estimated import a_run, an_estimator, shares
from tests.support.inline import inline_trial

pytestmark = pytest.mark.usefixtures("one_thread")


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


def test_a_data_set_is_loaded_once_for_all_seeds_and_counted_for_each_trial(monkeypatch):
    loads, load = list[int](), digits.load

    def slow(*given):
        loads.append(1)
        time.sleep(0.2)
        return load(*given)

    monkeypatch.setattr(digits, "load", slow)
    estimator = an_estimator(a_run())
    for seed in range(3):
        assert estimator.oversized(run := a_run(seed=seed)) is None
        assert estimator.deal(run).seconds >= 0.2
        assert (estimator._data(run).train.x == partition_data(run, Path()).train.x).all()
    assert len(loads) == 1 + 3
    more = {"name": "digits", "clients": 9, "examples_per_client": 12}
    assert estimator.deal(a_run(data=more)).clients == 9


def test_what_a_long_run_does_seldom_is_part_of_it(monkeypatch):
    attack = {"name": "shadow_mia", "every": 1500, "shadows": 3}
    run = a_run(rounds=5000, evaluate_every=2500, attacks=[attack])
    found, tests = shares(run, monkeypatch), len(partition_data(run, Path()).test)
    size, trained_rounds = (
        8 * 12,
        1500 + 3000 + 4500 + 5000,
    )  # a shadow model is trained for as long as the run until then
    assert found.training == 5000 * size * 2
    assert found.shadows == 3 * (trained_rounds * size * 2 + 4 * 2 * size * 10)
    assert found.evaluation == 10 * (5 * size + 2 * tests)  # after 1500, 2500, 3000, 4500 and 5000 rounds


def test_the_longest_run_takes_no_longer_to_estimate(monkeypatch):
    attacks = [{"name": "shadow_mia", "every": 3}, {"name": "cia", "replicas": 8}, {"name": "sia", "every": 7}]
    run = a_run(rounds=10**15, objective="finp", attacks=attacks)
    started = time.process_time()
    found = shares(run, monkeypatch)
    assert found.training == pytest.approx(1e15 * 8 * 12 * 2)
    assert time.process_time() - started < 30


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
