"""What a trial needs at least of memory, by arithmetic on its configuration, and what no machine
at hand has.

Nothing is made to find out: a model is counted without its numbers. Only what a trial certainly
holds is added up, and it is
compared with all that the machine has, so that what is merely large is not refused.
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

FLOAT, POSITION, ASSIGNED = (
    4,
    8,
    2,
)  # bytes of a parameter, of an example's position in a batch, of a client's model
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
                beside = (
                    f", {decimal(round(total))} with what is needed besides"
                    if total > 1.01 * need.bytes
                    else ""
                )
                demand = (
                    f"{format_value(need.value)} asks for {need.what}: "
                    f"{decimal(round(need.bytes))}{beside}"
                )
                there = (
                    f"this machine has {decimal(round(memory))}; --address HOST:PORT runs the "
                    "sweep on a cluster"
                )
                sentence = f"{demand}; {there}"
                (top, *inner) = need.key
                return [
                    f"{'.'.join(map(str, inner))}: {sentence}"
                    if top == "base"
                    else f"{top}.{inner[0]} {sentence}"
                ]
        return []

    return shortages


def needs_of(run: Run, source: Source, place: Placement) -> Iterator[Need]:
    """Yield what the processes of a trial hold of its models and batches, what depends on less
    first.
    """
    training, clients, clusters = (
        run.training.config,
        run.data.config.clients,
        run.clustering.config.clusters,
    )
    # How many clients take part in a round; where that is drawn, as many as are expected, without a
    # margin.
    cohort = (
        clients if run.participation == "all" else max(1, round(run.participation_rate * clients))
    )
    together = math.ceil(
        min(training.block_size, clients) * cohort / clients
    )  # of a block, on average
    busy = min(place.actors, -(-clients // training.block_size), cohort)
    history = float(run.rounds) * clients * ASSIGNED
    yield Need(
        ("base", "rounds"),
        run.rounds,
        f"the models of {clients} clients in that many rounds",
        history,
    )
    each = run.data.config.examples_per_client or max(1, len(source.train) // clients)
    plan = float(training.epochs) * each * POSITION * together
    passes = (
        f"the batches of {_count(training.epochs)} passes over {each} examples, for each of "
        f"{together} clients"
    )
    yield Need(("base", "training", "epochs"), training.epochs, passes, plan)
    shape, classes = source.train.x.shape[1:], source.classes
    size, built = (
        run.model.module.parameters(run.model.config, shape, classes),
        run.model.module.OWN_VALUES,
    )
    if size is None and (
        built or clusters + together * busy + clients >= MANY
    ):  # torch is loaded for it anyway
        size = parameters(run.model, shape, classes)
    if size is None:
        return
    each_model, many = FLOAT * size, f"of {_count(size)} parameters"
    yield Need(
        ("base", "model"), run.model.name, f"a model {many}, with their gradients", 2 * each_model
    )
    yield Need(
        ("base", "clustering", "clusters"),
        clusters,
        f"{clusters} models {many}",
        (clusters - 1) * each_model,
    )
    what = f"{together} clients' models {many}, and what they learned, at the same time"
    yield Need(
        ("base", "training", "clients_per_job"),
        training.block_size,
        what,
        2 * together * each_model,
    )
    if "optimizer_state" not in training.unread_fields():
        moments = (
            0 if training.optimizer_state == "reset" else 2 if training.optimizer == "adam" else 1
        )
        key, what = (
            ("base", "training", "optimizer_state"),
            f"{moments} moments {many} for each of {clients} clients",
        )
        yield Need(key, training.optimizer_state, what, moments * clients * each_model)
    for slot in (run.aggregation, run.privacy):
        if slot.module.NEEDS == "updates":
            key = ("base", "aggregation" if slot is run.aggregation else "privacy", "name")
            yield Need(
                key, slot.name, f"the updates of {cohort} clients, each {many}", cohort * each_model
            )
            break
    what = f"{busy} processes, each with {2 + 2 * together} arrays {many}"
    worker = (2 + clusters + 2 * together) * each_model + plan
    yield Need(("resources", "client_actors"), place.actors, what, (busy - 1) * worker)


@remembered
def parameters(
    model: Component[ModelContract, Any], shape: tuple[int, ...], classes: int
) -> int | None:
    """Return the number of a model's parameters, without making it; None if it cannot be told.

    The trials of a sweep often have one model, and even without its numbers a large one takes a
    while to build.
    """
    if (count := model.module.parameters(model.config, shape, classes)) is not None:
        return count
    from algorithms.core import own_values

    return own_values.elements(lambda: model.module.build(model.config, shape, classes))


def _count(number: float) -> str:
    return f"{number:,}".replace(",", " ") if number < 1e9 else f"{number:.2g}"
