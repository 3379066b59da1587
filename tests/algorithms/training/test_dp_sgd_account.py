"""What DP-SGD says that it spends: both ways to draw lots, by closed formulas, and every reason
why no epsilon holds.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from algorithms.core.accounting import dp_sgd_epsilon
from algorithms.core.choices import Starts
from algorithms.interfaces import Outcome
from algorithms.training import dp_sgd
from algorithms.training.dp_sgd import Config, epsilon, final_metrics
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import resolve
from tests.support.noise_runs import REPRODUCIBLE, SECRET, gaussian_epsilon
from tests.support.stand_ins import StandIn


def judged(
    config: Config,
    sizes: tuple[int, ...] = (80, 25, 40),
    clusters: int = 1,
    initializations: int = 1,
    measures_curvature: bool = False,
    rounds: int = 4,
    noise: str = "secret",
) -> dict[str, Any]:
    """The final metrics of a run whose clients have so many examples."""
    starts = StandIn(
        module=SimpleNamespace(starts=lambda _: Starts(initializations)),
        config=SimpleNamespace(clusters=clusters),
    )
    run = SimpleNamespace(
        privacy=SimpleNamespace(config=SimpleNamespace(noise=noise)),
        clustering=starts,
        measures_curvature=measures_curvature,
        model=StandIn(module=SimpleNamespace(BATCH_NORM=False)),
        aggregation=StandIn(
            name="finp_ala", module=SimpleNamespace(statistics=lambda _: ()), config=None
        ),
        data=SimpleNamespace(config=SimpleNamespace(prepared_by=None)),
        split=StandIn(module=SimpleNamespace(server_has=lambda *_: "strangers"), config=None),
    )
    return final_metrics(config, run, Outcome([{}] * rounds, [], np.array(sizes)))


def test_all_steps_of_a_client_are_in_the_account_at_its_own_rate():
    config = Config(batch_size=10, epochs=5, noise_multiplier=2, delta=1e-4)
    spent = dp_sgd_epsilon(2, 1 / 3, 4 * 5 * 3, 1e-4)
    assert epsilon(config, 25, rounds=4) == spent > epsilon(config, 100, rounds=1)
    told = {
        "epsilon_example": spent,
        "delta_example": config.delta,
        "guarantee_example": "dp" + SECRET,
    }
    assert judged(config) == told
    assert judged(config, sizes=(100, 200))["epsilon_example"] < spent
    assert judged(config, noise="reproducible")["guarantee_example"] == "dp" + REPRODUCIBLE


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_shuffled_pass_is_one_event_without_amplification(drop_last):
    """The numbers of the sweep membership_quickstart: z = 1 and 100 passes, whatever the number
    of lots.
    """
    config = Config(batch_size=10, epochs=10, drop_last=drop_last, sampling="shuffle")
    found = judged(config, sizes=(115, 4, 25), rounds=10)
    assert found["epsilon_example"] == pytest.approx(gaussian_epsilon(10, 1e-5), rel=1e-6)
    assert found["epsilon_example"] == pytest.approx(91.8, abs=0.1)
    assert found["guarantee_example"].startswith("dp for one example replaced")
    known = judged(config, noise="reproducible")["guarantee_example"]
    assert known == found["guarantee_example"].removesuffix(SECRET) + REPRODUCIBLE
    poisson = config.model_copy(update={"sampling": "poisson"})
    assert epsilon(poisson, 115, rounds=10) == pytest.approx(
        22.6, abs=0.1
    )  # printed for shuffled lots before


def test_with_little_noise_a_larger_client_may_spend_more():
    """At z = 0.3 two lots a pass cost more than one, because an example may be in both; the
    first client has one lot.
    """
    config = Config(batch_size=10, epochs=5, noise_multiplier=0.3)
    one, two, many = (epsilon(config, size, rounds=4) for size in (8, 20, 300))
    assert two > one > many
    assert judged(config, sizes=(8, 20, 300))["epsilon_example"] == two


def test_a_client_without_examples_hides_nobody_elses_epsilon():
    for sampling in ("poisson", "shuffle"):
        config = Config(batch_size=10, sampling=sampling)
        assert epsilon(config, 0, rounds=4) == 0
        assert (
            judged(config, sizes=(0, 25))
            == judged(config, sizes=(25,))
            != judged(config, sizes=(0,))
        )


@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
@pytest.mark.parametrize(
    ("fields", "around", "word"),
    [
        ({"noise_multiplier": 0.0}, {}, "noise"),
        ({}, {"clusters": 2}, "losses"),
        ({}, {"initializations": 3}, "restarts"),
        ({}, {"measures_curvature": True}, "curvatures"),
    ],
)
def test_where_something_leaves_a_client_without_noise_no_epsilon_is_stated(
    sampling, fields, around, word
):
    found = judged(Config(sampling=sampling, **fields), **around)
    assert found["epsilon_example"] is None
    assert found["guarantee_example"].startswith("none: ") and word in found["guarantee_example"]


EXAMPLES, PASSES, Z = 11, 24, 0.6
LOTS = np.array([2, 2, 2, 2, 2, 1])  # examples in each lot of a pass
FIELDS: dict[str, Any] = {
    "batch_size": 2,
    "noise_multiplier": Z,
    "epochs": PASSES,
    "clip": 0.01,
    "lr": 1e-4,
}


def simulated(runs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The same sums [runs, passes, lots] from their law, and the lot with the first example
    [runs, passes].
    """
    lot = rng.choice(len(LOTS), p=LOTS / LOTS.sum(), size=(runs, PASSES))
    sums = rng.normal(0, Z, (runs, PASSES, len(LOTS)))
    return sums + 2 * (np.arange(len(LOTS)) == lot[..., None]), lot


