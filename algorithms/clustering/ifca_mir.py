"""IFCA-MIR: clients choose their cluster by loss and by membership risk (Jung, Biswas,
Palamidessi, algorithm 1).

    every 5 rounds:  l_j <- accuracy of a membership inference attack on theta_j (algorithm 2)
    each round:      the server sends theta_j and l_j
                     every client i chooses  j_i = argmin_j  alpha_i f(theta_j; D_i) + beta_i l_j
                                             alpha_i + beta_i = 1
                     trains theta_{j_i} on the plain loss and sends it back
                     theta_j <- mean of what the clients of cluster j sent

``most_leaving`` and ``leaving_price`` keep a model from emptying (`algorithms.clustering._choice`).
They are no part of the algorithm, but what the paper names as future work; by default, nothing
limits leaving.

Differences from the paper: it does not say how a client's beta follows from its tolerance tau, nor
on which scale nats and accuracies are added. Both are options here; by default, beta falls from 1
at the lowest tau to 0 at the highest, so that clients sort themselves by tolerance, and the formula
is used as printed.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.clustering import _choice
from algorithms.clustering._choice import LeavingConfig, cheapest, choose_within_limits, thresholds
from algorithms.core.choices import Preferences, View
from algorithms.core.messages import Doubles, Ints
from algorithms.interfaces import Problems, Run
from datasets.components import read_when

LABEL = "IFCA-MIR"
COLOR = 1
AGAINST = "membership inference on the model that a client joins"
GUARANTEE = "none: clients choose by loss and risk"
COST = "models that fit worse; a move reveals that a client weighs the risk"
PAPERS = {
    "Jung 2025": "https://arxiv.org/abs/2503.09414",
    "IFCA": "https://arxiv.org/abs/2006.04088",
}
SORTS_LIKE = "ifca"
OWN_ATTACK = "client_mia"
UNKNOWN_RISK = 0.5  # an attack of which nothing is known can only be expected to guess


class Config(LeavingConfig):
    """Fields of IFCA-MIR."""

    preference: Literal["threshold", "constant", "uniform"] = Field(
        "threshold",
        description=(
            "how beta is set: falls with the client's tolerance, the same for all, or drawn "
            "from U(0, 1)"
        ),
    )
    beta: float = Field(
        0.5,
        ge=0,
        le=1,
        description="every client's weight of risk under the constant preference",
        json_schema_extra=read_when(preference="constant"),
    )
    scale: Literal["raw", "normalized"] = Field(
        "raw",
        description="raw adds nats and accuracy as printed; normalized maps both to about [0, 1]",
    )
    signal: str = Field(
        "shadow_mia", description="the attack of this run whose accuracy is published as risk"
    )
    # The paper trusts the server; where clients do not, it lets them attack by themselves
    # (`attacks.client_mia`).
    risk_from: Literal["server", "own"] = Field(
        "server",
        description=(
            "risk that a client weighs: what the server publishes, or what its own client_mia finds"
        ),
    )

    @property
    def weighs_own_risks(self) -> bool:
        """Whether clients choose by the risks that their own attacks find."""
        return self.risk_from == "own"


starts = _choice.starts
selection_size = _choice.selection_size


def risk_signal(config: Config) -> str:
    """Return the name of the attack whose accuracy is published."""
    return config.signal


def problems(config: Config, run: Run) -> Problems:
    """Refuse risks that no attack of the run measures, and thresholds that leave beta undefined."""
    signals = [attack.name for attack in run.attacks if attack.module.RISK]
    refused = []
    if not signals:
        sentence = (
            f"names the attack whose risk is published, {config.signal}, and the run has none "
            "that measures a risk"
        )
        refused.append(("signal", f"{sentence}; add one to attacks, such as shadow_mia"))
    elif config.signal not in signals:
        sentence = (
            f"must name an attack of this run that measures a risk, one of {signals}; got "
            f"{config.signal!r:.60}"
        )
        refused.append(("signal", sentence))
    own = [attack.config.attackers for attack in run.attacks if attack.name == OWN_ATTACK]
    attackers = own[0] if own else None
    if config.weighs_own_risks and attackers is None:
        refused.append(
            (
                "risk_from",
                f"own is what a client's own attack finds, so add {OWN_ATTACK} to the run's "
                "attacks",
            )
        )
    elif config.weighs_own_risks and attackers != "all":
        sentence = (
            f"own needs {OWN_ATTACK} with attackers: all, because every client chooses by its "
            "own attack"
        )
        refused.append(("risk_from", f"{sentence}; got {attackers}"))
    if config.preference == "threshold" and config.lowest_threshold >= config.highest_threshold:
        refused.append(
            ("lowest_threshold", "must be below highest_threshold if beta follows the threshold")
        )
    return refused


def preferences(
    config: Config,
    clients: int,
    rng: np.random.Generator,
) -> Preferences:
    """Return the tolerance tau and the weight beta of every client; alpha is 1 - beta."""
    tau = thresholds(config, clients, rng)
    if config.preference == "constant":
        return Preferences(tau, np.full(clients, config.beta))
    if config.preference == "uniform":
        return Preferences(tau, rng.uniform(size=clients))
    width = config.highest_threshold - config.lowest_threshold
    return Preferences(tau, (config.highest_threshold - tau) / width)


def choose(
    config: Config,
    view: View,
    preferences: Preferences,
) -> tuple[Ints, Doubles]:
    """Choose the model with the lowest cost (algorithm 1, line 9).

    With ``beta = 0`` the costs equal the losses (on the scale ``raw`` bit for bit), and the choice
    is that of IFCA.

    Returns:
        The chosen model [clients], and the costs [clients, clusters].
    """
    beta = preferences.beta[:, None]
    f = view.losses
    risk = _risks(config, view)
    if config.scale == "normalized":
        f = f / math.log(view.classes)
        risk = 2 * (risk - 0.5)
    costs = (1 - beta) * f + beta * risk
    if view.risk_counts and config.limits_leaving:
        return choose_within_limits(config, costs, view)
    return cheapest(costs, view.losses, view.previous), costs


def _risks(config: Config, view: View) -> Doubles:
    """Return the risk of each model as clients see it: [1, clusters], or [clients, clusters] if
    each has its own.
    """
    if not config.weighs_own_risks:
        return view.published_risks[None, :]
    if view.own_risks is None:
        return np.full(view.losses.shape, UNKNOWN_RISK)
    return np.where(np.isnan(view.own_risks), UNKNOWN_RISK, view.own_risks)
