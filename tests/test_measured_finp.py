"""What docs/finp.md says was measured: each number is computed anew from the runs that it comes from."""

from __future__ import annotations

import math

import pytest

from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.statistics import estimate, holm, paired_test
from tests.support.pages import ROOT
from tests.test_measured import Rows, differences, measured, shown, signed, words

FINP = {
    "Baseline": ("plain", "fedavg", (0.770, 0.193, 0.94, 0.55)),
    "FinP_client": ("finp", "fedavg", (0.759, 0.189, 0.97, 0.52)),
    "FinP_server (PCA)": ("plain", "finp_pca", (0.778, 0.186, 0.99, 0.56)),
    "FinP (PCA)": ("finp", "finp_pca", (0.752, 0.197, 0.89, 0.52)),
    "FinP_server (ALA)": ("plain", "finp_ala", (0.738, 0.196, 0.93, 0.55)),
    "FinP (ALA)": ("finp", "finp_ala", (0.761, 0.193, 0.89, 0.53)),
}
FINP_METRICS = {"accuracy_last5_mean": 3, "sia_mean": 3, "sia_cov": 2, "eod": 2}


def finp_part(trials: Rows, objective: str, aggregation: str) -> Rows:
    """The trials of one method."""
    return trials[(trials["objective.name"] == objective) & (trials["aggregation.name"] == aggregation)]


def finp_lines(trials: Rows) -> list[str]:
    """The two tables of docs/finp.md: printed and measured values, and differences from the baseline."""
    base = finp_part(trials, "plain", "fedavg")
    lines, raw, cells = [], [], {}
    for label, (objective, aggregation, printed) in FINP.items():
        own = finp_part(trials, objective, aggregation)
        values = [
            f"{theirs:.{digits}f}, {shown(own[metric], digits)}"
            for (metric, digits), theirs in zip(FINP_METRICS.items(), printed, strict=True)
        ]
        lines.append(f"| {label} | {' | '.join(values)} | {shown(own['loss_cov'], 2)} |")
        if label != "Baseline":
            found = {metric: differences(own, base, metric) for metric in (*FINP_METRICS, "loss_cov")}
            cells[label] = [signed(values, 3) for values in found.values()]
            raw += [paired_test(values) for values in found.values()]
    corrected = holm(raw)
    for k, (label, own_cells) in enumerate(cells.items()):
        stars = ["*" if p < 0.05 else "" for p in corrected[5 * k : 5 * k + 5]]
        lines.append(f"| {label} | {' | '.join(a + b for a, b in zip(own_cells, stars, strict=True))} |")
    return lines


def test_the_tables_of_finp_follow_from_the_run() -> None:
    trials = measured("finp_har")
    text = (ROOT / "docs" / "finp.md").read_text(encoding="utf-8")
    for line in finp_lines(trials):
        assert line in text, line
    everything = trials.groupby("seed")[["cov_null", "eod_null"]].mean().mean()
    assert f"{everything['cov_null']:.2f} for CoV and {everything['eod_null']:.2f} for EOD" in words("docs/finp.md")


def test_inequality_beyond_chance_follows_from_the_run() -> None:
    page, trials = words("docs/finp.md"), measured("finp_har")
    methods = [finp_part(trials, *method[:2]) for method in FINP.values()]
    cov, eod = (
        [estimate((own[name] - own[null]).tolist()) for own in methods]
        for name, null in (("sia_cov", "cov_null"), ("eod", "eod_null"))
    )
    assert max(one.high for one in cov) < 0 < min(one.low for one in eod)
    assert f"(the baseline's by {' ± '.join(cov[0].parts(3)).removeprefix('-')})" in page
    assert f"in the baseline by {' ± '.join(eod[0].parts(3))}" in page
    assert methods[0]["sia_mean"].mean() == pytest.approx(2 / 10, abs=0.02)


@pytest.mark.parametrize(("name", "set_"), [("finp_har", []), ("finp_har_20", ["base.curvature.examples=20"])])
def test_the_runs_of_finp_are_those_of_the_sweep_file(name: str, set_: list[str]) -> None:
    from orchestrator.config.run import trial_id

    trials = measured(name)
    assert set(trials["id"]) == {trial_id(run) for run in load_sweep(ROOT / "sweeps" / "finp_har.yaml", set_).runs}
    assert set(trials["status"]) == {"finished"}
    assert f"(`docs/measured/{name}.parquet`" in words("docs/finp.md")


def starred(trials: Rows, metric: str) -> list[str]:
    """The differences of one metric that are significant after correction, as the table has them."""
    column = 1 + [*FINP_METRICS, "loss_cov"].index(metric)
    cells = [line.split(" | ")[column].removesuffix(" |") for line in finp_lines(trials)[len(FINP) :]]
    return [cell.removesuffix("*") for cell in cells if cell.endswith("*")]


