"""Notes in Markdown for MLflow's pages: of a sweep, of its experiment, and of a trial.

MLflow shows the beginning of a note in tables, so its first line is a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import yaml

from orchestrator.metric_names import metric
from orchestrator.report.context import guessing
from orchestrator.report.data import Results
from orchestrator.report.statistics import number
from orchestrator.report.summary import escape, markdown_table
from orchestrator.report.vocabulary import key_labels, value_label
from orchestrator.results.paths import Folder
from orchestrator.tracking.projection import PICTURES, Facts, Projection
from orchestrator.tracking.view import headline_metrics, label, place

MOST_SETTINGS = 30
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


def trial_note(trial: Projection, sweep: str, experiment: str) -> str:
    """The note of a trial.

    Args:
        trial: what MLflow should have of it.
        sweep: the name of the sweep.
        experiment: MLflow's id of the experiment.
    """
    names = headline_metrics(set(trial.results))
    shown = [f"{label(name)} {_value(name, trial.results[name])}" for name in names[:3]]
    seconds = (trial.ended - trial.started) / 1000
    rounds = max((point.step for point in trial.rounds), default=0)
    status = f"{trial.tags['status']} after {rounds} round{'s' * (rounds != 1)} in {seconds:.0f} s"
    blocks = [f"{escape(trial.name)}: {status}{escape(': ' + ', '.join(shown)) if shown else ''}."]
    if reason := trial.tags.get("reason"):
        more = "The whole message is in `error.txt` among the artifacts, if the trial could write it."
        blocks.append(f"**Why there is no result:** {escape(reason)}. {more}")
    if notes := trial.tags.get("notes"):
        blocks.append(f"**Note:** {escape(notes)}.")
    if names:
        lines = [[label(name), _value(name, trial.results[name]), _chance(name, trial.results)] for name in names]
        blocks.append(markdown_table(["result", "value", "by chance"], lines, numbers=2))
    if trial.params:
        pairs = zip(key_labels(tuple(trial.params)), trial.params.values(), strict=True)
        blocks.append(markdown_table(["swept setting", "value"], [list(pair) for pair in pairs]))
    blocks.append(f"One trial of the sweep {escape(sweep)}. Its results beside others: {_view(experiment)}.")
    return "\n\n".join([*blocks, TRIAL_READING])


def _value(name: str, value: float) -> str:
    described = metric(name)
    return number(value, described.digits, described.bound)


def _chance(name: str, finals: Mapping[str, float]) -> str:
    chance = metric(name).chance
    guessed = finals.get(chance) if isinstance(chance, str) else chance
    return "" if guessed is None else _value(name, guessed)


def _view(experiment: str) -> str:
    return f"[all settings side by side](#{place(experiment)}), [as charts](#{place(experiment, charts=True)})"


def sweep_note(facts: Facts, experiment: str, run: str, limit: int) -> str:
    """The note of a sweep, for its run and its experiment.

    Args:
        facts: what is said of the sweep.
        experiment: MLflow's id of the experiment.
        run: MLflow's id of the sweep's run, which has the pictures.
        limit: the longest text that MLflow allows.
    """
    results, story = facts.results, facts.story
    blocks = [
        escape(story.question),
        f"**{escape(story.headline)}**",
        f"Open {_view(experiment)}: grouped by setting, mean over seeds; the charts begin with the trade-off.",
        _table(results, facts.first),
        _list("What differs", story.findings),
        _list("Claimed and audited, published and measured", story.verdicts),
        *(
            f"![{name}](get-artifact?path={quote(f'{PICTURES}/{name}', safe='')}&run_uuid={run})"
            for name in (figure.name for figure in facts.pictures)
        ),
        _list("Limits", story.limits),
        f"**Repeat it:** `{story.command}` (`sweep.yaml` is among the artifacts).",
        SWEEP_READING,
    ]
    return shortened([block for block in blocks if block], limit)


def begun_note(folder: Folder, experiment: str) -> str:
    """The note of a sweep of which no trial has ended yet."""
    described = yaml.safe_load(folder.sweep.read_text())
    question = " ".join(str(described.get("description") or "" if isinstance(described, dict) else "").split())
    return "\n\n".join([escape(question) or "The sweep is running.", f"Open {_view(experiment)}.", SWEEP_READING])


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
