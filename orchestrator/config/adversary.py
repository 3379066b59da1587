"""What the server sees of a run (``server_sees``), and which components of the run need to see more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algorithms.interfaces import SIGHTS, Run
from attacks.interfaces import sees
from orchestrator.config.errors import ConfigProblem, Key
from orchestrator.config.slots import SLOTS, Slot, chosen_components

SEEN = {
    "updates": "every client's own update",
    "sum": "only the sum of its clients' updates for each model (secure aggregation)",
    "models": "only the models that are sent out",
}
LOOKS_AT = {"updates": "looks at every client's own update", "sum": "looks at the sum of the updates"}


def sight_problems(run: Run, slots: Sequence[Slot] = SLOTS) -> list[ConfigProblem]:
    """Return a problem for each component that needs more than what the server of ``run`` sees.

    * An attack says with ``SEES`` what its attacker looks at.
    * An aggregation or a privacy component with ``NEEDS = "updates"`` cannot be computed from a sum; its ``UPDATES_FOR``
      says why.
    * Ranking the clients' curvatures takes each client's own values, which the server of a secure sum does not get.

    Means of updates, clipping (which clients do themselves), noise on the mean, server optimizers and the choice among
    several models need no more than a sum for each model. What is measured for the tables is not what the server sees.

    Args:
        run: the run, with all components resolved.
        slots: the slots of a run.
    """
    if run.server_sees == "updates":
        return []
    seen = SEEN[run.server_sees]
    problems = []
    for key, component in chosen_components(run, slots):
        reason, least = _need(key, component)
        if reason and SIGHTS.index(least) > SIGHTS.index(run.server_sees):
            sentence = f"{component.name} {reason}, and the server sees {seen}; it needs server_sees: {least}"
            problems.append(ConfigProblem(sentence, key))
    if run.measures_curvature:
        ranked = f"the server ranks every client by its own curvature (rho), and it sees {seen}"
        problems.append(ConfigProblem(f"{ranked}; whoever reads rho needs server_sees: updates", ("server_sees",)))
    return problems


def _need(key: Key, component: Any) -> tuple[str, str]:
    """Return what a component looks at, as part of a sentence, and the least that the server must see; "" if nothing."""
    if key[0] == "attacks":
        return LOOKS_AT.get(sees(component.module), ""), sees(component.module)
    if key[0] in ("aggregation", "privacy") and component.module.NEEDS == "updates":
        return component.module.UPDATES_FOR, "updates"
    return "", "models"
