"""Sentences about models that are named after a group of clients and serve others.

A model keeps the name of the group whose clients preferred it before risk counted. Clients that move because of risk
can leave it with few clients of that group, or outnumber them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OWN, USERS = "own_clients_", "clients_"


def foreign_models(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return a sentence for each model that serves none of its group's clients, or fewer of them than of the others.

    >>> foreign_models({"own_clients_minority": 4, "clients_minority": 29})
    {'minority': "the minority's model serves 4 of the minority's clients and 25 others"}

    Args:
        metrics: a round's row or final metrics.

    Returns:
        The sentences by the group's name.
    """
    found = {}
    for name, own in metrics.items():
        group = name.removeprefix(OWN)
        users = metrics.get(USERS + group)
        if group == name or own is None or users is None:
            continue
        others = int(users - own)
        if not users:
            found[group] = f"nobody uses the {group}'s model"
        elif not own:
            found[group] = f"the {group}'s model serves none of the {group}'s clients and {others} others"
        elif own < others:
            found[group] = f"the {group}'s model serves {int(own)} of the {group}'s clients and {others} others"
    return found
