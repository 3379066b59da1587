"""Runs whose work is counted, and the seconds of a trial where every step is known to take as
long as is said here.
"""

from pathlib import Path
from typing import Any
from unittest.mock import patch

from algorithms.interfaces import Run
from orchestrator.cluster.placement import Placement, placement
from orchestrator.config.run import resolve
from orchestrator.config.sweep_file import Resources
from orchestrator.estimates import counts
from orchestrator.estimates.small_runs import SmallRuns
from orchestrator.trial.federation import partition_data

RATES = {
    "train": 1.0,
    "replicate": 0.25,
    "evaluate": 10.0,
    "curve": 100.0,
    "serve": 0.0,
    "attack": 5.0,
}
MESSAGES = {f"{what}_SECONDS": 0.0 for what in ("TRIAL", "ROUND", "JOB", "TASK", "ALONE")}


def a_run(rounds: int = 4, **given: Any) -> Run:
    digits = {"name": "digits", "clients": 8, "examples_per_client": 12}
    fields: dict[str, Any] = {
        "rounds": rounds,
        "data": digits,
        "model": {"name": "mlp", "hidden": [8]},
    }
    return resolve(
        fields | {"training": {"epochs": 2, "batch_size": 5, "clients_per_job": 3}} | given
    )


def a_place(run: Run, actors: int = 1) -> Placement:
    return placement(Resources(client_actors=actors), run.training.config)


def parts(run: Run, actors: int = 1) -> dict[str, float]:
    """The seconds of each part at the speeds of `RATES`, without messages and files."""
    with patch.multiple(counts, **MESSAGES):
        data = partition_data(run, Path())
        return counts.of_trial(run, data, a_place(run, actors), lambda step, attack="": RATES[step])


def estimated(run: Run, root: Path = Path()) -> tuple[float, float]:
    """The seconds of a trial whose steps are timed, and those among them that are messages and
    files.
    """
    small = SmallRuns(lambda run: root)
    data, loading = small.data(run)
    messages = counts.of_trial(run, data, a_place(run), lambda *_: 0.0, loading)
    return sum(
        counts.of_trial(run, data, a_place(run), small.rate(run, data), loading).values()
    ), sum(messages.values())
