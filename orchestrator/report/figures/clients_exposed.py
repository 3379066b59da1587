"""How exposed each client is to an attack, the most exposed first; one function for all attacks.

Clients are identified by number, and shown by name where the data name them. If each seed partitions the data
differently, the same number is a different client in every trial; then clients are averaged by their rank within their
group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.report.data import Floats
from orchestrator.report.estimate import FEWEST, estimate
from orchestrator.report.figures.arrangement import Arrangement, Point, by_method
from orchestrator.report.figures.drawing import BODY, IN_A_ROW, REFERENCE, Sheet, dashed_handle, legend, stroke, wrap
from orchestrator.report.figures.exposure import MOST_NAMED, method_heading
from orchestrator.report.figures.marks import chances
from orchestrator.report.figures.settings import table_of
from orchestrator.report.values import Row, Value, text
from orchestrator.report.vocabulary import GROUP_COLORS, PALETTE

LONGEST = 14  # characters of a client's name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Inference:
    """An attack whose success on each client is measured.

    Attributes:
        title: the first line of the figure.
        ylabel: the label of the vertical axis.
        column: the column of ``clients.parquet``, or the final metric of a run that attacks one client.
        low: the column with the lower end of an interval within one run; empty if there is none.
        high: the column with its upper end.
        interval: what that interval is.
        chance: the value by chance; None if it is 1 / clients.
        target: the field of a run that names the attacked client, if each run attacks only one.
        two_sided: whether a value far below chance is as much of a success as one above it.
        worst: the final metric with the value that the most exposed client shows by chance.
        by_chance: what ``worst`` is, for the legend.
    """

    title: str
    ylabel: str
    column: str
    low: str = ""
    high: str = ""
    interval: str = ""
    chance: float | None = 0.5
    target: str = ""
    worst: str = ""
    by_chance: str = "most exposed client, by chance"
    two_sided: bool = False

    def exposure(self, value: Floats) -> Floats:
        """How exposed clients are, by which they are ranked: the success, or how far it is from chance."""
        return abs(value - (self.chance or 0.0)) if self.two_sided else value


MEMBERSHIP = Inference(
    "Membership inference on each client's examples, under the model that it uses",
    "attack accuracy (fraction)",
    "risk",
    worst="risk_worst_client_null",
)
CALIBRATED = Inference(
    "Calibrated membership inference on each client's records, mean over replicas",
    "AUC (fraction)",
    "calibrated_auc",
    worst="calibrated_auc_worst_client_null",
)
PASSIVE = Inference(
    "FedMIA on each client's updates",
    "AUC (fraction)",
    "fedmia_auc",
    "fedmia_auc_low",
    "fedmia_auc_high",
    "95 % interval over one run's records",
    worst="fedmia_auc_max_null",
    by_chance="most exposed of equally exposed clients",
)
WHITEBOX = Inference(
    "White-box membership inference against each client", "attack accuracy (fraction)", "whitebox_accuracy"
)
SOURCE = Inference(
    "Source inference against each client",
    "attack accuracy (fraction)",
    "sia_accuracy",
    "sia_low",
    "sia_high",
    "95 % binomial interval of one run's targets",
    chance=None,
)
CLIENT = Inference(
    "Client inference against each client",
    "AUC of the paired test (fraction)",
    "cia_auc",
    "cia_auc_low",
    "cia_auc_high",
    "95 % interval over the pairs of federations of one run",
    target="attacks.cia.target",
    two_sided=True,
)


@dataclass(frozen=True, eq=False)
class Clients:
    """The clients of one seed: numbers, values, ends of intervals (NaN without one) and examples [clients], groups, names."""

    client: Floats
    value: Floats
    low: Floats
    high: Floats
    examples: Floats
    group: tuple[str, ...]
    name: tuple[str, ...] = ()

    def __getitem__(self, order: list[int]) -> Clients:
        return Clients(
            self.client[order],
            self.value[order],
            self.low[order],
            self.high[order],
            self.examples[order],
            tuple(self.group[i] for i in order),
            tuple(self.name[i] for i in order) if self.name else (),
        )

    def label(self, number: float) -> str:
        """The name of a client, else its number."""
        return self.name[self.client.tolist().index(number)] if self.name else f"{number:.0f}"


def clients_exposed(arr: Arrangement, attack: Inference) -> Figure | None:
    """The attack's success on each client in the last attacked round, with a panel for each method."""
    swept = tuple(key for key in arr.results.keys if attack.target and key.endswith(".target"))
    if attack.target and not swept:
        return None
    arr = by_method(arr, besides=swept)
    found = [(panel, hue, arr.cell(panel, (), hue)) for panel in arr.panels for hue in arr.hues]
    cells = [(panel, hue, trials, _by_seed(arr, attack, trials)) for panel, hue, trials in found]
    cells = [cell for cell in cells if cell[3]]
    if not cells:
        return None
    named = all(_same(seeds) for *_, seeds in cells)
    groups = _ordered({group for *_, seeds in cells for one in seeds for group in one.group} - {""})
    colors = dict(zip(groups, _colors(groups), strict=True))
    sheet = _sheet(attack, cells, named, colors)
    headings = [method_heading(arr, panel, hue) for panel, hue, *_ in cells]
    across = len(arr.hues) if 1 < len(arr.hues) <= IN_A_ROW + 1 and len(arr.panels) > 1 else IN_A_ROW
    figure, axes = wrap(arr, sheet, headings, "clients, most exposed first", attack.ylabel, across)
    for ax, (_, hue, trials, seeds) in zip(axes, cells, strict=True):
        _reference(ax, attack, trials, seeds)
        ranked = seeds if named else [_ranked(one, attack) for one in seeds]
        _draw(ax, attack, ranked, colors or {"": arr.palette[text(hue)]}, named)
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(max(-0.02, low) if low > 0.25 else -0.02, min(1.02, high))
    legend(figure, [], sheet)
    return figure


