"""The client actors: each hosts any number of clients, runs any block of clients, and keeps no
state of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import numpy as np
import ray
from safetensors.numpy import load, save

from algorithms.core.layout import Layout
from algorithms.core.messages import Assignment, BlockResult, Evaluation, Weights
from algorithms.engine.backends import trains_together
from algorithms.engine.round import Sending, train_block, under
from algorithms.interfaces import Run
from attacks.interfaces import SeenSum, SeenUpdates, Sum
from datasets.federation import Federation
from orchestrator.results.log import cached, stored
from orchestrator.trial.federation import digest
from orchestrator.trial.random_streams import stream
from orchestrator.trial.worker_session import Setup, session

if TYPE_CHECKING:
    from algorithms.core.network import Network
    from algorithms.engine.block import TrainedBlock

SMALL = (
    1 << 16
)  # bytes that may travel with every job; on a cluster, Ray puts up to 100 kB into the call itself
# examples of a prediction job; fixed, because it determines the batches and thereby the bytes
PREDICTED = 2000
WORTH = (
    4e6  # bytes on disk that a second of training is worth, beyond what an entry of the cache takes
)
ENTRY_SECONDS = 0.02
# jobs sent to an actor at a time, until the last ones: the second travels while the first is
# computed
PIPELINE = 2


def client_blocks(clients: int, size: int) -> list[tuple[int, ...]]:
    """Divide the clients, by id, into the fixed blocks in which work is distributed, summed and
    repeated.
    """
    return [tuple(range(at, min(at + size, clients))) for at in range(0, clients, size)]


class ClientActor:
    """Trains and evaluates blocks of clients by pure functions, so that any actor can run any
    job, more than once.
    """

    def __init__(self) -> None:
        """Import torch while the driver still prepares the data."""
        import algorithms.engine.block  # noqa: F401

    def initial(self, setup: Setup, start: int, clusters: int) -> list[Weights]:
        """Make the models of an initialization, one for each cluster, pre-trained if the
        aggregation asks for it.
        """
        from algorithms.engine import block as work

        worker = session(setup)
        models = []
        for j in range(clusters):
            worker.network.load(
                worker.network.initial(stream(worker.run.seed, "initial_weights", start, j))
            )
            rng = stream(worker.run.seed, "pretraining", start, j)
            models.append(work.pretrain(worker.run, worker.data, worker.network, rng))
        return models

    def layout(self, setup: Setup) -> Layout:
        """Return the layout of the model's arrays in its parameter vector."""
        return session(setup).network.layout

    def train(
        self, setup: Setup, models: list[Weights], assigned: Assignment, attacks: tuple[str, ...]
    ) -> BlockResult:
        """Train a block for one round, measure the result, and make the attacks on updates that
        are due (``attacks``).
        """
        from algorithms.engine.block import train_again

        worker = session(setup)
        run = worker.run
        data = worker.data
        network = worker.network
        again = partial(train_again, run, data, network, models, assigned)

        def observe(sent: TrainedBlock) -> dict[str, Any]:
            updates = SeenUpdates(
                data,
                network,
                models,
                assigned.chosen,
                sent.params,
                sent.buffers,
                assigned.clients,
                stream=worker.fixed,
                round=assigned.round,
                train_again=again,
            )
            due = [attack for attack in run.attacks if attack.name in attacks]
            return {attack.name: attack.module.observe(attack.config, updates) for attack in due}

        streams = worker.streams(assigned.round), worker.fixed
        once = Sending(train=partial(train_once, setup))
        return train_block(run, data, network, models, assigned, streams, observe, once)

    def attack_sum(
        self, setup: Setup, received: Sum, round_: int, attacks: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return what the named attacks on sums observe of what the server received of a model,
        by attack.
        """
        worker = session(setup)
        seen = SeenSum(worker.data, worker.network, received, worker.fixed, round_)
        due = [attack for attack in worker.run.attacks if attack.name in attacks]
        return {attack.name: attack.module.observe(attack.config, seen) for attack in due}

    def evaluate(
        self, setup: Setup, models: list[Weights], block: tuple[int, ...], round_: int
    ) -> Evaluation:
        """Evaluate every model on the block's training examples, as the choice of models in
        round ``round_`` needs it.
        """
        from algorithms.engine import block as work

        worker = session(setup)
        return work.evaluate(
            worker.run, worker.data, worker.network, block, models, worker.streams(round_)
        )

    def predict(
        self,
        setup: Setup,
        models: list[Weights],
        model: int,
        first: int,
        last: int,
        part: Literal["test", "validation"] = "test",
    ) -> np.ndarray:
        """Compute one model's outputs on a range of the test or validation examples: logits
        [last - first, classes].
        """
        worker = session(setup)
        worker.network.load(models[model])
        examples = worker.data.test if part == "test" else worker.data.validation
        return worker.network.logits(examples.x[first:last])

    def arrays(self, setup: Setup, models: list[Weights]) -> list[dict[str, np.ndarray]]:
        """Return the parameters and buffers of every model by their names in the torch module."""
        network = session(setup).network
        named = []
        for weights in models:
            network.load(weights)
            state = network.module.state_dict()
            named.append(
                {name: array.cpu().contiguous().numpy().copy() for name, array in state.items()}
            )
        return named


def train_once(
    setup: Setup,
    run: Run,
    data: Federation,
    network: Network,
    models: list[Weights],
    assigned: Assignment,
    of_round: Callable[..., np.random.Generator],
) -> TrainedBlock:
    """Train a block or, in the first round, take over what another trial or replica of the sweep
    has trained alike.

    That round is the same for all that differ only in what the server does with it. Where clients
    train one after another, each is looked for by itself, because replicas differ in one client.
    Secret noise is never kept.
    """
    from algorithms.engine import block

    cache = setup.cache
    train = partial(block.train, run, data, network, models)
    if cache is None or assigned.round or not run.repeatable:
        return train(assigned, of_round)
    sent = digest(
        [setup.code, run.seed], *(array for each in models for array in (each.params, each.buffers))
    )

    def trained(part: Assignment) -> TrainedBlock:
        plain, arrays = block.read_by_training(run, data, part)
        key = f"first-round-{digest([sent, plain], *arrays)}"
        content = stored(cache, key)
        if content:
            read: dict[str, Any] = load(content)
            return block.TrainedBlock(
                read["params"], read["buffers"], read["loss"], under("states.", read)
            )
        began = time.perf_counter()
        new = train(part, of_round)
        if new.params.nbytes < WORTH * (time.perf_counter() - began - ENTRY_SECONDS):
            found = {f"states.{name}": array for name, array in new.optimizer_states.items()}
            found |= {"params": new.params, "buffers": new.buffers, "loss": new.loss}
            cached(
                cache,
                key,
                lambda: save({name: np.asarray(array, order="C") for name, array in found.items()}),
            )
        return new

    singles = (
        []
        if trains_together(run)
        else [block.alone(assigned, i) for i in range(len(assigned.clients))]
    )
    return block.joined([trained(part) for part in singles or [assigned]])


@dataclass(frozen=True)
class Job:
    """A call of a method of `ClientActor` with its arguments after the setup; ``examples`` says
    how long it takes.
    """

    method: str
    args: tuple[Any, ...]
    examples: int = 0


def prediction_jobs(sent: Any, models: int, examples: int, *part: str) -> list[Job]:
    """Return the jobs that compute the outputs of every model on examples, the test examples or
    another ``part`` of them.
    """
    slices = [(at, min(at + PREDICTED, examples)) for at in range(0, examples, PREDICTED)]
    return [
        Job("predict", (sent, j, *ends, *part), ends[1] - ends[0])
        for j in range(models)
        for ends in slices
    ]


class ClientPool:
    """The trial's actors.

    The longest waiting job goes to whichever is free; results are returned in the order of the
    jobs.

    ``title`` is the sweep and trial that the jobs are for, as Ray's dashboard shows them.
    """

    def __init__(self, options: Sequence[dict[str, Any]], timeout: float, sweep: str = "") -> None:
        """Start actors with these Ray options, which a wait gives up after ``timeout`` seconds
        without any result.

        Ray restarts a killed actor and repeats its jobs, with the same bytes unless the noise is
        secret.
        """
        self.options = options
        self.timeout = timeout
        self.sweep = sweep
        self.title = sweep
        self.start()

    def start(self) -> None:
        """Start the actors' processes."""
        remote = ray.remote(ClientActor)
        own_name = f"clients of {self.sweep or 'a trial'}, {uuid4().hex[:6]}"
        self.actors: list[Any] = [
            remote.options(
                name=f"{own_name}-{number}", max_restarts=-1, max_task_retries=-1, **placed
            ).remote()
            for number, placed in zip(count(1), self.options, strict=False)
        ]

    def share(self, models: list[Weights]) -> Any:
        """Return the models as a job's argument: themselves if they are small, which is faster,
        else a reference.
        """
        size = sum(model.params.nbytes + model.buffers.nbytes for model in models)
        return models if size <= SMALL else ray.put(models)

    def run(self, setup: Setup, jobs: Sequence[Job]) -> list[Any]:
        """Run jobs on the actors and return their results, in the order of the jobs.

        Their exceptions are passed on.

        Raises TimeoutError if no actor returned a result within the time limit.
        """
        results: dict[int, Any] = {}
        waiting = sorted(range(len(jobs)), key=lambda index: (jobs[index].examples, -index))
        pending: dict[ray.ObjectRef[Any], tuple[int, int]] = {}
        load = [(0, 0)] * len(self.actors)  # the jobs that each has, and their examples
        while waiting or pending:
            while waiting:
                at = min(range(len(load)), key=load.__getitem__)
                has, examples = load[at]
                last = len(waiting) <= len(self.actors) > 1
                if has >= (1 if last else PIPELINE):
                    break
                index = waiting.pop()
                job = jobs[index]
                load[at] = has + 1, examples + job.examples
                method = getattr(self.actors[at], job.method).options(
                    name=f"ClientActor.{job.method}, {self.title}"
                )
                pending[method.remote(setup, *job.args)] = (index, at)
            answered, _ = ray.wait(list(pending), timeout=self.timeout)
            if not answered:
                self.stop()  # else the next trial would wait for these jobs, too
                self.start()
                raise TimeoutError(
                    f"{len(pending)} jobs wait for {len(self.actors)} client actors and none "
                    f"finished within {self.timeout:g} s; raise resources.timeout_seconds if "
                    "a block takes that long"
                )
            for ref in answered:
                index, at = pending.pop(ref)
                results[index] = ray.get(ref)
                has, examples = load[at]
                load[at] = has - 1, examples - jobs[index].examples
        return [results[index] for index in range(len(jobs))]

    def stop(self) -> None:
        """Kill the actors' processes."""
        for actor in self.actors:
            ray.kill(actor)


class LocalClients:
    """Replaces `ClientPool` where this process is the only worker: a whole federation in one
    process.
    """

    def __init__(self) -> None:
        """Create the actor object in this process."""
        self.actor = ClientActor()

    def share(self, value: Any) -> Any:
        """Return ``value`` itself."""
        return value

    def run(self, setup: Setup, jobs: Sequence[Job]) -> list[Any]:
        """Run jobs one after another and return their results."""
        return [getattr(self.actor, job.method)(setup, *job.args) for job in jobs]
