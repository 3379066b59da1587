"""Local differential privacy: every client clips its own update and adds noise to it before
anybody else sees it.

    D_k   <- theta_k - theta_t                not finite: zero
    D_k   <- D_k * min(1, C / ||D_k||)        one norm over all arrays
    send     theta_t + D_k + N(0, (z C)^2)    fresh for every client and round, for zeros, too
    account: epsilon_k = epsilon of a Gaussian mechanism with mu_k = s sqrt(T_k) / z
             T_k: rounds in which k sent

The account is exact (Balle and Wang 2018, eq. 6), and composed over all rounds of a client.
``neighboring`` says whom the epsilon tells apart, and no field says how far they are: s follows
from the clip.

    replace_one   any data of the client from any other: two clipped updates lie up to 2 C apart,
                  s = 2. Local differential privacy proper, the default
    zero_out      the client from one that sends a zero update, noised like all others: s = 1

It holds towards everybody, also towards a server that sees every update with its sender. There is
no amplification by sampling: this server sees who sends, which does not depend on data. ``epsilon``
is that of the client that sent most often; the column ``epsilon`` of the clients' table has each
one's. Whoever sees the models alone, and is no client that knows its own noise, sees the mean of n
updates, whose noise z C / sqrt(n) comes to a central multiplier z sqrt(n) / s: ``epsilon_models``.
All that sees single updates gets them with the noise: attacks, and every aggregation, even medians.

The price: noise of z sqrt(d / n) clips in the mean of n updates of d parameters. Nets of 4810
parameters at 20 clients learn at z = 0.1 and 0.2, where ten rounds cost an epsilon of 2269 and 634;
at a single-digit epsilon they do not (`sweeps/local_dp.yaml`). Global noise gives the same epsilon
for sqrt(n) times less of it, to those who trust the server.

No epsilon is stated where the server gets more of clients than noised updates: choices of a model,
losses, curvatures, numbers of examples, running statistics, rows in its shadow set
(`algorithms.releases`). Metrics of the round are the server's: norms are those of noised updates,
and nobody but the client knows whether one was clipped. The clip is best chosen on public data: a
median of the clients' norms tells of them. Replicas and shadow federations add local noise of their
own; a repeated training (whitebox_mia) has it, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from algorithms import releases
from algorithms.auditing import finding
from algorithms.auditing.canaries import CanaryPlan
from algorithms.core import accounting
from algorithms.core.accounting import Account, PrivacyEvent
from algorithms.core.configs import PrivacyConfig
from algorithms.core.gram import lengths
from algorithms.core.messages import ClientUpdates, Doubles, Floats
from algorithms.core.metric import MINOR, NOISE, Column, magnitude
from algorithms.core.noise import Normals
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from algorithms.privacy import _server_noise

NEEDS = "mean"
PRIVATE_UPDATES = True
LABEL = "local-DP"
COLOR = 4
AGAINST = "everybody, also a server that sees every update"
GUARANTEE = "client-level (epsilon, delta)-DP, under secret noise"
COST = "noise of z sqrt(d / n) clips in the mean: epsilons of hundreds where nets learn"
PAPERS = {"Gaussian mechanism, exact": "https://arxiv.org/abs/1805.06530"}
MEASURED = {
    "epsilon",
    "epsilon_search",
    "delta",
    "noise_std",
    "noise_to_update",
    "update_norm",
    "update_norm_max",
}
METRICS = (
    *(
        metric
        for metric in _server_noise.METRICS
        if metric.name in MEASURED or metric in finding.METRICS
    ),
    magnitude(
        "epsilon_models",
        NOISE,
        "epsilon of a client, towards those who see models alone",
        "lower",
        "",
        2,
        table=Column(MINOR, "epsilon,\nmodels", 1, interval=False),
        bound="upper",
        reading="epsilon, models: under local-DP, towards whoever sees the models and no update",
    ),
)


@dataclass(frozen=True)
class Relation:
    """What an epsilon tells apart: in clips, in the account's terms, and in words."""

    clips: float
    account: str
    words: str


