"""The trials of a sweep that is at work, or that was killed: its table says how it stood when it was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.results.folder import Folder
from orchestrator.results.record import read_record
from orchestrator.results.sweep_files import SETTLED

if TYPE_CHECKING:
    import pandas as pd

UNFINISHED = "unfinished"


def so_far(folder: Path, trials: pd.DataFrame) -> pd.DataFrame:
    """The table of trials with what those have come to that have ended since it was written.

    A run writes ``trials.parquet`` when it starts and when it ends. Nothing is written here, since it may be at work.

    Args:
        folder: the results folder of the sweep.
        trials: its table, with the columns id and status.
    """
    import pandas as pd

    open_ = [str(trial) for trial in trials.loc[~trials["status"].isin(SETTLED), "id"]]
    records = {trial: record for trial in open_ if (record := read_record(Folder(folder).trial(trial)))}
    if not records:
        return trials
    rows = trials.to_dict("records")
    for row in rows:
        if record := records.get(row["id"]):
            row |= {"status": record.get("status", UNFINISHED), "reason": record.get("reason")}
            row |= {"notes": "; ".join(notes)} if (notes := record.get("notes")) else {}
            row |= record.get("metrics", {})
    return pd.DataFrame.from_records(rows)
