"""How exposed each client is to an attack, the most exposed first: one figure for every metric that declares `PerClient`.

Clients are identified by number, and shown by name where the data name them. If each seed partitions the data
differently, the same number is a different client in every trial; then clients are averaged by their rank within their
group.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from algorithms.core.metric import Metric, PerClient
from datasets.federation import printable
from orchestrator.report.data import Row, text
from orchestrator.report.figures.arrangement import Arrangement, by_method
from orchestrator.report.figures.drawing import (
    BODY,
    IN_A_ROW,
    MOST_NAMED,
    REFERENCE,
    Sheet,
    chances,
    dashed_handle,
    legend,
    method_heading,
    stroke,
    wrap,
)
from orchestrator.report.statistics import FEWEST, estimate
from orchestrator.report.vocabulary import GROUP_COLORS, PALETTE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 26  # characters of a line beside a panel
LONGEST = 14  # characters of a client's name
COLUMNS = ("client", "value", "low", "high", "examples", "group", "name")  # of a seed's clients; NaN and "": unknown


def clients_exposed(arr: Arrangement, of: Metric) -> Figure | None:
    """The attack's success on each client in the last attacked round, with a panel for each method."""
    attack = of.clients or PerClient("")
    swept = tuple(key for key in arr.results.keys if attack.target and key.endswith(".target"))
    if attack.target and not swept:
        return None
    arr = by_method(arr, besides=swept)
    places = [(panel, hue, arr.cell(panel, (), hue)) for panel in arr.panels for hue in arr.hues]
    cells = [(*place, seeds) for place in places if (seeds := _seeds(arr, attack, of.name, place[2]))]
    if not cells:
        return None
    alike = all(_same(seeds) for *_, seeds in cells)
    names = {group for *_, seeds in cells for one in seeds for group in one["group"]} - {""}
    groups = [*(group for group in GROUP_COLORS if group in names), *sorted(names - set(GROUP_COLORS))]
    free = [color for color in PALETTE if color not in GROUP_COLORS.values()]
    colors = {group: GROUP_COLORS.get(group, free[i % len(free)]) for i, group in enumerate(groups)}
    sheet = _sheet(of, attack, cells, alike, colors)
    headings = [method_heading(arr, panel, hue) for panel, hue, *_ in cells]
    ylabel = textwrap.fill(of.label, WIDTH) + (f"\n({of.unit})" if of.unit else "")
    across = len(arr.hues) if 1 < len(arr.hues) <= IN_A_ROW + 1 and len(arr.panels) > 1 else IN_A_ROW
    figure, axes = wrap(arr, sheet, headings, "clients, most exposed first", ylabel, across)
    for ax, (_, hue, trials, seeds) in zip(axes, cells, strict=True):
        found = chances(trials, of.name)
        chance = sum(found) / len(found) if found else None
        if chance is not None:
            ax.axhline(chance, **REFERENCE)
        if attack.worst and (worst := chances(trials, attack.worst)):
            ax.axhline(sum(worst) / len(worst), **REFERENCE | {"linestyle": ":"})
        middle = (chance or 0.0) if attack.two_sided else None
        _draw(ax, seeds, colors or {"": arr.palette[text(hue)]}, middle, alike)
    if of.unit == "fraction":
        low, high = axes[0].get_ylim()
        axes[0].set_ylim(max(-0.02, low) if low > 0.25 else -0.02, min(1.02, high))
    legend(figure, [], sheet)
    return figure


def _sheet(of: Metric, attack: PerClient, cells: Sequence[Any], alike: bool, colors: Mapping[str, str]) -> Sheet:
    seeds = [one for *_, found in cells for one in found]
    many = max(len(found) for *_, found in cells) >= FEWEST
    mark = "a client in a run of its own" if attack.target else "a client in the last attacked round"
    note = f"points: {mark}, {'mean over seeds' if many else 'one for each seed'}"
    if any(one["low"].notna().any() for one in seeds):
        note += f"; bars: {attack.interval}"
    elif many:
        note += "; bars: 95 % interval over seeds"
    if not alike:
        note += f"; by rank{' within their group' if colors else ''}, because each seed partitions the data anew"
    elif max(map(len, seeds)) < MOST_NAMED:
        note += f"; tick labels: {'names' if seeds[0]['name'].any() else 'numbers'} of clients"
    look: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 6}
    extra = [stroke(f"{group} clients", color=color, **look) for group, color in colors.items()]
    extra += [dashed_handle(f"by chance ({of.chance})" if isinstance(of.chance, float) else "by chance")]
    if attack.worst and any(chances(trials, attack.worst) for _, _, trials, _ in cells):
        extra.append(stroke("most exposed of equally exposed clients, by chance", **REFERENCE | {"linestyle": ":"}))
    return Sheet(attack.title or of.label, note, tuple(extra))


