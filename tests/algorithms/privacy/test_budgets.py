"""Targets and budgets of global DP: the noise found, the rounds allowed, what is refused; and a
count that is private.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from algorithms.auditing.bounds import classic_bound
from algorithms.core.accounting import PrivacyEvent, epsilon
from algorithms.privacy import global_dp
from algorithms.privacy.global_dp import Config
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import check, resolve, trial_id
from tests.support.noise_runs import normals, received, run
from tests.support.planted import finished, given, opened, table

EQUAL = {"aggregation": {"name": "fedavg", "weights": "uniform"}}
POISSON = EQUAL | {"participation": "poisson", "participation_rate": 0.1}


def resolved(rounds: int = 20, privacy: dict[str, Any] | None = None, **slots: Any) -> Any:
    return resolve(given(rounds, privacy={"name": "global_dp", **(privacy or {})}, **slots))


def settled(made: Any) -> Config:
    return made.privacy.module.settle(made.privacy.config, made, np.full(10, 40))


def test_a_target_is_part_of_the_id_and_its_noise_is_found():
    made = {target: resolved(privacy={"target_epsilon": target}) for target in (2.0, 4.0)}
    assert len({trial_id(one) for one in made.values()}) == 2
    assert made[2.0].to_dict()["privacy"].get("noise_multiplier") is None
    config = settled(made[2.0])
    assert (
        config.noise_multiplier == pytest.approx(8.9166, abs=5e-5) and config.target_epsilon is None
    )
    assert resolve(made[2.0].to_dict()) == made[2.0]
    assert (
        "target_epsilon" not in resolved().to_dict()["privacy"]
    )  # ids of runs without one are what they were


def test_the_relation_and_the_sampling_count():
    replaced = settled(resolved(privacy={"target_epsilon": 2.0, "neighboring": "replace_one"}))
    assert replaced.noise_multiplier == pytest.approx(2 * 8.9166, abs=1e-4)
    sampled = settled(resolved(100, {"target_epsilon": 2.0}, **POISSON))
    assert sampled.noise_multiplier == pytest.approx(2.24771, abs=2e-5)


def test_a_run_ends_before_the_round_that_would_exceed_its_budget(tmp_path):
    made = resolved(privacy={"noise_multiplier": 8.0, "stop_at_epsilon": 2.0})
    assert made.rounds == 16 and resolve(made.to_dict()) == made
    attacked = resolve(made.to_dict() | {"rounds": 20, "attacks": [{"name": "cia", "replicas": 8}]})
    assert attacked.attacks[0].config.rounds == (1, 16)  # auto: the first and the last
    assert "2.062" in (made.privacy.module.remark(made.privacy.config, made) or "")
    assert resolved(privacy={"noise_multiplier": 8.0, "stop_at_epsilon": 2.26}).rounds == 20
    sampled = resolved(100, {"noise_multiplier": 2.3, "stop_at_epsilon": 1.0}, **POISSON).rounds
    spent = [
        epsilon([PrivacyEvent(2.3, "poisson", 0.1)] * k, 1e-5, "add_or_remove_one")
        for k in (sampled, sampled + 1)
    ]
    assert spent[0] <= 1 < spent[1]
    trial = finished(opened(made, tmp_path))
    told = table(trial, "rounds")["epsilon"]
    assert len(told) == 16
    assert [told[at] for at in (0, 4, 9, 15)] == pytest.approx(
        [0.4344, 1.0471, 1.5347, 1.9931], abs=5e-5
    )


def test_a_run_that_was_interrupted_ends_at_the_same_round(tmp_path):
    made = resolved(privacy={"noise_multiplier": 8.0, "stop_at_epsilon": 1.1})
    trial = opened(made, tmp_path)
    for _ in range(3):
        trial.advance()
    again = finished(opened(made, tmp_path))
    assert again.state.resumed == [3] and made.rounds == len(table(again, "rounds")["epsilon"]) == 5


def test_no_epsilon_of_a_round_is_told_where_none_holds(tmp_path):
    trial = finished(
        opened(resolved(2, {"noise_multiplier": 8.0}, aggregation="fedmedian"), tmp_path)
    )
    assert "epsilon" not in table(trial, "rounds")


@pytest.mark.parametrize("budget", ["target_epsilon", "stop_at_epsilon"])
@pytest.mark.parametrize(
    ("other", "word"),
    [
        ({"aggregation": "fedmedian"}, "fedmedian"),
        ({"clustering": {"name": "ifca", "clusters": 2}}, "initializations"),
        ({"clustering": {"name": "ifca", "clusters": 2, "restarts": 1}}, "choose models"),
        ({"privacy": {"sensitivity": "uniform"}}, "sensitivity: weights"),
        ({"privacy": {"divisor": "received"}, **POISSON}, "who took part"),
    ],
)
def test_a_budget_is_refused_where_no_epsilon_holds_or_none_is_known_beforehand(
    budget, other, word
):
    other = dict(other)
    with pytest.raises(ConfigError, match=rf"privacy\.{budget}: .*{word}"):
        resolved(privacy={budget: 2.0, **other.pop("privacy", {})}, **other)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"target_epsilon": 0.0}, "target_epsilon"),
        ({"target_epsilon": -1.0}, "target_epsilon"),
        ({"target_epsilon": float("nan")}, "target_epsilon"),
        ({"stop_at_epsilon": 0.0}, "stop_at_epsilon"),
        ({"target_epsilon": 1e-9}, "target_epsilon: is reached by no noise_multiplier"),
        ({"stop_at_epsilon": 0.43, "noise_multiplier": 8.0}, "stop_at_epsilon: .*0.4345"),
        ({"stop_at_epsilon": 2.0, "noise_multiplier": 0.0}, "stop_at_epsilon: .*no noise"),
    ],
)
def test_what_no_noise_reaches_and_what_the_first_round_exceeds_is_refused(fields, key):
    with pytest.raises(ConfigError, match=rf"privacy\.{key}"):
        resolved(1000, fields)


def test_a_budget_where_the_relation_has_no_account_is_refused_for_the_relation():
    privacy = {
        "name": "global_dp",
        "noise_multiplier": 2.0,
        "neighboring": "replace_one",
        "stop_at_epsilon": 50.0,
    }
    _, problems = check(given(20, privacy=privacy, **POISSON))
    assert [problem.key for problem in problems] == [("privacy", "neighboring")]


@pytest.mark.parametrize("other", ["noise_multiplier", "stop_at_epsilon"])
def test_a_target_excludes_a_given_noise_and_a_budget(other):
    assert other not in resolved(privacy={"target_epsilon": 2.0}).to_dict()["privacy"]
    _, problems = check(given(20, privacy={"name": "global_dp", "target_epsilon": 2.0, other: 1.0}))
    assert [(problem.key, problem.unread) for problem in problems] == [(("privacy", other), True)]


RATE, RUNS, COORDINATES, OTHERS = 0.5, 400, 20_000, 20


def told_by_the_noise(divisor: Any) -> float:
    """The epsilon that is certified by guessing from the size of the noise whether one more
    client took part.
    """
    rng, clients = np.random.default_rng(5), 2 * OTHERS
    where = run(participation="poisson", participation_rate=RATE, data__config__clients=clients)
    config = global_dp.resolve(Config(noise_multiplier=8.0, clip=1.0, divisor=divisor), where)

    def size(present: bool, seed: int) -> float:
        got = received(global_dp, config, np.zeros((OTHERS + present, 12), np.float32))
        zeros = np.zeros(COORDINATES, np.float32)
        got = type(got)(**{**vars(got), "mean": zeros.astype(np.float64)})
        return float(np.std(global_dp.release(config, zeros, got, normals(COORDINATES, seed))[0]))

    inside = -np.array([size(bool(rng.random() < RATE), seed) for seed in range(RUNS)])
    outside = -np.array([size(False, RUNS + seed) for seed in range(RUNS)])
    threshold = -8.0 / 2 * (1 / OTHERS + 1 / (OTHERS + 1))
    return classic_bound(inside, outside, threshold, 1e-5)


def test_a_private_count_tells_more_than_the_account_of_a_fixed_divisor_allows():
    """arXiv 2605.15648: the noise of a mean of n clients is z C / n, and its size, over many
    parameters, tells n.
    """
    claimed = epsilon([PrivacyEvent(8.0, "poisson", RATE)], 1e-5, "add_or_remove_one")
    assert told_by_the_noise("received") > 3 > 10 * claimed
    assert told_by_the_noise("auto") < claimed
    where = run(participation="poisson", participation_rate=RATE)
    assert "who took part" in (
        global_dp.refusal(Config(noise_multiplier=8.0, divisor="received"), where) or ""
    )


# What a delta and a noise are worth


@pytest.mark.parametrize("name", ["global_dp", "local_dp"])
@pytest.mark.parametrize("fields", [{"noise_multiplier": 1.0}, {"target_epsilon": 1.0}])
@pytest.mark.parametrize(
    ("delta", "refused"), [(0.5, True), (0.05, True), (0.0499, False), (1e-5, False)]
)
def test_a_delta_promises_nothing_from_one_client_on(name, fields, delta, refused):
    """Of 20 clients, publishing one at random has delta 1/20."""
    if name == "local_dp":
        fields = {"noise_multiplier": 20.0}
    data = {"name": "digits", "clients": 20, "examples_per_client": 10}
    _, found = check(given(2, data=data, privacy={"name": name, "delta": delta, **fields}, **EQUAL))
    problems = [problem for problem in found if problem.key == ("privacy", "delta")]
    assert bool(problems) == refused and all(
        "1/20 = 0.05" in problem.sentence for problem in problems
    )


def test_one_client_alone_may_have_any_delta():
    data = {"name": "digits", "clients": 1, "examples_per_client": 10, "split": "dirichlet"}
    _, found = check(given(2, data=data, privacy={"name": "global_dp", "delta": 0.99}, **EQUAL))
    assert not found


@pytest.mark.parametrize(
    ("fields", "slots", "reason"),
    [
        ({"noise_multiplier": 1e-300}, EQUAL, "next to no noise"),
        ({"noise_multiplier": 0.0}, EQUAL, "no noise is added"),
        (
            {"noise_multiplier": 1.0},
            {"clustering": {"name": "ifca", "restarts": 1}},
            "clients choose models",
        ),
        ({"noise_multiplier": 1.0, "sensitivity": "uniform"}, {}, "weights"),
    ],
)
def test_a_plan_says_why_there_is_no_epsilon(fields, slots, reason):
    made = resolved(privacy=fields, **slots)
    assert reason in made.privacy.module.remark(made.privacy.config, made)
