"""A run in small: the round's own functions, on a few clients and examples, with a stopwatch around each.

Every step begins with a few examples and is repeated with more, until it has taken about a second or had the whole federation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from algorithms.core.messages import Assignment, Ints, gather
from algorithms.core.network import Network
from algorithms.engine import block, server
from algorithms.interfaces import Run
from attacks.interfaces import AttackedModel, Cluster, SeenRound, SeenUpdates
from datasets.federation import DataError, Examples, Federation, Source
from datasets.roles import NOBODY
from orchestrator.estimates import counts
from orchestrator.trial.attack_round import attack_named, of_kind
from orchestrator.trial.federation import federation_key, partition_data
from orchestrator.trial.worker_session import multiply_with_one_thread

EACH = 1.0  # seconds of the tries of one step; the first and smallest may take longer
LIMIT = 6.0  # seconds of all steps of a sweep, after which similar ones are taken to last as long
GROWTH = 4  # how many times as long a try is expected to take as the one before, with twice the clients and examples
CLIENTS, EXAMPLES = 2, 8  # clients, and examples of each, in the smallest try
MOST_STEPS = 8  # products with the Hessian, of a search that is then taken to need half of those that it may make
MOST_PASSES = 4  # of local training over all examples of a client
MOST_EXAMPLES = 100_000  # of which data are partitioned; FEMNIST's clients have 600 000


class SmallRuns:
    """The seconds of each step of a sweep's trials; what trials have in common is loaded and timed once."""

    def __init__(self, root_of: Callable[[Run], Path]) -> None:
        """Begin without any measurement; ``root_of`` returns the folder of a run's data."""
        self.root_of, self.spent = root_of, 0.0
        self._seconds: dict[str, dict[str, float]] = {}
        self._source: tuple[str, Source | None, float] = ("", None, 0.0)
        self._data: tuple[str, Federation | None, float] = ("", None, 0.0)

    def data(self, run: Run) -> tuple[Federation, float]:
        """Return the run's federation, or a part of its clients if they have many examples, and the seconds it took.

        Raises:
            DataError: the data cannot be partitioned as the run asks.
        """
        clients = run.data.config.clients
        run, root = with_fewer_clients(run, MOST_EXAMPLES), self.root_of(run)
        wanted = federation_key(run, root)
        if self._data[0] != wanted:
            self._data = ("", None, 0.0)  # two federations at a time may not fit into memory
            if self._source[0] != (key := repr((run.data, root))):
                self._source, started = ("", None, 0.0), time.perf_counter()
                source = run.data.module.load(run.data.config, root, True)
                self._source = key, source, time.perf_counter() - started
            started = time.perf_counter()
            partitioned = partition_data(run, root, self._source[1])
            took = (time.perf_counter() - started) * clients / run.data.config.clients
            self._data = wanted, partitioned, took
        data = self._data[1]
        assert data is not None
        return data, self._source[2] + self._data[2]

    def rate(self, run: Run, data: Federation) -> counts.Rate:
        """Return the function that times a step of a run, unless a trial before had the same one.

        Once `LIMIT` is spent, a similar one stands for it: another setting of the same components on the same data set.
        """
        small = Small(run, data)
        training = {
            name: value for name, value in run.training.to_dict().items() if name not in ("epochs", "lr", "lr_decay")
        }

        def rate(step: str, attack: str = "") -> float:
            components: dict[str, Any] = {
                "train": (training, run.objective),
                "curve": run.curvature,
                "serve": (run.aggregation, run.privacy),
                "attack": (attack and attack_named(run, attack), run.data),
            }
            names = (step, attack, run.model, data.name, step == "train" and (run.training.name, run.objective.name))
            similar, key = self._seconds.setdefault(repr(names), {}), repr(components.get(step))
            if similar and self.spent >= LIMIT:
                return similar.get(key, next(reversed(similar.values())))
            if key not in similar:
                started = time.perf_counter()
                multiply_with_one_thread()
                torch.set_num_threads(run.training.config.threads)
                similar[key] = getattr(small, step)(*filter(None, [attack]))
                self.spent += time.perf_counter() - started
            return similar[key]

        return rate


