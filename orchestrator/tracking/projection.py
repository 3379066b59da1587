"""What MLflow should have of a sweep and of its trials: a function of the results folder, and of
nothing else.

Part of it are notes in Markdown. MLflow shows the beginning of a note in tables, so its first line
is a sentence.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mlflow.entities import Dataset, Metric

from algorithms.metrics.statistics import number
from orchestrator.config.document import parsed
from orchestrator.config.metric_names import metric
from orchestrator.report.context import full_label, guessing
from orchestrator.report.data import Results, read_results
from orchestrator.report.markdown import escape, markdown_table
from orchestrator.report.summary import by_setting, metric_columns
from orchestrator.results.log import read_manifest
from orchestrator.results.paths import Folder
from orchestrator.results.record import read_record
from orchestrator.results.sweeps import content_hash, sweep_files
from orchestrator.results.tables import read_table
from orchestrator.results.writing import read_plain
from orchestrator.tracking.labels import (
    SETTING,
    brief,
    headline_metrics,
    metric_key,
    runs_link,
    scalar_metrics,
    setting_name,
    trial_name,
)

ROUND = metric_key("round")  # a metric that every round has
SOFTWARE = (
    "commit",
    "host",
    "device",
)  # of a trial's origin, besides versions of packages, what is a tag
FIGURES = ("trade_off", "clients_exposed_risk", "audit", "attack_roc", "convergence")
PICTURES = "description"  # the folder of a note's figures among the artifacts
MOST_FIGURES = 3  # in a note: the first of these that there are
NOTE_LENGTH = 8000  # MLflow's limit
CUT = (
    "\n\n(The rest is left out, because MLflow allows no longer text: see the report among the "
    "artifacts.)"
)
READING = (
    "**How to read it.** Numbers of a setting are means over its finished seeds ± half the "
    "width of the 95 % interval; below three seeds the values themselves. Rates are fractions "
    "of one. Metrics and charts are in sections: `accuracy`, `attack`, `privacy`, ...; their "
    "step is the round, counted from 1; `run` holds rounds and seconds. Settings, whole "
    "tables and figures are among the artifacts."
)


@dataclass(frozen=True)
class Projection:
    """What MLflow should have of one run, times in milliseconds since 1970."""

    manifest: str  # a hash of all that this was made of
    name: str
    status: str  # MLflow's word for how it ended
    started: int
    ended: int
    params: Mapping[str, str]
    tags: Mapping[str, str]
    note: str
    files: Mapping[str, bytes]  # artifacts, by their paths
    inputs: Sequence[Dataset] = ()  # the data sets that it has read
    rounds: Sequence[Metric] = ()  # the values of its metrics in each round
    finals: Sequence[Metric] = ()
    pictures: Mapping[str, bytes] = field(
        default_factory=dict
    )  # figures that its note shows, by file name


def project_trial(
    folder: Folder, record: Mapping[str, Any], trial: str, swept: Mapping[str, Any], experiment: str
) -> Projection:
    """What MLflow should have of a trial that has ended; its note links to MLflow's
    ``experiment`` of the sweep.

    Raises DamageError if a file is not what was saved.
    """
    paths = folder.trial(trial)
    manifest = read_manifest(paths.path, trial)
    failed = record["status"] == "failed"
    files = {name: manifest.read(name) for name in manifest.parts if name != paths.model.name}
    run = parsed(files[paths.config.name])
    metrics = record.get("metrics") or {}
    origin = record.get("origin") or {}
    ended = _written(paths.manifest)
    seconds = record.get("seconds") or 0.0
    started = ended - int(1000 * seconds)
    table = files.get(paths.table("rounds").name)
    rows = read_table(table).to_pylist() if table else []
    rounds = round_points(rows, started, ended)
    finals = scalar_metrics(metrics)
    software = {key: origin[key] for key in origin if key in SOFTWARE or key.startswith("version.")}
    remarks = {"notes": "; ".join(record.get("notes") or ()), "reason": record.get("reason") or ""}
    tags = run_tags(run, swept, software) | {
        name: value for name, value in metrics.items() if isinstance(value, str)
    }
    tags |= {name: text for name, text in remarks.items() if text} | {"status": record["status"]}
    if failed:  # one that an earlier attempt has left says nothing of a trial that did not fail
        with suppress(OSError):
            files[paths.error.name] = read_plain(paths.error)
    name = trial_name(swept) or trial
    last = rows[-1]["round"] + 1 if rows else 0
    data = run.get("data")
    digest = origin.get("data")
    inputs = list[Dataset]()
    if data and digest:
        inputs = [
            Dataset(data["name"][:500], digest[:36], "fedpriv", json.dumps(data, sort_keys=True))
        ]
    took = f" after {last} round{'s' * (last != 1)} in {seconds:.0f} s" if rows else ""
    return Projection(
        manifest=record["manifest"],
        name=name,
        status="FAILED" if failed else "FINISHED",
        started=started,
        ended=ended,
        tags=tags,
        note=_trial_note(f"{name}: {record['status']}{took}", remarks, finals, experiment),
        inputs=inputs,
        files=files,
        params={key: brief(value) for key, value in swept.items()},
        rounds=rounds,
        finals=final_points(finals, rounds, ended),
    )


def project_sweep(folder: Folder, trials: Iterable[str], experiment: str, run: str) -> Projection:
    """What MLflow should have of a sweep with these ``trials``; its note links to its
    ``experiment`` and own ``run``.
    """
    ids = list(trials)
    records = {trial: record for trial in map(folder.trial, ids) if (record := read_record(trial))}
    times = [_written(trial.manifest) for trial in records] or [_written(folder.manifest)]
    good = all(record["status"] in ("finished", "stopped") for record in records.values())
    word, status = ("finished", "FINISHED") if good else ("failed", "FAILED")
    word, status = (word, status) if len(records) == len(ids) else ("unfinished", "KILLED")
    shown = {
        str(path.relative_to(folder.path)): content for path, content in sweep_files(folder).items()
    }
    drawn = [name for name in FIGURES if f"report/{name}.png" in shown][:MOST_FIGURES]
    pictures = {f"{name}.png": shown[f"report/{name}.png"] for name in drawn}
    note = begun_note(experiment)
    verdicts = dict[str, str]()
    first = list[str]()
    with suppress(Exception):  # a note is never worth a run
        from orchestrator.papers.verdicts import of_results, words
        from orchestrator.report.context import main_risk

        results = read_results(folder.path)
        first = [name for name in main_risk(results) or () if name][::-1]
        verdicts = {
            f"verdict.{verdict.claim.claim}": words(verdict) for verdict in of_results(results)
        }
        note = _sweep_note(results, first, list(pictures), experiment, run)
    return Projection(
        manifest=content_hash(folder),
        name=folder.name,
        status=status,
        started=min(times),
        ended=max(times),
        params={},
        tags={**_shown_tags({}), "status": word, **verdicts},
        note=note,
        files=shown,
        pictures=pictures,
    )


def run_tags(
    run: Mapping[str, Any], swept: Mapping[str, Any], origin: Mapping[str, str]
) -> dict[str, str]:
    """The tags of a trial that are known when it starts: its setting, its components, what it
    runs with.
    """
    parts = {
        slot: str(part["name"])
        for slot, part in run.items()
        if isinstance(part, Mapping) and "name" in part
    }
    attacks = ", ".join(str(attack["name"]) for attack in run.get("attacks") or ())
    if attacks:
        parts["attacks"] = attacks
    return _shown_tags(origin) | {SETTING: setting_name(swept)} | parts


def round_points(
    rows: Iterable[Mapping[str, Any]], started: int, ended: int | None = None
) -> list[Metric]:
    """The values of rounds, the metric `ROUND` last in each, of a row for each round, with
    ``round`` counted from 0.

    What is no finite number is left out. Times are in milliseconds since 1970: the first round
    ``started`` then, and all are before the trial ``ended``. In a live run, which does not say
    that, all are of the time ``started``, which is now.
    """
    points = list[Metric]()
    time = float(started)
    for row in rows:
        step = int(row["round"]) + 1
        time = time if ended is None else min(time + 1000 * (row.get("seconds") or 0.0), ended - 1)
        values = {name: value for name, value in scalar_metrics(row).items() if name != "round"} | {
            "round": step
        }
        points += [
            Metric(metric_key(name), float(value), int(time), step)
            for name, value in values.items()
        ]
    return points


def final_points(finals: Mapping[str, float], rounds: Sequence[Metric], ended: int) -> list[Metric]:
    """The final values: at the last round's step, or one beyond where that round has a value of
    its own.

    MLflow shows the value of the latest step, so a metric whose last round has the final value
    already is left out.

    >>> points = final_points({"loss": 0.5, "accuracy": 0.9}, [Metric("accuracy/accuracy", 0.8, 0, 2)], ended=9)
    >>> [(point.key, point.value, point.step) for point in points]
    [('accuracy/loss', 0.5, 2), ('accuracy/accuracy', 0.9, 3)]
    """
    last = {point.key: point for point in rounds}
    step = max((point.step for point in rounds), default=0)
    points = []
    for name, value in finals.items():
        latest = last.get(metric_key(name))
        if latest is None or latest.value != value:
            points.append(
                Metric(
                    metric_key(name),
                    value,
                    ended,
                    step + (latest is not None and latest.step == step),
                )
            )
    return points


def _written(path: Path) -> int:
    return int(1000 * path.stat().st_mtime)


def _shown_tags(origin: Mapping[str, str]) -> dict[str, str]:
    """``origin`` and the tags that MLflow's pages show for every run: source, commit and user."""
    tags = {"mlflow.source.name": "fedpriv", "mlflow.source.type": "LOCAL", **origin}
    if "commit" in origin:
        tags["mlflow.source.git.commit"] = origin["commit"]
    with suppress(Exception):  # a user without a name, as containers have
        tags["mlflow.user"] = getpass.getuser()
    return tags


