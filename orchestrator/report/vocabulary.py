"""Words of the reports: what keys and components are called in a heading, and the colors that they keep.

A key or component that is missing from these tables still appears, under its own name, after the known ones.
"""

from collections.abc import Sequence

from orchestrator.report.values import Value, text

KEYS = {
    "data.name": "dataset",
    "data.split.minority_ratio": "minority ratio",
    "data.split.minority": "minority range",
    "data.split.majority": "majority range",
    "data.split.preset": "split",
}
UNITS = {"data.split.minority_ratio": "fraction of clients"}

COMPONENTS = {
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

# Okabe and Ito's colors, told apart with every common color blindness; their yellow is too pale for lines on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
# An algorithm keeps its color whatever else is in the sweep, so that figures of two sweeps can be laid side by side.
COLORS = {"ifca": PALETTE[0], "ifca_mir": PALETTE[1], "none": PALETTE[2]}
COLORS |= {"global_dp": PALETTE[0], "metric_dp": PALETTE[1], UNPROTECTED: PALETTE[2]}
COLORS |= {"plain": PALETTE[2], "finp": PALETTE[3], "fedavg": PALETTE[2]}
# FinP's methods: the baseline, the client's part alone, and the two kinds of weights (blue, orange), alone paler.
COLORS |= {"FedAvg": PALETTE[2], "FinP_client": PALETTE[3]}
COLORS |= {"FinP_server (PCA)": PALETTE[4], "FinP (PCA)": PALETTE[0]}
COLORS |= {"FinP_server (ALA)": PALETTE[5], "FinP (ALA)": PALETTE[1]}
GROUP_COLORS = {"majority": PALETTE[2], "minority": PALETTE[3]}


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
    """A value of ``key`` as a reader wants it: components by their usual names, two numbers as a range."""
    if key.endswith(".name") and isinstance(value, str):
        if (key, value) == ("privacy.name", "none"):
            return UNPROTECTED
        return f"no {key_label(key)}" if value == "none" else COMPONENTS.get(value, value)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, int | float) for v in value):
        return f"{text(value[0])}–{text(value[1])}"
    return text(value)


def setting_label(keys: tuple[str, ...], values: tuple[Value, ...]) -> str:
    """A setting in words, for example "minority ratio 0.1, transform cluster"; keys without a value are left out."""
    named = zip(key_labels(keys), keys, values, strict=True)
    words = [(label, value_label(key, value)) for label, key, value in named if text(value)]
    return ", ".join(value if value in (f"no {label}", UNPROTECTED) else f"{label} {value}" for label, value in words)


def method_label(keys: tuple[str, ...], values: Sequence[Value]) -> str:
    """What a combination of components, and of the fields that tell them apart, is called; the usual components go
    without saying.

    >>> method_label(("objective.name", "aggregation.name", "objective.beta"), ["finp", "finp_pca", 0.3])
    'FinP (PCA), beta 0.3'
    >>> method_label(("privacy.name", "aggregation.name"), ["metric_dp", "fedyogi"])
    'FedYogi + metric-DP'
    """
    held = dict(zip(keys, values, strict=True))
    pair = METHODS.get((text(held.get(PAIR[0])), text(held.get(PAIR[1]))))
    order = sorted((key for key in keys if key.endswith(".name")), key=lambda key: key == "privacy.name")
    names = [text(held[key]) for key in order if not (pair and key in PAIR)]
    told = ([pair] if pair else []) + [COMPONENTS.get(name, name) for name in names if name not in USUAL]
    usual = "FedAvg" if PAIR[1] in keys else value_label(order[0], held[order[0]]) if order else ""
    fields = {key: value for key, value in held.items() if key not in order}
    return ", ".join(filter(None, (" + ".join(told) or usual, setting_label(tuple(fields), tuple(fields.values())))))


def colors(values: list[Value]) -> dict[str, str]:
    """A color for each value (by `text`): the algorithm's own, or the next free one of the palette in sorted order."""
    names = sorted({text(value) for value in values})
    free = [color for color in PALETTE if color not in {COLORS[n] for n in names if n in COLORS}]
    unnamed = [name for name in names if name not in COLORS]
    return {n: COLORS[n] for n in names if n in COLORS} | {n: free[i % len(free)] for i, n in enumerate(unnamed)}
