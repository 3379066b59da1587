"""The state of a run between rounds, and what an unfinished trial has saved, in TRIAL/state/, so
that it can resume.

It is a log to which every round adds:

    rows-<start>-<table>.grows           the rows of a table, a stream of Arrow for each round
    state-<start>-<round>.safetensors    the state after the last round
    best-<start>.safetensors             that of the best initialization so far, as long as some
                                         are compared

A process that is killed leaves the manifest of the last complete round; what it had begun to write
is not there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from safetensors.numpy import load, save

from algorithms.core.accounting import PrivacyEvent, Spending
from algorithms.engine.round import RoundState, packed, under, unpacked
from orchestrator.results.log import GROWING, DamageError, Log, read_manifest, verify
from orchestrator.results.paths import TABLES, TrialFolder
from orchestrator.results.tables import Rows, as_table, join_tables


@dataclass(kw_only=True)
class RunState(RoundState):
    """The state of a round, and what a run remembers besides for its choices, attacks, account
    and tables.

    Attributes:
        losses: [clients, clusters] loss of every model on every client's training examples, in
            nats.
        accuracies: [clients, clusters] accuracy of every model on every client's training examples.
        selection: [clients, clusters] the losses by which clients choose.
        reference: [clients] the model that each client chose by loss alone when risk began to
            count; -1 before.
        published_risks: [clusters] attack accuracy last published to the clients.
        measured_risks: [clusters] attack accuracy last measured, NaN before the first attack.
        queried: [clusters, classes, 3] attacked members and non-members behind the measured risk,
            and examples called members, by label; 0: not known.
        names: name of each model ("majority", "minority", ...).
        start: the number of the initialization.
        outer: what the caller of the rounds must remember, as JSON values (see
            `orchestrator.trial.restarts`).
        attacks: what attacks on updates, sums and choices keep from round to round, by
            ``<attack>.<array>``.
        canaries: the scores of the canaries that audit the release, by name; empty without an
            audit.
        own_risks: [clients, clusters] risk that each client's own attack last found for every
            model; empty: none attacks.
        spent: the privacy budget that each round and model spent.
        resumed: the numbers of rounds after which the run was resumed.
        history: [rounds, clients] the model that each client trained in each round of this start,
            -1 if it took no part.
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
    """The content of a state's file, in the format safetensors: arrays, ``<group>.<name>`` in
    groups, and the rest as JSON.
    """
    arrays = {name: value for name, value in vars(state).items() if isinstance(value, np.ndarray)}
    arrays |= {
        f"{group}.{name}": array
        for group in GROUPS
        for name, array in getattr(state, group).items()
    }
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()} | packed(state)
    plain = {name: getattr(state, name) for name in PLAIN} | {
        "spent": [asdict(spending) for spending in state.spent]
    }
    return save(
        arrays, metadata={"state": json.dumps(plain)}
    )  # a second entry might come first or last, by chance


def load_state(content: bytes) -> RunState:
    """The state that `state_bytes` made ``content`` of."""
    arrays = load(content)
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    plain = json.loads(metadata["state"])
    plain["spent"] = [
        Spending(**fields | {"event": PrivacyEvent(**fields["event"])}) for fields in plain["spent"]
    ]
    plain |= {name: arrays[name] for name in arrays if "." not in name} | unpacked(arrays)
    plain |= {group: under(f"{group}.", arrays) for group in GROUPS}
    return RunState(**plain)


