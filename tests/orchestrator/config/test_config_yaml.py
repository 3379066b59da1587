"""Reading YAML: what plain values mean, which line a key has, and what is refused."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.config.errors import ConfigError
from orchestrator.config.yaml_reader import MOST_BYTES, contents, read


def refused(text: str) -> list[str]:
    """The problems of ``text``, whether reading went on after them or not."""
    try:
        return [str(problem) for problem in read(text, "x.yaml").problems]
    except ConfigError as refusal:
        return [str(problem) for problem in refusal.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1.5e+2", -150.0),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("-7", -7),
        ("+7", 7),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("2024-01-01", "2024-01-01"),
        ("1.2.3", "1.2.3"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("none", "none"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 1", "1"),
        ("!!int 1", 1),
        ("!!float 1", 1.0),
        ("9223372036854775807", 2**63 - 1),
        ("grüße", "grüße"),
    ],
)
def test_plain_values(text: str, value: Any) -> None:
    found = read(f"key: {text}\n", "x.yaml").value["key"]
    assert found == value
    assert type(found) is type(value)


def test_minus_zero_is_zero() -> None:
    assert math.copysign(1, read("a: -0.0", "x.yaml").value["a"]) == 1


def test_every_key_has_its_line() -> None:
    text = "a: 1\nb:\n  c: {d: 2,\n      e: 3}\n  f:\n    - 4\n    - g: 5\n"
    document = read(text, "x.yaml")
    assert document.value == {"a": 1, "b": {"c": {"d": 2, "e": 3}, "f": [4, {"g": 5}]}}
    wanted = {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 3,
        ("b", "c", "d"): 3,
        ("b", "c", "e"): 4,
        ("b", "f"): 5,
        ("b", "f", 0): 6,
        ("b", "f", 1): 7,
        ("b", "f", 1, "g"): 7,
    }
    assert {key: document.lines[key] for key in wanted} == wanted


def test_an_alias_repeats_a_value() -> None:
    assert read("a: &small [1, 2]\nb: *small\n", "x.yaml").value == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("a: 1\nb: 2\na: 3\n", ["x.yaml:3: a: is given twice, first on line 1"]),
        ("a:\n  b: {c: 1, c: 1}\n", ["x.yaml:2: a.b.c: is given twice, first on line 2"]),
        (
            "a: !!python/object/apply:os.system [ls]\n",
            [
                "x.yaml:1: a: the tag !!python/object/apply:os.system is not allowed; a file may contain plain values only",
            ],
        ),
        ("a: !mine 3\n", ["x.yaml:1: a: the tag !mine is not allowed; a file may contain plain values only"]),
        (
            "a: !!timestamp 2024-01-01\n",
            ["x.yaml:1: a: the tag !!timestamp is not allowed; a file may contain plain values only"],
        ),
        ("a: !!int x\n", ["x.yaml:1: a: is tagged !!int, got 'x'"]),
        (
            "a: .nan\nb: [-.inf]\n",
            ["x.yaml:1: a: must be a finite number, got .nan", "x.yaml:2: b.0: must be a finite number, got -.inf"],
        ),
        ("a: 1e999\n", ["x.yaml:1: a: must be a finite number, got 1e999"]),
        (
            "a: 9223372036854775808\n",
            ["x.yaml:1: a: must be an integer of at most 2^63 - 1 in size, got 9223372036854775808"],
        ),
        ("1: a\n", ["x.yaml:1: a key must be a text, got 1; put it in quotes"]),
        ("a: {true: 1}\n", ["x.yaml:1: a: a key must be a text, got true; put it in quotes"]),
        ("? [a, b]\n: 1\n", ["x.yaml:1: a key must be a text, got ['a', 'b']"]),
        (
            "a: &a {b: 1}\nc:\n  <<: *a\n",
            ["x.yaml:3: c: merge keys (<<) are not supported; write the fields out"],
        ),
        ("a: &x [*x]\n", ["x.yaml:1: a.0.0: is nested more than 20 levels deep"]),
        ("a: *x\n", ["x.yaml:1: is not valid YAML: found undefined alias 'x' (column 4)"]),
        ("a: !!str [1]\n", ["x.yaml:1: a: the tag !!str is not allowed; a file may contain plain values only"]),
        ("a: !!seq b\n", ["x.yaml:1: a: the tag !!seq is not allowed; a file may contain plain values only"]),
        (
            "a: 1\n---\nb: 1\n",
            [
                "x.yaml:2: is not valid YAML: but found another document (column 1, "
                "expected a single document in the stream from line 1)"
            ],
        ),
        ("a:\n\tb: 1\n", ["x.yaml:2: is not valid YAML: found character '\\t' that cannot start any token (column 1)"]),
        ("a: b: c\n", ["x.yaml:1: is not valid YAML: mapping values are not allowed here (column 5)"]),
        (
            "a: 1\nb: [1,\n",
            ["x.yaml:3: is not valid YAML: expected the node content, but found '<stream end>' (column 1)"],
        ),
        (
            "a: 'b\nc: 1\n",
            [
                "x.yaml:3: is not valid YAML: found unexpected end of stream (column 1, "
                "while scanning a quoted scalar from line 1)"
            ],
        ),
        ("a: \x00\n", ["x.yaml:1: contains a character that is not text: U+0000"]),
        ('a: 1\nb: "\\UFFFFFFFF"\n', ["x.yaml: is not valid YAML: a \\U escape names no character"]),
        ('a: "\\ud800"\n', ["x.yaml:1: a: contains half a character (a lone surrogate)"]),
        (
            "a: 1\na: 2\nb: }\n",
            [
                "x.yaml:3: is not valid YAML: expected the node content, but found '}' (column 4)",
            ],
        ),
    ],
)
def test_what_is_refused(text: str, problems: list[str]) -> None:
    assert refused(text) == problems


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[{a: "])
def test_depth_is_bounded(opening: str) -> None:
    (problem,) = refused(opening * 5000)
    assert problem.endswith("is nested more than 20 levels deep")


def test_aliases_cannot_multiply_without_bound() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    began = time.perf_counter()
    (problem,) = refused("\n".join(lines))
    assert problem.endswith("the file has more than 50000 values, with aliases expanded")
    assert time.perf_counter() - began < 5


def test_aliases_cannot_nest_without_bound() -> None:
    lines = ["a0: &a0 [1]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 30)]
    (problem,) = refused("\n".join(lines))
    assert problem.endswith("is nested more than 20 levels deep")


def of_file(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        contents(path)
    return str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart.yaml").write_text("a: 1")
    Path("folder").mkdir()
    assert of_file(Path("quickstrat.yaml")) == "quickstrat.yaml: no such file. Did you mean 'quickstart.yaml'?"
    assert of_file(Path("zzz.yaml")) == "zzz.yaml: no such file."
    assert of_file(Path("away/x.yaml")) == "away/x.yaml: no such file. The folder away does not exist."
    assert of_file(Path("folder")) == "folder: is a directory; a YAML file is needed"
    assert of_file(Path("quickstart.yaml/x")) == "quickstart.yaml/x: cannot be read: Not a directory"
    assert of_file(Path("x" * 300)).endswith(": cannot be read: File name too long")
    assert of_file(Path("a\0b")).endswith(": cannot be read: embedded null byte")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)
    assert of_file(Path("x.yaml")) == "x.yaml: cannot be read: Permission denied"


def test_files_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("x.yaml")
    file.write_bytes(b"a: 1\nb: \xff\xfe\n")
    assert of_file(file) == "x.yaml:2: is not UTF-8 text: byte 0xff in column 4"
    file.write_bytes("a: 1".encode("utf-16"))
    assert of_file(file) == "x.yaml:1: is not UTF-8 text: byte 0xff in column 1"
    file.write_bytes(b"a" * (MOST_BYTES + 1))
    assert of_file(file) == "x.yaml: is longer than 256 KiB, the largest size that is read"
    file.write_bytes("\ufeffa: ü\r\nb: 2\r\n".encode())
    assert read(contents(file), "x.yaml").value == {"a": "ü", "b": 2}


PIECES = ["a", ": ", "\n", "  ", "- ", "[", "]", "{", "}", ",", "&x ", "*x", "!!int ", "!", "'", '"', "|", ">", "#",
          "%", "1", "? ", "---\n", "...\n", "\t", "~", "<<", "\\u", "@", "`", "\x85", "\ufeff"]  # fmt: skip


@settings(max_examples=400, deadline=None)
@example(text="&a a: *a")
@example(text="%TAG ! tag:x,2000:\n---\na: !b 1")
@given(text=st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert all(line.startswith("x.yaml") for line in refused(text))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Zl", "Zp"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc: -'\"#", max_size=5), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_json_is_read_as_itself(value: Any) -> None:
    assert read(json.dumps(value, ensure_ascii=False), "x.yaml").value == value
