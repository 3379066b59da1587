"""What trials say of one part of a claim: its effect over pairs, before any verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from algorithms.metrics.statistics import NAN
from orchestrator.config.errors import amount
from orchestrator.papers.claims import Claim, ClaimPart, Conditions, label
from orchestrator.papers.rule import NOT_TESTED, Effect
from orchestrator.papers.trials import Trial, differing, matches
from orchestrator.report.data import Repeat

# Of method, baseline, and the two of the difference that theirs is compared with.
SIGNS = (1.0, -1.0, -1.0, 1.0)
Side = dict[Repeat, Trial]  # the trials of a method, by partition and seed


@dataclass(frozen=True)
class MeasuredPart:
    """One comparison of a claim in one reading, with its verdict.

    Attributes:
        claim: the claim's name, as in ``claims.yaml``.
        name: the part's.
        reading: the reading's; empty if the claim has one only.
        effect: the effect over pairs.
        trials: the trials of its pairs.
        notes: what was left out, and why.
        printed_baseline: the printed value of the baseline; NaN if none is printed.
        baseline: the measured one; NaN without a baseline.
        earlier: verdicts by rules that were changed when its numbers had been seen, in order.
        verdict: see `decide`.
        p_holm: of no effect; where the verdict is that it does not matter, of an effect beyond the
            margin; where the claim is that there is none, the smaller of both.
        tests: the number of parts over which p is corrected, itself among them.
    """

    claim: str
    name: str
    reading: str
    effect: Effect
    trials: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()
    printed_baseline: float = NAN
    baseline: float = NAN
    earlier: tuple[str, ...] = ()
    verdict: str = NOT_TESTED
    p_holm: float = NAN
    tests: int = 1

    @property
    def label(self) -> str:
        """Its name within the claim."""
        return label(self.name, self.reading)

    @property
    def other_baseline(self) -> bool:
        """Whether the baselines, printed and measured, differ by more than printed effect and
        margin.
        """
        # Without a printed effect, the margin.
        largest = max(self.effect.margin, abs(self.effect.printed))
        return self.effect.enough and abs(self.baseline - self.printed_baseline) > largest


def measured_part(
    claim: Claim, part: ClaimPart, reading: str, trials: Sequence[Trial]
) -> MeasuredPart:
    """What the trials say of one part of a claim in one reading."""
    chosen, notes = _chosen(claim, part, reading, trials)
    pairs = [pair for pair in chosen[0] if all(pair in side for side in chosen)]
    alone = sum(map(len, chosen)) - len(chosen) * len(pairs)
    if all(chosen) and alone:
        lost = amount(alone, "trial")
        notes.append(f"{lost} without a partner on the same partition with the same seed; not used")
    means = [_means(claim, side, pairs) for side in chosen]
    values = [_signed(row) for row in zip(*means, strict=True)]
    compared = len(chosen) > 1 and values
    printed_baseline = part.printed_baseline
    if math.isnan(printed_baseline):
        printed_baseline = claim.printed_baseline
    return MeasuredPart(
        claim.claim,
        part.name,
        reading,
        _effect(claim, part, values),
        trials=tuple(side[pair] for side in chosen for pair in pairs),
        notes=tuple(dict.fromkeys(notes)),
        printed_baseline=printed_baseline,
        baseline=math.fsum(means[1]) / len(values) if compared else NAN,
        earlier=claim.earlier.get(label(part.name, reading), ()),
    )


def _effect(claim: Claim, part: ClaimPart, values: Sequence[float]) -> Effect:
    """These values beside what is printed, as logarithms where the claim says so."""
    printed = part.printed
    margin = claim.margin
    if claim.scale == "log":
        printed = math.log(printed)
        margin = math.log(margin)
    return Effect(tuple(values), printed, margin, claim.kind)


def _signed(row: Sequence[float]) -> float:
    """The difference of a pair, or that of two differences."""
    return math.fsum(sign * value for sign, value in zip(SIGNS, row, strict=False))


def _chosen(
    claim: Claim, part: ClaimPart, reading: str, trials: Sequence[Trial]
) -> tuple[list[Side], list[str]]:
    """The trials that a part compares, by partition and seed, and a sentence on each omission."""
    sides = _sides(claim, part)
    chosen: list[Side] = []
    notes: list[str] = []
    for conditions in sides:
        wanted = {**claim.where, **conditions}
        chosen.append(_side(claim, wanted, claim.every_reading[reading], trials, notes))
    if len(chosen) > 1 and all(chosen):
        slots = {key.split(".")[0] for conditions in sides for key in conditions}
        mixed = differing([next(iter(side.values())) for side in chosen], slots)
        if mixed:
            notes.append(f"method and baseline also differ in {', '.join(mixed)}; not used")
            chosen = [{} for _ in sides]
    return chosen, notes


def _sides(claim: Claim, part: ClaimPart) -> list[Conditions]:
    """The conditions of all methods that a part compares, in the order of `SIGNS`."""
    sides = [part.method]
    baseline = part.baseline or claim.baseline
    if baseline:
        sides.append(baseline)
    if part.than:
        sides += [part.than.method, part.than.baseline]
    return sides


def _side(
    claim: Claim, wanted: Conditions, reading: Conditions, trials: Sequence[Trial], notes: list[str]
) -> Side:
    """The trials of one method by partition and seed; ``notes`` gets a sentence on each
    omission.
    """
    rows = [
        trial
        for trial in trials
        if matches(trial.run, wanted) and matches(trial.run, reading, read=True)
    ]
    if not rows:
        notes += _nowhere(wanted, trials)
    measured = [trial for trial in rows if all(name in trial.metrics for name in claim.metrics)]
    if len(measured) < len(rows):
        notes.append(f"{len(rows) - len(measured)} trials did not measure {claim.metric}")
    if claim.scale == "log":
        positive = [one for one in measured if min(one.metrics[name] for name in claim.metrics) > 0]
        if len(positive) < len(measured):
            lost = amount(len(measured) - len(positive), "trial")
            notes.append(f"{lost} with a value that has no logarithm; not used")
        measured = positive
    mixed = differing(measured)
    if mixed:
        notes.append(f"trials of several readings, not used: they differ in {', '.join(mixed)}")
        return {}
    return {trial.pair: trial for trial in measured}


def _nowhere(wanted: Conditions, trials: Sequence[Trial]) -> list[str]:
    """A sentence on the fields that a claim asks for and no trial has, perhaps misspelled."""
    fields = {field for trial in trials for field in trial.run}
    missing = [key for key, value in wanted.items() if value is not None and key not in fields]
    if not trials or not missing:
        return []
    return [f"no trial has the field {', '.join(missing)}"]


def _means(claim: Claim, side: Mapping[Repeat, Trial], pairs: Sequence[Repeat]) -> list[float]:
    """The mean of a claim's metrics on each partition, or with each seed if it is about seeds."""
    names = claim.metrics
    by_place: dict[Any, list[float]] = {}
    for pair in pairs:
        value = math.fsum(side[pair].metrics[name] for name in names) / len(names)
        if claim.scale == "log":
            value = math.log(value)
        place = pair if claim.over == "seeds" else pair[0]
        by_place.setdefault(place, []).append(value)
    return [math.fsum(values) / len(values) for values in by_place.values()]
