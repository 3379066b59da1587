"""What the printed numbers of each paper are in this project's words: one module per paper, named after its key.

Such a module has one function, ``counterpart(record) -> Counterpart | None``; None says that a record has none. A paper
without a module is not compared. Adding a file adds a paper.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from orchestrator.report.published import Counterpart, Record

Rule = Callable[[Record], Counterpart | None]


@cache
def rules() -> dict[str, Rule]:
    """The rule of every paper that has one, by the paper's key."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").counterpart for name in names}
