"""The plan of a sweep for ``--dry-run``: its trials, the resources it needs and an estimate of its duration."""

from __future__ import annotations

import heapq
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Group
from rich.table import Table
from rich.text import Text

from datasets.federation import DataError
from orchestrator.cluster.data_checks import data_problem
from orchestrator.cluster.placement import Placement, concurrent_trials
from orchestrator.cluster.ray_session import local_cpus
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep
from orchestrator.estimates.machine import amount
from orchestrator.estimates.needs import table_bytes
from orchestrator.estimates.trial import Estimator, Shares
from orchestrator.estimates.work import whole_batches
from orchestrator.scheduling.trials import TrialSpec, unrepeatable
from orchestrator.tracking.remaining import duration
from orchestrator.trial import worker_session
from orchestrator.trial.federation import federation_key

START_SECONDS = 30.0  # to start Ray, the drivers and their actors before the first round, and to write the report
MOST_TRIALS = 200  # whose time is estimated one by one; of more, these stand for the others
MOST_LISTED, FEW_LISTED = 100, 20  # trials that are all listed, and those that are listed of more
LARGE_TABLES = 1e9  # bytes of a trial's tables from which a plan says how many they are
FEWEST_PERCENT = 1  # smaller shares of the time are not listed


def plan(sweep: Sweep, trials: list[TrialSpec], missing: list[TrialSpec], place: Placement) -> Group:
    """The printable plan: trials, resources and estimated time.

    The estimate comes from timing a few steps of each kind of trial in this process.

    Args:
        sweep: the sweep.
        trials: all its trials.
        missing: those that have not finished yet.
        place: what one trial reserves.

    Raises:
        ConfigError: the data of a trial that is timed cannot be partitioned as the trial asks.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("trial", "rounds", "id", ""):
        table.add_column(heading, overflow="fold")
    todo = {trial.id for trial in missing}
    listed = trials if len(trials) <= MOST_LISTED else trials[:FEW_LISTED]
    for trial in listed:
        table.add_row(trial.title, str(trial.run.rounds), trial.id, "" if trial.id in todo else "complete")
    return Group(
        Text(f"{sweep.name}: {len(trials)} trials, {len(missing)} to run", style="bold"),
        table,
        *map(Text, _unlisted(len(trials) - len(listed))),
        Text(f"each trial: {place}; {_at_once(sweep, place)}"),
        *map(Text, _estimate(sweep, missing, place)),
        *map(Text, filter(None, [unrepeatable(missing), _tables(missing), *_models(missing)])),
        Text("nothing was started"),
    )


def _unlisted(others: int) -> list[str]:
    """What stands for the trials that are not listed; nothing if all are."""
    return [f"and {others} others, which --print-config shows"] if others else []


def _models(missing: list[TrialSpec]) -> list[str]:
    """What the models have to say of how they train, each sentence once."""
    said = [one.run.model.module.remark(one.run.model.config, one.run) for one in missing]
    return list(dict.fromkeys(filter(None, said)))


def _tables(missing: list[TrialSpec]) -> str | None:
    """What the tables of a trial take of the disk, if that is much."""
    most = max((table_bytes(trial.run) for trial in missing), default=0.0)
    return f"the tables of a trial take at least {amount(most)}" if most >= LARGE_TABLES else None


def _at_once(sweep: Sweep, place: Placement) -> str:
    return f"{_concurrent(sweep, place)} at a time on the {local_cpus()} CPUs here"


def _concurrent(sweep: Sweep, place: Placement) -> int:
    here = [{"CPU": float(local_cpus()), "GPU": 1.0}]
    return concurrent_trials(place, here, sweep.resources.concurrent_trials)


def _estimate(sweep: Sweep, missing: list[TrialSpec], place: Placement) -> list[str]:
    """The estimate, what its time is spent on, and remarks, a line each."""
    if not missing:
        return ["estimate: all trials are complete"]
    if place.gpu:
        return ["no estimate: training on a GPU cannot be timed without starting it"]
    worker_session.keep_freed_memory()  # as in the processes that train
    estimator, each, remarks = Estimator(sweep.root_of, place), [], dict[str, None]()
    count = _concurrent(sweep, place)
    drivers = deque[str](maxlen=count)  # the federations that the drivers hold; trials with the same one do not load it
    every = -(-len(missing) // MOST_TRIALS)
    for trial in missing[::every]:
        try:
            if sentence := estimator.oversized(trial.run):
                return [f"no estimate: {sentence}"]
            shares = estimator.shares(trial.run)
        except DataError as error:
            raise ConfigError([data_problem(sweep, str(error))]) from error
        key = federation_key(trial.run, sweep.root_of(trial.run))
        held = len(drivers) == count and key in drivers
        each.append(replace(shares, data=0.0) if held else shares)
        drivers.append(key)
        if remark := whole_batches(trial.run, estimator.deal(trial.run)):
            remarks[remark] = None
    slowdown = max(1.0, min(count, len(missing)) * place.actors * missing[0].run.training.config.threads / local_cpus())
    totals = [one.total for one in each for _ in range(every)][: len(missing)]
    seconds = START_SECONDS + makespan(totals, count) * slowdown
    some = f" for {len(each)} of the trials" if every > 1 else ""
    first = f"estimate: {duration(seconds)} on this machine, based on steps timed just now{some}"
    return [first, _spent(each), *_others(), *remarks]


def _others() -> list[str]:
    """A remark if other programs keep the processors busy."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load < 1 + local_cpus() / 2:
        return []
    return [f"other programs were busy here (a load of {load:.1f}); beside them it takes longer"]


def makespan(seconds: Sequence[float], count: int) -> float:
    """The seconds after which jobs are done that are begun in their order, ``count`` at a time."""
    busy = [0.0] * max(1, min(count, len(seconds)))
    for one in seconds:
        heapq.heappush(busy, heapq.heappop(busy) + one)
    return max(busy)


def _spent(each: Sequence[Shares]) -> str:
    """The line that says what the trials' time is spent on, the largest share first."""
    total = sum(each, Shares())
    shares = sorted(total.named().items(), key=lambda item: -item[1])
    named = [f"{name} {100 * s / total.total:.0f} %" for name, s in shares if 100 * s >= FEWEST_PERCENT * total.total]
    return f"a trial takes {duration(total.total / len(each))}: {', '.join(named)}"
