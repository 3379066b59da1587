"""The papers' numbers: that they are all there, what they are in our words, and how they lie
beside measured ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from datasets.components import components
from orchestrator.config.metric_names import metrics
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.slots import SLOTS
from orchestrator.config.sweep_file import load_sweep
from orchestrator.papers.number_page import markdown
from orchestrator.papers.numbers import (
    FULL,
    NOT_MEASURED,
    ONE_PARTITION,
    SHORTENED,
    Number,
    compare,
    numbers,
)
from orchestrator.papers.records import Counterpart, Record, counterpart, records
from orchestrator.papers.trials import Trial, flat, matches
from orchestrator.report.data import Results, read_results, results, rows
from orchestrator.report.published import published_markdown
from tests.support.pages import ROOT
from tests.support.synthetic_results import FINP, HAR, write_finp

SWEEPS = ROOT / "sweeps"
TABLE_1 = "TCN, beta=2, 1 local epoch, 20 rounds"
FIGURE_1 = "minority fraction 0.10 of 200 clients, minor model"
RATIO = "data.split.minority_ratio"
NAMES = tuple(f"{slot.key}.name" for slot in SLOTS)
CONFIG = {
    "data": {"clients": 40, "examples_per_client": 250, "split": {}},
    "model": {"name": "mnist_cnn"},
    "clustering": {},
    "attacks": [{"name": "shadow_mia", "every": 5, "shadows": 3}],
}


def record(**changes: Any) -> Record:
    given = {
        "dataset": "MNIST",
        "setting": FIGURE_1,
        "method": "IFCA",
        "metric": "mia_balanced_accuracy",
    }
    return Record(**{"paper": "ifca_mir", "source": "Figure 1", "value": 0.81, **given, **changes})


AVERAGE = record(setting="average over settings, minor model", value=0.761)
ACCURACY = record(
    setting="average over settings", metric="accuracy_mean_of_major_and_minor_models", value=0.816
)


def in_our_words(paper: str, setting: str, method: str, metric: str) -> Counterpart:
    (one,) = [
        r
        for r in records()
        if (r.paper, r.setting, r.method, r.metric) == (paper, setting, method, metric)
    ]
    found = counterpart(one)
    assert found is not None
    return found


# The papers' numbers in our words


def test_every_record_is_complete_and_has_a_counterpart() -> None:
    """Unless it is derived from others."""
    assert Counter(one.paper for one in records()) == {
        "ifca_mir": 23,
        "finp": 181,
        "metric_privacy": 234,
    }
    assert all(math.isfinite(one.value) and one.source and one.method for one in records())
    assert sum(one.std is not None for one in records()) == 54
    derived = [one for one in records() if counterpart(one) is None]
    assert [(one.paper, one.value) for one in derived] == [("ifca_mir", 5.6)]
    for changes in (
        {"dataset": "SVHN"},
        {"method": "FedAvg"},
        {"setting": "elsewhere"},
        {"paper": "another"},
    ):
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
def test_a_record_in_our_words(
    one: Record, where: dict[str, Any], measured: list[str], over: str
) -> None:
    found = counterpart(one)
    assert found is not None
    assert found.where == {"data.name": "mnist", "clustering.name": "ifca"} | where
    assert (list(found.metrics), found.over) == (measured, over)


def test_a_method_of_finp_is_an_objective_and_an_aggregation() -> None:
    methods = {
        "Baseline (FedAvg)": ("plain", "fedavg"),
        "FinP_client": ("finp", "fedavg"),
        "FinP (ALA)": ("finp", "finp_ala"),
    }
    for method, slots in methods.items():
        one = in_our_words("finp", TABLE_1, method, "sia_mean_pct")
        names = ("objective.name", "aggregation.name", "data.name", "model.name")
        assert tuple(one.where[name] for name in names) == (*slots, "har", "tcn")
        assert (one.metrics, one.scale) == (("sia_mean",), 0.01)
        assert one.context.get("objective.beta") == (2.0 if slots[0] == "finp" else None)


def test_names_and_kinds_of_metric_privacy() -> None:
    scenario = "CIA scenario, 3 clients, 20 local epochs, round 1"
    prox, opt = (
        in_our_words("metric_privacy", scenario, f"{name} | vanilla", "cia_difference_pct")
        for name in ("FedProx", "FedOpt")
    )
    assert (prox.where["objective.name"], prox.where["objective.mode"]) == ("fedprox", "inactive")
    assert (opt.where["aggregation.name"], opt.where["aggregation.warm_start_epochs"]) == (
        "fedavg",
        20,
    )
    rounds = in_our_words(
        "metric_privacy", "homogeneous, 4 clients, round 20", "FedProx | vanilla", "server_test_acc"
    ).where
    objectives: dict[str, dict[str, Any]] = {
        "fedavg": {"objective.name": "plain"},
        "inactive": {"objective.name": "fedprox", "objective.mode": "inactive"},
        "active": {"objective.name": "fedprox", "objective.mode": "active"},
        "finp": {"objective.name": "finp"},
    }
    taken = [
        name
        for name, fields in objectives.items()
        if matches({**rounds, "objective.mode": None, **fields}, rounds)
    ]
    assert taken == ["fedavg", "inactive"]
    found = [one for r in records() if r.paper == "metric_privacy" and (one := counterpart(r))]
    splits = Counter(one.where["data.split.preset"] for one in found)
    assert splits == {"homogeneous": 90, "non_iid": 72, "cia": 72}
    kinds = Counter(one.where["privacy.name"] for one in found)
    assert kinds == dict.fromkeys(("none", "global_dp", "metric_privacy"), 78)


@cache
def fields_of_runs() -> frozenset[str]:
    """The dotted keys of all fields that the runs of our sweeps have."""
    runs = [
        run.to_dict() for path in sorted(SWEEPS.glob("*.yaml")) for run in load_sweep(path).runs
    ]
    runs.append(
        resolve(
            {
                "rounds": 1,
                "data": "digits",
                "model": "mlp",
                "clustering": "ifca",
                "attacks": ["sia"],
            }
        ).to_dict()
    )
    return frozenset(key for run in runs for key in flat(run)) | set(NAMES)


def test_metrics_components_and_fields_of_the_papers_files_exist() -> None:
    """A file that asks for a field nobody has would state no deviation, whatever was run."""
    found = [one for r in records() if (one := counterpart(r))]
    assert {name for one in found for name in one.metrics} <= metrics().keys()
    folders = {f"{slot.key}.name": slot.folder for slot in SLOTS}
    wanted = {
        (key, name)
        for one in found
        for key, value in (*one.where.items(), *one.context.items())
        if key in folders
        for name in (value["one_of"] if isinstance(value, dict) else [value])
    }
    assert [(key, name) for key, name in wanted if name not in components(folders[key])] == []
    assert {key for one in found for key in (*one.where, *one.context)} - fields_of_runs() == set()


# In one sweep


def trial(
    ident: str, ratio: float, seed: int = 0, algorithm: str = "ifca", **metrics: object
) -> dict[str, Any]:
    names = {"data.name": "mnist", "clustering.name": algorithm, RATIO: ratio}
    return {"id": ident, "status": "finished", "seed": seed, **names, **metrics}


def read(*trials: dict[str, Any], declared: tuple[str, ...] = ()) -> Results:
    return results(
        Path("made_up"), rows(trials), declared, {trial["id"]: CONFIG for trial in trials}
    )


def test_measured_lies_beside_published_with_the_gap_and_the_deviations() -> None:
    trials = [
        trial(f"t{seed}", 0.1, seed, mia_accuracy_minority=value)
        for seed, value in enumerate((0.6, 0.7, 0.8))
    ]
    (one,) = compare(read(*trials), [record()])
    assert (one.printed, one.estimate.n, one.estimate.mean) == (0.81, 3, pytest.approx(0.7))
    assert one.estimate.half == pytest.approx(0.2484138, abs=1e-6)
    assert (one.differs, one.setting) == (
        {"data.clients": "40 instead of 200"},
        "minority ratio 0.1",
    )
    (noted,) = compare(read(*trials), [record(note="a | b")])
    assert markdown([noted], []).count("- IFCA: a | b") == 1
    assert r"clients 40 instead of 200; note: a \| b |" in published_markdown(
        read(*trials), [noted]
    )


def test_what_was_not_measured_is_not_compared() -> None:
    """Nor are other settings, methods and data."""
    for one in (
        trial("t", 0.2),
        trial("t", 0.1, algorithm="ifca_mir"),
        trial("t", 0.1) | {"data.name": "digits"},
    ):
        assert compare(read(one | {"mia_accuracy_minority": 0.7}), [record()]) == []
    assert compare(read(trial("t", 0.1, mia_accuracy_minority=None)), [record()]) == []
    half = trial("t", 0.1, model_accuracy_majority=0.9, model_accuracy_minority=None)
    assert compare(read(half), [ACCURACY]) == []
    (whole,) = compare(read(half | {"model_accuracy_minority": 0.8}), [ACCURACY])
    assert whole.estimate.mean == pytest.approx(0.85)


def test_an_average_over_settings_needs_all_of_them() -> None:
    """Other swept keys give a line each."""
    values = {(0.1, 0): 0.6, (0.1, 1): 0.8, (0.2, 0): 0.4, (0.2, 1): 0.5, (0.2, 2): 0.6}
    trials = [
        trial(f"{r}{s}", r, s, mia_accuracy_minority=value) for (r, s), value in values.items()
    ]
    (one,) = compare(read(*trials, declared=(RATIO,)), [AVERAGE])
    assert one.estimate.values == pytest.approx((0.5, 0.65))  # (0.6 + 0.4) / 2 and (0.8 + 0.5) / 2
    (alone,) = compare(
        read(*trials[:2], declared=(RATIO,)), [AVERAGE]
    )  # one setting is no average over settings
    assert (alone.level, "data.split" in alone.differs, "data.split" in one.differs) == (
        SHORTENED,
        True,
        False,
    )
    key = "attacks.0.nonmember_transform"
    trials = [
        trial(name, 0.1, mia_accuracy_minority=0.6) | {key: name}
        for name in ("cluster", "unrotated")
    ]
    expected = [
        f"minority ratio 0.1, nonmember transform {name}" for name in ("cluster", "unrotated")
    ]
    assert [one.setting for one in compare(read(*trials), [record()])] == expected


def test_a_printed_percentage_is_laid_beside_a_fraction(tmp_path: Path) -> None:
    made = read_results(write_finp(tmp_path / "har", FINP))
    compared = compare(made)
    sources = {one.record.source for one in compared if "_vs_" not in one.record.metric}
    assert sources == {"Table 1", "App. C.4"}, "the time of attacked rounds is not that of App. C.3"
    per_method = Counter(one.record.method for one in compared if one.record.source == "Table 1")
    assert len(per_method) == 6 and set(per_method.values()) == {9}
    mean = next(
        one
        for one in compared
        if (one.record.method, one.record.metric) == ("FinP (PCA)", "sia_mean_pct")
    )
    trials = [
        t
        for t in made.trials
        if (t["objective.name"], t["aggregation.name"]) == ("finp", "finp_pca")
    ]
    assert mean.printed == pytest.approx(0.197)
    assert mean.estimate.mean == pytest.approx(sum(trial["sia_mean"] for trial in trials) / 3)
    assert (mean.setting, mean.differs) == ("objective FinP, aggregation FinP-PCA", {})
    assert "| sia_mean_pct | 0.197 |" in published_markdown(made, compared)
    for i, base in enumerate(
        ({"data.name": "digits"}, {"model.name": "mlp"}, {"data.split.name": "iid"})
    ):
        one = {"objective.name": ["plain"], "aggregation.name": ["fedavg"], "seed": [0]}
        assert compare(read_results(write_finp(tmp_path / str(i), one, base=HAR | base))) == []


def as_if_finished(name: str, sets: Sequence[str] = ()) -> Results:
    """The results of one of our sweeps in which every trial has finished and measured 0.5 of
    everything.
    """
    sweep = load_sweep(SWEEPS / f"{name}.yaml", list(sets))
    configs = {trial_id(run): run.to_dict() for run in sweep.runs}
    measured = {
        name: 0.5 for one in records() if (printed := counterpart(one)) for name in printed.metrics
    }
    table = [
        {"id": ident, "status": "finished", "seed": run["seed"], "rounds": run["rounds"]}
        | measured
        | {key: value for key, value in flat(run).items() if key in NAMES}
        | values
        for (ident, run), values in zip(configs.items(), sweep.values, strict=True)
    ]
    return results(Path(name), rows(table), tuple(sweep.values[0]), configs)


def deviations(name: str, sets: Sequence[str] = ()) -> set[str]:
    """The fields in which a sweep differs from the papers' reading, with both values."""
    return {
        f"{key} {words}"
        for one in compare(as_if_finished(name, sets))
        for key, words in one.differs.items()
    }