@dataclass
class Saved:
    """The log of an unfinished trial.

    ``begun`` has the hashes of the code and the data that it began with; ``state`` and ``best`` are
    the names of the parts with the state, None before the first round, and with the best
    initialization, None unless some are compared.
    """

    log: Log
    begun: Mapping[str, str] = field(default_factory=dict)
    state: str | None = None
    best: str | None = None

    @classmethod
    def of(cls, folder: TrialFolder, begun: Mapping[str, str]) -> Saved:
        """Take up what a trial has saved, or a new log.

        Raises DamageError if it is damaged or not of this code and data.
        """
        try:
            manifest = verify(folder.state, folder.id)
        except FileNotFoundError as error:
            if was_saved(folder):  # the manifest is older than each of them
                raise DamageError(folder.state / "manifest.json", "is missing") from error
            saved = cls(Log(folder.state, folder.id), begun)
            saved._finish()
            return saved
        # A search may not have known of it yet.
        if any(
            begun.get(kind, was) != was
            for kind, was in manifest.facts["begun"].items()
            if kind != "commit"
        ):
            raise DamageError(folder.state, "was begun with other code or data")
        log = Log(folder.state, folder.id, dict(manifest.parts))
        return cls(log, manifest.facts["begun"], manifest.facts["state"], manifest.facts["best"])

    def append(self, start: int, table: str, rows: Rows) -> None:
        """Add the rows of one more round of an initialization to a table; the next `commit`
        makes them count.
        """
        content = as_table(rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, content.schema) as file:
            file.write_table(content)
        self.log.extend(f"rows-{start}-{table}{GROWING}", memoryview(sink.getvalue()))

    def rows(self, start: int, table: str) -> pa.Table:
        """The rows of a table, in the order of the rounds.

        Raises DamageError if they are not what was saved.
        """
        return _read(self._streams(start, table))

    def _streams(self, start: int, table: str) -> bytes:
        name = f"rows-{start}-{table}{GROWING}"
        return self.log.read(name) if name in self.log.parts else b""

    def shared(self, state: RunState) -> bytes:
        """The state and the rows of its initialization, which `take_over` of another trial's log
        reads.
        """
        parts = {table: self._streams(state.start, table) for table in TABLES}
        parts["state"] = state_bytes(replace(state, resumed=[]))
        return save({name: np.frombuffer(part, np.uint8) for name, part in parts.items() if part})

    def take_over(self, content: bytes, beta: NDArray[np.float64]) -> RunState:
        """Begin with what another trial's `shared` returned, but the own clients' ``beta``
        [clients]; return the state.
        """
        parts = {name: array.tobytes() for name, array in load(content).items()}
        state = load_state(parts.pop("state"))
        for table, part in sorted(parts.items()):
            rows = _read(part)
            at = rows.schema.get_field_index("beta")
            if at >= 0:
                rows = rows.set_column(at, "beta", pa.array(beta[rows["client"].to_numpy()]))
            self.append(state.start, table, rows)
        self.commit(state)
        return state

    def load(self, name: str) -> RunState:
        """The state in a part. Raises DamageError if it is not what was saved."""
        return load_state(self.log.read(name))

    def keep_best(self, state: RunState) -> None:
        """Save an initialization as the best one so far; the next `commit` makes it count."""
        self._replace("best", f"best-{state.start:08d}.safetensors", state)

    def commit(self, state: RunState) -> None:
        """Save the state after a round; it and all that was saved before it are there from now
        on. Raises WriteError.
        """
        self._replace("state", f"state-{state.start:04d}-{state.round:08d}.safetensors", state)
        self._finish()

    def _finish(self) -> None:
        self.log.finish({"begun": dict(self.begun), "state": self.state, "best": self.best})

    def _replace(self, kind: str, name: str, state: RunState) -> None:
        former: str | None = getattr(self, kind)
        if former and former != name:
            self.log.drop(former)
        self.log.append(name, state_bytes(state))
        setattr(self, kind, name)


def was_saved(folder: TrialFolder) -> bool:
    """Whether a trial has done a round, so that models were sent out, whatever became of its
    manifest.
    """
    return any(folder.state.glob("state-*"))


def lost_record(folder: TrialFolder) -> bool:
    """Whether a trial has ended, but the manifest that says so is gone: there are tables, and no
    state to resume from.
    """
    ended = any(os.path.lexists(file) for file in (folder.model, *map(folder.table, TABLES)))
    return ended and not os.path.lexists(folder.manifest) and not was_saved(folder)


def begun_with(folder: TrialFolder) -> Mapping[str, Any]:
    """The hashes of code and data that a trial with a saved state began with; empty if it has
    none, or a damaged one.
    """
    try:
        return dict(read_manifest(folder.state, folder.id).facts["begun"])
    except (FileNotFoundError, DamageError):
        return {}


def _read(streams: bytes) -> pa.Table:
    """Return the rows of all streams, one after another."""
    source = pa.BufferReader(streams)
    parts = []
    while source.tell() < source.size():
        parts.append(pa.ipc.open_stream(source).read_all())
    return join_tables(parts)
