"""No protection: updates and models are used as they are."""

from __future__ import annotations

import numpy as np

from algorithms.core.configs import PrivacyConfig
from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.core.noise import Normals
from algorithms.interfaces import Metrics, Outcome, Run

NEEDS, NOISY = "mean", False


class Config(PrivacyConfig):
    """No fields of its own; ``noise`` is read if the local training adds noise."""


def bound(config: Config, norms: Doubles) -> Doubles:
    """Return factor 1 for every update [clients]."""
    return np.ones(len(norms))


def release(config: Config, params: Floats, received: ClientUpdates, noise: Normals | None) -> tuple[Floats, Metrics]:
    """Return the parameters [d] unchanged, and no metrics."""
    return params, {}


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return why no client has a guarantee."""
    return {"guarantee": "none: updates are neither clipped nor noised"}