def privacy_loss(sums: np.ndarray) -> np.ndarray:
    """The logarithm of the ratio of the two worlds' densities at ``sums`` [..., passes, lots],
    which nobody can beat.
    """
    here = logsumexp((2 * sums - 2) / Z**2, axis=-1, b=LOTS)
    return (here - logsumexp((sums - 0.5) / Z**2, axis=-1, b=LOTS)).sum(-1)


def loss_with_known_lots(sums: np.ndarray, lot: np.ndarray) -> np.ndarray:
    """The same for an attacker who is told in which lot the first example was."""
    return ((np.take_along_axis(sums, lot[..., None], -1)[..., 0] - 1.5) / Z**2).sum(-1)


def excess(losses: np.ndarray, epsilon: float) -> np.ndarray:
    """Numbers [runs] whose mean is the smallest delta with which ``epsilon`` holds."""
    return np.maximum(-np.expm1(epsilon - losses), 0)


def test_our_epsilon_is_exact_for_known_lots_and_an_upper_bound_for_unknown_ones():
    """At delta 0.01, where 20 000 runs of the law settle it; Poisson's number would need a delta
    20 times as large.
    """
    delta, runs = 0.01, 20_000
    config = Config(sampling="shuffle", delta=delta, **FIELDS)
    sums, lot = simulated(runs, np.random.default_rng(1))
    stated = dp_sgd.epsilon(config, EXAMPLES, rounds=1)
    known, unknown = (
        excess(loss_with_known_lots(sums, lot), stated),
        excess(privacy_loss(sums), stated),
    )
    assert known.mean() == pytest.approx(delta, abs=4 * known.std() / math.sqrt(runs))
    assert unknown.mean() < delta
    assert excess(privacy_loss(sums), poissons(delta)).mean() > 10 * delta


def poissons(delta: float) -> float:
    """The epsilon of lots drawn by Poisson sampling, as many in a pass."""
    return dp_sgd_epsilon(Z, 1 / len(LOTS), PASSES * len(LOTS), delta)


# A target for an example


