"""Paired differences between methods: what is compared, what is left out and named, what is
printed.
"""

import math
from pathlib import Path
from typing import Any

import pytest

from algorithms.metrics.statistics import holm, quantile
from orchestrator.report.data import Results, results, rows
from orchestrator.report.frame import compared_metrics, contrasts
from orchestrator.report.summary import differences_markdown

SWEPT = ("clustering.name", "data.split.minority_ratio", "seed")


def trial(algorithm: str, seed: int, status: str = "finished", **more: Any) -> dict[str, Any]:
    held = {
        "id": f"{algorithm}{seed}{more}",
        "status": status,
        "seed": seed,
        "clustering.name": algorithm,
    }
    return (
        held
        | {"data.split.minority_ratio": 0.1}
        | {key.replace("__", "."): value for key, value in more.items()}
    )


def found(*trials: dict[str, Any], swept: tuple[str, ...] = SWEPT) -> Results:
    return results(Path("made_up"), rows(trials), swept, {})


def pairs(
    values: dict[str, tuple[float, ...]], metric: str = "accuracy", **more: Any
) -> list[dict[str, Any]]:
    return [
        trial(name, s, **{metric: v}, **more)
        for name, own in values.items()
        for s, v in enumerate(own)
    ]


# Deals are 0.5, 0.7 and 0.9; IFCA-MIR is worse by 0.01, 0.02 and 0.03.
THREE = {"ifca": (0.5, 0.7, 0.9), "ifca_mir": (0.49, 0.68, 0.87)}


def test_a_method_is_compared_with_the_baseline_on_the_same_deals() -> None:
    (one,) = contrasts(found(*pairs(THREE)))
    assert (one.slot, one.method, one.baseline) == ("clustering.name", "IFCA-MIR", "IFCA")
    assert one.difference.mean == pytest.approx(-0.02)
    assert one.difference.half == pytest.approx(quantile(2) * 0.01 / 3**0.5)
    assert (one.difference.n, one.left_out) == (3, ())
    assert one.baseline_mean == pytest.approx(0.7)
    assert one.p == pytest.approx(one.p_holm)
    page = differences_markdown(found(*pairs(THREE)), [one])
    cells = (
        "IFCA-MIR | IFCA | minority ratio 0.1 | accuracy | higher | 0.700 | -0.020 | -0.045 to "
        "+0.005 | 3 | 0.074"
    )
    assert f"| {cells}" in page


def test_two_pairs_are_printed_as_they_are() -> None:
    few = {name: values[:2] for name, values in THREE.items()}
    (one,) = contrasts(found(*pairs(few)))
    assert math.isnan(one.p)
    assert math.isnan(one.difference.low)
    assert "| -0.010, -0.020 |  | 2 |  |  |" in differences_markdown(found(*pairs(few)), [one])


def test_a_repetition_without_its_partner_is_named_and_left_out() -> None:
    table = [
        *pairs(THREE),
        trial("ifca", 3, accuracy=0.1),
        trial("ifca", 4, accuracy=0.1),
        trial("ifca_mir", 4, "diverged"),
        trial("ifca", 5, accuracy=None),
        trial("ifca_mir", 5, accuracy=0.9),
    ]
    (one,) = contrasts(found(*table))
    assert one.difference.mean == pytest.approx(-0.02), "the values without a partner do not count"
    assert one.baseline_mean == pytest.approx(0.7)
    assert one.left_out == ("seed 3", "seed 4", "seed 5")
    page = differences_markdown(found(*table), [one])
    assert "- IFCA-MIR against IFCA, minority ratio 0.1: seed 3, seed 4, seed 5." in page


def test_pairs_share_deal_and_seed_and_pairs_of_one_deal_are_averaged() -> None:
    crossed = [
        trial(
            name,
            seed,
            data__split_seed=partition,
            accuracy=0.5 + 0.1 * partition + lead * (partition + 0.5 * seed),
        )
        for name, lead in (("ifca", 0.0), ("ifca_mir", 0.02))
        for partition in (1, 2, 3)
        for seed in (0, 2)
    ]
    (one,) = contrasts(found(*crossed, swept=(*SWEPT, "data.split_seed")))
    assert one.difference.values == pytest.approx((0.03, 0.05, 0.07))
    lost = [
        t
        for t in crossed
        if not (t["clustering.name"] == "ifca" and t["seed"] == 2 and t["data.split_seed"] == 3)
    ]
    (one,) = contrasts(found(*lost, swept=(*SWEPT, "data.split_seed")))
    assert one.left_out == ("partition 3, seed 2",)


