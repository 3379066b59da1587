"""How canary clients take part in the audit of a release: what a privacy component says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CanaryPlan:
    """How canaries take part.

    Attributes:
        every: rounds from one audited round to the next; ``auto``: as few as take little time.
        norm: L2 norm of what a canary sends, so large that clipping bites if they are many. None, where nothing is
            clipped: the median norm of the updates of the round.
        opposite: whether a canary that is out sends the opposite instead of nothing, which is the furthest that a client that
            replaces another can move the release.
        alone: whether canaries take part one at a time, because the noise depends on the updates
            (`algorithms.engine.lone_canaries`).
    """

    every: Literal["auto"] | int
    norm: float | None
    opposite: bool = False
    alone: bool = False
