"""What docs/metric_privacy.md says was measured: each number is computed anew from the runs that it comes from."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.estimate import estimate
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
    return "control" if "noise_divisor" in fields else "global-DP"


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


if __name__ == "__main__":  # prints the table
    held = measured("metric_privacy_control")
    print("\n".join(lines(held.assign(arm=held["privacy"].map(arm)))))
