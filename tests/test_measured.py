"""What the pages say was measured: each number in a sentence is computed anew from the run that it comes from.

``docs/measured`` has the ``trials.parquet`` of these runs; the pages name the command of each.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Sequence

import pandas as pd
import pytest
from rich.console import Console

from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.statistics import estimate, holm, paired_test
from orchestrator.report.terminal import summary_table
from tests.support.pages import ROOT

Rows = pd.DataFrame
KEYS = ["clustering.name", "data.split.minority_ratio", "seed"]
WIDTH = 115


def words(page: str) -> str:
    """The text of a page with single spaces."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def measured(name: str) -> Rows:
    """The trials of a run."""
    return pd.read_parquet(ROOT / "docs" / "measured" / f"{name}.parquet")


def shown(values: Sequence[float], digits: int = 3) -> str:
    """A mean with half of its interval, as the pages write it."""
    mean, half = estimate(list(values)).parts(digits)
    return f"{mean} ± {half}"


def differences(method: Rows, baseline: Rows, metric: str) -> list[float]:
    """Method minus baseline, by seed."""
    both = method.set_index("seed")[metric] - baseline.set_index("seed")[metric]
    assert both.notna().all()
    return [float(value) for value in both.sort_index()]


def signed(values: Sequence[float], digits: int) -> str:
    """The mean of differences with its sign, and half of its interval."""
    mean, half = estimate(list(values)).parts(digits)
    return f"{'+' if float(mean) > 0 else ''}{mean} ± {half}".replace("-", "−")


# The first command


@pytest.fixture(scope="module")
def quickstart() -> Callable[[str, float], Rows]:
    trials = measured("quickstart")
    return lambda name, ratio: trials[
        (trials["clustering.name"] == name) & (trials["data.split.minority_ratio"] == ratio)
    ]


def test_the_quickstart_is_the_run_of_the_sweep_file() -> None:
    runs = load_sweep(ROOT / "sweeps" / "quickstart.yaml").runs
    trials = measured("quickstart")
    assert sorted(zip(*(trials[key] for key in KEYS), strict=True)) == sorted(
        (run.clustering.name, run.split.config.minority_ratio, run.seed)  # type: ignore[attr-defined]
        for run in runs
    )
    assert set(trials["status"]) == {"finished"}
    from orchestrator.config.run import trial_id

    assert set(trials["id"]) == {trial_id(run) for run in runs}


def test_the_table_of_the_readme_is_what_the_first_command_prints() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- quickstart output -->\n(.*?)\n\n", text, re.DOTALL)
    printed = [line.removeprefix("    ").rstrip() for line in block.splitlines()]
    console = Console(width=WIDTH, record=True, file=io.StringIO())
    console.print(summary_table(measured("quickstart"), KEYS, title="quickstart", width=WIDTH))
    assert printed == [line.rstrip() for line in console.export_text().rstrip().splitlines()]


