"""A run in small: the round's own functions, on a few clients and examples, with a stopwatch
around each.

Every step begins with a few examples and is repeated with more, once at least, until that has taken
about a second or had all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from algorithms.core.messages import Assignment, Ints, Weights
from algorithms.core.network import Network
from algorithms.engine import block, server
from algorithms.engine import round as engine
from algorithms.engine.backends import together, trains_together
from algorithms.interfaces import Run
from attacks.interfaces import AttackedModel, Cluster, SeenRound, SeenSum, SeenUpdates, Sum, as_seen
from datasets.federation import DataError, Examples, Federation
from datasets.roles import NOBODY
from orchestrator.estimates import counts
from orchestrator.trial.attack_round import attack_named, of_kind
from orchestrator.trial.federation import federation_key, partition_data
from orchestrator.trial.worker_session import multiply_with_one_thread

EACH = 1.0  # seconds of the tries of one step; the first and smallest may take longer
# Processor seconds of a first try that is done again, because most may be those of loading code.
LOADING = 3.0
LIMIT = 5.0  # seconds of all steps of a sweep, after which similar ones are taken to last as long
# How many times as long a try is expected to take as the one before, with twice the clients and
# examples.
GROWTH = 4
CLIENTS = 2  # in the smallest try
EXAMPLES = 8  # of each client in it
# Products with the Hessian, which Lanczos takes; other searches are to take half of what they may.
MOST_STEPS = 4
MOST_PASSES = 2  # of local training, so that beginning a client counts less
MOST_EXAMPLES = 100_000  # of which data are partitioned; FEMNIST's clients have 600 000

TRAINING = ("train", "replicate")

Step = tuple[float, Callable[[], Any]]
"""The number of units of a step, and what does it."""
Inputs = tuple[Run, Federation, Network, list[Weights], Assignment]


class SmallRuns:
    """The seconds of each step of a sweep's trials; what trials have in common is loaded and
    timed once.
    """

    def __init__(self, root_of: Callable[[Run], Path]) -> None:
        """Begin without any measurement; ``root_of`` returns the folder of a run's data."""
        self.root_of = root_of
        self.spent = 0.0
        self._seconds: dict[str, dict[str, float]] = {}
        self._latest: dict[str, tuple[str, Any, float]] = {}

    def data(self, run: Run) -> tuple[Federation, float]:
        """Return the run's federation, or a part of its clients if they have many examples, and
        the seconds it took.

        Raises:
            DataError: the data cannot be partitioned as the run asks.
        """
        config = run.data.config
        needs_all = of_kind(run, "updates") + of_kind(run, "sums")
        if config.examples_per_client and not needs_all:
            most = max(run.training.config.block_size, MOST_EXAMPLES // config.examples_per_client)
            fewer = config.model_copy(update={"clients": min(config.clients, most)})
            run = replace(run, data=replace(run.data, config=fewer))
        root = self.root_of(run)
        load = run.data.module.load
        set_ = repr((run.data, root))
        key = federation_key(run, root)
        known = self._latest.get("source", ("",))[0] == set_ and "data" in self._latest
        if known and self.spent >= LIMIT:
            key = self._latest["data"][0]  # another partition of the same examples
        source, loading = self._timed("source", set_, lambda: load(run.data.config, root, True))
        data, dealing = self._timed("data", key, lambda: partition_data(run, root, source))
        return data, loading + dealing * config.clients / run.data.config.clients

    def _timed(self, kind: str, key: str, make: Callable[[], Any]) -> tuple[Any, float]:
        """Return what was made last of a kind, or make another if its key differs, and the
        seconds that it took.
        """
        if self._latest.get(kind, ("",))[0] != key:
            self._latest.pop(kind, None)  # two at a time may not fit into memory
            started = time.perf_counter()
            made = make()
            seconds = time.perf_counter() - started
            self._latest[kind] = (key, made, seconds)
            self.spent += seconds
        _, made, seconds = self._latest[kind]
        return made, seconds

    def rate(self, run: Run, data: Federation) -> counts.Rate:
        """Return the function that times a step of a run, unless a trial before had the same one.

        Once `LIMIT` is spent, a similar one stands for it: another setting of the same components
        on the same data set.
        """
        small = Small(run, data)

        def rate(step: str, attack: str = "") -> float:
            step = "train" if step == "replicate" and not trains_together(run) else step
            similar = self._seconds.setdefault(_components(run, data, step, attack), {})
            key = _settings(run, step, attack)
            if similar and self.spent >= LIMIT:
                return similar.get(key, next(reversed(similar.values())))
            if key not in similar:
                started = time.perf_counter()
                similar[key] = small.rate(step, attack)
                self.spent += time.perf_counter() - started
            return similar[key]

        return rate


def _components(run: Run, data: Federation, step: str, attack: str) -> str:
    """What steps have in common of which one may stand for another."""
    method = None
    if step in TRAINING:
        reduced = run.training.module.reduced_precision(run.training.config)
        method = (run.training.name, reduced, run.objective.name)
    return repr((step, attack, run.model, data.name, method))


def _settings(run: Run, step: str, attack: str) -> str:
    """What the seconds of a step depend on besides."""
    if step in TRAINING:
        unread = ("epochs", "lr", "lr_decay")
        training = run.training.to_dict()
        read = {name: value for name, value in training.items() if name not in unread}
        return repr((read, run.objective))
    if step == "curve":
        return repr(run.curvature)
    if step == "serve":
        return repr((run.aggregation, run.privacy))
    return repr((attack_named(run, attack), run.data)) if attack else ""


def in_small(data: Federation, clients: int, examples: int) -> Federation:
    """Return the first clients of a federation with some examples each, in every part, and as
    many of nobody; itself if that is all.
    """
    clients = min(clients, data.clients)
    sizes = np.minimum(data.sizes, examples)[:clients]
    if clients == data.clients and (sizes == data.sizes).all():
        return data
    rows = np.concatenate(
        [at + np.arange(size) for at, size in zip(data.offsets, sizes, strict=False)]
    )

    def of_those(part: Examples, owner: Ints) -> tuple[Examples, Ints]:
        most = dict.fromkeys(range(clients), examples) | {NOBODY: clients * examples}
        each = [np.flatnonzero(owner == client)[:count] for client, count in most.items()]
        rows = np.sort(np.concatenate(each))
        return part[rows], owner[rows]

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


def fixed(_purpose: str, *place: int) -> np.random.Generator:
    """Return a generator that depends on the integers of ``place`` only, whatever it is for."""
    return np.random.default_rng(list(place))


@dataclass(frozen=True, eq=False)
class Try:
    """A step on a part of the data: its units, and the seconds that they took."""

    data: Federation
    units: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Small:
    """The steps of a run on a part of its federation, one for each of `counts.Rate`."""

    run: Run
    data: Federation

    def rate(self, step: str, attack: str = "") -> float:
        """Do a step on more and more of the data; return the seconds of a unit, at best.

        Raises:
            DataError: the data are unsuitable, all of them, too.
        """
        multiply_with_one_thread()
        torch.set_num_threads(self.run.training.config.threads)
        tries: list[Try] = []
        size = 1
        spent = 0.0
        loaded = False
        while True:
            started = time.perf_counter()
            try:
                one = self._try(step, attack, size)
            except DataError:
                if self._part(step, size) is self.data:
                    raise
                size *= 2
                continue
            whole = time.perf_counter() - started
            if not loaded and one.seconds < LOADING:
                loaded = True  # the very first try also loads code, which is no part of a step
                continue
            tries.append(one)
            spent += whole
            long = whole > EACH or (len(tries) > 1 and spent + GROWTH * whole > EACH)
            if one.data is self.data or long:
                return self._per_unit(step, tries)
            size *= 2

    def _part(self, step: str, size: int) -> Federation:
        """The data of a try: so many times those of the smallest one."""
        clients = {"train": self.together, "replicate": self.together, "curve": 1}
        return in_small(self.data, clients.get(step, CLIENTS) * size, EXAMPLES * size)

    def _try(self, step: str, attack: str, size: int) -> Try:
        """Do a step on a part of the data."""
        part = self._part(step, size)
        units, work = getattr(self, step)(part, *filter(None, [attack]))
        wall = time.perf_counter()
        processor = time.process_time()
        work()
        # While other programs have the processor, seconds do not count.
        seconds = min(time.perf_counter() - wall, time.process_time() - processor)
        return Try(part, units, seconds)

    def _per_unit(self, step: str, tries: Sequence[Try]) -> float:
        """The seconds of a unit by these tries; what a step takes once, however many examples it
        has, is spread over all that it has in the run.
        """
        mean = min(one.seconds / one.units for one in tries)
        before = tries[-2] if len(tries) > 1 else Try(self.data, 0.0, 0.0)
        last = tries[-1]
        units = last.units - before.units
        seconds = last.seconds - before.seconds
        entire = self._units_in_run(step, last)
        if last.data is self.data or entire <= last.units or min(units, seconds) <= 0:
            return mean
        further = seconds / units
        once = last.seconds - further * last.units
        return min(mean, max(mean / 2, further + once / entire))

    def _units_in_run(self, step: str, last: Try) -> float:
        """The units of a step in the run itself; 0 where nothing is spread."""
        if step == "attack":
            return 1.0
        if step in ("evaluate", "serve"):
            return 0.0
        held = self.data.sizes.mean()
        had = last.data.sizes.mean()
        if step in TRAINING:
            passes = self.run.training.config.epochs / self.light.training.config.epochs
            return float(last.units * (passes * held / had))
        most = self.run.curvature.examples
        return float(last.units * (min(held, most) / min(had, most)))

    @property
    def together(self) -> int:
        """How many clients are trained at once."""
        if not trains_together(self.run):
            return 1
        return min(self.run.training.config.block_size, self.data.clients)

    @cached_property
    def network(self) -> Network:
        """The network, which is refilled."""
        return Network(self.run.model, self.data.shape, self.data.classes)

    @cached_property
    def light(self) -> Run:
        """The run with few local passes, and with few products where it measures curvatures."""
        training = self.run.training
        passes = {"epochs": max(1, min(MOST_PASSES, training.config.epochs))}
        training = replace(training, config=training.config.model_copy(update=passes))
        curvature = self.run.curvature
        steps = ("power_steps", "probes")
        limits = {name: min(MOST_STEPS, getattr(curvature, name)) for name in steps}
        curvature = curvature.model_copy(update=limits)
        return replace(self.run, rounds=1, training=training, curvature=curvature)

    @cached_property
    def start(self) -> Any:
        """Initial weights."""
        return self.network.initial(np.random.default_rng(0))

    def _inputs(self, data: Federation, clients: Sequence[int] = ()) -> Inputs:
        """What some or all clients of a federation are trained with, as one block."""
        clients = clients or range(data.clients)
        statistics = server.initial_statistics(self.run, len(clients))
        assigned = Assignment(clients, np.zeros(len(clients), np.int64), 0, statistics)
        return self.light, data, self.network, [self.start], assigned

    def train(self, data: Federation, copies: int = 1) -> Step:
        """Train a block of clients at once, or one client where they train one after another; by
        example and pass.
        """
        clients = list(range(min(self.together, data.clients))) * copies
        units = self.light.training.config.epochs * float(data.sizes[clients].sum())
        return units, lambda: block.train(*self._inputs(data, clients), fixed)

    def replicate(self, data: Federation) -> Step:
        """Train that block of as many replicas as a task trains at once; by example and pass."""
        examples = self.data.train.x.nbytes * self.run.data.config.clients // self.data.clients
        return self.train(data, together(self.run, examples, self.network.layout.size))

    def evaluate(self, data: Federation) -> Step:
        """Evaluate a model on all clients' examples; by example."""
        inputs = (self.run, data, self.network, range(data.clients), [self.start], fixed)
        return len(data.train), lambda: block.evaluate(*inputs)

    def curve(self, data: Federation) -> Step:
        """Measure a client's curvature, by example."""
        config = self.run.curvature
        trained = block.train(*self._inputs(in_small(data, 1, 2)), fixed)
        steps = [0]
        if config.solver == "power":
            steps.append(config.power_steps)
        if config.trace == "hutchinson":
            steps.append(config.probes)
        units = min(int(data.sizes[0]), config.examples) / max(1.0, max(steps) / 2 / MOST_STEPS)
        inputs = (self.light, data, self.network, [0], trained, fixed)
        return units, lambda: block.measure_curvatures(*inputs)

    def serve(self, data: Federation) -> Step:
        """Make the next model of what a few clients send; by client."""
        run = self.light
        start = self.start
        layout = self.network.layout
        everybody = np.arange(data.clients)
        inputs = self._inputs(in_small(data, data.clients, 2))[1:]
        results = [engine.train_block(run, *inputs, (fixed, fixed))]
        clients = engine.Clients([everybody], lambda models, assigned: results, layout)

        def work() -> None:
            state = engine.begin(run, [start], data.clients)
            state.assignment[:] = 0
            noise = [server.draw_noise(run, layout.size, fixed("noise", 0))]
            engine.advance(run, clients, state, everybody, noise, [fixed("participation", 0)])

        return data.clients, work

    def attack(self, data: Federation, name: str) -> Step:
        """Attack the updates of a round, or a model; by the examples that updates or shadow
        models are tried on.

        Raises DataError if so few of the data are too few for the attack.
        """
        attack = attack_named(self.run, name)
        kinds = attack.module.KINDS
        if data is not self.data and attack.module.data_problems(attack.config, data):
            raise DataError(f"{name} needs more of {data.name}")
        # Of each client, as many of every one.
        most = getattr(attack.config, "targets", 0) if "updates" in kinds else 0

        def tried(part: Federation) -> float:
            cluster = Cluster(part, 0, np.arange(part.clients))
            jobs = counts.shadow_jobs(self.light, cluster, attack, 0.0) if "models" in kinds else ()
            pairs = part.clients**2 * min(most, part.sizes.min())
            return float(pairs or sum(len(job.members) for job in jobs) or len(part.train))

        share = tried(data) / tried(self.data)
        if "updates" in kinds:
            return share, self._observe(attack, data)
        if "sums" in kinds:
            return share, self._add_up(attack, data)
        return share, self._audit(attack, data)

    def _observe(self, attack: Any, data: Federation) -> Callable[[], Any]:
        """Return what attacks the updates of a round."""
        inputs = self._inputs(in_small(data, data.clients, 2))
        trained = block.train(*inputs, fixed)
        updates = SeenUpdates(
            data,
            self.network,
            [self.start],
            inputs[-1].chosen,
            trained.params,
            trained.buffers,
            range(data.clients),
            stream=fixed,
            round=0,
            train_again=partial(block.train_again, *inputs),
        )

        def make() -> None:
            observed = attack.module.observe(attack.config, updates)
            seen = SeenRound(data, observed, np.arange(data.clients), 0, fixed)
            attack.module.conclude(attack.config, as_seen(attack.module, seen))

        return make

    def _add_up(self, attack: Any, data: Federation) -> Callable[[], Any]:
        """Return what attacks the sum of a round's updates, whatever these are."""
        everybody = np.arange(data.clients)
        equal = np.full(data.clients, 1 / data.clients)
        one = Sum(0, self.start, self.start.params.astype(np.float64), everybody, equal)

        def make() -> None:
            seen = SeenSum(data, self.network, one, fixed, 0)
            observed = [attack.module.observe(attack.config, seen)]
            after = SeenRound(data, observed, everybody, 0, fixed, sums=[one])
            attack.module.conclude(attack.config, after)

        return make

    def _audit(self, attack: Any, data: Federation) -> Callable[[], Any]:
        """Return what attacks a model with shadow models that were trained for a single round,
        which does not count.
        """
        cluster = Cluster(data, 0, np.arange(data.clients))
        jobs = counts.shadow_jobs(self.light, cluster, attack, 0.0)
        shadows = attack.module.train_shadows(jobs, data, self.network, self.light) if jobs else ()
        sent = ([self.start], np.zeros(data.clients, np.int64), fixed)
        rng = np.random.default_rng(0)
        model = AttackedModel(cluster, self.network, self.start, shadows, rng, *sent)
        return lambda: attack.module.audit(attack.config, model)
