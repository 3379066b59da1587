"""The papers' numbers: that they are all there, what they are in our words, and how they lie beside measured ones."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from datasets.components import components, presets
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.sweep_file import load_sweep
from orchestrator.metric_names import metrics
from orchestrator.report.comparison import Line, compare, leaves, published_csv, published_markdown
from orchestrator.report.data import SLOTS, Results, read_results, results, rows
from orchestrator.report.published import Counterpart, Record, counterpart, records
from tests.support.synthetic_results import FINP, HAR, METRIC, write_finp, write_metric

SWEEPS = Path(__file__).parents[3] / "sweeps"
TABLE_1 = "TCN, beta=2, 1 local epoch, 20 rounds"
CNN = "CNN of Hu et al. 2023, alpha=0.5, K=10, 5 local epochs, 20 rounds"
ATTACKED = "CIA scenario, 3 clients, 20 local epochs, round 1"
FIGURE_1 = "minority fraction 0.10 of 200 clients, minor model"
RATIO = "data.split.minority_ratio"
CONFIG = {
    "data": {"name": "mnist", "clients": 40, "examples_per_client": 250, "split": {"minority_ratio": 0.1}},
    "model": {"name": "mnist_cnn"},
    "clustering": {"name": "ifca"},
    "attacks": [{"name": "shadow_mia", "every": 5, "shadows": 3}],
}


def record(**changes: Any) -> Record:
    given = {"dataset": "MNIST", "setting": FIGURE_1, "method": "IFCA", "metric": "mia_balanced_accuracy"}
    return Record(**{"paper": "ifca_mir", "source": "Figure 1", "value": 0.81, **given, **changes})


AVERAGE = record(setting="average over settings, minor model", value=0.761)
ACCURACY = record(setting="average over settings", metric="accuracy_mean_of_major_and_minor_models", value=0.816)


def trial(ident: str, ratio: float, seed: int = 0, algorithm: str = "ifca", **metrics: object) -> dict[str, Any]:
    held = {"data.name": "mnist", "clustering.name": algorithm, RATIO: ratio}
    return {"id": ident, "status": "finished", "seed": seed, **held, **metrics}


def read(*trials: dict[str, Any], declared: tuple[str, ...] = ()) -> Results:
    return results(Path("made_up"), rows(trials), declared, {trial["id"]: CONFIG for trial in trials})


def only(lines: tuple[Line, ...]) -> Line:
    assert len(lines) == 1
    return lines[0]


def in_our_words(paper: str, setting: str, method: str, metric: str) -> Counterpart:
    (one,) = [r for r in records() if (r.paper, r.setting, r.method, r.metric) == (paper, setting, method, metric)]
    found = counterpart(one)
    assert found is not None
    return found


def test_every_record_is_complete_and_has_a_counterpart_unless_it_is_derived_from_others() -> None:
    assert Counter(one.paper for one in records()) == {"ifca_mir": 23, "finp": 181, "metric_privacy": 234}
    assert all(math.isfinite(one.value) and one.source and one.method for one in records())
    assert sum(one.std is not None for one in records()) == 54
    by_hand = next(one for one in records() if one.setting == FIGURE_1)
    assert (by_hand.value, by_hand.dataset, by_hand.method) == (0.81, "MNIST", "IFCA")
    derived = [one for one in records() if counterpart(one) is None]
    assert [(one.paper, one.value) for one in derived] == [("ifca_mir", 5.6)]


@pytest.mark.parametrize(
    "changes", [{"dataset": "SVHN"}, {"method": "FedAvg"}, {"setting": "elsewhere"}, {"paper": "another"}]
)
def test_a_record_that_nobody_knows_has_no_counterpart(changes: dict[str, str]) -> None:
    assert counterpart(record(**changes)) is None


@pytest.mark.parametrize(
    ("one", "where", "measured", "over"),
    [
        (record(), {RATIO: 0.1}, ["mia_accuracy_minority"], ""),
        (
            record(setting="minority fraction 0.50 of 200 clients, both model"),
            {RATIO: 0.5},
            ["mia_accuracy_majority", "mia_accuracy_minority"],
            "",
        ),
        (ACCURACY, {}, ["model_accuracy_majority", "model_accuracy_minority"], "data.split"),
    ],
)
def test_a_record_in_our_words(one: Record, where: dict[str, Any], measured: list[str], over: str) -> None:
    found = counterpart(one)
    assert found is not None
    assert found.where == {"data.name": "mnist", "clustering.name": "ifca"} | where
    assert (list(found.metrics), found.over, found.repetitions) == (measured, over, 5)


@pytest.mark.parametrize(
    ("method", "objective", "aggregation"),
    [
        ("Baseline (FedAvg)", "plain", "fedavg"),
        ("FinP_client", "finp", "fedavg"),
        ("FinP_server (PCA)", "plain", "finp_pca"),
        ("FinP (PCA)", "finp", "finp_pca"),
        ("FinP_server (ALA)", "plain", "finp_ala"),
        ("FinP (ALA)", "finp", "finp_ala"),
    ],
)
def test_a_method_of_finp_is_an_objective_and_an_aggregation(method: str, objective: str, aggregation: str) -> None:
    one = in_our_words("finp", TABLE_1, method, "sia_mean_pct")
    assert (one.where["objective.name"], one.where["aggregation.name"]) == (objective, aggregation)
    assert (one.where["data.name"], one.where["model.name"]) == ("har", "tcn")
    assert (one.metrics, one.scale) == (("sia_mean",), 0.01)
    assert one.context.get("objective.beta") == (2.0 if objective == "finp" else None)


def test_a_beta_and_local_epochs_belong_to_the_setting() -> None:
    beta = in_our_words("finp", CNN, "FinP (beta=0.3, ALA)", "eod")
    place = (beta.where["objective.beta"], beta.where["aggregation.name"], beta.where["training.epochs"])
    assert place == (0.3, "finp_ala", 5)
    assert (beta.where["model.name"], beta.scale, beta.metrics) == ("hu_cnn", 1.0, ("eod",))
    epochs = in_our_words("finp", "CNN, 10 local epochs", "Baseline (FedAvg)", "sia_max_pct")
    assert epochs.where["training.epochs"] == 10
    accuracy = in_our_words("finp", TABLE_1, "Baseline (FedAvg)", "test_acc_pct")
    assert accuracy.metrics == ("accuracy_last5_mean",)


def test_names_of_metric_privacy_that_mean_something_else() -> None:
    prox, opt = (
        in_our_words("metric_privacy", ATTACKED, f"{name} | vanilla", "cia_difference_pct")
        for name in ("FedProx", "FedOpt")
    )
    assert (prox.where["objective.name"], prox.where["objective.mode"]) == ("fedprox", "inactive")
    assert prox.where["aggregation.name"] == "fedavg"
    assert opt.where["aggregation.name"] == {"one_of": ["fedopt", "fedavg"]}  # a preset, and what it stands for
    assert opt.where["aggregation.warm_start_epochs"] == opt.context["aggregation.warm_start_epochs"] == 20
    (table_10,) = {r.method.split(" ")[0] for r in records() if r.source == "Table 10"}
    (table_d16,) = {r.method.split(" ")[0] for r in records() if r.source == "Table D.16"}
    assert (table_10, table_d16) == ("FedOpt", "FedYogi")


def test_the_splits_and_kinds_of_metric_privacy() -> None:
    found = [one for r in records() if r.paper == "metric_privacy" and (one := counterpart(r))]
    splits = Counter(one.where["data.split.preset"] for one in found)
    assert splits == {"homogeneous": 90, "non_iid": 72, "cia": 72}
    kinds = Counter(one.where["privacy.name"] for one in found)
    assert kinds == dict.fromkeys(("none", "global_dp", "metric_privacy"), 78)
    noisy = next(one for one in found if one.where["privacy.name"] == "metric_privacy")
    assert (noisy.context["privacy.clip"], noisy.context["privacy.noise_multiplier"]) == (5.0, 0.01)
    assert {one.repetitions for one in found} == {None, 5}


@cache
def fields_of_runs() -> frozenset[str]:
    """The dotted keys of all fields that the runs of our sweeps have."""
    runs = [run.to_dict() for path in sorted(SWEEPS.glob("*.yaml")) for run in load_sweep(path).runs]
    runs.append(
        resolve({"rounds": 1, "data": "digits", "model": "mlp", "clustering": "ifca", "attacks": ["sia"]}).to_dict()
    )
    return frozenset(key for run in runs for key, _ in leaves(run)) | {f"{key}.name" for key in SLOTS}


def test_metrics_components_and_fields_of_the_papers_files_exist() -> None:
    """A file that asks for a field nobody has would state no deviation, whatever was run."""
    folders = {"data": "datasets.sources", "data.split": "datasets.splits", "model": "algorithms.models"}
    folders |= {"objective": "algorithms.objectives", "aggregation": "algorithms.aggregation"}
    folders |= {
        "privacy": "algorithms.privacy",
        "clustering": "algorithms.clustering",
        "training": "algorithms.training",
    }
    found = [one for r in records() if (one := counterpart(r))]
    assert {name for one in found for name in one.metrics} <= metrics().keys()
    for key, names in ((key, value) for one in found for key, value in (*one.where.items(), *one.context.items())):
        if key.endswith(".name"):
            folder = folders[key.removesuffix(".name")]
            for name in names["one_of"] if isinstance(names, dict) else (names,):
                assert name in components(folder) or name in presets(folder), (key, name)
    assert {key for one in found for key in (*one.where, *one.context)} - fields_of_runs() == set()


def test_measured_lies_beside_published_with_the_gap_and_the_deviations() -> None:
    trials = [trial(f"t{seed}", 0.1, seed, mia_accuracy_minority=value) for seed, value in enumerate((0.6, 0.7, 0.8))]
    line = only(compare(read(*trials), [record()]).lines)
    assert (line.published, line.seeds) == (0.81, 3)
    assert (line.measured, line.gap) == pytest.approx((0.7, -0.11))
    assert line.measured_high - line.measured == pytest.approx(0.2484138, abs=1e-6)
    assert line.differs == "clients 40 instead of 200; 3 seeds instead of 5"
    assert line.measured_setting == "minority ratio 0.1"


def test_what_was_not_measured_is_empty_and_still_listed() -> None:
    diverged = trial("t", 0.1, mia_accuracy_minority=None) | {"status": "diverged"}
    line = only(compare(read(diverged), [record()]).lines)
    assert math.isnan(line.measured) and math.isnan(line.gap)
    assert line.differs.endswith("0 seeds instead of 5; 1 diverged")
    (row,) = csv.DictReader(io.StringIO(published_csv(compare(read(trial("t", 0.1)), [record()]))))
    assert (row["published"], row["measured"], row["measured_low"], row["gap"]) == ("0.81", "", "", "")


def test_other_settings_methods_and_data_are_not_compared() -> None:
    for one in (trial("t", 0.2), trial("t", 0.1, algorithm="ifca_mir"), trial("t", 0.1) | {"data.name": "digits"}):
        assert compare(read(one | {"mia_accuracy_minority": 0.7}), [record()]).lines == ()


def test_an_average_over_settings_weighs_settings_alike() -> None:
    # Setting 0.1 has seeds 0 and 1, setting 0.2 seeds 0, 1 and 2: means 0.7 and 0.5, whatever the number of seeds.
    values = {(0.1, 0): 0.6, (0.1, 1): 0.8, (0.2, 0): 0.4, (0.2, 1): 0.5, (0.2, 2): 0.6}
    trials = [trial(f"{r}{s}", r, s, mia_accuracy_minority=value) for (r, s), value in values.items()]
    line = only(compare(read(*trials, declared=(RATIO,)), [AVERAGE]).lines)
    assert line.measured == pytest.approx(0.6)
    assert (line.seeds, line.values) == (2, "0.5, 0.65")  # complete seeds: (0.6 + 0.4) / 2 and (0.8 + 0.5) / 2
    assert math.isnan(line.measured_high), "two seeds have no interval"
    assert "average over minority ratio 0.1, 0.2" in line.differs


def test_other_swept_keys_give_a_line_each() -> None:
    key = "attacks.0.nonmember_transform"
    trials = [trial(name, 0.1, mia_accuracy_minority=0.6) | {key: name} for name in ("cluster", "unrotated")]
    expected = [f"minority ratio 0.1, nonmember transform {name}" for name in ("cluster", "unrotated")]
    assert [line.measured_setting for line in compare(read(*trials), [record()]).lines] == expected


def test_the_mean_of_two_models_needs_both() -> None:
    whole = trial("t", 0.1, model_accuracy_majority=0.9, model_accuracy_minority=0.8)
    assert only(compare(read(whole), [ACCURACY]).lines).measured == pytest.approx(0.85)
    half = whole | {"model_accuracy_minority": None}
    assert math.isnan(only(compare(read(half), [ACCURACY]).lines).measured)


def test_a_printed_percentage_is_laid_beside_a_fraction(tmp_path: Path) -> None:
    results = read_results(write_finp(tmp_path / "har", FINP))
    lines = compare(results).lines
    assert {line.source for line in lines} == {"Table 1", "App. C.3", "App. C.4"}
    per_method = Counter(line.method for line in lines if line.source == "Table 1")
    assert len(per_method) == 6 and set(per_method.values()) == {10}
    mean = next(line for line in lines if (line.method, line.metric) == ("FinP (PCA)", "sia_mean_pct"))
    trials = [t for t in results.trials if (t["objective.name"], t["aggregation.name"]) == ("finp", "finp_pca")]
    assert mean.published == pytest.approx(0.197)
    assert mean.measured == pytest.approx(sum(trial["sia_mean"] for trial in trials) / 3)
    assert (mean.measured_setting, mean.differs) == ("objective FinP, aggregation FinP-PCA", "")
    assert "| sia_mean | 0.197 |" in published_markdown(results, compare(results))
    one = {"objective.name": ["plain"], "aggregation.name": ["fedavg"], "seed": [0]}
    assert len(compare(read_results(write_finp(tmp_path / "d", one))).lines) == 11
    for i, base in enumerate(({"data.name": "digits"}, {"model.name": "mlp"}, {"data.split.name": "iid"})):
        assert compare(read_results(write_finp(tmp_path / str(i), one, base=HAR | base))).lines == ()


def test_strategies_under_each_privacy_lie_beside_theirs(tmp_path: Path) -> None:
    lines = compare(read_results(write_metric(tmp_path / "s", METRIC))).lines
    assert {line.source for line in lines} == {"Table 4", "Table 5", "Table A.12"}
    strategies = {"FedAvg", "FedAvgM", "FedMedian", "FedOpt", "FedYogi"}
    assert {line.method.split(" | ")[0] for line in lines} == strategies
    line = next(x for x in lines if x.source == "Table A.12" and x.method == "FedYogi | metric-privacy")
    assert (line.differs, line.measured_setting) == ("3 seeds instead of 5", "split homogeneous")


def test_the_page_states_gap_deviation_and_note() -> None:
    one = read(trial("t", 0.1, mia_accuracy_minority=0.7))
    page = published_markdown(one, compare(one, [record(note="a | b")]))
    assert "| 0.81 | 0.700 | -0.110 | minority ratio 0.1 | clients 40 instead of 200; 1 seed instead of 5" in page
    assert r"note: a \| b" in page


def as_if_finished(name: str, sets: Sequence[str] = ()) -> Results:
    """The results of one of our sweeps in which every trial has finished and measured nothing."""
    sweep = load_sweep(SWEEPS / f"{name}.yaml", list(sets))
    configs = {trial_id(run): run.to_dict() for run in sweep.runs}
    table = [
        {"id": ident, "status": "finished", "seed": run["seed"], "rounds": run["rounds"]}
        | {key: value for key, value in leaves(run) if key in {f"{slot}.name" for slot in SLOTS}}
        | values
        for (ident, run), values in zip(configs.items(), sweep.values, strict=True)
    ]
    return results(Path(name), rows(table), tuple(sweep.values[0]), configs)


@pytest.mark.parametrize(
    "name", [path.stem for path in sorted(SWEEPS.glob("*_as_released.yaml"))] + ["metric_privacy_five_runs"]
)
def test_the_sweeps_as_released_differ_from_the_reading_only_as_their_headers_say(name: str) -> None:
    known = {
        "",
        "held out 0.1 instead of 0",  # clients hold out images of their own; the paper tests on the official test set
        "clip gradient 10 instead of none",  # of FedAvg's row in finp_cifar_resnet_as_released
        "beta 0.05 instead of 0.1",  # the released instructions beside the paper
        "rounds 5 instead of 20",  # of the timing
    }
    lines = compare(as_if_finished(name)).lines
    assert lines
    assert {words for line in lines for words in line.differs.split("; ")} <= known


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "finp_har_as_released",
            {
                "curvature.examples=20": "curvature examples 20 instead of all",
                "curvature={rho_alignment: by_visit_order}": "curvature trace gauss_newton instead of hutch",
                "attacks.sia.pool=training": "sia pool training instead of all",
                "data.split_seed=null": "3 partitions instead of one",
                "training.precision=bf16": "precision bf16 instead of float32",
            },
        ),
        ("finp_cifar_resnet", {"curvature.examples=20": "curvature examples 20 instead of all"}),
        (
            "ifca_mir_mnist_minority",
            {
                "data.split_seed=7": "one partition (split seed 7) instead of a new partition in each run",
                "clustering.preference=uniform": "preference uniform instead of threshold",
                "clustering.restarts=4": "restarts 4 instead of 1",
                "privacy=global_dp": "privacy global_dp instead of none",
            },
        ),
        (
            "metric_privacy_five_runs",
            {
                "privacy.order=post_clip": "order post_clip instead of pre_clip",
                "data.split_seed=null": "5 partitions instead of one",
            },
        ),
    ],
)
def test_every_field_that_differs_from_the_papers_reading_is_named(name: str, changes: dict[str, str]) -> None:
    before = {line.differs for line in compare(as_if_finished(name)).lines}
    for change, words in changes.items():
        assert not any(words in differs for differs in before)
        assert any(words in line.differs for line in compare(as_if_finished(name, [f"base.{change}"])).lines)


def test_fields_that_the_paper_does_not_print_are_listed_below_the_table() -> None:
    found = as_if_finished("ifca_mir_mnist_minority", ["base.training.lr=0.125"])
    page = published_markdown(found, compare(found))
    listed = next(line for line in page.splitlines() if line.startswith("Not printed by ifca_mir, here: "))
    assert "lr = 0.125" in listed and "rounds = 50" in listed
    assert "restarts" not in listed.replace("restart rounds", ""), "it is part of the reading"
    assert "device" not in listed
