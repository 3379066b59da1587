"""Which client is the most exposed, by name, where the data name their clients."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from orchestrator.report.data import Results, Setting

# The column of ``clients.parquet`` whose largest value is the final metric.
COLUMNS = {"calibrated_auc_worst_client": "calibrated_auc", "risk_worst_client": "risk"}


def most_exposed(results: Results, setting: Setting, metric: str) -> str:
    """Return who is the most exposed in the trials of a setting, as a clause; empty where clients have no names.

    Args:
        results: the results of a sweep.
        setting: the setting.
        metric: the final metric, a key of `COLUMNS`.
    """
    found = [_in_trial(results.folder / "trials" / str(one["id"]), COLUMNS[metric]) for one in setting.finished]
    counted = Counter(name for name in found if name)
    if not counted:
        return ""
    total = counted.total()
    if total == 1 or len(counted) == 1:
        return f"it is {next(iter(counted))}" + (f" in all {total} trials" if total > 1 else "")
    told = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    more = f", and {len(told) - 3} others" if len(told) > 3 else ""
    return "it is " + ", ".join(f"{name} in {n}" for name, n in told[:3]) + more + f" of {total} trials"


def _in_trial(folder: Path, column: str) -> str:
    """The name of the client with the largest value in the last round that has any; empty without names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = folder / "clients.parquet"
    try:
        if not {"name", column} <= set(pq.read_schema(file).names):
            return ""
        rows = pq.read_table(file, columns=["round", "name", column]).to_pylist()
    except (OSError, pa.ArrowException):
        return ""
    rows = [row for row in rows if row[column] is not None]
    last = max((row["round"] for row in rows), default=None)
    return str(max((row for row in rows if row["round"] == last), key=lambda row: row[column])["name"]) if rows else ""
