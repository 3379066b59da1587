"""What a trial needs at least of memory and disk, by arithmetic on its configuration, and what no machine at hand has.

Nothing is made to find out: a model is counted without its numbers. Only what a trial certainly holds is added up, and it is
compared with all that the machine has, so that what is merely large is not refused.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from algorithms.interfaces import ModelContract, Run
from datasets.components import Component, remembered
from datasets.federation import Source
from orchestrator.cluster.placement import Placement, placement
from orchestrator.config.errors import ConfigProblem, Key, format_value
from orchestrator.config.sweep_file import Sweep

FLOAT, POSITION, ASSIGNED = 4, 8, 2  # bytes of a parameter, of an example's position in a batch, of a client's model
ROW = 100  # bytes of a round in the tables, at least
MANY = 100  # models at a time from which those of a known architecture are worth counting

CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
SIZES = ("B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")


@dataclass(frozen=True)
class Machine:
    """What there is to hold a trial.

    Attributes:
        memory: bytes of memory.
        disk: bytes of the disk with the results.
        words: whose they are, as the begin of a clause, such as "this machine has".
        hint: where there may be more memory, as the end of a sentence.
    """

    memory: float
    disk: float
    words: str
    hint: str = ""


# Of a machine that is elsewhere nothing is known but that none has more.
LARGEST = Machine(memory=64 * 2.0**40, disk=2.0**60, words="no node of a cluster has more than")


def this_machine(results: Path) -> Machine:
    """Return what this machine has, or the container that limits this process.

    Args:
        results: the folder of the results, which need not exist.
    """
    there = next((folder for folder in (results, *results.parents) if os.path.exists(folder)), Path.cwd())
    limits, disk = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")], math.inf
    for path in map(Path, CGROUPS):
        with suppress(OSError, ValueError):  # no limit, or no such file
            limits.append(int(path.read_text()))
    with suppress(OSError):
        disk = float(shutil.disk_usage(there).total)
    return Machine(float(min(limits)), disk, "this machine has", "; --address HOST:PORT runs the sweep on a cluster")


def amount(bytes_: float) -> str:
    """Write a number of bytes for a reader.

    >>> amount(999), amount(2.6e11), amount(8e30)
    ('999 B', '260 GB', '8e+09 ZB')
    """
    for unit in SIZES:
        if bytes_ < 999.5 or unit == SIZES[-1]:
            break
        bytes_ /= 1000
    return f"{bytes_:.3g} {unit}"


@dataclass(frozen=True)
class Need:
    """Something large that a trial holds.

    Attributes:
        key: the field that makes it large, from the top of the sweep file.
        value: the field's value.
        what: what it is, as the end of a sentence.
        bytes: its size.
    """

    key: Key
    value: Any
    what: str
    bytes: float

    def sentence(self, total: float, limit: float, words: str) -> str:
        """Say that the machine has less than ``total`` bytes, which is this and all before it."""
        beside = f", {amount(total)} with what is needed besides" if total > 1.01 * self.bytes else ""
        return f"{format_value(self.value)} asks for {self.what}: {amount(self.bytes)}{beside}; {words} {amount(limit)}"


def course_problems(sweep: Sweep, machine: Machine) -> list[ConfigProblem]:
    """Return what the machine has not enough of, as far as it can be told before the data are loaded."""
    problems: dict[ConfigProblem, None] = {}
    for run in sweep.runs:
        rounds, clients = run.rounds, run.data.config.clients
        key: Key = ("base", "rounds")
        table = Need(key, rounds, "tables of that many rounds", table_bytes(run))
        history = Need(key, rounds, f"the models of {clients} clients in each", float(rounds) * clients * ASSIGNED)
        disk = "the disk of the results has" if machine.disk < 2**60 else machine.words
        over = _first(iter([table]), machine.disk, disk) or _in_memory(iter([history]), machine)
        if over:
            problems[sweep.problem(over[1], *over[0])] = None
    return list(problems)


def table_bytes(run: Run) -> float:
    """Return the bytes of a trial's tables on the disk, at least."""
    return float(run.rounds) * ROW


def fits(sweep: Sweep, machine: Machine) -> Callable[[Run, Source], list[str]]:
    """Return the function that says, in sentences with a key inside ``base``, why a trial cannot be held."""

    def shortages(run: Run, source: Source) -> list[str]:
        place = placement(sweep.resources, run.training.config)
        short = _in_memory(needs_of(run, source, place), machine)
        if short is None:
            return []
        (top, *inner), sentence = short
        at = f"{'.'.join(map(str, inner))}:" if top == "base" else ".".join(map(str, short[0]))
        return [f"{at} {sentence}"]

    return shortages


