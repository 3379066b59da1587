"""The plan of a sweep for ``--dry-run``: its trials, the resources it needs and an estimate of its duration."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from algorithms.interfaces import Run
from datasets.federation import DataError, Federation
from orchestrator.cluster.data_checks import data_problem
from orchestrator.cluster.placement import Placement, concurrent_trials
from orchestrator.cluster.ray_session import local_cpus
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep
from orchestrator.scheduling.trials import TrialSpec
from orchestrator.trial.attack_round import by_replicas
from orchestrator.trial.federation import partition_data

START_SECONDS = 25.0  # to start Ray, the driver and its actors, before the first round


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
    for trial in trials:
        table.add_row(trial.title, str(trial.run.rounds), trial.id, "" if trial.id in todo else "complete")
    return Group(
        Text(f"{sweep.name}: {len(trials)} trials, {len(missing)} to run", style="bold"),
        table,
        Text(f"each trial: {place}; {_at_once(sweep, place)}"),
        Text(_estimate(sweep, missing, place)),
        Text("nothing was started"),
    )


def _at_once(sweep: Sweep, place: Placement) -> str:
    cpus = local_cpus()
    count = concurrent_trials(place, [{"CPU": float(cpus), "GPU": 1.0}], sweep.resources.concurrent_trials)
    return f"{count} at a time on the {cpus} CPUs here"


def _estimate(sweep: Sweep, missing: list[TrialSpec], place: Placement) -> str:
    if not missing:
        return "estimate: all trials are complete"
    if place.gpu:
        return "no estimate: training on a GPU cannot be timed without starting it"
    count = concurrent_trials(place, [{"CPU": float(local_cpus())}], sweep.resources.concurrent_trials)
    seconds_by_kind: dict[str, float] = {}
    total = 0.0
    for trial in missing:
        run = trial.run
        kind = repr((run.data, run.model, run.training, run.clustering, run.attacks, run.rounds))
        if kind not in seconds_by_kind:
            seconds_by_kind[kind] = _trial_seconds(run, sweep, place)
        total += seconds_by_kind[kind]
    cores = min(1.0, local_cpus() / (count * place.actors))
    return (
        f"estimate: {_duration(START_SECONDS + total / count / cores)} on this machine, based on steps timed just now"
    )


def _trial_seconds(run: Run, sweep: Sweep, place: Placement) -> float:
    """Estimated seconds of one trial: the time of one block in one round, scaled to all blocks, rounds and attacks."""
    import torch

    from algorithms.core.network import Network
    from algorithms.engine import block as work
    from orchestrator.trial.client_actors import client_blocks

    torch.set_num_threads(run.training.config.threads)
    try:
        data = partition_data(run, sweep.data_root)
    except DataError as error:
        raise ConfigError([data_problem(sweep, str(error))]) from error
    network = Network(run.model, data.shape, data.classes)
    clusters = run.clustering.config.clusters
    models = [network.initial(np.random.default_rng(j)) for j in range(clusters)]
    blocks = client_blocks(data.clients, run.training.config.block_size)
    own, first = (lambda purpose, client: np.random.default_rng(client)), blocks[0]
    assignment = np.arange(len(first)) % clusters
    train = _time(lambda: work.train(run, data, network, models, work.Assignment(first, assignment, 0), own))
    evaluate = _time(lambda: work.evaluate(run, data, network, first, models, own))
    test = clusters * _time(lambda: network.logits(data.test.x[:500])) * len(data.test) / 500
    plan = run.clustering.module.starts(run.clustering.config)
    rounds = run.rounds + (plan.initializations - 1) * plan.rounds
    parallel = len(blocks) / min(len(blocks), place.actors)
    per_example = train / max(1, sum(data.sizes[list(first)]) * run.training.config.epochs)
    attacked = _attacks(run, data, per_example, place) + _replicas(run, (train + evaluate) * len(blocks), place)
    return rounds * ((train + evaluate) * parallel + test / place.actors) + attacked


def _attacks(run: Run, data: Federation, per_example: float, place: Placement) -> float:
    """Estimated seconds of all shadow models, assuming that each stops halfway to its limit of epochs."""
    seconds = 0.0
    for attack in run.attacks:
        shadows, epochs = attack.module.shadow_work(attack.config)
        times = run.rounds // attack.config.every + 1
        examples = len(data.shadow) / 2 * epochs / 2
        seconds += times * run.clustering.config.clusters * shadows * examples * per_example
    return seconds / place.shadows


def _replicas(run: Run, round_seconds: float, place: Placement) -> float:
    """Estimated seconds of the replica federations that attacks train, each in a single process."""
    replicas = [one for attack in by_replicas(run) for one in attack.module.replicas(attack.config, run.rounds)]
    return sum(one.rounds for one in replicas) * round_seconds / place.shadows


def _time(work: Callable[[], Any]) -> float:
    """Seconds of a second call; the first call warms up."""
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
