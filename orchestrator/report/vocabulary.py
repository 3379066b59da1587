"""Words of the reports: what metrics, keys and members are called in a heading, and in which unit they are.

Nothing here decides what is reported. A metric, key or member that is missing from these tables still appears, under
its own name, after the known ones.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.report.values import Value, text

OTHER = "Other"


@dataclass(frozen=True)
class Metric:
    """A final metric: ``family`` is its table in the summary, ``label`` its heading, ``digits`` its decimals."""

    name: str
    family: str
    label: str
    unit: str = "fraction"
    digits: int = 3


_FAMILIES: dict[str, tuple[tuple[str, str, str, int], ...]] = {
    "Accuracy": (
        ("accuracy", "accuracy", "fraction", 3),
        ("accuracy_majority", "majority clients", "fraction", 3),
        ("accuracy_minority", "minority clients", "fraction", 3),
        ("model_accuracy_majority", "majority model", "fraction", 3),
        ("model_accuracy_minority", "minority model", "fraction", 3),
        ("train_accuracy", "training accuracy", "fraction", 3),
        ("train_accuracy_last5_mean", "training accuracy, last five rounds", "fraction", 3),
        ("loss", "training loss", "nats", 3),
        ("aggregated_accuracy", "aggregated accuracy", "fraction", 3),
        ("accuracy_last5_mean", "mean of last 5 rounds", "fraction", 3),
        ("accuracy_last5_std", "deviation of last 5 rounds", "fraction", 3),
        ("test_accuracy", "server test accuracy", "fraction", 3),
        ("test_loss", "server test loss", "nats", 3),
        ("f1_macro", "macro F1", "fraction", 3),
        ("precision_macro", "macro precision", "fraction", 3),
        ("auc_micro", "micro AUC", "fraction", 3),
        ("converge_round", "round of convergence", "round", 1),
    ),
    "Membership inference": (
        ("mia_accuracy_majority", "MIA accuracy, majority model", "fraction", 3),
        ("mia_accuracy_minority", "MIA accuracy, minority model", "fraction", 3),
        ("violations", "violations", "clients", 1),
        ("violations_majority", "violations, majority", "clients", 1),
        ("violations_minority", "violations, minority", "clients", 1),
        ("violations_last_half", "violations, mean of the last half", "clients", 1),
    ),
    "Source inference": (
        ("sia_mean", "mean SIA accuracy", "fraction", 3),
        ("sia_max", "largest SIA accuracy", "fraction", 3),
        ("sia_chance", "SIA by guessing", "fraction", 3),
        ("sia_cov", "CoV of SIA", "", 3),
        ("sia_fi", "FI of SIA", "", 3),
        ("eod", "EOD", "fraction", 3),
        ("eod_null", "EOD by chance", "fraction", 3),
        ("sia_mad", "mean absolute difference of SIA", "fraction", 3),
        ("sia_sen", "Sen welfare of SIA", "", 3),
        ("loss_cov", "CoV of loss", "", 3),
        ("loss_fi", "FI of loss", "", 3),
        ("loss_mad", "mean absolute difference of loss", "nats", 3),
        ("rho_spearman", "rank correlation of the curvatures", "", 3),
    ),
    "Client inference": (
        ("cia_aggregated_loss", "loss of the aggregate", "nats", 3),
        ("cia_target_loss", "loss of the target", "nats", 3),
        ("cia_difference", "CIA difference", "fraction", 3),
        ("cia_auc", "CIA AUC", "fraction", 3),
        ("cia_auc_low", "CIA AUC, low", "fraction", 3),
        ("cia_auc_high", "CIA AUC, high", "fraction", 3),
        ("cia_balanced_accuracy", "CIA balanced accuracy", "fraction", 3),
    ),
    "Noise and its account": (
        ("epsilon", "epsilon", "", 2),
        ("delta", "delta", "", 5),
        ("noise_std", "standard deviation of the noise", "", 5),
        ("noise_to_update", "noise over mean update", "", 2),
        ("clip_fraction", "clipped updates", "fraction", 3),
        ("update_norm", "norm of an update", "", 3),
        ("update_norm_max", "largest norm of an update", "", 3),
        ("distance", "distance of models", "", 3),
        ("distance_mean", "distance of models, mean of all rounds", "", 3),
        ("distance_pre_clip", "distance before clipping", "", 3),
        ("distance_post_clip", "distance after clipping", "", 3),
        ("metric_guard", "rounds without a distance", "fraction", 2),
    ),
    "Aggregation": (
        ("pca_objective", "PCA objective", "", 4),
        ("pca_fallback", "PCA weights by size", "fraction", 2),
        ("ala_fallback", "ALA weights by size", "fraction", 2),
        ("server_step", "norm of the server's step", "", 3),
    ),
    "Clustering": (
        ("migrated", "migrated", "clients", 1),
        ("purity", "purity", "fraction", 3),
        ("clients_majority", "users of the majority model", "clients", 1),
        ("clients_minority", "users of the minority model", "clients", 1),
        ("df", "df", "nats", 3),
        ("dl", "dl", "fraction", 3),
    ),
    "Group fairness": (
        ("demographic_parity", "demographic parity", "fraction", 3),
        ("equal_opportunity", "equal opportunity", "fraction", 3),
        ("equalized_odds", "equalized odds", "fraction", 3),
        ("demographic_parity_signed", "demographic parity, signed", "fraction", 3),
        ("equal_opportunity_signed", "equal opportunity, signed", "fraction", 3),
        ("equalized_odds_signed", "equalized odds, signed", "fraction", 3),
    ),
    "Time": (("seconds_per_round", "seconds per round", "seconds", 2),),
}
METRICS: dict[str, Metric] = {
    name: Metric(name, family, label, unit, digits)
    for family, members in _FAMILIES.items()
    for name, label, unit, digits in members
}

# A metric of one round, or of one of several models.
PART = re.compile(r"(?P<whole>\w+?)_(?P<of>round_\d+|model_\d+|cluster_\d+|majority|minority)")

KEYS = {
    "data.name": "dataset",
    "data.split.minority_ratio": "minority ratio",
    "data.split.minority": "minority range",
    "data.split.majority": "majority range",
    "data.split.preset": "split",
}
UNITS = {"data.split.minority_ratio": "fraction of clients"}

MEMBERS = {
    "ifca": "IFCA",
    "ifca_mir": "IFCA-MIR",
    "digits": "digits",
    "mnist": "MNIST",
    "femnist": "FEMNIST",
    "cifar10": "CIFAR-10",
    "har": "UCI-HAR",
    "alzheimer": "Alzheimer MRI",
    "plain": "plain",
    "fedprox": "FedProx",
    "fedalign": "FedAlign",
    "finp": "FinP",
    "fedavg": "FedAvg",
    "fedavgm": "FedAvgM",
    "fedmedian": "FedMedian",
    "fedopt": "FedOpt",
    "fedadam": "FedAdam",
    "fedadagrad": "FedAdagrad",
    "fedyogi": "FedYogi",
    "finp_pca": "FinP-PCA",
    "finp_ala": "FinP-ALA",
    "global_dp": "global-DP",
    "metric_dp": "metric-DP",
    "local_sgd": "local SGD",
    "dp_sgd": "DP-SGD",
}
USUAL = ("none", "plain", "local_sgd", "fedavg", "")  # what a method's name need not say
# What the literature calls an objective and an aggregation together.
METHODS = {
    ("finp", "fedavg"): "FinP_client",
    ("plain", "finp_pca"): "FinP_server (PCA)",
    ("finp", "finp_pca"): "FinP (PCA)",
    ("plain", "finp_ala"): "FinP_server (ALA)",
    ("finp", "finp_ala"): "FinP (ALA)",
}
PAIR = ("objective.name", "aggregation.name")
UNPROTECTED = "vanilla"  # what a federation without protection is called beside those that have one

# Okabe and Ito's colours, told apart with every common colour blindness; their yellow is too pale for lines on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
# An algorithm keeps its colour whatever else is in the sweep, so that figures of two sweeps can be laid side by side.
COLOURS = {"ifca": PALETTE[0], "ifca_mir": PALETTE[1], "none": PALETTE[2]}
COLOURS |= {"global_dp": PALETTE[0], "metric_dp": PALETTE[1], UNPROTECTED: PALETTE[2]}
COLOURS |= {"plain": PALETTE[2], "finp": PALETTE[3], "fedavg": PALETTE[2]}
# FinP's methods: the baseline, the client's part alone, and the two kinds of weights (blue, orange), alone paler.
COLOURS |= {"FedAvg": PALETTE[2], "FinP_client": PALETTE[3]}
COLOURS |= {"FinP_server (PCA)": PALETTE[4], "FinP (PCA)": PALETTE[0]}
COLOURS |= {"FinP_server (ALA)": PALETTE[5], "FinP (ALA)": PALETTE[1]}
GROUP_COLOURS = {"majority": PALETTE[2], "minority": PALETTE[3]}


def metric(name: str) -> Metric:
    """The description of a final metric; an unknown one is called by its own name and belongs to `OTHER`.

    >>> metric("cia_auc_round_5").label, metric("noise_std_majority").family
    ('CIA AUC, round 5', 'Noise and its account')
    """
    if name in METRICS:
        return METRICS[name]
    part = PART.fullmatch(name)
    whole = METRICS.get(part["whole"]) if part else None
    if part and whole:
        return replace(whole, name=name, label=f"{whole.label}, {part['of'].replace('_', ' ')}")
    return Metric(name, OTHER, name.replace("_", " "), unit="")


def families(names: tuple[str, ...]) -> dict[str, list[Metric]]:
    """The metrics among ``names`` by family, in the order of the summary."""
    order = {family: [m for m in map(metric, names) if m.family == family] for family in (*_FAMILIES, OTHER)}
    return {family: found for family, found in order.items() if found}


def ordered(names: set[str]) -> tuple[str, ...]:
    """Final metrics in the order of the summary, unknown ones last and by name."""
    return (*(name for name in METRICS if name in names), *sorted(names - METRICS.keys()))


def key_label(key: str) -> str:
    """Heading of a swept key: ``clustering.name`` is "clustering", ``training.batch_size`` is "batch size"."""
    if key in KEYS:
        return KEYS[key]
    return key.removesuffix(".name").rsplit(".", 1)[-1].replace("_", " ")


def key_labels(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Headings of several keys; keys that would share a heading keep their full dotted names."""
    short = [key_label(key) for key in keys]
    return tuple(key if short.count(label) > 1 else label for key, label in zip(keys, short, strict=True))