def test_the_sentences_of_the_readme_follow_from_the_run(quickstart: Callable[[str, float], Rows]) -> None:
    page, ifca, mir = words("docs/quickstart.md"), quickstart("ifca", 0.1), quickstart("ifca_mir", 0.1)
    few = quickstart("ifca", 0.3)
    between = [float(v) for v in (ifca["calibrated_auc_minority"] - ifca["calibrated_auc_majority"])]
    assert paired_test(between) < 0.001
    small, large = shown(ifca["calibrated_auc_minority"]), shown(ifca["calibrated_auc_majority"])
    assert f"an AUC of {small} on the minority's records and {large} on the majority's" in page
    assert f"an AUC of {small} on the minority's examples and {large} on the majority's" in words("README.md")
    change = differences(mir, ifca, "calibrated_auc_minority")
    assert f"changes the calibrated attack's AUC on the minority by {shown(change)}" in words("README.md")
    assert f"the difference, {shown(between)}, p < 0.001" in page
    worst, chance = (ifca[f"calibrated_auc_worst_client{end}"] for end in ("", "_null"))
    assert estimate([float(v) for v in worst - chance]).low > 0
    assert f"it is {shown(worst)}, where {chance.mean():.3f} is expected by chance" in page
    both = " and ".join(shown(few[f"calibrated_auc_{group}"]) for group in ("minority", "majority"))
    assert f"With 30 % minority it is {both}" in page
    own = " and ".join(shown(ifca[f"calibrated_run_auc_{group}"]) for group in ("minority", "majority"))
    assert f"AUC with 10 % minority is {own}" in page
    shadow = {group: shown(ifca[f"mia_auc_{group}"]) for group in ("minority", "majority")}
    risk = {group: shown(ifca[f"risk_{group}"]) for group in shadow}
    assert f"with an AUC of {shadow['minority']} (risk {risk['minority']}), and hardly the majority" in page
    assert f"and hardly the majority, {shadow['majority']} (risk {risk['majority']})" in page
    missed = [ifca["mia_auc_majority"], *(few[f"mia_auc_{group}"] for group in shadow)]
    assert all(estimate(own.tolist()).low < 0.5 < estimate(own.tolist()).high for own in missed)
    assert estimate(ifca["mia_auc_minority"].tolist()).low > 0.5
    assert f"hardly either group, {shown(few['mia_auc_minority'])} and {shown(few['mia_auc_majority'])}" in page
    violated, guessed = estimate(ifca["violations"].tolist()), ifca["violations_null"].mean()
    assert max(0.0, violated.mean - violated.half) < guessed < violated.mean + violated.half
    assert (
        f"there are {violated.mean:.1f} on average (0 to {violated.high:.1f}), and {guessed:.1f} if the attack" in page
    )
    assert f"on average {mir['moved_minority'].mean():.1f} of the 4 minority clients have moved" in page
    changed = differences(mir, ifca, "violations")
    assert estimate(changed).half > abs(estimate(changed).mean)
    assert f"the violations by {signed(changed, 1)} (p = {paired_test(changed):.2f})" in page
    names = ("calibrated_auc_minority", "risk_minority", "accuracy_minority")
    auc, risky, accuracy = (differences(mir, ifca, name) for name in names)
    assert f"AUC on the minority by {signed(auc, 3)} (p = {paired_test(auc):.2f})" in page
    assert f"its risk by {signed(risky, 3)} (p = {paired_test(risky):.2f})" in page
    assert f"its accuracy by {signed(accuracy, 3)} (p = {paired_test(accuracy):.2f})" in page
    other = differences(quickstart("random_migration", 0.1), ifca, "violations")
    assert f"The control changes the violations by {signed(other, 1)}" in page


# The search for a regime in which IFCA-MIR helps

METHODS = {
    "as printed": ("ifca_mir", "raw", "threshold", None),
    "as printed, uniform": ("ifca_mir", "raw", "uniform", None),
    "as printed, β 0.5": ("ifca_mir", "raw", "constant", 0.5),
    "normalized": ("ifca_mir", "normalized", "threshold", None),
    "normalized, uniform": ("ifca_mir", "normalized", "uniform", None),
    "normalized, β 0.5": ("ifca_mir", "normalized", "constant", 0.5),
    "normalized, β 1": ("ifca_mir", "normalized", "constant", 1.0),
    "random migration": ("random_migration", "normalized", "threshold", None),
}
SETTINGS = ["data.split.minority_ratio", "data.examples_per_client"]


def chosen(trials: Rows, name: str, scale: str | None, preference: str | None, beta: float | None) -> Rows:
    """The trials of one way to choose a model."""
    wanted = {"name": name, "scale": scale, "preference": preference, "beta": beta}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    return trials[[wanted.items() <= json.loads(held).items() for held in trials["clustering"]]]


def by_seed(method: Rows, baseline: Rows, metric: str) -> list[float]:
    """Method minus baseline, averaged over all settings, by seed."""
    place = [*SETTINGS, "seed"]
    both = method.set_index(place)[metric] - baseline.set_index(place)[metric]
    return [float(value) for value in both.groupby(level="seed").mean()]


@pytest.fixture(scope="module")
def search() -> Rows:
    return measured("ifca_mir_search")


def searched_rows(search: Rows) -> list[str]:
    """The lines of the table of the search: differences from IFCA, averaged over the nine settings."""
    ifca = chosen(search, "ifca", None, None, None)
    metrics = {"violations": 1, "risk_minority": 3, "accuracy_minority": 3, "accuracy_majority": 3}
    raw = [paired_test(by_seed(chosen(search, *method), ifca, "violations")) for method in METHODS.values()]
    lines = []
    for (label, method), p, corrected in zip(METHODS.items(), raw, holm(raw), strict=True):
        own = chosen(search, *method)
        moved = [own[f"moved_{group}"].mean() for group in ("majority", "minority")]
        cells = [signed(by_seed(own, ifca, metric), digits) for metric, digits in metrics.items()]
        ps = f"{p:.3f}, {corrected:.3f}"
        lines.append(f"| {label} | {cells[0]} | {ps} | {' | '.join(cells[1:])} | {moved[0]:.1f}, {moved[1]:.1f} |")
    return lines


