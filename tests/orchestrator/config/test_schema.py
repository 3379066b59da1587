"""The JSON schema for editors: it accepts what the loader accepts, and refuses what is plainly
wrong.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from orchestrator.config.document import read
from orchestrator.config.listing import sweep_schema

ROOT = Path(__file__).parents[3]
SWEEPS = sorted((ROOT / "sweeps").glob("*.yaml"))
GOOD = """
name: good
base:
  rounds: 4
  data: {name: digits, clients: 8, split: {name: dirichlet, alpha: 0.5}}
  model: {name: mlp, hidden: [16]}
  training: {lr: 0.1}
  aggregation: fedopt
  attacks: [sia, {name: shadow_mia, every: 2}]
sweep:
  training.lr: {grid_search: [0.1, 0.2]}
  seed: {choice: [1, 2]}
samples: 2
tune: {scheduler: asha, search: null}
resources: {client_actors: 1}
"""


@cache
def validator() -> Draft202012Validator:
    schema = json.loads(json.dumps(sweep_schema()))  # as an editor reads it
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def valid(text: str) -> bool:
    return bool(validator().is_valid(read(text, "x.yaml").value))


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_sweep_of_ours_is_valid(path: Path) -> None:
    assert valid(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rounds: 4", "rounds: 0"),
        ("rounds: 4", "round: 4"),
        ("clients: 8", "clinets: 8"),
        ("name: digits", "name: digitz"),
        ("hidden: [16]", "hidden: [0]"),
        ("{lr: 0.1}", "{learning_rate: 0.1}"),
        ("aggregation: fedopt", "aggregation: fedop"),
        ("every: 2", "evry: 2"),
        ("{grid_search: [0.1, 0.2]}", "{grid: [0.1, 0.2]}"),
        ("scheduler: asha", "scheduler: ahsa"),
        ("client_actors: 1", "client_actors: 0.5"),
        ("name: good", "nam: good"),
    ],
)
def test_what_is_wrong_is_invalid(old: str, new: str) -> None:
    assert valid(GOOD)
    assert GOOD.replace(old, new, 1) != GOOD
    assert not valid(GOOD.replace(old, new, 1))


def test_a_slot_takes_the_fields_of_all_its_components_a_callable_and_own_code_any() -> None:
    assert valid(GOOD.replace("{lr: 0.1}", "{lr: 0.1, clip: 1.0}"))
    own = GOOD.replace("{lr: 0.1}", "{name: mine, width: 3}")
    assert not valid(own) and valid(own.replace("name: good", "name: good\ncode: mine.py"))
    named = GOOD.replace("{name: mlp, hidden: [16]}", '{name: "mine.nets:Net", args: {width: 3}}')
    assert valid(named) and not valid(named.replace("mine.nets:Net", "mine.nets.Net"))


def test_every_field_says_what_it_is() -> None:
    parts: list[Any] = [sweep_schema()]
    while parts:
        part = parts.pop()
        parts += part if isinstance(part, list) else part.values() if isinstance(part, dict) else ()
        for name, field in (part.get("properties", {}) if isinstance(part, dict) else {}).items():
            assert name == "name" or "default" not in field or field.get("description"), name
