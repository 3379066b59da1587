"""A new store in the place of one that MLflow cannot use: the old one is set aside, and all sweeps beside it are sent again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from orchestrator.results.folder import Folder, FolderError, locked
from orchestrator.tracking.moved import ARTIFACTS
from orchestrator.tracking.places import LOCAL
from orchestrator.tracking.store_file import set_store_aside
from orchestrator.tracking.tracker import Tracker


def set_aside_sentences(results: Path) -> list[str]:
    """Set aside what MLflow cannot use, and say what was wrong with it.

    Args:
        results: the folder of all sweeps.
    """
    try:
        found = set_store_aside(results)
    except OSError as error:
        return [f"{results / LOCAL} could not be set aside: {(error.strerror or str(error)).lower()}"]
    if not found:
        return [f"{results / LOCAL} is in order, or there is none, so none was set aside"]
    kept = f"; the files of its runs stay in {ARTIFACTS}, those of new runs are put beside them"
    return [
        f"{trouble}: set aside as {aside.name}{kept if trouble.path.name == LOCAL else ''}" for trouble, aside in found
    ]


def fill_again(own: Folder, seconds: float) -> list[str]:
    """Send the sweeps beside ``own`` to the store, those that it has not; return sentences on what was done.

    A sweep that another process runs is left to that process and to the next run of the sweep.

    Args:
        own: the results folder of the sweep that has been sent already.
        seconds: the longest time to wait for each sweep.
    """
    sent, missed = list[str](), list[str]()
    for file in sorted(own.path.parent.glob("*/tracking.json")):
        folder = Folder(file.parent)
        if folder.path == own.path or not folder.record.is_file():
            continue
        with suppress(FolderError, OSError), locked(folder):
            tracker = Tracker(folder.path.parent, folder.name, None, lambda _: None)
            tracker.reconcile(folder.path)
            if tracker.behind:
                (sent if tracker.close(seconds) else missed).append(folder.name)
            tracker.close(seconds)
            continue
        missed.append(folder.name)
    said = [f"the new store holds {_named(sent)} beside it, too"] if sent else []
    return said + (
        [f"the new store does not hold {_named(missed)} yet; the next run of each sends it"] if missed else []
    )


def _named(names: list[str]) -> str:
    return f"the sweep {names[0]}" if len(names) == 1 else f"the sweeps {', '.join(names)}"
