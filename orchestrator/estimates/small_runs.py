"""A run in small: the round's own functions, on a few clients and examples, with a stopwatch around each.

Every step begins with a few examples and is repeated with more, until it has taken about a second or had the whole federation.
What it takes for one (`orchestrator.estimates.counts.UNITS`) is then the time of the last try by what was done in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from algorithms.core.messages import Assignment, Ints, gather
from algorithms.core.network import Network
from algorithms.engine import block, server
from algorithms.engine.block import train_again
from algorithms.interfaces import Run
from attacks.interfaces import AttackedModel, Cluster, SeenRound, SeenUpdates
from datasets.federation import DataError, Examples, Federation, Source
from datasets.roles import NOBODY
from orchestrator.estimates import counts
from orchestrator.estimates.counts import Count
from orchestrator.trial import attack_tasks
from orchestrator.trial.attack_round import AttackComponent, attack_named, of_kind
from orchestrator.trial.federation import federation_key, partition_data
from orchestrator.trial.worker_session import multiply_with_one_thread

EACH = 1.0  # seconds of the tries of one step; the first and smallest may take longer
LIMIT = 6.0  # seconds of all steps of a sweep, after which similar ones are taken to last as long
GROWTH = 4  # how many times as long the second try is expected to take as the first; and at most, any other
EXAMPLES = 8  # of each client in the smallest try
FEW_STEPS = 2  # products with the Hessian that a search is first allowed
MOST_PASSES = 4  # of local training over all examples of a client
SERVED = 2  # clients whose updates the server is timed with
MOST_EXAMPLES = 100_000  # of which data are partitioned; FEMNIST's clients have 600 000


class SmallRuns:
    """The seconds of each step of a sweep's trials; what trials have in common is measured once."""

    def __init__(self, root_of: Callable[[Run], Path]) -> None:
        """Begin without any measurement; ``root_of`` returns the folder of a run's data."""
        self.root_of, self.spent = root_of, 0.0
        self._rates: dict[tuple[str, ...], dict[str, float]] = {}
        self._source: tuple[str, Source | None, float] = ("", None, 0.0)
        self._data: tuple[str, Federation | None, float] = ("", None, 0.0)
        self._network: tuple[str, Network | None] = ("", None)

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
            made = partition_data(run, root, self._source[1])
            took = (time.perf_counter() - started) * clients / run.data.config.clients
            self._data = wanted, made, took
        data = self._data[1]
        assert data is not None
        return data, self._source[2] + self._data[2]

    def rates(self, run: Run, data: Federation, counted: list[Count]) -> dict[tuple[str, str], float]:
        """Return the seconds of each step that is counted, by (step, attack).

        Raises:
            DataError: the data are unsuitable for an attack.
        """
        steps = {(one.step, one.attack) for one in counted if one.step != "wait" and one.times}
        return {step: self._rate(run, data, *step) for step in sorted(steps)} | {
            (one.step, one.attack): 0.0 for one in counted if not one.times
        }

    def _rate(self, run: Run, data: Federation, step: str, attack: str) -> float:
        network = repr((run.model, data.name))
        training = run.training.to_dict()
        for name in ("epochs", "lr", "lr_decay"):  # which change no step
            training.pop(name, None)
        names, details = {
            "train": ((run.training.name, run.objective.name), (training, run.objective)),
            "curve": ((), run.curvature),
            "serve": ((), (run.aggregation, run.privacy)),
        }.get(step, ((), run.data if attack else None))
        known = self._rates.setdefault((step, attack, network, *names), {})
        key = repr((details, attack_named(run, attack)) if attack else details)
        if key not in known:
            if known and self.spent >= LIMIT:
                return next(reversed(known.values()))
            started = time.perf_counter()
            if self._network[0] != network:
                self._network = ("", None)
                self._network = network, Network(run.model, data.shape, data.classes)
            assert self._network[1] is not None
            multiply_with_one_thread()
            torch.set_num_threads(run.training.config.threads)
            small = Small(run, data, self._network[1])
            known[key] = getattr(small, step)(*([attack_named(run, attack)] if attack else []))
            self.spent += time.perf_counter() - started
        return known[key]


