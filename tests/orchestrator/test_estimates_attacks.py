"""The estimate of attacks: passes and trainings that are counted without being made."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import sia
from attacks.interfaces import SeenUpdates
from orchestrator.estimates import attack_speeds, speeds, work
from orchestrator.estimates.speeds import Bench
from orchestrator.trial.federation import partition_data
from tests.support.estimated import a_run, shares

pytestmark = pytest.mark.usefixtures("one_thread")


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
        assert with_attack == pytest.approx(2 * 3 * 12 * 2, rel=0.05)  # the rest is the time of queries


def test_an_attack_on_models_is_timed_with_shadows_that_nobody_trained():
    run = a_run(attacks=[{"name": "shadow_mia", "queries": 20}])
    found = attack_speeds.audit(Bench.of(run, partition_data(run, Path()), 0.1), run.attacks[0], 30, 3)
    assert found.shown == 2 * 20
    assert found.seconds > 0
