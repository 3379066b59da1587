"""Local differential privacy: the update that is really sent, the account of each client, and
when an epsilon is stated.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from algorithms.auditing import finding
from algorithms.auditing.epsilon import epsilon_gdp
from algorithms.core.accounting import PrivacyEvent
from algorithms.core.messages import Assignment, Weights
from algorithms.core.noise import Zeros
from algorithms.engine.block import TrainedBlock, protect
from algorithms.interfaces import Outcome
from algorithms.privacy import local_dp
from algorithms.privacy.local_dp import Config, epsilon_after, epsilons
from orchestrator.config.run import check, resolve
from orchestrator.conformance.example_runs import inline_trial
from tests.support.noise_runs import (
    gaussian_epsilon,
    is_standard_deviation,
    normals,
    received,
    run,
    updates,
)
from tests.support.planted import finished
from tests.support.planted import given as given_run

# Sent updates


def sent(
    updates: np.ndarray, seed: int = 0, noisy: bool = True, model: Any = None, **fields: Any
) -> np.ndarray:
    """What clients with these ``updates`` [clients, d] send, less the model that they were sent,
    by the engine.
    """
    start = np.zeros(updates.shape[1], np.float32) if model is None else model
    trained = TrainedBlock(
        start + updates, np.full((len(updates), 1), 7, np.float32), np.zeros(len(updates))
    )
    assigned = Assignment(range(len(updates)), np.zeros(len(updates), int), 0)
    stream = lambda purpose, client: np.random.default_rng([seed, client, *purpose.encode()])  # noqa: E731
    of_run = resolve(given_run(privacy={"name": "local_dp", **fields}))
    private = protect(
        of_run, trained, assigned, [Weights(start, np.zeros(1, np.float32))], stream, noisy
    )
    assert (trained.params - start == updates)[
        np.isfinite(updates)
    ].all()  # nothing is changed in place
    assert (private.buffers[:, 0] == np.where(np.isfinite(updates).all(axis=1), 7, 0)).all()
    return private.params - start


def test_noise_of_z_clips_is_sent_with_every_update_and_with_none():
    """Long, short, zero and broken updates: each has noise of its own, of the same deviation,
    around what was clipped.
    """
    d, z, clip = 20_000, 0.3, 2.0
    rows = np.zeros((5, d), np.float32)
    rows[0, 0], rows[1, 1], rows[3, 5], rows[4, 6] = 50, 0.5, np.nan, np.inf
    fields = {"clip": clip, "noise_multiplier": z}
    noisy, bare = sent(rows, **fields), sent(rows, noisy=False, **fields)
    expected = np.zeros((5, d))
    expected[0, 0], expected[1, 1] = clip, 0.5
    np.testing.assert_allclose(bare, expected, rtol=1e-6)
    noises = (noisy - bare).astype(np.float64)
    for noise in noises:
        assert is_standard_deviation(noise, z * clip) and not is_standard_deviation(
            noise, 1.05 * z * clip
        )
    assert np.abs(np.corrcoef(noises) - np.eye(5)).max() < 0.05  # nobody shares it
    assert not np.allclose(sent(rows, seed=1, **fields), noisy, atol=0.1)


@given(seed=st.integers(0, 10_000), clip=st.floats(0.1, 10), size=st.floats(0.01, 100))
def test_what_a_client_may_send_lies_two_clips_apart_and_one_from_zero(seed, clip, size):
    config, rows = Config(clip=clip, noise_multiplier=1.0), updates(2, seed, size)
    one, other, opposite, zero = (
        local_dp.private_update(config, row, Zeros(12))
        for row in (rows[0], rows[1], -rows[0], 0 * rows[0])
    )
    assert np.linalg.norm(one - zero) <= clip * (1 + 1e-6)
    assert max(np.linalg.norm(one - other), np.linalg.norm(one - opposite)) <= 2 * clip * (1 + 1e-6)


def test_without_noise_and_clip_an_update_is_sent_to_the_bit():
    """Even where the model is so large that adding the difference again would round."""
    rng = np.random.default_rng(0)
    model, trained = (
        (rng.normal(size=12) * 10.0 ** np.arange(-6, 6)).astype(np.float32) for _ in range(2)
    )
    block = TrainedBlock(trained[None], np.zeros((1, 0), np.float32), np.zeros(1))
    of_run = resolve(given_run(privacy={"name": "local_dp", "clip": 1e12, "noise_multiplier": 0}))
    weights = [Weights(model, np.zeros(0, np.float32))]
    after = protect(
        of_run,
        block,
        Assignment((0,), np.zeros(1, int), 0),
        weights,
        lambda *_: np.random.default_rng(0),
    )
    assert (model + (trained - model) != trained).any()
    assert after.params.tobytes() == block.params.tobytes()


@pytest.mark.parametrize(
    ("neighboring", "mu"),
    [("replace_one", 2.0), pytest.param("zero_out", 1.0, marks=pytest.mark.slow)],
)
def test_canaries_in_sent_updates_find_the_mu_that_is_accounted_for(neighboring, mu):
    """A client sends C in a direction of its own, or the furthest that the relation allows: two
    or one clip away.

    By 40 audits of 500 updates each: their mean within its error, and the claim in their 95 %
    intervals.
    """
    claimed, opposite = (
        epsilon_after(Config(noise_multiplier=1.0, neighboring=neighboring), 1),
        mu == 2,
    )
    assert claimed == pytest.approx(epsilon_gdp(mu, 1e-5))

    def found(seed: int, z: float = 1.0) -> finding.Finding:
        rng = np.random.default_rng([seed, 3])
        directions = rng.normal(size=(500, 64))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        inside = rng.random(500) < 0.5
        rows = 1e4 * np.where(inside, 1.0, -1.0 if opposite else 0.0)[:, None] * directions
        scores = np.sum(
            sent(rows.astype(np.float32), seed, clip=2.0, noise_multiplier=z) * directions, axis=1
        )
        kept = {
            "scores": scores[None],
            "squares": np.ones(1),
            "audited": np.ones(1),
            "released": np.ones(1),
        }
        told = finding.find(kept | {"inside": inside[None]}, 0, 1e-5, claimed, opposite, False)
        assert told is not None
        return told

    audits = [found(seed) for seed in range(40)]
    mus = np.array([one.mu for one in audits])
    assert mus.mean() == pytest.approx(mu, abs=4 * mus.std() / 40**0.5)
    assert (
        sum(one.low < claimed < one.high for one in audits) >= 34
    )  # fewer happen once in 10 000 times
    assert {one.verdict(claimed) for one in audits} == {finding.HOLDS}
    assert (
        found(0, z=0.5).verdict(claimed) == finding.REFUTED
    )  # half of the noise, as if it were lost on the way


# What the server knows


def test_the_server_reports_what_it_received():
    """Four noised updates of equal weight: their norms are large although nobody sent more than
    C.
    """
    config = Config(clip=1.0, noise_multiplier=3.0)
    rows = np.stack(
        [local_dp.private_update(config, row, normals(seed=i)) for i, row in enumerate(updates(4))]
    )
    got = received(local_dp, config, rows)
    params, metrics = local_dp.release(config, got.mean.astype(np.float32), got, None)
    assert (params == got.mean.astype(np.float32)).all()
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    assert metrics == pytest.approx(
        {
            "noise_std": 3.0 / 2,
            "update_norm": norms.mean(),
            "update_norm_max": norms.max(),
            "noise_to_update": 1.5 * 12**0.5 / np.linalg.norm(got.mean),
        }
    )
    assert norms.min() > 1
    assert local_dp.bound(config, np.array([0.0, 1e9, np.nan, np.inf])).tolist() == [1, 1, 0, 0]


def test_no_field_says_how_far_a_client_can_move_or_how_much_epsilon_is_spent():
    for field in ("sensitivity", "epsilon", "target_epsilon"):
        with pytest.raises(ValidationError):
            Config.model_validate({field: 1e-4})
    for field, value in {"noise_multiplier": math.nan, "clip": 0.0, "delta": 0.0}.items():
        with pytest.raises(ValidationError):
            Config.model_validate({field: value})


# The account


@pytest.mark.parametrize(
    ("z", "rounds", "neighboring", "epsilon"),
    [
        (1.0, 1, "replace_one", 9.9973),
        (20.0, 1, "replace_one", 0.3407),
        (20.0, 4, "replace_one", 0.7255),
        (20.0, 10, "replace_one", 1.1994),
        (20.0, 20, "replace_one", 1.7601),
        (5.3686, 20, "replace_one", 8.0),
        (2.6843, 20, "zero_out", 8.0),
        (0.0446, 1, "replace_one", 1194),
    ],
)
def test_epsilons_are_those_of_the_gaussian_mechanism_over_all_rounds(
    z, rounds, neighboring, epsilon
):
    config = Config(noise_multiplier=z, neighboring=neighboring)
    assert epsilon_after(config, rounds) == pytest.approx(
        epsilon, rel=2e-3 if epsilon > 1000 else 1e-4
    )
    mu = (2 if neighboring == "replace_one" else 1) * math.sqrt(rounds) / z
    assert epsilon_after(config, rounds) == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-4)


HISTORY = np.array(
    [[0, 0, -1, 0], [0, -1, -1, 0], [0, -1, -1, -1]], np.int16
)  # the clients sent 3, 1, 0 and 2 times


def final(config: Config, where: Any, history: np.ndarray = HISTORY) -> dict[str, Any]:
    return local_dp.final_metrics(
        config, where, Outcome([], [], np.ones(4, np.int64), history=history)
    )


def test_a_client_pays_for_the_rounds_in_which_it_sent_and_the_one_that_sent_most_makes_the_headline():
    config, where = (
        Config(noise_multiplier=2.0),
        run(participation="poisson", participation_rate=0.5),
    )
    each = [epsilon_gdp(math.sqrt(t), 1e-5) for t in (3, 1, 0, 2)]
    assert local_dp.client_columns(config, where, HISTORY)["epsilon"] == pytest.approx(each)
    told = final(config, where)
    assert told["epsilon"] == pytest.approx(each[0]) and told["delta"] == 1e-5
    assert told["guarantee"].startswith("local dp") and "every update" in told["guarantee"]
    seen = [Outcome([{}] * k, [], np.ones(4, np.int64), history=HISTORY[:k]) for k in range(4)]
    so_far = [local_dp.so_far(config, where, outcome)["epsilon"] for outcome in seen]
    assert so_far == pytest.approx(
        [epsilon_gdp(math.sqrt(t), 1e-5) if t else 0.0 for t in range(4)]
    )
    assert local_dp.event(config, received(local_dp, config, updates(7)), where) == PrivacyEvent(
        1.0, "all", 1.0, 7
    )


def test_whoever_sees_models_alone_sees_the_noise_of_all_who_sent():
    """100 clients send 20 times.

    In the same relation; the page's .2792 is a zero update at the noise of replace-one.
    """
    everybody = np.zeros((20, 100), np.int16)
    for z, neighboring, server, models in (
        (5.3686, "replace_one", 8.0, 0.5943),
        (2.6843, "zero_out", 8.0, 0.5943),
        (5.3686, "zero_out", epsilon_gdp(20**0.5 / 5.3686, 1e-5), 0.2792),
    ):
        told = final(Config(noise_multiplier=z, neighboring=neighboring), run(), everybody)
        assert told["epsilon"] == pytest.approx(server, rel=1e-3)
        assert told["epsilon_models"] == pytest.approx(models, abs=1e-4)
    # The first client was with two, one and no others.
    told = final(Config(noise_multiplier=2.0), run())
    assert told["epsilon_models"] == pytest.approx(epsilon_gdp(math.sqrt(1 / 3 + 1 / 2 + 1), 1e-5))
    assert (
        final(Config(noise_multiplier=2.0), run(aggregation__name="fedyogi")) == told
    )  # made of the mean
    reading_each = final(Config(noise_multiplier=2.0), run(aggregation__name="fedmedian"))
    assert reading_each["epsilon"] == told["epsilon"] and reading_each["epsilon_models"] is None


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ({"privacy": {"noise_multiplier": 0.0}}, "noise is added"),
        ({"privacy": {"noise_multiplier": 1e-6}}, "noise is added"),
        ({"data__config__prepared_by": "all_clients"}, "data.statistics"),
        ({"split__module__server_has": lambda *_: "clients"}, "data.split.server"),
        ({"model__module__BATCH_NORM": True}, "batch normalization"),
        ({"measures_curvature": True}, "curvature"),
        ({"clustering__config__restarts": 3}, "initializations"),
        ({"clustering__config__clusters": 2}, "choose models"),
        ({"aggregation__config__weights": "examples"}, "numbers of examples"),
        ({"aggregation__name": "finp_pca"}, "finp_pca"),
    ],
)
def test_no_epsilon_is_stated_where_more_than_updates_is_sent_and_the_reason_is(other, word):
    other = dict(other)
    config, where = Config(**{"noise_multiplier": 1.0} | other.pop("privacy", {})), run(**other)
    told = final(config, where)
    assert told["epsilon"] is None and told["epsilon_models"] is None
    assert told["guarantee"].startswith("none: ") and word in told["guarantee"]
    assert (
        local_dp.client_columns(config, where, HISTORY) == {}
        and local_dp.planned(config, where) is None
    )
    assert (
        local_dp.so_far(config, where, Outcome([], [], np.ones(4, np.int64), history=HISTORY)) == {}
    )
    assert word in local_dp.remark(config, where)


def test_a_plan_says_what_an_epsilon_will_hold_for():
    config = Config(noise_multiplier=20.0)
    said = local_dp.remark(config, run(rounds=20))
    assert (
        "epsilon 1.761 " in said and "20 rounds" in said and "every update" in said
    )  # 1.7601 is rounded up
    assert "as many as" in local_dp.remark(config, run(rounds=20, participation="fixed"))


def test_what_a_trial_with_secret_noise_leaves_gives_its_epsilon():
    told = final(Config(noise_multiplier=2.0, noise="secret"), run())
    ledger = json.loads(told["guarantee_events"])
    (event,) = ledger["events"]
    assert (ledger["neighboring"], event[0]) == ("replace_one", 3)
    assert PrivacyEvent(*event[1:]) == PrivacyEvent(1.0)
    assert "guarantee_events" not in final(Config(noise_multiplier=2.0), run())
    assert (
        epsilons(Config(noise_multiplier=2.0), HISTORY[:0]) == 0
    ).all()  # before the first round


AUDITED = {
    "rounds": 3,
    "data": {"name": "digits", "clients": 8, "examples_per_client": 20},
    "model": {"name": "mlp", "hidden": [32]},
    "training": {"epochs": 1, "batch_size": 10},
    "aggregation": {"name": "fedavg", "weights": "uniform"},
    "privacy": {"name": "local_dp", "noise_multiplier": 1.0, "audit_every": 1},
}


def test_canaries_in_the_models_find_the_claim_and_noise_that_is_too_small(tmp_path, monkeypatch):
    def audited(folder: str) -> dict[str, Any]:
        trial = finished(inline_trial(resolve(AUDITED), tmp_path / folder))
        rows = trial.rows("rounds").to_pylist()
        assert rows[-1]["epsilon"] == epsilon_after(trial.run.privacy.config, 3)
        outcome = Outcome(rows, [], trial.data.sizes, trial.state.canaries, trial.state.history)
        return local_dp.final_metrics(trial.run.privacy.config, trial.run, outcome)

    told = audited("honest")
    assert told["epsilon_models"] == pytest.approx(epsilon_gdp(2 * math.sqrt(3 / 8), 1e-5))
    assert told["epsilon_audit_low"] < told["epsilon_models"] < told["epsilon_audit_high"]
    assert told["audit_verdict"] == "not refuted"
    monkeypatch.setattr(local_dp, "private_update", half_the_noise(local_dp.private_update))
    told = audited("half")
    assert told["audit_verdict"] == "refuted" and told["epsilon_audit_low"] > told["epsilon_models"]


def half_the_noise(honest: Any) -> Any:
    def private_update(config: Config, update: Any, noise: Any) -> Any:
        return honest(
            config.model_copy(update={"noise_multiplier": config.noise_multiplier / 2}),
            update,
            noise,
        )

    return private_update


def test_an_audit_is_refused_where_no_mean_is_released():
    _, problems = check(AUDITED | {"aggregation": "fedmedian"})
    assert [problem.key for problem in problems] == [("privacy", "audit_every")]
    # With auto, canaries would weaken each other.
    assert local_dp.canaries(Config(), run(aggregation__name="fedyogi")) is None