def with_fewer_clients(run: Run, most: int) -> Run:
    """Return ``run`` with a part of its clients, if each has a given number of examples and all have more than ``most``.

    An attack on updates needs all of them.
    """
    config = run.data.config
    if not config.examples_per_client or of_kind(run, "updates"):
        return run
    clients = min(config.clients, max(run.training.config.block_size, most // config.examples_per_client))
    return replace(run, data=replace(run.data, config=config.model_copy(update={"clients": clients})))


def in_small(data: Federation, clients: int, examples: int) -> Federation:
    """Return the first clients of a federation with some examples each, and as many others; itself if that is all."""
    clients, sizes = min(clients, data.clients), np.minimum(data.sizes, examples)[:clients]
    if clients == data.clients and (sizes == data.sizes).all():
        return data
    rows = np.concatenate([at + np.arange(size) for at, size in zip(data.offsets, sizes, strict=False)])

    def of_those(part: Examples, owner: Ints) -> tuple[Examples, Ints]:
        kept = np.flatnonzero((owner == NOBODY) | (owner < clients))[: clients * examples]
        return part[kept], owner[kept]

    test, test_owner = of_those(data.test, data.test_owner)
    nonmembers, nonmember_owner = of_those(data.nonmembers, data.nonmember_owner)
    by_client = ("groups", "strengths", "client_names")
    return replace(
        data,
        train=data.train[rows],
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        example_strengths=data.example_strengths[rows],
        test=test,
        test_owner=test_owner,
        nonmembers=nonmembers,
        nonmember_owner=nonmember_owner,
        shadow=data.shadow[: 2 * clients * examples],  # half of which a shadow model is trained on
        **{name: getattr(data, name)[:clients] for name in by_client},
    )


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the seconds that a call takes; while other programs have the processor, they do not count."""
    started, before = time.perf_counter(), time.process_time()
    work()
    return min(time.perf_counter() - started, time.process_time() - before)


def fixed(_purpose: str, *place: int) -> np.random.Generator:
    """Return a generator that depends on the integers of ``place`` only, whatever it is for."""
    return np.random.default_rng(list(place))


@dataclass(frozen=True, eq=False)
class Small:
    """The steps of a run on a part of its federation; each public one returns the seconds of a unit, see `counts.Rate`."""

    run: Run
    data: Federation

    @cached_property
    def network(self) -> Network:
        """The network, which is refilled."""
        return Network(self.run.model, self.data.shape, self.data.classes)

    def grow(self, attempt: Callable[[Federation], tuple[float, float]], clients: int = CLIENTS) -> float:
        """Do a step on more and more of the data, from so many ``clients`` on; return the seconds of a unit, at best.

        ``attempt`` does the step on a federation, and returns the number of its units and the seconds that it took.

        Raises:
            DataError: the data are unsuitable, all of them, too.
        """
        each, size, spent = list[float](), 1, 0.0
        while True:
            small = in_small(self.data, clients * size, EXAMPLES * size)
            try:
                if not each:  # the very first call also loads code
                    attempt(small)
                started = time.perf_counter()
                units, took = attempt(small)
                whole = time.perf_counter() - started
                each.append(took / max(1.0, units))
                spent += whole
                if small is self.data or spent + GROWTH * whole > EACH:
                    return min(each)
            except DataError:
                if small is self.data:
                    raise
            size *= 2

    @property
    def _start(self) -> Any:
        return self.network.initial(np.random.default_rng(0))

    def _assignment(self, clients: int) -> Assignment:
        statistics = server.initial_statistics(self.run, clients)
        return Assignment(range(clients), np.zeros(clients, np.int64), 0, statistics)

    def _trained(self, data: Federation, passes: int = 1, clients: int | None = None) -> block.TrainedBlock:
        """Train the first clients of a federation as one block, with ``passes`` local passes."""
        config = self.run.training.config.model_copy(update={"epochs": passes})
        run = replace(self.run, training=replace(self.run.training, config=config))
        return block.train(run, data, self.network, [self._start], self._assignment(clients or data.clients), fixed)

    def train(self) -> float:
        """Train a block of clients at once, or one client where they train one after another."""
        most = self.run.training.config.block_size if block.trains_together(self.run) else 1

        def attempt(data: Federation) -> tuple[float, float]:
            clients = min(most, data.clients)
            whole = (data.sizes[:clients] == self.data.sizes[:clients]).all()  # so that beginning a client counts less
            passes = max(1, min(MOST_PASSES, self.run.training.config.epochs)) if whole else 1
            units = passes * float(data.sizes[:clients].sum())
            return units, seconds_of(lambda: self._trained(data, passes, clients))

        return self.grow(attempt, most)

    def evaluate(self) -> float:
        """Evaluate a model on all clients' examples."""

        def attempt(data: Federation) -> tuple[float, float]:
            inputs = (self.run, data, self.network, range(data.clients), [self._start], fixed)
            return len(data.train), seconds_of(lambda: block.evaluate(*inputs))

        return self.grow(attempt)

    def curve(self) -> float:
        """Measure a client's curvature with few products, and scale it to half of those that its search may make."""
        config = self.run.curvature
        most = max(config.power_steps, config.probes if config.trace == "hutchinson" else 0)
        limits = {name: min(MOST_STEPS, getattr(config, name)) for name in ("power_steps", "probes")}
        run = replace(self.run, curvature=config.model_copy(update=limits))

        def attempt(data: Federation) -> tuple[float, float]:
            inputs = (run, data, self.network, [0], self._trained(in_small(data, 1, 2)), fixed)
            return min(int(data.sizes[0]), config.examples), seconds_of(lambda: block.measure_curvatures(*inputs))

        return self.grow(attempt, 1) * max(1.0, most / 2 / MOST_STEPS)

    def serve(self) -> float:
        """Sum the updates of a few clients and make the next model of them."""
        run, network, start, data = self.run, self.network, self._start, in_small(self.data, CLIENTS, 2)
        trained, clients = self._trained(data), data.clients
        curved = {name: np.arange(1.0, clients + 1) for name in ("lambda_max", "hessian_trace", "train_loss")}
        statistics = {**server.initial_statistics(run, clients), **curved}

        def step() -> None:
            noise = server.draw_noise(run, network.layout.size, np.random.default_rng(0))
            sums = block.sum_updates(run, trained, range(clients), [start], np.zeros(clients, np.int64), data.sizes)
            server.step(run, server.begin(run, start), start, gather([sums[0]], network.layout, statistics), noise)

        took = seconds_of(step)
        return (took if took > EACH / 4 else seconds_of(step)) / clients  # the very first call also loads code

    def attack(self, name: str) -> float:
        """Attack the updates of a round, or a model; from a small federation the time is scaled with its examples."""
        attack = attack_named(self.run, name)
        make = self._observe if "updates" in attack.module.KINDS else self._audit
        return len(self.data.train) * self.grow(lambda data: (len(data.train), seconds_of(make(attack, data))))

    def _observe(self, attack: Any, data: Federation) -> Callable[[], Any]:
        """Return what attacks the updates of a round."""
        trained, start, assigned = (
            self._trained(in_small(data, data.clients, 2)),
            self._start,
            self._assignment(data.clients),
        )
        again = partial(block.train_again, self.run, data, self.network, [start], assigned)
        seen = SeenUpdates(
            data, self.network, [start], assigned.chosen, trained.params, trained.buffers,
            range(data.clients), stream=fixed, round=0, train_again=again,
        )  # fmt: skip

        def make() -> None:
            observed = attack.module.observe(attack.config, seen)
            attack.module.conclude(attack.config, SeenRound(data, observed, np.arange(data.clients), 0, fixed))

        return make

    def _audit(self, attack: Any, data: Federation) -> Callable[[], Any]:
        """Return what attacks a model with shadow models that were trained for a single round, which does not count."""
        config = self.run.training.config.model_copy(update={"epochs": 1})
        run = replace(self.run, rounds=1, training=replace(self.run.training, config=config))
        cluster = Cluster(data, 0, np.arange(data.clients))
        jobs = counts.shadow_jobs(run, cluster, attack, accuracy=0.0)
        shadows = [attack.module.train_shadow(job, data, self.network, run) for job in jobs]
        sent = [self._start], np.zeros(data.clients, np.int64), fixed
        model = AttackedModel(cluster, self.network, self._start, shadows, np.random.default_rng(0), *sent)
        return lambda: attack.module.audit(attack.config, model)
