"""Words of the reports: what metrics, keys and members are called in a heading, and in which unit they are.

Nothing here decides what is reported. A metric, key or member that is missing from these tables still appears, under
its own name, after the known ones.
"""

from dataclasses import dataclass

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
        ("loss", "training loss", "nats", 3),
        ("aggregated_accuracy", "aggregated accuracy", "fraction", 3),
        ("accuracy_last5_mean", "mean of last 5 rounds", "fraction", 3),
        ("accuracy_last5_std", "deviation of last 5 rounds", "fraction", 3),
        ("test_accuracy", "server test accuracy", "fraction", 3),
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
        ("sia_cov", "CoV of SIA", "", 3),
        ("sia_fi", "FI of SIA", "", 3),
        ("loss_cov", "CoV of loss", "", 3),
        ("loss_fi", "FI of loss", "", 3),
        ("eod", "EOD", "fraction", 3),
        ("eod_null", "EOD by chance", "fraction", 3),
        ("rho_spearman", "rank correlation of rho", "", 3),
    ),
    "Client inference": (
        ("cia_aggregated_loss", "loss of the aggregate", "nats", 3),
        ("cia_target_loss", "loss of the target", "nats", 3),
        ("cia_difference", "CIA difference", "fraction", 3),
        ("cia_auc", "CIA AUC", "fraction", 3),
        ("cia_auc_low", "CIA AUC, low", "fraction", 3),
        ("cia_auc_high", "CIA AUC, high", "fraction", 3),
    ),
    "Differential privacy": (
        ("epsilon", "epsilon", "", 2),
        ("delta", "delta", "", 6),
        ("noise_std", "noise deviation", "", 5),
        ("distance", "model distance", "", 4),
        ("clip_fraction", "clipped updates", "fraction", 3),
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

KEYS = {
    "data.name": "dataset",
    "data.split.minority_ratio": "minority ratio",
    "data.split.minority": "minority range",
    "data.split.majority": "majority range",
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
    "fedavg": "FedAvg",
    "fedavgm": "FedAvgM",
    "fedmedian": "FedMedian",
    "fedprox": "FedProx",
    "fedopt": "FedOpt",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "fedalign": "FedAlign",
    "finp": "FinP",
    "finp_pca": "FinP PCA",
    "finp_ala": "FinP ALA",
    "global_dp": "global DP",
    "metric_dp": "metric DP",
}

# Okabe and Ito's colours, told apart with every common colour blindness; their yellow is too pale for lines on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
# An algorithm keeps its colour whatever else is in the sweep, so that figures of two sweeps can be laid side by side.
COLOURS = {"ifca": PALETTE[0], "ifca_mir": PALETTE[1], "none": PALETTE[2]}
GROUP_COLOURS = {"majority": PALETTE[2], "minority": PALETTE[3]}


def metric(name: str) -> Metric:
    """The description of a final metric; an unknown one is called by its own name and belongs to `OTHER`."""
    return METRICS.get(name) or Metric(name, OTHER, name.replace("_", " "), unit="")


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
        return f"no {key_label(key)}" if value == "none" else MEMBERS.get(value, value)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, int | float) for v in value):
        return f"{text(value[0])}–{text(value[1])}"
    return text(value)


def setting_label(keys: tuple[str, ...], values: tuple[Value, ...]) -> str:
    """A setting in words, for example "minority ratio 0.1, transform cluster"; keys without a value are left out."""
    named = zip(key_labels(keys), keys, values, strict=True)
    words = [(label, value_label(key, value)) for label, key, value in named if text(value)]
    return ", ".join(value if value == f"no {label}" else f"{label} {value}" for label, value in words)


def colours(values: list[Value]) -> dict[str, str]:
    """A colour for each value (by `text`): the algorithm's own, or the next free one of the palette in sorted order."""
    names = sorted({text(value) for value in values})
    free = [colour for colour in PALETTE if colour not in {COLOURS[n] for n in names if n in COLOURS}]
    unnamed = [name for name in names if name not in COLOURS]
    return {n: COLOURS[n] for n in names if n in COLOURS} | {n: free[i % len(free)] for i, n in enumerate(unnamed)}
