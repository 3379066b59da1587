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


def compare(wanted: PendingTrial, where: str, folder: Folder, runs: Runs, with_models: bool = False) -> None:
    """Note whether MLflow lacks a run, some of its rounds or artifacts, or its models.

    Args:
        wanted: the run.
        where: the address of MLflow.
        folder: the sweep's results.
        runs: what the local store has.
        with_models: whether the trained models of trials are sent, too.
    """
    lacking = lacks_run(wanted, where, runs)
    wanted.deleted = bool(not lacking and runs and runs[wanted.trial].deleted)
    wanted.anew = not lacking and lacks_rounds(wanted, runs)
    wanted.again = wanted.anew or (not lacking and lacks_artifacts(wanted, folder, runs))
    if lacking and runs is not None and wanted.there == where:  # the store is another one than it was
        wanted.there = wanted.models = ""
    if wanted.again:
        wanted.models = ""
    wanted.on_disk = wanted.on_disk or bool(wanted.trial and (lacking or wanted.anew))
    if wanted.trial and lacking and not wanted.live and wanted.status is None:
        wanted.end("unfinished", wanted.started)
    without_models = with_models and lacks_models(wanted, where)
    if (lacking or wanted.again or without_models) and (wanted.trial or wanted.status):
        wanted.version += 1
    elif not wanted.live:
        wanted.sent = wanted.version


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


def lacks_models(wanted: PendingTrial, where: str) -> bool:
    """Whether a trial has trained models that MLflow lacks; a run that a user has deleted there lacks none.

    Args:
        wanted: the run.
        where: the address of MLflow.
    """
    there = wanted.folder is not None and wanted.folder.model.is_file()
    return there and not wanted.deleted and wanted.models != where


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
