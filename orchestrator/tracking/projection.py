"""What MLflow should have of a sweep and of its trials: a function of the results folder, and of nothing else."""

from __future__ import annotations

import getpass
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from orchestrator.report.data import REPEATS, SLOT_NAMES
from orchestrator.results.log import DamageError
from orchestrator.results.paths import Folder, TrialFolder
from orchestrator.results.record import read_record
from orchestrator.results.sweeps import read_sweep
from orchestrator.results.tables import read_table
from orchestrator.tracking.labels import SETTING, component_tags, metric_key, scalar_metrics, swept_params, trial_name
from orchestrator.tracking.view import headline_metrics

if TYPE_CHECKING:
    from orchestrator.report.data import Results
    from orchestrator.report.story import Story

FORM = 4  # of a run in MLflow: what was logged in another form is logged again
ROUND = metric_key("round")  # a metric that every round has
TABLES = ("rounds", "clients", "attacks")  # shown on a trial's page; those of single examples are too long for one
FIGURES = ("trade_off", "clients_exposed_risk", "audit", "attack_roc", "convergence")
PICTURES = "description"  # the folder of a note's figures among the artifacts
MOST_FIGURES = 3  # in a note: the first of these that there are


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
        params: by name: the swept values.
        rounds: the values of its metrics in each round.
        finals: the final values.
        inputs: the data sets that it has read.
        files: artifacts, each with its folder among them.
        tables: Parquet files that its page shows as tables.
        pictures: figures that its note shows.
        results: the final metrics by name.
    """

    name: str
    status: str
    started: int
    ended: int
    tags: Mapping[str, str]
    params: Mapping[str, str]
    rounds: Sequence[Point]
    finals: Sequence[Point]
    inputs: Sequence[Input]
    files: Sequence[tuple[Path, str]]
    tables: Sequence[Path]
    pictures: Sequence[Path]
    results: Mapping[str, float]


@dataclass(frozen=True)
class Facts:
    """What the note of a sweep says: its results and its story, the metrics that come first, and figures."""

    results: Results
    story: Story
    first: Sequence[str]
    pictures: Sequence[Path] = ()


def trial_manifest(folder: TrialFolder) -> str | None:
    """A hash of all that a trial has left; None while it has not ended."""
    record = read_record(folder)
    return f"{FORM} {record['manifest']}" if record else None


def sweep_manifest(folder: Folder) -> str:
    """A hash of a sweep's own files: sweep file, table of trials, and report."""
    digest = hashlib.blake2b(f"form {FORM}".encode(), digest_size=8)
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
    rows = read_table(folder.table("rounds")).to_pylist() if folder.table("rounds").is_file() else []
    points, metrics = round_points(rows, started, ended), record.get("metrics") or {}
    failed = record["status"] == "failed"
    told = {"notes": "; ".join(record.get("notes") or ()), "reason": record.get("reason") or ""}
    origin = record.get("origin") or {}
    known = {k: v for k, v in origin.items() if k in ("commit", "host", "device") or k.startswith("version.")}
    files = [folder.config, *sorted(folder.path.glob("*.parquet"))]
    # The message of a failure: one that an earlier attempt has left says nothing of this trial.
    files += [folder.error] if failed and folder.error.is_file() else []
    finals = scalar_metrics(metrics)
    return Projection(
        name=trial_name(swept) or folder.id,
        status="FAILED" if failed else "FINISHED",
        started=started,
        ended=ended,
        tags={
            **run_tags(run, swept, known),
            **{name: value for name, value in metrics.items() if isinstance(value, str)},
            **{name: text for name, text in told.items() if text},
            "status": record["status"],
        },
        params=swept_params(swept),
        rounds=points,
        finals=final_points(finals, points, ended),
        inputs=_inputs(run, origin),
        files=[(file, "") for file in files],
        tables=[folder.table(name) for name in TABLES if folder.table(name).is_file()],
        pictures=(),
        results=finals,
    )


def project_sweep(folder: Folder, trials: Sequence[str]) -> tuple[Projection, Facts | None]:
    """What MLflow should have of a sweep as a whole, and what its note says.

    Args:
        folder: the results folder of the sweep.
        trials: the ids of its trials.
    """
    records = {trial.id: record for trial in map(folder.trial, trials) if (record := read_record(trial))}
    ended = [folder.trial(trial) for trial in records]
    times = [int(1000 * trial.manifest.stat().st_mtime) for trial in ended]
    times = times or [int(1000 * folder.sweep.stat().st_mtime)]
    good = all(record["status"] in ("finished", "stopped") for record in records.values())
    word, status = ("finished", "FINISHED") if good else ("failed", "FAILED")
    word, status = (word, status) if len(ended) == len(trials) else ("unfinished", "KILLED")
    runs = [yaml.safe_load(trial.config.read_text()) for trial in ended if trial.config.is_file()]
    origins = [records[trial.id].get("origin") or {} for trial in ended if trial.config.is_file()]
    inputs = dict.fromkeys(one for pair in zip(runs, origins, strict=True) for one in _inputs(*pair))
    facts = _facts(folder)
    wanted = Projection(
        name=folder.name,
        status=status,
        started=min(times),
        ended=max(times),
        tags=_shown_tags({}) | {"status": word},
        params={},
        rounds=(),
        finals=[Point(name, value, max(times), 0) for name, value in _means(facts).items()],
        inputs=list({one.digest: one for one in inputs}.values()),
        files=[(file, "" if file.parent == folder.path else "report") for file in _sweep_files(folder)],
        tables=[folder.table] if folder.table.is_file() else [],
        pictures=_figures(folder),
        results={},
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
    """What a note says of a sweep; None while nothing can be said, as before the first trial has ended."""
    from orchestrator.report.data import read_results
    from orchestrator.report.story import headline_risk, story

    with suppress(Exception):  # a note is never worth a run
        results = read_results(folder.path)
        risk = headline_risk(results)
        first = [name for name in (risk.accuracy, risk.name) if name] if risk else []
        return Facts(results, story(results), first, _figures(folder))
    return None


def _means(facts: Facts | None) -> dict[str, float]:
    """The sweep's own metrics: means over its seeds; of several settings the lowest and the highest."""
    if facts is None:
        return {}
    results, values = facts.results, dict[str, float]()
    measured = {name for name in results.metrics if any(setting.measured(name) for setting in results.settings)}
    for name in headline_metrics(measured, facts.first):
        means = [setting.estimate(name).mean for setting in results.settings if setting.measured(name)]
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
