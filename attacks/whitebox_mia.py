"""White-box membership inference on clients' updates, by directions of gradients (as released by
Zhao et al. 2025).

    feature_l(x, k) = cos( -grad_l CE(theta; x), (theta_k - theta)_l )     for each array l of the model theta sent to k
    one client, the trainer, belongs to the attacker. 30 times, with other random numbers: repeat its local training in
        this round, from the theta that it was sent; the features of its training examples (members) and of examples
        held out from it (non-members) against this mock update are the attack's training data, the lessons
    a random forest of 200 trees learns from them to separate members from non-members
    and is queried with 50 training examples and 50 examples never trained on of every other client

The lessons mirror what the forest is asked later. The members of an attacked client were trained on
in its update and, in earlier rounds, in theta; its non-members in neither. So a mock update is made
on all of the trainer's examples and not on a part of them: whatever the trainer left out now, theta
would know from earlier rounds. It is made by the run's own engine, with the run's optimizer,
epochs, objective, DP-SGD and augmentation, and the trainer's own optimizer state.

Differences from the paper: the paper has no such attack, and of the released one only the numbers
above are known to us. The rest is our reading. A mock update repeats the trainer's training with
all of its examples. The lessons are about 50 members and 50 non-members of the trainer, the same in
every round. The non-members of a client are its own test examples, else the non-members held out
from it, else those that belong to nobody; if the trainer can only have those of nobody, 50 of them
(at most half) are reserved for it, and no other client is compared with these.

A limitation: the forest's threshold is learned on the trainer. If clients have other labels or more
examples than it, accuracy may fall although the ranking of examples (``auc``) is still good. If a
client can only be compared with examples of nobody, their labels may reveal that they are
non-members. And where local training draws no random numbers (a single batch, no noise), all mock
updates are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.messages import Doubles
from algorithms.core.metric import (
    MEMBERSHIP,
    Column,
    Number,
    PerClient,
    Risk,
    magnitude,
    of_client,
    rate,
    unknown,
)
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from attacks._queries import transformed
from attacks.interfaces import Exposure, SeenRound, SeenUpdates, Stream
from attacks.metrics import disparity, membership
from attacks.metrics.client_auc import by_chance
from attacks.metrics.membership import FEWEST_NONMEMBERS, Bools
from attacks.metrics.over_rounds import means_over_rounds
from attacks.metrics.success import Success
from datasets.components import Config as SlotConfig
from datasets.federation import Examples, Federation, Floats, Ints
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from algorithms.core.network import Network

KINDS = ("updates",)
ASKS = "was this example trained on?"
PAPERS = {
    "Nasr 2019": "https://arxiv.org/abs/1812.00910",
    "FinP": "https://arxiv.org/abs/2502.17748",
}


class Config(SlotConfig):
    """Fields of the white-box attack."""

    # One attack costs a gradient for each attacked example, and the trainer's local training thirty
    # times over.
    every: int = Field(10, ge=1, description="rounds from one attack to the next")
    trainer: int = Field(
        0, ge=0, description="the client whose examples the attacker holds and learns from"
    )
    queries: int = Field(
        50,
        ge=membership.FEWEST_NONMEMBERS,
        description="attacked members of each client, and as many non-members, at most",
    )
    mock_updates: int = Field(
        30,
        ge=1,
        le=1000,
        description="repetitions of the trainer's local training that the attack learns from",
    )
    trees: int = Field(200, ge=1, le=10_000, description="trees of the random forest")


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence)
    pairs.
    """
    clients = run.data.config.clients
    if config.trainer >= clients:
        return [("trainer", f"there are {clients} clients, numbered from 0; got {config.trainer}")]
    if clients < 2:
        return [
            (
                "",
                "whitebox_mia learns on one client and attacks the others; got "
                f"data.clients {clients}",
            )
        ]
    return []


