"""Verdicts on published claims: one rule, applied to trials of any number of sweeps.

``claims.yaml`` has the claims. A claim is a relation and not a number: FinP lowers CoV; metric
privacy costs at most so much. Its effect is the mean difference over pairs of trials with the same
partition and seed; pairs on one partition are averaged first, because they are not independent. The
rule, in this order, at 95 %, with Holm's correction over the claims of a paper in one reading of
each field (those without readings count in each):

1. fewer than five pairs: one run, or inconclusive;
2. within the margin (two one-sided tests): no effect, or one that is too small to matter, unless as
    small a one is printed;
3. the claim's side of zero: supported; smaller or larger than printed, if more than the margin from
   the printed effect;
4. the other side: reversed;
5. more than the margin from the printed effect: contradicted as printed, effect undecided;
6. else inconclusive. Of 1, 5 and 6 the page says how many pairs would decide.

A claim that two methods do not differ, that one is not below the other, or that a value is the
printed one, is supported if the effect is shown to be within the margin, and contradicted (a value:
not reproduced) if it is shown to be beyond; it is inconclusive if the interval touches the margin.
A value at the end of its range is asked to be at least the printed one less the margin. In steps 2
to 4 half of the interval must not be wider than the margin, unless all of it lies beyond.

A claim with several parts is supported, or contradicted, in part if some are and the others are
not, or were not tested; contradicted in part where one is reversed and another is supported. It is
supported in part at most where the measured baseline is farther from the printed one than the
printed effect and the margin, and this is said first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Any

from algorithms.metrics.statistics import NAN, SIGNIFICANT, holm, p_text, quantile
from orchestrator.config.errors import ConfigError, amount
from orchestrator.config.metric_names import metrics
from orchestrator.config.sweep_file import load_sweep
from orchestrator.report.data import Repeat, Results, grouped
from orchestrator.report.figures.drawing import REFERENCE, RESOLUTION
from orchestrator.report.measured import ORIGIN, Trial, differing, flat, matches, trials_of
from orchestrator.report.numbers import load, papers
from orchestrator.report.summary import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Claim = Mapping[str, Any]  # an entry of claims.yaml, or a part of one
FILE = Path(__file__).with_name("claims.yaml")
FEWEST_PAIRS = 5
QUEUED = "no sweep file has these trials as it stands; see `benchmarks/evidence/queue.yaml`"
SUPPORTED, REVERSED = "supported", "reversed"
SMALLER, LARGER = "smaller than printed", "larger than printed"
NO_EFFECT, CONTRADICTED = "no effect", "contradicted as printed, effect undecided"
INCONCLUSIVE, ONE_RUN, NOT_TESTED = "inconclusive", "one run", "not tested"
BEYOND, OTHER_VALUE, TINY = "contradicted", "value not reproduced", "too small to matter"
IN_PART, AGAINST_IN_PART = "supported in part", "contradicted in part"
OTHER_BASELINE = "baseline differs"  # said before a verdict
MARK = "†"  # after a verdict for which the rule was changed when its numbers had been seen
# From what says least. A claim of parts that differ gets the first that one of them has, if nothing
# is said in part.
OPEN = (NOT_TESTED, ONE_RUN, INCONCLUSIVE, CONTRADICTED)
AGAINST = (OTHER_VALUE, BEYOND, NO_EFFECT, TINY, REVERSED)
FOR = (SMALLER, LARGER, SUPPORTED)
WEAKEST_FIRST = (*OPEN, *AGAINST, *FOR)
DECIDED = (IN_PART, AGAINST_IN_PART, *WEAKEST_FIRST[3:])
SIGNS = (
    1.0,
    -1.0,
    -1.0,
    1.0,
)  # of method, baseline, and the two of the difference that theirs is compared with
SIDES = {"higher": 1.0, "lower": -1.0}  # of the kinds of claims that have one
VALUES = ("value", "at least")
ONE_SIDED = ("not lower", "at least")


@dataclass(frozen=True)
class Effect:
    """What the pairs say of one part of a claim.

    Attributes:
        values: the effect in each independent pair; for a value, the measured values.
        printed: the printed effect; NaN if none is printed.
        margin: the smallest effect that matters.
        kind: the claim's, see ``claims.yaml``.
    """

    values: tuple[float, ...]
    printed: float
    margin: float
    kind: str

    @property
    def side(self) -> float:
        """1 if the claim says higher, -1 lower, 0 within the margin of ``target``."""
        return SIDES.get(self.kind, 0.0)

    @property
    def target(self) -> float:
        """What the effect is compared with: 0, or the printed value."""
        return self.printed if self.kind in VALUES else 0.0

    @property
    def above(self) -> bool:
        """Whether the claim allows any effect above the margin, too."""
        return self.kind in ONE_SIDED

    @property
    def n(self) -> int:
        """The number of independent pairs."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """The mean effect."""
        return math.fsum(self.values) / self.n if self.values else NAN

    @cached_property
    def deviation(self) -> float:
        """The sample standard deviation; NaN of fewer than two values."""
        return stdev(self.values) if self.n > 1 else NAN

    def half(self, confidence: float = 0.95) -> float:
        """Half the width of Student's interval of the mean."""
        if self.n < 2:
            return NAN
        return quantile(self.n - 1, confidence) * self.deviation / math.sqrt(self.n)

    def p_beyond(self, bound: float, above: bool) -> float:
        """The one-sided p value of the t test against a mean at ``bound``, for a mean above or
        below it.

        Of the sign test if all values are equal.
        """
        from scipy.special import stdtr

        if self.n < 2:
            return NAN
        distance, error = (
            (self.mean - bound) * (1 if above else -1),
            self.deviation / math.sqrt(self.n),
        )
        return (
            float(stdtr(self.n - 1, -distance / error))
            if error
            else 0.5**self.n
            if distance > 0
            else 1.0
        )

    def p_outside(self, center: float, margin: float) -> float:
        """The two-sided p value of a mean within ``margin`` of ``center``."""
        high = 1.0 if self.above else self.p_beyond(center + margin, True)
        low = self.p_beyond(center - margin, False)
        return min(1.0, 2 * min(high, low))

    @property
    def p_difference(self) -> float:
        """The two-sided p value of no effect; where the claim is that there is none, of none
        beyond the margin.
        """
        return self.p_outside(self.target, 0.0 if self.side else self.margin)

    @property
    def p_equivalence(self) -> float:
        """The p value of two one-sided tests for an effect within the margin of the target
        (Schuirmann 1987).
        """
        high = 0.0 if self.above else self.p_beyond(self.target + self.margin, False)
        return max(self.p_beyond(self.target - self.margin, True), high)

    @property
    def p_size(self) -> float:
        """The two-sided p value of an effect within the margin of the printed one.

        NaN if none is printed, or if this is what the claim itself says.
        """
        if math.isnan(self.printed) or self.kind in VALUES:
            return NAN
        return self.p_outside(self.printed, self.margin)

    def pairs_needed(self, tests: int = 1) -> int | None:
        """The pairs with which this mean and deviation would decide in four of five cases; None
        if that is not known.

        As the first of ``tests`` in Holm's correction, and by Student's t (Guenther 1981, The
        American Statistician 35).
        """
        from scipy.optimize import brentq
        from scipy.stats import norm

        spread, mean = self.deviation, self.mean - self.target
        size = -mean if self.above else abs(mean)
        away = abs(self.margin - size)  # from the nearer end of the margin
        alike = size < self.margin and away > abs(mean * self.side)  # the one-sided tests decide
        distance = away if alike or not self.side else abs(mean)
        if math.isnan(spread) or distance == 0:
            return None
        level, width, power = map(
            float, norm.ppf([1 - (0.05 if alike else 0.025) / tests, 0.975, 0.8])
        )
        reach = level + power
        if alike:  # in both tests, the one of the end that is farther away, too
            farther = math.inf if self.above else (self.margin + size) / away
            reach = brentq(
                lambda z: norm.cdf([z - level, z * farther - level]).sum() - 1.8, 0.1, reach + 1
            )
        error = distance / reach
        if self.side:  # and the interval must be narrow, or beyond the margin, see `decide`
            error = min(error, max(self.margin / width, away / (width + power)))
        return max(FEWEST_PAIRS, math.ceil((spread / error) ** 2 + level**2 / 2))


