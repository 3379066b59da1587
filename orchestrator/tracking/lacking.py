"""What MLflow lacks of a sweep, as far as that can be told without MLflow: runs, and of those their rounds and artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.results.folder import Folder
from orchestrator.tracking import previews
from orchestrator.tracking.descriptions import PICTURES
from orchestrator.tracking.local_runs import LocalRun
from orchestrator.tracking.pending import PendingTrial, trial_files
from orchestrator.tracking.pictures import shown_figures

Runs = Mapping[str, LocalRun] | None
"""What the local store has of each trial; None if that is not known."""


def lacks_run(wanted: PendingTrial, where: str, runs: Runs) -> bool:
    """Whether MLflow may not have all of a run.

    Args:
        wanted: the run.
        where: the address of MLflow.
        runs: what the local store has.
    """
    if wanted.there != where:
        return True
    return runs is not None and wanted.mark not in runs.get(wanted.trial, LocalRun()).sent


def lacks_rounds(wanted: PendingTrial, runs: Runs) -> bool:
    """Whether rounds of a trial that was completely sent are missing in the local store.

    Args:
        wanted: the run.
        runs: what the local store has.
    """
    if not runs or not wanted.trial or wanted.folder is None or wanted.trial not in runs:
        return False
    held = runs[wanted.trial].rounds
    table = wanted.folder.table("rounds")
    try:
        return bool(held) and max(held) < pq.read_metadata(table).num_rows
    except (OSError, pa.ArrowException):
        return False


def lacks_artifacts(wanted: PendingTrial, folder: Folder, runs: Runs) -> bool:
    """Whether artifacts of a run are missing or cut short in the local store.

    Args:
        wanted: the run.
        folder: the sweep's results.
        runs: what the local store has.
    """
    return bool(runs and wanted.trial in runs and runs[wanted.trial].lacks(_artifacts(wanted, folder)))


def _artifacts(wanted: PendingTrial, folder: Folder) -> Iterator[tuple[str, Path | None]]:
    """The paths of a run's artifacts, each with its file; without one if it is made of others when it is sent."""
    if wanted.status in (None, "unfinished"):
        return
    files = [*wanted.files, *(trial_files(wanted.folder) if wanted.folder else ())]
    for path, below in files:
        if (file := Path(path)).exists():
            yield f"{below}/{file.name}".lstrip("/"), file
    if wanted.folder:
        yield from ((f"{previews.FOLDER}/{name}.json", None) for name in previews.shown_tables(wanted.folder))
    else:
        if folder.table.is_file():
            yield f"{previews.FOLDER}/trials.json", None
        yield from ((f"{PICTURES}/{file.name}", None) for file in shown_figures(folder))
