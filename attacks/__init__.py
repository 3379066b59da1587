"""The ``attacks`` list: each module with a ``Config`` is one attack on a federation that trains.

A member says in ``STAGE`` what it looks at: ``"models"`` are the cluster models as the server sends them out at the
start of a round, ``"updates"`` are the clients' models before they are aggregated. What it finds of a model is an
`Audit`, what it finds of the clients an `Exposure`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Scores:
    """One row for each attack and attacked example: who owns it (-1: nobody), whether it was trained on, its score.

    A score is the higher the more the attack believes in membership, and 0 or more where it says "member".
    """

    attack: NDArray[np.str_]
    client: NDArray[np.int64]
    member: NDArray[np.bool_]
    score: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Audit:
    """What an attack found on one target.

    ``risk`` is the attack accuracy that may be published to the clients (None: it says nothing of risk), ``measures`` are
    (attack, metric, value) triples for the researcher; ``metrics`` are columns of the round's row. A value that could not
    be determined is NaN.
    """

    risk: float | None
    measures: tuple[tuple[str, str, float], ...]
    scores: Scores
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Exposure:
    """What an attack on the clients' updates found in a round.

    ``metrics`` are columns of the round's row; ``clients`` are columns of the clients' table, [clients] each, NaN for who
    took no part; ``measures`` are (target, metric, value) triples for the researcher, with targets such as "client_3".
    """

    metrics: Mapping[str, float]
    clients: Mapping[str, NDArray[np.float64]]
    measures: tuple[tuple[str, str, float], ...]
