"""Declarations of metrics: name, unit, better direction, and how tables show them; and numbers,
what was measured of them.

A metric is declared where it is measured: by a component as ``METRICS = (Metric(...), ...)`` in its
own file, by the
round engine in `algorithms.metrics.declared`; `orchestrator.config.metric_names` collects them all.
No table has its own list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

ACCURACY = "Accuracy"
MEMBERSHIP = "Membership inference"
CLUSTERING = "Clustering"
SOURCE = "Source inference"
CLIENT = "Client inference"
CHOICE = "Choice of a model"
ATTRIBUTE = "Attribute inference"
NOISE = "Noise and its account"
CURVATURE = "Curvature"
AGGREGATION = "Aggregation"
FAIRNESS = "Group fairness"
TIME = "Time"
# The order of the families in every table. Families with other names come after these.
FAMILIES = (
    *(ACCURACY, MEMBERSHIP, CLUSTERING, SOURCE, CLIENT, CHOICE, ATTRIBUTE),
    *(NOISE, CURVATURE, AGGREGATION, FAIRNESS, TIME),
)

# What a sweep is about: groups of clients, source inference, protection by noise or against client
# inference, or none of it.
Kind: TypeAlias = Literal["groups", "sources", "protected", "plain"]
# On a narrow terminal, columns of the highest rank are dropped first. By kind of sweep, if other
# kinds lack the column.
Rank: TypeAlias = int | Mapping[Kind, int]
Bound: TypeAlias = Literal["upper", "lower"] | None
NAN = float("nan")
MINOR = 7  # columns of this rank are dropped before any others


@dataclass(frozen=True)
class Column:
    """A metric's column in the table at the end of a run.

    The live table has the same heading and digits.

    Attributes:
        rank: see `Rank`.
        heading: one or two lines.
        digits: number of decimals, if the metric's own are too many for a table.
        interval: whether the 95 % interval over seeds is shown.
        also: names of the metrics that share the cell, as in "2.0 + 4.0".
    """

    rank: Rank
    heading: str
    digits: int | None = None
    interval: bool = True
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Risk:
    """Makes a metric the risk of an attack: figures draw it over accuracy, and the headline may
    be about it.

    Attributes:
        words: what the attack does, up to the number: the beginning of the headline's sentence.
        rank: its place among all attacks, the strongest first, given before any number is looked
            at; None: it is shown only beside or instead of another metric.
        kind: of metrics of one kind, the first that was measured stands for all; empty: a kind of
            its own.
        accuracies: the metrics of accuracy that belong to it, of which the first that was measured
            counts.
        beside: the metrics that are drawn beside it.
        instead: the metrics that a headline is about instead, the first that was measured: of the
            worst of several models the mean, because the largest of several values is too high by
            chance.
    """

    words: str
    rank: int | None = 60
    kind: str = ""
    accuracies: tuple[str, ...] = ("accuracy", "aggregated_accuracy")
    beside: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()


@dataclass(frozen=True)
class PerClient:
    """What a metric is for each client: the figure of the clients' exposure.

    Attributes:
        title: the title of the figure.
        column: the column of ``clients.parquet``; empty: the metric's name.
        low: the column of the lower end of an interval within one run; empty: there is none.
        high: the column of its upper end.
        interval: what this interval is.
        worst: the metric of the most exposed client, whose value by chance is a line of its own;
            empty: there is none.
        target: the field of a run that names the attacked client, if each run attacks one; the
            metric is then the run's.
        two_sided: whether a value far below chance is as much of a success as one above it.
    """

    title: str
    column: str = ""
    low: str = ""
    high: str = ""
    interval: str = ""
    worst: str = ""
    target: str = ""
    two_sided: bool = False


@dataclass(frozen=True)
class Metric:
    """A number that a run measures, in each round or at its end.

    >>> Metric("eod", SOURCE, "EOD", "lower", live=2, table=Column(2, "EOD", digits=2)).unit
    'fraction'

    Attributes:
        name: its column in ``rounds.parquet`` or ``trials.parquet``.
        family: the section of the summary that shows it: one of `FAMILIES`, or a new one.
        label: its heading in the summary.
        direction: which values are better; None if neither.
        unit: "fraction" (of one), "nats", "seconds", "clients", ...; empty for a number without a
            unit.
        digits: number of decimals in the summary.
        live: its rank in the live table; None if it has no column there.
        table: its column in the table at the end of a run; None if it has none.
        chance: the value by chance, or the name of the metric that holds it; None if it is unknown.
        bound: "upper" if it is proved that the truth is no more, as of an epsilon, which is then
            rounded up; "lower" if it is no less, which is rounded down; None for measurements.
        limits: the smallest and the largest possible value, at which an interval ends; None: there
            is none. See `rate` and `magnitude`.
        by_model: whether its values of single models have no meaning from seed to seed, unless they
            are declared themselves.
        protects: whom it guarantees something, such as "a client"; the column with ``guarantee``
            for ``epsilon`` in its name says under which assumption.
        audits: the metrics of guarantees that it audits, of which the first that a trial has
            counts: an interval above that one refutes it.
        risk: what makes it an attack's risk; None if it is none.
        clients: how its values for single clients are drawn; None if there are none.
        final: the name of the figure that shows its final values by setting; empty: none does.
        over_rounds: the name of the figure that shows it over the rounds; empty: none does.
        ends: whether the ends of its 95 % interval within a run are metrics, too
            (`algorithms.core.columns`).
        on: the examples that it is measured on: "training", "validation", or "tests", which are
            those that are reported.
        reading: a sentence below the tables that show it, without a full stop. ``{other}`` stands
            for the values of the metric ``other``; a sweep that lacks one of them has no such
            sentence.
    """

    name: str
    family: str
    label: str
    direction: Literal["higher", "lower"] | None = None
    unit: str = "fraction"
    digits: int = 3
    live: Rank | None = None
    table: Column | None = None
    chance: float | str | None = None
    bound: Bound = None
    limits: tuple[float | None, float | None] = (None, None)
    by_model: bool = True
    protects: str = ""
    audits: tuple[str, ...] = ()
    risk: Risk | None = None
    clients: PerClient | None = None
    final: str = ""
    over_rounds: str = ""
    ends: bool = False
    on: Literal["tests", "training", "validation"] = "tests"
    reading: str = ""


rate = partial(Metric, limits=(0.0, 1.0))  # what lies between 0 and 1
magnitude = partial(Metric, limits=(0.0, None))  # what is not negative


@dataclass(frozen=True)
class Of:
    """What a number is of: the run, or a part of it.

    Attributes:
        kind: "worst" is the largest value of several models, "variant" one of several ways in which
            an attack is made.
        name: which one; empty of the run.
    """

    kind: Literal["run", "worst", "model", "group", "client", "round", "variant"] = "run"
    name: str = ""


RUN = Of()
WORST = Of("worst", "worst")


def of_model(name: str) -> Of:
    """What a number of one of several models is of."""
    return Of("model", name)


def of_cluster(number: int) -> Of:
    """What a number of the model with this number is of, whatever its name."""
    return of_model(f"cluster_{number}")


def of_group(name: str) -> Of:
    """What a number of a group of clients is of; see `Federation.group_columns`."""
    return Of("group", name)


def of_client(client: int) -> Of:
    """What a number of a client is of."""
    return Of("client", f"client_{client}")


def of_round(rounds: int) -> Of:
    """What a number after so many rounds is of."""
    return Of("round", f"round_{rounds}")


def variant(name: str) -> Of:
    """What a number of a variant of an attack is of."""
    return Of("variant", name)


@dataclass(frozen=True)
class Number:
    """A value of a metric; NaN where it could not be determined.

    Attributes:
        metric: the name of the metric.
        value: its value.
        of: what it is of.
        low: the lower end of its 95 % interval within the run; None: there is none.
        high: the upper end.
        chance: its value by chance; None: there is none, or it is that of the declaration.
    """

    metric: str
    value: float
    of: Of = RUN
    low: float | None = None
    high: float | None = None
    chance: float | None = None

    @property
    def cells(self) -> dict[str, float]:
        """Its value, the ends of its interval, its value by chance; NaN for what there is not."""
        cells = {"value": self.value, "low": self.low, "high": self.high, "chance": self.chance}
        return {name: NAN if cell is None else cell for name, cell in cells.items()}


def unknown(metrics: Iterable[Metric]) -> tuple[Number, ...]:
    """Return numbers of metrics that could not be determined."""
    return tuple(Number(metric.name, NAN, RUN, NAN, NAN, NAN) for metric in metrics)
