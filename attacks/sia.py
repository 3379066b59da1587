"""Source inference (Hu et al. 2021; Zhao et al. 2025, eq. 5): whose model has the lowest loss on
an example?

    T_i   n training examples of client i, drawn once for the run
    every round, before the server averages, with the models theta_k that it received:
        guess(x) = argmin_k CE(theta_k(x), y)                 ties: the lowest client
        SIA_i    = |{x in T_i : guess(x) = i}| / |T_i|        1 / clients is chance
    disparity: CoV, 1 / (1 + CoV^2) and max - min of SIA_i over clients; CoV of one owner's losses over models

Differences from the paper: none in the attack. The released code draws HAR's targets from all of a
client's examples, some of which were never trained on (``pool: all``), and rounds SIA_i to two
decimals (``rounded``).

Disparities are large even if there is nothing to find: the same few models judge all examples, one
that happens to be better on everything collects the guesses, and its client alone is "found". So
every disparity has its value by chance (``eod_null``, ``cov_null``, ``fi_null``, ``mad_null``,
``sen_null``): the mean over permutations of whose the examples are, with the same models and as
many examples of each client. Only examples of one class are exchanged, because who has many
examples of the class at which a model happens to be good is found, too, though nothing was learned
from them. If the owner of an example is independent of the example given its class (all splits but
those by natural owner) and of the models, a disparity and its value by chance have the same
expectation. Two things to know:

* It is chance with nothing to find, not with everybody equally exposed. The CoV divides by the
  mean, so where the mean is above 1 / clients, a CoV below ``cov_null`` does not say that exposure
  is more equal than by chance.
* What the class of an example tells of its owner counts as chance in the disparities, and as
  success in the mean; ``sia_mean_null`` is that part.

A check on any result: if the targets were not the owners' examples, the expectation of sum_i SIA_i
would be 1, whatever the models are. A mean of 1 / clients with a wide spread therefore indicates
that the wrong examples were attacked.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.messages import Doubles
from algorithms.core.metric import (
    MINOR,
    SOURCE,
    Column,
    Number,
    PerClient,
    Risk,
    magnitude,
    rate,
    unknown,
)
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from attacks._queries import TargetsConfig, cohort_problems, target_losses, targets
from attacks.interfaces import Exposure, SeenRound, SeenUpdates, Stream, of_clients
from attacks.metrics import disparity
from attacks.metrics.membership import confidences_of_losses
from attacks.metrics.over_rounds import defined, means_over_rounds
from datasets.federation import Federation, Ints

KINDS = ("updates",)
ASKS = "which client owns this example?"
PAPERS = {"Hu 2021": "https://arxiv.org/abs/2109.05659", "FinP": "https://arxiv.org/abs/2502.17748"}
# Permutations of the owners: as many as take about the time of reading this many losses, but no
# fewer and no more.
LOSSES = 200_000
FEWEST = 20
MOST = 200
FEWEST_CLIENTS = 2  # of a round; of one client, whose an example is is no question
FEWEST_ALIKE = 10  # examples of a class that a calibrated loss is compared with
LEAST = 1e-12  # standard deviation of a model that treats all examples alike


class Config(TargetsConfig):
    """Fields of source inference."""

    # An example that nobody trained on has no source; attacking it only adds noise.
    pool: Literal["training", "all"] = Field(
        "training",
        description=(
            "examples that may be attacked: the client's training examples, or its test "
            "examples, too"
        ),
    )
    # The papers compare losses; a model that is better than the others on everything is then
    # everybody's guess.
    score: Literal["loss", "calibrated"] = Field(
        "loss",
        description=(
            "what models are compared by: the loss, or the loss relative to the model's others "
            "of the class"
        ),
    )
    rounded: bool = Field(
        False, description="round each client's attack accuracy to two decimals, as released"
    )


def problems(config: Config, run: Run) -> Problems:
    """Refuse a run in which every round has one client: (field, sentence) pairs."""
    return cohort_problems("sia", run, FEWEST_CLIENTS)


def attacked(config: Config, data: Federation, stream: Stream) -> Ints:
    """Return the positions of the attacked examples of every client, [clients, n], as
    `_queries.targets` counts them.
    """
    return targets(data, stream, config.targets, tests=config.pool == "all")


def observe(config: Config, seen: SeenUpdates) -> Doubles:
    """Compute the losses of a block's c models on all targets: [c, clients * n] in nats, owner
    after owner.
    """
    return target_losses(seen, attacked(config, seen.data, seen.stream).ravel())


def guesses(losses: Doubles) -> Ints:
    """Guess the source [owners, n] of each example: the model with the lowest of the losses
    [models, owners, n].

    Among equals it is the first; a model whose value is NaN is never the guess.
    """
    return np.where(np.isnan(losses), np.inf, losses).argmin(axis=0)


def calibrated(losses: Doubles, labels: Ints) -> Doubles:
    """Compute how unusually low each loss [k, k, n], in nats, is for its model and the example's
    class [k, n].

    A model that is better on everything has the lowest loss on everybody's examples, and is then
    everybody's guess. So a loss can be calibrated per model k and class y, with the mean and
    standard deviation over the attacked examples of class y that belong to other clients than k,
    and are not x itself:

        phi_k(x) = -ln(exp(CE(theta_k(x), y)) - 1)      the confidence on the logit scale; losses are too skewed for a mean
        score_k(x) = -(phi_k(x) - mean_k,y) / sd_k,y    the guess is the model with the lowest score

    ``x`` is left out of the reference of every model alike. Otherwise it would be part of the
    references of all models but its owner's, would be nearer to their means, and examples that tell
    nothing would be traced more often than by chance. A class of which some model would have fewer
    than `FEWEST_ALIKE` examples to compare with is compared with all classes. Scores [k, k, n] are
    NaN where the loss is.
    """
    phi, (owners, n) = confidences_of_losses(losses), labels.shape
    foreign = np.repeat(np.arange(len(losses))[:, None] != np.arange(owners), n, axis=1).reshape(
        phi.shape
    )
    score = np.empty_like(phi)
    everything = np.ones(labels.shape, bool)
    for label in np.unique(labels):
        here = labels == label
        counts = here.sum(axis=1)  # by owner
        like = here if (counts.sum() - counts).min() > FEWEST_ALIKE else everything
        score[:, here] = _standardized(phi[:, like], foreign[:, like])[:, here[like]]
    return np.where(np.isnan(losses), np.nan, -score)


def _standardized(phi: Doubles, foreign: NDArray[np.bool_]) -> Doubles:
    """Standardize every value [models, n] of a model by its other values that are ``foreign`` to
    it.
    """
    counts = foreign.sum(axis=1, keepdims=True)
    center = np.where(foreign, phi, 0).sum(axis=1, keepdims=True) / np.maximum(counts, 1)
    apart = np.where(foreign, phi - center, 0)  # deviations, so that squares lose no digits
    left = np.maximum(counts - foreign, 1)  # without the example itself
    mean = (apart.sum(axis=1, keepdims=True) - apart) / left
    square = ((apart**2).sum(axis=1, keepdims=True) - apart**2) / left
    sd = np.sqrt(np.maximum(square - mean**2, 0))
    return (phi - center - mean) / np.maximum(sd, LEAST)


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Compute the attack of one round from the observed losses [k, all clients * n] of the k
    clients that took part.

    Only their examples are attacked and only they are candidates: an example of an absent client
    has no source in this round. A round of one client does not count: every metric is NaN.
    """
    clients = seen.clients
    data = seen.data
    losses = seen.observed.reshape(len(clients), data.clients, -1)[:, clients]
    labels = np.concatenate([data.train.y, data.test.y])[
        attacked(config, data, seen.stream)[clients]
    ]
    hits = _hits(guesses(calibrated(losses, labels) if config.score == "calibrated" else losses))
    exchanged = by_chance(config, losses, labels, seen.stream("exchanged_owners", seen.round))
    # [owners], [models, owners]
    accuracy = hits.mean(axis=1)
    means = losses.mean(axis=2)
    low, high = disparity.wilson(hits.sum(axis=1), hits.shape[1])
    columns = {
        "sia_accuracy": accuracy,
        "sia_low": low,
        "sia_high": high,
        "target_loss": np.diagonal(means),
    }
    everyone = np.full((len(columns), data.clients), np.nan)
    if len(clients) < FEWEST_CLIENTS:
        return Exposure(unknown(IN_ROUND), dict(zip(columns, everyone, strict=True)))
    everyone[:, clients] = list(columns.values())
    chance = 1 / len(clients)
    traced = (
        Number("sia_mean", float(hits.mean()), chance=chance),
        Number("sia_mean_null", float(exchanged.mean())),
    )
    if config.rounded:
        accuracies = np.round(accuracy, 2)
        permuted = np.round(exchanged, 2)
    else:
        accuracies = accuracy
        permuted = exchanged
    return Exposure(
        numbers=(*traced, *round_metrics(accuracies, permuted, means)),
        clients=dict(zip(columns, everyone, strict=True)),
        measures=tuple(of_clients("sia_accuracy", clients, accuracy, (low, high), chance)),
    )


