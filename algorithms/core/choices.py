"""Inputs of the clients' choice among models, and settings for how the models start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from algorithms.core.messages import Doubles, Ints


@dataclass(frozen=True)
class Preferences:
    """How clients weigh the risk of a model against its loss.

    Attributes:
        threshold: [clients] attack accuracy that each client tolerates, a fraction.
        beta: [clients] weight of risk in each client's choice, between 0 and 1.
        turn: [clients] each client's place in the order in which clients move at random; None: they
            do not.
    """

    threshold: Doubles
    beta: Doubles
    turn: Ints | None = None


@dataclass(frozen=True)
class View:
    """The quantities from which clients choose a model.

    Attributes:
        losses: [clients, clusters] mean cross-entropy in nats of every model on the client's
            selection examples.
        published_risks: [clusters] attack accuracy published with each model, a fraction.
        previous: [clients] the model chosen last (-1: none).
        classes: number of labels.
        own_risks: [clients, clusters] accuracy of each client's own attack on each model, a
            fraction; None: no client has attacked yet, or none does.
        risk_counts: whether risk counts in this choice, and with it all that limits leaving a
            model.
    """

    losses: Doubles
    published_risks: Doubles
    previous: Ints
    classes: int
    own_risks: Doubles | None = None
    risk_counts: bool = True


@dataclass(frozen=True)
class Starts:
    """How several models are initialized: of so many ``initializations`` the one with the lowest
    training loss is kept.

    They are compared after ``rounds``; in the first ``random_rounds``, clients are assigned to
    models at random.
    """

    initializations: int = 1
    rounds: int = 0
    random_rounds: int = 0


@dataclass(frozen=True)
class WarmStart:
    """Training on the server's own examples, with Adam at this learning rate, before the first
    round.
    """

    epochs: int
    lr: float
    batch_size: int


def random_partition(
    clusters: int,
    clients: int,
    rng: np.random.Generator,
) -> Ints:
    """Assign clients to clusters at random, in parts whose sizes differ by at most one; return
    each one's cluster [clients].
    """
    return rng.permutation(np.arange(clients) % clusters)
