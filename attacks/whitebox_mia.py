"""White-box membership inference on clients' updates, by directions of gradients (as released by Zhao et al. 2025).

    feature_l(x, k) = cos( -grad_l CE(theta; x), (theta_k - theta)_l )     for each array l of the model theta sent to k
    one client, the trainer, belongs to the attacker. 30 times: hold out some of its examples, train theta on the rest;
        the features of trained-on and held-out examples against this mock update are the attack's training data
    a random forest of 200 trees learns from them to separate members from non-members
    and is queried with 50 training examples and 50 examples never trained on of every other client

Differences from the paper: the paper has no such attack, and of the released one only the numbers above are known to
us. The rest is our reading: a mock update holds out half of at most 100 of the trainer's examples; its training is
plain SGD; and the non-members of a client are its own test examples, else the non-members held out from it, else those
that belong to nobody.

A limitation: the forest's threshold is learned on the trainer. If clients have other labels, or their local training is
unlike the mock training, accuracy falls although the ranking of examples (``auc``) may still be good. If a client can
only be compared with examples of nobody, their labels may reveal that they are non-members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.metric import MEMBERSHIP, Column, Metric
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from attacks.interfaces import Exposure, Measure, SeenRound, SeenUpdates, Stream
from attacks.metrics import disparity, intervals, membership
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Examples, Federation, Floats, Ints
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from algorithms.core.messages import Weights
    from algorithms.core.network import Network

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]

KINDS = ("updates",)
AVERAGED = ("whitebox_accuracy", "whitebox_cov", "whitebox_eod")
METRICS = (
    Metric(
        "whitebox_accuracy",
        MEMBERSHIP,
        "white-box MIA accuracy",
        "lower",
        live=2,
        table=Column(2, "white-box\nMIA"),
        chance=0.5,
    ),
    Metric("whitebox_cov", MEMBERSHIP, "CoV of white-box MIA", "lower", ""),
    Metric("whitebox_eod", MEMBERSHIP, "EOD of white-box MIA", "lower"),
)


class Config(SlotConfig):
    """Fields of the white-box attack; those named mock are the attacker's guess of how clients train."""

    # One attack costs a gradient for each attacked example and thirty short trainings.
    every: int = Field(10, ge=1, description="rounds from one attack to the next")
    trainer: int = Field(0, ge=0, description="the client whose examples the attacker holds and learns from")
    queries: int = Field(
        50,
        ge=membership.FEWEST_NONMEMBERS,
        description="attacked members of each client, and as many non-members, at most",
    )
    mock_updates: int = Field(
        30, ge=1, le=1000, description="mock trainings on the trainer's examples, each of which holds out some"
    )
    mock_epochs: int = Field(1, ge=1, description="passes over the examples in one mock training")
    # A cosine ignores the length of an update, so the learning rate matters little as long as it is small.
    mock_lr: float = Field(0.01, gt=0, le=100, description="learning rate of the mock training, which is plain SGD")
    mock_batch_size: int = Field(50, ge=1, description="examples per step; the last batch of a pass may be smaller")
    trees: int = Field(200, ge=1, le=10_000, description="trees of the random forest")


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence) pairs."""
    clients = run.data.config.clients
    if config.trainer >= clients:
        return [("trainer", f"there are {clients} clients, numbered from 0; got {config.trainer}")]
    if clients < 2:
        return [("", f"whitebox_mia learns on one client and attacks the others; got data.clients {clients}")]
    return []


def observe(config: Config, seen: SeenUpdates) -> dict[str, NDArray[Any]]:
    """Compute the features of a block's attacked examples, and the attack's training data if the trainer is there.

    Returns:
        ``members`` and ``nonmembers`` [c, queries, arrays] of the c clients, NaN beyond the examples that a client has;
        ``lessons`` [m, arrays], the features of the training data, and ``taught`` [m], whether each was a member; m is
        0 in the other blocks.

    Raises:
        DataError: no other client has an example that was not trained on, or the trainer has fewer than two examples.
    """
    data, network, stream = seen.data, seen.network, seen.stream
    _check(config, data)
    arrays = len(network.layout.names)
    features = np.full((2, len(seen.clients), config.queries, arrays), np.nan)
    lessons, taught = np.empty((0, arrays)), np.empty(0, bool)
    for i, client in enumerate(seen.clients):
        start = seen.sent[seen.assignment[i]]
        if client == config.trainer:
            lessons, taught = _lessons(config, data.client(client), network, start, stream("attack_training", client))
            continue
        update = (seen.params[i] - start.params)[None]
        network.load(start)
        for part, examples in zip(features, attacked_examples(config, data, client, stream), strict=True):
            part[i, : len(examples)] = cosines(network, examples, update)[:, 0]
    return {"members": features[0], "nonmembers": features[1], "lessons": lessons, "taught": taught}


def _check(config: Config, data: Federation) -> None:
    others = np.delete(np.arange(data.clients), config.trainer)
    if not any(len(_outside(data, int(client))[1]) for client in others):
        raise DataError(f"{data.name} has no example that could serve as a non-member for a client; hold some out")
    if data.sizes[config.trainer] < 2:
        raise DataError(f"whitebox_mia needs 2 training examples or more of client {config.trainer}, its trainer")


def attacked_examples(config: Config, data: Federation, client: int, stream: Stream) -> tuple[Examples, Examples]:
    """Draw members and non-members of ``client``, ready for the model: equally many, and the same in every round."""
    rng = stream("attack_targets", client, 1)
    in_test_set, outside = _outside(data, client)
    size = min(config.queries, int(data.sizes[client]), len(outside))
    inside = np.sort(rng.choice(int(data.sizes[client]), size, replace=False))
    outside = np.sort(rng.choice(outside, size, replace=False))
    if in_test_set:
        return data.client(client)[inside], data.test[outside]
    stored = data.nonmembers[outside]
    strengths = data.draw_strengths(np.full(size, client), rng)
    return data.client(client)[inside], Examples(data.prepare(stored.x, strengths), stored.y)


def _outside(data: Federation, client: int) -> tuple[bool, Ints]:
    """Find the examples that ``client`` never trained on.

    They are the client's own test examples if it has any, else the non-members held out from it, else those of nobody.

    Returns:
        Whether they are in the test set (and not among the non-members), and their positions there.
    """
    if (data.test_owner == client).any():
        return True, np.flatnonzero(data.test_owner == client)
    own = data.nonmember_owner == client
    return False, np.flatnonzero(own if own.any() else data.nonmember_owner == NOBODY)


def cosines(network: Network, examples: Examples, updates: Floats) -> Doubles:
    """Compute the cosine between each example's gradient step and each update, for each of the model's arrays.

    The step is minus the gradient of the example's own loss at the weights that ``network`` holds, in evaluation mode.
    The cosine is 0 if either vector is 0 or not finite.

    Args:
        network: holds the weights that were sent to the client.
        examples: n examples, ready for the model.
        updates: [m, d] changes of the parameters.

    Returns:
        [n, m, arrays].
    """
    found = np.zeros((len(examples), len(updates), len(network.layout.names)))
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.stack([np.linalg.norm(own, axis=1) for own in _by_array(network, updates)], axis=1)
        for row, gradient in zip(found, _gradients(network, examples), strict=True):
            pieces = zip(_by_array(network, updates), _by_array(network, gradient), strict=True)
            for array, (own, gradient) in enumerate(pieces):
                length = lengths[:, array] * np.linalg.norm(gradient)
                np.divide(-(own @ gradient), length, out=row[:, array], where=np.isfinite(length) & (length > 0))
    return np.clip(np.nan_to_num(found), -1, 1)


def _by_array(network: Network, vectors: Floats) -> list[Floats]:
    """Split ``vectors`` [..., d] into the pieces that are the model's arrays."""
    return np.split(vectors, np.cumsum(network.layout.sizes)[:-1], axis=-1)


