"""How exposed each client is to an attack, the most exposed first: one figure for every metric
that declares `PerClient`.

Clients are identified by number, and shown by name where the data name them. If each seed
partitions the data differently, the same number is a different client in every trial; then clients
are averaged by their rank within their group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from algorithms.core.metric import Metric, PerClient
from algorithms.metrics.statistics import estimate, limits
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
    alike = all(
        frame[IDENTITY].equals(seeds[0][IDENTITY]) for *_, seeds in panels for frame in seeds
    )
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
        _draw(ax, seeds, colors or {"": arr.look(hue)["color"]}, middle, alike)
    drawing.same_scale(
        axes, [""] * len(axes), drawing.RATES if limits(of) == (0, 1) else drawing.FREE
    )
    unit = f" ({of.unit})" if of.unit else ""
    drawing.label_axes(axes, "clients, most exposed first", of.label + unit)
    look: dict[str, Any] = {"marker": "o", "linestyle": "none"}
    handles = [
        drawing.stroke(f"{group} clients", color=color, **look) for group, color in colors.items()
    ]
    handles += drawing.chance_handles(arr, [of.name])
    if attack.worst and drawing.chances(arr.trials, attack.worst):
        handles.append(drawing.stroke("most exposed client, by chance", **WORST))
    every = [frame for *_, seeds in panels for frame in seeds]
    return drawing.legend(figure, handles, _note(attack, every, alike, bool(colors)))


IDENTITY = ["client", "examples", "group", "name"]  # what a client is known by from seed to seed


def _note(attack: PerClient, seeds: Sequence[pd.DataFrame], alike: bool, grouped: bool) -> str:
    mark = (
        "a client in a run of its own" if attack.target else "a client in the last attacked round"
    )
    within = any(frame["low"].notna().any() for frame in seeds)
    note = (
        f"points: {mark}, mean over seeds; bars: "
        f"{attack.interval if within else '95 % interval over seeds'}"
    )
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


def _draw(
    ax: Axes,
    seeds: Sequence[pd.DataFrame],
    colors: Mapping[str, str],
    middle: float | None,
    alike: bool,
) -> None:
    """Draw means over seeds with intervals, in the order of the clients' mean exposure, colored
    by group.

    ``middle`` is the value by chance where values far below it are as much of a success. Unless
    clients are ``alike`` in all seeds, those of one rank within their group are averaged.
    """

    def exposure(values: pd.Series) -> pd.Series:
        return values if middle is None else (values - middle).abs()

    clients = pd.concat(seeds)
    ranks = [
        exposure(frame["value"]).groupby(frame["group"]).rank(method="first", ascending=False)
        for frame in seeds
    ]
    clients["slot"] = clients["client"] if alike else pd.concat(ranks)
    means = clients.groupby(["group", "slot"], as_index=False)[["value", "low", "high"]].mean()
    if means["low"].isna().all():  # no interval within the runs: that over seeds
        by_slot = clients.groupby(["group", "slot"])["value"].agg(list)
        over = [estimate(values) for values in by_slot]
        means = means.assign(
            low=[interval.low for interval in over], high=[interval.high for interval in over]
        )
    means = means.iloc[exposure(means["value"]).sort_values(ascending=False, kind="stable").index]
    means = means.assign(place=range(len(means)))
    size = 6 if len(means) < MOST_NAMED else 4 if len(means) <= 3 * MOST_NAMED else 3
    for group, members in means.groupby("group"):
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
    if alike and len(means) < MOST_NAMED:
        names = seeds[0].set_index("client")["name"]
        labels = [names[slot] or f"{slot:g}" for slot in means["slot"]]
        labels = [
            label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…" for label in labels
        ]
        ax.set_xticks(
            means["place"],
            labels,
            fontsize=drawing.BODY,
            rotation=90 if max(map(len, labels)) > 3 else 0,
        )