def decide(effect: Effect, p_difference: float, p_equivalence: float, p_size: float) -> str:
    """The verdict on one part, from its effect and its p values after Holm's correction, see
    `Effect`.
    """
    if effect.n < FEWEST_PAIRS:
        return {0: NOT_TESTED, 1: ONE_RUN}.get(effect.n, INCONCLUSIVE)
    differs = p_difference < SIGNIFICANT
    alike = p_equivalence < SIGNIFICANT
    resized = p_size < SIGNIFICANT
    half = effect.half()
    precise = half <= effect.margin or abs(effect.mean) - half > effect.margin
    if effect.side and precise and (alike or differs):
        return _of_a_side(effect, differs, alike, resized)
    if not effect.side and alike:
        return SUPPORTED
    if not effect.side and differs:
        return OTHER_VALUE if effect.kind in VALUES else BEYOND
    return CONTRADICTED if resized else INCONCLUSIVE


def _of_a_side(effect: Effect, differs: bool, alike: bool, resized: bool) -> str:
    """The same for a claim of a direction, if an effect is shown or that it is within the
    margin.
    """
    gain = effect.side * effect.mean
    printed = effect.side * effect.printed
    claimed = differs and gain > 0
    if not claimed:
        return NO_EFFECT if alike else REVERSED
    if alike:
        return SUPPORTED if printed <= effect.margin else TINY
    if resized:
        return LARGER if gain > printed else SMALLER
    return SUPPORTED


