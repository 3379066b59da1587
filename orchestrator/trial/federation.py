"""Builds the federation of a run, in the same way for the run itself, the dry run and the check
of memory; digests.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import datasets
from algorithms.interfaces import Run
from datasets.federation import Federation, Source, add_to_digest
from orchestrator.results.provenance import versions
from orchestrator.trial.random_streams import stream


def partition_seed(run: Run) -> int:
    """Return the seed of the partition: the data set's own, else the run's."""
    seed = run.data.config.split_seed
    return run.seed if seed is None else seed


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


def settled(run: Run, data: Federation) -> Run:
    """Return the run with what follows from its data filled in, such as the noise for a target
    epsilon.

    Raises:
        ValueError: a component finds nothing that fits.
    """
    training = replace(
        run.training, config=run.training.module.settle(run.training.config, run, data.sizes)
    )
    privacy = replace(
        run.privacy, config=run.privacy.module.settle(run.privacy.config, run, data.sizes)
    )
    return replace(run, training=training, privacy=privacy)


def digest(plain: Any, *arrays: NDArray[Any]) -> str:
    """Return 32 hexadecimal digits of JSON values, arrays and the software's versions, for what
    is kept in the cache.
    """
    digest = hashlib.sha256(json.dumps([plain, versions()], sort_keys=True).encode())
    for array in arrays:
        add_to_digest(digest, array)
    return digest.hexdigest()[:32]
