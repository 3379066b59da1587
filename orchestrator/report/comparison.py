"""The comparison with published numbers: matching trials, the gap, and every field in which a run differs from the paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace

from orchestrator.metric_names import metric
from orchestrator.report.context import partition_line, tuned_sentences
from orchestrator.report.data import DEAL, Results, Row, Setting, Value, independent, lookup, repeat, settings, text
from orchestrator.report.papers import rules
from orchestrator.report.published import FIXED, VARIED, AtLeast, Counterpart, Record, records
from orchestrator.report.statistics import FEWEST, NAN, Measured, estimate, limits, number, quotient, spread
from orchestrator.report.summary import csv_text, escape, markdown_table
from orchestrator.report.vocabulary import key_label, setting_label, value_label

# Fields that change no result, or only which random numbers are drawn.
IRRELEVANT = (
    *("seed", "evaluate_every", "data.revision", "training.device", "training.threads", "training.clients_per_job"),
    *("training.backend", "attacks.cia.interval"),
)
DEALS = {FIXED: "one partition", VARIED: "a new partition in each run"}


def deviations(results: Results, found: Counterpart, variant: Setting) -> list[str]:
    """Every field in which a setting differs from the paper's reading, with both values.

    Args:
        results: the results of a sweep.
        found: what the paper's number is, with the reading.
        variant: the trials that are compared with it.
    """
    first = (variant.finished or variant.trials)[0]
    stated = []
    for key, printed in found.context.items():
        if key in found.where:
            continue
        if key == DEAL:
            stated += _partitions(results, printed, variant)
        elif _ran(results, first, key) and not agrees(actual := ran_with(results, first, key), printed):
            stated.append(f"{field_label(key)} {_said(actual)} instead of {_said(printed)}")
    return stated


def unprinted(results: Results, found: Counterpart, trials: Iterable[Row]) -> dict[str, set[str]]:
    """The fields of the trials' runs that the paper's reading does not have, each with our values."""
    stated = {*found.where, *found.context, *results.keys, *(found.against or {}), *IRRELEVANT}
    ours: dict[str, set[str]] = {}
    for trial in trials:
        for key, value in leaves(results.configs.get(trial["id"]) or {}):
            if key not in stated:
                ours.setdefault(key, set()).add(_said(value))
    return ours


def agrees(actual: Value, printed: Value) -> bool:
    """Whether a value is the printed one, or one of several."""
    if isinstance(printed, AtLeast):
        return isinstance(actual, int | float) and actual >= printed.least
    return any(text(actual) == text(value) for value in (printed if isinstance(printed, tuple) else (printed,)))


def ran_with(results: Results, trial: Row, key: str) -> Value:
    """The value that a trial used; the examples per client are counted if the config leaves their number to the data."""
    value = results.value(trial, key)
    if value is None and key == "data.examples_per_client":
        held = {row.get("examples") for row in results.table(trial, "clients")}
        return held.pop() if len(held) == 1 else None
    return value


def field_label(key: str) -> str:
    """The words for a field: its name, with that of its section or attack where many others have the same name.

    >>> field_label("data.clients"), field_label("curvature.trace"), field_label("attacks.sia.pool")
    ('clients', 'curvature trace', 'sia pool')
    """
    section = key.split(".")[-2] if "." in key else ""
    named = key.startswith(("attacks.", "curvature.", "aggregation.")) and not key.endswith(".name")
    return f"{section} {key_label(key)}" if named else key_label(key)


def _ran(results: Results, trial: Row, key: str) -> bool:
    """Whether the trial's run is known to have the field, be it empty."""
    if ran_with(results, trial, key) is not None:
        return True
    inside, _, name = key.rpartition(".")
    holder = lookup(results.configs.get(trial["id"]), inside) if inside else results.configs.get(trial["id"])
    return isinstance(holder, Mapping) and name in holder and key != "data.examples_per_client"


def _partitions(results: Results, printed: str | int, variant: Setting) -> list[str]:
    """What differs in how often the data were dealt; nothing if the trials' runs do not say it."""
    trials = variant.finished or variant.trials
    if trials[0].get(DEAL) is None and not _ran(results, trials[0], DEAL):
        return []
    seeds = [results.value(trial, DEAL) for trial in trials]
    partitions = {repeat(trial | {DEAL: seed})[0] for trial, seed in zip(trials, seeds, strict=True)}
    if printed == VARIED:
        repeated = len(partitions) < 2 and len(trials) > 1
        return [f"one partition (split seed {', '.join(partitions)}) instead of {DEALS[VARIED]}"] if repeated else []
    return [f"{len(partitions)} partitions instead of one"] if len(partitions) > 1 else []


