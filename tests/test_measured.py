"""What the pages say was measured: the quickstart, verdicts, audits."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from algorithms.metrics.statistics import estimate, holm, paired_test
from orchestrator.config.run import trial_id
from orchestrator.config.sweep_file import load_sweep
from orchestrator.papers.rule import (
    AGAINST_IN_PART,
    BEYOND,
    CONTRADICTED,
    DECIDED,
    IN_PART,
    INCONCLUSIVE,
    LARGER,
    NO_EFFECT,
    NOT_TESTED,
    ONE_RUN,
    OTHER_VALUE,
    SUPPORTED,
)
from orchestrator.papers.trials import read_trials
from orchestrator.papers.verdict_page import MARK
from orchestrator.papers.verdicts import OTHER_BASELINE, verdicts
from orchestrator.report import data
from tests.support.arranged import printed
from tests.support.audit_oracles import comparison
from tests.support.measured import (
    Rows,
    beyond_classes,
    differences,
    measured,
    of,
    shown,
    signed,
    stated,
    words,
)
from tests.support.pages import ROOT

KEYS = ["clustering.name", "data.split.minority_ratio", "seed"]
WIDTH = 118


# Runs


APART = ["name=ifca-mir-reveals-apart", "base.data.split.minority=[-45, -20]"]
TEN_SEEDS = f"sweep.seed.grid_search={[*range(42, 52)]}"


@pytest.mark.parametrize(
    ("name", "sweep", "sets"),
    [
        ("quickstart", "quickstart", []),
        ("ifca_mir_search", "ifca_mir_search", []),
        ("ifca_mir_balance", "ifca_mir_balance", []),
        ("ifca_mir_reveals", "ifca_mir_reveals", []),
        ("ifca_mir_reveals_apart", "ifca_mir_reveals", APART),
        ("audit_quickstart", "audit_quickstart", []),
        ("dp_sgd_sia", "dp_sgd_sia", []),
        ("finp_har", "finp_har", []),
        ("finp_har_20", "finp_har", ["base.curvature.examples=20", TEN_SEEDS]),
    ],
)
def test_what_was_measured_is_the_run_of_a_sweep_file(
    name: str, sweep: str, sets: list[str]
) -> None:
    trials = measured(name)
    assert set(trials["id"]) == {
        trial_id(run) for run in load_sweep(ROOT / "sweeps" / f"{sweep}.yaml", sets).runs
    }
    assert set(trials["status"]) == {"finished"}


def test_the_table_of_the_readme_is_what_the_first_command_prints() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- quickstart output -->\n(.*?)\n\n", text, re.DOTALL)
    told = [line.removeprefix("    ").rstrip() for line in block.splitlines()]
    made = data.results(
        Path("quickstart"), data.rows(measured("quickstart").to_dict("records")), KEYS, {}
    )
    assert told == [line.rstrip() for line in printed(made, WIDTH).rstrip().splitlines()]


# Verdicts


def deciding(cell: str) -> str:
    """The verdict of the first reading that decides, from those of a claim such as "all
    examples: supported; ...".
    """
    found = [one.split(": ")[-1].removeprefix(f"{OTHER_BASELINE}, ") for one in cell.split("; ")]
    return next((one for one in found if one in DECIDED), found[0])


def claims(cells: list[str]) -> str:
    """The end of a row of the table of claims, for the verdicts of a paper's claims."""
    words_of = {
        SUPPORTED: "supported",
        IN_PART: "supported in part",
        AGAINST_IN_PART: "contradicted in part",
        NO_EFFECT: "without effect",
        OTHER_VALUE: "not reproduced",
    }
    best = [deciding(cell) for cell in cells]
    counts = {word: best.count(verdict) for verdict, word in words_of.items()}
    decided = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    untested = best.count(NOT_TESTED)
    undecided = len(best) - untested - sum(counts.values())
    assert {*best} <= {*words_of, NOT_TESTED, ONE_RUN, INCONCLUSIVE, CONTRADICTED}
    return f"| {decided} | {undecided} | {untested} |".replace("|  |", "| |")


@pytest.mark.parametrize("name", ["README.md", "docs/papers.md"])
def test_the_tables_of_claims_are_those_of_the_verdicts(name: str) -> None:
    made = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8")
    text = (ROOT / name).read_text(encoding="utf-8")
    for paper in ("FinP", "IFCA-MIR", "Metric privacy"):
        section = " ".join(made.split(f"\n## {paper}\n")[1].split("\n## ")[0].split())
        cells = re.findall(r"(?<=\. )\*\*([^*]+)\*\*\.", section)
        (row,) = re.findall(rf"^\| \[{paper}\].*$", text, re.MULTILINE)
        assert row.endswith(claims(cells))
        assert name == "README.md" or f" | {len(cells)} | " in row


