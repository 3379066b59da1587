"""What MLflow should have of a sweep and of its trials: a function of the results folder, and of nothing else."""

from __future__ import annotations

import getpass
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from orchestrator.report.data import REPEATS, SLOT_NAMES, Results, read_results
from orchestrator.report.story import Story, headline_risk, story
from orchestrator.results.log import DamageError
from orchestrator.results.paths import Folder, TrialFolder
from orchestrator.results.record import read_record
from orchestrator.results.sweeps import read_sweep
from orchestrator.results.tables import read_table
from orchestrator.tracking.labels import SETTING, component_tags, metric_key, scalar_metrics, short_name, swept_params
from orchestrator.tracking.view import headline_metrics

FORM = 3  # of a run in MLflow: what was logged in another form is logged again
ROUND = metric_key("round")  # a metric that every round has
TABLES = ("rounds", "clients", "attacks")  # shown on a trial's page; those of single examples are too long for one
MOST_ROWS = 1000  # of a table on a page
FIGURES = ("trade_off", "clients_exposed_risk", "audit", "attack_roc", "convergence")
PICTURES = "description"  # their folder among the artifacts
MOST_FIGURES = 3  # in a note: the first of these that there are
FIGURE_WIDTH = 800  # pixels, for a note shows pictures in their full size


class Point(NamedTuple):
    """A value of a metric; ``step`` is the round counted from 1, ``time`` in milliseconds since 1970."""

    key: str
    value: float
    time: int
    step: int


@dataclass(frozen=True)
class Input:
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
        params: by name: the swept values.
        rounds: the values of its metrics in each round.
        finals: the final values.
        inputs: the data sets that it has read.
        files: artifacts, each with its folder among them.
        tables: tables in MLflow's form, as JSON by file name, which its pages show and compare.
        pictures: figures that its note shows.
        results: the final metrics by name.
    """

    name: str
    status: str
    started: int
    ended: int
    tags: Mapping[str, str]
    params: Mapping[str, str] = field(default_factory=dict)
    rounds: Sequence[Point] = ()
    finals: Sequence[Point] = ()
    inputs: Sequence[Input] = ()
    files: Sequence[tuple[Path, str]] = ()
    tables: Mapping[str, str] = field(default_factory=dict)
    pictures: Sequence[Path] = ()
    results: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SweepFacts:
    """What the note of a sweep says: its results and its story, the metrics that come first, and the names of pictures."""

    results: Results
    story: Story
    first: Sequence[str]
    pictures: Sequence[str] = ()


def trial_manifest(folder: TrialFolder) -> str | None:
    """A hash of all that a trial has left; None while it has not ended."""
    record = read_record(folder)
    return f"{FORM} {record['manifest']}" if record else None


def sweep_manifest(folder: Folder) -> str:
    """A hash of a sweep's own files: sweep file, table of trials, and report."""
    return _digest([file for file in (folder.table, *_sweep_files(folder)) if file.is_file()])


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


def setting_name(swept: Mapping[str, Any]) -> str:
    """The swept values without the seeds, for charts' legends; "all trials" where nothing else was swept.

    >>> setting_name({"clustering.name": "ifca", "seed": 1}), setting_name({"seed": 1})
    ('ifca', 'all trials')
    """
    return short_name({key: value for key, value in swept.items() if key not in REPEATS}) or "all trials"


