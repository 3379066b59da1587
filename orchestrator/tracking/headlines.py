"""Which few of a sweep's many metrics a page of MLflow shows first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from algorithms.core.metric import ACCURACY, CLIENT, MEMBERSHIP, SOURCE
from orchestrator.metric_names import metric, table_columns

MOST = 6
ATTACKS = (MEMBERSHIP, SOURCE, CLIENT)
GROUPS = ("_minority", "_majority")


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
    return list(dict.fromkeys([*(name for name in first if name in names), *shown]))[:MOST]


def trade_offs(headlines: Sequence[str]) -> list[Pair]:
    """The pairs of a risk and an accuracy among the headline metrics, those of the same group of clients together.

    >>> trade_offs(["accuracy_minority", "accuracy_majority", "risk_majority", "risk_minority"])[0]
    Pair(accuracy='accuracy_majority', risk='risk_majority')
    """
    accuracies = [name for name in headlines if metric(name).family == ACCURACY]
    risks = [name for name in headlines if metric(name).family in ATTACKS]
    if not accuracies:
        return []
    return [
        Pair(next((one for one in accuracies if _group(one) == _group(risk)), accuracies[0]), risk) for risk in risks
    ]


def _group(name: str) -> str:
    return next((group for group in GROUPS if name.endswith(group)), "")
