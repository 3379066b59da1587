"""The trade-off table that closes a run on the terminal: who pays how much accuracy for how much privacy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.metric_names import metric
from orchestrator.report.data import Results, Setting, Trials, counts, results, rows
from orchestrator.report.estimate import FEWEST, estimate
from orchestrator.report.vocabulary import key_labels, value_label

if TYPE_CHECKING:
    from rich.table import Table

GAP = 2
DASH = "–"


@dataclass(frozen=True)
class Column:
    """One column: a metric, or two that share a cell. The columns of highest ``rank`` go first where it gets narrow.

    ``only`` are the kinds of sweeps that have the column, see `_kind`; none means all.
    """

    heading: str
    metrics: tuple[str, ...]
    rank: int
    digits: int = 3
    interval: bool = True
    only: tuple[str, ...] = ()


MINOR = 7  # columns of this rank go before anything else gives way
# In the order of the table. A column appears if any trial has a value for it.
COLUMNS = (
    Column("accuracy\nmajority", ("accuracy_majority",), 1),
    Column("accuracy\nminority", ("accuracy_minority",), 1),
    Column("accuracy\nclients", ("aggregated_accuracy",), 1, only=("protected",)),
    Column("accuracy\nserver", ("test_accuracy",), 1, only=("protected",)),
    Column("macro\nF1", ("f1_macro",), 3, interval=False, only=("protected",)),
    Column("MIA\nmajority", ("mia_accuracy_majority",), 1),
    Column("MIA\nminority", ("mia_accuracy_minority",), 1),
    Column("violations", ("violations",), 2, 1),
    Column("violations\nmaj. + min.", ("violations_majority", "violations_minority"), 3, 1, interval=False),
    Column("migrated", ("migrated",), 4, 1),
    Column("purity", ("purity",), 6, 2),
    Column("SIA\nmean", ("sia_mean",), 1),
    Column("SIA\nmax", ("sia_max",), 3, interval=False),
    Column("SIA\nCoV", ("sia_cov",), 2, 2),
    Column("SIA\nFI", ("sia_fi",), 4, 2, interval=False),
    Column("EOD", ("eod",), 2, 2),
    Column("EOD by\nchance", ("eod_null",), 4, 2, interval=False),
    Column("loss\nCoV", ("loss_cov",), 3, 2, interval=False),
    Column("loss\nFI", ("loss_fi",), MINOR, 2, interval=False),
    Column("epsilon", ("epsilon",), 1, 1, interval=False),
    Column("noise\nstd", ("noise_std",), 4, 4, interval=False),
    Column("CIA\ndifference", ("cia_difference",), 2),
    Column("CIA\nAUC", ("cia_auc",), 1, 2),
    Column("clipped", ("clip_fraction",), MINOR, 2, interval=False),
    Column("converged\nin round", ("converge_round",), MINOR, 1, interval=False, only=("sources",)),
    Column("seconds\n/ round", ("seconds_per_round",), 5, 2, interval=False, only=("groups", "plain")),
    Column("seconds\n/ round", ("seconds_per_round",), MINOR, 2, interval=False, only=("sources", "protected")),
)
# The overall accuracy leads where no finer one was measured.
OVERALL = Column("accuracy", ("accuracy",), 0)
# The names that Zhao et al. (2025) have for the halves of FinP, and the slots that the halves lie in.
FINP_ARMS = "Baseline: plain, FedAvg; FinP_client: FinP, FedAvg; FinP_server: plain, PCA or ALA; FinP: FinP, PCA or ALA"
ARMS, SERVERS = ("objective.name", "aggregation.name"), {"finp_pca", "finp_ala"}


def summary_table(trials: Trials, swept: Iterable[str], *, title: str = "", width: int = 100) -> Table:
    """The trade-off table: one row per setting, mean ± half of the 95 % interval over its seeds.

    ``trials`` is the table of trials or its rows, ``swept`` the swept keys (the seed among them or not), ``width`` the
    columns of the terminal. Where one line per cell does not fit, the intervals go below the means; where that does not
    fit either, the least telling columns go, and the caption names them. A setting without a finished trial has dashes
    and its reason.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = results(Path(), rows(trials), swept, {})
    columns, left_out, stacked = _fit(found, _columns(found), width)
    table = Table(
        title=Text(title) if title else None,
        caption=Text(_caption(found, columns, left_out)),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title_justify="left",
        caption_justify="left",
    )
    for heading in _key_headings(found):
        table.add_column(heading)
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    if _notes(found):
        table.add_column("no result", style="yellow", no_wrap=True)
    for setting in found.settings:
        cells = [*_key_cells(found, setting), *(_cell(setting, column, stacked) for column in columns)]
        table.add_row(*map(Text, cells), *([_note(setting)] if _notes(found) else []))
    return table


def _kind(present: set[str]) -> str:
    """What the sweep is about, by what was measured: decides which accuracies are told of the many that every run has."""
    if "accuracy_majority" in present:
        return "groups"
    if "sia_mean" in present:
        return "sources"
    return "protected" if present & {"noise_std", "epsilon", "cia_difference", "cia_auc"} else "plain"


def _columns(found: Results) -> list[Column]:
    present = {name for name in found.metrics if any(setting.measured(name) for setting in found.settings)}
    kind = _kind(present)
    columns = [c for c in COLUMNS if present.intersection(c.metrics) and (not c.only or kind in c.only)]
    if "accuracy" in present and not any(column.rank == 1 and "accuracy" in column.heading for column in columns):
        columns.insert(0, OVERALL)
    # Of metrics that nobody has given a column, the table shows what it can, and only where there is nothing else.
    return columns or [Column(metric(name).label.replace(" ", "\n"), (name,), 1) for name in found.metrics]


