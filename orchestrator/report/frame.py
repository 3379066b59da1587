"""All numbers of a sweep as one tidy frame, and the paired differences between methods that are
a part of it.

Each component of a swept slot is compared with the slot's baseline: its default or, if the sweep
does not have it, the first component. All other swept keys are equal, except for fields that the
baseline's component does not have (such as ``objective.beta`` beside plain training).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from algorithms.core.metric import ACCURACY, MINOR
from algorithms.metrics import statistics
from orchestrator.config.metric_names import metric, table_columns
from orchestrator.report.context import chance_of, epsilons, main_risk, shown_beside
from orchestrator.report.data import (
    DEAL,
    Repeat,
    Results,
    Setting,
    grouped,
    independent,
    repeat,
    text,
)
from orchestrator.report.vocabulary import ALGORITHM, USUAL, setting_label, value_label

if TYPE_CHECKING:
    import pandas as pd

HEADLINE = "headline"  # the family of the headline's risk and of its accuracy
IMPORTANT = 2  # the rank of the last columns of a table that is to be read
FEWER = 0.9  # errors of a model of one or two runs, as a share of those of a constant answer
COLUMNS = ("metric", "value", "low", "high", "chance", "n", "against", "difference", "p", "p_holm")


@dataclass(frozen=True)
class Contrast:
    """A method compared with the baseline of its slot in one setting, for one metric.

    Attributes:
        slot: the slot's key, such as ``clustering.name``.
        method: the label of the method.
        baseline: the label of the baseline.
        setting: what both have in common, as text.
        metric: the metric's name.
        baseline_mean: the baseline's mean over the pairs.
        difference: method minus baseline; ``n`` is the number of independent pairs.
        p: the p value of the paired t test.
        left_out: repetitions that lack a partner, or its value.
        p_holm: the same p, corrected for the tests of its family.
        family: the tests of this comparison that it was corrected with, see `corrected`.
        tests: the number of tests in this family.
        place: the place of the method's setting among those of the results, or of its line in a
            table of two sweeps.
        learned: whether one of the two is more accurate than a constant answer (`learns`), if it is
            about accuracy.
    """

    slot: str
    method: str
    baseline: str
    setting: str
    metric: str
    baseline_mean: float
    difference: statistics.Estimate
    p: float
    left_out: tuple[str, ...]
    p_holm: float = statistics.NAN
    family: str = ""
    tests: int = 0
    place: int = -1
    learned: bool = True

    @property
    def significant(self) -> bool:
        """Whether the difference is significant among the tests of its family, and one of the
        models has learned anything.
        """
        return self.p_holm < statistics.SIGNIFICANT and self.learned

    @property
    def comparison(self) -> tuple[str, ...]:
        """The tests that are corrected for one another have this in common."""
        return self.slot, self.method, self.baseline, self.setting, self.family


def tidy(results: Results, paired: Sequence[Contrast] = ()) -> pd.DataFrame:
    """The frame: the swept keys, then `COLUMNS`; NaN where there is no such number.

    ``value`` is the mean over ``n`` independent runs, ``low`` and ``high`` the ends of its 95 %
    interval (a guarantee has none), ``chance`` the value by chance. ``difference`` is that from the
    baseline ``against`` on the same partitions and seeds, with the p value of the paired t test,
    and the same after Holm's correction within its family.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for place, setting in enumerate(results.settings):
        swept = dict(zip(results.keys, setting.values, strict=True))
        for name in results.metrics:
            mean = setting.estimate(name)
            row = {
                "metric": name,
                "value": mean.mean,
                "low": mean.low,
                "high": mean.high,
                "n": mean.n,
            }
            row |= swept | {"chance": chance_of(setting, name)}
            tests = [test for test in paired if (test.place, test.metric) == (place, name)]
            for test in tests:
                row_of_test = {"against": test.baseline, "difference": test.difference.mean}
                rows.append(row | row_of_test | {"p": test.p, "p_holm": test.p_holm})
            rows += [] if tests else [row]
    return pd.DataFrame(rows, columns=[*results.keys, *COLUMNS])


