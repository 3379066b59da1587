"""Rules that find the counterparts of printed numbers: one module per paper, named after the paper's key.

Such a module has one function, ``counterpart(record) -> Counterpart | None``; None means that this project does not
measure the number. To add a paper, add a module; a paper without a module is not compared.
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
    """The function ``counterpart`` of every paper that has a module, by the paper's key."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").counterpart for name in names}