def needs_of(run: Run, source: Source, place: Placement) -> Iterator[Need]:
    """Yield what the processes of a trial hold of its models and batches, what depends on less first."""
    training, clients = run.training.config, run.data.config.clients
    taking_part = cohort(run)
    together = math.ceil(min(training.block_size, clients) * taking_part / clients)  # of a block, on average
    busy = min(place.actors, -(-clients // training.block_size), taking_part)
    each = run.data.config.examples_per_client or max(1, len(source.train) // clients)
    plan = float(training.epochs) * each * POSITION
    passes = f"the batches of {_count(training.epochs)} passes over {each} examples, for each of {together} clients"
    yield Need(("base", "training", "epochs"), training.epochs, passes, plan * together)
    clusters = run.clustering.config.clusters
    size = parameters(run, source.train.x.shape[1:], source.classes, clusters + together * busy + clients)
    if size is None:
        return
    model, one = run.model.config, FLOAT * size
    large = _large_field(model)
    what = f"a model of {_count(size)} parameters, with their gradients"
    yield Need(("base", "model", *large), getattr(model, *large) if large else run.model.name, what, 2 * one)
    what = f"{clusters} models of {_count(size)} parameters"
    yield Need(("base", "clustering", "clusters"), clusters, what, (clusters - 1) * one)
    what = f"{together} clients' models of {_count(size)} parameters, and what they learned, at the same time"
    yield Need(("base", "training", "clients_per_job"), training.block_size, what, 2 * together * one)
    moments = 0 if training.optimizer_state == "reset" else 2 if training.optimizer == "adam" else 1
    if "optimizer_state" not in training.unread_fields():
        what = f"{moments} moments of {_count(size)} parameters for each of {clients} clients"
        yield Need(("base", "training", "optimizer_state"), training.optimizer_state, what, moments * clients * one)
    if "updates" in (run.aggregation.module.NEEDS, run.privacy.module.NEEDS):
        slot = "aggregation" if run.aggregation.module.NEEDS == "updates" else "privacy"
        what = f"the updates of {taking_part} clients, each of {_count(size)} parameters"
        yield Need(("base", slot, "name"), getattr(run, slot).name, what, taking_part * one)
    what = f"{busy} processes, each with {2 + 2 * together} arrays of {_count(size)} parameters"
    worker = (2 + clusters + 2 * together) * one + plan * together
    yield Need(("resources", "client_actors"), place.actors, what, (busy - 1) * worker)


def cohort(run: Run) -> int:
    """Return how many clients take part in a round; where that is drawn, as many as are expected, without a margin."""
    clients = run.data.config.clients
    return clients if run.participation == "all" else max(1, round(run.participation_rate * clients))


def parameters(run: Run, shape: tuple[int, ...], classes: int, copies: float = MANY) -> int | None:
    """Return the number of the model's parameters, without making it; None if it cannot be told or is not worth it.

    The trials of a sweep often have one model, and even without its numbers a large one takes a while to build. So the
    answer is remembered.
    """
    return _counted(_Written(repr(run.model), run.model), tuple(map(int, shape)), int(classes), copies >= MANY)


@dataclass(frozen=True)
class _Written:
    """A model whose fields need not be hashable: it is compared by its name and fields, as they are written."""

    text: str
    model: Component[ModelContract, Any] = field(compare=False)


@remembered
def _counted(written: _Written, shape: tuple[int, ...], classes: int, worth_it: bool) -> int | None:
    model = written.model
    known: int | None = model.module.parameters(model.config, shape, classes)
    if known is not None or not worth_it:
        return known
    from algorithms.core import own_values

    return own_values.elements(lambda: model.module.build(model.config, shape, classes))


def _first(needs: Iterator[Need], limit: float, words: str) -> tuple[Key, str] | None:
    """Return the key and the sentence of the need with which all so far are more than ``limit``; None if there is none."""
    total = 0.0
    for need in needs:
        total += need.bytes
        if total > limit:
            return need.key, need.sentence(total, limit, words)
    return None


def _in_memory(needs: Iterator[Need], machine: Machine) -> tuple[Key, str] | None:
    """Return the same for the memory of ``machine``."""
    short = _first(needs, machine.memory, machine.words)
    return short and (short[0], short[1] + machine.hint)


def _large_field(config: Any) -> tuple[str, ...]:
    """Return the field of a model with the largest number in it; empty if none has any."""
    sizes = {name: _largest(value) for name, value in config}
    return (max(sizes, key=sizes.__getitem__),) if any(size > 0 for size in sizes.values()) else ()


def _largest(value: Any) -> float:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return max(map(_largest, value), default=0)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _count(number: float) -> str:
    return f"{number:,}".replace(",", " ") if number < 1e9 else f"{number:.2g}"
