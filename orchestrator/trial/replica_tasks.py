"""Federations that an attack wants trained beside the run: each a remote task of its own, and kept on disk once it is done."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from orchestrator.config.run import Component, Run, trial_id
from orchestrator.results.folder import Folder, write_atomically
from orchestrator.trial.random_streams import integer, stream
from orchestrator.trial.worker_session import Setup, session

if TYPE_CHECKING:
    from orchestrator.trial.attack_round import AttackTasks

GatherTasks = Callable[[Any, str, Sequence[tuple[Any, ...]]], list[Any]]
"""Results of a function for every one of several calls on behalf of an attack, in their order."""


def run_replicas(gathered: GatherTasks, cache: Path, setup: Setup, run: Run, attack: Component) -> Any:
    """What ``attack`` concludes from its replicas of the run; None where it wants none. ``gathered`` runs the tasks."""
    module, wanted = attack.module, attack.module.replicas(attack.config, run.rounds)
    if not wanted:
        return None
    found = gathered(_replica, attack.name, [(setup, attack.name, one, str(cache)) for one in wanted])
    return module.conclude(attack.config, list(zip(wanted, found, strict=True)), stream(run.seed, "audit", run.rounds))


def _replica(setup: Setup, attack: str, replica: Any, cache: str) -> dict[int, dict[str, float]]:
    """Train one federation in this process, and measure its model after the rounds that the attack looks at."""
    mine = session(setup)
    component = next(one for one in mine.run.attacks if one.name == attack)
    run = replace(mine.run, attacks=(), rounds=replica.rounds, seed=integer(mine.run.seed, "replicas", replica.number))
    told = json.dumps([trial_id(mine.run), trial_id(run), component.to_dict(), asdict(replica)], sort_keys=True)
    path = Path(cache) / f"replica-{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"
    if path.exists():
        return {int(round_): values for round_, values in json.loads(path.read_text()).items()}
    measured = _measure(mine, run, component, replica)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(measured).encode())
    return measured


def _measure(mine: Any, run: Run, component: Component, replica: Any) -> dict[int, dict[str, float]]:
    from orchestrator.trial.local_clients import LocalClients, prepare_session
    from orchestrator.trial.loop import DivergenceError, Trial

    whole = mine.data
    data = whole if replica.inside else whole.without(component.module.target(component.config, whole))
    clients, no_attacks, measured = LocalClients(), cast("AttackTasks", None), {}
    with tempfile.TemporaryDirectory() as folder:
        setup = prepare_session(f"replica of {run.seed}", run, data)
        trial = Trial(run, setup, data, clients, no_attacks, Folder(Path(folder)).trial("replica"))
        while not trial.done:
            try:
                trial.advance()
            except (DivergenceError, FloatingPointError):
                break  # of this federation there is nothing more to tell; the run itself goes on
            if trial.state.round in component.config.rounds:
                network = session(setup).network
                measured[trial.state.round] = component.module.measure(
                    component.config, whole, network, trial.state.models[0]
                )
    return measured
