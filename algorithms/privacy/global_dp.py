"""Global differential privacy of clients: a trusted server clips updates and adds Gaussian noise
(McMahan et al. 2018).

    u_i   <- u_i * min(1, C / ||u_i||)        every client, before averaging
    theta <- aggregate({u_i}) + N(0, sd^2)    sd = z * C * max_i w_i; C/n if weights are equal
    account: the epsilon of one client at delta that the rounds add up to

An epsilon is stated only if C max w bounds what one client can move; otherwise it is None and
``guarantee`` says why. It is the epsilon of the mechanism: whoever has the files of a run with
``noise: reproducible`` can subtract the noise. It protects one client, all of its examples, against
whoever sees every model that was sent. `algorithms.releases` lists what leaves a client, what
counts as public, and what voids the epsilon. By participation:

    all      add_or_remove_one: a client that is absent counts as one that sends zero, so that no
             denominator changes; it can move the mean by C w_i. replace_one: by 2 C w_i.
    fixed    replace_one, uniform weights: 2 C / n, sampled without replacement.
    poisson  add_or_remove_one, uniform weights: C / (rate * clients). The sum is divided by the
             expected number of clients (McMahan et al. 2018, the first estimator of section 2.2):
             the actual number would reveal who took part. On normalization by a private count see
             arXiv 2605.15648: noise of z C / n tells n by its size alone, so with
             ``divisor: received`` no epsilon is stated.

``target_epsilon`` finds z, rounded up, such that all rounds together stay below it.
``stop_at_epsilon`` lets the run end before the first round that would exceed it: how many rounds
that are is known beforehand, because no round's noise depends on data. The column ``epsilon`` of a
round is what was spent by then (`accounting.epsilon_so_far`).

Differences from the paper (Sainz-Pardo Diaz et al. 2025): it takes C/n as the sensitivity of any
weighted mean, median or server optimizer (``sensitivity: uniform``, as released by Flower). As
there, noise is added to parameters after the server optimizer, which keeps its own copy without
noise. The account does not cover what other slots publish (risks, tables of results).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from algorithms import releases
from algorithms.auditing import finding
from algorithms.auditing.canaries import CanaryPlan
from algorithms.core import accounting
from algorithms.core.accounting import Account, PrivacyEvent
from algorithms.core.columns import column
from algorithms.core.messages import ClientUpdates, Floats, Ints
from algorithms.core.metric import RUN, of_cluster
from algorithms.core.noise import Normals
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from algorithms.privacy import _server_noise
from algorithms.privacy._server_noise import ServerNoiseConfig
from datasets.components import inherited, read_when

NEEDS = "mean"
NOISY = True
LABEL = "global-DP"
COLOR = 0
METRICS = _server_noise.METRICS
AGAINST = "readers of the released models"
GUARANTEE = "client-level (epsilon, delta)-DP, under secret noise and a trusted server"
COST = "noise of z C times the largest weight (1 / n if equal) in every parameter and round"
PAPERS = {"McMahan 2018": "https://arxiv.org/abs/1710.06963"}
MOST_NOISE = 1e6  # the largest noise multiplier
CERTAINLY_CLIPPED = 1e4  # the norm of a canary's update over C (Andrew et al. 2024)
TOO_LITTLE = "none: next to no noise is added"


bound = _server_noise.bound


class Config(ServerNoiseConfig):
    """Fields of global differential privacy."""

    noise_multiplier: float = inherited(ServerNoiseConfig, "noise_multiplier", target_epsilon=None)
    # The trial's id rests on the target; the noise follows from it and from the rounds.
    target_epsilon: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="epsilon after all rounds, in place of noise_multiplier, which is found for it",
    )
    stop_at_epsilon: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="the run ends before the round that would exceed this epsilon",
        json_schema_extra=read_when(target_epsilon=None),
    )
    # For the control of metric_privacy: about as much noise as that adds on average, but the same
    # in every round.
    noise_divisor: float = Field(
        1.0,
        ge=1e-9,
        le=1e9,
        description=(
            "z is divided by this, the mean distance of a metric_privacy run; voids the epsilon"
        ),
    )
    neighboring: Literal["auto", "add_or_remove_one", "replace_one"] = Field(
        "auto",
        description=(
            "how neighboring federations differ; auto: replace_one if participation is fixed"
        ),
    )
    delta: float = Field(
        1e-5, gt=0, lt=1, description="probability with which epsilon may be exceeded, roughly"
    )
    divisor: Literal["auto", "received"] | Annotated[float, Field(ge=1e-9, le=1e12)] = Field(
        "auto",
        description=(
            "divisor of a poisson round's sum: clients expected (auto) or received, or a number"
        ),
    )

    def dump_read(self) -> dict[str, Any]:
        """Return the fields that are read, as plain JSON values; a budget that is not set is
        none of them.
        """
        return {name: value for name, value in super().dump_read().items() if value is not None}


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto``: ``neighboring`` follows from participation, ``divisor`` is expected."""
    audited = _server_noise.audit_every(config, run)
    update: dict[str, Any] = {"audit_every": audited}
    if config.neighboring == "auto":
        fixed = run.participation == "fixed"
        update["neighboring"] = "replace_one" if fixed else "add_or_remove_one"
    if config.divisor == "auto":
        expected = run.participation_rate * run.data.config.clients
        update["divisor"] = expected if _may_divide(run) else "received"
    return config.model_copy(update=update)


