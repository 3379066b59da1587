"""Every example (``>>>``) in a docstring of the four packages is run, and gives what stands below it."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import orchestrator  # noqa: F401  settles which package is called `datasets`

ROOT = Path(__file__).parents[1]
PACKAGES = ("datasets", "algorithms", "attacks", "orchestrator")


def examples_by_module() -> dict[str, int]:
    """The number of examples in each module that has any, by dotted name: found by looking, so nothing is listed here."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        prompts = sum(line.lstrip().startswith(">>> ") for line in path.read_text(encoding="utf-8").splitlines())
        if prompts:
            found[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = prompts
    return found


@pytest.mark.parametrize(("name", "prompts"), examples_by_module().items())
def test_examples_give_what_they_say(name: str, prompts: int) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0, f"an example in {name} gives something else: see the output above"
    assert outcome.attempted == prompts, f"{name} has examples where doctest does not look, such as an inner function"


def test_examples_are_found() -> None:
    assert sum(examples_by_module().values()) >= 50