@dataclass(frozen=True)
class Part:
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
        return ", ".join(filter(None, (self.name, self.reading)))

    @property
    def other_baseline(self) -> bool:
        """Whether the baselines, printed and measured, differ by more than printed effect and
        margin.
        """
        largest = max(
            self.effect.margin, abs(self.effect.printed)
        )  # without one printed, the margin
        enough = self.effect.n >= FEWEST_PAIRS
        return enough and abs(self.baseline - self.printed_baseline) > largest

    @property
    def told(self) -> str:
        """Its verdict, and before it that the baseline differs."""
        return _told(self.verdict, self.other_baseline)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, the entry of ``claims.yaml``: its parts in every reading, and the
    verdict of each reading.
    """

    claim: Claim
    parts: tuple[Part, ...]
    readings: Mapping[str, str] = field(default_factory=dict)


def claims() -> list[dict[str, Any]]:
    """All claims, in the order of the file, each with its sweeps and the hours that these take."""
    hours = load(FILE)["hours"]
    return [
        claim | {"sweeps": {name: hours[name] for name in claim["sweeps"]}}
        for claim in load(FILE)["claims"]
    ]


def readings(claim: Claim) -> dict[str, Any]:
    """The conditions of each reading of a claim, by name; the name of an only reading is empty."""
    return claim.get("readings") or {"": {}}


def part_effect(claim: Claim, part: Claim, reading: str, trials: Sequence[Trial]) -> Part:
    """What the trials say of one part of a claim in one reading."""
    sides = [part["method"]]
    if base := part.get("baseline") or claim.get("baseline"):
        sides.append(base)
    if than := part.get("than"):
        sides += [than["method"], than["baseline"]]
    chosen, notes = _chosen(claim, sides, readings(claim)[reading], trials)
    pairs = [pair for pair in chosen[0] if all(pair in side for side in chosen)]
    alone = sum(map(len, chosen)) - len(chosen) * len(pairs)
    if all(chosen) and alone:
        lost = (
            f"{amount(alone, 'trial')} without a partner on the same partition with the same seed"
        )
        notes.append(f"{lost}; not used")
    means = [_means(claim, side, pairs) for side in chosen]
    rows = zip(*means, strict=True)
    values = [math.fsum(map(math.prod, zip(row, SIGNS, strict=False))) for row in rows]
    printed = float(part.get("printed", NAN))
    margin = float(claim["margin"])
    if claim.get("scale") == "log":
        printed, margin = math.log(printed), math.log(margin)
    made = Part(
        claim["claim"],
        part["name"],
        reading,
        Effect(tuple(values), printed, margin, claim["kind"]),
        trials=tuple(side[pair] for side in chosen for pair in pairs),
        notes=tuple(dict.fromkeys(notes)),
        printed_baseline={**claim, **part}.get("printed_baseline", NAN),
        baseline=math.fsum(means[1]) / len(values) if len(sides) > 1 and values else NAN,
    )
    return replace(made, earlier=tuple(claim.get("earlier", {}).get(made.label, ())))


def _chosen(
    claim: Claim, sides: Sequence[Claim], reading: Claim, trials: Sequence[Trial]
) -> tuple[list[dict[Repeat, Trial]], list[str]]:
    """The trials that a claim compares, by partition and seed, and a sentence on each omission."""
    names = claim["metric"].split(", ")
    chosen, notes = [], []
    for conditions in sides:
        wanted = {**claim["where"], **conditions}
        rows = [
            trial
            for trial in trials
            if matches(trial.run, wanted) and matches(trial.run, reading, read=True)
        ]
        measured = [trial for trial in rows if all(name in trial.metrics for name in names)]
        if len(measured) < len(rows):
            notes.append(f"{len(rows) - len(measured)} trials did not measure {claim['metric']}")
        if mixed := differing(measured):
            notes.append(f"trials of several readings, not used: they differ in {', '.join(mixed)}")
            measured = []
        chosen.append({trial.pair: trial for trial in measured})
    if len(chosen) > 1 and all(chosen):
        slots = {key.split(".")[0] for conditions in sides for key in conditions}
        if mixed := differing([next(iter(side.values())) for side in chosen], slots):
            notes.append(f"method and baseline also differ in {', '.join(mixed)}; not used")
            chosen = [{} for _ in sides]
    return chosen, notes


def _means(claim: Claim, side: Mapping[Repeat, Trial], pairs: Sequence[Repeat]) -> list[float]:
    """The mean of a claim's metrics on each partition, or with each seed if it is about seeds."""
    names = claim["metric"].split(", ")
    by_place: dict[Any, list[float]] = {}
    for pair in pairs:
        value = math.fsum(side[pair].metrics[name] for name in names) / len(names)
        if claim.get("scale") == "log":
            value = math.log(value)
        place = pair if claim.get("over") == "seeds" else pair[0]
        by_place.setdefault(place, []).append(value)
    return [math.fsum(values) / len(values) for values in by_place.values()]


