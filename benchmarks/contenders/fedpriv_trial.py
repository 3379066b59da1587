"""fedpriv as a sweep runs it: a Ray session, client actors, and a `Trial` that is advanced round
by round.

    python fedpriv_trial.py FOLDER [--run RUN.json] [--data DIR] [--cache DIR] [--privacy NAME]

FOLDER holds the work of all contenders. With ``--run`` its examples are left alone and the
federation is the run's own, dealt from the data sets under ``--data``; ``--cache`` is where shadow
models are kept. With ``--privacy`` the work is done under that component, and the seconds of its
audit by canaries are a part of their own.

What is left out of a sweep: Tune, which calls the trial, and MLflow, which hears of it in another
process. What is in it and
not in the other contenders': the tables, the saved state, and any evaluation that the engine makes
between two rounds. The test examples are never evaluated (``evaluate_every`` is out of reach). An
answer to ``round`` holds the seconds of each part.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import ray
from protocol import own_stdout, serve
from ray.util import placement_group
from work import ClientExamples, Work, read_examples, read_initial, read_work

from algorithms.core.messages import Weights
from datasets.federation import Examples, Federation
from orchestrator.cluster.address import Target
from orchestrator.cluster.placement import placement
from orchestrator.cluster.ray_session import ray_session
from orchestrator.config.run import resolve
from orchestrator.config.sweep_file import Resources
from orchestrator.results.paths import Folder
from orchestrator.trial.attack_tasks import ShadowTasks
from orchestrator.trial.client_actors import ClientPool
from orchestrator.trial.federation import partition_data
from orchestrator.trial.loop import Rounds, TrialContext
from orchestrator.trial.restarts import Trial
from orchestrator.trial.worker_session import Setup

ENDLESS = 10**9  # rounds of a trial that is only ever asked for one more
PARTS = ("_attack", "_train", "_spend", "_evaluate", "_record")


def given(work: Work, examples: ClientExamples) -> dict[str, Any]:
    """The run that is the work of all contenders; every slot that is not named has its default."""
    each, split = len(examples.y) // examples.clients, {"minority_ratio": 0.5}
    data = {
        "name": "digits",
        "clients": examples.clients,
        "examples_per_client": each,
        "split": split,
    }
    training = {
        name: getattr(work, name)
        for name in ("optimizer", "lr", "epochs", "batch_size", "precision")
    }
    return {"data": data, "model": work.network, "training": training}


def federation(work: Work, examples: ClientExamples) -> Federation:
    """The examples of the work as fedpriv's data.

    One example stands for the test part, which is never looked at.
    """
    none, clients = Examples(examples.x[:0], examples.y[:0]), examples.clients
    return Federation(
        name=work.name,
        classes=work.classes,
        train=Examples(examples.x, examples.y),
        offsets=examples.offsets,
        groups=np.zeros(clients, np.int64),
        group_names=("all",),
        strengths=np.zeros(clients, np.float32),
        example_strengths=np.zeros(len(examples.y), np.float32),
        test=Examples(examples.x[:1], examples.y[:1]),
        test_owner=np.array([-1]),
        nonmembers=none,
        nonmember_owner=np.empty(0, np.int64),
        shadow=none,
    )


def flattened(arrays: dict[str, np.ndarray]) -> Weights:
    """Named arrays of a torch module as fedpriv's vector, in which kernels lie with their
    channels last.
    """
    pieces = [np.moveaxis(array, 1, -1) if array.ndim > 2 else array for array in arrays.values()]
    return Weights(np.concatenate([piece.ravel() for piece in pieces]), np.empty(0, np.float32))


class Clock:
    """How long each part of a round took."""

    def __init__(self, rounds: Rounds) -> None:
        self.seconds: dict[str, float] = {}
        for name in PARTS:
            setattr(rounds, name, self._timed(name.removeprefix("_"), getattr(rounds, name)))
        rounds.audit.observe = self._timed("audit", rounds.audit.observe)  # type: ignore[method-assign]

    def _timed(self, name: str, part: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            started = time.perf_counter()
            try:
                return part(*args)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

        return timed

    def taken(self) -> dict[str, float]:
        """The seconds since this was last asked for."""
        taken, self.seconds = self.seconds, {}
        return taken


def stored() -> float:
    """Bytes in Ray's object store, as the raylet last reported them (it does so several times a
    second).
    """
    name = "object_store_memory"
    return ray.cluster_resources()[name] - ray.available_resources().get(name, 0.0)


def serve_trial(options: argparse.Namespace, out: Any, scratch: Path) -> None:
    """Start everything, then answer."""
    work = read_work(options.folder)
    described = (
        json.loads(options.run.read_text())
        if options.run
        else given(work, read_examples(options.folder))
    )
    described |= {"privacy": options.privacy} if options.privacy else {}
    run = resolve(described | {"rounds": ENDLESS, "evaluate_every": ENDLESS})
    resources = Resources(client_actors=work.processes)
    place = placement(resources, run.training.config)
    with ray_session(Target(), place):
        group = placement_group(place.bundles)  # what Tune would reserve for the trial
        ray.get(group.ready())
        clients = ClientPool(place.actor_options(group), resources.timeout_seconds)
        shadows = ShadowTasks(place.shadow_options(group), resources.timeout_seconds)
        own = partition_data(run, options.data or Path()) if options.run else None
        data = ray.put(own or federation(work, read_examples(options.folder)))
        setup = Setup(
            "benchmark", [ray.put(run.to_dict()), data], options.cache or scratch / "cache"
        )
        folder = Folder(scratch).trial("t")
        trial = Trial(run, TrialContext(setup, ray.get(data), clients, shadows, folder))
        if not options.run:
            trial.state.models = [flattened(read_initial(options.folder))]
        clock = Clock(trial.rounds)

        def round_(_: str) -> dict[str, Any]:
            trial.advance()
            return {"parts": clock.taken()}

        def save(path: str) -> None:
            np.savez(
                path,
                **{name.split(".", 1)[1]: array for name, array in trial.rounds.arrays().items()},
            )

        serve(out, {"round": round_, "save": save, "store": lambda _: {"bytes": stored()}})
        clients.stop()


def main() -> None:
    out = own_stdout()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    for option in ("--run", "--data", "--cache"):
        parser.add_argument(option, type=Path)
    parser.add_argument("--privacy")
    with TemporaryDirectory() as scratch:
        serve_trial(parser.parse_args(), out, Path(scratch))


if __name__ == "__main__":
    main()
