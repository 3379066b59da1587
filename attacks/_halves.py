"""The examples that replicas of a run are trained on, and what the replicas say of them.

    held back for a client     the non-members held out from it, of each class no more than it trains on; if none were,
                               its share of the examples of nobody
    examples of nobody         the non-members of nobody and the server's shadow set, each for one client at most, by
                               class in proportion to the clients' training examples; for none if they come from people
                               other than the clients (`Federation.strangers`)
    a replica                  trains every client on a random half of its examples; the next replica on the other half

A replica is as large as the run if as many examples were held back for every client as it trains
on. It is half as large if none were.

In replicas, which example of a pool is in is drawn, so nothing but training tells. In the run it is
not drawn: what tells held-back examples from a client's own otherwise is taken for membership.
Hence the same classes, and no other people's examples. Where fewer examples of a class were held
back than trained on, this class is still the likelier to be in; and examples of nobody are matched
by class alone, so a client whose examples differ from theirs within a class is recognized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from algorithms.core.messages import Doubles, Weights
from algorithms.core.metric import Number, unknown, variant
from algorithms.interfaces import Problems
from attacks.interfaces import Answers, Exposure, HalvesAttack, Pool, Stream
from attacks.metrics import membership
from attacks.metrics.membership import Bools
from datasets.components import Component
from datasets.federation import Examples, Federation, Ints, joined
from datasets.roles import NOBODY, portions

if TYPE_CHECKING:
    from algorithms.core.network import Network

# Places of the stream "replicas", beside those of client inference (1 and 2).
HALVES = 3
HELD_BACK = 4
FEWEST = 2  # pairs; if replicas have diverged, an attack on fewer is not made


def confidence(network: Network, models: Sequence[Weights], pool: Pool, model: Ints) -> Doubles:
    """Return the confidence in the true class of the n examples of a pool, each in its ``model``
    [n]; NaN where it is -1.

    ``network`` afterwards holds one of the models.
    """
    confidences = np.full(len(pool.owner), np.nan)
    for j in np.unique(model[model >= 0]):
        network.load(models[j])
        examples = pool.examples[model == j]
        confidences[model == j] = membership.confidences(network.logits(examples.x), examples.y)
    return confidences


def rank_within(owner: Ints, draws: Doubles) -> Ints:
    """Return the place of each example among its client's, [n], in the order of ``draws`` [n]."""
    order = np.lexsort((draws, owner))
    sizes = np.bincount(owner)
    rank = np.empty(len(owner), np.int64)
    rank[order] = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner[order]]
    return rank


def conclude(
    attack: Component[HalvesAttack, Any], answers: Answers, rng: np.random.Generator
) -> Exposure:
    """Compute the result of an attack from the pairs of replicas of which neither has diverged,
    NaN in its confidences.

    They keep their order and numbers. With less than two pairs left, or if no client has trained,
    every metric is NaN.
    """
    attacked = answers.model >= 0
    whole = np.all(np.isfinite(answers.confidence[:, attacked]), axis=1).astype(bool)
    complete = np.repeat(whole[0::2] & whole[1::2], 2)
    lost = int((~complete).sum()) // 2
    diverged = Number("diverged_pairs", float(lost), variant("replicas"))
    if not attacked.any() or (lost and int(complete.sum()) < 2 * FEWEST):
        return Exposure(unknown(attack.module.METRICS), measures=(diverged,))
    numbers = np.arange(len(complete)) if answers.numbers is None else answers.numbers
    by_replica = {"inside": answers.inside, "confidence": answers.confidence, "numbers": numbers}
    left = replace(answers, **{name: array[complete] for name, array in by_replica.items()})
    exposure = attack.module.judge(attack.config, left, rng)
    return replace(exposure, measures=(*exposure.measures, diverged))


