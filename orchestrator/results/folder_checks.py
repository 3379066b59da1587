"""The command ``check`` on results: whether every folder holds what was written, a line for each sweep and each damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from orchestrator import FINISHED, SOME_FAILED
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.slots import SLOTS
from orchestrator.results.log import DamageError, damage_of, in_parallel
from orchestrator.results.paths import Folder, FolderError
from orchestrator.results.sweeps import sweeps_in

AGAIN = "the same `fedpriv run` does the work again"


def check_folder(path: Path) -> int:
    """Check all results in RESULTS or RESULTS/<sweep>, print what is damaged, and return the exit code.

    Raises:
        ConfigError: the folder holds no results.
    """
    try:
        sweeps = sweeps_in(path)
    except FolderError as error:
        raise ConfigError([ConfigProblem(str(error), file="check")]) from error
    damaged = 0
    for sweep in sweeps:
        damages = list(damages_of(sweep))
        damaged += len(damages)
        print(f"{sweep.name}  {len(sweep.trials())} trials: {f'{len(damages)} damaged' if damages else 'no damage'}")
        for damage in damages:
            print(f"  {damage}; {AGAIN}")
    return SOME_FAILED if damaged else FINISHED


def damages_of(sweep: Folder) -> Iterator[DamageError]:
    """What is damaged of a sweep: its own manifest, its trials, what unfinished ones have saved, and its cache."""
    if not sweep.manifest.exists():
        yield DamageError(sweep.manifest, "is missing")
    trials = sweep.trials()
    entries = sorted(one for one in sweep.cache.iterdir()) if sweep.cache.is_dir() else []
    folders = [(sweep.path, None), *((one.path, one.id) for one in trials), *((one.state, one.id) for one in trials)]
    folders += [(entry, entry.name) for entry in entries]
    yield from filter(None, in_parallel(lambda folder: damage_of(*folder), folders))


def results_folder(argument: str) -> Path | None:
    """Return the folder of results that an argument of ``check`` means; None if it names a component.

    Args:
        argument: what the user gave. A path that begins or ends with a dot or a slash is a folder in any case, and so is
            one below a folder that is no slot; another name is one if there is such a folder with results.
    """
    slots = {name for slot in SLOTS for name in (slot.key, slot.field, slot.folder.rpartition(".")[2])}
    first, separator, rest = argument.partition("/")
    if first in ("", ".", "..", "~") or (separator and (not rest or first not in slots)):
        return Path(argument).expanduser()
    try:
        return Path(argument) if sweeps_in(Path(argument)) else None
    except (FolderError, OSError):
        return None
