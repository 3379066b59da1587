"""Canaries in whole runs: they change nothing, find what is true, refute planted defects, and
claim nothing without a claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.auditing.epsilon import epsilon_gdp
from algorithms.core import accounting
from algorithms.core.noise import Normals
from algorithms.engine import canary_audit
from algorithms.interfaces import Outcome
from algorithms.privacy import _server_noise, global_dp
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import resolve
from orchestrator.trial import loop
from orchestrator.trial.metric_rows import final_metrics
from orchestrator.trial.random_streams import run_stream
from orchestrator.trial.restarts import Trial
from tests.support.planted import clustered, finished, given, opened, outputs, planted

DATA = planted(clients=6, each=[9, 14, 11, 20, 13, 10], minority=2, features=400)


def noisy(
    z: float = 1.0,
    rounds: int = 3,
    seed: int = 0,
    privacy: dict[str, Any] | None = None,
    **slots: Any,
) -> dict[str, Any]:
    fields = {"name": "global_dp", "clip": 1.0, "noise_multiplier": z, "audit_every": 1} | (
        privacy or {}
    )
    return given(rounds, seed=seed, privacy=fields, **slots)


def ran(run: dict[str, Any], folder: Path) -> Trial:
    return finished(opened(run, folder, DATA))


def told(trial: Trial) -> dict[str, Any]:
    rows, state = trial.rows("rounds").to_pylist(), trial.state
    return final_metrics(trial.run, Outcome(rows, state.spent, trial.data.sizes, state.canaries))


def with_and_without(run: Callable[[int], dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """What is told of a run without and with an audit, which leaves the same files otherwise."""
    kept, found = [], []
    for every in (0, 1):
        trial = ran(run(every), folder / str(every))
        assert bool(trial.state.canaries) == bool(every)
        kept.append(outputs(trial))
        found.append(told(trial))
    assert kept[0] == kept[1]
    return found


def test_an_audit_changes_nothing_else(tmp_path):
    found = with_and_without(lambda every: noisy(privacy={"audit_every": every}), tmp_path)
    more = {name for name in found[1] if "audit" in name}
    assert {"epsilon_audit", "audit_mu", "audit_sees", "audit_verdict"} <= more
    for name in (found[1].keys() | found[0].keys()) - more - {"seconds_per_round"}:
        assert found[1][name] == found[0][name], name


@pytest.mark.parametrize(
    ("z", "fields"),
    [
        (0.5, {}),
        (2.0, {}),
        (2.0, {"neighboring": "replace_one"}),
        (1.0, {"sensitivity": "uniform"}),
    ],
)
def test_a_true_claim_is_found_and_not_refuted(tmp_path, z, fields):
    """The claim of a Gaussian mechanism is exact, so the estimate must meet it, whatever the
    weights of clients are.
    """
    found = told(ran(noisy(z, privacy=fields), tmp_path))
    assert found["epsilon_audit_low"] * 0.8 < found["epsilon"] < found["epsilon_audit_high"] * 1.2
    assert found["epsilon_audit_certified"] < found["epsilon_audit"]
    assert found["audit_verdict"] == "not refuted" and found["audit_sees"] == "releases"
    assert (found["audit_canaries"], found["audit_rounds"], found["audit_delta"]) == (256, 3, 1e-5)


@pytest.mark.parametrize(("z", "rounds"), [(0.01, 1), (0.3, 2)])
def test_the_separation_is_the_closed_form(tmp_path, z, rounds):
    """mu^2 = sum over rounds of (w C)^2 / (sd^2 + |u|^2 / d), for the noise and for the clients'
    own update u.

    At little noise this holds for one round only: over more, what consecutive updates have in
    common cancels like shared noise.
    """
    mus, expected = [], []
    for seed in range(12):
        trial = ran(noisy(z, rounds=rounds, seed=seed), tmp_path / str(seed))
        mus.append(told(trial)["audit_mu"])
        parts, moved = trial.rows("rounds").to_pylist(), 20 / 77
        d = trial.rounds.layout.size
        update = [row["noise_std"] * math.sqrt(d) / row["noise_to_update"] for row in parts]
        squares = [
            moved**2 / (row["noise_std"] ** 2 + u**2 / d)
            for row, u in zip(parts, update, strict=True)
        ]
        expected.append(math.sqrt(sum(squares)))
    assert np.mean(mus) == pytest.approx(np.mean(expected), rel=0.05)


def test_explicit_canaries_pass_the_clients_code_and_add_up_to_the_same(monkeypatch):
    """Both through the same clip and weights; a clip that only the clients' code leaves out
    would set them apart.
    """
    run = resolve(noisy())
    plan = run.privacy.module.canaries(run.privacy.config, run)
    panel = canary_audit.Panel.draw(900, np.random.default_rng(0))
    sends = np.where(panel.inside, 1.0, -1.0)
    both = canary_audit.sum_of_canaries(run, plan, panel, sends, 20)
    monkeypatch.setattr(canary_audit, "EXPLICIT", 0)
    vectors = canary_audit.sum_of_canaries(run, plan, panel, sends, 20)
    assert both[0] == pytest.approx(vectors[0], abs=1e-4) and both[1] == vectors[
        1
    ] == pytest.approx(20.0)
    scores = panel.directions.products(both[0].astype(np.float32))[: len(sends)] * sends
    assert scores == pytest.approx(20.0, rel=1e-4)


# Planted defects

Plant = Callable[[pytest.MonkeyPatch], None]


def no_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_server_noise, "add_noise", lambda params, sd, noise: params.copy())


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    real = _server_noise.add_noise
    patch.setattr(_server_noise, "add_noise", lambda params, sd, noise: real(params, sd / 2, noise))


def noise_of_the_first_round(patch: pytest.MonkeyPatch) -> None:
    """The stream forgets the round."""

    def forgetful(run: Any, purpose: str, *place: int) -> np.random.Generator:
        return run_stream(run, purpose, *(place if purpose == "participation" else (0, *place[1:])))

    patch.setattr(loop, "run_stream", forgetful)


def noise_of_a_fixed_seed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        canary_audit.server,
        "draw_noise",
        lambda run, size, rng: Normals(size, np.random.default_rng(7)),
    )


def no_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(global_dp, "bound", lambda config, norms: np.ones(len(norms)))


def noise_for_the_mean_weight(patch: pytest.MonkeyPatch) -> None:
    """Noise is divided by the cohort, FedAvg weighs by examples, and the account believes the
    noise.
    """
    patch.setattr(
        _server_noise, "sensitivity", lambda config, received: config.clip / len(received.clients)
    )
    patch.setattr(
        global_dp, "_largest_move", lambda config, received: config.clip / len(received.clients)
    )


def an_account_of_one_round(patch: pytest.MonkeyPatch) -> None:
    real = accounting.epsilon
    patch.setattr(accounting, "epsilon", lambda events, *others: real(events[:1], *others))


NOISES = (
    no_noise,
    half_the_noise,
    noise_of_the_first_round,
    noise_of_a_fixed_seed,
    noise_for_the_mean_weight,
)


@pytest.mark.parametrize("plant", [*NOISES, no_clip, an_account_of_one_round])
def test_a_planted_defect_is_refuted(tmp_path, monkeypatch, plant: Plant):
    plant(monkeypatch)
    found = told(ran(noisy(2.0, rounds=6), tmp_path))
    assert found["audit_verdict"] == "refuted", found
    assert found["epsilon_audit_low"] > found["epsilon"]


# Rounds, models, participation


@pytest.mark.parametrize(
    ("every", "rounds", "due"), [(1, 3, [0, 1, 2]), (3, 7, [1, 4]), (2, 4, [0, 2]), (50, 7, [3])]
)
def test_which_rounds_are_audited(tmp_path, every, rounds, due):
    audit = opened(
        noisy(rounds=rounds, privacy={"audit_every": every}), tmp_path, DATA
    ).rounds.audit
    assert [round_ for round_ in range(rounds) if audit.due(round_)] == due


def test_each_model_has_its_own_canaries_and_figures(tmp_path):
    trial = ran(noisy(1.0, clustering=clustered()), tmp_path)
    found, (one, other) = told(trial), trial.state.canaries["inside"]
    assert not np.array_equal(one, other)
    for j in range(2):
        claimed = found[f"epsilon_cluster_{j}"]
        assert (
            found[f"epsilon_audit_low_cluster_{j}"] * 0.8
            < claimed
            < found[f"epsilon_audit_high_cluster_{j}"] * 1.2
        )
    assert found["epsilon_audit"] == max(
        found["epsilon_audit_cluster_0"], found["epsilon_audit_cluster_1"]
    )
    assert found["audit_verdict"] == "not refuted" and found["epsilon"] is None


@pytest.mark.parametrize("participation", ["poisson", "fixed"])
def test_canaries_take_part_as_clients_do(tmp_path, participation):
    """They are seen in half of the rounds; rounds without any client release a model, too."""
    part = {"participation": participation, "participation_rate": 0.5}
    run = noisy(1.0, rounds=12, aggregation={"name": "fedavg", "weights": "uniform"}, **part)
    found = told(ran(run, tmp_path))
    mu = math.sqrt(12) / 2 * (2 if participation == "fixed" else 1)
    assert found["audit_rounds"] == 12
    assert (
        0.7 * mu < found["audit_mu"] < 1.1 * mu
    )  # less, because scores of those who are sampled vary more
    assert found["audit_verdict"] != "refuted"


def test_a_model_with_next_to_no_parameters_is_not_audited(tmp_path):
    trial = finished(opened(noisy(), tmp_path, planted(clients=6, each=9, minority=2, features=10)))
    assert trial.state.canaries == {} and "epsilon_audit" not in told(trial)


def test_how_often_is_decided_by_the_sizes_alone():
    run = resolve(noisy(privacy={"audit_every": "auto"}))
    plan = run.privacy.module.canaries(run.privacy.config, run)
    often = lambda d, clients, each: canary_audit.audit_every(plan, run, d, np.full(clients, each))  # noqa: E731
    assert often(4_810, 200, 64) == 1
    assert often(4_810, 20, 64) == 3
    assert often(6_500_000, 4, 100) == 30 > often(6_500_000, 4, 1000) == 3
    convolutional = resolve(noisy(privacy={"audit_every": "auto"}, model="mnist_cnn", rounds=1))
    assert canary_audit.audit_every(plan, convolutional, 50_186, np.full(40, 256)) == 1


# Without a mechanism: canaries as long as the median update


def bare(every: int | str = 1, rounds: int = 1, **slots: Any) -> dict[str, Any]:
    return given(rounds, privacy={"name": "none", "audit_every": every}, **slots)


def test_an_audit_of_a_run_without_noise_changes_nothing_not_even_its_id(tmp_path):
    found = with_and_without(lambda every: bare(every, rounds=3), tmp_path)
    assert not any("audit" in name for name in found[0])
    for name in found[0].keys() - {"seconds_per_round"}:
        assert found[1][name] == found[0][name], name
    assert "audit_verdict" not in found[1] and found[1]["audit_delta"] == 1e-5
    asked = [
        resolve(given(3, privacy=privacy))
        for privacy in ("none", {"name": "none", "audit_every": "auto"})
    ]
    assert asked[0].to_dict()["privacy"] == asked[1].to_dict()["privacy"] == {"name": "none"}
    assert resolve(bare(0)).to_dict()["privacy"] == {"name": "none", "audit_every": 0}


def test_without_noise_the_separation_is_that_of_the_median_update(tmp_path):
    """mu = w C sqrt(d) / |u|: C is the median norm, u the mean update, and w the weight of the
    largest client.
    """
    mus, expected = [], []
    for seed in range(12):
        trial = opened(bare(seed=seed), tmp_path / str(seed), DATA)
        before, norms = trial.rounds.state.models[0].params.copy(), []
        step = trial.rounds._train
        trial.rounds._train = lambda models, assigned, norms=norms, step=step: (  # type: ignore[method-assign]
            norms.extend(results := step(models, assigned)) or results
        )
        finished(trial)
        lengths = np.concatenate([part.norms for result in norms for part in result.parts.values()])
        update = np.linalg.norm(trial.rounds.state.models[0].params - before)
        found = told(trial)
        assert found["audit_norm"] == pytest.approx(np.median(lengths))
        mus.append(found["audit_mu"])
        expected.append(20 / 77 * np.median(lengths) * math.sqrt(len(before)) / update)
    assert np.mean(mus) == pytest.approx(np.mean(expected), rel=0.05)
    assert found["epsilon_audit"] == pytest.approx(epsilon_gdp(found["audit_mu"], 1e-5))


def test_where_no_mean_is_computed_nothing_is_audited_unless_it_is_asked_for():
    def plan(every, name):
        run = resolve(bare(every, aggregation=name))
        return run.privacy.module.canaries(run.privacy.config, run)

    assert plan("auto", "fedavg").norm is None
    assert plan("auto", "fedmedian") is plan("auto", "fedyogi") is plan(0, "fedavg") is None
    assert plan(2, "fedyogi").every == 2
    with pytest.raises(
        ConfigError, match="audit_every: must be 0: canaries enter a mean, and fedmedian"
    ):
        resolve(bare(2, aggregation="fedmedian"))


def test_rounds_without_an_update_are_not_audited(tmp_path):
    """Nobody sends anything that a canary could be like; a clipped canary is hidden by nothing
    but rounding errors.
    """
    still = {"lr": 1e-30}
    found = told(ran(bare(rounds=2, training=still), tmp_path / "none"))
    assert not any(name.startswith(("audit", "epsilon")) for name in found)
    clipped = told(ran(noisy(0.0, rounds=2, training=still), tmp_path / "clip"))
    assert clipped["epsilon_audit"] > 1e8 and clipped["audit_canaries"] == 256


# Metric privacy: one canary at a time


def distant(
    z: float = 1.0, rounds: int = 3, clip: float = 1.0, every: int = 1, **slots: Any
) -> dict[str, Any]:
    fields = {"name": "metric_privacy", "clip": clip, "noise_multiplier": z, "audit_every": every}
    return given(rounds, privacy=fields, **slots)


def test_an_audit_of_metric_privacy_changes_nothing_and_claims_nothing(tmp_path):
    found = with_and_without(lambda every: distant(every=every), tmp_path)
    assert "epsilon_audit" not in found[0]
    assert "epsilon" not in found[1] and "audit_verdict" not in found[1]
    assert found[1]["guarantee"].startswith("none: the noise depends on the distance")
    assert found[1]["audit_canaries"] == 32 and found[1]["audit_rounds"] == 3
    small = finished(
        opened(distant(), tmp_path / "small", planted(clients=6))
    )  # 22 parameters have 16 directions
    assert told(small)["audit_canaries"] == 16 and (small.state.canaries["direction"] > 0).all()


def test_canaries_that_change_no_distance_are_told_by_their_direction_alone(tmp_path):
    trial = ran(
        distant(clip=0.01), tmp_path
    )  # far shorter than the clients' updates, which are taken as they come
    found, rows = told(trial), trial.rows("rounds").to_pylist()
    mu = math.sqrt(sum((20 / 77 * 0.01 / row["noise_std"]) ** 2 for row in rows))
    assert found["epsilon_audit_scale"] == 0
    assert found["audit_mu"] == pytest.approx(mu, rel=0.1)
    assert (
        found["epsilon_audit"]
        == found["epsilon_audit_direction"]
        == pytest.approx(epsilon_gdp(mu, 1e-5), rel=0.15)
    )


def test_the_noise_level_tells_who_the_outlier_is(tmp_path):
    """One client with a long update, in a federation of alike ones: it sets the level in every
    round.
    """
    data = planted(clients=6, each=[30, 30, 30, 30, 30, 4], minority=1, features=400)
    trial = finished(opened(distant(training={"lr": 0.05}), tmp_path, data))
    found, kept = told(trial), trial.state.canaries
    assert (found["scale_outlier"], found["scale_outlier_rounds"]) == ("client_5", 1.0)
    assert found["epsilon_scale_outlier"] == pytest.approx(
        epsilon_gdp(math.sqrt(kept["presence"][0, 5]), 1e-5)
    )
    assert found["epsilon_scale_outlier"] > 10 > found["epsilon_scale_median"]
    assert found["scale_clients"] == (kept["set"][0] > 0).sum() >= 2
    assert kept["there"].tolist() == [[3] * 6]  # rounds


def test_noise_that_metric_privacy_leaves_out_shows(tmp_path, monkeypatch):
    right = told(ran(distant(), tmp_path / "right"))["audit_mu"]
    no_noise(monkeypatch)
    assert told(ran(distant(), tmp_path / "wrong"))["audit_mu"] > 1e3 * right


def test_a_server_optimizer_moves_by_what_it_makes_of_the_canary(tmp_path):
    slow = ran(
        distant(rounds=1, aggregation={"name": "fedavgm", "lr": 0.5, "warm_start_epochs": 0}),
        tmp_path / "half",
    )
    plain = ran(distant(rounds=1), tmp_path / "plain")
    half, whole = (trial.state.canaries["direction"].mean() for trial in (slow, plain))
    assert half == pytest.approx(whole / 4, rel=0.2)
