"""The records behind the headline, on scores that are made so that the answers are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orchestrator.report import records
from orchestrator.report.data import Results, read_results
from orchestrator.report.page import page
from orchestrator.report.sentences import headline_risk, sentences_of
from tests.support.synthetic_results import write_sweep

CALIBRATED = {"rounds": 3, "attacks": [{"name": "calibrated_mia"}]}
SHADOW = {"rounds": 3, "attacks": [{"name": "shadow_mia"}]}
EACH = 40  # records of each client
WARDS = ("ward b", "ward a")


def model(target: str, member: np.ndarray, seed: int) -> pd.DataFrame:
    """Scores of records 1 to 80, the first half of client 0, every second one of class yes.

    Members of class yes outscore all others, those of class no are at chance.
    """
    record = np.arange(2 * EACH)
    yes = record % 2 == 1
    noise = np.random.default_rng(seed).permutation(2 * EACH) / (2 * EACH)
    table = {
        "attack": "calibrated_mia",
        "round": 3,
        "target": target,
        "client": record // EACH,
        "member": member,
        "left": False,
        "score": noise + 5.0 * (member & yes) + 5.0 * (member & (record == 37)),
        "row": record + 1,
        "label": np.where(yes, "yes", "no"),
    }
    return pd.DataFrame(table)


def replicas(trial: Any, final: Any, rng: Any) -> dict[str, pd.DataFrame]:
    """Two complementary replicas, and the run, which was trained on the first 60 records."""
    record = np.arange(2 * EACH)
    half = record // 2 % 2 == 0
    models = [("replica 0", half), ("replica 1", ~half), ("run", record < 60)]
    scores = [model(name, member, trial["seed"]) for name, member in models]
    clients = {"round": 3, "client": [0, 1], "examples": 30, "name": WARDS}
    return {"scores": pd.concat(scores), "clients": pd.DataFrame(clients)}


def made(folder: Path, config: Mapping[str, Any] = CALIBRATED, tables: Any = replicas) -> Results:
    found = {"accuracy": 0.9, "calibrated_auc": 0.75, "calibrated_precision_at_prior_10": 0.42}
    if config is SHADOW:
        found = {"accuracy": 0.9, "mia_accuracy_global": 0.7, "mia_tpr_at_1_fpr": 0.09}
    sweep = {"seed": [0, 1, 2]}
    return read_results(
        write_sweep(folder / "s", sweep, metrics=lambda *_: found, tables=tables, config=config)
    )


def of(results: Results) -> records.Records:
    found = records.records_of(results, headline_risk(results))
    assert found is not None
    return found


def test_by_hand_the_counts_are_those_of_one_replica(tmp_path: Path) -> None:
    found = of(made(tmp_path))
    assert found.by_client() == [["ward a", "20", "20"], ["ward b", "20", "20"]]


def test_by_hand_a_class_that_is_found_and_one_that_is_not(tmp_path: Path) -> None:
    no, yes = of(made(tmp_path)).by_class()
    assert (no[0], yes[0]) == ("no", "yes") and no[1:3] == yes[1:3] == ["20", "20"]
    assert yes[3].startswith("1.000") and yes[4].startswith("1.000") and yes[5].startswith("0.000")
    assert 0.3 < float(no[3].split()[0]) < 0.7


def test_a_class_with_few_records_has_no_rate(tmp_path: Path) -> None:
    def few(*given: Any) -> dict[str, pd.DataFrame]:
        made = replicas(*given)
        made["scores"]["label"] = np.where(made["scores"]["row"] <= 8, "rare", "common")
        return made

    common, rare = of(made(tmp_path, tables=few)).by_class()
    assert rare[:3] == ["rare", "4", "4"] and not any(cell[:1].isdigit() for cell in rare[3:])
    assert common[3][:1].isdigit()


def test_by_hand_the_most_exposed_are_records_that_the_run_was_trained_on(tmp_path: Path) -> None:
    """Record 38 outscores all, and no record of the last twenty was trained on."""
    lines = of(made(tmp_path)).exposed()
    assert len(lines) == records.MOST
    assert lines[0][:4] == ["38", "ward b", "yes", "1.000"] and lines[0][5] == "3 of 3"
    assert {line[2] for line in lines} == {"yes"} and max(int(line[0]) for line in lines) <= 60
    assert all(float(line[3]) > 0.7 > float(line[4]) for line in lines)


def test_of_an_attack_on_models_the_chosen_variant_counts(tmp_path: Path) -> None:
    def shadow(*given: Any) -> dict[str, pd.DataFrame]:
        made = replicas(*given)
        run = made["scores"][made["scores"]["target"] == "run"].assign(target="global")
        gap = run.assign(attack="gap", score=-run["score"])
        chosen = {
            "attack": "risk",
            "round": 3,
            "target": "global",
            "metric": "is_gap",
            "value": 1.0,
        }
        shown = run.assign(attack="shadow_mia")
        return made | {"scores": pd.concat([shown, gap]), "attacks": pd.DataFrame([chosen])}

    results = made(tmp_path, SHADOW, shadow)
    assert of(results).by_class()[1][3].startswith("0.000")
    # 0.1 * 0.09 of 0.1 * 0.09 + 0.9 * 0.01 is one half.
    (line,) = records.flagged(results, headline_risk(results))
    assert "50 were training data if 10 %" in line and "8 were training data if 1 %" in line


def test_a_hundred_flagged_records_are_a_finding_with_its_prior(tmp_path: Path) -> None:
    findings = sentences_of(made(tmp_path)).findings
    assert any("42 were" in line and "10 %" in line and "chance 10." in line for line in findings)


@pytest.mark.parametrize("told", [True, False])
def test_the_page_has_the_tables_for_which_there_are_columns(tmp_path: Path, told: bool) -> None:
    def tables(*given: Any) -> dict[str, pd.DataFrame]:
        made = replicas(*given)
        return made if told else made | {"scores": made["scores"].drop(columns=["row", "label"])}

    html = page(made(tmp_path, tables=tables), {}, [], [])
    assert "Attacked examples by client" in html
    assert ("Risk by class" in html, "20 most exposed" in html) == (told, told)


def test_without_scores_of_single_examples_there_is_no_section(tmp_path: Path) -> None:
    results = made(tmp_path, tables=lambda *_: {})
    assert records.records_of(results, headline_risk(results)) is None
    assert 'id="records"' not in page(results, {}, [], [])
