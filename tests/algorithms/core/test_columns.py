"""The one projection of numbers to columns: what it makes can be read back, and nothing else makes
or reads names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from algorithms.core.columns import columns, interval, of_one_model, of_part, part_names, register
from algorithms.core.metric import (
    RUN,
    WORST,
    Metric,
    Number,
    Of,
    of_client,
    of_cluster,
    of_group,
    of_model,
    of_round,
)
from attacks.interfaces import Audit, Exposure
from orchestrator.config.metric_names import metrics
from orchestrator.report.data import results
from tests.support.federations import federation

AUC = Metric("auc", "Own", "AUC", ends=True, chance="auc_null")
OWN = register([AUC, Metric("gap", "Own", "gap", chance=0.5)])


def test_a_number_has_the_columns_that_its_metric_declares() -> None:
    whole = Number("auc", 0.7, RUN, 0.6, 0.8, 0.5)
    by_column = {"auc": 0.7, "auc_low": 0.6, "auc_high": 0.8, "auc_null": 0.5}
    assert columns([whole], OWN) == by_column
    assert columns([Number("gap", 0.1, RUN, 0.0, 0.2, 0.5)], OWN) == {"gap": 0.1}
    assert columns([Number("auc", 0.7)], OWN) == {"auc": 0.7}
    assert interval("auc") == ("auc", "auc_low", "auc_high")


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (of_model("model_1"), ["auc_model_1", "auc_low_model_1", "auc_model_1_null"]),
        (of_cluster(1), ["auc_cluster_1", "auc_low_cluster_1", "auc_cluster_1_null"]),
        (of_round(5), ["auc_round_5", "auc_low_round_5", "auc_null_round_5"]),
        (of_group("north"), ["auc_north", "auc_low_north", "auc_north_null"]),
        (WORST, ["auc_worst", "auc_low_worst", "auc_worst_null"]),
    ],
)
def test_parts_of_the_run_have_columns_of_their_own(of: Of, expected: list[str]) -> None:
    assert list(columns([Number("auc", 0.7, of, low=0.6, chance=0.5)], OWN)) == expected


def test_a_declared_column_of_a_part_has_the_chance_that_it_declares() -> None:
    declared = register([AUC, Metric("auc_worst", "Own", "worst", chance="auc_guess")])
    found = columns([Number("auc", 0.7, WORST, chance=0.5)], declared)
    assert found == {"auc_worst": 0.7, "auc_guess": 0.5}


PARTS = (of_model("model_3"), of_cluster(0), of_round(12), of_model("minority"), WORST)


@pytest.mark.parametrize("of", PARTS, ids=lambda of: of.name)
def test_every_column_of_every_metric_is_read_back(of: Of) -> None:
    """A part of a declared metric is described like it, unless it is declared itself."""
    declared = metrics()
    derived = {name for entry in declared.values() for name in part_names(entry)}
    for name in declared.keys() - derived:
        (column,) = columns([Number(name, 1.0, of)], declared)
        read = of_part(column, declared)
        assert column in declared or (
            read is not None and (read[0].name, read[1]) == (name, of.name)
        )


def test_models_without_a_name_are_known_by_the_metrics_declaration() -> None:
    declared = register(
        [AUC, Metric("kept", "Own", "kept", by_model=False), Metric("a_model_1", "Own", "own")]
    )
    assert of_one_model("auc_model_1", declared) and of_one_model("auc_other_2", declared)
    for name in ("kept_model_1", "unheard_of_model_1", "a_model_1", "auc_minority", "model_1"):
        assert not of_one_model(name, declared)


@pytest.mark.parametrize("name", ["low", "high", "null"])
def test_a_group_cannot_overwrite_an_end_of_an_interval(name: str) -> None:
    """Under its own name it is refused, and a federation calls it otherwise."""
    whole = Number("auc", 0.7, RUN, 0.6, 0.8, 0.5)
    with pytest.raises(ValueError, match=f"auc_{name}"):
        columns([whole, Number("auc", 0.9, of_group(name))], OWN)
    with pytest.raises(ValueError, match=f"auc_{name}"):
        columns([Number("auc", 0.9, of_group(name))], OWN)
    data = federation(np.zeros((1, 1)), [1], group_names=("low", "high", "null", "poor"))
    groups = [Number("auc", value, of_group(one)) for value, one in enumerate(data.group_columns)]
    found = columns([whole, *groups], OWN)
    assert {**found, **columns([whole], OWN)} == found and len(found) == 8


def test_two_numbers_cannot_have_one_column() -> None:
    with pytest.raises(ValueError, match="column gap"):
        columns([Number("gap", 0.1), Number("gap", 0.2)], OWN)
    again = [Number("gap", float("nan")), Number("gap", float("nan"))]
    assert list(columns(again, OWN)) == ["gap"]


@pytest.mark.parametrize("name", ["gap_model_1", "auc_cluster_0", "gap_round_3", "auc_worst"])
def test_an_own_metric_cannot_vanish_because_it_looks_like_a_part(name: str) -> None:
    """What is not declared and would be read as a part is refused; what is declared stays."""
    with pytest.raises(ValueError, match=f"{name} is not declared"):
        columns([Number(name, 0.5)], OWN)
    assert columns([Number("unheard_of_model_1", 0.5)], OWN) == {"unheard_of_model_1": 0.5}
    declared = register([*OWN.values(), Metric(name, "Own", "own")])
    assert columns([Number(name, 0.5)], declared) == {name: 0.5}
    assert not of_one_model(name, declared)


def test_a_declared_metric_that_looks_like_a_part_is_in_the_tables(tmp_path, monkeypatch) -> None:
    declared = register([*OWN.values(), Metric("gap_model_1", "Own", "own")])
    monkeypatch.setattr("orchestrator.report.data.metrics", lambda: declared)
    rows = [
        {
            "id": str(seed),
            "status": "finished",
            "seed": seed,
            "gap_model_1": 0.5,
            "gap_model_2": 0.5,
        }
        for seed in (0, 1)
    ]
    found = results(tmp_path, rows, (), {}).metrics
    assert "gap_model_1" in found and "gap_model_2" not in found


def test_attacks_that_return_metrics_by_name_are_told_how_numbers_are_made() -> None:
    for made in (lambda: Exposure({"auc": 0.5}), lambda: Exposure(metrics={"auc": 0.5})):
        with pytest.raises(TypeError, match="Number"):
            made()
    with pytest.raises(TypeError, match="Number"):
        Audit(None, (), metrics={"auc": 0.5})
    with pytest.raises(ImportError, match="of_client"):
        from attacks.interfaces import Measure  # noqa: F401
    assert Number("auc", 0.7, of_client(3)).of.name == "client_3"


# Nobody else makes or reads names

ROOT = Path(__file__).parents[3]
PROJECTION = ROOT / "algorithms" / "core" / "columns.py"
SUFFIX = re.compile(
    r"_(low|high|null|worst|worst_client)$|^_(low|high|null|worst|worst_client)_"
    r"|_(model|round|cluster)_$|^_(model|round|cluster)_"
)
READERS = ("startswith", "endswith", "removesuffix", "removeprefix", "partition", "rpartition")
EXPRESSIONS = ("compile", "match", "fullmatch", "search", "sub", "findall", "split")


def names_by_suffix(source: str) -> Iterator[int]:
    """Lines that make or read a name of a column by its suffix: f-strings and suffixes alone, and
    texts that are looked for in a name.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            texts = node.values
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            texts = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            texts = [node.left] if isinstance(node.ops[0], ast.In | ast.NotIn) else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            reads = node.func.attr in (*READERS, *EXPRESSIONS)
            texts = [one for arg in node.args for one in ast.walk(arg)] if reads else []
        else:
            continue
        for text in texts:
            constant = isinstance(text, ast.Constant) and isinstance(text.value, str)
            if constant and SUFFIX.search(text.value):
                yield node.lineno


