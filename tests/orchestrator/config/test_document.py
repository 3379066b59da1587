"""Reading YAML: what plain values mean, which line a key has, and what is refused."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.config.document import MOST_BYTES, TOO_LARGE, contents, read
from orchestrator.config.errors import ConfigError, ConfigProblem

PLAIN: dict[str, Any] = {
    "1e-3": 0.001,
    ".5": 0.5,
    "-1.5e+2": -150.0,
    "!!float 1": 1.0,
    "010": 10,
    "0o10": 8,
    "0x1F": 31,
    "+7": 7,
    "9223372036854775807": 2**63 - 1,
    **{text: text for text in ("1_000", "1:30", "no", "2024-01-01", "grüße")},
    "true": True,
    "null": None,
    "": None,
    "'1'": "1",
    '"true"': "true",
    "!!str 1": "1",
}


def refused(text: str) -> list[tuple[str, int | None]]:
    """The keys and lines of what is wrong with a text."""
    problems: tuple[ConfigProblem, ...] = ()
    try:
        read(text, "x.yaml")
    except ConfigError as refusal:
        problems = refusal.problems
    assert all(str(one).startswith("x.yaml") for one in problems)
    return [(".".join(map(str, one.key)), one.line) for one in problems]


@pytest.mark.parametrize(("text", "value"), PLAIN.items())
def test_plain_values(text: str, value: Any) -> None:
    (plain,) = read(f"key: {text}\n", "x.yaml").value.values()
    assert plain == value and type(plain) is type(value)
    assert math.copysign(1, read("a: -0.0", "x.yaml").value["a"]) == 1


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            "a: 1\nb:\n    c: 2\n  d: 3\n",
            4,
            "must begin in the same column as the keys, or dashes, that",
        ),
        (
            "a: 1\nb:\n  c: 2\n    d: 3\n",
            4,
            "keys of one map begin in the same column and end with ': '",
        ),
        (
            "a: b: c\n",
            1,
            "keys of one map begin in the same column and end with ': ', and a text with",
        ),
        ("a: 1\nb\nc: 3\n", 3, "this line, or the one before it, must be 'key: value', got 'c: 3'"),
        ("a:\n\tb: 1\n", 2, r"must have spaces in the place of a tab, got '\tb: 1'"),
        (
            "a: [1\nb: 2\n",
            2,
            "brackets and quotes must be closed, with commas between what is in brackets, "
            "got 'b: 2'",
        ),
        ("a: [1] 2\n", 1, "expected <block end>, but found '<scalar>', got 'a: [1] 2'"),
        ("a: @b\n", 1, "a text that begins like this must be in quotes, got 'a: @b'"),
        ("a: *b\n", 1, "found undefined alias 'b', got 'a: *b'"),
    ],
)
def test_what_is_not_yaml_is_told_in_our_words_with_its_line(
    text: str, line: int, said: str
) -> None:
    """PyYAML's "expected <block end>, but found '<block mapping start>'" says nothing to whoever
    mistook an indentation.
    """
    with pytest.raises(ConfigError) as refusal:
        read(text, "x.yaml")
    assert str(refusal.value).startswith(f"x.yaml:{line}: is not valid YAML: {said}")


def test_every_key_has_its_line() -> None:
    document = read("a: 1\nb:\n  c: {d: 2,\n      e: 3}\n  f:\n    - &x 4\n    - g: *x\n", "x.yaml")
    assert document.value == {"a": 1, "b": {"c": {"d": 2, "e": 3}, "f": [4, {"g": 4}]}}
    lines = {
        "": 1,
        "a": 1,
        "b": 2,
        "b.c": 3,
        "b.c.d": 3,
        "b.c.e": 4,
        "b.f": 5,
        "b.f.0": 6,
        "b.f.1": 7,
        "b.f.1.g": 7,
    }
    assert {
        ".".join(map(str, key)): line
        for key, (_, line) in document.places.items()
        if "?" not in key
    } == lines


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("a: 1\nb: 2\na: 3\n", [("a", 3)]),
        ("a:\n  b: {c: 1, c: 1}\nb: .nan", [("a.b.c", 2), ("b", 3)]),
        ("a: !!python/object/apply:os.system [ls]\n", [("a", 1)]),
        ("a: !mine 3\nb: !!int x\nc: [-.inf]", [("a", 1), ("b", 2), ("c.0", 3)]),
        ("a: 1e999\nb: 9223372036854775808\nc: 1" + 400 * "0", [("a", 1), ("b", 2), ("c", 3)]),
        ("1: a\n? [a, b]\n: 1\n", [("", 1), ("", 2)]),
        ("a: !!str [1]\nb: !!seq b", [("a", 1), ("b", 2)]),
        ("a: 1\n---\nb: 1\n", [("", 2)]),
        ("a: 1\nb: [1,\n", [("", 3)]),
        ("a: \x00\n", [("", 1)]),
        ('a: 1\nb: "\\UFFFFFFFF"\n', [("", 1)]),
        ('a: "\\ud800"\n', [("a", 1)]),
    ],
)
def test_what_is_refused(text: str, problems: list[tuple[str, int]]) -> None:
    assert refused(text) == problems


ALIASES = [
    "\n".join(
        ["a0: &a0 [1]"]
        + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * times)}]" for i in range(1, values)]
    )
    for times, values in ((9, 12), (1, 30))
]


@pytest.mark.parametrize(
    "text", ["[" * 5000, "{a: " * 5000, "? " * 5000, "a: &x [*x, *x]", *ALIASES]
)
def test_depth_and_values_are_bounded(text: str) -> None:
    began = time.perf_counter()
    with pytest.raises(ConfigError, match=TOO_LARGE):
        read(text, "x.yaml")
    assert time.perf_counter() - began < 30


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_file(name: str) -> str:
        with pytest.raises(ConfigError) as caught:
            contents(Path(name))
        return str(caught.value)

    monkeypatch.chdir(tmp_path)
    Path("quickstart.yaml").write_text("a: 1")
    assert (
        of_file("quickstrat.yaml")
        == "quickstrat.yaml: no such file. Did you mean 'quickstart.yaml'?"
    )
    assert of_file("away/x.yaml") == "away/x.yaml: no such file."
    assert of_file(".").endswith("Is a directory")
    assert of_file("a\0b").endswith("embedded null byte")
    Path("x.yaml").write_bytes(b"a: 1\nb: \xff\xfe\n")
    assert of_file("x.yaml") == "x.yaml:2: is not UTF-8 text"
    Path("x.yaml").write_bytes(b"a" * (MOST_BYTES + 1))
    assert "256 KiB" in of_file("x.yaml")
    Path("x.yaml").write_bytes("\ufeffa: ü\r\nb: 2\r\n".encode())
    assert read(contents(Path("x.yaml")), "x.yaml").value == {"a": "ü", "b": 2}


PIECES = [
    *"a:-[]{},'\"|>#%1?~@`!\n\t\x85\ufeff",
    ": ",
    "  ",
    "- ",
    "&x ",
    "*x",
    "!!int ",
    "---\n",
    "<<",
    "\\u",
]


@settings(max_examples=400, deadline=None)
@example(text="&a a: *a")
@example(text="%TAG ! tag:x,2000:\n---\na: !b 1")
@given(text=st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    refused(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Zl", "Zp"))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("abc: -'\"#", max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_json_is_read_as_itself(value: Any) -> None:
    assert read(json.dumps(value, ensure_ascii=False), "x.yaml").value == value
