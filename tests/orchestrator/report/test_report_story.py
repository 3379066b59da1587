"""The sentences of a sweep: each is recomputed from the numbers that were planted, and none says more than they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from orchestrator.report.data import Results, read_results, results, rows
from orchestrator.report.estimate import estimate
from orchestrator.report.headline import headline
from orchestrator.report.story import command, story
from tests.support.synthetic_membership import write_alone, write_grouped

NOISE = (0.00, 0.02, -0.02, 0.01, -0.01)  # of five deals; the same for both methods, so that it cancels in pairs


def planted(**methods: tuple[float, ...]) -> Results:
    """A sweep of clusterings whose attack accuracies on the global model are these, one for each seed."""
    table = [
        {"id": f"{name}{seed}", "status": "finished", "seed": seed, "clustering.name": name}
        | {"accuracy": 0.9 + seed / 100, "mia_accuracy_global": value}
        for name, values in methods.items()
        for seed, value in enumerate(values)
    ]
    return results(Path("made_up"), rows(table), ("clustering.name", "seed"), {})


def around(middle: float, *shifts: float) -> tuple[float, ...]:
    own = shifts or (0.0,) * len(NOISE)
    return tuple(middle + noise + shift for noise, shift in zip(NOISE, own, strict=True))


def test_the_headline_has_the_value_its_interval_chance_and_what_lowers_it() -> None:
    found = headline(planted(ifca=around(0.63), ifca_mir=around(0.55, 0.001, -0.001, 0.002, -0.002, 0.0)))
    mean, half = estimate(around(0.63)).shown(3)
    assert found.startswith("Membership inference on the global model tells training examples with accuracy 0.630 ±")
    assert f"{mean} {half} under IFCA (0.5 by chance)" in found
    assert "; IFCA-MIR lowers it by 0.080 (0.078 to 0.082)." in found


def test_a_method_that_makes_it_worse_is_named_as_that() -> None:
    found = headline(planted(ifca=around(0.55), ifca_mir=around(0.63, 0.001, -0.001, 0.002, -0.002, 0.0)))
    assert "no other method tried here lowers it measurably (one comparison over 5 pairs)" in found
    assert "IFCA-MIR makes it worse by 0.080" in found


def test_a_difference_that_cannot_be_told_from_none_is_not_claimed() -> None:
    found = story(planted(ifca=around(0.63), ifca_mir=around(0.62, 0.04, -0.05, 0.03, -0.02, 0.01)))
    assert found.headline.endswith("no other method tried here lowers it measurably (one comparison over 5 pairs).")
    assert any("show no difference that can be told from none" in line for line in found.findings)
    assert not any("IFCA-MIR against" in line for line in found.findings)


def test_a_planted_difference_is_among_the_findings_with_its_size() -> None:
    results_ = planted(ifca=around(0.63), ifca_mir=around(0.55, 0.001, -0.001, 0.002, -0.002, 0.0))
    accuracy = {"ifca": lambda seed: 0.8, "ifca_mir": lambda seed: 0.7 + (seed - 2) / 1000}
    table = [dict(trial, accuracy=accuracy[trial["clustering.name"]](trial["seed"])) for trial in results_.trials]
    found = story(results(Path("made_up"), table, ("clustering.name", "seed"), {}))
    assert "What IFCA-MIR costs against IFCA: accuracy changes by -0.100 (-0.102 to -0.098, 5 pairs)." in found.findings
    told = [line for line in found.findings if line.startswith("IFCA-MIR against IFCA")]
    assert any("accuracy lower by 0.100 (0.098 to 0.102) (worse); 5 pairs, p < 0.001" in line for line in told)


def test_an_attack_that_only_guesses_is_said_to_guess() -> None:
    found = headline(planted(ifca=around(0.505)))
    assert ", which cannot be told from guessing; no defense was compared with it." in found


def test_what_is_clearly_below_guessing_is_said_to_be_below_it() -> None:
    found = story(planted(ifca=around(0.42), ifca_mir=around(0.505)))
    assert (
        ", which is below guessing: the attack tells them apart, but the wrong way round; no other method"
        in found.headline
    )
    assert "cannot be told from guessing" not in found.headline
    label = "MIA accuracy, global model"
    assert f"In 1 of 2 settings (clustering IFCA-MIR), {label} cannot be told from guessing. " in " ".join(
        found.findings
    )
    assert any(
        line.startswith(f"In 1 of 2 settings (clustering IFCA), {label} is below guessing: ") for line in found.findings
    )


def test_an_advantage_below_chance_is_not_said_to_be_the_wrong_way_round() -> None:
    row = {"status": "finished", "accuracy": 0.9, "cia_advantage": 0.1, "cia_advantage_null": 0.3}
    found = headline(results(Path("made_up"), [row | {"id": str(s), "seed": s} for s in range(3)], ("seed",), {}))
    assert "(0.3 by chance), which is below guessing; " in found


def test_one_or_two_runs_have_no_interval_and_no_verdict() -> None:
    two = headline(planted(ifca=(0.6, 0.7), ifca_mir=(0.5, 0.5)))
    assert "0.600, 0.700 (2 runs, so without an interval)" in two
    assert "with fewer than three pairs of runs it cannot be told whether another method lowers it" in two
    assert "0.600 (one run, so without an interval)" in headline(planted(ifca=(0.6,)))


def test_a_single_run_has_the_interval_over_attacked_examples(tmp_path: Path) -> None:
    folder = write_alone(tmp_path / "one", {"privacy.name": ["none"], "seed": [0]})
    (trial,) = read_results(folder).trials
    row = {"attack": "risk", "round": 9, "target": "global", "metric": "balanced_accuracy"}
    ends = {"value": trial["mia_accuracy_global"], "low": 0.57, "high": 0.66}
    pd.DataFrame([row | ends]).to_parquet(folder / "trials" / trial["id"] / "attacks.parquet")
    assert (
        f"{trial['mia_accuracy_global']:.3f} (0.570 to 0.660 over examples, one run)"
        in story(read_results(folder)).headline
    )


RISK = {"attack": "risk", "round": 9, "target": "global", "metric": "balanced_accuracy", "low": 0.57, "high": 0.66}


@pytest.mark.parametrize(
    "others",
    [
        [RISK | {"attack": "loss_threshold", "low": 0.1, "high": 0.2}],  # the row that counts is the one of the risk
        [RISK | {"low": 0.1, "high": 0.2, "target": "minority"}, RISK | {"low": 0.1, "high": 0.2, "metric": "tpr"}],
        [RISK | {"low": 0.1, "high": 0.2, "round": 4}],
    ],
)
def test_equal_values_of_other_rows_lend_no_interval(tmp_path: Path, others: list[dict[str, Any]]) -> None:
    folder = write_alone(tmp_path / "one", {"privacy.name": ["none"], "seed": [0]})
    (trial,) = read_results(folder).trials

    def told(table: list[dict[str, Any]]) -> str:
        lines = [row | {"value": trial["mia_accuracy_global"]} for row in table]
        pd.DataFrame(lines).to_parquet(folder / "trials" / trial["id"] / "attacks.parquet")
        return headline(read_results(folder))

    assert "(0.570 to 0.660 over examples, one run)" in told([*others, RISK])
    strangers = [row for row in others if row["attack"] == "risk" and row["round"] == 9]
    assert not strangers or "(one run, so without an interval)" in told(strangers)


def test_an_interval_that_two_attacks_give_differently_is_left_out(tmp_path: Path) -> None:
    folder = write_alone(tmp_path / "one", {"privacy.name": ["none"], "seed": [0]})
    (trial,) = read_results(folder).trials
    two = [RISK | {"attack": "a", "value": trial["mia_accuracy_global"]}]
    two += [two[0] | {"attack": "b", "low": 0.5}]
    pd.DataFrame(two).to_parquet(folder / "trials" / trial["id"] / "attacks.parquet")
    assert "(one run, so without an interval)" in headline(read_results(folder))


def test_of_the_worst_of_several_models_the_mean_is_taken(tmp_path: Path) -> None:
    table: list[dict[str, Any]] = [
        {
            "id": str(s),
            "status": "finished",
            "seed": s,
            "accuracy": 0.9,
            "mia_accuracy_worst": 0.8,
            "mia_accuracy": m,
        }
        for s, m in enumerate((0.6, 0.61, 0.62))
    ]
    found = headline(results(tmp_path, table, ("seed",), {}))
    assert "in the mean over models, with accuracy 0.610" in found and "0.8" not in found


def test_groups_are_stated_for_the_baseline_in_each_setting(tmp_path: Path) -> None:
    found = story(read_results(write_grouped(tmp_path / "grouped")))
    setting = read_results(tmp_path / "grouped").settings[0]
    assert " ".join(setting.estimate("risk_minority").shown(3)) + " (minority ratio 0.1) and " in found.headline
    assert " under IFCA (0.5 by chance)" in found.headline
    assert (
        found.question == "How do clustering and minority ratio change accuracy and the risk of membership inference?"
    )
    assert any("by chance alone the largest of so many is 0.6" in line for line in found.findings)
    assert "Not measured: source inference, client inference." in found.limits


def test_without_an_attack_no_risk_is_stated() -> None:
    table = [
        {"id": str(s), "status": "finished", "seed": s, "accuracy": 0.9, "privacy.name": "global_dp", "epsilon": 3.0}
        for s in range(3)
    ]
    found = story(results(Path("made_up"), rows(table), ("seed",), {}))
    assert found.headline.startswith("No attack was made, so no risk was measured. The epsilon of a client is 3.0")
    assert "The accuracy is 0.900 ± 0.000" in found.headline


@pytest.mark.parametrize(
    ("attacks", "metrics", "sentence"),
    [
        ("cia", {"cia_difference": 0.1}, "An attack was made (cia), but it gives no risk that can be stated. The acc"),
        ("own", {"own_thing": 0.4}, "An attack was made (own), but it gives no risk that can be stated."),
        (
            '[{"name": "cia"}, "sia"]',
            {"sia_mean": float("nan")},
            "Attacks were made (cia, sia), but none gives a risk that can be stated.",
        ),
        (None, {}, "No attack was made, so no risk was measured. The accuracy is 0.900"),
    ],
)
def test_an_attack_without_a_risk_was_made_nevertheless(
    attacks: str | None, metrics: dict[str, float], sentence: str
) -> None:
    table = [
        {"id": str(s), "status": "finished", "seed": s, "accuracy": 0.9, "attacks": attacks} | metrics for s in range(3)
    ]
    assert headline(results(Path("made_up"), rows(table), ("seed",), {})).startswith(sentence)


def test_without_a_finished_trial_there_is_no_result() -> None:
    table = rows([{"id": "a", "status": "failed", "seed": 0, "clustering.name": "ifca"}])
    found = story(results(Path("made_up"), table, ("seed",), {}))
    assert found.headline == "No trial has finished, so there is no result."
    assert (found.findings, found.verdicts) == ((), ())
    assert "1 trial: 1 failed." in found.limits


def test_claims_stand_beside_audits_and_published_numbers_beside_ours(tmp_path: Path) -> None:
    base = {"status": "finished", "privacy.name": "global_dp", "audit_verdict": "not refuted", "epsilon": 4.0}
    table = [{"id": str(s), "seed": s, **base, "epsilon_audit": 2.0 + s / 10, "guarantee": "dp"} for s in range(3)]
    bare = [{"id": f"n{s}", "seed": s, **base, "privacy.name": "none", "epsilon_audit": 5432.1} for s in range(3)]
    bare = [row | {"epsilon": None, "audit_verdict": None, "guarantee": "none"} for row in bare]
    found = story(results(Path("made_up"), rows([*table, *bare]), ("privacy.name", "seed"), {}))
    mean, low, high = 2.1, *(2.1 + sign * 0.248414 for sign in (-1, 1))
    assert found.verdicts == (
        f"Privacy global-DP: an epsilon of 4.00 is claimed for a client, canaries in the releases estimate {mean:.2f} "
        f"({low:.2f} to {high:.2f}): not refuted, which is no proof.",
        "Where no epsilon is claimed for a client (one setting), canaries in the releases estimate 5430.",
    )


def test_a_tuned_sweep_says_how_it_was_chosen(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text("name: x\nbase: {}\ntune: {metric: accuracy, mode: max, search: optuna}\n")
    made = planted(ifca=around(0.63))
    found = story(results(tmp_path, list(made.trials), ("clustering.name", "seed"), {}))
    assert any("chosen on the reported test set" in line for line in found.limits)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Does it help? On digits.\nname: x\n", "Does it help?"),
        ("# Only a remark. And more.\n#\n# Other.\nname: x\n", "Only a remark."),
        ("# Does it help?\nname: x\ndescription: |\n  My own\n  question?\n", "My own question?"),
        ("name: [broken\n", "How does clustering change accuracy and the risk of membership inference?"),
    ],
)
def test_the_question_is_the_sweeps_own_or_made_of_its_keys(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "sweep.yaml").write_text(text)
    made = planted(ifca=around(0.63), ifca_mir=around(0.6))
    assert story(results(tmp_path, list(made.trials), ("clustering.name", "seed"), {})).question == expected


def test_the_command_has_the_overrides_quoted() -> None:
    assert (
        command("name: x\n# --set base.model={name: mlp}\n") == "fedpriv run sweep.yaml --set 'base.model={name: mlp}'"
    )


def test_a_difference_that_is_significant_only_by_itself_is_called_a_hint() -> None:
    shifts = (0.03, -0.02, 0.02, 0.0, -0.01)
    risks = {"ifca": around(0.63), "ifca_mir": around(0.595, *shifts)}
    table = [
        {
            "id": f"{name}{seed}",
            "status": "finished",
            "seed": seed,
            "clustering.name": name,
            "mia_accuracy_global": risk,
        }
        | {
            "accuracy": 0.9 + (seed if name == "ifca" else 2 * seed % 5) / 100,
            "eod": 0.1 + (seed if name == "ifca" else 2 * seed % 5) / 100,
        }
        for name, values in risks.items()
        for seed, risk in enumerate(values)
    ]
    found = story(results(Path("made_up"), rows(table), ("clustering.name", "seed"), {}))
    assert "IFCA-MIR lowers it by 0.031" in found.headline
    counted = next(line for line in found.findings if "show no difference that can be told from none" in line)
    count = counted.split(" of ")[1].split()[0]
    assert f"Holm's correction over all {count} together" in counted
    hint = next(line for line in found.findings if line.startswith("The headline's difference"))
    assert "(IFCA-MIR against IFCA) is significant if it is tested by itself (p = 0.0" in hint
    assert f"and not one of these {count} comparisons" in hint


def test_several_settings_of_one_run_are_said_to_have_one_run_once() -> None:
    table = [
        {
            "id": f"w{width}",
            "status": "finished",
            "seed": 0,
            "model.width": width,
            "accuracy": 0.9,
            "mia_accuracy_global": risk,
        }
        for width, risk in ((16, 0.521), (32, 0.501))
    ]
    found = headline(results(Path("made_up"), rows(table), ("model.width", "seed"), {}))
    assert "0.521 (width 16) and 0.501 (width 32), one run each, so without intervals; 0.5 by chance; " in found
