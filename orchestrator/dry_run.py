"""What a sweep would do: its trials, what it takes of the machine, and how long that may last. Nothing is started."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

import datasets
from datasets.federation import Federation
from orchestrator.cluster.placement import Placement, concurrent_trials
from orchestrator.cluster.ray_session import local_cpus
from orchestrator.config.run import Run
from orchestrator.config.sweep_file import Sweep
from orchestrator.scheduling.trials import TrialSpec
from orchestrator.trial.attack_round import by_replicas
from orchestrator.trial.random_streams import stream

START_SECONDS = 25.0  # Ray, the driver and its actors, before the first round


def plan(sweep: Sweep, trials: list[TrialSpec], missing: list[TrialSpec], place: Placement) -> Group:
    """Trials, resources and estimate, to be printed. The estimate times steps of each model here, in this process."""
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
        return "estimate: nothing is left to do"
    if place.gpu:
        return "no estimate: training on a GPU cannot be timed without starting it"
    count = concurrent_trials(place, [{"CPU": float(local_cpus())}], sweep.resources.concurrent_trials)
    known: dict[str, float] = {}
    total = 0.0
    for trial in missing:
        run = trial.run
        kind = repr((run.data, run.model, run.training, run.clustering, run.attacks, run.rounds))
        if kind not in known:
            known[kind] = _trial_seconds(run, sweep, place)
        total += known[kind]
    cores = min(1.0, local_cpus() / (count * place.actors))
    return f"estimate: {_duration(START_SECONDS + total / count / cores)} on this machine, from steps timed just now"


def _trial_seconds(run: Run, sweep: Sweep, place: Placement) -> float:
    """Seconds of one trial: what its first block takes for a round, times blocks and rounds; shadow models in proportion."""
    import torch

    from algorithms.core.network import Network
    from algorithms.engine import block as work
    from orchestrator.trial.client_actors import client_blocks

    torch.set_num_threads(run.training.config.threads)
    data = datasets.build_federation(run.data, run.split, sweep.data_root, lambda purpose: stream(run.seed, purpose))
    network = Network(run.model, data.shape, data.classes)
    clusters = run.clustering.config.clusters
    models = [network.initial(np.random.default_rng(j)) for j in range(clusters)]
    blocks = client_blocks(data.clients, run.training.config.clients_per_job)
    own, first = (lambda purpose, client: np.random.default_rng(client)), blocks[0]
    assignment = np.arange(len(first)) % clusters
    train = _time(lambda: work.train(run, data, network, first, models, assignment, 0, own, {}))
    evaluate = _time(lambda: work.evaluate(run, data, network, first, models, own))
    test = clusters * _time(lambda: network.logits(data.test.x[:500])) * len(data.test) / 500
    rounds = run.rounds + (getattr(run.clustering.config, "restarts", 1) - 1) * getattr(
        run.clustering.config, "restart_rounds", 0
    )
    parallel = len(blocks) / min(len(blocks), place.actors)
    per_example = train / max(1, sum(data.sizes[list(first)]) * run.training.config.epochs)
    attacked = _attacks(run, data, per_example, place) + _replicas(run, (train + evaluate) * len(blocks), place)
    return rounds * ((train + evaluate) * parallel + test / place.actors) + attacked


def _attacks(run: Run, data: Federation, per_example: float, place: Placement) -> float:
    """Seconds of all shadow models, if each stops half way to its limit of epochs."""
    seconds = 0.0
    for attack in run.attacks:
        config: Any = attack.config
        times = run.rounds // config.every + 1
        examples = len(data.shadow) / 2 * getattr(config, "max_epochs", 0) / 2
        seconds += times * run.clustering.config.clusters * getattr(config, "shadows", 0) * examples * per_example
    return seconds / place.shadows


def _replicas(run: Run, round_seconds: float, place: Placement) -> float:
    """Seconds of the federations that attacks train beside the run, each of them in a single process."""
    wanted = [one for attack in by_replicas(run) for one in attack.module.replicas(attack.config, run.rounds)]
    return sum(one.rounds for one in wanted) * round_seconds / place.shadows


def _time(work: Callable[[], Any]) -> float:
    """Seconds of the second call: the first one warms up."""
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
