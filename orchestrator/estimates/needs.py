"""What a trial needs at least of memory, by arithmetic on its configuration, and what no machine
at hand has.

Nothing is made to find out: a model is counted without its numbers. Only what a trial certainly
holds is added up, and it is compared with all that the machine has, so that what is merely large is
not refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.filesize import decimal

from algorithms.interfaces import ModelContract, Run
from datasets.components import Component, remembered
from datasets.federation import Source
from orchestrator.cluster.placement import Placement, placement
from orchestrator.config.errors import Key, format_value
from orchestrator.config.sweep_file import Sweep

FLOAT = 4  # bytes of a parameter
POSITION = 8  # of an example's position in a batch
ASSIGNED = 2  # of a client's model in a round
MANY = 100  # models at a time from which it is worth loading torch to count their parameters
CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def this_machine() -> int:
    """Return the bytes of memory of this machine, or of the container that limits this process."""
    limits = [psutil.virtual_memory().total]
    for path in map(Path, CGROUPS):
        with suppress(OSError, ValueError):  # no limit, or no such file
            limits.append(int(path.read_text()))
    return min(limits)


@dataclass(frozen=True)
class Need:
    """Something large that a trial holds, ``what`` in words: the field that makes it large, its
    value, and the size.
    """

    key: Key
    value: Any
    what: str
    bytes: float


def fits(sweep: Sweep, memory: float) -> Callable[[Run, Source], list[str]]:
    """Return the function that says, in sentences with a key inside ``base``, why ``memory``
    bytes cannot hold a trial.
    """

    def shortages(run: Run, source: Source) -> list[str]:
        total = 0.0
        for need in needs_of(run, source, placement(sweep.resources, run.training.config)):
            total += need.bytes
            if total > memory:
                return [_refusal(need, total, memory)]
        return []

    return shortages


def _refusal(need: Need, total: float, memory: float) -> str:
    """The sentence that ``memory`` bytes cannot hold ``total``, of which a need is the last."""
    demand = f"{format_value(need.value)} asks for {need.what}: {_bytes(need.bytes)}"
    if total > 1.01 * need.bytes:
        demand += f", {_bytes(total)} with what is needed besides"
    there = f"this machine has {_bytes(memory)}; --address HOST:PORT runs the sweep on a cluster"
    top, *inner = need.key
    key = ".".join(map(str, inner))
    return f"{key}: {demand}; {there}" if top == "base" else f"{top}.{key} {demand}; {there}"


@dataclass(frozen=True)
class AtOnce:
    """How much of a trial is in memory at the same time.

    Attributes:
        cohort: clients that take part in a round; where that is drawn, as many as are expected,
            without a margin.
        together: those of a block, on average.
        busy: processes that have a block.
        plan: bytes of the batches of a block.
    """

    cohort: int
    together: int
    busy: int
    plan: float


def needs_of(run: Run, source: Source, place: Placement) -> Iterator[Need]:
    """Yield what the processes of a trial hold of its models and batches, what depends on less
    first.
    """
    training = run.training.config
    clients = run.data.config.clients
    share = 1.0 if run.participation == "all" else run.participation_rate
    cohort = max(1, round(share * clients))
    together = math.ceil(min(training.block_size, clients) * cohort / clients)
    busy = min(place.actors, -(-clients // training.block_size), cohort)
    each = run.data.config.examples_per_client or max(1, len(source.train) // clients)
    plan = float(training.epochs) * each * POSITION * together
    at_once = AtOnce(cohort, together, busy, plan)
    rounds = f"the models of {clients} clients in that many rounds"
    yield Need(("base", "rounds"), run.rounds, rounds, float(run.rounds) * clients * ASSIGNED)
    passes = (
        f"the batches of {_count(training.epochs)} passes over {each} examples, for each of "
        f"{together} clients"
    )
    yield Need(("base", "training", "epochs"), training.epochs, passes, plan)
    size = _size(run, source, together * busy)
    if size is not None:
        yield from _of_models(run, place, at_once, size)


def _size(run: Run, source: Source, trained: int) -> int | None:
    """The number of a model's parameters; None if that is not known without loading torch, for
    which few models are not worth it.
    """
    shape = source.train.x.shape[1:]
    size = run.model.module.parameters(run.model.config, shape, source.classes)
    models = run.clustering.config.clusters + trained + run.data.config.clients
    if size is None and (run.model.module.OWN_VALUES or models >= MANY):
        size = parameters(run.model, shape, source.classes)
    return size


def _of_models(run: Run, place: Placement, at_once: AtOnce, size: int) -> Iterator[Need]:
    """Yield what is as large as models with so many parameters."""
    training = run.training.config
    clusters = run.clustering.config.clusters
    together = at_once.together
    model = FLOAT * size
    many = f"of {_count(size)} parameters"
    what = f"a model {many}, with their gradients"
    yield Need(("base", "model"), run.model.name, what, 2 * model)
    what = f"{clusters} models {many}"
    yield Need(("base", "clustering", "clusters"), clusters, what, (clusters - 1) * model)
    what = f"{together} clients' models {many}, and what they learned, at the same time"
    key: Key = ("base", "training", "clients_per_job")
    yield Need(key, training.block_size, what, 2 * together * model)
    if "optimizer_state" not in training.unread_fields():
        yield _of_moments(run, many, model)
    for name in ("aggregation", "privacy"):
        slot = getattr(run, name)
        if slot.module.NEEDS == "updates":
            what = f"the updates of {at_once.cohort} clients, each {many}"
            yield Need(("base", name, "name"), slot.name, what, at_once.cohort * model)
            break
    arrays = 2 + 2 * together
    what = f"{at_once.busy} processes, each with {arrays} arrays {many}"
    worker = (clusters + arrays) * model + at_once.plan
    key = ("resources", "client_actors")
    yield Need(key, place.actors, what, (at_once.busy - 1) * worker)


def _of_moments(run: Run, many: str, model: int) -> Need:
    """What optimizers keep for every client from round to round."""
    training = run.training.config
    clients = run.data.config.clients
    moments = 2 if training.optimizer == "adam" else 1
    if training.optimizer_state == "reset":
        moments = 0
    what = f"{moments} moments {many} for each of {clients} clients"
    key = ("base", "training", "optimizer_state")
    return Need(key, training.optimizer_state, what, moments * clients * model)


@remembered
def parameters(
    model: Component[ModelContract, Any], shape: tuple[int, ...], classes: int
) -> int | None:
    """Return the number of a model's parameters, without making it; None if it cannot be told.

    The trials of a sweep often have one model, and even without its numbers a large one takes a
    while to build.
    """
    count = model.module.parameters(model.config, shape, classes)
    if count is not None:
        return count
    from algorithms.core import own_values

    return own_values.elements(lambda: model.module.build(model.config, shape, classes))


def _bytes(number: float) -> str:
    return decimal(round(number))


def _count(number: float) -> str:
    return f"{number:,}".replace(",", " ") if number < 1e9 else f"{number:.2g}"
