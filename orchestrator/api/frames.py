"""A sweep's results as pandas DataFrames: the tables of all trials in one, with the swept values beside every row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orchestrator.report.data import DEAL, Results, counts
from orchestrator.results.paths import Folder
from orchestrator.results.tables import join_tables, read_table

if TYPE_CHECKING:
    import pandas as pd

TRIAL = "trial"  # the column with the trial's id in the tables of trials


def places(read: Results) -> list[str]:
    """The columns that say which trial a row belongs to: swept keys, then the seeds that the trials have."""
    seeds = [key for key in (DEAL, "seed") if any(trial.get(key) is not None for trial in read.trials)]
    return [*read.keys, *(key for key in seeds if key not in read.keys)]


def trials_frame(read: Results) -> pd.DataFrame:
    """One row per trial: id, status, swept values and seeds, then the other columns of ``trials.parquet``."""
    import pandas as pd

    first = ["id", "status", *places(read)]
    names = list(dict.fromkeys([*first, *(name for trial in read.trials for name in trial)]))
    return pd.DataFrame([{name: trial.get(name) for name in names} for trial in read.trials], columns=names)


def table_frame(read: Results, name: str) -> pd.DataFrame:
    """All rows of one of the trials' tables, with the trial's id, swept values and seeds in front.

    Args:
        read: the results.
        name: one of `orchestrator.results.record.TABLES`.

    Returns:
        The rows, trial after trial in the order of `trials_frame`; empty if no trial has this table.
    """
    import pandas as pd

    folder, tables = Folder(read.folder), []
    for trial in read.trials:
        try:
            table = read_table(folder.trial(trial["id"]).table(name))
        except (OSError, ValueError):  # a trial that has not finished has no tables
            continue
        tables.append(table.add_column(0, TRIAL, pa.array([trial["id"]] * len(table), pa.string())))
    if not tables:
        return pd.DataFrame(columns=[TRIAL, *places(read)])
    frame: pd.DataFrame = join_tables(tables).to_pandas()
    by_id = {trial["id"]: trial for trial in read.trials}
    owner = frame[TRIAL].tolist()
    new = [key for key in places(read) if key not in frame]
    for at, key in enumerate(new):
        frame.insert(at + 1, key, [by_id[ident].get(key) for ident in owner])
    return frame


def summary_frame(read: Results) -> pd.DataFrame:
    """One row per setting, as in ``summary.csv``: swept values, trials by status, then every metric with its interval.

    A metric has four columns: its mean, the ends ``_low`` and ``_high`` of the 95 % interval (empty below three values),
    and ``_seeds``, the number of independent values.
    """
    import pandas as pd

    statuses, lines = list(counts(read.trials)), []
    for setting in read.settings:
        line: dict[str, Any] = dict(zip(read.keys, setting.values, strict=True))
        line |= {
            "trials": len(setting.trials),
            **{status: counts(setting.trials).get(status, 0) for status in statuses},
        }
        for name in read.metrics:
            found = setting.estimate(name)
            line |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_seeds": found.n}
        lines.append(line)
    return pd.DataFrame(lines)
