"""Metric privacy: the distance d by a slow double loop and by hand, and what it does to the
noise.
"""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.interfaces import Outcome
from algorithms.privacy import global_dp, metric_privacy
from algorithms.privacy.metric_privacy import Config
from tests.support.noise_runs import LAYOUT, is_standard_deviation, normals, received, run, updates

START = np.zeros(12, np.float32)


def released(
    config: Config, sent: np.ndarray, size: int = 12, examples=None
) -> tuple[np.ndarray, dict]:
    """The noise on zeros, and the metrics; the updates cannot be changed."""
    sent.setflags(write=False)
    got = received(metric_privacy, config, sent, examples)
    return metric_privacy.release(config, np.zeros(size, np.float32), got, normals(size))


def slow_distance(models: list[np.ndarray], groups: list[list[int]]) -> float:
    """The formula, pair by pair and group by group of arrays, on whole models [d]."""
    ends = np.cumsum((0, *LAYOUT.sizes))
    largest = 0.0
    for first in range(len(models)):
        for second in range(first + 1, len(models)):
            total = 0.0
            for group in groups:
                pieces = [
                    models[first][ends[a] : ends[a + 1]] - models[second][ends[a] : ends[a + 1]]
                    for a in group
                ]
                total += np.sqrt(sum(float(np.sum(piece**2)) for piece in pieces))
            largest = max(largest, total / len(groups))
    return largest


@pytest.mark.parametrize(
    ("arrays", "groups"), [("arrays", [[0], [1], [2]]), ("layers", [[0, 1], [2]])]
)
@pytest.mark.parametrize("order", ["pre_clip", "post_clip"])
@pytest.mark.parametrize("clients", [2, 3, 7])
def test_d_is_that_of_a_double_loop_over_the_models(arrays, groups, order, clients):
    config = Config(clip=3.0, arrays=arrays, order=order)
    sent, start = updates(clients, seed=clients), np.random.default_rng(9).normal(size=12)
    scales = np.minimum(1, 3.0 / np.linalg.norm(sent.astype(float), axis=1))
    assert (scales < 1).any()
    before = slow_distance([start + update.astype(float) for update in sent], groups)
    after = slow_distance(
        [start + s * update.astype(float) for s, update in zip(scales, sent, strict=True)], groups
    )
    _, metrics = released(config, sent)
    assert metrics["distance_pre_clip"] == pytest.approx(before, rel=1e-9)
    assert metrics["distance_post_clip"] == pytest.approx(after, rel=1e-9)
    assert metrics["distance"] == metrics[f"distance_{order}"]
    assert metrics["distance_largest"] == pytest.approx(
        slow_distance(list(sent.astype(float)), [[0, 1, 2]]), rel=1e-6
    )
    assert metrics["metric_guard"] == 0


def by_hand() -> np.ndarray:
    """Two clients that differ by 3, 4 and 5 in the three arrays; both updates are shorter than
    5.
    """
    sent = np.zeros((2, 12), np.float32)
    sent[:, 0], sent[:, 6], sent[:, 8] = (1.5, -1.5), (2, -2), (2.5, -2.5)
    return sent


@pytest.mark.parametrize(("arrays", "d"), [("arrays", (3 + 4 + 5) / 3), ("layers", (5 + 5) / 2)])
def test_d_by_hand_and_the_noise_that_it_divides(arrays, d):
    """sd = (z / d) C / n: with d = 4 a quarter of the noise of global_dp."""
    config = Config(noise_multiplier=0.1, arrays=arrays)
    noise, metrics = released(config, by_hand(), size=40_000)
    assert metrics["distance"] == pytest.approx(d)
    assert metrics["noise_std"] == pytest.approx(0.1 / d * 5 / 2)
    assert is_standard_deviation(noise, 0.1 / d * 5 / 2)


def test_models_that_agree_get_more_noise_than_under_global_dp_whose_control_has_as_much():
    for share, more in ((0.1, True), (1.0, False)):
        sent = (share * by_hand()).astype(np.float32)
        _, ours = released(Config(noise_multiplier=0.1), sent)
        theirs = []
        for divisor in (1.0, ours["distance"]):
            plain = global_dp.Config(noise_multiplier=0.1, noise_divisor=divisor)
            theirs.append(
                global_dp.release(plain, START, received(global_dp, plain, sent), normals())[1][
                    "noise_std"
                ]
            )
        assert (ours["noise_std"] > theirs[0]) is more
        assert ours["noise_std"] == pytest.approx(theirs[0] / (4 * share))
        assert ours["noise_std"] == pytest.approx(theirs[1], rel=1e-12)


