"""What the numbers of FinP and of metric privacy are in our words, and which trials they are laid beside."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from datasets.components import components, presets
from orchestrator.config.run import resolve
from orchestrator.metric_names import metrics
from orchestrator.report.data import read_results
from orchestrator.report.papers import finp, metric_privacy
from orchestrator.report.published import Record, records
from orchestrator.report.tables.comparison import compare, published_markdown
from orchestrator.report.values import lookup
from tests.support.synthetic_privacy import FINP, HAR, METRIC, write_finp, write_metric

TABLE_1 = "TCN, beta=2, 1 local epoch, 20 rounds"
CNN = "CNN of Hu et al. 2023, alpha=0.5, K=10, 5 local epochs, 20 rounds"
ATTACKED = "CIA scenario, 3 clients, 20 local epochs, round 1"


def printed(paper: str, setting: str, method: str, metric: str) -> Record:
    (found,) = [
        r for r in records() if (r.paper, r.setting, r.method, r.metric) == (paper, setting, method, metric)
    ]  # fmt: skip
    return found


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
    one = finp.counterpart(printed("finp", TABLE_1, method, "sia_mean_pct"))
    assert one is not None
    assert (one.where["objective.name"], one.where["aggregation.name"]) == (objective, aggregation)
    assert (one.where["data.name"], one.where["model.name"]) == ("har", "tcn")
    assert (one.metrics, one.scale) == (("sia_mean",), 0.01)
    assert one.context.get("objective.beta") == (2.0 if objective == "finp" else None)


def test_a_beta_and_local_epochs_belong_to_the_setting() -> None:
    beta = finp.counterpart(printed("finp", CNN, "FinP (beta=0.3, ALA)", "eod"))
    assert beta is not None
    assert (beta.where["objective.beta"], beta.where["aggregation.name"], beta.where["training.epochs"]) == (
        0.3,
        "finp_ala",
        5,
    )
    assert (beta.where["model.name"], beta.scale, beta.metrics) == ("hu_cnn", 1.0, ("eod",))
    epochs = finp.counterpart(printed("finp", "CNN, 10 local epochs", "Baseline (FedAvg)", "sia_max_pct"))
    assert epochs is not None
    assert epochs.where["training.epochs"] == 10


def test_the_test_accuracy_of_finp_is_a_mean_of_five_rounds() -> None:
    one = finp.counterpart(printed("finp", TABLE_1, "Baseline (FedAvg)", "test_acc_pct"))
    assert one is not None
    assert one.metrics == ("accuracy_last5_mean",)


def test_names_of_metric_privacy_that_mean_something_else() -> None:
    prox, opt = (
        metric_privacy.counterpart(printed("metric_privacy", ATTACKED, f"{name} | vanilla", "cia_difference_pct"))
        for name in ("FedProx", "FedOpt")
    )
    assert prox is not None
    assert opt is not None
    assert (prox.where["objective.name"], prox.where["objective.mode"]) == ("fedprox", "inactive")
    assert prox.where["aggregation.name"] == "fedavg"
    assert opt.where["aggregation.name"] == ("fedopt", "fedavg")  # a preset, and what it stands for
    assert opt.where["aggregation.warm_start_epochs"] == 20
    assert opt.context["aggregation.warm_start_epochs"] == 20
    (table_10,) = {r.method.split(" ")[0] for r in records() if r.source == "Table 10"}
    (table_d16,) = {r.method.split(" ")[0] for r in records() if r.source == "Table D.16"}
    assert (table_10, table_d16) == ("FedOpt", "FedYogi")


def test_the_splits_and_kinds_of_metric_privacy() -> None:
    found = [metric_privacy.counterpart(r) for r in records() if r.paper == "metric_privacy"]
    assert Counter(one.where["data.split.preset"] for one in found if one) == {
        "homogeneous": 90,
        "non_iid": 72,
        "cia": 72,
    }
    assert Counter(one.where["privacy.name"] for one in found if one) == dict.fromkeys(
        ("none", "global_dp", "metric_privacy"), 78
    )
    noisy = next(one for one in found if one and one.where["privacy.name"] == "metric_privacy")
    assert (noisy.context["privacy.clip"], noisy.context["privacy.noise_multiplier"]) == (5.0, 0.01)
    assert {one.repetitions for one in found if one} == {None, 5}


def test_metrics_components_and_fields_of_the_rules_exist() -> None:
    """A rule that asks for a field nobody has would state no deviation, whatever was run."""
    folders = {"objective": "algorithms.objectives", "aggregation": "algorithms.aggregation"}
    folders |= {"privacy": "algorithms.privacy", "model": "algorithms.models", "data": "datasets.sources"}
    folders |= {
        "data.split": "datasets.splits",
        "clustering": "algorithms.clustering",
        "training": "algorithms.training",
    }
    rules = {"finp": finp.counterpart, "metric_privacy": metric_privacy.counterpart}
    found = [one for r in records() if r.paper in rules and (one := rules[r.paper](r))]
    assert {name for one in found for name in one.metrics} <= metrics().keys()
    named = {pair for one in found for pair in (*one.where.items(), *one.context.items()) if pair[0].endswith(".name")}
    for key, names in named:
        folder = folders[key.removesuffix(".name")]
        for name in names if isinstance(names, tuple) else (names,):
            assert name in components(folder) or name in presets(folder), (key, name)
    base: dict[str, Any] = {
        "rounds": 1,
        "data": {"name": "alzheimer", "clients": 3, "split": {"name": "class_counts", "preset": "cia"}},
        "model": "keras_cnn",
        "aggregation": "fedyogi",
        "privacy": "metric_privacy",
        "attacks": ["cia", "sia"],
    }
    har = {"name": "cifar10", "clients": 10, "split": "dirichlet"}
    runs = [
        base,
        base | {"objective": "fedprox"},
        base | {"data": har, "objective": "finp", "model": "hu_cnn", "attacks": []},
    ]
    given = [resolve(run).to_dict() for run in runs]
    fields = {key for one in found for key in (*one.where, *one.context)}
    assert {key for key in fields if all(lookup(run, key) is None for run in given)} == set()


def test_trials_lie_beside_the_numbers_of_their_method_and_of_no_other(tmp_path: Path) -> None:
    results = read_results(write_finp(tmp_path / "har", FINP))
    lines = compare(results).lines
    assert {line.source for line in lines} == {"Table 1", "App. C.3", "App. C.4"}
    assert Counter(line.method for line in lines if line.source == "Table 1") == dict.fromkeys(
        (name for name in finp.METHODS if name not in ("FedAlign", "n/a")), 10
    )
    mean = next(line for line in lines if (line.method, line.metric) == ("FinP (PCA)", "sia_mean_pct"))
    trials = [t for t in results.trials if (t["objective.name"], t["aggregation.name"]) == ("finp", "finp_pca")]
    assert mean.published == pytest.approx(0.197)
    assert mean.measured == pytest.approx(sum(trial["sia_mean"] for trial in trials) / 3)
    assert (mean.measured_setting, mean.differs) == ("objective FinP, aggregation FinP-PCA", "")
    page = published_markdown(results, compare(results))
    assert "| sia_mean | 0.197 |" in page


def test_digits_and_other_networks_are_not_laid_beside_har(tmp_path: Path) -> None:
    one = {"objective.name": ["plain"], "aggregation.name": ["fedavg"], "seed": [0]}
    for name, base in {
        "a": {"data.name": "digits"},
        "b": {"model.name": "mlp"},
        "c": {"data.split.name": "iid"},
    }.items():
        assert compare(read_results(write_finp(tmp_path / name, one, base=HAR | base))).lines == ()
    assert len(compare(read_results(write_finp(tmp_path / "d", one))).lines) == 11


def test_what_differs_from_the_recipe_is_said(tmp_path: Path) -> None:
    sweep = {"objective.name": ["finp"], "objective.beta": [0.3], "data.clients": [30], "seed": [0]}
    (line,) = [x for x in compare(read_results(write_finp(tmp_path / "s", sweep))).lines if x.metric == "eod"]
    assert line.differs == "clients 30 instead of 10; beta 0.3 instead of 2"


def test_strategies_under_each_privacy_lie_beside_theirs(tmp_path: Path) -> None:
    results = read_results(write_metric(tmp_path / "s", METRIC))
    lines = compare(results).lines
    assert {line.source for line in lines} == {"Table 4", "Table 5", "Table A.12"}
    assert {line.method.split(" | ")[0] for line in lines} == set(metric_privacy.STRATEGIES) - {"FedProx"}
    line = next(x for x in lines if x.source == "Table A.12" and x.method == "FedYogi | metric-privacy")
    assert line.differs == "3 seeds instead of 5"
    assert line.measured_setting == "split homogeneous"


def test_what_was_not_run_is_listed_once_for_its_network_and_clients(tmp_path: Path) -> None:
    results = read_results(write_finp(tmp_path / "s", {"objective.name": ["finp"], "seed": [0]}))
    comparison = compare(results)
    assert {record.source for record in comparison.absent} == {"Table 1", "App. C.3"}
    page = published_markdown(results, comparison).split("## Published for these data but not run in this sweep")[1]
    listed = [line for line in page.splitlines() if line.startswith("- Table 1")]
    assert len(listed) == 5  # the other methods
    assert "test_acc_pct 76.97, sia_mean_pct 19.34, sia_max_pct 22.4" in listed[0]
    cifar = HAR | {"data.name": "cifar10", "model.name": "vgg", "data.split.name": "groups", "clustering.name": "ifca"}
    absent = compare(read_results(write_finp(tmp_path / "ifca", {"seed": [0]}, base=cifar))).absent
    assert {record.paper for record in absent} <= {"ifca_mir"}
