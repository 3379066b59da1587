"""YAML of results that somebody made to hang or to kill its reader: it is refused, at once."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from orchestrator.config.document import DEEPEST, parsed, read
from orchestrator.config.errors import ConfigError
from orchestrator.report import data
from orchestrator.results.paths import FolderError, TrialFolder

LEVELS = "abcdefghi"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{inner}'] * 9)}]\n" for inner, name in pairwise(LEVELS)
)
FORGED = [
    BOMB,
    "&a [*a]",
    "a: &a {b: *a}",
    "[" * 20_000,
    "[" * 20_000 + "]" * 20_000,
    "{a: " * 20_000,
    "[ 'a]', " * 20_000,
    "- " * 20_000,
    "? " * 20_000,
    "!!python/object/apply:os.getcwd []",
    "a: " + "9" * 5000,
]


@pytest.mark.parametrize("text", FORGED, ids=range(len(FORGED)))
def test_it_is_refused_at_once(text):
    started = time.process_time()
    with pytest.raises(ValueError, match="."):
        parsed(text)
    with pytest.raises(ConfigError):
        read(text, "sweep.yaml")
    assert time.process_time() - started < 10


def test_what_may_be_read_is_read():
    nested = "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    assert parsed(nested) == read(nested, "f").value
    shared = "a: &a [1, 2]\nb: *a\n"
    assert parsed(shared.encode()) == {"a": [1, 2], "b": [1, 2]} == read(shared, "f").value


@pytest.mark.parametrize("attacks", ["5", "[fedmia]", "[{name: [1]}]", "[{every: 1}]"])
def test_a_run_whose_attacks_have_no_names_is_none(tmp_path, monkeypatch, attacks):
    folder = TrialFolder(tmp_path / "t")
    monkeypatch.setattr(data, "part_of", lambda *_: f"attacks: {attacks}\n".encode())
    with pytest.raises(FolderError):
        data.config_of(folder)
