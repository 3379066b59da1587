"""What the live table and the plain lines show of a sweep: the metrics that it has, in the width
that there is.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.results.paths import Folder
from orchestrator.tracking.events import TrialEvents
from orchestrator.tracking.screen import Screen

ROUND = {
    "round": 6,
    "seconds": 1.5,
    "attacked": False,
    "loss": 0.41,
    "train_accuracy": 0.83,
    "accuracy": 0.8,
}
ROUND |= {
    "aggregated_accuracy": 0.81,
    "test_accuracy": 0.79,
    "f1_macro": 0.78,
    "risk_gap": float("nan"),
}
GROUPED = {
    "accuracy_majority": 0.911,
    "accuracy_minority": 0.722,
    "risk_majority": 0.513,
    "risk_minority": 0.634,
}
GROUPED |= {
    "mia_accuracy_majority": 0.51,
    "mia_accuracy_minority": 0.63,
    "violations": 7.0,
    "migrated": 3,
}
GROUPED |= {"violations_majority": 2.0, "violations_minority": 5.0, "purity": 0.95}
FINP = {
    "sia_mean": 0.193,
    "sia_chance": 0.1,
    "sia_cov": 0.94,
    "sia_fi": 0.53,
    "eod": 0.55,
    "eod_null": 0.115,
}
FINP |= {"loss_cov": 0.24, "loss_fi": 0.94}
NOISY = {
    "noise_std": 0.0125,
    "clip_fraction": 0.25,
    "noise_to_update": 9.5,
    "cia_difference": 0.127,
}
SWEEPS: dict[str, tuple[Mapping[str, Any], tuple[str, str]]] = {
    "groups": (
        ROUND | GROUPED,
        ("ifca minority_ratio=0.1 seed=0", "ifca_mir minority_ratio=0.1 seed=0"),
    ),
    "finp": (ROUND | FINP, ("finp finp_pca seed=42", "finp finp_ala seed=42")),
    "metric": (ROUND | NOISY, ("global_dp seed=42", "metric_privacy seed=42")),
    "plain": (ROUND, ("lr=0.1 seed=0", "lr=0.01 seed=0")),
}
WIDE = {
    "groups": (
        "accuracy majority|accuracy minority|training loss|risk majority|risk "
        "minority|violations|moved|purity"
    ),
    "finp": "accuracy|training loss|SIA mean|SIA CoV|SIA FI|EOD|EOD by chance|loss CoV",
    "metric": (
        "accuracy clients|accuracy server|macro F1|training loss|CIA difference|noise std|clipped"
    ),
    "plain": "accuracy|training loss",
}
NARROW = {
    "groups": "accuracy majority|accuracy minority|risk majority|risk minority",
    "finp": "accuracy|SIA mean|SIA CoV|SIA FI|EOD",
    "metric": "accuracy clients|accuracy server|CIA difference|noise std",
    "plain": "accuracy|training loss",
}
ALWAYS = ["trial", "round", "time", "status"]


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def empty(total: int, width: int = 80, terminal: bool = True) -> tuple[Screen, Clock]:
    clock = Clock()
    return Screen(
        total,
        Console(width=width, height=24, force_terminal=terminal, record=True, file=io.StringIO()),
        clock,
    ), clock


def sweep(kind: str, width: int, terminal: bool = True, rounds: int = 20) -> tuple[Screen, Clock]:
    """A screen on which the first of two trials has trained seven rounds and the second has just
    begun.
    """
    row, titles = SWEEPS[kind]
    screen, clock = empty(4, width, terminal)
    for place, title in enumerate(titles):
        screen.on_planned(str(place), title, {"rounds": rounds})
        screen.on_started(str(place))
    clock.now = 65.0
    screen.on_rounds("0", [dict(row)])
    return screen, clock


def drawn(screen: Screen) -> list[str]:
    """The lines of the live table."""
    screen.console.export_text()
    screen.console.print(screen.table())
    return [line.rstrip() for line in screen.console.export_text().splitlines()]


def headings(lines: list[str]) -> list[str]:
    """The headings of the columns, words from above to below; ``lines`` begin with what is done."""
    body = lines[
        1 : 2 + next(number for number, line in enumerate(lines[1:]) if line.startswith("trial"))
    ]
    width = max(map(len, body))
    starts = [
        0,
        *(i for i in range(1, width) if all(line[i - 1 : i].strip() == "" for line in body)),
    ]
    bounds = list(pairwise([*starts, width]))
    return [
        heading
        for a, b in bounds
        if (heading := " ".join(line[a:b].strip() for line in body).strip())
    ]


@pytest.mark.parametrize("kind", SWEEPS)
@pytest.mark.parametrize(("width", "expected"), [(80, NARROW), (140, WIDE)])
def test_the_live_table_shows_what_this_sweep_measures(
    kind: str, width: int, expected: dict[str, str]
) -> None:
    lines = drawn(sweep(kind, width)[0])
    assert max(map(len, lines)) <= width
    assert headings(lines) == [*ALWAYS, *expected[kind].split("|")]
    assert lines[0] == "0 of 4 trials ended, 01:05, about 79 min left"
    assert all(word in " ".join(lines) for word in ("7/20", "01:05", "running"))


def test_every_value_stands_below_its_heading() -> None:
    lines = drawn(sweep("groups", 140)[0])
    told = ["ifca", "minority_ratio=0.1", "seed=0", "7/20", "01:05", "running"]
    assert lines[-2].split() == [
        *told,
        "0.911",
        "0.722",
        "0.410",
        "0.513",
        "0.634",
        "7",
        "3",
        "0.95",
    ]
    assert lines[-1].split()[-8:] == ["–"] * 8


@pytest.mark.parametrize("kind", SWEEPS)
def test_in_any_width_all_trials_and_notes_stand_and_the_most_important_metrics_go_last(
    kind: str,
) -> None:
    shown = []
    for width in range(60, 140, 13):
        screen, _ = sweep(kind, width, rounds=1000)
        screen.on_note("1", "start 2 of 3, round 4, which is told at length")
        lines = drawn(screen)
        assert max(map(len, lines)) <= width and sum("running" in line for line in lines) == 2
        assert "at length" in " ".join(" ".join(lines).split())
        shown.append(headings(lines)[4:])
    assert shown[0] and all(set(narrow) <= set(wide) for narrow, wide in pairwise(shown))


def test_a_note_stands_below_the_title_until_there_is_news_and_a_lasting_one_in_a_line() -> None:
    screen, _ = sweep("plain", 80)
    TrialEvents(Folder(Path("results")), [screen]).on_note(
        "1", "state is empty: set aside", lasting=True
    )
    screen.on_note("1", "start 2 of 3, round 4")
    screen.on_planned("2", "lr=1", {"rounds": 20})
    screen.on_note("2", "waiting for resources")  # a trial that is in no line of the table yet
    told = screen.console.export_text().splitlines()
    assert told == ["state is empty: set aside", "[0/4]  lr=1  waiting for resources"]
    assert drawn(screen)[-1] == "start 2 of 3, round 4"
    screen.on_rounds("1", [dict(ROUND)])
    assert "start" not in "\n".join(drawn(screen))


def test_what_is_not_measured_in_every_round_stays_and_a_finished_trial_has_its_final_metrics() -> (
    None
):
    screen, clock = sweep("finp", 140)
    screen.on_rounds(
        "0", [{"round": 7, "seconds": 1.0, "loss": 0.3, "accuracy": None, "sia_mean": float("nan")}]
    )
    assert all(word in drawn(screen)[-2] for word in ("8/20", "0.800", "0.300", "0.193"))
    final = {
        "status": "finished",
        "metrics": {"sia_mean": 0.222, "guarantee": None},
        "seconds": 65.0,
    }
    screen.on_ended("0", final)
    clock.now = 4000.0
    lines = drawn(screen)
    assert lines[0].startswith("1 of 4 trials ended, 1:06:40, about ")
    assert all(word in lines[-1] for word in ("finished", "01:05", "0.222", "0.800"))
    assert "1:06:40" in lines[-2]


@pytest.mark.parametrize("kind", SWEEPS)
def test_plain_lines_tell_the_same_metrics(kind: str) -> None:
    screen, _ = sweep(kind, 140, terminal=False)
    (line,) = screen.console.export_text().splitlines()
    assert line.startswith(f"[0/4]  {SWEEPS[kind][1][0]}  round 7/20  ") and line.endswith(
        "  1.50 s"
    )
    assert [part.rpartition(" ")[0] for part in line.split("  ")[3:-1]] == WIDE[kind].split("|")


def test_the_time_left_is_said_at_the_end_of_a_trial_where_there_is_no_live_table() -> None:
    screen, clock = sweep("plain", 140, terminal=False)
    clock.now = 100.0
    screen.on_ended("0", {"status": "finished", "metrics": {}, "seconds": 65.0})
    assert (
        screen.console.export_text()
        .splitlines()[-1]
        .endswith("finished in 65.0 s, about 1.7 h left")
    )


def test_before_the_first_round_and_after_the_last_trial_no_time_is_left_to_tell() -> None:
    screen, _ = empty(1)
    screen.on_planned("0", "lr=0.1", {"rounds": 3})
    screen.on_started("0")
    lines = drawn(screen)
    assert lines[0] == "0 of 1 trials ended, 00:00"
    assert lines[1].split() == ALWAYS and "–" not in lines[2]  # no columns of dashes
    screen.on_rounds("0", [dict(ROUND) | {"round": 2}])
    screen.on_ended("0", {"status": "finished", "metrics": {}, "seconds": 1.0})
    assert drawn(screen)[0] == "1 of 1 trials ended, 00:00"


def test_an_epsilon_is_rounded_up_on_the_screen() -> None:
    """3.035 is printed as 3.1 with one decimal, and never as 3.0 or 3.03."""
    out = io.StringIO()
    screen = Screen(1, Console(file=out, width=200))
    screen.on_planned("a", "one", {"rounds": 2})
    screen.on_started("a")
    screen.on_rounds("a", [ROUND | NOISY | {"round": 0, "epsilon": 3.035}])
    assert "epsilon 3.1 " in out.getvalue()
