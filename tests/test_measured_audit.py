"""What docs/auditing.md and the headers of the audit sweeps say: each number is computed anew from the runs they name.

``docs/measured/audit_attacks.parquet`` has the AUCs of the last attacked round of these runs, from ``attacks.parquet``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd
import pytest

from orchestrator.config.run import trial_id
from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.statistics import FEWEST, estimate
from tests.support.audit_oracles import comparison
from tests.support.pages import ROOT
from tests.test_measured import differences, measured, signed, words

# The attacks of the table's columns: the attack in attacks.parquet, and which of its rows.
COLUMNS: tuple[tuple[str, str], ...] = (
    ("shadow_mia", "auc"),
    ("loss_threshold", "auc"),
    ("whitebox_mia", "auc"),
    ("calibrated_mia", "headline"),
    ("calibrated_mia", "run_headline"),
    ("client_mia", "auc"),
    ("fedmia", "fedmia_loss_auc"),
)
# Name in the table, run, privacy component, model.
ROWS = (
    ("quickstart, IFCA, 10 %, minority's model", "audit-ifca", "none", "minority"),
    ("the same, majority's model", "audit-ifca", "none", "majority"),
    ("MNIST, IFCA, 10 %, minority's model", "audit-mnist", "none", "minority"),
    ("the same, majority's model", "audit-mnist", "none", "majority"),
    ("20 x 40 digits", "audit-updates", "none", "global"),
    ("audit_quickstart", "audit-quickstart", "none", "global"),
    ("the same, global-DP", "audit-quickstart", "global_dp", "global"),
)
LIBRARIES = "fedpriv", "LeakPro", "TensorFlow Privacy", "ML Privacy Meter", "jax_privacy"


def aucs(found: pd.DataFrame, attack: str, which: str, model: str) -> list[float]:
    """One AUC for each seed in which somebody uses the model; of attacks on single clients their mean."""
    unused = found[(found["metric"] == f"auc_model_{model}") & found["value"].isna()]["seed"]
    own = found[(found["attack"] == attack) & ((attack == "fedmia") | ~found["seed"].isin(unused))]
    if attack == "calibrated_mia":
        metric = "auc" if model == "global" else f"auc_model_{model}"
        own = own[(own["target"] == which) & (own["metric"] == metric)]
    elif attack == "fedmia":
        own = own[(own["target"] == "clients") & (own["metric"] == which)]
    elif attack == "whitebox_mia":
        own = own[own["metric"] == "auc"]
    else:
        own = own[(own["target"] == model) & (own["metric"] == "auc")]
    return [float(value) for value in own.groupby("seed")["value"].mean().dropna()]


def shown(values: Sequence[float]) -> str:
    """The mean with half of its interval; of fewer than three seeds, the values."""
    if len(values) < FEWEST:
        return ", ".join(f"{value:.3f}" for value in values)
    mean, half = estimate(list(values)).parts(3)
    return f"{mean} ± {half}"


def lines() -> list[str]:
    """The rows of the table of attacks."""
    every, found = measured("audit_attacks"), []
    for name, run, privacy, model in ROWS:
        own = every[(every["run"] == run) & (every["privacy"] == privacy)]
        cells = [shown(aucs(own, *column, model)) for column in COLUMNS]
        cells[-1] = "" if model == "majority" else cells[-1]  # FedMIA's is of all clients
        found.append(f"| {name} | {' | '.join(cells)} |")
    return found


def test_the_table_of_attacks() -> None:
    page = (ROOT / "docs" / "auditing.md").read_text(encoding="utf-8")
    for line in lines():
        assert line in page


def test_what_the_first_page_says_of_a_calibrated_attack() -> None:
    every = measured("audit_attacks")
    own = every[every["run"] == "audit-ifca"]
    minority, majority = (shown(aucs(own, "calibrated_mia", "headline", name)) for name in ("minority", "majority"))
    text = words("docs/quickstart.md")
    assert f"With 16 it has an AUC of {minority} on the minority's records and {majority} on the majority's" in text


def test_the_quickstart_is_the_run_of_the_sweep_file() -> None:
    runs = load_sweep(ROOT / "sweeps" / "audit_quickstart.yaml").runs
    assert set(measured("audit_quickstart")["id"]) == {trial_id(run) for run in runs}
    every = measured("audit_attacks")
    assert set(every[every["run"] == "audit-quickstart"]["id"]) == {trial_id(run) for run in runs}


def test_the_header_of_the_quickstart() -> None:
    text = header("audit_quickstart")
    trials = measured("audit_quickstart")
    plain, noisy = (trials[trials["privacy.name"] == name] for name in ("none", "global_dp"))
    half = estimate(plain["mia_accuracy_worst"].tolist()).parts(3)
    assert f"(accuracy {half[0]} ± {half[1]})" in text
    assert f"the calibrated attack has an AUC of {plain['calibrated_auc'].mean():.2f}" in text
    assert f"FedMIA has {plain['fedmia_auc'].mean():.2f}" in text
    assert f"lowers the calibrated attack's to {noisy['calibrated_auc'].mean():.2f}" in text
    assert f"for {plain['accuracy'].mean() - noisy['accuracy'].mean():.2f} of accuracy" in text
    assert (noisy["fedmia_auc"].mean() > plain["fedmia_auc"].mean()) and "and not FedMIA's" in text
    assert f"(epsilon {noisy['epsilon'].mean():.0f}) is what canaries find, {noisy['epsilon_audit'].mean():.0f}" in text


def header(name: str) -> str:
    """The opening comment of a sweep file with single spaces."""
    found = (ROOT / "sweeps" / f"{name}.yaml").read_text(encoding="utf-8").split(f"\nname: {name.replace('_', '-')}")[0]
    return " ".join(found.replace("#", " ").split())


@pytest.fixture(scope="module")
def private() -> pd.DataFrame:
    return measured("dp_sgd_sia")


def test_dp_sgd_against_source_inference_is_the_run_of_the_sweep_file(private: pd.DataFrame) -> None:
    runs = load_sweep(ROOT / "sweeps" / "dp_sgd_sia.yaml").runs
    assert set(private["id"]) == {trial_id(run) for run in runs}


def test_what_dp_sgd_does_to_source_inference(private: pd.DataFrame) -> None:
    text = header("dp_sgd_sia")
    noise = [json.loads(one).get("noise_multiplier") for one in private["training"]]
    plain, clipped, noisy = (private[[one == z for one in noise]] for z in (None, 0.0, 2.0))
    means = [estimate(one["sia_mean"].tolist()).parts(3) for one in (plain, noisy)]
    assert f"finds the owner in {' ± '.join(means[0])} with plain training" in text
    assert f"in {' ± '.join(means[1])} at the largest noise (epsilon {noisy['epsilon_example'].mean():.1f}" in text
    change = estimate(differences(noisy, plain, "sia_mean"))
    assert f"the difference, {change.mean:+.3f}, has an interval from {change.low:+.3f} to {change.high:+.3f}" in text
    cost = estimate([-value for value in differences(noisy, plain, "accuracy")])
    assert f"accuracy falls by {cost.mean:.3f} ({cost.low:.3f} to {cost.high:.3f})" in text
    aucs = [one["fedmia_auc"].mean() for one in (plain, noisy, clipped)]
    assert f"from {aucs[0]:.3f} to {aucs[1]:.3f}; but clipping alone, without noise, takes as much" in text
    loss = signed(differences(clipped, plain, "accuracy"), 3).split()[0].removeprefix("−")
    assert f"({aucs[2]:.3f}) for {loss} of accuracy" in text


def test_the_comparison_with_other_libraries() -> None:
    page, table = words("docs/auditing.md"), comparison()["target"]
    for method in table["fedpriv"]:
        cells = (
            f"{table[one][method]['auc']:.3f} ({table[one][method]['tpr_at_1_fpr']:.3f})"
            if method in table[one]
            else ""
            for one in LIBRARIES
        )
        assert " ".join(f"| {method} | {' | '.join(cells)} |".split()) in page
    for library in ("fedpriv", "jax_privacy"):
        assert f"{table[library]['lira']['epsilon_one_run']:.4f}" in page
