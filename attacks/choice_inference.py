"""What the choice of a model reveals of a client: its group, its tolerance of risk, its mix of
labels.

Whoever sees which model every client trains sees a sequence of choices. IFCA-MIR moves a client
because it minds the risk, so the move itself tells that it does; and a client that preferred the
minority's model at first is of the minority.

    h_i      what client i's choices come down to: its first model, its last one, and whether it moved in between
    guess    argmax_g #{k of the other half of the clients: h_k = h_i, g_k = g}, if equal the larger g
    gain     share of clients whose secret g_i (group, tolerance, largest class) is guessed - share of the largest g
    bits     I(G; H) = sum_gh P(g, h) log2 P(g, h) / (P(g) P(h)), less its mean over permutations of the clients
    mix      mean of 1 - TV(mean mix of labels of k with h_k = h_i, mix of i) - the same with the mean mix of all k

    weight   beta_i, uniform in [0, 1], is in the interval of all b with which i alone would have chosen as it did; its
             length tells -log2(length) bits. Only where the choice follows from it, not where clients move at random

The interval takes the losses of all models on the client's examples for known. The server knows the
risks alone, so these bits are the most that it can learn. What the guesses find is the least that
is revealed: other attackers may find more.

Value by chance: the mean of the same over permutations of whose choices are whose. Of unequal
groups it is below zero, because a guess that follows noise is wrong more often than the largest
group. 95 % intervals of gains are Wilson's over clients, wider by sqrt(1 + 2 / pi), because hits of
the two halves are correlated through the guesses; these are as wide as they have to be where
choices tell something (0.95 to 0.99 of what is planted is covered, but 0.85 for a group of three of
whom nearly all are known), and with nothing to find they would cover 0.97 to 0.99. So chance itself
is in the interval just if the permutations do not reject it, where 5 % of them find as much or as
little: it is covered in 0.95 to 0.97 with 20 or 40 clients, and in up to 0.995 with ten, of whom
few permutations differ. That of the mix is at least as wide as permutations spread (0.95 to 0.97).

Source: information and Bayes error are textbook (Cover and Thomas, chapter 2). The question follows
from Jung, Biswas and Palamidessi (2025), who trust the server.

Differences from usual practice: half of the clients are left out instead of one. With two equal
groups and nothing to find, leaving one out is wrong about nearly everybody, because the one that is
left out is missing in its own group.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from algorithms.core.columns import interval, null
from algorithms.core.messages import Doubles, Ints
from algorithms.core.metric import CHOICE, Column, Metric, Number, PerClient, of_client, variant
from algorithms.interfaces import Problems, Run
from attacks.interfaces import Exposure, SeenChoice, SeenChoices
from attacks.metrics.disparity import Z95, wilson
from datasets.components import Config as SlotConfig
from datasets.federation import Federation

KINDS = ("choices",)
LABEL = "choice inference"
ASKS = "does the chosen cluster reveal a client attribute?"
PAPERS = {"IFCA-MIR": "https://arxiv.org/abs/2503.09414"}

Secret = Literal["group", "tolerance", "label"]
FEWEST = 4  # clients, so that each half has two
STEPS = 14  # of a bisection: an end of an interval of beta is known to 1 / 16384
Z = Z95 * sqrt(1 + 2 / np.pi)
TAIL = (
    0.025  # on either side, of permutations that find as much or as little where chance is rejected
)
ROUNDING = 1e-9
PLACE = 1  # of the stream; source inference has places of one number


class Config(SlotConfig):
    """Fields of choice inference."""

    secrets: tuple[Secret, ...] | Literal["auto"] = Field(
        "auto",
        description=(
            "what is inferred: some of group, tolerance and label; auto: all in which clients "
            "differ"
        ),
    )
    # The least p value is 1 / (permutations + 1); 0.005 tells enough of one run, and several seeds
    # tell more. With fewer than 39, nothing would be above chance.
    permutations: int = Field(
        199, ge=39, le=10_000, description="permutations of the clients, for values by chance"
    )

    @model_validator(mode="after")
    def _once(self) -> Config:
        if not self.secrets or len(set(self.secrets)) != len(self.secrets):
            raise ValueError(
                "secrets must name each of group, tolerance and label once at most; got "
                f"{self.secrets}"
            )
        return self


def problems(config: Config, run: Run) -> Problems:
    """Refuse a run in which clients have no choice."""
    if run.clustering.config.clusters < 2:
        sentence = (
            "infers from choices among several models, and the server has one; clustering must "
            "be one with"
        )
        return [("", f"{sentence} clusters of 2 or more, such as ifca or ifca_mir")]
    return []


def data_problems(config: Config, data: Federation) -> Problems:
    """List why secrets cannot be inferred: too few clients, or secrets named in which clients do
    not differ.
    """
    if data.clients < FEWEST:
        return [
            (
                "",
                f"choice_inference needs {FEWEST} clients, two to learn from; {data.name} "
                f"has {data.clients}",
            )
        ]
    reasons = {}
    if np.ptp(data.groups) == 0:
        reasons["group"] = "the split makes no groups of clients"
    if np.ptp(_mixes(data).argmax(axis=1)) == 0:
        reasons["label"] = "all clients have the same largest class"
    named = [] if config.secrets == "auto" else config.secrets
    return [
        ("secrets", f"{name} cannot be inferred, because {reasons[name]}; leave it out")
        for name in named
        if name in reasons
    ]


def follow(config: Config, seen: SeenChoice) -> Mapping[str, NDArray[np.float64]]:
    """Narrow the interval [low, high] of every client's weight of risk to those with which it
    would have chosen alike.
    """
    beta = seen.preferences.beta
    clients = len(seen.chosen)
    ends = {"low": np.zeros(clients), "high": np.ones(clients)} | {
        n: array.copy() for n, array in seen.kept.items()
    }
    if np.ptp(beta) > 0 and seen.preferences.turn is None:  # not where those who move are drawn
        for end in ends.values():
            free = np.flatnonzero((seen.chosen >= 0) & (end != beta))
            other = free[
                seen.instead(free, end[free]) != seen.chosen[free]
            ]  # who would choose otherwise at the end
            inside = beta[other]
            outside = end[other]
            for _ in range(STEPS if len(other) else 0):
                middle = (inside + outside) / 2
                alike = seen.instead(other, middle) == seen.chosen[other]
                inside = np.where(alike, middle, inside)
                outside = np.where(alike, outside, middle)
            end[other] = outside
    return ends


def infer(config: Config, seen: SeenChoices) -> Exposure:
    """Guess every secret from all choices."""
    data = seen.data
    rng = seen.stream("exchanged_owners", 0, PLACE)
    history = summaries(seen.choices)
    orders = [rng.permutation(data.clients) for _ in range(config.permutations)]
    exchanged = history[np.stack(orders)]
    numbers = list[Number]()
    measures = list[Number]()
    columns: dict[str, Doubles] = {}
    for name, secret in _secrets(config, seen).items():
        half = halves(secret, rng)
        columns[f"choice_{name}_hit"], rows = guessed(name, secret, history, exchanged, half)
        measures += rows
        numbers += [
            Number(f"choice_{name}_{row.metric}", row.value, chance=row.chance)
            for row in rows
            if row.metric in ("gain", "bits", "p")
        ]
        if name == "label":
            mix = _mix(_mixes(data), history, exchanged, half)
            measures.append(mix)
            numbers.append(Number("choice_mix_gain", mix.value, chance=mix.chance))
    low = seen.kept["low"]
    high = seen.kept["high"]
    bits = bits_of_interval(low, high)
    _, *ends = interval("choice_beta")
    columns |= zip((*ends, "choice_beta_bits"), (low, high, bits), strict=True)
    mean, below, above = _mean(bits)
    measures.append(Number("bits", mean, variant("beta"), max(0.0, below), above, 0.0))
    numbers.append(Number("choice_beta_bits", mean))
    for name, values in columns.items():
        measures += [Number(name, value, of_client(i)) for i, value in enumerate(values.tolist())]
    return Exposure(tuple(numbers), columns, tuple(measures))


def _secrets(config: Config, seen: SeenChoices) -> dict[str, Ints]:
    """Return the secrets [clients] that are inferred, in which clients differ."""
    beta = seen.preferences.beta
    threshold = seen.preferences.threshold
    minding = beta if np.ptp(beta) > 0 else -threshold
    tolerance = (minding > np.median(minding)).astype(np.int64)
    label = _mixes(seen.data).argmax(axis=1)
    secrets = {"group": seen.data.groups, "tolerance": tolerance, "label": label}
    return {
        name: secret
        for name, secret in secrets.items()
        if (config.secrets == "auto" or name in config.secrets) and (secret != secret[0]).any()
    }


def _mix(mixes: Doubles, history: Ints, exchanged: Ints, half: Ints) -> Number:
    """Return how much is learned of the clients' mixes of labels."""
    gains = mix_gains(history, mixes, half)
    null = np.array([mix_gains(other, mixes, half).mean() for other in exchanged])
    mean, below, above = _mean(gains, float(null.std()))
    return Number("gain", mean, variant("mix"), below, above, float(null.mean()))


