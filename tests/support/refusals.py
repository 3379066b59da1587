"""A small sweep file, and the problems of what is wrong with one like it."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.sweep_file import load_sweep

GOOD = """\
name: small
base:
  rounds: 4
  data: {name: digits, clients: 20}
  model: mlp
  clustering: {name: ifca, clusters: 2}
  attacks: [shadow_mia]
sweep:
  seed: {grid_search: [0, 1]}
"""


@contextlib.contextmanager
def written(content: str | bytes) -> Iterator[Path]:
    """The file ``x.yaml`` with ``content``, in a working folder of its own."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        path = Path("x.yaml")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        yield path


def problems_of(content: str | bytes, *sets: str) -> tuple[ConfigProblem, ...]:
    """The problems of a file with ``content``, which is refused."""
    with written(content) as path, pytest.raises(ConfigError) as caught:
        load_sweep(path, sets)
    return caught.value.problems


def refused(content: str | bytes, *sets: str) -> list[str]:
    """The same as lines of text."""
    return list(map(str, problems_of(content, *sets)))
