"""The comparison with published numbers: matching trials, the gap, and every field in which a run differs from the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, fields, replace

from orchestrator.metric_names import metric
from orchestrator.report.context import partition_line, tuned_sentences
from orchestrator.report.data import DEAL, Results, Row, Setting, Value, independent, repeat, settings, text
from orchestrator.report.published import VARIED, Counterpart, Record, counterpart, records
from orchestrator.report.statistics import FEWEST, NAN, Estimate, estimate, limits, number, spread
from orchestrator.report.summary import csv_text, escape, markdown_table
from orchestrator.report.vocabulary import key_label, setting_label, value_label

# Fields that change no result, or only which random numbers are drawn.
IRRELEVANT = (
    *("seed", "evaluate_every", "data.revision", "training.device", "training.threads", "training.clients_per_job"),
    *("training.backend", "attacks.cia.interval"),
)
READING = (
    "The gap is measured minus published; rates are fractions of one. If the sweep did not measure the metric, or no "
    "trial finished, the measured cell is empty. The ± of a measured value is half the width of the 95 % interval over "
    "seeds; below three seeds, their values are printed. The last column names every field of the run that differs from "
    "what the paper or its released code says."
)
HEAD = ("source", "dataset", "method", "published setting", "metric", "published", "measured", "gap", "ours", "differs")


@dataclass(frozen=True)
class Line:
    """One published number and the measured one; the measured fields are NaN if the sweep has no value.

    The first six fields are the paper's words. ``gap`` is measured minus published, ``seeds`` the number of seeds behind
    the measured value, ``differs`` lists every field that differs from the paper's reading, and ``values`` are those of
    one or two seeds, which have no interval.
    """

    paper: str
    source: str
    dataset: str
    method: str
    setting: str
    metric: str
    published: float
    published_std: float
    measured_setting: str
    measured_metric: str
    measured: float
    measured_low: float
    measured_high: float
    seeds: int
    gap: float
    differs: str
    note: str
    values: str = ""


@dataclass(frozen=True)
class Comparison:
    """The numbers with a counterpart in a sweep, and by paper our values of fields of which it and its code say nothing."""

    lines: tuple[Line, ...] = ()
    unprinted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def compare(results: Results, published: Iterable[Record] | None = None) -> Comparison:
    """Compare results with published numbers, by default all: a line for each number and setting of the sweep that has it."""
    configs = {trial["id"]: dict(leaves(results.configs.get(trial["id"]) or {})) for trial in results.trials}
    ran = {one["id"]: configs[one["id"]] | {k: v for k, v in one.items() if v is not None} for one in results.trials}
    lines: list[Line] = []
    # By paper: the fields of which it says something, and the trials beside its numbers.
    stated: dict[str, set[str]] = {}
    beside: dict[str, dict[str, None]] = {}
    for record in records() if published is None else published:
        printed = counterpart(record)
        trials = [trial for trial in results.trials if printed and _matches(ran[trial["id"]], printed)]
        if printed is None or printed.against or not trials:
            continue
        mean_over = tuple(key for key in results.keys if printed.over and f"{key}.".startswith(f"{printed.over}."))
        keys = tuple(key for key in results.keys if key not in {*printed.where, *mean_over})
        for setting in settings(trials, keys):
            differs = _differences(printed, setting, ran, tuple(key for key in mean_over if key not in printed.where))
            place = {key: wanted for key, wanted in printed.where.items() if not key.endswith(".name")}
            place |= dict(zip(keys, setting.values, strict=True))
            place = place or {key: wanted for key, wanted in printed.where.items() if key in results.keys}
            lines.append(_line(record, printed, place, _measured(printed, setting, mean_over), differs))
        stated.setdefault(record.paper, set()).update(printed.where, printed.context)
        beside.setdefault(record.paper, {}).update(dict.fromkeys(trial["id"] for trial in trials))
    unprinted: dict[str, dict[str, str]] = {}
    for paper, idents in beside.items():
        ours: dict[str, set[str]] = {}
        for key, value in (pair for ident in idents for pair in configs[ident].items()):
            if key not in {*stated[paper], *results.keys, *IRRELEVANT} and not key.endswith(".name"):
                ours.setdefault(key, set()).add(_words(value))
        unprinted[paper] = {key: ", ".join(sorted(values)) for key, values in ours.items()}
    return Comparison(tuple(lines), unprinted)


def leaves(config: Value, inside: str = "") -> Iterator[tuple[str, Value]]:
    """The fields of a run by dotted key. Attacks are entered by name."""
    if isinstance(config, list) and config and all(isinstance(one, Mapping) and "name" in one for one in config):
        config = {one["name"]: {key: value for key, value in one.items() if key != "name"} for one in config}
    if not isinstance(config, Mapping):
        if config != []:
            yield inside, config
        return
    for key, value in config.items():
        yield from leaves(value, f"{inside}.{key}" if inside else str(key))


def agrees(actual: Value, printed: Value) -> bool:
    """Whether a value is the printed one, one of several, or large enough, see `Counterpart`."""
    if not isinstance(printed, Mapping):
        return text(actual) == text(printed)
    if "one_of" in printed:
        return any(agrees(actual, value) for value in printed["one_of"])
    return isinstance(actual, int | float) and actual >= printed["at_least"]


def _matches(ran: Row, printed: Counterpart) -> bool:
    return all(agrees(ran.get(key), value) for key, value in printed.where.items())


def _measured(printed: Counterpart, setting: Setting, mean_over: tuple[str, ...]) -> Estimate:
    """The mean over seeds of the counterpart's metrics. Settings that are averaged over have equal weights.

    The interval uses the repetitions that every averaged setting has, with one average for each.
    """
    parts = []
    for part in settings(setting.trials, mean_over):
        complete = [trial for trial in part.finished if all(trial.get(name) is not None for name in printed.metrics)]
        parts.append(
            {repeat(t): math.fsum(t[name] for name in printed.metrics) / len(printed.metrics) for t in complete}
        )
    parts = [part for part in parts if part]
    if not parts:
        return Estimate(NAN, NAN, 0)
    common = [key for key in parts[0] if all(key in part for part in parts)]
    means = [(key, math.fsum(part[key] for part in parts) / len(parts)) for key in common]
    lowest, highest = zip(*(limits(metric(name)) for name in printed.metrics), strict=True)
    whole = estimate(independent(means), (min(lowest), max(highest)))
    if len(parts) == 1:
        return whole
    return replace(whole, mean=math.fsum(math.fsum(part.values()) / len(part) for part in parts) / len(parts))


def _differences(
    printed: Counterpart, setting: Setting, ran: Mapping[str, Row], mean_over: tuple[str, ...]
) -> Iterator[str]:
    """Every field in which a setting differs from the paper's reading, with both values, each in a few words."""
    trials = setting.finished or setting.trials
    first = ran[trials[0]["id"]]
    for key, value in printed.context.items():
        if key in printed.where or key not in first:
            continue
        if key != DEAL:
            if not agrees(first[key], value):
                yield f"{field_label(key)} {_words(first[key])} instead of {_words(value)}"
            continue
        partitions = {repeat(trial | {DEAL: ran[trial["id"]].get(DEAL)})[0] for trial in trials}
        if value == VARIED and len(partitions) == 1 < len(trials):
            yield f"one partition (split seed {', '.join(partitions)}) instead of a new partition in each run"
        elif value != VARIED and len(partitions) > 1:
            yield f"{len(partitions)} partitions instead of one"
    for key in mean_over:
        values = [value_label(key, part.values[0]) for part in settings(setting.trials, (key,))]
        yield f"average over {key_label(key)} {', '.join(values)}"
    seeds = {text(trial.get("seed")) for trial in setting.finished}
    if printed.repetitions and len(seeds) != printed.repetitions:
        yield f"{len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'} instead of {printed.repetitions}"
    if setting.unfinished:
        yield setting.unfinished


