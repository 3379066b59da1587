"""A claim of a made-up paper, and trials that measure it."""

from __future__ import annotations

from typing import Any

from orchestrator.papers.claims import Claim, ClaimPart
from orchestrator.papers.trials import Trial

PART = ClaimPart(name="method", method={"objective.name": "better"}, printed=0.1)
CLAIM = Claim(
    claim="paper/claim",
    text="The method is better.",
    source="Table 1",
    kind="higher",
    metric="accuracy",
    where={"data.name": "digits"},
    baseline={"objective.name": "plain"},
    parts=(PART,),
    margin=0.05,
    because="it is",
    sweeps=("quickstart",),
)


def changed(**changes: Any) -> Claim:
    """The claim with other values of some fields."""
    return CLAIM.model_copy(update=changes)


def trial(objective: str, seed: int, accuracy: float, **run: Any) -> Trial:
    """A trial of digits on a partition of its own."""
    fields = {
        "data.name": "digits",
        "data.split_seed": None,
        "seed": seed,
        "objective.name": objective,
        "rounds": 5,
    }
    return Trial(f"{objective}-{seed}-{run}", fields | run, {"accuracy": accuracy})


def both(seed: int, gain: float, **run: Any) -> list[Trial]:
    """A pair of trials."""
    return [
        trial("plain", seed, 0.5 + seed, **run),
        trial("better", seed, 0.5 + seed + gain, **run),
    ]
