"""What the page on metric privacy says was measured."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterator
from itertools import product

import numpy as np
import pandas as pd
import pytest

from algorithms.metrics.statistics import holm
from attacks.metrics.paired import most_epsilon
from datasets.splits.class_counts import portions
from orchestrator.config.sweep_file import load_sweep
from orchestrator.papers.records import records
from tests.support.measured import Rows, differences, ends, measured, shown, stated
from tests.support.pages import ROOT

ARMS = ("none", "clipping alone", "global-DP", "metric privacy", "control")
SPLITS = ("homogeneous", "non-IID")
METRICS = {  # of the published tables, and ours
    "clients_test_acc_mean_last5rounds": "accuracy_last5_mean",
    "server_test_acc": "test_accuracy",
    "server_test_f1_macro": "f1_macro",
    "server_test_precision_macro": "precision_macro",
}


def printed(split: str, name: str, strategy: str = "FedAvg") -> list[float]:
    """The published `METRICS` after 20 rounds (Tables 4 to 7); none of an arm that is not in the
    paper.
    """
    method = f"{strategy} | {name.replace('none', 'vanilla').replace(' ', '-')}"
    tables = {"homogeneous": ("Table 4", "Table 5"), "non-IID": ("Table 6", "Table 7")}[split]
    found = {
        one.metric: one.value for one in records() if one.method == method and one.source in tables
    }
    return [found[metric] for metric in METRICS] if found else []


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


def test_the_arms_of_metric_privacy_are_those_of_the_sweep_file() -> None:
    runs = load_sweep(ROOT / "sweeps" / "metric_privacy_control.yaml").runs
    assert {
        arm(json.dumps(run.privacy.to_dict())) for run in runs if run.privacy.name != "none"
    } == set(ARMS[1:])


@stated("docs/metric_privacy.md")
def test_metric_privacy() -> Iterator[str]:
    trials = measured("metric_privacy_control")
    assert set(trials["status"]) == {"finished"} and (trials["clip_fraction"].dropna() == 1).all()
    arms = trials["privacy"].map(arm)
    own = {
        (s, a): trials[(trials["split"] == s) & (arms == a)].sort_values("seed")
        for s, a in product(SPLITS, ARMS)
    }
    for (split, name), rows in own.items():
        theirs = [f"{value:.3f}" for value in printed(split, name)[:2]] or ["", ""]
        pairs = zip(theirs, ("aggregated_accuracy", "test_accuracy"), strict=True)
        cells = [f"{value} | {shown(rows[metric])}" for value, metric in pairs]
        cells += [
            shown(rows["f1_macro"]),
            shown(rows["distance_mean"], 2),
            shown(rows["noise_std"], 4),
        ]
        yield " | ".join([f"| {split} | {name}", *cells]) + " |"

    def lost(first: str, second: str, split: str) -> list[float]:
        return differences(own[split, first], own[split, second], "test_accuracy")

    clipped = {split: lost("none", "clipping alone", split) for split in SPLITS}
    for split, values in clipped.items():
        assert min(values) > 0.14
        yield f"{min(values):.3f} to {max(values):.3f} on the {split} split"
    ends = floor(pd.concat([own[split, name] for split, name in product(SPLITS, ARMS[1:])]))
    yield f"Naming the largest class alone has {LARGEST:.3f} of the server's test"
    yield f"from which noise could take something, {ends}"
    noise = [
        value
        for split, name in product(SPLITS, ARMS[2:])
        for value in lost(name, "clipping alone", split)
    ]
    yield f"between {min(noise):.3f} and +{max(noise):.3f}".replace("-", "−")
    control = [value for split in SPLITS for value in lost("metric privacy", "control", split)]
    yield f"by {min(control):.3f} to +{max(control):.3f}".replace("-", "−")
    places = list(product(SPLITS, ("global-DP", "metric privacy")))
    below = [value for split, name in places for value in lost("none", name, split)]
    yield f"they lie {min(below):.3f} to {max(below):.3f} below"
    printed_below = [printed(split, "none")[1] - printed(split, name)[1] for split, name in places]
    yield f"lie at most {max(printed_below):.3f} below"


LARGEST = (
    portions(np.array([172, 15, 634, 459]), 640).max() / 640
)  # of the server's half of the test images


def floor(clipped: Rows) -> str:
    """The accuracies of clipped arms on the server's test; the lowest names one class, as its
    macro F1 over four says.
    """
    (lowest, *_), found = (
        clipped.sort_values("test_accuracy").to_dict("records"),
        clipped["test_accuracy"],
    )
    assert lowest["test_accuracy"] == LARGEST
    assert lowest["f1_macro"] == pytest.approx(2 * LARGEST / (1 + LARGEST) / 4, abs=1e-6)
    return ends(found)


@stated("sweeps/metric_privacy_control.yaml")
def test_what_the_control_of_metric_privacy_expects() -> Iterator[str]:
    trials = measured("metric_privacy_control")
    yield (
        f"{floor(trials[trials['privacy'].map(arm) != 'none'])}, where naming the largest class "
        f"has {LARGEST:.3f}"
    )
    yield f"the clients' error ends at {errors_of_clients()}"


def errors_of_clients() -> str:
    """The clients' errors in the last five of twenty rounds, under metric privacy and without
    protection.
    """
    trials = measured("metric_privacy_homogeneous").set_index("privacy.name")["accuracy_last5_mean"]
    noisy, none = (f"{100 * (1 - trials[name]):.1f} %" for name in ("metric_privacy", "none"))
    return f"{noisy} instead of {none}"


ROUNDS = (1, 2, 4, 6, 8, 12, 16, 20)


def with_printed(split: str, name: str, row: dict[Hashable, float]) -> list[tuple[float, float]]:
    """The `METRICS` of an arm, printed and measured."""
    return list(zip(printed(split, name), map(row.__getitem__, METRICS.values()), strict=True))


@stated("docs/metric_privacy.md")
def test_twenty_rounds_of_other_strategies() -> Iterator[str]:
    lines = [measured(f"metric_privacy_homogeneous_{line}") for line in ("strategies", "median")]
    rows = pd.concat(lines).set_index(["aggregation.name", "privacy.name"])
    names, both = (
        {"fedavgm": "FedAvgM", "fedmedian": "FedMedian", "fedopt": "FedOpt", "fedyogi": "FedYogi"},
        {},
    )
    for (strategy, privacy), row in rows.iterrows():
        there = printed("homogeneous", KINDS[privacy], names[strategy])
        both[strategy, privacy] = list(
            zip(there, (float(row[name]) for name in METRICS.values()), strict=True)
        )
        cells = " | ".join(f"{one:.3f}, {other:.3f}" for one, other in both[strategy, privacy])
        yield f"| {names[strategy]} | {KINDS[privacy]} | {cells} |"
    none, noisy = (
        both["fedavgm", "none"][0],
        (both["fedavgm", name][0] for name in ("global_dp", "metric_privacy")),
    )
    (theirs, ours), (their_less, less) = (
        [a - b for a, b in zip(none, cell, strict=True)] for cell in noisy
    )
    yield (
        f"global-DP costs FedAvgM {ours:.3f} on the clients' tests here (one seed), where "
        f"{theirs:.3f} is printed"
    )
    yield f"and metric privacy {less:.3f}, where {their_less:.3f} is printed"
    yield f"ends {ours - less:.3f} above it, where {theirs - their_less:.3f} is printed"
    rounds = [
        measured(f"metric_privacy_homogeneous_{line}_rounds") for line in ("strategies", "median")
    ]
    median = pd.concat(rounds).set_index("round")[
        lambda one: one["aggregation.name"] == "fedmedian"
    ]
    (first, second), (later, latest), (last, end) = (
        [
            (median[median["privacy.name"] == name]["test_accuracy"] >= share).idxmax() + 1
            for share in (0.92, 0.95)
        ]
        for name in ("none", "metric_privacy", "global_dp")
    )
    yield (
        f"reaches 0.92 in round {later} instead of {first}, and 0.95 in round {latest} instead "
        f"of {second}"
    )
    yield f"under global-DP in rounds {last} and {end}"
    none, *noisy = (both["fedmedian", name][0] for name in ("none", "metric_privacy", "global_dp"))
    (theirs, ours), (their_more, more) = (
        [a - b for a, b in zip(none, cell, strict=True)] for cell in noisy
    )
    lost = f"The clients lose {ours:.3f} and {more:.3f} in the last five rounds"
    yield f"{lost}, where {theirs:.3f} and {their_more:.3f} are printed"
    rounds = rounds[0]
    rounds = (
        rounds[rounds["aggregation.name"] == "fedavgm"].sort_values("round").groupby("privacy.name")
    )
    last, noise = rounds["accuracy"].last(), rounds["noise_std"].mean()
    yield (
        f"accuracy is {last['none']:.3f}, {last['global_dp']:.3f} and "
        f"{last['metric_privacy']:.3f} there"
    )
    assert noise["metric_privacy"] / noise["global_dp"] == pytest.approx(2 / 3, abs=0.01)
    yield f"({noise['metric_privacy']:.4f} on average instead of {noise['global_dp']:.4f})"


@stated("docs/metric_privacy.md")
def test_twenty_rounds_of_metric_privacy() -> Iterator[str]:
    non_iid = ("metric_privacy_non_iid", "metric_privacy_non_iid_noisy")
    for split, tables in (("non-IID", non_iid), ("homogeneous", ("metric_privacy_homogeneous",))):
        rounds = pd.concat([measured(f"{table}_rounds") for table in tables])
        found = {
            KINDS[row["privacy.name"]]: row
            for table in tables
            for row in measured(table).to_dict("records")
        }
        for name, row in found.items():
            cells = [f"{there:.3f}, {here:.3f}" for there, here in with_printed(split, name, row)]
            yield f"| {split} | {name} | {' | '.join(cells)} |"
            own = rounds[rounds["id"] == row["id"]].set_index("round")
            yield (
                f"| {split} | {name} | "
                f"{' | '.join(f'{own.test_accuracy[at - 1]:.3f}' for at in ROUNDS)} |"
            )
            first, later = ((own["test_accuracy"] >= share).idxmax() + 1 for share in (0.92, 0.95))
            noise = "" if name == "none" else ends(own["noise_to_update"], 0)
            late = f"{first} | {later} | {own['test_accuracy'][15:].mean():.3f}"
            yield f"| {split} | {name} | {late} | {noise} |"
            if name != "none":
                assert (own["clip_fraction"] == 1).all()
                assert (
                    own["noise_std"].max() == 0.0125
                    if name == "global-DP"
                    else own["noise_std"].max() < 0.0125
                )
        both = [
            rounds[rounds["id"] == found[name]["id"]].set_index("round")
            for name in ("none", "metric privacy")
        ]
        for share in (0.92, 0.95):
            first, later = ((one["test_accuracy"] >= share).idxmax() + 1 for one in both)
            assert later - first == 4
        none, noisy = (one[15:] for one in both)
        lost = found["none"]["accuracy_last5_mean"] - found["metric privacy"]["accuracy_last5_mean"]
        of_d = found["metric privacy"]["distance_mean"]
        if split == "homogeneous":
            yield f"they lose {lost:.3f} (one seed; 0.024 is printed"
            yield f"(its mean over the rounds is {of_d:.2f}, one seed)"
        else:
            yield f"they gain {-lost:.3f} (one seed)"
            yield f"from {none['accuracy'].iloc[0]:.3f} to {none['accuracy'].iloc[-1]:.3f}"
            yield f"d is {of_d:.2f} on average"
            (theirs, ours), (more, most) = (
                with_printed(split, KINDS[name], found[KINDS[name]])[0] for name in NOISY
            )
            yield (
                f"the clients' accuracy is {ours:.3f} in the last five rounds, {most - ours:.3f} "
                "below that with metric privacy (one seed)"
            )
            yield f"where {more - theirs:.3f} is printed"
    own = rounds[rounds["id"] == found["metric privacy"]["id"]]
    yield f"(they are {ends(own['update_norm'], 0)} long, C is 5)"
    d = own["distance"].tolist()
    assert d.index(min(d)) == 8 and max(d) == d[0]
    yield f"falls from {d[0]:.1f} to {min(d):.1f} and rises again to {d[-1]:.1f}"
    row = found["global-DP"]
    error = f"{1 - row['accuracy_last5_mean']:.1%}".replace("%", " %")
    yield f"the clients' error is {error} as well"
    assert none["accuracy"].min() > noisy["accuracy"].max()
    yield f"the clients' error is {errors_of_clients()}"
    gains = [
        here - there
        for name, row in found.items()
        for there, here in with_printed("homogeneous", name, row)[:2]
    ]
    yield (
        f"accuracies on the homogeneous split are {min(gains):.2f} to {max(gains):.2f} above "
        "the printed ones"
    )
    (other,) = measured("metric_privacy_non_iid").to_dict("records")
    (clients, server, _, (there, here)) = with_printed("non-IID", "none", other)
    assert f"{clients[1] - clients[0]:.2f}" == f"{server[1] - server[0]:.2f}" and here < there
    yield f"protection by {server[1] - server[0]:.2f}, with a macro precision below the printed one"


CIA = {"fedavg": "FedAvg", "fedmedian": "median"}
KINDS = {"none": "none", "global_dp": "global-DP", "metric_privacy": "metric privacy"}
NOISY = ("global_dp", "metric_privacy")
AT_RANDOM, TRAINED = "at random", "trained on 640 images"
STRATEGIES = {  # aggregation, objective, how the model begins, and the printed differences by kind
    "FedAvg": ("fedavg", "plain", AT_RANDOM, 0.127, 0.257, 0.246),
    "FedMedian": ("fedmedian", "plain", AT_RANDOM, 0.101, 0.286, 0.259),
    "FedProx (inactive)": ("fedavg", "fedprox", AT_RANDOM, 0.127, 0.312, 0.248),
    "FedAvgM": ("fedavgm", "plain", TRAINED, 0.198, 0.131, 0.220),
    "FedOpt": ("fedopt", "plain", TRAINED, 0.006, 0.079, 0.113),
    "FedYogi": ("fedyogi", "plain", TRAINED, 0.112, 0.189, 0.149),
}


@stated("docs/metric_privacy.md")
def test_client_inference() -> Iterator[str]:
    trials = measured("metric_privacy_cia")
    for (strategy, label), (kind, called) in product(CIA.items(), KINDS.items()):
        (row,) = trials[
            (trials["aggregation.name"] == strategy) & (trials["privacy.name"] == kind)
        ].to_dict("records")
        auc, zero, nobody = (
            f"{row[name]:.2f} ({row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f})"
            for name in ("cia_auc", "cia_zero_auc", "cia_auc_nobody")
        )
        yield f"| {label} | {called} | {auc} | {row['cia_auc_p']:.2f} | {zero} | {nobody} |"
    assert (trials["cia_auc_low"] < 0.5).all() and (trials["cia_auc_high"] > 0.5).all()
    yield f"accuracy on the server's test is {ends(trials['test_accuracy'])}"
    yield f"and naming the largest class has {LARGEST:.3f} (one seed)"
    p = sorted(holm(trials["cia_zero_auc_p"].tolist()))
    assert p[0] < 0.05 < p[1] == p[-1]
    yield f"p {ends(trials['cia_zero_auc_p'])}, after the same correction"
    yield f"{p[0]:.3f} in one and {p[1]:.2f} in the others"
    yield f"{min(holm(trials['cia_auc_p'].tolist())):.2f} after Holm's correction over the six"
    (distinct,) = trials["cia_stand_in_distinct"].unique()
    yield f"{distinct:.0%} of theirs are distinct".replace("%", " %")
    yield f"{ends(trials['cia_difference'], 2)} in all six runs"
    assert most_epsilon(int(trials["cia_pairs"].max()) // 2) == 0
    yield f"p = {trials['cia_p_least'].max():.3f} and certify no epsilon"
    published = pd.concat(
        [measured("metric_privacy_cia_published"), measured("metric_privacy_fedprox_cia")]
    )
    less = defaultdict[str, list[float]](
        list
    )  # by how much the difference is smaller under metric privacy
    for label, (aggregation, objective, begins, *printed) in STRATEGIES.items():
        rows = published[
            (published["aggregation.name"] == aggregation)
            & (published["objective.name"] == objective)
        ]
        found = rows.set_index("privacy.name")["cia_difference"]
        cells = (
            f"{there:.3f} | {found[kind]:.3f}" for kind, there in zip(KINDS, printed, strict=True)
        )
        yield f"| {label} | {begins} | {' | '.join(cells)} |"
        loss = rows.set_index("privacy.name")["cia_aggregated_loss"]
        assert begins == TRAINED or all(1.2 <= round(loss[kind], 2) <= 1.24 for kind in NOISY)
        less[begins].append(found["global_dp"] - found["metric_privacy"])
        grows = [found[kind] > found["none"] for kind in NOISY]
        assert grows == [begins == TRAINED] * 2
    yield (
        f"smaller by {min(less[TRAINED]):.3f} to {max(less[TRAINED]):.3f} in the three that "
        "begin trained"
    )
    assert min(less[AT_RANDOM]) > 0
    yield f"and by no more than {max(less[AT_RANDOM]):.3f} in the others"
    fedavg = published[published["aggregation.name"] == "fedavg"].pivot(
        index="privacy.name", columns="objective.name", values="cia_difference"
    )
    machine = (fedavg["plain"] - fedavg["fedprox"]).abs()
    assert len(machine) == 3
    yield f"shows what that does: {ends(machine)} in its three cells"
    grown = [
        there > none
        for *_, none, noisy, metric_noise in STRATEGIES.values()
        for there in (noisy, metric_noise)
    ]
    assert (sum(grown), len(grown)) == (11, 12)


@stated("docs/metric_privacy.md")
def test_client_inference_over_partitions() -> Iterator[str]:
    trials = measured("metric_privacy_cia_pairs")
    trials = trials.assign(nats=trials["cia_target_loss"] - trials["cia_aggregated_loss"])
    assert (
        (trials["nats"] / trials["cia_target_loss"] - trials["cia_difference"]).abs() < 1e-6
    ).all()
    noisy = trials[trials["privacy.name"] != "none"]
    assert (noisy["clip_fraction"] == 1).all()
    fedopt = trials[trials["aggregation.name"] == "fedopt"]
    plain, *arms = (fedopt[fedopt["privacy.name"] == name] for name in ("none", *NOISY))
    yield f"by {ends(-plain['nats'], 2)} nats"
    yield (
        f"(a loss of {ends(plain['cia_target_loss'], 2)} and of "
        f"{ends(plain['cia_aggregated_loss'], 2)})"
    )
    yield f"without noise the difference is {plain['cia_difference'].mean():.3f} here"
    yield (
        f"as a published difference is {plain['cia_difference'].max():.2f} to "
        f"{plain['cia_difference'].min():.2f}"
    )
    raised = (shown(differences(one, plain, "nats"), 2) for one in arms)
    yield f"clipping with noise raises it by {' and '.join(raised)}"
    fedopt = noisy[noisy["aggregation.name"] == "fedopt"]
    small, large = (
        fedopt[fedopt["privacy.name"] == name]["noise_std"]
        for name in ("metric_privacy", "global_dp")
    )
    assert large.std() < 1e-6
    yield f"(standard deviation {ends(small, 4)}, {large.max():.4f} with global-DP)"
