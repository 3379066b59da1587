"""What every clustering member shares: the clients' tolerance of risk, and the view from which they choose a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from datasets.slot import Config as SlotConfig

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ClusteringConfig(SlotConfig):
    """Fields that every member has: they describe the clients, and make runs of different members comparable."""

    # Jung et al. draw tau between 50 % and 80 % for every client.
    lowest_threshold: float = Field(0.5, ge=0, le=1, description="smallest tolerated attack accuracy over the clients")
    highest_threshold: float = Field(0.8, ge=0, le=1, description="largest tolerated attack accuracy over the clients")


class ClusteredConfig(ClusteringConfig):
    """Fields of the members that keep several models."""

    clusters: int = Field(2, ge=1, le=64, description="number of models that the server keeps")
    # The whole training set, as in the code of Ghosh et al.: over 50 records the loss is uncertain by as much as risks differ.
    selection: Literal["full", "minibatch"] = Field("full", description="records on which a client compares the models")
    selection_batch: int = Field(50, ge=1, description="records of a minibatch selection")
    # Two random models can attract every client to one of them, all the more where the groups touch.
    warm_start_rounds: int = Field(
        2, ge=0, description="first rounds with a random partition; it ends before initialisations are compared"
    )
    restarts: int = Field(3, ge=1, le=100, description="initialisations that are tried; the best goes on")
    restart_rounds: int = Field(
        5, ge=1, description="rounds after which the initialisations are compared by training loss"
    )


@dataclass(frozen=True)
class Preferences:
    """``threshold`` [clients], the attack accuracy that a client tolerates; ``beta`` [clients], its weight of risk."""

    threshold: Floats
    beta: Floats


@dataclass(frozen=True)
class View:
    """What the choice is made from.

    ``losses`` [clients, clusters] mean cross-entropy in nats of every model on the client's selection records; ``risks``
    [clusters] attack accuracy published with each model; ``previous`` [clients] last choice (-1: none); ``classes`` labels.
    """

    losses: Floats
    risks: Floats
    previous: Ints
    classes: int


def thresholds(config: ClusteringConfig, clients: int, rng: np.random.Generator) -> Floats:
    """Tolerances [clients]: an evenly spaced grid, dealt at random and without regard to groups.

    A grid instead of independent draws, so that counts of violations do not differ by the luck of the draw.
    """
    return rng.permutation(np.linspace(config.lowest_threshold, config.highest_threshold, clients))


def indifferent(config: ClusteringConfig, clients: int, rng: np.random.Generator) -> Preferences:
    """Tolerances as in every member, and no weight of risk: what clients have that choose by loss alone, or not at all."""
    return Preferences(thresholds(config, clients, rng), np.zeros(clients))


def random_partition(clusters: int, clients: int, rng: np.random.Generator) -> Ints:
    """An assignment [clients] in equal parts (sizes differ by at most one)."""
    return rng.permutation(np.arange(clients) % clusters)


def cheapest(costs: Floats, losses: Floats, previous: Ints) -> Ints:
    """Index [clients] of the smallest cost in each row; ties go to the lower loss, then to the previous choice."""
    changed = np.arange(costs.shape[1])[None, :] != previous[:, None]
    return np.lexsort((changed, losses, costs), axis=1)[:, 0]