def _trial_note(
    state: str, remarks: Mapping[str, str], finals: Mapping[str, float], experiment: str
) -> str:
    """The note of a trial with these final metrics; ``state`` says which it is and how it ended."""
    values = []
    for described in map(metric, headline_metrics(finals.keys())):
        chance = (
            finals.get(described.chance) if isinstance(described.chance, str) else described.chance
        )
        known = (value for value in (finals[described.name], chance) if value is not None)
        pair = [number(value, described.digits, described.bound) for value in known]
        values.append(
            f"{full_label(described.name)} {' (by chance '.join(pair)}{')' * (len(pair) - 1)}"
        )
    blocks = [f"{escape(': '.join(filter(None, (state, ', '.join(values)))))}."]
    if remarks["reason"]:
        more = (
            "The whole message is in `error.txt` among the artifacts, if the trial could write it."
        )
        blocks.append(f"**Why there is no result:** {escape(remarks['reason'])}. {more}")
    if remarks["notes"]:
        blocks.append(f"**Note:** {escape(remarks['notes'])}.")
    return "\n\n".join([*blocks, f"The results beside others: {_views(experiment)}.", READING])


def _views(experiment: str) -> str:
    table = runs_link("", experiment).removeprefix("/")
    return f"[all runs]({table}), [as charts]({table}&compareRunsMode=CHART)"