def compared_metrics(results: Results, rank: int = MINOR - 1) -> list[str]:
    """The metrics that are compared: columns of the terminal table up to ``rank`` with an
    interval and a better direction.
    """
    measured = [name for name in results.metrics if results.has(name)]
    columns = [
        column for column in table_columns(measured) if column.interval and column.rank <= rank
    ]
    names = dict.fromkeys(name for column in columns for name in column.metrics if name in measured)
    return [name for name in names if metric(name).direction and name not in shown_beside(measured)]


def main_metrics(results: Results) -> list[str]:
    """The metrics of a table that is to be read: the headline's, important ones, epsilons; none
    twice under two names.
    """
    names = (
        *filter(None, main_risk(results) or ()),
        *compared_metrics(results, IMPORTANT),
        *epsilons(),
    )
    return sorted(_different(results, names), key=lambda name: metric(name).direction != "higher")


def _different(results: Results, names: Iterable[str]) -> list[str]:
    """The measured ones of these metrics, without those whose values are all the same as those
    of an earlier one.
    """
    columns: dict[tuple[Any, ...], str] = {}
    for name in filter(results.has, dict.fromkeys(names)):
        columns.setdefault(tuple(trial.get(name) for trial in results.trials), name)
    return list(columns.values())


def contrasts(results: Results) -> list[Contrast]:
    """All comparisons of a sweep in the headline's risk, its accuracy, and `compared_metrics`,
    `corrected`.
    """
    first = main_risk(results) or ()
    paired = list[Contrast]()
    different = _different(results, (*filter(None, first), *compared_metrics(results)))
    names = [name for name in compared_metrics(results) if name in different]
    names += [name for name in different if name not in names]
    for slot in ALGORITHM:
        for method, baseline, common in _pairs_of_settings(results, slot):
            labels = (
                _label(results, slot, method, baseline),
                _label(results, slot, baseline, method),
            )
            for name in names:
                if all(
                    setting.measured(name) or not setting.finished for setting in (method, baseline)
                ):
                    test = contrast(slot, *labels, common, name, method, baseline)
                    learned = any(map(learns, (method, baseline), (name, name)))
                    paired.append(
                        replace(test, place=results.settings.index(method), learned=learned)
                    )
    return corrected(paired, first)


def learns(setting: Setting, name: str) -> bool:
    """Whether a metric of accuracy is above what a constant answer reaches; true of metrics
    without such a value.

    The interval over runs must lie above it. Fewer than three runs have none, and each of them must
    make a tenth fewer errors.
    """
    chance = metric(name).chance
    if metric(name).family != ACCURACY or not isinstance(chance, str):
        return True
    constant = setting.measured(chance)
    values = setting.measured(name)
    if not constant or len(constant) != len(values):
        return True
    pairs = list(zip(values, constant, strict=True))
    if len(pairs) < statistics.FEWEST:
        return all(1 - value <= FEWER * (1 - reached) for value, reached in pairs)
    return statistics.estimate([value - reached for value, reached in pairs], (-1.0, 1.0)).low > 0


def corrected(paired: Sequence[Contrast], first: Collection[str]) -> list[Contrast]:
    """Correct p values (Holm) within families: what one method and its baseline in one setting
    are tested for.

    The metrics ``first`` are one family, as they are chosen before anything is measured; the others
    belong together if they belong to one family of metrics (`Metric.family`). More settings,
    methods or side metrics make no family larger.
    """
    paired = [
        replace(test, family=HEADLINE if test.metric in first else metric(test.metric).family)
        for test in paired
    ]
    for members in grouped((test.comparison, at) for at, test in enumerate(paired)).values():
        tests = sum(not math.isnan(paired[at].p) for at in members)
        for at, p in zip(members, statistics.holm([paired[at].p for at in members]), strict=True):
            paired[at] = replace(paired[at], p_holm=p, tests=tests)
    return paired


