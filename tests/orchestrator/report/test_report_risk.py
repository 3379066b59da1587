"""The figures of risk: risk against accuracy, ROC curves of the attacks, exposure by client, from numbers known beforehand."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection

from orchestrator.report import write_report
from orchestrator.report.figures.arrangement import Arrangement
from orchestrator.report.figures.catalog import catalog, figures
from orchestrator.report.figures.trade_off import risks
from orchestrator.report.statistics import estimate
from orchestrator.results.log import MANIFEST, Log
from tests.support.arranged import arranged, figure, read
from tests.support.figure_texts import texts, unreadable
from tests.support.synthetic_membership import write_alone
from tests.support.synthetic_privacy import FINP, write_finp

PALE, FEW, MEAN = 2, 4, 5  # how far above others the points of seeds beside a mean lie, those without one, and means


def marks(ax: Axes, level: int) -> list[PathCollection]:
    """The marks of a kind in a panel, from below to above."""
    found = [one for one in ax.collections if isinstance(one, PathCollection) and int(one.get_zorder()) == level]
    return sorted(found, key=lambda one: one.get_zorder())


def drawn(ax: Axes, level: int) -> list[tuple[float, float]]:
    """The points of a kind in a panel."""
    return [(float(x), float(y)) for one in marks(ax, level) for x, y in np.asarray(one.get_offsets())]


def dashed(ax: Axes, style: str = "--") -> list[float]:
    return [float(np.asarray(line.get_ydata())[0]) for line in ax.lines if line.get_linestyle() == style]


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ("grouped", ["trade_off", "attack_roc", "clients_exposed_risk", "membership_inference", "violations"]),
        ("alone", ["trade_off", "attack_roc", "clients_exposed_risk", "accuracy", "membership_inference"]),
    ],
)
def test_every_figure_of_risk_is_drawn_and_can_be_read(
    sweep: str, expected: list[str], request: pytest.FixtureRequest
) -> None:
    found = dict(figures(request.getfixturevalue(sweep).results))
    assert [name for name in found if name in expected] == expected
    for name, one in found.items():
        assert unreadable(one) == ([], []), name


def test_risk_over_accuracy_has_a_mean_for_each_setting_and_pale_seeds(grouped: Arrangement) -> None:
    minority, majority, worst = figure("trade_off", grouped).axes
    for ax, risk, accuracy in (
        (minority, "risk_minority", "accuracy_minority"),
        (majority, "risk_majority", "accuracy_majority"),
        (worst, "risk_worst_client", "accuracy"),
    ):
        cells = [grouped.cell((), (ratio,), method) for method in ("ifca", "ifca_mir") for ratio in (0.1, 0.3)]
        means = [tuple(np.mean([trial[name] for trial in cell]) for name in (accuracy, risk)) for cell in cells]
        assert sorted(drawn(ax, MEAN)) == [pytest.approx(mean) for mean in sorted(means)]
        assert len(drawn(ax, PALE)) == 20
        assert "better" in [text.get_text() for text in ax.texts]
    assert dashed(minority) == [0.5]
    nulls = [trial["risk_worst_client_null"] for trial in grouped.trials]
    assert dashed(worst) == [pytest.approx(np.mean(nulls))]
    written = texts(figure("trade_off", grouped))
    for words in ("risk of the minority's clients (fraction)", "accuracy, minority clients", "minority ratio 0.3"):
        assert words in written


def test_marks_at_the_same_place_are_all_seen_and_a_mean_has_its_intervals() -> None:
    """The later of two marks is smaller and lies above; the intervals are those of the tables."""
    pairs = [(0.8, 0.6), (0.82, 0.64), (0.87, 0.62)]
    names = ("ifca", "ifca_mir", "random_migration")
    held = [
        {"clustering.name": name, "seed": seed, "accuracy": x, "mia_accuracy_global": y}
        for name in names
        for seed, (x, y) in enumerate(pairs)
    ]
    (ax,) = figure("trade_off", arranged(held)).axes
    sizes = [float(one.get_sizes()[0]) for one in marks(ax, MEAN)]
    assert len(set(drawn(ax, MEAN))) == 1
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(names)
    spans = [one.get_segments()[0] for one in ax.collections if isinstance(one, LineCollection)]
    found = [estimate(list(values)) for values in zip(*pairs, strict=True)]
    ends = sorted({round(float(value), 6) for span in spans for value in np.ptp(span, axis=0) if value > 0})
    assert ends == sorted(round(2 * one.half, 6) for one in found)


def test_nothing_is_drawn_where_better_is_written(grouped: Arrangement) -> None:
    for ax in figure("trade_off", grouped).axes:
        low, high = ax.get_ylim()
        lowest = min(y for size in (22, MEAN) for _, y in drawn(ax, size))
        assert (lowest - low) / (high - low) > 0.15


def test_fewer_than_three_seeds_are_points_without_a_mean() -> None:
    held = [{"seed": seed, "accuracy": 0.8 + seed / 10, "mia_accuracy_global": 0.6} for seed in (0, 1)]
    (ax,) = figure("trade_off", arranged(held)).axes
    assert drawn(ax, FEW) == [pytest.approx((0.8, 0.6)), pytest.approx((0.9, 0.6))]
    assert drawn(ax, MEAN) == drawn(ax, PALE) == []
    assert "too few for a mean" in texts(figure("trade_off", arranged(held)))


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        (
            {"risk_minority": 0.6, "risk_majority": 0.5, "accuracy_minority": 0.8, "accuracy_majority": 0.9},
            [["risk_minority", "risk_majority"]],
        ),
        (
            {"mia_accuracy_worst": 0.6, "mia_auc_worst": 0.6, "mia_accuracy_global": 0.6, "risk_worst_client": 0.7},
            [["mia_accuracy_worst", "mia_auc_worst"]],
        ),
        ({"mia_accuracy_global": 0.6, "whitebox_accuracy": 0.7}, [["mia_accuracy_global"], ["whitebox_accuracy"]]),
        ({"mia_accuracy_global": 0.6, "fedmia_auc": 0.7}, [["mia_accuracy_global"], ["fedmia_auc"]]),
        (  # what is calibrated stands for what is not, and nothing twice
            {"mia_accuracy_global": 0.6, "calibrated_auc": 0.7, "fedmia_auc": 0.7},
            [["calibrated_auc", "fedmia_auc"]],
        ),
        (
            {"sia_mean": 0.3, "eod": 0.4, "cia_auc": 0.02, "cia_advantage": 0.96},  # decided the other way round
            [["sia_mean", "eod"], ["cia_advantage"]],
        ),
        ({"whitebox_eod": 0.3}, [["whitebox_eod"]]),  # declared as membership inference, less is better, not listed
        ({"violations": 3.0, "sia_fi": 0.9}, []),  # no fraction, and more is better
        ({"sia_mean": 0.0}, []),  # always 0
        ({"epsilon": 3.0}, []),  # a single setting states one
    ],
)
def test_the_axis_of_risk_is_what_the_sweep_measured(held: dict[str, float], shown: list[list[str]]) -> None:
    assert [list(row) for row in risks(arranged([{"accuracy": 0.9} | held]))] == shown


def test_panels_of_one_risk_share_their_scale_and_pairs_of_components_their_names(tmp_path: Path) -> None:
    arr = read(write_finp(tmp_path / "s", FINP | {"data.split.alpha": [0.1, 1.0], "seed": [0, 1, 2]}))
    one = figure("trade_off", arr)
    assert len(one.axes) == 4  # two values of alpha, mean and EOD
    assert len({ax.get_ylim() for ax in one.axes}) == 1
    assert [len(drawn(ax, MEAN)) for ax in one.axes] == [6] * 4
    assert "FinP_server (ALA)" in texts(one)
    assert unreadable(one) == ([], [])


def test_without_an_accuracy_or_an_attack_there_is_no_trade_off() -> None:
    assert catalog()["trade_off"](arranged([{"mia_accuracy_worst": 0.6}])) is None
    assert catalog()["trade_off"](arranged([{"accuracy": 0.6}])) is None


def test_trials_with_different_attacks_have_a_row_for_each_kind() -> None:
    kinds = [("none", {"mia_accuracy_worst": 0.6}), ("ifca", {"sia_mean": 0.3, "sia_chance": 0.1})]
    arr = arranged([{"clustering.name": name, "accuracy": 0.9, **risk} for name, risk in kinds])
    membership, source = [ax for ax in figure("trade_off", arr).axes if ax.get_visible()]
    assert (drawn(membership, FEW), drawn(source, FEW)) == ([(0.9, 0.6)], [(0.9, 0.3)])
    assert (dashed(membership), dashed(source)) == ([0.5], [0.1])


def test_budgets_are_the_risk_where_nothing_attacked_and_a_setting_without_one_is_named() -> None:
    levels = [("none", None, None), ("global_dp", 1.0, 8.0), ("global_dp", 2.0, 2.0)]
    arr = arranged(
        [
            {"privacy.name": name, "privacy.noise_multiplier": noise, "aggregated_accuracy": 0.9, "epsilon": epsilon}
            for name, noise, epsilon in levels
        ]
    )
    one = figure("trade_off", arr)
    assert [ax.get_yscale() for ax in one.axes] == ["log"]
    assert sorted(drawn(one.axes[0], FEW)) == [(0.9, 2.0), (0.9, 8.0)]
    assert "without such a value: vanilla" in texts(one)


def test_violations_and_fairness_stand_beside_their_value_by_chance(grouped: Arrangement) -> None:
    everyone, *_ = figure("violations", grouped).axes
    cells = [grouped.cell((), (ratio,), method) for ratio in (0.1, 0.3) for method in ("ifca", "ifca_mir")]
    nulls = [np.mean([trial["violations_null"] for trial in cell]) for cell in cells]
    lines = [one for one in everyone.collections if isinstance(one, LineCollection)]
    heights = [one.get_segments()[0][0, 1] for one in lines if len(one.get_segments()) == 1]
    assert all(min(abs(np.array(heights) - null)) < 1e-9 for null in nulls)
    _, opportunity, *_ = figure("fairness", grouped).axes
    assert dashed(opportunity) == [0.02]


def test_a_comparison_without_a_number_is_not_written_and_an_old_one_goes(tmp_path: Path) -> None:
    folder = write_alone(tmp_path / "s")
    earlier = Log(folder / "report", "s")
    for name in ("published.csv", "published.md", "roc.png"):
        earlier.append(name, b"of an earlier report")
    earlier.finish({})
    written = {path.name for path in write_report(folder)}
    assert {path.name for path in (folder / "report").iterdir()} == written | {MANIFEST}
    assert not written & {"published.csv", "published.md", "roc.png"}
    assert "trade_off.png" in written


def test_a_metric_of_few_seeds_among_many_is_drawn_as_points() -> None:
    held = [{"seed": seed, "mia_accuracy_global": 0.6 if seed < 2 else None, "accuracy": 0.5} for seed in range(4)]
    (ax,) = figure("membership_inference", arranged(held)).axes
    assert len(ax.containers) == 0
    assert [len(np.asarray(line.get_ydata())) for line in ax.lines if line.get_marker() == "o"] == [2]
