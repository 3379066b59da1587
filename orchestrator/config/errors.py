"""Errors in the input: all problems are reported at once, each with its place, key, value and what is allowed.

The messages are built from a field's declared type and range. So they read the same for every field of every component
and do not depend on the wording of the library that validates them.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticUserError

from datasets.federation import printable
from orchestrator.config.synonyms import synonym

Key = tuple[str | int, ...]
"""A position in nested maps and lists: keys and indices, outermost first."""

Schema = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)

SHOWN = 60
"""The most characters of a value that a message repeats."""

KINDS = {
    "integer": "an integer",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "null": "null",
    "object": "a map",
}

# Kinds of pydantic's errors whose own words say more than the type and range of the field.
TOLD_BY_PYDANTIC = ("multiple_of", "string_too_short", "string_too_long", "string_pattern_mismatch")

_ABSENT = object()


@dataclass(frozen=True)
class ConfigProblem:
    """One thing that is wrong with the input.

    Attributes:
        sentence: what is wrong and what is allowed, phrased so that it follows the key ("must be an integer >= 1, got 0").
        key: the position, from the top of the file; empty if the problem concerns the whole file.
        file: the file, or the command-line option (``--set base.rounds=0``), that contains the problem.
        line: line of the file, counted from 1; None if there is none.
        misnamed: whether the key itself is wrong, and not its value.
        unread: whether the value is valid but no component reads it.
    """

    sentence: str
    key: Key = ()
    file: str = ""
    line: int | None = None
    misnamed: bool = False
    unread: bool = False

    def under(self, *above: str | int) -> ConfigProblem:
        """The same problem with the keys ``above`` put before its own."""
        return replace(self, key=(*above, *self.key))

    def __str__(self) -> str:
        """The problem as one line of printable characters."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = ": ".join(part for part in (place, dotted_key(self.key), self.sentence) if part)
        return printable(text)


class ConfigError(Exception):  # noqa: N818
    """The input cannot be used. The text has one line for each problem.

    Attributes:
        problems: everything that was found.
    """

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def dotted_key(key: Key) -> str:
    """Write ``key`` as on the command line.

    >>> dotted_key(("base", "attacks", 0, "every"))
    'base.attacks.0.every'
    """
    return ".".join(_cut(str(part)) for part in key)


def format_value(value: Any) -> str:
    """Write ``value`` as in a YAML file, on one line, shortened if it is long.

    >>> format_value({"name": "ifca", "clusters": None})
    "{name: 'ifca', clusters: null}"
    """
    return _cut(_write(value, depth=0))