def pool(config: Any, data: Federation, stream: Stream) -> Pool:
    """Return the examples that replicas are trained on.

    Held-back examples are taken in: as many as there are (``pool: auto``), exactly as many as every
    client trains on (``matched``), or none (``training``).
    """
    rng = stream("replicas", 0, HELD_BACK)
    rows, client = (
        (np.empty(0, np.int64),) * 2 if config.pool == "training" else partition(data, rng)
    )
    stored = _held_back(data)[rows]
    strengths = data.draw_strengths(client, rng)
    x = [data.train.x] + ([data.prepare(stored.x, strengths)] if len(rows) else [])
    owner = np.concatenate([data.owner(), client])
    order = np.argsort(owner, kind="stable")  # every client's training examples come first
    # Of an odd number of examples the last is left out, one that was held back if there is any.
    ends = np.cumsum(sizes := np.bincount(owner, minlength=data.clients))
    order = np.delete(order, ends[sizes % 2 == 1] - 1)
    place = np.concatenate([np.arange(len(data.train)), len(data.train) + rows])
    return Pool(
        examples=Examples(
            np.concatenate(x)[order], np.concatenate([data.train.y, stored.y])[order]
        ),
        owner=owner[order],
        trained=order < len(data.train),
        strengths=np.concatenate([data.example_strengths, strengths]).astype(np.float32)[order],
        place=place[order],
    )


def partition(data: Federation, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Partition held-back examples among the clients: for none more of a class than it trains
    on, and none twice.

    Returns the positions of the examples among all that were held back, the non-members first, then
    the shadow set; and the client of each.
    """
    holder = np.concatenate([data.nonmember_owner, np.full(len(data.shadow), NOBODY)])
    labels = _held_back(data).y
    rows = [np.empty(0, np.int64)]
    clients = [np.empty(0, np.int64)]
    for client in np.unique(data.nonmember_owner[data.nonmember_owner != NOBODY]).tolist():
        order = rng.permutation(np.flatnonzero(holder == client))
        trained = np.bincount(data.client(client).y, minlength=data.classes)
        chosen = np.concatenate(
            [order[labels[order] == label][:count] for label, count in enumerate(trained.tolist())]
        )
        rows.append(np.sort(chosen))
        clients.append(np.full(len(chosen), client))
    needy = ~np.isin(np.arange(data.clients), data.nonmember_owner)
    for label in range(0 if data.strangers else data.classes):
        needs = np.array(
            [(data.client(c).y == label).sum() if needy[c] else 0 for c in range(data.clients)]
        )
        free = rng.permutation(np.flatnonzero((holder == NOBODY) & (labels == label)))
        if needs.sum() and len(free):
            shares = portions(needs, min(len(free), int(needs.sum())))
            rows.append(free[: shares.sum()])
            clients.append(np.repeat(np.arange(data.clients), shares))
    return np.concatenate(rows), np.concatenate(clients)


def _held_back(data: Federation) -> Examples:
    """Return all stored examples that nobody trains on: the non-members, then the shadow set."""
    return joined(
        [part for part in (data.nonmembers, data.shadow) if len(part)] or [data.nonmembers]
    )


def data_problems(config: Any, data: Federation) -> Problems:
    """Return why the clients' examples cannot be halved: (field, sentence) pairs."""
    sizes = np.zeros(data.clients, np.int64)
    if config.pool != "training":
        sizes = np.bincount(partition(data, np.random.default_rng(0))[1], minlength=data.clients)
    small = data.sizes + sizes < 2
    if small.any():
        client = int(np.argmax(small))
        sentence = (
            "every client needs 2 examples or more, half of which a replica trains on; "
            f"client {client} of {data.name} has {data.sizes[client] + sizes[client]}. Raise "
            "data.examples_per_client"
        )
    elif config.pool == "matched" and (short := sizes < data.sizes).any():
        client = int(np.argmax(short))
        sentence = (
            "matched needs as many held-back examples as every client trains on, of the same "
            f"classes and not of other people; client {client} of {data.name} trains on "
            f"{data.sizes[client]} and has {sizes[client]}. Lower data.examples_per_client, "
            "hold more out where the data set has examples left, or set pool: auto"
        )
    else:
        return []
    return [("pool", sentence)]


def halves(config: Any, pool: Pool, stream: Stream) -> Bools:
    """Return which examples each replica is trained on, [replicas, n]: of every client half, the
    rest in the next one.

    Replicas 2i and 2i + 1 are complementary.
    """
    half = np.bincount(pool.owner)[pool.owner] // 2
    draws = (
        stream("replicas", pair, HALVES).random(len(pool)) for pair in range(config.replicas // 2)
    )
    first = [rank_within(pool.owner, draw) < half for draw in draws]
    return np.stack([side for inside in first for side in (inside, ~inside)])
