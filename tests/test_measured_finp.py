"""What the page on FinP says was measured."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from algorithms.metrics.statistics import estimate, holm, paired_test
from orchestrator.papers.records import records
from orchestrator.papers.trials import read_trials
from orchestrator.papers.verdicts import verdicts
from tests.support.measured import (
    Rows,
    beyond_classes,
    by_classes,
    differences,
    ends,
    measured,
    of,
    shown,
    signed,
    stated,
    with_half,
)
from tests.support.pages import ROOT

FINP = {
    "Baseline": ("plain", "fedavg", (0.770, 0.193, 0.94, 0.55)),
    "FinP_client": ("finp", "fedavg", (0.759, 0.189, 0.97, 0.52)),
    "FinP_server (PCA)": ("plain", "finp_pca", (0.778, 0.186, 0.99, 0.56)),
    "FinP (PCA)": ("finp", "finp_pca", (0.752, 0.197, 0.89, 0.52)),
    "FinP_server (ALA)": ("plain", "finp_ala", (0.738, 0.196, 0.93, 0.55)),
    "FinP (ALA)": ("finp", "finp_ala", (0.761, 0.193, 0.89, 0.53)),
}
FINP_METRICS = {"accuracy_last5_mean": 3, "sia_mean": 3, "sia_cov": 2, "eod": 2}
COMPARED = (*FINP_METRICS, "loss_cov")
METHODS = tuple(label for label in FINP if label != "Baseline")
PENALIZED = ("FinP_client", "FinP (PCA)", "FinP (ALA)")
RHO = ("rho_spearman", "rho_spearman_all", "rho_halves", "rho_reliability")


def finp(trials: Rows, label: str) -> Rows:
    """The trials of one method."""
    objective, aggregation, _ = FINP[label]
    return trials[
        (trials["objective.name"] == objective) & (trials["aggregation.name"] == aggregation)
    ]


def against_baseline(trials: Rows, label: str, metric: str) -> list[float]:
    """A method's differences from the baseline."""
    return differences(finp(trials, label), finp(trials, "Baseline"), metric)


def finp_changes(trials: Rows) -> dict[str, dict[str, tuple[str, bool]]]:
    """The differences from the baseline by method and metric, and whether they are significant
    after correction.
    """
    values = {pair: against_baseline(trials, *pair) for pair in product(METHODS, COMPARED)}
    corrected = dict(zip(values, holm([paired_test(one) for one in values.values()]), strict=True))
    shown = {pair: (signed(one), corrected[pair] < 0.05) for pair, one in values.items()}
    return {label: {metric: shown[label, metric] for metric in COMPARED} for label in METHODS}


def starred(trials: Rows, metric: str) -> list[str]:
    """The significant differences of one metric."""
    return [cells[metric][0] for cells in finp_changes(trials).values() if cells[metric][1]]


@stated("docs/finp.md")
def test_finp_tables() -> Iterator[str]:
    trials = measured("finp_har")
    for label, (*_, printed) in FINP.items():
        own = finp(trials, label)
        values = [
            f"{p:.{d}f}, {shown(own[name], d)}"
            for (name, d), p in zip(FINP_METRICS.items(), printed, strict=True)
        ]
        values.insert(2, shown(by_classes(own)))
        yield f"| {label} | {' | '.join(values)} | {shown(own['loss_cov'], 2)} |"
    for label, cells in finp_changes(trials).items():
        yield (
            f"| {label} | "
            f"{' | '.join(change + '*' * significant for change, significant in cells.values())} "
            "|"
        )
    for name, begin, than in (
        ("finp_timing_20", "", " as long as FedAvg's"),
        ("finp_timing_all", "it is ", ""),
    ):
        alone, pca, ala = (shown(times_as_long(measured(name), label), 1) for label in PENALIZED)
        yield (
            f"{begin}{alone} times{than} with the penalty alone, {pca} with PCA and {ala} with "
            "ALA weights"
        )
    latest = trials[trials["seed"] >= 52]
    pca, ala = (shown(times_as_long(latest, label), 1) for label in ("FinP (PCA)", "FinP (ALA)"))
    yield f"With the attack in both, it is {pca} times with PCA and {ala} with ALA weights"


