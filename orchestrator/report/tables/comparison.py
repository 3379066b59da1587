"""The comparison of measured with published numbers: matching trials, the gap, and differences in the setting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields

from orchestrator.report.data import Results, Setting, settings
from orchestrator.report.estimate import NAN, Estimate, estimate
from orchestrator.report.papers import rules
from orchestrator.report.published import Counterpart, Record, records
from orchestrator.report.tables.summary import csv_text, escape, markdown_table
from orchestrator.report.values import Row, Value, text
from orchestrator.report.vocabulary import key_label, setting_label, value_label

READING = (
    "The gap is measured minus published; rates are fractions of one. If the sweep did not measure the metric, or no "
    "trial finished, the measured cell is empty. The ± of a measured value is half the width of the 95 % interval over "
    "seeds."
)
# The data and model of a paper. If they match the sweep, numbers that the sweep did not run are listed as absent.
CIRCUMSTANCES = ("data.name", "data.split.name", "data.split.preset", "model.name")
HEAD = ("source", "dataset", "method", "published setting", "metric", "published", "measured", "gap", "ours", "differs")


@dataclass(frozen=True)
class Line:
    """One published number and the measured one; the measured fields are NaN if the sweep has no value.

    The first six fields are the paper's words. ``gap`` is measured minus published, ``seeds`` the number of seeds behind
    the measured value, and ``differs`` lists the known differences in the setting.
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


@dataclass(frozen=True)
class Comparison:
    """A sweep compared with the published numbers.

    Attributes:
        lines: the numbers with a counterpart in the sweep.
        absent: numbers for the sweep's data and model that the sweep did not run, from the papers in ``lines`` or, if
            there are none, from all papers.
    """

    lines: tuple[Line, ...]
    absent: tuple[Record, ...]


def compare(results: Results, published: Iterable[Record] | None = None) -> Comparison:
    """Compare results with published numbers.

    Args:
        results: the results of a sweep.
        published: the numbers, in the order of the comparison; default: those in ``published.yaml``.
    """
    lines: list[Line] = []
    absent = []
    used = {key: {text(results.value(trial, key)) for trial in results.trials} for key in CIRCUMSTANCES}
    for record in records() if published is None else published:
        rule = rules().get(record.paper)
        found = rule(record) if rule else None
        if found is None:
            continue
        trials = _matching(results, found.where)
        if trials and (found.against is None or _matching(results, {**found.where, **found.against})):
            keys = tuple(key for key in results.keys if key not in found.where and not _within(key, found.over))
            lines += [_line(results, record, found, variant, keys) for variant in settings(trials, keys)]
        elif all(key not in found.where or found.where[key] in used[key] for key in CIRCUMSTANCES):
            absent.append(record)
    papers = {line.paper for line in lines}
    return Comparison(tuple(lines), tuple(record for record in absent if not papers or record.paper in papers))


def published_csv(comparison: Comparison) -> str:
    """The content of ``published.csv``: one line for each published number and matching setting of the sweep."""
    return csv_text([field.name for field in fields(Line)], [list(astuple(line)) for line in comparison.lines])


def published_markdown(results: Results, comparison: Comparison) -> str:
    """The content of ``published.md``: the comparison, and the published numbers that the sweep did not run."""
    blocks = [f"# {escape(results.name)}: measured and published numbers"]
    if comparison.lines:
        blocks += [READING, markdown_table(HEAD, [_cells(line) for line in comparison.lines])]
    else:
        blocks.append("No published number matches a setting of this sweep.")
    if comparison.absent:
        missing: dict[str, list[str]] = {}
        for r in comparison.absent:
            missing.setdefault(f"{r.source}, {r.dataset}, {r.method}, {r.setting}", []).append(f"{r.metric} {r.value}")
        listed = "\n".join(f"- {escape(place)}: {escape(', '.join(values))}" for place, values in missing.items())
        blocks += ["## Published for these data but not run in this sweep", listed]
    return "\n\n".join(blocks) + "\n"


def _line(results: Results, record: Record, found: Counterpart, variant: Setting, keys: tuple[str, ...]) -> Line:
    value = _quotient(results, found, variant) if found.against else _mean(results, found, variant)
    printed = record.value * found.scale
    place = {key: wanted for key, wanted in found.where.items() if not key.endswith(".name")}
    place |= dict(zip(keys, variant.values, strict=True))
    if not place and not found.against:
        place = {key: wanted for key, wanted in found.where.items() if key in results.keys}
    return Line(
        paper=record.paper,
        source=record.source,
        dataset=record.dataset,
        method=record.method,
        setting=record.setting,
        metric=record.metric,
        published=printed,
        published_std=NAN if record.std is None else record.std * found.scale,
        measured_setting=setting_label(tuple(place), tuple(place.values())),
        measured_metric=("mean of " if len(found.metrics) > 1 else "") + " and ".join(found.metrics),
        measured=value.mean,
        measured_low=value.low,
        measured_high=value.high,
        seeds=value.n,
        gap=value.mean - printed,
        differs="; ".join(_differences(results, found, variant)),
        note=record.note,
    )


