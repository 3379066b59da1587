"""What an unfinished trial has saved, in TRIAL/state/: a log to which every round adds, so that the trial can resume.

    rows-<start>-<table>.grows           the rows of a table, a stream of Arrow for each round
    state-<start>-<round>.safetensors    the state after the last round
    best-<start>.safetensors             that of the best initialization so far, while initializations are compared

A process that is killed leaves the manifest of the last complete round; what it had begun to write is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import safetensors.numpy
from numpy.typing import NDArray

from orchestrator.results.log import GROWING, DamageError, Log, quarantine, read_manifest, verify
from orchestrator.results.paths import TABLES, TrialFolder
from orchestrator.results.tables import Rows, as_table, join_tables
from orchestrator.trial.state import RunState, load_state, state_bytes


@dataclass
class Saved:
    """The log of an unfinished trial.

    ``begun`` has the hashes of the code and the data that it began with; ``state`` and ``best`` are the names of the
    parts with the state, None before the first round, and with the best initialization, None unless some are compared.
    """

    log: Log
    begun: Mapping[str, str] = field(default_factory=dict)
    state: str | None = None
    best: str | None = None

    @classmethod
    def of(cls, folder: TrialFolder, begun: Mapping[str, str]) -> Saved:
        """Take up what a trial has saved, or a new log. Raises DamageError if it is damaged."""
        try:
            manifest = verify(folder.state, folder.id)
        except FileNotFoundError as error:
            later = sorted(folder.state.glob("state-*")) if folder.state.is_dir() else []
            if len(later) > 1 or any(not one.stem.endswith("-00000001") for one in later):
                raise DamageError(folder.state / "manifest.json", "is missing") from error
            return cls(Log(folder.state, folder.id), begun)
        log = Log(folder.state, folder.id, dict(manifest.parts))
        return cls(log, manifest.facts["begun"], manifest.facts["state"], manifest.facts["best"])

    def append(self, start: int, table: str, rows: Rows) -> None:
        """Add the rows of one more round of an initialization to a table; the next `commit` makes them count."""
        content, sink = as_table(rows), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, content.schema) as file:
            file.write_table(content)
        self.log.extend(_rows_of(start, table), memoryview(sink.getvalue()))

    def rows(self, start: int, table: str) -> pa.Table:
        """The rows of a table, in the order of the rounds. Raises DamageError if they are not what was saved."""
        name = _rows_of(start, table)
        return _read(self.log.read(name) if name in self.log.parts else b"")

    def shared(self, state: RunState) -> bytes:
        """The state and the rows of its initialization, which `take_over` of another trial's log reads."""
        parts = {"state": state_bytes(replace(state, resumed=[]))}
        for table in TABLES:
            if (name := _rows_of(state.start, table)) in self.log.parts:
                parts[table] = self.log.read(name)
        return safetensors.numpy.save({name: np.frombuffer(part, np.uint8) for name, part in parts.items()})

    def take_over(self, content: bytes, beta: NDArray[np.float64]) -> RunState:
        """Begin with what another trial's `shared` returned, but the own clients' ``beta`` [clients]; return the state."""
        parts = {name: array.tobytes() for name, array in safetensors.numpy.load(content).items()}
        state = load_state(parts.pop("state"))
        for table, part in sorted(parts.items()):
            rows = _read(part)
            if (at := rows.schema.get_field_index("beta")) >= 0:
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
        """Save the state after a round; it and all that was saved before it are there from now on. Raises WriteError."""
        self._replace("state", f"state-{state.start:04d}-{state.round:08d}.safetensors", state)
        self.log.finish({"begun": dict(self.begun), "state": self.state, "best": self.best})

    def _replace(self, kind: str, name: str, state: RunState) -> None:
        former: str | None = getattr(self, kind)
        if former and former != name:
            self.log.drop(former)
        self.log.append(name, state_bytes(state))
        setattr(self, kind, name)


def set_aside(folder: TrialFolder, damage: DamageError, repeatable: bool) -> str:
    """Set aside what a trial has saved, because part of it is damaged; return a sentence for the user.

    Noise that is secret is spent with every model that was sent out, and how much that was stood in what is damaged: a
    trial that is not ``repeatable`` raises DamageError, and nothing is changed. Raises WriteError if the folder could
    not be renamed.
    """
    if not repeatable:
        problem = (
            f"{damage.problem}; the trial's noise is secret, so it cannot be repeated: restore {folder.state} from a copy, "
            "or delete that folder to begin anew with fresh noise, which the guarantee will count alone, although models "
            "were sent out before"
        )
        raise DamageError(damage.path, problem)
    return f"{damage}: {folder.state} is set aside as {quarantine(folder.state).name}, and the trial begins anew"


def begun_with(folder: TrialFolder) -> Mapping[str, Any]:
    """The hashes of code and data that a trial with a saved state began with; empty if it has none, or a damaged one."""
    try:
        return dict(read_manifest(folder.state, folder.id).facts["begun"])
    except (FileNotFoundError, DamageError):
        return {}


def _read(streams: bytes) -> pa.Table:
    """Return the rows of all streams, one after another."""
    source, parts = pa.BufferReader(streams), []
    while source.tell() < source.size():
        parts.append(pa.ipc.open_stream(source).read_all())
    return join_tables(parts)


def _rows_of(start: int, table: str) -> str:
    return f"rows-{start}-{table}{GROWING}"
