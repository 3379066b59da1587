"""From a chosen data set and a chosen split to the federation of a run: load, check, deal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from datasets.federation import DataError, Federation


class Chosen(Protocol):
    """A component of a slot together with its validated fields."""

    @property
    def module(self) -> Any: ...

    @property
    def config(self) -> Any: ...


def build_federation(
    data: Chosen, split: Chosen, root: Path, rng_for: Callable[[str], np.random.Generator], download: bool = True
) -> Federation:
    """The federation that ``split`` makes of the data set ``data``, which lies (or is downloaded) under ``root``.

    ``rng_for`` gives the generator of a named purpose; the same seeds give the same federation, bit for bit.
    Raises DataError if the data set is absent, damaged, or too small for what the configuration asks (all reasons at
    once).
    """
    source = data.module.load(data.config, root, download)
    shortages = split.module.shortages(split.config, data.config, source)
    if shortages:
        raise DataError("\n".join(shortages))
    return split.module.partition(split.config, data.config, source, rng_for)
