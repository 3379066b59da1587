"""The page on own data, followed word by word: its first steps, and each kind of bad input with
what is said about it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from orchestrator.cli import main
from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import load_sweep
from tests.support.own_code import write_pets
from tests.support.pages import page

PAGE = "docs/own_data.md"
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
SWEEP = """
name: own
base:
  rounds: 1
  data: {{{data}}}
  model: mlp
  attacks: [{{name: shadow_mia, every: 1}}]
"""
Cells = dict[tuple[int, str], str]


def test_the_first_steps_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = page(PAGE)
    steps, saved = PYTHON.findall(text)
    exec(compile(steps, PAGE, "exec"), {})
    exec(compile(saved, PAGE, "exec"), {"dataset": [(np.zeros((1, 8, 8), np.float32), 0)] * 2})
    assert np.load("mine.npz")["x"].shape == (2, 1, 8, 8)
    commands = [line.strip() for line in text.splitlines() if line.startswith("    fedpriv ")]
    assert commands[:2] == ["fedpriv new cancer.csv --label target", "fedpriv run sweep.yaml"]
    assert main(commands[0].split()[1:]) == 0
    told = text.split("<!-- output of new -->\n")[1].split("<!-- end of output -->")[0]
    assert capsys.readouterr().out.splitlines() == [line[4:] for line in told.splitlines()]
    sweep = load_sweep(Path("sweep.yaml"))
    assert data_problems(sweep, download=False) == []


def test_the_images_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pets(tmp_path, 144, (80, 70, 3))
    assert main(["new", "pets", "--layout", "client/class"]) == 0
    run = load_sweep(Path("sweep.yaml")).runs[0]
    assert (run.split.name, run.data.config.clients, tuple(run.data.config.size)) == (
        "natural",
        2,
        (32, 32),
    )
    (tmp_path / "pets" / "anna").rename(tmp_path / "one")
    assert main(["new", "one", "--output", "pets.yaml"]) == 0


def table(cells: Cells | None = None, again: tuple[int, ...] = ()) -> str:
    """A table of three hospitals; ``cells`` are changed, and the rows ``again`` stand at its end
    once more.
    """
    names = ["age", "sex", "hospital", "outcome"]
    lines = [[str(20 + i * 0.5), "fm"[i % 2], "nse"[i % 3], "iwww"[i // 3 % 4]] for i in range(120)]
    for line in lines:
        line[3] = {"i": "ill", "w": "well"}[line[3]]
    for (row, name), cell in (cells or {}).items():
        lines[row][names.index(name)] = cell
    lines += [lines[row] for row in again]
    return "\n".join(",".join(line) for line in [names, *lines]) + "\n"


def column(cells: list[str]) -> str:
    """The table with one more column of these ``cells``, in turn."""
    head, *lines = table().splitlines()
    return "\n".join(
        [f"{head},more", *(f"{line},{cells[i % len(cells)]}" for i, line in enumerate(lines))]
    )


def said(folder: Path, text: str, fields: str, path: str = "patients.csv", shadow: int = 30) -> str:
    """What is said about a table, by the loader or by the checks of the data."""
    (folder / "patients.csv").write_text(text)
    return checked(folder, f"name: table, path: {path}, shadow_size: {shadow}, {fields}")


def checked(folder: Path, data: str) -> str:
    """What is said about a sweep file with this section ``data``."""
    (folder / "sweep.yaml").write_text(SWEEP.format(data=data))
    try:
        return "\n".join(map(str, data_problems(load_sweep(folder / "sweep.yaml"), download=False)))
    except ConfigError as refusal:
        return str(refusal)


IMAGES = "name: image_folder, path: pets, clients: 2, shadow_size: 4, split: dirichlet"
DEALT = "label: outcome, clients: 3, split: dirichlet"
NATURAL = "label: outcome, client: hospital, clients: 3, split: natural"
ILL: Cells = {(row, "outcome"): "ill" for row in range(120)}
BAD: dict[str, dict[str, Any]] = {
    "the label column is not there": {
        "text": table(),
        "fields": DEALT.replace("outcome", "outcom"),
    },
    "the label is a quantity": {"text": table(), "fields": DEALT.replace("outcome", "age")},
    "the label is always the same": {"text": table(ILL), "fields": DEALT},
    "numbers and texts in one column": {"text": table({(6, "age"): "old"}), "fields": DEALT},
    "a cell is empty (or NA, NaN, null, ?)": {"text": table({(6, "age"): "NA"}), "fields": DEALT},
    "numbers with signs": {"text": column(["12 %", "5 %"]), "fields": DEALT},
    "numbers that may be codes": {"text": column(["0071", "4010"]), "fields": DEALT},
    "dates": {"text": column(["01/31/2020", "02/01/2020"]), "fields": DEALT},
    "a client with one row each": {
        "text": column([f"p{i}" for i in range(120)]),
        "fields": NATURAL.replace("hospital", "more"),
    },
    "a row has no label": {"text": table({(6, "outcome"): ""}), "fields": DEALT},
    "a number is infinite": {"text": table({(6, "age"): "inf"}), "fields": DEALT},
    "rows repeat each other": {"text": table(again=(3, 4)), "fields": DEALT},
    "a client with one class": {
        "text": table({key: "ill" for key in ILL if key[0] % 3 == 0}),
        "fields": NATURAL,
    },
    "a client with one example": {"text": table({(5, "hospital"): "tiny"}), "fields": NATURAL},
    "more clients than there are": {"text": table(), "fields": NATURAL.replace("3", "9")},
    "the shadow set takes all examples": {"text": table(), "fields": DEALT, "shadow": 100},
    "the file is not there": {"text": table(), "fields": DEALT, "path": "patient.csv"},
}
OTHERS = {
    "no header line",
    "the file is in Latin-1",
    "images of several sizes",
    "a folder of a class is empty",
    "a class is in the test part alone",
    "files of a folder have different columns",
}


def rows() -> dict[str, str]:
    """By what is wrong, what the page says that fedpriv says."""
    section = page(PAGE).split("| what is wrong |")[1]
    return dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|", section, re.MULTILINE))


def test_every_row_of_the_page_is_tried() -> None:
    assert set(rows()) == set(BAD) | OTHERS


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_as_the_page_says(tmp_path, what) -> None:
    assert rows()[what] in said(tmp_path, **BAD[what])


def test_a_table_without_a_header_line(tmp_path, capsys) -> None:
    (tmp_path / "t.csv").write_text("20.0,3,4\n20.5,6,7\n")
    assert main(["new", str(tmp_path / "t.csv"), "--label", "x"]) == 2
    assert rows()["no header line"] in capsys.readouterr().err


def test_a_file_in_latin_1(tmp_path) -> None:
    (tmp_path / "patients.csv").write_bytes(table({(6, "hospital"): "nörd"}).encode("latin-1"))
    data = f"name: table, path: patients.csv, shadow_size: 30, {NATURAL}"
    assert rows()["the file is in Latin-1"] in checked(tmp_path, data)


def test_an_empty_folder_of_a_class(tmp_path) -> None:
    for kind, count in (("cat", 2), ("fish", 0)):
        (tmp_path / "pets" / kind).mkdir(parents=True)
        for i in range(count):
            Image.new("L", (8, 8), i).save(tmp_path / "pets" / kind / f"{i}.png")
    assert rows()["a folder of a class is empty"] in checked(tmp_path, IMAGES)


def test_a_class_of_the_test_part_alone(tmp_path) -> None:
    for place, color in (("train/cat", 1), ("train/dog", 2), ("test/dog", 3), ("test/fish", 4)):
        (tmp_path / "pets" / place).mkdir(parents=True)
        Image.new("L", (8, 8), color).save(tmp_path / "pets" / place / "1.png")
    assert rows()["a class is in the test part alone"] in checked(tmp_path, IMAGES)


def test_files_of_other_columns(tmp_path) -> None:
    (tmp_path / "hospitals").mkdir()
    (tmp_path / "hospitals/north.csv").write_text("age,chol,outcome\n20,5,ill\n")
    (tmp_path / "hospitals/south.csv").write_text("age,outcome\n20,ill\n")
    data = f"name: table, path: hospitals, shadow_size: 30, {DEALT}"
    assert rows()["files of a folder have different columns"] in checked(tmp_path, data)


def test_images_of_several_sizes(tmp_path) -> None:
    for i in range(40):
        folder = tmp_path / "pets" / ("cat", "dog")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8 if i else 9), i).save(folder / f"{i:02d}.png")
    assert rows()["images of several sizes"] in checked(tmp_path, IMAGES)