def test_the_sentences_on_finp_follow_from_the_run() -> None:
    page, trials, before = words("docs/finp.md"), measured("finp_har"), measured("finp_har_20")
    for metric in ("sia_mean", "sia_cov", "eod"):
        assert not starred(trials, metric) and not starred(before, metric)
    base = finp_part(trials, "plain", "fedavg")
    cov = {
        label: estimate(differences(finp_part(trials, *FINP[label][:2]), base, "sia_cov"))
        for label in FINP
        if label != "Baseline"
    }
    assert min(found.mean for found in cov.values()) > 0
    assert min(found.low for found in cov.values()) > -0.03, "an improvement of more than 0.03 is outside the intervals"
    costs = {
        name: sorted(one.split()[0].strip("−") for one in starred(rows, "accuracy_last5_mean"))
        for name, rows in (("now", trials), ("before", before))
    }
    assert {name: len(found) for name, found in costs.items()} == {"now": 3, "before": 3}
    now, then = (f"{found[0]} to {found[-1]}" for found in costs.values())
    assert f"The penalty costs {now} of accuracy" in page
    assert f"cost in accuracy is {now} instead of {then}" in page
    assert (len(starred(trials, "loss_cov")), len(starred(before, "loss_cov"))) == (3, 3)


RHO = ("rho_spearman", "rho_spearman_all", "rho_halves", "rho_reliability")


def rho_means(trials: Rows, name: str) -> str:
    """The means of the methods that measure rho, such as "0.67 to 0.70"."""
    means = [finp_part(trials, *method[:2])[name].mean() for method in FINP.values()]
    ends = sorted(f"{mean:.2f}" for mean in means if not math.isnan(mean))
    assert len(ends) == 4
    return f"{ends[0]} to {ends[-1]}"


def test_how_well_rho_is_measured_follows_from_the_run() -> None:
    text, page = (ROOT / "docs" / "finp.md").read_text(encoding="utf-8"), words("docs/finp.md")
    trials, before = measured("finp_har"), measured("finp_har_20")
    with_rho = [label for label, method in FINP.items() if finp_part(trials, *method[:2])["rho_halves"].notna().all()]
    assert with_rho == ["FinP_client", "FinP (PCA)", "FinP_server (ALA)", "FinP (ALA)"]
    rows = [(label, trials, label) for label in with_rho] + [("FinP_client, 20 examples", before, "FinP_client")]
    for heading, held, label in rows:
        own = finp_part(held, *FINP[label][:2])
        assert f"| {heading} | {' | '.join(shown(own[name], 2) for name in RHO)} |" in text
    together, within, whole = (
        rho_means(trials, name) for name in ("rho_spearman_all", "rho_spearman", "rho_reliability")
    )
    assert (
        f'The paper prints "about 1" for eigenvalue and trace over all clients and rounds (App. C.4), and we find {together}'
        in page
    )
    assert f"are ranked alike by {within} only" in page
    assert f"The reliability of {whole} (intervals in the table) says that over a quarter" in page
    assert all(0.25 < 1 - float(end) < 0.3 for end in whole.split(" to "))
    assert f"its reliability is {rho_means(before, 'rho_reliability')}" in page


def test_what_changed_with_all_examples_follows_from_the_two_runs() -> None:
    page, trials, before = words("docs/finp.md"), measured("finp_har"), measured("finp_har_20")
    found = []
    for objective, aggregation, _ in FINP.values():
        now, then = (finp_part(held, objective, aggregation) for held in (trials, before))
        changed = {metric: differences(now, then, metric) for metric in (*FINP_METRICS, "loss_cov")}
        if now["rho_halves"].isna().all():
            assert not any(map(any, changed.values())), "without rho, the runs are the same"
        else:
            found += [paired_test(values) for values in changed.values()]
    assert (len(found), sum(p < 0.05 for p in found)) == (20, 3)
    assert f"after Holm's correction: the smallest p value is {min(holm(found)):.2f}" in page
    lower = [
        differences(finp_part(before, "finp", "fedavg"), finp_part(trials, "finp", "fedavg"), name)
        for name in ("eod", "sia_cov")
    ]
    assert all(paired_test(values) < 0.05 for values in lower)
    assert f"(by {' and '.join(shown(values, 3) for values in lower)})" in page


def test_the_seconds_of_finp_follow_from_the_run() -> None:
    trials, text = measured("finp_timing"), (ROOT / "docs" / "finp.md").read_text(encoding="utf-8")
    for client, objective in (("plain", "plain"), ("FinP", "finp")):
        parts = [finp_part(trials, objective, name) for name in ("fedavg", "finp_pca", "finp_ala")]
        assert f"| {client} | {' | '.join(shown(own['seconds_per_round']) for own in parts)} |" in text
