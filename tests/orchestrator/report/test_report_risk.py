"""The figures of risk: risk against accuracy, ROC curves of the attacks, exposure by client, from numbers known beforehand."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from orchestrator.report import write_report
from orchestrator.report.figures.arrangement import Arrangement
from orchestrator.report.figures.catalog import FIGURES, figures
from orchestrator.report.figures.trade_off import risks
from orchestrator.report.vocabulary import COLORS
from tests.support.arranged import arranged, figure, read
from tests.support.figure_texts import texts, unreadable
from tests.support.synthetic_membership import write_alone
from tests.support.synthetic_privacy import FINP, write_finp


def drawn(ax: Axes, size: float) -> list[tuple[float, float]]:
    """The points of this size (in square points) in a panel."""
    found = [one for one in ax.collections if one.get_sizes().tolist() == [size]]  # type: ignore[attr-defined]
    return [(float(x), float(y)) for one in found for x, y in np.asarray(one.get_offsets())]


def dashed(ax: Axes, style: str = "--") -> list[float]:
    return [float(np.asarray(line.get_ydata())[0]) for line in ax.lines if line.get_linestyle() == style]


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        (
            "grouped",
            ["trade_off", "risk", "mia", "attack_roc", "clients_exposed_membership", "violations", "movers"],
        ),
        ("alone", ["trade_off", "mia", "attack_roc", "clients_exposed_membership", "accuracy"]),
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
        assert sorted(drawn(ax, 80)) == [pytest.approx(mean) for mean in sorted(means)]
        assert len(drawn(ax, 22)) == 20
        assert "better" in [text.get_text() for text in ax.texts]
    assert dashed(minority) == [0.5]
    nulls = [trial["risk_worst_client_null"] for trial in grouped.trials]
    assert dashed(worst) == [pytest.approx(np.mean(nulls))]
    written = texts(figure("trade_off", grouped))
    for words in ("attack accuracy, minority clients (fraction)", "accuracy, minority clients", "minority ratio 0.3"):
        assert words in written


def test_nothing_is_drawn_where_better_is_written(grouped: Arrangement) -> None:
    for ax in figure("trade_off", grouped).axes:
        low, high = ax.get_ylim()
        lowest = min(y for size in (22, 80) for _, y in drawn(ax, size))
        assert (lowest - low) / (high - low) > 0.15


def test_fewer_than_three_seeds_are_points_without_a_mean() -> None:
    held = [{"seed": seed, "accuracy": 0.8 + seed / 10, "mia_accuracy_global": 0.6} for seed in (0, 1)]
    (ax,) = figure("trade_off", arranged(held)).axes
    assert drawn(ax, 48) == [pytest.approx((0.8, 0.6)), pytest.approx((0.9, 0.6))]
    assert drawn(ax, 80) == drawn(ax, 22) == []
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
    assert [[risk.name for risk in row] for row in risks(arranged([{"accuracy": 0.9} | held]))] == shown


def test_panels_of_one_risk_share_their_scale_and_pairs_of_components_their_names(tmp_path: Path) -> None:
    arr = read(write_finp(tmp_path / "s", FINP | {"data.split.alpha": [0.1, 1.0], "seed": [0, 1, 2]}))
    one = figure("trade_off", arr)
    assert len(one.axes) == 4  # two values of alpha, mean and EOD
    assert len({ax.get_ylim() for ax in one.axes}) == 1
    assert [len(drawn(ax, 80)) for ax in one.axes] == [6] * 4
    assert "FinP_server (ALA)" in texts(one)
    assert unreadable(one) == ([], [])


def test_without_an_accuracy_or_an_attack_there_is_no_trade_off() -> None:
    assert FIGURES["trade_off"](arranged([{"mia_accuracy_worst": 0.6}])) is None
    assert FIGURES["trade_off"](arranged([{"accuracy": 0.6}])) is None


def test_trials_with_different_attacks_have_a_row_for_each_kind() -> None:
    kinds = [("none", {"mia_accuracy_worst": 0.6}), ("ifca", {"sia_mean": 0.3, "sia_chance": 0.1})]
    arr = arranged([{"clustering.name": name, "accuracy": 0.9, **risk} for name, risk in kinds])
    membership, source = [ax for ax in figure("trade_off", arr).axes if ax.get_visible()]
    assert (drawn(membership, 48), drawn(source, 48)) == ([(0.9, 0.6)], [(0.9, 0.3)])
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
    assert sorted(drawn(one.axes[0], 48)) == [(0.9, 2.0), (0.9, 8.0)]
    assert "without such a value: vanilla" in texts(one)


def test_risk_by_group_stands_beside_its_value_by_chance(grouped: Arrangement) -> None:
    minority, _, worst = figure("risk", grouped).axes
    assert dashed(minority) == [0.5]
    nulls = [float(one.get_segments()[0][0, 1]) for one in worst.collections if hasattr(one, "get_segments")]
    cells = [grouped.cell((), (ratio,), method) for ratio in (0.1, 0.3) for method in ("ifca", "ifca_mir")]
    means = [np.mean([trial["risk_worst_client_null"] for trial in cell]) for cell in cells]
    for mean in means:
        assert min(abs(null - mean) for null in nulls) < 1e-9
    marks = {to_hex(bar[0].get_color()).upper(): np.asarray(bar[0].get_ydata()) for bar in minority.containers}
    expected = [np.mean([t["risk_minority"] for t in grouped.cell((), (r,), "ifca_mir")]) for r in (0.1, 0.3)]
    assert marks[COLORS["ifca_mir"]] == pytest.approx(expected)


def test_violations_and_fairness_stand_beside_their_value_by_chance(grouped: Arrangement) -> None:
    everyone, majority, _ = figure("violations", grouped).axes
    cells = [grouped.cell((), (ratio,), method) for ratio in (0.1, 0.3) for method in ("ifca", "ifca_mir")]
    nulls = [np.mean([trial["violations_null"] for trial in cell]) for cell in cells]
    heights = [one.get_segments()[0][0, 1] for one in everyone.collections if len(one.get_segments()) == 1]
    assert all(min(abs(np.array(heights) - null)) < 1e-9 for null in nulls)
    assert dashed(majority) == []
    opportunity, *_ = figure("fairness", grouped).axes
    assert dashed(opportunity) == [0.02]


def test_a_comparison_without_a_number_is_not_written_and_an_old_one_goes(tmp_path: Path) -> None:
    folder = write_alone(tmp_path / "s")
    (folder / "report").mkdir()
    for name in ("published.csv", "published.md", "roc.png", "clients_exposed.png"):
        (folder / "report" / name).write_text("of an earlier report")
    written = {path.name for path in write_report(folder)}
    assert {path.name for path in (folder / "report").iterdir()} == written
    assert not written & {"published.csv", "published.md", "roc.png", "clients_exposed.png"}
    assert "trade_off.png" in written


def test_a_metric_of_few_seeds_among_many_is_drawn_as_points() -> None:
    held = [{"seed": seed, "mia_accuracy_global": 0.6 if seed < 2 else None, "accuracy": 0.5} for seed in range(4)]
    (ax,) = figure("mia", arranged(held)).axes
    assert len(ax.containers) == 0
    assert [len(np.asarray(line.get_ydata())) for line in ax.lines if line.get_marker() == "o"] == [2]
