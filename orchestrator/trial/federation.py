"""Builds the federation of a run, in the same way for the run itself, the dry run and the check of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
from algorithms.interfaces import Run
from datasets.federation import Federation, Source
from orchestrator.trial.random_streams import stream


def partition_seed(run: Run) -> int:
    """Return the seed of the partition: the data set's own, else the run's."""
    own = run.data.config.split_seed
    return run.seed if own is None else own


def federation_key(run: Run, data_root: Path) -> Any:
    """Return what the federation depends on: equal keys mean equal federations."""
    return repr((run.data, run.split, partition_seed(run), str(data_root)))


def partition_data(run: Run, data_root: Path, source: Source | None = None) -> Federation:
    """Load a run's data set, unless ``source`` is given, and partition it.

    Raises:
        DataError: the data set is absent, damaged or too small.
    """
    seed = partition_seed(run)
    rng_for = lambda purpose: stream(seed, purpose)  # noqa: E731
    return datasets.build_federation(run.data, run.split, data_root, rng_for, source=source)
