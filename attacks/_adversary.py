"""Who makes an attack: the least that the attacker has to see, and the words for it in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Sight = Literal["models", "sum", "updates"]

ADVERSARIES: Mapping[str, str] = {
    "updates": "the server, who sees every client's update",
    "sum": "the server, who sees the sum of the clients' updates",
    "models": "anybody who has the models",
}


def sees(attack: Any) -> Sight:
    """Return the least that the attacker of an attack has to see: its ``SEES``, else what its ``KINDS`` look at.

    Args:
        attack: the attack's module; what it leaves out has the contract's value.
    """
    declared: Sight | None = getattr(attack, "SEES", None)
    return declared or ("updates" if "updates" in attack.KINDS else "models")


def adversary(attack: Any) -> str:
    """Return who makes an attack, as a noun with what it sees: the attack's ``ADVERSARY``, else what it sees."""
    declared: str | None = getattr(attack, "ADVERSARY", None)
    return declared or ADVERSARIES[sees(attack)]
