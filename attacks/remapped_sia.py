"""Source inference on shuffled models (Athanasiou, Jung and Palamidessi 2024, 2026): who sent
which is inferred first.

    a trusted shuffler hands on the models of k clients without names: theta_1, ..., theta_k, in another order every round
    S_c       shadow data: examples like client c's that it did not train on, 5 % as many as it trains on
    slot(c)   = argmax_j accuracy(theta_j on S_c)       ``greedy``; or all slots different, with the most right answers
    guess(x)  = argmin_c CE(theta_slot(c)(x), y)        plain source inference; clients with equal losses share a guess

Value by chance: 1 / k of the clients are matched, whatever the models are. More of the examples are
traced where labels differ among clients: S_c has client c's labels, so that slot(c) is a model that
is good at them. So the value by chance of tracing is that of owners permuted within classes, as in
`attacks.sia`, with the same models and matches (`by_chance`; it is exact). Two models of equal
accuracy are told apart by their loss; a few shadow examples alone would leave many ties.

The views: ``server_sees: shuffled_models`` is the one above; ``shuffled_parameters`` is the paper's
last step, in which every parameter |p| < 1 of every client is sent to the shuffler as bits:

    x = floor(p 10^r)   ->   residues x mod m_i, for coprime m_i   ->   each as so many ones among m_i - 1 bits   ->   shuffled

Only sums of residues are left, and from them the sum follows by the Chinese remainder theorem, if
the product of the m_i is above n (10^r - 1), or twice that where x may be negative: sums in the
upper half are then negative. So the view shows what ``sum`` shows, without saying whose, and source
inference is refused under it: it guesses, by construction.

>>> moduli, sent = (3, 5, 7), (3, 4)  # 0.3 and 0.4, at r = 1: residues (0, 3, 3) and (1, 4, 4)
>>> sums = [sum(x % m for x in sent) % m for m in moduli]
>>> total = next(x for x in range(3 * 5 * 7) if [x % m for m in moduli] == sums)
>>> sums, total, total / 10 / len(sent)
([1, 2, 0], 7, 0.35)

What it costs: a shuffler that everybody trusts, and, as printed (which we have at second hand),
1.04 times the traffic on MNIST at r = 3 and 1.81 times at r = 5. No cryptography is simulated here,
nor the rounding to 10^-r: training is untouched, so that accuracies are those of ``updates``. Nor
are parameters that are shuffled whole: the attack that walks through them is printed with 28 %
where bits leave 10 %. This attack gets the models in an order that follows from the seed and that
it does not know, whether the run's ``server_sees`` is ``updates`` or ``shuffled_models``; so beside
``sia`` it says on one run what the names are worth.

Differences from the paper: equal accuracies are told apart by losses; ``one_to_one`` is ours.
Shadow examples are test examples of the client or with its transform, or else other examples held
out from it, as many as there are. Where there are none, they are the server's own (or non-members
of nobody), drawn with the mix of labels that the client trains on, transformed like its examples.
Then the server knows this mix exactly, and small clients are matched by it even if their data are
alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.columns import interval
from algorithms.core.messages import Doubles, Ints, Weights
from algorithms.core.metric import (
    SOURCE,
    Column,
    Number,
    PerClient,
    Risk,
    rate,
    unknown,
    variant,
)
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from attacks._queries import TargetsConfig, cohort_problems, target_losses, targets, transformed
from attacks.interfaces import Exposure, SeenRound, SeenUpdates, Stream, of_clients
from attacks.metrics import membership
from attacks.metrics.disparity import wilson
from attacks.metrics.over_rounds import means_over_rounds
from attacks.sia import FEWEST_CLIENTS
from datasets.federation import Examples, Federation, joined
from datasets.roles import NOBODY

KINDS = ("updates",)
SEES: Literal["shuffled_models"] = "shuffled_models"
LABEL = "source inference, models without names"
ASKS = "which client owns this example, if models have no names?"
PAPERS = {
    "shuffled models": "https://arxiv.org/abs/2411.06458",
    "source inference": "https://arxiv.org/abs/2109.05659",
}
ACCURACY, LOW, HIGH = ("remapped_sia_accuracy", *interval("remapped_sia")[1:])
COLUMNS = ("remap_hit", ACCURACY, LOW, HIGH)  # of the clients' table
PLACE = 17  # of the streams of shadow examples


class Config(TargetsConfig):
    """Fields of source inference on shuffled models."""

    # The paper's. One to one is stronger where models are hard to tell apart.
    remap: Literal["greedy", "one_to_one"] = Field(
        "greedy",
        description=(
            "which model a client is taken to have: its best one, or the best assignment of all "
            "models"
        ),
    )
    shadow: float = Field(
        0.05,
        gt=0,
        le=1,
        description="shadow examples of each client, as a share of its training examples",
    )


def shadow_examples(config: Config, data: Federation, client: int, stream: Stream) -> Examples:
    """Draw S_c, ready for the model: of the client's own test examples, else non-members, else
    of what is nobody's.

    It is empty if nobody's examples have none of its labels. Own non-members come after test
    examples, because they may have another mix of labels (those of ``data.split: subjects`` have
    the complement), and would tell whose a model is not.
    """
    rng = stream("attack_targets", client, PLACE)
    own = data.client(client)
    tests, held_out = (
        np.flatnonzero(owner == client) for owner in (data.test_owner, data.nonmember_owner)
    )
    size = max(1, round(config.shadow * len(own)))
    if len(tests):
        return data.test[np.sort(rng.permutation(tests)[:size])]
    if len(held_out):
        return transformed(
            data, data.nonmembers[np.sort(rng.permutation(held_out)[:size])], client, rng
        )
    stored = data.shadow if len(data.shadow) else data.nonmembers[data.nonmember_owner == NOBODY]
    mix, there = (np.bincount(part.y, minlength=data.classes) for part in (own, stored))
    likely = (mix / np.maximum(there, 1))[stored.y]
    if not likely.any():
        return data.train[:0]
    size = min(size, int(np.count_nonzero(likely)))
    drawn = np.sort(rng.choice(len(stored), size, replace=False, p=likely / likely.sum()))
    return transformed(data, stored[drawn], client, rng)


def problems(config: Config, run: Run) -> Problems:
    """Refuse a run in which every round has one client, as `attacks.sia` does."""
    return cohort_problems("remapped_sia", run, FEWEST_CLIENTS)


def data_problems(config: Config, data: Federation) -> Problems:
    """List the clients of whom there are no shadow examples."""
    drawn = (
        shadow_examples(config, data, i, lambda *_: np.random.default_rng(0))
        for i in range(data.clients)
    )
    lacking = [i for i, examples in enumerate(drawn) if not len(examples)]
    if lacking:
        sentence = (
            f"remapped_sia needs shadow examples like each client's, and {data.name} has none "
            f"for client {lacking[0]}"
        )
        return [
            ("shadow", f"{sentence}; give the server some with data.shadow_size, or hold some out")
        ]
    return []


def observe(config: Config, seen: SeenUpdates) -> dict[str, NDArray[np.float64]]:
    """Compute what a block's c models lose on all targets and know of the shadow data.

    Returns:
        ``losses`` [c, clients * n] in nats, as `attacks.sia.observe` does; ``known`` [c, clients],
        the number of a client's shadow examples that a model gets right, and the geometric mean of
        their probabilities, a part of one.
    """
    sets = [shadow_examples(config, seen.data, i, seen.stream) for i in range(seen.data.clients)]
    examples = joined(sets)
    owner = np.repeat(np.arange(len(sets)), list(map(len, sets)))
    sizes = list(map(len, sets))
    known = np.empty((len(seen.clients), len(sets)))
    for row, params, statistics in zip(known, seen.params, seen.buffers, strict=True):
        seen.network.load(Weights(params, statistics))
        logits = seen.network.logits(examples.x)
        right = np.bincount(owner, logits.argmax(axis=1) == examples.y, len(sets))
        losses = np.bincount(owner, membership.losses(logits, examples.y), len(sets)) / sizes
        row[:] = np.nan_to_num(right + np.exp(-losses))  # a model of no numbers knows nothing
    return {
        "losses": target_losses(seen, targets(seen.data, seen.stream, config.targets).ravel()),
        "known": known,
    }


def match(known: Doubles, remap: Literal["greedy", "one_to_one"]) -> Ints:
    """Return the slot [k] that each client is taken to have, given how well the model in each
    slot knows it [slots, k].

    >>> known = np.array([[9.0, 8.0], [1.0, 7.0]])
    >>> match(known, "greedy").tolist(), match(known, "one_to_one").tolist()
    ([0, 0], [0, 1])
    """
    if remap == "greedy":
        return known.argmax(axis=0)
    from scipy.optimize import linear_sum_assignment

    slots: Ints = linear_sum_assignment(known.T, maximize=True)[1]
    return slots


def guesses(losses: Doubles) -> Doubles:
    """Return the share of the guess that falls to each client, given losses [models, owners, n],
    in their shape.

    The guess is the client whose model has the lowest loss, or each of several whose models are
    equal.

    >>> guesses(np.array([[[1.0, 3.0]], [[1.0, 2.0]]])).tolist()
    [[[0.5, 0.0]], [[0.5, 1.0]]]
    """
    numbers = np.where(np.isnan(losses), np.inf, losses)
    best = numbers == numbers.min(axis=0)
    return np.asarray(best / best.sum(axis=0))


def by_chance(shares: Doubles, labels: Ints) -> Doubles:
    """Return what share of each client's examples is traced, [k], if owners are permuted among
    the examples of each class.

    It is the exact mean over all permutations. ``shares`` [k, k, n] are the `guesses`, ``labels``
    [k, n] the classes.

    >>> to_first = np.stack([np.ones((2, 2)), np.zeros((2, 2))])  # the guess is always the first of two clients
    >>> by_chance(to_first, np.array([[0, 0], [1, 1]])).tolist()
    [1.0, 0.0]
    """
    chance = np.zeros(len(labels))
    for label in np.unique(labels):
        here = labels == label
        chance += here.mean(axis=1) * shares[:, here].mean(axis=1)
    return chance


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Match clients and models, and attack the examples of the k clients that took part under
    these names.

    Metrics and columns are the round's, and so are the clients' measures; the two others are of all
    rounds so far. A round of one client does not count: all are NaN.
    """
    clients = seen.clients
    k = len(seen.clients)
    if k < FEWEST_CLIENTS:
        nobody = dict.fromkeys(COLUMNS, np.full(seen.data.clients, np.nan))
        return Exposure(unknown(METRICS), nobody, kept=seen.kept)
    truth = np.arange(k) if seen.slots is None else seen.slots
    slots = match(seen.observed["known"][:, clients], config.remap)
    losses = seen.observed["losses"].reshape(k, seen.data.clients, -1)[:, clients]
    labels = seen.data.train.y[targets(seen.data, seen.stream, config.targets)[clients]]
    shares = guesses(losses[slots])
    owners = np.arange(k)
    matched = slots == truth
    hits = shares[owners, owners]
    accuracy = hits.mean(axis=1)
    chance = by_chance(shares, labels)
    low, high = wilson(hits.sum(axis=1), hits.shape[1])
    columns = of_all(seen, dict(zip(COLUMNS, (matched, accuracy, low, high), strict=True)))
    rows = {"matched": matched, "matched_chance": np.full(k, 1 / k)}
    rows |= {"traced": accuracy, "traced_chance": chance}
    kept = {
        name: np.vstack([*seen.kept.get(name, ()), values])
        for name, values in of_all(seen, rows).items()
    }
    measures = added_up(config, kept)
    measures += of_clients("sia_accuracy", clients, accuracy, (low, high), chance)
    return Exposure(
        numbers=(
            Number("remap_accuracy", float(matched.mean()), chance=1 / k),
            Number("remapped_sia_mean", float(hits.mean()), chance=float(chance.mean())),
        ),
        clients=columns,
        measures=tuple(measures),
        kept=kept,
    )


