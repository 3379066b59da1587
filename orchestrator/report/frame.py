"""All numbers of a sweep as one tidy frame: a row for each setting and metric, and for each comparison with a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.report.data import Results
from orchestrator.report.tables.context import chance_of
from orchestrator.report.tables.differences import Contrast

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("metric", "value", "low", "high", "chance", "n", "against", "difference", "p", "p_holm")


def tidy(results: Results, paired: Sequence[Contrast] = ()) -> pd.DataFrame:
    """The frame: the swept keys, then `COLUMNS`; NaN where there is no such number.

    ``value`` is the mean over ``n`` independent runs, ``low`` and ``high`` the ends of its 95 % interval (of a guarantee, the
    range), ``chance`` the value by chance. ``difference`` is that from the baseline ``against`` on the same partitions and
    seeds, with the p value of the paired t test, and the same after Holm's correction within its family.

    Args:
        results: the results of a sweep.
        paired: its comparisons, see `orchestrator.report.tables.differences.contrasts`.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for place, setting in enumerate(results.settings):
        for name in results.metrics:
            found = setting.estimate(name)
            row = dict(zip(results.keys, setting.values, strict=True)) | {
                "metric": name,
                "value": found.mean,
                "n": found.n,
            }
            row |= {"low": found.low, "high": found.high, "chance": chance_of(setting, name)}
            tested = [one for one in paired if (one.place, one.metric) == (place, name)]
            rows += [
                row | {"against": one.baseline, "difference": one.difference.mean, "p": one.p, "p_holm": one.p_holm}
                for one in tested
            ] or [row]
    return pd.DataFrame(rows, columns=[*results.keys, *COLUMNS])
