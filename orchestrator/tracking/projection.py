"""What MLflow should have of a sweep and of its trials: a function of the results folder, and of nothing else.

Part of it are notes in Markdown. MLflow shows the beginning of a note in tables, so its first line is a sentence.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import yaml
from mlflow.entities import Dataset, Metric

from orchestrator.metric_names import metric
from orchestrator.report.context import full_label, guessing
from orchestrator.report.data import SLOT_NAMES, Results, plain, read_results
from orchestrator.report.statistics import number
from orchestrator.report.summary import Columns, by_setting, escape, markdown_table, metric_cell, seeds_cell
from orchestrator.report.vocabulary import key_labels
from orchestrator.results.log import DamageError
from orchestrator.results.paths import Folder
from orchestrator.results.record import read_record
from orchestrator.results.sweeps import read_sweep
from orchestrator.results.tables import read_table
from orchestrator.tracking.labels import (
    SETTING,
    brief,
    component_tags,
    headline_metrics,
    metric_key,
    scalar_metrics,
    setting_name,
    trial_name,
    view_place,
)

if TYPE_CHECKING:
    from orchestrator.report.story import Story

ROUND = metric_key("round")  # a metric that every round has
TABLES = ("rounds", "clients", "attacks")  # shown on a trial's page; those of single examples are too long for one
FIGURES = ("trade_off", "clients_exposed_risk", "audit", "attack_roc", "convergence")
PICTURES = "description"  # the folder of a note's figures among the artifacts
MOST_FIGURES = 3  # in a note: the first of these that there are
NOTE_LENGTH = 8000  # MLflow's limit
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


@dataclass(frozen=True)
class Projection:
    """What MLflow should have of one run, times in milliseconds since 1970.

    Attributes:
        status: MLflow's word for how it ended.
        rounds: the values of its metrics in each round.
        finals: the final values.
        inputs: the data sets that it has read.
        files: artifacts, each with its folder among them.
        tables: Parquet files that its page shows as tables.
        pictures: figures that its note shows.
        first: of a sweep, the metrics that come first; None while nothing can be said of the results.
    """

    name: str
    status: str
    started: int
    ended: int
    tags: Mapping[str, str]
    note: str
    finals: Sequence[Metric]
    inputs: Sequence[Dataset]
    files: Sequence[tuple[Path, str]]
    tables: Sequence[Path]
    params: Mapping[str, str] = field(default_factory=dict)
    rounds: Sequence[Metric] = ()
    pictures: Sequence[Path] = ()
    first: Sequence[str] | None = None


class Facts(NamedTuple):
    """What is said of a sweep: its results, story and verdicts, and the metrics that come first, among the headline metrics."""

    results: Results
    story: Story
    first: Sequence[str]
    headlines: Sequence[str]
    verdicts: Mapping[str, str]


def sweep_manifest(folder: Folder) -> str:
    """A hash of a sweep's own files: sweep file, table of trials, and report."""
    digest = hashlib.blake2b(digest_size=8)
    for file in filter(Path.is_file, (folder.table, *_sweep_files(folder))):
        digest.update(file.name.encode() + hashlib.blake2b(file.read_bytes()).digest())
    return digest.hexdigest()


def swept_values(folder: Folder) -> dict[str, dict[str, Any]]:
    """The swept values of each trial of a sweep, by id and dotted key."""
    try:
        facts = read_sweep(folder).facts
        declared = [key.removeprefix("base.") for key in yaml.safe_load(facts["file"]).get("sweep") or {}]
    except (FileNotFoundError, DamageError, AttributeError, yaml.YAMLError):
        return {}
    rows = facts["trials"]
    added = [key for row in rows[:1] for key in row if "." in key and key not in SLOT_NAMES]  # by --set
    keys = dict.fromkeys([*declared, *added])
    return {row["id"]: {key: plain(row[key]) for key in keys if row.get(key) is not None} for row in rows}