def summaries(choices: NDArray[np.integer]) -> Ints:
    """Number what the choices [rounds, clients] come down to, equal for equal first and last
    models and moves, [clients].

    A client that took no part in a round (-1) did not move in it.

    >>> summaries(np.array([[0, 0, 0, -1], [1, 0, 1, -1], [1, 0, 0, 0]])).tolist()
    [2, 0, 1, 0]
    """
    rows = np.arange(len(choices))[:, None]
    everybody = np.arange(choices.shape[1])
    when = np.maximum.accumulate(
        np.where(choices >= 0, rows, -1)
    )  # the last round in which each was there
    first = choices[(choices >= 0).argmax(axis=0), everybody]
    last = choices[when[-1], everybody]
    last_known = np.where(when >= 0, choices[np.maximum(when, 0), everybody], first)
    moves = (np.diff(last_known, axis=0) != 0).sum(axis=0)
    number: Ints = np.unique(
        np.stack([first, last, moves > (first != last)]), axis=1, return_inverse=True
    )[1].ravel()
    return number


def halves(secret: Ints, rng: np.random.Generator) -> Ints:
    """Deal the clients [clients] to two halves, 0 and 1, as evenly as possible in every group
    and in all.
    """
    half = np.empty(len(secret), np.int64)
    half[np.lexsort((rng.random(len(secret)), secret))] = np.arange(len(secret)) % 2
    return half