def power(tested: Sequence[Contrast]) -> str:
    """Say of tests how large a difference must be to be significant, and how many families would
    show one by chance.
    """
    pairs = [test.difference.n for test in tested]
    families = len({test.comparison for test in tested})
    times = sorted(statistics.least_significant(test.difference.n, test.tests) for test in tested)
    from_to = " to ".join(dict.fromkeys(statistics.number(end, 1) for end in (times[0], times[-1])))
    return (
        f"with {between(pairs)} pairs, a difference is significant from {from_to} times its "
        f"standard deviation between pairs on; of {families} "
        f"{'family' if families == 1 else 'families'} of paired t tests, at most "
        f"{statistics.number(statistics.SIGNIFICANT * families, 1)} would show a difference "
        "by chance"
    )


def between(counts: Sequence[int]) -> str:
    """The smallest and the largest of some counts, such as "3 to 5"."""
    return " to ".join(dict.fromkeys((str(min(counts)), str(max(counts)))))


def baseline_of(results: Results, slot: str) -> str:
    """The component with which the others of a swept slot are compared: the default, or else the
    first.
    """
    at = results.keys.index(slot)
    names = [text(setting.values[at]) for setting in results.settings]
    return default if (default := USUAL[slot]) in names else names[0]


def _pairs_of_settings(results: Results, slot: str) -> Iterator[tuple[Setting, Setting, str]]:
    """Each setting of a method, the baseline's setting that it is compared with, and what they
    have in common.
    """
    if slot not in results.keys:
        return
    at = results.keys.index(slot)
    base = baseline_of(results, slot)
    for method in results.settings:
        for baseline in results.settings:
            if text(method.values[at]) != base and text(baseline.values[at]) == base:
                pairs = list(zip(results.keys, method.values, baseline.values, strict=True))
                same = [(key, mine) for key, mine, theirs in pairs if text(mine) == text(theirs)]
                # Fields of this slot that only one of the two components has need not be the same.
                unlike = [
                    (key, None in (mine, theirs))
                    for key, mine, theirs in pairs
                    if text(mine) != text(theirs)
                ]
                if all(
                    key == slot or (alone and key.startswith(slot.removesuffix("name")))
                    for key, alone in unlike
                ):
                    yield (
                        method,
                        baseline,
                        setting_label(tuple(k for k, _ in same), tuple(v for _, v in same)),
                    )


def _label(results: Results, slot: str, setting: Setting, other: Setting) -> str:
    """The label of a component, with the values of the fields that the other one does not have."""
    values = zip(results.keys, setting.values, other.values, strict=True)
    fields = {
        key: mine for key, mine, theirs in values if key != slot and text(mine) != text(theirs)
    }
    name = value_label(slot, setting.values[results.keys.index(slot)])
    return ", ".join(filter(None, (name, setting_label(tuple(fields), tuple(fields.values())))))


def contrast(
    slot: str, label: str, base: str, common: str, name: str, method: Setting, baseline: Setting
) -> Contrast:
    """Compare two settings in one metric, over the repetitions that both have; p is not yet
    corrected.

    The labels are those of the slot in which the method and its baseline differ, and of what they
    have in common.
    """
    mine, theirs = (
        {
            repeat(trial): float(trial[name])
            for trial in setting.finished
            if trial.get(name) is not None
        }
        for setting in (method, baseline)
    )
    repeats = {repeat(trial) for setting in (method, baseline) for trial in setting.trials}
    both = sorted(mine.keys() & theirs.keys(), key=_in_order)
    lowest, highest = statistics.limits(metric(name))
    width = highest - lowest if highest < statistics.INFINITY else statistics.INFINITY
    differences = independent([(run, mine[run] - theirs[run]) for run in both])
    bases = independent([(run, theirs[run]) for run in both])
    mean = math.fsum(bases) / len(bases) if bases else statistics.NAN
    partitions = any(trial.get(DEAL) is not None for trial in method.trials)
    form = "partition {0}, seed {1}" if partitions else "seed {1}"
    left_out = tuple(form.format(*run) for run in sorted(repeats - set(both), key=_in_order))
    difference = statistics.estimate(differences, (-width, width))
    return Contrast(
        slot,
        label,
        base,
        common,
        name,
        mean,
        difference,
        statistics.paired_test(differences),
        left_out,
    )


def _in_order(run: Repeat) -> tuple[tuple[int, str], ...]:
    """A key that sorts the texts of seeds by their numbers."""
    return tuple((len(seed), seed) for seed in run)
