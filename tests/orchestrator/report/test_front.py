"""The front of accuracy and exposure: dominance, its probability against paired tests, and the
hypervolume.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from algorithms.metrics.fronts import draw_means, hypervolume, undominated
from algorithms.metrics.statistics import estimate, paired_test
from orchestrator.report.data import Setting
from orchestrator.report.front import front_of
from orchestrator.report.summary import front_line


def setting(name: str, accuracies, risks) -> Setting:
    trials = [
        {
            "id": f"{name}{seed}",
            "status": "finished",
            "seed": seed,
            "accuracy": accuracy,
            "risk": risk,
        }
        for seed, (accuracy, risk) in enumerate(zip(accuracies, risks, strict=True))
    ]
    return Setting((name,), tuple(trials))


def test_hypervolume_is_the_area_of_the_union_of_rectangles():
    points = np.random.default_rng(0).uniform(-0.2, 1, (12, 2))
    grid = (np.arange(400) + 0.5) / 400
    covered = np.zeros((400, 400), bool)
    for x, y in points:
        covered |= (grid[:, None] < x) & (grid[None, :] < y)
    assert hypervolume(points) == pytest.approx(covered.mean(), abs=0.01)


def test_dominance_is_that_of_the_definition_pair_by_pair():
    points = np.random.default_rng(1).integers(0, 4, (50, 6, 2)).astype(float)
    for draw, answer in zip(points, undominated(points), strict=True):
        expected = [not any((b >= a).all() and (b > a).any() for b in draw) for a in draw]
        assert answer.tolist() == expected


def test_each_drawn_mean_has_the_interval_of_the_tables_and_differences_are_paired():
    rng = np.random.default_rng(2)
    points = rng.normal(0.5, 0.1, (5, 2, 2)) + rng.normal(0, 1, (5, 1, 1))
    drawn = draw_means(points, 200_000, rng)
    for place in np.ndindex(2, 2):
        mean = estimate(points[:, *place].tolist())
        assert np.quantile(drawn[:, *place], [0.025, 0.975]) == pytest.approx(
            [mean.low, mean.high], rel=0.05, abs=0.02
        )
    difference = points[:, 0, 0] - points[:, 1, 0]
    opposite = (drawn[:, 0, 0] - drawn[:, 1, 0]) * np.sign(difference.mean()) < 0
    assert 2 * opposite.mean() == pytest.approx(paired_test(difference.tolist()), abs=0.005)


def test_settings_that_are_dominated_surely_perhaps_and_not_at_all():
    steps = np.array([-0.02, -0.01, 0.0, 0.01, 0.02])
    front = front_of(
        [
            setting("safe", 0.6 + steps, 0.5 + steps[::-1] / 4),
            setting("good", 0.9 + steps, 0.7 + steps / 4),
            setting(
                "bad", 0.8 + steps, 0.8 + steps / 4
            ),  # good has more of both, on every partition
            setting("like good", 0.9 + steps[[1, 0, 4, 2, 3]], 0.7 + steps[[4, 2, 0, 1, 3]] / 4),
            Setting(("without results",), ({"id": "x", "status": "failed", "seed": 0},)),
        ],
        "accuracy",
        "risk",
    )
    assert [s.values[0] for s, _ in front.shares] == ["safe", "good", "bad", "like good"]
    assert [s.values[0] for s in front.sure] == ["safe"]
    assert [s.values[0] for s in front.possible] == ["good", "like good"]
    assert front.shares[2][1] == 0 and front.repetitions == 5
    assert "Of 4 equal settings, 2.1 would be on the front by chance" in front_line(
        front
    )  # 1 + 1/2 + 1/3 + 1/4
    assert front.volume[0] == pytest.approx(0.9 * 0.3 + 0.6 * 0.2)
    assert front.volume[1] < front.volume[0] < front.volume[2]


def test_the_interval_of_the_hypervolume_covers_that_of_the_true_means_though_the_best_are_lucky():
    rng, covered, sweeps = np.random.default_rng(4), 0, 60
    for _ in range(sweeps):
        equal = [setting(str(at), *rng.normal([0.7, 0.6], 0.05, (5, 2)).T) for at in range(5)]
        _, low, high = front_of(equal, "accuracy", "risk").volume
        covered += low <= 0.7 * (1 - 0.6) <= high
    assert covered > 0.9 * sweeps
    _, low, _ = front_of(
        [setting(name, [0, 0.1, 0.5], [1, 0.9, 0.2]) for name in "ab"], "accuracy", "risk"
    ).volume
    assert low == 0, "an area"


def test_repetitions_on_one_partition_are_one():
    drawn = np.random.default_rng(5).uniform(size=(2, 6, 2))
    crossed = [setting(name, *rows.T) for name, rows in zip("ab", drawn, strict=True)]
    for one in crossed:
        for at, trial in enumerate(one.trials):
            trial["data.split_seed"] = at // 2
    means = [
        setting(name, *rows.reshape(3, 2, 2).mean(axis=1).T)
        for name, rows in zip("ab", drawn, strict=True)
    ]
    found, expected = (front_of(settings, "accuracy", "risk") for settings in (crossed, means))
    assert found.repetitions == 3 and found.volume == pytest.approx(expected.volume)
    assert [share for _, share in found.shares] == [share for _, share in expected.shares]


def test_equal_settings_dominate_neither_and_two_seeds_have_no_probability():
    same = [setting(name, [0.8, 0.7, 0.9], [0.6, 0.6, 0.7]) for name in "ab"]
    assert [share for _, share in front_of(same, "accuracy", "risk").shares] == [1, 1]
    few = front_of(
        [setting("a", [0.8, 0.7], [0.6, 0.6]), setting("b", [0.7, 0.6], [0.7, 0.7])],
        "accuracy",
        "risk",
    )
    assert all(math.isnan(share) for _, share in few.shares) and not few.sure and not few.possible
    assert front_of(same[:1], "accuracy", "risk") is None


def test_a_true_front_is_rarely_called_dominated():
    """Two settings that trade one for the other: with five seeds, each is said to be dominated
    in at most 5 % of sweeps.
    """
    rng, wrong, sweeps = np.random.default_rng(3), 0, 150
    for _ in range(sweeps):
        common = rng.normal(0, 0.05, (5, 2))
        values = [
            common + rng.normal(0, 0.03, (5, 2)) + shift for shift in ([0.7, 0.6], [0.7, 0.6])
        ]
        answer = front_of(
            [setting(str(at), *rows.T) for at, rows in enumerate(values)], "accuracy", "risk"
        )
        assert not any(math.isnan(share) for _, share in answer.shares)
        wrong += sum(share <= 0.05 for _, share in answer.shares)
    assert wrong <= 2 * 0.05 * sweeps
