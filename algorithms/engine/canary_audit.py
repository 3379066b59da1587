"""The audit of a server's release by canary clients (Andrew et al. 2024), in a fork of every
audited round.

    once:   directions c_j, orthogonal, and for each of m canaries a coin that says whether it is in
    round:  received' <- what the server received + the canaries that are in, each clipped and
                         weighed like the largest client
            rho <- release(aggregate(received'), noise of its own) - the models that were sent
            s_t <- root mean square of <c_j, rho> over the directions that no canary has: one
                   coordinate of noise and updates
            score_j <- score_j + (-1)^t a_t <c_j, rho> / s_t,     a_t = w_t C / s_t
    end:    score_j / sqrt(sum a_t^2) is about N(0, 1) for a canary that is out, and N(mu, 1) for
            one that is in

A canary's update does not depend on the model, so the release can be audited on a copy: training
does not see the canaries, and nothing of the run changes. What is found is what the mechanism
leaves of a client whose update points in one random direction, to somebody who sees every model
that is sent; an estimate below the claim is no proof of safety.

The signs (-1)^t, which a client may send like any other update, are for noise that is the same in
two rounds: it cancels in the difference of their models, and the canary does not.

Seen are defects of what the fork has in common with the run: clipping, weights, aggregation, the
scale of the noise, noise that is left out or drawn alike in two rounds, the sampling rate that the
account assumes. Not seen are a defect of the stream that the run's noise alone comes from (two
trials with one seed add the same noise; who knows the seed subtracts it), what training makes of a
released model, noise that is left out in a few coordinates only, running statistics of batch
normalization, and what other slots publish. Under a server optimizer that is not linear, canaries
weaken each other: the estimate is low, and an audit is made only if it is asked for.

Where nothing is clipped, no clip says how much a client may send. A canary is then as long as the
median update of the round, and what is found is what the models leave of a client that sends as
much as the others do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from algorithms.auditing.canaries import CanaryPlan, Directions, number_of_directions
from algorithms.core.messages import ClientUpdates, Doubles, Ints, Weights, weighted_sum
from algorithms.core.noise import Normals
from algorithms.engine import server
from algorithms.interfaces import Run, State

MOST = 1024  # canaries, of which about half are in
FEWEST = 32  # with fewer, nothing can be said; a model needs twice as many parameters
# directions without a canary whose scores are kept, because they tell the scores' deviation better
UNSEEN = 1024
EXPLICIT = 4  # canaries that pass the clients' own code one by one; a transform sums the others
# Seconds on two cores: a fork, and each parameter in it (and each client, with canaries one at a
# time); a round, each client in it, and each example per parameter, where convolutions use a
# parameter many times. They give the rounds of `benchmarks/README.md`: 0.021 s for digits, 1 s for
# MNIST.
COST = 0.05
FORK = 1e-4
PARAMETER = 1.2e-7
LONELY = 2.5e-7
ROUND = 5e-3
CLIENT = 2e-5
DENSE = 2e-10
CONVOLUTION = 2e-9


@dataclass(frozen=True, eq=False)
class Panel:
    """The canaries of a model.

    Attributes:
        directions: in which they send; the first directions are those of the canaries.
        inside: [m] whether each canary is in, by the toss of a coin.
    """

    directions: Directions
    inside: NDArray[np.bool_]

    @staticmethod
    def draw(d: int, rng: np.random.Generator) -> Panel:
        """Draw the canaries for a model of ``d`` parameters, which are enough for an audit."""
        directions = Directions.draw(d, rng)
        return Panel(directions, rng.random(_number(d)) < 0.5)


def _number(d: int) -> int:
    """Return the number of canaries for a model of ``d`` parameters; 0 if these are too few for
    an audit.
    """
    canaries = min(MOST, number_of_directions(d) // 2)
    return canaries if canaries >= FEWEST else 0


@dataclass(frozen=True, eq=False)
class Round:
    """What the server has of one model in a round: its state, the model sent, updates, and all
    clients' numbers of examples.
    """

    state: State
    model: Weights
    received: ClientUpdates
    sizes: Ints


def begin(run: Run, plan: CanaryPlan, d: int) -> State:
    """Return the scores before the first round, by name; none for too few parameters ``d``."""
    canaries = _number(d)
    if not canaries:
        return {}
    models = run.clustering.config.clusters
    rows = min(canaries + UNSEEN, number_of_directions(d))
    scores = {
        "scores": np.zeros((models, rows)),
        "squares": np.zeros(models),
        "audited": np.zeros(models, np.int64),
        "released": np.zeros(models, np.int64),
        "inside": np.zeros((models, canaries), bool),
    }
    if plan.norm is None:
        scores["norms"] = np.zeros(models)
    return scores


def observe(
    run: Run,
    plan: CanaryPlan,
    scores: State,
    j: int,
    panel: Panel,
    now: Round,
    noise: Normals | None,
    rng: np.random.Generator,
) -> State:
    """Fork a round of model ``j`` with the canaries; add what the fork's release tells to scores.

    Nothing that is given is changed. The scores stay the same if a canary's norm follows from the
    updates, and all of these are zero. ``noise`` is for the fork alone; ``rng`` draws which
    canaries take part, as clients are drawn.
    """
    norm = _norm(plan, now.received)
    if not norm > 0:  # nobody sent anything that a canary could be like
        return scores
    plan = replace(plan, norm=norm)
    turn = (-1.0) ** int(scores["audited"][j])
    sends = _sends(run, plan, panel, turn, rng)
    received, moved = _joined(run, plan, panel, sends, now)
    step = server.step(run, now.state, now.model, received, noise)
    products = panel.directions.products(step.model.params - now.model.params)
    scale = root_mean_square(products[len(sends) :])
    after = {name: array.copy() for name, array in scores.items()}
    seen = products[: after["scores"].shape[1]]
    after["scores"][j] += turn * moved * seen / scale**2
    after["squares"][j] += (moved / scale) ** 2
    after["audited"][j] += 1
    after["inside"][j] = panel.inside
    if "norms" in after:
        after["norms"][j] += norm
    return after


def root_mean_square(values: Doubles) -> float:
    """Return the root of the mean square, or the least float32 if all are zero."""
    root = math.sqrt(float(np.mean(values**2)))
    return root or float(np.finfo(np.float32).tiny)


def _norm(plan: CanaryPlan, received: ClientUpdates) -> float:
    """Return the norm of a canary's update; 0 if it follows from updates that are all zero."""
    if plan.norm is not None:
        return plan.norm
    norms = received.norms
    sent = norms[np.isfinite(norms) & (norms > 0)]
    return float(np.median(sent)) if len(sent) else 0.0