def with_fewer_clients(run: Run, most: int) -> Run:
    """Return ``run`` with a part of its clients, if each has a given number of examples and all have more than ``most``.

    An attack on updates needs all of them.
    """
    config = run.data.config
    if not config.examples_per_client or of_kind(run, "updates"):
        return run
    clients = max(run.training.config.block_size, most // config.examples_per_client)
    if clients >= config.clients:
        return run
    return replace(run, data=replace(run.data, config=config.model_copy(update={"clients": clients})))


def in_small(data: Federation, clients: int, examples: int) -> Federation:
    """Return the first clients of a federation with some examples each, and as many others; itself if that is all."""
    clients, sizes = min(clients, data.clients), np.minimum(data.sizes, examples)[:clients]
    if clients == data.clients and (sizes == data.sizes).all():
        return data
    rows = np.concatenate([at + np.arange(size) for at, size in zip(data.offsets, sizes, strict=False)])

    def of_those(part: Examples, owner: Ints) -> tuple[Examples, Ints]:
        there = np.flatnonzero((owner == NOBODY) | (owner < clients))[: clients * examples]
        return part[there], owner[there]

    test, test_owner = of_those(data.test, data.test_owner)
    nonmembers, nonmember_owner = of_those(data.nonmembers, data.nonmember_owner)
    return replace(
        data,
        train=data.train[rows],
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        groups=data.groups[:clients],
        strengths=data.strengths[:clients],
        example_strengths=data.example_strengths[rows],
        test=test,
        test_owner=test_owner,
        nonmembers=nonmembers,
        nonmember_owner=nonmember_owner,
        client_names=data.client_names[:clients],
    )


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the seconds that a call takes; while other programs have the processor, they do not count."""
    started, before = time.perf_counter(), time.process_time()
    work()
    return min(time.perf_counter() - started, time.process_time() - before)


def own(_purpose: str, *place: int) -> np.random.Generator:
    """Return a generator that depends on the integers of ``place`` only, whatever it is for."""
    return np.random.default_rng(list(place))


Attempt = Callable[[Federation], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Small:
    """The steps of a run; each method is one of `counts.UNITS` and returns the seconds of one of its units.

    Attributes:
        run: the run.
        data: its federation, of which a part is used.
        network: the network, which is refilled.
    """

    run: Run
    data: Federation
    network: Network

    def _each(self, attempt: Attempt, clients: int = 2) -> float:
        """Return the seconds of one unit of a step whose work grows with its units; arguments as of `_tries`."""
        return min(took / max(1.0, units) for units, took in self._tries(attempt, clients))

    def _whole(self, attempt: Attempt, units: float, clients: int = 2) -> float:
        """Return the seconds of a step on so many units, continued from the last tries as a power of theirs."""
        tries = self._tries(attempt, clients)
        (most, took), power = tries[-1], 1.0  # a single try took long, so most of it are passes through the network
        if len(tries) > 1 and most > tries[-2][0]:
            power = np.log(took / max(1e-9, tries[-2][1])) / np.log(most / tries[-2][0])
        return took * max(1.0, units / most) ** float(np.clip(power, 0, 1))

    def _tries(self, attempt: Attempt, clients: int) -> list[tuple[float, float]]:
        """Do a step on more and more of the data; return the units and the seconds of each try, at least one.

        Raises:
            DataError: the data are unsuitable, all of them, too.
        """
        tries, size, spent, before = list[tuple[float, float]](), 1, 0.0, 0.0
        result = (0.0, 0.0)

        def act() -> None:
            nonlocal result
            result = attempt(small)

        while True:
            small = in_small(self.data, clients * size, EXAMPLES * size)
            try:
                if not tries:  # the very first call also loads code
                    act()
                took = seconds_of(act)
            except DataError:
                if small is self.data:
                    raise
                size *= 2
                continue
            grows = min(took / max(1e-9, before), GROWTH) if tries else GROWTH
            tries.append(result)
            spent, before = spent + took, took
            if small is self.data or spent + max(1.0, grows) * took > EACH:
                return tries
            size *= 2

    def _trained(self, data: Federation, passes: int, clients: int | None = None) -> block.TrainedBlock:
        """Train the first clients of a federation as one block, with ``passes`` local passes."""
        config = self.run.training.config.model_copy(update={"epochs": passes})
        run = replace(self.run, training=replace(self.run.training, config=config))
        assigned = self._assignment(clients or data.clients)
        start = self.network.initial(np.random.default_rng(0))
        return block.train(run, data, self.network, [start], assigned, own)

    def _assignment(self, clients: int) -> Assignment:
        statistics = server.initial_statistics(self.run, clients)
        return Assignment(range(clients), np.zeros(clients, np.int64), 0, statistics)

    def train(self, times: int = 1) -> float:
        """Train a block of clients, or several at once, or one client where they train one after another."""
        together = block.trains_together(self.run)
        most = times * self.run.training.config.block_size if together else 1

        def attempt(data: Federation) -> tuple[float, float]:
            clients = min(most, data.clients)
            whole = (data.sizes[:clients] == self.data.sizes[:clients]).all()  # so that beginning a client counts less
            passes = max(1, min(MOST_PASSES, self.run.training.config.epochs)) if whole else 1
            units = passes * float(data.sizes[:clients].sum())
            return units, seconds_of(lambda: self._trained(data, passes, clients))

        return self._each(attempt, most)

    def halve(self, attack: AttackComponent) -> float:
        """Train a block of as many replicas as a task trains at once."""
        pool = attack.module.pool(attack.config, self.data, own)
        return self.train(attack_tasks.together(self.run, pool, self.network.layout.size))

    def evaluate(self) -> float:
        """Evaluate a model on all clients' examples."""
        start = self.network.initial(np.random.default_rng(0))

        def attempt(data: Federation) -> tuple[float, float]:
            asked = (self.run, data, self.network, range(data.clients), [start], own)
            return len(data.train), seconds_of(lambda: block.evaluate(*asked))

        return self._each(attempt)

    def curve(self) -> float:
        """Measure a client's curvature; a search that would take too long is cut short and taken to need half its steps."""
        config = self.run.curvature
        most = max(config.power_steps, config.probes if config.trace == "hutchinson" else 0)

        def attempt(data: Federation) -> tuple[float, float]:
            trained, steps = self._trained(in_small(data, 1, 2), 1), FEW_STEPS
            while True:
                limits = {"power_steps": min(steps, config.power_steps), "probes": min(steps, config.probes)}
                run = replace(self.run, curvature=config.model_copy(update=limits))
                asked = (run, data, self.network, [0], trained, own)
                took = seconds_of(lambda asked=asked: block.measure_curvatures(*asked))  # type: ignore[misc]
                if steps >= most or GROWTH * took > EACH:
                    return int(data.sizes[0]), took * max(1.0, most / 2 / steps)
                steps *= GROWTH**2

        return self._whole(attempt, min(float(self.data.sizes.mean()), config.examples), 1)

    def serve(self) -> float:
        """Sum the updates of a few clients and make the next model of them."""
        run, network, data = self.run, self.network, in_small(self.data, SERVED, 2)
        trained, clients = self._trained(data, 1), data.clients
        start = network.initial(np.random.default_rng(0))
        curved = {name: np.arange(1.0, clients + 1) for name in ("lambda_max", "hessian_trace", "train_loss")}
        statistics = {**server.initial_statistics(run, clients), **curved}

        def step() -> None:
            noise = server.draw_noise(run, network.layout.size, np.random.default_rng(0))
            assignment = np.zeros(clients, np.int64)
            parts = block.sum_updates(run, trained, range(clients), [start], assignment, data.sizes)
            received = gather([parts[0]], network.layout, statistics)
            server.step(run, server.begin(run, start), start, received, noise)

        took = seconds_of(step)
        return (took if took > EACH / 4 else seconds_of(step)) / clients  # the very first call also loads code

    def observe(self, attack: AttackComponent) -> float:
        """Make an attack on the updates of a round."""

        def attempt(data: Federation) -> tuple[float, float]:
            trained = self._trained(in_small(data, data.clients, 2), 1)
            start = self.network.initial(np.random.default_rng(0))
            assigned, clients = self._assignment(data.clients), np.arange(data.clients)
            again = lambda i, stream: train_again(self.run, data, self.network, [start], assigned, i, stream)  # noqa: E731
            seen = SeenUpdates(
                data, self.network, [start], assigned.chosen, trained.params, trained.buffers, range(data.clients),
                stream=own, round=0, train_again=again,
            )  # fmt: skip

            def make() -> None:
                observed = attack.module.observe(attack.config, seen)
                attack.module.conclude(attack.config, SeenRound(data, observed, clients, 0, own))

            return len(data.train), seconds_of(make)

        return self._whole(attempt, len(self.data.train))

    def audit(self, attack: AttackComponent) -> float:
        """Attack a model with shadow models that were trained for a single round, which does not count here."""
        config = self.run.training.config.model_copy(update={"epochs": 1})
        run = replace(self.run, rounds=1, training=replace(self.run.training, config=config))

        def attempt(data: Federation) -> tuple[float, float]:
            start, rng = self.network.initial(np.random.default_rng(0)), np.random.default_rng(0)
            cluster = Cluster(data, 0, np.arange(data.clients))
            jobs = counts.shadow_jobs(run, cluster, attack, accuracy=0.0)
            shadows = [attack.module.train_shadow(job, data, self.network, run) for job in jobs]
            sent = [start], np.zeros(data.clients, np.int64), own
            model = AttackedModel(cluster, self.network, start, shadows, rng, *sent)
            return len(data.train), seconds_of(lambda: attack.module.audit(attack.config, model))

        return self._whole(attempt, len(self.data.train))

    def measure(self, attack: AttackComponent) -> float:
        """Look at a replica's model."""
        start = self.network.initial(np.random.default_rng(0))

        def attempt(data: Federation) -> tuple[float, float]:
            return len(data.train), seconds_of(lambda: attack.module.measure(attack.config, data, self.network, start))

        return self._whole(attempt, len(self.data.train))
