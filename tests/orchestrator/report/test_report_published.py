"""The papers' numbers: that they are all there, what they are in our words, and how they lie beside measured ones."""

import csv
import importlib.util
import io
import math
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.report.comparison import Line, compare, published_csv, published_markdown
from orchestrator.report.data import Results, results, rows
from orchestrator.report.figures.papers import published_points
from orchestrator.report.papers import rules
from orchestrator.report.papers.ifca_mir import RECIPES, counterpart
from orchestrator.report.published import Counterpart, Record, records

PAPERS = ("ifca_mir", "finp", "metric_privacy")
FIGURE_1 = "minority fraction 0.10 of 200 clients, minor model"
CONFIG = {
    "data": {"name": "mnist", "clients": 40, "examples_per_client": 250, "split": {"minority_ratio": 0.1}},
    "model": {"name": "mnist_cnn"},
    "clustering": {"name": "ifca"},
    "attacks": [{"name": "shadow_mia", "every": 5, "shadows": 3}],
}


def record(**changes: object) -> Record:
    given = {
        "dataset": "MNIST",
        "setting": FIGURE_1,
        "method": "IFCA",
        "metric": "mia_balanced_accuracy",
        "value": 0.81,
    }
    return Record(**{"paper": "ifca_mir", "source": "Figure 1", **given, **changes})  # type: ignore[arg-type]


AVERAGE = record(setting="average over settings, minor model", value=0.761)
ACCURACY = record(setting="average over settings", metric="accuracy_mean_of_major_and_minor_models", value=0.816)
FACTOR = record(
    dataset="best case over datasets and settings",
    setting="n/a",
    method="IFCA / IFCA-MIR",
    metric="mia_violation_reduction_factor_max",
    value=5.6,
)


def trial(ident: str, ratio: float, seed: int = 0, algorithm: str = "ifca", **metrics: object) -> dict:
    held = {"data.name": "mnist", "clustering.name": algorithm, "data.split.minority_ratio": ratio}
    return {"id": ident, "status": "finished", "seed": seed, **held, **metrics}


def found(*trials: dict, config: dict | None = None, declared: tuple[str, ...] = ()) -> Results:
    configs = {trial["id"]: config or CONFIG for trial in trials}
    return results(Path("made_up"), rows(trials), declared, configs)


def only(lines: tuple[Line, ...]) -> Line:
    assert len(lines) == 1
    return lines[0]


def test_every_record_is_there_and_complete() -> None:
    assert Counter(one.paper for one in records()) == dict(zip(PAPERS, (23, 181, 234), strict=True))
    assert all(math.isfinite(one.value) and one.source and one.method for one in records())
    assert sum(one.std is not None for one in records()) == 54
    by_hand = next(one for one in records() if one.setting == FIGURE_1)
    assert (by_hand.value, by_hand.dataset, by_hand.method) == (0.81, "MNIST", "IFCA")


def test_every_record_but_a_derived_claim_has_a_counterpart() -> None:
    assert set(rules()) == set(PAPERS)
    without = [one for one in records() if rules()[one.paper](one) is None]
    assert len(without) == 7
    assert all(one.paper == "finp" and one.setting.startswith("derived claims") for one in without)


def test_the_models_of_the_recipes_exist() -> None:
    for recipe in RECIPES.values():
        assert importlib.util.find_spec(f"algorithms.models.{recipe['model.name']}")


def test_a_record_in_our_words() -> None:
    one = counterpart(record())
    assert one is not None
    assert one.where == {"data.name": "mnist", "clustering.name": "ifca", "data.split.minority_ratio": 0.1}
    assert one.metrics == ("mia_accuracy_minority",)
    both = counterpart(record(setting="minority fraction 0.50 of 200 clients, both model"))
    assert both is not None
    assert both.metrics == ("mia_accuracy_majority", "mia_accuracy_minority")
    accuracy = counterpart(ACCURACY)
    assert accuracy is not None
    assert accuracy.metrics == ("model_accuracy_majority", "model_accuracy_minority")
    assert accuracy.over == ("data.split",)


@pytest.mark.parametrize("changes", [{"dataset": "SVHN"}, {"method": "FedAvg"}, {"setting": "elsewhere"}])
def test_a_record_that_nobody_knows_has_no_counterpart(changes: dict) -> None:
    assert counterpart(record(**changes)) is None