def project_trial(folder: Folder, trial: str, swept: Mapping[str, Any], experiment: str) -> Projection:
    """What MLflow should have of a trial that has ended.

    Args:
        folder: the results folder of the sweep, where the trial has a record.
        trial: the trial's id.
        swept: its swept values by dotted key.
        experiment: MLflow's id of the sweep's experiment, to which the note links.
    """
    own = folder.trial(trial)
    record, run = read_record(own) or {}, yaml.safe_load(own.config.read_text())
    ended, seconds = _written(own.manifest), record.get("seconds") or 0.0
    started = ended - int(1000 * seconds)
    metrics, origin = record.get("metrics") or {}, record.get("origin") or {}
    rows = read_table(own.table("rounds")).to_pylist() if own.table("rounds").is_file() else []
    rounds, failed = round_points(rows, started, ended), record["status"] == "failed"
    known = {key: text for key, text in origin.items() if key in ("commit", "host", "device") or key[:8] == "version."}
    said = {"notes": "; ".join(record.get("notes") or ()), "reason": record.get("reason") or ""}
    tags = run_tags(run, swept, known) | {name: value for name, value in metrics.items() if isinstance(value, str)}
    tags |= {name: text for name, text in said.items() if text} | {"status": record["status"]}
    # The message of a failure: one that an earlier attempt has left says nothing of this trial.
    files = [own.config, *sorted(own.path.glob("*.parquet")), *([own.error] if failed and own.error.is_file() else [])]
    params, finals = {key: brief(value) for key, value in swept.items()}, scalar_metrics(metrics)
    name = trial_name(swept) or trial
    last = rows[-1]["round"] + 1 if rows else 0
    state = f"{record['status']} after {last} round{'s' * (last != 1)} in {seconds:.0f} s"
    return Projection(
        name=name,
        status="FAILED" if failed else "FINISHED",
        started=started,
        ended=ended,
        tags=tags,
        note=_trial_note(f"{escape(name)}: {state}", said, params, finals, folder.name, experiment),
        finals=final_points(finals, rounds, ended),
        inputs=_inputs(run, origin),
        files=[(file, "") for file in files],
        tables=[table for table in map(own.table, TABLES) if table.is_file()],
        params=params,
        rounds=rounds,
    )


def project_sweep(folder: Folder, trials: Iterable[str], experiment: str, run: str) -> Projection:
    """What MLflow should have of a sweep as a whole.

    Args:
        folder: the results folder of the sweep.
        trials: the ids of its trials.
        experiment: MLflow's id of the sweep's experiment.
        run: MLflow's id of the sweep's own run.
    """
    own = list(map(folder.trial, trials))
    records = {trial: record for trial in own if (record := read_record(trial))}
    times = [_written(trial.manifest) for trial in records] or [_written(folder.sweep)]
    good = all(record["status"] in ("finished", "stopped") for record in records.values())
    word, status = ("finished", "FINISHED") if good else ("failed", "FAILED")
    word, status = (word, status) if len(records) == len(own) else ("unfinished", "KILLED")
    inputs = {
        one.digest: one
        for trial, record in records.items()
        if trial.config.is_file()
        for one in _inputs(yaml.safe_load(trial.config.read_text()), record.get("origin") or {})
    }
    facts = _facts(folder)
    pictures = [file for name in FIGURES if (file := folder.report / f"{name}.png").is_file()][:MOST_FIGURES]
    return Projection(
        name=folder.name,
        status=status,
        started=min(times),
        ended=max(times),
        tags={**_shown_tags({}), "status": word, **(facts.verdicts if facts else {})},
        note=_sweep_note(facts, pictures, experiment, run) if facts else begun_note(folder, experiment),
        finals=[Metric(name, value, max(times), 0) for name, value in (_means(facts) if facts else {}).items()],
        inputs=list(inputs.values()),
        files=[(file, "" if file.parent == folder.path else "report") for file in _sweep_files(folder)],
        tables=[folder.table] if folder.table.is_file() else [],
        pictures=pictures,
        first=facts.first if facts else None,
    )


def run_tags(run: Mapping[str, Any], swept: Mapping[str, Any], origin: Mapping[str, str]) -> dict[str, str]:
    """The tags of a trial that are known when it starts: its setting, its components, what it runs with.

    Args:
        run: the resolved run as plain values.
        swept: its swept values by dotted key.
        origin: commit, versions of packages, host and device.
    """
    return _shown_tags(origin) | {SETTING: setting_name(swept)} | component_tags(run)