@pytest.mark.parametrize(
    "name",
    [path.stem for path in sorted(SWEEPS.glob("*_as_released.yaml"))]
    + ["metric_privacy_five_runs"],
)
def test_sweeps_as_released_differ_only_as_their_headers_say(
    name: str,
) -> None:
    """From the reading of the paper."""
    assert deviations(name) <= {
        # of FedAvg's row in finp_cifar_resnet_as_released
        "training.clip_gradient 10 instead of none",
        "objective.beta 0.05 instead of 0.1",  # the released instructions beside the paper
        "rounds 5 instead of 20",  # of the timing
        # of metric privacy: the line "persist" has the other
        "training.optimizer_state reset instead of persist",
    }
    assert compare(as_if_finished(name))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "finp_har_as_released",
            {
                "curvature.examples=20": "curvature.examples 20 instead of all",
                "curvature={rho_alignment: by_visit_order}": "curvature.trace gauss_newton instead of hutch",
                "attacks.sia.pool=training": "attacks.sia.pool training instead of all",
                "data.split_seed=null": "data.split_seed varied instead of fixed",
            },
        ),
        (
            "ifca_mir_mnist_minority",
            {
                "data.split_seed=7": "data.split_seed fixed instead of varied",
                "clustering.restarts=4": "clustering.restarts 4 instead of 1",
                "privacy=global_dp": "privacy.name global_dp instead of none",
            },
        ),
    ],
)
def test_every_field_that_differs_from_the_papers_reading_is_named(
    name: str, changes: dict[str, str]
) -> None:
    before = " ".join(deviations(name))
    for change, words in changes.items():
        assert words not in before and words in " ".join(deviations(name, [f"base.{change}"]))


