"""Reading YAML into plain JSON values, with the line of every key.

Only the unsurprising part of YAML is accepted: the core schema of YAML 1.2 (``1e-3`` is a number, ``no`` and
``2024-01-01`` are texts, ``010`` is ten), one document, text keys, each key once. Tags that would build objects, merge
keys, NaN and infinity are refused. Aliases (``*name``) are allowed as long as they stay small. PyYAML composes nodes, and
values are made of them here and never by YAML's constructors, so no input can run code, or grow without bound.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from orchestrator.config.errors import ConfigError, ConfigProblem, Key, dotted_key, format_value, suggest

# A sweep file is a page or two. PyYAML reads about 200 kB per second, so these limits also bound the time to a refusal.
MOST_BYTES = 256 * 1024
MOST_VALUES = 50_000
DEEPEST = 20
LARGEST_INTEGER = 2**63 - 1

TAG = "tag:yaml.org,2002:"
PATTERNS = {  # of plain scalars, by the end of their tag
    "null": re.compile(r"(~|null|Null|NULL|)$"),
    "bool": re.compile(r"(true|True|TRUE|false|False|FALSE)$"),
    "int": re.compile(r"([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"),
    "float": re.compile(r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
}
KINDS = {yaml.ScalarNode: (*PATTERNS, "str"), yaml.SequenceNode: ("seq",), yaml.MappingNode: ("map",)}


class CoreLoader(yaml.SafeLoader):
    """Tags plain scalars by the core schema of YAML 1.2, where PyYAML's own loaders know that of YAML 1.1."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's


for _kind, _pattern in PATTERNS.items():
    CoreLoader.add_implicit_resolver(TAG + _kind, _pattern, None)


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
    line = None
    try:
        with path.open("rb") as stream:
            raw = stream.read(MOST_BYTES + 1)
        if len(raw) <= MOST_BYTES:
            return raw.decode("utf-8-sig")
        sentence = f"is longer than {MOST_BYTES // 1024} KiB, the largest size that is read"
    except FileNotFoundError:
        sentence = f"no such file.{_sibling(path)}"
    except IsADirectoryError:
        sentence = "is a directory; a YAML file is needed"
    except UnicodeDecodeError as error:
        line, column = raw.count(b"\n", 0, error.start) + 1, error.start - raw.rfind(b"\n", 0, error.start)
        sentence = f"is not UTF-8 text: byte 0x{raw[error.start]:02x} in column {column}"
    except (OSError, ValueError) as error:
        sentence = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise ConfigError([ConfigProblem(sentence, file=str(path), line=line)]) from None


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
        root = yaml.compose(text, Loader=CoreLoader)
        return Document(reader.value((), root) if root is not None else None, reader.lines, tuple(reader.problems))
    except _Stop as stop:
        problem = stop.problem
    except RecursionError:
        problem = ConfigProblem(f"is nested more than {DEEPEST} levels deep", file=file)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        problem = ConfigProblem(f"contains a character that is not text: U+{code:04X}", file=file, line=line)
    except yaml.MarkedYAMLError as error:
        mark, start = error.problem_mark or error.context_mark, error.context_mark
        where = f"column {mark.column + 1}" if mark else "it cannot be parsed"
        if start and mark and start.line < mark.line:
            where += f", {error.context} from line {start.line + 1}"
        words = f"is not valid YAML: {error.problem or error.context} ({where})"
        problem = ConfigProblem(words, file=file, line=mark.line + 1 if mark else None)
    except (yaml.YAMLError, ValueError, OverflowError):  # PyYAML's scanner lets the ValueError of chr() escape
        problem = ConfigProblem("is not valid YAML: a \\U escape names no character", file=file)
    raise ConfigError([*reader.problems, problem]) from None


class _Stop(Exception):  # noqa: N818
    def __init__(self, problem: ConfigProblem) -> None:
        self.problem = problem


class _Reader:
    """Makes values of PyYAML's nodes. ``DEEPEST`` bounds the recursion, also of aliases, and ``MOST_VALUES`` the work."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Key, int] = {}
        self.problems: list[ConfigProblem] = []
        self.values = 0

    def problem(self, key: Key, node: yaml.Node, sentence: str) -> ConfigProblem:
        return ConfigProblem(sentence, key, self.file, node.start_mark.line + 1)

    def complain(self, key: Key, node: yaml.Node, sentence: str) -> Any:
        """Add a problem; return None, which stands for the value."""
        self.problems.append(self.problem(key, node, sentence))

    def value(self, key: Key, node: yaml.Node) -> Any:
        """The plain value of ``node``; None, and a problem, where it has none."""
        self.lines.setdefault(key, node.start_mark.line + 1)
        self.values += 1
        if self.values > MOST_VALUES:
            sentence = f"the file has more than {MOST_VALUES} values, with aliases expanded"
            raise _Stop(self.problem(key, node, sentence))
        if len(key) > DEEPEST:
            raise _Stop(self.problem(key[:3], node, f"is nested more than {DEEPEST} levels deep"))
        if node.tag.removeprefix(TAG) not in KINDS[type(node)]:
            tag = dotted_key((node.tag.replace(TAG, "!!"),))
            return self.complain(key, node, f"the tag {tag} is not allowed; a file may contain plain values only")
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(key, node)
        if isinstance(node, yaml.SequenceNode):
            return [self.value((*key, place), entry) for place, entry in enumerate(node.value)]
        return self.mapping(key, node)

    def mapping(self, key: Key, node: yaml.Node) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for written, entry in node.value:
            problems = len(self.problems)
            name = self.value((*key, "?"), written)
            if len(self.problems) > problems:
                self.value((*key, "?"), entry)
            elif not isinstance(name, str):
                quotes = "" if isinstance(name, (dict, list)) else "; put it in quotes"
                self.complain(key, written, f"a key must be a text, got {format_value(name)}{quotes}")
            elif name == "<<" and written.style is None:
                self.complain(key, written, "merge keys (<<) are not supported; write the fields out")
            elif name in values:
                self.complain((*key, name), written, f"is given twice, first on line {self.lines[*key, name]}")
                self.value((*key, name, "?"), entry)
            else:
                self.lines[*key, name] = written.start_mark.line + 1
                values[name] = self.value((*key, name), entry)
        return values

    def scalar(self, key: Key, node: yaml.ScalarNode) -> Any:
        kind, text = node.tag.removeprefix(TAG), node.value
        if kind == "str":
            if any("\ud800" <= character <= "\udfff" for character in text):
                return self.complain(key, node, "contains half a character (a lone surrogate)")
            return text
        if not PATTERNS[kind].match(text):
            return self.complain(key, node, f"is tagged !!{kind}, got {format_value(text)}")
        if kind in ("null", "bool"):
            return text.lower() == "true" if kind == "bool" else None
        if kind == "int":
            number: int | float = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if len(text) <= 40 else math.inf
            if abs(number) <= LARGEST_INTEGER:
                return number
            return self.complain(
                key, node, f"must be an integer of at most 2^63 - 1 in size, got {format_value(text)[1:-1]}"
            )
        # Minus zero becomes zero, so that both give the same trial.
        number = math.nan if text[-1] in "fFnN" else float(text) + 0.0
        if math.isfinite(number):
            return number
        return self.complain(key, node, f"must be a finite number, got {format_value(text)[1:-1]}")