RELATIONS = {
    "replace_one": Relation(2.0, "replace_one", "local dp for any data of a client"),
    "zero_out": Relation(
        1.0,
        "add_or_remove_one",
        "local dp for whether a client sends its update or zero",
    ),
}


class Config(PrivacyConfig):
    """Fields of local differential privacy."""

    clip: float = Field(
        1.0,
        ge=1e-12,
        le=1e12,
        description="C, the largest L2 norm of an update before its client adds noise to it",
    )
    # Small nets learn at up to about 0.2; at 0.1 ten rounds cost an epsilon of 2269. At 20, of 1.2,
    # they learn nothing.
    noise_multiplier: float = Field(
        0.1,
        ge=0,
        le=1e6,
        description="z, standard deviation of each client's noise over the clip; 0 only clips",
    )
    neighboring: Literal["replace_one", "zero_out"] = Field(
        "replace_one",
        description=(
            "epsilon tells any two data sets of a client apart, or its update from a zero update"
        ),
    )
    delta: float = Field(
        1e-5, gt=0, lt=1, description="probability with which epsilon may be exceeded, roughly"
    )
    audit_every: _server_noise.AuditEvery = Field("auto", description=_server_noise.AUDIT_EVERY)


def problems(config: Config, run: Run) -> Problems:
    """Refuse a delta that promises nothing, and an audit that is asked for where canaries cannot
    take part.
    """
    sentence = accounting.delta_problem(config.delta, run.data.config.clients, "clients")
    refused = [("delta", sentence)] if sentence else []
    return refused + _server_noise.audit_problems(config.audit_every, run)


def private_update(config: Config, update: Floats, noise: Normals) -> Floats:
    """Clip an update [d] and add the client's ``noise``.

    Without noise, an update that is short enough is left alone.
    """
    scale = _server_noise.bound(config, lengths(update[None]))[0]
    if scale == 1 and not config.noise_multiplier:
        return update
    sd = config.noise_multiplier * config.clip
    return _server_noise.add_noise(update * np.float32(scale), sd, noise)


def bound(config: Config, norms: Doubles) -> Doubles:
    """Return factor 1 for every update [clients], as its client clipped it; 0 if not finite."""
    return np.isfinite(norms).astype(np.float64)


def release(
    config: Config, params: Floats, received: ClientUpdates, noise: Normals | None
) -> tuple[Floats, Metrics]:
    """Return the parameters [d] unchanged, and metrics of what was received.

    These are the mean's noise, and norms of noised updates.
    """
    length = float(np.linalg.norm(received.weights))
    sd = config.noise_multiplier * config.clip * length
    metrics = _server_noise.noise_metrics(config, received, sd)
    return params, {name: value for name, value in metrics.items() if name in MEASURED}


def event(config: Config, received: ClientUpdates, run: Run) -> PrivacyEvent:
    """Return the event of a round for each client that sent: by its own noise, not amplified."""
    return _event(config, len(received.clients))


def _event(config: Config, clients: int = 1) -> PrivacyEvent:
    apart = RELATIONS[config.neighboring].clips
    return PrivacyEvent(config.noise_multiplier / apart, clients=clients)


def planned(config: Config, run: Run) -> Account | None:
    """Return the account of a client that sends in every round; None where no epsilon holds."""
    if refusal(config, run):
        return None
    relation = RELATIONS[config.neighboring].account
    return Account(
        (_event(config),) * run.rounds,
        relation,
        config.delta,
    )


def epsilon_after(config: Config, rounds: int) -> float:
    """Compute the epsilon of a client that sent in so many ``rounds``; infinity without noise.

    >>> round(epsilon_after(Config(noise_multiplier=20), 10), 4)
    1.1994
    """
    counts = ((_event(config), rounds),)
    return accounting.composed(counts, config.delta, RELATIONS[config.neighboring].account)