def _line(record: Record, printed: Counterpart, place: Row, value: Estimate, differs: Iterable[str]) -> Line:
    return Line(
        paper=record.paper,
        source=record.source,
        dataset=record.dataset,
        method=record.method,
        setting=record.setting,
        metric=record.metric,
        published=record.value * printed.scale,
        published_std=NAN if record.std is None else record.std * printed.scale,
        measured_setting=setting_label(tuple(place), tuple(place.values())),
        measured_metric=("mean of " if len(printed.metrics) > 1 else "") + " and ".join(printed.metrics),
        measured=value.mean,
        measured_low=value.low,
        measured_high=value.high,
        seeds=value.n,
        gap=value.mean - record.value * printed.scale,
        differs="; ".join(differs),
        note=record.note,
        values=", ".join(map(text, value.values)) if value.n < FEWEST else "",
    )


def field_label(key: str) -> str:
    """The words for a field: its name, with that of its section or attack where many others have the same name.

    >>> field_label("data.clients"), field_label("curvature.trace"), field_label("attacks.sia.pool")
    ('clients', 'curvature trace', 'sia pool')
    """
    section = key.split(".")[-2] if "." in key else ""
    named = key.startswith(("attacks.", "curvature.", "aggregation.")) and not key.endswith(".name")
    return f"{section} {key_label(key)}" if named else key_label(key)


def _words(value: Value) -> str:
    if isinstance(value, Mapping):
        return str(value["words"]) if "words" in value else " or ".join(map(_words, value["one_of"]))
    return "none" if value is None else text(value)


def published_csv(comparison: Comparison) -> str:
    """The content of ``published.csv``: one line for each published number and matching setting of the sweep."""
    return csv_text([field.name for field in fields(Line)], [list(astuple(line)) for line in comparison.lines])


def published_markdown(results: Results, comparison: Comparison) -> str:
    """The content of ``published.md``: the comparison, and the fields of which the papers say nothing."""
    blocks = [f"# {escape(results.name)}: measured and published numbers"]
    blocks += [escape(sentence) for sentence in tuned_sentences(results.folder, results.trials)]
    blocks += [READING, partition_line(results), markdown_table(HEAD, [cells(line) for line in comparison.lines])]
    for paper, silent in comparison.unprinted.items():
        ours = "; ".join(f"{field_label(key)} = {value}" for key, value in silent.items())
        blocks.append(f"Not printed by {escape(paper)}, here: {escape(ours)}." if ours else "")
    return "\n\n".join(block for block in blocks if block) + "\n"


def cells(line: Line) -> list[str]:
    """The cells of a line under `HEAD`."""
    measured = f"{number(line.measured, 3)} {spread(line.measured, line.measured_low, line.measured_high, 3)}".strip()
    if line.values:
        measured = ", ".join(number(float(value), 3) for value in line.values.split(", "))
    std = "" if math.isnan(line.published_std) else f" ± {text(line.published_std)} (std)"
    return [
        line.source,
        line.dataset,
        line.method,
        line.setting,
        line.metric.removesuffix("_pct"),  # a fraction here
        text(line.published) + std,
        measured,
        "" if math.isnan(line.gap) else f"{line.gap:+.3f}",
        line.measured_setting or "the whole sweep",
        "; ".join(filter(None, (line.differs, line.note and f"note: {line.note}"))),
    ]