def _sends(
    run: Run,
    plan: CanaryPlan,
    panel: Panel,
    turn: float,
    rng: np.random.Generator,
) -> Doubles:
    """Return what each canary sends, as a multiple [m] of its direction."""
    m = len(panel.inside)
    sends = np.where(
        panel.inside,
        turn,
        -turn if plan.opposite else 0.0,
    )
    present = server.sample_cohort(run.participation, run.participation_rate, m, rng)
    return np.where(
        np.isin(np.arange(m), present),
        sends,
        0.0,
    )


def _joined(
    run: Run,
    plan: CanaryPlan,
    panel: Panel,
    sends: Doubles,
    now: Round,
) -> tuple[ClientUpdates, float]:
    """Return what the server would receive with the canaries, and how far one moves the mean.

    Where every round has the same divisor, that is how far it moves the sum.
    """
    received = now.received
    sizes = now.sizes[received.clients]
    nobody = not len(sizes)  # a round to which only canaries came
    if nobody:
        sizes = now.sizes.max(keepdims=True)
    largest = int(sizes.max())
    divisor = float(server.weigh(run, sizes).sum())
    total, moved = sum_of_canaries(run, plan, panel, sends, largest)
    # An absent client counts as zero, so weights stay.
    joined = replace(received, mean=received.mean + total / divisor)
    if nobody:
        one = np.ones(1)
        joined = replace(
            joined,
            clients=np.zeros(1, np.int64),
            weights=one,
            norms=one,
            scales=one,
        )
    if not run.privacy.module.covers_empty_rounds(run.privacy.config):
        moved *= 1.0 / divisor
    return joined, moved


def released(scores: State, j: int) -> State:
    """Return the scores after one more release of model ``j``, whether it was audited or not."""
    if not scores:
        return scores
    counts = scores["released"].copy()
    counts[j] += 1
    return scores | {"released": counts}


def sum_of_canaries(
    run: Run,
    plan: CanaryPlan,
    panel: Panel,
    sends: Doubles,
    examples: int,
) -> tuple[Doubles, float]:
    """Sum the updates of canaries, clipped and weighed as those of clients are.

    A canary counts as so many ``examples``. ``sends`` [m] is 1 for a canary that sends its
    direction, -1 for the opposite, 0 for one that sends nothing.

    Returns:
        [d] the weighted sum before normalization, and the weight times the clipped norm of a
        canary.
    """
    assert plan.norm is not None  # `observe` has put in the round's own
    weight = float(server.weigh(run, np.array([examples]))[0])
    norm = np.array([plan.norm])
    scale = run.privacy.module.bound(run.privacy.config, norm)
    moved = weight * plan.norm * float(scale[0])
    transformed = moved * sends
    transformed[:EXPLICIT] = 0.0
    total = panel.directions.combine(transformed).astype(np.float64)
    explicit = np.flatnonzero(sends[:EXPLICIT])
    if len(explicit):
        updates = np.stack(
            [
                np.float32(sends[row] * plan.norm) * panel.directions.row(int(row))
                for row in explicit
            ]
        )
        _, scales = server.clip(run, updates)
        total += weighted_sum(weight * scales, updates)
    return total, moved


def audit_every(
    plan: CanaryPlan,
    run: Run,
    d: int,
    sizes: Ints,
) -> int:
    """Return every how many rounds the release is audited.

    That is as planned, or so that it takes at most 5 % of the rounds' time. The times are rough,
    and the same on every machine, because they decide which rounds are audited. A model has ``d``
    parameters; ``sizes`` [clients] are numbers of training examples.
    """
    if plan.every != "auto":
        return plan.every
    share = 1.0 if run.participation == "all" else run.participation_rate
    visited = share * float(sizes.sum()) * run.training.config.passes
    example = CONVOLUTION if run.model.module.CONVOLUTIONAL else DENSE
    training = ROUND + CLIENT * share * len(sizes) + d * visited * example
    parameter = LONELY * len(sizes) if plan.alone else PARAMETER
    audit = run.clustering.config.clusters * (FORK + parameter * d)
    return max(1, math.ceil(audit / (COST * training)))
