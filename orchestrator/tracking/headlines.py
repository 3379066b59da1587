"""Which few of a sweep's many metrics a page of MLflow shows first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from algorithms.core.metric import ACCURACY, CLIENT, MEMBERSHIP, SOURCE
from orchestrator.metric_names import metric, table_columns

MOST = 6
ATTACKS = (MEMBERSHIP, SOURCE, CLIENT)
GROUPS = ("_minority", "_majority")
CLAIMED, AUDITED = "epsilon", "epsilon_audit"


@dataclass(frozen=True)
class Pair:
    """A trade-off: the name of a metric of risk, and of the accuracy that belongs to it."""

    accuracy: str
    risk: str


def headline_metrics(names: Collection[str], first: Sequence[str] = ()) -> list[str]:
    """At most six of the measured metrics ``names``: ``first``, then those that the terminal's table ranks highest.

    >>> headline_metrics({"accuracy", "loss", "mia_auc"}, ["mia_auc"])
    ['mia_auc', 'accuracy']
    """
    ranked = sorted(table_columns(names), key=lambda column: column.rank)
    shown = [next(name for name in column.metrics if name in names) for column in ranked]
    if not any(name.startswith(CLAIMED) and not name.startswith(AUDITED) for name in names):
        shown = [name for name in shown if not name.startswith(AUDITED)]  # nobody compares it where nothing is claimed
    return list(dict.fromkeys([*(name for name in first if name in names), *shown]))[:MOST]


def trade_offs(headlines: Sequence[str]) -> list[Pair]:
    """The pairs of a risk and an accuracy among the headline metrics, those of the same group of clients together.

    >>> trade_offs(["accuracy_minority", "accuracy_majority", "risk_majority", "risk_minority"])[0]
    Pair(accuracy='accuracy_majority', risk='risk_majority')
    """
    accuracies = [name for name in headlines if metric(name).family == ACCURACY]
    risks = [name for name in headlines if metric(name).family in ATTACKS and metric(name).unit == "fraction"]
    if not accuracies:
        return []
    return [
        Pair(next((one for one in accuracies if _group(one) == _group(risk)), accuracies[0]), risk) for risk in risks
    ]


def label(name: str) -> str:
    """The label of a metric where no heading says its family.

    >>> label("accuracy_minority"), label("test_accuracy")
    ('accuracy, minority clients', 'server test accuracy')
    """
    one = metric(name)
    bare = one.family == ACCURACY and name.startswith("accuracy") and "accuracy" not in one.label
    return f"accuracy, {one.label}" if bare else one.label


def _group(name: str) -> str:
    return next((group for group in GROUPS if name.endswith(group)), "")
