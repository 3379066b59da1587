"""The list of all metrics: label, unit, family, which direction is better, and the tables that show it.

The metrics of the round engine are declared here, those of a component in its own file (``METRICS``, see
`algorithms.core.metric`). This list does not decide what is measured: an undeclared metric still appears, under its own
name, after the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, partial

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
LATER: Rank = {"sources": MINOR}
# Attacks on models, where no attack on the clients of a group says more.
MODELS: Rank = {"plain": 1, "protected": 2, "sources": 2}
ATTACKED = "models"  # the kind of attacks that look at models
ON_MODELS = "MIA: accuracy of the attack on a model"

accuracy = partial(Metric, family=ACCURACY, direction="higher")
loss = partial(Metric, family=ACCURACY, direction="lower", unit="nats")
membership = partial(Metric, family=MEMBERSHIP, direction="lower", chance=0.5)
on_models = partial(membership, reading=ON_MODELS, final="membership_inference")
violations = partial(Metric, family=MEMBERSHIP, direction="lower", unit="clients", digits=1)
clients = partial(Metric, family=CLUSTERING, unit="clients", digits=1)
rho = partial(Metric, family=CURVATURE, direction="higher", unit="", chance=0.0)
fairness = partial(Metric, family=FAIRNESS, direction="lower", final="fairness")
time = partial(Metric, family=TIME, direction="lower")

ROUND_METRICS = (
    accuracy(
        "accuracy",
        label="accuracy",
        live=OVERALL,
        table=Column(OVERALL, "accuracy"),
        final="accuracy",
        over_rounds="convergence",
    ),
    accuracy(
        "accuracy_majority",
        label="majority clients",
        live=2,
        table=Column(1, "accuracy\nmajority"),
        final="accuracy_by_group",
        over_rounds="convergence",
    ),
    accuracy(
        "accuracy_minority",
        label="minority clients",
        live=1,
        table=Column(1, "accuracy\nminority"),
        final="accuracy_by_group",
        over_rounds="convergence",
    ),
    accuracy("model_accuracy_majority", label="majority model", final="accuracy_by_group"),
    accuracy("model_accuracy_minority", label="minority model", final="accuracy_by_group"),
    # What `tune` selects by; reported beside the accuracy that it must not see.
    accuracy("validation_accuracy", label="validation accuracy", live=5, table=Column(5, "accuracy\nvalidation")),
    loss("validation_loss", label="validation loss"),
    accuracy("train_accuracy", label="training accuracy"),
    accuracy("train_accuracy_last5_mean", label="training accuracy, last five rounds"),
    accuracy(
        "aggregated_accuracy",
        label="aggregated accuracy",
        live=PROTECTED,
        table=Column(PROTECTED, "accuracy\nclients"),
        final="accuracy",
    ),
    accuracy("accuracy_last5_mean", label="mean of last 5 rounds"),
    accuracy("accuracy_last5_std", label="deviation of last 5 rounds", direction="lower"),
    accuracy(
        "test_accuracy",
        label="server test accuracy",
        live=PROTECTED,
        table=Column(PROTECTED, "accuracy\nserver"),
        final="accuracy",
    ),
    loss("test_loss", label="server test loss"),
    accuracy(
        "f1_macro",
        label="macro F1",
        live={"protected": 5},
        table=Column({"protected": 3}, "macro\nF1", interval=False),
        final="accuracy",
    ),
    accuracy("precision_macro", label="macro precision"),
    accuracy("auc_micro", label="micro AUC"),
    loss("loss", label="training loss", live=MINOR),
    membership(  # of a client, in clients.parquet
        "risk",
        label="attack accuracy",
        clients=PerClient(
            "Membership inference on each client's examples, under the model that it uses", worst="risk_worst_client"
        ),
    ),
    membership(
        "risk_majority",
        label="risk of the majority's clients",
        live=2,
        table=Column(1, "risk\nmajority"),
        risk=Risk("", None, accuracies=("accuracy_majority",)),
    ),
    membership(
        "risk_minority",
        label="risk of the minority's clients",
        live=1,
        table=Column(1, "risk\nminority"),
        risk=Risk(
            "Membership inference tells the minority clients' training examples from others with accuracy",
            12,
            ATTACKED,
            ("accuracy_minority",),
            ("risk_majority", "risk_worst_client"),
        ),
    ),
    membership(
        "risk_worst_client",
        label="risk of the worst client",
        table=Column(3, "risk worst\nclient", interval=False),
        chance="risk_worst_client_null",
        risk=Risk("", None),
    ),
    on_models(
        "mia_accuracy",
        label="MIA accuracy, mean model",
        reading="",
        risk=Risk(
            "Membership inference tells training examples of a model, in the mean over models, with accuracy", None
        ),
    ),
    on_models(
        "mia_accuracy_worst",
        label="MIA accuracy, worst model",
        live=MODELS,
        table=Column(MODELS, "MIA"),
        risk=Risk(
            "Membership inference on the worst model tells training examples with accuracy",
            14,
            ATTACKED,
            beside=("mia_auc_worst",),
            instead=("mia_accuracy_global", "mia_accuracy"),
        ),
    ),
    on_models(
        "mia_accuracy_majority",
        label="MIA accuracy, majority model",
        table=Column(4, "MIA maj.\nmodel"),
        risk=Risk("", None, accuracies=("model_accuracy_majority",)),
    ),
    on_models(
        "mia_accuracy_minority",
        label="MIA accuracy, minority model",
        table=Column(4, "MIA min.\nmodel"),
        risk=Risk(
            "Membership inference on the minority model tells training examples with accuracy",
            13,
            ATTACKED,
            ("model_accuracy_minority",),
            ("mia_accuracy_majority",),
        ),
    ),
    on_models(
        "mia_accuracy_global",
        label="MIA accuracy, global model",
        reading="",
        risk=Risk("Membership inference on the global model tells training examples with accuracy", 15, ATTACKED),
    ),
    violations(
        "violations",
        label="violations",
        live=3,
        table=Column(2, "violations", 1),
        chance="violations_null",
        final="violations",
    ),
    violations(
        "violations_majority",
        label="violations, majority",
        table=Column(5, "violations\nmaj. + min.", 1, interval=False, also=("violations_minority",)),
        final="violations",
    ),
    violations("violations_minority", label="violations, minority", final="violations"),
    violations("violations_last_half", label="violations, mean of the last half"),
    membership("movers_risk", label="risk of those who moved, model they use"),
    membership("movers_risk_left", label="risk of those who moved, model they left"),
    clients("migrated", label="moved", live=4),
    clients(
        "moved_majority",
        label="moved, majority",
        table=Column(3, "moved\nmaj. + min.", 1, interval=False, also=("moved_minority",)),
    ),
    clients("moved_minority", label="moved, minority"),
    Metric("purity", CLUSTERING, "purity", "higher", live=6, table=Column(6, "purity", 2)),
    clients("clients", label="users of the model"),
    clients("own_clients", label="users of the model who are clients of its group"),
    Metric("loss_gap", CLUSTERING, "loss gap", unit="nats"),
    Metric("risk_gap", CLUSTERING, "risk gap"),
    rho(
        "rho_spearman",
        label="rank correlation of eigenvalue and trace",
        reading="the top eigenvalue and the trace of the Hessian, of which rho is made, rank the clients alike with a "
        "correlation (Spearman) of {rho_spearman}; 1 is the same order",
    ),
    rho("rho_spearman_all", label="the same over all rounds together"),
    rho("rho_halves", label="rank correlation of rho from two halves"),
    rho(
        "rho_reliability",
        label="reliability of rho (Spearman-Brown)",
        table=Column(LATER, "rho\nreliability", 2, interval=False),
        reading="rho of one half of each client's examples and rho of the other half rank the clients alike with a "
        "correlation (Spearman) of {rho_halves}, which makes {rho_reliability} for rho of all examples (Spearman, Brown)",
    ),
    fairness("demographic_parity", label="demographic parity", chance="demographic_parity_null"),
    fairness("equal_opportunity", label="equal opportunity", chance="equal_opportunity_null"),
    fairness("equalized_odds", label="equalized odds", chance="equalized_odds_null"),
    Metric("demographic_parity_signed", FAIRNESS, "demographic parity, signed"),
    Metric("equal_opportunity_signed", FAIRNESS, "equal opportunity, signed"),
    Metric("equalized_odds_signed", FAIRNESS, "equalized odds, signed"),
    time(
        "converge_round",
        label="round of convergence",
        unit="round",
        digits=1,
        table=Column(LATER, "converged\nin round", 1, interval=False),
    ),
    time("seconds", label="seconds of the round", unit="seconds", digits=2),
    time(
        "seconds_per_round",
        label="seconds per round",
        unit="seconds",
        digits=2,
        table=Column(SECONDS, "seconds\n/ round", 2, interval=False),
    ),
)

# A metric of one round, of a group's clients, or of one of several models.
PART = re.compile(r"(?P<whole>\w+?)_(?P<of>round_\d+|model_\d+|cluster_\d+|majority|minority|global|worst)")


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
    return _collected(tuple(one for folder in FOLDERS for one in described(folder).values()))


def metric(name: str) -> Metric:
    """The description of the metric ``name``; an undeclared metric keeps its name as label and belongs to `OTHER`.

    A part of a declared metric (`PART`) is described like the whole.

    >>> metric("cia_auc_round_5").label, metric("noise_std_majority").family
    ('CIA AUC, round 5', 'Noise and its account')
    """
    declared = metrics()
    if name in declared:
        return declared[name]
    part = PART.fullmatch(name)
    whole = declared.get(part["whole"]) if part else None
    if part is None or whole is None:
        return Metric(name, OTHER, name.replace("_", " "), unit="")
    label = f"{whole.label}, {part['of'].replace('_', ' ')}"
    described = (whole.direction, whole.unit, whole.digits)
    return Metric(name, whole.family, label, *described, chance=whole.chance, bound=whole.bound)


def families(names: Collection[str]) -> dict[str, list[Metric]]:
    """The metrics ``names`` grouped by family, in the order of the summary."""
    grouped = {family: list[Metric]() for family in (*(one.family for one in metrics().values()), OTHER)}
    for name in names:
        grouped[metric(name).family].append(metric(name))
    return {family: members for family, members in grouped.items() if members}


def ordered(names: set[str]) -> tuple[str, ...]:
    """Sort metric names in the order of the summary: parts follow their whole; undeclared ones come last, by name."""
    place = {name: at for at, name in enumerate(metrics())}

    def key(name: str) -> tuple[int, str]:
        part = PART.fullmatch(name)
        return place.get(name, place.get(part["whole"], len(place)) if part else len(place)), name

    return tuple(sorted(names, key=key))


def kind(names: Collection[str]) -> Kind:
    """The kind of sweep, judged by the metrics that it measured; it decides which accuracies the tables show."""
    if "accuracy_majority" in names:
        return "groups"
    measured = {metric(name).family for name in names}
    if SOURCE in measured:
        return "sources"
    return "protected" if measured & {CLIENT, NOISE} else "plain"


def table_columns(names: Collection[str], live: bool = False) -> list[Shown]:
    """The columns of a table on the terminal.

    If the sweep has no accuracy by group or by test set, the overall accuracy comes first. Metrics without a declared
    column are shown only if there is nothing else to show. ``live`` chooses the columns of the live table.
    """
    about, columns = kind(names), list[Shown]()
    for one in metrics().values():
        column = one.table or Column(MINOR, one.label.replace(" ", "\n"))
        rank = one.live if live else column.rank if one.table else None
        rank = rank if rank is None or isinstance(rank, int) else rank.get(about)
        shared = (one.name,) if live else (one.name, *column.also)
        if rank is not None and any(name in names for name in shared):
            digits = one.digits if column.digits is None else column.digits
            columns.append(Shown(column.heading, shared, rank, digits, column.interval))
    finer = [one for one in columns if one.rank <= 1 and metric(one.metrics[0]).family == ACCURACY]
    if "accuracy" in names and not finer:
        columns.insert(0, Shown("accuracy", ("accuracy",), 0))
    bare = [name for name in ordered(set(names)) if name not in BOOKKEEPING]
    return columns or [Shown(metric(name).label.replace(" ", "\n"), (name,), 1) for name in bare]


def least_important(shown: list[Shown]) -> Shown:
    """The column to leave out first: the last of those with the highest rank."""
    return max(reversed(shown), key=lambda column: column.rank)


def page() -> str:
    """All declared metrics as Markdown, a table for each family; the ends of intervals stand beside their metric."""
    sources: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for name, component in described(folder).items():
            for one in component.METRICS:
                sources.setdefault(one.name, []).append(f"`{name}`")
    lines = ["# Metrics", "", "Made by `fedpriv list metrics` from what the engine and the components declare.", ""]
    for family, members in families([name for name, one in metrics().items() if one.label]).items():
        lines += [f"## {family}", "", "| column | what | unit | better | by chance | measured by |", f"|{' --- |' * 6}"]
        parts = {part.name for one in members for part in one.parts}
        for one in (one for one in members if one.name not in parts):
            ends = f", `{one.name}_low`, `{one.name}_high`" if one.ends else ""
            chance = (
                f"`{one.chance}`" if isinstance(one.chance, str) else "" if one.chance is None else f"{one.chance:g}"
            )
            by = ", ".join(sources.get(one.name, ["engine"]))
            lines.append(f"| `{one.name}`{ends} | {one.label} | {one.unit} | {one.direction or ''} | {chance} | {by} |")
        lines.append("")
    return "\n".join(lines).rstrip()


@cache
def _collected(components: tuple[Completed, ...]) -> dict[str, Metric]:
    """Metrics of the engine and of the components, sorted by family. A name's first declaration counts.

    What an attack finds comes before what the engine makes of it for risk and violations. A metric's value by chance
    and the ends of its interval need no declaration of their own: they follow the metric and are described like it.
    """
    declared, engine = dict[str, Metric](), {one.name for one in ROUND_METRICS}
    for one in (*ROUND_METRICS, *(one for component in components for one in component.METRICS)):
        declared.setdefault(one.name, one)
    families = list(dict.fromkeys((*FAMILIES, *(one.family for one in declared.values()))))
    names = dict[str, Metric]()
    for one in sorted(declared.values(), key=lambda one: (families.index(one.family), one.name in engine)):
        names[one.name] = one
        for part in one.parts:
            if part.name not in declared:
                names.setdefault(part.name, part)
    return names
