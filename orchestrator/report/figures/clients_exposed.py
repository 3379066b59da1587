"""How exposed each client is to an attack: one figure for every metric that declares `PerClient`.

Clients are identified by name where the data name them, else by number, and stand in the order of
the data in every panel and figure. If each seed partitions the data differently, the same number is
a different client in every trial; then clients are averaged by their rank within their group, the
most exposed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from algorithms.core.metric import Metric, PerClient
from algorithms.metrics.statistics import FEWEST, estimate, limits
from datasets.federation import printable
from orchestrator.report.data import Row, text
from orchestrator.report.figures import drawing
from orchestrator.report.figures.arrangement import Arrangement, by_method
from orchestrator.report.vocabulary import GROUP_COLORS, PALETTE

LONGEST = 14  # characters of a client's name
MOST_NAMED = 16  # with so many clients, a panel has no room for their names
WORST = drawing.REFERENCE | {"linestyle": ":"}


def clients_exposed(arr: Arrangement, of: Metric) -> Figure | None:
    """The attack's success on each client in the last attacked round, with a panel for each
    method: means with intervals.
    """
    attack = of.clients or PerClient("")
    swept = [key for key in arr.results.keys if attack.target and key.endswith(".target")]
    if attack.target and not swept:
        return None
    arr = by_method(arr, besides=swept)
    places = [(panel, hue, arr.cell(panel, (), hue)) for panel in arr.panels for hue in arr.hues]
    panels = [
        (*place, seeds)
        for place in places
        if (seeds := _seeds(arr, attack, of.name, place[2].trials))
    ]
    if not panels:
        return None
    every = [frame for *_, seeds in panels for frame in seeds]
    named = all(frame["name"].all() for frame in every)
    alike = named or all(frame[IDENTITY].equals(every[0][IDENTITY]) for frame in every)
    over = max(len(seeds) for *_, seeds in panels) >= FEWEST or not any(map(_has_bars, every))
    groups = sorted(
        {group for *_, seeds in panels for frame in seeds for group in frame["group"]} - {""}
    )
    free = [color for color in PALETTE if color not in GROUP_COLORS.values()]
    colors = {group: GROUP_COLORS.get(group, free[i % len(free)]) for i, group in enumerate(groups)}
    across = (
        len(arr.hues)
        if 1 < len(arr.hues) <= drawing.IN_A_ROW + 1 and len(arr.panels) > 1
        else drawing.IN_A_ROW
    )
    headings = [arr.heading(panel, (), hue) or arr.hue_label(hue) for panel, hue, *_ in panels]
    figure, axes = drawing.grid(arr, attack.title or of.label, headings, across)
    for ax, (_, hue, cell, seeds) in zip(axes, panels, strict=True):
        guessed = drawing.chances(cell.trials, of.name)
        if guessed:
            ax.axhline(sum(guessed) / len(guessed), **drawing.REFERENCE)
        if attack.worst and (worst := drawing.chances(cell.trials, attack.worst)):
            ax.axhline(sum(worst) / len(worst), **WORST)
        middle = (sum(guessed) / len(guessed) if guessed else 0.0) if attack.two_sided else None
        color = colors or {"": arr.look(hue)["color"]}
        _draw(ax, _points(seeds, middle, alike, over), color, alike)
    drawing.same_scale(
        axes, [""] * len(axes), drawing.RATES if limits(of) == (0, 1) else drawing.FREE
    )
    unit = f" ({of.unit})" if of.unit else ""
    order = "clients, in the order of the data" if alike else "clients, most exposed first"
    drawing.label_axes(axes, order, of.label + unit)
    look: dict[str, Any] = {"marker": "o", "linestyle": "none"}
    handles = [
        drawing.stroke(f"{group} clients", color=color, **look) for group, color in colors.items()
    ]
    handles += drawing.chance_handles(arr, [of.name])
    if attack.worst and drawing.chances(arr.trials, attack.worst):
        handles.append(drawing.stroke("most exposed client, by chance", **WORST))
    bars = "95 % interval over seeds, from three on" if over else attack.interval
    return drawing.legend(figure, handles, _note(attack, bars, every, alike, bool(colors)))


IDENTITY = ["client", "examples", "group", "name"]  # what a client is known by from seed to seed


def _has_bars(frame: pd.DataFrame) -> bool:
    return bool(frame["low"].notna().any())


def _note(
    attack: PerClient, bars: str, seeds: Sequence[pd.DataFrame], alike: bool, grouped: bool
) -> str:
    mark = (
        "a client in a run of its own" if attack.target else "a client in the last attacked round"
    )
    note = f"points: {mark}, mean over seeds; bars: {bars}"
    if not alike:
        return (
            f"{note}; by rank{' within their group' if grouped else ''}, because each seed "
            "partitions the data anew"
        )
    if max(map(len, seeds)) >= MOST_NAMED:
        return note
    return f"{note}; tick labels: {'names' if seeds[0]['name'].any() else 'numbers'} of clients"


def _seeds(
    arr: Arrangement, attack: PerClient, name: str, trials: Sequence[Row]
) -> list[pd.DataFrame]:
    """The clients of each seed with `IDENTITY`, value, low and high; seeds without a value are
    left out.
    """
    if not attack.target:
        return [
            frame
            for trial in trials
            if (frame := _last_attacked(arr, attack, name, trial)) is not None
        ]
    by_seed: dict[str, list[Row]] = {}
    for trial in trials:
        if trial.get(name) is not None:
            row = {
                "client": arr.results.value(trial, attack.target) or 0,
                "value": trial[name],
                "examples": 0,
            }
            row |= {
                "low": trial.get(attack.low),
                "high": trial.get(attack.high),
                "group": "",
                "name": "",
            }
            by_seed.setdefault(text(trial.get("seed")), []).append(row)
    frames = [pd.DataFrame(rows).astype({"low": float, "high": float}) for rows in by_seed.values()]
    return [frame.sort_values("client", ignore_index=True) for frame in frames]


def _last_attacked(
    arr: Arrangement, attack: PerClient, name: str, trial: Row
) -> pd.DataFrame | None:
    """The clients that were attacked in a trial's last attacked round, from ``clients.parquet``."""
    column = attack.column or name
    frame = arr.results.frame(trial, "clients", ("round", "client", column))
    if frame is None or frame[column].isna().all():
        return None
    # A group none of whose clients could be attacked is still one of several.
    groups = "group" in frame and frame["group"].nunique() > 1
    frame = frame[frame[column].notna()]
    frame = frame[frame["round"] == frame["round"].max()].sort_values("client", ignore_index=True)
    columns = {"value": column, "low": attack.low, "high": attack.high, "examples": "examples"}
    numbers = {
        to: frame[it].astype("float64") if it in frame else float("nan")
        for to, it in columns.items()
    }
    names = [printable(str(label)) for label in frame["name"]] if "name" in frame else ""
    group = frame["group"].map(text) if groups else ""
    return frame[["client"]].assign(**numbers, group=group, name=names)


