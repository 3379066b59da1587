"""The work of a round as every contender reads it: a folder with the clients' examples and how
they are trained on.

    work.json                    the fields of `Work`
    x.npy, y.npy, offsets.npy    examples of all clients, client after client; offsets [clients + 1]
    initial.npz                  the global weights that everybody starts from, by their names in the torch module

Needs NumPy alone, so that it can be read in the environments of the peers.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Work:
    """How every client trains, in every round: ``epochs`` passes over its examples from the
    global weights.

    Attributes:
        network: a name in `networks`.
        optimizer: "sgd" or "adam", plain and new in every round.
        precision: "float32", or "bf16" for autocast of forward and backward passes.
        processes: how many train at the same time, with one thread each.
    """

    name: str
    network: str
    classes: int
    batch_size: int
    optimizer: str
    lr: float
    epochs: int = 1
    precision: str = "float32"
    processes: int = 2


@dataclass(frozen=True, eq=False)
class ClientExamples:
    """The examples ``x`` [n, ...] float32 and ``y`` [n] int64 of all clients; client i owns
    ``offsets[i]:offsets[i + 1]``.
    """

    x: np.ndarray
    y: np.ndarray
    offsets: np.ndarray

    @property
    def clients(self) -> int:
        return len(self.offsets) - 1

    def of(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Examples and labels of one client, as views."""
        mine = slice(self.offsets[client], self.offsets[client + 1])
        return self.x[mine], self.y[mine]


def write(
    folder: Path, work: Work, examples: ClientExamples, initial: dict[str, np.ndarray]
) -> None:
    """Lay the work where the contenders find it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "work.json").write_text(json.dumps(asdict(work), indent=1))
    for name in ("x", "y", "offsets"):
        np.save(folder / f"{name}.npy", getattr(examples, name))
    np.savez(folder / "initial.npz", **initial)


def read_work(folder: Path) -> Work:
    return Work(**json.loads((folder / "work.json").read_text()))


def read_examples(folder: Path) -> ClientExamples:
    return ClientExamples(*(np.load(folder / f"{name}.npy") for name in ("x", "y", "offsets")))


def read_initial(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "initial.npz") as file:
        return {name: file[name] for name in file.files}