def _cells(line: Line) -> list[str]:
    mean, half = Estimate(line.measured, line.measured_high - line.measured, line.seeds).parts(3)
    std = "" if math.isnan(line.published_std) else f" ± {text(line.published_std)} (std)"
    return [
        line.source,
        line.dataset,
        line.method,
        line.setting,
        line.metric.removesuffix("_pct"),  # a fraction here
        text(line.published) + std,
        f"{mean} ± {half}" if half else mean,
        "" if math.isnan(line.gap) else f"{line.gap:+.3f}",
        line.measured_setting or "the whole sweep",
        "; ".join(filter(None, (line.differs, line.note and f"note: {line.note}"))),
    ]


def _mean(results: Results, found: Counterpart, variant: Setting) -> Estimate:
    """The mean over seeds of the counterpart's metrics. Settings that are averaged over have equal weights.

    The interval uses the seeds that every averaged setting has, with one average per seed.
    """
    parts = settings(variant.trials, _average(results, found))
    by_seed = [{text(t.get("seed")): v for t in part.finished if (v := _value(t, found)) is not None} for part in parts]
    measured = [values for values in by_seed if values]
    if not measured:
        return estimate([])
    if len(measured) == 1:
        return estimate(list(measured[0].values()))
    means = [math.fsum(values.values()) / len(values) for values in measured]
    complete = [seed for seed in measured[0] if all(seed in values for values in measured)]
    whole = estimate([math.fsum(values[seed] for values in measured) / len(measured) for seed in complete])
    return Estimate(math.fsum(means) / len(means), whole.half, len(complete))


def _quotient(results: Results, found: Counterpart, variant: Setting) -> Estimate:
    """The largest ratio of the metric over the settings that both components ran, without an interval.

    A setting with a divisor of 0 is left out.
    """
    keys = _average(results, found)
    others = _matching(results, {**found.where, **(found.against or {})})
    below = {tuple(map(text, part.values)): _over_seeds(part, found) for part in settings(others, keys)}
    quotients = []
    for part in settings(variant.trials, keys):
        above, under = _over_seeds(part, found), below.get(tuple(map(text, part.values)))
        if under and above.n and under.mean > 0:
            quotients.append((above.mean / under.mean, min(above.n, under.n)))
    best = max(quotients, default=None)
    return Estimate(best[0], NAN, best[1]) if best else estimate([])


def _over_seeds(part: Setting, found: Counterpart) -> Estimate:
    return estimate([value for trial in part.finished if (value := _value(trial, found)) is not None])


def _differences(results: Results, found: Counterpart, variant: Setting) -> list[str]:
    """The known differences from the published setting, each in a few words."""
    first = (variant.finished or variant.trials)[0]
    stated = []
    for key, printed in found.context.items():
        actual = _ran_with(results, first, key)
        if actual is not None and text(actual) != text(printed):
            stated.append(f"{key_label(key)} {text(actual)} instead of {text(printed)}")
    for key in _average(results, found):
        seen = [value_label(key, setting.values[0]) for setting in settings(variant.trials, (key,))]
        verb = "best of" if found.against else "average over"
        stated.append(f"{verb} {key_label(key)} {', '.join(seen)}")
    seeds = {text(trial.get("seed")) for trial in variant.finished}
    if found.repetitions and len(seeds) != found.repetitions:
        stated.append(f"{len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'} instead of {found.repetitions}")
    return stated + ([variant.unfinished] if variant.unfinished else [])


def _ran_with(results: Results, trial: Row, key: str) -> Value:
    """The value that a trial used; the examples per client are counted if the config leaves their number to the data."""
    value = results.value(trial, key)
    if value is None and key == "data.examples_per_client":
        held = {row.get("examples") for row in results.table(trial, "clients")}
        return held.pop() if len(held) == 1 else None
    return value


def _matching(results: Results, where: Mapping[str, Value]) -> list[Row]:
    return [trial for trial in results.trials if all(_is(results.value(trial, key), v) for key, v in where.items())]


def _is(actual: Value, wanted: Value) -> bool:
    return any(text(actual) == text(value) for value in (wanted if isinstance(wanted, tuple) else (wanted,)))


def _average(results: Results, found: Counterpart) -> tuple[str, ...]:
    return tuple(key for key in results.keys if key not in found.where and _within(key, found.over))


def _within(key: str, over: Sequence[str]) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in over)


def _value(trial: Row, found: Counterpart) -> float | None:
    values = [float(trial[name]) for name in found.metrics if trial.get(name) is not None]
    return math.fsum(values) / len(values) if len(values) == len(found.metrics) else None