def problems(config: Config, run: Run) -> Problems:
    """Refuse neighboring relations without an account, and a divisor that a mean cannot have."""
    refused = []
    unsupported = accounting.unsupported(run.participation, config.neighboring)
    if unsupported:
        refused.append(("neighboring", unsupported))
    if isinstance(config.divisor, float) and not _may_divide(run):
        only = (
            "may be a number only for poisson participation, a plain mean with uniform weights "
            "and a single model"
        )
        refused.append(("divisor", f"{only}; got {config.divisor:g}"))
    sentence = accounting.delta_problem(config.delta, run.data.config.clients, "clients")
    if sentence:
        return [*refused, ("delta", sentence)]
    refused += _budget_problems(config, run)
    return refused + _server_noise.audit_problems(config.audit_every, run)


def _budget_problems(config: Config, run: Run) -> Problems:
    """Refuse a target that no noise reaches, and a budget that the first round exceeds.

    Both are refused where no epsilon holds.
    """
    field = "target_epsilon" if config.target_epsilon is not None else "stop_at_epsilon"
    epsilon = getattr(config, field)
    if epsilon is None:
        return []
    reason = refusal(config, run)
    if reason:
        return [(field, f"is given, and no epsilon holds, {reason.removeprefix('none: ')}")]
    if config.sensitivity == "uniform" and not (_equal(run) or isinstance(config.divisor, float)):
        unknown = "the weights, which are known in the run only, say what an epsilon is"
        return [(field, f"needs sensitivity: weights; with sensitivity: uniform {unknown}")]
    if accounting.unsupported(run.participation, config.neighboring):
        return []
    if settle(config, run, None).target_epsilon is not None:
        most = f"is reached by no noise_multiplier up to {MOST_NOISE:g}"
        return [(field, f"{most}; got {epsilon:g}")]
    if field == "target_epsilon":
        return []
    first = _planned(config, run, 1)
    if first <= epsilon:
        return []
    least = f"the first round alone has an epsilon of {accounting.rounded_up(first):g}"
    return [(field, f"is exceeded before anything is learned: {least}; got {epsilon:g}")]


def settle(config: Config, run: Run, sizes: Ints | None) -> Config:
    """Replace ``target_epsilon`` by the noise multiplier that keeps it; it stays if none does."""
    if config.target_epsilon is None:
        return config

    def noise(z: float) -> Config:
        return config.model_copy(update={"noise_multiplier": z, "target_epsilon": None})

    def spent(z: float) -> float:
        return _planned(noise(z), run, run.rounds)

    z = accounting.calibrate(spent, config.target_epsilon, MOST_NOISE)
    return config if z is None else noise(z)


def rounds(config: Config, run: Run) -> int:
    """Return how many of the run's rounds ``stop_at_epsilon`` allows.

    These are all where it is not set or refused.
    """
    budget = config.stop_at_epsilon
    if budget is None or config.target_epsilon is not None or problems(config, run):
        return run.rounds
    spent = partial(_planned, config, run)
    if spent(run.rounds) <= budget:
        return run.rounds
    return bisect_right(range(1, run.rounds), budget, key=spent)


def planned(config: Config, run: Run) -> Account | None:
    """Return the account of all rounds, which depends on nothing that clients send.

    None where no epsilon is known.
    """
    if refusal(config, run) or (config.sensitivity == "uniform" and not _equal(run)):
        return None
    event = _event(settle(config, run, None), run)
    return Account(
        (event,) * rounds(config, run),
        config.neighboring,
        config.delta,
    )


