"""Verdicts as a page (``verdicts.md``), as cells of a table, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from algorithms.metrics.statistics import p_text
from orchestrator.config.errors import ConfigError, amount
from orchestrator.config.metric_names import metrics
from orchestrator.config.sweep_file import load_sweep
from orchestrator.papers import rule
from orchestrator.papers.claims import Claim, ClaimPart, Claims
from orchestrator.papers.effects import MeasuredPart, measured_part
from orchestrator.papers.records import load, papers
from orchestrator.papers.trials import ORIGIN, Trial, flat
from orchestrator.papers.verdicts import OTHER_BASELINE, Verdict, told, words
from orchestrator.report.data import grouped
from orchestrator.report.markdown import markdown_table

ERROR_RATES = Path(__file__).with_name("error_rates.yaml")
MARK = "†"  # after a verdict for which the rule was changed when its numbers had been seen
QUEUED = "no sweep file has these trials as it stands"
QUEUE = "; see `benchmarks/evidence/queue.yaml`"

MEANINGS = {
    rule.SUPPORTED: "on the claimed side of zero; where no effect is claimed, within the margin",
    f"{rule.SMALLER}, {rule.LARGER}": (
        "on the claimed side, and more than the margin from the printed effect"
    ),
    rule.NO_EFFECT: "within the margin",
    rule.TINY: "within the margin, on the claimed side",
    rule.REVERSED: "on the other side of zero",
    rule.BEYOND: "beyond the margin where no effect is claimed",
    rule.OTHER_VALUE: "more than the margin from the printed value",
    rule.CONTRADICTED: "more than the margin from the printed effect; its side is not known",
    "in part": "other parts are not, or were not tested, or the baseline differs",
    OTHER_BASELINE: (
        "printed and measured differ by more than the printed effect (the margin, if that is "
        "larger)"
    ),
    rule.INCONCLUSIVE: "the interval, after Holm's correction, touches the margin or zero",
    rule.ONE_RUN: "one pair, so no test and no prediction",
    MARK: (
        "the rule was changed after this number had been seen; below the table is what it said "
        "before"
    ),
}
LEGEND = "\n".join(f"- *{word}*: {meaning}" for word, meaning in MEANINGS.items())
MADE = (
    "Made by `fedpriv verdict {options}` from the claims in `{claims}`; the rule, with its "
    "references, is in `orchestrator/papers/rule.py`. An effect is the mean difference over pairs "
    "of trials on the same partition with the same seed, with its 95 % interval; "
    '"predicted" says whether the printed effect lies where that of one more pair would, with '
    "95 %, so that a single run can show it; p is corrected for all claims of a paper in one "
    "reading of each field, and a verdict holds for that reading. Below a table stand its trials, "
    "the hours that their rounds take one after another, where they are from (of our own the line "
    "of `benchmarks/evidence/queue.yaml`, which `run_queue.py RESULTS LINE` runs), commit, torch "
    "and processor; in brackets, of how many that is known. Beside what is not tested stand the "
    "trials that test it, and the hours that all trials of their file take on two cores by "
    "`--dry-run`, if no client changes its model."
)
COLUMNS = (
    f"Decided is any verdict but {rule.INCONCLUSIVE} and {rule.ONE_RUN}. The column baseline has "
    "the printed and the measured value. The column p is of no effect; of one beyond the margin "
    "where an effect within it is shown, or where none is claimed and that is the smaller p. "
    "Margins are ours."
)
FOREST = "![Measured and printed effects, in units of their margins.](verdicts.png)"
ERRORS = (
    "Percent of simulated families of ten claims in which a verdict is said of at least one "
    "claim although it does not hold. The true effect of all ten is at the edge; effects of "
    "pairs are normal, and their standard deviation is the margin. The rule promises 5 % at "
    "most; with 2000 families, a simulated rate can be a point off. "
    "`tests/orchestrator/papers/test_rule_errors.py` repeats it, with other standard "
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
    judged: Sequence[Verdict],
    claims: Claims,
    notes: Sequence[str],
    sources: Sequence[str],
    counted: str = "",
) -> str:
    """All verdicts as a page: one table for each paper, what the verdicts lack, and how they are
    made.

    ``counted`` says how many published numbers are measured, see
    `orchestrator.papers.number_page.counted`.
    """
    options = list(sources) if claims.ours else [*sources, "--claims", claims.name]
    blocks = [
        "# Verdicts on published claims",
        MADE.format(options=" ".join(options), claims=claims.name),
        LEGEND,
        COLUMNS,
        _decided(judged),
        counted,
    ]
    if any(verdict.measured for verdict in judged):
        blocks.append(FOREST)
    names = papers() | claims.content.papers
    for paper, ours in grouped((verdict.claim.paper, verdict) for verdict in judged).items():
        blocks.append(f"## {names.get(paper, paper)}")
        for verdict in ours:
            blocks += _section(verdict, claims)
    blocks += ["## How often the rule is wrong", ERRORS]
    blocks.append(markdown_table(ERRORS_HEAD, load(ERROR_RATES)))
    if notes:
        blocks += ["## Not used", _listed(notes)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _decided(judged: Sequence[Verdict]) -> str:
    """How many of the claims are decided, and how many are not tested."""
    found = [{*verdict.readings.values()} for verdict in judged]
    decided = sum(bool(verdicts & {*rule.DECIDED}) for verdicts in found)
    untested = sum(verdicts == {rule.NOT_TESTED} for verdicts in found)
    return (
        f"{len(judged)} claims: {decided} are decided in at least one reading, and {untested} have "
        "not been tested."
    )


def _section(verdict: Verdict, claims: Claims) -> Iterator[str]:
    """The blocks of one claim."""
    claim = verdict.claim
    yield f"### {claim.text}\n\n{claim.source}. **{words(verdict)}**."
    lines = [cells(part) for part in verdict.parts if part.effect.n]
    if lines:
        yield markdown_table(HEAD[1:], lines)
        logarithms = "Effects and margin are logarithms of quotients." if claim.scale else ""
        remark = claims.content.remarks.get(claim.where.get("data.name", ""), "")
        below = (logarithms, f"Margin: {claim.because}. {_made_of(verdict)}.", remark)
        yield " ".join(filter(None, below))
        yield _earlier(verdict)
    gaps = dict.fromkeys(
        note for part in verdict.parts for note in (*part.notes, *_need(verdict, part, claims))
    )
    yield _listed(gaps)


def _listed(lines: Sequence[str] | dict[str, None]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _earlier(verdict: Verdict) -> str:
    """What rules said that were changed after the numbers had been seen; empty if there is none."""
    changed = [part for part in verdict.parts if part.earlier]
    if not changed:
        return ""
    marked = grouped(("*, then *".join(part.earlier), part.label) for part in changed)
    told = "; ".join(f"*{words}* ({'; '.join(labels)})" for words, labels in marked.items())
    return (
        f"{MARK} The rule was changed after these numbers had been seen; before, it said: {told}."
    )


def _made_of(verdict: Verdict) -> str:
    """The trials of all parts: how many, the hours that they took, and where they are from, see
    `Trial`.
    """
    trials = list({trial.id: trial for part in verdict.parts for trial in part.trials}.values())
    made = [f"{amount(len(trials), 'trial')}{_hours(trials)}"]
    formats = [trial.run.get("training.precision", "float32") for trial in trials]
    for name in sorted({*formats} - {"float32"}):
        made.append(f"{formats.count(name)} in {name}")
    for column, head in ORIGIN.items():
        found = [trial.origin[column] for trial in trials if column in trial.origin]
        known = f" ({len(found)} of {len(trials)})" if len(found) < len(trials) else ""
        if found:
            made.append(f"{head}{', '.join(sorted({*found}))}{known}")
    return "; ".join(made)


def _hours(trials: Sequence[Trial]) -> str:
    """The hours that the rounds of these trials took, as far as they were timed."""
    names = {"rounds", "seconds_per_round"}
    timed = [trial.metrics for trial in trials if names <= trial.metrics.keys()]
    if not timed:
        return ""
    seconds = math.fsum(metrics["rounds"] * metrics["seconds_per_round"] for metrics in timed)
    return f", about {seconds / 3600:.2g} h of rounds"


@cache
def _planned(path: Path) -> list[Trial]:
    """The trials of a sweep file, as if each had finished and measured everything."""
    try:
        runs = load_sweep(path).runs
    except ConfigError:  # somebody has changed or deleted it
        return []
    measured = dict.fromkeys(metrics(), 1.0)
    return [Trial(str(at), flat(run.to_dict()), measured) for at, run in enumerate(runs)]


def _need(verdict: Verdict, part: MeasuredPart, claims: Claims) -> list[str]:
    """What would decide a part that is not."""
    if part.verdict == rule.NOT_TESTED:
        (entry,) = (entry for entry in verdict.claim.parts if entry.name == part.name)
        files = _files(verdict.claim, entry, part.reading, claims)
        return [f"{part.label} not tested: {files}"]
    if part.verdict in (rule.INCONCLUSIVE, rule.CONTRADICTED):
        needed = part.effect.pairs_needed(part.tests)
        if needed:
            return [f"{part.label}: about {max(part.effect.n + 1, needed)} pairs would decide"]
    return []


def _files(claim: Claim, part: ClaimPart, reading: str, claims: Claims) -> str:
    """The sweep files that have the trials of a part, with how many and the hours of all."""
    files = []
    for name in claim.sweeps:
        path = claims.sweeps / f"{name}.yaml"
        planned = _planned(path)
        trials = measured_part(claim, part, reading, planned).trials
        hours = claims.content.hours.get(name)
        if trials:
            shown = f"sweeps/{path.name}" if claims.ours else str(path)
            took = f" ({hours:g} h for all)" if hours else ""
            files.append(f"{len(trials)} of the {len(planned)} trials of `{shown}`{took}")
    return ", ".join(files) or (f"{QUEUED}{QUEUE}" if claims.ours else QUEUED)


def cells(part: MeasuredPart) -> list[str]:
    """The cells of a part under `HEAD`, but for the claim."""
    effect = part.effect
    half = effect.half()
    measured = f"{effect.mean:+.3f} ({effect.mean - half:+.3f} to {effect.mean + half:+.3f})"
    if not effect.enough:
        measured = ", ".join(f"{value:+.3f}" for value in effect.values)
    printed = "" if math.isnan(effect.printed) else f"{effect.printed:+.4g}"
    baseline = ""
    if not math.isnan(part.printed_baseline):
        baseline = f"{part.printed_baseline:.3f}, {part.baseline:.3f}"
    predicted = ""
    if printed and effect.enough:
        another = half * math.sqrt(effect.n + 1)  # of the interval in which another pair lies
        predicted = "yes" if abs(effect.printed - effect.mean) <= another else "NO"
    return [
        part.name,
        part.reading,
        baseline,
        printed,
        measured,
        predicted,
        f"{effect.margin:.3g}",
        str(effect.n),
        p_text(part.p_holm),
        f"{told(part)} {MARK}" if part.earlier else told(part),
    ]


def as_json(judged: Sequence[Verdict]) -> str:
    """Every part of every claim, with all of its numbers, as JSON."""
    import pandas as pd

    rows = [_numbers(verdict, part) for verdict in judged for part in verdict.parts]
    return str(pd.DataFrame(rows).to_json(orient="records", indent=1, double_precision=15)) + "\n"


def _numbers(verdict: Verdict, part: MeasuredPart) -> dict[str, Any]:
    claim = verdict.claim
    effect = part.effect
    return {
        "claim": claim.claim,
        "text": claim.text,
        "source": claim.source,
        "kind": claim.kind,
        "metric": claim.metric,
        "part": part.name,
        "reading": part.reading,
        "verdict": part.verdict,
        "verdict_of_claim": verdict.readings[part.reading],
        "effect": effect.mean,
        "half": effect.half(),
        "half_90": effect.half(0.9),
        "p_holm": part.p_holm,
        "pairs": effect.n,
        "baseline": part.baseline,
        "printed_baseline": part.printed_baseline,
        "baseline_differs": part.other_baseline,
        "earlier_verdicts": part.earlier,
        "pairs_needed": effect.pairs_needed(part.tests),
        "printed": effect.printed,
        "margin": effect.margin,
        "trials": [trial.id for trial in part.trials],
        "notes": part.notes,
    }
