"""Contenders side by side: rounds in turn, medians, ratios, the table, and the files. Knows no contender by name but ours."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from contender import Failed
from workloads import Target

OURS = "fedpriv"
COLUMNS = ("contender", "seconds", "fastest", "slowest", "ratio", "lowest", "highest", "target", "met")


class Asked(Protocol):
    """What a comparison needs of a contender."""

    name: str

    def ask(self, request: str) -> tuple[float, dict[str, Any]]: ...
    def halt(self) -> None: ...
    def wake(self) -> None: ...


@dataclass
class Measured:
    """The ``seconds`` of each contender's rounds, in the order in which they were run, with their ``parts`` where it tells
    them; who ``failed``."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    parts: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def interleaved(
    contenders: Sequence[Asked], rounds: int, warm_up: int = 1, told: Callable[[str], None] = lambda _: None
) -> Measured:
    """``rounds`` of each contender, one at a time and in turn, after ``warm_up`` that do not count.

    In each turn another contender begins, so that nobody always follows the same one. Whoever waits is halted: idle Ray
    sessions would take their share of the cores. Who fails is left out from then on.
    """
    measured, running = Measured(), list(contenders)
    for one in running:
        one.halt()
    for turn in range(warm_up + rounds):
        first = turn % max(len(running), 1)
        for one in running[first:] + running[:first]:
            one.wake()
            try:
                seconds, answer = one.ask("round")
            except Failed as failure:
                measured.failed[one.name] = str(failure)
                measured.seconds.pop(one.name, None)
                running.remove(one)
                told(str(failure))
                continue
            finally:
                one.halt()
            if turn >= warm_up:
                measured.seconds.setdefault(one.name, []).append(seconds)
                if "parts" in answer:
                    measured.parts.setdefault(one.name, []).append(answer["parts"])
                told(f"round {turn - warm_up + 1} of {rounds}: {one.name} {seconds:.3f} s")
    return measured


def rows(measured: Measured, targets: dict[str, Target]) -> list[dict[str, Any]]:
    """One row for each contender (see `COLUMNS`): seconds per round, and how ours stand to them.

    ``ratio`` is that of the medians, ``lowest`` and ``highest`` are those of the single turns. For a target that limits our
    share of the other's time it is ours / other's, for one that asks how many times faster we are, other's / ours.
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
            missing = {"contender": name, "target": _written(target), "met": measured.failed.get(name, "not run")}
            found.append({column: missing.get(column) for column in COLUMNS})
    return found


def _against(ours: list[float], theirs: list[float], target: Target) -> dict[str, Any]:
    share = median(ours) / median(theirs)
    turns = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    if target.faster is not None:
        turns, share = [1 / turn for turn in turns], 1 / share
        met = share >= target.faster
    else:
        met = target.at_most is None or share <= target.at_most
    row = {"ratio": share, "lowest": min(turns), "highest": max(turns)}
    return row | ({"target": _written(target), "met": met} if target != Target() else {})


def _written(target: Target) -> str | None:
    if target.faster is not None:
        return f"at least {target.faster:g} x faster"
    return None if target.at_most is None else f"at most {target.at_most:g} of its time"


def table(title: str, found: list[dict[str, Any]]) -> str:
    """The rows as text, in columns."""
    lines = [("contender", "s per round", "fedpriv", "single turns", "target", "")]
    for row in found:
        seconds = "-" if row["seconds"] is None else f"{row['seconds']:.3f}"
        times = " x faster" if row["target"] and "faster" in row["target"] else ""
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}{times}"
        spread = "" if row["ratio"] is None else f"{row['lowest']:.2f} to {row['highest']:.2f}"
        verdict = {True: "met", False: "missed", None: ""}.get(row["met"], row["met"])
        lines.append((row["contender"], seconds, ratio, spread, row["target"] or "", verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]) - 1)]
    padded = ["  ".join([*(cell.ljust(width) for cell, width in zip(line, widths)), line[-1]]) for line in lines]  # noqa: B905
    return "\n".join([title, *(line.rstrip() for line in padded)])


def shares(parts: list[dict[str, float]]) -> str:
    """Where rounds went: the median seconds of each part, the longest first."""
    names = {name for part in parts for name in part}
    medians = {name: median(part.get(name, 0.0) for part in parts) for name in names}
    return ", ".join(f"{name} {seconds:.3f} s" for name, seconds in sorted(medians.items(), key=lambda pair: -pair[1]))


def write(folder: Path, name: str, machine: dict[str, Any], measured: Measured, found: list[dict[str, Any]]) -> None:
    """The rows as NAME.csv, and everything, single rounds and the machine included, as NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(found)
    everything = {"machine": machine, "table": found, **asdict(measured)}
    (folder / f"{name}.json").write_text(json.dumps(everything, indent=1))