def with_local(epochs: int) -> Rows:
    """FedAvg on CIFAR-10, five partitions, with so many local epochs."""
    trials = measured("finp_local_epochs_pairs")
    return trials[trials["run"].map(lambda run: json.loads(run)["training"]["epochs"]) == epochs]


def with_beta() -> Rows:
    """FinP on CIFAR-10, one partition, by beta."""
    trials = measured("finp_cifar_cnn_beta")
    return trials.set_index(trials["run"].map(lambda run: json.loads(run)["objective"]["beta"]))


@stated("docs/finp.md")
def test_local_epochs() -> Iterator[str]:
    one, five = map(with_local, (1, 5))
    for epochs, own, (mean, largest) in ((1, one, (0.243, 0.272)), (5, five, (0.409, 0.467))):
        sia = (
            f"{mean}, {shown(own['sia_mean'])} | {shown(by_classes(own))} | {largest}, "
            f"{shown(own['sia_max'])}"
        )
        losses = f"{shown(own['loss'], 2)} | {shown(own['test_loss'], 2)}"
        yield f"| {epochs} | {sia} | {shown(own['test_accuracy'])} | {losses} |"
    rises = differences(five, one, "sia_mean")
    yield f"From one to five epochs, the mean success rises by {shown(rises)} (printed: 0.166)"
    few, many = map(beyond_classes, (one, five))
    yield (
        f"label baseline rises by more, {shown(differences(many, few, 'sia_mean'))}: from "
        f"{shown(few['sia_mean'])} to"
    )
    yield f"to {shown(many['sia_mean'])} (looked at afterwards)"
    assert len(rises) == 5 and abs(0.166 - estimate(rises).mean) < 0.04  # the claim's margin
    assert f"{five['test_loss'].mean() / five['loss'].mean():.0f}" == "7"
    yield "training loss is a seventh of the test loss"
    yield f"in accuracy they gain {shown(differences(five, one, 'test_accuracy'))}"


@stated("docs/finp.md")
def test_what_lies_outside_of_another_run_with_the_penalty() -> Iterator[str]:
    page = (ROOT / "docs" / "numbers.md").read_text()
    rows = [
        line.strip("| ").split(" | ")
        for line in page.splitlines()
        if line.startswith("| FinP (beta=")
    ]
    outside = {(metric, method) for method, metric, *_, near, _ in rows if near == "(NO)"}
    accuracy = {
        method: float(ours) - float(theirs)
        for method, metric, theirs, ours, *_ in rows
        if metric == "train_acc_pct"
    }
    least, most = (
        min(accuracy[of] for name, of in outside if name == "train_acc_pct"),
        max(accuracy.values()),
    )
    yield f"{len(outside)} of its {len(rows)} numbers lie outside"
    yield f"with all six betas and weights (higher here by {least:.2f} to {most:.2f}, of which"
    others = {(name, method[11:-1]) for name, method in outside if name != "train_acc_pct"}
    unequal = {
        (name, of) for name in ("cov_sia", "fi_sia") for of in ("0.3, PCA", "0.3, ALA", "0.1, PCA")
    }
    assert others == unequal | {("converge_round", "0.3, PCA")} and len(outside) == 6 + len(others)