# In all trials at hand: levels, values and differences of two methods, by hand

SLOT = {
    "data": "har",
    "data.split": "subjects",
    "model": "tcn",
    "training": "local_sgd",
    "clustering": "none",
    "privacy": "none",
}
RUN: dict[str, Any] = {f"{slot}.name": name for slot, name in SLOT.items()}
RUN |= {"rounds": 20, "data.clients": 10, "data.examples_per_client": None, "training.epochs": 1}
BASELINE = {"objective.name": "plain", "aggregation.name": "fedavg"}
PCA = {"objective.name": "finp", "aggregation.name": "finp_pca"}


def of_har(seed: int, cov: float, **changes: Any) -> Trial:
    return Trial(f"{seed}-{cov}-{changes}", {**RUN, "seed": seed, **changes}, {"sia_cov": cov})


def number(trials: list[Trial], method: str, metric: str = "cov_sia") -> Number:
    wanted = ("UCI-HAR", method, metric)
    (one,) = [
        one
        for one in numbers(trials)
        if (one.record.dataset, one.record.method, one.record.metric) == wanted
    ]
    return one


def test_a_number_is_the_mean_over_partitions_at_the_papers_size() -> None:
    one = number(
        [of_har(seed, cov, **BASELINE) for seed, cov in enumerate((0.9, 1.0, 1.1))],
        "Baseline (FedAvg)",
    )
    assert (one.level, one.printed, one.estimate.n, one.predicted) == (FULL, 0.94, 3, True)
    assert one.estimate.mean == pytest.approx(1.0)
    # 0.94 + 4.3027 * 0.01 * sqrt(4 / 3) = 0.99: a run lies above the printed value with more than
    # 95 %
    far = number(
        [of_har(seed, cov, **BASELINE) for seed, cov in enumerate((0.99, 1.0, 1.01))],
        "Baseline (FedAvg)",
    )
    assert far.predicted is False


