"""Streams of random numbers, each a function of its name; and noise that is secret, which no
file takes away again.
"""

from __future__ import annotations

import re
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from algorithms.core.noise import Normals
from orchestrator import CHECKOUT
from orchestrator.config.run import resolve, trial_id
from orchestrator.conformance.example_runs import finished, inline_trial
from orchestrator.results.record import SECRET_NOISE, TrialIdentity
from orchestrator.trial import outcome
from orchestrator.trial.random_streams import PURPOSES, integer, run_stream, sequence, stream
from orchestrator.trial.restarts import Trial

places = st.lists(st.integers(0, 10_000), max_size=3)
purposes = st.sampled_from(sorted(PURPOSES))


def words(seed: int, purpose: str, *place: int) -> tuple[int, ...]:
    return tuple(sequence(seed, purpose, *place).generate_state(4).tolist())


def test_no_two_seeds_purposes_rounds_or_clients_share_a_stream():
    halves = [
        (k, *range(start, end)) for k in range(3) for end in range(1, 9) for start in range(end)
    ]
    for names in (
        [*product(range(4), PURPOSES, range(12), range(12))],
        [*product(range(40), PURPOSES)],
        [(0, "shadow_halves", *half) for half in halves],
    ):
        assert len({words(*name) for name in names}) == len(names)


def test_purposes_keep_their_numbers():
    """Results that were published depend on these; a new purpose goes to the end."""
    first = (
        "partition",
        "groups",
        "strengths",
        "test_owners",
        "test_strengths",
        "initial_weights",
        "preferences",
        "warm_start",
        "selection",
        "batches",
        "shadow_halves",
        "shadow_strengths",
        "shadow_training",
        "audit",
        "noise",
    )
    assert [PURPOSES[name] for name in first] == list(range(len(first)))


def test_a_stream_gives_the_numbers_that_it_gave_when_this_was_written():
    assert stream(0, "batches", 1, 2).integers(0, 1000, 5).tolist() == [658, 743, 747, 519, 77]
    assert integer(7, "shadow_training", 0, 3) == 574939214632697533


@given(st.text(max_size=30), st.text(max_size=30), places)
def test_any_name_of_a_users_own_has_a_stream_of_its_own(name, other, place):
    """The same in every process; none of ours has it."""
    assert words(0, name, *place) == words(0, name, *place)
    assert (words(0, name, *place) == words(0, other, *place)) == (name == other)
    assert {words(0, ours, *place) for ours in PURPOSES if ours != name}.isdisjoint(
        {words(0, name, *place)}
    )


def test_an_own_name_gives_the_numbers_that_it_gave_when_this_was_written():
    assert stream(0, "assign hospitals", 1).integers(0, 1000, 5).tolist() == [
        236,
        238,
        818,
        431,
        17,
    ]


NAMED = re.compile(
    r"""(?:rng_for|stream|streams|stream_of|integer|sequence|fixed)\((?:[\w.]+, )?"(\w+)\""""
)


def test_the_names_in_our_own_code_are_on_the_list():
    """Else a misspelled one would be a stream of its own, without a word."""
    files = [
        file
        for room in ("datasets", "algorithms", "attacks", "orchestrator")
        for file in (CHECKOUT / room).rglob("*.py")
    ]
    used = {name for file in files for name in NAMED.findall(file.read_text(encoding="utf-8"))}
    assert len(used) > 20 and used <= PURPOSES.keys(), used - PURPOSES.keys()


RUN: dict[str, Any] = {
    "rounds": 1,
    "seed": 7,
    "data": {
        "name": "digits",
        "clients": 4,
        "examples_per_client": 30,
        "shadow_size": 60,
        "test_size": 60,
    },
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"lr": 0.1, "epochs": 1, "batch_size": 10},
}
DP_SGD = {
    "name": "dp_sgd",
    "lr": 0.1,
    "epochs": 1,
    "batch_size": 10,
    "noise_multiplier": 1.0,
    "sampling": "poisson",
}


def noisy(noise: str, z: float, **other: Any) -> dict[str, Any]:
    return (
        RUN
        | {"privacy": {"name": "global_dp", "noise_multiplier": z, "clip": 5.0, "noise": noise}}
        | other
    )


def trained(given: dict[str, Any], folder: Path) -> Trial:
    return finished(inline_trial(given, folder))


def model(given: dict[str, Any], folder: Path) -> np.ndarray:
    return trained(given, folder).state.models[0].params.astype(np.float64)