def _write(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return repr(value[: SHOWN + 1])
    if isinstance(value, Mapping):
        inside = (
            "..."
            if depth > 2
            else ", ".join(
                f"{dotted_key((key,))}: {_write(entry, depth + 1)}" for key, entry in list(value.items())[:SHOWN]
            )
        )
        return f"{{{inside}}}"
    if isinstance(value, (list, tuple)):
        inside = "..." if depth > 2 else ", ".join(_write(entry, depth + 1) for entry in value[:SHOWN])
        return f"[{inside}]"
    return json.dumps(value, default=repr)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def suggest(name: str, known: Iterable[str]) -> str:
    """A sentence that suggests the name in ``known`` closest to ``name``; empty if none is close.

    What other tools call by ``name`` comes first, then similar spellings.

    >>> suggest("ifca-mri", ["ifca", "ifca_mir"])
    "Did you mean 'ifca_mir'?"
    >>> suggest("learning_rate", ["lr", "lr_decay"])
    "Did you mean 'lr'?"
    """
    known = list(known)
    if ours := synonym(name, known):
        return f"Did you mean {ours!r}?"
    plain = {other.lower().replace("-", "_"): other for other in known}
    sought = name[:200].lower().replace("-", "_")
    near = difflib.get_close_matches(sought, plain, n=1, cutoff=0.6)
    if not near and len(sought) > 2:  # get_close_matches misses a name that is only a part of a long one
        near = [other for other in plain if other.startswith(sought) or other.endswith(sought)]
    return f"Did you mean {plain[near[0]]!r}?" if near else ""


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not one of ``known``.

    Args:
        what: the start of the sentence, such as "unknown key".
        name: the name that was given.
        known: the valid names.
    """
    names = sorted(known)
    return " ".join(part for part in (f"{what}.", suggest(name, names), f"Known: {', '.join(names)}") if part)


def validate(
    model: type[Model], fields: Mapping[str, Any], known: Iterable[str] | None = None
) -> tuple[Model | None, list[ConfigProblem]]:
    """Validate ``fields`` as an instance of ``model``.

    Types are strict in JSON's sense: a list fills a tuple and an integer a float, but "5", true and 5.0 are not 5.

    Args:
        model: the pydantic model.
        fields: plain JSON values by field.
        known: the names to suggest for an unknown field (default: the fields of ``model``).

    Returns:
        The instance, or None if there are problems, and every problem, with keys relative to ``fields``.
    """
    known = model.model_fields if known is None else known
    strange = [name for name in fields if name not in model.model_fields]
    problems = [ConfigProblem(unknown_name("unknown key", name, known), (name,), misnamed=True) for name in strange]
    values = {name: value for name, value in fields.items() if name in model.model_fields}
    try:
        filled = model.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        return None, problems + translate(error, model, values)
    return (None if problems else filled), problems


def translate(error: ValidationError, model: type[BaseModel], fields: Mapping[str, Any]) -> list[ConfigProblem]:
    """Translate pydantic's error into our messages, one problem per key.

    Args:
        error: pydantic's error.
        model: the model that was validated.
        fields: the values that were validated.
    """
    try:
        schema = model.model_json_schema()
    except PydanticUserError:  # JSON cannot describe the type: the message names the value but not the range
        schema = {}
    found: dict[Key, str] = {}
    for detail in error.errors(include_url=False):
        key, part, value = _follow(detail["loc"], fields, schema)
        found.setdefault(key, _sentence(detail, part, schema.get("$defs", {}), value))
    return [ConfigProblem(sentence, key) for key, sentence in found.items()]


def _sentence(detail: Any, part: Schema, shared: Schema, value: Any) -> str:
    if detail["type"] in ("value_error", "assertion_error"):
        return str(detail["ctx"]["error"])
    if detail["type"] == "extra_forbidden":
        return unknown_name("unknown key", str(detail["loc"][-1]), part.get("properties", ()))
    if detail["type"] in TOLD_BY_PYDANTIC:
        return f"{detail['msg'].replace('Input should', 'must').replace('String should', 'must')}, got {format_value(value)}"
    allowed = describe(part, shared)
    must = f"must be {allowed}" if allowed else "is not allowed"
    if value is _ABSENT:
        return f"is missing; it {must}" if allowed else "is missing"
    quotes = "; put it in quotes" if allowed == "a text" and isinstance(value, (bool, int, float)) else ""
    near = suggest(value, _options(part, shared)) if isinstance(value, str) else ""
    return f"{must}, got {format_value(value)}{quotes}" + (f". {near}" if near else "")


def _follow(steps: tuple[Any, ...], value: Any, schema: Schema) -> tuple[Key, Schema, Any]:
    """Follow ``steps`` into the value and its schema as far as possible; return the key reached, its schema and value."""
    key: Key = ()
    part = schema
    for step in steps:
        inner = _inner(part, step, schema.get("$defs", {}))
        if isinstance(value, list) and isinstance(step, int) and step < len(value) and inner is not None:
            key, part, value = (*key, step), inner, value[step]
        elif isinstance(value, Mapping) and isinstance(step, str) and (inner is not None or step in value):
            if inner is None:  # an unknown key: the known ones are in the schema of the map around it
                return (*key, step), part, value[step]
            key, part, value = (*key, step), inner, value.get(step, _ABSENT)
        else:
            break
    return key, part, value


def _inner(part: Schema, step: Any, shared: Schema) -> Schema | None:
    """The schema of an entry of a map or list, or None. Of several alternatives, the only one that is not null is used."""
    part = _dereference(part, shared)
    filled = [one for one in part.get("anyOf", ()) if one.get("type") != "null"]
    if len(filled) == 1:
        part = _dereference(filled[0], shared)
    if isinstance(step, int):
        positions = part.get("prefixItems", ())
        return positions[step] if step < len(positions) else part.get("items")
    rest = part.get("additionalProperties")
    properties: dict[str, Schema] = part.get("properties", {})
    return properties.get(step, rest if isinstance(rest, dict) else None)


def _dereference(part: Schema, shared: Schema) -> Schema:
    return shared[part["$ref"].rsplit("/", 1)[-1]] if "$ref" in part else part


def describe(part: Schema, shared: Schema | None = None) -> str:
    """Describe in words what a JSON schema allows; empty if it does not restrict anything.

    >>> describe({"type": "integer", "minimum": 1})
    'an integer >= 1'
    >>> describe({"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {"const": "auto"}]})
    "a number in (0, 1] or 'auto'"
    """
    shared = shared or {}
    part = _dereference(part, shared)
    if "anyOf" in part:
        return " or ".join(words for one in part["anyOf"] if (words := describe(one, shared)))
    if "const" in part:
        return format_value(part["const"])
    if "enum" in part:
        return f"one of {', '.join(map(format_value, part['enum']))}"
    kind = part.get("type")
    if kind == "array":
        return _describe_list(part, shared)
    return " ".join(words for words in (KINDS.get(str(kind), ""), _range(part)) if words)


def _describe_list(part: Schema, shared: Schema) -> str:
    entries = [describe(one, shared) for one in part.get("prefixItems", [part.get("items", {})])]
    fewest, most = part.get("minItems", 0), part.get("maxItems")
    amount = (
        f" of {most}"
        if fewest == most
        else f" of at least {fewest}"
        if fewest
        else f" of at most {most}"
        if most
        else ""
    )
    if len(set(entries)) > 1:
        return f"a list of {len(entries)}: {', '.join(entries)}"
    return f"a list{amount}" + (f", each {entries[0]}" if entries[0] else "")


def _range(part: Schema) -> str:
    closed_low, open_low = part.get("minimum"), part.get("exclusiveMinimum")
    closed_high, open_high = part.get("maximum"), part.get("exclusiveMaximum")
    low, high = (open_low if closed_low is None else closed_low), (open_high if closed_high is None else closed_high)
    if low is None and high is None:
        return ""
    if high is None:
        return f"{'>' if closed_low is None else '>='} {low:.12g}"
    if low is None:
        return f"{'<' if closed_high is None else '<='} {high:.12g}"
    return f"in {'(' if closed_low is None else '['}{low:.12g}, {high:.12g}{')' if closed_high is None else ']'}"


def _options(part: Schema, shared: Schema) -> list[str]:
    part = _dereference(part, shared)
    options = [
        part.get("const"),
        *part.get("enum", ()),
        *(word for one in part.get("anyOf", ()) for word in _options(one, shared)),
    ]
    return [option for option in options if isinstance(option, str)]
