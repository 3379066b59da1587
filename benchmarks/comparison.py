"""Contenders side by side: who runs when, medians, ratios, the table, and the files.

Knows no contender by name but ours.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any, Protocol

from contender import Failed
from workloads import Target

OURS = "fedpriv"
COLUMNS = (
    "contender",
    "seconds",
    "fastest",
    "slowest",
    "ratio",
    "lowest",
    "highest",
    "target",
    "met",
)


class Asked(Protocol):
    """What a comparison needs of a contender."""

    name: str

    def ask(self, request: str) -> tuple[float, dict[str, Any]]: ...
    def halt(self) -> None: ...
    def wake(self) -> None: ...


@dataclass
class Measured:
    """What each contender took, lap by lap.

    Attributes:
        seconds: for each lap, the mean seconds of its rounds that count.
        parts: for each lap, the mean seconds of each part of these rounds, where the contender
            tells them.
        singles: for each lap, the seconds of every round; the first came after a pause.
        failed: who failed, and how.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    parts: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    singles: dict[str, list[list[float]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def interleaved(
    contenders: Sequence[Asked],
    laps: int,
    warm_up: int = 1,
    at_least: float = 0.0,
    told: Callable[[str], None] = lambda _: None,
) -> Measured:
    """``laps`` in which every contender has its turn, after ``warm_up`` that do not count.

    A turn is a round, or as many in a row as it takes to fill ``at_least`` seconds. Where it is
    more than one, the first does not count: in the milliseconds after a pause a contender fills its
    caches. Another contender begins each lap, so that nobody always follows the same one. Whoever
    waits is halted: idle Ray sessions would take their share of the cores. Who fails is left out
    from then on.
    """
    measured, running = Measured(), list(contenders)
    for one in running:
        one.halt()
    for lap in range(warm_up + laps):
        first = lap % max(len(running), 1)
        for one in running[first:] + running[:first]:
            one.wake()
            try:
                singles, parts = _turn(one, at_least)
            except Failed as failure:
                measured.failed[one.name] = str(failure)
                for what in (measured.seconds, measured.parts, measured.singles):
                    what.pop(one.name, None)
                running.remove(one)
                told(str(failure))
                continue
            finally:
                one.halt()
            if lap >= warm_up:
                seconds = mean(_counted(singles))
                measured.seconds.setdefault(one.name, []).append(seconds)
                measured.singles.setdefault(one.name, []).append(singles)
                if any(parts):
                    measured.parts.setdefault(one.name, []).append(_each(_counted(parts), mean))
                many = f" ({len(singles)} rounds)" if len(singles) > 1 else ""
                told(f"lap {lap - warm_up + 1} of {laps}: {one.name} {seconds:.3f} s{many}")
    return measured


def _turn(one: Asked, at_least: float) -> tuple[list[float], list[dict[str, float]]]:
    """The seconds of its rounds, and of their parts."""
    singles, parts = [], []
    while not singles or sum(singles) < at_least:
        seconds, answer = one.ask("round")
        singles.append(seconds)
        parts.append(answer.get("parts", {}))
    return singles, parts


def _counted(rounds: list[Any]) -> list[Any]:
    """All but the first, or the only one."""
    return rounds[1:] or rounds


def _each(
    parts: list[dict[str, float]], statistic: Callable[[list[float]], float]
) -> dict[str, float]:
    """The mean or median of every part; one that a round does not name took no time."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: statistic([part.get(name, 0.0) for part in parts]) for name in names}


def rows(measured: Measured, targets: dict[str, Target]) -> list[dict[str, Any]]:
    """One row for each contender (see `COLUMNS`): seconds per round, and how ours stand to them.

    ``ratio`` is that of the medians, ``lowest`` and ``highest`` are those of the single laps. For a
    target that limits our share of the other's time it is ours / other's, for one that asks how
    many times faster we are, other's / ours.
    """
    ours, found = measured.seconds.get(OURS), []
    for name, seconds in measured.seconds.items():
        row: dict[str, Any] = {"contender": name, "seconds": median(seconds)}
        row |= {"fastest": min(seconds), "slowest": max(seconds)}
        if ours and name != OURS:
            row |= _against(ours, seconds, targets.get(name, Target()))
        found.append({column: row.get(column) for column in COLUMNS})
    for name, target in targets.items():
        if name not in measured.seconds:
            missing = {
                "contender": name,
                "target": _written(target),
                "met": measured.failed.get(name, "not run"),
            }
            found.append({column: missing.get(column) for column in COLUMNS})
    return found


def _against(ours: list[float], theirs: list[float], target: Target) -> dict[str, Any]:
    share = median(ours) / median(theirs)
    laps = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    if target.faster is not None:
        laps, share = [1 / lap for lap in laps], 1 / share
        met = share >= target.faster
    else:
        met = target.at_most is None or share <= target.at_most
    row = {"ratio": share, "lowest": min(laps), "highest": max(laps)}
    return row | ({"target": _written(target), "met": met} if target != Target() else {})


def _written(target: Target) -> str | None:
    if target.faster is not None:
        return f"at least {target.faster:g} x faster"
    return None if target.at_most is None else f"at most {target.at_most:g} of its time"


def table(title: str, found: list[dict[str, Any]]) -> str:
    """The rows as text, in columns."""
    lines = [("contender", "s per round", "fedpriv", "single laps", "target", "")]
    for row in found:
        seconds = "-" if row["seconds"] is None else f"{row['seconds']:.3f}"
        times = " x faster" if row["target"] and "faster" in row["target"] else ""
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}{times}"
        spread = "" if row["ratio"] is None else f"{row['lowest']:.2f} to {row['highest']:.2f}"
        verdict = {True: "met", False: "missed", None: ""}.get(row["met"], row["met"])
        lines.append((row["contender"], seconds, ratio, spread, row["target"] or "", verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]) - 1)]
    padded = ["  ".join([*map(str.ljust, line[:-1], widths), line[-1]]) for line in lines]
    return "\n".join([title, *(line.rstrip() for line in padded)])


def shares(parts: list[dict[str, float]]) -> str:
    """Where rounds went: the median seconds of each part, the longest first."""
    medians = _each(parts, median)
    return ", ".join(
        f"{name} {seconds:.3f} s"
        for name, seconds in sorted(medians.items(), key=lambda pair: -pair[1])
    )


def after_a_pause(measured: Measured) -> str | None:
    """The median of each contender's first rounds, in a sentence; None if no turn had more than
    one.
    """
    if all(len(turn) == 1 for turns in measured.singles.values() for turn in turns):
        return None
    medians = {name: median(turn[0] for turn in turns) for name, turns in measured.singles.items()}
    each = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in medians.items())
    return f"the first round after a pause, which counts only where a turn has no other: {each}"


def write(
    folder: Path,
    name: str,
    machine: dict[str, Any],
    measured: Measured,
    found: list[dict[str, Any]],
) -> None:
    """The rows as NAME.csv, and everything, single rounds and the machine included, as
    NAME.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(found)
    everything = {"machine": machine, "table": found, **asdict(measured)}
    (folder / f"{name}.json").write_text(json.dumps(everything, indent=1))