@stated("docs/finp.md")
def test_strength_of_the_penalty() -> Iterator[str]:
    plain = with_local(5)
    same, penalized = plain[plain["seed"] == 42], measured("finp_cifar_cnn_beta")
    trials = pd.concat([same, penalized])
    rounds = pd.concat(
        map(measured, ("finp_local_epochs_pairs_rounds", "finp_cifar_cnn_beta_rounds"))
    )
    last = rounds[rounds["round"] >= 15].groupby("id")["sia_mean"].mean()
    published, ids = (
        [record for record in records() if record.source == "Table 3 = Table 4"],
        dict[str, str](),
    )
    largest, chance = dict[str, str](), by_classes(trials).set_axis(trials["id"])
    for row in trials.itertuples():
        run = json.loads(row.run)
        beta, weights = (
            run["objective"].get("beta"),
            run["aggregation"]["name"].removeprefix("finp_").upper(),
        )
        method = f"FinP (beta={beta}, {weights})" if beta else "Baseline (FedAvg)"
        theirs = {record.metric: record.value for record in published if record.method == method}
        theirs = defaultdict(lambda: math.nan, theirs)  # of beta 0.5 only accuracies are printed
        rates = (("sia_mean_pct", row.sia_mean), ("test_acc_pct", row.accuracy_last5_mean))
        sia, accuracy = (f"{theirs[name] / 100:.3f}, {value:.3f}" for name, value in rates)
        cov = f"{theirs['cov_sia']}, {row.sia_cov:.2f} ({row.cov_null:.2f})"
        eod = f"{theirs['eod']}, {row.eod:.2f} ({row.eod_null:.2f})"
        after = f"{theirs['converge_round']:.0f}, {row.converge_round:.0f}"
        label = f"{beta}, {weights}" if beta else "none"
        ids[label], largest[label], sia = (
            row.id,
            f"{theirs['sia_max_pct'] / 100:.3f}",
            f"{sia} ({chance[row.id]:.3f})",
        )
        yield f"| {label} | {sia} | {last[row.id]:.3f} | {after} | {accuracy} | {cov} | {eod} |".replace(
            "nan", "–"
        )
    fall = differences(same, penalized[penalized["id"] == ids["0.3, PCA"]], "sia_mean")
    yield (
        f"plain training has a standard deviation of {plain['sia_mean'].std():.3f} over five "
        "partitions"
    )
    yield f"{shown(fall)} with 0.3 and PCA weights"
    partitions, own, collapsed = (
        last[plain["id"]],
        last[same["id"]].iloc[0],
        penalized[penalized["accuracy"] < 0.11],
    )
    found = last[penalized["id"]].drop(collapsed["id"])
    assert set(collapsed["id"]) == {ids["0.5, PCA"]}
    of_collapsed = rounds[rounds["id"] == ids["0.5, PCA"]].set_index("round")
    by_round, one_class = (
        of_collapsed["accuracy"],
        0.2 / 11,
    )  # macro F1 of a model that names one of ten classes
    assert (by_round[:3] > 0.11).all() and (by_round[3:] == 0.1).all(), "in the fourth round"
    assert of_collapsed["f1_macro"][3:].to_numpy() == pytest.approx(one_class)
    row = collapsed.iloc[0]
    yield (
        f"its mean success is {row['sia_mean']:.3f}, and the label baseline {chance[row['id']]:.3f}"
    )
    assert (of_collapsed["sia_mean"] - by_classes(of_collapsed))[3:].abs().max() < 0.001
    yield f"(A blind guess has {row['sia_chance']:.1f}.)"
    yield f"in {ends(found)} of its guesses"
    yield f"in {own:.3f} on this partition and in {ends(partitions)} on the five"
    assert all(
        found[ids[f"0.3, {weights}"]] > found[ids[f"0.05, {weights}"]] for weights in ("PCA", "ALA")
    )
    at = {label: rounds[rounds["id"] == one].sort_values("round") for label, one in ids.items()}
    pca, ala, none = (at[label]["loss"].iloc[-1] for label in ("0.3, PCA", "0.3, ALA", "none"))
    yield (
        f"in round 20 is {pca:.2f} with PCA and {ala:.2f} with ALA weights, and {none:.2f} "
        "without the penalty"
    )
    peak = trials.set_index("id")["sia_max"]
    yield (
        f"has {peak[ids['none']]:.3f} under plain training ({ends(plain['sia_max'])} on the "
        "five partitions)"
    )
    weak = peak[[one for label, one in ids.items() if label.startswith(("0.05", "0.1"))]]
    assert len(weak) == 4 and max(weak) < peak[ids["none"]]
    strong = {f"{peak[ids[f'0.3, {weights}']]:.3f}" for weights in ("PCA", "ALA")}
    yield (
        f"{ends(weak)} with betas of 0.05 and 0.1, and {' '.join(strong)} with 0.3 and either "
        "weights"
    )
    yield (
        f"(printed: {largest['none']} without, {largest['0.3, PCA']} with PCA and "
        f"{largest['0.3, ALA']} with ALA)"
    )
    lower = {label: below_plain(at["none"], own) for label, own in at.items()}
    pca, ala = (ends(lower[label][-12:]) for label in ("0.3, PCA", "0.3, ALA"))
    yield f"lower in each of its last 12 rounds, by {pca} with PCA and {ala} with ALA weights"
    weak_rounds = [lower[label] for label in lower if label.startswith(("0.05", "0.1"))]
    assert all(one.min() < 0 < one.max() for one in weak_rounds)
    cov = rounds[rounds["round"] >= 15].groupby("id")["sia_cov"].mean()
    pca, ala, none = (cov[ids[label]] for label in ("0.3, PCA", "0.3, ALA", "none"))
    yield (
        f"it is {pca:.3f} with PCA and {ala:.3f} with ALA weights, and {none:.3f} without the "
        "penalty"
    )
    yield f"({ends(cov[plain['id']])} on the five partitions)"


