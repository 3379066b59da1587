"""What attacks train in addition to the run: shadow models, and whole federations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from algorithms.core.messages import Doubles, Ints
from datasets.federation import Examples, Federation


class ShadowJob(Protocol):
    """One shadow model to be trained: a frozen dataclass of everything that it depends on."""

    @property
    def members(self) -> Ints:
        """Positions in the shadow set of the examples that it is trained on."""
        ...

    @property
    def sizes(self) -> Ints:
        """The number of members that each client of a federation has that it is trained in; empty: there is none."""
        ...

    @property
    def rounds(self) -> int:
        """The rounds of that federation; 0: there is none."""
        ...

    @property
    def max_epochs(self) -> int:
        """The most passes over the members where there is no federation."""
        ...

    def key(self, extra: str) -> str:
        """Return a hexadecimal digest of the job and of ``extra``.

        Args:
            extra: describes what else the model depends on: the shadow set, the model, the training and the device.
        """
        ...


@dataclass(frozen=True, eq=False)
class World:
    """What one replica is trained on, and how it differs from the run besides.

    Attributes:
        data: the federation.
        silent: clients that train like the others and then send back the model that they were sent.
        noisy: whether the server adds the noise of the privacy component.
    """

    data: Federation
    silent: tuple[int, ...] = ()
    noisy: bool = True


class Pool(Protocol):
    """The records of all clients that are attacked: those that the run trains on, and others that were held back."""

    @property
    def examples(self) -> Examples:
        """The n records, ready for the model, transformed as their owners' are."""

    @property
    def owner(self) -> Ints:
        """The client of each record, [n]."""

    @property
    def trained(self) -> NDArray[np.bool_]:
        """Whether each record is a training example of the run itself, [n]."""

    def federation(self, data: Federation, inside: NDArray[np.bool_]) -> Federation:
        """Return the run's federation ``data`` in which each client trains on its records that are ``inside`` [n]."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What the models of replicas, and of the run itself, say of the records of a pool.

    The confidence in the true class is ``ln p_y - ln(1 - p_y)`` (`attacks.metrics.membership.confidences`), in the model
    that the record's owner uses.

    Attributes:
        pool: the records.
        inside: [replicas, n] whether each replica trained on each record; replicas 2i and 2i + 1 are complementary.
        confidence: [replicas, n] the confidence of each replica's models.
        own: [n] the confidence of the run's final models.
        model: [n] number of the model that the record's owner uses.
        names: names of the models.
        groups: [n] index of the owner's true group in ``group_names``.
        group_names: names of the groups.
        numbers: [replicas] the replicas' numbers, some missing where pairs diverged; None: 0, 1, 2, ...
    """

    pool: Pool
    inside: NDArray[np.bool_]
    confidence: Doubles
    own: Doubles
    model: Ints
    names: tuple[str, ...]
    groups: Ints
    group_names: tuple[str, ...]
    numbers: Ints | None = None
