"""What a passive server sees of clients in a round, and FedMIA's result of it."""

import numpy as np

from attacks.fedmia import conclude
from attacks.interfaces import SeenRound, SeenUpdates
from orchestrator.trial.random_streams import stream
from tests.support.toy_federation import CLIENTS

EVERYONE = np.arange(CLIENTS)


def fixed(purpose, *place):
    return stream(0, purpose, *place)


def start_of(network):
    """The model from which `memorized` begins."""
    return network.initial(np.random.default_rng(7))


def seen_by(data, network, weights, clients=EVERYONE, sent=None, assignment=None):
    sent = sent or [start_of(network)]
    assignment = np.zeros(len(clients), int) if assignment is None else np.asarray(assignment)
    params, buffers = (
        np.stack([getattr(weights[i], part) for i in clients]) for part in ("params", "buffers")
    )
    return SeenUpdates(
        data, network, sent, assignment, params, buffers, list(clients), fixed, 0, lambda *_: None
    )


def concluded(config, data, observed, clients=EVERYONE, kept=None):
    return conclude(config, SeenRound(data, observed, np.asarray(clients), 0, fixed, kept or {}))