def below_plain(plain: Rows, own: Rows) -> pd.Series:
    """How far success lies below that of plain training at the same training loss, in each round
    that has one there.
    """
    plain = plain.sort_values("loss")
    within = own[own["loss"].between(plain["loss"].min(), plain["loss"].max())]
    return pd.Series(
        np.interp(within["loss"], plain["loss"], plain["sia_mean"]) - within["sia_mean"].to_numpy()
    )


def times_as_long(trials: Rows, label: str) -> Any:
    """How many times as long as FedAvg's on the same partition each method's round takes."""
    rounds = [
        finp(trials, one).set_index("seed")["seconds_per_round"] for one in (label, "Baseline")
    ]
    return (rounds[0] / rounds[1]).to_numpy()


@stated("sweeps/finp_timing.yaml")
def test_what_the_sweep_on_time_expects() -> Iterator[str]:
    timed = measured("finp_timing_20")
    alone, pca, ala = (shown(times_as_long(timed, label), 1) for label in PENALIZED)
    yield f"{alone} with the penalty alone, {pca} with PCA and {ala} with ALA weights"
    assert abs(times_as_long(timed, "FinP_server (PCA)").mean() - 1) < 0.1


@stated("sweeps/finp_cifar_cnn_beta.yaml")
def test_what_the_sweep_on_beta_expects() -> Iterator[str]:
    plain, penalized = with_local(5), with_beta()
    cov = penalized.set_index("aggregation.name", append=True)["sia_cov"]
    yield (
        f"with 0.3 ({cov[0.3, 'finp_pca']:.2f} with PCA, {cov[0.3, 'finp_ala']:.2f} with ALA "
        "weights)"
    )
    yield f"the {ends(plain['sia_cov'], 2)} of five partitions"
    yield f"with 0.05 and 0.1 it is {ends(cov[[0.05, 0.1]], 2)}"
    learned = penalized[penalized["accuracy"] > 0.11]
    times = learned["sia_mean"] / by_classes(learned)
    assert len(learned) == 6 and times.min() > 1.8 and times.max() < 2.6
    assert 10 * learned["sia_mean"].min() > 2.9 and 10 * learned["sia_mean"].max() < 4