@stated("docs/papers.md")
def test_how_many_claims_there_are_and_carry_a_mark() -> Iterator[str]:
    ((count, decided, untested),) = re.findall(
        r"(\d+) claims: (\d+) are decided in at least one reading, and (\d+) have not been tested",
        words("docs/verdicts.md"),
    )
    yield f"{count} claims: {int(count) - 2} of three papers, and two controls of ours"
    yield f"{decided} are decided so far, and {untested} have not been tested"
    lines = (ROOT / "docs" / "verdicts.md").read_text().splitlines()
    effects = [
        line for line in lines if line.startswith("| ") and CONTRADICTED in line.split(" | ")[-1]
    ]
    near = sum("| yes |" in line for line in effects)
    yield f"{len(effects)} are contradicted as printed. A single run can still show {near}"
    marked = sum(line.endswith(f" {MARK} |") for line in lines)
    yield f"{marked} verdicts carry a mark for that"


@stated("docs/papers.md")
def test_what_the_bullets_say_of_verdicts() -> Iterator[str]:
    trials, _ = read_trials([ROOT / "docs" / "measured"])
    parts = {
        (part.claim, part.label): part for verdict in verdicts(trials) for part in verdict.parts
    }
    losses = [
        parts["finp/loss_cov", f"{name}, all examples"]
        for name in ("FinP_client", "FinP (PCA)", "FinP (ALA)")
    ]
    assert {part.verdict for part in losses} <= {SUPPORTED, LARGER} and all(
        part.other_baseline for part in losses
    )
    open_claims = (
        "finp/exposure_cov",
        "finp/rank_agreement",
    )  # and docs/finp.md says it of the second
    assert {part.verdict for (claim, _), part in parts.items() if claim in open_claims} == {
        INCONCLUSIVE
    }
    costs = [parts["finp/accuracy", f"FinP ({name}), all examples"] for name in ("ALA", "PCA")]
    assert [part.verdict for part in costs] == [BEYOND, BEYOND] and {
        part.effect.margin for part in costs
    } == {0.02}
    yield "two points of accuracy (our bound; {:.1f} and {:.1f} are printed)".format(
        *(-100 * part.effect.printed for part in costs)
    )
    grown = [
        parts["metric_privacy/client_inference", f"FedOpt, {name}, bf16"]
        for name in ("metric privacy", "global-DP")
    ]
    assert {(part.verdict, part.other_baseline) for part in grown} == {(LARGER, True)}
    times = [part.effect.mean / part.effect.printed for part in grown]
    yield f"by {times[0]:.0f} to {times[1]:.0f} times what is printed"
    yield (
        f"from a baseline of −{-grown[0].baseline:.3f} where {grown[0].printed_baseline:.3f} is "
        "printed"
    )


# The first command


def quickstart(name: str, ratio: float) -> Rows:
    trials = measured("quickstart")
    return trials[
        (trials["clustering.name"] == name) & (trials["data.split.minority_ratio"] == ratio)
    ]


@stated("README.md")
def test_the_readme() -> Iterator[str]:
    ifca, mir = quickstart("ifca", 0.1), quickstart("ifca_mir", 0.1)
    small, large = (shown(ifca[f"calibrated_auc_{group}"]) for group in ("minority", "majority"))
    change = signed(differences(mir, ifca, "calibrated_auc_minority"))
    yield f"AUC is {small} on a 10 % minority under IFCA"
    yield f"On the majority it is {large}"
    yield f"changes the minority's AUC by {change}"


