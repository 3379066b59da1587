"""What the numbers of FinP and of metric privacy are in our words, and which trials they are laid beside."""

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
from orchestrator.report.comparison import compare, leaves, published_markdown
from orchestrator.report.data import SLOTS, Results, read_results, results, rows
from orchestrator.report.papers import finp, ifca_mir, metric_privacy
from orchestrator.report.published import Record, records
from tests.support.synthetic_privacy import FINP, HAR, METRIC, write_finp, write_metric

SWEEPS = Path(__file__).parents[3] / "sweeps"
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
    rules = {one.__name__.rsplit(".", 1)[-1]: one.counterpart for one in (finp, ifca_mir, metric_privacy)}
    found = [one for r in records() if r.paper in rules and (one := rules[r.paper](r))]
    assert {name for one in found for name in one.metrics} <= metrics().keys()
    named = {pair for one in found for pair in (*one.where.items(), *one.context.items()) if pair[0].endswith(".name")}
    for key, names in named:
        folder = folders[key.removesuffix(".name")]
        for name in names if isinstance(names, tuple) else (names,):
            assert name in components(folder) or name in presets(folder), (key, name)
    fields = {key for one in found for key in (*one.where, *one.context)}
    assert fields - held_fields() == set()


@cache
def held_fields() -> frozenset[str]:
    """The dotted keys of all fields that the runs of our sweeps have."""
    runs = [run.to_dict() for path in sorted(SWEEPS.glob("*.yaml")) for run in load_sweep(path).runs]
    runs.append(
        resolve({"rounds": 1, "data": "digits", "model": "mlp", "clustering": "ifca", "attacks": ["sia"]}).to_dict()
    )
    return frozenset(key for run in runs for key, _ in leaves(run)) | {f"{key}.name" for key in SLOTS}


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


def as_if_finished(name: str, sets: Sequence[str] = ()) -> Results:
    """The results of one of our sweeps in which every trial has finished and measured nothing."""
    sweep = load_sweep(SWEEPS / f"{name}.yaml", list(sets))
    table = [
        {"id": trial_id(run), "status": "finished", "seed": run.seed, "rounds": run.rounds}
        | {f"{slot}.name": lookup_name(run.to_dict(), slot) for slot in SLOTS}
        | values
        for run, values in zip(sweep.runs, sweep.values, strict=True)
    ]
    configs = {trial_id(run): run.to_dict() for run in sweep.runs}
    return results(Path(name), rows(table), tuple(sweep.values[0]), configs)


def lookup_name(run: dict[str, Any], slot: str) -> str:
    for part in slot.split("."):
        run = run[part]
    return str(run["name"])


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
    ("name", "set_", "said"),
    [
        ("finp_har_as_released", "base.curvature.examples=20", "curvature examples 20 instead of all"),
        ("finp_har", "base.curvature.examples=20", "curvature examples 20 instead of all"),
        ("finp_cifar_resnet", "base.curvature.examples=20", "curvature examples 20 instead of all"),
        (
            "finp_har_as_released",
            "base.curvature={rho_alignment: by_visit_order}",
            "curvature trace gauss_newton instead of hutch",
        ),
        ("finp_har_as_released", "base.attacks.sia.pool=training", "sia pool training instead of all"),
        ("finp_har_as_released", "base.data.split_seed=null", "3 partitions instead of one"),
        ("finp_har_as_released", "base.training.precision=bf16", "precision bf16 instead of float32"),
        (
            "ifca_mir_mnist_minority",
            "base.data.split_seed=7",
            "one partition (split seed 7) instead of a new partition in each run",
        ),
        ("ifca_mir_mnist_minority", "base.clustering.scale=normalized", "scale normalized instead of raw"),
        ("ifca_mir_mnist_minority", "base.clustering.preference=uniform", "preference uniform instead of threshold"),
        ("ifca_mir_mnist_minority", "base.clustering.restarts=4", "restarts 4 instead of 1"),
        ("ifca_mir_mnist_minority", "base.clustering.warm_start_rounds=3", "warm start rounds 3 instead of 0"),
        ("ifca_mir_mnist_minority", "base.privacy=global_dp", "privacy global_dp instead of none"),
        ("metric_privacy_five_runs", "base.privacy.order=post_clip", "order post_clip instead of pre_clip"),
        ("metric_privacy_five_runs", "base.data.split_seed=null", "5 partitions instead of one"),
    ],
)
def test_every_field_that_differs_from_the_papers_reading_is_named(name: str, set_: str, said: str) -> None:
    """Before, a handful of fields was compared: curvature, trace, pool, partition, scale, preference and starts were not."""
    before = {line.differs for line in compare(as_if_finished(name)).lines}
    assert not any(said in differs for differs in before)
    assert any(said in line.differs for line in compare(as_if_finished(name, [set_])).lines)


def test_fields_that_the_paper_does_not_print_are_listed_below_the_table() -> None:
    found = as_if_finished("ifca_mir_mnist_minority", ["base.training.lr=0.125"])
    page = published_markdown(found, compare(found))
    listed = next(line for line in page.splitlines() if line.startswith("Not printed by ifca_mir, here: "))
    assert "lr = 0.125" in listed
    assert "rounds = 50" in listed
    assert "restarts" not in listed.replace("restart rounds", ""), "it is part of the reading"
    assert "device" not in listed
