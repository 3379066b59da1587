"""IFCA-MIR: clients choose their cluster by loss and by membership risk (Jung, Biswas, Palamidessi, algorithm 1).

    every 5 rounds:  l_j <- attack accuracy of a membership inference attack on theta_j        (algorithm 2)
    each round:      the server sends theta_j and l_j
                     every client i chooses  j_i = argmin_j  alpha_i f(theta_j; D_i) + beta_i l_j,   alpha_i + beta_i = 1
                     trains theta_{j_i} on the plain loss and sends it back
                     theta_j <- mean of what the clients of cluster j sent

Differences from the paper: it does not say how a client's beta follows from its tolerance tau, nor on which scale nats and
accuracies are added. Both are switches here; the defaults are the reading under which clients sort themselves by tolerance
(beta falls from 1 at the lowest tau to 0 at the highest) and the formula as printed.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from pydantic import Field

from algorithms.clustering._preference import Floats, Ints, Preferences, View, cheapest, thresholds
from algorithms.core.configs import ClusteredConfig


class Config(ClusteredConfig):
    """Fields of IFCA-MIR."""

    preference: Literal["threshold", "constant", "uniform"] = Field(
        "threshold",
        description="how beta is set: falls with the client's tolerance, the same for all, or drawn from U(0, 1)",
    )
    beta: float = Field(0.5, ge=0, le=1, description="weight of risk for every client under the constant preference")
    scale: Literal["raw", "normalized"] = Field(
        "raw", description="raw adds nats and accuracy as printed; normalized maps both to about [0, 1]"
    )
    signal: str = Field("shadow_mia", description="the attack of this run whose accuracy is published as risk")


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    known = [attack.name for attack in run.attacks if getattr(attack.module, "RISK", False)]
    found = []
    if config.signal not in known:
        found.append(
            ("signal", f"names no attack of this run that measures a risk: {config.signal!r}; those are {known}")
        )
    if config.preference == "threshold" and config.lowest_threshold >= config.highest_threshold:
        found.append(("lowest_threshold", "must be below highest_threshold where beta follows the threshold"))
    return found


def preferences(config: Config, clients: int, rng: np.random.Generator) -> Preferences:
    """Tolerance tau and weight beta of every client; alpha is 1 - beta."""
    tau = thresholds(config, clients, rng)
    if config.preference == "constant":
        return Preferences(tau, np.full(clients, config.beta))
    if config.preference == "uniform":
        return Preferences(tau, rng.uniform(size=clients))
    return Preferences(tau, (config.highest_threshold - tau) / (config.highest_threshold - config.lowest_threshold))


def choose(config: Config, view: View, preferences: Preferences) -> tuple[Ints, Floats]:
    """Chosen model [clients] and cost [clients, clusters] (algorithm 1, line 9).

    With ``beta = 0`` the costs are the losses, bit for bit, and the choice is that of IFCA.
    """
    beta = preferences.beta[:, None]
    f, risk = view.losses, view.published_risks[None, :]
    if config.scale == "normalized":
        f, risk = f / math.log(view.classes), 2 * (risk - 0.5)
    costs = (1 - beta) * f + beta * risk
    return cheapest(costs, view.losses, view.previous), costs