def test_measured_lies_beside_published_with_the_gap_and_the_deviations() -> None:
    trials = [trial(f"t{seed}", 0.1, seed, mia_accuracy_minority=value) for seed, value in enumerate((0.6, 0.7, 0.8))]
    line = only(compare(found(*trials), [record()]).lines)
    assert (line.published, line.seeds) == (0.81, 3)
    assert line.measured == pytest.approx(0.7)
    assert line.gap == pytest.approx(-0.11)
    assert line.measured_high - line.measured == pytest.approx(0.2484138, abs=1e-6)
    assert line.differs == "clients 40 instead of 200; 3 seeds instead of 5"
    assert line.measured_setting == "minority ratio 0.1"


def test_what_was_not_measured_is_empty_and_still_listed() -> None:
    diverged = trial("t", 0.1, mia_accuracy_minority=None) | {"status": "diverged"}
    line = only(compare(found(diverged), [record()]).lines)
    assert math.isnan(line.measured)
    assert math.isnan(line.gap)
    assert line.differs.endswith("0 seeds instead of 5; 1 diverged")
    (row,) = csv.DictReader(io.StringIO(published_csv(compare(found(trial("t", 0.1)), [record()]))))
    assert (row["published"], row["measured"], row["measured_low"], row["gap"]) == ("0.81", "", "", "")


def test_other_settings_methods_and_data_are_not_compared() -> None:
    for one in (trial("t", 0.2), trial("t", 0.1, algorithm="ifca_mir"), trial("t", 0.1) | {"data.name": "digits"}):
        assert compare(found(one | {"mia_accuracy_minority": 0.7}), [record()]).lines == ()
    assert compare(found(trial("t", 0.2)), [record()]).absent == (record(),)
    assert compare(found(trial("t", 0.1) | {"data.name": "digits"}), [record()]).absent == ()


def test_an_average_over_settings_weighs_settings_alike() -> None:
    # Setting 0.1 has seeds 0 and 1, setting 0.2 seeds 0, 1 and 2: means 0.7 and 0.5, whatever the number of seeds.
    values = {(0.1, 0): 0.6, (0.1, 1): 0.8, (0.2, 0): 0.4, (0.2, 1): 0.5, (0.2, 2): 0.6}
    trials = [trial(f"{r}{s}", r, s, mia_accuracy_minority=value) for (r, s), value in values.items()]
    line = only(compare(found(*trials, declared=("data.split.minority_ratio",)), [AVERAGE]).lines)
    assert line.measured == pytest.approx(0.6)
    assert (line.seeds, line.values) == (2, "0.5, 0.65")  # complete seeds: (0.6 + 0.4) / 2 and (0.8 + 0.5) / 2
    assert math.isnan(line.measured_high), "two seeds have no interval"
    assert "average over minority ratio 0.1, 0.2" in line.differs


def test_other_swept_keys_give_a_line_each() -> None:
    key = "attacks.0.nonmember_transform"
    trials = [trial(name, 0.1, mia_accuracy_minority=0.6) | {key: name} for name in ("cluster", "unrotated")]
    lines = compare(found(*trials), [record()]).lines
    assert [line.measured_setting for line in lines] == [
        "minority ratio 0.1, nonmember transform cluster",
        "minority ratio 0.1, nonmember transform unrotated",
    ]


def test_the_mean_of_two_models_needs_both() -> None:
    whole = trial("t", 0.1, model_accuracy_majority=0.9, model_accuracy_minority=0.8)
    assert only(compare(found(whole), [ACCURACY]).lines).measured == pytest.approx(0.85)
    half = trial("t", 0.1, model_accuracy_majority=0.9, model_accuracy_minority=None)
    assert math.isnan(only(compare(found(half), [ACCURACY]).lines).measured)


