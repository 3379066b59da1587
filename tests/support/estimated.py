"""Runs whose work is counted, and the seconds of a trial where every step is known to take as long as is said here."""

from pathlib import Path
from typing import Any

from algorithms.interfaces import Run
from orchestrator.cluster.placement import Placement, placement
from orchestrator.config.run import resolve
from orchestrator.config.sweep_file import Resources
from orchestrator.estimates import counts
from orchestrator.estimates.counts import Count
from orchestrator.estimates.small_runs import SmallRuns
from orchestrator.trial.federation import partition_data

RATES = {"train": 1.0, "evaluate": 10.0, "curve": 100.0, "serve": 0.0, "attack": 5.0}


def a_run(rounds: int = 4, **given: Any) -> Run:
    digits = {"name": "digits", "clients": 8, "examples_per_client": 12}
    fields: dict[str, Any] = {"rounds": rounds, "data": digits, "model": {"name": "mlp", "hidden": [8]}}
    return resolve(fields | {"training": {"epochs": 2, "batch_size": 5, "clients_per_job": 3}} | given)


def a_place(run: Run, actors: int = 1) -> Placement:
    return placement(Resources(client_actors=actors), run.training.config)


def counted(run: Run, actors: int = 1) -> list[Count]:
    """What a trial does; without the seconds of messages and files, which are not what is tested."""
    every = counts.of_trial(run, partition_data(run, Path()), a_place(run, actors))
    return [one for one in every if one.step != "wait"]


def parts(run: Run, actors: int = 1) -> dict[str, float]:
    """The seconds of each part at the speeds of `RATES`."""
    every = counted(run, actors)
    return counts.seconds(every, {(one.step, one.attack): RATES[one.step] for one in every})


def estimated(run: Run, root: Path = Path()) -> tuple[float, float]:
    """The seconds of a trial whose steps are timed, and those among them that are messages and files."""
    small = SmallRuns(lambda run: root)
    data, loading = small.data(run)
    every = counts.of_trial(run, data, a_place(run), loading)
    messages = sum(count.times / count.processes for count in every if count.step == "wait")
    return sum(counts.seconds(every, small.rates(run, data, every)).values()), messages
