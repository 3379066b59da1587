"""IFCA, the iterative federated clustering algorithm (Ghosh et al. 2020), as the baseline of IFCA-MIR.

    theta_1..theta_s: independent random initializations
    each round:  every client i chooses  j_i = argmin_j f(theta_j; D_i)
                 trains theta_{j_i} on its own examples and sends it back
                 theta_j <- mean of what the clients of cluster j sent; an empty cluster keeps its model

Differences from the paper: a random partition in the first rounds and several initializations of which the best is kept
(both are switches); the loss is taken on all training examples, as in the authors' code.
"""

from __future__ import annotations

from algorithms.clustering._preference import Floats, Ints, Preferences, View, cheapest, indifferent
from algorithms.core.configs import ClusteredConfig


class Config(ClusteredConfig):
    """Fields of IFCA."""


preferences = indifferent


def choose(config: Config, view: View, preferences: Preferences) -> tuple[Ints, Floats]:
    """Chosen model [clients] and cost [clients, clusters] = the loss in nats (Ghosh et al., algorithm 1, line 9)."""
    return cheapest(view.losses, view.losses, view.previous), view.losses
