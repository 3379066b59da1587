"""No protection: updates and models are used as they are.

Nothing is claimed, so an audit by canaries refutes nothing. What it finds is the honest figure
beside the claims of other runs: the epsilon at delta 1e-5 of what the models leave to be told of a
client whose update is as long as the median one and points in one random direction
(`algorithms.engine.canary_audit`). It is large.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from algorithms.auditing import finding
from algorithms.auditing.canaries import CanaryPlan
from algorithms.auditing.epsilon import DELTA
from algorithms.core.configs import PrivacyConfig
from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.core.noise import Normals
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from algorithms.privacy import _server_noise

NEEDS = "mean"
NOISY = False
METRICS = finding.METRICS
COLOR = 2


class Config(PrivacyConfig):
    """How often canaries audit the models; ``noise`` is read if the local training adds noise."""

    # It changes nothing of the run, so it is off by choice alone.
    audit_every: _server_noise.AuditEvery = Field("auto", description=_server_noise.AUDIT_EVERY)


def problems(config: Config, run: Run) -> Problems:
    """Refuse an audit that is asked for where canaries cannot take part."""
    return _server_noise.audit_problems(config.audit_every, run)


def bound(config: Config, norms: Doubles) -> Doubles:
    """Return factor 1 for every update [clients]."""
    return np.ones(len(norms))


def release(
    config: Config, params: Floats, received: ClientUpdates, noise: Normals | None
) -> tuple[Floats, Metrics]:
    """Return the parameters [d] unchanged, and no metrics."""
    return params, {}


def canaries(config: Config, run: Run) -> CanaryPlan | None:
    """Return how canaries audit the models, each as long as the round's median update; None if
    they do not.
    """
    every = _server_noise.audit_every(config, run)
    return CanaryPlan(every, norm=None) if every else None


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return why no client has a guarantee, and what canaries found, beside which there is no
    claim.
    """
    audit = finding.metrics(
        outcome.canaries,
        DELTA,
        {},
        sampled=run.participation != "all",
    )
    return {"guarantee": "none: updates are neither clipped nor noised", **audit}
