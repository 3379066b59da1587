"""``tracking.json``: the file in a folder of results that remembers what MLflow should have of it, for the next process."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrator.results.folder import Folder, TrialFolder, write_atomically
from orchestrator.results.integrity import Damage, DamageError, read_sealed, sealed, set_aside
from orchestrator.tracking import shared_view
from orchestrator.tracking.labels import short_name
from orchestrator.tracking.pending import FORM, PendingTrial
from orchestrator.tracking.places import LOCAL

NAMES = ("name", "tags", "params", "started", "ended", "status", "finals", "files", "there", "experiment")
OPTIONAL = ("models", "report")
STATUSES = (None, "finished", "stopped", "diverged", "failed", "unfinished")
LATEST = 10**14  # milliseconds since 1970: the year 5138


def record(folder: Folder | TrialFolder, wanted: PendingTrial) -> None:
    """Save what the tables do not contain, so that another process can send the whole run to MLflow."""
    kept = {name: getattr(wanted, name) for name in NAMES} | {"form": FORM}
    kept |= {name: value for name in OPTIONAL if (value := getattr(wanted, name))}
    with suppress(OSError):  # writing the tables reports if the folder cannot be written
        write_atomically(folder.tracking, json.dumps(sealed(kept)).encode())


def recorded(folder: Folder | TrialFolder) -> PendingTrial | None:
    """Read what `record` has saved; a run of an earlier form counts as not sent.

    Returns:
        The run; None if nothing was saved.

    Raises:
        DamageError: the file is not what was saved.
    """
    trial = folder if isinstance(folder, TrialFolder) else None
    try:
        kept = read_sealed(folder.tracking)
    except FileNotFoundError:
        return None
    former = kept.pop("form", 1)
    if not _is_saved(kept) or not isinstance(former, int):
        raise DamageError(Damage(folder.tracking, "is not what was saved: its values are none of a run"))
    kept["files"] = [(str(_placed(folder, path, below)), below) for path, below in kept.get("files", ())]
    found = PendingTrial(trial.id if trial else "", folder=trial, live=False, **kept)
    return _in_this_form(found) if former < FORM else found


def recalled(folder: Folder | TrialFolder, say: Callable[[str], object]) -> PendingTrial | None:
    """What `record` has saved; None if nothing was, or if it is damaged and is now set aside.

    Args:
        folder: the folder of a trial or a sweep.
        say: is called with a sentence about a damaged file.
    """
    try:
        return recorded(folder)
    except DamageError as error:
        with suppress(OSError):
            aside = set_aside(folder.tracking)
            say(f"{error}: set aside as {aside.name}, and written anew from the results")
    return None


def _is_saved(kept: Mapping[str, Any]) -> bool:
    """Whether these are values that `record` saves."""

    def is_time(value: Any) -> bool:
        return type(value) is int and 0 <= value < LATEST

    def is_number(value: Any) -> bool:
        return type(value) in (int, float) and math.isfinite(value)

    maps = {"tags": lambda value: isinstance(value, str), "params": lambda value: isinstance(value, str)}
    checks: dict[str, Callable[[Any], bool]] = {
        "name": lambda value: isinstance(value, str),
        "started": is_time,
        "ended": is_time,
        "status": lambda value: value in STATUSES,
        "files": lambda value: isinstance(value, list) and all(map(_is_artifact, value)),
    }
    checks |= {name: _mapping_of(check) for name, check in (maps | {"finals": is_number}).items()}
    checks |= dict.fromkeys(("there", "experiment", *OPTIONAL), checks["name"])
    needed = {"name", "tags", "started"}
    return needed <= kept.keys() <= checks.keys() and all(checks[name](value) for name, value in kept.items())


def _mapping_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _is_artifact(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value)


def _placed(folder: Folder | TrialFolder, path: str, below: str) -> Path:
    """Where an artifact is now, for the folder of results may have been moved."""
    return folder.path / below / Path(path).name


def _in_this_form(found: PendingTrial) -> PendingTrial:
    """A run that an earlier version recorded: it has to be sent again, with the swept parameters alone and a short name."""
    found.there = ""
    declared = declared_keys(found.folder) if found.folder else None
    if declared is not None:
        known = found.params
        found.params = {
            key: known[key] for key in known if any(key == one or key.startswith(f"{one}.") for one in declared)
        }
        if declared and set(declared) == set(found.params):
            found.name = short_name({key: _value(found.params[key]) for key in declared})
    return found


def declared_keys(folder: TrialFolder) -> list[str] | None:
    """The swept keys of the sweep file beside the trials; None if it cannot be read."""
    import yaml

    with suppress(OSError, ValueError, yaml.YAMLError, AttributeError, TypeError):
        text = Folder(folder.path.parent.parent).sweep.read_text()
        return list(yaml.safe_load(text).get("sweep") or {})
    return None


def _value(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return text


def views(results: Path, server: str) -> list[tuple[str, str]]:
    """The name and the address of the ready-made view of each sweep in the store beside ``results``, the latest first."""
    found = []
    for file in results.glob("*/tracking.json"):
        with suppress(DamageError):
            sweep = recorded(Folder(file.parent))
            if sweep and sweep.there == LOCAL and sweep.experiment:
                found.append((sweep.started, sweep.name, shared_view.link(server, sweep.experiment)))
    return [(name, link) for _, name, link in sorted(found, reverse=True)]
