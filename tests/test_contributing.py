"""CONTRIBUTING tells the truth: its map and its table are those of the code, and its examples are components like any other."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from algorithms.interfaces import ComponentContract
from datasets.components import components
from orchestrator.config.listing import listing
from orchestrator.config.slots import SLOTS
from orchestrator.conformance import suite
from orchestrator.report.vocabulary import component_label
from tests.support.page_examples import PAGE, Example, added
from tests.support.pages import ROOT, code, page
from tests.test_imports import ROOMS

FOLDERS = {slot.key: slot.folder for slot in SLOTS}
KIND = {"ModelAttack": "models", "UpdateAttack": "updates", "ReplicaAttack": "replicas", "HalvesAttack": "halves"}

# The map and the table of contracts


def test_the_map_shows_every_room() -> None:
    told = {word.rstrip("/").removesuffix(".py") for text in code(PAGE) for word in text.split()}
    assert {room.replace(".", "/") for room in ROOMS} <= told


@dataclass
class Row:
    """A row of the table of contracts: names with their arguments, None for what is no function."""

    folder: str
    contract: type
    owed: dict[str, list[str] | None]
    optional: dict[str, list[str] | None]


def names(cell: str) -> dict[str, list[str] | None]:
    found = re.findall(r"`(\w+)(\([^)]*\))?`", cell)
    return {name: arguments.strip("()").split(", ") if arguments else None for name, arguments in found}


def table() -> list[Row]:
    pattern = r"^\| (?:`[a-z.]+`, `([a-z/]+)/` )?\| \[(\w+)\]\([\w/.]+\)[^|]*\| ([^|]*)\| ?([^|]*)\|$"
    found, folder = [], ""
    for named, contract, owed, optional in re.findall(pattern, page(PAGE), re.MULTILINE):
        folder = named.replace("/", ".") or folder
        (own,) = [one for one in importlib.import_module(folder).CONTRACTS if one.__name__ == contract]
        found.append(Row(folder, own, names(owed), names(optional)))
    return found


def test_the_table_has_every_contract_of_every_slot() -> None:
    contracts = [one for folder in FOLDERS.values() for one in importlib.import_module(folder).CONTRACTS]
    assert [row.contract for row in table()] == contracts


@pytest.mark.parametrize("row", table(), ids=lambda row: row.contract.__name__)
def test_the_table_says_what_a_contract_owes_and_what_is_optional(row: Row) -> None:
    every = {name for one in row.contract.__mro__ for name in {**vars(one), **vars(one).get("__annotations__", {})}}
    every = {name for name in every if not name.startswith("_")}
    lacking = object()
    default = {name: getattr(row.contract, name, lacking) for name in every}
    owed = {name for name, own in default.items() if own is lacking or getattr(own, "__isabstractmethod__", False)}
    common = {name for name in dir(ComponentContract) if not name.startswith("_")}
    assert set(row.owed) == owed
    assert set(row.optional) == every - owed - common


@pytest.mark.parametrize("row", table(), ids=lambda row: row.contract.__name__)
def test_the_signatures_in_the_table_are_those_of_contracts_and_components(row: Row) -> None:
    for name, arguments in (row.owed | row.optional).items():
        own = getattr(row.contract, name, None)
        if not inspect.isfunction(own):
            assert arguments is None, name
            continue
        assert list(inspect.signature(own).parameters) == arguments, name
        for component, module in components(row.folder).items():
            if KIND.get(row.contract.__name__, "") not in ("", *getattr(module, "KINDS", ())):
                continue  # another kind of attack, which may use the name for something of its own
            found = getattr(module, name, None)
            assert found is None or list(inspect.signature(found).parameters) == arguments, f"{component}.{name}"


# The three examples, each a file beside the folder of its slot


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Example]]:
    with added(tmp_path_factory.mktemp("checkout")) as found:
        yield found


def test_there_is_a_data_set_an_attack_and_a_server_strategy(examples: dict[str, Example]) -> None:
    assert list(examples) == ["data", "attacks", "aggregation"]


def test_the_examples_are_found_and_described(examples: dict[str, Example]) -> None:
    for example in examples.values():
        assert (example.module.__doc__ or "").split("\n")[0] in listing(None)
        assert component_label(example.slot.key, example.name) == example.module.LABEL != example.name


@pytest.mark.parametrize("key", ["data", "attacks", "aggregation"])
def test_the_examples_conform(examples: dict[str, Example], key: str) -> None:
    findings = list(suite.findings(examples[key].slot, examples[key].name))
    assert {one.check.title: one.problems for one in findings if one.problems} == {}
    assert len(findings) >= 4 and not any(one.skipped for one in findings)


FITS = """
import bars, correctness, heavy_ball
from algorithms.interfaces import AggregationContract
from attacks.interfaces import ModelAttack
from datasets.interfaces import SourceContract
"""


def test_the_examples_have_types_that_fit_their_contracts(examples: dict[str, Example], tmp_path: Path) -> None:
    """A variable has the type of what it is given first, here a contract's function; the example's must fit it."""
    script, checked = FITS, 0
    for row in table():
        for example in examples.values():
            own = [name for name in (row.owed | row.optional) if inspect.isfunction(getattr(row.contract, name, None))]
            own = [name for name in own if example.slot.folder == row.folder and hasattr(example.module, name)]
            for name in own:
                script += f"f{checked} = {row.contract.__name__}.{name}\nf{checked} = {example.name}.{name}\n"
                checked += 1
    assert checked >= 6
    assert mypy(tmp_path, examples, script) == (0, "Success: no issues found in 4 source files")
    status, complaint = mypy(tmp_path, examples, FITS + "f = AggregationContract.apply\nf = heavy_ball.weigh\n")
    assert status == 1 and "Incompatible types in assignment" in complaint


def mypy(folder: Path, examples: dict[str, Example], script: str) -> tuple[int, str]:
    """The status and the words of mypy, with the settings of this repository and its cache."""
    (folder / "fits.py").write_text(script)
    files = [folder / "fits.py"]
    for example in examples.values():
        files.append(folder / example.path.name)
        files[-1].write_text(example.path.read_text())
    command = [sys.executable, "-m", "mypy", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()