@stated("docs/quickstart.md")
def test_the_quickstart() -> Iterator[str]:
    ifca, mir, few = quickstart("ifca", 0.1), quickstart("ifca_mir", 0.1), quickstart("ifca", 0.3)
    between = (ifca["calibrated_auc_minority"] - ifca["calibrated_auc_majority"]).tolist()
    assert paired_test(between) < 0.001
    small, large = (shown(ifca[f"calibrated_auc_{group}"]) for group in ("minority", "majority"))
    yield f"an AUC of {small} on the minority's records and {large} on the majority's"
    yield f"the difference, {shown(between)}, p < 0.001"
    worst, chance = (ifca[f"calibrated_auc_worst_client{end}"] for end in ("", "_null"))
    assert of(worst - chance).low > 0
    yield f"The most exposed client has {shown(worst)} (chance level {chance.mean():.3f})"
    both = " and ".join(shown(few[f"calibrated_auc_{group}"]) for group in ("minority", "majority"))
    yield f"With 30 % minority it is {both}"
    own = " and ".join(
        shown(ifca[f"calibrated_run_auc_{group}"]) for group in ("minority", "majority")
    )
    yield f"the AUC with 10 % minority is {own}"
    yield f"the shadow attack has an AUC of {shown(ifca['mia_auc_worst'])} with 10 % minority"
    yield f"The permutation baseline has {ifca['mia_auc_worst_null'].mean():.3f}"
    assert (ifca["mia_auc_worst"] == ifca["mia_auc_minority"]).all()  # the model is the minority's
    (rest, p_rest), (none, p_none) = (
        (v, paired_test(v))
        for v in (
            (rows["mia_auc_worst"] - rows["mia_auc_worst_null"]).tolist() for rows in (ifca, few)
        )
    )
    assert p_rest < 0.05 < p_none
    yield f"Of the rest, {signed(rest)}, p is {p_rest:.3f}"
    yield f"it is {signed(none)} (p = {p_none:.3f})"
    risks = [
        f"{shown(ifca[one])} (chance level {ifca[f'{one}_null'].mean():.3f})"
        for one in ("risk_minority", "risk_majority")
    ]
    yield f"the risk is {risks[0]}; on the majority's it is {risks[1]}"
    violated, guessed = of(ifca["violations"]), ifca["violations_null"].mean()
    assert max(0.0, violated.low) < guessed < violated.high
    yield (
        f"there are {violated.mean:.1f} on average (0 to {violated.high:.1f}), and "
        f"{guessed:.1f} by chance"
    )
    rows = {
        key: quickstart(*key)
        for key in product(("ifca", "ifca_mir", "random_migration"), (0.1, 0.3))
    }
    above = {
        key: (row["violations"] - row["violations_null"]).tolist() for key, row in rows.items()
    }
    p = {key: paired_test(values) for key, values in above.items()}
    after = dict(zip(p, holm(list(p.values())), strict=True))
    least = min(p, key=p.__getitem__)
    assert min(after.values()) > 0.05 and least == ("ifca_mir", 0.3)
    yield (
        f"it differs by {signed(above[least], 1)} (p = {p[least]:.3f}, after Holm's correction over the "
        f"six {after[least]:.3f})"
    )
    yield f"on average {mir['moved_minority'].mean():.1f} of the 4 minority clients have moved"
    changed = differences(mir, ifca, "violations")
    assert estimate(changed).half > abs(estimate(changed).mean)
    yield f"the violations | {signed(changed, 1)} | {paired_test(changed):.2f} |"
    for name, what in (
        ("calibrated_auc_minority", "AUC on the minority"),
        ("risk_minority", "its risk"),
        ("accuracy_minority", "its accuracy"),
    ):
        values = differences(mir, ifca, name)
        yield f"{what} | {signed(values)} | {paired_test(values):.2f} |"
    other = differences(quickstart("random_migration", 0.1), ifca, "violations")
    yield f"The control changes the violations by {signed(other, 1)}"
    every = measured("audit_attacks")
    own16 = every[every["run"] == "audit-ifca"]
    minority, majority = (
        shown(aucs(own16, "calibrated_mia", "headline", name)) for name in ("minority", "majority")
    )
    yield (
        f"With 16 it has an AUC of {minority} on the minority's records and {majority} on the "
        "majority's"
    )


# Audits: the attacks of the table's columns, and which of their rows; name in the table, run,
# privacy component, model

COLUMNS: tuple[tuple[str, str], ...] = (
    ("shadow_mia", "auc"),
    ("loss_threshold", "auc"),
    ("whitebox_mia", "auc"),
    ("calibrated_mia", "headline"),
    ("calibrated_mia", "run_headline"),
    ("client_mia", "auc"),
    ("fedmia", "fedmia_loss_auc"),
)
ROWS = (
    ("quickstart, IFCA, 10 %, minority's model", "audit-ifca", "none", "minority"),
    ("the same, majority's model", "audit-ifca", "none", "majority"),
    ("MNIST, IFCA, 10 %, minority's model", "audit-mnist", "none", "minority"),
    ("the same, majority's model", "audit-mnist", "none", "majority"),
    ("20 x 35 digits", "audit-updates", "none", "global"),
    ("audit_quickstart", "audit-quickstart", "none", "global"),
    ("the same, global-DP", "audit-quickstart", "global_dp", "global"),
)
LIBRARIES = "fedpriv", "LeakPro", "TensorFlow Privacy", "ML Privacy Meter", "jax_privacy"