def remark(config: Config, run: Run) -> str:
    """Return the epsilon that the run will have, its noise and budget; or why it has none."""
    name = run.privacy.name
    reason = refusal(config, run)
    if reason is None and planned(config, run) is None:
        return f"{name}: epsilon follows from the clients' weights, which are known in the run only"
    config = settle(config, run, None)
    count = run.rounds
    total = math.inf if reason else _planned(config, run, count)
    if math.isinf(total):
        return f"{name} states no epsilon: {(reason or TOO_LITTLE).removeprefix('none: ')}"
    said = (
        f"{name}: epsilon {accounting.rounded_up(total):g} of a client at delta {config.delta:g} "
        f"after {count} rounds, with noise_multiplier {config.noise_multiplier:g}"
    )
    budget = config.stop_at_epsilon
    if budget is None:
        return said
    more = _planned(config, run, count + 1)
    if more <= budget:
        return said
    return f"{said}; round {count + 1} would exceed {budget:g} ({accounting.rounded_up(more):g})"


def _planned(config: Config, run: Run, count: int) -> float:
    """Compute the epsilon after ``count`` rounds before any of them."""
    counts = ((_event(config, run), count),)
    return accounting.composed(counts, config.delta, config.neighboring)


def _event(config: Config, run: Run) -> PrivacyEvent:
    """Return the event of a round, which depends on nothing that clients send."""
    multiplier = config.noise_multiplier / _clips_apart(config)
    cohort = max(1, round(run.participation_rate * run.data.config.clients))
    share = _sampling(run, cohort)
    came = cohort if run.participation == "fixed" else 0
    return PrivacyEvent(multiplier, run.participation, share, came)


def _clips_apart(config: Config) -> int:
    """Return how far apart, in clips, a client's part in neighboring federations lies."""
    return 2 if config.neighboring == "replace_one" else 1


def _sampling(run: Run, cohort: int) -> float:
    """Return the probability or share with which a client is among a ``cohort`` of this size."""
    if run.participation == "fixed":
        return cohort / run.data.config.clients
    return run.participation_rate if run.participation == "poisson" else 1.0


def release(
    config: Config, params: Floats, received: ClientUpdates, noise: Normals | None
) -> tuple[Floats, Metrics]:
    """Add the noise; return the noisy parameters [d] and the metrics of the round."""
    assert noise is not None  # guaranteed by NOISY
    sd = _standard_deviation(config, received)
    if isinstance(config.divisor, float):
        share = len(received.clients) / config.divisor
        moved = params + (share - 1) * received.mean
        params = moved.astype(np.float32)
        received = replace(received, mean=share * received.mean)
    metrics = _server_noise.noise_metrics(config, received, sd)
    return _server_noise.add_noise(params, sd, noise), metrics


def event(config: Config, received: ClientUpdates, run: Run) -> PrivacyEvent:
    """Return the round's event: its noise over what one client can really move, and sampling."""
    clients = len(received.clients)
    moved = _largest_move(config, received) * _clips_apart(config)
    multiplier = _standard_deviation(config, received) / moved
    return PrivacyEvent(multiplier, run.participation, _sampling(run, clients), clients)


def covers_empty_rounds(config: Config) -> bool:
    """Return whether rounds without clients release a noisy model.

    They do if the sum has a fixed divisor.
    """
    return isinstance(config.divisor, float)


def canaries(config: Config, run: Run) -> CanaryPlan | None:
    """Return how canaries audit the release: by updates so long that they are surely clipped."""
    if not config.audit_every:
        return None
    norm = CERTAINLY_CLIPPED * config.clip
    return CanaryPlan(config.audit_every, norm, config.neighboring == "replace_one")


