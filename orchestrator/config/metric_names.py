"""The list of all metrics: label, unit, family, which direction is better, and the tables that
show it.

Those of a round are declared in `algorithms.metrics.declared`, those of a component in its own file
(``METRICS``, see `algorithms.core.metric`). This list does not decide what is measured: an
undeclared metric still appears, under its own name, after the others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from algorithms.core.columns import interval, of_part, part_names, parts
from algorithms.core.metric import (
    ACCURACY,
    CLIENT,
    FAMILIES,
    MINOR,
    NOISE,
    SOURCE,
    Column,
    Kind,
    Metric,
)
from algorithms.metrics.declared import ROUND_METRICS
from datasets.components import Completed, described
from orchestrator.config.slots import SLOTS

OTHER = "Other"
BOOKKEEPING = ("round", "attacked")  # columns of a round that are not results
FOLDERS = tuple(slot.folder for slot in SLOTS)  # the packages whose modules are components


@dataclass(frozen=True)
class Shown:
    """A column of a table of metrics, for one kind of sweep.

    The fields are those of `Column`; the metrics share its cells.
    """

    heading: str
    metrics: tuple[str, ...]
    rank: int
    digits: int = 3
    interval: bool = True


def metrics() -> dict[str, Metric]:
    """Every declared metric by name, in the order of the summary."""
    return _collected(
        tuple(component for folder in FOLDERS for component in described(folder).values())
    )


def metric(name: str) -> Metric:
    """The description of the metric ``name``; an undeclared metric keeps its name as label and
    belongs to `OTHER`.

    A column of a part of the run is described like the whole (`columns.of_part`).

    >>> metric("cia_auc_round_5").label, metric("noise_std_majority").family
    ('CIA AUC, round 5', 'Noise and its account')
    """
    declared = metrics()
    if name in declared:
        return declared[name]
    part = of_part(name, declared)
    if part is None:
        return Metric(name, OTHER, name.replace("_", " "), unit="")
    whole, of = part
    return Metric(
        name,
        whole.family,
        f"{whole.label}, {of.replace('_', ' ')}",
        whole.direction,
        whole.unit,
        whole.digits,
        chance=whole.chance,
        bound=whole.bound,
        limits=whole.limits,
        on=whole.on,
    )


def families(names: Collection[str]) -> dict[str, list[Metric]]:
    """The metrics ``names`` grouped by family, in the order of the summary."""
    grouped = {
        family: list[Metric]()
        for family in (*(entry.family for entry in metrics().values()), OTHER)
    }
    for name in names:
        grouped[metric(name).family].append(metric(name))
    return {family: members for family, members in grouped.items() if members}


def ordered(names: set[str]) -> tuple[str, ...]:
    """Sort metric names in the order of the summary: parts follow their whole; undeclared ones
    come last, by name.
    """
    declared = metrics()
    place = {name: at for at, name in enumerate(declared)}

    def key(name: str) -> tuple[int, str]:
        part = of_part(name, declared)
        whole = part[0].name if part else name
        return place.get(whole, len(place)), name

    return tuple(sorted(names, key=key))


def kind(names: Collection[str]) -> Kind:
    """The kind of sweep, judged by the metrics that it measured; it decides which accuracies the
    tables show.
    """
    if "accuracy_majority" in names:
        return "groups"
    measured = {metric(name).family for name in names}
    if SOURCE in measured:
        return "sources"
    return "protected" if measured & {CLIENT, NOISE} else "plain"


def table_columns(names: Collection[str], live: bool = False) -> list[Shown]:
    """The columns of a table on the terminal.

    If the sweep has no accuracy by group or by test set, the overall accuracy comes first. Metrics
    without a declared column are shown only if there is nothing else to show. ``live`` chooses the
    columns of the live table.
    """
    about = kind(names)
    columns = list[Shown]()
    for entry in metrics().values():
        column = entry.table or Column(MINOR, entry.label.replace(" ", "\n"))
        rank = entry.live if live else column.rank if entry.table else None
        rank = rank if rank is None or isinstance(rank, int) else rank.get(about)
        shared = (entry.name,) if live else (entry.name, *column.also)
        if rank is not None and any(name in names for name in shared):
            digits = entry.digits if column.digits is None else column.digits
            columns.append(Shown(column.heading, shared, rank, digits, column.interval))
    finer = [
        column
        for column in columns
        if column.rank <= 1 and metric(column.metrics[0]).family == ACCURACY
    ]
    if "accuracy" in names and not finer:
        columns.insert(0, Shown("accuracy", ("accuracy",), 0))
    bare = [name for name in ordered(set(names)) if name not in BOOKKEEPING]
    return columns or [Shown(metric(name).label.replace(" ", "\n"), (name,), 1) for name in bare]


def page() -> str:
    """All declared metrics as Markdown, a table for each family; the ends of intervals stand
    beside their metric.
    """
    sources: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for name, component in described(folder).items():
            for entry in component.METRICS:
                sources.setdefault(entry.name, []).append(f"`{name}`")
    lines = [
        "# Metrics",
        "",
        "Made by `fedpriv list metrics` from what the engine and the components declare.",
        "",
    ]
    for family, members in families(
        [name for name, entry in metrics().items() if entry.label]
    ).items():
        lines += [
            f"## {family}",
            "",
            "| column | what | unit | better | by chance | measured by |",
            f"|{' --- |' * 6}",
        ]
        names = {part for row in members for part in part_names(row)}
        for row in (row for row in members if row.name not in names):
            shown = interval(row.name) if row.ends else (row.name,)
            form = "`{}`" if isinstance(row.chance, str) else "{:g}"
            chance = "" if row.chance is None else form.format(row.chance)
            by = ", ".join(sources.get(row.name, ["engine"]))
            lines.append(
                f"| {', '.join(f'`{name}`' for name in shown)} | {row.label} | {row.unit} | "
                f"{row.direction or ''} | "
                f"{chance} | {by} |"
            )
        lines.append("")
    return "\n".join(lines).rstrip()


@cache
def _collected(components: tuple[Completed, ...]) -> dict[str, Metric]:
    """Metrics of the engine and of the components, sorted by family.

    A name's first declaration counts.

    What an attack finds comes before what the engine makes of it for risk and violations. A
    metric's value by chance and the ends of its interval need no declaration of their own: they
    follow the metric and are described like it.
    """
    declared = dict[str, Metric]()
    engine = {entry.name for entry in ROUND_METRICS}
    for entry in (
        *ROUND_METRICS,
        *(entry for component in components for entry in component.METRICS),
    ):
        declared.setdefault(entry.name, entry)
    families = list(dict.fromkeys((*FAMILIES, *(entry.family for entry in declared.values()))))
    names = dict[str, Metric]()
    for entry in sorted(
        declared.values(), key=lambda entry: (families.index(entry.family), entry.name in engine)
    ):
        names[entry.name] = entry
        for part in parts(entry):
            if part.name not in declared:
                names.setdefault(part.name, part)
    return names
