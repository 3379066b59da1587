"""What MLflow should have of a sweep and of its trials: a function of the results folder, and of nothing else.

Part of it are notes in Markdown. MLflow shows the beginning of a note in tables, so its first line is a sentence.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import yaml

from orchestrator.metric_names import metric
from orchestrator.report.context import full_label, guessing
from orchestrator.report.data import REPEATS, SLOT_NAMES, Results, read_results
from orchestrator.report.statistics import number
from orchestrator.report.summary import Columns, by_setting, escape, markdown_table, metric_cell, seeds_cell
from orchestrator.report.vocabulary import key_labels
from orchestrator.results.log import DamageError
from orchestrator.results.paths import Folder, TrialFolder
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


class Point(NamedTuple):
    """A value of a metric; ``step`` is the round counted from 1, ``time`` in milliseconds since 1970."""

    key: str
    value: float
    time: int
    step: int


class Input(NamedTuple):
    """A data set that a trial has read: the source's name, a digest of the content, and source and split as JSON."""

    name: str
    digest: str
    source: str


@dataclass(frozen=True)
class Projection:
    """What MLflow should have of one run.

    Attributes:
        name: its readable name.
        status: MLflow's word for how it ended.
        started: in milliseconds since 1970.
        ended: in milliseconds since 1970.
        tags: by name.
        finals: the final values.
        inputs: the data sets that it has read.
        files: artifacts, each with its folder among them.
        tables: Parquet files that its page shows as tables.
        note: its note.
        params: by name: the swept values.
        rounds: the values of its metrics in each round.
        pictures: figures that its note shows.
    """

    name: str
    status: str
    started: int
    ended: int
    tags: Mapping[str, str]
    finals: Sequence[Point]
    inputs: Sequence[Input]
    files: Sequence[tuple[Path, str]]
    tables: Sequence[Path]
    note: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    rounds: Sequence[Point] = ()
    pictures: Sequence[Path] = ()


@dataclass(frozen=True)
class Facts:
    """What is said of a sweep: its results and its story, and the metrics that come first, among the headline metrics."""

    results: Results
    story: Story
    first: Sequence[str]
    headlines: Sequence[str]


def trial_manifest(folder: TrialFolder) -> str | None:
    """A hash of all that a trial has left; None while it has not ended."""
    record = read_record(folder)
    return str(record["manifest"]) if record else None


def sweep_manifest(folder: Folder) -> str:
    """A hash of a sweep's own files: sweep file, table of trials, and report."""
    digest = hashlib.blake2b(digest_size=8)
    for file in (folder.table, *_sweep_files(folder)):
        if file.is_file():
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
    return {row["id"]: {key: _plain(row[key]) for key in keys if row.get(key) is not None} for row in rows}