def project_trial(folder: TrialFolder, swept: Mapping[str, Any]) -> Projection:
    """What MLflow should have of a trial that has ended.

    Args:
        folder: the trial's folder, with a record.
        swept: its swept values by dotted key.
    """
    record = read_record(folder) or {}
    run = yaml.safe_load(folder.config.read_text())
    ended = int(1000 * folder.manifest.stat().st_mtime)
    started = ended - int(1000 * min(record.get("seconds") or 0.0, ended / 1000))
    points = round_points(_rows(folder), started, ended)
    finals = scalar_metrics(record.get("metrics") or {})
    texts = {name: value for name, value in (record.get("metrics") or {}).items() if isinstance(value, str)}
    notes = "; ".join(record.get("notes") or ())
    rounds = max((point.step for point in points), default=0)
    return Projection(
        name=short_name(swept) or folder.id,
        status={"failed": "FAILED"}.get(record["status"], "FINISHED"),
        started=started,
        ended=ended,
        tags={
            **run_tags(run, swept, {k: v for k, v in (record.get("origin") or {}).items() if _is_provenance(k)}),
            **texts,
            **{k: v for k, v in (("notes", notes), ("reason", record.get("reason"))) if v},
            "status": record["status"],
        },
        params=swept_params(swept),
        rounds=points,
        finals=final_points(finals, points, rounds, ended),
        inputs=_inputs(run, record),
        files=[(file, "") for file in (folder.config, *sorted(folder.path.glob("*.parquet")), *_error(folder, record))],
        tables={f"{table}.json": _as_json(folder.table(table)) for table in TABLES if folder.table(table).is_file()},
        results=finals,
    )


def project_sweep(folder: Folder, trials: Sequence[str]) -> tuple[Projection, SweepFacts | None]:
    """What MLflow should have of a sweep as a whole, and what its note says.

    Args:
        folder: the results folder of the sweep.
        trials: the ids of its trials.
    """
    records = {trial.id: read_record(trial) for trial in map(folder.trial, trials)}
    ended = [folder.trial(trial) for trial, record in records.items() if record]
    times = [int(1000 * trial.manifest.stat().st_mtime) for trial in ended] or [
        int(1000 * folder.sweep.stat().st_mtime)
    ]
    statuses = {record["status"] for record in records.values() if record}
    whole, good = len(ended) == len(trials), statuses <= {"finished", "stopped"}
    status = ("finished" if good else "failed") if whole else "unfinished"
    facts = _sweep_facts(folder)
    wanted = Projection(
        name=folder.name,
        status={"finished": "FINISHED", "failed": "FAILED", "unfinished": "KILLED"}[status],
        started=min(times),
        ended=max(times),
        tags=_shown_tags({}) | {"status": status},
        finals=[Point(name, value, max(times), 0) for name, value in _means(facts).items()],
        inputs=list({one.digest: one for trial in ended for one in trial_inputs(trial)}.values()),
        files=[(file, "" if file.parent == folder.path else "report") for file in _sweep_files(folder)],
        tables={"trials.json": _as_json(folder.table)} if folder.table.is_file() else {},
        pictures=shown_figures(folder),
    )
    return wanted, facts


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


def live_points(rows: Sequence[Mapping[str, Any]], now: int) -> list[Point]:
    """The values of rounds that have ended just now, in milliseconds since 1970."""
    return [point._replace(time=now) for point in round_points(rows, now)]


def final_points(finals: Mapping[str, float], points: Sequence[Point], rounds: int, ended: int) -> list[Point]:
    """The final values: at the last round's step, or one beyond where that round has a value of its own.

    MLflow shows the value of the latest step, so a metric whose last round has the final value already is left out.

    >>> final_points({"loss": 0.5, "accuracy": 0.9}, [Point("accuracy/accuracy", 0.8, 0, 2)], rounds=2, ended=9)
    [Point(key='accuracy/loss', value=0.5, time=9, step=2), Point(key='accuracy/accuracy', value=0.9, time=9, step=3)]
    """
    last = {point.key: point for point in points}
    found = []
    for name, value in finals.items():
        key = metric_key(name)
        shown = last.get(key)
        if shown is None or shown.value != value:
            found.append(Point(key, value, ended, rounds + (shown is not None and shown.step == rounds)))
    return found


def trial_inputs(folder: TrialFolder) -> list[Input]:
    """The data set of a trial that has ended; empty where its files do not name it."""
    with suppress(OSError, yaml.YAMLError):
        return _inputs(yaml.safe_load(folder.config.read_text()), read_record(folder) or {})
    return []


