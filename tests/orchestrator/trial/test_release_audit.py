"""Canaries in a whole run: they change nothing, find what is true, and refute planted defects."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from algorithms.core import accounting
from algorithms.core.noise import Normals
from algorithms.engine import canary_audit, server
from algorithms.privacy import _server_noise, global_dp
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import resolve
from orchestrator.trial import loop
from orchestrator.trial.random_streams import run_stream
from tests.support.audited import DATA, no_noise, noisy, ran, told
from tests.support.planted import clustered, finished, opened, outputs, planted

pytestmark = pytest.mark.usefixtures("one_thread")


def test_an_audit_changes_nothing_else(tmp_path):
    kept, found = {}, {}
    for every in (1, 0):
        trial = ran(noisy(privacy={"audit_every": every}), tmp_path / str(every))
        assert bool(trial.state.canaries) == bool(every)
        kept[every], found[every] = outputs(trial), told(trial)
    assert kept[1] == kept[0]
    more = {name for name in found[1] if "audit" in name}
    assert {"epsilon_audit", "audit_mu", "audit_sees", "audit_verdict"} <= more
    for name in (found[1].keys() | found[0].keys()) - more - {"seconds_per_round"}:
        assert found[1][name] == found[0][name], name


@pytest.mark.parametrize(
    ("z", "fields"), [(0.5, {}), (2.0, {}), (2.0, {"neighboring": "replace_one"}), (1.0, {"sensitivity": "uniform"})]
)
def test_a_true_claim_is_found_and_not_refuted(tmp_path, z, fields):
    """The claim of a Gaussian mechanism is exact, so the estimate must meet it, whatever the weights of clients are."""
    found = told(ran(noisy(z, privacy=fields), tmp_path))
    assert found["epsilon_audit_low"] * 0.8 < found["epsilon"] < found["epsilon_audit_high"] * 1.2
    assert found["epsilon_audit_certified"] < found["epsilon_audit"]
    assert found["audit_verdict"] == "not refuted" and found["audit_sees"] == "releases"
    assert (found["audit_canaries"], found["audit_rounds"], found["audit_delta"]) == (256, 3, 1e-5)


@pytest.mark.parametrize(("z", "rounds"), [(0.01, 1), (0.3, 2)])
def test_the_separation_is_the_closed_form(tmp_path, z, rounds):
    """mu^2 = sum over rounds of (w C)^2 / (sd^2 + |u|^2 / d), for the noise and for the clients' own update u.

    At little noise this holds for one round only: over more, what consecutive updates have in common cancels like shared noise.
    """
    mus, expected = [], []
    for seed in range(12):
        trial = ran(noisy(z, rounds=rounds, seed=seed), tmp_path / str(seed))
        mus.append(told(trial)["audit_mu"])
        parts, moved = trial.rows("rounds").to_pylist(), 20 / 77
        d = trial.rounds.layout.size
        update = [row["noise_std"] * math.sqrt(d) / row["noise_to_update"] for row in parts]
        squares = [moved**2 / (row["noise_std"] ** 2 + u**2 / d) for row, u in zip(parts, update, strict=True)]
        expected.append(math.sqrt(sum(squares)))
    assert np.mean(mus) == pytest.approx(np.mean(expected), rel=0.05)


def test_explicit_canaries_pass_the_clients_code_and_add_up_to_the_same(monkeypatch):
    """Both through the same clip and weights; a clip that only the clients' code leaves out would set them apart."""
    run = resolve(noisy())
    plan = run.privacy.module.canaries(run.privacy.config, run)
    panel = canary_audit.Panel.draw(900, np.random.default_rng(0))
    sends = np.where(panel.inside, 1.0, -1.0)
    both = canary_audit.sum_of_canaries(run, plan, panel, sends, 20)
    monkeypatch.setattr(canary_audit, "EXPLICIT", 0)
    vectors = canary_audit.sum_of_canaries(run, plan, panel, sends, 20)
    assert both[0] == pytest.approx(vectors[0], abs=1e-4) and both[1] == vectors[1] == pytest.approx(20.0)
    scores = panel.directions.products(both[0].astype(np.float32))[: len(sends)] * sends
    assert scores == pytest.approx(20.0, rel=1e-4)


# Planted defects

Plant = Callable[[pytest.MonkeyPatch], None]


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    real = _server_noise.add_noise
    patch.setattr(_server_noise, "add_noise", lambda params, sd, noise: real(params, sd / 2, noise))


def noise_of_the_first_round(patch: pytest.MonkeyPatch) -> None:
    """The stream forgets the round."""

    def forgetful(run: Any, purpose: str, *place: int) -> np.random.Generator:
        return run_stream(run, purpose, *(place if purpose == "participation" else (0, *place[1:])))

    patch.setattr(loop, "run_stream", forgetful)


def noise_of_a_fixed_seed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(canary_audit.server, "draw_noise", lambda run, size, rng: Normals(size, np.random.default_rng(7)))


def no_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(global_dp, "bound", lambda config, norms: np.ones(len(norms)))


def noise_for_the_mean_weight(patch: pytest.MonkeyPatch) -> None:
    """Noise is divided by the cohort, FedAvg weighs by examples, and the account believes the noise."""
    patch.setattr(_server_noise, "sensitivity", lambda config, received: config.clip / len(received.clients))
    patch.setattr(global_dp, "_largest_move", lambda config, received: config.clip / len(received.clients))


def an_account_of_one_round(patch: pytest.MonkeyPatch) -> None:
    real = accounting.epsilon
    patch.setattr(accounting, "epsilon", lambda events, *others: real(events[:1], *others))


