"""``fedpriv clean``: end what killed runs left running, and delete the files of sweeps that can
be trained again.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path

from orchestrator import FINISHED, SOME_FAILED

HELP = (
    "end the processes that killed runs left behind, and delete what trials share, such as "
    "shadow models, which can be trained again; results stay"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="RESULTS[/SWEEP]",
        help="the folder of all sweeps, or of one sweep; without it only processes are ended",
    )
    parser.add_argument("--yes", action="store_true", help="delete without asking")


def execute(options: argparse.Namespace) -> int:
    """End processes; list the caches, ask and delete them; return the exit code."""
    from datasets.federation import printable
    from orchestrator.cluster.orphans import end_orphans
    from orchestrator.results.claim import Claim
    from orchestrator.results.paths import FolderError
    from orchestrator.results.sweeps import sweeps_in
    from orchestrator.results.writing import remove_folder

    sweeps = sweeps_in(options.folder) if options.folder else []
    print("\n".join(end_orphans() or ["no killed run has left processes behind"]))
    if options.folder is None:
        return FINISHED
    caches = [sweep for sweep in sweeps if any(sweep.cache.glob("*"))]
    if not caches:
        print("there is nothing to delete: trials have left nothing that they share")
        return FINISHED
    width = max(len(printable(sweep.name)) for sweep in caches)
    for sweep in caches:
        size = 0
        for file in sweep.cache.rglob("*"):
            with suppress(FileNotFoundError):  # a run may be at work, and rename files
                size += file.lstat().st_size if not file.is_dir() else 0
        print(
            f"{printable(sweep.name):{width}}  {len(list(sweep.cache.iterdir())):>6} "
            f"entries  {size / 1e6:>8.1f} MB"
        )
    if not options.yes and sys.stdin and sys.stdin.isatty():
        print(
            "Results stay. What is deleted is trained again if a trial that has no result "
            "yet needs it."
        )
        with suppress(EOFError):
            options.yes = input("Delete it? [y/N] ").strip().lower() in ("y", "yes")
    if not options.yes:
        print("nothing was deleted; --yes deletes without asking")
        return FINISHED
    code = FINISHED
    for sweep in caches:
        try:
            with Claim(sweep):  # no run is at work
                remove_folder(sweep.cache)
            print(f"{printable(sweep.name)}: deleted")
        except (FolderError, OSError) as error:
            code = SOME_FAILED
            print(f"{printable(sweep.name)}: not deleted: {error}", file=sys.stderr)
    return code
