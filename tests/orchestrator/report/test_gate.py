"""Conditions under which a command fails: what they compare, that nothing unknown passes, and
the exit codes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from orchestrator import FAILED_IF, FINISHED, REFUSED
from orchestrator.cli import main
from orchestrator.commands import Choices, prepare, run_sweep
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import parse_sweep
from orchestrator.report.data import Results, read_results, results
from orchestrator.report.gate import conditions, failures, value_of
from tests.support.inline_sweep import run_sweep_inline
from tests.support.synthetic_results import seal, write_sweep

LR = "training.lr"


def sweep_of(*trials: dict[str, Any]) -> Results:
    """Finished trials with these settings and metrics, each with a seed of its own."""
    table = [
        {"id": str(n), "status": "finished", "seed": n, **trial} for n, trial in enumerate(trials)
    ]
    names = dict.fromkeys(name for row in table for name in row)
    return results(
        Path("made_up"), [{name: row.get(name) for name in names} for row in table], (LR,), {}
    )


def compared(name: str, *trials: dict[str, Any]) -> float:
    read = sweep_of(*trials)
    return value_of(read, read.settings[0], conditions([f"{name} > 0"])[0])


def of_auc(*values: float) -> list[dict[str, float]]:
    return [
        {"calibrated_auc": v, "calibrated_auc_low": v - 0.1, "calibrated_auc_high": v + 0.1}
        for v in values
    ]


def test_by_hand_a_metric_is_its_mean_and_an_end_is_the_outer_one():
    assert compared("calibrated_auc", *of_auc(0.6)) == 0.6
    assert compared("calibrated_auc_high", *of_auc(0.6)) == pytest.approx(0.7)
    assert compared("calibrated_auc_low", *of_auc(0.6, 0.8)) == pytest.approx(0.5)
    # Three runs: s = 0.1, t(0.975, 2) = 4.302653.
    assert compared("calibrated_auc_high", *of_auc(0.5, 0.6, 0.7)) == pytest.approx(
        0.6 + 0.248414, abs=1e-6
    )
    # Equal runs have an interval of width 0 over runs, which counts as it does in the tables.
    assert compared("calibrated_auc_high", *of_auc(0.6, 0.6, 0.6)) == pytest.approx(0.6)
    assert compared("purity_low", *[{"purity": v} for v in (0.7, 0.8, 0.9)]) == pytest.approx(
        0.8 - 0.248414, abs=1e-6
    )
    assert math.isnan(
        compared("purity_low", {"purity": 0.7}, {"purity": 0.8})
    )  # there is no interval


def test_a_guarantee_is_the_largest_claim_of_its_runs():
    assert compared("epsilon", {"epsilon": 1.0}, {"epsilon": 3.0}) == 3.0
    assert compared("epsilon", {"epsilon": 1.0}, {"epsilon": None}) == math.inf
    assert compared("epsilon", {"epsilon": math.inf}) == math.inf


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("accuracy < 0.75", True),
        ("accuracy<=0.7", True),
        ("accuracy < 0.7", False),
        ("accuracy > 0.9", False),
        ("accuracy >= 0.9", True),
        (" accuracy > 7e-1 ", True),
        ("epsilon > 8", True),  # the first setting has no guarantee
        ("epsilon < 0.5", False),
        ("purity > 0", True),  # known in none
    ],
)
def test_the_worst_setting_counts_and_what_is_not_known_fails(text, fails):
    read = sweep_of({LR: 0.1, "accuracy": 0.7}, {LR: 0.2, "accuracy": 0.9, "epsilon": 1.0})
    assert bool(failures(read, conditions([text]))) == fails


def test_each_failing_condition_has_a_sentence_with_the_number_and_the_setting():
    read = sweep_of({LR: 0.1, "accuracy": 0.7123456}, {LR: 0.2, "accuracy": 0.6})
    asked = conditions(["accuracy < 0.65", "accuracy > 0.9", "accuracy < 0.8"])
    first, second = failures(read, asked)
    assert "accuracy is 0.6 (" in first and "0.2" in first and "1 of 2 settings" in first
    assert "accuracy is 0.6 (" in second and "2 of 2 settings" in second


def test_numbers_that_fail_are_said_before_what_is_not_known():
    """An unfinished setting and one without a guarantee hide no number, and none is quoted."""
    read = sweep_of(
        {LR: 0.1, "epsilon": None, "calibrated_auc": 0.6},
        {LR: 0.2, "epsilon": 9.0, "calibrated_auc": 0.7},
        {LR: 0.3, "status": "unfinished", "epsilon": None, "calibrated_auc": None},
    )
    (said,) = failures(read, conditions(["epsilon > 8"]))
    parts = said.split("; ")
    assert "epsilon is 9 (lr 0.2), and it fails in 1 of 3" in parts[0]
    assert "no guarantee" in parts[1] and "0.1" in parts[1]
    assert "is not known" in parts[2] and "0.3" in parts[2] and "no trial" in parts[2]
    (said,) = failures(read, conditions(["calibrated_auc_high > 0.5"]))
    assert "0.1" in said and "1 run without an interval" in said and "3 seeds" in said


def test_a_setting_in_which_no_trial_has_finished_fails():
    table = [{"id": "0", "status": "failed", "seed": 0, "accuracy": None}]
    assert failures(results(Path("made_up"), table, (), {}), conditions(["accuracy < 0"]))


def test_the_worst_client_is_that_of_the_last_attacked_round(tmp_path: Path):
    folder = write_sweep(tmp_path / "s", {"seed": [0, 1]}, metrics=lambda *_: {"fedmia_auc": 0.5})
    for number, trial in enumerate(sorted((folder / "trials").iterdir())):
        rows = [
            {"round": round_, "client": at, "fedmia_auc": 0.5 + at / 10 - round_ / 10}
            for round_ in (0, 1)
            for at in (0, 1)
        ]
        rows += [{"round": 2, "client": at, "fedmia_auc": None} for at in (0, 1)]
        rows[-3]["fedmia_auc"] = 0.5 + number / 10  # client 1 in round 1
        pd.DataFrame(rows).to_parquet(trial / "clients.parquet")
        seal(trial)
    read = read_results(folder)
    (asked,) = conditions(["fedmia_auc_worst_client > 0.5"])
    assert value_of(read, read.settings[0], asked) == pytest.approx(0.55)


@pytest.mark.parametrize(
    "text",
    ["", "accuracy", "> 0.5", "accuracy > ", "accuracy > much", "accuracy = 1", "accuracy > nan"],
)
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(ConfigError, match="--fail-if"):
        conditions([text])


TINY = """
name: tiny
base:
  rounds: 2
  data: {name: digits, clients: 4, examples_per_client: 10, split: {minority_ratio: 0.5}}
  model: {name: mlp, hidden: []}
  training: {lr: 0.1, epochs: 1, batch_size: 10}
  attacks: [{name: fedmia, every: 2}]