def by_chance(config: Config, losses: Doubles, labels: Ints, rng: np.random.Generator) -> Doubles:
    """Attack under owners that are permuted among the examples of each class: success
    [permutations, k].

    ``losses`` [k, k, n] in nats are of every model on the examples of every owner, ``labels`` [k,
    n] their classes.
    """
    again = (
        config.score == "calibrated"
    )  # such a score depends on whose the other examples are; a loss does not
    draws = int(np.clip(LOSSES // (losses if again else labels).size, FEWEST, MOST))
    orders = disparity.exchanged(labels.ravel(), draws, rng)
    if not again:
        return _hits(guesses(losses).ravel()[orders].reshape(draws, *labels.shape)).mean(axis=2)
    flat = losses.reshape(len(losses), -1)
    permuted = (calibrated(flat[:, order].reshape(losses.shape), labels) for order in orders)
    return np.stack([_hits(guesses(scores)).mean(axis=1) for scores in permuted])


def _hits(guessed: Ints) -> NDArray[np.bool_]:
    """Return which guesses [..., owners, n] are right."""
    return guessed == np.arange(guessed.shape[-2])[:, None]


def round_metrics(accuracy: Doubles, exchanged: Doubles, means: Doubles) -> list[Number]:
    """Compute the round's disparities over the clients that took part (Zhao et al. 2025, section
    5.2).

    ``accuracy`` [clients] is the attack's success on each client, ``exchanged`` [permutations,
    clients] the same under permuted owners, ``means`` [models, owners] the mean loss in nats. A
    disparity by chance is its mean over those permutations in which it is defined (the CoV is if an
    example was traced).
    """
    numbers = list[Number]()
    permuted = _disparities(exchanged)
    for name, value in _disparities(accuracy).items():
        draws = permuted[name][~np.isnan(permuted[name])]
        null = float(draws.mean()) if len(draws) else np.nan
        numbers.append(Number(name, float(value), chance=null))
    loss_cov, loss_mad = (
        float(np.mean(list(map(spread, means.T)))) for spread in (disparity.cov, disparity.mad)
    )
    return [
        *numbers,
        Number("loss_cov", loss_cov),
        Number("loss_fi", float(disparity.fairness_index(loss_cov))),
        Number("loss_mad", loss_mad),
    ]


def _disparities(accuracy: Doubles) -> dict[str, Doubles]:
    """Return the disparities of success [..., clients] by name, [...]."""
    cov = disparity.cov(accuracy)
    return {
        "sia_cov": cov,
        "sia_fi": np.asarray(disparity.fairness_index(cov)),
        "sia_mad": disparity.mad(accuracy),
        "sia_sen": disparity.sen_welfare(1 - accuracy),
        "eod": disparity.eod(accuracy),
    }


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the mean of every metric over the attacked rounds, and of ``sia_mean`` the largest
    and that of the last five.

    Rounds in which a metric is undefined do not count; the result is None if no round counts.
    """
    means = means_over_rounds(outcome, IN_ROUND)
    rounds = defined(outcome, "sia_mean")
    last = float(np.mean(rounds[-5:])) if rounds else None
    return means | dict(zip(OVER_ROUNDS, (max(rounds, default=None), last), strict=True))


# What is measured, and how it is shown

METRICS = (
    rate(
        "sia_mean",
        SOURCE,
        "mean SIA accuracy",
        "lower",
        live=1,
        table=Column(1, "SIA\nmean"),
        chance="sia_chance",
        risk=Risk(
            "Source inference traces training examples to their owner with accuracy",
            40,
            beside=("eod",),
        ),
        clients=PerClient(
            "Source inference against each client, accuracy",
            "sia_accuracy",
            "sia_low",
            "sia_high",
            "95 % binomial interval of one run's targets",
        ),
        reading=(
            "SIA: accuracy of source inference; by classes: with owners permuted within classes; "
            "max: in the worst round; CoV, FI, EOD: inequality between clients"
        ),
        over_rounds="source_inference",
    ),
    rate(
        "sia_max",
        SOURCE,
        "mean SIA accuracy, worst round",
        "lower",
        table=Column(3, "SIA\nmax", interval=False),
    ),
    # A defense that only delays training lowers the mean over rounds and not this one.
    rate(
        "sia_last5_mean",
        SOURCE,
        "mean SIA accuracy, last five rounds",
        "lower",
        chance="sia_chance",
    ),
    rate("sia_chance", SOURCE, "SIA by guessing"),
    rate(
        "sia_mean_null",
        SOURCE,
        "SIA by classes alone",
        table=Column(4, "SIA by\nclasses", interval=False),
    ),
    magnitude(
        "sia_cov",
        SOURCE,
        "CoV of SIA",
        "lower",
        "",
        live=2,
        table=Column(2, "SIA\nCoV", 2),
        chance="cov_null",
        over_rounds="source_inference",
    ),
    rate(
        "sia_fi",
        SOURCE,
        "FI of SIA",
        "higher",
        "",
        live=4,
        table=Column(4, "SIA\nFI", 2, interval=False),
        chance="fi_null",
        over_rounds="source_inference",
    ),
    rate(
        "eod",
        SOURCE,
        "EOD",
        "lower",
        live=2,
        table=Column(2, "EOD", 2),
        chance="eod_null",
        risk=Risk("", None),
        reading="by chance: EOD with permuted owners",
        over_rounds="source_inference",
    ),
    rate(
        "eod_null",
        SOURCE,
        "EOD by chance",
        live=5,
        table=Column(4, "EOD by\nchance", 2, interval=False),
    ),
    rate("sia_mad", SOURCE, "mean absolute difference of SIA", "lower", chance="mad_null"),
    rate("sia_sen", SOURCE, "Sen welfare of SIA", "higher", "", chance="sen_null"),
    magnitude(
        "loss_cov",
        SOURCE,
        "CoV of loss",
        "lower",
        "",
        live=5,
        table=Column(3, "loss\nCoV", 2, interval=False),
        on="training",
    ),
    rate(
        "loss_fi",
        SOURCE,
        "FI of loss",
        "higher",
        "",
        table=Column(MINOR, "loss\nFI", 2, interval=False),
        on="training",
    ),
    magnitude(
        "loss_mad", SOURCE, "mean absolute difference of loss", "lower", "nats", on="training"
    ),
)

OVER_ROUNDS = ("sia_max", "sia_last5_mean")  # of a trial; the others are of a round, too

IN_ROUND = [metric for metric in METRICS if metric.name not in OVER_ROUNDS]