def verdicts(trials: Sequence[Trial]) -> list[Verdict]:
    """The verdict on every claim, from all trials at hand."""
    parts = [
        part_effect(claim, part, reading, trials)
        for claim in claims()
        for reading in readings(claim)
        for part in claim["parts"]
    ]
    judged = grouped((part.claim, part) for part in _judged(parts))
    return [
        Verdict(claim, tuple(judged[claim["claim"]]), _together(judged[claim["claim"]]))
        for claim in claims()
    ]


def _judged(parts: Sequence[Part]) -> list[Part]:
    """The parts with their verdicts, after Holm's correction over those of a paper that have
    enough pairs.

    Readings of different fields go together in every way, such as one of the curvature with one of
    the partition. A part has the largest of its p values.
    """
    papers = [part.claim.split("/")[0] for part in parts]
    corrected, tests = [[0.0, 0.0, 0.0] for _ in parts], [1] * len(parts)
    for paper in dict.fromkeys(papers):
        members = [at for at, other in enumerate(papers) if other == paper]
        read = grouped((parts[at].claim, parts[at].reading) for at in members if parts[at].reading)
        fields = {frozenset(readings) for readings in read.values()}
        for readings in product(
            *(one for one in fields if not any(one < wider for wider in fields))
        ):
            family = [at for at in members if parts[at].reading in (*readings, "")]
            effects = [
                parts[at].effect if parts[at].effect.n >= FEWEST_PAIRS else None for at in family
            ]
            for which, name in enumerate(("p_difference", "p_equivalence", "p_size")):
                values = holm([getattr(effect, name) if effect else NAN for effect in effects])
                for at, p in zip(family, values, strict=True):
                    corrected[at][which] = max(p, corrected[at][which])  # NaN stays
            enough = sum(effect is not None for effect in effects)
            for at, effect in zip(family, effects, strict=True):
                tests[at] = max(tests[at], enough + (effect is None))
    judged = []
    for part, (difference, equivalence, size), among in zip(parts, corrected, tests, strict=True):
        verdict = decide(part.effect, difference, equivalence, size)
        alike = verdict in (NO_EFFECT, TINY) or (part.effect.side == 0 and equivalence < difference)
        judged.append(
            replace(part, verdict=verdict, p_holm=equivalence if alike else difference, tests=among)
        )
    return judged