def epsilons(config: Config, history: np.ndarray) -> Doubles:
    """Compute the epsilon [clients] of each client from the rounds in which it took part.

    For ``history`` see `Outcome`.
    """
    rounds = (history >= 0).sum(axis=0)
    counts, of_client = np.unique(rounds, return_inverse=True)
    each = [epsilon_after(config, count) for count in counts.tolist()]
    return np.array(each)[of_client]


def epsilon_of_models(config: Config, history: np.ndarray) -> float:
    """Compute the largest epsilon of a client towards those who see the models alone.

    These are means of n noised updates.
    """
    there = history >= 0
    clients = np.maximum(there.sum(axis=1), 1)
    squares = there.T @ (1.0 / clients)  # [clients] of 1 / z^2, for z = 1
    multiplier = _event(config).noise_multiplier / math.sqrt(squares.max())
    return accounting.epsilon([PrivacyEvent(multiplier)], config.delta, "replace_one")


def client_columns(
    config: Config,
    run: Run,
    history: np.ndarray,
) -> Mapping[str, Doubles]:
    """Return ``epsilon`` [clients] of each client so far; nothing where none holds."""
    return {} if refusal(config, run) else {"epsilon": epsilons(config, history)}


def canaries(config: Config, run: Run) -> CanaryPlan | None:
    """Return how canaries audit the models.

    They are clipped like updates, in a mean that has the noise of the round's clients.
    """
    every = _server_noise.audit_every(config, run)
    if not every:
        return None
    return CanaryPlan(every, config.clip, config.neighboring == "replace_one")


def so_far(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the largest epsilon of a client after the rounds so far; nothing where none holds."""
    if refusal(config, run):
        return {}
    return {"epsilon": epsilon_after(config, _most(outcome))}


def _most(outcome: Outcome) -> int:
    rounds = (outcome.history >= 0).sum(axis=0)
    return int(rounds.max(initial=0))


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return a client's largest epsilon, towards everybody and towards who sees models alone.

    Both are None where none holds, and ``guarantee`` says why. A sum hides the single updates, and
    so does a server optimizer, which reads their mean; whatever reads every update makes no mean of
    them. Canaries audit the second.
    """
    stated = _account(config, run, outcome)
    return stated | finding.metrics(
        outcome.canaries,
        config.delta,
        {0: stated["epsilon_models"]},
        opposite=config.neighboring == "replace_one",
        sampled=run.participation != "all",
    )


def _account(config: Config, run: Run, outcome: Outcome) -> Metrics:
    reason = refusal(config, run)
    metrics: Metrics = {"epsilon": None, "epsilon_models": None, "delta": config.delta}
    if reason:
        return metrics | {"guarantee": reason}
    most = _most(outcome)
    metrics["epsilon"] = epsilon_after(config, most)
    metrics["guarantee"] = sense(config)
    if run.aggregation.module.NEEDS == "mean" and most:
        metrics["epsilon_models"] = epsilon_of_models(config, outcome.history)
    if config.noise == "secret":
        events = [_event(config)] * most
        relation = RELATIONS[config.neighboring].account
        metrics["guarantee_events"] = accounting.ledger(events, relation)
    return metrics


def sense(config: Config) -> str:
    """Return in words what an epsilon holds for."""
    return accounting.sense(config.noise, RELATIONS[config.neighboring].words, AGAINST)


def remark(config: Config, run: Run) -> str:
    """Return the epsilon of a plan of ``run``, and what it holds for; or why none is stated."""
    reason = refusal(config, run)
    if reason:
        return f"local_dp states no epsilon: {reason.removeprefix('none: ')}"
    epsilon = accounting.rounded_up(epsilon_after(config, run.rounds))
    least = "all" if run.participation == "all" else "as many as"
    sends = f"a client that sends in {least} {run.rounds} rounds"
    return f"local_dp: epsilon {epsilon:g} of {sends}, towards {AGAINST}"


def refusal(config: Config, run: Run) -> str | None:
    """Return ``none:`` and the first reason why no epsilon holds for the run; None if one does."""
    if config.noise_multiplier < 2 * accounting.LEAST:
        return "none: updates are clipped, but next to no noise is added"
    return releases.unmet("local_dp", run)
