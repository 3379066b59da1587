"""The data of a federation: published data sets, ways to partition them among clients, and
transforms that make groups.

Reading order: `build_federation` below (load, check, partition), `federation` (the data structures
that every other module uses), then

* ``sources/``: one file for each data set, the components of the slot ``data``;
* ``splits/``: one file for each way to partition, the components of the slot ``data.split``;
* `stratified`: makes a test set with the same mixture of classes as the training set;
* `roles`: assigns each example to exactly one purpose, and builds the federation;
* `transforms`: rotation and brightness;
* `files`: finds, checks and downloads published files;
* `profile`: looks at own files and chooses the fields of their source.

Everything here is NumPy. Importing the package starts no process and writes nothing; only a data
set that downloads itself writes files.
"""

from pathlib import Path

from datasets.components import Component, Config
from datasets.federation import DataError, Federation, Source
from datasets.interfaces import RngFor, SourceContract, SplitContract
from datasets.source_configs import SourceConfig


def build_federation(
    data: Component[SourceContract, SourceConfig],
    split: Component[SplitContract, Config],
    root: Path,
    rng_for: RngFor,
    download: bool = True,
    source: Source | None = None,
) -> Federation:
    """Load a data set, unless it is given as ``source``, and partition it among the clients.

    The same seeds give the same federation, bit for bit. ``root`` is the folder that holds the data
    sets (or another, see `SourceContract.load`); one that is absent may be downloaded into it,
    unless ``download`` is false. Raises DataError if the data set is absent, damaged, or too small
    for the configuration; the message lists all reasons.
    """
    if source is None:
        source = data.module.load(data.config, root, download)
    shortages = split.module.shortages(split.config, data.config, source) or _unfit(
        data, split, source
    )
    if shortages:
        raise DataError("\n".join(shortages))
    federation = split.module.partition(split.config, data.config, source, rng_for)
    if data.config.validates and not len(federation.validation):
        raise DataError(
            f"data.{data.config.VALIDATION}: the split {split.name} sets no example aside "
            "for validation"
        )
    return federation


def _unfit(
    data: Component[SourceContract, SourceConfig],
    split: Component[SplitContract, Config],
    source: Source,
) -> list[str]:
    """Return what the split would ignore: examples that are the server's, and clients whose
    statistics prepare theirs.
    """
    problems = []
    marked = split.module.server_has(split.config, data.config) == "marked"
    if marked and source.server is None:
        problems.append(
            f"data.split.server: part needs rows that data.part calls server; {source.name} "
            "has none"
        )
    if source.server is not None and not marked:
        problems.append(
            f"data.part: {len(source.server)} rows of {source.name} are the server's, which "
            f"the split {split.name} does not read; write split: {{name: natural, server: "
            f"part}}"
        )
    if data.config.prepared_by == "each_client" and not split.module.OF_CLIENTS:
        problems.append(
            "data.statistics: each_client needs the clients of the data themselves: split natural"
        )
    return problems