def _points(
    seeds: Sequence[pd.DataFrame], middle: float | None, alike: bool, over: bool
) -> pd.DataFrame:
    """The clients with the mean over seeds and its interval, in the order in which they are drawn.

    Unless clients are ``alike`` in all seeds, those of one rank within their group are averaged.
    ``middle`` is the value by chance where values far below it are as much of a success. ``over``:
    intervals are those over seeds, else the means of those within the runs.
    """

    def exposure(values: pd.Series) -> pd.Series:
        return values if middle is None else (values - middle).abs()

    clients = pd.concat(seeds)
    if alike:
        clients["slot"] = clients["name"].where(clients["name"] != "", clients["client"])
    else:
        ranks = [
            exposure(frame["value"]).groupby(frame["group"]).rank(method="first", ascending=False)
            for frame in seeds
        ]
        clients["slot"] = pd.concat(ranks)
    by_slot = clients.groupby(["group", "slot"])
    points = by_slot[["client", "value", "low", "high"]].mean().reset_index()
    if over:
        intervals = [estimate(values) for values in by_slot["value"].agg(list)]
        points["low"] = [interval.low for interval in intervals]
        points["high"] = [interval.high for interval in intervals]
    order = points["client"] if alike else -exposure(points["value"])
    points = points.iloc[order.sort_values(kind="stable").index]
    return points.assign(place=range(len(points)))


def _draw(ax: Axes, points: pd.DataFrame, colors: Mapping[str, str], alike: bool) -> None:
    """Draw the clients of `_points`, colored by group."""
    size = 6 if len(points) < MOST_NAMED else 4 if len(points) <= 3 * MOST_NAMED else 3
    for group, members in points.groupby("group"):
        bars = [members["value"] - members["low"], members["high"] - members["value"]]
        style: dict[str, Any] = {
            "color": colors[group],
            "marker": "o",
            "markersize": size,
            "linestyle": "none",
        }
        ax.errorbar(
            members["place"], members["value"], yerr=bars, capsize=3 if size > 4 else 0, **style
        )
    ax.set_xticks([])
    if alike and len(points) < MOST_NAMED:
        labels = [slot if isinstance(slot, str) else f"{slot:g}" for slot in points["slot"]]
        labels = [
            label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…" for label in labels
        ]
        ax.set_xticks(
            points["place"],
            labels,
            fontsize=drawing.BODY,
            rotation=90 if max(map(len, labels)) > 3 else 0,
        )
