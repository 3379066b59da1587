"""Times attacks beside a network that does not compute: it counts what it is asked for, and answers at random.

So an attack's own work is timed in full, while the passes through the network and the local trainings that the attack
repeats, which may take hours, are counted and multiplied by the seconds of a single one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from algorithms.core.messages import Floats, Ints
from algorithms.core.network import GRADIENTS_AT_ONCE, Network
from attacks.interfaces import Answers, AttackedModel, Cluster, SeenRound, SeenUpdates
from datasets.federation import Federation
from orchestrator.estimates.speeds import Bench, own
from orchestrator.estimates.stopwatch import grow, seconds_of
from orchestrator.trial import halves_tasks
from orchestrator.trial.attack_round import AttackComponent

MOST_AT_ONCE = 64
MOST_REPLICAS = 64  # whose made-up answers are judged


class CountingNetwork(Network):
    """A network that answers at random and counts the examples that it is shown.

    Attributes:
        shown: examples without a gradient.
        steps: batches with a gradient.
        learned: examples in these batches.
        trainings: repetitions of a client's local training.
        trained: training examples of the clients, one for each repetition, added up.
    """

    def __init__(self, model: Any, shape: tuple[int, ...], classes: int) -> None:
        """Build the network, for its arrays, and put the counter before it."""
        super().__init__(model, shape, classes)
        self.reset()
        self.module = _Counter(self, classes)

    def reset(self) -> None:
        """Begin to count anew."""
        self.shown = self.steps = self.learned = self.trainings = self.trained = 0

    def example_gradients(self, x: Floats, y: np.ndarray) -> Iterator[torch.Tensor]:  # noqa: ARG002
        """Count the examples, as one batch or, with convolutions, as a batch each, and yield zeros [b, d]."""
        for part in torch.as_tensor(y).split(max(1, GRADIENTS_AT_ONCE // self.layout.size) if self.dense else 1):
            self.steps += 1
            self.learned += len(part)
            yield torch.zeros(len(part), self.layout.size)


class _Counter(nn.Module):
    def __init__(self, network: CountingNetwork, classes: int) -> None:
        super().__init__()
        self.real, self.classes = network.module, classes
        self.counts = [network]  # in a list, so that torch does not take it for a part of the module
        self.random = torch.Generator().manual_seed(0)

    def forward(self, x: torch.Tensor, **_options: Any) -> torch.Tensor:
        learns = torch.is_grad_enabled()
        _note(self.counts[0], len(x), learns)
        answer = torch.randn(len(x), self.classes, generator=self.random)
        return answer + 0 * next(self.real.parameters()).sum() if learns else answer


def _note(network: CountingNetwork, examples: int, learns: bool) -> None:
    network.shown += 0 if learns else examples
    network.steps += learns
    network.learned += examples if learns else 0


@dataclass(frozen=True)
class AttackWork:
    """What a piece of an attack does.

    Attributes:
        seconds: of its own work, without passes through the network and trainings.
        shown: examples that the network is queried with.
        steps: batches of which it takes a gradient.
        learned: examples in these batches.
        trainings: repetitions of a client's local training; `total` leaves them out.
        trained: training examples of the clients, one for each repetition, added up.
    """

    seconds: float = 0.0
    shown: float = 0.0
    steps: float = 0.0
    learned: float = 0.0
    trainings: float = 0.0
    trained: float = 0.0

    def __add__(self, other: AttackWork) -> AttackWork:
        return AttackWork(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def __mul__(self, times: float) -> AttackWork:
        return AttackWork(*(times * value for value in _values(self)))

    def __sub__(self, other: AttackWork) -> AttackWork:
        return AttackWork(*(max(0.0, a - b) for a, b in zip(_values(self), _values(other), strict=True)))

    def total(self, evaluation: float, gradient: tuple[float, float]) -> float:
        """Return its seconds without the repeated trainings.

        Args:
            evaluation: seconds of a pass for an example.
            gradient: seconds of a batch with a gradient, and of each example in it.
        """
        return self.seconds + self.shown * evaluation + self.steps * gradient[0] + self.learned * gradient[1]


def _values(work: AttackWork) -> tuple[float, ...]:
    return work.seconds, work.shown, work.steps, work.learned, work.trainings, work.trained


def counted(network: CountingNetwork, action: Any) -> AttackWork:
    """Do ``action`` and return what it did."""
    network.reset()
    seconds = seconds_of(action)
    return AttackWork(seconds, network.shown, network.steps, network.learned, network.trainings, network.trained)


def counting(bench: Bench) -> CountingNetwork:
    """Return the counting counterpart of the network."""
    return CountingNetwork(bench.run.model, bench.data.shape, bench.data.classes)


def observation(bench: Bench, attack: AttackComponent, blocks: int) -> AttackWork:
    """Return the work of one attack on the updates of a round.

    It is observed on one and on two clients. What the second adds is the work of a client, what is left of the first is
    that of a block, and what the attack does for its own client (the trainer of ``whitebox_mia``) is done once.

    Args:
        bench: the run and its data.
        attack: the attack.
        blocks: number of blocks of clients.

    Raises:
        DataError: the data are unsuitable for the attack.
    """
    network, clients, weights = counting(bench), bench.data.clients, bench.start()
    special = attack.module.trainer(attack.config) or 0
    seen: dict[str, Any] = {}

    def train_again(client: int) -> Floats:
        network.trainings += 1
        network.trained += int(bench.data.sizes[client])
        return weights.params + np.float32(1)

    def observe(chosen: list[int]) -> AttackWork:
        params, buffers = (np.repeat(one[None], len(chosen), axis=0) for one in (weights.params, weights.buffers))
        updates = SeenUpdates(
            bench.data, network, [weights], np.zeros(len(chosen), np.int64), params, buffers, chosen, stream=own,
            round=0, train_again=lambda i, _stream: train_again(chosen[i]),
        )  # fmt: skip
        return counted(network, lambda: seen.update(observed=attack.module.observe(attack.config, updates)))

    observe([special])  # a first call loads what it needs
    first = observe([special])
    if clients == 1:
        return first + _conclusion(attack, bench.data, seen["observed"], np.array([0]))
    other = 0 if special else 1
    pair = observe(both := sorted([special, other]))
    last = _conclusion(attack, bench.data, seen["observed"], np.array(both))
    client, later = pair - first, observe([other])
    return client * clients + (later - client) * blocks + (first - later) + last


def _conclusion(attack: AttackComponent, data: Federation, observed: Any, clients: Ints) -> AttackWork:
    seen = SeenRound(data, observed, clients, 0, own)
    config, times = attack.module.timed(attack.config)
    return AttackWork(seconds_of(lambda: attack.module.conclude(config, seen)) * times)


def audit(bench: Bench, attack: AttackComponent, shadow: int, shadows: int) -> AttackWork:
    """Return the work of one attack on one model, without the training of its shadow models.

    Args:
        bench: the run and its data.
        attack: the attack.
        shadow: examples that a shadow model is trained on.
        shadows: number of shadow models.

    Raises:
        DataError: the data are unsuitable for the attack.
    """
    network, weights = counting(bench), bench.start()
    # Each model has an equal share of the clients.
    clients = np.arange(0, bench.data.clients, bench.run.clustering.config.clusters)
    fake = [_shadow(attack.module.Shadow, shadow, bench.data.classes, k) for k in range(shadows)]
    model = AttackedModel(Cluster(bench.data, 0, clients), network, weights, fake, np.random.default_rng(0))
    return counted(network, lambda: attack.module.audit(attack.config, model))


def _shadow(kind: Any, size: int, classes: int, number: int) -> Any:
    """Make up the outputs of a shadow model on ``size`` members and as many non-members."""
    rng, n = np.random.default_rng(number), 2 * size
    member, labels = np.arange(n) < size, rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)).astype(np.float32)
    logits[np.arange(n), labels] += 1 + 2 * member
    known = {"logits": logits, "labels": labels, "member": member, "accuracy": 1.0, "epochs": 1}
    needed = {one.name for one in dataclasses.fields(kind) if _required(one)}
    return kind(
        **{name: known.get(name, 1.0) for name in {*needed, *known} & {f.name for f in dataclasses.fields(kind)}}
    )


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def replica_measure(bench: Bench, attack: AttackComponent) -> AttackWork:
    """Return the work of measuring one replica's model."""
    network, weights = counting(bench), bench.start()
    return counted(network, lambda: attack.module.measure(attack.config, bench.data, network, weights))


