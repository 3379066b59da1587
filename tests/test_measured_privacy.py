"""What docs/metric_privacy.md says was measured: each number is computed anew from the runs that it comes from."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.statistics import estimate
from tests.support.pages import ROOT
from tests.test_measured import Rows, differences, measured, words

PRINTED = {  # clients' tests and the server's test, after 20 rounds (Tables 4 to 7)
    ("homogeneous", "none"): (0.929, 0.909),
    ("homogeneous", "global-DP"): (0.881, 0.884),
    ("homogeneous", "metric privacy"): (0.905, 0.894),
    ("non-IID", "none"): (0.933, 0.919),
    ("non-IID", "global-DP"): (0.878, 0.867),
    ("non-IID", "metric privacy"): (0.927, 0.925),
}
ARMS = ("none", "clipping alone", "global-DP", "metric privacy", "control")
METRICS = ("aggregated_accuracy", "test_accuracy", "f1_macro")


def arm(privacy: str) -> str:
    """The name of an arm on the page, from the swept value of the slot."""
    if privacy == "none":
        return "none"
    fields = json.loads(privacy)
    if fields["name"] == "metric_privacy":
        return "metric privacy"
    if not fields["noise_multiplier"]:
        return "clipping alone"
    return "control" if fields.get("noise_divisor", 1) != 1 else "global-DP"


@pytest.fixture(scope="module")
def trials() -> Rows:
    found = measured("metric_privacy_control")
    assert set(found["status"]) == {"finished"}
    return found.assign(arm=found["privacy"].map(arm))


def own(trials: Rows, split: str, name: str) -> Rows:
    return trials[(trials["split"] == split) & (trials["arm"] == name)].sort_values("seed")


def cell(values: pd.Series, digits: int = 3) -> str:
    """The values of the seeds; with three or more their mean and half of the interval."""
    if values.isna().all():
        return ""
    found = estimate([float(value) for value in values])
    if len(values) < 3:
        return ", ".join(f"{value:.{digits}f}" for value in values)
    mean, half = found.parts(digits)
    return f"{mean} ± {half}"


def lines(trials: Rows) -> list[str]:
    """The table of the page."""
    found = []
    for split in ("homogeneous", "non-IID"):
        for name in ARMS:
            rows = own(trials, split, name)
            printed = PRINTED.get((split, name))
            theirs = [f"{value:.3f}" for value in printed] if printed else ["", ""]
            accuracies = [f"{a} | {cell(rows[metric])}" for a, metric in zip(theirs, METRICS, strict=False)]
            noise = [cell(rows["f1_macro"]), cell(rows["distance_mean"], 2), cell(rows["noise_std"], 4)]
            found.append(" | ".join([f"| {split} | {name}", *accuracies, *noise]) + " |")
    return [" ".join(line.split()) for line in found]


def test_the_table_of_metric_privacy_follows_from_the_runs(trials: Rows) -> None:
    text = words("docs/metric_privacy.md")
    for line in lines(trials):
        assert line in text, line


def test_the_runs_are_those_of_the_sweep_file(trials: Rows) -> None:
    runs = load_sweep(ROOT / "sweeps" / "metric_privacy_control.yaml").runs
    assert {arm(json.dumps(run.privacy.to_dict())) for run in runs if run.privacy.name != "none"} == set(ARMS[1:])


def test_clipping_costs_what_is_lost_and_noise_costs_nothing_that_these_runs_show(trials: Rows) -> None:
    text = words("docs/metric_privacy.md")
    for split in ("homogeneous", "non-IID"):
        clipped = own(trials, split, "clipping alone")
        lost = differences(own(trials, split, "none"), clipped, "test_accuracy")
        assert min(lost) > 0.14
        low, high = min(lost), max(lost)
        assert f"{low:.3f} to {high:.3f} on the {split} split" in text
    shares = [
        lost
        / max(
            differences(own(trials, split, "none"), own(trials, split, name), "test_accuracy")[k] for name in ARMS[2:]
        )
        for split in ("homogeneous", "non-IID")
        for k, lost in enumerate(
            differences(own(trials, split, "none"), own(trials, split, "clipping alone"), "test_accuracy")
        )
    ]
    assert f"at least {min(shares):.0%} of it" in text.replace(" %", "%")
    noise = [
        value
        for split in ("homogeneous", "non-IID")
        for name in ("global-DP", "metric privacy", "control")
        for value in differences(own(trials, split, name), own(trials, split, "clipping alone"), "test_accuracy")
    ]
    assert f"between {min(noise):.3f} and +{max(noise):.3f}".replace("-", "−") in text
    control = [
        value
        for split in ("homogeneous", "non-IID")
        for value in differences(own(trials, split, "metric privacy"), own(trials, split, "control"), "test_accuracy")
    ]
    assert f"by {min(control):.3f} to +{max(control):.3f}".replace("-", "−") in text
    assert (trials["clip_fraction"].dropna() == 1).all()
    below = [
        value
        for split in ("homogeneous", "non-IID")
        for name in ("global-DP", "metric privacy")
        for value in differences(own(trials, split, "none"), own(trials, split, name), "test_accuracy")
    ]
    assert f"they lie {min(below):.3f} to {max(below):.3f} below" in text
    printed = [
        PRINTED[split, "none"][1] - PRINTED[split, name][1]
        for split in ("homogeneous", "non-IID")
        for name in ("global-DP", "metric privacy")
    ]
    assert f"lie at most {max(printed):.3f} below" in text


CIA = {"fedavg": "FedAvg", "fedmedian": "median"}
KINDS = {"none": "none", "global_dp": "global-DP", "metric_privacy": "metric privacy"}


def pair_lines(found: Rows) -> list[str]:
    """The table of the paired test."""
    rows = []
    for strategy, label in CIA.items():
        for kind, shown in KINDS.items():
            (row,) = found[(found["aggregation.name"] == strategy) & (found["privacy.name"] == kind)].to_dict("records")
            cells = [f"{row['cia_auc']:.2f} ({row['cia_auc_low']:.2f} to {row['cia_auc_high']:.2f})"]
            cells += [f"{row['cia_auc_p']:.2f}"]
            for name in ("cia_zero_auc", "cia_auc_nobody"):
                cells.append(f"{row[name]:.2f} ({row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f})")
            rows.append(f"| {label} | {shown} | {' | '.join(cells)} |")
    return rows


def test_the_table_of_client_inference_follows_from_the_run() -> None:
    text, found = words("docs/metric_privacy.md"), measured("metric_privacy_cia")
    for line in pair_lines(found):
        assert line in text, line
    assert (found["cia_auc_low"] < 0.5).all() and (found["cia_auc_high"] > 0.5).all()
    low, high = found["cia_zero_auc_p"].min(), found["cia_zero_auc_p"].max()
    assert f"p {low:.3f} to {high:.3f}" in text
    (distinct,) = found["cia_stand_in_distinct"].unique()
    assert f"{distinct:.0%} of theirs are distinct" in text.replace(" %", "%")
    assert f"{found['cia_difference'].min():.2f} to {found['cia_difference'].max():.2f} in all six runs" in text
    assert f"p = {found['cia_p_least'].max():.3f} and an epsilon of {found['cia_epsilon_most'].max():.2f}" in text


def test_the_published_difference_follows_from_the_run() -> None:
    text = words("docs/metric_privacy.md")
    found = measured("metric_privacy_cia_shortened").set_index("privacy.name")["cia_difference"]
    assert f"0.127 and {found['none']:.3f} without noise" in text
    assert f"0.257 and {found['global_dp']:.3f} under global-DP" in text
    assert f"0.246 and {found['metric_privacy']:.3f} under metric privacy" in text


if __name__ == "__main__":  # prints the table
    held = measured("metric_privacy_control")
    print("\n".join(lines(held.assign(arm=held["privacy"].map(arm)))))
    print("\n".join(pair_lines(measured("metric_privacy_cia"))))