def _inputs(run: Mapping[str, Any], record: Mapping[str, Any]) -> list[Input]:
    digest, data = (record.get("origin") or {}).get("data"), run.get("data")
    return [Input(data["name"], digest, json.dumps(data, sort_keys=True))] if digest and data else []


def _sweep_facts(folder: Folder) -> SweepFacts | None:
    """What a note says of a sweep; None while nothing can be said, as before the first trial has ended."""
    with suppress(Exception):  # a note is never worth a run
        results = read_results(folder.path)
        risk = headline_risk(results)
        first = [name for name in (risk.accuracy, risk.name) if name] if risk else []
        return SweepFacts(results, story(results), first, [file.name for file in shown_figures(folder)])
    return None


def _means(facts: SweepFacts | None) -> dict[str, float]:
    """The sweep's own metrics: means over its seeds; of several settings the lowest and the highest."""
    if facts is None:
        return {}
    results = facts.results
    measured = {name for name in results.metrics if any(setting.measured(name) for setting in results.settings)}
    found: dict[str, float] = {}
    for name in headline_metrics(measured, facts.first):
        means = [setting.estimate(name).mean for setting in results.settings if setting.measured(name)]
        ends = {"mean": means[0]} if len(means) == 1 else {"lowest mean": min(means), "highest mean": max(means)}
        found |= {f"{end}/{name}": value for end, value in ends.items()}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def small(figure: Path, target: Path) -> Path:
    """Write a figure in the width of a note to the folder ``target``; return the file."""
    from PIL import Image

    with Image.open(figure) as image:
        image.thumbnail((FIGURE_WIDTH, image.height), Image.Resampling.LANCZOS)
        image.save(target / figure.name, optimize=True)
    return target / figure.name


def shown_figures(folder: Folder) -> list[Path]:
    """The figures of a sweep's report that its note shows."""
    return [file for name in FIGURES if (file := folder.report / f"{name}.png").is_file()][:MOST_FIGURES]


def _sweep_files(folder: Folder) -> list[Path]:
    there = [folder.sweep, *sorted(folder.report.glob("*"))]
    return [file for file in there if file.is_file() and not file.name.startswith(".")]


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.blake2b(f"form {FORM}".encode(), digest_size=8)
    for file in files:
        digest.update(file.name.encode() + hashlib.blake2b(file.read_bytes()).digest())
    return digest.hexdigest()


def _rows(folder: TrialFolder) -> list[dict[str, Any]]:
    return read_table(folder.table("rounds")).to_pylist() if folder.table("rounds").is_file() else []


def _error(folder: TrialFolder, record: Mapping[str, Any]) -> list[Path]:
    """The message of a failure; one that an earlier attempt has left says nothing of this trial."""
    return [folder.error] if record["status"] == "failed" and folder.error.is_file() else []


def _is_provenance(name: str) -> bool:
    """Whether an entry of a record's origin is a tag; hashes of code and data are not."""
    return name in ("commit", "host", "device") or name.startswith("version.")


@cache
def _user() -> dict[str, str]:
    with suppress(Exception):  # a user without a name, as containers have
        return {"mlflow.user": getpass.getuser()}
    return {}


def _shown_tags(origin: Mapping[str, str]) -> dict[str, str]:
    """``origin`` and the tags that MLflow's pages show for every run: source, commit and user."""
    commit = {"mlflow.source.git.commit": origin["commit"]} if "commit" in origin else {}
    return {"mlflow.source.name": "fedpriv", "mlflow.source.type": "LOCAL", **commit, **_user(), **origin}


def _plain(value: Any) -> Any:
    """A cell of ``trials.parquet``, where a swept map or list is JSON."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(value)
    return value


def _as_json(path: Path) -> str:
    """The last rows of a table as MLflow shows them; what is no finite number is null."""
    table = read_table(path)
    table = table.slice(max(0, table.num_rows - MOST_ROWS))
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    return json.dumps({"columns": table.column_names, "data": list(map(list, zip(*columns, strict=True)))}, default=str)


def _cell(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
