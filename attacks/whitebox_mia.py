"""White-box membership inference on clients' updates, by directions of gradients (as released by Zhao et al. 2025).

    feature_l(x, k) = cos( -grad_l CE(theta; x), (theta_k - theta)_l )     for each array l of the model theta that k was sent
    one client, the trainer, is the attacker's own. 30 times: hold out some of its examples, train theta on the rest;
        the features of examples trained on and held out, against this mock update, are the lessons
    a random forest of 200 trees learns member or not from the lessons
    and is asked about 50 training examples and 50 examples never trained on of every other client

Differences from the paper: it has no such attack, and of the released one no more is known here than the numbers above. The
rest is our reading: a mock update holds out half of at most 100 of the trainer's examples, its training is plain SGD,
and what a client never trained on are its own test examples, else the non-members tied to it, else those of nobody.

A limit to know: the forest's threshold is learned on the trainer. Where clients have other labels, or local training is unlike
the mock's, accuracy falls while the ranking of examples (``auc``) may still be good; and where only anybody's examples
can be set against a client's, their labels may give them away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attacks import Exposure
from attacks.metrics import disparity
from attacks.metrics.membership import measure
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Examples, Federation, Floats, Ints
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from algorithms.core.messages import Weights
    from algorithms.core.network import Network

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Stream = Callable[..., np.random.Generator]

STAGE = "updates"
AVERAGED = ("whitebox_accuracy", "whitebox_cov", "whitebox_eod")


class Config(SlotConfig):
    """Fields of the white-box attack; those named mock are the attacker's guess at how clients train."""

    # One attack takes a gradient for each attacked example and thirty short trainings.
    every: int = Field(10, ge=1, description="rounds from one attack to the next")
    trainer: int = Field(0, ge=0, description="the client whose examples the attacker knows and learns from")
    queries: int = Field(50, ge=1, description="members that are attacked of each client, and equally many non-members")
    mock_updates: int = Field(
        30, ge=1, le=1000, description="trainings on the trainer's examples, each without some of them"
    )
    mock_epochs: int = Field(1, ge=1, description="passes over the examples of one such training")
    # A cosine does not see how long an update is, so the rate matters little while it is small.
    mock_lr: float = Field(0.01, gt=0, le=100, description="learning rate of its plain SGD")
    mock_batch_size: int = Field(50, ge=1, description="examples per step; the last batch of a pass may be smaller")
    trees: int = Field(200, ge=1, le=10_000, description="trees of the random forest")


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    clients = run.data.config.clients
    if config.trainer >= clients:
        return [("trainer", f"there are {clients} clients, numbered from 0; got {config.trainer}")]
    if clients < 2:
        return [("", f"whitebox_mia learns on one client and attacks the others; got data.clients {clients}")]
    return []


def observe(
    config: Config,
    data: Federation,
    network: Network,
    sent: Sequence[Weights],
    assignment: Ints,
    params: Floats,
    buffers: Floats,
    clients: Sequence[int],
    stream: Stream,
) -> dict[str, NDArray[Any]]:
    """Features of the attacked examples of a block's c ``clients``, and the lessons where the trainer is among them.

    Returns ``members`` and ``nonmembers`` [c, queries, arrays], NaN beyond the examples that a client has, ``lessons``
    [m, arrays] and ``taught`` [m] (whether each was a member), with m = 0 in the other blocks. Raises DataError where no
    client but the trainer has an example that was not trained on, or the trainer has not two examples.
    """
    _check(config, data)
    arrays = len(network.layout.names)
    features = np.full((2, len(clients), config.queries, arrays), np.nan)
    lessons, taught = np.empty((0, arrays)), np.empty(0, bool)
    for i, client in enumerate(clients):
        start = sent[assignment[i]]
        if client == config.trainer:
            lessons, taught = _lessons(config, data.client(client), network, start, stream("attack_training", client))
            continue
        update = (params[i] - start.params)[None]
        network.load(start)
        for part, asked in zip(features, attacked_examples(config, data, client, stream), strict=True):
            part[i, : len(asked)] = cosines(network, asked, update)[:, 0]
    return {"members": features[0], "nonmembers": features[1], "lessons": lessons, "taught": taught}


def _check(config: Config, data: Federation) -> None:
    others = np.delete(np.arange(data.clients), config.trainer)
    if not any(len(_outside(data, int(client))[1]) for client in others):
        raise DataError(f"{data.name} has no example that could be set against the members of a client; hold some out")
    if data.sizes[config.trainer] < 2:
        raise DataError(f"whitebox_mia needs 2 training examples or more of client {config.trainer}, its trainer")


