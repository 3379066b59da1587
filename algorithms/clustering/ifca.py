"""IFCA, the iterative federated clustering algorithm (Ghosh et al. 2020), as the baseline of
IFCA-MIR.

    theta_1..theta_s: independent random initializations
    each round:  every client i chooses  j_i = argmin_j f(theta_j; D_i)
                 trains theta_{j_i} on its own examples and sends it back
                 theta_j <- mean of what the clients of cluster j sent; without any, it stays

Differences from the paper: the first rounds use a random partition, and the best of several
initializations is kept (both can be switched off); the loss is taken on all training examples, as
in the authors' code.
"""

from __future__ import annotations

from algorithms.clustering import _choice
from algorithms.clustering._choice import cheapest, indifferent
from algorithms.core.choices import Preferences, View
from algorithms.core.configs import ClusteredConfig
from algorithms.core.messages import Doubles, Ints

LABEL = "IFCA"
COLOR = 0
SORTS_LIKE = "ifca"


class Config(ClusteredConfig):
    """Fields of IFCA."""


preferences = indifferent
starts = _choice.starts
selection_size = _choice.selection_size


def choose(
    config: Config,
    view: View,
    preferences: Preferences,
) -> tuple[Ints, Doubles]:
    """Choose the model with the lowest loss (Ghosh et al., algorithm 1, line 9).

    Returns:
        The chosen model [clients], and the losses in nats as costs [clients, clusters].
    """
    return cheapest(view.losses, view.losses, view.previous), view.losses