def _together(parts: Sequence[Part]) -> dict[str, str]:
    """The verdict of each reading: that of its parts, in part if some are supported or
    contradicted, else the weakest.
    """
    joined = {}
    for reading, ours in grouped((part.reading, part) for part in parts).items():
        names = {part.verdict for part in ours}
        whole = names <= {*FOR} and not any(part.other_baseline for part in ours)
        joined[reading] = min(names - {NOT_TESTED} or names, key=WEAKEST_FIRST.index)
        if names & {*FOR} and not whole and not names & {REVERSED, BEYOND}:
            joined[reading] = IN_PART
        elif names & {*AGAINST} and names & {*OPEN, *FOR}:
            joined[reading] = AGAINST_IN_PART
    return joined


def of(results: Results) -> list[Verdict]:
    """The verdicts on the claims of which these results measure a part; most sweeps have none."""
    return [verdict for verdict in verdicts(trials_of(results)[0]) if _measured(verdict)]


def _measured(verdict: Verdict) -> bool:
    return any(part.effect.n for part in verdict.parts)


def words(verdict: Verdict) -> str:
    """The verdict of each reading, in one line."""
    differs = {part.reading for part in verdict.parts if part.other_baseline}
    told = {name: _told(word, name in differs) for name, word in verdict.readings.items()}
    return "; ".join(f"{name}: {word}" if name else word for name, word in told.items())


def _told(verdict: str, other_baseline: bool) -> str:
    """A verdict, and before it whether the measured baseline is another one than the printed."""
    return f"{OTHER_BASELINE}, {verdict}" if other_baseline else verdict


