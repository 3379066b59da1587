"""The sentences of a sweep: each is recomputed from the numbers that were planted, and none says
more than they do.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import datasets
from algorithms.metrics.statistics import estimate
from orchestrator.config.run import resolve
from orchestrator.conformance.example_runs import inline_trial
from orchestrator.report import context, terminal
from orchestrator.report.data import Results, read_results, results, rows
from orchestrator.report.frame import contrasts, learns
from orchestrator.report.sentences import KEPT, SIDES, sentences_of
from orchestrator.trial.random_streams import stream
from tests.support.planted import finished
from tests.support.slot_components import described
from tests.support.synthetic_results import seal, write_alone, write_grouped, write_sweep

NOISE = (
    0.00,
    0.02,
    -0.02,
    0.01,
    -0.01,
)  # of five partitions; the same for both methods, so that it cancels in pairs


def planted(**methods: tuple[float, ...]) -> Results:
    """A sweep of clusterings whose attack accuracies on the global model are these, one for each
    seed.
    """
    table = [
        {"id": f"{name}{seed}", "status": "finished", "seed": seed, "clustering.name": name}
        | {
            "accuracy": 0.9 + seed / 100,
            "mia_accuracy_global": value,
            "mia_accuracy_global_null": 0.5,
        }
        for name, values in methods.items()
        for seed, value in enumerate(values)
    ]
    return results(Path("made_up"), rows(table), ("clustering.name", "seed"), {})


def told(made: Results) -> str:
    return sentences_of(made).headline


def around(middle: float, *shifts: float) -> tuple[float, ...]:
    own = shifts or (0.0,) * len(NOISE)
    return tuple(middle + noise + shift for noise, shift in zip(NOISE, own, strict=True))


@pytest.mark.parametrize(
    ("baseline", "shift", "side", "significant"),
    [
        (0.63, -0.08, "above", 1),
        (0.55, 0.08, "above", 1),
        (0.505, 0.0, "around", 0),
        (0.42, 0.0, "below", 0),
    ],
)
def test_the_headline_has_the_value_its_interval_chance_and_what_changes_it(
    baseline: float, shift: float, side: str, significant: int
) -> None:
    method = around(baseline + shift, 0.001, -0.001, 0.002, -0.002, 0.0)
    found = told(planted(ifca=around(baseline), ifca_mir=method))
    assert " ".join(estimate(around(baseline)).cell(3)) in found
    assert "(by chance 0.500)" in found
    assert [one for one, words in SIDES.items() if words in found] == [side]
    assert f"{significant} of 1 comparisons" in found
    assert ("0.080 (0.078 to 0.082)" in found) == bool(significant)
    assert ("(better)" in found, "(worse)" in found) == (shift < 0, shift > 0)


@pytest.mark.parametrize(
    ("values", "shown"), [((0.6, 0.7), ", 0.700 (2 independent runs"), ((0.6,), "0.600 (one run")]
)
def test_one_or_two_runs_have_no_interval_and_no_verdict(
    values: tuple[float, ...], shown: str
) -> None:
    found = told(planted(ifca=values, ifca_mir=values))
    assert shown in found and "±" not in found
    assert not any(words in found for words in SIDES.values())


@pytest.mark.parametrize(
    ("settings", "side", "told_of"), [(1, "above", True), (4, "around", False)]
)
def test_guessing_is_refuted_after_holms_correction_over_the_settings(
    settings: int, side: str, told_of: bool
) -> None:
    """Each has p = 0.049 in the headline's attack, and an interval from 0.21 within one run of
    the other, which guesses 0.2.
    """
    table = [
        {
            "id": f"{ratio}{seed}",
            "status": "finished",
            "seed": seed,
            "data.split.minority_ratio": ratio,
        }
        | {
            "accuracy": 0.9,
            "mia_accuracy_global": value,
            "mia_accuracy_global_null": 0.5,
            "sum_source_chance": 0.2,
        }
        | (
            {"sum_source": 0.3, "sum_source_low": 0.21, "sum_source_high": 0.39}
            if seed == 0
            else {}
        )
        for ratio in range(settings)
        for seed, value in enumerate(around(0.528, 0.0, 0.01, -0.01, 0.0, 0.0))
    ]
    made = sentences_of(
        results(Path("made_up"), rows(table), ("data.split.minority_ratio", "seed"), {})
    )
    assert [one for one, words in SIDES.items() if words in made.headline] == [side]
    assert (f" in {settings} of {settings} settings" in made.headline) == (settings > 1)
    assert any("(0.210 to 0.390 within one run)" in line for line in made.findings) == told_of


def test_three_equal_values_are_not_significantly_above_guessing() -> None:
    assert SIDES["around"] in told(planted(ifca=(0.6, 0.6, 0.6)))  # p = 2 / 2^3


def test_a_difference_that_is_not_significant_is_stated_with_its_interval_and_not_claimed() -> None:
    found = sentences_of(
        planted(ifca=around(0.63), ifca_mir=around(0.62, 0.04, -0.05, 0.03, -0.02, 0.01))
    )
    assert "0 of 1 comparisons" in found.headline
    (risk,) = [line for line in found.findings if "IFCA-MIR against IFCA" in line and "MIA" in line]
    assert "(-0.038 to 0.054), not significant; 5 pairs, p = 1.000 (Holm)" in risk
    assert found.findings[-1].startswith("0 of 2 differences")
    assert "at most 0.1 would show a difference by chance" in found.findings[-1]


@pytest.mark.parametrize(
    ("p", "words"), [(0.0499, "p < 0.050"), (0.0004, "p < 0.001"), (0.0123, "p = 0.012")]
)
def test_a_p_value_is_not_rounded_to_the_other_side_of_significance(p: float, words: str) -> None:
    made = planted(ifca=around(0.63), ifca_mir=around(0.6))
    first, *_ = (replace(test, p_holm=p) for test in contrasts(made))
    assert f" pairs, {words} (Holm)." in sentences_of(made, [first]).findings[-2]


@pytest.mark.parametrize(
    ("source", "low", "told_of"),
    [
        (around(0.4), None, True),
        (around(0.21), None, False),
        ((0.4, 0.4), None, False),
        ((0.4,), 0.3, True),
    ],
)
def test_an_attack_that_succeeds_beside_the_headlines_has_its_own_sentence(
    source: tuple[float, ...], low: float | None, told_of: bool
) -> None:
    """Which kinds of attacks there are, and the words, they declare; one that may be guessing
    has no sentence.
    """
    table = [
        {
            "id": str(seed),
            "status": "finished",
            "seed": seed,
            "accuracy": 0.9,
            "mia_accuracy_global": 0.5 + seed / 100,
        }
        | {
            "sum_source": value,
            "sum_source_chance": 0.2,
            "sum_source_low": low,
            "sum_source_high": low and 0.5,
        }
        for seed, value in enumerate(source)
    ]
    made = sentences_of(results(Path("made_up"), rows(table), ("seed",), {}))
    words = "Who sees sums of updates alone traces training examples to their owner with accuracy"
    lines = [line for line in made.findings if line.startswith(words)]
    assert "Membership inference on the global model" in made.headline and len(lines) == told_of
    assert all(
        " ".join(estimate(source).cell(3)) in line and "(by chance 0.200)" in line for line in lines
    )


@pytest.mark.parametrize("several", [False, True])
def test_an_attack_that_finds_nothing_counts_in_the_correction_of_one_that_does(
    several: bool,
) -> None:
    """Alone the attack on sums has p = 0.049; beside one that is not mentioned, twice that."""
    table = [
        {
            "id": str(seed),
            "status": "finished",
            "seed": seed,
            "accuracy": 0.9,
            "mia_accuracy_global": 0.5 + seed / 100,
        }
        | {"sum_source": value, "sum_source_chance": 0.2}
        | ({"cia_advantage": 0.3 + noise, "cia_advantage_null": 0.3} if several else {})
        for seed, (value, noise) in enumerate(
            zip(around(0.228, 0.0, 0.01, -0.01, 0.0, 0.0), NOISE, strict=True)
        )
    ]
    made = sentences_of(results(Path("made_up"), rows(table), ("seed",), {}))
    found = [
        any(line.startswith(word) for line in made.findings)
        for word in ("Who sees sums", "Client inference")
    ]
    assert found == [not several, False]


def test_groups_are_stated_for_the_baseline_in_each_setting(tmp_path: Path) -> None:
    read = read_results(write_grouped(tmp_path / "grouped"))
    found = sentences_of(read)
    for setting in read.settings[:2]:
        assert " ".join(setting.estimate("risk_minority").cell(3)) in found.headline
    nulls = [
        f"by chance {estimate(one.measured('risk_worst_client_null')).mean:.3f}"
        for one in read.settings[:2]
    ]
    assert [any(null in line for line in found.findings) for null in nulls] == [True, True]
    assert "Not measured: source inference, client inference." in found.limits


@pytest.mark.parametrize(
    ("attacks", "measured", "words"),
    [
        ("cia", {"cia_difference": 0.1}, ("cia", "0.900 ± 0.000")),
        ('[{"name": "cia"}, "sia"]', {"sia_mean": float("nan")}, ("cia, sia", "0.900 ± 0.000")),
        (
            None,
            {"privacy.name": "global_dp", "epsilon": 3.0},
            ("No attack", "3.0", "0.900 ± 0.000"),
        ),
    ],
)
def test_without_a_risk_the_headline_has_attacks_epsilon_and_accuracy(
    attacks: str | None, measured: dict[str, Any], words: tuple[str, ...]
) -> None:
    table = [
        {"id": str(s), "status": "finished", "seed": s, "accuracy": 0.9, "attacks": attacks}
        | measured
        for s in range(3)
    ]
    found = told(results(Path("made_up"), rows(table), ("seed",), {}))
    assert [one for one in words if one not in found] == []


RISK = {
    "attack": "risk",
    "round": 9,
    "target": "global",
    "metric": "balanced_accuracy",
    "low": 0.57,
    "high": 0.66,
}


def test_rows_of_other_attacks_and_rounds_lend_no_interval(tmp_path: Path) -> None:
    folder = write_alone(tmp_path / "one", {"privacy.name": ["none"], "seed": [0]})
    (trial,) = read_results(folder).trials
    other = {"low": 0.1, "high": 0.2}
    table = [RISK | other | {"attack": "loss_threshold"}, RISK | other | {"round": 4}, RISK]
    lines = [row | {"value": trial["mia_accuracy_global"]} for row in table]
    for rows_, expected in (
        (lines, "(0.570 to 0.660 within one run)"),
        (lines[:1], "without an interval)"),
    ):
        pd.DataFrame(rows_).to_parquet(folder / "trials" / trial["id"] / "attacks.parquet")
        seal(folder / "trials" / trial["id"])
        assert expected in told(read_results(folder))


def test_without_a_finished_trial_there_is_no_result() -> None:
    table = rows([{"id": "a", "status": "failed", "seed": 0, "clustering.name": "ifca"}])
    found = sentences_of(results(Path("made_up"), table, ("seed",), {}))
    assert found.headline == "No trial has finished, so there is no result."
    assert (found.findings, found.verdicts) == ((), ())
    assert "1 trial: 1 failed." in found.limits


def test_claims_stand_beside_audits_and_nothing_is_said_of_an_audit_where_nothing_is_claimed(
    tmp_path: Path,
) -> None:
    base = {
        "status": "finished",
        "privacy.name": "global_dp",
        "audit_verdict": "not refuted",
        "epsilon": 4.0,
    }
    table = [
        {"id": str(s), "seed": s, **base, "epsilon_audit": 2.0 + s / 10, "guarantee": "dp"}
        for s in range(3)
    ]
    bare = [
        {"id": f"n{s}", "seed": s, **base, "privacy.name": "none", "epsilon_audit": 5432.1}
        for s in range(3)
    ]
    bare = [row | {"epsilon": None, "audit_verdict": None, "guarantee": "none"} for row in bare]
    found = sentences_of(
        results(Path("made_up"), rows([*table, *bare]), ("privacy.name", "seed"), {})
    )
    assert found.verdicts == (
        "Privacy global-DP: epsilon 4.00 is claimed; audited epsilon of a client 2.10 ± "
        "0.25: not refuted, which is no proof.",
    )


def test_canaries_of_clients_are_not_held_against_the_epsilon_of_an_example() -> None:
    """Without a claim of a client, what they find is a sentence and no column beside a smaller
    epsilon.
    """
    base = {
        "status": "finished",
        "epsilon_example": 3.5,
        "guarantee_example": "dp",
        "guarantee": "none: no noise",
    }
    table = [
        {"id": str(s), "seed": s, **base, "epsilon_audit": 36.0, "accuracy": 0.9} for s in range(3)
    ]
    made = results(Path("made_up"), rows(table), ("seed",), {})
    assert context.audits(made) == []
    assert any("36.0" in line for line in sentences_of(made).limits)
    columns = [name for column in terminal._columns(made) for name in column.metrics]
    assert "epsilon_example" in columns and "epsilon_audit" not in columns
    claimed = results(
        Path("made_up"), rows([row | {"epsilon": 40.0} for row in table]), ("seed",), {}
    )
    assert [audit.name for audit in context.audits(claimed)] == ["epsilon_audit"]
    assert "epsilon_audit" in [
        name for column in terminal._columns(claimed) for name in column.metrics
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Does it help? On digits.\nname: x\n", "Does it help?"),
        ("# Only a remark. And more.\n#\n# Other.\nname: x\n", "Only a remark."),
        ("# Does it help?\nname: x\ndescription: |\n  My own\n  question?\n", "My own question?"),
        ("name: x\n", "How do accuracy and the risk of membership inference depend on clustering?"),
    ],
)
def test_the_question_is_the_sweeps_own_or_made_of_its_keys(text: str, expected: str) -> None:
    made = replace(planted(ifca=around(0.63), ifca_mir=around(0.6)), facts={"file": text})
    assert sentences_of(made).question == expected


def test_the_command_has_the_overrides_quoted() -> None:
    made = replace(planted(ifca=around(0.63)), facts={"sets": ["base.model={name: mlp}"]})
    assert sentences_of(made).command == "fedpriv run sweep.yaml --set 'base.model={name: mlp}'"


# Clients that the data name, such as hospitals, are told by name to whoever reads who is exposed

WARDS = tuple(f"ward {place}" for place in "abcdefghij")


@pytest.mark.parametrize(
    ("worst", "clause"),
    [
        ((1, 1, 1), "ward b in 3 of 3 trials"),
        ((1, 2, 1), "ward b in 2, ward c in 1 of 3 trials"),
        ((1,), "ward b in 1 of 1 trials"),
        ((), ""),
    ],
)
def test_the_most_exposed_client_is_told_by_name(
    tmp_path: Path, worst: tuple[int, ...], clause: str
) -> None:
    folder = write_sweep(
        tmp_path / "s", {"clustering.name": ["ifca"], "seed": list(range(len(worst) or 3))}
    )
    results = read_results(folder)
    table = [dict(one, risk_worst_client=0.8, risk_worst_client_null=0.6) for one in results.trials]
    for trial, client in zip(table, worst, strict=False):
        rows = [
            {
                "round": at,
                "client": i,
                "name": WARDS[i],
                "risk": None if at == 2 else 0.5 + (i == client) * at,
            }
            for at in range(3)
            for i in range(4)
        ]
        pd.DataFrame(rows).to_parquet(folder / "trials" / trial["id"] / "clients.parquet")
        seal(folder / "trials" / trial["id"])
    (line,) = [
        line
        for line in sentences_of(replace(results, trials=tuple(table))).findings
        if "worst client" in line
    ]
    assert (f"; {clause}; by chance 0.600" in line) if clause else ("ward" not in line)


def test_the_clients_of_a_run_have_the_names_of_the_data_or_no_such_column(tmp_path: Path) -> None:
    run = resolve(described() | {"attacks": []})
    data = datasets.build_federation(run.data, run.split, tmp_path, lambda name: stream(0, name))
    written = []
    for names in ((), WARDS[: data.clients]):
        folder = tmp_path / str(len(names))
        trial = finished(
            inline_trial(described() | {"attacks": []}, folder, replace(data, client_names=names))
        )
        written.append(trial.rows("clients").to_pydict())
    plain, told = written
    assert list(told)[:4] == ["round", "client", "name", "group"]
    assert told["name"] == [WARDS[client] for client in told["client"]]
    assert plain == {key: values for key, values in told.items() if key != "name"}


# What a constant answer reaches


def accurate(ifca: float, method: float, constant: float, **others: tuple[float, ...]) -> Results:
    """Two methods whose attack finds the same, and whose accuracies are these, beside that of a
    constant answer.
    """
    table = [
        {"id": f"{name}{seed}", "status": "finished", "seed": seed, "clustering.name": name}
        | {
            "accuracy": middle + spread * noise,
            "accuracy_null": constant,
            "mia_accuracy_global": 0.6 + noise,
        }
        | {
            "mia_accuracy_global_null": 0.5,
            "test_accuracy": middle + spread * noise,
            "test_accuracy_null": constant,
        }
        for name, middle, spread in (("ifca", ifca, 1.0), ("ifca_mir", method, 0.6))
        for seed, noise in enumerate(NOISE)
    ]
    return results(Path("made_up"), rows(table), ("clustering.name", "seed"), {})


@pytest.mark.parametrize(
    ("ifca", "method", "idle"),
    [(0.60, 0.66, 2), (0.60, 0.80, 1), (0.85, 0.80, 0), (0.705, 0.60, 2)],
)
def test_a_model_that_does_not_beat_a_constant_answer_is_called_so(
    ifca: float, method: float, idle: int
) -> None:
    """A constant reaches 0.7; 0.705 is within its interval.

    Two models that both do not are neither better nor worse.
    """
    made = accurate(ifca, method, 0.7)
    headline = sentences_of(made).headline
    assert ("0.700" in headline) == (idle > 0)
    assert ("No model" in headline) == (idle == 2)
    assert ("1 of 2 finished settings: clustering IFCA." in headline) == (idle == 1)
    (accuracy,) = [test for test in contrasts(made) if test.metric == "accuracy"]
    assert accuracy.p_holm < 0.05 and accuracy.significant == (idle < 2)
    (line,) = [line for line in sentences_of(made).findings if ": accuracy " in line]
    assert ("better" in line or "worse" in line) == (idle < 2)


@pytest.mark.parametrize(
    ("accuracies", "beats"),
    [([0.926, 0.926], False), ([0.926, 0.95], False), ([0.95, 0.95], True), ([0.98], True)],
)
def test_one_or_two_runs_must_err_clearly_less_than_a_constant_answer(
    accuracies: list[float], beats: bool
) -> None:
    """They have no interval, so a mean that is hardly higher shows nothing."""
    made = one_method_finished(*accuracies)
    (setting,) = [setting for setting in made.settings if setting.finished]
    assert learns(setting, "accuracy") == beats
    assert ("not shown to beat" in sentences_of(made).headline) == (not beats)


def one_method_finished(*accuracies: float, **others: object) -> Results:
    """Local training with these accuracies beside 0.924, and DP-SGD without a finished trial."""
    table = [
        {"id": f"sgd{seed}", "status": "finished", "training.name": "local_sgd", "seed": seed}
        | {"accuracy": accuracy, "accuracy_null": 0.924, "f1_macro": 0.55 + seed / 100}
        | {"mia_accuracy_global": 0.6 + seed / 100, "mia_accuracy_global_null": 0.5}
        | others
        for seed, accuracy in enumerate(accuracies)
    ]
    table.append({"id": "dp", "status": "unfinished", "training.name": "dp_sgd", "seed": 0})
    return results(Path("made_up"), rows(table), ("training.name", "seed"), {})


def test_nothing_is_said_of_settings_without_a_finished_trial() -> None:
    """They are named, and neither compared nor called unprotected or no better than a constant."""
    said = sentences_of(one_method_finished(0.92, 0.93, 0.925))
    assert "in 1 of 1 finished setting: training local SGD" in said.headline
    assert "no other method has a finished run" in said.headline
    assert not any("differences between methods" in line for line in said.findings)
    limits = [line for line in said.limits if "finished" in line]
    assert "No finished setting protects" in limits[0]
    assert "training DP-SGD" in limits[1] and "local SGD" not in limits[1]
    assert not any("fewer than" in line for line in said.limits)


def test_accuracy_beside_a_rare_class_has_macro_f1_beside_it() -> None:
    rare, common = one_method_finished(0.95), one_method_finished(0.95, accuracy_null=0.5)
    assert any("0.550" in line and "92%" in line for line in sentences_of(rare).findings)
    assert not any("macro F1" in line for line in sentences_of(common).findings)


def test_repetitions_that_were_kept_are_a_limit() -> None:
    kept = one_method_finished(0.95)
    vars(kept)["configs"] = {"sgd0": {"data": {"duplicates": "keep"}}}
    assert KEPT.split(":")[1] in " ".join(sentences_of(kept).limits)
    assert KEPT.split(":")[1] not in " ".join(sentences_of(one_method_finished(0.95)).limits)


def test_equal_columns_are_one_metric_with_one_verdict() -> None:
    compared = [test.metric for test in contrasts(accurate(0.8, 0.7, 0.1))]
    assert "accuracy" in compared and "test_accuracy" not in compared


def test_the_headline_has_what_another_attack_finds_if_its_own_finds_nothing() -> None:
    table = [
        {
            "id": f"{name}{seed}",
            "status": "finished",
            "seed": seed,
            "clustering.name": name,
            "accuracy": 0.9,
        }
        | {"mia_accuracy_global": 0.5 + noise, "mia_accuracy_global_null": 0.5}
        | {"sum_source": 0.6 + noise, "sum_source_chance": 0.2}
        for name in ("ifca", "ifca_mir")
        for seed, noise in enumerate(NOISE)
    ]
    made = results(Path("made_up"), rows(table), ("clustering.name", "seed"), {})
    headline = sentences_of(made).headline
    assert SIDES["around"] in headline and SIDES["above"] in headline