def leaves(config: Value, inside: str = "") -> Iterator[tuple[str, Value]]:
    """The fields of a run by dotted key. Attacks are entered by name; names of components belong to the reading."""
    if isinstance(config, list) and config and all(isinstance(one, Mapping) and "name" in one for one in config):
        config = {one["name"]: {key: value for key, value in one.items() if key != "name"} for one in config}
    if not isinstance(config, Mapping):
        if config != []:
            yield inside, config
        return
    for key, value in config.items():
        yield from leaves(value, f"{inside}.{key}" if inside else str(key))


def _said(value: Value) -> str:
    if isinstance(value, AtLeast):
        return value.words
    if isinstance(value, tuple):
        return " or ".join(dict.fromkeys(map(_said, value)))
    return "none" if value is None else text(value)


READING = (
    "The gap is measured minus published; rates are fractions of one. If the sweep did not measure the metric, or no "
    "trial finished, the measured cell is empty. The ± of a measured value is half the width of the 95 % interval over "
    "seeds; below three seeds, their values are printed. The last column names every field of the run that differs from "
    "what the paper or its released code says."
)
QUOTIENTS = (
    'A printed factor ("x times") is the largest of several. Here every setting has its own line: the quotient of the '
    "two means over the same partitions and seeds, with Fieller's 95 % interval. It has no upper end if the divisor cannot be "
    "told from 0, and there is no quotient if the divisor is 0."
)
# The data and model of a paper. If they match the sweep, numbers that the sweep did not run are listed as absent.
CIRCUMSTANCES = ("data.name", "data.split.name", "data.split.preset", "model.name")
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
    """A sweep compared with the published numbers.

    Attributes:
        lines: the numbers with a counterpart in the sweep.
        absent: numbers for the sweep's data and model that the sweep did not run, from the papers in ``lines`` or, if
            there are none, from all papers.
        unprinted: by paper, the fields of our runs on which neither the paper nor its code says anything, with our values.
    """

    lines: tuple[Line, ...]
    absent: tuple[Record, ...]
    unprinted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def compare(results: Results, published: Iterable[Record] | None = None) -> Comparison:
    """Compare results with published numbers.

    Args:
        results: the results of a sweep.
        published: the numbers, in the order of the comparison; default: those in ``published.yaml``.
    """
    lines: list[Line] = []
    absent = []
    silent: dict[str, dict[str, set[str]]] = {}
    printed: dict[str, set[str]] = {}
    used = {key: {text(results.value(trial, key)) for trial in results.trials} for key in CIRCUMSTANCES}
    for record in records() if published is None else published:
        rule = rules().get(record.paper)
        found = rule(record) if rule else None
        if found is None:
            continue
        trials = _matching(results, found.where)
        if trials and (found.against is None or _matching(results, {**found.where, **found.against})):
            lines += _lines(results, record, found, trials)
            printed.setdefault(record.paper, set()).update(found.context)
            for key, values in unprinted(results, found, trials).items():
                silent.setdefault(record.paper, {}).setdefault(key, set()).update(values)
        elif all(key not in found.where or found.where[key] in used[key] for key in CIRCUMSTANCES):
            absent.append(record)
    papers = {line.paper for line in lines}
    return Comparison(
        tuple(lines),
        tuple(record for record in absent if not papers or record.paper in papers),
        {
            paper: {key: ", ".join(sorted(values)) for key, values in own.items() if key not in printed[paper]}
            for paper, own in silent.items()
        },
    )


def published_csv(comparison: Comparison) -> str:
    """The content of ``published.csv``: one line for each published number and matching setting of the sweep."""
    return csv_text([field.name for field in fields(Line)], [list(astuple(line)) for line in comparison.lines])


def published_markdown(results: Results, comparison: Comparison) -> str:
    """The content of ``published.md``: the comparison, and the published numbers that the sweep did not run."""
    blocks = [f"# {escape(results.name)}: measured and published numbers"]
    blocks += [escape(sentence) for sentence in tuned_sentences(results.folder, results.trials)]
    if comparison.lines:
        factors = any(line.metric.endswith("factor_max") for line in comparison.lines)
        blocks += [READING, QUOTIENTS if factors else "", partition_line(results)]
        blocks.append(markdown_table(HEAD, [cells(line) for line in comparison.lines]))
        blocks += [_silent(paper, fields) for paper, fields in comparison.unprinted.items()]
    else:
        blocks.append("No published number matches a setting of this sweep.")
    if comparison.absent:
        missing: dict[str, list[str]] = {}
        for r in comparison.absent:
            missing.setdefault(f"{r.source}, {r.dataset}, {r.method}, {r.setting}", []).append(f"{r.metric} {r.value}")
        listed = "\n".join(f"- {escape(place)}: {escape(', '.join(values))}" for place, values in missing.items())
        blocks += ["## Published for these data but not run in this sweep", listed]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _silent(paper: str, silent: Mapping[str, str]) -> str:
    """A paragraph with the fields on which the paper is silent."""
    ours = "; ".join(f"{field_label(key)} = {value}" for key, value in silent.items())
    return f"Not printed by {escape(paper)}, here: {escape(ours)}." if ours else ""


