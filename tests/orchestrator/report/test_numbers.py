"""Each published number beside its own: levels, values and differences of two methods, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.report.numbers import FULL, NOT_MEASURED, ONE_PARTITION, SHORTENED, Number, numbers
from orchestrator.report.verdicts import Trial

HAR = {
    "data.name": "har",
    "data.split.name": "subjects",
    "model.name": "tcn",
    "clustering.name": "none",
    "privacy.name": "none",
    "training.name": "local_sgd",
    "rounds": 20,
    "data.clients": 10,
    "data.examples_per_client": None,
    "training.epochs": 1,
}
PLAIN = {"objective.name": "plain", "aggregation.name": "fedavg"}
FINP = {"objective.name": "finp", "aggregation.name": "finp_pca"}


def trial(seed: int, cov: float, **changes: Any) -> Trial:
    return Trial(f"{seed}-{cov}-{changes}", {**HAR, "seed": seed, **changes}, {"sia_cov": cov})


def number(trials: list[Trial], method: str, metric: str = "cov_sia") -> Number:
    (one,) = [
        one
        for one in numbers(trials)
        if (one.record.dataset, one.record.method, one.record.metric) == ("UCI-HAR", method, metric)
    ]
    return one


def test_a_number_is_the_mean_over_partitions_at_the_papers_size() -> None:
    one = number([trial(seed, cov, **PLAIN) for seed, cov in enumerate((0.9, 1.0, 1.1))], "Baseline (FedAvg)")
    assert (one.level, one.printed, one.estimate.n, one.predicted) == (FULL, 0.94, 3, True)
    assert one.estimate.mean == pytest.approx(1.0)
    # 0.94 + 4.3027 * 0.01 * sqrt(4 / 3) = 0.99: a run lies above the printed value with more than 95 %
    far = number([trial(seed, cov, **PLAIN) for seed, cov in enumerate((0.99, 1.0, 1.01))], "Baseline (FedAvg)")
    assert far.predicted is False


@pytest.mark.parametrize(
    ("changes", "level"), [({}, ONE_PARTITION), ({"rounds": 4}, SHORTENED), ({"data.name": "digits"}, NOT_MEASURED)]
)
def test_the_level_of_one_trial(changes: dict[str, Any], level: str) -> None:
    one = number([trial(0, 0.9, **PLAIN, **changes)], "Baseline (FedAvg)")
    assert (one.level, one.predicted) == (level, None)
    assert ("rounds" in one.differs) == (level == SHORTENED)


def test_the_papers_size_comes_before_more_partitions() -> None:
    short = [trial(seed, 0.5, **PLAIN, rounds=4) for seed in range(5)]
    one = number([*short, trial(0, 0.9, **PLAIN)], "Baseline (FedAvg)")
    assert (one.level, one.estimate.mean) == (ONE_PARTITION, 0.9)


def test_a_reduction_is_that_of_pairs() -> None:
    """1 - 0.9 / 1.0 and 1 - 1.0 / 2.0 have the mean 0.3; the trial without a partner does not count."""
    trials = [trial(0, 0.9, **FINP), trial(0, 1.0, **PLAIN), trial(1, 1.0, **FINP), trial(1, 2.0, **PLAIN)]
    one = number([*trials, trial(2, 9.0, **FINP)], "FinP (PCA)", "cov_sia_reduction_pct_vs_baseline")
    assert one.estimate.mean == pytest.approx(0.3)
    assert (one.estimate.n, one.printed) == (2, pytest.approx(0.0532))


def test_nothing_is_measured_without_trials() -> None:
    assert {one.level for one in numbers([])} == {NOT_MEASURED}
