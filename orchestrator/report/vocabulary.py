"""Labels of keys and components in the reports, and their colors.

A component declares its label in its own file (``LABEL``); without one, its name is shown. A key
without an entry here is shown under its own name, too.
"""

import re
from collections.abc import Sequence

from datasets.components import described
from orchestrator.config.slots import SLOTS
from orchestrator.report.data import Value, text

RANGES = {
    "data.split.minority": "minority range",
    "data.split.majority": "majority range",
}  # of two numbers each
KEYS = {"data.name": "dataset", "data.split.preset": "split", **RANGES}

# The slots that define an algorithm, the most important first. Data set and model are not part of
# an algorithm.
ALGORITHM = (
    "clustering.name",
    "privacy.name",
    "objective.name",
    "aggregation.name",
    "training.name",
)
PAIR = (
    "objective.name",
    "aggregation.name",
)  # two parts of one method, for which the literature may have a name
FOLDERS = {f"{slot.key}.name": slot.folder for slot in SLOTS}
USUAL = {
    key: slot.default for slot in SLOTS for key in (f"{slot.key}.name",) if key in ALGORITHM
}  # left out of names
UNPROTECTED = "vanilla"  # the label of no privacy in a comparison of privacy mechanisms

# Okabe and Ito's colors, distinguishable with common color blindness, without their yellow, too
# pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
GROUP_COLORS = {"majority": PALETTE[2], "minority": PALETTE[3]}


def key_label(key: str) -> str:
    """The heading of a swept key: ``clustering.name`` is "clustering", ``training.batch_size``
    is "batch size".
    """
    if key in KEYS:
        return KEYS[key]
    return key.removesuffix(".name").rsplit(".", 1)[-1].replace("_", " ")


def key_labels(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The headings of several keys; keys that would get the same heading keep their full dotted
    names.
    """
    short = [key_label(key) for key in keys]
    return tuple(
        key if short.count(label) > 1 else label for key, label in zip(keys, short, strict=True)
    )


def component_label(key: str, name: str) -> str:
    """The label of the component ``name``; ``key`` is its place in a run.

    >>> component_label("clustering.name", "ifca_mir"), component_label("data.name", "gone")
    ('IFCA-MIR', 'gone')
    """
    folder = FOLDERS.get(re.sub(r"(\.\d+)?(\.name)?$", ".name", key, count=1))
    components = described(folder) if folder else {}
    preset = next(
        (it.PRESETS[name].label for it in components.values() if name in it.PRESETS), None
    )
    return str(preset or (name in components and components[name].LABEL) or name)


def value_label(key: str, value: Value) -> str:
    """The label of a value of ``key``: components by their label, the ends of a range with a
    dash.
    """
    if key.endswith(".name") and isinstance(value, str):
        if (key, value) == ("privacy.name", "none"):
            return UNPROTECTED
        return f"no {key_label(key)}" if value == "none" else component_label(key, value)
    if key in RANGES and isinstance(value, list) and len(value) == 2:
        return f"{text(value[0])}–{text(value[1])}"
    return text(value)


def setting_label(keys: tuple[str, ...], values: tuple[Value, ...]) -> str:
    """The label of a setting, for example "minority ratio 0.1, transform cluster"; keys without
    a value are left out.
    """
    named = zip(key_labels(keys), keys, values, strict=True)
    words = [(label, value_label(key, value)) for label, key, value in named if text(value)]
    return ", ".join(
        value if value in (f"no {label}", UNPROTECTED) else f"{label} {value}"
        for label, value in words
    )


def method_label(keys: Sequence[str], values: Sequence[Value]) -> str:
    """The label of a method: a combination of components and of the fields in which its variants
    differ.

    The defaults of slots such as FedAvg are left out.

    >>> method_label(("objective.name", "aggregation.name", "objective.beta"), ["finp", "finp_pca", 0.3])
    'FinP (PCA), beta 0.3'
    >>> method_label(("privacy.name", "aggregation.name"), ["metric_privacy", "fedyogi"])
    'FedYogi + metric privacy'
    """
    chosen = dict(zip(keys, values, strict=True))
    pair = _pair(chosen)
    order = sorted(
        (key for key in keys if key.endswith(".name")), key=lambda key: key == "privacy.name"
    )
    parts = [
        key
        for key in order
        if not (pair and key in PAIR) and text(chosen[key]) not in ("", USUAL.get(key))
    ]
    labels = ([pair[0]] if pair else []) + [
        component_label(key, text(chosen[key])) for key in parts
    ]
    first = PAIR[1] if PAIR[1] in keys else order[0] if order else ""
    usual = value_label(first, chosen[first]) if first else ""
    fields = {key: value for key, value in chosen.items() if key not in order}
    return ", ".join(
        filter(
            None,
            (" + ".join(labels) or usual, setting_label(tuple(fields), tuple(fields.values()))),
        )
    )


def palette(keys: Sequence[str], values: Sequence[Sequence[Value]]) -> list[str]:
    """A color for each combination of values: what its components declare, the same in every
    sweep, or the next free one.
    """
    declared = [_color(dict(zip(keys, combination, strict=True))) for combination in values]
    free = [color for at, color in enumerate(PALETTE) if at not in declared] or list(PALETTE)
    rest = iter(free * len(values))
    return [next(rest) if at is None else PALETTE[at] for at in declared]


def _color(chosen: dict[str, Value]) -> int | None:
    """The color that is declared for a method, if it is one component, a named pair or the usual
    method.
    """
    pair = _pair(chosen)
    if pair:
        return pair[1] if len(chosen) == len(PAIR) else None
    names = {key: text(value) for key, value in chosen.items() if text(value)}
    unusual = [key for key, name in names.items() if name != USUAL.get(key)]
    first = unusual or [key for key in (PAIR[1], *names) if key in names]
    components = described(FOLDERS.get(first[0], "attacks")) if first and len(unusual) <= 1 else {}
    color: int | None = (
        components[names[first[0]]].COLOR if first and names[first[0]] in components else None
    )
    return color


def _pair(chosen: dict[str, Value]) -> tuple[str, int] | None:
    """The literature's name of an objective with an aggregation, and its color, which one of the
    two declares.
    """
    names = [text(chosen.get(key)) for key in PAIR]
    for key, name, other in zip(PAIR, names, reversed(names), strict=True):
        component = described(FOLDERS[key]).get(name)
        if component is not None and other in component.METHODS:
            label, color = component.METHODS[other]
            return str(label), int(color)
    return None
