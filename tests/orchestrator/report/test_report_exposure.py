"""FinP's figures: what they show, from numbers known beforehand, and when there is nothing to show."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from orchestrator.report.data import read_results
from orchestrator.report.figures.arrangement import Arrangement, arrange
from orchestrator.report.figures.catalog import catalog, figures
from tests.support.arranged import figure
from tests.support.figure_texts import texts, unreadable
from tests.support.synthetic_privacy import CLIENTS, FINP, finp_tables, write_finp
from tests.support.synthetic_results import write_sweep

OURS = ("source_inference", "clients_exposed_sia_accuracy", "weights", "curvature")
ONE: dict[str, list[Any]] = {"objective.name": ["finp"], "aggregation.name": ["finp_ala"], "seed": [0, 1, 2]}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    return dict(figures(read_results(write_finp(tmp_path_factory.mktemp("r") / "har", FINP))))


def arranged(folder: Path, **given: Any) -> Arrangement:
    found = arrange(read_results(write_finp(folder, ONE, **given)))
    assert found is not None
    return found


def test_every_figure_of_finp_is_drawn_and_can_be_read(drawn: dict[str, Figure]) -> None:
    names = [
        "trade_off",
        "clients_exposed_sia_accuracy",
        "convergence",
        "source_inference",
        "accuracy",
        "weights",
        "curvature",
    ]
    assert list(drawn) == [*names, "classifier_roc"]
    for name, one in drawn.items():
        assert unreadable(one) == ([], []), name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("source_inference", ["aggregation FinP-PCA", "mean SIA accuracy (fraction)", "EOD", "CoV", "FI", "by chance"]),
        ("clients_exposed_sia_accuracy", ["by chance", "FinP (ALA)", "95 % binomial interval", "most exposed first"]),
        (
            "weights",
            ["weight in the average (fraction)", "rho", "fraction of all examples", "FinP_client", "95 % interval"],
        ),
        ("curvature", ["trace of the Hessian", "largest eigenvalue of the Hessian", "rank correlation 0.9"]),
    ],
)
def test_a_figure_says_what_it_shows(drawn: dict[str, Figure], name: str, expected: list[str]) -> None:
    written = texts(drawn[name])
    assert "UCI-HAR, sweep har" in written
    assert [words for words in expected if words not in written] == []


def test_exposure_is_the_mean_over_seeds_beside_what_chance_gives(tmp_path: Path) -> None:
    arr = arranged(tmp_path / "s")
    mean, *_, eod = figure("source_inference", arr).axes
    tables = list(arr.results.rounds.values())
    curve, chance = mean.lines
    assert len(mean.collections) == 1  # the band of the interval
    assert np.asarray(curve.get_ydata())[4] == pytest.approx(sum(rows[4]["sia_mean"] for rows in tables) / 3)
    assert np.unique(np.asarray(chance.get_ydata())) == pytest.approx([1 / CLIENTS])
    assert np.asarray(eod.lines[-1].get_ydata()) == pytest.approx(0.115)
    assert all(line.get_linestyle() == "--" for line in (chance, eod.lines[-1]))


def test_two_seeds_are_two_lines_without_a_band(tmp_path: Path) -> None:
    arr = arrange(read_results(write_finp(tmp_path / "s", ONE | {"seed": [0, 1]})))
    assert arr is not None
    mean, *_ = figure("source_inference", arr).axes
    tables = list(arr.results.rounds.values())
    *curves, _ = mean.lines
    assert len(mean.collections) == 0
    for curve, rows in zip(curves, tables, strict=True):
        assert np.asarray(curve.get_ydata()) == pytest.approx([row["sia_mean"] for row in rows])
    assert "lines: single seeds (too few for an interval)" in texts(figure("source_inference", arr))


def test_two_seeds_of_a_client_are_two_points_with_their_own_intervals(tmp_path: Path) -> None:
    arr = arrange(read_results(write_finp(tmp_path / "s", ONE | {"seed": [0, 1]})))
    assert arr is not None
    (ax,) = figure("clients_exposed_sia_accuracy", arr).axes
    tables = [pd.read_parquet(path) for path in sorted(arr.results.folder.glob("trials/*/clients.parquet"))]
    last = [table[table["round"] == 19].set_index("client") for table in tables]
    order = sum(table["sia_accuracy"] for table in last).sort_values(ascending=False).index
    for bars, table in zip(ax.containers, last, strict=True):
        assert isinstance(bars, ErrorbarContainer)
        assert np.asarray(bars[0].get_ydata()) == pytest.approx(table["sia_accuracy"][order].to_numpy())
        assert bars[2][0].get_segments()[0][0, 1] == pytest.approx(table["sia_low"][order[0]])


def test_no_curve_leaves_its_panel_where_settings_share_a_scale(tmp_path: Path) -> None:
    def tables(trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator) -> dict:
        found = finp_tables(trial, final, rng)
        found["rounds"]["sia_cov"] *= trial["data.split.alpha"]
        return found

    sweep = ONE | {"data.split.alpha": [0.1, 0.5, 1.0]}
    arr = arrange(read_results(write_finp(tmp_path / "s", sweep, tables=tables)))
    assert arr is not None
    for ax in figure("source_inference", arr).axes:
        low, high = ax.get_ylim()
        for line in ax.lines:
            assert low <= np.min(np.asarray(line.get_ydata())) <= np.max(np.asarray(line.get_ydata())) <= high


def test_clients_stand_in_the_order_of_their_exposure(tmp_path: Path) -> None:
    arr = arranged(tmp_path / "s")
    (ax,) = figure("clients_exposed_sia_accuracy", arr).axes
    tables = [pd.read_parquet(path) for path in sorted(arr.results.folder.glob("trials/*/clients.parquet"))]
    last = [table[table["round"] == 19].set_index("client") for table in tables]
    means = sum(table["sia_accuracy"] for table in last) / 3
    heights = np.asarray(ax.containers[0][0].get_ydata())
    assert heights == pytest.approx(sorted(means, reverse=True))
    labels = [int(label.get_text()) for label in ax.get_xticklabels()]
    assert labels == means.sort_values(ascending=False).index.tolist()
    (bars,) = ax.containers
    assert isinstance(bars, ErrorbarContainer)
    low = sum(table["sia_low"] for table in last) / 3
    assert bars[2][0].get_segments()[0][0, 1] == pytest.approx(low[labels[0]])
    assert np.asarray(ax.lines[0].get_ydata()) == pytest.approx(1 / CLIENTS)


def reshuffled(trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator) -> dict:
    """Tables of a trial that dealt records to clients of its own."""
    found = finp_tables(trial, final, rng)
    found["clients"]["examples"] += int(trial["seed"]) * found["clients"]["client"]
    return found


def test_clients_that_were_dealt_anew_are_not_averaged_by_number(tmp_path: Path) -> None:
    arr = arranged(tmp_path / "s", tables=reshuffled)
    (ax,) = figure("clients_exposed_sia_accuracy", arr).axes
    tables = [pd.read_parquet(path) for path in sorted(arr.results.folder.glob("trials/*/clients.parquet"))]
    ranked = [np.sort(table[table["round"] == 19]["sia_accuracy"])[::-1] for table in tables]
    assert np.asarray(ax.containers[0][0].get_ydata()) == pytest.approx(sum(ranked) / 3)
    assert [label.get_text() for label in ax.get_xticklabels()] == []
    assert "by rank, because each seed partitions the data anew" in texts(figure("clients_exposed_sia_accuracy", arr))
    shown = figure("weights", arr)
    assert "first seed only, because each seed partitions the data anew" in texts(shown)
    first = tables[0].groupby("client")["weight"].mean()
    order = tables[0].groupby("client")["examples"].first().sort_values().index
    (points,) = [line for line in shown.axes[0].lines if line.get_marker() not in ("", "None")]
    assert np.asarray(points.get_ydata()) == pytest.approx(first[order].to_numpy())
    assert len(shown.axes[0].containers) == 0  # one seed has no interval


def test_weights_are_means_over_the_rounds_beside_the_share_of_examples(tmp_path: Path) -> None:
    arr = arranged(tmp_path / "s")
    weight, rho = figure("weights", arr).axes
    tables = [pd.read_parquet(path) for path in sorted(arr.results.folder.glob("trials/*/clients.parquet"))]
    examples = tables[0].groupby("client")["examples"].first().sort_values()
    for ax, column in ((weight, "weight"), (rho, "rho")):
        means = sum(table.groupby("client")[column].mean() for table in tables) / 3
        assert np.asarray(ax.containers[0][0].get_ydata()) == pytest.approx(means[examples.index].to_numpy())
        assert -0.02 < ax.get_ylim()[0] < 0
    shares = [segment[0, 1] for segment in weight.collections[0].get_segments()]
    assert shares == pytest.approx((examples / examples.sum()).to_numpy())


def test_curvatures_that_are_not_positive_are_counted_and_not_drawn(tmp_path: Path) -> None:
    def tables(trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator) -> dict:
        found = finp_tables(trial, final, rng)
        found["clients"].loc[:2, "lambda_max"] = [-1.0, 0.0, np.nan]
        return found

    arr = arranged(tmp_path / "s", tables=tables)
    one = figure("curvature", arr)
    assert "6 of 597 points are not shown because a value is not positive" in texts(one)
    (ax,) = one.axes
    assert len(np.asarray(ax.collections[0].get_offsets())) == 591
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_a_sweep_without_these_measures_has_none_of_these_figures(tmp_path: Path) -> None:
    """Every run now says how much each client weighed; that alone is no figure."""

    def weighed(trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator) -> dict:
        return {"clients": pd.DataFrame({"round": 1, "client": range(4), "examples": 10, "weight": 0.25})}

    arr = arrange(read_results(write_sweep(tmp_path / "s", {"clustering.name": ["ifca", "ifca_mir"]}, tables=weighed)))
    assert arr is not None
    assert [name for name in OURS if catalog()[name](arr)] == []