def _plain(cell: Any) -> Any:
    """A value of the plan, where a swept map or list is JSON."""
    if isinstance(cell, str) and cell[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(cell)
    return cell


def setting_name(swept: Mapping[str, Any]) -> str:
    """The swept values without the seeds, for charts' legends; "all trials" where nothing else was swept.

    >>> setting_name({"clustering.name": "ifca", "seed": 1}), setting_name({"seed": 1})
    ('ifca', 'all trials')
    """
    return trial_name({key: value for key, value in swept.items() if key not in REPEATS}) or "all trials"


def project_trial(folder: Folder, trial: str, swept: Mapping[str, Any], experiment: str) -> Projection:
    """What MLflow should have of a trial that has ended.

    Args:
        folder: the results folder of the sweep, where the trial has a record.
        trial: the trial's id.
        swept: its swept values by dotted key.
        experiment: MLflow's id of the sweep's experiment, to which the note links.
    """
    own = folder.trial(trial)
    record = read_record(own) or {}
    run = yaml.safe_load(own.config.read_text())
    ended = int(1000 * own.manifest.stat().st_mtime)
    started = ended - int(1000 * min(record.get("seconds") or 0.0, ended / 1000))
    rows = read_table(own.table("rounds")).to_pylist() if own.table("rounds").is_file() else []
    points, metrics = round_points(rows, started, ended), record.get("metrics") or {}
    failed = record["status"] == "failed"
    told = {"notes": "; ".join(record.get("notes") or ()), "reason": record.get("reason") or ""}
    origin = record.get("origin") or {}
    known = {k: v for k, v in origin.items() if k in ("commit", "host", "device") or k.startswith("version.")}
    files = [own.config, *sorted(own.path.glob("*.parquet"))]
    # The message of a failure: one that an earlier attempt has left says nothing of this trial.
    files += [own.error] if failed and own.error.is_file() else []
    finals = scalar_metrics(metrics)
    wanted = Projection(
        name=trial_name(swept) or trial,
        status="FAILED" if failed else "FINISHED",
        started=started,
        ended=ended,
        tags={
            **run_tags(run, swept, known),
            **{name: value for name, value in metrics.items() if isinstance(value, str)},
            **{name: text for name, text in told.items() if text},
            "status": record["status"],
        },
        params={key: brief(value) for key, value in swept.items()},
        rounds=points,
        finals=final_points(finals, points, ended),
        inputs=_inputs(run, origin),
        files=[(file, "") for file in files],
        tables=[own.table(name) for name in TABLES if own.table(name).is_file()],
    )
    return replace(wanted, note=_trial_note(wanted, finals, folder.name, experiment))


def project_sweep(
    folder: Folder, trials: Sequence[str], experiment: str, run: str
) -> tuple[Projection, Sequence[str] | None]:
    """What MLflow should have of a sweep as a whole.

    Args:
        folder: the results folder of the sweep.
        trials: the ids of its trials.
        experiment: MLflow's id of the sweep's experiment.
        run: MLflow's id of the sweep's own run.

    Returns:
        That, and the metrics that come first; None while nothing can be said of the results.
    """
    records = {trial.id: record for trial in map(folder.trial, trials) if (record := read_record(trial))}
    ended = [folder.trial(trial) for trial in records]
    times = [int(1000 * trial.manifest.stat().st_mtime) for trial in ended]
    times = times or [int(1000 * folder.sweep.stat().st_mtime)]
    good = all(record["status"] in ("finished", "stopped") for record in records.values())
    word, status = ("finished", "FINISHED") if good else ("failed", "FAILED")
    word, status = (word, status) if len(ended) == len(trials) else ("unfinished", "KILLED")
    configs = [(records[one.id], yaml.safe_load(one.config.read_text())) for one in ended if one.config.is_file()]
    inputs = [one for record, config in configs for one in _inputs(config, record.get("origin") or {})]
    facts, pictures = _facts(folder), _figures(folder)
    wanted = Projection(
        name=folder.name,
        status=status,
        started=min(times),
        ended=max(times),
        tags=_shown_tags({}) | {"status": word},
        finals=[Point(name, value, max(times), 0) for name, value in (_means(facts) if facts else {}).items()],
        inputs=list({one.digest: one for one in inputs}.values()),
        files=[(file, "" if file.parent == folder.path else "report") for file in _sweep_files(folder)],
        tables=[folder.table] if folder.table.is_file() else [],
        note=_sweep_note(facts, pictures, experiment, run) if facts else begun_note(folder, experiment),
        pictures=pictures,
    )
    return wanted, facts.first if facts else None


def run_tags(run: Mapping[str, Any], swept: Mapping[str, Any], origin: Mapping[str, str]) -> dict[str, str]:
    """The tags of a trial that are known when it starts: its setting, its components, what it runs with.

    Args:
        run: the resolved run as plain values.
        swept: its swept values by dotted key.
        origin: commit, versions of packages, host and device.
    """
    return _shown_tags(origin) | {SETTING: setting_name(swept)} | component_tags(run)


def round_points(rows: Sequence[Mapping[str, Any]], started: int, ended: int | None = None) -> list[Point]:
    """The values of rounds, the metric `ROUND` last in each.

    Args:
        rows: a row for each round, with ``round`` counted from 0; what is no finite number is left out.
        started: when the first began, in milliseconds since 1970.
        ended: when the trial ended, if it has: all rounds are before that.
    """
    points, passed = list[Point](), 0.0
    for row in rows:
        passed += row.get("seconds") or 0.0
        time = started + int(1000 * passed)
        time, step = time if ended is None else min(time, ended - 1), int(row["round"]) + 1
        values = {name: value for name, value in scalar_metrics(row).items() if name != "round"}
        points += [Point(metric_key(name), value, time, step) for name, value in values.items()]
        points.append(Point(ROUND, float(step), time, step))
    return points


def final_points(finals: Mapping[str, float], points: Sequence[Point], ended: int) -> list[Point]:
    """The final values: at the last round's step, or one beyond where that round has a value of its own.

    MLflow shows the value of the latest step, so a metric whose last round has the final value already is left out.

    >>> final_points({"loss": 0.5, "accuracy": 0.9}, [Point("accuracy/accuracy", 0.8, 0, 2)], ended=9)
    [Point(key='accuracy/loss', value=0.5, time=9, step=2), Point(key='accuracy/accuracy', value=0.9, time=9, step=3)]
    """
    last, rounds = {point.key: point for point in points}, max((point.step for point in points), default=0)
    wanted = [
        (Point(metric_key(name), value, ended, rounds), last.get(metric_key(name))) for name, value in finals.items()
    ]
    return [
        point._replace(step=rounds + (shown is not None and shown.step == rounds))
        for point, shown in wanted
        if shown is None or shown.value != point.value
    ]


def _inputs(run: Mapping[str, Any], origin: Mapping[str, Any]) -> list[Input]:
    digest, data = origin.get("data"), run.get("data")
    return [Input(data["name"], digest, json.dumps(data, sort_keys=True))] if digest and data else []


def _facts(folder: Folder) -> Facts | None:
    """What is said of a sweep; None while nothing can be, as before the first trial has ended."""
    from orchestrator.report.story import headline_risk, story

    with suppress(Exception):  # a note is never worth a run
        results = read_results(folder.path)
        risk = headline_risk(results)
        first = [name for name in (risk.accuracy, risk.name) if name] if risk else []
        measured = {name for name in results.metrics if any(setting.measured(name) for setting in results.settings)}
        return Facts(results, story(results), first, headline_metrics(measured, first))
    return None


def _means(facts: Facts) -> dict[str, float]:
    """The sweep's own metrics: means over its seeds; of several settings the lowest and the highest."""
    values = dict[str, float]()
    for name in facts.headlines:
        means = [setting.estimate(name).mean for setting in facts.results.settings if setting.measured(name)]
        ends = {"mean": means[0]} if len(means) == 1 else {"lowest mean": min(means), "highest mean": max(means)}
        values |= {f"{end}/{name}": value for end, value in ends.items()}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _figures(folder: Folder) -> list[Path]:
    """The figures of a sweep's report that its note shows."""
    return [file for name in FIGURES if (file := folder.report / f"{name}.png").is_file()][:MOST_FIGURES]


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


def _trial_note(trial: Projection, results: Mapping[str, float], sweep: str, experiment: str) -> str:
    """The note of a trial of ``sweep`` with these final metrics, in MLflow's experiment of that id."""
    names = headline_metrics(set(results))
    shown = ", ".join(f"{full_label(name)} {_value(name, results[name])}" for name in names[:3])
    seconds = (trial.ended - trial.started) / 1000
    rounds = max((point.step for point in trial.rounds), default=0)
    status = f"{trial.tags['status']} after {rounds} round{'s' * (rounds != 1)} in {seconds:.0f} s"
    blocks = [f"{escape(trial.name)}: {status}{escape(f': {shown}') if shown else ''}."]
    if reason := trial.tags.get("reason"):
        more = "The whole message is in `error.txt` among the artifacts, if the trial could write it."
        blocks.append(f"**Why there is no result:** {escape(reason)}. {more}")
    if notes := trial.tags.get("notes"):
        blocks.append(f"**Note:** {escape(notes)}.")
    if names:
        lines = [[full_label(name), _value(name, results[name]), _chance(name, results)] for name in names]
        blocks.append(markdown_table(["result", "value", "by chance"], lines, numbers=2))
    if trial.params:
        pairs = zip(key_labels(tuple(trial.params)), trial.params.values(), strict=True)
        blocks.append(markdown_table(["swept setting", "value"], [list(pair) for pair in pairs]))
    blocks.append(f"One trial of the sweep {escape(sweep)}. Its results beside others: {_views(experiment)}.")
    return "\n\n".join([*blocks, TRIAL_READING])


def _value(name: str, value: float) -> str:
    described = metric(name)
    return number(value, described.digits, described.bound)


def _chance(name: str, finals: Mapping[str, float]) -> str:
    chance = metric(name).chance
    guessed = finals.get(chance) if isinstance(chance, str) else chance
    return "" if guessed is None else _value(name, guessed)


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
        _table(facts),
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
    return shortened("\n\n".join(filter(None, blocks)), NOTE_LENGTH)


def begun_note(folder: Folder, experiment: str) -> str:
    """The note of a sweep of which no trial has ended yet."""
    described = yaml.safe_load(folder.sweep.read_text())
    question = " ".join(str(described.get("description") or "" if isinstance(described, dict) else "").split())
    return "\n\n".join([escape(question) or "The sweep is running.", f"Open {_views(experiment)}.", SWEEP_READING])


def shortened(text: str, limit: int) -> str:
    r"""The lines of a text that fit into so many letters, with a note if some were left out.

    >>> shortened("one\ntwo", 8), shortened("one\n" + "a" * 300, 200) == "one" + CUT
    ('one\ntwo', True)
    """
    return text if len(text) <= limit else text[: limit - len(CUT)].rpartition("\n")[0] + CUT


def _list(title: str, sentences: Sequence[str]) -> str:
    return "\n".join([f"**{title}**", "", *(f"- {escape(sentence)}" for sentence in sentences)]) if sentences else ""


def _table(facts: Facts) -> str:
    """The settings with at most six metrics each."""
    results, names = facts.results, facts.headlines
    if not names:
        return ""
    columns: Columns = [
        (full_label(name), partial(metric_cell, metric=metric(name), results=results)) for name in names
    ]
    head, lines = by_setting(results, [*columns, ("finished", seeds_cell)])
    table = markdown_table(head, lines[:MOST_SETTINGS], numbers=len(names) + 1)
    chances = guessing([(full_label(name), metric(name)) for name in names], results)
    more = len(lines) - MOST_SETTINGS
    rest = f"{more} more settings are in `report/summary.md`." if more > 0 else ""
    return "\n\n".join(block for block in (table, escape(chances), rest) if block)