def round_points(rows: Iterable[Mapping[str, Any]], started: int, ended: int | None = None) -> list[Metric]:
    """The values of rounds, the metric `ROUND` last in each.

    Args:
        rows: a row for each round, with ``round`` counted from 0; what is no finite number is left out.
        started: when the first began, in milliseconds since 1970; in a live run, which does not say when it ended, now.
        ended: when the trial ended: all rounds are before that.
    """
    points, time = list[Metric](), float(started)
    for row in rows:
        step = int(row["round"]) + 1
        time = time if ended is None else min(time + 1000 * (row.get("seconds") or 0.0), ended - 1)
        values = {name: value for name, value in scalar_metrics(row).items() if name != "round"} | {"round": step}
        points += [Metric(metric_key(name), float(value), int(time), step) for name, value in values.items()]
    return points


def final_points(finals: Mapping[str, float], rounds: Sequence[Metric], ended: int) -> list[Metric]:
    """The final values: at the last round's step, or one beyond where that round has a value of its own.

    MLflow shows the value of the latest step, so a metric whose last round has the final value already is left out.

    >>> points = final_points({"loss": 0.5, "accuracy": 0.9}, [Metric("accuracy/accuracy", 0.8, 0, 2)], ended=9)
    >>> [(point.key, point.value, point.step) for point in points]
    [('accuracy/loss', 0.5, 2), ('accuracy/accuracy', 0.9, 3)]
    """
    last, step = {point.key: point for point in rounds}, max((point.step for point in rounds), default=0)
    points = []
    for name, value in finals.items():
        shown = last.get(metric_key(name))
        if shown is None or shown.value != value:
            points.append(Metric(metric_key(name), value, ended, step + (shown is not None and shown.step == step)))
    return points


def _written(path: Path) -> int:
    return int(1000 * path.stat().st_mtime)


def _inputs(run: Mapping[str, Any], origin: Mapping[str, Any]) -> list[Dataset]:
    """The data set that a trial has read: its name, a digest of the content, and source and split as JSON."""
    digest, data = origin.get("data"), run.get("data")
    if not digest or not data:
        return []
    return [Dataset(data["name"][:500], digest[:36], "fedpriv", json.dumps(data, sort_keys=True))]


def _facts(folder: Folder) -> Facts | None:
    """What is said of a sweep; None while nothing can be, as before the first trial has ended."""
    from orchestrator.report import verdicts
    from orchestrator.report.story import headline_risk, story

    with suppress(Exception):  # a note is never worth a run
        results = read_results(folder.path)
        risk = headline_risk(results)
        first = [name for name in (risk.accuracy, risk.name) if name] if risk else []
        measured = {name for name in results.metrics if any(setting.measured(name) for setting in results.settings)}
        judged = {f"verdict.{one.claim['claim']}": verdicts.words(one) for one in verdicts.of(results)}
        return Facts(results, story(results), first, headline_metrics(measured, first), judged)
    return None


def _means(facts: Facts) -> dict[str, float]:
    """The sweep's own metrics: means over its seeds; of several settings the lowest and the highest."""
    values = dict[str, float]()
    for name in facts.headlines:
        means = [setting.estimate(name).mean for setting in facts.results.settings if setting.measured(name)]
        ends = {"mean": means[0]} if len(means) == 1 else {"lowest mean": min(means), "highest mean": max(means)}
        values |= {f"{end}/{name}": value for end, value in ends.items() if math.isfinite(value)}
    return values


def _sweep_files(folder: Folder) -> list[Path]:
    there = [folder.sweep, *sorted(folder.report.glob("*"))]
    return [file for file in there if file.is_file() and not file.name.startswith(".")]


@cache
def _user() -> dict[str, str]:
    with suppress(Exception):  # a user without a name, as containers have
        return {"mlflow.user": getpass.getuser()}
    return {}


def _shown_tags(origin: Mapping[str, str]) -> dict[str, str]:
    """``origin`` and the tags that MLflow's pages show for every run: source, commit and user."""
    commit = {"mlflow.source.git.commit": origin["commit"]} if "commit" in origin else {}
    return {"mlflow.source.name": "fedpriv", "mlflow.source.type": "LOCAL", **commit, **_user(), **origin}


