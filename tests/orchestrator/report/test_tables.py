"""The tables of a report: means and intervals by hand, what is empty, what is escaped, what did
not finish, what fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from orchestrator.report.data import Results, plain, read_results, results, rows, sort_key, text
from orchestrator.report.figures.arrangement import arrange
from orchestrator.report.figures.curves import by_round
from orchestrator.report.frame import COLUMNS, contrasts, tidy
from orchestrator.report.markdown import escape, markdown_table
from orchestrator.report.sentences import limits
from orchestrator.report.summary import attacks_markdown, summary_markdown
from tests.support.arranged import printed
from tests.support.synthetic_results import seal, write_alone, write_finp

SWEPT = ("clustering.name", "data.split.minority_ratio", "seed")


def trial(
    ident: str, algorithm: str, ratio: float, seed: int, status: str = "finished", **metrics: Any
) -> dict:
    names = {"data.name": "mnist", "clustering.name": algorithm, "privacy.name": "none"}
    return {
        "id": ident,
        "status": status,
        **names,
        "seed": seed,
        "data.split.minority_ratio": ratio,
        **metrics,
    }


def seeds(name: str, *values: float, metric: str = "accuracy", **more: Any) -> list[dict]:
    return [trial(f"{name}{s}", name, 0.1, s, **{metric: v}, **more) for s, v in enumerate(values)]


def read(trials: Sequence[dict], swept: Sequence[str] = SWEPT, configs: Any = None) -> Results:
    return results(Path("made_up"), rows(trials), swept, configs or {})


def summary(trials: Sequence[dict], **given: Any) -> str:
    return summary_markdown(read(trials, **given))


def flat(page: str) -> str:
    return " ".join(page.split())


THREE = seeds("ifca", 0.7, 0.8, 0.9)


# Means and their intervals


def test_the_frame_has_a_row_for_each_setting_and_metric_with_its_test() -> None:
    made = read([*THREE, *seeds("ifca_mir", 0.65, 0.74, 0.86)])
    (one,) = contrasts(made)
    frame = tidy(made, [one])
    assert list(frame.columns) == [*made.keys, *COLUMNS]
    baseline, method = (row for _, row in frame.set_index("clustering.name").iterrows())
    assert (baseline["value"], baseline["n"], baseline["high"]) == (pytest.approx(0.8), 3, 1), (
        "no accuracy of 1.05"
    )
    assert baseline["low"] == pytest.approx(0.8 - 0.2484138)
    assert baseline[["p", "p_holm", "chance"]].isna().all()
    assert (method["difference"], method["p"], method["p_holm"]) == (
        pytest.approx(-0.05),
        one.p,
        one.p_holm,
    )


def test_two_seeds_make_no_interval_anywhere() -> None:
    """Before, the report printed violations as 1.0 ± 12.7 and an accuracy of up to 1.15."""
    two = [
        trial(f"t{s}", "ifca", 0.1, s, accuracy=a, violations=v)
        for s, (a, v) in enumerate(((0.8713, 0), (0.9126, 2)))
    ]
    frame = tidy(read(two)).set_index("metric")
    assert frame.loc["violations", ["value", "n"]].tolist() == [1, 2]
    assert frame[["low", "high"]].isna().all(axis=None)
    page, shown = summary(two), printed(read(two), 100)
    assert (
        "| 2 | 0.871, 0.913 |" in page
        and "| 0.0, 2.0 |" in page
        and "0.871, 0.913" in shown
        and "0.0, 2.0" in shown
    )
    assert "±" not in page.replace("setting ± half", "") + shown


@pytest.mark.parametrize(
    "number", ["epsilon_audit_cluster_1", "mia_accuracy_model_1", "clients_other_2"]
)
def test_the_second_model_of_one_seed_is_not_that_of_another(number: str) -> None:
    """A model's number is an accident of its initialization, so a mean by number over seeds says
    nothing.
    """
    several = [row | {number: 0.5 + row["seed"]} for row in THREE]
    assert number not in read(several).metrics and number in read(several[:1]).metrics
    assert number in several[0] and read(several).trials[2][number] == 2.5, "each trial keeps it"


def test_attacks_on_models_by_number_are_averaged_within_a_seed_first(tmp_path: Path) -> None:
    folder = write_alone(tmp_path / "models", {"privacy.name": ["none"], "seed": [0, 1, 2]})
    aucs = {0: (0.5, 0.9), 1: (0.8, 0.4), 2: (0.6, 0.8)}  # means 0.7, 0.6, 0.7
    for one in read_results(folder).trials:
        place = {"attack": "loss_threshold", "round": 9, "metric": "auc"}
        table = [
            place | {"target": f"model_{j}", "value": value}
            for j, value in enumerate(aucs[one["seed"]])
        ]
        pd.DataFrame(table).to_parquet(folder / "trials" / one["id"] / "attacks.parquet")
        seal(folder / "trials" / one["id"], None)
    (line,) = [
        line for line in attacks_markdown(read_results(folder)).splitlines() if "loss" in line
    ]
    assert "each model" in line and f"{2 / 3:.3f} ± 0.143" in line


@pytest.mark.parametrize(
    ("split_seed", "said"), [(None, "Every seed has its own partition"), (42, "data.split_seed 42")]
)
def test_the_summary_says_whether_the_deal_varies(split_seed: int | None, said: str) -> None:
    configs = {one["id"]: {"data": {"name": "mnist", "split_seed": split_seed}} for one in THREE}
    assert said in summary(THREE, configs=configs) and said not in summary(THREE)


def test_the_deal_and_the_seed_are_repetitions_and_deals_are_the_independent_values() -> None:
    crossed = [
        trial(f"d{d}s{s}", "ifca", 0.1, s, accuracy=0.5 + 0.1 * d + 0.02 * s, epsilon=d + 2.0 * s)
        | {"data.split_seed": d}
        for d in (1, 2, 3)
        for s in (0, 1)
    ]
    one = read(crossed, (*SWEPT, "data.split_seed"))
    (setting,) = one.settings
    assert one.keys == ("clustering.name", "data.split.minority_ratio")
    assert setting.measured("accuracy") == pytest.approx([0.61, 0.71, 0.81])
    assert setting.estimate("accuracy").half == pytest.approx(0.2484138, abs=1e-6), (
        "as with three seeds, not six"
    )
    assert setting.estimate("epsilon").values == (1, 3, 2, 4, 3, 5), (
        "of claims, which hold for each trial, none is averaged"
    )
    assert "trials with the same partition are averaged first" in summary_markdown(one)
    assert "mean over 3 independent runs" in flat(printed(read(crossed), 200))
    assert "1 of 1 settings have fewer than 3 independent runs, so no interval." in limits(
        read(crossed[:4])
    )
    vars(one)["rounds"] = {t["id"]: [{"round": 0, "accuracy": t["accuracy"]}] for t in one.trials}
    (point,) = by_round(
        arrange(one) or pytest.fail("nothing to draw"), setting, "accuracy"
    ).values()
    assert point == setting.estimate("accuracy"), "a band over rounds is that of the last"


def test_values_by_chance_stand_beside_the_means() -> None:
    counted = [
        trial(
            f"t{s}",
            "ifca",
            0.1,
            s,
            accuracy_majority=0.9,
            violations=n,
            violations_null=1.4,
            calibrated_auc=0.6,
        )
        for s, n in enumerate((2.0, 3.0, 4.0))
    ]
    page, shown = summary(counted), printed(read(counted), 120)
    assert "| violations (by chance) (clients) |" in page
    assert "| 3.0 ± 2.5 (1.4) |" in page and "3.0 ±2.5 (1.4)" in shown
    assert "violations null" not in page, "it has no column of its own"
    assert (
        "By chance: 0.5 for calibrated attack, AUC." in page
        and "by chance: 0.5 for AUC calibrated" in shown
    )
    frame = tidy(read(counted)).set_index("metric")
    assert (
        frame.loc["violations", "chance"]
        == frame.loc["violations_null", "value"]
        == pytest.approx(1.4)
    )


def test_a_reader_is_told_which_adversary_a_number_belongs_to() -> None:
    """One line for all settings if they have the same attacks; otherwise each is said with its
    settings.
    """
    both = seeds("ifca", 0.9, 0.9, 0.9, attacks="sia,shadow_mia,client_mia")
    other = seeds("ifca_mir", 0.9, 0.9, 0.9, attacks="shadow_mia,made_up")
    server = "sia by the server, who sees every client's update"
    line = (
        f"{server}; shadow_mia by anybody who has the models; client_mia by another client, who "
        "has all models"
    )
    assert f"attackers: {line}" in flat(
        printed(read(both), 120)
    ) and f"Attackers: {line}." in summary(both).replace("\\", "")
    shown = flat(printed(read([*both, *other]), 120))
    assert (
        "shadow_mia by anybody who has the models (clustering IFCA-MIR, minority ratio 0.1)"
        in shown
    )
    assert "another client, who has all models (clustering IFCA, minority ratio 0.1)" in shown
    assert "attackers" not in printed(read([one | {"attacks": ""} for one in both]), 120)


# What is empty, unknown, lost, or has to be escaped


def test_what_is_missing_is_a_dash_a_count_or_a_line_of_its_own() -> None:
    lost = trial("bad", "ifca", 0.1, 9, "failed", accuracy=None, reason="worker | died")
    page = summary([*THREE, lost])
    assert (
        "4 trials: 3 finished, 1 failed." in page
        and "All trials have: dataset MNIST, privacy none." in page
    )
    assert "| IFCA | 0.1 | 3 of 4 | 0.800 (0.552 to 1.000) |" in page
    assert r"| bad | failed | IFCA | 0.1 | 9 | worker \| died |" in page
    lacking = trial("t3", "ifca", 0.1, 3, accuracy=None)
    assert "0.800 (0.552 to 1.000) (3 of 4 seeds)" in summary([*THREE, lacking])
    assert "| IFCA-MIR | 0.1 | 3 | – |" in summary(
        [*seeds("ifca", 0.3, 0.3, metric="sia_mean"), *seeds("ifca_mir", 1, 1, 1)]
    )
    page = summary([trial("t", "ifca", 0.1, 0, surprise_level=1.5, note="text is no metric")])
    assert "## Other" in page and "| surprise level |" in page and "no metric" not in page


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a|b", r"a\|b"),
        ("two\nlines", "two lines"),
        ("*bold* _it_", r"\*bold\* \_it\_"),
        ("minority_ratio", "minority_ratio"),
        ("<b>&amp;`x`[y](z)", r"\<b\>\&amp;\`x\`\[y\](z)"),
        ("back\\slash", r"back\\slash"),
    ],
)
def test_markdown_shows_text_as_it_is(raw: str, shown: str) -> None:
    assert escape(raw) == shown
    lines = markdown_table(["key", "a|b"], [["x", ""], [raw, "1"]], numbers=1).splitlines()
    assert lines[1] == "| --- | ---: |" and {
        line.replace(r"\|", "").count("|") for line in lines
    } == {3}


def test_values_are_printed_in_their_shortest_spelling() -> None:
    values = (None, float("nan"), 0.1 + 0.2, 5.0, True, [0, 25.0], {"b": 1, "a": None})
    assert list(map(text, values)) == ["", "", "0.3", "5", "true", "[0, 25]", '{"a": null, "b": 1}']
    assert plain("[0, 25]") == [0, 25] and plain("[Errno 2] gone") == "[Errno 2] gone"
    assert sorted(["b", 10, None, "none", 9, [0, 5]], key=sort_key) == [
        None,
        9,
        10,
        [0, 5],
        "none",
        "b",
    ]


# The table on the terminal

GROUPED = {
    "accuracy": 0.9,
    "accuracy_majority": 0.95,
    "accuracy_minority": 0.85,
    "mia_accuracy_majority": 0.51,
}
GROUPED |= {
    "mia_accuracy_minority": 0.75,
    "violations": 6.0,
    "violations_majority": 2.0,
    "violations_minority": 4.0,
}
GROUPED |= {"migrated": 3.0, "purity": 0.9, "seconds_per_round": 1.25}


def grouped() -> list[dict]:
    return [
        trial(
            f"{name}{seed}",
            name,
            0.1,
            seed,
            **{key: value + 0.01 * seed for key, value in GROUPED.items()},
        )
        for name in ("ifca", "ifca_mir")
        for seed in range(3)
    ]


@pytest.fixture(scope="module")
def finp(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_results(write_finp(tmp_path_factory.mktemp("r") / "finp"))


def head(page: str) -> str:
    """The headings, column by column."""
    lines = page.splitlines()
    return flat(
        " ".join(lines[1 : next(i for i, line in enumerate(lines) if line.startswith("──"))])
    )


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_terminal_table_keeps_within_the_width_and_names_what_does_not_fit(width: int) -> None:
    page = printed(read(grouped()), width)
    assert max(map(len, page.splitlines())) <= width and "…" not in page
    assert ("0.960 ±.025" if width == 200 else "0.960") in page
    named = "in the report but too wide for this terminal: " in flat(page)
    assert named or width > 80
    assert not named or width < 200


def test_only_measured_columns_appear_and_a_setting_without_a_result_has_dashes_and_the_reason() -> (
    None
):
    page = printed(
        read([trial("f", "none", 0.1, 0, accuracy=0.7, sia_mean=0.3, eod=0.55, purity=None)]), 100
    )
    assert (
        "EOD" in page
        and "purity" not in page
        and "accuracy" in page
        and "1 seed: values or their mean" in page
    )
    lost = [
        trial(f"x{seed}", "none", 0.1, seed, status)
        for seed, status in enumerate(("diverged", "failed"))
    ]
    line = next(
        line
        for line in printed(read([*grouped(), *lost]), 100).splitlines()
        if line.startswith("no clustering")
    )
    assert line.split()[-3:] == ["–", "1", "diverged"] and not any(
        "0" in word for word in line.split()[3:]
    )
    assert "no trial has finished" in printed(read(lost), 100)
    assert "[red]" in printed(read([trial("t", "[red]", 0.1, 0, accuracy=0.5)]), 100), (
        "brackets are no markup"
    )


@pytest.mark.parametrize("width", [80, 200])
def test_two_values_of_three_seeds_are_no_mean_above_its_half_width(width: int) -> None:
    """Stacked without a comma, the second of two values stood where the other settings have half
    a width.
    """
    gaps = [
        one | {"mia_accuracy_minority": value}
        for one, value in zip(grouped(), (None, 0.602, 0.626), strict=False)
    ]
    cells = flat(
        " ".join(
            re.findall(
                r"0\.602,|0\.626|\(2 of 3|seeds\)", printed(read([*gaps, *grouped()[3:]]), width)
            )
        )
    )
    assert cells == "0.602, 0.626 (2 of 3 seeds)"


def test_six_methods_of_finp_stand_in_six_lines_of_a_hundred_columns(finp: Results) -> None:
    page = printed(read(finp.trials, finp.keys), 100)
    assert max(map(len, page.splitlines())) <= 100
    counted = {
        word: head(page).count(word) for word in ("accuracy", "SIA", "CoV", "FI", "EOD", "loss")
    }
    assert counted == {"accuracy": 1, "SIA": 4, "CoV": 2, "FI": 1, "EOD": 1, "loss": 1}
    body = [line for line in page.splitlines() if re.match(r"(plain|FinP) .*\d\.\d", line)]
    assert len(body) == 6 and all("±" in line for line in body)
    assert "SIA: accuracy of source inference" in flat(page) and re.search(
        r"by chance: .* for EOD", flat(page)
    )
    assert (
        "too wide for this terminal: loss FI, rho reliability, converged in round, seconds / round"
        in flat(page)
    )
    assert "0.115 for EOD" in summary_markdown(finp) and "EOD by chance" not in summary_markdown(
        finp
    )


# The table of attacks


def attack_lines(
    folder: Path, *tables: list[tuple[str, int, str, str, float]], **given: Any
) -> list[str]:
    """The lines of the table; a run for each table of attack, round, target, metric, value."""
    columns = ["attack", "round", "target", "metric", "value"]
    left = iter([pd.DataFrame(table, columns=columns) for table in tables])
    sweep: dict[str, Any] = {"seed": list(range(len(tables))), "privacy.name": ["none"]}
    write_alone(
        folder, sweep, tables=lambda *_: {"attacks": one} if len(one := next(left)) else {}, **given
    )
    return [
        line for line in attacks_markdown(read_results(folder)).splitlines() if line.startswith("|")
    ][2:]


def test_the_last_round_of_every_attack_counts_and_single_clients_and_repeated_rows_do_not(
    tmp_path: Path,
) -> None:
    table = [
        ("loss_threshold", 5, "global", "auc", 0.9),
        ("loss_threshold", 10, "global", "auc", 0.6),
        ("loss_threshold", 10, "global", "balanced_accuracy", 0.55),
        ("gap", 5, "global", "auc", 0.7),
        ("risk", 10, "global", "auc", 0.6),
        ("risk", 10, "global", "is_loss_threshold", 1.0),
        ("fedmia", 10, "clients", "fedmia_loss_auc", 0.71),
        ("fedmia", 10, "client_3", "fedmia_loss_auc", 0.95),
    ]
    assert attack_lines(tmp_path / "s", table) == [
        "| vanilla | loss_threshold | global | auc | 0.600 |",
        "| vanilla | gap | global | auc | 0.700 |",
        "| vanilla | fedmia | clients | fedmia_loss_auc | 0.710 |",
    ]
    assert attack_lines(tmp_path / "none", []) == []


def test_attacks_on_one_partition_are_one_value(tmp_path: Path) -> None:
    left = iter(
        [0.59, 0.61, 0.61, 0.63, 0.63, 0.65]
    )  # two seeds of each of three partitions: 0.60, 0.62, 0.64
    row = {"attack": "calibrated_mia", "round": 10, "target": "base", "metric": "auc"}
    write_alone(
        tmp_path / "s",
        {"data.split_seed": [1, 2, 3], "seed": [0, 1], "privacy.name": ["none"]},
        tables=lambda *_: {"attacks": pd.DataFrame([row | {"value": next(left)}])},
    )
    page = attacks_markdown(read_results(tmp_path / "s"))
    assert (
        "| auc | 0.620 ± 0.050 |" in page
        and "trials with the same partition are averaged first" in page
    )


def test_a_seed_in_which_nobody_uses_a_model_is_left_out_and_the_line_says_so(
    tmp_path: Path,
) -> None:
    def metrics(run: Any, _: Any) -> dict[str, int]:
        return {"clients_minority": 0 if run["seed"] == 2 else 4}

    tables = [[("shadow_mia", 8, "minority", "auc", value)] for value in (0.61, 0.69, 0.48)]
    lines = attack_lines(tmp_path / "s", *tables, metrics=metrics)
    assert lines == ["| vanilla | shadow_mia | minority | auc | 0.610, 0.690 (2 of 3 seeds) |"]
