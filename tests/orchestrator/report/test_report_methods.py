"""How methods that are made of several slots are named, told apart by color, and arranged."""

from typing import Any

from orchestrator.metric_names import OTHER, families, metric
from orchestrator.report.data import text
from orchestrator.report.figures.arrangement import METHOD, by_method
from orchestrator.report.vocabulary import COLORS, PALETTE, method_label, value_label
from orchestrator.tracking.labels import trial_name
from tests.support.arranged import arranged

PAIR = ("objective.name", "aggregation.name")


def grid(objectives: tuple[str, ...], aggregations: tuple[str, ...], **fixed: Any) -> list[dict[str, Any]]:
    return [dict(zip(PAIR, (o, a), strict=True)) | fixed for o in objectives for a in aggregations]


def test_methods_of_finp_have_the_papers_names() -> None:
    arr = by_method(arranged(grid(("plain", "finp"), ("fedavg", "finp_pca", "finp_ala"))))
    assert (arr.hue, arr.joined, arr.axis, arr.facets) == (METHOD, PAIR, (), ())
    assert [arr.hue_label(hue) for hue in arr.hues] == [
        "FedAvg",
        "FinP_server (ALA)",
        "FinP_server (PCA)",
        "FinP_client",
        "FinP (ALA)",
        "FinP (PCA)",
    ]
    assert all(len(arr.cell((), (), hue)) == 1 for hue in arr.hues)


def test_a_method_keeps_its_color_in_every_sweep() -> None:
    few = by_method(arranged(grid(("plain", "finp"), ("finp_pca",))))
    many = by_method(arranged(grid(("plain", "finp"), ("fedavg", "finp_pca", "finp_ala"))))
    for arr in (few, many):
        assert {arr.palette[text(hue)] for hue in arr.hues} == {COLORS[arr.hue_label(hue)] for hue in arr.hues}
    assert len(set(many.palette.values())) == 6
    assert set(COLORS.values()) <= set(PALETTE)


def test_only_what_differs_is_in_a_methods_name() -> None:
    keys = ("clustering.name", "privacy.name", "objective.name", "aggregation.name")
    assert (
        method_label(keys, ["ifca_mir", "metric_privacy", "finp", "fedyogi"])
        == "IFCA-MIR + FinP + FedYogi + metric privacy"
    )
    assert method_label(keys, ["none", "none", "plain", "fedavg"]) == "FedAvg"
    assert method_label(("objective.name", "objective.beta"), ["plain", None]) == "plain"
    assert method_label(("privacy.name", "privacy.clip"), ["none", None]) == "vanilla"


def test_a_field_that_a_component_lacks_is_told_apart_by_color_with_it() -> None:
    """Otherwise the component that lacks it would stand alone in a panel without a name."""
    betas = [{"objective.name": "finp", "objective.beta": beta} for beta in (0.05, 0.3)]
    cells = [{"objective.name": "plain", "objective.beta": None}, *betas]
    arr = arranged([one | {"aggregation.name": a} for one in cells for a in ("fedavg", "finp_ala")])
    assert (arr.joined, arr.axis, arr.facets) == (("objective.name", "objective.beta"), ("aggregation.name",), ())
    assert [arr.hue_label(hue) for hue in arr.hues] == ["plain", "FinP, beta 0.05", "FinP, beta 0.3"]
    assert by_method(arr).facets == ()
    assert len(by_method(arr).hues) == 6


def test_methods_for_which_there_are_no_colors_are_panels() -> None:
    table = [
        {"aggregation.name": f"a{i}", "privacy.name": p} for i in range(6) for p in ("none", "x", "metric_privacy")
    ]
    arr = by_method(arranged(table))
    assert (arr.hue, arr.facets) == ("privacy.name", ("aggregation.name",))
    strategies = by_method(arranged(table), besides=("privacy.name",))
    assert (len(strategies.hues), strategies.facets) == (6, ())
    assert len(strategies.cell((), (), strategies.hues[0])) == 3


def test_other_keys_are_panels_of_methods() -> None:
    table = [one | {"data.split.alpha": alpha} for alpha in (0.1, 0.5) for one in grid(("plain", "finp"), ("fedavg",))]
    arr = by_method(arranged(table))
    assert (arr.facets, arr.panels) == (("data.split.alpha",), [(0.1,), (0.5,)])
    assert arr.panel_label((0.1,)) == "alpha 0.1"


def test_a_single_method_has_a_name() -> None:
    arr = by_method(arranged(grid(("finp",), ("finp_ala",), seed=1)))
    assert (arr.hue, arr.hues, arr.hue_label(None)) == (None, [None], "FinP (ALA)")


def test_components_are_called_as_in_the_literature() -> None:
    assert value_label("privacy.name", "none") == "vanilla"
    assert value_label("clustering.name", "none") == "no clustering"
    names = ("finp_pca", "finp_ala", "fedavgm", "fedmedian", "fedopt", "fedyogi", "fedadagrad")
    labels = ["FinP-PCA", "FinP-ALA", "FedAvgM", "FedMedian", "FedOpt", "FedYogi", "FedAdagrad"]
    assert [value_label("aggregation.name", name) for name in names] == labels
    assert [value_label("privacy.name", name) for name in ("global_dp", "metric_privacy")] == [
        "global-DP",
        "metric privacy",
    ]


def test_metrics_of_a_round_or_of_a_model_belong_to_their_family() -> None:
    assert metric("cia_auc_round_20").label == "CIA AUC, round 20"
    assert metric("epsilon_cluster_1").family == metric("epsilon").family
    assert metric("surprise_majority").family == OTHER
    names = ("sia_mean", "sia_chance", "eod_null", "noise_std", "cia_auc", "cia_auc_round_5", "test_loss", "f1_macro")
    assert list(families(names)) == ["Accuracy", "Source inference", "Client inference", "Noise and its account"]


def test_a_slot_swept_whole_is_told_by_its_fields_in_trial_names() -> None:
    swept = {"objective": {"name": "finp", "beta": 0.05, "normalize": "none"}, "seed": 1}
    assert trial_name(swept) == "objective=finp beta 0.05 normalize none seed=1"
    assert trial_name({"objective": {"name": "plain"}}) == "objective=plain"
    assert trial_name({"data.split": {"name": "groups", "minority": [0, 25]}}) == "split=minority [0, 25]"


def test_a_color_that_is_a_number_says_of_what() -> None:
    arr = by_method(arranged([{"training.epochs": epochs} for epochs in (1, 5, 10)]))
    assert [arr.hue_label(hue) for hue in arr.hues] == ["epochs 1", "epochs 5", "epochs 10"]
