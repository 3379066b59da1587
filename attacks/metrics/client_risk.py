"""The risk of clients: how well an attack tells a client's own records from non-members that look like them.

A model's risk is an average over all who train it. A client's own risk is measured on its records, under the model that
it uses; that of a group, on the records of all its clients, whichever models they use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.metrics.membership import FEWEST_NONMEMBERS, NAN, client_rates

Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Attacked:
    """The attacked examples that belong to clients, each under one model.

    Attributes:
        score: [n] 0 or more is the decision "member".
        member: [n] whether a client trained on the example.
        client: [n] its owner; for a held-out example, the client whose records it looks like.
    """

    score: Doubles
    member: Bools
    client: Ints

    def of(self, clients: Bools) -> Attacked:
        """Return the examples of some clients, given as a mask [clients]."""
        own = (self.client >= 0) & clients[self.client]
        return Attacked(self.score[own], self.member[own], self.client[own])

    @staticmethod
    def join(parts: Sequence[Attacked]) -> Attacked:
        """Concatenate the examples of several models."""
        return Attacked(
            np.concatenate([np.empty(0), *(part.score for part in parts)]),
            np.concatenate([np.empty(0, bool), *(part.member for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.client for part in parts)]),
        )

    @property
    def accuracy(self) -> float:
        """(TPR + TNR) / 2; NaN without members or with fewer than ten non-members."""
        said, members = self.score >= 0, int(self.member.sum())
        if not members or len(self.member) - members < FEWEST_NONMEMBERS or np.isnan(self.score).any():
            return NAN
        return float(said[self.member].mean() + (~said[~self.member]).mean()) / 2


@dataclass(frozen=True, eq=False)
class ClientRisks:
    """The attack's rates on the records of each client, [clients] each; NaN where nothing was measured.

    ``tnr`` is of the ``nonmembers`` that look like the client's records or, if they are fewer than ten, like its
    peers'.
    """

    tpr: Doubles
    tnr: Doubles
    members: Ints
    nonmembers: Ints

    @property
    def risk(self) -> Doubles:
        """The attack's accuracy for each client, (TPR + TNR) / 2."""
        return (self.tpr + self.tnr) / 2


def client_risks(attacked: Attacked, peers: Ints) -> ClientRisks:
    """Compute the risk of each client; equal ``peers`` [clients] look alike and use the same model."""
    tpr, tnr, members, nonmembers = client_rates(attacked.score >= 0, attacked.member, attacked.client, len(peers))
    rejected = np.where(nonmembers > 0, np.nan_to_num(tnr) * nonmembers, 0)
    _, place = np.unique(peers, return_inverse=True)
    counted = np.bincount(place, nonmembers)[place].astype(np.int64)
    common = np.divide(np.bincount(place, rejected)[place], counted, out=np.full(len(peers), NAN), where=counted > 0)
    few = nonmembers < FEWEST_NONMEMBERS
    counted = np.where(few, counted, nonmembers)
    shared = np.where(few, common, tnr)
    return ClientRisks(tpr, np.where(counted < FEWEST_NONMEMBERS, NAN, shared), members, counted)
