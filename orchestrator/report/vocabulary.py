"""Labels of keys and components in the reports, and their colors.

A component declares its label in its own file (``LABEL``); without one, its name is shown. A key without an entry here is
shown under its own name, too.
"""

import re
from collections.abc import Sequence

from datasets.components import described
from orchestrator.config.slots import SLOTS
from orchestrator.report.data import Value, text

KEYS = {
    "data.name": "dataset",
    "data.split.minority_ratio": "minority ratio",
    "data.split.minority": "minority range",
    "data.split.majority": "majority range",
    "data.split.preset": "split",
}
UNITS = {"data.split.minority_ratio": "fraction of clients"}

USUAL = ("none", "plain", "local_sgd", "fedavg", "")  # components that a method's name leaves out
# The literature's names for combinations of an objective and an aggregation.
METHODS = {
    ("finp", "fedavg"): "FinP_client",
    ("plain", "finp_pca"): "FinP_server (PCA)",
    ("finp", "finp_pca"): "FinP (PCA)",
    ("plain", "finp_ala"): "FinP_server (ALA)",
    ("finp", "finp_ala"): "FinP (ALA)",
}
PAIR = ("objective.name", "aggregation.name")
UNPROTECTED = "vanilla"  # the label of no privacy in a comparison of privacy mechanisms

# Okabe and Ito's colors, distinguishable with common color blindness, without their yellow, too pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
# An algorithm has the same color in every sweep, so that figures of different sweeps can be compared.
COLORS = {"ifca": PALETTE[0], "ifca_mir": PALETTE[1], "none": PALETTE[2]}
COLORS |= {"global_dp": PALETTE[0], "metric_privacy": PALETTE[1], UNPROTECTED: PALETTE[2]}
COLORS |= {"plain": PALETTE[2], "finp": PALETTE[3], "fedavg": PALETTE[2]}
# FinP's methods: the baseline, the client's part alone, and both kinds of weights (paler without the client's part).
COLORS |= {"FedAvg": PALETTE[2], "FinP_client": PALETTE[3]}
COLORS |= {"FinP_server (PCA)": PALETTE[4], "FinP (PCA)": PALETTE[0]}
COLORS |= {"FinP_server (ALA)": PALETTE[5], "FinP (ALA)": PALETTE[1]}
GROUP_COLORS = {"majority": PALETTE[2], "minority": PALETTE[3]}


def key_label(key: str) -> str:
    """The heading of a swept key: ``clustering.name`` is "clustering", ``training.batch_size`` is "batch size"."""
    if key in KEYS:
        return KEYS[key]
    return key.removesuffix(".name").rsplit(".", 1)[-1].replace("_", " ")


def key_labels(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The headings of several keys; keys that would get the same heading keep their full dotted names."""
    short = [key_label(key) for key in keys]
    return tuple(key if short.count(label) > 1 else label for key, label in zip(keys, short, strict=True))


def component_label(key: str, name: str) -> str:
    """The label of the component ``name``; ``key`` is its place in a run.

    >>> component_label("clustering.name", "ifca_mir"), component_label("data.name", "gone")
    ('IFCA-MIR', 'gone')
    """
    slot = re.sub(r"\.\d+$", "", key.removesuffix(".name"))
    for folder in (one.folder for one in SLOTS if one.key == slot):
        found = described(folder)
        for one in found.values():
            if name in one.PRESETS:
                return str(one.PRESETS[name].label)
        if name in found:
            return found[name].LABEL or name
    return name


def value_label(key: str, value: Value) -> str:
    """The label of a value of ``key``: components by their label, two numbers as a range."""
    if key.endswith(".name") and isinstance(value, str):
        if (key, value) == ("privacy.name", "none"):
            return UNPROTECTED
        return f"no {key_label(key)}" if value == "none" else component_label(key, value)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, int | float) for v in value):
        return f"{text(value[0])}–{text(value[1])}"
    return text(value)


def setting_label(keys: tuple[str, ...], values: tuple[Value, ...]) -> str:
    """The label of a setting, for example "minority ratio 0.1, transform cluster"; keys without a value are left out."""
    named = zip(key_labels(keys), keys, values, strict=True)
    words = [(label, value_label(key, value)) for label, key, value in named if text(value)]
    return ", ".join(value if value in (f"no {label}", UNPROTECTED) else f"{label} {value}" for label, value in words)


def method_label(keys: tuple[str, ...], values: Sequence[Value]) -> str:
    """The label of a method: a combination of components and of the fields in which its variants differ.

    Usual components such as FedAvg are left out.

    >>> method_label(("objective.name", "aggregation.name", "objective.beta"), ["finp", "finp_pca", 0.3])
    'FinP (PCA), beta 0.3'
    >>> method_label(("privacy.name", "aggregation.name"), ["metric_privacy", "fedyogi"])
    'FedYogi + metric privacy'
    """
    held = dict(zip(keys, values, strict=True))
    pair = METHODS.get((text(held.get(PAIR[0])), text(held.get(PAIR[1]))))
    order = sorted((key for key in keys if key.endswith(".name")), key=lambda key: key == "privacy.name")
    named = [(key, text(held[key])) for key in order if not (pair and key in PAIR)]
    labels = ([pair] if pair else []) + [component_label(key, name) for key, name in named if name not in USUAL]
    usual = "FedAvg" if PAIR[1] in keys else value_label(order[0], held[order[0]]) if order else ""
    fields = {key: value for key, value in held.items() if key not in order}
    return ", ".join(filter(None, (" + ".join(labels) or usual, setting_label(tuple(fields), tuple(fields.values())))))


def colors(values: list[Value]) -> dict[str, str]:
    """A color for each value (by `text`): the algorithm's own color, or the next free one of the palette."""
    names = sorted({text(value) for value in values})
    free = [color for color in PALETTE if color not in {COLORS[n] for n in names if n in COLORS}]
    unnamed = [name for name in names if name not in COLORS]
    return {n: COLORS[n] for n in names if n in COLORS} | {n: free[i % len(free)] for i, n in enumerate(unnamed)}
