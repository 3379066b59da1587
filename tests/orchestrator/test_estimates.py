"""The estimate of a dry run: what is counted beside runs that did it, by hand, and beside the
time that a run takes.
"""

import itertools
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from attacks import shadow_mia
from datasets.sources import digits
from orchestrator.config.sweep_file import load_sweep
from orchestrator.conformance.example_runs import finished, inline_trial
from orchestrator.estimates import counts, dry_run, small_runs
from orchestrator.estimates.counts import Schedule
from orchestrator.estimates.small_runs import Small, SmallRuns
from orchestrator.scheduling.trials import trial_specs
from orchestrator.trial import client_actors
from orchestrator.trial.client_actors import LocalClients
from orchestrator.trial.federation import partition_data
from tests.support.estimated import MESSAGES, RATES, a_place, a_run, estimated, parts

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
    finished(inline_trial(run, tmp_path))
    due, blocks = Schedule(run), 3
    trained = [args for method, args in done if method == "train"]
    evaluated, predicted = (
        sum(method == name for method, _ in done) for name in ("evaluate", "predict")
    )
    assert len(trained) == due.rounds * blocks
    assert predicted == due.on_tests * run.clustering.config.clusters
    assert evaluated <= due.on_clients * blocks < evaluated + 3 * blocks
    for attack in run.attacks:
        times = due.times(attack.config.every)
        if "updates" in attack.module.KINDS:
            assert sum(attack.name in args[2] for args in trained) == times * blocks
        else:
            times, *_ = due.on_models(attack.config.every)
            assert times <= len(audits) <= run.clustering.config.clusters * times


