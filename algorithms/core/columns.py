"""Names of columns: the one place where they are made of numbers, and read back.

    column of a value             <metric>          <metric>_<of>, where it is not of the run
    of the ends of its interval   <metric>_low, <metric>_high
    of its value by chance        what the metric declares, else <metric>_null (`null`)

All other code has a `Number`, or asks here; no other code looks into a name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from algorithms.core.metric import RUN, Metric, Number, Of, of_client, of_model

LOW, HIGH, WORST_CLIENT = "low", "high", "worst_client"
ENDS = (LOW, HIGH)
CLIENT = re.compile(of_client(0).name.replace("0", r"\d+"))
# One of several models that are not named after a group.
UNNAMED = re.compile(r"(?:cluster|model|other)_\d+")
NUMBERED = re.compile(rf"(?P<metric>.+)_{UNNAMED.pattern}")
# A column of one round, of a group's clients, or of one of several models.
PART = re.compile(
    r"(?P<metric>\w+?)_"
    r"(?P<of>round_\d+|model_\d+|cluster_\d+|majority|minority|global|worst)"
)

ASKED = re.compile(rf"(?P<metric>.+)_(?P<of>{LOW}|{HIGH}|{WORST_CLIENT})")


Declared = Mapping[str, Metric]
"""Metrics by name, with their parts, as `register` returns them."""


# Names that are made


def column(metric: str, of: Of = RUN) -> str:
    """Return the column of a metric's value.

    >>> column("mia_auc"), column("mia_auc", Of("model", "minority"))
    ('mia_auc', 'mia_auc_minority')
    """
    return f"{metric}_{of.name}" if of.name else metric


def end(metric: str, which: str) -> str:
    """Return the column of an end of a metric's interval."""
    return f"{metric}_{which}"


def interval(metric: str) -> tuple[str, str, str]:
    """Return the columns of a metric's value and of both ends of its interval."""
    return metric, end(metric, LOW), end(metric, HIGH)


def null(metric: str) -> str:
    """Return the usual column of a metric's value by chance."""
    return f"{metric}_null"


def chance_column(metric: str, declared: Declared, of: Of = RUN) -> str | None:
    """Return the column of a metric's value by chance; None where it is a constant."""
    whole = column(metric, of)
    entry = declared.get(whole)
    if entry is not None:
        return entry.chance if isinstance(entry.chance, str) else None
    if of.kind == "round" and metric in declared:
        of_run = chance_column(metric, declared)
        return of_run and column(of_run, of)
    return null(whole)


def part_names(metric: Metric) -> dict[str, str]:
    """Return the names of the parts of a metric, with what they are in words."""
    names = {end(metric.name, which): which for which in ENDS if metric.ends}
    if isinstance(metric.chance, str):
        names[metric.chance] = "by chance"
    return names


def parts(metric: Metric) -> list[Metric]:
    """Return the metrics that follow from one: the ends of its interval, its value by chance."""
    shared = (metric.unit, metric.digits)
    return [
        Metric(name, metric.family, f"{metric.label}, {of}", None, *shared, limits=metric.limits)
        for name, of in part_names(metric).items()
    ]


