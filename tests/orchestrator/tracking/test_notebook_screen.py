"""The live table of a notebook: one output that is replaced, with the trials as they are."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from orchestrator.tracking import screen as screens
from orchestrator.tracking.screen import NotebookScreen, Screen, screen_of


class Handle:
    """IPython's handle of an output."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, data: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(data["text/html"])


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    """A process that is the kernel of a notebook."""
    handle = Handle()

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
        handle.update(data, raw)
        return handle

    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    shown: Any = types.ModuleType("IPython.display")
    shown.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setattr(screens, "REFRESH_SECONDS", 0.01)
    return handle


def test_the_table_is_an_output_that_is_replaced_and_stays(handle: Handle, capsys: pytest.CaptureFixture[str]) -> None:
    screen = screen_of(1)
    assert isinstance(screen, NotebookScreen)
    with screen:
        screen.on_planned("a", "ifca <seed=1>", {"rounds": 2})
        screen.on_started("a")
        screen.on_rounds("a", [{"round": 0, "accuracy": 0.25, "loss": 1.5}])
        screen.say("a sentence")
        screen.on_ended("a", {"status": "finished", "metrics": {"accuracy": 0.5}, "seconds": 1.0})
    assert "0 of 1 trials ended" in handle.shown[0]
    assert "1 of 1 trials ended" in handle.shown[-1] and "ifca &lt;seed=1&gt;" in handle.shown[-1]
    assert "0.500" in handle.shown[-1] and "finished" in handle.shown[-1]
    assert capsys.readouterr().out == "a sentence\n"  # rounds are in the table and not in lines
    assert not screen.thread.is_alive()


def test_a_failed_trial_is_also_said_in_a_line(handle: Handle, capsys: pytest.CaptureFixture[str]) -> None:
    with screen_of(1) as screen:
        screen.on_planned("a", "ifca", {"rounds": 2})
        screen.on_ended("a", {"status": "failed", "reason": "no room", "metrics": {}, "seconds": 1.0})
    assert "ifca  failed: no room" in capsys.readouterr().out


def test_elsewhere_the_screen_is_that_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert type(screen_of(1)) is Screen
    ipython: Any = types.ModuleType("IPython")
    ipython.get_ipython = lambda: None
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert type(screen_of(1)) is Screen
