"""Two sweeps side by side: the same metrics with intervals, and paired differences where both saw the same data.

A setting of the second sweep is paired with a setting of the first one if both partition the same data in the same way
(``data`` of the resolved runs is equal, the seed of the partition aside) and agree in all keys of both sweeps, except for keys
in which the sweeps have no value in common. The difference is taken over the partitions and seeds that both have
(`orchestrator.report.frame`). The partition is ``data.split_seed``, or the run's seed where that is null. Runs
whose records say that they loaded different data are no pair.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.report.data import DEAL, Results, Row, Setting, repeat, text
from orchestrator.report.frame import Contrast, compared_metrics, contrast, corrected
from orchestrator.report.risks import main_risk
from orchestrator.report.vocabulary import setting_label
from orchestrator.results.paths import Folder
from orchestrator.results.record import read_record

if TYPE_CHECKING:
    import pandas as pd

DIFFERENCE = ("against", "difference", "difference_low", "difference_high", "pairs", "p", "p_holm")


def compare(one: Results, other: Results, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Compare two sweeps.

    Args:
        one: the first sweep, the baseline of the differences.
        other: the second sweep.
        metrics: the metrics to compare; None: accuracy, and what the table at the end of either run shows, as far as both
            sweeps measured it.

    Returns:
        For every metric the settings of both sweeps, one row each: ``metric``, ``sweep``, ``setting``, ``mean``, ``low``,
        ``high``, ``seeds``. Where a setting of the second sweep has a partner, its row (one for each partner) also has
        ``against``, the partner, and ``difference`` with its interval, the number of ``pairs``, ``p`` of the paired t
        test, and ``p_holm``, corrected for the tests of its family
        (`orchestrator.report.frame.corrected`).

    Raises:
        ConfigError: a metric was not measured by both sweeps.
    """
    import pandas as pd

    names = _shared(one, other, metrics)
    alike = one.name == other.name
    sweeps = [str(results.folder) if alike else results.name for results in (one, other)]
    pairs = [
        (
            setting,
            [
                (partner, *_on_same_data(one, partner, other, setting))
                for partner in one.settings
                if _comparable(one, partner, other, setting)
            ],
        )
        for setting in other.settings
    ]
    lines: list[dict[str, Any]] = []
    found: list[Contrast] = []
    for name in names:
        lines += [_line(one, sweeps[0], setting, name) for setting in one.settings]
        for setting, partners in pairs:
            contrasts = [
                contrast("", _label(other, setting), _label(one, partner), "", name, theirs, mine)
                for partner, mine, theirs in partners
            ]
            known = [paired for paired in contrasts if paired.difference.n]
            line = _line(other, sweeps[1], setting, name)
            lines += [line | {"paired": paired} for paired in known] or [line]
            found += known
    risk = main_risk(other)
    p_holm = dict(zip(map(id, found), (one.p_holm for one in corrected(found, risk or ())), strict=True))
    for line in lines:
        if paired := line.pop("paired", None):
            d = paired.difference
            values = (paired.baseline, d.mean, d.low, d.high, d.n, paired.p, p_holm[id(paired)])
            line |= dict(zip(DIFFERENCE, values, strict=True))
    columns = ["metric", "sweep", "setting", "mean", "low", "high", "seeds"]
    return pd.DataFrame(lines, columns=[*columns, *DIFFERENCE] if found else columns)


def _shared(one: Results, other: Results, metrics: Sequence[str] | None) -> list[str]:
    both = [name for name in one.metrics if name in other.metrics]
    if metrics is None:
        told = {"accuracy", *compared_metrics(one), *compared_metrics(other)}
        return [name for name in both if name in told] or both
    problems = [
        ConfigProblem(unknown_name(f"no metric {name!r} of both sweeps", str(name), both), file="metrics")
        for name in metrics
        if name not in both
    ]
    if problems:
        raise ConfigError(problems)
    return list(metrics)


def _line(results: Results, name_of: str, setting: Setting, name: str) -> dict[str, Any]:
    found = setting.estimate(name)
    return {
        "metric": name,
        "sweep": name_of,
        "setting": _label(results, setting),
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "seeds": found.n,
    }


def _label(results: Results, setting: Setting) -> str:
    return setting_label(results.keys, setting.values) or "the whole sweep"


def _on_same_data(one: Results, partner: Setting, other: Results, setting: Setting) -> tuple[Setting, Setting]:
    """The two settings with each trial's partition, without trials whose counterpart loaded other data."""
    mine, theirs = (
        {repeat(trial): trial for trial in map(partial(_dealt, results), s.trials)}
        for results, s in ((one, partner), (other, setting))
    )
    for key in mine.keys() & theirs.keys():
        loaded = _loaded(one, mine[key]), _loaded(other, theirs[key])
        if all(loaded) and loaded[0] != loaded[1]:
            del mine[key], theirs[key]
    return replace(partner, trials=tuple(mine.values())), replace(setting, trials=tuple(theirs.values()))


def _dealt(results: Results, trial: Row) -> Row:
    """A trial with the seed of its partition, which is the run's where ``data.split_seed`` is null."""
    partition = results.value(trial, DEAL)
    return trial | {DEAL: trial.get("seed") if partition is None else partition}


def _loaded(results: Results, trial: Row) -> str | None:
    """The hash of the data that a trial loaded; None of a trial that has not ended."""
    record = read_record(Folder(results.folder).trial(trial["id"])) or {}
    data: str | None = record.get("origin", {}).get("data")
    return data


def _comparable(one: Results, partner: Setting, other: Results, setting: Setting) -> bool:
    """Whether two settings of two sweeps partition the same data and agree in the keys that could agree."""
    mine, theirs = (dict(zip(r.keys, s.values, strict=True)) for r, s in ((one, partner), (other, setting)))
    unlike = [key for key in mine.keys() & theirs.keys() if text(mine[key]) != text(theirs[key])]
    if any(_values(one, key) & _values(other, key) for key in unlike):
        return False
    data = [{_data(results, trial) for trial in s.trials} for results, s in ((one, partner), (other, setting))]
    return data[0] == data[1] and len(data[0]) == 1 and None not in data[0]


def _values(results: Results, key: str) -> set[str]:
    at = results.keys.index(key)
    return {text(setting.values[at]) for setting in results.settings}


def _data(results: Results, trial: dict[str, Any]) -> str | None:
    """The trial's section ``data`` without the seed of the partition; None if its run is not known."""
    held = results.configs.get(trial["id"], {}).get("data")
    if not isinstance(held, dict):
        return None
    return json.dumps({key: value for key, value in held.items() if key != "split_seed"}, sort_keys=True, default=str)