def counts(history: Ints, secret: Ints, histories: int, secrets: int) -> Ints:
    """Count the clients [histories, secrets] with each history and secret."""
    return np.bincount(history * secrets + secret, minlength=histories * secrets).reshape(
        histories, secrets
    )


def hits(history: Ints, secret: Ints, half: Ints) -> Doubles:
    """Guess each half's secrets [clients] from the other half; 1 where right, 1/2 where two
    guesses are equally good.
    """
    right = np.empty(len(secret))
    sizes = (int(history.max()) + 1, int(secret.max()) + 1)
    for attacked in (half == 0, half == 1):
        alike = counts(history[~attacked], secret[~attacked], *sizes)
        merit = alike + alike.sum(axis=0) / (
            alike.sum() + 1
        )  # below 1, so that it decides between equals alone
        best = merit == merit.max(axis=1, keepdims=True)
        right[attacked] = (best / best.sum(axis=1, keepdims=True))[
            history[attacked], secret[attacked]
        ]
    return right


def bounds(joint: Doubles) -> tuple[float, float, float]:
    """Return the accuracy of the best guess with and without a history, and the information in
    bits.

    ``joint`` [histories, secrets] are probabilities.

    >>> [round(value, 4) for value in bounds(np.array([[0.1, 0.0], [0.1, 0.8]]))]  # half of a minority moved
    [0.9, 0.8, 0.269]
    """
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    there = joint > 0
    bits = (joint[there] * np.log2(joint[there] / apart[there])).sum()
    return float(joint.max(axis=1).sum()), float(joint.sum(axis=0).max()), float(bits)


def guessed(
    name: str, secret: Ints, history: Ints, exchanged: Ints, half: Ints
) -> tuple[Doubles, list[Number]]:
    """Return who was guessed [clients], and numbers of it; ``exchanged`` [permutations,
    clients] are histories by chance.
    """
    n = len(secret)
    sizes = (int(history.max()) + 1, int(secret.max()) + 1)
    bayes, prior, bits = bounds(counts(history, secret, *sizes) / n)
    permuted = np.array([bounds(counts(other, secret, *sizes) / n) for other in exchanged])
    by_chance = np.array([hits(other, secret, half).mean() for other in exchanged]) - prior
    p = as_large(bits, permuted[:, 2])
    right = hits(history, secret, half)
    gain = float(right.mean()) - prior
    null = float(by_chance.mean())
    extra = bits - float(permuted[:, 2].mean())
    low, high = with_chance(
        gain, by_chance, *(float(end) - prior for end in wilson(right.sum(), n, Z))
    )
    of = variant(name)
    return right, [
        Number("accuracy", prior + gain, of, prior + low, prior + high, prior + null),
        Number("gain", gain, of, low, high, null),
        Number("largest_share", prior, of),
        Number("bits", extra, of, chance=0.0),
        Number("p", p, of),
        # What the best guess would be if these clients were all that there are; hence its large
        # value by chance.
        Number("bayes_accuracy", bayes, of, chance=float(permuted[:, 0].mean())),
    ]