def test_one_partition_is_taken_to_vary_as_another_method_of_its_table() -> None:
    plain = [of_har(seed, cov, **BASELINE) for seed, cov in enumerate((0.9, 1.0, 1.1))]
    printed, reach = 0.89, 4.3027 * 0.1 * math.sqrt(2)  # of the difference of two runs
    for cov, near in (
        (printed + reach - 0.01, True),
        (printed + reach + 0.01, False),
        (printed - reach - 0.01, False),
    ):
        one = number([*plain, of_har(0, cov, **PCA, **{"objective.beta": 2.0})], "FinP (PCA)")
        assert (one.level, one.printed, one.predicted, one.lent) == (
            ONE_PARTITION,
            printed,
            near,
            True,
        )
    assert (
        not number(plain, "Baseline (FedAvg)").lent
        and number(plain, "FinP (PCA)").predicted is None
    )


@pytest.mark.parametrize(
    ("changes", "level"),
    [({}, ONE_PARTITION), ({"rounds": 4}, SHORTENED), ({"data.name": "digits"}, NOT_MEASURED)],
)
def test_the_level_of_one_trial(changes: dict[str, Any], level: str) -> None:
    one = number([of_har(0, 0.9, **BASELINE, **changes)], "Baseline (FedAvg)")
    assert (one.level, one.predicted) == (level, None)
    assert ("rounds" in one.fields) == (level == SHORTENED)


def test_the_papers_size_comes_before_more_partitions() -> None:
    short = [of_har(seed, 0.5, **BASELINE, rounds=4) for seed in range(5)]
    one = number([*short, of_har(0, 0.9, **BASELINE)], "Baseline (FedAvg)")
    assert (one.level, one.estimate.mean) == (ONE_PARTITION, 0.9)
    assert {one.level for one in numbers([])} == {NOT_MEASURED}


def test_a_reduction_is_that_of_pairs() -> None:
    """1 - 0.9 / 1.0 and 1 - 1.0 / 2.0 have the mean 0.3; the trial without a partner does not
    count.
    """
    trials = [
        of_har(0, 0.9, **PCA),
        of_har(0, 1.0, **BASELINE),
        of_har(1, 1.0, **PCA),
        of_har(1, 2.0, **BASELINE),
    ]
    one = number(
        [*trials, of_har(2, 9.0, **PCA)], "FinP (PCA)", "cov_sia_reduction_pct_vs_baseline"
    )
    assert one.estimate.mean == pytest.approx(0.3)
    assert (one.estimate.n, one.printed) == (2, pytest.approx(0.0532))
