"""One setting of a sweep in a figure: its trials, its name in words, and the tables of its trials."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from orchestrator.report.figures.arrangement import Arrangement, Point
from orchestrator.report.figures.marks import is_ordered
from orchestrator.report.values import Row, Value
from orchestrator.report.vocabulary import setting_label

if TYPE_CHECKING:
    import pandas as pd


def own_positions(arr: Arrangement) -> list[Point]:
    """The values along the axis; a single () if the axis shows the same as the colors."""
    return [()] if arr.axis == (arr.hue,) else arr.positions


def trials_at(arr: Arrangement, panel: Point, position: Point, hue: Value) -> list[Row]:
    """The trials of a setting; ``position`` is one of `own_positions`."""
    return arr.cell(panel, (hue,) if arr.axis == (arr.hue,) else position, hue)


def place_label(arr: Arrangement, panel: Point, position: Point) -> str:
    """A position and a panel in words, such as "minority ratio 0.1"."""
    words = arr.position_label(position).replace("\n", ", ") if position and not is_ordered(arr) else ""
    if position and is_ordered(arr):
        words = setting_label(arr.axis, position)
    return ", ".join(filter(None, (words, arr.panel_label(panel))))


def method_heading(arr: Arrangement, panel: Point, hue: Value) -> str:
    """A method and a panel in words."""
    return ", ".join(filter(None, (arr.hue_label(hue), arr.panel_label(panel))))


def table_of(arr: Arrangement, trial: Row, name: str, needed: Collection[str]) -> pd.DataFrame | None:
    """A table of a trial with all its columns; None if it is missing, empty, unreadable, or lacks a needed column."""
    import pandas as pd

    try:
        frame = pd.read_parquet(arr.results.folder / "trials" / trial["id"] / f"{name}.parquet")
    except (OSError, ValueError):
        return None
    return None if frame.empty or not set(needed) <= set(frame) else frame
