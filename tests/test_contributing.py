"""CONTRIBUTING tells the truth: its map and its table are those of the code, and its examples
are components like any other.
"""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass

import pytest

from algorithms.interfaces import ComponentContract
from datasets.components import components
from orchestrator.config.listing import listing
from orchestrator.conformance import suite
from orchestrator.report.vocabulary import component_label
from tests.support.page_examples import PAGE, Example, examples
from tests.support.pages import code, page
from tests.support.slot_components import FOLDERS
from tests.test_imports import ROOMS

__all__ = ["examples"]
KIND = {
    "ModelAttack": "models",
    "UpdateAttack": "updates",
    "SumAttack": "sums",
    "ReplicaAttack": "replicas",
    "HalvesAttack": "halves",
    "ChoiceAttack": "choices",
}

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
    return {
        name: arguments.strip("()").split(", ") if arguments else None for name, arguments in found
    }


def table() -> list[Row]:
    pattern = (
        r"^\| (?:`[a-z.]+`, `([a-z/]+)/` )?\| \[(\w+)\]\([\w/.]+\)[^|]*\| ([^|]*)\| ?([^|]*)\|$"
    )
    found, folder = [], ""
    for named, contract, owed, optional in re.findall(pattern, page(PAGE), re.MULTILINE):
        folder = named.replace("/", ".") or folder
        (own,) = [
            one for one in importlib.import_module(folder).CONTRACTS if one.__name__ == contract
        ]
        found.append(Row(folder, own, names(owed), names(optional)))
    return found


def test_the_table_has_every_contract_of_every_slot() -> None:
    contracts = [
        one for folder in FOLDERS.values() for one in importlib.import_module(folder).CONTRACTS
    ]
    assert [row.contract for row in table()] == contracts


@pytest.mark.parametrize("row", table(), ids=lambda row: row.contract.__name__)
def test_the_table_says_what_a_contract_owes_and_what_is_optional(row: Row) -> None:
    held = list(map(vars, row.contract.__mro__))
    every = {
        name
        for own in held
        for name in (*own, *own.get("__annotations__", ()))
        if not name.startswith("_")
    }
    values = {name: getattr(row.contract, name) for name in every if hasattr(row.contract, name)}
    optional = {
        name for name, value in values.items() if not getattr(value, "__isabstractmethod__", False)
    }
    assert set(row.owed) == every - optional
    assert set(row.optional) == optional - set(dir(ComponentContract))


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
            assert found is None or list(inspect.signature(found).parameters) == arguments, (
                f"{component}.{name}"
            )


# The three examples, each a file beside the folder of its slot


def test_the_examples_are_found_and_described(examples: dict[str, Example]) -> None:
    assert list(examples) == ["data", "attacks", "aggregation"]
    for example in examples.values():
        assert (example.module.__doc__ or "").split("\n")[0] in listing(None)
        assert (
            component_label(example.slot.key, example.name) == example.module.LABEL != example.name
        )


@pytest.mark.parametrize("key", ["data", "attacks", "aggregation"])
def test_the_examples_conform(examples: dict[str, Example], key: str) -> None:
    findings = list(suite.findings(examples[key].slot, examples[key].name))
    assert {finding.check.title: finding.problems for finding in findings if finding.problems} == {}
    assert len(findings) >= 4 and not any(finding.skipped for finding in findings)
