"""The comparison: whose turn it is, medians, ratios and targets, against answers by hand.

Nothing is trained here.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import comparison
import memory
import numpy as np
import pytest
import scaling
from contender import Failed
from workloads import WORKLOADS, Target, initial

MIB = 2**20


class Scripted:
    """A contender whose rounds take the given seconds; None is a round that it does not survive.

    Only it may be awake then.
    """

    awake: ClassVar[set[Scripted]] = set()

    def __init__(
        self, name: str, seconds: Sequence[float | None], asked: list[str] | None = None
    ) -> None:
        self.name, self.left, self.asked = name, list(seconds), [] if asked is None else asked
        self.wake()

    def wake(self) -> None:
        self.awake.add(self)

    def halt(self) -> None:
        self.awake.remove(self)

    def ask(self, request: str) -> tuple[float, dict[str, Any]]:
        assert request == "round"
        assert self.awake == {self}
        self.asked.append(self.name)
        seconds = self.left.pop(0)
        if seconds is None:
            raise Failed(f"{self.name} ended")
        return seconds, {"parts": {"train": seconds / 2}} if self.name == comparison.OURS else {}


def test_the_warm_up_round_does_not_count_and_where_every_turn_is_one_round_nothing_is_said_of_pauses():
    measured = comparison.interleaved(
        [Scripted("fedpriv", [9, 1, 2, 3]), Scripted("bare", [99, 4, 5, 6])], laps=3
    )
    assert measured.seconds == {"fedpriv": [1, 2, 3], "bare": [4, 5, 6]}
    assert measured.parts == {"fedpriv": [{"train": 0.5}, {"train": 1}, {"train": 1.5}]}
    assert measured.singles["fedpriv"] == [[1], [2], [3]]
    assert comparison.after_a_pause(measured) is None


def test_short_rounds_fill_a_turn_and_the_first_does_not_count():
    ours, bare = Scripted("fedpriv", [9, 5, 1.0, 0.5, 0.25, 0.75]), Scripted("bare", [9, 2.0, 3.0])
    measured = comparison.interleaved([ours, bare], laps=2, at_least=2)
    assert measured.singles == {"fedpriv": [[5], [1.0, 0.5, 0.25, 0.75]], "bare": [[2.0], [3.0]]}
    assert measured.seconds == {"fedpriv": [5, 0.5], "bare": [2, 3]}
    assert measured.parts == {"fedpriv": [{"train": 2.5}, {"train": 0.25}]}
    assert (comparison.after_a_pause(measured) or "").endswith("bare 2.500 s, fedpriv 3.000 s"), (
        "medians of the firsts"
    )


def test_each_lap_asks_everybody_once_and_another_first():
    asked: list[str] = []
    comparison.interleaved([Scripted(name, [1] * 4, asked) for name in ("a", "b", "c")], laps=3)
    assert asked == ["a", "b", "c", "b", "c", "a", "c", "a", "b", "a", "b", "c"]


@pytest.mark.parametrize("rounds", [[9, 3, 0.5, None], [9, None], [None]])
def test_who_fails_is_left_out_with_all_that_he_did_and_the_others_go_on(rounds):
    measured = comparison.interleaved(
        [Scripted("fedpriv", rounds), Scripted("bare", [9, 2, 2])], laps=2, at_least=2
    )
    assert [set(found) for found in (measured.seconds, measured.parts, measured.singles)] == [
        {"bare"},
        set(),
        {"bare"},
    ]
    assert measured.failed == {"fedpriv": "fedpriv ended"}
    assert not Scripted.awake


def test_ratios_are_those_of_the_medians_their_spread_that_of_the_laps_and_targets_are_judged():
    seconds = {
        "fedpriv": [1.0, 2.0, 4.0],
        "bare": [4.0, 2.5, 2.0],
        "flower": [10.0, 30.0, 20.0],
        "mine": [4.0] * 3,
    }
    targets = {
        "bare": Target(at_most=0.8),
        "flower": Target(faster=10.01),
        "pfl": Target(faster=2),
        "away": Target(1),
    }
    rows = comparison.rows(comparison.Measured(seconds, failed={"pfl": "no uv"}), targets)
    by_name = {row["contender"]: row for row in rows}
    ours, bare, flower = (by_name[name] for name in ("fedpriv", "bare", "flower"))
    assert (ours["seconds"], ours["fastest"], ours["slowest"], ours["ratio"], ours["met"]) == (
        2,
        1,
        4,
        None,
        None,
    )
    assert (bare["ratio"], bare["lowest"], bare["highest"]) == (2.0 / 2.5, 0.25, 2.0)
    assert (flower["ratio"], flower["lowest"], flower["highest"]) == (10.0, 5.0, 15.0)
    verdicts = {name: row["met"] for name, row in by_name.items()}
    assert verdicts == {
        "fedpriv": None,
        "bare": True,
        "flower": False,
        "mine": None,
        "pfl": "no uv",
        "away": "not run",
    }
    lines = {
        line.split()[0]: " ".join(line.split())
        for line in comparison.table("title", rows).splitlines()
    }
    assert lines["bare"] == "bare 2.500 0.80 0.25 to 2.00 at most 0.8 of its time met"
    assert (
        lines["flower"]
        == "flower 20.000 10.00 x faster 5.00 to 15.00 at least 10.01 x faster missed"
    )


def test_the_parts_of_our_round_are_medians_with_the_longest_first():
    parts = [
        {"train": 3.0, "example": 0.1},
        {"train": 1.0, "example": 0.3},
        {"train": 2.0, "example": 0.2},
    ]
    assert comparison.shares(parts) == "train 2.000 s, example 0.200 s"


def test_files_hold_the_rows_and_every_round(tmp_path: Path):
    singles = {"fedpriv": [[2.0, 1.0], [3.0]], "bare": [[4.0], [4.0]]}
    measured = comparison.Measured(
        {"fedpriv": [1.0, 3.0], "bare": [4.0, 4.0]}, singles=singles, failed={"pfl": "no uv"}
    )
    rows = comparison.rows(measured, WORKLOADS["digits"].targets)
    comparison.write(tmp_path, "digits", {"memory": "1 GiB"}, measured, rows)
    with (tmp_path / "digits.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["contender"] for row in read] == ["fedpriv", "bare", "flower", "pfl"]
    assert (float(read[1]["ratio"]), read[1]["met"], read[3]["met"]) == (0.5, "True", "no uv")
    everything = json.loads((tmp_path / "digits.json").read_text())
    assert everything["seconds"] == measured.seconds
    assert everything["singles"] == singles
    assert everything["machine"] == {"memory": "1 GiB"}


@pytest.mark.parametrize(
    ("name", "clients", "examples", "shape"),
    [
        ("digits", 200, 12_800, (1, 8, 8)),
        ("mnist", 40, 10_240, (1, 28, 28)),
        ("har", 30, None, (9, 128)),
    ],
)
def test_workloads_have_the_clients_and_examples_of_their_titles(name, clients, examples, shape):
    workload = WORKLOADS[name]
    given = workload.examples(None, False)
    assert (given.clients, given.x.shape[1:], given.x.dtype) == (clients, shape, np.float32)
    assert f"{clients} clients" in workload.title
    assert len(given.y) == given.offsets[-1] == (examples or len(given.y))
    assert set(np.unique(given.y)) == set(range(workload.work.classes))
    sizes = np.diff(given.offsets)
    assert sizes.min() == sizes.max() or name == "har"
    assert name != "har" or (sizes.min() >= 281 and sizes.max() <= 409)


def test_every_start_of_a_workload_is_the_same():
    work = WORKLOADS["digits"].work
    first, second = initial(work, (1, 8, 8)), initial(work, (1, 8, 8))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert np.ptp(np.concatenate([array.ravel() for array in first.values()])) > 0.1


@pytest.mark.parametrize(
    ("seconds", "memory_held", "code"),
    [
        ((1.0, 4.5), (0, 64 * MIB + 30), 0),
        ((1.0, 4.7), (0, 0), 1),
        ((1.0, 3.3), (0, 0), 1),
        ((1.0, 4.0), (0, 65 * MIB), 1),
    ],
)
def test_scaling_allows_fifteen_percent_and_the_examples_with_64_mib(
    seconds, memory_held, code, capsys
):
    assert scaling.verdict((50, 200), seconds, memory_held, (10, 40)) == code
    assert ("missed" in capsys.readouterr().out) == bool(code)


def test_memory_forgives_the_first_rounds_and_not_the_later_ones(capsys):
    settled = [(100.0 * MIB if turn < 2 else 200.0 * MIB, 10.0) for turn in range(20)]
    assert memory.verdict(settled) == 0
    assert memory.verdict([(turn * MIB, 0.0) for turn in range(20)]) == 1
    assert memory.verdict([(0.0, turn * MIB) for turn in range(20)]) == 1
