"""What changes between rounds, and how it is saved: one file, replaced at once, that a killed run goes on from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from algorithms.core.messages import Weights
from orchestrator.results.folder import write_atomically


@dataclass
class RunState:
    """All that the next round depends on, besides the run's configuration and seed.

    Attributes:
        round: the round that comes next; ``attempt``: which initialization is being tried (see clustering ``restarts``).
        models: one `Weights` per cluster; ``servers``: the aggregation's own arrays per cluster.
        losses, accuracies, selection: [clients, clusters] every model on every client, after the last round.
        assignment: [clients] model of each client, -1 before the first choice.
        published_risks: [clusters] attack accuracy last told to the clients; ``measured_risks`` [clusters] as last
        measured (NaN: not
            yet).
        names: name of each model ("majority", "minority", ...).
        best: training loss and attempt of the best initialization so far; ``explored``: whether the choice is made.
        known: what the server knows of each client by name, [clients] each (``rho``, ``weight``, ...).
        carried: local optimizers that outlive a round, arrays by name; empty unless the training slot keeps them.
        spent: what each round and cluster took of the privacy budget, as the privacy slot reports it, JSON.
    """

    models: list[Weights]
    servers: list[dict[str, NDArray]]
    losses: NDArray[np.float64]
    accuracies: NDArray[np.float64]
    selection: NDArray[np.float64]
    assignment: NDArray[np.int64]
    published_risks: NDArray[np.float64]
    measured_risks: NDArray[np.float64]
    names: list[str]
    round: int = 0
    attempt: int = 0
    best: tuple[float, int] | None = None
    explored: bool = False
    known: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    carried: dict[str, NDArray] = field(default_factory=dict)
    spent: list[dict[str, Any]] = field(default_factory=list)


ARRAYS = ("losses", "accuracies", "selection", "assignment", "published_risks", "measured_risks")
PLAIN = ("names", "round", "attempt", "best", "explored", "spent")
NAMED = ("known", "carried")


def save_state(state: RunState, path: Path) -> None:
    """Write ``state`` to ``path`` so that a reader sees the old file or the new one, never a part of either."""
    arrays = {name: np.asarray(getattr(state, name), order="C") for name in ARRAYS}
    for group in NAMED:
        arrays |= {f"{group}.{name}": np.asarray(array, order="C") for name, array in getattr(state, group).items()}
    for j, (model, server) in enumerate(zip(state.models, state.servers, strict=True)):
        arrays |= {f"model.{j}.params": model.params, f"model.{j}.buffers": model.buffers}
        arrays |= {f"server.{j}.{name}": np.asarray(array, order="C") for name, array in server.items()}
    plain = {name: getattr(state, name) for name in PLAIN}
    write_atomically(path, save(arrays, metadata={"state": json.dumps(plain), "clusters": str(len(state.models))}))


def load_state(path: Path) -> RunState:
    """Read what `save_state` wrote."""
    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
        metadata = file.metadata()
    plain = json.loads(metadata["state"])
    plain["best"] = tuple(plain["best"]) if plain["best"] else None
    models, servers = [], []
    for j in range(int(metadata["clusters"])):
        models.append(Weights(arrays[f"model.{j}.params"], arrays[f"model.{j}.buffers"]))
        servers.append(_under(f"server.{j}.", arrays))
    plain |= {name: arrays[name] for name in ARRAYS} | {group: _under(f"{group}.", arrays) for group in NAMED}
    return RunState(models=models, servers=servers, **plain)


def _under(prefix: str, arrays: dict[str, NDArray]) -> dict[str, NDArray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
