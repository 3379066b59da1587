"""Trials without final metrics: those that a scheduler stopped have the values of their last round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.metric_names import BOOKKEEPING
from orchestrator.results.paths import Folder
from orchestrator.results.tables import read_table

STOPPED = "stopped"


def where_stopped(folder: Path, trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of trials, those of stopped ones with the last value of each metric before a scheduler stopped them.

    Args:
        folder: the results folder of the sweep.
        trials: the rows of ``trials.parquet``.
    """
    return [{**trial, **(_last_values(folder, trial["id"]) if trial["status"] == STOPPED else {})} for trial in trials]


def _last_values(folder: Path, trial: str) -> dict[str, Any]:
    import pandas as pd

    try:
        rounds = read_table(Folder(folder).trial(trial).table("rounds")).to_pandas()
    except (OSError, ValueError):
        return {}
    last = rounds.sort_values("round").ffill().tail(1).drop(columns=list(BOOKKEEPING), errors="ignore")
    return {name: value for name, value in last.iloc[0].items() if pd.notna(value)} if len(last) else {}
