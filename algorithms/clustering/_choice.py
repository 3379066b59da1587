"""Shared parts of the clustering components: the clients' tolerance of risk, how they choose a
model, and what limits it.

Whoever leaves a small model because of risk makes it riskier still, so leaving can be limited:

    c_ij <- cost + leaving_price for all j but the model that client i used last
    at most most_leaving clients leave a model in a round, those with the largest gain in cost

Jung et al. name this as future work. The limits apply as soon as risk counts (the server has
measured one or, with ``risk_from: own``, a client has found one), not while clients are sorted by
loss alone.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.choices import Preferences, Starts, View
from algorithms.core.configs import ClusteredConfig, ClusteringConfig
from algorithms.core.messages import Doubles, Ints


def thresholds(
    config: ClusteringConfig,
    clients: int,
    rng: np.random.Generator,
) -> Doubles:
    """Draw the tolerated attack accuracies [clients]: an evenly spaced grid in random order,
    regardless of groups.

    A grid is used instead of independent draws so that counts of violations do not differ by
    chance.
    """
    return rng.permutation(np.linspace(config.lowest_threshold, config.highest_threshold, clients))


def indifferent(
    config: ClusteringConfig,
    clients: int,
    rng: np.random.Generator,
) -> Preferences:
    """Return the usual tolerances with zero weight of risk, for clients that choose by loss only
    or not at all.
    """
    return Preferences(thresholds(config, clients, rng), np.zeros(clients))


def starts(config: ClusteredConfig) -> Starts:
    """Return the settings of initializations and random first rounds from the fields; a single
    model has neither.
    """
    if config.clusters == 1:
        return Starts()
    return Starts(config.restarts, config.restart_rounds, config.warm_start_rounds)


def selection_size(config: ClusteredConfig) -> int | None:
    """Return the largest number of examples on which a client compares models; None means all."""
    return config.selection_batch if config.selection == "minibatch" else None


def cheapest(costs: Doubles, losses: Doubles, previous: Ints) -> Ints:
    """Find each client's cheapest model [clients], from costs and losses in nats [clients,
    clusters].

    Ties go to the lower loss, then to the ``previous`` choice [clients] (-1: none).
    """
    changed = np.arange(costs.shape[1]) != previous[:, None]
    order = np.lexsort((changed, losses, costs), axis=1)
    return order[:, 0]


# a share of 0.3 of ten clients are three, although 0.3 * 10 may fall below 3 in floating point
ROUNDING = 1e-9


class LeavingConfig(ClusteredConfig):
    """Fields of a clustering in which clients leave a model because of its risk."""

    most_leaving: (
        Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0, le=1)] | Literal["all"]
    ) = Field(
        "all",
        description=(
            "clients that may leave a model per round: a number, a share of its clients (0.25), "
            "or all"
        ),
    )
    # In units of the cost; on the raw scale, (1 - beta) nats and beta times a risk that differs by
    # 0.1 at most.
    leaving_price: float = Field(
        0.0,
        ge=0,
        le=100,
        description="added to the cost of every model but the one that the client used last",
    )

    @property
    def limits_leaving(self) -> bool:
        """Whether anything limits leaving."""
        return self.most_leaving != "all" or self.leaving_price > 0


def choose_within_limits(
    config: LeavingConfig,
    costs: Doubles,
    view: View,
) -> tuple[Ints, Doubles]:
    """Choose the cheapest model [clients] within the limits; return the costs [clients,
    clusters] as well.

    A client that has to stay has no other choice: the other models cost it infinity.
    """
    previous = view.previous[:, None]
    other = np.arange(costs.shape[1]) != previous
    elsewhere = other & (previous >= 0)
    costs = costs + config.leaving_price * elsewhere
    chosen = cheapest(costs, view.losses, view.previous)
    if config.most_leaving == "all":
        return chosen, costs
    staying = _staying(config.most_leaving, costs, chosen, view.previous)
    barred = staying[:, None] & elsewhere
    costs = np.where(barred, np.inf, costs)
    return np.where(staying, view.previous, chosen), costs


def _staying(
    most: float,
    costs: Doubles,
    chosen: Ints,
    previous: Ints,
) -> NDArray[np.bool_]:
    """Return which clients have to stay because others, who gain more, leave the same model
    [clients].

    ``most`` of its users may leave a model, or (a float) that share, rounded down to whole clients.
    Among equal gains the lower number of the client goes first; nobody leaves the ``previous``
    model -1.
    """
    rows = np.arange(len(chosen))
    staying = np.zeros(len(chosen), bool)
    gains = costs[rows, previous] - costs[rows, chosen]
    for model in np.unique(previous[previous >= 0]):
        users = previous == model
        leaving = np.flatnonzero(users & (chosen != model))
        allowed = most
        if not isinstance(most, int):
            allowed = math.floor(most * users.sum() + ROUNDING)
        order = np.argsort(-gains[leaving], kind="stable")
        staying[leaving[order[int(allowed) :]]] = True
    return staying