def added_up(config: Config, kept: Mapping[str, Doubles]) -> list[Number]:
    """Return what was matched and traced in all rounds so far."""
    found = list[Number]()
    for metric, name in (("remap_accuracy", "matched"), ("sia_accuracy", "traced")):
        value, *ends_and_chance = over_rounds(kept[name], kept[f"{name}_chance"])
        found.append(Number(metric, value, variant(config.remap), *ends_and_chance))
    return found


def of_all(seen: SeenRound, columns: dict[str, NDArray[Any]]) -> dict[str, Doubles]:
    """Return columns [k] of those who took part for all clients, NaN for the others."""
    everyone = np.full((len(columns), seen.data.clients), np.nan)
    everyone[:, seen.clients] = list(columns.values())
    return dict(zip(columns, everyone, strict=True))


def over_rounds(shares: Doubles, chance: Doubles) -> tuple[float, float, float, float]:
    """Return the mean of ``shares`` [rounds, clients], both ends of its 95 % interval, and its
    value by chance.

    Shares are NaN where a client was absent. What varies is a share less its ``chance`` [rounds,
    clients], so that the interval holds the value by chance where there is nothing to find. Rounds
    of one client are alike, because its shadow examples and targets stay the same: the variance is
    clustered by clients, with the models as they are. The interval is Wilson's for so many trials
    as would vary so much; for as many as there are clients where all shares are 0 or 1. With one
    client both ends are NaN.
    """
    from scipy.special import stdtrit

    there = ~np.isnan(shares)
    clients = int(there.any(axis=0).sum())
    mean = float(np.nanmean(shares))
    expected = float(np.nanmean(chance))
    if clients < 2:
        return mean, np.nan, np.nan, expected
    apart = np.where(there, shares - chance - (mean - expected), 0).sum(axis=0) / there.sum()
    variance = float((apart**2).sum()) * clients / (clients - 1)
    trials = mean * (1 - mean) / variance if 0 < mean < 1 and variance > 1e-12 else clients
    low, high = wilson(mean * trials, trials, float(stdtrit(clients - 1, 0.975)))
    return mean, float(low), float(high), expected


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the mean of every metric over the attacked rounds; None if there are none."""
    return means_over_rounds(outcome, METRICS)


# What is measured, and how it is shown

METRICS = (
    rate(
        "remap_accuracy",
        SOURCE,
        "clients matched to their models",
        "lower",
        table=Column(3, "models\nmatched", 2),
        chance="remap_chance",
        clients=PerClient(
            "Which clients are matched to their models, share of rounds", "remap_hit"
        ),
        reading="matched: clients to whom the server ascribes their own model, by shadow data",
    ),
    rate("remap_chance", SOURCE, "matches by guessing"),
    rate(
        "remapped_sia_mean",
        SOURCE,
        "mean SIA accuracy, models without names",
        "lower",
        table=Column(2, "SIA\nshuffled"),
        chance="remapped_sia_null",
        risk=Risk(
            "Source inference on models without names traces training examples to their "
            "owner with accuracy",
            41,
        ),
        clients=PerClient(
            "Source inference on models without names, accuracy for each client",
            ACCURACY,
            LOW,
            HIGH,
            "95 % binomial interval of one run's targets",
        ),
        reading="SIA shuffled: by chance, owners are permuted within classes",
        over_rounds="source_inference",
    ),
    rate("remapped_sia_null", SOURCE, "SIA by classes alone, models without names"),
)