def _lines(results: Results, record: Record, found: Counterpart, trials: Sequence[Row]) -> list[Line]:
    """A line for each setting of the sweep. Means are taken over the settings of ``over``, quotients are not."""
    own = [key for key in results.keys if key not in found.where]
    if not found.against:
        keys = tuple(key for key in own if not _within(key, found.over))
        return [_line(results, record, found, one, keys, _mean(results, found, one)) for one in settings(trials, keys)]
    keys = tuple(own)
    others = settings(_matching(results, {**found.where, **found.against}), keys)
    below = {tuple(map(text, other.values)): other for other in others}
    pairs = [(one, below.get(tuple(map(text, one.values)))) for one in settings(trials, keys)]
    return [
        _line(results, record, found, one, keys, _quotient(found, one, other))
        for one, other in pairs
        if other is not None
    ]


def _line(
    results: Results, record: Record, found: Counterpart, variant: Setting, keys: tuple[str, ...], value: Measured
) -> Line:
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
        measured_metric=_metric_words(found),
        measured=value.value,
        measured_low=value.low,
        measured_high=value.high,
        seeds=value.n,
        gap=value.value - printed,
        differs="; ".join(_differences(results, found, variant)),
        note=record.note,
        values=", ".join(map(text, value.values)) if value.n < FEWEST else "",
    )


def _metric_words(found: Counterpart) -> str:
    if found.against:
        return f"quotient of {' and '.join(found.metrics)}"
    return ("mean of " if len(found.metrics) > 1 else "") + " and ".join(found.metrics)


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


def _mean(results: Results, found: Counterpart, variant: Setting) -> Measured:
    """The mean over seeds of the counterpart's metrics. Settings that are averaged over have equal weights.

    The interval uses the repetitions that every averaged setting has, with one average for each.
    """
    parts = settings(variant.trials, _average(results, found))
    by_repeat = [{repeat(t): v for t in part.finished if (v := _value(t, found)) is not None} for part in parts]
    measured = [values for values in by_repeat if values]
    if not measured:
        return Measured()
    complete = [one for one in measured[0] if all(one in values for values in measured)]
    means = [math.fsum(values[one] for values in measured) / len(measured) for one in complete]
    whole = estimate(independent(list(zip(complete, means, strict=True))), _limits(found))
    if len(measured) == 1:
        return Measured(whole.mean, whole.low, whole.high, whole.n, whole.values)
    average = math.fsum(math.fsum(values.values()) / len(values) for values in measured) / len(measured)
    whole = replace(whole, mean=average)
    return Measured(average, whole.low, whole.high, whole.n, whole.values)


def _limits(found: Counterpart) -> tuple[float, float]:
    lowest, highest = zip(*(limits(metric(name)) for name in found.metrics), strict=True)
    return min(lowest), max(highest)


def _quotient(found: Counterpart, variant: Setting, other: Setting) -> Measured:
    """The quotient of the metric in two settings, over the repetitions that both have."""
    above, below = ({repeat(t): v for t in s.finished if (v := _value(t, found)) is not None} for s in (variant, other))
    pairs = [one for one in above if one in below]
    dividends, divisors = (independent([(one, values[one]) for one in pairs]) for values in (above, below))
    return quotient(dividends, divisors)


def _differences(results: Results, found: Counterpart, variant: Setting) -> list[str]:
    """The known differences from the published setting, each in a few words."""
    stated = deviations(results, found, variant)
    for key in () if found.against else _average(results, found):
        seen = [value_label(key, setting.values[0]) for setting in settings(variant.trials, (key,))]
        stated.append(f"average over {key_label(key)} {', '.join(seen)}")
    if found.against:
        stated.append("one of our settings beside the largest quotient of the paper's")
    seeds = {text(trial.get("seed")) for trial in variant.finished}
    if found.repetitions and len(seeds) != found.repetitions:
        stated.append(f"{len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'} instead of {found.repetitions}")
    return stated + ([variant.unfinished] if variant.unfinished else [])


def _matching(results: Results, where: Mapping[str, Value]) -> list[Row]:
    return [trial for trial in results.trials if all(agrees(results.value(trial, key), v) for key, v in where.items())]


def _average(results: Results, found: Counterpart) -> tuple[str, ...]:
    return tuple(key for key in results.keys if key not in found.where and _within(key, found.over))


def _within(key: str, over: Sequence[str]) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in over)


def _value(trial: Row, found: Counterpart) -> float | None:
    values = [float(trial[name]) for name in found.metrics if trial.get(name) is not None]
    return math.fsum(values) / len(values) if len(values) == len(found.metrics) else None