def begun_note(experiment: str) -> str:
    """The note of a sweep of which nothing can be said yet."""
    return "\n\n".join(["The sweep is running.", f"Open {_views(experiment)}.", READING])


def _sweep_note(
    results: Results, first: Sequence[str], pictures: Sequence[str], experiment: str, run: str
) -> str:
    """The note of a sweep, for its ``run`` in MLflow, which has the pictures, and for its
    ``experiment``.

    The table of the settings comes last, because it is what a note that is too long can lose.
    """
    from orchestrator.report.sentences import sentences_of

    summary = sentences_of(results)
    lists = {
        "What differs": summary.findings,
        "Claimed and audited, published and measured": summary.verdicts,
        "Limits": summary.limits,
    }
    names = headline_metrics([name for name in results.metrics if results.has(name)], first)
    metrics = [metric(name) for name in names]
    columns = metric_columns(results, metrics, "finished")
    blocks = [
        escape(summary.question),
        f"**{escape(summary.headline)}**",
        f"Open {_views(experiment)}; the tag `{SETTING}` groups the seeds of a setting.",
        *(
            f"![{picture}](get-artifact?path={quote(f'{PICTURES}/{picture}', safe='')}&run_uuid={run})"
            for picture in pictures
        ),
        *(
            "\n".join([f"**{title}**", "", *(f"- {escape(sentence)}" for sentence in sentences)])
            for title, sentences in lists.items()
            if sentences
        ),
        f"**Repeat it:** `{summary.command}` (`sweep.yaml` is among the artifacts).",
        READING,
        markdown_table(*by_setting(results, columns), numbers=len(columns)),
        escape(guessing([(metric_.label, metric_) for metric_ in metrics], results)),
    ]
    note = "\n\n".join(filter(None, blocks))
    return (
        note
        if len(note) <= NOTE_LENGTH
        else note[: NOTE_LENGTH - len(CUT)].rpartition("\n")[0] + CUT
    )
