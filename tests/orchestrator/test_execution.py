"""The order of a run without Ray and MLflow: what the screen shows from the first sentence to
the last table.
"""

from __future__ import annotations

import io
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from orchestrator import FINISHED, INTERRUPTED, commands
from orchestrator.cli import main
from orchestrator.commands import Choices, Work, prepare
from orchestrator.config.sweep_file import parse_sweep
from orchestrator.config.tune_section import Optuna, Tune
from orchestrator.results.log import Part, cached, stored
from orchestrator.scheduling.best import best_sentences
from orchestrator.tracking.screen import Screen

TINY = """
name: tiny
base: {rounds: 1, data: {name: digits, clients: 4, examples_per_client: 10, split: dirichlet}, model: mlp}
sweep: {seed: {grid_search: [0]}}
"""


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return prepare(parse_sweep(TINY, Path("tiny.yaml")), Choices(tmp_path))


class QuietTracker(SimpleNamespace):
    """A tracker that sends nothing."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: True


@pytest.mark.parametrize(("broken", "code"), [(False, FINISHED), (True, INTERRUPTED)])
def test_the_live_table_is_there_from_the_start_of_ray_until_the_rounds_are_over(
    work: Work, monkeypatch: pytest.MonkeyPatch, broken: bool, code: int
) -> None:
    terminal = io.StringIO()
    screen = Screen(1, Console(force_terminal=True, file=terminal, width=200))
    alive: list[bool] = []

    def session(*_: object) -> AbstractContextManager[list[object]]:
        alive.append(screen.live.is_started)
        return nullcontext([{"CPU": 2.0}])

    def trained(*_: object) -> None:
        alive.append(screen.live.is_started)
        if broken:
            raise KeyboardInterrupt

    def closed(*_: object) -> int:
        alive.append(screen.live.is_started)
        return FINISHED

    for name, stand_in in {
        "Screen": lambda _: screen,
        "_tracker": lambda *_: QuietTracker(),
        "_close": closed,
    }.items():
        monkeypatch.setattr(commands, name, stand_in)
    monkeypatch.setattr("orchestrator.cluster.ray_session.ray_session", session)
    monkeypatch.setattr("orchestrator.scheduling.tuner.run_trials", trained)
    monkeypatch.setattr("orchestrator.cluster.ray_session.node_problems", lambda *_: [])
    assert commands.execute(work) == code
    assert ("the same command resumes from there" in terminal.getvalue()) == broken
    assert alive == ([True, True] if broken else [True, True, False]) and not screen.live.is_started


def test_a_run_says_how_much_its_trials_share_and_clean_deletes_it(
    work: Work, monkeypatch: Any, capsys: Any
) -> None:
    for name in ("read_results", "summary_table", "write_report", "page_path"):
        monkeypatch.setattr(commands, name, lambda *_, **__: SimpleNamespace(trials=[]))
    monkeypatch.setattr("orchestrator.cluster.orphans.end_orphans", list)
    cached(work.folder.trial("0a").path, "result", lambda: b"")
    for key in ("a", "b"):
        cached(work.folder.cache, key, lambda: b"")
        os.truncate(work.folder.cache / key / Part.of(b"").digest, 75_000_000)
    commands._close(work, QuietTracker(), Screen(0, Console(width=400)))  # type: ignore[arg-type]
    assert (
        f"fedpriv clean {work.folder.path}   deletes 150 MB that trials share"
        in capsys.readouterr().out
    )
    assert main(["clean", str(work.folder.path), "--yes"]) == FINISHED
    assert "tiny       2 entries     150.0 MB\ntiny: deleted\n" in capsys.readouterr().out
    assert not work.folder.cache.exists() and stored(work.folder.trial("0a").path, "result") == b""


@pytest.mark.parametrize(
    "lost", [("summary_table",), ("write_report",), ("summary_table", "write_report")]
)
def test_a_finished_sweep_is_closed_whatever_its_report_lacks(
    work: Work,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lost: tuple[str, ...],
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of nothing")

    finished: list[float] = []
    tracker = SimpleNamespace(
        finish=lambda seconds: finished.append(seconds) or True, is_local=True
    )
    monkeypatch.setattr(
        commands, "read_results", lambda *_: SimpleNamespace(trials=[{"status": "finished"}])
    )
    for name in ("summary_table", "write_report"):
        monkeypatch.setattr(commands, name, fails if name in lost else lambda *_, **__: "")
    monkeypatch.setattr(commands, "failure_lines", lambda *_: [])
    screen = Screen(0, Console(width=400))
    assert commands._close(work, tracker, screen) == FINISHED  # type: ignore[arg-type]
    shown = capsys.readouterr().out
    assert (
        finished
        and shown.count("ZeroDivisionError: of nothing") == len(lost)
        and "fedpriv ui" in shown
    )


@pytest.mark.parametrize(
    ("metric", "lines"),
    [
        ("accuracy", ["best accuracy 0.900: b"]),
        (
            ("accuracy", "violations"),
            ["2 of 3", "on the front: accuracy 0.7", "on the front: accuracy 0.9"],
        ),
    ],
)
def test_the_best_trials_of_a_search_are_one_or_a_front(
    metric: str | tuple[str, ...], lines: list[str]
) -> None:
    tune = Tune(
        metric=metric, mode="max" if isinstance(metric, str) else ("max", "min"), search=Optuna()
    )
    values = {"a": (0.7, 1), "b": (0.9, 2), "c": (0.8, 3), "d": (None, 0)}
    rows = [
        {"id": key, "accuracy": accuracy, "violations": v} for key, (accuracy, v) in values.items()
    ]
    printed = best_sentences(tune, rows, {key: key for key in values})
    assert [line.startswith(start) for line, start in zip(printed, lines, strict=True)] == [
        True
    ] * len(lines)
    assert len(best_sentences(tune, rows[3:], {})) == 1
