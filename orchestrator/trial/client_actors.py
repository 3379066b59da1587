"""The client actors: each hosts any number of clients, runs whichever block it is handed, and keeps nothing of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray

from algorithms.core.layout import Layout
from algorithms.core.messages import BlockResult, Evaluation, Ints, Weights
from orchestrator.trial.random_streams import stream
from orchestrator.trial.worker_session import Setup, session

SMALL = 1 << 16  # bytes that every job may carry along; on a cluster Ray writes up to 100 kB into the call itself
PIPELINE = 2  # jobs handed to an actor at a time: the second travels while the first is computed


def client_blocks(clients: int, size: int) -> list[tuple[int, ...]]:
    """All clients in blocks of ``size``, by id: the fixed units in which work is handed out, summed and repeated."""
    return [tuple(range(at, min(at + size, clients))) for at in range(0, clients, size)]


class ClientActor:
    """Trains and evaluates blocks. Every method is a function of its arguments, so any actor may run any job again."""

    def __init__(self) -> None:
        import algorithms.engine.block  # noqa: F401 (loads torch while the driver still prepares the data)

    def initial(self, setup: Setup, attempt: int, clusters: int) -> list[Weights]:
        """Independent initial models, one for each cluster; trained on the server's examples where the aggregation wants it."""
        from algorithms.engine import block as work

        mine, models = session(setup), []
        for j in range(clusters):
            mine.network.load(mine.network.initial(stream(mine.run.seed, "initial_weights", attempt, j)))
            rng = stream(mine.run.seed, "pretraining", attempt, j)
            models.append(work.pretrain(mine.run, mine.data, mine.network, rng))
        return models

    def layout(self, setup: Setup) -> Layout:
        """Where the model's arrays lie in the vector of its parameters."""
        return session(setup).network.layout

    def train(
        self,
        setup: Setup,
        models: list[Weights],
        block: tuple[int, ...],
        assignment: Ints,
        round_: int,
        told: dict[str, np.ndarray],
        carried: dict[str, np.ndarray],
        attacks: tuple[str, ...],
    ) -> BlockResult:
        """A round of the block: local training, what is measured on its outcome, what ``attacks`` see of it, its sums.

        ``assignment``, ``told`` (what the server knows of them) and ``carried`` (their optimizers) are the block's alone.
        """
        from algorithms.engine import block as work

        mine = session(setup)
        run, data, network = mine.run, mine.data, mine.network
        trained = work.train(run, data, network, block, models, assignment, round_, mine.streams(round_), told, carried)
        known = work.measure_curvatures(run, data, network, block, trained, mine.fixed) | {"train_loss": trained.loss}
        observed = {
            attack.name: attack.module.observe(
                attack.config, data, network, models, assignment, trained.params, trained.buffers, block, mine.fixed
            )
            for attack in run.attacks
            if attack.name in attacks
        }
        parts = work.sum_updates(run, trained, block, models, assignment, data.sizes[list(block)])
        return BlockResult(np.array(block), parts, known, observed, trained.carried)

    def evaluate(self, setup: Setup, models: list[Weights], block: tuple[int, ...], round_: int) -> Evaluation:
        """Every model on the block's training examples, as the choice of round ``round_`` needs it."""
        from algorithms.engine import block as work

        mine = session(setup)
        return work.evaluate(mine.run, mine.data, mine.network, block, models, mine.streams(round_))

    def predict(self, setup: Setup, models: list[Weights], model: int, first: int, last: int) -> np.ndarray:
        """Outputs [last - first, classes] of one model on a stretch of the test examples."""
        mine = session(setup)
        mine.network.load(models[model])
        return mine.network.logits(mine.data.test.x[first:last])

    def arrays(self, setup: Setup, models: list[Weights]) -> list[dict[str, np.ndarray]]:
        """Parameters and buffers of every model by their names in the torch module."""
        network = session(setup).network
        named = []
        for weights in models:
            network.load(weights)
            state = network.module.state_dict()
            named.append({name: array.cpu().contiguous().numpy().copy() for name, array in state.items()})
        return named


@dataclass(frozen=True)
class Job:
    """A method of `ClientActor` and its arguments, without the setup."""

    method: str
    args: tuple[Any, ...]


class ClientPool:
    """The trial's actors. A job goes to whichever is free; results come back in the order of the jobs."""

    def __init__(self, options: Sequence[dict[str, Any]], timeout: float) -> None:
        """Start one actor for each of the Ray ``options``; give up on a job after ``timeout`` seconds of silence.

        A killed actor is started again by Ray, and what it was doing is repeated, to the same bytes.
        """
        remote = ray.remote(ClientActor)
        self.actors: list[Any] = [
            remote.options(max_restarts=-1, max_task_retries=-1, **own).remote() for own in options
        ]
        self.timeout = timeout

    def share(self, models: list[Weights]) -> Any:
        """Lay ``models`` where every actor can read them; what is returned takes their place among a job's arguments.

        Small ones travel with the jobs, which is faster than to fetch them.
        """
        size = sum(model.params.nbytes + model.buffers.nbytes for model in models)
        return models if size <= SMALL else ray.put(models)

    def run(self, setup: Setup, jobs: Sequence[Job]) -> list[Any]:
        """Results of ``jobs``, in their order. Raises TimeoutError where no actor answers, and what an actor raises."""
        results: dict[int, Any] = {}
        waiting = list(enumerate(jobs))[::-1]
        pending: dict[ray.ObjectRef, tuple[int, Any]] = {}
        idle = self.actors * PIPELINE
        while waiting or pending:
            while waiting and idle:
                index, job = waiting.pop()
                actor = idle.pop(0)
                pending[getattr(actor, job.method).remote(setup, *job.args)] = (index, actor)
            for ref in self._answered(pending):
                index, actor = pending.pop(ref)
                results[index] = ray.get(ref)
                idle.append(actor)
        return [results[index] for index in range(len(jobs))]

    def _answered(self, pending: dict[ray.ObjectRef, Any]) -> list[ray.ObjectRef]:
        answered, _ = ray.wait(list(pending), timeout=self.timeout)
        if not answered:
            raise TimeoutError(
                f"{len(pending)} jobs wait for {len(self.actors)} client actors and none was answered within "
                f"{self.timeout:g} s; raise resources.timeout_seconds if a block takes that long"
            )
        return answered

    def stop(self) -> None:
        """End the actors' processes."""
        for actor in self.actors:
            ray.kill(actor)
