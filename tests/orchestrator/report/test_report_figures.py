"""The figures of a report: where trials are placed, what is drawn, what is written on them."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread

from orchestrator.report.data import read_results, results, rows
from orchestrator.report.figures.arrangement import arrange
from orchestrator.report.figures.catalog import catalog, figures
from orchestrator.report.figures.drawing import save
from orchestrator.report.vocabulary import COLORS, PALETTE, colors, key_labels, setting_label
from tests.support.arranged import arranged
from tests.support.figure_texts import texts, unreadable
from tests.support.synthetic_results import write_sweep

MNIST: dict[str, list[Any]] = {
    "clustering.name": ["ifca", "ifca_mir"],
    "data.split.minority_ratio": [0.1, 0.3],
    "seed": [0, 1, 2],
}


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    """The figures of a sweep as the paper has it."""
    return dict(figures(read_results(write_sweep(tmp_path_factory.mktemp("r") / "mnist-minority", MNIST))))


def test_every_figure_of_the_paper_is_drawn(paper: dict[str, Figure]) -> None:
    names = ["trade_off", "convergence", "accuracy", "accuracy_by_group", "membership_inference", "violations"]
    assert list(paper) == [*names, "fairness", "motivation"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy_by_group", ["accuracy, majority clients (fraction)", "accuracy, minority model (fraction)", "95 %"]),
        ("membership_inference", ["by chance (0.5)", "IFCA-MIR", "minority ratio (fraction of clients)"]),
        ("violations", ["violations, majority (clients)", "violations, minority (clients)"]),
        ("fairness", ["demographic parity", "equal opportunity", "equalized odds"]),
        ("convergence", ["round", "minority ratio 0.1", "minority ratio 0.3", "bands: 95 % interval"]),
        ("motivation", ["published (Jung et al., Figure 1)", "majority model", "minority model", "0.5"]),
    ],
)
def test_a_figure_says_what_it_shows(paper: dict[str, Figure], name: str, expected: list[str]) -> None:
    written = texts(paper[name])
    assert "MNIST, sweep mnist-minority" in written
    assert [words for words in expected if words not in written] == []


def test_figures_are_pictures_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    found = read_results(write_sweep(tmp_path / "s", {"clustering.name": ["ifca", "ifca_mir"], "seed": [0, 1, 2]}))
    pictures = []
    for _ in range(2):
        arr = arrange(found)
        assert arr is not None
        figure = catalog()["violations"](arr)
        assert figure is not None
        file = io.BytesIO()
        save(figure, file)
        pictures.append(file.getvalue())
    pixels = imread(io.BytesIO(pictures[0]))
    assert pictures[0] == pictures[1]
    assert min(pixels.shape[:2]) > 300
    assert len({tuple(pixel) for pixel in pixels.reshape(-1, pixels.shape[2])[::7].tolist()}) > 20


def test_no_text_of_a_figure_overlaps_another_or_leaves_it(paper: dict[str, Figure]) -> None:
    for name, figure in paper.items():
        assert unreadable(figure) == ([], []), name


@pytest.mark.parametrize(
    ("seeds", "note"),
    [(1, "points: one seed"), (2, "points: single seeds (too few for an interval)"), (3, "95 % interval")],
)
def test_a_figure_says_what_its_intervals_are(seeds: int, note: str) -> None:
    figure = catalog()["violations"](arranged([{"seed": i, "violations": 2.0 * i + 1} for i in range(seeds)]))
    assert figure is not None
    assert note in texts(figure)


@pytest.mark.parametrize("name", ["violations", "membership_inference"])
def test_two_seeds_are_two_points_without_bar_and_interval(name: str) -> None:
    metric = {"violations": "violations", "membership_inference": "mia_accuracy_global"}[name]
    values = (0.25, 0.75)
    figure = catalog()[name](arranged([{"seed": i, metric: value} for i, value in enumerate(values)]))
    assert figure is not None
    (ax,) = figure.axes
    assert (len(ax.patches), len(ax.containers)) == (0, 0)
    (points,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert np.asarray(points.get_ydata()).tolist() == list(values)


def test_a_panel_that_is_always_nought_is_left_out() -> None:
    held = {"violations": 0.0, "violations_majority": 0.0, "violations_minority": 0.0}
    assert catalog()["violations"](arranged([held])) is None
    figure = catalog()["violations"](
        arranged([held, held | {"seed": 1, "violations": 1.0, "violations_minority": 1.0}])
    )
    assert figure is not None
    assert [ax.get_ylabel().split()[:2] for ax in figure.axes] == [
        ["violations", "(clients)"],
        ["violations,", "minority"],
    ]


def test_the_axis_of_a_rate_ends_with_the_rate() -> None:
    held = [{"seed": seed, "mia_accuracy_majority": value} for seed, value in enumerate((0.1, 0.5, 0.99))]
    figure = catalog()["membership_inference"](arranged(held))
    assert figure is not None
    assert figure.axes[0].get_ylim() == pytest.approx((-0.02, 1.02))


def test_colors_belong_to_algorithms_and_can_be_told_apart(paper: dict[str, Figure]) -> None:
    drawn = {to_hex(line.get_color()).upper() for line in paper["membership_inference"].axes[0].lines}
    assert {COLORS["ifca"], COLORS["ifca_mir"]} <= drawn
    alone = colors(["ifca_mir"])
    together = colors(["none", "ifca_mir", "ifca", "other"])
    assert alone["ifca_mir"] == together["ifca_mir"]
    assert len(set(together.values())) == 4
    assert len(set(PALETTE)) == len(PALETTE)


def test_published_points_are_hollow_and_only_over_their_data(paper: dict[str, Figure]) -> None:
    hollow = [line for line in paper["motivation"].axes[0].lines if line.get_markerfacecolor() == "none"]
    points = sorted(tuple(place) for line in hollow for place in np.asarray(line.get_xydata()).tolist())
    assert points == [(0.1, 0.515), (0.1, 0.81), (0.3, 0.63), (0.5, 0.52), (0.5, 0.52)]
    key = "data.split.minority_ratio"
    held: dict[str, Any] = {"data.name": "digits", "clustering.name": "ifca", "mia_accuracy_minority": 0.7}
    figure = catalog()["motivation"](arranged([{key: ratio, **held} for ratio in (0.1, 0.3)]))
    assert figure is not None
    assert "published" not in texts(figure)


def test_figures_without_data_are_not_drawn() -> None:
    arr = arranged([{"accuracy": 0.5, "mia_accuracy_majority": None}])
    assert [name for name, draw in catalog().items() if draw(arr)] == ["accuracy"]
    unfinished = rows([{"id": "t", "status": "diverged", "accuracy": None}])
    assert list(figures(results(Path("made_up"), unfinished, (), {}))) == []


def test_the_algorithm_is_the_color_and_the_ratio_the_axis() -> None:
    ratio, transform = "data.split.minority_ratio", "attacks.0.nonmember_transform"
    grid = [
        {transform: t, ratio: r, "clustering.name": c, "training.lr": 0.1}
        for t in ("cluster", "unrotated")
        for r in (0.1, 0.2)
        for c in ("ifca", "ifca_mir")
    ]
    arr = arranged(grid)
    assert (arr.hue, arr.axis, arr.facets) == ("clustering.name", (ratio,), (transform,))
    assert arr.panels == [("cluster",), ("unrotated",)]
    assert len(arr.cell(("cluster",), (0.1,), "ifca")) == 1


def test_keys_that_change_together_are_one_axis() -> None:
    low, high = "data.split.minority", "data.split.majority"
    arr = arranged([{low: [0, 20], high: [20, 40]}, {low: [0, 25], high: [25, 50]}])
    assert (arr.hue, arr.axis, arr.facets) == (None, (low, high), ())
    assert [arr.position_label(position) for position in arr.positions] == ["0–20\n20–40", "0–25\n25–50"]


def test_a_setting_in_words() -> None:
    keys = ("privacy.name", "data.split.minority_ratio", "attacks.0.every", "data.split.minority")
    assert setting_label(keys, ("none", 0.30000000000000004, None, [0, 25])) == (
        "vanilla, minority ratio 0.3, minority range 0–25"
    )
    assert key_labels(("a.beta", "b.beta", "c.rho")) == ("a.beta", "b.beta", "rho")


def test_an_algorithm_alone_is_color_and_axis() -> None:
    arr = arranged([{"clustering.name": name} for name in ("ifca", "ifca_mir")])
    assert (arr.hue, arr.axis, arr.facets) == ("clustering.name", ("clustering.name",), ())


def test_many_strategies_are_positions_and_few_modes_colors() -> None:
    grid = [{"aggregation.name": f"a{i}", "privacy.name": p} for i in range(9) for p in ("none", "metric_privacy")]
    arr = arranged(grid)
    assert (arr.hue, arr.axis, arr.facets) == ("privacy.name", ("aggregation.name",), ())
    assert [arr.hue_label(hue) for hue in arr.hues] == ["vanilla", "metric privacy"]


def test_a_field_that_follows_from_the_algorithm_gets_no_panel() -> None:
    arr = arranged(
        [{"privacy.name": "none", "privacy.noise": None}, {"privacy.name": "metric_privacy", "privacy.noise": 1}]
    )
    assert (arr.hue, arr.axis, arr.facets) == ("privacy.name", ("privacy.name",), ())


def test_rows_of_one_kind_share_their_scale() -> None:
    key = "attacks.0.nonmember_transform"
    held = [{key: t, "accuracy": a, "seed": s} for t, a in (("cluster", 0.2), ("unrotated", 0.9)) for s in (0, 1)]
    figure = catalog()["accuracy"](arranged([*held, {key: "cluster", "model.width": 2, "accuracy": 0.5}]))
    assert figure is not None
    assert len({ax.get_ylim() for ax in figure.axes}) == 1


def test_convergence_shows_mean_and_band(tmp_path: Path) -> None:
    arr = arrange(read_results(write_sweep(tmp_path / "s", {"seed": [0, 1, 2]})))
    assert arr is not None
    figure = catalog()["convergence"](arr)
    assert figure is not None
    line = figure.axes[0].lines[0]
    values = [rounds[3]["accuracy_majority"] for rounds in arr.results.rounds.values()]
    assert np.asarray(line.get_ydata())[3] == pytest.approx(sum(values) / 3)
    assert [len(ax.collections) for ax in figure.axes] == [1, 1]