@dataclass(frozen=True, eq=False)
class Halved:
    """The replicas of an attack on halves of the records.

    Attributes:
        replicas: number of replicas.
        together: how many of them a task trains.
        records: number of records that every replica is asked about.
        sizes: [clients] training examples of a replica's clients.
        seconds: that the attack takes to make the pool, and to judge the answers.
    """

    replicas: int
    together: int
    records: int
    sizes: Ints
    seconds: float


def halved(bench: Bench, attack: AttackComponent) -> Halved:
    """Count the replicas of an attack, and time what it does besides, with answers that are made up.

    Raises:
        DataError: the data are unsuitable for the attack.
    """
    run, data, rng = bench.run, bench.data, np.random.default_rng(0)
    made: dict[str, Any] = {}

    def prepare() -> None:
        made["pool"] = attack.module.pool(attack.config, data, own)
        made["inside"] = attack.module.halves(attack.config, made["pool"], own)

    prepared = seconds_of(prepare)
    pool, every = made["pool"], made["inside"]
    inside = every[:MOST_REPLICAS]
    models = tuple(map(str, range(run.clustering.config.clusters)))
    said = rng.normal(size=(len(inside) + 1, len(pool.owner)))
    groups = data.groups[pool.owner]
    answers = Answers(pool, inside, said[1:], said[0], pool.owner % len(models), models, groups, data.group_names)
    # Each replica is compared with all others.
    judged = seconds_of(lambda: attack.module.judge(attack.config, answers, rng)) * (len(every) / len(inside)) ** 2
    sizes = np.bincount(pool.owner[inside[0]], minlength=data.clients)
    together = halves_tasks.together(run, pool, bench.network.layout.size)
    return Halved(len(every), together, len(pool.owner), sizes, prepared + judged)


def gradient_seconds(bench: Bench) -> tuple[float, float]:
    """Return the seconds of a batch of which an attack takes the gradient, and of each example in it."""
    from torch.nn.functional import cross_entropy

    x, y, network = bench.data.train.x[:MOST_AT_ONCE], bench.data.train.y[:MOST_AT_ONCE], bench.network
    network.load(bench.start())
    network.module.eval()

    def take(amount: int) -> None:
        network.grads.zero_()
        cross_entropy(network.module(network.inputs(x[:amount])), torch.as_tensor(y[:amount])).backward()

    take(1)
    one = seconds_of(lambda: take(1))
    amount, many = grow(take, len(y), bench.seconds)
    each = max(0.0, many - one) / max(1, amount - 1)
    return max(0.0, one - each), each
