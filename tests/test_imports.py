"""Imports run one way: the layers are stated here, and neither a room nor a file may be part of
a circle.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("datasets", "algorithms", "attacks", "orchestrator")

# From the bottom up. A room may import from its own line only what is its own, and anything from
# the lines above it here.
LAYERS = (
    ("datasets",),
    ("algorithms.core",),
    ("algorithms.auditing", "algorithms.curvature", "algorithms.metrics"),
    ("algorithms.interfaces",),
    ("algorithms.releases",),
    tuple(
        f"algorithms.{slot}"
        for slot in ("models", "training", "clustering", "objectives", "aggregation", "privacy")
    ),
    ("algorithms.engine",),
    ("attacks",),
    ("orchestrator.config",),
    ("orchestrator.results",),
    ("orchestrator.trial",),
    ("orchestrator.report.data", "orchestrator.report.markdown"),
    ("orchestrator.report.vocabulary",),
    ("orchestrator.papers",),
    ("orchestrator.cluster", "orchestrator.report"),
    ("orchestrator.tracking",),
    ("orchestrator.scheduling", "orchestrator.conformance"),
    ("orchestrator.estimates",),
    ("orchestrator.commands",),
    ("orchestrator.api",),
    ("orchestrator.subcommands",),
    ("orchestrator.cli",),
)
ROOMS = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
FREE = {
    "algorithms",
    "orchestrator",
    "orchestrator.__main__",
}  # a package itself, which imports nothing that is ours

Import = tuple[str, str]  # who imports, and what: dotted names of modules


def module_name(path: Path) -> str:
    dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return dotted.removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    return {
        module_name(path): path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def imported(name: str, tree: ast.AST) -> Iterator[str]:
    """The modules of ours that ``tree`` imports, also inside functions and for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for one in found:
            while one and one not in modules():
                one = one.rpartition(".")[0]
            if one and one != name:
                yield one


@cache
def imports() -> frozenset[Import]:
    return frozenset(
        (name, other)
        for name, path in modules().items()
        for other in imported(name, ast.parse(path.read_text(encoding="utf-8")))
    )


def room(module: str) -> str | None:
    """The longest stated room that ``module`` is in."""
    parts = module.split(".")
    return next((r for n in range(len(parts), 0, -1) if (r := ".".join(parts[:n])) in ROOMS), None)


def circle(edges: frozenset[Import]) -> list[str]:
    """Some circle of imports, or nothing."""
    graph: dict[str, set[str]] = {}
    for one, other in sorted(edges):
        graph.setdefault(one, set()).add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def upward(edges: frozenset[Import]) -> list[str]:
    """Imports against the layers."""
    return [
        f"{one} imports {other}"
        for one, other in sorted(edges)
        if (here := room(one))
        and (there := room(other))
        and here != there
        and ROOMS[there] >= ROOMS[here]
    ]


def test_every_module_is_in_a_room() -> None:
    assert [name for name in modules() if room(name) is None and name not in FREE] == []


def test_every_room_exists() -> None:
    assert [name for name in ROOMS if name not in modules()] == []


def test_no_import_runs_upward() -> None:
    assert upward(imports()) == []


def test_no_module_is_part_of_a_circle() -> None:
    assert circle(imports()) == []


def test_mathematics_knows_neither_ray_nor_mlflow_nor_the_terminal() -> None:
    banned = re.compile(r"^ *(?:import|from) (ray|mlflow|rich|orchestrator)\b", re.MULTILINE)
    pure = {name: path.read_text(encoding="utf-8") for name, path in modules().items()}
    assert [
        name
        for name, text in pure.items()
        if not name.startswith("orchestrator") and banned.search(text)
    ] == []


@pytest.mark.parametrize(
    "edge",
    [
        ("datasets.files", "algorithms.core.noise"),
        ("orchestrator.config.run", "orchestrator.trial.loop"),
        ("algorithms.models.mlp", "algorithms.training.dp_sgd"),
    ],
)
def test_an_import_against_the_layers_is_named(edge: Import) -> None:
    assert upward(imports() | {edge}) == ["{} imports {}".format(*edge)]


def test_a_circle_is_found() -> None:
    assert set(circle(frozenset({("a", "b"), ("b", "c"), ("c", "b")}))) == {"b", "c"}


SLOW = {"torch", "torchvision", "ray", "mlflow"}
EVERY = (
    "from datasets.components import components; from orchestrator.config import run, sweep_file; "
)
EVERY += "found = {slot.key: components(slot.folder) for slot in run.SLOTS}"
DIGITS = (
    f"{EVERY}; of = found['data']['digits']; of.load(of.Config(), "
    "__import__('pathlib').Path('nowhere'))"
)


@pytest.mark.parametrize(
    ("code", "slow"),
    [
        (DIGITS, {"pandas", "sklearn", "scipy", "pyarrow", "PIL"}),
        ("import orchestrator.report", {"pandas", "matplotlib", "scipy"}),
        ("import orchestrator.estimates.dry_run", set()),
    ],
)
def test_nothing_slow_is_imported_before_it_is_needed(code: str, slow: set[str]) -> None:
    code = f"import sys; {code}; print(sorted({slow | SLOW} & {{*sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "[]\n"
