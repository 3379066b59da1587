"""Reading YAML into plain JSON values, with the line of every key.

Only the unsurprising part of YAML is accepted: the core schema of YAML 1.2 (``1e-3`` is a number, ``no`` and
``2024-01-01`` are texts, ``010`` is ten), one document, text keys, each key once. Tags that would build objects, merge
keys, NaN and infinity are refused. Aliases (``*name``) are allowed as long as they stay small. Values are made from the
parser's events and never by YAML's constructors, so no input can run code, or recurse or grow without bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml import events

from orchestrator.config.errors import ConfigError, ConfigProblem, Key, dotted_key, format_value, suggest

# A sweep file is a page or two. PyYAML reads about 200 kB per second, so these limits also bound the time to a refusal.
MOST_BYTES = 256 * 1024
MOST_VALUES = 50_000
DEEPEST = 20
LARGEST_INTEGER = 2**63 - 1

NULL = re.compile(r"~|null|Null|NULL|")
TRUE = re.compile(r"true|True|TRUE")
FALSE = re.compile(r"false|False|FALSE")
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

CORE_TAGS = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": float,
    "tag:yaml.org,2002:bool": bool,
    "tag:yaml.org,2002:null": type(None),
    "tag:yaml.org,2002:seq": list,
    "tag:yaml.org,2002:map": dict,
}


@dataclass(frozen=True)
class Document:
    """The content of a YAML file.

    Attributes:
        value: made of None, bool, int, float, str, list and dict.
        lines: the line of every key, from 1.
        problems: found while reading; the values that they concern are None or, for a duplicate key, its first value.
    """

    value: Any
    lines: dict[Key, int]
    problems: tuple[ConfigProblem, ...] = ()


def contents(path: Path) -> str:
    """The text of a configuration file.

    Raises:
        ConfigError: the file is missing, unreadable, too long or not UTF-8 text, or is a directory.
    """
    file = str(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError([ConfigProblem(f"no such file.{_sibling(path)}", file=file)]) from None
    except IsADirectoryError:
        raise ConfigError([ConfigProblem("is a directory; a YAML file is needed", file=file)]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError([ConfigProblem(f"cannot be read: {reason}", file=file)]) from None
    if len(raw) > MOST_BYTES:
        raise ConfigError(
            [ConfigProblem(f"is longer than {MOST_BYTES // 1024} KiB, the largest size that is read", file=file)]
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        sentence = f"is not UTF-8 text: byte 0x{raw[error.start]:02x} in column {column}"
        raise ConfigError([ConfigProblem(sentence, file=file, line=line)]) from None


def _sibling(path: Path) -> str:
    """A similar file name in the same folder, or a note that the folder does not exist."""
    try:
        if not path.parent.is_dir():
            return f" The folder {path.parent} does not exist."
        near = suggest(path.name, [other.name for other in path.parent.iterdir() if other.suffix in (".yaml", ".yml")])
    except OSError:
        return ""
    return f" {near}" if near else ""


def read(text: str, file: str) -> Document:
    """Read YAML text.

    Args:
        text: the YAML text.
        file: the name of the file, for messages.

    Raises:
        ConfigError: reading cannot continue after the problem: bad syntax, several documents, too deep or too large.
    """
    reader = _Reader(file)
    try:
        value = reader.document(yaml.parse(text, Loader=yaml.SafeLoader))
    except _Stop as stop:
        raise ConfigError([*reader.problems, stop.problem]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        raise ConfigError(
            [ConfigProblem(f"contains a character that is not text: U+{code:04X}", file=file, line=line)]
        ) from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError([*reader.problems, _syntax(error, file)]) from None
    except (yaml.YAMLError, ValueError, OverflowError):  # PyYAML's scanner lets the ValueError of chr() escape
        sentence = "is not valid YAML: a \\U escape names no character"
        raise ConfigError([*reader.problems, ConfigProblem(sentence, file=file)]) from None
    return Document(value, reader.lines, tuple(reader.problems))


def _syntax(error: yaml.MarkedYAMLError, file: str) -> ConfigProblem:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "it cannot be parsed"
    if r"'\t'" in problem:
        problem = "a tab where only spaces are allowed"
    if mark is None:
        return ConfigProblem(f"is not valid YAML: {problem}", file=file)
    start = error.context_mark
    where = f"column {mark.column + 1}"
    if start is not None and start.line < mark.line:
        where += f", {error.context} from line {start.line + 1}"
    return ConfigProblem(f"is not valid YAML: {problem} ({where})", file=file, line=mark.line + 1)


class _Stop(Exception):  # noqa: N818
    def __init__(self, problem: ConfigProblem) -> None:
        self.problem = problem


@dataclass(frozen=True)
class _Anchor:
    """What an alias refers to: the value, its size (number of values) and depth; ``closed`` once it is complete."""

    value: Any = None
    size: int = 0
    depth: int = 0
    closed: bool = False


class _Reader:
    """Makes values in one pass over the parser's events. ``DEEPEST`` bounds the recursion, ``MOST_VALUES`` the work."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Key, int] = {}
        self.problems: list[ConfigProblem] = []
        self.anchors: dict[str, _Anchor] = {}
        self.values = 0

    def document(self, stream: Iterator[events.Event]) -> Any:
        """The value of the only document in ``stream``; None if there is no document."""
        self.stream = stream
        value = None
        documents = 0
        for event in stream:
            if isinstance(event, events.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.stop((), event, "a second document starts here; a file may have only one")
                value = self.node((), next(stream))
        return value

    def problem(self, key: Key, event: events.Event, sentence: str) -> ConfigProblem:
        return ConfigProblem(sentence, key, self.file, _line(event))

    def stop(self, key: Key, event: events.Event, sentence: str) -> _Stop:
        return _Stop(self.problem(key, event, sentence))

    def complain(self, key: Key, event: events.Event, sentence: str) -> None:
        self.problems.append(self.problem(key, event, sentence))

    def node(self, key: Key, event: events.Event) -> Any:
        """The value that starts with ``event``."""
        self.lines.setdefault(key, _line(event))
        self.count(key, event, 1)
        if len(key) > DEEPEST:
            raise self.stop(key[:3], event, f"is nested more than {DEEPEST} levels deep")
        if isinstance(event, events.AliasEvent):
            return self.alias(key, event)
        anchor, size = getattr(event, "anchor", None), self.values
        if anchor is not None:
            self.anchors[anchor] = _Anchor()
        value: Any
        if isinstance(event, events.SequenceStartEvent):
            value = self.sequence(key)
        elif isinstance(event, events.MappingStartEvent):
            value = self.mapping(key)
        else:
            value = self.scalar(key, event)
        value = self.tagged(key, event, value)
        if anchor is not None:
            self.anchors[anchor] = _Anchor(value, self.values - size + 1, _depth(value), closed=True)
        return value

    def count(self, key: Key, event: events.Event, more: int) -> None:
        self.values += more
        if self.values > MOST_VALUES:
            raise self.stop(key, event, f"the file has more than {MOST_VALUES} values, with aliases expanded")

    def alias(self, key: Key, event: events.AliasEvent) -> Any:
        anchor = self.anchors.get(str(event.anchor))
        if anchor is None:
            self.complain(key, event, f"*{event.anchor} refers to &{event.anchor}, which is not defined before it")
            return None
        if not anchor.closed:
            self.complain(key, event, f"*{event.anchor} contains itself")
            return None
        self.count(key, event, anchor.size)
        if len(key) + anchor.depth > DEEPEST:
            raise self.stop(key[:3], event, f"is nested more than {DEEPEST} levels deep")
        return anchor.value

    def sequence(self, key: Key) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self.stream), events.SequenceEndEvent):
            values.append(self.node((*key, len(values)), event))
        return values

    def mapping(self, key: Key) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self.stream), events.MappingEndEvent):
            name = self.name(key, event)
            if name is None:
                self.node((*key, "?"), next(self.stream))
            elif name in values:
                first = self.lines[*key, name]
                self.complain((*key, name), event, f"is given twice, first on line {first}")
                self.node((*key, name, "?"), next(self.stream))
            else:
                self.lines[*key, name] = _line(event)
                values[name] = None
                values[name] = self.node((*key, name), next(self.stream))
        return values

    def name(self, key: Key, event: events.Event) -> str | None:
        """The key of a map that starts with ``event``; None (and a problem) if it is not a valid key."""
        found = len(self.problems)
        name = self.node((*key, "?"), event)
        if len(self.problems) > found:
            return None
        if name == "<<" and getattr(event, "style", None) is None:
            self.complain(key, event, "merge keys (<<) are not supported; write the fields out")
        elif isinstance(name, str):
            return name
        elif isinstance(name, (dict, list)):
            self.complain(key, event, f"a key must be a text, got {format_value(name)}")
        else:
            self.complain(key, event, f"a key must be a text, got {format_value(name)}; put it in quotes")
        return None

    def tagged(self, key: Key, event: Any, value: Any) -> Any:
        """``value`` if it has no explicit tag or the tag agrees with it; otherwise None (and a problem)."""
        if event.tag is None:
            return value
        if event.tag not in CORE_TAGS:
            tag = dotted_key((event.tag.replace("tag:yaml.org,2002:", "!!"),))
            self.complain(key, event, f"the tag {tag} is not allowed; a file may contain plain values only")
            return None
        wanted = CORE_TAGS[event.tag]
        if wanted is str and isinstance(event, events.ScalarEvent):
            return event.value
        if wanted is float and type(value) is int:
            return float(value)
        if type(value) is not wanted:
            self.complain(key, event, f"is tagged !!{event.tag[18:]}, got {format_value(value)}")
            return None
        return value

    def scalar(self, key: Key, event: Any) -> Any:
        text = event.value
        if event.style is not None or event.tag == "tag:yaml.org,2002:str":
            if any("\ud800" <= character <= "\udfff" for character in text):
                self.complain(key, event, "contains half a character (a lone surrogate)")
                return None
            return text
        if NOT_FINITE.fullmatch(text):
            self.complain(key, event, f"must be a finite number, got {text}")
            return None
        return self.plain(key, event, text)

    def plain(self, key: Key, event: Any, text: str) -> Any:
        if NULL.fullmatch(text):
            return None
        if TRUE.fullmatch(text) or FALSE.fullmatch(text):
            return text.lower() == "true"
        if INTEGER.fullmatch(text):
            base = {"0o": 8, "0x": 16}.get(text[:2], 10)
            number: int | float = int(text, base) if len(text) <= 40 else math.inf
            if abs(number) <= LARGEST_INTEGER:
                return number
            self.complain(key, event, f"must be an integer of at most 2^63 - 1 in size, got {format_value(text)[1:-1]}")
            return None
        if FLOAT.fullmatch(text):
            number = float(text) + 0.0  # minus zero becomes zero, so that both give the same trial
            if math.isfinite(number):
                return number
            self.complain(key, event, f"must be a finite number, got {format_value(text)[1:-1]}")
            return None
        return text


def _line(event: events.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
