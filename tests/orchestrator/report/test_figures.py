"""The figures of a report: where trials are placed, what is drawn and written, and that all of
it can be read.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from orchestrator.report.data import read_results, results, rows
from orchestrator.report.figures.arrangement import Arrangement, by_method
from orchestrator.report.figures.catalog import catalog, figures
from orchestrator.report.figures.drawing import picture
from orchestrator.report.vocabulary import key_labels, method_label, setting_label, value_label
from tests.support.arranged import arranged, figure, read
from tests.support.figure_texts import texts, unreadable
from tests.support.synthetic_results import (
    CLIENTS,
    FINP,
    METRIC,
    write_alone,
    write_finp,
    write_grouped,
    write_metric,
    write_sweep,
)

RATIO, TRANSFORM = "data.split.minority_ratio", "attacks.0.nonmember_transform"
PAIR = ("objective.name", "aggregation.name")
CLUSTERED = {"clustering.name": ["ifca", "ifca_mir"], RATIO: [0.1, 0.3], "seed": [0, 1, 2]}
ONE: dict[str, list[Any]] = {
    "objective.name": ["finp"],
    "aggregation.name": ["finp_ala"],
    "seed": [0, 1, 2],
}
OF_GROUPS = "trade_off convergence accuracy accuracy_by_group risk_of_models violations fairness"
OF_RISK = OF_GROUPS.replace("trade_off", "trade_off attack_roc clients_exposed_risk")
OF_FINP = "trade_off clients_exposed_sia_accuracy convergence source_inference accuracy verdicts"
OF_NOISE = "trade_off convergence noise accuracy client_inference verdicts"
SWEEPS = {
    "mnist": (lambda folder: write_sweep(folder, CLUSTERED), OF_GROUPS),
    "grouped": (write_grouped, OF_RISK),
    "alone": (write_alone, "trade_off attack_roc clients_exposed_risk accuracy risk_of_models"),
    "har": (lambda folder: write_finp(folder, FINP), OF_FINP),
    "mri": (lambda folder: write_metric(folder, METRIC), OF_NOISE),
}


Drawn = Callable[[str], dict[str, Figure]]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """The figures of a made-up sweep."""
    folder = tmp_path_factory.mktemp("r")
    return cache(lambda name: dict(figures(read_results(SWEEPS[name][0](folder / name)), print)))


@pytest.mark.parametrize(
    "sweep",
    # Of the two that have the figures of others, only the crowded one is looked at by default.
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("mnist", "alone") else ())
        for name in SWEEPS
    ],
)
def test_every_figure_is_drawn_and_no_text_overlaps_another_or_leaves_it(
    drawn: Drawn, sweep: str
) -> None:
    assert list(drawn(sweep)) == SWEEPS[sweep][1].split()
    for name, one in drawn(sweep).items():
        assert unreadable(one) == ([], []), name
        assert one.get_figwidth() <= 12.5, name
        assert name == "verdicts" or f"sweep {sweep}" in texts(one)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (
            "mnist accuracy_by_group",
            ["accuracy, majority clients (fraction)", "accuracy, minority model (fraction)"],
        ),
        ("mnist risk_of_models", ["by chance (0.5)", "published", "IFCA-MIR", "minority ratio"]),
        (
            "mnist convergence",
            ["round", "minority ratio 0.1", "minority ratio 0.3", "bands: 95 % interval"],
        ),
        (
            "grouped trade_off",
            ["risk of the minority's clients", "accuracy, minority clients", "minority ratio 0.3"],
        ),
        (
            "grouped attack_roc",
            ["IFCA, minority ratio 0.1, majority model", "the attack behind the published risk"],
        ),
        (
            "har source_inference",
            ["FinP-PCA", "mean SIA accuracy (fraction)", "EOD", "CoV", "FI", "by chance"],
        ),
        (
            "har clients_exposed_sia_accuracy",
            ["by chance", "FinP (ALA)", "95 % interval over seeds", "numbers of clients"],
        ),
        (
            "mri trade_off",
            [
                "aggregated accuracy (fraction), better →",
                "← better, CIA advantage",
                "by chance (0.2)",
            ],
        ),
        ("mri noise", ["standard deviation of the noise", "distance of models", "metric privacy"]),
        (
            "mri client_inference",
            ["CIA AUC (fraction)", "CIA difference (fraction)", "by chance (0.5)", "95 % interval"],
        ),
        ("mri convergence", ["aggregation FedYogi", "metric privacy", "global-DP"]),
    ],
)
def test_a_figure_says_what_it_shows(drawn: Drawn, place: str, expected: list[str]) -> None:
    sweep, name = place.split()
    written = texts(drawn(sweep)[name])
    assert [words for words in expected if words not in written] == []


def test_figures_are_pictures_and_the_same_bytes_every_time() -> None:
    table = [{"seed": i, "violations": 1.0 + i} for i in range(3)]
    first, second = (picture(figure("violations", arranged(table))) for _ in range(2))
    pixels = imread(io.BytesIO(first))
    assert first == second and min(pixels.shape[:2]) > 300
    assert len({tuple(pixel) for pixel in pixels.reshape(-1, pixels.shape[2])[::7].tolist()}) > 20


def test_figures_without_data_are_not_drawn() -> None:
    judged = {
        "accuracy": 0.9,
        "test_accuracy": 0.9,
        "aggregated_accuracy": 0.9,
        "f1_macro": 0.8,
        "cia_auc": None,
    }
    arr = arranged([judged | {"clustering.name": name} for name in ("none", "ifca")])
    assert [name for name, draw in catalog().items() if draw(arr)] == ["accuracy"]
    lost = rows([{"id": "t", "status": "diverged", "accuracy": None}])
    assert list(figures(results(Path("made_up"), lost, (), {}), print)) == []


# The arrangement


def places(arr: Arrangement) -> tuple[Any, ...]:
    return arr.hue, arr.axis, arr.facets


def grid(**keys: Any) -> list[dict[str, Any]]:
    """A trial for each combination of the values of the keys, of which __ is a dot."""
    table: list[dict[str, Any]] = [{}]
    for key, values in keys.items():
        table = [row | {key.replace("__", "."): value} for row in table for value in values]
    return table


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            grid(
                **{
                    TRANSFORM: ["a", "b"],
                    RATIO: [0.1, 0.2],
                    "clustering__name": ["ifca", "ifca_mir"],
                }
            ),
            (("clustering.name",), (RATIO,), (TRANSFORM,)),
        ),
        (
            [{"data.split.minority": [0, k], "data.split.majority": [k, 2 * k]} for k in (20, 25)],
            "keys that change together",
        ),
        (
            grid(clustering__name=["ifca", "ifca_mir"]),
            (("clustering.name",), ("clustering.name",), ()),
        ),
        (  # for nine strategies there are no colors
            grid(
                aggregation__name=[f"a{i}" for i in range(9)],
                privacy__name=["none", "metric_privacy"],
            ),
            (("privacy.name",), ("aggregation.name",), ()),
        ),
        (  # a field that follows from the algorithm has no panel
            [
                {"privacy.name": "none", "privacy.noise": None},
                {"privacy.name": "metric_privacy", "privacy.noise": 1},
            ],
            (("privacy.name",), ("privacy.name",), ()),
        ),
        # and one that a component lacks is part of the color: it would stand alone in a panel
        # without a name
        (
            [
                {"objective.name": n, "objective.beta": b, PAIR[1]: a}
                for n, b in (("plain", None), ("finp", 0.1), ("finp", 0.3))
                for a in ("fedavg", "finp_ala")
            ],
            (("objective.name", "objective.beta"), ("aggregation.name",), ()),
        ),
    ],
)
def test_the_algorithm_is_the_color_and_the_ratio_or_a_number_the_axis(
    table: list[dict], expected: Any
) -> None:
    if isinstance(expected, str):
        expected = ((), ("data.split.minority", "data.split.majority"), ())
    arr = arranged(table)
    assert places(arr) == expected
    assert sum(len(cell.trials) for *_, cell in arr.cells()) == len(table)
    assert [arr.position_label(at) for at in arr.positions] != [""]


def test_methods_of_finp_have_the_papers_names_and_keep_their_colors() -> None:
    arr = by_method(
        arranged(
            grid(
                objective__name=["plain", "finp"],
                aggregation__name=["fedavg", "finp_pca", "finp_ala"],
            )
        )
    )
    assert places(arr) == (PAIR, (), ())
    names = [
        "FedAvg",
        "FinP_server (ALA)",
        "FinP_server (PCA)",
        "FinP_client",
        "FinP (ALA)",
        "FinP (PCA)",
    ]
    assert [arr.hue_label(hue) for hue in arr.hues] == names
    few = by_method(
        arranged(grid(objective__name=["plain", "finp"], aggregation__name=["finp_pca"]))
    )
    colors, fewer = (
        {one.hue_label(hue): one.look(hue)["color"] for hue in one.hues} for one in (arr, few)
    )
    assert len(set(colors.values())) == 6 and fewer.items() <= colors.items()


def test_methods_and_settings_in_words() -> None:
    keys = ("clustering.name", "privacy.name", "objective.name", "aggregation.name")
    every = method_label(keys, ["ifca_mir", "metric_privacy", "finp", "fedyogi"])
    assert every == "IFCA-MIR + FinP + FedYogi + metric privacy"
    assert method_label(keys, ["none", "none", "plain", "fedavg"]) == "FedAvg"
    assert method_label(("objective.name", "objective.beta"), ["plain", None]) == "plain"
    assert method_label(("privacy.name", "privacy.clip"), ["none", None]) == "vanilla"
    values = ("none", 0.30000000000000004, None, [0, 25])
    keys = ("privacy.name", RATIO, "attacks.0.every", "data.split.minority")
    assert setting_label(keys, values) == "vanilla, minority ratio 0.3, minority range 0–25"
    assert key_labels(("a.beta", "b.beta", "c.rho")) == ("a.beta", "b.beta", "rho")
    assert value_label("clustering.name", "none") == "no clustering"
    assert [value_label("aggregation.name", name) for name in ("finp_pca", "fedopt")] == [
        "FinP-PCA",
        "FedOpt",
    ]


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_settings_at_the_same_place_are_seen_around_each_other(seeds: int) -> None:
    """One round under two methods gave the same numbers, and one mark covered the other."""
    keys = {
        "privacy__name": ["none", "global_dp"],
        "model__hidden": ["a", "b"],
        "training__lr": [0.1, 0.2],
    }
    table = grid(**keys, seed=list(range(seeds)))
    numbers = [{"accuracy": 0.5 + row["seed"] / 10, "mia_accuracy_worst": 0.6} for row in table]
    arr = arranged([row | found for row, found in zip(table, numbers, strict=True)])
    for ax in figure("trade_off", arr).axes:
        lines = [bars.lines[0] for bars in ax.containers] or [
            it for it in ax.lines if it.get_marker() not in ("None", "")
        ]
        marks = [line.get_markersize() for line in lines]
        assert len({*marks}) == 4 and marks == sorted(marks, reverse=True)


# Final metrics, and metrics over the rounds


@pytest.mark.parametrize(
    ("values", "bars", "note"),
    [
        ((0.5,), 0, "points: one seed"),
        ((0.25, 0.75), 0, "single seeds"),
        ((0.1, 0.5, 0.99), 1, "95 % interval"),
        ((0.3, 0.4, None, None), 0, "single seeds"),
    ],
)
def test_three_values_are_a_mean_with_its_interval_and_fewer_are_points(
    values: Any, bars: int, note: str
) -> None:
    one = figure(
        "risk_of_models",
        arranged([{"seed": i, "mia_accuracy_majority": v} for i, v in enumerate(values)]),
    )
    (ax,) = one.axes
    assert (len(ax.containers), note in texts(one)) == (bars, True)
    assert ax.get_ylim() == pytest.approx((-0.02, 1.02)) or bars == 0, (
        "the axis of a rate ends with the rate"
    )
    (points,) = [line for line in ax.lines if line.get_marker() == "o"]
    shown = [value for value in values if value is not None]
    assert np.asarray(points.get_ydata()) == pytest.approx([np.mean(shown)] if bars else shown)


def test_a_panel_that_is_always_nought_is_left_out_and_panels_of_one_kind_share_their_scale() -> (
    None
):
    nothing = {"violations": 0.0, "violations_majority": 0.0, "violations_minority": 0.0}
    assert catalog()["violations"](arranged([nothing])) is None
    one = figure(
        "violations",
        arranged([nothing, nothing | {"seed": 1, "violations": 1.0, "violations_minority": 1.0}]),
    )
    assert [ax.get_title() for ax in one.axes] == [
        "violations (clients)",
        "violations, minority (clients)",
    ]
    table = [
        {TRANSFORM: t, "accuracy": a, "seed": s}
        for t, a in (("cluster", 0.2), ("unrotated", 0.9))
        for s in (0, 1)
    ]
    assert len({ax.get_ylim() for ax in figure("accuracy", arranged(table)).axes}) == 1


def test_violations_stand_beside_their_value_by_chance(tmp_path: Path) -> None:
    arr = read(write_grouped(tmp_path / "s"))
    everyone, *_ = figure("violations", arr).axes
    heights = [
        line.get_segments()[0][0, 1]
        for line in everyone.collections
        if len(line.get_segments()) == 1
    ]
    for *_, cell in arr.cells():
        assert min(abs(np.array(heights) - cell.estimate("violations_null").mean)) < 1e-9


@pytest.mark.parametrize("seeds", [2, 3])
def test_rounds_are_means_with_bands_or_a_line_for_each_seed_beside_chance(
    tmp_path: Path, seeds: int
) -> None:
    arr = read(write_finp(tmp_path / "s", ONE | {"seed": list(range(seeds))}))
    mean, *_, eod = figure("source_inference", arr).axes
    values = np.array(
        [[row["sia_mean"] for row in rounds] for rounds in arr.results.rounds.values()]
    )
    *curves, chance = mean.lines
    expected = values if seeds == 2 else [values.mean(axis=0)]
    assert [list(map(float, line.get_ydata())) for line in curves] == [
        pytest.approx(row) for row in expected
    ]
    assert len(mean.collections) == (seeds == 3)  # the band of the interval
    assert np.unique(np.asarray(chance.get_ydata())) == pytest.approx([1 / CLIENTS])
    assert np.asarray(eod.lines[-1].get_ydata()) == pytest.approx(0.115)


# Beside what was published


def test_published_values_are_hollow_and_only_beside_their_own_method_and_data(
    drawn: Drawn,
) -> None:
    axes = drawn("mnist")["risk_of_models"].axes
    hollow = [[line for line in ax.lines if line.get_markerfacecolor() == "none"] for ax in axes]
    places = [
        sorted(
            tuple(at) for line in lines for at in np.asarray(line.get_xydata()).round(2).tolist()
        )
        for lines in hollow
    ]
    of_minority = [(-0.08, 0.81), (0.92, 0.63)]
    assert places == [
        [(-0.08, 0.52)],
        of_minority,
    ]  # of IFCA's two models; not of the majority's at 0.3
    digits: dict[str, Any] = {
        "data.name": "digits",
        "clustering.name": "ifca",
        "mia_accuracy_minority": 0.7,
    }
    assert "published" not in texts(
        figure("risk_of_models", arranged([{RATIO: r, **digits} for r in (0.1, 0.3)]))
    )
