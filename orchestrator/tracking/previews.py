"""Tables in the form that MLflow shows and compares between runs: JSON, short enough for a page.

The whole tables are the Parquet files, which MLflow keeps but does not show.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.tables import read_table

FOLDER = "tables"
TAG = "mlflow.loggedArtifacts"  # the list of tables that MLflow shows
MOST_ROWS = 1000
# The tables of a trial that are shown; the scores and ROC curves of every example are too long for a page.
SHOWN = ("rounds", "clients", "attacks")


def trial_tables(folder: TrialFolder) -> dict[str, str]:
    """The tables of a trial as JSON, by file name. Of a long table, the last rows: those of the last rounds."""
    return {f"{name}.json": _as_json(folder.table(name)) for name in shown_tables(folder)}


def shown_tables(folder: TrialFolder) -> list[str]:
    """The names of a trial's tables that are shown."""
    return [name for name in SHOWN if folder.table(name).is_file()]


def sweep_tables(folder: Folder) -> dict[str, str]:
    """The table of all trials as JSON, by file name."""
    return {"trials.json": _as_json(folder.table)} if folder.table.is_file() else {}


def tag(names: list[str]) -> str:
    """The value of `TAG` for tables in `FOLDER`."""
    return json.dumps([{"path": f"{FOLDER}/{name}", "type": "table"} for name in names])


def _as_json(path: Path) -> str:
    """The last rows of a Parquet table, as ``{"columns": [...], "data": [[...], ...]}``; what is no number is null."""
    table = read_table(path)
    table = table.slice(max(0, table.num_rows - MOST_ROWS))
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    return json.dumps({"columns": table.column_names, "data": list(map(list, zip(*columns, strict=True)))})


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