def test_very_many_rounds_are_counted_at_once():
    few, many = (Schedule(a_run(rounds=rounds, evaluate_every=5)) for rounds in (1000, 10**15))
    starts = {"name": "ifca", "clusters": 2, "restarts": 3, "restart_rounds": 8}
    # Two abandoned initializations of 8 rounds, with attacks after 3 and 6; the best has them after
    # 3, 6, ..., 18 and 20.
    assert Schedule(a_run(rounds=20, clustering=starts)).on_models(3) == (
        7 + 2 * 2,
        63 + 20 + 2 * 9,
        20 + 2 * 6,
    )
    assert (few.rounds, few.on_tests, few.on_models(500), few.times(10)) == (
        1000,
        200,
        (2, 1500, 1000),
        100,
    )
    assert (many.rounds, many.on_tests, many.times(7)) == (10**15, 200 * 10**12, -(-(10**15) // 7))
    attacks = [
        {"name": "shadow_mia", "every": 3},
        {"name": "cia", "replicas": 8},
        {"name": "sia", "every": 7},
    ]
    assert (
        parts(a_run(rounds=10**15, objective="finp", attacks=attacks))["training"]
        == 1e15 * 8 * 12 * 2
    )


# Counts by hand


def test_training_evaluation_and_curvature_by_hand():
    run = a_run(rounds=4, objective="finp", evaluate_every=2, curvature={"examples": 7})
    found, tests = parts(run), len(partition_data(run, Path()).test)
    assert found["training"] == 4 * 8 * 12 * 2
    assert found["evaluation"] == 10 * 2 * (8 * 12 + tests)
    assert found["curvature"] == pytest.approx(
        4 * (1 + 1 / 5) * 8 * 7 * 100
    )  # every fifth round, two halves, too
    never = a_run(rounds=4, objective="finp", curvature={"examples": 7, "reliability_every": 0})
    assert parts(never)["curvature"] == 4 * 8 * 7 * 100
    assert "curvature" not in parts(a_run(rounds=4))


def test_two_actors_share_the_blocks_and_a_part_of_the_clients_takes_part():
    alone, shared = parts(a_run()), parts(a_run(), actors=2)
    assert (
        shared["training"] == alone["training"] * 5 / 8
    )  # of blocks of three, three and two clients
    half = parts(a_run(participation="fixed", participation_rate=0.5))
    assert half["training"] == alone["training"] / 2
    few = a_run(
        participation="fixed", participation_rate=1 / 8
    )  # one of eight clients: there is nothing to share
    assert parts(few, actors=2)["training"] == parts(few)["training"]


def test_attacks_on_updates_shadows_and_replicas_are_part_of_it():
    plain = parts(a_run(rounds=3))
    assert parts(a_run(rounds=3, attacks=[{"name": "sia", "targets": 5}]))["attacks"] == 3 * 5
    several = {"name": "ifca", "clusters": 2, "restarts": 1}
    assert parts(a_run(rounds=3, clustering=several, attacks=["sum_mia"]))["attacks"] == 3 * 2 * 5
    attack = {"name": "shadow_mia", "every": 5, "shadows": 3}
    of_models, size = parts(a_run(rounds=3, attacks=[attack])), 8 * 12
    # Each of the three is trained like the run itself, with the others, and asked about as many
    # others, too.
    assert of_models["shadow models"] == 3 * (plain["training"] / 4 + 2 * size * 10)
    assert of_models["attacks"] == 5
    alone = {"shadow_training": "accuracy", "max_epochs": 30}
    single = parts(a_run(rounds=3, attacks=[attack | alone]))
    assert single["shadow models"] == 3 * (15 * size + 2 * size * 10)  # taken to stop halfway
    assert counts.as_full(a_run(), np.array([1, 5, 6]), np.array([10, 10])).tolist() == [
        5,
        5,
        10,
    ]  # batches of 5
    cia = parts(a_run(rounds=3, attacks=[{"name": "cia", "replicas": 8, "rounds": [1, 3]}]))
    # Eight pairs of four federations, each as long as the run itself, at once; and who is asked
    # about is evaluated.
    assert cia["replicas"] == 32 * (
        plain["training"] / 4 + 10 * len(partition_data(a_run(), Path()).test)
    )


def test_replicas_on_halves_are_part_of_it():
    attack = {"name": "calibrated_mia", "replicas": 8, "pool": "training"}
    run = a_run(rounds=3, participation="fixed", participation_rate=0.5, attacks=[attack])
    # A replica trains on half of 12 examples of 8 clients, and is asked about all of them.
    expected = 8 * (0.5 * 3 * 8 * 6 * 2 / 4 + 10 * 8 * 12)
    assert parts(run)["replicas"] == expected
    assert parts(run, actors=2)["replicas"] == expected / 2
    assert parts(run)["attacks"] == 10 * 8 * 12  # the run's own models are asked, too


def test_first_rounds_that_others_train_are_not_counted_again():
    attack = {"name": "cia", "replicas": 8, "rounds": [3], "interval": False}
    run = a_run(rounds=3, attacks=[attack])
    with patch.multiple(counts, **MESSAGES):
        data = partition_data(run, Path())
        trial = partial(
            counts.of_trial, run, data, a_place(run), lambda step, attack="": RATES[step]
        )
        whole, shared = trial(), trial(own=0.25)
    assert shared["training"] == whole["training"] * 2.25 / 3
    trained, tests = 8 * 12 * 2 / 4, 10 * len(data.test)
    assert (whole["replicas"], shared["replicas"]) == (
        32 * (3 * trained + tests),
        32 * (2.25 * trained + tests),
    )


def test_replicas_of_one_number_train_the_first_round_of_what_they_have_in_common_once():
    run = a_run(
        rounds=2,
        training={"epochs": 2, "backend": "loop"},
        attacks=[{"name": "cia", "replicas": 8, "rounds": [2]}],
    )
    with patch.multiple(counts, **MESSAGES):
        data = partition_data(run, Path())
        found = counts.of_trial(
            run, data, a_place(run), lambda step, attack="": RATES[step], own=0.5
        )
    # In the first round one client differs in each of four worlds, the seven others are the same;
    # half is found.
    clients = 32 * (0.5 * (7 + 4) / 4 + 8)
    assert found["replicas"] == pytest.approx(clients * 12 * 2 / 4 + 32 * 10 * len(data.test))


def test_what_the_first_round_depends_on():
    like = [
        a_run(aggregation="fedmedian"),
        a_run(privacy="global_dp"),
        a_run(rounds=9, attacks=["sia"]),
    ]
    assert {counts.first_round(run) for run in like} == {counts.first_round(a_run())}
    changes: list[dict[str, Any]] = [
        {"seed": 1},
        {"objective": "fedprox"},
        {"training": {"lr": 0.7}},
        {"model": "mlp"},
    ]
    changes += [
        {"aggregation": "fedopt"},
        {"clustering": "ifca"},
        {"participation": "fixed", "participation_rate": 0.5},
    ]
    assert len({counts.first_round(a_run(**change)) for change in [{}, *changes]}) == 8


@pytest.mark.parametrize(("worth", "trained"), [(1e12, 1.5), (0.0, 2.0)])
def test_a_sweep_counts_what_its_trials_share_once(monkeypatch, tmp_path, worth, trained):
    monkeypatch.setattr(Small, "rate", lambda self, step, attack: {"train": 1.0}.get(step, 0.0))
    monkeypatch.setattr(client_actors, "WORTH", worth)
    base = (
        "{rounds: 2, data: {name: digits, clients: 4, examples_per_client: 10}, model: mlp, "
        "training: {epochs: 1}}"
    )
    grid = "aggregation: {grid_search: [fedavg, fedmedian]}, seed: {grid_search: [0, 1]}"
    (tmp_path / "s.yaml").write_text(
        f"name: s\nbase: {base}\nsweep: {{{grid}}}\nresources: {{client_actors: 1}}\n"
    )
    sweep = load_sweep(tmp_path / "s.yaml")
    answer = dry_run.forecast(sweep, trial_specs(sweep), a_place(sweep.runs[0]))
    assert answer.trial["training"] == pytest.approx(trained * 4 * 10, abs=0.1)


@pytest.mark.parametrize("clusters", [1, 2])
def test_what_shadow_models_take_if_clients_keep_moving_is_said_of_several_models(
    monkeypatch, tmp_path, clusters
):
    monkeypatch.setattr(
        Small, "rate", lambda self, step, attack: {"train": 1.0, "replicate": 1.0}.get(step, 0.0)
    )
    data = "{name: digits, clients: 4, examples_per_client: 10}, training: {epochs: 1}"
    audited = (
        f"clustering: {{name: ifca, clusters: {clusters}, restarts: 1}}, attacks: [shadow_mia]"
    )
    (tmp_path / "s.yaml").write_text(
        f"{{name: s, base: {{rounds: 20, data: {data}, model: mlp, {audited}}}}}"
    )
    sweep = load_sweep(tmp_path / "s.yaml")
    answer = dry_run.forecast(sweep, trial_specs(sweep), a_place(sweep.runs[0]))
    again = (5 + 10 + 15 + 20) / 20  # times as many rounds
    assert answer.anew == pytest.approx(again * answer.trial["shadow models"], rel=0.01)
    assert len(answer.lines) == 2 + clusters


# A run in small


def test_what_trials_have_in_common_is_timed_once(monkeypatch):
    timed: list[str] = []
    monkeypatch.setattr(Small, "rate", lambda self, step, attack: timed.append(step) or 1.0)
    small = SmallRuns(lambda run: Path())

    def rates(**given: Any) -> None:
        run = a_run(**given)
        data, _ = small.data(run)
        counts.of_trial(run, data, a_place(run), small.rate(run, data))

    rates()
    assert sorted(timed) == ["evaluate", "serve", "train"]
    rates(rounds=7, seed=3)
    assert len(timed) == 3
    rates(aggregation="fedmedian")
    assert timed[3:] == ["serve"]
    small.spent = small_runs.LIMIT
    rates(
        aggregation={"name": "fedmedian"},
        training={"epochs": 2, "batch_size": 7, "clients_per_job": 3},
    )
    assert len(timed) == 4, "a similar step stands for it when the time is spent"
    rates(training={"precision": "bf16"})
    assert timed[4:] == ["train"], "but never one in the other precision, to which it is compared"


def test_a_data_set_is_loaded_once_for_all_seeds(monkeypatch):
    loads, load = list[int](), digits.load
    monkeypatch.setattr(digits, "load", lambda *given: (loads.append(1), load(*given))[1])
    small = SmallRuns(lambda run: Path())
    for seed in range(3):
        data, _ = small.data(run := a_run(seed=seed))
        assert (data.train.x == partition_data(run, Path()).train.x).all()
    assert len(loads) == 1 + 3


def tries_of(monkeypatch, step: str, once: float, each: float) -> tuple[Small, list[float]]:
    """A run in small whose step takes so many seconds ``once`` and for ``each`` example; the
    examples of its tries.
    """
    clock, tries = [0.0], list[float]()
    times = SimpleNamespace(perf_counter=lambda: clock[0], process_time=lambda: clock[0])
    monkeypatch.setattr(small_runs, "time", times)
    monkeypatch.setattr(Small, "together", 1)

    def work(self: Small, data: Any, *attack: str) -> Any:
        tries.append(size := float(data.sizes[0]))
        # Two of three passes; a tenth of the products with the Hessian; a share of the whole
        # attack.
        done = {"train": 2 * size, "curve": min(size, 150)}.get(step, size)
        units = {"curve": done / 10, "attack": done / 200}.get(step, done)
        return units, lambda: clock.__setitem__(0, clock[0] + once + each * done)

    monkeypatch.setattr(Small, step, work)
    given: dict[str, Any] = {
        "data": {"name": "digits", "clients": 4, "examples_per_client": 200},
        "training": {"epochs": 3, "batch_size": 20},
        "curvature": {"examples": 150, "solver": "power", "power_steps": 80},
    }
    run = a_run(objective="finp", **given)
    return Small(run, partition_data(run, Path())), tries


@pytest.mark.parametrize(
    ("step", "once", "rate"),
    [
        ("train", 0.05, 0.01 + 0.05 / (200 * 3)),
        ("curve", 0.05, 10 * (0.01 + 0.05 / 150)),
        ("curve", 0.0, 10 * 0.01),
        ("attack", 0.05, 200 * 0.01 + 0.05),
        ("evaluate", 0.05, 0.21 / 16),
    ],
)
def test_what_a_client_takes_once_is_spread_over_all_its_examples(
    monkeypatch, step: str, once: float, rate: float
) -> None:
    assert tries_of(monkeypatch, step, once, 0.01)[0].rate(step) == pytest.approx(rate)


@pytest.mark.parametrize(("once", "each", "sizes"), [(0.1, 0.0125, [8, 8, 16]), (3.1, 0.02, [8])])
def test_a_step_of_a_large_model_is_taken_with_twice_the_examples_unless_it_is_long(
    monkeypatch, once: float, each: float, sizes: list[float]
) -> None:
    small, tries = tries_of(monkeypatch, "train", once, each)
    small.rate("train")
    assert tries == sizes  # the very first loads code


def test_a_first_try_that_waited_for_others_is_done_again(monkeypatch):
    """Code is loaded in it, and on a busy machine that takes long, by the clock on the wall."""
    small, tries = tries_of(monkeypatch, "train", 0.0, 0.01)
    waited = itertools.count(0.0, 10.0)
    processor = small_runs.time.process_time
    busy = SimpleNamespace(perf_counter=lambda: next(waited), process_time=processor)
    monkeypatch.setattr(small_runs, "time", busy)
    small.rate("train")
    assert tries == [8, 8]


def natural_clients() -> Small:
    """FedMIA on four clients, each with 12 test examples of its own and no other non-member."""
    attack = {"name": "fedmia", "targets": 4, "center": "none"}
    run = a_run(data={"name": "digits", "clients": 4}, attacks=[attack])
    data = partition_data(run, Path())
    owner = np.repeat(np.arange(4), 12)
    no = data.nonmembers[:0]
    parts = {"test": data.test[:48], "test_owner": owner, "nonmembers": no}
    return Small(run, replace(data, nonmember_owner=owner[:0], **parts))


def test_a_part_of_the_clients_keeps_what_each_holds_out():
    small = small_runs.in_small(natural_clients().data, 3, 8)
    assert np.bincount(small.test_owner).tolist() == [8] * 3
    assert small.sizes.tolist() == [8] * 3


def test_an_attack_is_timed_on_as_many_examples_as_it_needs():
    """Of 8 examples of each client, 8 are held out, and it compares with ten or more."""
    assert natural_clients().rate("attack", "fedmia") > 0


def test_what_reduced_precision_costs_on_this_processor_is_said(monkeypatch, tmp_path):
    seconds = {"bf16": 4.0, "float32": 2.0}
    monkeypatch.setattr(
        Small, "rate", lambda self, step, attack: seconds[self.run.training.config.precision]
    )
    run = a_run(training={"batch_size": 5})
    (tmp_path / "sweep.yaml").write_text(
        "{name: small, base: {rounds: 2, data: {name: digits, clients: 8}, model: mlp},"
        " sweep: {training.precision: {grid_search: [float32, bf16]}}}"
    )
    sweep = load_sweep(tmp_path / "sweep.yaml")
    plain, reduced = trial_specs(sweep)
    slower = dry_run.forecast(sweep, [plain, reduced], a_place(run)).lines[-1]
    assert slower.startswith("warning") and "2.0 x" in slower
    seconds["float32"] = 8.0
    faster = dry_run.forecast(sweep, [reduced], a_place(run)).lines[-1]
    assert not faster.startswith("warning") and "0.5 x" in faster
    assert len(dry_run.forecast(sweep, [plain], a_place(run)).lines) == 2


EVERYTHING: dict[str, dict[str, Any]] = {
    "groups and shadows": {
        "clustering": {"name": "ifca", "clusters": 2},
        "training": {"epochs": 10, "batch_size": 10, "lr": 0.1},
        "attacks": [{"name": "shadow_mia", "every": 5}],
    },
    "curvature and source inference": {
        "objective": "finp",
        "curvature": {
            "solver": "power",
            "power_steps": 30,
            "trace": "hutchinson",
            "probes": 30,
            "tolerance": 1e-9,
        },
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


# on a machine that does other things as well, steps take longer than their processor time
@pytest.mark.slow
@pytest.mark.parametrize("given", EVERYTHING.values(), ids=EVERYTHING)
def test_the_estimate_is_within_a_factor_of_three_of_the_processor_time_of_a_run(tmp_path, given):
    found, messages = estimated(
        run := a_run(rounds=10, model={"name": "mlp", "hidden": [64]}, **given)
    )
    started, one = time.process_time(), inline_trial(run, tmp_path)
    finished(one)
    taken = time.process_time() - started
    print(f"estimated {found:.2f} s, taken {taken:.2f} s, messages {messages:.2f} s")
    assert taken / 3 < found < 3 * taken + messages
