"""The page on Python and the notebook: their code runs as it stands, and a notebook shows the
live table.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator import commands
from orchestrator.api import sweeps
from orchestrator.config.sweep_file import parse_sweep
from tests.support.inline_sweep import run_sweep_inline
from tests.support.pages import ROOT, page

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def cells() -> list[str]:
    held = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in held if cell["cell_type"] == "code"]


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page("docs/python.md"), re.MULTILINE | re.DOTALL)


def tiny(sweep: Any, path: Path, sets: list[str]) -> Any:
    """The same sweep, only smaller."""
    small = [
        "base.rounds=1",
        "base.data.clients=4",
        "base.training.epochs=1",
        "base.attacks.shadow_mia.shadows=1",
    ]
    small += ["base.attacks.shadow_mia.every=1", "sweep.seed.grid_search=[0]"]
    names = [change for change in sets if change.startswith("name=")]
    return parse_sweep(sweep, path, [*small, *names])


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweeps, "parse_sweep", tiny)
    monkeypatch.setattr(commands, "run_sweep", run_sweep_inline)


@pytest.mark.parametrize("parts", [cells(), blocks()], ids=["notebook", "page"])
def test_the_code_runs_as_it_stands(parts: list[str], small: None) -> None:
    space: dict[str, Any] = {}
    for part in parts:
        exec(part, space)
    assert len(parts) > 6 and "audit" in space


def test_the_notebook_is_kept_without_outputs() -> None:
    held = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell["outputs"] for cell in held if cell["cell_type"] == "code"] == [[]] * len(cells())


@pytest.mark.slow
def test_the_notebook_runs_in_jupyter_and_its_first_cell_twice(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    first = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    notebook.cells.insert(first + 1, nbformat.v4.new_code_cell(notebook.cells[first].source))
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute()
    shown, again = (list(map(str, notebook.cells[i].outputs)) for i in (first, first + 1))
    assert any("6 of 6 trials ended" in text and "finished" in text for text in shown), (
        "the live table"
    )
    assert any("all 6 trials are complete; nothing was trained" in text for text in again)
    assert any(
        "image/png" in output.get("data", {})
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    )
