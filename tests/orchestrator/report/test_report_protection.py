"""Metric privacy's figures: what they show, from numbers known beforehand, and when there is nothing to show."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from orchestrator.report.data import read_results
from orchestrator.report.figures.arrangement import Arrangement, arrange
from orchestrator.report.figures.catalog import FIGURES, figures
from orchestrator.report.vocabulary import COLORS
from tests.support.arranged import arranged, figure
from tests.support.figure_texts import texts, unreadable
from tests.support.synthetic_privacy import METRIC, write_metric

OURS = ("trade_off", "noise", "cia", "classifier_roc")
SMALL: dict[str, list[Any]] = {
    "aggregation.name": ["fedavg", "fedyogi"],
    "privacy.name": ["none", "global_dp", "metric_privacy"],
    "seed": [42, 43, 44],
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    return dict(figures(read_results(write_metric(tmp_path_factory.mktemp("r") / "mri", METRIC))))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Arrangement:
    found = arrange(read_results(write_metric(tmp_path_factory.mktemp("r") / "small", SMALL)))
    assert found is not None
    return found


def test_every_figure_of_metric_privacy_is_drawn_and_can_be_read(drawn: dict[str, Figure]) -> None:
    assert list(drawn) == ["trade_off", "accuracy", "convergence", "noise", "cia", "classifier_roc"]
    for name, one in drawn.items():
        assert unreadable(one) == ([], []), name
        assert one.get_figwidth() <= 12, name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "trade_off",
            [
                "client inference, |2 AUC - 1| (fraction)",
                "aggregated accuracy (fraction)",
                "by chance (0.2)",
                "better",
                "FedMedian",
                "metric privacy",
            ],
        ),
        (
            "accuracy",
            [
                "accuracy, clients' test data (fraction)",
                "accuracy, server's test data (fraction)",
                "macro F1",
                "vanilla",
            ],
        ),
        (
            "noise",
            [
                "standard deviation of the noise in a weight",
                "distance d",
                "d = 1: the same noise as global-DP",
                "FedOpt",
            ],
        ),
        (
            "cia",
            [
                "AUC of the paired test, round 5 (fraction)",
                "difference of losses",
                "guessing (0.5)",
                "95 % interval over the pairs of federations",
            ],
        ),
        (
            "classifier_roc",
            ["false positive rate (fraction)", "true positive rate (fraction)", "area under the curve", "FedMedian"],
        ),
        ("convergence", ["aggregation FedYogi", "metric privacy", "global-DP"]),
    ],
)
def test_a_figure_says_what_it_shows(drawn: dict[str, Figure], name: str, expected: list[str]) -> None:
    written = texts(drawn[name])
    assert "Alzheimer MRI, sweep mri" in written
    assert [words for words in expected if words not in written] == []


def test_strategies_are_positions_and_kinds_of_privacy_colors(small: Arrangement) -> None:
    top, *_ = figure("accuracy", small).axes
    by_color = {to_hex(bar[0].get_color()).upper(): np.asarray(bar[0].get_ydata()) for bar in top.containers}
    assert set(by_color) == {COLORS["none"], COLORS["global_dp"], COLORS["metric_privacy"]}
    mean = np.mean(small.measured((), ("fedyogi",), "metric_privacy", "aggregated_accuracy"))
    assert by_color[COLORS["metric_privacy"]][1] == pytest.approx(mean)


def test_noise_is_dashed_for_global_and_solid_for_metric_privacy(small: Arrangement) -> None:
    noise, distance, *_ = figure("noise", small).axes
    styles = [line.get_linestyle() for line in noise.lines if len(np.asarray(line.get_xdata()))]
    assert sorted(styles) == ["-", "-", "--", "--"]
    for line in noise.lines:
        if line.get_linestyle() == "--":
            assert np.asarray(line.get_ydata()) == pytest.approx(0.0125)
    dotted, *curves = [line for line in distance.lines if len(np.asarray(line.get_xdata()))]
    assert (dotted.get_linestyle(), np.unique(dotted.get_ydata()).tolist()) == (":", [1])
    assert [line.get_linestyle() for line in curves] == ["-", "-"]
    assert noise.get_ylim()[0] == distance.get_ylim()[0] == 0


def test_the_area_is_written_beside_each_mean_curve(tmp_path: Path) -> None:
    folder = write_metric(tmp_path / "s", {"aggregation.name": ["fedavg"], "privacy.name": ["none"], "seed": [0, 1]})
    half = {"false_positive_rate": [0.0, 0.5, 1.0], "true_positive_rate": [0.0, 1.0, 1.0]}
    whole = {"false_positive_rate": [0.0, 0.0, 1.0], "true_positive_rate": [0.0, 1.0, 1.0]}
    for path, curve in zip(sorted(folder.glob("trials/*/roc.parquet")), (half, whole), strict=True):
        pd.DataFrame(curve).to_parquet(path)
    arr = arrange(read_results(folder))
    assert arr is not None
    (ax,) = figure("classifier_roc", arr).axes
    assert "0.875" in [text.get_text() for text in ax.texts]  # of 0.75 and 1
    rate = dict(zip(*map(np.ndarray.tolist, map(np.asarray, ax.lines[1].get_data())), strict=True))
    assert rate[1.0] == 1
    assert np.interp(0.25, list(rate), list(rate.values())) == pytest.approx(0.75, abs=0.01)  # of 0.5 and 1


def test_client_inference_has_the_tests_interval_and_bars_from_nought() -> None:
    one = {"cia_auc": 0.8, "cia_auc_low": 0.6, "cia_auc_high": 0.9, "cia_difference": -0.1}
    trials = [one | {"privacy.name": name, "seed": seed} for name in ("none", "x") for seed in range(3)]
    auc, difference = figure("cia", arranged(trials)).axes
    low, high = auc.containers[0][2][0].get_segments()[0][:, 1]
    assert (low, high) == pytest.approx((0.6, 0.9))
    assert [bar.get_height() for bar in difference.patches] == pytest.approx([-0.1, -0.1])
    assert difference.get_ylim()[0] < -0.1  # a negative difference is not cut off


def test_two_seeds_of_client_inference_keep_their_own_intervals() -> None:
    trials = [
        {"cia_auc": auc, "cia_auc_low": auc - 0.1, "cia_auc_high": auc + 0.1, "cia_difference": -0.1, "seed": seed}
        for seed, auc in enumerate((0.5, 0.8))
    ]
    auc, difference = figure("cia", arranged(trials)).axes
    ends = [bar[2][0].get_segments()[0][:, 1].tolist() for bar in auc.containers]
    assert ends == [pytest.approx([0.4, 0.6]), pytest.approx([0.7, 0.9])]
    assert len(difference.patches) == 0
    assert difference.get_ylim()[0] < -0.1


def test_an_auc_alone_is_drawn_without_a_difference() -> None:
    (ax,) = figure("cia", arranged([{"cia_auc": 0.8}])).axes
    assert "AUC" in ax.get_ylabel()


def test_what_every_run_measures_is_no_reason_for_these_figures() -> None:
    judged = {"accuracy": 0.9, "test_accuracy": 0.9, "aggregated_accuracy": 0.9, "f1_macro": 0.8}
    arr = arranged([judged | {"privacy.name": "none", "clustering.name": name} for name in ("none", "ifca")])
    assert [name for name in OURS if FIGURES[name](arr)] == []
    assert FIGURES["accuracy"](arr) is not None
    protected = arranged([judged | {"privacy.name": "metric_privacy"}])
    assert [ax.get_ylabel().split(",")[0] for ax in figure("accuracy", protected).axes] == ["accuracy"] * 2 + [
        "macro F1"
    ]
    assert FIGURES["trade_off"](protected) is None  # no risk was measured
