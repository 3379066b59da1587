"""Two sweeps side by side: the same metrics with intervals, and paired differences where both
saw the same data.

A setting of the second sweep is paired with a setting of the first one if both partition the same
data in the same way (``data`` of the resolved runs is equal, the seed of the partition aside) and
agree in all keys of both sweeps, except for keys in which the sweeps have no value in common. The
difference is taken over the partitions and seeds that both have (`orchestrator.report.frame`). The
partition is ``data.split_seed``, or the run's seed where that is null. Settings with runs whose
records say that they loaded different data are no pair.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.report.context import main_risk
from orchestrator.report.data import DEAL, Results, Row, Setting, text
from orchestrator.report.frame import Contrast, compared_metrics, contrast, corrected
from orchestrator.report.vocabulary import setting_label
from orchestrator.results.paths import Folder
from orchestrator.results.record import read_record

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("metric", "sweep", "setting", "mean", "low", "high", "seeds")
DIFFERENCE = ("against", "difference", "difference_low", "difference_high", "pairs", "p", "p_holm")


def compare(first: Results, second: Results, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Compare two sweeps.

    Args:
        first: the first sweep, the baseline of the differences.
        second: the second sweep.
        metrics: the metrics to compare; None: accuracy, and what the table at the end of either run
            shows, as far as both sweeps measured it.

    Returns:
        For every metric the settings of both sweeps, one row each: ``metric``, ``sweep``,
            ``setting``, ``mean``, ``low``,
        ``high``, ``seeds``. Where a setting of the second sweep has a partner, its row (one for
        each partner) also has ``against``, the partner, and ``difference`` with its interval, the
        number of ``pairs``, ``p`` of the paired t test, and ``p_holm``, corrected for the tests of
        its family (`orchestrator.report.frame.corrected`).

    Raises:
        ConfigError: a metric was not measured by both sweeps.
    """
    import pandas as pd

    both = [name for name in first.metrics if name in second.metrics]
    columns = {"accuracy", *compared_metrics(first), *compared_metrics(second)}
    default = [name for name in both if name in columns] or both
    names = measured(metrics, both, "no metric {!r} of both sweeps", default)
    alike = first.name == second.name
    sweeps = [str(sweep.folder) if alike else sweep.name for sweep in (first, second)]
    partners = [
        [mine for mine in first.settings if _comparable(first, mine, second, theirs)]
        for theirs in second.settings
    ]
    lines: list[dict[str, Any]] = []
    contrasts: list[Contrast] = []
    for name in names:
        lines += [_line(first, sweeps[0], setting, name) for setting in first.settings]
        for setting, same in zip(second.settings, partners, strict=True):
            tests = _tests(first, second, setting, same, name)
            for place, test in enumerate(tests, len(lines)):
                contrasts.append(replace(test, place=place))
            lines += [_line(second, sweeps[1], setting, name) for _ in range(max(len(tests), 1))]
    for paired in corrected(contrasts, main_risk(second) or ()):
        d = paired.difference
        values = (paired.baseline, d.mean, d.low, d.high, d.n, paired.p, paired.p_holm)
        lines[paired.place] |= dict(zip(DIFFERENCE, values, strict=True))
    return pd.DataFrame(lines, columns=[*COLUMNS, *(DIFFERENCE if contrasts else ())])


def _tests(
    first: Results, second: Results, setting: Setting, partners: Sequence[Setting], name: str
) -> list[Contrast]:
    """A metric in a setting of the second sweep against each of its partners in the first."""
    label = _label(second, setting)
    dealt = _dealt(second, setting)
    tests = []
    for partner in partners:
        base = _label(first, partner)
        test = contrast("", label, base, "", name, dealt, _dealt(first, partner))
        if test.difference.n:
            tests.append(test)
    return tests


def measured(
    names: Sequence[str] | None, metrics: Sequence[str], refusal: str, default: Sequence[str]
) -> list[str]:
    """The named metrics, or the ``default``.

    Raises ConfigError, with the ``refusal``, for one not among ``metrics``.
    """
    unknown = [name for name in names or () if name not in metrics]
    if unknown:
        sentences = [unknown_name(refusal.format(name), str(name), metrics) for name in unknown]
        raise ConfigError(ConfigProblem(sentence, file="metrics") for sentence in sentences)
    return list(default if names is None else names)


def _line(results: Results, sweep: str, setting: Setting, name: str) -> dict[str, Any]:
    mean = setting.estimate(name)
    values = name, sweep, _label(results, setting), mean.mean, mean.low, mean.high, mean.n
    return dict(zip(COLUMNS, values, strict=True))


def _label(results: Results, setting: Setting) -> str:
    return setting_label(results.keys, setting.values) or "the whole sweep"


def _dealt(results: Results, setting: Setting) -> Setting:
    """The setting with the seed of each trial's partition, which is the run's where
    ``data.split_seed`` is null.
    """
    seeds = [results.value(trial, DEAL) for trial in setting.trials]
    pairs = zip(setting.trials, seeds, strict=True)
    dealt = [trial | {DEAL: trial.get("seed") if seed is None else seed} for trial, seed in pairs]
    return replace(setting, trials=tuple(dealt))


def _comparable(first: Results, mine: Setting, second: Results, theirs: Setting) -> bool:
    """Whether two settings of two sweeps partition the same data and agree in the keys that
    could agree.
    """
    for key in set(first.keys) & set(second.keys):
        values = [
            {text(setting.values[r.keys.index(key)]) for setting in r.settings}
            for r in (first, second)
        ]
        unlike = text(mine.values[first.keys.index(key)]) != text(
            theirs.values[second.keys.index(key)]
        )
        if unlike and values[0] & values[1]:
            return False
    trials = [
        (results, trial) for results, s in ((first, mine), (second, theirs)) for trial in s.trials
    ]
    data = {_data(results, trial) for results, trial in trials}
    if len(data) != 1 or None in data:
        return False
    records = [
        read_record(Folder(results.folder).trial(trial["id"])) or {} for results, trial in trials
    ]
    loaded = {record.get("origin", {}).get("data") for record in records} - {None}
    return len(loaded) <= 1


def _data(results: Results, trial: Row) -> str | None:
    """What says which data a trial partitions, and how, as text; None if it is not known."""
    fields = results.configs.get(trial["id"], {}).get("data")
    if not isinstance(fields, dict):
        return None
    return json.dumps(
        {key: value for key, value in fields.items() if key != "split_seed"},
        sort_keys=True,
        default=str,
    )