def test_nobody_makes_or_reads_names_by_suffix_but_the_projection() -> None:
    for folder in ("algorithms", "attacks", "orchestrator"):
        for path in (ROOT / folder).rglob("*.py"):
            if path != PROJECTION:
                lines = list(names_by_suffix(path.read_text()))
                assert not lines, (path.relative_to(ROOT).as_posix(), lines)


@pytest.mark.parametrize(
    "line",
    [
        'low = trial.get(f"{name}_low")',
        'row[f"{name}_null"] = 0.5',
        'row |= {f"{metric}_model_{j}": 1.0}',
        'row[f"{metric}_round_{r}"] = 1.0',
        'name.endswith("_high")',
        'name.endswith(("_low", "_high"))',
        'name.removesuffix("_worst")',
        'whole, _, number = name.rpartition("_model_")',
        'mine = "_model_" in name',
        'name + "_worst_client"',
        're.compile("_cluster_")',
    ],
)
def test_the_check_finds_each_way_to_make_or_read_a_name(line: str) -> None:
    assert set(names_by_suffix(line)) == {1}


def test_the_check_leaves_other_texts_alone() -> None:
    for line in ('"sia_low"', 'f"{name}_auc"', 'name.startswith("client")', 'f"the model_{x}"'):
        assert not list(names_by_suffix(line))
