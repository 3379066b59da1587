"""Every example (``>>>``) in a docstring of the four packages is run, and gives what stands
below it.
"""

from __future__ import annotations

import doctest
import importlib

import pytest

import orchestrator  # noqa: F401  settles which package is called `datasets`
from tests.test_imports import modules


def examples_by_module() -> dict[str, int]:
    """The number of examples in each module that has any, by dotted name: found by looking, so
    nothing is listed here.
    """
    texts = {
        name: path.read_text(encoding="utf-8").splitlines() for name, path in modules().items()
    }
    prompts = {
        name: sum(line.lstrip().startswith(">>> ") for line in lines)
        for name, lines in texts.items()
    }
    return {name: count for name, count in prompts.items() if count}


@pytest.mark.parametrize(("name", "prompts"), examples_by_module().items())
def test_examples_give_what_they_say(name: str, prompts: int) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0, f"an example in {name} gives something else: see the output above"
    assert outcome.attempted == prompts, (
        f"{name} has examples where doctest does not look, such as an inner function"
    )


def test_examples_are_found() -> None:
    assert sum(examples_by_module().values()) >= 50