@pytest.mark.parametrize("clients", [1, 4])
def test_without_a_distance_the_noise_is_that_of_global_dp(clients):
    """One client has no pair; clients that sent the same have a pair at distance 0, which must
    not make noise infinite.
    """
    sent = np.repeat(updates(1), clients, axis=0)
    noise, metrics = released(Config(), sent, size=40_000)
    assert metrics["metric_guard"] == 1
    assert (metrics["distance"], metrics["distance_pre_clip"]) == (1.0, 0.0)
    assert metrics["noise_std"] == pytest.approx(0.01 * 5 / clients)
    assert is_standard_deviation(noise, 0.01 * 5 / clients)


def test_one_client_alone_is_refused():
    assert metric_privacy.problems(Config(), run()) == []
    ((field, sentence),) = metric_privacy.problems(Config(), run(data__config__clients=1))
    assert field == "" and "at least two clients" in sentence


def test_no_epsilon_is_ever_stated():
    rows = [{"round": 0, "distance": 1.5}, {"round": 1, "distance": 1.0}, {"round": 2}]
    for z in (0.01, 100.0):
        told = metric_privacy.final_metrics(
            Config(noise_multiplier=z), run(), Outcome(rows, [], np.ones(1, np.int64))
        )
        assert "epsilon" not in told and told["guarantee"].startswith("none: ")
        assert told["distance_mean"] == 1.25
    assert (
        metric_privacy.final_metrics(Config(), run(), Outcome([], [], np.ones(1, np.int64)))[
            "distance_mean"
        ]
        is None
    )
    assert not hasattr(metric_privacy, "event")


# The audit by canaries one at a time


@pytest.mark.parametrize("arrays", ["arrays", "layers"])
@pytest.mark.parametrize("order", ["pre_clip", "post_clip"])
@pytest.mark.parametrize("size", [0.5, 3.0])
def test_the_noise_beside_a_canary_is_that_of_a_release_in_which_it_takes_part(arrays, order, size):
    """The distance by the component's own code, on the clients' updates and the canary's."""
    config = Config(clip=3.0, arrays=arrays, order=order, noise_multiplier=2.0)
    sent, others = updates(5, size=2.0), updates(4, seed=1, size=size)
    others *= np.minimum(1, 3.0 / np.linalg.norm(others, axis=1, keepdims=True))
    got = received(metric_privacy, config, sent)
    found = metric_privacy.noise_beside(config, got, iter(others))
    _, alone = released(config, sent)
    for beside, other in zip(found, others, strict=True):
        _, joined = released(config, np.vstack([sent, other]))
        assert beside == pytest.approx(
            alone["noise_std"] * alone["distance"] / joined["distance"], rel=1e-6
        )
    assert (found < alone["noise_std"] * (1 - 1e-3)).any() == (size == 3.0)


@pytest.mark.parametrize("arrays", ["arrays", "layers"])
@pytest.mark.parametrize("order", ["pre_clip", "post_clip"])
@pytest.mark.parametrize("clients", [2, 6])
def test_the_noise_without_a_client_is_that_of_a_release_in_which_it_has_no_part(
    arrays, order, clients
):
    """By the component's own code on the others' updates; the two that lie farthest apart alone
    make a difference.
    """
    config = Config(clip=3.0, arrays=arrays, order=order, noise_multiplier=2.0)
    sent = updates(clients, size=2.0)
    _, whole = released(config, sent)
    found = metric_privacy.noise_without(config, received(metric_privacy, config, sent))
    for i, without in enumerate(found):
        _, less = released(config, np.delete(sent, i, axis=0))  # of one client, the distance is 1
        assert without == pytest.approx(
            whole["noise_std"] * whole["distance"] / less["distance"], rel=1e-6
        )
    assert 1 <= (found != whole["noise_std"]).sum() <= 2