def asked(target: float | None, sampling: str = "poisson", rounds: int = 4, **slots: Any) -> Any:
    training = {
        "name": "dp_sgd",
        "target_epsilon": target,
        "sampling": sampling,
        "batch_size": 10,
        "epochs": 1,
    }
    return resolve(
        {
            "rounds": rounds,
            "data": "digits",
            "model": "mlp",
            "training": training,
            "clustering": "none",
        }
        | slots
    )


def test_the_noise_for_a_target_keeps_it_for_every_client():
    run, sizes = asked(3.0), np.array([25, 40, 0])
    found = dp_sgd.settle(run.training.config, run, sizes)
    spent = [epsilon(found, size, 4) for size in (25, 40)]
    assert (
        max(spent) == pytest.approx(3, abs=1e-3)
        and max(spent) <= 3
        and found.target_epsilon is None
    )
    assert {
        run.to_dict()["training"].get(name) for name in ("target_epsilon", "noise_multiplier")
    } == {3.0, None}
    many = dp_sgd.settle(
        asked(50.0).training.config, asked(50.0), np.array([8, 60])
    )  # more lots cost more
    assert max(epsilon(many, size, 4) for size in (8, 60)) == pytest.approx(50, rel=1e-3)


def test_shuffled_passes_need_the_noise_of_as_many_gaussian_events():
    """T = 20 passes at epsilon 2: the printed 8.9166, whatever the sizes."""
    run = asked(2.0, "shuffle", rounds=20)
    found = dp_sgd.settle(run.training.config, run, np.array([8, 300]))
    assert found.noise_multiplier == pytest.approx(8.9166, abs=5e-5)
    run = replace(run, training=replace(run.training, config=found))
    told = [
        dp_sgd.so_far(found, run, Outcome([{}] * k, [], np.array([8, 300])))["epsilon_example"]
        for k in (1, 10, 20)
    ]
    assert told == pytest.approx(
        [gaussian_epsilon(math.sqrt(k) / found.noise_multiplier, 1e-5) for k in (1, 10, 20)]
    )


def test_a_target_that_nothing_reaches_or_that_is_no_epsilon_is_refused():
    run = asked(1e-9, rounds=1000)
    with pytest.raises(ValueError, match="no noise_multiplier"):
        dp_sgd.settle(run.training.config, run, np.array([8]))
    with pytest.raises(ConfigError, match=r"training\.target_epsilon: .*losses"):
        asked(2.0, clustering={"name": "ifca", "clusters": 2})
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(ConfigError, match=r"training\.target_epsilon"):
            asked(wrong)


@pytest.mark.parametrize(("delta", "refused"), [(0.5, True), (1 / 80, True), (0.99 / 80, False)])
@pytest.mark.parametrize("target", [{}, {"target_epsilon": 100.0}])
def test_a_delta_promises_nothing_from_one_example_of_the_largest_client_on(delta, refused, target):
    config, run = Config(delta=delta, batch_size=40, **target), SimpleNamespace(rounds=1)
    sizes = np.array([80, 25, 40, 0])
    with pytest.raises(ValueError, match="delta: .*1/80") if refused else nullcontext():
        dp_sgd.settle(config, run, sizes)


@pytest.mark.parametrize("sampling", ["poisson", "shuffle"])
@pytest.mark.parametrize(
    ("fields", "slots", "reason"),
    [
        ({"noise_multiplier": 1e-300}, {}, "next to no noise"),
        ({"noise_multiplier": 0.0}, {}, "next to no noise"),
        ({}, {"clustering": {"name": "ifca", "restarts": 1}}, "losses without noise"),
        ({}, {}, None),
        ({"target_epsilon": 8.0}, {}, None),
    ],
)
def test_a_plan_says_why_there_is_no_epsilon_of_an_example(sampling, fields, slots, reason):
    training = {
        "name": "dp_sgd",
        "lr": 0.1,
        "epochs": 1,
        "batch_size": 10,
        "sampling": sampling,
        **fields,
    }
    run = resolve({"rounds": 2, "data": "digits", "model": "mlp", "training": training, **slots})
    said = run.training.module.remark(run.training.config, run)
    assert (said is None) == (reason is None) and (reason or "") in (said or "")