def so_far(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the epsilon of one client at ``delta`` after the rounds so far, where one holds."""
    if refusal(config, run) or len(outcome.spent) < len(outcome.rows):
        return {}
    events = [spending.event for spending in outcome.spent]
    epsilon = accounting.epsilon_so_far(events, run.rounds, config.delta, config.neighboring)
    return {"epsilon": epsilon} if math.isfinite(epsilon) else {}


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the epsilon of one client at ``delta`` after the run, and what canaries found.

    Where no epsilon holds it is None, and ``guarantee`` is the reason. With several models and
    participation ``all``, ``epsilon_cluster_<j>`` is the epsilon of a client that used model j in
    every round, on the assumption that no client changed its model.
    """
    account = _account(config, run, outcome)
    models = run.clustering.config.clusters
    of_models = map(of_cluster, range(models)) if models > 1 else (RUN,)
    claims = {j: account.get(column("epsilon", of)) for j, of in enumerate(of_models)}
    return account | finding.metrics(
        outcome.canaries,
        config.delta,
        claims,
        opposite=config.neighboring == "replace_one",
        sampled=run.participation != "all",
    )


def _account(config: Config, run: Run, outcome: Outcome) -> Metrics:
    reason = refusal(config, run)
    metrics: Metrics = {
        "epsilon": None,
        "delta": config.delta,
        "guarantee": reason or accounting.sense(config.noise),
    }
    models = run.clustering.config.clusters
    for j in range(models if models > 1 else 0):
        metrics[column("guarantee", of_cluster(j))] = metrics["guarantee"]
    if reason == releases.CHOSEN and run.participation == "all":
        metrics |= _by_model(config, outcome)
    if reason:
        return metrics
    if len(outcome.spent) < run.rounds:
        metrics["guarantee"] = (
            "none: no client took part in some round, and the model was sent without noise"
        )
        return metrics
    events = [spending.event for spending in outcome.spent]
    epsilon = accounting.epsilon(events, config.delta, config.neighboring)
    if math.isinf(epsilon):
        metrics["guarantee"] = TOO_LITTLE
        return metrics
    metrics["epsilon"] = epsilon
    # Under noise that follows from the seed, trials do not compose.
    if config.noise == "secret":
        metrics["guarantee_events"] = accounting.ledger(events, config.neighboring)
    return metrics


def _by_model(config: Config, outcome: Outcome) -> Metrics:
    """Return the epsilon of each model, of a client that used it in every round."""
    epsilons: Metrics = {}
    for j in sorted({spending.cluster for spending in outcome.spent}):
        events = [spending.event for spending in outcome.spent if spending.cluster == j]
        epsilon = accounting.epsilon(events, config.delta, config.neighboring)
        epsilons[column("epsilon", of_cluster(j))] = epsilon if math.isfinite(epsilon) else None
    return epsilons


def refusal(config: Config, run: Run) -> str | None:
    """Return ``none:`` and the first reason why no epsilon holds for the run; None if one does."""
    aggregation = run.aggregation
    if config.noise_multiplier == 0:
        return "none: updates are clipped, but no noise is added"
    if config.noise_divisor != 1:
        return "none: noise_divisor comes from the updates of another run, without noise"
    if aggregation.module.SENSITIVITY != "mean":
        return f"none: {aggregation.name} has no known sensitivity; fedavg has"
    return releases.unmet("global_dp", run) or _unsampled(config, run)


def _unsampled(config: Config, run: Run) -> str | None:
    """Return why the sampling of clients voids the epsilon; None if it does not."""
    sampler = run.participation
    if sampler != "all" and not _equal(run):
        return (
            f"none: {sampler} participation needs aggregation.weights uniform; others depend on "
            "who takes part"
        )
    if sampler == "poisson" and not isinstance(config.divisor, float):
        return (
            "none: dividing by the actual number of clients reveals who took part; use another "
            "privacy.divisor"
        )
    return None


def _largest_move(config: Config, received: ClientUpdates) -> float:
    """Compute the largest L2 distance by which one client can move the aggregate.

    ``sensitivity`` has no part in it.
    """
    if isinstance(config.divisor, float):
        return config.clip / config.divisor
    return config.clip * float(received.weights.max())


def _standard_deviation(config: Config, received: ClientUpdates) -> float:
    multiplier = config.noise_multiplier / config.noise_divisor
    if isinstance(config.divisor, float):
        return multiplier * config.clip / config.divisor
    return multiplier * _server_noise.sensitivity(config, received)


def _may_divide(run: Run) -> bool:
    """Return whether a round's mean can be rewritten as a sum with a fixed divisor."""
    mean = run.aggregation.module.SENSITIVITY == "mean" and _equal(run)
    return mean and run.participation == "poisson" and run.clustering.config.clusters == 1


def _equal(run: Run) -> bool:
    """Return whether clients have the same weight, whatever their numbers of examples."""
    return run.aggregation.module.equal_weights(run.aggregation.config)
