"""Shared parts of the clustering components: the clients' tolerance of risk, and how they choose a model."""

from __future__ import annotations

import numpy as np

from algorithms.core.choices import Preferences, Starts
from algorithms.core.configs import ClusteredConfig, ClusteringConfig
from algorithms.core.messages import Doubles, Ints


def thresholds(config: ClusteringConfig, clients: int, rng: np.random.Generator) -> Doubles:
    """Draw the clients' tolerances: an evenly spaced grid in random order, regardless of groups.

    A grid is used instead of independent draws so that counts of violations do not differ by chance.

    Args:
        config: the component's fields.
        clients: number of clients.
        rng: draws the order.

    Returns:
        [clients] tolerated attack accuracies, fractions.
    """
    return rng.permutation(np.linspace(config.lowest_threshold, config.highest_threshold, clients))


def indifferent(config: ClusteringConfig, clients: int, rng: np.random.Generator) -> Preferences:
    """Return the usual tolerances with zero weight of risk, for clients that choose by loss only or not at all."""
    return Preferences(thresholds(config, clients, rng), np.zeros(clients))


def starts(config: ClusteredConfig) -> Starts:
    """Return the settings of initializations and random first rounds from the fields."""
    return Starts(config.restarts, config.restart_rounds, config.warm_start_rounds)


def selection_size(config: ClusteredConfig) -> int | None:
    """Return the largest number of examples on which a client compares models; None means all."""
    return config.selection_batch if config.selection == "minibatch" else None


def cheapest(costs: Doubles, losses: Doubles, previous: Ints) -> Ints:
    """Find each client's cheapest model; ties go to the lower loss, then to the previous choice.

    Args:
        costs: [clients, clusters] cost of each model to each client.
        losses: [clients, clusters] in nats.
        previous: [clients] the model chosen last (-1: none).

    Returns:
        [clients] index of the chosen model.
    """
    changed = np.arange(costs.shape[1])[None, :] != previous[:, None]
    return np.lexsort((changed, losses, costs), axis=1)[:, 0]
