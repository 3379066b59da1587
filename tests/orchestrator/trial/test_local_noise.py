"""Local noise in whole runs: attacks and the sum get what is sent, and replicas add their own,
or none as a reference.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from algorithms.core.messages import Assignment
from algorithms.core.network import Network
from algorithms.core.noise import Normals
from algorithms.engine.block import TrainedBlock, train_again
from algorithms.engine.federation import train_one_each
from algorithms.engine.round import EVERYTHING, Sending, train_block
from algorithms.interfaces import Run
from algorithms.privacy import local_dp
from attacks.interfaces import World
from orchestrator.config.run import resolve
from orchestrator.conformance.example_runs import inline_trial
from orchestrator.trial.attack_tasks import _measured
from orchestrator.trial.random_streams import run_stream, stream
from orchestrator.trial.worker_session import Session, Setup
from tests.support.noise_runs import is_standard_deviation
from tests.support.planted import finished, given, opened, outputs, planted, table

DATA = planted()
UNIFORM = {"name": "fedavg", "weights": "uniform"}
ATTACKS = [
    {"name": "sia", "targets": 20},
    {"name": "fedmia", "targets": 20, "nonmembers": "other_client"},
]


def local(z: float, clip: float = 1.0, **fields: Any) -> dict[str, Any]:
    privacy = {"name": "local_dp", "noise_multiplier": z, "clip": clip, **fields}
    return {"privacy": privacy, "aggregation": UNIFORM}


@pytest.mark.parametrize("backend", ["loop", "vmap"])
def test_without_noise_and_clip_a_run_is_that_without_protection_to_the_bit(tmp_path, backend):
    kept = []
    for slots in ({"aggregation": UNIFORM}, local(0, 1e12)):
        run = given(2, attacks=ATTACKS, training={"backend": backend}, **slots)
        kept.append(outputs(finished(opened(run, tmp_path / str(len(kept)), DATA))))
    none, unbounded = kept
    rounds = none.pop("rounds")
    assert unbounded.pop("rounds").select(rounds.column_names).equals(rounds)
    assert unbounded == none


def test_a_model_moves_by_the_mean_of_the_noise_that_the_clients_draw(tmp_path):
    """One round, so that all begin alike: with and without noise, less the named streams."""
    noisy, bare = (
        finished(opened(given(1, **local(z)), tmp_path / str(z), DATA)) for z in (0.5, 0)
    )
    noises = [Normals(22, stream(0, "update_noise", 0, client)).take() for client in range(10)]
    moved = noisy.state.models[0].params - bare.state.models[0].params
    np.testing.assert_allclose(moved, 0.5 * np.mean(noises, axis=0), atol=1e-6)
    assert (
        table(noisy, "clients")["epsilon"]
        == [local_dp.epsilon_after(noisy.run.privacy.config, 1)] * 10
    )
    (row,) = noisy.rows("rounds").to_pylist()
    assert row["noise_std"] == pytest.approx(0.5 / 10**0.5)
    assert "clip_fraction" not in row  # nobody but the client knows


# Blocks: what is observed, summed and repeated


def sent_in(run: Run, sending: Sending = EVERYTHING) -> tuple[Any, ...]:
    """The start, what attacks see of a block, the sum, and a function that repeats a client's
    training.
    """
    network = Network(run.model, DATA.shape, DATA.classes)
    start = network.initial(np.random.default_rng(0))
    assigned, seen = Assignment(range(10), np.zeros(10, int), 0), list[TrainedBlock]()
    of_round = lambda purpose, client: stream(run.seed, purpose, 0, client)  # noqa: E731

    def observe(block: TrainedBlock) -> dict[str, Any]:
        seen.append(block)
        return {}

    result = train_block(
        run, DATA, network, [start], assigned, (of_round, of_round), observe, sending
    )
    again = partial(train_again, run, DATA, network, [start], assigned)
    return (
        start.params,
        seen[0].params - start.params,
        result.parts[0],
        lambda i, draw: again(i, draw) - start.params,
    )


def test_attacks_on_updates_see_what_is_summed_and_it_is_noisy():
    bare, noisy = resolve(given(**local(0))), resolve(given(**local(1000.0)))
    _, clipped, _, _ = sent_in(bare)
    _, sent, part, again = sent_in(noisy)
    np.testing.assert_allclose(part.total, sent.sum(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(
        part.norms, np.linalg.norm(sent.astype(np.float64), axis=1), rtol=1e-6
    )
    assert np.linalg.norm(clipped, axis=1).max() <= 1 + 1e-5
    assert is_standard_deviation((sent - clipped).ravel(), 1000.0)
    # A client's training is repeated as it sends it: with its own generators the same, with others
    # another noise.
    np.testing.assert_array_equal(
        again(3, lambda purpose, client: stream(noisy.seed, purpose, 0, client)), sent[3]
    )
    other = again(3, lambda purpose, client: stream(noisy.seed, purpose, 1, client))
    assert np.linalg.norm(other - sent[3]) > 1000
    assert is_standard_deviation(other - clipped[3], 1000.0)


def test_a_silent_client_sends_noise_alone_and_a_reference_clips_alone():
    run = resolve(given(**local(1000.0)))
    _, quiet, _, _ = sent_in(run, Sending((2,)))
    noise = 1000 * Normals(22, stream(run.seed, "update_noise", 0, 2)).take()
    np.testing.assert_allclose(quiet[2], noise, rtol=1e-3)
    _, reference, _, _ = sent_in(run, Sending(noisy=False))
    _, clipped, _, _ = sent_in(resolve(given(**local(0))))
    np.testing.assert_allclose(reference, clipped, atol=1e-6)


# Other federations


def test_replicas_add_noise_of_their_own_and_a_reference_adds_none():
    module = SimpleNamespace(
        looks_after=lambda _config, rounds: rounds == 2,
        measure=lambda _config, _data, _network, weights: {
            "sum": float(weights.params.astype(np.float64).sum())
        },
    )

    def measured(seed: int, z: float, noisy: bool = True, **other: Any) -> float:
        run = resolve(given(2, seed=seed, **(other or local(z))))
        worker = Session(run, DATA, Network(run.model, DATA.shape, DATA.classes))
        attack: Any = SimpleNamespace(module=module, config=None)
        (by_round,) = _measured(run, attack, worker, [World(DATA, (), noisy)], Setup("", []))
        return by_round[2]["sum"]

    assert measured(1, 5.0) == measured(1, 5.0)
    assert measured(1, 5.0, noisy=False) == pytest.approx(measured(1, 0.0), abs=1e-4)
    steps = {"training": {"name": "dp_sgd", "noise_multiplier": 5.0, "clip": 1.0}}
    assert measured(1, 0.0, **steps) != measured(
        1, 0.0, noisy=False, **steps
    )  # noise of its own, which it needs to train
    apart = [measured(seed, 5.0) - measured(seed, 0.0) for seed in range(8)]
    assert (
        len(set(apart)) == 8 and 1 < np.std(apart) < 50
    )  # 5 sqrt(2 * 22 / 10) is 10, and training answers to it


def test_shadow_federations_add_noise_of_their_own():
    models = []
    for z, seed in ((0.0, 0), (1000.0, 0), (1000.0, 1)):
        run = resolve(given(**local(z)))
        network = Network(run.model, DATA.shape, DATA.classes)
        draw = partial(
            lambda seed, *place: stream(0 if place[0] != "update_noise" else seed, *place), seed
        )
        models.append(train_one_each(run, [DATA], network, 1, [draw]).models[0].params)
    bare, one, other = models
    for noise, sd in ((one - bare, 1000), (other - bare, 1000), (one - other, 1000 * 2**0.5)):
        assert is_standard_deviation(noise, sd / 10**0.5)


def test_secret_noise_of_clients_is_drawn_anew_every_time():
    for noise, repeats in (("reproducible", True), ("secret", False)):
        run = resolve(given(**local(1.0, noise=noise)))
        assert (
            run.draws_noise
            and run.repeatable == repeats
            and run.to_dict()["privacy"]["noise"] == noise
        )
        one, again = (run_stream(run, "update_noise", 3, 1).random() for _ in range(2))
        assert (one == again) == repeats
    assert "noise" not in resolve(given()).to_dict()["privacy"]


# Attacks


def test_source_inference_and_fedmia_fall_to_chance_as_the_noise_grows(tmp_path):
    data = {
        "name": "digits",
        "clients": 8,
        "examples_per_client": 30,
        "shadow_size": 100,
        "nonmember_size": 200,
    }
    found = {}
    for z in (0.0, 0.3, 100.0):
        run = given(4, attacks=[{"name": "sia"}, {"name": "fedmia"}], **local(z))
        run |= {"data": data | {"split": "dirichlet"}, "model": {"name": "mlp", "hidden": [32]}}
        trial = finished(
            inline_trial(
                run | {"training": {"lr": 0.2, "epochs": 5, "batch_size": 10}}, tmp_path / str(z)
            )
        )
        last = trial.rows("rounds").to_pylist()[-1]
        found[z] = (
            np.mean([row["sia_mean"] for row in trial.rows("rounds").to_pylist()]),
            last["fedmia_auc"],
        )
    (sia, auc), (less_sia, less_auc), (no_sia, no_auc) = found.values()
    assert sia > less_sia > no_sia and auc > less_auc > no_auc
    assert sia > 0.25 and auc > 0.65
    assert no_sia == pytest.approx(1 / 8, abs=0.05) and no_auc == pytest.approx(0.5, abs=0.06)
