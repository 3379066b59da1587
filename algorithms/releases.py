"""All that leaves a client, and what each guarantee makes of it; `fedpriv list guarantees`
prints it.

A guarantee holds where everything that leaves a client is covered by the noise, counts as public,
or stays with those who are trusted. Anything else voids it, in the runs in which it happens. This
list is the only place that knows what leaves: the components ask `unmet` before they state an
epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from algorithms.core.views import SIGHTS, Sight
from algorithms.interfaces import Run

Claim = Literal["global_dp", "local_dp", "dp_sgd"]

CLAIMS: tuple[Claim, ...] = get_args(Claim)

NOISE = "covered by the noise"
TRUSTED = "the server is trusted with it"
PUBLIC = "counts as public"
KEPT = "stays with the client"
MEASURED = "not covered: a measurement of the experimenter"
VOID = "no epsilon"

CHOSEN = "none: clients choose models by losses without noise, in plain view"


@dataclass(frozen=True)
class Release:
    """Something that leaves a client, or may.

    Attributes:
        what: what it is.
        when: in which runs it leaves, in words; empty: in all.
        views: the values of ``server_sees`` under which the server sees it; empty: it is seen in
            other ways.
        handling: what each guarantee makes of it; `VOID` if it has no epsilon then.
        happens: whether it leaves in a run.
        reason: why no epsilon holds, a text that begins with ``none: ``; ``{aggregation}`` stands
            for the component's name.
    """

    what: str
    when: str
    views: tuple[str, ...]
    handling: Mapping[Claim, str]
    happens: Callable[[Run], bool] = lambda run: True
    reason: str = ""


def unmet(claim: Claim, run: Run) -> str | None:
    """Return ``none:`` and why ``claim`` does not hold for ``run``, by what leaves its clients;
    None if it may hold.
    """
    for release in RELEASES:
        if release.handling[claim] == VOID and release.happens(run):
            return release.reason.format(aggregation=run.aggregation.name)
    return None


def _views(sight: Sight) -> tuple[str, ...]:
    """The values of ``server_sees`` under which the server sees this."""
    return tuple(view for view, sights in SIGHTS.items() if sight in sights)


def _by(
    global_dp: str,
    local_dp: str,
    dp_sgd: str,
) -> dict[Claim, str]:
    return {"global_dp": global_dp, "local_dp": local_dp, "dp_sgd": dp_sgd}


def _holds_clients(run: Run) -> bool:
    split = run.split
    return split.module.server_has(split.config, run.data.config) == "clients"


def _prepares_by_clients(run: Run) -> bool:
    return run.data.config.prepared_by == "server" and _holds_clients(run)


def _starts_warm_by_clients(run: Run) -> bool:
    return (
        _holds_clients(run)
        and run.aggregation.module.warm_start(run.aggregation.config) is not None
    )


def _sends_statistics(run: Run) -> bool:
    read = run.aggregation.module.statistics(run.aggregation.config)
    return run.measures_curvature or bool(read)


def _starts_anew(run: Run) -> bool:
    return run.clustering.module.starts(run.clustering.config).initializations > 1


RELEASES = (
    Release("the update of a client", "", _views("shuffled_models"), _by(TRUSTED, NOISE, NOISE)),
    Release("the sum or mean of updates", "", _views("sum"), _by(NOISE, NOISE, NOISE)),
    Release("the models that are sent", "", _views("models"), _by(NOISE, NOISE, NOISE)),
    Release(
        "means, deviations, medians and texts of all clients' examples, which prepare each one",
        "`data.statistics: all_clients`",
        (),
        _by(VOID, VOID, VOID),
        lambda run: run.data.config.prepared_by == "all_clients",
        "none: statistics of all clients' examples prepare each one (data.statistics), "
        "without noise",
    ),
    Release(
        "statistics, texts and the number of inputs that are made of the shadow set",
        "`split: natural` with `server: every_client`, whose shadow set has rows of clients",
        (),
        _by(VOID, VOID, VOID),
        _prepares_by_clients,
        "none: the server prepares examples by rows of clients, which it has of each one "
        "(data.split.server every_client); set clients aside, or let data.statistics be "
        "each_client or constants",
    ),
    Release(
        "models that were trained on the shadow set: a warm start",
        "`split: natural` with `server: every_client`, whose shadow set has rows of clients",
        (),
        _by(VOID, VOID, VOID),
        _starts_warm_by_clients,
        "none: the first model is trained on rows of clients, which the server has of each "
        "one (data.split.server every_client); set clients aside, or leave out "
        "warm_start_epochs",
    ),
    Release(
        "the shadow set itself",
        "`split: natural` with `server: every_client`, whose shadow set has rows of clients",
        (),
        _by(TRUSTED, VOID, TRUSTED),
        _holds_clients,
        "none: the server holds rows of every client as they are (data.split.server "
        "every_client); set clients aside, or write data.shadow_size: 0",
    ),
    Release(
        "means, deviations and medians of a client's own examples, which prepare them",
        "`data.statistics: each_client`",
        (),
        _by(KEPT, KEPT, VOID),
        lambda run: run.data.config.prepared_by == "each_client",
        "none: one example moves the statistics that prepare the others of its client "
        "(data.statistics each_client)",
    ),
    Release(
        "running statistics of batch normalization",
        "a model that has it",
        _views("sum"),
        _by(VOID, VOID, VOID),
        lambda run: run.model.module.BATCH_NORM,
        "none: running statistics of batch normalization are sent without noise",
    ),
    Release(
        "the curvature of a client's loss, of its halves, rho, and other client statistics",
        "an objective or aggregation that reads them",
        _views("updates"),
        _by(VOID, VOID, VOID),
        _sends_statistics,
        "none: clients send the curvatures of their losses, or other statistics, without noise",
    ),
    Release(
        "losses that compare initializations",
        "`clustering.restarts` above 1",
        (),
        _by(VOID, VOID, VOID),
        _starts_anew,
        "none: initializations are compared by losses without noise; clustering.restarts 1 "
        "compares none",
    ),
    Release(
        "the model that a client chooses, and the losses by which it does",
        "`clustering.clusters` above 1",
        _views("choices"),
        _by(VOID, VOID, VOID),
        lambda run: run.clustering.config.clusters > 1,
        CHOSEN,
    ),
    Release(
        "the number of a client's examples, as a weight",
        "an aggregation without `weights: uniform`",
        _views("choices"),
        _by(PUBLIC, VOID, PUBLIC),
        lambda run: not run.aggregation.module.equal_weights(run.aggregation.config),
        "none: {aggregation} weighs clients by what they send without noise, such as numbers "
        "of examples; fedavg with weights: uniform does not",
    ),
    Release(
        "who the clients are, the classes, the columns, the numbers of examples, who takes part",
        "",
        (),
        _by(PUBLIC, PUBLIC, PUBLIC),
    ),
    Release(
        "which examples a client drops as repetitions, trains on and tests on",
        "",
        (),
        _by(KEPT, KEPT, PUBLIC),
    ),
    Release("whom an example is about", "`data.subject`", (), _by(PUBLIC, PUBLIC, PUBLIC)),
    Release(
        "whether the data are refused: infinite numbers, mixtures of numbers and texts, too "
        "many texts",
        "before anything runs",
        (),
        _by(PUBLIC, PUBLIC, PUBLIC),
    ),
    Release("the state of a client's optimizer", "", (), _by(KEPT, KEPT, KEPT)),
    Release("whether the run ends because a loss is not finite", "", (), _by(KEPT, KEPT, KEPT)),
    Release(
        "norms of updates, clipped fractions, training losses, accuracies, all tables of results",
        "",
        (),
        _by(MEASURED, MEASURED, MEASURED),
    ),
    Release(
        "settings that were chosen by data or results: `fedpriv new`, `tune`, a sweep, "
        "early stopping",
        "",
        (),
        _by(MEASURED, MEASURED, MEASURED),
    ),
)
