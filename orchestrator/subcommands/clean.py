"""``fedpriv clean``: end what killed runs left running, and delete the files of sweeps that can be trained again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import FINISHED, SOME_FAILED
from orchestrator.subcommands import path

if TYPE_CHECKING:
    from orchestrator.results.cache import Cache

HELP = (
    "end the processes that killed runs left behind, and delete shadow models and replicas, which can be trained "
    "again; results stay"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=path,
        metavar="RESULTS[/SWEEP]",
        help="the folder of all sweeps, or of one sweep; without it only processes are ended",
    )
    parser.add_argument("--yes", action="store_true", help="delete without asking")


def execute(options: argparse.Namespace) -> int:
    """End processes; list the caches, ask and delete them; return the exit code."""
    from orchestrator.cluster.orphans import end_orphans

    found = None if options.folder is None else _caches(options.folder)
    sentences = end_orphans()
    if found is None:
        print("\n".join(sentences or ["no killed run has left processes behind"]))
        return FINISHED
    for sentence in sentences:
        print(sentence)
    if not found:
        print("there is nothing to delete: no shadow models and no replicas")
        return FINISHED
    width = max(len(cache.sweep.name) for cache in found)
    for cache in found:
        print(f"{cache.sweep.name:{width}}  {cache.entries:>6} entries  {_megabytes(cache.size):>10}")
    if options.yes or _agreed(found):
        return _delete(found)
    print("nothing was deleted; --yes deletes without asking")
    return FINISHED


def _caches(folder: Path) -> list[Cache]:
    """The caches below a folder. Raises ConfigError if it holds no results."""
    from orchestrator.config.errors import ConfigError, ConfigProblem
    from orchestrator.results.cache import Cache
    from orchestrator.results.paths import FolderError
    from orchestrator.results.sweeps import sweeps_in

    try:
        return [cache for sweep in sweeps_in(folder) if (cache := Cache(sweep)).entries]
    except FolderError as error:
        raise ConfigError([ConfigProblem(str(error), file="clean")]) from error


def _agreed(found: Sequence[Cache]) -> bool:
    """Whether the user, if there is one, wants the files to be deleted."""
    if not sys.stdin.isatty():
        return False
    entries, size = sum(cache.entries for cache in found), sum(cache.size for cache in found)
    print("Results stay. What is deleted is trained again if a trial that has no result yet needs it.")
    try:
        return input(f"Delete {entries} entries ({_megabytes(size)})? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _delete(found: Sequence[Cache]) -> int:
    from orchestrator.results.paths import FolderError

    freed, kept = 0, 0
    for cache in found:
        try:
            cache.remove()
            freed += cache.size
        except (FolderError, OSError) as error:
            kept += 1
            print(f"{cache.sweep.name}: not deleted: {error}", file=sys.stderr)
    print(f"deleted {_megabytes(freed)}")
    return SOME_FAILED if kept else FINISHED


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
