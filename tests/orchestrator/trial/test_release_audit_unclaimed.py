"""Canaries in whole runs that claim nothing: those without a mechanism, and those of metric privacy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from algorithms.auditing.epsilon import epsilon_gdp, mu_of_auc
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import resolve
from tests.support.audited import DATA, no_noise, noisy, ran, told
from tests.support.planted import finished, given, opened, outputs, planted

pytestmark = pytest.mark.usefixtures("one_thread")

# Without a mechanism: canaries as long as the median update


def bare(every: int | str = 1, rounds: int = 1, **slots: Any) -> dict[str, Any]:
    return given(rounds, privacy={"name": "none", "audit_every": every}, **slots)


def test_an_audit_of_a_run_without_noise_changes_nothing_not_even_its_id(tmp_path):
    kept, found = {}, {}
    for every in (1, 0):
        trial = ran(bare(every, rounds=3), tmp_path / str(every))
        kept[every], found[every] = outputs(trial), told(trial)
    assert kept[1] == kept[0] and not any("audit" in name for name in found[0])
    for name in found[0].keys() - {"seconds_per_round"}:
        assert found[1][name] == found[0][name], name
    assert "audit_verdict" not in found[1] and found[1]["audit_delta"] == 1e-5
    asked = [resolve(given(3, privacy=privacy)) for privacy in ("none", {"name": "none", "audit_every": "auto"})]
    assert asked[0].to_dict()["privacy"] == asked[1].to_dict()["privacy"] == {"name": "none"}
    assert resolve(bare(0)).to_dict()["privacy"] == {"name": "none", "audit_every": 0}


def test_without_noise_the_separation_is_that_of_the_median_update(tmp_path):
    """mu = w C sqrt(d) / |u|: C is the median norm, u the mean update, and w the weight of the largest client."""
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
    plan = lambda every, name: (run := resolve(bare(every, aggregation=name))).privacy.module.canaries(  # noqa: E731
        run.privacy.config, run
    )
    assert plan("auto", "fedavg").norm is None
    assert plan("auto", "fedmedian") is plan("auto", "fedyogi") is plan(0, "fedavg") is None
    assert plan(2, "fedyogi").every == 2
    with pytest.raises(ConfigError, match="audit_every: must be 0: canaries enter a mean, and fedmedian"):
        resolve(bare(2, aggregation="fedmedian"))


def test_rounds_without_an_update_are_not_audited(tmp_path):
    """Nobody sends anything that a canary could be like; a clipped canary is hidden by nothing but rounding errors."""
    still = {"lr": 1e-30}
    found = told(ran(bare(rounds=2, training=still), tmp_path / "none"))
    assert not any(name.startswith(("audit", "epsilon")) for name in found)
    clipped = told(ran(noisy(0.0, rounds=2, training=still), tmp_path / "clip"))
    assert clipped["epsilon_audit"] > 1e8 and clipped["audit_canaries"] == 256


# Metric privacy: one canary at a time


def distant(z: float = 1.0, rounds: int = 3, clip: float = 1.0, every: int = 1, **slots: Any) -> dict[str, Any]:
    fields = {"name": "metric_privacy", "clip": clip, "noise_multiplier": z, "audit_every": every}
    return given(rounds, privacy=fields, **slots)


def test_an_audit_of_metric_privacy_changes_nothing_and_claims_nothing(tmp_path):
    kept, found = {}, {}
    for every in (1, 0):
        trial = ran(distant(every=every), tmp_path / str(every))
        kept[every], found[every] = outputs(trial), told(trial)
    assert kept[1] == kept[0] and "epsilon_audit" not in found[0]
    assert found[1]["epsilon"] is None and "audit_verdict" not in found[1]
    assert found[1]["guarantee"].startswith("none: the noise depends on the distance")
    assert found[1]["audit_canaries"] == 32 and found[1]["audit_rounds"] == 3


def test_canaries_that_change_no_distance_are_told_by_their_direction_alone(tmp_path):
    trial = ran(distant(clip=0.01), tmp_path)  # far shorter than the clients' updates, which are taken as they come
    found, rows = told(trial), trial.rows("rounds").to_pylist()
    mu = math.sqrt(sum((20 / 77 * 0.01 / row["noise_std"]) ** 2 for row in rows))
    assert found["epsilon_audit_scale"] == 0
    assert found["audit_mu"] == pytest.approx(mu, rel=0.1)
    assert found["epsilon_audit"] == found["epsilon_audit_direction"] == pytest.approx(epsilon_gdp(mu, 1e-5), rel=0.15)


def test_an_outlier_is_told_by_the_level_of_the_noise(tmp_path):
    found = told(ran(distant(z=100.0, rounds=1, clip=20.0), tmp_path))
    assert found["epsilon_audit_scale"] > 10 * found["epsilon_audit_direction"]
    assert found["epsilon_audit"] >= found["epsilon_audit_scale"]


def test_the_noise_level_tells_who_the_outlier_is(tmp_path):
    """One client with a long update, in a federation of alike ones: it sets the level in every round."""
    data = planted(clients=6, each=[30, 30, 30, 30, 30, 4], minority=1, features=400)
    trial = finished(opened(distant(training={"lr": 0.05}), tmp_path, data))
    found, kept = told(trial), trial.state.canaries
    assert (found["scale_outlier"], found["scale_outlier_rounds"]) == ("client_5", 1.0)
    assert found["epsilon_scale_outlier"] == pytest.approx(epsilon_gdp(math.sqrt(kept["presence"][0, 5]), 1e-5))
    assert found["epsilon_scale_outlier"] > 10 > found["epsilon_scale_median"]
    assert found["scale_clients"] == (kept["set"][0] > 0).sum() >= 2
    assert kept["there"].tolist() == [[3] * 6]  # rounds


def test_clipping_alone_has_an_audit_of_its_own_and_no_noise_level(tmp_path):
    """Without noise only the clients' updates hide a direction: mu = w C sqrt(d) / |u|, and the level is told to nobody."""
    trial = opened(distant(z=0.0, rounds=1), tmp_path, DATA)
    before = trial.rounds.state.models[0].params.copy()
    found = told(finished(trial))
    update = np.linalg.norm(trial.rounds.state.models[0].params - before)
    assert found["audit_mu"] == pytest.approx(20 / 77 * math.sqrt(len(before)) / update, rel=1e-4)
    assert not any(name.startswith("scale") for name in found)


def test_the_mu_of_a_noise_level_by_simulation():
    """The likelihood ratio of two deviations in d coordinates, which is a function of the sum of squares."""
    d, ratio = 3000, 1.02
    squares = np.random.default_rng(0).chisquare(d, (2, 4000))
    auc = (ratio**2 * squares[0][:, None] > squares[1]).mean()
    assert mu_of_auc(auc) == pytest.approx(math.sqrt(2 * d) * math.log(ratio), rel=0.04)


def test_noise_that_metric_privacy_leaves_out_shows(tmp_path, monkeypatch):
    right = told(ran(distant(), tmp_path / "right"))["audit_mu"]
    no_noise(monkeypatch)
    assert told(ran(distant(), tmp_path / "wrong"))["audit_mu"] > 1e3 * right


def test_a_server_optimizer_moves_by_what_it_makes_of_the_canary(tmp_path):
    slow = ran(distant(rounds=1, aggregation={"name": "fedavgm", "lr": 0.5, "warm_start_epochs": 0}), tmp_path / "half")
    plain = ran(distant(rounds=1), tmp_path / "plain")
    half, whole = (trial.state.canaries["direction"].mean() for trial in (slow, plain))
    assert half == pytest.approx(whole / 4, rel=0.2)
