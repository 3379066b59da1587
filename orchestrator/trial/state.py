"""The state of a run between rounds, and its file, which is replaced atomically so that an interrupted run can resume.

The file says of which trial it is, and has a checksum of all that is in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from algorithms.core.accounting import PrivacyEvent, Spending
from algorithms.core.messages import Weights
from orchestrator.results.folder import write_atomically
from orchestrator.results.integrity import Damage, DamageError, checksum
from orchestrator.results.stamped import require_regular


@dataclass
class RunState:
    """Everything that the next round depends on, besides the run's configuration and seed.

    Attributes:
        models: one `Weights` per cluster.
        servers: the aggregation's own arrays, per cluster.
        losses: [clients, clusters] loss of every model on every client's training examples, in nats.
        accuracies: [clients, clusters] accuracy of every model on every client's training examples.
        selection: [clients, clusters] the losses by which clients choose.
        assignment: [clients] model of each client, -1 before the first choice.
        reference: [clients] the model that each client chose by loss alone when risk began to count; -1 before.
        users: [clusters, clients] whether this is the model that the client trained last; a model that all its clients
            have left keeps those who were the last.
        trained_rounds: [clusters] the number of rounds after the last one in which clients trained the model.
        published_risks: [clusters] attack accuracy last published to the clients.
        measured_risks: [clusters] attack accuracy last measured, NaN before the first attack.
        queried: [clusters, 2] attacked members and non-members behind the measured risk; 0: not known.
        names: name of each model ("majority", "minority", ...).
        round: the next round, counted from 0.
        start: the number of the initialization.
        outer: what the caller of the rounds must remember, as JSON values (see `orchestrator.trial.restarts`).
        statistics: client statistics by name (``rho``, ``weight``, ...), [clients] each.
        optimizer_states: arrays of the local optimizers by name, [clients, ...]; empty unless the training keeps them.
        attacks: what attacks on updates keep from round to round, by ``<attack>.<array>``.
        canaries: the scores of the canaries that audit the release, by name; empty without an audit.
        own_risks: [clients, clusters] risk that each client's own attack last found for every model; empty: none attacks.
        spent: the privacy budget that each round and model spent.
        resumed: the numbers of rounds after which the run was resumed.
        history: [rounds, clients] the model that each client trained in each round of this start, -1 if it took no part.
        parts: by table, in how many rounds of this start rows were saved; empty in states that older versions wrote.
    """

    models: list[Weights]
    servers: list[dict[str, NDArray[Any]]]
    losses: NDArray[np.float64]
    accuracies: NDArray[np.float64]
    selection: NDArray[np.float64]
    assignment: NDArray[np.int64]
    reference: NDArray[np.int64]
    users: NDArray[np.bool_]
    trained_rounds: NDArray[np.int64]
    published_risks: NDArray[np.float64]
    measured_risks: NDArray[np.float64]
    queried: NDArray[np.int64]
    names: list[str]
    round: int = 0
    start: int = 0
    outer: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    optimizer_states: dict[str, NDArray[Any]] = field(default_factory=dict)
    attacks: dict[str, NDArray[Any]] = field(default_factory=dict)
    canaries: dict[str, NDArray[Any]] = field(default_factory=dict)
    own_risks: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    spent: list[Spending] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    history: NDArray[np.int16] = field(default_factory=lambda: np.empty((0, 0), np.int16))
    parts: dict[str, int] = field(default_factory=dict)


ARRAYS = (
    "losses",
    "accuracies",
    "selection",
    "assignment",
    "reference",
    "users",
    "trained_rounds",
    "published_risks",
    "measured_risks",
    "queried",
    "history",
    "own_risks",
)
LATER = ("history", "own_risks")  # absent from states that older versions wrote, and then empty
PLAIN = ("names", "round", "start", "outer", "resumed", "parts")
NAMED = ("statistics", "optimizer_states", "attacks", "canaries")
SEALED = {"state", "clusters", "trial", "checksum"}  # the file's metadata; older versions wrote the first two


def save_state(state: RunState, path: Path, trial: str = "") -> None:
    """Write a state atomically: a reader sees the old file or the new one.

    Args:
        state: the state.
        path: the file.
        trial: the trial's id.
    """
    arrays = {name: np.asarray(getattr(state, name), order="C") for name in ARRAYS}
    for group in NAMED:
        arrays |= {f"{group}.{name}": np.asarray(array, order="C") for name, array in getattr(state, group).items()}
    for j, (model, server) in enumerate(zip(state.models, state.servers, strict=True)):
        arrays |= {f"model.{j}.params": model.params, f"model.{j}.buffers": model.buffers}
        arrays |= {f"server.{j}.{name}": np.asarray(array, order="C") for name, array in server.items()}
    plain = {name: getattr(state, name) for name in PLAIN} | {"spent": [asdict(one) for one in state.spent]}
    metadata = {"state": json.dumps(plain), "clusters": str(len(state.models)), "trial": trial}
    write_atomically(path, save(arrays, metadata=metadata | {"checksum": _checksum(arrays, metadata)}))


def load_state(path: Path, trial: str | None = None) -> RunState:
    """Read a state that `save_state` wrote, in this version or an older one (`LATER`).

    Args:
        path: the file.
        trial: the trial's id; None: it may be of any trial.

    Raises:
        DamageError: there is no such file, or it is not what was saved, or of another trial.
    """
    return read_state(path, trial)[0]


def read_state(path: Path, trial: str | None = None) -> tuple[RunState, bool]:
    """Like `load_state`; and return whether the file had a checksum, so that its values are those that were saved."""
    try:
        require_regular(path)
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            metadata = file.metadata() or {}
        has_checksum = bool(metadata.keys() & (SEALED - {"state", "clusters"}))
        if has_checksum and (metadata.keys() != SEALED or metadata["checksum"] != _checksum(arrays, metadata)):
            raise DamageError(Damage(path, "is not what was saved: its checksum differs"))
        if has_checksum and trial is not None and metadata["trial"] != trial:
            raise DamageError(Damage(path, f"is of another trial, {metadata['trial']}"))
        return _unpacked(arrays, metadata), has_checksum
    except DamageError:
        raise
    except FileNotFoundError:
        raise DamageError(Damage(path, "is missing")) from None
    except Exception as error:  # whatever a reader makes of bytes that are no state
        empty = path.is_file() and path.stat().st_size == 0
        problem = "is empty" if empty else "is not what was saved: it is no state of a trial"
        raise DamageError(Damage(path, problem)) from error


def _unpacked(arrays: dict[str, NDArray[Any]], metadata: Mapping[str, str]) -> RunState:
    plain = {"parts": {}} | json.loads(metadata["state"])
    plain["spent"] = [Spending(**one | {"event": PrivacyEvent(**one["event"])}) for one in plain["spent"]]
    models, servers = [], []
    for j in range(int(metadata["clusters"])):
        models.append(Weights(arrays[f"model.{j}.params"], arrays[f"model.{j}.buffers"]))
        servers.append(_under(f"server.{j}.", arrays))
    plain |= {name: arrays[name] for name in ARRAYS if name in arrays or name not in LATER}
    plain |= {group: _under(f"{group}.", arrays) for group in NAMED}
    return RunState(models=models, servers=servers, **plain)


def _checksum(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    """Return the checksum of a file's arrays, in whatever order, and of its other metadata.

    An array's own is a CRC, which takes a fifth of the time of a cryptographic one: nobody is to be kept from forging it.
    """
    inside = sorted(arrays.items())
    crcs = [crc32(np.ascontiguousarray(array).data) for _, array in inside]
    described = [[name, array.dtype.str, array.shape] for name, array in inside]
    known = {name: value for name, value in metadata.items() if name != "checksum"}
    return checksum(json.dumps([described, crcs, known], sort_keys=True).encode())


def _under(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