@stated("docs/finp.md")
def test_finp_sentences() -> Iterator[str]:
    trials, before = measured("finp_har"), measured("finp_har_20")
    yield from (f"`docs/measured/{name}.parquet`" for name in ("finp_har", "finp_har_20"))
    everything = trials.groupby("seed")[["cov_null", "eod_null"]].mean().mean()
    yield f"{everything['cov_null']:.2f} for CoV and {everything['eod_null']:.2f} for EOD"
    beyond = {
        name: [of(finp(trials, label)[name] - finp(trials, label)[null]) for label in FINP]
        for name, null in (("sia_cov", "cov_null"), ("eod", "eod_null"))
    }
    assert max(one.high for one in beyond["sia_cov"]) < 0 < min(one.low for one in beyond["eod"])
    yield f"(the baseline's by {with_half(beyond['sia_cov'][0], 3).removeprefix('-')})"
    yield f"in the baseline by {with_half(beyond['eod'][0], 3)}"
    base = finp(trials, "Baseline")
    assert base["sia_mean"].mean() == pytest.approx(2 / 10, abs=0.02)
    assert base["sia_mean"].mean() / by_classes(base).mean() == pytest.approx(4 / 3, abs=0.02)
    yield f"(the baseline's by {shown(beyond_classes(base)['sia_mean'])})"
    for rows, metric in product((trials, before), ("sia_mean", "sia_cov", "eod")):
        assert not starred(rows, metric)
    cov = [estimate(against_baseline(trials, label, "sia_cov")) for label in METHODS]
    assert (
        min(one.mean for one in cov) > 0 and min(one.low for one in cov) > -0.02
    )  # no improvement of more than 0.02
    yield f"The penalty costs {penalty_costs(trials)} of accuracy"
    yield (
        f"cost in accuracy is {penalty_costs(in_common(trials, before))} instead of "
        f"{penalty_costs(before)}"
    )
    changes = finp_changes(trials)
    for metric, label, sentence in (
        ("accuracy_last5_mean", "FinP_server (PCA)", "PCA weights alone cost"),
        ("loss_cov", "FinP_server (ALA)", "ALA weights alone, slightly: by"),
    ):
        assert len(starred(trials, metric)) == 4 and changes[label][metric][1]
        yield f"{sentence} {changes[label][metric][0].removeprefix('−')}"


BEYOND = {"sia_mean": 4, "sia_mad": 4, "eod": 3, "sia_cov": 3}


def beyond_baseline(trials: Rows) -> dict[tuple[str, str], list[float]]:
    """What exceeds its value by classes: the differences from the baseline, by method and
    metric.
    """
    rows = beyond_classes(trials)
    return {pair: against_baseline(rows, *pair) for pair in product(METHODS, BEYOND)}


def least_of_classes() -> str:
    """By how much the penalty lowers what is found beyond the mix of labels on UCI HAR, in
    percent.
    """
    trials = measured("finp_har")
    found, base = (
        beyond_baseline(trials),
        beyond_classes(finp(trials, "Baseline"))["sia_mean"].mean(),
    )
    shares = sorted(-estimate(found[label, "sia_mean"]).mean / base for label in PENALIZED)
    return f"{100 * shares[0]:.0f} to {100 * shares[-1]:.0f} %"