def attacked_examples(config: Config, data: Federation, client: int, stream: Stream) -> tuple[Examples, Examples]:
    """Members and non-members of ``client``, ready for the model: equally many, the same in every round."""
    rng = stream("attack_targets", client, 1)
    tested, outside = _outside(data, client)
    size = min(config.queries, int(data.sizes[client]), len(outside))
    inside = np.sort(rng.choice(int(data.sizes[client]), size, replace=False))
    outside = np.sort(rng.choice(outside, size, replace=False))
    if tested:
        return data.client(client)[inside], data.test[outside]
    stored = data.nonmembers[outside]
    strengths = data.draw_strengths(np.full(size, client), rng)
    return data.client(client)[inside], Examples(data.prepare(stored.x, strengths), stored.y)


def _outside(data: Federation, client: int) -> tuple[bool, Ints]:
    """Places of examples that ``client`` never trained on, and whether they are places in the test set: the client's
    own test examples if it has any, else the non-members tied to it, else those of nobody."""
    if (data.test_owner == client).any():
        return True, np.flatnonzero(data.test_owner == client)
    tied = data.nonmember_owner == client
    return False, np.flatnonzero(tied if tied.any() else data.nonmember_owner == NOBODY)


def cosines(network: Network, examples: Examples, updates: Floats) -> Doubles:
    """Cosine of each example's step downhill with each of ``updates`` [m, d], array by array: [n, m, arrays].

    The step is minus the gradient of the example's own loss at what ``network`` holds, in evaluation mode. Where either has
    no direction (or the update diverged) the cosine is 0.
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
    """The pieces of ``vectors`` [..., d] that are the model's arrays."""
    return np.split(vectors, np.cumsum(network.layout.sizes)[:-1], axis=-1)


def _gradients(network: Network, examples: Examples) -> Iterator[Floats]:
    """The gradient [d] of each example's own loss; the array is filled anew for the next example."""
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
    """Features [m, arrays] of the trainer's examples ``own`` against mock updates, and whether each was trained on, [m]."""
    asked = np.sort(rng.choice(len(own), min(2 * config.queries, len(own)), replace=False))
    updates = np.empty((config.mock_updates, len(start.params)), np.float32)
    member = np.ones((len(asked), config.mock_updates), bool)
    for m in range(config.mock_updates):
        member[rng.permutation(len(asked))[: len(asked) // 2], m] = False
        trained_on = np.delete(np.arange(len(own)), asked[~member[:, m]])
        updates[m] = mock_update(config, own[trained_on], network, start, rng)
    network.load(start)
    features = cosines(network, own[asked], updates)
    return features.reshape(-1, features.shape[2]), member.ravel()


def mock_update(
    config: Config, examples: Examples, network: Network, start: Weights, rng: np.random.Generator
) -> Floats:
    """What a client with these ``examples`` would send, [d]: plain SGD from ``start``."""
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


def conclude(
    config: Config, data: Federation, observed: Mapping[str, NDArray[Any]], clients: Ints, round_: int, stream: Stream
) -> Exposure:
    """Learn from the lessons, then judge every other client who took part; all is NaN where the trainer did not."""
    accuracy, measures = np.full(data.clients, np.nan), []
    taught = observed["taught"]
    if len(taught):
        judge = forest(config, observed["lessons"], taught, stream("attack_training", config.trainer, round_))
        for i, client in enumerate(clients):
            asked = np.concatenate([observed["members"][i], observed["nonmembers"][i]])
            there = ~np.isnan(asked).any(axis=1)
            if there.any():
                member = (np.arange(len(asked)) < config.queries)[there]
                found = measure(judge(asked[there]) - 0.5, member)
                accuracy[client] = found["balanced_accuracy"]
                measures += [(f"client_{client}", metric, value) for metric, value in found.items()]
    known = accuracy[~np.isnan(accuracy)]
    metrics = dict.fromkeys(AVERAGED, float("nan"))
    if len(known):
        values = float(known.mean()), disparity.cov(known), disparity.eod(known)
        metrics = dict(zip(AVERAGED, values, strict=True))
    return Exposure(metrics, {"whitebox_accuracy": accuracy}, tuple(measures))


def forest(config: Config, lessons: Doubles, taught: Bools, rng: np.random.Generator) -> Callable[[Doubles], Doubles]:
    """A random forest as a function from features [n, arrays] to the share of trees [n] that say "member"."""
    from sklearn.ensemble import RandomForestClassifier

    seed = int(rng.integers(2**31))
    learned = RandomForestClassifier(config.trees, random_state=seed, n_jobs=1).fit(lessons, taught)
    return lambda features: learned.predict_proba(features)[:, list(learned.classes_).index(True)]


def final(config: Config, run: Any, rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """What is reported of the run: the means over the attacked rounds in which the trainer took part, None without any."""
    reported: dict[str, float | None] = {}
    for name in AVERAGED:
        known = [row[name] for row in rows if row.get(name) is not None and np.isfinite(row[name])]
        reported[name] = float(np.mean(known)) if known else None
    return reported
