"""How a problem is put into words: from a field's type and range, in one printable line."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from datasets.components import Config
from orchestrator.config.errors import ConfigError, ConfigProblem, describe, dotted_key, format_value, suggest, validate


class Inner(BaseModel):
    depth: int = Field(default=2, multiple_of=2)


class Fields(Config):
    """One field of every kind that components use."""

    whole: int = Field(1, ge=1, le=9)
    share: float = Field(0.5, ge=0, lt=1)
    below: float = Field(0.5, lt=1)
    pair: tuple[int, float] = (1, 2.0)
    several: tuple[Annotated[int, Field(ge=0)], ...] = Field((), min_length=0, max_length=3)
    some: tuple[str, ...] = Field(("a",), min_length=1)
    word: Literal["loop", "vmap"] = "loop"
    one: Literal["only"] = "only"
    either: Literal["a", "b"] | Annotated[int, Field(ge=0)] | None = None
    on: bool = False
    text: str = ""
    table: dict[str, int] = Field(default_factory=dict)
    inner: Inner = Field(default_factory=Inner)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("whole", 10, "whole: must be an integer in [1, 9], got 10"),
        ("whole", None, "whole: must be an integer in [1, 9], got null"),
        ("whole", {"a": [1, {"b": [[2]]}]}, "whole: must be an integer in [1, 9], got {a: [1, {b: [...]}]}"),
        ("share", 1, "share: must be a number in [0, 1), got 1"),
        ("below", 3, "below: must be a number < 1, got 3"),
        ("pair", [1], "pair: must be a list of 2: an integer, a number, got [1]"),
        ("pair", ["a", 2], "pair.0: must be an integer, got 'a'"),
        ("pair", 3, "pair: must be a list of 2: an integer, a number, got 3"),
        ("several", [1, 2, 3, 4], "several: must be a list of at most 3, each an integer >= 0, got [1, 2, 3, 4]"),
        ("several", [1, -1], "several.1: must be an integer >= 0, got -1"),
        ("some", [], "some: must be a list of at least 1, each a text, got []"),
        ("word", "vmpa", "word: must be one of 'loop', 'vmap', got 'vmpa'. Did you mean 'vmap'?"),
        ("one", "other", "one: must be 'only', got 'other'"),
        ("either", -1, "either: must be one of 'a', 'b' or an integer >= 0 or null, got -1"),
        ("on", "yes", "on: must be true or false, got 'yes'"),
        ("text", True, "text: must be a text, got true; put it in quotes"),
        ("text", ["a" * 100], f"text: must be a text, got ['{'a' * 55}..."),
        ("table", [], "table: must be a map, got []"),
        ("table", {"a": "b"}, "table.a: must be a valid integer, got 'b'"),
        ("inner", {"dept": 2}, ""),
        ("inner", {"depth": 3}, "inner.depth: must be a multiple of 2, got 3"),
    ],
)
def test_every_kind_of_field_has_its_sentence(field: str, value: Any, sentence: str) -> None:
    filled, problems = validate(Fields, {field: value})
    assert (filled is None) == bool(sentence)
    assert [str(problem) for problem in problems] == ([sentence] if sentence else [])


def test_a_problem_is_one_line_that_any_terminal_can_print() -> None:
    problem = ConfigProblem("is wrong", ("a\nb", 3, "c\ud800"), "x\udcff.yaml", 7)
    assert str(problem) == "x\\udcff.yaml:7: a\\nb.3.c\\ud800: is wrong"
    assert str(ConfigError([problem, ConfigProblem("too")])).count("\n") == 1


def test_values_are_shown_as_they_are_written_and_not_too_long() -> None:
    assert format_value({"a": [1, 2.5, None, True, "x"]}) == "{a: [1, 2.5, null, true, 'x']}"
    assert len(format_value(list(range(10_000)))) == 60
    assert len(format_value("x" * 10_000)) == 60
    assert len(dotted_key(("x" * 10_000,))) == 60


def test_the_nearest_name_ignores_case_and_hyphens() -> None:
    assert suggest("IFCA-MIR", ["ifca", "ifca_mir"]) == "Did you mean 'ifca_mir'?"
    assert suggest("examples", ["clients", "examples_per_client"]) == "Did you mean 'examples_per_client'?"
    assert suggest("zebra", ["ifca", "ifca_mir"]) == ""


def test_what_a_schema_does_not_say_is_not_described() -> None:
    assert describe({}) == ""
    assert describe({"type": "array"}) == "a list"