def _seeds(arr: Arrangement, attack: PerClient, name: str, trials: Sequence[Row]) -> list[pd.DataFrame]:
    """The clients of each seed, with `COLUMNS`; seeds without a value are left out."""
    import pandas as pd

    if not attack.target:
        found = [_last_attacked(arr, attack, name, trial) for trial in trials]
        return [one for one in found if one is not None]
    by_seed: dict[str, list[Row]] = {}
    for trial in trials:
        if trial.get(name) is not None:
            row = {"client": arr.results.value(trial, attack.target) or 0, "value": trial[name], "examples": 0}
            row |= {"low": trial.get(attack.low), "high": trial.get(attack.high), "group": "", "name": ""}
            by_seed.setdefault(text(trial.get("seed")), []).append(row)
    frames = [pd.DataFrame(own).astype({"low": float, "high": float}) for own in by_seed.values()]
    return [frame.sort_values("client", ignore_index=True) for frame in frames]


def _last_attacked(arr: Arrangement, attack: PerClient, name: str, trial: Row) -> pd.DataFrame | None:
    """The clients that were attacked in a trial's last attacked round, from ``clients.parquet``."""
    column = attack.column or name
    frame = arr.results.frame(trial, "clients", ("round", "client", column))
    if frame is None or frame[column].isna().all():
        return None
    # A group none of whose clients could be attacked is still one of several.
    groups = "group" in frame and frame["group"].nunique() > 1
    frame = frame[frame[column].notna()]
    frame = frame[frame["round"] == frame["round"].max()].sort_values("client", ignore_index=True)
    own = {"value": column, "low": attack.low, "high": attack.high, "examples": "examples"}
    numbers = {to: frame[it].astype("float64") if it in frame else float("nan") for to, it in own.items()}
    names = [printable(str(one)) for one in frame["name"]] if "name" in frame else ""
    group = frame["group"].map(text) if groups else ""
    return frame[["client"]].assign(**numbers, group=group, name=names)


def _same(seeds: Sequence[pd.DataFrame]) -> bool:
    """Whether all seeds have the same clients, judged by their numbers, numbers of examples, groups and names."""
    columns = ["client", "examples", "group", "name"]
    return all(one[columns].equals(seeds[0][columns]) for one in seeds)


def _draw(
    ax: Axes, seeds: Sequence[pd.DataFrame], colors: Mapping[str, str], middle: float | None, alike: bool
) -> None:
    """Draw means over three or more seeds, else each seed, in the order of the clients' mean exposure.

    Args:
        ax: the panel.
        seeds: the clients of each seed.
        colors: by group.
        middle: the value by chance if values far below it are as much of a success; else None.
        alike: whether a client is the same in all seeds; if not, clients of one rank within their group are averaged.
    """
    import pandas as pd

    placed = []
    for one in seeds:
        exposure = one["value"] if middle is None else (one["value"] - middle).abs()
        one = one.assign(exposure=exposure).sort_values(["group", "exposure"], ascending=[True, False], kind="stable")
        placed.append(one.assign(slot=one["client"] if alike else one.groupby("group").cumcount()))
    whole = pd.concat(placed)
    means = whole.groupby(["group", "slot"])["value"].mean()
    exposed = (means if middle is None else (means - middle).abs()).sort_values(ascending=False, kind="stable")
    place = {key: i for i, key in enumerate(exposed.index)}
    drawn = [_over_seeds(whole)] if len(seeds) >= FEWEST else placed
    size = 6 if len(place) < MOST_NAMED else 4 if len(place) <= 3 * MOST_NAMED else 3
    for j, one in enumerate(drawn):
        aside = (j - (len(drawn) - 1) / 2) * 0.3
        one = one.assign(at=[place[key] + aside for key in zip(one["group"], one["slot"], strict=True)])
        for group, own in one.sort_values("at").groupby("group"):
            bars = [own["value"] - own["low"], own["high"] - own["value"]]
            style: dict[str, Any] = {"color": colors[group], "marker": "o", "markersize": size, "linestyle": "none"}
            ax.errorbar(own["at"], own["value"], yerr=bars, capsize=3 if size > 4 else 0, **style)
    if alike and len(place) < MOST_NAMED:
        called = seeds[0].set_index("client")["name"]
        words = [called[slot] or f"{slot:g}" for _, slot in place]
        labels = [one if len(one) <= LONGEST else f"{one[: LONGEST - 1]}…" for one in words]
        ax.set_xticks(range(len(place)), labels, fontsize=BODY, rotation=90 if max(map(len, labels)) > 3 else 0)
    else:
        ax.set_xticks([])


def _over_seeds(whole: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds; without intervals within the runs, the ends are those of the interval over seeds."""
    import pandas as pd

    within, rows = whole["low"].notna().any(), []
    for (group, slot), own in whole.groupby(["group", "slot"]):
        found = estimate(own["value"].dropna().tolist())
        ends = (own["low"].mean(), own["high"].mean()) if within else (found.low, found.high)
        rows.append({"group": group, "slot": slot, "value": found.mean, "low": ends[0], "high": ends[1]})
    return pd.DataFrame(rows)