def test_the_search_is_the_run_of_its_sweep(search: Rows) -> None:
    from orchestrator.config.run import trial_id

    runs = load_sweep(ROOT / "sweeps" / "ifca_mir_search.yaml").runs
    assert set(search["id"]) == {trial_id(run) for run in runs}
    assert set(search["status"]) == {"finished"}


def test_the_table_of_the_search_follows_from_the_run(search: Rows) -> None:
    text = (ROOT / "docs" / "ifca_mir.md").read_text(encoding="utf-8")
    for line in searched_rows(search):
        assert line in text, line


def test_the_sentences_on_the_search_follow_from_the_run(search: Rows) -> None:
    page, ifca = words("docs/ifca_mir.md"), chosen(search, "ifca", None, None, None)
    raw = {name: by_seed(chosen(search, *method), ifca, "violations") for name, method in METHODS.items()}
    corrected = dict(zip(raw, holm([paired_test(values) for values in raw.values()]), strict=True))
    assert min(corrected.values()) > 0.05
    extreme = "normalized, β 1"
    assert min(corrected, key=lambda name: corrected[name]) == extreme
    assert f"by {signed(raw[extreme], 1)} (Holm's p = {corrected[extreme]:.3f})" in page
    lost = by_seed(chosen(search, *METHODS[extreme]), ifca, "accuracy_minority")
    assert f"changes the minority's accuracy by {signed(lost, 3)}" in page
    proper = [name for name in METHODS if name not in (extreme, "random migration")]
    ends = sorted(round(sum(raw[name]) / 5, 1) + 0.0 for name in proper)
    assert f"between {ends[0]} and {ends[-1]} on average".replace("-", "−") in page
    assert f"Holm's p is {min(corrected[name] for name in proper):.3f} or more" in page
    moved = [chosen(search, *METHODS[name])["moved_minority"].mean() for name in proper]
    assert f"{min(moved):.1f} to {max(moved):.1f} per run" in page
    by_ratio = ifca.groupby(["seed", "data.split.minority_ratio"])["risk_minority"].mean().unstack()
    trend = [float(value) for value in by_ratio[0.1] - by_ratio[0.3]]
    assert f"{signed(trend, 3)} (p = {paired_test(trend):.3f})" in page
    gaps = {name: ifca.groupby("seed")[name].mean().tolist() for name in ("loss_gap", "risk_gap")}
    assert f"{shown(gaps['loss_gap'], 1)} nats" in page and f"risks differ by {shown(gaps['risk_gap'], 2)}" in page


def test_no_single_regime_of_the_search_is_significant(search: Rows) -> None:
    ifca = chosen(search, "ifca", None, None, None).set_index([*SETTINGS, "seed"])["violations"]
    found: list[float] = []
    for method in METHODS.values():
        both = chosen(search, *method).set_index([*SETTINGS, "seed"])["violations"] - ifca
        found += [paired_test(list(map(float, part))) for _, part in both.groupby(level=SETTINGS)]
    assert len(found) == 72
    page = words("docs/ifca_mir.md")
    assert (
        f"the smallest of the 72 p values is {min(found):.3f}, {min(holm(found)):.2f} after Holm's correction" in page
    )


def test_the_exposure_of_small_groups_in_the_search(search: Rows) -> None:
    text = (ROOT / "docs" / "ifca_mir.md").read_text(encoding="utf-8")
    ifca = chosen(search, "ifca", None, None, None)
    for line in exposure_lines(ifca):
        assert line in text, line
    assert not math.isnan(ifca["risk_minority"].mean())


def exposure_lines(ifca: Rows) -> list[str]:
    """The lines of the table on IFCA alone."""
    lines = []
    for (ratio, examples), own in ifca.groupby(SETTINGS):
        cells = [shown(own[name]) for name in ("risk_minority", "risk_majority", "accuracy_minority")]
        violated = estimate(own["violations"].tolist())
        low = f"{max(0.0, violated.low):.1f} to {violated.high:.1f}"
        counts = f"{violated.mean:.1f}, {low} ({own['violations_null'].mean():.1f})"
        lines.append(f"| {ratio} | {examples} | {' | '.join(cells)} | {counts} | {own['purity'].mean():.2f} |")
    return lines
