"""ROC curves of the attacks, and exposure by client, from numbers known beforehand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from orchestrator.report.figures.arrangement import Arrangement
from orchestrator.report.figures.attacks import step
from orchestrator.report.figures.catalog import catalog
from orchestrator.report.vocabulary import GROUP_COLORS
from tests.support.arranged import arranged, figure, read
from tests.support.figure_texts import texts
from tests.support.synthetic_membership import PLAIN, write_alone, write_grouped
from tests.support.synthetic_results import write_sweep


def dashed(ax: Axes, style: str = "--") -> list[float]:
    return [float(np.asarray(line.get_ydata())[0]) for line in ax.lines if line.get_linestyle() == style]


def planted_scores(folder: Path, tables: list[pd.DataFrame]) -> Arrangement:
    sweep = {"seed": list(range(len(tables)))}
    left = iter(tables)
    return read(write_alone(folder, sweep | {"privacy.name": ["none"]}, tables=lambda *_: {"scores": next(left)}))


def scores(members: list[float], others: list[float], **given: Any) -> pd.DataFrame:
    flags = [True] * len(members) + [False] * len(others)
    table = {"attack": "gap", "round": 3, "target": "global", "client": 0, "member": flags, "score": members + others}
    return pd.DataFrame(table | given)


def attack_curves(ax: Axes) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.asarray(a), np.asarray(b)) for a, b in (line.get_data() for line in ax.lines) if len(a) > 2]


def test_the_attacks_curve_is_that_of_its_scores_from_one_false_alarm_on(tmp_path: Path) -> None:
    # With 0, 1, 2, 3, 4 false alarms among 4 non-members: 2, 3, 4, 4, 4 of 4 members.
    table = scores([4.0, 3.0, 2.0, 0.5], [2.5, 1.0, 0.2, 0.1])
    (ax,) = figure("attack_roc", planted_scores(tmp_path / "s", [table])).axes
    ((false, true),) = attack_curves(ax)
    assert false.min() == pytest.approx(0.25)  # four non-members
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert true[0] == pytest.approx(0.75)
    assert np.unique(true[false < 0.49]).tolist() == [0.75]
    assert np.unique(true[false > 0.5]).tolist() == [1.0]
    assert "0.812" in [text.get_text() for text in ax.texts]  # 13 of 16 pairs
    guess = next(line for line in ax.lines if line.get_linestyle() == "--")
    assert np.asarray(guess.get_xdata()).tolist() == np.asarray(guess.get_ydata()).tolist()


def test_only_the_last_round_counts_and_clients_that_left_do_not(tmp_path: Path) -> None:
    found = scores([2.0, 2.0], [1.0, 1.0])
    missed = scores([1.0, 1.0], [2.0, 2.0])
    table = pd.concat([missed.assign(round=1, left=False), found.assign(left=False), missed.assign(left=True)[:2]])
    (ax,) = figure("attack_roc", planted_scores(tmp_path / "s", [table])).axes
    assert [text.get_text() for text in ax.texts] == ["1.000"]


def test_attacks_that_are_made_in_different_rounds_have_a_curve_each(tmp_path: Path) -> None:
    found = scores([2.0, 2.0], [1.0, 1.0])
    table = pd.concat([found, found.assign(attack="maximum", round=9), found.assign(round=2, target="of_old")])
    (ax,) = figure("attack_roc", planted_scores(tmp_path / "s", [table])).axes
    assert len(attack_curves(ax)) == 2


def test_an_attack_that_says_yes_or_no_is_seen_at_its_only_threshold(tmp_path: Path) -> None:
    found = scores([1.0, 1.0, 1.0, 0.0], [1.0, 0.0])
    one = figure(
        "attack_roc",
        planted_scores(tmp_path / "s", [pd.concat([found, scores([3.0, 2.0], [1.0], attack="shadow_mia")])]),
    )
    marks = [line.get_data() for line in one.axes[0].lines if line.get_marker() == "D"]
    assert [(float(x[0]), float(y[0])) for x, y in marks] == [(0.5, 0.75)]
    named = {line.get_label(): line.get_marker() for line in one.legends[0].get_lines()}
    assert named["gap"] == "D" and named["shadow mia"] != "D"


def test_curves_of_seeds_are_averaged_where_all_of_them_can_be_drawn(tmp_path: Path) -> None:
    tables = [scores([2.0, 2.0], [1.0] * 10), scores([1.0, 1.0], [2.0] * 5)]
    (ax,) = figure("attack_roc", planted_scores(tmp_path / "s", tables)).axes
    ((false, true),) = attack_curves(ax)
    assert false.min() == pytest.approx(1 / 5)
    assert (true[0], true[-1]) == (pytest.approx(0.5), 1)


def test_an_attack_on_replicas_has_a_panel_for_them_and_a_curve_beside_the_other_attacks(tmp_path: Path) -> None:
    halves = {"attack": "calibrated_mia"}
    found, missed = scores([2.0, 2.0], [1.0] * 10, **halves), scores([1.0, 1.0], [2.0] * 10, **halves)
    of_run = scores([2.0, 0.5], [1.0] * 10, **halves).assign(target="run")
    replicas = [one.assign(target=f"replica {k}") for k, one in enumerate((found, missed))]
    table = pd.concat([scores([2.0, 2.0], [1.0] * 10), of_run, *replicas])
    own, pooled = figure("attack_roc", planted_scores(tmp_path / "s", [table])).axes
    assert len(attack_curves(own)) == 2 and "replicas" in pooled.get_title()
    ((false, true),) = attack_curves(pooled)
    assert (false.min(), true[0], true[-1]) == (pytest.approx(0.1), pytest.approx(0.5), 1)  # of one all, of one nobody


@pytest.mark.parametrize(("clusters", "several"), [(1, False), (2, True)])
def test_the_run_is_a_model_if_it_has_one_only(tmp_path: Path, clusters: int, several: bool) -> None:
    of_run = scores([2.0, 0.5], [1.0] * 10, attack="calibrated_mia").assign(target="run")  # no other attack left scores
    sweep = {"seed": [0], "privacy.name": ["none"]}
    config = {"rounds": 10, "data": {"clients": 12}, "clustering": {"name": "ifca", "clusters": clusters}}
    arr = read(write_alone(tmp_path / "s", sweep, tables=lambda *_: {"scores": of_run}, config=config))
    (ax,) = figure("attack_roc", arr).axes
    assert ("all models" in ax.get_title()) == several


def test_an_attack_that_cannot_be_judged_has_no_curve(tmp_path: Path) -> None:
    for i, table in enumerate((scores([1.0], []), scores([float("nan")], [1.0]), scores([1.0], [0.0])[:0])):
        assert catalog()["attack_roc"](planted_scores(tmp_path / str(i), [table])) is None


def test_every_model_and_setting_has_a_panel_and_every_attack_a_color(grouped: Arrangement) -> None:
    one = figure("attack_roc", grouped)
    assert len(one.axes) == 8
    titles = [" ".join(ax.get_title().split()) for ax in one.axes]
    assert titles[0] == "IFCA, minority ratio 0.1, majority model"
    assert titles[-1] == "IFCA-MIR, minority ratio 0.3, minority model"
    for ax in one.axes:
        assert len(attack_curves(ax)) == 4
        assert len({line.get_color() for line in ax.lines if line.get_linestyle() == "-"}) == 4
    assert "the attack behind the published risk" in texts(one)


def test_a_step_is_never_interpolated() -> None:
    false, true = np.array([0.0, 0.25, 0.5, 1.0]), np.array([0.1, 0.4, 0.6, 1.0])
    assert step(false, true, np.array([0.0, 0.2, 0.25, 0.49, 0.5, 1.0])).tolist() == [0.1, 0.1, 0.4, 0.4, 0.6, 1.0]


def test_clients_are_colored_by_group_and_averaged_by_rank_in_it(grouped: Arrangement) -> None:
    one = figure("clients_exposed_risk", grouped)
    ax = one.axes[0]
    assert [text.get_title() for text in one.axes][:2] == ["IFCA, minority ratio 0.1", "IFCA-MIR, minority ratio 0.1"]
    cell = grouped.cell((), (0.1,), "ifca")
    for group, bars in zip(("majority", "minority"), ax.containers, strict=True):
        ranked = []
        for trial in cell:
            table = pd.read_parquet(grouped.results.folder / "trials" / trial["id"] / "clients.parquet")
            own = table[(table["round"] == 12) & (table["group"] == group)]
            ranked.append(np.sort(own["risk"])[::-1])
        assert np.asarray(bars[0].get_ydata()) == pytest.approx(np.mean(ranked, axis=0))
        assert to_hex(bars[0].get_color()).upper() == GROUP_COLORS[group]
    assert dashed(ax) == [0.5]
    assert dashed(ax, ":") == [pytest.approx(np.mean([trial["risk_worst_client_null"] for trial in cell]))]
    assert "most exposed of equally exposed clients, by chance" in texts(one)


def test_one_group_has_the_methods_color_and_few_clients_no_numbers_if_dealt_anew(alone: Arrangement) -> None:
    one = figure("clients_exposed_risk", alone)
    for ax, kind in zip(one.axes, PLAIN["privacy.name"], strict=True):
        (bars,) = ax.containers
        assert to_hex(bars[0].get_color()).upper() == alone.palette[kind].upper()
        assert ax.get_xticks().tolist() == []
    assert "minority" not in texts(one)


def test_a_group_that_is_smaller_in_one_seed_is_averaged_over_the_others(tmp_path: Path) -> None:
    def tables(trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator) -> dict:
        small = 1 if trial["seed"] == 0 else 2
        groups = ["minority"] * small + ["majority"] * 3
        risk = [0.9, 0.8][:small] + [0.5] * 3
        return {"clients": pd.DataFrame({"round": 1, "client": range(len(risk)), "group": groups, "risk": risk})}

    arr = read(write_grouped(tmp_path / "s", {"seed": [0, 1, 2]}, tables=tables))
    majority, minority = figure("clients_exposed_risk", arr).axes[0].containers
    assert np.asarray(majority[0].get_ydata()) == pytest.approx([0.5] * 3)
    assert np.asarray(minority[0].get_ydata()) == pytest.approx([0.9, 0.8])


def test_a_group_none_of_whose_clients_could_be_attacked_in_a_seed_is_still_a_group(tmp_path: Path) -> None:
    def tables(trial: Mapping[str, Any], final: Mapping[str, float], rng: np.random.Generator) -> dict:
        groups, risk = ["minority"] * 2 + ["majority"] * 3, [0.9, 0.8] + [0.5] * 3
        risk = [np.nan] * 2 + risk[2:] if trial["seed"] == 0 else risk
        return {"clients": pd.DataFrame({"round": 1, "client": range(len(risk)), "group": groups, "risk": risk})}

    arr = read(write_grouped(tmp_path / "s", {"seed": [0, 1, 2]}, tables=tables))
    majority, minority = figure("clients_exposed_risk", arr).axes[0].containers
    assert np.asarray(majority[0].get_ydata()) == pytest.approx([0.5] * 3)
    assert np.asarray(minority[0].get_ydata()) == pytest.approx([0.9, 0.8])


def test_client_inference_is_by_target_if_the_sweep_attacks_several(tmp_path: Path) -> None:
    def metrics(trial: Mapping[str, Any], rng: np.random.Generator) -> dict[str, float]:
        auc = {0: 0.02, 1: 0.6, 2: 0.9}[trial["attacks.0.target"]]
        return {"accuracy": 0.9, "cia_auc": auc, "cia_auc_low": auc - 0.05, "cia_auc_high": auc + 0.05}

    config = {"rounds": 3, "data": {"clients": 3}, "attacks": [{"name": "cia"}]}
    sweep = {"attacks.0.target": [0, 1, 2], "seed": [7]}
    arr = read(write_sweep(tmp_path / "s", sweep, metrics=metrics, tables=lambda *_: {}, config=config))
    (ax,) = figure("clients_exposed_cia_auc", arr).axes
    (bars,) = ax.containers
    assert np.asarray(bars[0].get_ydata()) == pytest.approx([0.02, 0.9, 0.6])  # decided the other way round, 0.98
    assert bars[2][0].get_segments()[1][:, 1] == pytest.approx([0.85, 0.95])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "2", "1"]


def test_clients_without_an_attack_have_no_such_figure() -> None:
    arr = arranged([{"accuracy": 0.9, "cia_auc": 0.7}])
    assert [name for name in catalog() if name.startswith("clients_exposed") and catalog()[name](arr)] == []