@pytest.mark.parametrize(
    "plant",
    [
        no_noise,
        half_the_noise,
        noise_of_the_first_round,
        noise_of_a_fixed_seed,
        no_clip,
        noise_for_the_mean_weight,
        an_account_of_one_round,
    ],
)
def test_a_planted_defect_is_refuted(tmp_path, monkeypatch, plant: Plant):
    plant(monkeypatch)
    found = told(ran(noisy(2.0, rounds=6), tmp_path))
    assert found["audit_verdict"] == "refuted", found
    assert found["epsilon_audit_low"] > found["epsilon"]


def test_no_noise_at_all_is_refuted_without_any_assumption(tmp_path, monkeypatch):
    no_noise(monkeypatch)
    found = told(ran(noisy(4.0, rounds=2), tmp_path))
    assert found["epsilon_audit_certified"] > found["epsilon"]


def test_a_clip_that_only_the_clients_code_leaves_out_is_seen_in_the_scores(tmp_path, monkeypatch):
    """Which is what the explicit canaries are for: their own scores are far above all others."""
    monkeypatch.setattr(server, "clip", lambda run, updates: (np.linalg.norm(updates, axis=1), np.ones(len(updates))))
    kept = ran(noisy(1.0), tmp_path).state.canaries
    first = kept["scores"][0, : canary_audit.EXPLICIT][kept["inside"][0, : canary_audit.EXPLICIT]]
    assert first.min() > 50 * np.abs(kept["scores"][0, canary_audit.EXPLICIT :]).max()


# Rounds, models, participation


def test_skipped_rounds_count_as_if_they_were_audited(tmp_path):
    found = told(ran(noisy(1.0, rounds=9, privacy={"audit_every": 3}), tmp_path))
    assert found["audit_rounds"] == 3
    assert found["audit_mu"] == pytest.approx(3.0, abs=0.6)


@pytest.mark.parametrize(("every", "rounds", "due"), [(1, 3, [0, 1, 2]), (3, 7, [1, 4]), (2, 4, [0, 2]), (50, 7, [3])])
def test_which_rounds_are_audited(tmp_path, every, rounds, due):
    audit = opened(noisy(rounds=rounds, privacy={"audit_every": every}), tmp_path, DATA).rounds.audit
    assert [round_ for round_ in range(rounds) if audit.due(round_)] == due


def test_each_model_has_its_own_canaries_and_figures(tmp_path):
    trial = ran(noisy(1.0, clustering=clustered()), tmp_path)
    found, (one, other) = told(trial), trial.state.canaries["inside"]
    assert not np.array_equal(one, other)
    for j in range(2):
        claimed = found[f"epsilon_cluster_{j}"]
        assert found[f"epsilon_audit_low_cluster_{j}"] * 0.8 < claimed < found[f"epsilon_audit_high_cluster_{j}"] * 1.2
    assert found["epsilon_audit"] == max(found["epsilon_audit_cluster_0"], found["epsilon_audit_cluster_1"])
    assert found["audit_verdict"] == "not refuted" and found["epsilon"] is None


@pytest.mark.parametrize("participation", ["poisson", "fixed"])
def test_canaries_take_part_as_clients_do(tmp_path, participation):
    """They are seen in half of the rounds; rounds without any client release a model, too."""
    part = {"participation": participation, "participation_rate": 0.5}
    run = noisy(1.0, rounds=12, aggregation={"name": "fedavg", "weights": "uniform"}, **part)
    found = told(ran(run, tmp_path))
    mu = math.sqrt(12) / 2 * (2 if participation == "fixed" else 1)
    assert found["audit_rounds"] == 12
    assert 0.7 * mu < found["audit_mu"] < 1.1 * mu  # less, because scores of those who are sampled vary more
    assert found["audit_verdict"] != "refuted"


def test_a_round_to_which_only_canaries_come_is_audited(tmp_path):
    part = {"participation": "poisson", "participation_rate": 0.02}
    run = noisy(1.0, rounds=3, aggregation={"name": "fedavg", "weights": "uniform"}, **part)
    found = told(ran(run, tmp_path))
    assert found["audit_rounds"] == 3 and math.isfinite(found["audit_mu"])


def test_a_model_with_next_to_no_parameters_is_not_audited(tmp_path):
    trial = finished(opened(noisy(), tmp_path, planted(clients=6, each=9, minority=2, features=10)))
    assert trial.state.canaries == {} and "epsilon_audit" not in told(trial)


def test_canaries_cannot_enter_where_every_update_is_read():
    for no_mean in ("fedmedian", "fedyogi"):  # under a server optimizer an estimate would be too low
        assert resolve(noisy(privacy={"audit_every": "auto"}, aggregation=no_mean)).privacy.config.audit_every == 0
    assert resolve(noisy(privacy={"audit_every": 2}, aggregation="fedyogi")).privacy.config.audit_every == 2
    with pytest.raises(ConfigError, match="audit_every: must be 0: canaries enter a mean, and fedmedian"):
        resolve(noisy(aggregation="fedmedian"))


def test_how_often_is_decided_by_the_sizes_alone():
    run = resolve(noisy(privacy={"audit_every": "auto"}))
    plan = run.privacy.module.canaries(run.privacy.config, run)
    often = lambda d, clients, each: canary_audit.audit_every(plan, run, d, np.full(clients, each))  # noqa: E731
    assert often(4_810, 200, 64) == 1
    assert often(4_810, 20, 64) == 3
    assert often(6_500_000, 4, 100) == 30 > often(6_500_000, 4, 1000) == 3
    convolutional = resolve(noisy(privacy={"audit_every": "auto"}, model="mnist_cnn", rounds=1))
    assert canary_audit.audit_every(plan, convolutional, 50_186, np.full(40, 256)) == 1