def value_label(key: str, value: Value) -> str:
    """A value of ``key`` as a reader wants it: members by their usual names, two numbers as a range."""
    if key.endswith(".name") and isinstance(value, str):
        if (key, value) == ("privacy.name", "none"):
            return UNPROTECTED
        return f"no {key_label(key)}" if value == "none" else MEMBERS.get(value, value)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, int | float) for v in value):
        return f"{text(value[0])}–{text(value[1])}"
    return text(value)


def setting_label(keys: tuple[str, ...], values: tuple[Value, ...]) -> str:
    """A setting in words, for example "minority ratio 0.1, transform cluster"; keys without a value are left out."""
    named = zip(key_labels(keys), keys, values, strict=True)
    words = [(label, value_label(key, value)) for label, key, value in named if text(value)]
    return ", ".join(value if value in (f"no {label}", UNPROTECTED) else f"{label} {value}" for label, value in words)


def method_label(keys: tuple[str, ...], values: Sequence[Value]) -> str:
    """What a combination of members, and of the fields that tell them apart, is called; the usual members go without saying.

    >>> method_label(("objective.name", "aggregation.name", "objective.beta"), ["finp", "finp_pca", 0.3])
    'FinP (PCA), beta 0.3'
    >>> method_label(("privacy.name", "aggregation.name"), ["metric_dp", "fedyogi"])
    'FedYogi + metric-DP'
    """
    held = dict(zip(keys, values, strict=True))
    pair = METHODS.get((text(held.get(PAIR[0])), text(held.get(PAIR[1]))))
    order = sorted((key for key in keys if key.endswith(".name")), key=lambda key: key == "privacy.name")
    names = [text(held[key]) for key in order if not (pair and key in PAIR)]
    told = ([pair] if pair else []) + [MEMBERS.get(name, name) for name in names if name not in USUAL]
    usual = "FedAvg" if PAIR[1] in keys else value_label(order[0], held[order[0]]) if order else ""
    fields = {key: value for key, value in held.items() if key not in order}
    return ", ".join(filter(None, (" + ".join(told) or usual, setting_label(tuple(fields), tuple(fields.values())))))


def colours(values: list[Value]) -> dict[str, str]:
    """A colour for each value (by `text`): the algorithm's own, or the next free one of the palette in sorted order."""
    names = sorted({text(value) for value in values})
    free = [colour for colour in PALETTE if colour not in {COLOURS[n] for n in names if n in COLOURS}]
    unnamed = [name for name in names if name not in COLOURS]
    return {n: COLOURS[n] for n in names if n in COLOURS} | {n: free[i % len(free)] for i, n in enumerate(unnamed)}
