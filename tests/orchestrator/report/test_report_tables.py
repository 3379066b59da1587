"""The tables of a report: means and intervals by hand, what is empty, what is escaped, what did not finish."""

import io
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from orchestrator.report.data import Results, plain, results, rows, sort_key, text
from orchestrator.report.frame import COLUMNS, contrasts, tidy
from orchestrator.report.summary import escape, markdown_table, summary_markdown
from orchestrator.report.terminal import summary_table

SWEPT = ("clustering.name", "data.split.minority_ratio", "seed")


def trial(ident: str, algorithm: str, ratio: float, seed: int, status: str = "finished", **metrics: Any) -> dict:
    names = {"data.name": "mnist", "clustering.name": algorithm, "privacy.name": "none"}
    return {"id": ident, "status": status, **names, "seed": seed, "data.split.minority_ratio": ratio, **metrics}


def found(*trials: dict) -> Results:
    return results(Path("made_up"), rows(trials), SWEPT, {})


def printed(trials: Any, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(summary_table(trials, SWEPT, title="a sweep", width=width))
    return console.export_text()


THREE = [trial(f"t{seed}", "ifca", 0.1, seed, accuracy=value) for seed, value in enumerate((0.7, 0.8, 0.9))]


def test_the_frame_has_a_row_for_each_setting_and_metric_with_its_test() -> None:
    values = {"ifca": (0.7, 0.8, 0.9), "ifca_mir": (0.65, 0.74, 0.86)}
    made = found(
        *(trial(f"{name}{s}", name, 0.1, s, accuracy=v) for name, own in values.items() for s, v in enumerate(own))
    )
    (one,) = contrasts(made)
    frame = tidy(made, [one])
    assert list(frame.columns) == [*made.keys, *COLUMNS]
    baseline, method = (row for _, row in frame.set_index("clustering.name").iterrows())
    assert (baseline["value"], baseline["n"], baseline["high"]) == (pytest.approx(0.8), 3, 1), "no accuracy of 1.05"
    assert baseline["low"] == pytest.approx(0.8 - 0.2484138)
    assert baseline[["p", "p_holm", "chance"]].isna().all()
    assert (method["difference"], method["p"], method["p_holm"]) == (pytest.approx(-0.05), one.p, one.p_holm)


TWO = [
    trial(f"t{seed}", "ifca", 0.1, seed, accuracy=value, violations=count)
    for seed, (value, count) in enumerate(((0.8713, 0.0), (0.9126, 2.0)))
]


def test_two_seeds_make_no_interval_anywhere() -> None:
    """Before, the report printed violations as 1.0 ± 12.7 and an accuracy of up to 1.15."""
    frame = tidy(found(*TWO)).set_index("metric")
    assert frame.loc["violations", ["value", "n"]].tolist() == [1, 2]
    assert frame[["low", "high"]].isna().all(axis=None)
    page = summary_markdown(found(*TWO))
    assert "| 2 | 0.871, 0.913 |" in page
    assert "| 0.0, 2.0 |" in page
    assert "±" not in page.replace("setting ± half", "")
    shown = printed(TWO, 100)
    assert "0.871, 0.913" in shown
    assert "0.0, 2.0" in shown
    assert "±" not in shown
    assert "2 seeds: values or their mean, without an interval" in " ".join(shown.split())


def test_the_deal_and_the_seed_are_repetitions_and_deals_are_the_independent_values() -> None:
    crossed = [
        trial(f"d{partition}s{seed}", "ifca", 0.1, seed, accuracy=0.5 + 0.1 * partition + 0.02 * seed)
        | {"data.split_seed": partition}
        for partition in (1, 2, 3)
        for seed in (0, 1)
    ]
    one = results(Path("made_up"), rows(crossed), (*SWEPT, "data.split_seed"), {})
    assert one.keys == ("clustering.name", "data.split.minority_ratio")
    (setting,) = one.settings
    assert setting.measured("accuracy") == pytest.approx([0.61, 0.71, 0.81])
    assert setting.estimate("accuracy").half == pytest.approx(0.2484138, abs=1e-6), "as with three seeds, not six"
    assert "trials with the same partition are averaged first" in summary_markdown(one)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(summary_table(crossed, SWEPT, width=200))
    assert "mean over 6 runs ± half the width of the 95 % interval; runs on the same partition" in " ".join(
        console.export_text().split()
    )


@pytest.mark.parametrize(
    ("split_seed", "said"), [(None, "Every seed has its own partition"), (42, "fixed (data.split_seed 42)")]
)
def test_the_summary_says_whether_the_deal_varies(split_seed: int | None, said: str) -> None:
    configs = {one["id"]: {"data": {"name": "mnist", "split_seed": split_seed}} for one in THREE}
    page = summary_markdown(results(Path("made_up"), rows(THREE), SWEPT, configs))
    assert said in page
    assert said not in summary_markdown(found(*THREE))


def test_values_by_chance_stand_beside_the_means() -> None:
    counted = [
        trial(
            f"t{s}", "ifca", 0.1, s, accuracy_majority=0.9, violations=n, violations_null=1.4, mia_accuracy_minority=m
        )
        for s, (n, m) in enumerate(((2.0, 0.60), (3.0, 0.61), (4.0, 0.62)))
    ]
    page, shown = summary_markdown(found(*counted)), printed(counted, 120)
    assert "| violations (by chance) (clients) |" in page
    assert "| 3.0 ± 2.5 (1.4) |" in page
    assert "violations null" not in page, "it has no column of its own"
    assert "By chance: 0.5 for MIA accuracy, minority model." in page
    assert "3.0 ±2.5 (1.4)" in shown
    assert "(by chance)" in shown
    assert "by chance: 0.5 for MIA min. model" in shown
    frame = tidy(found(*counted)).set_index("metric")
    assert frame.loc["violations", "chance"] == frame.loc["violations_null", "value"] == pytest.approx(1.4)


def test_settings_with_different_attacks_have_dashes_and_are_told_apart() -> None:
    attacked = [trial(f"a{s}", "ifca", 0.1, s, accuracy=0.9, sia_mean=0.3) | {"attacks": "sia"} for s in range(3)]
    other = [trial(f"b{s}", "ifca_mir", 0.1, s, accuracy=0.9) | {"attacks": "shadow_mia,cia"} for s in range(3)]
    page, shown = summary_markdown(found(*attacked, *other)), " ".join(printed([*attacked, *other], 120).split())
    assert "| IFCA-MIR | 0.1 | 3 | – |" in page
    assert re.search(r"sia by the server, .* \(clustering IFCA, minority ratio 0.1\)", shown)


def test_a_reader_is_told_which_adversary_a_number_belongs_to() -> None:
    """One line for all settings if they have the same attacks; otherwise each is said with its settings."""
    both = [trial(f"a{s}", "ifca", 0.1, s, accuracy=0.9) | {"attacks": "sia,shadow_mia,client_mia"} for s in range(3)]
    other = [trial(f"b{s}", "ifca_mir", 0.1, s, accuracy=0.9) | {"attacks": "shadow_mia,made_up"} for s in range(3)]
    server = "sia by the server, who sees every client's update"
    line = f"{server}; shadow_mia by anybody who has the models; client_mia by another client, who has all models"
    assert f"attackers: {line}" in " ".join(printed(both, 120).split())
    assert f"Attackers: {line}." in summary_markdown(found(*both)).replace("\\", "")
    shown = " ".join(printed([*both, *other], 120).split())
    assert "shadow_mia by anybody who has the models (clustering IFCA-MIR, minority ratio 0.1)" in shown
    assert "another client, who has all models (clustering IFCA, minority ratio 0.1)" in shown
    assert "attackers" not in printed([one | {"attacks": ""} for one in both], 120)


def test_the_order_of_the_trials_does_not_change_a_byte() -> None:
    shuffled = [THREE[i] for i in (2, 0, 1)]
    assert tidy(found(*shuffled)).equals(tidy(found(*THREE)))
    assert summary_markdown(found(*shuffled)) == summary_markdown(found(*THREE))


def test_a_family_of_many_metrics_has_several_tables() -> None:
    names = [f"calibrated_{name}_auc" for name in "abcdefghij"]
    page = summary_markdown(found(*(trial(f"t{i}", "ifca", i / 10, 0, **dict.fromkeys(names, 0.7)) for i in range(9))))
    assert max(line.count("|") for line in page.splitlines()) <= 12
    assert all(name.replace("_", " ") in page.replace("_", " ") for name in names)


def test_summary_markdown_counts_and_lists_what_did_not_finish() -> None:
    lost = trial("bad", "ifca", 0.1, 9, "failed", accuracy=None, reason="worker | died")
    page = summary_markdown(found(*THREE, lost))
    assert "4 trials: 3 finished, 1 failed." in page
    assert "| IFCA | 0.1 | 3 of 4 | 0.800 (0.552 to 1.000) |" in page
    assert r"| bad | failed | IFCA | 0.1 | 9 | worker \| died |" in page
    assert "All trials have: dataset MNIST, privacy none." in page


def test_a_metric_that_some_seeds_lack_says_so() -> None:
    page = summary_markdown(found(*THREE, trial("t3", "ifca", 0.1, 3, accuracy=None)))
    assert "0.800 (0.552 to 1.000) (3 of 4 seeds)" in page


def test_an_unknown_metric_is_reported_under_its_own_name() -> None:
    page = summary_markdown(found(trial("t", "ifca", 0.1, 0, surprise_level=1.5, note="text is no metric")))
    assert "## Other" in page
    assert "| surprise level |" in page
    assert "no metric" not in page


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


def test_a_markdown_table_has_as_many_cells_in_every_line() -> None:
    lines = markdown_table(["key", "a|b"], [["x", ""], ["y|z", "1"]], numbers=1).splitlines()
    assert lines[1] == "| --- | ---: |"
    assert {line.replace(r"\|", "").count("|") for line in lines} == {3}


def test_values_are_printed_in_their_shortest_spelling() -> None:
    assert [text(v) for v in (None, float("nan"), 0.1 + 0.2, 5.0, True, [0, 25.0], {"b": 1, "a": None})] == [
        "",
        "",
        "0.3",
        "5",
        "true",
        "[0, 25]",
        '{"a": null, "b": 1}',
    ]
    assert plain("[0, 25]") == [0, 25]
    assert plain("[Errno 2] gone") == "[Errno 2] gone"
    assert sorted(["b", 10, None, "none", 9, [0, 5]], key=sort_key) == [None, 9, 10, [0, 5], "none", "b"]


GROUPED: dict[str, Any] = {
    "accuracy": 0.9,
    "accuracy_majority": 0.95,
    "accuracy_minority": 0.85,
    "mia_accuracy_majority": 0.51,
    "mia_accuracy_minority": 0.75,
    "violations": 6.0,
    "violations_majority": 2.0,
    "violations_minority": 4.0,
    "migrated": 3.0,
    "purity": 0.9,
    "seconds_per_round": 1.25,
}


def grouped(seeds: int = 3, **changes: Any) -> list[dict]:
    return [
        trial(f"{name}{seed}", name, 0.1, seed, **{k: v + 0.01 * seed for k, v in GROUPED.items()}, **changes)
        for name in ("ifca", "ifca_mir")
        for seed in range(seeds)
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_terminal_table_keeps_within_the_width(width: int) -> None:
    page = printed(grouped(), width)
    assert max(map(len, page.splitlines())) <= width
    assert "…" not in page
    assert "0.960 ±.025" in page if width == 200 else "0.960" in page


def test_columns_that_do_not_fit_are_named() -> None:
    page = " ".join(printed(grouped(), 80).split())
    assert "in the report but too wide for this terminal: " in page
    assert "not shown" not in printed(grouped(), 200)


def test_the_terminal_table_takes_a_data_frame_too() -> None:
    assert printed(pd.DataFrame(grouped()), 100) == printed(grouped(), 100)


def test_only_measured_columns_appear() -> None:
    finp = [trial("f", "none", 0.1, 0, accuracy=0.7, sia_mean=0.3, eod=0.55, purity=None)]
    page = printed(finp, 100)
    assert "EOD" in page
    assert "purity" not in page
    assert "accuracy" in page
    assert "1 seed: values or their mean" in page


def test_a_setting_without_a_result_has_dashes_and_the_reason() -> None:
    lost = [trial(f"x{seed}", "none", 0.1, seed, status) for seed, status in enumerate(("diverged", "failed"))]
    line = next(line for line in printed([*grouped(), *lost], 100).splitlines() if line.startswith("no clustering"))
    assert line.split()[-3:] == ["–", "1", "diverged"]
    assert not any("0" in word for word in line.split()[3:])
    assert "no trial has finished" in printed(lost, 100)


def test_brackets_in_values_are_no_markup() -> None:
    page = printed([trial("t", "[red]", 0.1, 0, accuracy=0.5)], 100)
    assert "[red]" in page