def as_large(value: float, by_chance: Doubles) -> float:
    """Return the p value of a permutation test: the share of values that are as large, with
    ``value`` itself among them.
    """
    return float((1 + (by_chance >= value - ROUNDING).sum()) / (1 + len(by_chance)))


def with_chance(value: float, by_chance: Doubles, low: float, high: float) -> tuple[float, float]:
    """Return the interval, with the mean of the values by chance [permutations] in it just if
    these do not reject it.

    >>> chance = np.arange(-20, 20) / 100
    >>> [round(end, 3) for end in (*with_chance(0.25, chance, -0.1, 0.4), *with_chance(0.15, chance, 0.05, 0.4))]
    [-0.005, 0.4, -0.005, 0.4]
    """
    null = float(by_chance.mean())
    larger = as_large(value, by_chance)
    smaller = as_large(-value, -by_chance)
    low = max(low, null + ROUNDING) if larger <= TAIL and value > null else min(low, null)
    return low, min(high, null - ROUNDING) if smaller <= TAIL and value < null else max(high, null)


def mix_gains(history: Ints, mixes: Doubles, half: Ints) -> Doubles:
    """Return by how much 1 - TV of each client's mix [clients, classes] rises by its history,
    [clients].
    """
    gains = np.empty(len(mixes))
    for attacked in (half == 0, half == 1):
        mean = mixes[~attacked].mean(axis=0)
        one_hot = np.eye(int(history.max()) + 1)[history]
        sizes = one_hot[~attacked].sum(axis=0)[:, None]
        of_history = np.where(
            sizes > 0, one_hot[~attacked].T @ mixes[~attacked] / np.maximum(sizes, 1), mean
        )
        guesses = (one_hot @ of_history)[attacked]
        truth = mixes[attacked]
        gains[attacked] = (np.abs(mean - truth) - np.abs(guesses - truth)).sum(axis=1) / 2
    return gains


def bits_of_interval(low: Doubles, high: Doubles) -> Doubles:
    """Return the bits that an interval tells of a number that is uniform in [0, 1], at most
    `STEPS`.

    >>> bits_of_interval(np.array([0.0, 0.5]), np.array([1.0, 0.75])).tolist()
    [0.0, 2.0]
    """
    return 0.0 - np.log2(np.maximum(high - low, 2.0**-STEPS))


def _mixes(data: Federation) -> Doubles:
    """Return the shares [clients, classes] of the labels among each client's training examples."""
    number = np.bincount(
        data.owner() * data.classes + data.train.y, minlength=data.clients * data.classes
    )
    return number.reshape(data.clients, -1) / data.sizes[:, None]


def _mean(values: Doubles, least: float = 0.0) -> tuple[float, float, float]:
    """Return the mean over clients with its normal 95 % interval; its standard error is at
    ``least`` so large.
    """
    mean = float(values.mean())
    reach = Z95 * max(least, float(values.std(ddof=1)) / sqrt(len(values)))
    return mean, mean - reach, mean + reach


# What is measured, and how it is shown


def _metrics(secret: Secret, what: str, rank: int) -> tuple[Metric, ...]:
    name = f"choice_{secret}"
    heading = f"{secret} by\nchoice"
    gain = Metric(
        f"{name}_gain",
        CHOICE,
        f"{what} guessed from choices, above the largest",
        "lower",
        table=Column(rank, heading, 2),
        chance=null(f"{name}_gain"),
        reading=(
            "by choice: how much oftener than by naming the most frequent one it is guessed from "
            "the models that a client chose"
        )
        if secret == "group"
        else "",
    )
    bits = Metric(f"{name}_bits", CHOICE, f"{what}, from choices", "lower", "bits", chance=0.0)
    return gain, bits, Metric(f"{name}_p", CHOICE, f"{what}, p value of the bits", None, "")


METRICS = (
    *_metrics("group", "true group", 2),
    *_metrics("tolerance", "upper or lower half of tolerance", 3),
    *_metrics("label", "largest class", 5),
    Metric(
        "choice_mix_gain",
        CHOICE,
        "mix of labels, 1 - TV gained",
        "lower",
        "",
        chance="choice_mix_gain_null",
    ),
    Metric(
        "choice_beta_bits",
        CHOICE,
        "weight of risk, at most revealed by choices",
        "lower",
        "bits",
        table=Column(3, "bits of beta\nby choice", 2),
        chance=0.0,
        clients=PerClient("What choices reveal at most of each client's weight of risk, bits"),
    ),
)