CLIENTS_EXPOSED: dict[str, Callable[[Arrangement], Figure | None]] = {
    "clients_exposed_membership": partial(clients_exposed, attack=MEMBERSHIP),
    "clients_exposed_calibrated": partial(clients_exposed, attack=CALIBRATED),
    "clients_exposed_fedmia": partial(clients_exposed, attack=PASSIVE),
    "clients_exposed_whitebox": partial(clients_exposed, attack=WHITEBOX),
    "clients_exposed_source": partial(clients_exposed, attack=SOURCE),
    "clients_exposed_client": partial(clients_exposed, attack=CLIENT),
}


def _sheet(
    attack: Inference,
    cells: Sequence[tuple[Point, Value, list[Row], list[Clients]]],
    named: bool,
    colors: dict[str, str],
) -> Sheet:
    most = max(len(seeds) for *_, seeds in cells)
    within = attack.interval if any((one.low == one.low).any() for *_, seeds in cells for one in seeds) else ""
    mark = "a client in the last attacked round" if not attack.target else "a client in a run of its own"
    points = f"points: {mark}, " + ("mean over seeds" if most >= FEWEST else "one for each seed")
    bars = f"; bars: {within}" if within else "; bars: 95 % interval over seeds" if most >= FEWEST else ""
    ranks = ("means are by rank" if most >= FEWEST else "clients are in order of rank") + (
        " within their group" if colors else ""
    )
    few = max(len(one.value) for *_, seeds in cells for one in seeds) < MOST_NAMED
    called = "names" if cells[0][3][0].name else "numbers"
    numbers = f"; tick labels: {called} of clients" if few else ""
    labels = numbers if named else f"; {ranks}, because each seed partitions the data anew"
    extra = [dashed_handle("guessing (1 / clients)" if attack.chance is None else f"guessing ({attack.chance})")]
    if attack.worst and any(trial.get(attack.worst) is not None for _, _, trials, _ in cells for trial in trials):
        extra.append(stroke(attack.by_chance, **REFERENCE | {"linestyle": ":"}))
    marks = [
        stroke(f"{group} clients", color=color, marker="o", linestyle="none", markersize=6)
        for group, color in colors.items()
    ]
    return Sheet(attack.title, f"{points}{bars}{labels}", (*marks, *extra))


def _by_seed(arr: Arrangement, attack: Inference, trials: Sequence[Row]) -> list[Clients]:
    """The clients of each seed; seeds without a value are left out."""
    if not attack.target:
        found = [_last_attacked(arr, attack, trial) for trial in trials]
        return [one for one in found if one is not None]
    by_seed: dict[str, list[Row]] = {}
    for trial in trials:
        if trial.get(attack.column) is not None:
            by_seed.setdefault(text(trial.get("seed")), []).append(trial)
    return [_attacked_one_by_one(arr, attack, own) for own in by_seed.values()]


def _last_attacked(arr: Arrangement, attack: Inference, trial: Row) -> Clients | None:
    """The clients that were attacked in a trial's last attacked round, from ``clients.parquet``."""
    import numpy as np

    frame = table_of(arr, trial, "clients", ("round", "client", attack.column))
    several = frame is not None and "group" in frame and frame["group"].nunique() > 1
    frame = frame[frame[attack.column].notna()] if frame is not None else None
    if frame is None or frame.empty:
        return None
    frame = frame[frame["round"] == frame["round"].max()].sort_values("client")
    nothing = np.full(len(frame), np.nan)
    columns = ("client", attack.column, attack.low, attack.high, "examples")
    client, value, low, high, examples = (
        frame[name].to_numpy("float64", na_value=np.nan) if name in frame else nothing for name in columns
    )
    # A group none of whose clients could be attacked is still one of several.
    groups = tuple(map(text, frame["group"])) if several else ("",) * len(frame)
    names = tuple(map(str, frame["name"])) if "name" in frame else ()
    return Clients(client, value, low, high, np.nan_to_num(examples), groups, names)


