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
from orchestrator.report.figures.catalog import catalog, figures
from orchestrator.report.vocabulary import COLORS
from tests.support.arranged import arranged, figure
from tests.support.figure_texts import texts, unreadable
from tests.support.synthetic_privacy import METRIC, write_metric
from tests.support.synthetic_results import seal

OURS = ("trade_off", "noise", "client_inference", "classifier_roc")
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
    assert list(drawn) == ["trade_off", "convergence", "noise", "accuracy", "client_inference", "classifier_roc"]
    for name, one in drawn.items():
        assert unreadable(one) == ([], []), name
        assert one.get_figwidth() <= 12, name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "trade_off",
            [
                "CIA advantage, |2 AUC - 1| (fraction)",
                "aggregated accuracy (fraction)",
                "by chance (0.2)",
                "better",
                "FedMedian",
                "metric privacy",
            ],
        ),
        ("accuracy", ["aggregated accuracy (fraction)", "server test accuracy (fraction)", "macro F1", "vanilla"]),
        ("noise", ["standard deviation of the noise", "distance of models", "metric privacy"]),
        ("client_inference", ["CIA AUC (fraction)", "CIA difference (fraction)", "by chance (0.5)", "95 % interval"]),
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
    top = figure("accuracy", small).axes[1]
    by_color = {to_hex(bar[0].get_color()).upper(): np.asarray(bar[0].get_ydata()) for bar in top.containers}
    assert set(by_color) == {COLORS["none"], COLORS["global_dp"], COLORS["metric_privacy"]}
    mean = np.mean(small.measured((), ("fedyogi",), "metric_privacy", "aggregated_accuracy"))
    assert by_color[COLORS["metric_privacy"]][1] == pytest.approx(mean)


def test_the_area_is_written_beside_each_mean_curve(tmp_path: Path) -> None:
    folder = write_metric(tmp_path / "s", {"aggregation.name": ["fedavg"], "privacy.name": ["none"], "seed": [0, 1]})
    half = {"false_positive_rate": [0.0, 0.5, 1.0], "true_positive_rate": [0.0, 1.0, 1.0]}
    whole = {"false_positive_rate": [0.0, 0.0, 1.0], "true_positive_rate": [0.0, 1.0, 1.0]}
    for path, curve in zip(sorted(folder.glob("trials/*/roc.parquet")), (half, whole), strict=True):
        pd.DataFrame(curve).to_parquet(path)
        seal(path.parent)
    arr = arrange(read_results(folder))
    assert arr is not None
    (ax,) = figure("classifier_roc", arr).axes
    assert "0.875" in [text.get_text() for text in ax.texts]  # of 0.75 and 1
    rate = dict(zip(*map(np.ndarray.tolist, map(np.asarray, ax.lines[1].get_data())), strict=True))
    assert rate[1.0] == 1
    assert np.interp(0.25, list(rate), list(rate.values())) == pytest.approx(0.75, abs=0.01)  # of 0.5 and 1


def test_an_auc_alone_is_drawn_without_a_difference() -> None:
    (ax,) = figure("client_inference", arranged([{"cia_auc": 0.8}])).axes
    assert "AUC" in ax.get_ylabel()


def test_what_every_run_measures_is_no_reason_for_these_figures() -> None:
    judged = {"accuracy": 0.9, "test_accuracy": 0.9, "aggregated_accuracy": 0.9, "f1_macro": 0.8}
    arr = arranged([judged | {"privacy.name": "none", "clustering.name": name} for name in ("none", "ifca")])
    assert [name for name in OURS if catalog()[name](arr)] == []
    assert catalog()["accuracy"](arr) is not None
    protected = arranged([judged | {"privacy.name": "metric_privacy"}])
    assert [" ".join(ax.get_ylabel().split()[:2]) for ax in figure("accuracy", protected).axes] == [
        "accuracy (fraction)",
        "aggregated accuracy",
        "server test",
        "accuracy, macro",
    ]
    assert catalog()["trade_off"](protected) is None  # no risk was measured