"""


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("acuracy > 0.5", "'accuracy'"),
        ("fedmia_acu > 0.5", "'fedmia_auc'"),
        ("calibrated_auc_high > 0.6", ""),  # no attack of the sweep measures it
        ("accuracy_worst_client < 0.1", ""),  # no metric of clients
        ("accuracy_poor < 0.1", ""),  # the clients have no groups of their own
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_an_unknown_metric_is_refused_before_anything_starts(tmp_path, text, near, dry):
    choices = Choices(tmp_path / "results", dry=dry, fail_if=conditions([text]))
    with pytest.raises(ConfigError, match=near or "fedpriv list metrics|Did you mean") as refused:
        prepare(parse_sweep(TINY, tmp_path / "tiny.yaml"), choices)
    assert str(refused.value).startswith("--fail-if") and not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "name",
    ["fedmia_auc_high", "loss_low", "fedmia_auc_worst_client", "accuracy_minority", "fedmia_auc"],
)
def test_what_can_be_measured_is_known(tmp_path, name):
    prepare(
        parse_sweep(TINY, tmp_path / "tiny.yaml"),
        Choices(tmp_path, fail_if=conditions([f"{name} > 0.5"])),
    )


@pytest.mark.slow
def test_a_run_and_a_report_have_a_code_of_their_own(tmp_path: Path, capsys):
    sweep = parse_sweep(TINY, tmp_path / "tiny.yaml")
    both = conditions(["accuracy < 2", "accuracy > 2"])
    run_sweep_inline(sweep, Choices(tmp_path))
    assert run_sweep(sweep, Choices(tmp_path, fail_if=both)) == FAILED_IF
    assert capsys.readouterr().out.count("--fail-if") == 1
    assert run_sweep(sweep, Choices(tmp_path, fail_if=both[1:])) == FINISHED
    folder = str(tmp_path / "tiny")
    assert (
        main(["report", folder, "--fail-if", "accuracy < 2", "--fail-if", "loss < 0"]) == FAILED_IF
    )
    assert "accuracy < 2" in capsys.readouterr().out.splitlines()[-1]
    assert main(["report", folder, "--fail-if", "accuracy > 2"]) == FINISHED
    assert main(["report", folder, "--fail-if", "acuracy > 2"]) == REFUSED
    assert "'accuracy'" in capsys.readouterr().err