def test_the_claim_on_violations_has_all_quotients_with_intervals() -> None:
    """Before, only the largest was printed, without an interval, and a setting with no violation was left out."""
    counted = {
        ("ifca", 0.1): (12, 14, 10),
        ("ifca_mir", 0.1): (4, 5, 3),
        ("ifca", 0.2): (20, 22, 18),
        ("ifca_mir", 0.2): (10, 10, 10),
        ("ifca", 0.3): (9, 9, 9),
        ("ifca_mir", 0.3): (0, 0, 0),
    }
    trials = [
        trial(f"{a}{r}{s}", r, s, a, violations=n) for (a, r), numbers in counted.items() for s, n in enumerate(numbers)
    ]
    comparison = compare(found(*trials, trial("alone", 0.5, violations=3)), [FACTOR])
    assert [line.measured for line in comparison.lines] == pytest.approx([3.0, 2.0, math.nan], nan_ok=True)
    assert [line.measured_setting for line in comparison.lines] == [f"minority ratio {r}" for r in (0.1, 0.2, 0.3)]
    first, second, _ = comparison.lines
    assert first.measured_low < 3 < first.measured_high
    expected = 4.302653 * 2 / 3**0.5 / 10  # the divisor is 10 in each seed, so this is the t interval over 10
    assert (second.measured_low, second.measured_high) == pytest.approx((2 - expected, 2 + expected), abs=1e-6)
    assert all("beside the largest quotient of the paper's" in line.differs for line in comparison.lines)
    page = published_markdown(found(*trials), comparison)
    assert "Fieller's 95 % interval" in page
    assert "| 5.6 | 2.000 ± 0.497 |" in page
    assert compare(found(trial("t", 0.1, violations=3)), [FACTOR]).lines == ()


def test_a_quotient_of_few_seeds_is_printed_by_its_values() -> None:
    trials = [trial(f"{a}{s}", 0.1, s, a, violations=n + s) for a, n in (("ifca", 11), ("ifca_mir", 3)) for s in (0, 1)]
    line = only(compare(found(*trials, trial("lost", 0.1, 2, violations=9)), [FACTOR]).lines)
    assert (line.seeds, line.values) == (2, "3.666666667, 3")
    assert math.isnan(line.measured_low)
    assert "| 3.667, 3.000 |" in published_markdown(found(*trials), compare(found(*trials), [FACTOR]))


def test_examples_of_a_client_are_counted_where_the_config_is_silent(tmp_path: Path) -> None:
    import pandas as pd

    config = {**CONFIG, "data": {"name": "mnist", "clients": 200, "examples_per_client": None}}
    one = results(tmp_path, rows([trial("t", 0.1, mia_accuracy_minority=0.7)]), (), {"t": config})
    (tmp_path / "trials/t").mkdir(parents=True)
    pd.DataFrame({"client": [0, 1], "examples": [60, 60]}).to_parquet(tmp_path / "trials/t/clients.parquet")
    assert "examples per client 60 instead of 250" in only(compare(one, [record()]).lines).differs


def test_a_printed_percentage_is_laid_beside_a_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    import orchestrator.report.comparison as comparison

    rule = Counterpart(where={"data.name": "har"}, metrics=("accuracy",), scale=0.01)
    monkeypatch.setattr(comparison, "rules", lambda: {"finp": lambda _: rule})
    har = {"id": "t", "status": "finished", "seed": 0, "data.name": "har", "accuracy": 0.75}
    line = only(compare(found(har, config={}), [record(paper="finp", value=74.1, std=1.5)]).lines)
    assert (line.published, line.published_std) == pytest.approx((0.741, 0.015))
    assert line.gap == pytest.approx(0.009)


def test_the_page_states_gap_deviation_and_what_is_absent() -> None:
    one = found(trial("t", 0.1, mia_accuracy_minority=0.7))
    absent = record(setting="minority fraction 0.30 of 200 clients, minor model", value=0.63)
    page = published_markdown(one, compare(one, [record(note="a | b"), absent]))
    assert "| 0.81 | 0.700 | -0.110 | minority ratio 0.1 | clients 40 instead of 200; 1 seed instead of 5" in page
    assert r"note: a \| b" in page
    assert "## Published for these data but not run in this sweep" in page
    assert "0.63" in page
    assert "No published number" in published_markdown(one, compare(one, []))


def test_the_published_points_of_figure_1() -> None:
    assert sorted(published_points({"mnist"})) == [
        ("majority", 0.1, 0.515),
        ("majority", 0.5, 0.52),
        ("minority", 0.1, 0.81),
        ("minority", 0.3, 0.63),
        ("minority", 0.5, 0.52),
    ]
    assert published_points({"digits"}) == []