def aucs(rows: Rows, attack: str, which: str, model: str) -> list[float]:
    """One AUC for each seed in which somebody uses the model; of attacks on single clients their
    mean.
    """
    unused = rows[(rows["metric"] == f"auc_model_{model}") & rows["value"].isna()]["seed"]
    own = rows[(rows["attack"] == attack) & ((attack == "fedmia") | ~rows["seed"].isin(unused))]
    target, metric = {
        "calibrated_mia": (which, "auc" if model == "global" else f"auc_model_{model}"),
        "fedmia": ("clients", which),
        "whitebox_mia": (None, "auc"),
    }.get(attack, (model, "auc"))
    own = own[(own["metric"] == metric) & ((target is None) | (own["target"] == target))]
    return [float(value) for value in own.groupby("seed")["value"].mean().dropna()]


@stated("docs/auditing.md")
def test_audits() -> Iterator[str]:
    every, table = measured("audit_attacks"), comparison()["target"]
    runs = load_sweep(ROOT / "sweeps" / "audit_quickstart.yaml").runs
    assert set(every[every["run"] == "audit-quickstart"]["id"]) == {trial_id(run) for run in runs}
    for name, run, privacy, model in ROWS:
        own = every[(every["run"] == run) & (every["privacy"] == privacy)]
        cells = [shown(aucs(own, *column, model)) for column in COLUMNS]
        cells[-1] = "" if model == "majority" else cells[-1]  # FedMIA's is of all clients
        yield f"| {name} | {' | '.join(cells)} |"
    for method in table["fedpriv"]:
        of_method = [table[one].get(method) for one in LIBRARIES]
        cells = [
            f"{one['auc']:.3f} ({one['tpr_at_1_fpr']:.3f})" if one else "" for one in of_method
        ]
        yield f"| {method} | {' | '.join(cells)} |"
    yield from (
        f"{table[library]['lira']['epsilon_one_run']:.4f}" for library in ("fedpriv", "jax_privacy")
    )


FURTHER = (
    "calibrated_auc",
    "calibrated_informia_auc",
    "calibrated_stacking_auc",
    "calibrated_strongest_auc",
    "calibrated_pmia_auc",
    "slope_auc",
    "slope_mean_auc",
    "slope_model_auc",
    "slope_model_mean_auc",
)


@stated("docs/auditing.md")
def test_scores_that_cost_no_training() -> Iterator[str]:
    trials = measured("audit_quickstart")
    for name, row in (("none", "audit_quickstart"), ("global_dp", "the same, global-DP")):
        yield (
            f"| {row} | "
            f"{' | '.join(shown(trials[trials['privacy.name'] == name][one]) for one in FURTHER)} "
            "|"
        )


@stated("sweeps/audit_quickstart.yaml")
def test_the_audit_quickstart() -> Iterator[str]:
    trials = measured("audit_quickstart")
    plain, noisy = (trials[trials["privacy.name"] == name] for name in ("none", "global_dp"))
    means = noisy.mean(numeric_only=True)
    yield f"(accuracy {shown(plain['mia_accuracy_worst'])})"
    yield f"the calibrated attack has an AUC of {plain['calibrated_auc'].mean():.2f}"
    yield f"FedMIA has {plain['fedmia_auc'].mean():.2f}"
    yield f"lowers the calibrated attack's to {means['calibrated_auc']:.2f}"
    yield f"for {plain['accuracy'].mean() - means['accuracy']:.2f} of accuracy"
    assert means["fedmia_auc"] > plain["fedmia_auc"].mean()
    yield "and not FedMIA's"
    yield (
        f"(epsilon {math.ceil(means['epsilon'])}) is what canaries find, "
        f"{means['epsilon_audit']:.0f}"
    )


