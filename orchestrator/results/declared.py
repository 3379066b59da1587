"""What components from outside the checkout say of themselves, kept with the results as plain data: ``declared.json``.

A report runs no code but ours, and the code of an own component may be gone or have changed when a report is written. So
the metrics, labels and attackers that such components declare are saved when a sweep begins to write to its folder, and
whoever reads the folder takes them from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from algorithms.core.metric import Metric
from datasets import outside
from datasets.components import Preset, complete, components, own_components
from datasets.outside import Declaration, room
from orchestrator.config.slots import SLOTS
from orchestrator.results.folder import Folder, write_atomically
from orchestrator.results.integrity import Damage, DamageError, read_mapping, sealed
from orchestrator.results.writing import read_plain, remove

FILE = "declared.json"
COMPONENTS = "components"
NO_LIST = "is not what was saved: it is no list of components"


class _Saved(BaseModel):
    """An entry of the file: what one component declares."""

    slot: str
    name: str
    label: str = ""
    metrics: tuple[Metric, ...] = ()
    presets: dict[str, str] = {}
    kinds: tuple[Literal["models", "updates", "replicas", "halves"], ...] = ()
    sees: Literal["models", "sum", "updates"] | None = None
    adversary: str | None = None


def save_declared(folder: Folder) -> None:
    """Write what the components from outside declare in this process; without any, there is no file.

    Args:
        folder: the results folder of a sweep.

    Raises:
        WriteError: the file could not be written.
    """
    path = folder.path / FILE
    found = [
        _entry(slot.folder, name)
        for slot in SLOTS
        for name in sorted(components(slot.folder).keys() - own_components(slot.folder).keys())
    ]
    if found:
        plain = json.loads(json.dumps({COMPONENTS: found}, default=_number))
        write_atomically(path, json.dumps(sealed(plain), indent=1).encode())
    else:
        remove(path)
    read_declared(folder.path)


def read_declared(folder: Path) -> None:
    """Let reports describe components from outside as they were when a folder's results were made.

    Args:
        folder: the results folder; one without the file changes nothing, nor does a damaged file or an entry that is none.
    """
    with suppress(FileNotFoundError, DamageError):
        outside.declare(_declarations(_read(folder / FILE)))


def declared_damages(folder: Path) -> list[Damage]:
    """What is wrong with the file in a results folder; nothing if there is none."""
    try:
        found = _read(folder / FILE)
        if len(list(_declarations(found))) < len(found):
            return [Damage(folder / FILE, NO_LIST)]
    except FileNotFoundError:
        return []
    except DamageError as error:
        return [error.damage]
    return []


def _read(path: Path) -> list[Any]:
    """The entries of the file. An earlier version wrote them as a bare list.

    Raises:
        FileNotFoundError: there is no such file.
        DamageError: it is not what was saved.
    """
    with suppress(OSError, ValueError, RecursionError):
        if isinstance(former := json.loads(read_plain(path)), list):
            return former
    held, whole = read_mapping(path)
    found = held.get(COMPONENTS)
    if not whole or not isinstance(found, list):
        raise DamageError(Damage(path, NO_LIST))
    return found


def _entry(folder: str, name: str) -> dict[str, Any]:
    """What a component declares, in the form of `_Saved`."""
    one = complete(folder, name)
    attack = {"kinds": one.KINDS, "sees": one.SEES, "adversary": one.ADVERSARY} if folder == "attacks" else {}
    return {
        "slot": room(folder),
        "name": name,
        "label": one.LABEL,
        "metrics": [asdict(metric) for metric in one.METRICS],
        "presets": {preset: held.label for preset, held in one.PRESETS.items()},
        **attack,
    }


def _declarations(found: Any) -> Iterator[Declaration]:
    """The declarations in the file's entries, without entries that are not as `save_declared` writes them."""
    for entry in found if isinstance(found, list) else ():
        with suppress(ValidationError):
            held = _Saved.model_validate(entry)
            presets = {name: Preset(label, {}) for name, label in held.presets.items()}
            of_attack = (held.kinds, held.sees, held.adversary)
            yield Declaration(held.slot, held.name, held.label, held.metrics, presets, *of_attack)


def _number(value: Any) -> Any:
    """A value of NumPy as JSON has it, anything else as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