def register(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """Return metrics by name, each followed by its parts.

    >>> list(register([Metric("eod", "fairness", "EOD", chance="eod_null")]))
    ['eod', 'eod_null']
    >>> list(register([Metric("auc", "membership", "AUC", ends=True)]))
    ['auc', 'auc_low', 'auc_high']
    """
    own = {metric.name: metric for metric in metrics}
    found: dict[str, Metric] = {}
    for metric in own.values():
        for entry in (metric, *parts(metric)):
            found.setdefault(entry.name, own.get(entry.name, entry))
    return found


def columns(numbers: Iterable[Number], declared: Declared) -> dict[str, float]:
    """Return numbers by column.

    Raises ValueError where two numbers have the same column, or a column would be read back as
    that of another number.
    """
    row: dict[str, float] = {}
    for number in numbers:
        refuse_ambiguous(number.metric, number.of, declared)
        for name, value in _cells(number, declared):
            known = row.setdefault(name, value)
            if known != value and not (math.isnan(known) and math.isnan(value)):
                raise ValueError(f"two numbers have the column {name}: {known} and {value}")
    return row


def _cells(number: Number, declared: Declared) -> Iterator[tuple[str, float]]:
    """Yield the columns of a number, and their values."""
    metric, of = number.metric, number.of
    yield column(metric, of), number.value
    for which, value in ((LOW, number.low), (HIGH, number.high)):
        if value is not None and end(metric, which) in declared:
            yield column(end(metric, which), of), value
    by_chance = chance_column(metric, declared, of)
    if number.chance is not None and by_chance is not None:
        yield by_chance, number.chance


def refuse_ambiguous(metric: str, of: Of, declared: Declared) -> None:
    """Raise ValueError if a column would be read back as that of another number.

    A part of the run may be called like an end of an interval; a metric that is not declared, like
    a part of the run of one that is.
    """
    name = column(metric, of)
    if of == RUN and (of_part(name, declared) or of_one_model(name, declared)):
        raise ValueError(
            f"the metric {name} is not declared in METRICS, and another metric of a part of the "
            "run is called so; declare it, or call it otherwise"
        )
    wholes = (entry for whole, entry in declared.items() if name.startswith(whole))
    if of != RUN and name in declared and any(name in part_names(entry) for entry in wholes):
        raise ValueError(
            f"the {of.kind} {of.name} cannot be called so: {name} is an end of an interval, or a "
            "value by chance"
        )


def guarantee_column(epsilon: str) -> str:
    """Return the column of ``trials.parquet`` that states the guarantee of an epsilon."""
    return epsilon.replace("epsilon", "guarantee")


# Names that are read


def of_part(name: str, declared: Declared) -> tuple[Metric, str] | None:
    """Return the declared metric of a column that is of a part of the run, and what it is of.

    >>> cia = register([Metric("cia_auc", "clients", "CIA AUC")])
    >>> of_part("cia_auc_round_5", cia)[1], of_part("cia_auc", cia)
    ('round_5', None)
    """
    match = None if name in declared else PART.fullmatch(name)
    whole = declared.get(match["metric"]) if match else None
    return (whole, match["of"]) if match and whole else None


def of_one_model(name: str, declared: Declared) -> bool:
    """Return whether a column is of one of several models that are not named after a group.

    Of a metric whose declaration says that such values have a meaning (`Metric.by_model`), it is
    not.

    >>> mia = register([Metric("mia_auc", "membership", "MIA AUC")])
    >>> of_one_model("mia_auc_model_1", mia), of_one_model("x_model_1", mia)
    (True, False)
    """
    match = None if name in declared else NUMBERED.fullmatch(name)
    whole = declared.get(match["metric"]) if match else None
    return whole is not None and whole.by_model


def is_unnamed_model(target: str) -> bool:
    """Return whether an attack's target is a model that is not named after a group."""
    return UNNAMED.fullmatch(target) is not None


def is_client(target: str) -> bool:
    """Return whether an attack's target is a client."""
    return CLIENT.match(target) is not None


def asked_of(name: str) -> tuple[str, str]:
    """Return the metric that a condition is about, and what of it: an end, or the worst client.

    >>> asked_of("calibrated_auc_high"), asked_of("accuracy")
    (('calibrated_auc', 'high'), ('accuracy', ''))
    """
    match = ASKED.fullmatch(name)
    return (match["metric"], match["of"]) if match else (name, "")


def is_of_group(name: str, metrics: Iterable[str]) -> bool:
    """Return whether a column may be of a group of clients, for one of some metrics."""
    return any(name.startswith(f"{metric}_") for metric in metrics)


def is_guarantee(name: str) -> bool:
    """Return whether a column of ``trials.parquet`` states a guarantee."""
    return name.startswith(guarantee_column("epsilon"))


def is_auc(measure: str) -> bool:
    """Return whether a number in ``attacks.parquet`` is an AUC, by its name."""
    return "auc" in measure.split("_")


def of_each_model(metric: str, names: Iterable[str]) -> dict[Of, str]:
    """Return the columns of a metric that are among ``names``: that of the run, and of each model.

    >>> list(of_each_model("rho_halves", ["rho", "rho_halves", "rho_halves_model_1"]).values())
    ['rho_halves', 'rho_halves_model_1']
    """
    pattern = re.compile(rf"{metric}(?:_(.+))?")
    matches = [match for name in names if (match := pattern.fullmatch(name))]
    return {of_model(match[1]) if match[1] else RUN: match[0] for match in matches}