@stated("sweeps/dp_sgd_sia.yaml")
def test_dp_sgd_and_source_inference() -> Iterator[str]:
    trials = measured("dp_sgd_sia")
    noise = [json.loads(one).get("noise_multiplier") for one in trials["training"]]
    plain, clipped, noisy = (trials[[one == z for one in noise]] for z in (None, 0.0, 2.0))
    yield f"finds the owner in {shown(plain['sia_mean'])} with plain training"
    yield (
        f"in {shown(noisy['sia_mean'])} at the largest noise (epsilon "
        f"{noisy['epsilon_example'].mean():.1f}"
    )
    change = estimate(differences(noisy, plain, "sia_mean"))
    yield (
        f"the difference, {change.mean:+.3f}, has an interval from {change.low:+.3f} to "
        f"{change.high:+.3f}"
    )
    yield f"exceeds it (owners permuted within classes) {falls(noisy, plain)}"
    cost = estimate(differences(plain, noisy, "accuracy"))
    yield f"accuracy falls by {cost.mean:.3f} ({cost.low:.3f} to {cost.high:.3f})"
    with_plain, with_noise, with_clip = (
        one["fedmia_auc"].mean() for one in (plain, noisy, clipped)
    )
    yield (
        f"from {with_plain:.3f} to {with_noise:.3f}; but clipping alone, without noise, takes "
        "as much"
    )
    loss = signed(differences(clipped, plain, "accuracy")).split()[0].removeprefix("−")
    yield f"({with_clip:.3f}) for {loss} of accuracy"


def falls(noisy: Rows, plain: Rows, comma: str = ", by") -> str:
    """What source inference finds beyond the mix of classes under DP-SGD, beside plain training."""
    before, after = map(beyond_classes, (plain, noisy))
    by = shown(differences(before, after, "sia_mean"))
    return (
        f"falls from {before['sia_mean'].mean():.3f} to {after['sia_mean'].mean():.3f}{comma} {by}"
    )


@stated("docs/auditing.md")
def test_dp_sgd_and_what_exceeds_the_mix_of_classes() -> Iterator[str]:
    private, har = measured("dp_sgd_sia_har"), measured("finp_har")
    plain = har[(har["objective.name"] == "plain") & (har["aggregation.name"] == "fedavg")]
    lost = shown(differences(plain, private, "sia_mean"))
    yield f"on UCI HAR by {lost} of {plain['sia_mean'].mean():.3f} ({len(private)} pairs"
    cost = shown(differences(plain, private, "accuracy_last5_mean"))
    yield (
        f"is halved, {falls(private, plain, ' (by').removeprefix('falls ')}), for {cost} of "
        "accuracy"
    )
    trials = measured("dp_sgd_sia")
    noise = [json.loads(one).get("noise_multiplier") for one in trials["training"]]
    plain, noisy = (trials[[one == z for one in noise]] for z in (None, 2.0))
    cost = shown(differences(plain, noisy, "accuracy"))
    yield f"on digits, {falls(noisy, plain, ' (by').removeprefix('falls ')}), for {cost}"


PRECISION = {
    ("precision_mri", "none"): "MRI, FedAvg, two rounds of five epochs",
    ("precision_mri", "metric_privacy"): "the same with metric privacy",
    (
        "precision_mnist",
        "none",
    ): "MNIST CNN, IFCA-MIR, 20 clients with 50 images, eight rounds of three epochs",
    ("precision_cnn", "none"): "CIFAR CNN, FedAvg, two rounds of five epochs",
}


@stated("benchmarks/README.md")
def test_bf16_beside_float32() -> Iterator[str]:
    found = {}
    for (name, privacy), run in PRECISION.items():
        rows = measured(name)
        precision = rows["run"].map(lambda run: json.loads(run)["training"]["precision"])
        kind = rows["run"].map(lambda run: json.loads(run)["privacy"]["name"])
        bf16, plain = (
            rows[(precision == value) & (kind == privacy)] for value in ("bf16", "float32")
        )
        found[name, privacy] = lambda metric, bf16=bf16, plain=plain: shown(
            differences(bf16, plain, metric)
        )
        cells = map(found[name, privacy], ("accuracy", "test_accuracy", "auc_micro", "loss"))
        yield f"| {run} | {len(bf16)} | {' | '.join(cells)} |"
    yield f"is {found['precision_mri', 'metric_privacy']('distance')} larger in bf16"
    accuracy, auc = (
        found["precision_mnist", "none"](metric) for metric in ("mia_accuracy", "mia_auc")
    )
    yield f"the shadow attack's accuracy differs by {accuracy}, its AUC by {auc}"
    clients = measured("precision_mnist_clients")
    chosen = clients.pivot(
        index=["seed", "round", "client"], columns="training.precision", values="cluster"
    )
    assert len(chosen) == 1280 and (chosen["bf16"] == chosen["float32"]).all()
    sia, eod = (found["precision_cnn", "none"](metric) for metric in ("sia_mean", "eod"))
    yield f"source inference differs by {sia}, EOD by {eod}"