def observe(config: Config, seen: SeenUpdates) -> dict[str, NDArray[Any]]:
    """Compute the features of a block's attacked examples, and the attack's training data if the
    trainer is there.

    Returns:
        ``members`` and ``nonmembers`` [c, most queries, arrays] of the c clients, NaN beyond the
        examples that a client has; ``lessons`` [m, arrays], the features of the training data, and
        ``taught`` [m], whether each was a member; m is 0 in the other blocks.
    """
    data = seen.data
    network = seen.network
    arrays = len(network.layout.names)
    most = max(int(data.sizes.max()), len(data.nonmembers))
    features = np.full((2, len(seen.clients), min(config.queries, most), arrays), np.nan)
    lessons = np.empty((0, arrays))
    taught = np.empty(0, bool)
    for i, client in enumerate(seen.clients):
        start = seen.sent[seen.assignment[i]]
        examples = attacked_examples(config, data, client, seen.stream)
        updates = (
            mock_updates(config, seen, i)
            if client == config.trainer
            else (seen.params[i] - start.params)[None]
        )
        network.load(start)
        directions = [cosines(network, part, updates) for part in examples]
        if client == config.trainer:
            lessons = np.concatenate(directions).reshape(-1, arrays)
            taught = np.repeat([True, False], [len(updates) * len(part) for part in examples])
            continue
        for side, part in zip(features, directions, strict=True):
            side[i, : len(part)] = part[:, 0]
    return {"members": features[0], "nonmembers": features[1], "lessons": lessons, "taught": taught}


def mock_updates(config: Config, seen: SeenUpdates, position: int) -> Floats:
    """Repeat the trainer's local training, each time with random numbers of its own, those of
    the round included.

    ``position`` is that of the trainer in its block. Returns changes [mock_updates, d] of the
    parameters that it was sent.
    """
    start = seen.sent[seen.assignment[position]].params
    updates = np.empty((config.mock_updates, len(start)), np.float32)
    for m in range(config.mock_updates):

        def stream(purpose: str, client: int, m: int = m) -> np.random.Generator:
            return seen.stream("attack_training", client, seen.round, m, crc32(purpose.encode()))

        updates[m] = seen.train_again(position, stream) - start
    return updates


def cosines(network: Network, examples: Examples, updates: Floats) -> Doubles:
    """Compute the cosines [n, m, arrays] of each example's gradient step and each update, for
    each of the model's arrays.

    The step is minus the gradient of the example's own loss at the weights that ``network`` holds,
    those that were sent to the client, in evaluation mode; updates [m, d] are changes of the
    parameters. The cosine is 0 if either vector is 0 or not finite.
    """
    angles = np.zeros((len(examples), len(updates), len(network.layout.names)))

    def by_array(vectors: Floats) -> list[Floats]:
        return np.split(vectors, np.cumsum(network.layout.sizes)[:-1], axis=-1)

    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.stack([np.linalg.norm(update, axis=1) for update in by_array(updates)], axis=1)
        every = (
            each
            for few in network.example_gradients(examples.x, examples.y)
            for each in few.cpu().numpy()
        )
        for row, gradients in zip(angles, every, strict=True):
            for array, (update, gradient) in enumerate(
                zip(by_array(updates), by_array(gradients), strict=True)
            ):
                length = lengths[:, array] * np.linalg.norm(gradient)
                np.divide(
                    -(update @ gradient),
                    length,
                    out=row[:, array],
                    where=np.isfinite(length) & (length > 0),
                )
    return np.clip(np.nan_to_num(angles), -1, 1)


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Train the forest and attack every other client that took part; all metrics are NaN if the
    trainer did not.
    """
    observed = seen.observed
    measures = list[Number]()
    accuracy, variance = np.full((2, seen.data.clients), np.nan)
    taught = observed["taught"]
    if len(taught):
        judge = forest(
            config,
            observed["lessons"],
            taught,
            seen.stream("attack_training", config.trainer, seen.round),
        )
        for i, client in enumerate(seen.clients):
            features = np.concatenate([observed["members"][i], observed["nonmembers"][i]])
            there = ~np.isnan(features).any(axis=1)
            if not there.any():
                continue
            member = (np.arange(len(features)) < len(observed["members"][i]))[there]
            score = judge(features[there]) - 0.5
            rng = seen.stream("resampling", client, seen.round)
            success = Success.of(score, member, rng)
            of = of_client(client)
            accuracy[client] = success.values["balanced_accuracy"]
            sides = (
                (success.values["tpr"], success.members),
                (success.values["tnr"], success.nonmembers),
            )
            variance[client] = sum(rate * (1 - rate) / max(size - 1, 1) for rate, size in sides) / 4
            measures += success.measures(of) + success.epsilons(of)
    accuracies = accuracy[~np.isnan(accuracy)]
    numbers = unknown(METRICS)
    if len(accuracies):
        apart = float(np.nanmean(variance)) ** 0.5  # of equally exposed clients
        null = by_chance(float(accuracies.mean()), apart, len(accuracies))
        numbers = (
            Number("whitebox_accuracy", float(accuracies.mean())),
            Number("whitebox_cov", float(disparity.cov(accuracies)), chance=null["cov"]),
            Number("whitebox_eod", float(disparity.eod(accuracies)), chance=null["eod"]),
        )
    return Exposure(numbers, {"whitebox_accuracy": accuracy}, tuple(measures))


def forest(
    config: Config, lessons: Doubles, taught: Bools, rng: np.random.Generator
) -> Callable[[Doubles], Doubles]:
    """Train a forest on features [m, arrays] of members and others; it returns the share of
    trees that say "member" [n].
    """
    from sklearn.ensemble import RandomForestClassifier

    seed = int(rng.integers(2**31))
    learned = RandomForestClassifier(config.trees, random_state=seed, n_jobs=1).fit(lessons, taught)
    return lambda features: learned.predict_proba(features)[:, list(learned.classes_).index(True)]


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the means over the attacked rounds in which the trainer took part; None if there
    are none.
    """
    return means_over_rounds(outcome, METRICS)


