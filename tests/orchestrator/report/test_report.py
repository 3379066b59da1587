"""The report as a whole: which files are written, that they are the same each time, and what
partial results give.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator import FINISHED
from orchestrator.cli import main
from orchestrator.report import write_report
from orchestrator.results.log import MANIFEST, Log
from orchestrator.results.paths import FolderError
from tests.support.synthetic_results import seal, write_sweep

TABLES = ["summary.csv", "summary.md", "front.md", "differences.md", "published.md"]
SWEEP: dict[str, list[Any]] = {"clustering.name": ["ifca", "ifca_mir"], "seed": [0, 1]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    statuses = {1: "diverged", 3: "unfinished"}
    return write_sweep(tmp_path_factory.mktemp("results") / "mnist-short", SWEEP, statuses=statuses)


@pytest.fixture(scope="module")
def files(folder: Path) -> list[Path]:
    return write_report(folder)


def test_tables_come_first_and_every_file_exists(folder: Path, files: list[Path]) -> None:
    assert [file.name for file in files[: len(TABLES)]] == TABLES
    assert {file.suffix for file in files[len(TABLES) : -1]} == {".png"}
    assert files[-1].name == "mnist-short.html"
    assert all(file.parent == folder / "report" and file.stat().st_size > 100 for file in files)
    assert sorted((folder / "report").iterdir()) == sorted([*files, folder / "report" / MANIFEST])


def test_what_did_not_finish_is_in_the_summary(files: list[Path]) -> None:
    page = files[1].read_text()
    assert "4 trials: 2 finished, 1 diverged, 1 unfinished." in page
    assert page.count("1 of 2") >= 2


def test_a_report_is_written_again_if_anything_of_it_has_changed_and_gives_the_same_bytes(
    folder: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {file.name: file.read_bytes() for file in files}
    (folder / "report" / "notes.txt").write_text("somebody's own")
    (folder / "report" / "summary.md").write_text("changed")
    assert {file.name: file.read_bytes() for file in write_report(folder)} == before
    assert (folder / "report" / "notes.txt").exists()

    def drawn(*args: object, **kwargs: object) -> None:
        raise AssertionError("drawn again")

    monkeypatch.setattr("orchestrator.report.figures.catalog.figures", drawn)
    assert write_report(folder) == files  # nothing has changed
    with pytest.raises(AssertionError, match="drawn again"):
        write_report(folder, formats=("svg",))


@pytest.mark.usefixtures("few_figures")
def test_a_report_follows_its_trials_and_forgets_figures_without_data(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "s", {"seed": [0]})
    assert "convergence.png" in {file.name for file in write_report(folder)}
    for lost in ("rounds", "*"):
        for path in (folder / "trials").glob(f"*/{lost}.parquet"):
            path.unlink()
            seal(path.parent)
        assert "convergence.png" not in {file.name for file in write_report(folder)}
        assert not (folder / "report" / "convergence.png").exists()


@pytest.mark.usefixtures("few_figures")
@pytest.mark.parametrize("place", ["catalog.trade_off", "drawing.picture"])
def test_a_figure_that_fails_costs_itself_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """Neither the page nor another figure; what is drawn and cannot be made a picture, too."""
    from orchestrator.report.figures import catalog, drawing

    folder = write_sweep(tmp_path / "s", {"seed": [0]})
    whole, convergence = catalog.catalog(), catalog.catalog()["convergence"]
    broken = plt_figure()

    def fails(*_: object) -> Any:
        if place == "drawing.picture":
            return broken
        raise KeyError("no <axis>")

    def one_fails(figure: Any, form: Any = "png") -> bytes:
        if figure is broken:
            raise KeyError("no <axis>")
        return b"made"

    with monkeypatch.context() as patch:
        patch.setattr(catalog, "catalog", lambda: {"audit": fails, "convergence": convergence})
        patch.setattr(drawing, "picture", one_fails)
        for _ in range(2):  # the second report does not take the first for complete
            assert main(["report", str(folder)]) == FINISHED
            shown = capsys.readouterr()
            assert {"convergence.png", "s.html"} < set(os.listdir(folder / "report")) - {
                "audit.png"
            }
            assert "audit.png" not in shown.out and "s.html" in shown.out
            assert shown.err.count("\n") == 1 and "audit" in shown.err and "no <axis>" in shown.err
            page = (folder / "report" / "s.html").read_text()
            assert "audit" in page and "no &lt;axis&gt;" in page
    monkeypatch.setattr(catalog, "catalog", lambda: whole)
    assert main(["report", str(folder)]) == FINISHED
    assert "axis" not in capsys.readouterr().err + (folder / "report" / "s.html").read_text()


def plt_figure() -> Any:
    """A figure without anything."""
    from matplotlib.figure import Figure

    return Figure()


def test_only_diverged_trials_give_tables_and_no_figures(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "s", {"seed": [0, 1]}, statuses={0: "diverged", 1: "failed"})
    assert [file.name for file in write_report(folder)] == [*TABLES[:2], "s.html"]
    assert "2 trials: 1 diverged, 1 failed." in (folder / "report" / "summary.md").read_text()


@pytest.mark.usefixtures("few_figures")
def test_tables_of_comparisons_are_left_out_and_removed_where_there_is_nothing_to_compare(
    tmp_path: Path,
) -> None:
    folder = write_sweep(tmp_path / "s", {"seed": [0, 1]}, base={"data.name": "digits"})
    earlier = Log(folder / "report", "s")
    for name in TABLES[2:]:
        earlier.append(name, b"from an earlier report")
    earlier.finish({})
    assert [file.name for file in write_report(folder) if file.suffix != ".png"] == [
        *TABLES[:2],
        "s.html",
    ]
    assert not {path.name for path in (folder / "report").iterdir()} & set(TABLES[2:])


def test_an_empty_folder_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(FolderError):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []
