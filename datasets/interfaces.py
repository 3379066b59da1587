"""The contracts of the slots ``data`` and ``data.split``: what a data set and a way to partition
it must define.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from datasets.components import BaseContract
from datasets.federation import Federation, Source
from datasets.source_configs import SourceConfig

ServerHas = Literal["strangers", "marked", "clients"]
"""Whose the shadow set is: people's who are no clients, those that the data mark, or people's
who are clients, too.
"""

RngFor = Callable[[str], np.random.Generator]
"""``rng_for(purpose)`` returns the random generator of a named purpose, with any name: each has
a stream of its own.
"""


class SourceContract(BaseContract, Protocol):
    """A data set: it only reads examples.

    Which client gets which example is decided by `datasets.roles` and the split.

    Attributes:
        BESIDE_SWEEP: whether its files lie beside the sweep file: ``load`` is given the folder of
            the sweep file.
    """

    BESIDE_SWEEP: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def load(config: Any, root: Path, download: bool = True) -> Source:
        """Read the data set, which may be downloaded if it is absent and ``download`` is true.

        ``root`` is the folder that holds the data sets, or (``BESIDE_SWEEP``) the folder of the
        sweep file. Raises DataError if the data set is absent or damaged; the message names the
        file, where it was looked for, and the remedy.
        """

    @staticmethod
    def resolve(config: Any, run: object) -> Any:
        """Return ``config`` with every ``auto`` replaced by a value."""
        return config

    @staticmethod
    def problems(config: Any, run: object) -> list[tuple[str, str]]:
        """Return conflicts between the configuration and the rest of the run: pairs of a field
        and a sentence.
        """
        return []


class SplitContract(BaseContract, Protocol):
    """A way to partition a data set among clients.

    Attributes:
        OF_CLIENTS: whether its clients are those of the data, who hold all of their examples, those
            for validation included.
    """

    OF_CLIENTS: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def shortages(config: Any, data_config: SourceConfig, source: Source) -> list[str]:
        """Return the reasons why this data set cannot be partitioned as configured, those of
        `problems` included.

        They are sentences that open with a dotted key, such as "data.clients: ..."; the list is
        empty if the partition is possible. ``data_config`` has the fields of the data set.
        """

    @staticmethod
    @abstractmethod
    def partition(
        config: Any, data_config: SourceConfig, source: Source, rng_for: RngFor
    ) -> Federation:
        """Partition the data set. Callers check first that `shortages` is empty.

        ``data_config`` has the fields of the data set, and ``rng_for`` returns the generator of a
        named purpose. Raises DataError if the random draw came out unusable, for example with a
        client that has no example.
        """

    @staticmethod
    def problems(config: Any, data_config: SourceConfig) -> list[str]:
        """Return what is wrong with the configuration alone, in sentences like those of
        `shortages`.

        The default is an empty list.
        """
        return []

    @staticmethod
    def remark(config: Any, data_config: SourceConfig) -> str | None:
        """Return what a plan should say of the partition; None if there is nothing to say."""
        return None

    @staticmethod
    def server_has(config: Any, data_config: SourceConfig) -> ServerHas:
        """Return whose the examples of the shadow set are."""
        return "strangers"

    @staticmethod
    def unread_of_data(config: Any, data_config: SourceConfig) -> dict[str, str]:
        """Return the data set's fields that this split does not read, each with the reason as
        the end of a sentence.
        """
        return {}