@pytest.fixture(scope="module")
def noiseless(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    return model(noisy("reproducible", 0.0), tmp_path_factory.mktemp("noiseless"))


@pytest.mark.parametrize(("noise", "cancels"), [("reproducible", True), ("secret", False)])
def test_two_trials_of_a_sweep_cancel_their_noise_unless_it_is_secret(
    noise, cancels, noiseless, tmp_path
):
    """2 theta(z = 1) - theta(z = 2) is the model without noise, if both have the same normal
    numbers.
    """
    one, two = (model(noisy(noise, z), tmp_path / str(z)) for z in (1.0, 2.0))
    assert (np.abs(2 * one - two - noiseless).max() < 1e-5) == cancels
    assert np.abs(one - noiseless).max() > 1  # standard deviation 1.25


@pytest.mark.parametrize(("noise", "regenerates"), [("reproducible", True), ("secret", False)])
def test_the_files_of_a_trial_regenerate_its_noise_unless_it_is_secret(
    noise, regenerates, noiseless, tmp_path
):
    trial = trained(noisy(noise, 1.0), tmp_path)
    folder = trial.context.folder
    identity = TrialIdentity(trial_id(trial.run), trial.run.to_dict(), {})
    record = outcome.finish(folder, trial, identity, 0.0)
    seed = yaml.safe_load(folder.config.read_text())["seed"]
    released = trial.state.models[0].params
    drawn = Normals(len(released), stream(seed, "noise", 0, 0, 0)).take()
    found = released - record["metrics"]["noise_std"] * drawn
    assert (np.abs(found - noiseless).max() < 1e-5) == regenerates
    protects_nobody = (
        "the files of a reproducible run protect nobody" in record["metrics"]["guarantee"]
    )
    assert protects_nobody == regenerates
    assert bool(record.get("notes")) != regenerates
    assert all("not repeatable" in note for note in record.get("notes", []))


def test_secret_noise_covers_everything_that_a_guarantee_rests_on_and_nothing_else():
    def fresh(purpose: str, **other: Any) -> bool:
        run = resolve(RUN | other)
        return bool(run_stream(run, purpose, 0).random() != run_stream(run, purpose, 0).random())

    server = {"privacy": {"name": "global_dp", "noise": "secret"}}
    sampled = server | {"participation": "poisson", "participation_rate": 0.5}
    local = {"training": DP_SGD, "privacy": {"name": "none", "noise": "secret"}}
    assert (
        fresh("noise", **server)
        and not fresh("batches", **server)
        and not fresh("participation", **server)
    )
    assert fresh("participation", **sampled)
    assert fresh("gradient_noise", **local) and fresh("batches", **local)
    for purpose in ("initial_weights", "selection", "augmentation", "attack_targets", "partition"):
        assert not fresh(
            purpose, **local | sampled | {"privacy": {"name": "global_dp", "noise": "secret"}}
        )


@pytest.mark.parametrize(
    "slots",
    [
        {"training": DP_SGD, "privacy": {"name": "none", "noise": "secret"}},
        {"rounds": 6, "participation": "poisson", "participation_rate": 0.5},
    ],
    ids=["lots and gradient noise", "participation"],
)
def test_what_is_secret_differs_from_run_to_run(tmp_path, slots):
    one, other = (
        trained(noisy("secret", 0.0) | slots, tmp_path / name).state for name in ("one", "other")
    )
    assert not np.array_equal(one.models[0].params, other.models[0].params)
    assert np.array_equal(one.history, other.history) == ("participation" not in slots)


def test_a_resumed_trial_with_secret_noise_says_so(tmp_path):
    """The noise of finished rounds is in the saved model; that of the others is drawn afresh."""
    given = noisy("secret", 1.0, rounds=3)
    first = inline_trial(given, tmp_path)
    first.advance()
    identity, by = (
        TrialIdentity("t", first.run.to_dict(), {}),
        {"name": "asha", "metric": "accuracy"},
    )
    stopped = outcome.stop(first.context.folder, identity, time.time() + 100, by, (0, 0.5))
    assert stopped["notes"] == [SECRET_NOISE]
    assert (
        stopped["seconds"] == first.rows("rounds")["seconds"][0].as_py()
    )  # of an earlier process, too
    after_one = first.state.models[0].params
    resumed = inline_trial(given, tmp_path)
    assert np.array_equal(resumed.state.models[0].params, after_one)
    finished(resumed)
    notes = outcome.secrecy(resumed.run.to_dict(), resumed.state.resumed)
    assert len(notes) == 2 and "resumed after round 1" in notes[1] and "fresh" in notes[1]
    finished(first)
    assert not np.array_equal(first.state.models[0].params, resumed.state.models[0].params)
    assert outcome.secrecy(resolve(noisy("reproducible", 1.0)).to_dict(), [1]) == []
