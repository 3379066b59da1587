"""The figures of a report, each a function of an `Arrangement` that returns None without data.

No figure is about one component: what is drawn over accuracy, client by client, over the rounds and
by setting is declared by metrics (`Metric.risk`, ``clients``, ``over_rounds``, ``final``). Only the
papers' own figures are in a list.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.config.errors import spared
from orchestrator.config.metric_names import metrics
from orchestrator.papers.verdicts import of_results
from orchestrator.report.data import Results
from orchestrator.report.figures.arrangement import Arrangement, arrange
from orchestrator.report.figures.attacks import attack_roc, audit
from orchestrator.report.figures.clients_exposed import clients_exposed
from orchestrator.report.figures.curves import final, over_rounds
from orchestrator.report.figures.exposure import exposure
from orchestrator.report.figures.trade_off import trade_off
from orchestrator.report.figures.verdicts import forest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawing = Callable[[Arrangement], "Figure | None"]
VERDICTS = "verdicts"
# begins the names of the figures with single clients; the rest is the clients' column
CLIENTS = "clients_exposed_"


def catalog() -> dict[str, Drawing]:
    """Every figure by name, in the order of the report."""
    declared = metrics().values()
    by_client = {
        f"{CLIENTS}{metric.clients.column or metric.name}": metric
        for metric in declared
        if metric.clients
    }
    return {
        "trade_off": trade_off,
        "exposure": exposure,
        "attack_roc": attack_roc,
        **{name: partial(clients_exposed, of=metric) for name, metric in by_client.items()},
        "audit": audit,
        **{
            name: partial(over_rounds, title=name)
            for name in dict.fromkeys(m.over_rounds for m in declared)
            if name
        },
        **{
            name: partial(final, title=name)
            for name in dict.fromkeys(m.final for m in declared)
            if name
        },
        VERDICTS: lambda arr: forest(of_results(arr.results)),
    }


def figures(
    results: Results, say: Callable[[str], object], names: Container[str] | None = None
) -> Iterator[tuple[str, Figure]]:
    """Yield the name and figure of all that these results can show (or of ``names``), one at a
    time to save memory.

    A figure that cannot be drawn is left out, and ``say`` is given a sentence.
    """
    arr: Arrangement | None = None
    with spared("The layout of the figures", say):
        arr = arrange(results)
    if arr is None:
        return
    for name, draw in catalog().items():
        figure: Figure | None = None
        with spared(f"Figure {name}", say):
            figure = draw(arr) if names is None or name in names else None
        if figure:
            yield name, figure
