"""The examples of CONTRIBUTING, each as a file of its own beside the folder of its slot."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from datasets.components import components, forget
from orchestrator.config.slots import SLOTS, Slot
from tests.support.pages import FENCED, page

PAGE = "CONTRIBUTING.md"


@dataclass
class Example:
    """An example of the page."""

    slot: Slot
    name: str
    path: Path

    @property
    def module(self) -> ModuleType:
        return components(self.slot.folder)[self.name]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Example]]:
    """The examples as components, by the key of their slot; their files are in a folder of their
    own.
    """
    checkout, found = tmp_path_factory.mktemp("checkout"), {}
    for match in FENCED.finditer(page(PAGE)):
        path = checkout / match["path"]
        path.parent.mkdir(parents=True)
        path.write_text(match["code"])
        folder = ".".join(Path(match["path"]).parts[:-1])
        importlib.import_module(folder).__path__.append(str(path.parent))
        (slot,) = [one for one in SLOTS if one.folder == folder]
        found[slot.key] = Example(slot, path.stem, path)
    forget()
    yield found
    for one in found.values():
        importlib.import_module(one.slot.folder).__path__.remove(str(one.path.parent))
        sys.modules.pop(f"{one.slot.folder}.{one.name}", None)
    forget()
