"""Own code for tests: small components as files, and distributions with entry points, installed
nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

AGGREGATION = '''"""Mean of the updates, scaled."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from algorithms.core.metric import AGGREGATION, Metric
from datasets.components import Config as SlotConfig

NEEDS = "mean"
LABEL = "scaled mean"
METRICS = (Metric("step_length", AGGREGATION, "length of the step", unit=""),)


class Config(SlotConfig):
    """Fields of the scaled mean."""

    scale: float = Field(0.5, ge=0, le=2, description="factor of the mean update")


def begin(config, params):
    """No state."""
    return {}


def weigh(config, examples):
    """Equal weights [clients]."""
    return np.ones(len(examples))


def apply(config, state, params, received):
    """New parameters [d]."""
    step = config.scale * received.mean
    return (params + step).astype(np.float32), state, {"step_length": float(np.linalg.norm(step))}
'''

ATTACK = '''"""Sources from the norm of an update; what it observes is a type of its own."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from algorithms.core.metric import Number, of_client
from attacks.interfaces import Exposure
from datasets.components import Config as SlotConfig

from ._norms import norms

KINDS = ("updates",)
LABEL = "norm attack"
ASKS = "whose update is the longest?"


class Config(SlotConfig):
    """Fields of the attack."""

    every: int = Field(1, ge=1, description="rounds from one attack to the next")


class Observed(dict):
    """A mapping of the attack's own, which travels from the actors."""


def observe(config, seen):
    """Norm of every update [c]."""
    sent = np.stack([seen.sent[model].params for model in seen.assignment])
    return Observed(norm=norms(seen.params - sent))


def conclude(config, seen):
    """The clients of the largest updates count as found."""
    norm = seen.observed["norm"]
    pairs = zip(norm, seen.clients, strict=True)
    found = tuple(Number("relative_norm", float(one / norm.max()), of_client(client)) for one, client in pairs)
    return Exposure(numbers=(), measures=found)
'''

HELPER = '''"""Norms."""

import numpy as np


def norms(rows):
    """L2 norm of each row."""
    return np.linalg.norm(rows, axis=1)
'''


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """``folder`` with these files, by relative path."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def distribution(
    folder: Path, entry_points: Mapping[str, str], name: str = "guest", version: str = "1.2"
) -> None:
    """Make ``folder``, if it is on Python's path, hold the metadata of an installed distribution.

    Args:
        folder: the folder.
        entry_points: modules by ``group.name``, such as ``fedpriv.attacks.foo``.
        name: the distribution.
        version: its version.
    """
    info = folder / f"{name}-{version}.dist-info"
    lines = [line for key, module in entry_points.items() for line in _entry(key, module)]
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    written(info, {"METADATA": metadata, "entry_points.txt": "\n".join(lines) + "\n"})


def _entry(key: str, module: str) -> tuple[str, str]:
    group, _, name = key.rpartition(".")
    return f"[{group}]", f"{name} = {module}"


def write_pets(folder: Path, count: int, shape: tuple[int, int, int]) -> None:
    """Images of noise in folders of clients and classes."""
    draw = np.random.default_rng(0)
    for i in range(count):
        of = folder / "pets" / ("anna", "ben")[i % 2] / ("cat", "dog", "owl")[i % 3]
        of.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, shape, np.uint8)).save(of / f"{i}.png")