def test_the_slots_default_is_the_baseline_and_fields_that_it_lacks_belong_to_the_method() -> None:
    table = [
        {
            "id": f"{o}{b}{a}{s}",
            "status": "finished",
            "seed": s,
            "objective.name": o,
            "objective.beta": b,
        }
        | {"aggregation.name": a, "accuracy": 0.5 + (b or 0)}
        for o, b in (("finp", 0.1), ("finp", 0.3), ("plain", None))
        for a in ("finp_pca", "fedavg")
        for s in range(3)
    ]
    swept = ("objective.name", "objective.beta", "aggregation.name", "seed")
    own = contrasts(found(*table, swept=swept))
    told = [(one.slot, one.method, one.baseline, one.setting) for one in own]
    assert ("objective.name", "FinP, beta 0.1", "plain", "aggregation FedAvg") in told
    assert ("objective.name", "FinP, beta 0.3", "plain", "aggregation FinP-PCA") in told
    assert ("aggregation.name", "FinP-PCA", "FedAvg", "objective FinP, beta 0.3") in told
    assert ("aggregation.name", "FinP-PCA", "FedAvg", "objective plain") in told
    assert len(told) == 7


def test_the_correction_is_for_the_tests_of_one_comparison_and_section() -> None:
    table = [
        trial(
            name,
            s,
            data__split__minority_ratio=ratio,
            accuracy=0.5 + 0.1 * s + lead + 0.001 * s * s,
        )
        for ratio in (0.1, 0.2, 0.3)
        for name, lead in (("ifca", 0.0), ("ifca_mir", 0.01 * ratio * 10))
        for s in range(3)
    ]
    for one, cell in zip(table, (0.01, 0.02, 0.04, 0.0, 0.0, 0.0) * 3, strict=True):
        one["accuracy"] += cell
        one["purity"] = one["accuracy"] ** 2
        one["accuracy_minority"] = (
            one["accuracy"] + one["seed"] ** 3 * (one["clustering.name"] == "ifca") / 100
        )
    compared = contrasts(found(*table))
    assert len(compared) == 9
    for one in compared:
        family = [
            other
            for other in compared
            if (other.setting, other.family) == (one.setting, one.family)
        ]
        assert one.tests == len(family) == (1 if one.metric == "purity" else 2)
        assert one.p_holm == pytest.approx(
            dict(zip(family, holm([other.p for other in family]), strict=True))[one]
        )


def test_compared_metrics_come_from_the_tables_and_not_from_a_papers_list() -> None:
    measured = {
        "accuracy_minority": 0.8,
        "mia_accuracy_minority": 0.6,
        "violations": 3.0,
        "migrated": 2.0,
    }
    more = {"accuracy_majority": 0.8, "seconds_per_round": 1.0, "demographic_parity": 0.1}
    names = compared_metrics(found(trial("ifca", 0, **measured, **more)))
    assert {"accuracy_majority", "accuracy_minority", "mia_accuracy_minority", "violations"} <= set(
        names
    )
    assert not {"migrated", "seconds_per_round", "demographic_parity"} & set(names)
    assert compared_metrics(found(trial("none", 0, accuracy=0.5, eod=0.1, eod_null=0.1))) == [
        "accuracy",
        "eod",
    ]


def test_a_method_of_which_every_trial_was_lost_is_named() -> None:
    table = pairs({"ifca": THREE["ifca"]}) + [
        trial("ifca_mir", s, "failed", accuracy=None) for s in range(3)
    ]
    (one,) = contrasts(found(*table))
    assert one.difference.n == 0
    assert one.left_out == ("seed 0", "seed 1", "seed 2")
    assert "No comparison has three pairs." in differences_markdown(found(*table), [one])