def _attacked_one_by_one(arr: Arrangement, attack: Inference, trials: Sequence[Row]) -> Clients:
    """The clients that the trials of one seed attacked, each in a run of its own."""
    import numpy as np

    trials = sorted(trials, key=lambda trial: arr.results.value(trial, attack.target) or 0)
    names = (attack.column, attack.low, attack.high)
    value, low, high = (
        np.array([np.nan if (v := t.get(name)) is None else v for t in trials], float) for name in names
    )
    client = np.array([arr.results.value(trial, attack.target) or 0 for trial in trials], float)
    return Clients(client, value, low, high, np.zeros(len(trials)), ("",) * len(trials))


def _same(seeds: Sequence[Clients]) -> bool:
    """Whether all seeds have the same clients, judged by their numbers, numbers of examples, groups and names."""
    keys = {(tuple(one.client.tolist()), tuple(one.examples.tolist()), one.group, one.name) for one in seeds}
    return len(keys) == 1


def _ranked(one: Clients, attack: Inference) -> Clients:
    """The clients sorted by group and, within it, by exposure."""
    exposure = attack.exposure(one.value)
    return one[sorted(range(len(one.value)), key=lambda i: (one.group[i], -exposure[i]))]


def _reference(ax: Axes, attack: Inference, trials: Sequence[Row], seeds: Sequence[Clients]) -> None:
    chance = 1 / max(len(one.value) for one in seeds) if attack.chance is None else attack.chance
    ax.axhline(chance, **REFERENCE)
    worst = chances(trials, attack.worst.removesuffix("_null")) if attack.worst else []
    if worst:
        ax.axhline(sum(worst) / len(worst), **REFERENCE | {"linestyle": ":"})


def _draw(ax: Axes, attack: Inference, seeds: Sequence[Clients], colors: dict[str, str], named: bool) -> None:
    """Draw means over three or more seeds, else each seed; the clients of all seeds are in the same order."""
    import numpy as np

    groups = _ordered({group for one in seeds for group in one.group})
    slots = [(g, i) for g in groups for i in range(max(one.group.count(g) for one in seeds))]
    held = [_slots(one, slots) for one in seeds]  # of each seed [4, slots]: value, low, high, number of the client
    means = np.nanmean([values[0] for values in held], axis=0)
    order = (-attack.exposure(means)).argsort(kind="stable")
    many = len(seeds) >= FEWEST
    drawn = [_over_seeds(held)] if many else held
    size = 6 if len(slots) < MOST_NAMED else 4 if len(slots) <= 3 * MOST_NAMED else 3
    for j, (value, low, high, _) in enumerate(drawn):
        at = np.arange(len(slots)) + (j - (len(drawn) - 1) / 2) * 0.3
        for group in groups:
            mine = np.array([slots[i][0] == group for i in order])
            own, places = order[mine], at[mine]
            bars = np.array([value[own] - low[own], high[own] - value[own]])
            style: dict[str, Any] = {"color": colors[group], "marker": "o", "markersize": size, "linestyle": "none"}
            ax.errorbar(places, value[own], yerr=bars, capsize=3 if size > 4 else 0, **style)
    if named and len(slots) < MOST_NAMED:
        labels = [_fitting(seeds[0].label(number)) for number in held[0][3][order]]
        ax.set_xticks(range(len(slots)), labels, fontsize=BODY, rotation=90 if max(map(len, labels)) > 3 else 0)
    else:
        ax.set_xticks([])


def _fitting(name: str) -> str:
    """A name that has room under an axis."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _slots(one: Clients, slots: Sequence[tuple[str, int]]) -> Floats:
    """Value, ends of the interval and number of the i-th client of each group [4, slots]; NaN if the group is smaller."""
    import numpy as np

    of_group = {group: [i for i, own in enumerate(one.group) if own == group] for group in set(one.group)}
    places = [of_group.get(group, [])[i : i + 1] for group, i in slots]
    columns = (one.value, one.low, one.high, one.client)
    return np.array([[column[place[0]] if place else np.nan for place in places] for column in columns])


def _over_seeds(held: Sequence[Floats]) -> Floats:
    """Means over seeds [4, slots]; without intervals within the runs, the ends are those of the interval over seeds."""
    import numpy as np

    value, low, high, number = np.moveaxis(np.array(held), 1, 0)  # each [seeds, slots]
    if not np.isnan(low).all():
        return np.array([np.nanmean(value, axis=0), np.nanmean(low, axis=0), np.nanmean(high, axis=0), number[0]])
    found = [estimate([v for v in column if v == v]) for column in value.T.tolist()]
    ends = [[getattr(e, end) if e.n >= FEWEST else np.nan for e in found] for end in ("low", "high")]
    return np.array([[e.mean for e in found], *ends, number[0]])


def _ordered(groups: set[str]) -> list[str]:
    """The majority, the minority, then other groups by name."""
    known = [group for group in GROUP_COLORS if group in groups]
    return known + sorted(groups - set(known))


def _colors(groups: Sequence[str]) -> list[str]:
    free = [color for color in PALETTE if color not in GROUP_COLORS.values()]
    return [GROUP_COLORS.get(group, free[i % len(free)]) for i, group in enumerate(groups)]
