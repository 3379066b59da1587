"""The one list of metrics: what is declared, by whom, and that a component's own declaration is
all that tables need.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from algorithms.core.columns import of_one_model
from algorithms.core.metric import FAMILIES, Metric
from datasets.components import complete, components
from orchestrator.config.metric_names import (
    FOLDERS,
    OTHER,
    ROUND_METRICS,
    families,
    kind,
    metric,
    metrics,
    ordered,
    table_columns,
)
from orchestrator.report.vocabulary import component_label, value_label
from tests.support.federations import federation

DECLARED = {
    (folder, name): complete(folder, name).METRICS
    for folder in FOLDERS
    for name in components(folder)
}


def test_nobody_declares_a_metric_that_somebody_else_declares_otherwise() -> None:
    declared = {one.name: one for one in ROUND_METRICS}
    assert max(Counter(one.name for one in ROUND_METRICS).values()) == 1
    for place, own in DECLARED.items():
        for one in own:
            assert declared.setdefault(one.name, one) == one, (place, one.name)


def test_every_declaration_is_sound() -> None:
    for one in metrics().values():
        assert one.family in FAMILIES and one.label, one.name
        assert not one.table or len(one.table.heading.split("\n")) <= 2, one.name
        assert not one.table or all(metric(name).family == one.family for name in one.table.also), (
            one.name
        )


def test_an_exposure_is_better_lower_and_an_accuracy_higher() -> None:
    assert {
        metric(name).direction for name in ("sia_mean", "mia_accuracy_minority", "epsilon", "loss")
    } == {"lower"}
    assert {metric(name).direction for name in ("accuracy", "purity", "sia_fi")} == {"higher"}
    # An AUC near 0 is success as well, so less is not better.
    assert (metric("cia_auc_round_5").direction, metric("cia_advantage_round_5").direction) == (
        None,
        "lower",
    )
    assert metric("noise_std").direction is None


OF_GROUPS = (
    "accuracy",
    "model_accuracy",
    "moved",
    "risk",
    "violations",
    "clients",
    "calibrated_auc",
    "calibrated_run_auc",
)


@pytest.mark.parametrize("whole", OF_GROUPS)
def test_no_name_of_a_group_makes_the_name_of_a_declared_metric(whole: str) -> None:
    """Whatever follows the name of a metric that groups have; only majority and minority are
    declared of groups.
    """
    ends = {name.removeprefix(f"{whole}_") for name in metrics() if name.startswith(f"{whole}_")}
    names = tuple(sorted(ends - {"majority", "minority"}))
    for name in federation(np.zeros((1, 1)), [1], group_names=names).group_columns:
        made = [f"{whole}_{name}{end}" for end in ("", "_null")]
        assert not metrics().keys() & {*made} and {metric(one).family for one in made} == {OTHER}
        assert not any(of_one_model(one, metrics()) for one in made)


def test_new_families_come_after_the_known_ones_and_unknown_metrics_last() -> None:
    names = ("surprise", "seconds_per_round", "accuracy", "sia_mean")
    assert list(families(names)) == ["Accuracy", "Source inference", "Time", OTHER]
    assert ordered({"zeal", "surprise", "sia_mean", "accuracy"}) == (
        "accuracy",
        "sia_mean",
        "surprise",
        "zeal",
    )
    assert metric("surprise_level") == Metric("surprise_level", OTHER, "surprise level", unit="")


def test_metrics_of_a_round_or_of_a_model_belong_to_their_family() -> None:
    assert metric("cia_auc_round_20").label == "CIA AUC, round 20"
    assert metric("epsilon_cluster_1").family == metric("epsilon").family
    assert metric("surprise_majority").family == OTHER


def test_a_sweep_is_about_what_it_measures() -> None:
    assert kind(("accuracy", "loss")) == "plain"
    assert kind(("accuracy", "rho_spearman", "server_step")) == "plain"
    assert kind(("accuracy", "sia_mean", "noise_std")) == "sources"
    assert (
        kind(("accuracy", "cia_difference"))
        == kind(("noise_std",))
        == kind(("epsilon_cluster_1",))
        == "protected"
    )
    assert kind(("accuracy_majority", "sia_mean")) == "groups"


def test_the_overall_accuracy_leads_where_there_is_no_finer_one() -> None:
    assert [one.heading for one in table_columns(("noise_std", "accuracy"))] == [
        "accuracy",
        "noise\nstd",
    ]
    assert (
        table_columns(("accuracy", "test_accuracy", "noise_std"))[0].heading == "accuracy\nserver"
    )
    assert [one.heading for one in table_columns(("round", "surprise_level"), live=True)] == [
        "surprise\nlevel"
    ]


def test_components_say_what_they_are_called() -> None:
    assert component_label("aggregation.name", "fedopt") == "FedOpt"
    assert component_label("privacy", "metric_privacy") == "metric privacy"
    assert value_label("privacy.name", "metric_privacy") == "metric privacy"
    assert component_label("training.name", "dp_sgd") == "DP-SGD"
    assert component_label("attacks.0.name", "sia") == "sia"
    assert component_label("data.name", "a_set_of_old") == "a_set_of_old"
    assert component_label("no.slot.name", "mnist") == "mnist"