def _trial_note(
    state: str,
    said: Mapping[str, str],
    params: Mapping[str, str],
    finals: Mapping[str, float],
    sweep: str,
    experiment: str,
) -> str:
    """The note of a trial of ``sweep`` with these final metrics; ``state`` says which it is and how it ended."""

    def cell(name: str, value: float | None) -> str:
        return "" if value is None else number(value, metric(name).digits, metric(name).bound)

    def chance(name: str) -> str:
        guessed = metric(name).chance
        return cell(name, finals.get(guessed) if isinstance(guessed, str) else guessed)

    names = headline_metrics(finals.keys())
    shown = ", ".join(f"{full_label(name)} {cell(name, finals[name])}" for name in names[:3])
    blocks = [f"{state}{escape(f': {shown}') if shown else ''}."]
    if said["reason"]:
        more = "The whole message is in `error.txt` among the artifacts, if the trial could write it."
        blocks.append(f"**Why there is no result:** {escape(said['reason'])}. {more}")
    if said["notes"]:
        blocks.append(f"**Note:** {escape(said['notes'])}.")
    if names:
        lines = [[full_label(name), cell(name, finals[name]), chance(name)] for name in names]
        blocks.append(markdown_table(["result", "value", "by chance"], lines, numbers=2))
    if params:
        pairs = zip(key_labels(tuple(params)), params.values(), strict=True)
        blocks.append(markdown_table(["swept setting", "value"], [list(pair) for pair in pairs]))
    blocks.append(f"One trial of the sweep {escape(sweep)}. Its results beside others: {_views(experiment)}.")
    return "\n\n".join([*blocks, TRIAL_READING])


def _views(experiment: str) -> str:
    table, charts = view_place(experiment), view_place(experiment, charts=True)
    return f"[all settings side by side](#{table}), [as charts](#{charts})"


def _sweep_note(facts: Facts, pictures: Sequence[Path], experiment: str, run: str) -> str:
    """The note of a sweep, for its ``run`` in MLflow, which has the pictures, and for its ``experiment``."""
    story = facts.story
    blocks = [
        escape(story.question),
        f"**{escape(story.headline)}**",
        f"Open {_views(experiment)}: grouped by setting, mean over seeds; the charts begin with the trade-off.",
        _table(facts.results, facts.headlines),
        _list("What differs", story.findings),
        _list("Claimed and audited, published and measured", story.verdicts),
        *(
            f"![{picture.name}](get-artifact?path={quote(f'{PICTURES}/{picture.name}', safe='')}&run_uuid={run})"
            for picture in pictures
        ),
        _list("Limits", story.limits),
        f"**Repeat it:** `{story.command}` (`sweep.yaml` is among the artifacts).",
        SWEEP_READING,
    ]
    note = "\n\n".join(filter(None, blocks))
    return note if len(note) <= NOTE_LENGTH else note[: NOTE_LENGTH - len(CUT)].rpartition("\n")[0] + CUT


def begun_note(folder: Folder, experiment: str) -> str:
    """The note of a sweep of which no trial has ended yet."""
    described = yaml.safe_load(folder.sweep.read_text())
    question = " ".join(str(described.get("description") or "" if isinstance(described, dict) else "").split())
    return "\n\n".join([escape(question) or "The sweep is running.", f"Open {_views(experiment)}.", SWEEP_READING])


def _list(title: str, sentences: Sequence[str]) -> str:
    return "\n".join([f"**{title}**", "", *(f"- {escape(sentence)}" for sentence in sentences)]) if sentences else ""


def _table(results: Results, names: Sequence[str]) -> str:
    """The settings with at most six metrics each."""
    if not names:
        return ""
    columns: Columns = [
        (full_label(name), partial(metric_cell, metric=metric(name), results=results)) for name in names
    ]
    head, lines = by_setting(results, [*columns, ("finished", seeds_cell)])
    more = len(lines) - MOST_SETTINGS
    blocks = [
        markdown_table(head, lines[:MOST_SETTINGS], numbers=len(names) + 1),
        escape(guessing([(full_label(name), metric(name)) for name in names], results)),
        f"{more} more settings are in `report/summary.md`." if more > 0 else "",
    ]
    return "\n\n".join(filter(None, blocks))