@stated("docs/finp.md")
def test_exposure_beyond_the_mix_of_labels() -> Iterator[str]:
    trials = measured("finp_har")
    found = beyond_baseline(trials)
    p = dict(zip(found, holm([paired_test(values) for values in found.values()]), strict=True))
    assert len(p) == 20
    for label in METHODS:
        cells = (
            signed(found[label, name], d) + "*" * (p[label, name] < 0.05)
            for name, d in BEYOND.items()
        )
        yield f"| {label} | {' | '.join(cells)} |"
    six = list(product(PENALIZED, ("sia_mean", "sia_mad")))
    assert [pair for pair in p if p[pair] < 0.05 and pair not in six] == [("FinP (PCA)", "eod")]
    yield (
        f"have p values of {max(p[pair] for pair in six):.3f} or less, the one in EOD "
        f"{p['FinP (PCA)', 'eod']:.3f}"
    )
    base = beyond_classes(finp(trials, "Baseline"))["sia_mean"].mean()
    yield f"the mean's are {least_of_classes()} of the baseline's {base:.3f}"
    chance = trials.assign(null=by_classes(trials))
    rises = [estimate(against_baseline(chance, one, "null")) for one in PENALIZED]
    assert min(one.low for one in rises) > 0
    rises.sort(key=lambda one: one.mean)
    yield f"label baseline rises by {rises[0].mean:.3f} to {rises[-1].mean:.3f}"
    later = beyond_baseline(trials[trials["seed"] >= 52])
    yield (
        f"the six have p of {max(paired_test(later[pair]) for pair in six):.3f} or less without "
        "correction"
    )


@stated("docs/finp.md")
def test_verdicts_by_the_partitions_that_nobody_had_seen_when_the_rule_was_written() -> Iterator[
    str
]:
    trials, _ = read_trials([ROOT / "docs" / "measured"])
    unseen = [one for one in trials if one.run["data.name"] != "har" or one.run["seed"] >= 52]
    every, later = (
        {one.claim.claim: one.readings for one in verdicts(those)} for those in (trials, unseen)
    )
    asked = [name for name in every if "all examples" in every[name] and name != "finp/time"]
    words = {name: (every[name]["all examples"], later[name]["all examples"]) for name in asked}
    changed = {
        name.removeprefix("finp/"): both for name, both in words.items() if both[0] != both[1]
    }
    assert len(asked) == 9
    yield "six of the nine claims on its effects keep their verdict"
    assert list(changed) == ["exposure_eod", "accuracy", "both_parts"]
    (before, after), (was, costs), (same, together) = changed.values()
    assert same == was
    yield f'"{before}" on EOD becomes "{after}", "{was}" becomes "{costs}" for accuracy'
    yield f'and "{together}" for both parts together'


@stated("docs/finp.md")
def test_losses_of_clients_on_their_own_examples() -> Iterator[str]:
    clients = measured("finp_har_clients")
    assert sorted(clients["seed"].unique()) == [*range(52, 67)]
    keys = ["objective.name", "aggregation.name", "seed"]
    own = clients.groupby([*keys, "round"])["target_loss"]
    spread = (
        pd.DataFrame({"sd": own.std(ddof=0), "mean": own.mean()})
        .groupby(level=keys)
        .mean()
        .reset_index()
    )
    spread["cov"] = (own.std(ddof=0) / own.mean()).groupby(level=keys).mean().to_numpy()
    sd, mean, cov = (
        [against_baseline(spread, label, name) for label in PENALIZED]
        for name in ("sd", "mean", "cov")
    )
    assert min(map(paired_test, sd)) > 0.05 and max(estimate(one).high for one in cov) < 0
    yield "{}, {} and {} in these rows".format(*map(signed, sd))
    rises = sorted(estimate(one).mean for one in mean)
    yield f"its mean rises by {rises[0]:.3f} to {rises[-1]:.3f}"


def in_common(rows: Rows, others: Rows) -> Rows:
    """The trials with seeds that the others have, too."""
    return rows[rows["seed"].isin(set(others["seed"]))]


def penalty_costs(trials: Rows) -> str:
    """What the three methods with the penalty cost in accuracy, each of them significantly."""
    changes = [
        cells["accuracy_last5_mean"]
        for label, cells in finp_changes(trials).items()
        if "server" not in label
    ]
    assert len(changes) == 3 and all(significant for _, significant in changes)
    costs = sorted(change.split()[0].strip("−") for change, _ in changes)
    return f"{costs[0]} to {costs[-1]}"