def attacked_examples(
    config: Config, data: Federation, client: int, stream: Stream
) -> tuple[Examples, Examples]:
    """Draw members and non-members of ``client``, ready for the model: equally many, and the
    same in every round.

    Those of the trainer are what the attack learns from.
    """
    rng = stream("attack_targets", client, 1)
    members = data.client(client)
    in_test_set, outside = held_out(config, data, client, stream)
    size = min(config.queries, len(members), len(outside))
    inside = np.sort(rng.choice(len(members), size, replace=False))
    outside = np.sort(rng.choice(outside, size, replace=False))
    others = (
        data.test[outside]
        if in_test_set
        else transformed(data, data.nonmembers[outside], client, rng)
    )
    return members[inside], others


def held_out(config: Config, data: Federation, client: int, stream: Stream) -> tuple[bool, Ints]:
    """Return whether the non-members of ``client`` are in the test set, and their positions
    there or among all non-members.

    Of the examples of nobody, the trainer gets some for itself, no more than half if other clients
    need them as well; none if it held out some of its own.
    """
    if (data.test_owner == client).any():
        return True, np.flatnonzero(data.test_owner == client)
    if (data.nonmember_owner == client).any():
        return False, np.flatnonzero(data.nonmember_owner == client)
    pool = np.flatnonzero(data.nonmember_owner == NOBODY)
    needy = np.setdiff1d(
        np.arange(data.clients), np.concatenate([data.test_owner, data.nonmember_owner])
    )
    available = len(pool) // 2 if len(needy) > 1 else len(pool)
    size = min(config.queries, available) if config.trainer in needy else 0
    reserved = stream("attack_targets", config.trainer, 2).choice(pool, size, replace=False)
    return False, np.sort(reserved) if client == config.trainer else np.setdiff1d(pool, reserved)


def data_problems(config: Config, data: Federation) -> Problems:
    """List why the attack cannot be made on ``data``: (field, sentence) pairs."""
    trainer = config.trainer
    fewest = FEWEST_NONMEMBERS

    def available(client: int) -> int:  # which examples are drawn is of no account here
        return len(held_out(config, data, client, lambda *_place: np.random.default_rng(0))[1])

    others = (client for client in range(data.clients) if client != trainer)
    if data.sizes[trainer] < fewest:
        sentence = (
            f"whitebox_mia learns on client {trainer}, which has {data.sizes[trainer]} "
            f"training examples; it needs {fewest}: set trainer to a client with more"
        )
    elif available(trainer) < fewest:
        sentence = (
            f"whitebox_mia needs {fewest} examples that nobody trains on to learn from, "
            f"beside those that it asks about, but {data.name} has only {available(trainer)} "
            f"for client {trainer}, its trainer; hold more out, or set another one"
        )
    elif not any(min(available(client), data.sizes[client]) >= fewest for client in others):
        sentence = (
            f"whitebox_mia needs a client besides its trainer {trainer} with {fewest} "
            f"training examples and {fewest} that nobody trains on; {data.name} has none: "
            "hold more out"
        )
    else:
        return []
    return [("trainer", sentence)]


# What is measured, and how it is shown

METRICS = (
    rate(
        "whitebox_accuracy",
        MEMBERSHIP,
        "white-box MIA accuracy",
        "lower",
        live=2,
        table=Column(2, "white-box\nMIA"),
        chance=0.5,
        risk=Risk("A white-box attack tells training examples from others with accuracy", 30),
        clients=PerClient("White-box membership inference against each client, accuracy"),
    ),
    magnitude(
        "whitebox_cov", MEMBERSHIP, "CoV of white-box MIA", "lower", "", chance="whitebox_cov_null"
    ),
    rate("whitebox_eod", MEMBERSHIP, "EOD of white-box MIA", "lower", chance="whitebox_eod_null"),
)
