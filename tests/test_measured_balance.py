"""What docs/ifca_mir.md says of limits on leaving a model: each number is computed anew from the run that it comes from."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from orchestrator.config.run import trial_id
from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.statistics import holm, paired_test
from tests.support.pages import ROOT
from tests.test_measured import differences, measured, signed, words

LIMITS = {
    "at most 1 leaves": {"most_leaving": 1},
    "at most a tenth leaves": {"most_leaving": 0.1},
    "price 0.05": {"leaving_price": 0.05},
    "price 0.2": {"leaving_price": 0.2},
}
CHOICES = {"IFCA": {"name": "ifca"}, "IFCA-MIR": {}} | LIMITS
FRESH = range(10, 25)  # the seeds that were run after the first ten had left it open


@pytest.fixture(scope="module")
def trials() -> pd.DataFrame:
    rows = measured("ifca_mir_balance")
    return rows.assign(smaller=rows[["clients_minority", "clients_majority"]].min(axis=1))


@pytest.fixture(scope="module")
def page() -> str:
    return words("docs/ifca_mir.md")


def of(trials: pd.DataFrame, choice: dict) -> pd.DataFrame:
    wanted = {"name": "ifca_mir", "clusters": 2} | ({} if "name" in choice else {"scale": "normalized"}) | choice
    return trials[[json.loads(text) == wanted for text in trials["clustering"]]]


def p_values(trials: pd.DataFrame, metric: str) -> list[float]:
    free = of(trials, {})
    return [paired_test(differences(of(trials, limit), free, metric)) for limit in LIMITS.values()]


def test_the_run_is_that_of_the_sweep_file(trials: pd.DataFrame) -> None:
    runs = load_sweep(ROOT / "sweeps" / "ifca_mir_balance.yaml").runs
    assert set(trials["id"]) == {trial_id(run) for run in runs}
    assert set(trials["status"]) == {"finished"}


def test_the_table(trials: pd.DataFrame, page: str) -> None:
    for name, choice in CHOICES.items():
        own = of(trials, choice)
        assert len(own) == 25
        change = "" if name == "IFCA-MIR" else signed(differences(own, of(trials, {}), "mia_auc_worst"), 3) + " "
        means = [f"{own['smaller'].mean():.1f}", f"{own['mia_auc_worst'].mean():.3f}"]
        rest = f"| {change}| {own['accuracy'].mean():.3f} | {own['violations'].mean():.1f} |"
        assert f"| {name} | {means[0]} | {means[1]} {rest}" in page


def test_the_sentences(trials: pd.DataFrame, page: str) -> None:
    free = of(trials, {})
    tenth, price = (of(trials, LIMITS[name]) for name in ("at most a tenth leaves", "price 0.2"))
    kept = [signed(differences(own, free, "smaller"), 1).removeprefix("+") for own in (tenth, price)]
    assert f"its users are {kept[0]} and {kept[1]} more" in page
    fresh = p_values(trials[trials["seed"].isin(FRESH)], "mia_auc_worst")
    corrected = holm(fresh)
    assert f"p = {fresh[1]:.3f} (a tenth) and p = {fresh[3]:.3f} (price 0.2)" in page
    assert f"{corrected[1]:.3f} and {corrected[3]:.3f} after Holm's correction over the four limits" in page
    assert min(p_values(trials, "violations")) >= 0.16
    cost = signed(differences(price, free, "accuracy"), 3).removeprefix("−")
    assert f"a price of 0.2 costs {cost} of accuracy" in page