def _fit(found: Results, columns: list[Column], width: int) -> tuple[list[Column], list[Column], bool]:
    """The columns that fit into ``width``, those that do not, and whether intervals stand below the means."""
    fixed = sum(_wide([head, *cells]) + GAP for head, cells in zip(*_key_columns(found), strict=True))
    fixed += _wide(["no result", *_notes(found)]) + GAP if _notes(found) else 0
    major = [column for column in columns if column.rank < MINOR]
    for kept, stacked in ((columns, False), (major, False), (columns, True)):
        if fixed + _width(found, kept, stacked) <= width:
            return list(kept), [column for column in columns if column not in kept], stacked
    kept = list(columns)
    left_out: list[Column] = []
    while kept and fixed + _width(found, kept, stacked=True) > width:
        last = max(kept, key=lambda column: (column.rank, kept.index(column)))
        kept.remove(last)
        left_out.append(last)
    return kept, left_out, True


def _width(found: Results, columns: Sequence[Column], stacked: bool) -> int:
    cells = [[column.heading, *(_cell(s, column, stacked) for s in found.settings)] for column in columns]
    return sum(_wide(column) for column in cells) + GAP * (len(columns) - 1)


def _wide(cells: Iterable[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))


def _cell(setting: Setting, column: Column, stacked: bool) -> str:
    found = [estimate(setting.measured(name)) for name in column.metrics]
    if len(found) > 1:
        return " + ".join(e.parts(column.digits)[0] or DASH for e in found) if any(e.n for e in found) else DASH
    mean, half = found[0].parts(column.digits)
    half = half if found[0].n >= FEWEST else ""
    if not mean:
        return DASH
    # Without its zero the interval is narrower, and told from the mean at a glance.
    short = "0" if half and float(half) == 0 else half.removeprefix("0")
    between = "\n" if stacked else " "
    return f"{mean}{between}±{short}" if short and column.interval else mean


def _key_headings(found: Results) -> list[str]:
    return [label.replace(" ", "\n") for label in key_labels(found.keys)]


def _key_cells(found: Results, setting: Setting) -> list[str]:
    return [value_label(key, value) or DASH for key, value in zip(found.keys, setting.values, strict=True)]


def _key_columns(found: Results) -> tuple[list[str], list[list[str]]]:
    lines = [_key_cells(found, setting) for setting in found.settings]
    return _key_headings(found), [[line[i] for line in lines] for i in range(len(found.keys))]


def _note(setting: Setting) -> str:
    return setting.unfinished.replace(", ", "\n")


def _notes(found: Results) -> list[str]:
    return [line for setting in found.settings for line in _note(setting).split("\n") if line]


def _caption(found: Results, columns: Sequence[Column], left_out: Sequence[Column]) -> str:
    seeds = sorted({len(setting.finished) for setting in found.settings} - {0}) or [0]
    over = " to ".join(str(n) for n in dict.fromkeys((seeds[0], seeds[-1])))
    lines = [f"mean over {over} seeds, ± half of the 95 % interval"]
    if seeds[-1] < FEWEST:
        lines = [
            f"mean over {over} seeds; three or more have an interval" if seeds[-1] > 1 else "one seed: no intervals"
        ]
    if seeds == [0]:
        lines = ["no trial has finished"]
    elif len(counts(found.trials)) > 1:
        lines[0] += "; only finished trials count"
    lines += _reading(found, {name for column in columns for name in column.metrics})
    if left_out:
        names = ", ".join(column.heading.replace("\n", " ") for column in left_out)
        lines.append(f"not shown for lack of width, but in the report: {names}")
    return "\n".join(lines)


def _reading(found: Results, shown: set[str]) -> list[str]:
    """How to read the columns that are ``shown``, a line for each attack and each kind of accuracy."""
    lines = [FINP_ARMS] if _arms_of_finp(found) else []
    if any(name.startswith("mia_") for name in shown):
        lines.append("accuracy: of the clients of a group; MIA: of the attack on a model, 0.5 is guessing")
    if "aggregated_accuracy" in shown:
        lines.append("accuracy: on the clients' own tests, and on the server's" * ("test_accuracy" in shown))
    if "sia_mean" in shown:
        chance = {1 / value for setting in found.settings for value in setting.measured("sia_chance")}
        guess = f"1/{chance.pop():.3g}" if len(chance) == 1 else "1 / clients"
        lines.append(f"SIA: accuracy of source inference, {guess} is guessing; max: of the worst round")
    if "eod" in shown:
        lines.append("CoV, FI, EOD: how unequal clients are; by chance: EOD of clients who are equally exposed")
    if "epsilon" in shown:
        deltas = {value for setting in found.settings for value in setting.measured("delta")}
        at = f" at delta {deltas.pop():g}" if len(deltas) == 1 else ""
        lines.append(f"epsilon: of one client{at}, {DASH} where no guarantee holds")
    if "cia_difference" in shown or "cia_auc" in shown:
        lines.append("CIA: client inference, by a difference of losses (as published) and by AUC (0.5 is guessing)")
    return [line for line in lines if line]


def _arms_of_finp(found: Results) -> bool:
    """Whether the client's and the server's half of FinP are both switched on and off."""
    values = [
        {setting.values[found.keys.index(key)] for setting in found.settings} for key in ARMS if key in found.keys
    ]
    return (
        len(values) == len(ARMS)
        and {"plain", "finp"} <= values[0]
        and "fedavg" in values[1]
        and bool(SERVERS & values[1])
    )
