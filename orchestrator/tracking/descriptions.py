"""Descriptions in Markdown for MLflow's pages: of a sweep, of its experiment, and of a trial.

MLflow shows the beginning of a description in tables, so its first line is a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from orchestrator.metric_names import metric
from orchestrator.report.data import Results
from orchestrator.report.estimate import number
from orchestrator.report.story import Story
from orchestrator.report.tables.context import guessing
from orchestrator.report.tables.summary import escape, markdown_table
from orchestrator.report.vocabulary import key_labels, value_label
from orchestrator.tracking.headlines import headline_metrics, label
from orchestrator.tracking.shared_view import place

MOST_SETTINGS = 30
PICTURES = "description"  # the folder of a description's pictures among the artifacts
CUT = "\n\n(The rest is left out, because MLflow allows no longer text: see the report among the artifacts.)"
SWEEP_READING = (
    "**How to read it.** Each run below this one is a trial. Numbers are means over the finished seeds of a setting ± half "
    "the width of the 95 % interval; below three seeds the values themselves. Rates are fractions of one. Charts are in "
    "sections: `accuracy`, `attack`, `privacy`, `clustering`, ...; their step is the round, counted from 1. `run` holds "
    "rounds and seconds. Tables and figures are in `report/` among the artifacts."
)
TRIAL_READING = (
    "**How to read it.** Metrics are in sections: `accuracy`, `attack`, `privacy`, ...; their step is the round, counted "
    "from 1, and the last one is the trial's result. Rates are fractions of one. `config.yaml` among the artifacts has all "
    "settings; `tables/` shows rounds, clients and attacks, whose whole tables are the Parquet files."
)


@dataclass(frozen=True)
class TrialFacts:
    """What a description says of a trial.

    Attributes:
        name: its short name.
        status: its status, or "running".
        reason: why it has no result; empty if it has one.
        settings: its swept values as texts, by dotted key.
        finals: its final metrics by name.
        rounds: the number of rounds that it has done; 0 if unknown.
        seconds: how long it took; None if unknown.
        notes: what has to be known of it.
    """

    name: str
    status: str
    reason: str
    settings: Mapping[str, str]
    finals: Mapping[str, float]
    rounds: int = 0
    seconds: float | None = None
    notes: str = ""


def trial_description(facts: TrialFacts, sweep: str, experiment: str, parent: str) -> str:
    """The description of a trial.

    Args:
        facts: what is said of the trial.
        sweep: the name of the sweep.
        experiment: MLflow's id of the experiment.
        parent: MLflow's id of the sweep's run.
    """
    blocks = [_trial_sentence(facts)]
    if facts.reason:
        more = "The whole message is in `error.txt` among the artifacts, if the trial could write it."
        blocks.append(f"**Why there is no result:** {escape(facts.reason)}. {more}")
    if facts.notes:
        blocks.append(f"**Note:** {escape(facts.notes)}.")
    names = headline_metrics(set(facts.finals))
    if names:
        lines = [[label(name), _value(name, facts.finals[name]), _chance(name, facts.finals)] for name in names]
        blocks.append(markdown_table(["result", "value", "by chance"], lines, numbers=2))
    if facts.settings:
        labels = key_labels(tuple(facts.settings))
        pairs = zip(labels, facts.settings.values(), strict=True)
        blocks.append(markdown_table(["swept setting", "value"], [list(pair) for pair in pairs]))
    above = f"[{escape(sweep)}](#/experiments/{experiment}/runs/{parent}?workflowType=machine_learning)"
    blocks.append(f"One trial of the sweep {above}. Its results beside others: {_view(experiment)}.")
    return "\n\n".join([*blocks, TRIAL_READING])


def _trial_sentence(facts: TrialFacts) -> str:
    after = f" after {facts.rounds} round{'s' if facts.rounds > 1 else ''}" if facts.rounds else ""
    took = f" in {facts.seconds:.0f} s" if facts.seconds else ""
    found = "".join(
        f"{', ' if place else ': '}{label(name)} {_value(name, facts.finals[name])}"
        for place, name in enumerate(headline_metrics(set(facts.finals))[:3])
    )
    status = {"running": "is running", "diverged": "diverged", "failed": "failed", "finished": "finished"}
    return (
        f"{escape(facts.name)}: the trial {status.get(facts.status, f'is {facts.status}')}{after}{took}{escape(found)}."
    )


def _value(name: str, value: float) -> str:
    return number(value, metric(name).digits)


def _chance(name: str, finals: Mapping[str, float]) -> str:
    chance = metric(name).chance
    found = finals.get(chance) if isinstance(chance, str) else chance
    return "" if found is None else _value(name, found)


def _view(experiment: str) -> str:
    return f"[all settings side by side](#{place(experiment)}), [as charts](#{place(experiment, charts=True)})"


@dataclass(frozen=True)
class SweepFacts:
    """What a description says of a sweep.

    Attributes:
        results: its results.
        story: its story.
        first: the metrics that the table shows first.
        pictures: the names of its pictures in the folder `PICTURES` among the artifacts of its run.
    """

    results: Results
    story: Story
    first: Sequence[str]
    pictures: Sequence[str] = ()


def sweep_description(facts: SweepFacts, experiment: str, run: str, limit: int) -> str:
    """The description of a sweep, for its run and its experiment.

    Args:
        facts: what is said of the sweep.
        experiment: MLflow's id of the experiment.
        run: MLflow's id of the sweep's run, which has the pictures.
        limit: the longest text that MLflow allows.
    """
    story = facts.story
    blocks = [
        escape(story.question),
        f"**{escape(story.headline)}**",
        f"Open {_view(experiment)}: grouped by setting, mean over seeds; the charts begin with the trade-off.",
        _table(facts.results, facts.first),
        _list("What differs", story.findings),
        _list("Claimed and audited, published and measured", story.verdicts),
        _figures(facts.pictures, run),
        _list("Limits", story.limits),
        f"**Repeat it:** `{story.command}` (`sweep.yaml` is among the artifacts).",
        SWEEP_READING,
    ]
    return shortened([block for block in blocks if block], limit)


def begun_description(question: str, trials: int, experiment: str) -> str:
    """The description of a sweep whose trials have not ended yet."""
    running = (
        f"{trials} trials are running or have ended; the results follow when the sweep has ended." if trials else ""
    )
    blocks = [escape(question) or "The sweep is running.", running, f"Open {_view(experiment)}.", SWEEP_READING]
    return "\n\n".join(block for block in blocks if block)


def shortened(blocks: Sequence[str], limit: int) -> str:
    r"""Blocks of Markdown joined, as many as fit, with a note if some were left out.

    >>> shortened(["one", "two"], 8), shortened(["a" * 300], 200)[:3]
    ('one\n\ntwo', 'aaa')
    """
    whole = "\n\n".join(blocks)
    if len(whole) <= limit:
        return whole
    kept: list[str] = []
    for block in blocks:
        if len("\n\n".join([*kept, block])) + len(CUT) <= limit:
            kept.append(block)
    return "\n\n".join(kept or [blocks[0][: limit - len(CUT)]]) + CUT


def _list(title: str, sentences: Sequence[str]) -> str:
    return "\n".join([f"**{title}**", "", *(f"- {escape(sentence)}" for sentence in sentences)]) if sentences else ""


def _table(results: Results, first: Sequence[str]) -> str:
    """The settings with at most six metrics each; a setting without a result has its trials' statuses."""
    measured = {name for name in results.metrics if any(setting.measured(name) for setting in results.settings)}
    names = headline_metrics(measured, first)
    if not names:
        return ""
    lines = []
    for setting in results.settings[:MOST_SETTINGS]:
        labels = [value_label(key, value) for key, value in zip(results.keys, setting.values, strict=True)]
        cells = [" ".join(setting.estimate(name).shown(metric(name).digits)).strip() or "–" for name in names]
        lines.append([*labels, *cells, f"{len(setting.finished)} of {len(setting.trials)}"])
    head = [*key_labels(results.keys), *(label(name) for name in names), "finished"]
    table = markdown_table(head, lines, numbers=len(names) + 1)
    more = len(results.settings) - MOST_SETTINGS
    chances = guessing([(label(name), metric(name)) for name in names], results)
    rest = f"{more} more settings are in `report/summary.md`." if more > 0 else ""
    return "\n\n".join(block for block in (table, escape(chances), rest) if block)


def _figures(pictures: Sequence[str], run: str) -> str:
    """The pictures of the report among the artifacts of ``run``."""
    return "\n\n".join(
        f"![{Path(name).stem.replace('_', ' ')}](get-artifact?path={quote(f'{PICTURES}/{name}', safe='')}&run_uuid={run})"
        for name in pictures
    )
