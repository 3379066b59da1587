"""A sweep file as plain JSON values: each key with its line, changed by ``--set`` options.

Only the unsurprising part of YAML is accepted: the core schema of YAML 1.2 (``1e-3`` is a number,
``no`` and ``2024-01-01`` are texts, ``010`` is ten), one document, text keys, each key once, finite
numbers, no tags that would build objects. Aliases (``*name``) are allowed as long as they stay
small. PyYAML composes nodes, and values are made of them here and never by YAML's constructors, so
no input can run code, or grow without bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import yaml

from orchestrator.config.errors import (
    ConfigError,
    ConfigProblem,
    Key,
    dotted_key,
    format_value,
    suggest,
)
from orchestrator.config.search_space import WORDS

# A sweep file is a page or two. PyYAML reads about 200 kB per second, so these limits also bound
# the time to a refusal.
MOST_BYTES = 256 * 1024
MOST_VALUES = 50_000
MOST_BRACKETS = 5000  # libyaml takes a second for so many that are open
DEEPEST = 20
LARGEST_INTEGER = 2**63 - 1
TOO_LARGE = (
    f"is nested more than {DEEPEST} levels deep, or has more than {MOST_VALUES} values with "
    "aliases expanded"
)
TAG = "tag:yaml.org,2002:"


def _integer(text: str) -> float:
    number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if len(text) <= 40 else math.inf
    return number if abs(number) <= LARGEST_INTEGER else math.inf


# Plain scalars by the end of their tag: what they look like, and their value.
SCALARS: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "null": (re.compile(r"(~|null|Null|NULL|)$"), lambda text: None),
    "bool": (
        re.compile(r"(true|True|TRUE|false|False|FALSE)$"),
        lambda text: text.lower() == "true",
    ),
    "int": (re.compile(r"([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), _integer),
    "float": (
        re.compile(
            r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
            r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
        ),
        # Minus zero becomes zero: the same trial.
        lambda text: math.nan if text[-1] in "fFnN" else float(text) + 0.0,
    ),
    "str": (re.compile(r"[^\ud800-\udfff]*\Z"), str),
}
# What is expected of a line, by what PyYAML says of it.
EXPECTED = {
    r"<block end>, but found '(<block|-)": (
        "must begin in the same column as the keys, or dashes, that it stands beside"
    ),
    "mapping values": (
        "keys of one map begin in the same column and end with ': ', and a text with ': ' in it "
        "is in quotes"
    ),
    "expected ':'": "this line, or the one before it, must be 'key: value'",
    r"'\\t'": "must have spaces in the place of a tab",
    "expected ',' or|end of stream": (
        "brackets and quotes must be closed, with commas between what is in brackets"
    ),
    "cannot start": "a text that begins like this must be in quotes",
}
KINDS = {yaml.ScalarNode: (*SCALARS,), yaml.SequenceNode: ("seq",), yaml.MappingNode: ("map",)}
MISSING = object()
PLAIN: dict[type, Any] = {
    PathLike: fspath,
    Mapping: dict,
    tuple: list,
    str: str,
    int: int,
    float: float,
}


class CoreLoader(yaml.SafeLoader):
    """Tags plain scalars by the core schema of YAML 1.2, where PyYAML's own loaders know that of
    YAML 1.1.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        """Open a bracket; the time that PyYAML takes for one grows with those that are open."""
        if self.flow_level > DEEPEST:
            raise RecursionError
        super().fetch_flow_collection_start(token)


for _kind in ("null", "bool", "int", "float"):
    CoreLoader.add_implicit_resolver(TAG + _kind, SCALARS[_kind][0], None)


