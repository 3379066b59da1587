"""Times single steps of a run: of training, evaluation, curvature and the server, on a few examples of a few clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from algorithms.core.messages import Ints, Weights, gather
from algorithms.core.network import Network
from algorithms.curvature import hessian
from algorithms.engine import block as work
from algorithms.engine import server
from algorithms.engine.backends import loop
from algorithms.interfaces import Run
from datasets.federation import Examples, Federation
from orchestrator.estimates.stopwatch import grow, least, seconds_of
from orchestrator.estimates.work import curved_examples, plan_of, visited

FEW = 8  # examples of the training step before curvature is measured
MOST_CLIENTS = 4  # whose updates are made up to time the server; its work grows with their number
SIMULATED_BYTES = 1 << 26
TOGETHER_BYTES = 1 << 25  # of the models of a block that is trained at once


@dataclass(frozen=True)
class Bench:
    """What steps are timed with.

    Attributes:
        run: the run.
        data: its federation.
        network: the network, which is refilled.
        seconds: about how long each measurement may take.
    """

    run: Run
    data: Federation
    network: Network
    seconds: float

    @staticmethod
    def of(run: Run, data: Federation, seconds: float) -> Bench:
        """Build the network of ``run``."""
        torch.set_num_threads(run.training.config.threads)
        return Bench(run, data, Network(run.model, data.shape, data.classes), seconds)

    def start(self) -> Weights:
        """Return initial weights, always the same."""
        return self.network.initial(np.random.default_rng(0))

    @property
    def typical(self) -> int:
        """The client with the median number of examples."""
        return int(np.argsort(self.data.sizes, kind="stable")[self.data.clients // 2])


def own(_purpose: str, *place: int) -> np.random.Generator:
    """Return a generator that depends on the integers of ``place`` only, whatever it is for."""
    return np.random.default_rng(list(place))


class _FirstBatches:
    """A training component that takes only the first batches of each client, ``steps`` of up to ``width`` examples."""

    def __init__(self, component: Any, steps: int, width: int | None) -> None:
        self.config, self.name, self.module = component.config, component.name, self
        self._component, self._steps, self._width = component, steps, width

    def __getattr__(self, name: str) -> Any:
        return getattr(self._component.module, name)

    def schedule(self, *arguments: Any) -> Ints:
        plan: Ints = self._component.module.schedule(*arguments)
        return plan[: self._steps, : self._width]


@dataclass(frozen=True)
class TrainSpeed:
    """How long a block's local training takes.

    Attributes:
        client: seconds for each client, whatever its batches.
        example: seconds for each example that is trained on, where clients train one after another; else 0.
        step: seconds of a step of one client, where a block trains together; else 0.
        further: seconds that each further client adds to such a step.
    """

    client: float
    example: float = 0.0
    step: float = 0.0
    further: float = 0.0

    def block_seconds(self, plans: Sequence[Ints]) -> float:
        """Return the seconds of a block whose clients have these plans, [steps, batch] each."""
        seconds = len(plans) * self.client + self.example * sum(visited(plan) for plan in plans)
        for at in range(max(map(len, plans), default=0)):
            active = sum(len(plan) > at for plan in plans)
            seconds += self.step + (active - 1) * self.further
        return seconds


def train_speed(bench: Bench, clients: Sequence[int]) -> TrainSpeed:
    """Time a few steps of a block of ``clients``, with the backend that the run uses."""
    if work.trains_together(bench.run):
        return _speed_together(bench, clients)
    client = bench.typical
    plan = plan_of(bench.run, int(bench.data.sizes[client]), client)
    width, most = plan.shape[1], max(1, visited(plan))

    def shape(amount: int) -> tuple[int, int]:
        return max(1, amount // width), min(width, amount)

    amount, seconds = grow(lambda amount: _train(bench, [client], *shape(amount)), most, bench.seconds)
    steps, narrow = shape(amount)
    empty = seconds_of(lambda: _train(bench, [client], 0, None))
    return TrainSpeed(empty, max(0.0, seconds - empty) / max(1, visited(plan[:steps, :narrow])))


def _speed_together(bench: Bench, clients: Sequence[int]) -> TrainSpeed:
    """Time steps of the whole block and of one client; the seconds of other numbers lie on the line between them."""
    clients = clients[: max(2, TOGETHER_BYTES // (4 * bench.network.layout.size))]
    longest = max(clients, key=lambda client: bench.data.sizes[client])
    most = len(plan_of(bench.run, int(bench.data.sizes[longest]), longest))

    def step(block: Sequence[int]) -> tuple[float, float]:
        _train(bench, block, 1, None)
        empty = seconds_of(lambda: _train(bench, block, 0, None))
        amount, seconds = grow(lambda amount: _train(bench, block, amount, None), most, bench.seconds / 2)
        return empty, max(0.0, seconds - empty) / max(1, amount)

    (empty, full), (_, single) = step(clients), step([longest])
    further = max(0.0, full - single) / max(1, len(clients) - 1)
    return TrainSpeed(empty / len(clients), step=single, further=further)


def _train(bench: Bench, clients: Sequence[int], steps: int, width: int | None) -> work.TrainedBlock:
    run = replace(bench.run, training=cast(Any, _FirstBatches(bench.run.training, steps, width)))
    statistics = {name: values[list(clients)] for name, values in _statistics(run, bench.data.clients).items()}
    assigned = work.Assignment(tuple(clients), np.zeros(len(clients), np.int64), 0, statistics)
    return work.train(run, bench.data, bench.network, [bench.start()], assigned, own)


def _statistics(run: Run, clients: int) -> dict[str, Any]:
    return dict(server.initial_statistics(run, clients))


def pass_seconds(bench: Bench) -> float:
    """Return the seconds for each example that a shadow model is trained on: one client at a time, without objective."""
    x, y = bench.data.train.x[:1000], bench.data.train.y[:1000]

    def train(amount: int) -> None:
        bench.network.load(bench.start())
        training, rng = bench.run.training, np.random.default_rng(0)
        next(loop.passes(bench.network, Examples(x[:amount], y[:amount]), training, rng, bench.data.prepare))

    amount, seconds = grow(train, len(y), bench.seconds)
    return seconds / amount


def evaluation_seconds(bench: Bench) -> float:
    """Return the seconds for each example on which a model is evaluated."""
    x, y = bench.data.train.x[:1000], bench.data.train.y[:1000]
    bench.network.load(bench.start())
    amount, seconds = grow(
        lambda amount: work.cross_entropies(bench.network.logits(x[:amount]), y[:amount]), len(y), bench.seconds
    )
    return seconds / amount


@dataclass(frozen=True)
class CurvatureSpeed:
    """How long it takes to measure a client's curvature.

    Attributes:
        example: seconds for each example, whatever the number of products: gradient and, if exact, trace.
        product: seconds of a product with the Hessian for each example whose batch is kept.
        anew: the same where the batch is made anew for each product.
        products: expected number of products.
        kept: number of examples whose batches are kept, if there are more than one batch.
    """

    example: float
    product: float
    anew: float
    products: int
    kept: int = 0

    def seconds(self, examples: int) -> float:
        """Return the seconds of a client that measures on so many examples."""
        kept = examples if examples <= hessian.BATCH else min(examples, self.kept)
        return examples * self.example + self.products * (kept * self.product + (examples - kept) * self.anew)


class _OutOfTimeError(Exception):
    """The products that were counted took too long."""


def curvature_speed(bench: Bench) -> CurvatureSpeed:
    """Time products with the Hessian on a few examples, and count how many the search takes there."""
    data, config, client = bench.data, bench.run.curvature, bench.typical
    trained = _train(bench, [client], 1, FEW)
    bench.network.load(Weights(trained.params[0], trained.buffers[0]))
    bench.network.module.eval()
    mine, most = data.client(client), min(curved_examples(bench.run, int(data.sizes[client])), hessian.BATCH)
    found: dict[str, Any] = {}

    def build(amount: int) -> None:
        inputs, labels = bench.network.inputs(mine.x[:amount]), torch.as_tensor(mine.y[:amount])
        surface = hessian.LossSurface(bench.network, inputs, labels)
        graph = seconds_of(lambda: found.update(surface=surface, gradient=surface.gradient()))
        found.update(graph=graph, times=least(lambda: surface.times(found["gradient"])))

    amount, _ = grow(build, most, bench.seconds / 2)
    product, graph = found["times"], found["graph"]
    exact = config.trace == "gauss_newton"
    trace = least(lambda: found["surface"].gauss_newton_trace(np.random.default_rng(0))) if exact else 0.0
    products = _count(bench, found["surface"].times, found["gradient"], 3 * bench.seconds)
    kept = hessian.ROOM * amount // max(1, found["surface"].kept[0].nbytes)
    return CurvatureSpeed((graph + trace) / amount, product / amount, (graph + product) / amount, products, kept)


def _count(bench: Bench, times: Callable[[Any], Any], gradient: Any, seconds: float) -> int:
    """Count the products of both searches; a search that does not end within its time counts with its limit."""
    config, rng = bench.run.curvature, np.random.default_rng(0)
    noise = torch.from_numpy(rng.standard_normal(len(gradient)))
    searches: list[tuple[int, Callable[[Callable[[Any], Any]], float]]] = []
    if config.solver == "power":
        search = lambda t: hessian.power_iteration(t, noise, config.power_steps, config.tolerance)  # noqa: E731
    else:
        begin = gradient / gradient.norm() + hessian.NOISE * noise / noise.norm()
        search = lambda t: hessian.lanczos(t, begin, config.power_steps, config.tolerance)  # noqa: E731
    searches.append((config.power_steps, search))
    if config.trace != "gauss_newton":
        trace = lambda t: hessian.hutchinson(t, gradient, config.probes, config.tolerance, rng)  # noqa: E731
        searches.append((config.probes, trace))
    return sum(_products(one, times, most, seconds / len(searches)) for most, one in searches)


def _products(
    search: Callable[[Callable[[Any], Any]], float], times: Callable[[Any], Any], most: int, limit: float
) -> int:
    counted, deadline = 0, time.perf_counter() + limit

    def count(vector: Any) -> Any:
        nonlocal counted
        if time.perf_counter() > deadline:
            raise _OutOfTimeError
        counted += 1
        return times(vector)

    try:
        search(count)
    except _OutOfTimeError:
        return most
    return counted


def server_seconds(bench: Bench, clients: int) -> float:
    """Return the seconds in which a round's updates of ``clients`` clients become the next models.

    The step is timed with the made-up updates of a few clients; its seconds are taken to grow with their number.
    """
    run, network, rng = bench.run, bench.network, np.random.default_rng(0)
    model, size = bench.start(), network.layout.size
    few = max(1, min(clients, MOST_CLIENTS, SIMULATED_BYTES // (4 * size)))
    params = model.params + rng.normal(0, 1e-3, (few, size)).astype(np.float32)
    trained = work.TrainedBlock(params, np.repeat(model.buffers[None], few, axis=0), np.ones(few))
    curved = {name: np.arange(1.0, few + 1) for name in ("lambda_max", "hessian_trace", "train_loss")}
    statistics = _statistics(run, few) | curved
    state = server.begin(run, model)

    def step() -> None:
        assignment = np.zeros(few, np.int64)
        parts = work.sum_updates(run, trained, range(few), [model], assignment, bench.data.sizes[:few])
        received = gather(list(parts.values()), network.layout, statistics)
        server.step(run, state, model, received, server.draw_noise(run, size, np.random.default_rng(0)))

    step()
    return seconds_of(step) * clients / few
