"""The state of a run between rounds, and its bytes, from which an interrupted run resumes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from algorithms.core.accounting import PrivacyEvent, Spending
from algorithms.engine.round import RoundState, packed, under, unpacked


@dataclass(kw_only=True)
class RunState(RoundState):
    """The state of a round, and what a run remembers besides for its choices, attacks, account and tables.

    Attributes:
        losses: [clients, clusters] loss of every model on every client's training examples, in nats.
        accuracies: [clients, clusters] accuracy of every model on every client's training examples.
        selection: [clients, clusters] the losses by which clients choose.
        reference: [clients] the model that each client chose by loss alone when risk began to count; -1 before.
        published_risks: [clusters] attack accuracy last published to the clients.
        measured_risks: [clusters] attack accuracy last measured, NaN before the first attack.
        queried: [clusters, 2] attacked members and non-members behind the measured risk; 0: not known.
        names: name of each model ("majority", "minority", ...).
        start: the number of the initialization.
        outer: what the caller of the rounds must remember, as JSON values (see `orchestrator.trial.restarts`).
        attacks: what attacks on updates keep from round to round, by ``<attack>.<array>``.
        canaries: the scores of the canaries that audit the release, by name; empty without an audit.
        own_risks: [clients, clusters] risk that each client's own attack last found for every model; empty: none attacks.
        spent: the privacy budget that each round and model spent.
        resumed: the numbers of rounds after which the run was resumed.
        history: [rounds, clients] the model that each client trained in each round of this start, -1 if it took no part.
    """

    losses: NDArray[np.float64]
    accuracies: NDArray[np.float64]
    selection: NDArray[np.float64]
    reference: NDArray[np.int64]
    published_risks: NDArray[np.float64]
    measured_risks: NDArray[np.float64]
    queried: NDArray[np.int64]
    names: list[str]
    start: int = 0
    outer: dict[str, Any] = field(default_factory=dict)
    attacks: dict[str, NDArray[Any]] = field(default_factory=dict)
    canaries: dict[str, NDArray[Any]] = field(default_factory=dict)
    own_risks: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    spent: list[Spending] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    history: NDArray[np.int16] = field(default_factory=lambda: np.empty((0, 0), np.int16))


PLAIN = ("names", "start", "outer", "resumed")
GROUPS = ("attacks", "canaries")  # fields with arrays by name


def state_bytes(state: RunState) -> bytes:
    """The content of a state's file, in the format safetensors: arrays, ``<group>.<name>`` in groups, and the rest as JSON."""
    arrays = {name: value for name, value in vars(state).items() if isinstance(value, np.ndarray)}
    arrays |= {f"{group}.{name}": array for group in GROUPS for name, array in getattr(state, group).items()}
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()} | packed(state)
    plain = {name: getattr(state, name) for name in PLAIN} | {"spent": [asdict(one) for one in state.spent]}
    return save(arrays, metadata={"state": json.dumps(plain)})  # a second entry might come first or last, by chance


def load_state(content: bytes) -> RunState:
    """The state that `state_bytes` made ``content`` of."""
    arrays = load(content)
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    plain = json.loads(metadata["state"])
    plain["spent"] = [Spending(**one | {"event": PrivacyEvent(**one["event"])}) for one in plain["spent"]]
    plain |= {name: arrays[name] for name in arrays if "." not in name} | unpacked(arrays)
    plain |= {group: under(f"{group}.", arrays) for group in GROUPS}
    return RunState(**plain)