MEANINGS = {
    SUPPORTED: "on the claimed side of zero; where no effect is claimed, within the margin",
    f"{SMALLER}, {LARGER}": "on the claimed side, and more than the margin from the printed effect",
    NO_EFFECT: "within the margin",
    TINY: "within the margin, on the claimed side",
    REVERSED: "on the other side of zero",
    BEYOND: "beyond the margin where no effect is claimed",
    OTHER_VALUE: "more than the margin from the printed value",
    CONTRADICTED: "more than the margin from the printed effect; its side is not known",
    "in part": "other parts are not, or were not tested, or the baseline differs",
    OTHER_BASELINE: (
        "printed and measured differ by more than the printed effect (the margin, if that is "
        "larger)"
    ),
    INCONCLUSIVE: "the interval, after Holm's correction, touches the margin or zero",
    ONE_RUN: "one pair, so no test and no prediction",
    MARK: (
        "the rule was changed after this number had been seen; below the table is what it said "
        "before"
    ),
}
LEGEND = "\n".join(f"- *{word}*: {meaning}" for word, meaning in MEANINGS.items())
COLUMNS = (
    f"Decided is any verdict but {INCONCLUSIVE} and {ONE_RUN}. The column baseline has the "
    "printed and the measured value. The column p is of no effect; of one beyond the margin "
    "where an effect within it is shown, or where none is claimed and that is the smaller p. "
    "Margins are ours."
)
ERRORS = (
    "Percent of simulated families of ten claims in which a verdict is said of at least one "
    "claim although it does not hold. The true effect of all ten is at the edge; effects of "
    "pairs are normal, and their standard deviation is the margin. The rule promises 5 % at "
    "most; with 2000 families, a simulated rate can be a point off. "
    "`tests/orchestrator/report/test_verdict_errors.py` repeats it, with other standard "
    "deviations, too."
)
ERRORS_HEAD = ("verdict", "claim", "true effect", "5 pairs", "10 pairs", "25 pairs")
HEAD = (
    "claim",
    "part",
    "reading",
    "baseline",
    "printed",
    "measured",
    "predicted",
    "margin",
    "pairs",
    "p (Holm)",
    "verdict",
)