class CoreDumper(yaml.SafeDumper):
    """Quotes the texts that `CoreLoader` would not read as texts, and writes what no file can
    hold with a tag.
    """

    yaml_implicit_resolvers = CoreLoader.yaml_implicit_resolvers

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write a value wherever it is."""
        return True

    def represent_other(self, value: Any) -> yaml.Node:
        """The node of what is no plain value, with a tag that is refused by its key, if it
        cannot be made one.
        """
        try:
            return self.represent_data(plain(value))
        except TypeError:
            return self.represent_scalar(f"!{type(value).__name__}", format_value(value))


CoreDumper.add_multi_representer(object, CoreDumper.represent_other)


def plain(value: Any) -> Any:
    """A value as a sweep file has it: tuples, paths and NumPy's numbers and arrays count as
    plain. Raises TypeError.
    """
    if hasattr(value, "tolist"):  # NumPy's
        return value.tolist()
    for kind, plain in PLAIN.items():
        if isinstance(value, kind):
            return plain(value)
    raise TypeError(
        f"must be a text, number, list or dict, got {type(value).__name__} {format_value(value)}"
    )


def dump(value: Any, **style: Any) -> str:
    """Write a value as the text of a sweep file that says the same, or that is refused where it
    cannot.
    """
    text: str = yaml.dump(
        value, Dumper=CoreDumper, sort_keys=False, allow_unicode=True, width=120, **style
    )
    return text


@dataclass(frozen=True)
class Document:
    """The content of a YAML file, or what ``--set`` options have made of it.

    Attributes:
        file: the file, as the user wrote it.
        value: made of None, bool, int, float, str, list and dict.
        places: by key, the file and the line, from 1, or the ``--set`` option that it is from.
    """

    file: str
    value: Any
    places: dict[Key, tuple[str, int | None]] = field(default_factory=dict)

    def place(self, problem: ConfigProblem) -> ConfigProblem:
        """``problem`` with the file and line of its key, or of the closest key around it;
        unchanged if it has a place.
        """
        if problem.file:
            return problem
        prefixes = (problem.key[:length] for length in range(len(problem.key), 0, -1))
        file, line = next(
            (self.places[key] for key in prefixes if key in self.places), (self.file, None)
        )
        return replace(problem, file=file, line=line)

    def changed(self, sets: Sequence[str]) -> Document:
        """The document with these overrides, ``key=value`` with dotted keys from the top of the
        file; later ones win.

        Raises:
            ConfigError: with all options that cannot be read.
        """
        value = self.value
        places = self.places
        problems: list[ConfigProblem] = []
        for text in sets:
            option = f"--set {text}"
            try:
                key, new = _parsed(value, text, option)
                value = assign(value, key, new)
            except KeyPathError as error:
                problems.append(ConfigProblem(str(error), file=option))
            except ConfigError as refusal:
                problems += [replace(problem, key=(), line=None) for problem in refusal.problems]
            else:
                others = {
                    other: place for other, place in places.items() if other[: len(key)] != key
                }
                places = others | {key: (option, None)}
        if problems:
            raise ConfigError(problems)
        return Document(self.file, value, places)


def _parsed(tree: Any, text: str, option: str) -> tuple[Key, Any]:
    """The key that a ``--set`` option sets, and its value."""
    name, equals, written = text.partition("=")
    parts = [part.strip() for part in name.split(".")]
    if not equals or not all(parts):
        raise KeyPathError(
            "must be key=value, with a dotted key from the top of the file, such as base.rounds=4"
        )
    if not written.strip():
        raise KeyPathError("has no value after '='; write null to set no value")
    value = read(written, option).value
    if parts[0] != "sweep" or len(parts) == 1:
        return locate(tree, parts), value
    # Swept keys contain dots and end before a word like grid_search.
    end = next(
        (place for place, part in enumerate(parts) if place > 1 and part in WORDS), len(parts)
    )
    key = locate(tree, ("sweep", ".".join(parts[1:end]), *parts[end:]))
    # One word of the search space replaces another.
    return (key[:2], {str(key[2]): value}) if len(key) == 3 else (key, value)


class KeyPathError(ValueError):  # noqa: N818
    """A dotted key leads into a value that has no entries, or to a list entry that does not
    exist.
    """


def locate(tree: Any, key: Iterable[str | int]) -> Key:
    """``key`` with names of list entries (``attacks.sia.every``) replaced by positions.

    Raises:
        KeyPathError: a list has no such entry.
    """
    located: Key = ()
    for step in key:
        if isinstance(tree, list):
            names = [entry.get("name") if isinstance(entry, dict) else entry for entry in tree]
            if step not in names and str(step) not in map(str, range(len(names))):
                entries = ", ".join(
                    f"{place} ({name})" for place, name in enumerate(names) if isinstance(name, str)
                )
                known = f"its entries: {entries or len(tree)}"
                raise KeyPathError(
                    f"{dotted_key(located)} has no entry {dotted_key((step,))}; {known}"
                )
            step = names.index(step) if step in names else int(step)
        tree = value_at(tree, (step,))
        located = (*located, step)
    return located


def value_at(tree: Any, key: Key, otherwise: Any = None) -> Any:
    """The value at ``key``, or ``otherwise`` if there is none."""
    for step in key:
        entries: Any = dict(enumerate(tree)) if isinstance(tree, list) else tree
        if not isinstance(entries, dict) or step not in entries:
            return otherwise
        tree = entries[step]
    return tree


def assign(tree: Any, key: Key, value: Any, at: Key = ()) -> Any:
    """A copy of ``tree`` with ``value`` at ``key``, as `locate` returns it; missing maps on the
    way are created.

    A text on the way is the bare name of a component: ``mlp`` counts as ``{name: mlp}``. ``at`` is
    the key of ``tree``.

    Raises:
        KeyPathError: the key leads into a value that has no entries.
    """
    if not key:
        return value
    step = key[0]
    rest = key[1:]
    tree = {"name": tree} if isinstance(tree, str) else {} if tree is None else tree
    if isinstance(tree, list) and isinstance(step, int):
        return [*tree[:step], assign(tree[step], rest, value, (*at, step)), *tree[step + 1 :]]
    if isinstance(tree, dict):
        return {**tree, step: assign(tree.get(step), rest, value, (*at, step))}
    raise KeyPathError(
        f"{dotted_key(at)} is {format_value(tree)}, which has no {dotted_key((step,))} in it"
    )


def contents(path: Path) -> str:
    """The text of a configuration file.

    Raises:
        ConfigError: the file is missing, unreadable, too long or not UTF-8 text.
    """
    line = None
    try:
        with path.open("rb") as stream:
            raw = stream.read(MOST_BYTES + 1)
        if len(raw) <= MOST_BYTES:
            return raw.decode("utf-8-sig")
        sentence = f"is longer than {MOST_BYTES // 1024} KiB, the largest size that is read"
    except FileNotFoundError:
        sentence = (
            "no such file. "
            f"{suggest(path.name, [other.name for other in path.parent.glob('*.yaml')])}"
        )
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        sentence = "is not UTF-8 text"
    except (
        OSError,
        ValueError,
    ) as error:  # a directory, no permission, a name with a null character
        sentence = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise ConfigError([ConfigProblem(sentence.rstrip(), file=str(path), line=line)]) from None


def parsed(content: str | bytes) -> Any:
    """Return what a text in YAML holds that fedpriv wrote.

    Raises:
        ValueError: it holds too much, with aliases expanded, to be of ours, or no YAML.
    """
    loader = getattr(
        yaml, "CSafeLoader", yaml.SafeLoader
    )  # 438 records: 0.3 s in pure Python, 0.03 s with libyaml
    try:
        text = content.decode() if isinstance(content, bytes) else content
        if text.count("[") + text.count("{") > MOST_BRACKETS:
            raise ValueError(f"has more than {MOST_BRACKETS} brackets")
        value = yaml.load(text, Loader=loader)
        if _expanded(value, {}) > MOST_VALUES:
            raise ValueError(f"has more than {MOST_VALUES} values with aliases expanded")
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return value


def _expanded(value: Any, known: dict[int, int]) -> int:
    """The number of values in a value, with aliases expanded; RecursionError if it is in itself."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        items = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_expanded(item, known) for item in items)
    return known[id(value)]


