"""A control for IFCA-MIR: as many clients change their model as by its rule, but they are drawn
at random.

    each round:  m_ab <- number of clients that choose model a by loss and model b by loss and risk
                 (IFCA-MIR) for all a, b: of the clients that choose a by loss, m_ab random ones use
                 b instead

    where leaving is limited (most_leaving, leaving_price), both choices and the draw keep to it:
                 choice by loss: that of IFCA-MIR's rule with beta = 0, so within the same cap and
                     at the same price
                 m_pab, and the draw, for the clients that used model p last alone; so as many leave
                 p as by the rule

Whatever remains of IFCA-MIR's effect under this control is due to the number of clients that move,
and not to who they are. The rule is applied to the control's own models, which differ from those of
a run of IFCA-MIR, so the numbers of moves differ as well; compare them. The order in which clients
are drawn is the same in every round, so that a client that moved tends to stay.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from algorithms.clustering import _choice, ifca_mir
from algorithms.clustering._choice import cheapest
from algorithms.core.choices import Preferences, View
from algorithms.core.messages import Doubles, Ints

LABEL = "random migration"
SORTS_LIKE = "ifca"


class Config(ifca_mir.Config):
    """Fields of IFCA-MIR, whose moves are counted."""


starts = _choice.starts
selection_size = _choice.selection_size
risk_signal = ifca_mir.risk_signal
problems = ifca_mir.problems


def preferences(
    config: Config,
    clients: int,
    rng: np.random.Generator,
) -> Preferences:
    """Return the preferences of IFCA-MIR, and the order in which clients are drawn."""
    drawn = ifca_mir.preferences(config, clients, rng)
    return replace(drawn, turn=rng.permutation(clients))


def choose(
    config: Config,
    view: View,
    preferences: Preferences,
) -> tuple[Ints, Doubles]:
    """Choose by loss, then move as many random clients as IFCA-MIR would move because of risk.

    Returns:
        The chosen model [clients], and the losses in nats as costs [clients, clusters]. A client
        that does not use the model with its lowest loss has no other choice: the other models cost
        it infinity.
    """
    clients = len(view.losses)
    indifferent = replace(preferences, beta=np.zeros(clients))
    by_loss, _ = ifca_mir.choose(config, view, indifferent)
    by_risk, _ = ifca_mir.choose(config, view, preferences)
    chosen = by_loss.copy()
    models = np.arange(view.losses.shape[1])
    order = np.arange(clients)
    if preferences.turn is not None:
        order = np.argsort(preferences.turn)
    alike = view.previous if config.limits_leaving else np.zeros(clients, np.int64)
    for before, a in product(np.unique(alike), models):
        group = (alike == before) & (by_loss == a)
        waiting = order[group[order]]
        for b in models[models != a]:
            count = int((group & (by_risk == b)).sum())
            chosen[waiting[:count]] = b
            waiting = waiting[count:]
    preferred = cheapest(view.losses, view.losses, view.previous)
    moved = chosen != preferred
    forced = moved[:, None] & (chosen[:, None] != models)
    return chosen, np.where(forced, np.inf, view.losses)
