"""The figures of attacks, from numbers known beforehand: risk against accuracy, ROC curves,
exposure by client, audits.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from scipy.integrate import trapezoid

from algorithms.metrics.statistics import estimate
from attacks.metrics.membership import rates_at
from orchestrator.report.context import adversary_sentence, risks
from orchestrator.report.figures.arrangement import Arrangement
from orchestrator.report.figures.attacks import RED, audit
from orchestrator.report.figures.catalog import catalog
from orchestrator.report.figures.exposure import exposure, risks_by_view
from orchestrator.report.front import fronts
from orchestrator.report.vocabulary import GROUP_COLORS
from tests.support.arranged import arranged, figure, read
from tests.support.figure_texts import texts, unreadable
from tests.support.synthetic_results import (
    CLIENTS,
    finp_tables,
    write_alone,
    write_finp,
    write_grouped,
    write_sweep,
)


def dashed(ax: Axes, style: str = "--") -> list[float]:
    return [
        float(np.asarray(line.get_ydata())[0]) for line in ax.lines if line.get_linestyle() == style
    ]


def pairs(lines: Any) -> list[tuple[float, float]]:
    return sorted((float(x), float(y)) for line in lines for x, y in np.asarray(line.get_xydata()))


# Risk against accuracy


def means(ax: Axes) -> list[tuple[float, float]]:
    return pairs(bars[0] for bars in ax.containers)


def single(ax: Axes, pale: bool = False) -> list[tuple[float, float]]:
    """The points of single seeds: pale ones beside a mean, or those without any."""
    return pairs(line for line in ax.lines if line.get_alpha() == (0.3 if pale else 0.9))


def test_risk_over_accuracy_has_a_mean_for_each_setting_and_pale_seeds(
    grouped: Arrangement,
) -> None:
    minority, majority, worst = figure("trade_off", grouped).axes
    for ax, risk, accuracy in (
        (minority, "risk_minority", "accuracy_minority"),
        (majority, "risk_majority", "accuracy_majority"),
        (worst, "risk_worst_client", "accuracy"),
    ):
        expected = [
            (cell.estimate(accuracy).mean, cell.estimate(risk).mean) for *_, cell in grouped.cells()
        ]
        assert means(ax) == [pytest.approx(mean) for mean in sorted(expected)]
        assert len(single(ax, pale=True)) == 20
        found = [
            s
            for front in fronts(grouped.results, (risk, accuracy))
            for s in (*front.sure, *front.possible)
        ]
        ringed = sorted((s.estimate(accuracy).mean, s.estimate(risk).mean) for s in found)
        assert (
            ringed
            and pairs(line for line in ax.lines if line.get_markerfacecolor() == "none") == ringed
        )
    assert dashed(minority) == [0.5]
    assert dashed(worst) == [
        pytest.approx(np.mean([trial["risk_worst_client_null"] for trial in grouped.trials]))
    ]


@pytest.mark.parametrize(("between", "explained"), [(0.0, False), (0.01, True)])
def test_the_legend_explains_colors_that_are_no_shapes_and_the_band_by_chance(
    between: float, explained: bool
) -> None:
    table = [
        {
            "clustering.name": name,
            "data.split.minority_ratio": ratio,
            "accuracy": 0.9,
            "sia_mean": 0.3,
            "seed": seed,
        }
        | {"sia_chance": 0.1 + seed * between}
        for name, ratio, seed in itertools.product(("none", "ifca"), (0.1, 0.3), range(3))
    ]
    one = figure(
        "trade_off", arranged(table, ("clustering.name", "data.split.minority_ratio", "seed"))
    )
    assert "color and line: method, shape: minority ratio" in texts(one)
    assert ("by chance, from run to run" in texts(one)) == explained
    by_label = {
        text.get_text(): line
        for text, line in zip(one.legends[0].get_texts(), one.legends[0].get_lines(), strict=True)
    }
    assert (
        by_label["IFCA"].get_marker() == "" and by_label["minority ratio 0.3"].get_marker() == "s"
    )


@pytest.mark.parametrize(
    ("measured", "shown"),
    [
        (
            {
                "risk_minority": 0.6,
                "risk_majority": 0.5,
                "accuracy_minority": 0.8,
                "accuracy_majority": 0.9,
            },
            [("risk_minority", "risk_majority")],
        ),
        (
            {
                "mia_accuracy_worst": 0.6,
                "mia_auc_worst": 0.6,
                "mia_accuracy_global": 0.6,
                "risk_worst_client": 0.7,
            },
            [("mia_accuracy_worst", "mia_auc_worst")],
        ),
        (
            {"mia_accuracy_global": 0.6, "whitebox_accuracy": 0.7},
            [("mia_accuracy_global",), ("whitebox_accuracy",)],
        ),
        # What is calibrated stands for what is not, and nothing twice.
        (
            {"mia_accuracy_global": 0.6, "calibrated_auc": 0.7, "fedmia_auc": 0.7},
            [("calibrated_auc", "fedmia_auc")],
        ),
        # Decided the other way round.
        (
            {"sia_mean": 0.3, "eod": 0.4, "cia_auc": 0.02, "cia_advantage": 0.96},
            [("sia_mean", "eod"), ("cia_advantage",)],
        ),
        ({"whitebox_eod": 0.3}, []),  # no declared risk
        ({"violations": 3.0, "sia_fi": 0.9}, []),  # no fraction, and more is better
        ({"sia_mean": 0.0}, []),  # always 0
        ({"epsilon": 3.0}, []),  # a single setting states one
    ],
)
def test_the_axis_of_risk_is_what_the_sweep_measured(
    measured: dict[str, float], shown: list[tuple[str, ...]]
) -> None:
    assert risks(arranged([{"accuracy": 0.9} | measured]).results) == shown


def test_trials_with_different_attacks_have_a_panel_for_each_kind() -> None:
    kinds = [
        ("none", {"mia_accuracy_worst": 0.6, "mia_accuracy_worst_null": 0.5}),
        ("ifca", {"sia_mean": 0.3, "sia_chance": 0.1}),
    ]
    arr = arranged([{"clustering.name": name, "accuracy": 0.9, **risk} for name, risk in kinds])
    membership, source = figure("trade_off", arr).axes
    assert (single(membership), single(source)) == ([(0.9, 0.6)], [(0.9, 0.3)])
    assert (dashed(membership), dashed(source)) == ([0.5], [0.1])


def test_budgets_are_the_risk_where_nothing_attacked_and_a_setting_without_one_is_named() -> None:
    levels = [("none", None, None), ("global_dp", 1.0, 8.0), ("global_dp", 2.0, 2.0)]
    names = ("privacy.name", "privacy.noise_multiplier", "epsilon")
    one = figure(
        "trade_off",
        arranged([dict(zip(names, level, strict=True)) | {"accuracy": 0.9} for level in levels]),
    )
    assert [ax.get_yscale() for ax in one.axes] == ["log"]
    assert single(one.axes[0]) == [(0.9, 2.0), (0.9, 8.0)]
    assert "without such a value: vanilla" in texts(one)


# ROC curves


def scored(folder: Path, *tables: pd.DataFrame, **given: Any) -> Arrangement:
    """A sweep whose trials have these scores."""
    left = iter(tables)
    sweep = {"seed": list(range(len(tables))), "privacy.name": ["none"]}
    return read(write_alone(folder, sweep, tables=lambda *_: {"scores": next(left)}, **given))


def roc(folder: Path, *tables: pd.DataFrame, **given: Any) -> list[Axes]:
    """The panels of a sweep whose trials have these scores."""
    return figure("attack_roc", scored(folder, *tables, **given)).axes


def scores(members: list[float], others: list[float], **given: Any) -> pd.DataFrame:
    flags = [True] * len(members) + [False] * len(others)
    table = {
        "attack": "gap",
        "round": 3,
        "target": "global",
        "client": 0,
        "member": flags,
        "score": members + others,
    }
    return pd.DataFrame(table | given)


def curves(ax: Axes) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (np.asarray(a), np.asarray(b))
        for a, b in (line.get_data() for line in ax.lines)
        if len(a) > 2
    ]


def areas(ax: Axes) -> list[str]:
    """The printed areas under the curves."""
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_models_by_number_stand_alone_with_one_seed_and_together_with_several(
    tmp_path: Path,
) -> None:
    def tables(*_: object) -> dict[str, pd.DataFrame]:
        return {
            "scores": pd.concat(
                scores([2.0, 1.0], [1.5, 0.5], target=f"model_{j}") for j in range(2)
            )
        }

    for seeds, panels in (([0], 4), ([0, 1], 2)):
        sweep = {"seed": seeds, "privacy.name": ["none", "dp_sgd"]}
        drawn = figure(
            "attack_roc", read(write_alone(tmp_path / f"{len(seeds)}", sweep, tables=tables))
        )
        assert len(drawn.axes) == panels
        assert ("each model" in " ".join(texts(drawn).split())) == (len(seeds) > 1)


def test_the_attacks_curve_is_that_of_its_scores_from_one_false_alarm_on(tmp_path: Path) -> None:
    # With 0, 1, 2, 3, 4 false alarms among 4 non-members: 2, 3, 4, 4, 4 of 4 members.
    (ax,) = roc(tmp_path / "s", scores([4.0, 3.0, 2.0, 0.5], [2.5, 1.0, 0.2, 0.1]))
    ((false, true),) = curves(ax)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (false.min(), true[0]) == (pytest.approx(0.25), pytest.approx(0.75))  # four non-members
    assert np.unique(true[false < 0.49]).tolist() == [0.75] and np.unique(
        true[false > 0.5]
    ).tolist() == [1.0]
    assert areas(ax) == ["0.812"]  # 13 of 16 pairs


def test_only_the_last_round_of_each_attack_counts_and_clients_that_left_do_not(
    tmp_path: Path,
) -> None:
    found, missed = scores([2.0, 2.0], [1.0, 1.0]), scores([1.0, 1.0], [2.0, 2.0])
    table = pd.concat(
        [missed.assign(round=1, left=False), found.assign(left=False), missed.assign(left=True)[:2]]
    )
    (ax,) = roc(tmp_path / "s", table)
    assert areas(ax) == ["1.000"]
    table = pd.concat(
        [found, found.assign(attack="risk", round=9), found.assign(round=2, target="of_old")]
    )
    (ax,) = roc(tmp_path / "t", table)
    assert len(curves(ax)) == 2


def test_curves_of_seeds_are_averaged_where_all_of_them_can_be_drawn(tmp_path: Path) -> None:
    (ax,) = roc(tmp_path / "s", scores([2.0, 2.0], [1.0] * 10), scores([1.0, 1.0], [2.0] * 5))
    ((false, true),) = curves(ax)
    assert (false.min(), true[0], true[-1]) == (pytest.approx(1 / 5), pytest.approx(0.5), 1)


def test_an_attack_on_replicas_has_a_panel_for_them_and_a_curve_beside_the_other_attacks(
    tmp_path: Path,
) -> None:
    halves = {"attack": "calibrated_mia"}
    found, missed = (
        scores([2.0, 2.0], [1.0] * 10, **halves),
        scores([1.0, 1.0], [2.0] * 10, **halves),
    )
    of_run = scores([2.0, 0.5], [1.0] * 10, **halves).assign(target="run")
    replicas = [one.assign(target=f"replica {k}") for k, one in enumerate((found, missed))]
    own, pooled = roc(
        tmp_path / "s", pd.concat([scores([2.0, 2.0], [1.0] * 10), of_run, *replicas])
    )
    assert len(curves(own)) == 2 and "replicas" in pooled.get_title()
    explained = (
        "replicas: the run trained again, each time on a random half of every client's examples"
    )
    assert explained in texts(own.get_figure())  # type: ignore[arg-type]
    ((false, true),) = curves(pooled)
    assert (false.min(), true[0], true[-1]) == (
        pytest.approx(0.1),
        pytest.approx(0.5),
        1,
    )  # of one all, of one nobody


def test_an_attack_that_cannot_be_judged_has_no_curve(tmp_path: Path) -> None:
    for i, table in enumerate(
        (scores([1.0], []), scores([float("nan")], [1.0]), scores([1.0], [0.0])[:0])
    ):
        assert catalog()["attack_roc"](scored(tmp_path / str(i), table)) is None


def test_ties_are_joined_by_a_line_and_what_no_tie_joins_is_a_step() -> None:
    false, true = np.array([0.0, 0.25, 0.25, 0.5, 1.0]), np.array([0.1, 0.1, 0.4, 0.4, 1.0])
    reached, left = rates_at(false, true, np.array([0.0, 0.2, 0.25, 0.4, 0.5, 0.75, 1.0]))
    assert reached.tolist() == pytest.approx([0.1, 0.1, 0.1, 0.4, 0.4, 0.7, 1.0])
    assert left.tolist() == pytest.approx([0.1, 0.1, 0.4, 0.4, 0.4, 0.7, 1.0])


def test_the_area_of_what_is_drawn_is_the_printed_auc(tmp_path: Path) -> None:
    """A score of two values was drawn as a step, with an area of 0.2 below a printed AUC of 0.7."""
    right = np.repeat([0.5, -0.5], [900, 100]), np.repeat([0.5, -0.5], [500, 500])
    rng = np.random.default_rng(0)
    every = (
        right,
        (rng.normal(0.5, 1, 1000), rng.normal(0, 1, 1000)),
        (rng.integers(1, 9, 50), rng.integers(0, 9, 1000)),
    )
    for seed, (members, others) in enumerate(every):
        (ax,) = roc(
            tmp_path / str(seed),
            scores(list(members), list(others)),
            scores(list(members), list(others)),
        )
        ((false, true),) = curves(ax)
        area = (
            trapezoid(true, false) + false[0] * true[0]
        )  # what is left of one false alarm is not drawn
        assert area == pytest.approx(float(areas(ax)[0]), abs=0.002)


def test_an_attacks_line_is_the_same_in_every_sweep_and_no_two_differ_in_color_alone(
    tmp_path: Path,
) -> None:
    def looks(names: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
        table = pd.concat(scores([2.0, 1.0], [1.5, 0.5], attack=name) for name in names)
        drawn = roc(tmp_path / "".join(names), table)[0].get_figure()
        lines = {str(line.get_label()): line for line in drawn.legends[0].get_lines()}  # type: ignore[union-attr]
        return {label: (line.get_color(), line._dash_pattern) for label, line in lines.items()}  # type: ignore[attr-defined]

    every = looks(("shadow_mia", "loss_threshold", "confidence", "gap", "calibrated_mia", "my own"))
    assert len(every) == 7 and len({color for color, _ in every.values()}) == len(
        {str(dash) for _, dash in every.values()}
    )
    assert "gap (classified correctly or not)" in every
    for name in ("gap", "calibrated_mia", "my own"):
        assert looks((name,)).items() <= every.items()


# Exposure by client


def heights(bars: Any) -> np.ndarray:
    return np.asarray(bars[0].get_ydata(), float)


def clients_of(folder: Path, number: int) -> list[pd.DataFrame]:
    """The clients of a round, by trial."""
    tables = [pd.read_parquet(path) for path in sorted(folder.glob("trials/*/clients.parquet"))]
    return [table[table["round"] == number].set_index("client") for table in tables]


def test_clients_are_colored_by_group_and_averaged_by_rank_in_it(grouped: Arrangement) -> None:
    ax, *_ = figure("clients_exposed_risk", grouped).axes
    cell = grouped.cell((), (0.1,), ("ifca",))
    folder = grouped.results.folder / "trials"
    tables = [pd.read_parquet(folder / trial["id"] / "clients.parquet") for trial in cell.trials]
    for group, bars in zip(("majority", "minority"), ax.containers, strict=True):
        ranked = [
            np.sort(one[(one["round"] == 12) & (one["group"] == group)]["risk"])[::-1]
            for one in tables
        ]
        assert heights(bars) == pytest.approx(np.mean(ranked, axis=0))
        assert to_hex(bars[0].get_color()).upper() == GROUP_COLORS[group]
    assert dashed(ax) == [0.5]
    assert dashed(ax, ":") == [pytest.approx(cell.estimate("risk_worst_client_null").mean)]


@pytest.mark.parametrize("sizes", [(1, 2, 2), (2, 2, 2)])
def test_a_group_that_is_smaller_or_not_attacked_in_one_seed_is_averaged_over_the_others(
    tmp_path: Path, sizes: Any
) -> None:
    def tables(trial: Any, final: Any, rng: Any) -> dict[str, pd.DataFrame]:
        size = sizes[trial["seed"]]
        groups, risk = ["minority"] * size + ["majority"] * 3, [0.9, 0.8][:size] + [0.5] * 3
        if min(sizes) == 2 and trial["seed"] == 0:
            risk = [np.nan] * 2 + risk[2:]
        return {
            "clients": pd.DataFrame(
                {"round": 1, "client": range(len(risk)), "group": groups, "risk": risk}
            )
        }

    arr = read(write_grouped(tmp_path / "s", {"seed": [0, 1, 2]}, tables=tables))
    majority, minority = figure("clients_exposed_risk", arr).axes[0].containers
    assert (heights(majority), heights(minority)) == (
        pytest.approx([0.5] * 3),
        pytest.approx([0.9, 0.8]),
    )


@pytest.mark.parametrize("anew", [False, True])
def test_clients_stand_in_the_order_of_the_data_with_intervals(tmp_path: Path, anew: bool) -> None:
    def tables(trial: Any, final: Any, rng: Any) -> dict[str, pd.DataFrame]:
        made = finp_tables(trial, final, rng)
        made["clients"]["examples"] += anew * int(trial["seed"]) * made["clients"]["client"]
        return made

    sweep: dict[str, list[Any]] = {
        "objective.name": ["finp"],
        "aggregation.name": ["finp_ala"],
        "seed": [0, 1],
    }
    folder = write_finp(tmp_path / "s", sweep, tables=tables)
    (ax,) = figure("clients_exposed_sia_accuracy", read(folder)).axes
    (bars,) = ax.containers
    last = clients_of(folder, 19)
    if anew:
        ranked = [np.sort(table["sia_accuracy"])[::-1] for table in last]
        assert (
            heights(bars) == pytest.approx(np.mean(ranked, axis=0))
            and list(ax.get_xticklabels()) == []
        )
        return
    order = last[0].index
    assert heights(bars) == pytest.approx(
        np.mean([table["sia_accuracy"][order] for table in last], axis=0)
    )
    assert [int(label.get_text()) for label in ax.get_xticklabels()] == order.tolist()
    low = np.mean([table["sia_low"][order[0]] for table in last])
    assert bars[2][0].get_segments()[0][0, 1] == pytest.approx(low)
    assert np.asarray(ax.lines[0].get_ydata()) == pytest.approx(1 / CLIENTS)


SLOPES = {
    "updates": [0.6, 0.7],
    "models": [0.55, None],
}  # AUC from the models, and from the updates


@pytest.mark.parametrize("views", [("updates",), ("models",), ("updates", "models")])
def test_an_attack_is_shown_under_what_it_sees_as_it_is_configured(views: tuple[str, ...]) -> None:
    """The slope of losses needs the updates, or the models alone; a figure of one view is none."""
    slopes = [
        dict(zip(("slope_model_auc", "slope_auc"), SLOPES[view], strict=True)) for view in views
    ]
    sia = {"sia_mean": 1.0, "sia_chance": 1.0}  # of one client: nothing is beyond chance
    table = [{"attacks": "sia,loss_slope", "privacy.name": "none"} | sia | it for it in slopes]
    runs = [
        {"attacks": [{"name": "sia"}, {"name": "loss_slope", "every": 1, "view": view}]}
        for view in views
    ]
    arr = arranged(table, configs=runs)
    drawn = [(view, risk.name) for view, risk in risks_by_view(arr) if risk.name != "sia_mean"]
    assert drawn == [
        (view, {"updates": "slope_auc", "models": "slope_model_auc"}[view]) for view in views
    ]
    assert ("whoever has the models of all rounds, and" in adversary_sentence(arr.results)) == (
        "updates" in views
    )
    assert (exposure(arr) is None) == (views == ("updates",))


def test_clients_have_the_names_of_the_data(tmp_path: Path) -> None:
    names = [
        f"{place} hospital of a long name" if place == "d" else f"ward {place}"
        for place in "abcdefghij"
    ]

    def tables(trial: Any, final: Any, rng: Any) -> dict[str, pd.DataFrame]:
        made = finp_tables(trial, final, rng)
        made["clients"]["name"] = [names[i] for i in made["clients"]["client"]]
        return made

    sweep: dict[str, list[Any]] = {
        "objective.name": ["finp"],
        "aggregation.name": ["finp_ala"],
        "seed": [0, 1, 2],
    }
    folder = write_finp(tmp_path / "s", sweep, tables=tables)
    one = figure("clients_exposed_sia_accuracy", read(folder))
    over_seeds = estimate([float(table["sia_accuracy"][0]) for table in clients_of(folder, 19)])
    bar = one.axes[0].containers[0][2][0].get_segments()[0][:, 1]
    assert bar == pytest.approx([over_seeds.low, over_seeds.high])  # not those within the runs
    labels = {label.get_text() for label in one.axes[0].get_xticklabels()}
    assert labels == {"d hospital of…" if name[0] == "d" else name for name in names}
    assert unreadable(one) == ([], [])


def test_named_clients_have_one_order_though_their_exposure_and_sizes_differ(
    tmp_path: Path,
) -> None:
    """In every panel, and by name though each seed gives them other numbers of examples."""

    def tables(trial: Any, final: Any, rng: Any) -> dict[str, pd.DataFrame]:
        made = finp_tables(trial, final, rng)
        clients = made["clients"]
        clients["name"] = [f"ward {9 - client}" for client in clients["client"]]
        clients["examples"] += int(trial["seed"]) * clients["client"]
        return made

    sweep: dict[str, list[Any]] = {
        "objective.name": ["plain", "finp"],
        "aggregation.name": ["fedavg"],
        "seed": [0, 1],
    }
    one = figure(
        "clients_exposed_sia_accuracy", read(write_finp(tmp_path / "s", sweep, tables=tables))
    )
    shown = [[label.get_text() for label in ax.get_xticklabels()] for ax in one.axes]
    assert shown == [[f"ward {9 - client}" for client in range(CLIENTS)]] * 2


def test_client_inference_is_by_target_if_the_sweep_attacks_several(tmp_path: Path) -> None:
    def metrics(trial: Any, rng: np.random.Generator) -> dict[str, float]:
        auc = {0: 0.02, 1: 0.6, 2: 0.9}[trial["attacks.0.target"]]
        return {
            "accuracy": 0.9,
            "cia_auc": auc,
            "cia_auc_low": auc - 0.05,
            "cia_auc_high": auc + 0.05,
        }

    config = {"rounds": 3, "data": {"clients": 3}, "attacks": [{"name": "cia"}]}
    sweep = {"attacks.0.target": [0, 1, 2], "seed": [7]}
    arr = read(
        write_sweep(tmp_path / "s", sweep, metrics=metrics, tables=lambda *_: {}, config=config)
    )
    (ax,) = figure("clients_exposed_cia_auc", arr).axes
    (bars,) = ax.containers
    assert heights(bars) == pytest.approx([0.02, 0.6, 0.9])
    assert bars[2][0].get_segments()[2][:, 1] == pytest.approx([0.85, 0.95])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "2"]


# Audits


def claimed(
    epsilon: float | None, value: float, seed: int = 0, verdict: str = "not refuted"
) -> dict[str, Any]:
    ends = {
        "epsilon_audit_low": 0.8 * value,
        "epsilon_audit_high": 1.2 * value,
        "epsilon_audit_certified": 0.3 * value,
    }
    audited = {"epsilon": epsilon, "epsilon_audit": value, "audit_verdict": verdict}
    return {
        "privacy.name": "global_dp",
        "privacy.noise_multiplier": 1.0,
        "seed": seed,
        **audited,
        **ends,
    }


def marked(ax: Axes, color: str | None = None) -> set[tuple[float, float]]:
    """The single marks of a panel, without the ends of bars, which are as small as bars are
    wide.
    """
    lines = [
        line
        for line in ax.lines
        if len(line.get_xdata()) == 1 and color in (None, line.get_color())
    ]
    return {
        (round(x, 3), round(y, 3))
        for x, y in pairs(line for line in lines if line.get_markersize() > 4)
    }


def test_a_run_is_where_its_claim_and_its_audit_put_it() -> None:
    """With the diagonal, the certified bound below it, a ring around what is refuted, and zero
    on the axis.
    """
    one = audit(
        arranged(
            [
                claimed(4.4, 4.2),
                claimed(2.0, 30.0, 1, "refuted"),
                claimed(4.4, 0.0, 2),
                claimed(None, 5e3),
            ]
        )
    )
    assert one is not None and unreadable(one) == ([], [])
    (ax,) = one.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("symlog", "symlog")
    expected = {(4.4, 4.2), (4.4, 1.26), (2.0, 30.0), (2.0, 9.0), (4.4, 0.0)}
    assert marked(ax) == expected  # not the run that claims nothing
    assert {y for _, y in marked(ax, RED)} == {30.0}
    assert {"0", "1", "10", "20"} <= {label.get_text() for label in ax.get_yticklabels()}
    stands = audit(arranged([claimed(4.4, 4.2, seed) for seed in range(3)]))
    assert stands is not None and "refuted" not in texts(stands)


def test_without_a_claim_or_an_audit_there_is_no_figure() -> None:
    assert (
        audit(arranged([{"privacy.name": "none", "epsilon_audit": 5000.0, "accuracy": 0.9}]))
        is None
    )
    assert audit(arranged([{"privacy.name": "global_dp", "epsilon": 5.0, "accuracy": 0.9}])) is None
    assert (
        audit(
            arranged([{"training.name": "dp_sgd", "epsilon_example": 5.0, "epsilon_audit": 900.0}])
        )
        is None
    )
