"""Clients whose examples are all different, and source inference from losses that a test gives."""

import numpy as np

from attacks.interfaces import SeenRound
from attacks.sia import Config, conclude
from datasets.federation import Examples
from tests.support.federations import federation
from tests.support.passive import fixed


def dealt(sizes, tests=8):
    """Clients with ``sizes`` training examples and ``tests`` test examples each, all of them different."""
    clients, train = len(sizes), sum(sizes)
    x = np.arange(train + clients * tests, dtype=np.float32)[:, None]
    examples = Examples(x, np.arange(len(x)) % 2)
    owner = np.repeat(np.arange(clients), tests)
    return federation(examples[:train], sizes, test=examples[train:], test_owner=owner)


def concluded(losses, config=None, data=None, clients=None):
    """The exposure that follows from ``losses`` [models, owners, n], of all clients unless said otherwise."""
    losses = np.asarray(losses, float)
    clients = np.arange(losses.shape[1]) if clients is None else clients
    data = data if data is not None else dealt([losses.shape[2]] * losses.shape[1])
    observed = losses.reshape(len(losses), -1)
    return conclude(config or Config(), SeenRound(data, observed, clients, 0, fixed))