def _gradients(network: Network, examples: Examples) -> Iterator[Floats]:
    """Yield the gradient [d] of each example's own loss; the array is overwritten for the next example."""
    from torch.nn.functional import cross_entropy

    from algorithms.core.network import as_tensor

    network.module.eval()
    inputs, labels = network.inputs(examples.x), as_tensor(examples.y).to(network.device)
    for i in range(len(examples)):
        network.grads.zero_()
        cross_entropy(network.module(inputs[i : i + 1]), labels[i : i + 1]).backward()
        yield network.grads.cpu().numpy()


def _lessons(
    config: Config, own: Examples, network: Network, start: Weights, rng: np.random.Generator
) -> tuple[Doubles, Bools]:
    """Make the attack's training data from the trainer's examples ``own`` and mock updates.

    Returns:
        Features [m, arrays], and whether each example was trained on, [m].
    """
    chosen = np.sort(rng.choice(len(own), min(2 * config.queries, len(own)), replace=False))
    updates = np.empty((config.mock_updates, len(start.params)), np.float32)
    member = np.ones((len(chosen), config.mock_updates), bool)
    for m in range(config.mock_updates):
        member[rng.permutation(len(chosen))[: len(chosen) // 2], m] = False
        trained_on = np.delete(np.arange(len(own)), chosen[~member[:, m]])
        updates[m] = mock_update(config, own[trained_on], network, start, rng)
    network.load(start)
    features = cosines(network, own[chosen], updates)
    return features.reshape(-1, features.shape[2]), member.ravel()


def mock_update(
    config: Config, examples: Examples, network: Network, start: Weights, rng: np.random.Generator
) -> Floats:
    """Return the update [d] that a client with these ``examples`` would send: plain SGD from ``start``.

    Args:
        config: the component's fields.
        examples: the examples to train on, ready for the model.
        network: provides the torch module.
        start: the weights before training.
        rng: draws the order of the examples.
    """
    from torch.nn.functional import cross_entropy

    from algorithms.core.network import as_tensor

    network.load(start)
    network.module.train()
    labels = as_tensor(examples.y).to(network.device)
    for _ in range(config.mock_epochs):
        order = rng.permutation(len(examples))
        for at in range(0, len(order), config.mock_batch_size):
            batch = order[at : at + config.mock_batch_size]
            network.grads.zero_()
            cross_entropy(network.module(network.inputs(examples.x[batch])), labels[batch]).backward()
            network.params.add_(network.grads, alpha=-config.mock_lr)
    return network.weights().params - start.params


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Train the forest and attack every other client that took part; all metrics are NaN if the trainer did not."""
    observed, measures = seen.observed, []
    accuracy = np.full(seen.data.clients, np.nan)
    taught = observed["taught"]
    if len(taught):
        judge = forest(config, observed["lessons"], taught, seen.stream("attack_training", config.trainer, seen.round))
        for i, client in enumerate(seen.clients):
            features = np.concatenate([observed["members"][i], observed["nonmembers"][i]])
            there = ~np.isnan(features).any(axis=1)
            if there.any():
                member = (np.arange(len(features)) < config.queries)[there]
                score = judge(features[there]) - 0.5
                found = membership.measure(score, member)
                ranges = intervals.intervals(score, member, seen.stream("resampling", client, seen.round))
                accuracy[client] = found["balanced_accuracy"]
                measures += [
                    Measure(
                        f"client_{client}",
                        metric,
                        value,
                        *ranges[metric],
                        membership.CHANCE.get(metric, membership.NAN),
                    )
                    for metric, value in found.items()
                ]
    accuracies = accuracy[~np.isnan(accuracy)]
    metrics = dict.fromkeys(AVERAGED, float("nan"))
    if len(accuracies):
        values = float(accuracies.mean()), disparity.cov(accuracies), disparity.eod(accuracies)
        metrics = dict(zip(AVERAGED, values, strict=True))
    return Exposure(metrics, {"whitebox_accuracy": accuracy}, tuple(measures))


def forest(config: Config, lessons: Doubles, taught: Bools, rng: np.random.Generator) -> Callable[[Doubles], Doubles]:
    """Train a random forest on the attack's training data.

    Args:
        config: the component's fields.
        lessons: [m, arrays] features.
        taught: [m] whether each was a member.
        rng: draws the forest's seed.

    Returns:
        A function from features [n, arrays] to the share of trees [n] that say "member".
    """
    from sklearn.ensemble import RandomForestClassifier

    seed = int(rng.integers(2**31))
    learned = RandomForestClassifier(config.trees, random_state=seed, n_jobs=1).fit(lessons, taught)
    return lambda features: learned.predict_proba(features)[:, list(learned.classes_).index(True)]


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return the means over the attacked rounds in which the trainer took part; None if there are none."""
    reported: Metrics = {}
    for name in AVERAGED:
        values = [row[name] for row in outcome.rows if row.get(name) is not None and np.isfinite(row[name])]
        reported[name] = float(np.mean(values)) if values else None
    return reported