def read(text: str, file: str) -> Document:
    """Read YAML text; ``file`` is its name in messages.

    Raises:
        ConfigError: with every value that cannot be used, or with the one place where reading
            cannot continue.
    """
    reader = _Reader(file)
    try:
        root = yaml.compose(text, Loader=CoreLoader)
        value = reader.value((), root) if root is not None else None
        if not reader.problems:
            return Document(file, value, reader.places)
    except RecursionError:
        reader.problems.append(ConfigProblem(TOO_LARGE, file=file))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or error.context or ""
        line = mark.line if mark else -1
        expected = next(
            (words for pattern, words in EXPECTED.items() if re.search(pattern, said)), said
        )
        sentence = (
            f"is not valid YAML: {expected}, got "
            f"{format_value(''.join(text.split(chr(10))[line : line + 1]))}"
        )
        reader.problems.append(ConfigProblem(sentence, file=file, line=line + 1 if mark else None))
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # a character that is none
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        reader.problems.append(
            ConfigProblem("contains a character that is not text", file=file, line=line)
        )
    raise ConfigError(reader.problems) from None


class _Reader:
    """Makes values of PyYAML's nodes.

    ``DEEPEST`` bounds the recursion, also of aliases, and ``MOST_VALUES`` the work.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.values = 0
        self.places: dict[Key, tuple[str, int | None]] = {}
        self.problems: list[ConfigProblem] = []

    def complain(self, key: Key, node: yaml.Node, sentence: str) -> None:
        self.problems.append(ConfigProblem(sentence, key, self.file, node.start_mark.line + 1))

    def value(self, key: Key, node: yaml.Node) -> Any:
        """The plain value of ``node``; None, and a problem, where it has none."""
        self.places.setdefault(key, (self.file, node.start_mark.line + 1))
        self.values += 1
        if self.values > MOST_VALUES or len(key) > DEEPEST:
            self.complain(key[:3], node, TOO_LARGE)
            raise ConfigError(self.problems)
        kind = node.tag.removeprefix(TAG)
        if kind not in KINDS[type(node)]:
            self.complain(
                key, node, f"the tag {dotted_key((kind,))} is not allowed; write plain values only"
            )
        elif isinstance(node, yaml.MappingNode):
            return self.mapping(key, node)
        elif isinstance(node, yaml.SequenceNode):
            return [self.value((*key, place), entry) for place, entry in enumerate(node.value)]
        else:
            return self.scalar(key, node, kind)
        return None

    def scalar(self, key: Key, node: yaml.Node, kind: str) -> Any:
        """The plain value of a text, number, truth value or null."""
        pattern, made = SCALARS[kind]
        text = node.value
        if not pattern.match(text):
            self.complain(key, node, f"is no {kind}, got {format_value(text)}")
            return None
        value = made(text)
        if isinstance(value, float) and not math.isfinite(value):
            shown = format_value(text)[1:-1]
            sentence = f"must be finite, an integer at most 2^63 - 1, got {shown}"
            self.complain(key, node, sentence)
            return None
        return value

    def mapping(self, key: Key, node: yaml.MappingNode) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for written, entry in node.value:
            name = self.value((*key, "?"), written)
            if not isinstance(name, str):
                self.complain(
                    key,
                    written,
                    f"a key must be a text, got {format_value(name)}; put it in quotes",
                )
            elif name in values:
                self.complain(
                    (*key, name),
                    written,
                    f"is given twice, first on line {self.places[*key, name][1]}",
                )
            else:
                self.places[*key, name] = (self.file, written.start_mark.line + 1)
                values[name] = self.value((*key, name), entry)
        return values