def markdown(
    judged: Sequence[Verdict], notes: Sequence[str], sources: Sequence[str], counted: str
) -> str:
    """All verdicts as a page: one table for each paper, what the verdicts lack, and how they are
    made.

    ``counted`` says how many published numbers are measured, see
    `orchestrator.report.numbers.counted`.
    """
    decided = [{*verdict.readings.values()} & {*DECIDED} for verdict in judged]
    blocks = [
        "# Verdicts on published claims",
        f"Made by `fedpriv verdict {' '.join(sources)}` from the claims in `orchestrator/report/claims.yaml`; the rule, with "
        "its references, is in `orchestrator/report/verdicts.py`. An effect is the mean difference over pairs of trials on "
        'the same partition with the same seed, with its 95 % interval; "predicted" says whether the printed effect lies '
        "where that of one more pair would, with 95 %, so that a single run can show it; p is corrected for all claims of a "
        "paper in one reading of each field, and a verdict holds for that reading. Below a table stand its trials, the hours "
        "that their rounds take one after another, where they are from (of our own the line of "
        "`benchmarks/evidence/queue.yaml`, which `run_queue.py RESULTS LINE` runs), commit, torch and processor; in brackets,"
        " of how many that is known. Beside what is not tested stand the trials that test it, and the hours that all trials "
        "of their file take on two cores by `--dry-run`, if no client changes its model.",
        LEGEND,
        COLUMNS,
        f"{len(judged)} claims: {sum(map(bool, decided))} are decided in at least one "
        "reading, and "
        f"{sum(set(verdict.readings.values()) == {NOT_TESTED} for verdict in judged)} have "
        "not been tested.",
        counted,
        "![Measured and printed effects, in units of their margins.](verdicts.png)"
        * any(map(_measured, judged)),
    ]
    for paper in dict.fromkeys(verdict.claim["claim"].split("/")[0] for verdict in judged):
        ours = [verdict for verdict in judged if verdict.claim["claim"].startswith(f"{paper}/")]
        blocks.append(f"## {papers().get(paper, paper)}")
        for verdict in ours:
            blocks.append(
                f"### {verdict.claim['text']}\n\n{verdict.claim['source']}. **{words(verdict)}**."
            )
            lines = [cells(part) for part in verdict.parts if part.effect.n]
            if lines:
                blocks.append(markdown_table(HEAD[1:], lines))
                logarithms = "Effects and margin are logarithms of quotients. " * (
                    verdict.claim.get("scale") == "log"
                )
                remark = load(FILE)["remarks"].get(verdict.claim["where"]["data.name"], "")
                blocks.append(
                    f"{logarithms}Margin: {verdict.claim['because']}. {_made_of(verdict)}. "
                    f"{remark}".rstrip()
                )
                blocks.append(_earlier(verdict))
            gaps = dict.fromkeys(
                note for part in verdict.parts for note in (*part.notes, *_need(verdict, part))
            )
            blocks += ["\n".join(f"- {note}" for note in gaps)] if gaps else []
    errors = markdown_table(ERRORS_HEAD, load(FILE)["errors"])
    blocks += ["## How often the rule is wrong", ERRORS, errors]
    if notes:
        blocks += ["## Not used", "\n".join(f"- {note}" for note in notes)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _earlier(verdict: Verdict) -> str:
    """What rules said that were changed after the numbers had been seen; empty if there is none."""
    changed = [part for part in verdict.parts if part.earlier]
    marked = grouped(("*, then *".join(part.earlier), part.label) for part in changed)
    told = "; ".join(f"*{words}* ({'; '.join(labels)})" for words, labels in marked.items())
    if not changed:
        return ""
    return (
        f"{MARK} The rule was changed after these numbers had been seen; before, it said: {told}."
    )


def _made_of(verdict: Verdict) -> str:
    """The trials of all parts: how many, the hours that they took, and where they are from, see
    `Trial`.
    """
    trials = {trial.id: trial for part in verdict.parts for trial in part.trials}.values()
    timed = [
        trial.metrics for trial in trials if {"rounds", "seconds_per_round"} <= trial.metrics.keys()
    ]
    hours = math.fsum(metrics["rounds"] * metrics["seconds_per_round"] for metrics in timed) / 3600
    made = [
        f"{amount(len(trials), 'trial')}" + (f", about {hours:.2g} h of rounds" if timed else "")
    ]
    formats = [trial.run.get("training.precision", "float32") for trial in trials]
    made += [f"{formats.count(name)} in {name}" for name in sorted({*formats} - {"float32"})]
    for column, head in ORIGIN.items():
        found = [trial.origin[column] for trial in trials if column in trial.origin]
        known = f" ({len(found)} of {len(trials)})" if len(found) < len(trials) else ""
        made += [f"{head}{', '.join(sorted({*found}))}{known}"] if found else []
    return "; ".join(made)


@cache
def _planned(name: str) -> list[Trial]:
    """The trials of a sweep file, as if each had finished and measured everything."""
    try:
        runs = load_sweep(FILE.parents[2] / "sweeps" / f"{name}.yaml").runs
    except ConfigError:  # somebody has changed or deleted it
        return []
    return [
        Trial(str(at), flat(run.to_dict()), dict.fromkeys(metrics(), 1.0))
        for at, run in enumerate(runs)
    ]


def _need(verdict: Verdict, part: Part) -> list[str]:
    """What would decide a part that is not."""
    claim = verdict.claim
    if part.verdict == NOT_TESTED:
        (entry,) = (entry for entry in claim["parts"] if entry["name"] == part.name)
        files = []
        for name, hours in claim["sweeps"].items():
            planned = _planned(name)
            if trials := part_effect(claim, entry, part.reading, planned).trials:
                files.append(
                    f"{len(trials)} of the {len(planned)} trials of `sweeps/{name}.yaml` "
                    f"({hours} h for all)"
                )
        return [f"{part.label} not tested: {', '.join(files) or QUEUED}"]
    if part.verdict in (INCONCLUSIVE, CONTRADICTED) and (
        needed := part.effect.pairs_needed(part.tests)
    ):
        return [f"{part.label}: about {max(part.effect.n + 1, needed)} pairs would decide"]
    return []


def cells(part: Part) -> list[str]:
    """The cells of a part under `HEAD`, but for the claim."""
    effect = part.effect
    half = effect.half()
    measured = f"{effect.mean:+.3f} ({effect.mean - half:+.3f} to {effect.mean + half:+.3f})"
    if effect.n < FEWEST_PAIRS:
        measured = ", ".join(f"{value:+.3f}" for value in effect.values)
    printed = "" if math.isnan(effect.printed) else f"{effect.printed:+.4g}"
    baseline = ""
    if not math.isnan(part.printed_baseline):
        baseline = f"{part.printed_baseline:.3f}, {part.baseline:.3f}"
    predicted = ""
    if printed and effect.n >= FEWEST_PAIRS:
        another = half * math.sqrt(effect.n + 1)  # of the interval in which another pair lies
        predicted = "yes" if abs(effect.printed - effect.mean) <= another else "NO"
    tested = f"{effect.margin:.3g}", str(effect.n), p_text(part.p_holm)
    verdict = f"{part.told} {MARK}" if part.earlier else part.told
    return [part.name, part.reading, baseline, printed, measured, predicted, *tested, verdict]


def as_json(judged: Sequence[Verdict]) -> str:
    """Every part of every claim, with all of its numbers, as JSON."""
    import pandas as pd

    rows = []
    for verdict, part in ((claim, part) for claim in judged for part in claim.parts):
        effect, row = (
            part.effect,
            {it: verdict.claim.get(it) for it in ("claim", "text", "source", "kind", "metric")},
        )
        row |= {"part": part.name, "reading": part.reading, "verdict": part.verdict}
        row |= {
            "verdict_of_claim": verdict.readings[part.reading],
            "effect": effect.mean,
            "half": effect.half(),
        }
        row |= {"half_90": effect.half(0.9), "p_holm": part.p_holm, "pairs": effect.n}
        row |= {"baseline": part.baseline, "printed_baseline": part.printed_baseline}
        row |= {"baseline_differs": part.other_baseline, "earlier_verdicts": part.earlier}
        row |= {
            "pairs_needed": effect.pairs_needed(part.tests),
            "printed": effect.printed,
            "margin": effect.margin,
        }
        rows.append(row | {"trials": [trial.id for trial in part.trials], "notes": part.notes})
    return str(pd.DataFrame(rows).to_json(orient="records", indent=1, double_precision=15)) + "\n"


def forest(judged: Sequence[Verdict]) -> Figure | None:
    """Every measured part in units of its margin: effect with 95 % interval, and the printed
    effect; None without any.
    """
    from matplotlib.figure import Figure

    parts = [(verdict, part) for verdict in judged for part in verdict.parts if part.effect.n]
    if not parts:
        return None
    figure = Figure(
        figsize=(9, 1.4 + 0.3 * len(parts)), dpi=RESOLUTION, layout="constrained", facecolor="white"
    )
    ax = figure.subplots()
    ax.axvspan(-1, 1, color="0.92", zorder=0, label="within the margin")
    ax.axvline(0, **REFERENCE)
    for line, (_, part) in enumerate(parts):
        effect, unit = part.effect, part.effect.margin
        mean = (effect.mean - effect.target) / unit
        half = effect.half() / unit if effect.n >= FEWEST_PAIRS else 0.0
        ax.errorbar(
            mean, -line, xerr=half or None, fmt="o" if half else "x", color="C0", ms=5, capsize=3
        )
        ax.plot((effect.printed - effect.target) / unit, -line, "D", color="C1", ms=5, mfc="none")
    labels = [f"{verdict.claim['claim']}, {part.label}" for verdict, part in parts]
    ax.set_ylim(-len(parts), 1)
    ax.set_yticks([-line for line in range(len(parts))], labels, fontsize=8)
    ax.plot([], [], "o", color="C0", label="measured, 95 % interval")
    ax.plot([], [], "x", color="C0", label="measured, fewer than five pairs")
    ax.plot([], [], "D", color="C1", mfc="none", label="printed")
    ax.set_xlabel("effect, in units of its margin (of a value: its distance from the printed one)")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    return figure