def rho_means(trials: Rows, name: str) -> str:
    """The means of the methods that measure rho, such as "0.67 to 0.70"."""
    means = [finp(trials, label)[name].mean() for label in FINP]
    ends = sorted(f"{mean:.2f}" for mean in means if not math.isnan(mean))
    assert len(ends) == 4
    return f"{ends[0]} to {ends[-1]}"


@stated("docs/finp.md")
def test_how_well_rho_is_measured() -> Iterator[str]:
    trials, before = measured("finp_har"), measured("finp_har_20")
    with_rho = [label for label in FINP if finp(trials, label)["rho_halves"].notna().all()]
    assert with_rho == ["FinP_client", "FinP (PCA)", "FinP_server (ALA)", "FinP (ALA)"]
    rows = {label: finp(trials, label) for label in with_rho}
    rows["FinP_client, 20 examples"] = finp(before, "FinP_client")
    for heading, own in rows.items():
        yield f"| {heading} | {' | '.join(shown(own[name], 2) for name in RHO)} |"
    within, together, _, whole = (rho_means(trials, name) for name in RHO)
    yield (
        '"about 1" for eigenvalue and trace over all clients and rounds (App. C.4), and we '
        f"find {together}"
    )
    yield f"are ranked alike by {within} only"
    yield f"The reliability of {whole} (intervals in the table) says that about a quarter"
    assert all(0.25 < 1 - float(end) < 0.3 for end in whole.split(" to "))
    least = shown(finp(before, "FinP_client")["rho_reliability"], 2)
    yield f"its reliability is {rho_means(before, 'rho_reliability')} ({least} in the table)"


@stated("docs/finp.md")
def test_what_changed_with_all_examples() -> Iterator[str]:
    before = measured("finp_har_20")
    trials = in_common(measured("finp_har"), before)
    changed: list[float] = []
    for label in FINP:
        now, then = (finp(rows, label) for rows in (trials, before))
        values = [differences(now, then, metric) for metric in COMPARED]
        if now["rho_halves"].isna().all():
            assert not any(map(any, values)), "without rho, the runs are the same"
        else:
            changed += [paired_test(one) for one in values]
    assert (len(changed), sum(p < 0.05 for p in changed)) == (20, 3)
    yield f"after Holm's correction: the smallest p value is {min(holm(changed)):.2f}"
    lower = [
        differences(finp(before, "FinP_client"), finp(trials, "FinP_client"), name)
        for name in ("eod", "sia_cov")
    ]
    assert all(paired_test(values) < 0.05 for values in lower)
    yield f"(by {' and '.join(map(shown, lower))})"


@stated("docs/finp.md")
def test_the_pairs_that_were_added_lead_to_the_same() -> Iterator[str]:
    trials, _ = read_trials([ROOT / "docs" / "measured"])
    judged = verdicts([trial for trial in trials if trial.run["seed"] >= 52])
    parts = [part for verdict in judged for part in verdict.parts if part.effect.n == 15]
    whole = [part for part in parts if part.reading == "all examples"]
    p = {(part.claim, part.name): part.effect.p_equivalence for part in whole}
    eod = [p["finp/exposure_eod", name] for name in ("FinP (PCA)", "FinP (ALA)")]
    yield f"EOD stays within 0.05 (p = {eod[0]:.4f} with PCA, {eod[1]:.3f} with ALA weights)"
    (alike,) = [value for (claim, _), value in p.items() if claim == "finp/weights_agree"]
    yield f"CoV with PCA weights within 0.05 of CoV with ALA weights (p = {alike:.4f})"
    costs = [part for part in parts if part.claim == "finp/accuracy"]
    assert len(costs) == 3 and {part.reading for part in costs} == {"all examples"}
    yield f"(corrected p of {min(part.p_holm for part in costs):.2f} or more)"
