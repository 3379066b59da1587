"""The risk of clients: how well an attack tells a client's own records from non-members that look like them.

A model's risk is an average over all who train it. A client's own risk is measured on its records, under the model that
it uses; that of a group, on the records of all its clients, whichever models they use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.core.messages import Doubles, Ints
from attacks.metrics.membership import FEWEST_NONMEMBERS, NAN, Bools, balanced_accuracy


@dataclass(frozen=True, eq=False)
class Attacked:
    """The attacked examples that belong to clients, n of them, each under one model."""

    score: Doubles  # [n] 0 or more is the decision "member"
    member: Bools  # [n] whether a client trained on the example
    client: Ints  # [n] its owner; for a held-out example, the client whose records it looks like

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
        return NAN if (~self.member).sum() < FEWEST_NONMEMBERS else balanced_accuracy(self.score, self.member)


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

    def count(chosen: Bools) -> Ints:
        return np.bincount(attacked.client[chosen & (attacked.client >= 0)], minlength=len(peers))

    said, member = attacked.score >= 0, attacked.member
    members, nonmembers, rejected = count(member), count(~member), count(~said & ~member)
    _, place = np.unique(peers, return_inverse=True)
    few = nonmembers < FEWEST_NONMEMBERS
    rejected = np.where(few, np.bincount(place, rejected)[place], rejected)
    nonmembers = np.where(few, np.bincount(place, nonmembers)[place].astype(np.int64), nonmembers)
    tnr = np.where(nonmembers < FEWEST_NONMEMBERS, NAN, _share(rejected, nonmembers))
    return ClientRisks(_share(count(said & member), members), tnr, members, nonmembers)


def _share(part: Ints, whole: Ints) -> Doubles:
    return np.divide(part, whole, out=np.full(len(part), NAN), where=whole > 0)
