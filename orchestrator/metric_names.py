"""The list of all metrics: label, unit, family, which direction is better, and the tables that show it.

The metrics of the round engine are declared here, those of a component in its own file (``METRICS``, see
`algorithms.core.metric`). This list does not decide what is measured: an undeclared metric still appears, under its own
name, after the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from algorithms.core.metric import (
    ACCURACY,
    CLIENT,
    CLUSTERING,
    CURVATURE,
    FAIRNESS,
    FAMILIES,
    MEMBERSHIP,
    MINOR,
    NOISE,
    SOURCE,
    TIME,
    Column,
    Kind,
    Metric,
    PerClient,
    Rank,
    Risk,
)
from datasets.components import Completed, described

OTHER = "Other"
BOOKKEEPING = ("round", "attacked")  # columns of a round that are not results
# The packages whose modules are components: those of `orchestrator.config.slots.SLOTS`, which this module may not import.
FOLDERS = (
    "datasets.sources",
    "datasets.splits",
    "algorithms.models",
    "algorithms.training",
    "algorithms.clustering",
    "algorithms.objectives",
    "algorithms.aggregation",
    "algorithms.privacy",
    "attacks",
)

# Which accuracies are shown depends on the sweep: by group, on the clients' and the server's test data, or overall.
OVERALL: Rank = {"sources": 0, "plain": 0}
PROTECTED: Rank = {"protected": 1}
SECONDS: Rank = {"groups": 5, "plain": 5, "sources": MINOR, "protected": MINOR}
# Attacks on models, where no attack on the clients of a group says more.
MODELS: Rank = {"plain": 1, "protected": 2, "sources": 2}
MODELS_ATTACKED = "models"  # the kind of attacks that look at models
ON_MODELS = "MIA: accuracy of the attack on a model"
MOVED = Column(3, "moved\nmaj. + min.", 1, interval=False, also=("moved_minority",))
SHARED = Column(5, "violations\nmaj. + min.", 1, interval=False, also=("violations_minority",))

RHO = Column({"sources": MINOR}, "rho\nreliability", 2, interval=False)
ROUND_METRICS = (
    Metric(
        "accuracy",
        ACCURACY,
        "accuracy",
        "higher",
        live=OVERALL,
        table=Column(OVERALL, "accuracy"),
        final="accuracy",
        over_rounds="convergence",
    ),
    Metric(
        "accuracy_majority",
        ACCURACY,
        "majority clients",
        "higher",
        live=2,
        table=Column(1, "accuracy\nmajority"),
        final="accuracy_by_group",
        over_rounds="convergence",
    ),
    Metric(
        "accuracy_minority",
        ACCURACY,
        "minority clients",
        "higher",
        live=1,
        table=Column(1, "accuracy\nminority"),
        final="accuracy_by_group",
        over_rounds="convergence",
    ),
    Metric("model_accuracy_majority", ACCURACY, "majority model", "higher", final="accuracy_by_group"),
    Metric("model_accuracy_minority", ACCURACY, "minority model", "higher", final="accuracy_by_group"),
    # What `tune` selects by; reported beside the accuracy that it must not see.
    Metric(
        "validation_accuracy",
        ACCURACY,
        "validation accuracy",
        "higher",
        live=5,
        table=Column(5, "accuracy\nvalidation"),
    ),
    Metric("validation_loss", ACCURACY, "validation loss", "lower", unit="nats"),
    Metric("train_accuracy", ACCURACY, "training accuracy", "higher"),
    Metric("train_accuracy_last5_mean", ACCURACY, "training accuracy, last five rounds", "higher"),
    Metric(
        "aggregated_accuracy",
        ACCURACY,
        "aggregated accuracy",
        "higher",
        live=PROTECTED,
        table=Column(PROTECTED, "accuracy\nclients"),
        final="accuracy",
    ),
    Metric("accuracy_last5_mean", ACCURACY, "mean of last 5 rounds", "higher"),
    Metric("accuracy_last5_std", ACCURACY, "deviation of last 5 rounds", "lower"),
    Metric(
        "test_accuracy",
        ACCURACY,
        "server test accuracy",
        "higher",
        live=PROTECTED,
        table=Column(PROTECTED, "accuracy\nserver"),
        final="accuracy",
    ),
    Metric("test_loss", ACCURACY, "server test loss", "lower", unit="nats"),
    Metric(
        "f1_macro",
        ACCURACY,
        "macro F1",
        "higher",
        live={"protected": 5},
        table=Column({"protected": 3}, "macro\nF1", interval=False),
        final="accuracy",
    ),
    Metric("precision_macro", ACCURACY, "macro precision", "higher"),
    Metric("auc_micro", ACCURACY, "micro AUC", "higher"),
    Metric("loss", ACCURACY, "training loss", "lower", unit="nats", live=MINOR),
    Metric(  # of a client, in clients.parquet
        "risk",
        MEMBERSHIP,
        "attack accuracy",
        "lower",
        chance=0.5,
        clients=PerClient(
            "Membership inference on each client's examples, under the model that it uses", worst="risk_worst_client"
        ),
    ),
    Metric(
        "risk_majority",
        MEMBERSHIP,
        "risk of the majority's clients",
        "lower",
        live=2,
        table=Column(1, "risk\nmajority"),
        chance=0.5,
        risk=Risk("", None, accuracies=("accuracy_majority",)),
    ),
    Metric(
        "risk_minority",
        MEMBERSHIP,
        "risk of the minority's clients",
        "lower",
        live=1,
        table=Column(1, "risk\nminority"),
        chance=0.5,
        risk=Risk(
            "Membership inference tells the minority clients' training examples from others with accuracy",
            12,
            MODELS_ATTACKED,
            ("accuracy_minority",),
            ("risk_majority", "risk_worst_client"),
        ),
    ),
    Metric(
        "risk_worst_client",
        MEMBERSHIP,
        "risk of the worst client",
        "lower",
        table=Column(3, "risk worst\nclient", interval=False),
        chance="risk_worst_client_null",
        risk=Risk("", None),
    ),
    Metric(
        "mia_accuracy",
        MEMBERSHIP,
        "MIA accuracy, mean model",
        "lower",
        chance=0.5,
        risk=Risk(
            "Membership inference tells training examples of a model, in the mean over models, with accuracy", None
        ),
        final="membership_inference",
    ),
    Metric(
        "mia_accuracy_worst",
        MEMBERSHIP,
        "MIA accuracy, worst model",
        "lower",
        live=MODELS,
        table=Column(MODELS, "MIA"),
        chance=0.5,
        risk=Risk(
            "Membership inference on the worst model tells training examples with accuracy",
            14,
            MODELS_ATTACKED,
            beside=("mia_auc_worst",),
            instead=("mia_accuracy_global", "mia_accuracy"),
        ),
        reading=ON_MODELS,
        final="membership_inference",
    ),
    Metric(
        "mia_accuracy_majority",
        MEMBERSHIP,
        "MIA accuracy, majority model",
        "lower",
        table=Column(4, "MIA maj.\nmodel"),
        chance=0.5,
        risk=Risk("", None, accuracies=("model_accuracy_majority",)),
        reading=ON_MODELS,
        final="membership_inference",
    ),
    Metric(
        "mia_accuracy_minority",
        MEMBERSHIP,
        "MIA accuracy, minority model",
        "lower",
        table=Column(4, "MIA min.\nmodel"),
        chance=0.5,
        risk=Risk(
            "Membership inference on the minority model tells training examples with accuracy",
            13,
            MODELS_ATTACKED,
            ("model_accuracy_minority",),
            ("mia_accuracy_majority",),
        ),
        reading=ON_MODELS,
        final="membership_inference",
    ),
    Metric(
        "mia_accuracy_global",
        MEMBERSHIP,
        "MIA accuracy, global model",
        "lower",
        chance=0.5,
        risk=Risk(
            "Membership inference on the global model tells training examples with accuracy", 15, MODELS_ATTACKED
        ),
        final="membership_inference",
    ),
    Metric(
        "violations",
        MEMBERSHIP,
        "violations",
        "lower",
        "clients",
        1,
        live=3,
        table=Column(2, "violations", 1),
        chance="violations_null",
        final="violations",
    ),
    Metric(
        "violations_majority",
        MEMBERSHIP,
        "violations, majority",
        "lower",
        "clients",
        1,
        table=SHARED,
        final="violations",
    ),
    Metric("violations_minority", MEMBERSHIP, "violations, minority", "lower", "clients", 1, final="violations"),
    Metric("violations_last_half", MEMBERSHIP, "violations, mean of the last half", "lower", "clients", 1),
    Metric("movers_risk", MEMBERSHIP, "risk of those who moved, model they use", "lower", chance=0.5),
    Metric("movers_risk_left", MEMBERSHIP, "risk of those who moved, model they left", "lower", chance=0.5),
    Metric("migrated", CLUSTERING, "moved", None, "clients", 1, live=4),
    Metric("moved_majority", CLUSTERING, "moved, majority", None, "clients", 1, table=MOVED),
    Metric("moved_minority", CLUSTERING, "moved, minority", None, "clients", 1),
    Metric("purity", CLUSTERING, "purity", "higher", live=6, table=Column(6, "purity", 2)),
    Metric("clients", CLUSTERING, "users of the model", None, "clients", 1),
    Metric("clients_majority", CLUSTERING, "users of the majority model", None, "clients", 1),
    Metric("clients_minority", CLUSTERING, "users of the minority model", None, "clients", 1),
    Metric("own_clients_majority", CLUSTERING, "majority clients that use the majority model", None, "clients", 1),
    Metric("own_clients_minority", CLUSTERING, "minority clients that use the minority model", None, "clients", 1),
    Metric("loss_gap", CLUSTERING, "loss gap", unit="nats"),
    Metric("risk_gap", CLUSTERING, "risk gap"),
    Metric(
        "rho_spearman",
        CURVATURE,
        "rank correlation of eigenvalue and trace",
        "higher",
        "",
        chance=0.0,
        reading="the top eigenvalue and the trace of the Hessian, of which rho is made, rank the clients alike with a "
        "correlation (Spearman) of {rho_spearman}; 1 is the same order",
    ),
    Metric("rho_spearman_all", CURVATURE, "the same over all rounds together", "higher", "", chance=0.0),
    Metric("rho_halves", CURVATURE, "rank correlation of rho from two halves", "higher", "", chance=0.0),
    Metric(
        "rho_reliability",
        CURVATURE,
        "reliability of rho (Spearman-Brown)",
        "higher",
        "",
        table=RHO,
        chance=0.0,
        reading="rho of one half of each client's examples and rho of the other half rank the clients alike with a "
        "correlation (Spearman) of {rho_halves}, which makes {rho_reliability} for rho of all examples (Spearman, Brown)",
    ),
    Metric(
        "demographic_parity",
        FAIRNESS,
        "demographic parity",
        "lower",
        chance="demographic_parity_null",
        final="fairness",
    ),
    Metric(
        "equal_opportunity", FAIRNESS, "equal opportunity", "lower", chance="equal_opportunity_null", final="fairness"
    ),
    Metric("equalized_odds", FAIRNESS, "equalized odds", "lower", chance="equalized_odds_null", final="fairness"),
    Metric("demographic_parity_signed", FAIRNESS, "demographic parity, signed"),
    Metric("equal_opportunity_signed", FAIRNESS, "equal opportunity, signed"),
    Metric("equalized_odds_signed", FAIRNESS, "equalized odds, signed"),
    Metric(
        "converge_round",
        TIME,
        "round of convergence",
        "lower",
        "round",
        1,
        table=Column({"sources": MINOR}, "converged\nin round", 1, interval=False),
    ),
    Metric("seconds", TIME, "seconds of the round", "lower", "seconds", 2),
    Metric(
        "seconds_per_round",
        TIME,
        "seconds per round",
        "lower",
        "seconds",
        2,
        table=Column(SECONDS, "seconds\n/ round", 2, interval=False),
    ),
)

# A metric of one round, or of one of several models.
PART = re.compile(r"(?P<whole>\w+?)_(?P<of>round_\d+|model_\d+|cluster_\d+|majority|minority|global|worst)")


@dataclass(frozen=True)
class Shown:
    """A column of a table of metrics, for one kind of sweep.

    Attributes:
        heading: the text above the column, with line breaks.
        metrics: the metrics whose values share a cell.
        rank: its importance; where space is short, the columns of highest rank are left out first.
        digits: digits after the decimal point.
        interval: whether a confidence interval is shown beside the mean.
        round: name of the metric that holds the round of the value; empty if it is the last round's.
    """

    heading: str
    metrics: tuple[str, ...]
    rank: int
    digits: int = 3
    interval: bool = True
    round: str = ""


def metrics() -> dict[str, Metric]:
    """Every declared metric by name, in the order of the summary."""
    return _collected(tuple(one for folder in FOLDERS for one in described(folder).values()))


def metric(name: str) -> Metric:
    """The description of the metric ``name``; an undeclared metric keeps its name as label and belongs to `OTHER`.

    >>> metric("cia_auc_round_5").label, metric("noise_std_majority").family
    ('CIA AUC, round 5', 'Noise and its account')
    """
    declared = metrics()
    if name in declared:
        return declared[name]
    part = PART.fullmatch(name)
    whole = declared.get(part["whole"]) if part else None
    if part and whole:
        label = f"{whole.label}, {part['of'].replace('_', ' ')}"
        return Metric(
            name, whole.family, label, whole.direction, whole.unit, whole.digits, chance=whole.chance, bound=whole.bound
        )
    return Metric(name, OTHER, name.replace("_", " "), unit="")


def families(names: Collection[str]) -> dict[str, list[Metric]]:
    """The metrics ``names`` grouped by family, in the order of the summary."""
    found = [metric(name) for name in names]
    order = dict.fromkeys((*(one.family for one in metrics().values()), OTHER))
    held = {family: [one for one in found if one.family == family] for family in order}
    return {family: own for family, own in held.items() if own}


def ordered(names: set[str]) -> tuple[str, ...]:
    """Sort metric names in the order of the summary; undeclared ones come last, sorted by name."""
    declared = metrics()
    return (*(name for name in declared if name in names), *sorted(names - declared.keys()))


def kind(names: Collection[str]) -> Kind:
    """The kind of sweep, judged by the metrics that it measured; it decides which accuracies the tables show."""
    if "accuracy_majority" in names:
        return "groups"
    found = {metric(name).family for name in names}
    if SOURCE in found:
        return "sources"
    return "protected" if found & {CLIENT, NOISE} else "plain"


def table_columns(names: Collection[str], live: bool = False) -> list[Shown]:
    """The columns of a table on the terminal.

    If the sweep has no accuracy by group or by test set, the overall accuracy comes first. Metrics without a declared
    column are shown only if there is nothing else to show.

    Args:
        names: the metrics that the sweep has measured.
        live: choose the columns of the live table instead of those of the final summary.
    """
    about = kind(names)
    found = [shown for one in metrics().values() if (shown := _shown(one, names, about, live))]
    finer = [one for one in found if one.rank <= 1 and metric(one.metrics[0]).family == ACCURACY]
    if "accuracy" in names and not finer:
        found.insert(0, Shown("accuracy", ("accuracy",), 0))
    bare = [name for name in ordered(set(names)) if name not in BOOKKEEPING]
    return found or [Shown(_wrapped(metric(name).label), (name,), 1) for name in bare]


def least_important(shown: list[Shown]) -> Shown:
    """The column to leave out first: the last of those with the highest rank."""
    return max(reversed(shown), key=lambda column: column.rank)


@cache
def _collected(components: tuple[Completed, ...]) -> dict[str, Metric]:
    """Metrics of the engine and of the components, sorted by family. A name's first declaration counts.

    What an attack finds comes before what the engine makes of it for risk and violations. A metric's value by chance
    and the ends of its interval need no declaration of their own: they follow the metric and are described like it.
    """
    found, engine = dict[str, Metric](), {one.name for one in ROUND_METRICS}
    for one in (*ROUND_METRICS, *(one for component in components for one in component.METRICS)):
        found.setdefault(one.name, one)
    order = {
        family: place for place, family in enumerate(dict.fromkeys((*FAMILIES, *(m.family for m in found.values()))))
    }
    names = dict[str, Metric]()
    for one in sorted(found.values(), key=lambda one: (order[one.family], one.name in engine)):
        names[one.name] = one
        for part in one.parts:
            if part.name not in found:
                names.setdefault(part.name, part)
    return names


def _shown(one: Metric, names: Collection[str], about: Kind, live: bool) -> Shown | None:
    """The column of a metric; None if it has no column in this table, or was not measured."""
    column = one.table
    rank = one.live if live else column.rank if column else None
    if rank is not None and not isinstance(rank, int):
        rank = rank.get(about)
    own = (one.name,) if live or not column else (one.name, *column.also)
    if rank is None or not any(name in names for name in own):
        return None
    if not column:
        return Shown(_wrapped(one.label), own, rank, one.digits)
    digits = one.digits if column.digits is None else column.digits
    return Shown(column.heading, own, rank, digits, column.interval, column.round)


def _wrapped(label: str) -> str:
    return label.replace(" ", "\n")
