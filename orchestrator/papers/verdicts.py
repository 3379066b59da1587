"""Verdicts on claims, from trials of any number of sweeps: effects (`effects`), Holm's correction
over the claims of a paper, and the rule (`rule`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from algorithms.metrics.statistics import NAN, holm
from orchestrator.papers.claims import Claim, Claims, read_claims
from orchestrator.papers.effects import MeasuredPart, measured_part
from orchestrator.papers.rule import NO_EFFECT, TINY, decide, together
from orchestrator.papers.trials import Trial, trials_of
from orchestrator.report.data import Results, grouped

OTHER_BASELINE = "baseline differs"  # said before a verdict
TESTS = ("p_difference", "p_equivalence", "p_size")  # of `Effect`, what is corrected


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim: its parts in every reading, and the verdict of each reading."""

    claim: Claim
    parts: tuple[MeasuredPart, ...]
    readings: Mapping[str, str] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Whether trials measure any part."""
        return any(part.effect.n for part in self.parts)


def verdicts(trials: Sequence[Trial], claims: Claims | None = None) -> list[Verdict]:
    """The verdict on every claim, by default on those of the three papers, from all trials at
    hand.
    """
    every = (claims or read_claims()).content.claims
    parts = [
        measured_part(claim, part, reading, trials)
        for claim in every
        for reading in claim.every_reading
        for part in claim.parts
    ]
    judged = grouped((part.claim, part) for part in judge_parts(parts))
    return [verdict_of(claim, judged[claim.claim]) for claim in every]


def verdict_of(claim: Claim, parts: Sequence[MeasuredPart]) -> Verdict:
    """The verdict on a claim of these parts, which have theirs."""
    readings = {}
    for reading, ours in grouped((part.reading, part) for part in parts).items():
        other_baseline = any(part.other_baseline for part in ours)
        readings[reading] = together({part.verdict for part in ours}, other_baseline)
    return Verdict(claim, tuple(parts), readings)


def of_results(results: Results) -> list[Verdict]:
    """The verdicts on the claims of which these results measure a part; most sweeps have none."""
    trials, _ = trials_of(results)
    return [verdict for verdict in verdicts(trials) if verdict.measured]


def words(verdict: Verdict) -> str:
    """The verdict of each reading, in one line."""
    differs = {part.reading for part in verdict.parts if part.other_baseline}
    told = {name: _told(word, name in differs) for name, word in verdict.readings.items()}
    return "; ".join(f"{name}: {word}" if name else word for name, word in told.items())


def told(part: MeasuredPart) -> str:
    """The verdict on a part, and before it that the baseline differs."""
    return _told(part.verdict, part.other_baseline)


def _told(verdict: str, other_baseline: bool) -> str:
    """A verdict, and before it whether the measured baseline is another one than the printed."""
    return f"{OTHER_BASELINE}, {verdict}" if other_baseline else verdict


def judge_parts(parts: Sequence[MeasuredPart]) -> list[MeasuredPart]:
    """The parts with their verdicts, after Holm's correction over those of a paper that have
    enough pairs. A part that is in several families has the largest of its p values.
    """
    p_values = [dict.fromkeys(TESTS, 0.0) for _ in parts]
    tests = [1 for _ in parts]
    for family in _families(parts):
        effects = [parts[at].effect for at in family]
        for name in TESTS:
            corrected = holm([getattr(one, name) if one.enough else NAN for one in effects])
            for at, p in zip(family, corrected, strict=True):
                p_values[at][name] = max(p, p_values[at][name])  # NaN stays
        tested = sum(effect.enough for effect in effects)
        for at, effect in zip(family, effects, strict=True):
            tests[at] = max(tests[at], tested + (not effect.enough))
    return [
        _judged(part, among, **corrected)
        for part, among, corrected in zip(parts, tests, p_values, strict=True)
    ]


def _judged(
    part: MeasuredPart, tests: int, p_difference: float, p_equivalence: float, p_size: float
) -> MeasuredPart:
    """A part with its verdict, the p value that this rests on, and the number of tests."""
    verdict = decide(part.effect, p_difference, p_equivalence, p_size)
    nothing_claimed = part.effect.side == 0 and p_equivalence < p_difference
    alike = verdict in (NO_EFFECT, TINY) or nothing_claimed
    p_holm = p_equivalence if alike else p_difference
    return replace(part, verdict=verdict, p_holm=p_holm, tests=tests)


def _families(parts: Sequence[MeasuredPart]) -> Iterator[list[int]]:
    """The positions of the parts that are corrected together: those of a paper in one reading.

    Readings of different fields go together in every way, such as one of the curvature with one of
    the partition.
    """
    papers = grouped((part.claim.split("/")[0], at) for at, part in enumerate(parts))
    for members in papers.values():
        read = grouped((parts[at].claim, parts[at].reading) for at in members if parts[at].reading)
        fields = {frozenset(readings) for readings in read.values()}
        widest = [one for one in fields if not any(one < wider for wider in fields)]
        for readings in product(*widest):
            yield [at for at in members if parts[at].reading in (*readings, "")]
