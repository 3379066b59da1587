"""Errors in the input: all problems are reported at once, each with its place, key, value and what is allowed.

A field is described from its declared type and range, so that a message reads the same for every component; what is wrong
inside a field's value is said in pydantic's own words. `synonym` knows other tools' names for our keys and components.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticUserError

from datasets.federation import printable

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
    "array": "a list",
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
        entries = [f"{dotted_key((key,))}: {_write(one, depth + 1)}" for key, one in list(value.items())[:SHOWN]]
        return f"{{{', '.join(entries) if depth <= 2 else '...'}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_write(one, depth + 1) for one in value[:SHOWN]) if depth <= 2 else '...'}]"
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
    """The sentence for a name that is not one of ``known``; ``what`` begins it, such as "unknown key"."""
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
    """The problems that pydantic found in ``fields``, values of ``model``: one for each key."""
    try:
        schema = model.model_json_schema()
    except PydanticUserError:  # JSON cannot describe the type: pydantic's own words are used
        schema = {}
    sentences: dict[Key, str] = {}
    for detail in error.errors(include_url=False):
        key, value = _place(detail["loc"], fields)
        shared = schema.get("$defs", {})
        part = schema.get("properties", {}).get(key[0], {}) if key else {}
        for step in key[1:]:
            part = _entry(part, shared, step)
        sentences.setdefault(key, _sentence(detail, part, shared, value))
    return [ConfigProblem(sentence, key) for key, sentence in sentences.items()]


def _place(steps: tuple[Any, ...], value: Any) -> tuple[Key, Any]:
    """The key that ``steps`` reach in ``value``, and what is there; pydantic also counts alternatives of a type as steps."""
    key: Key = ()
    for step in steps:
        entries: Any = dict(enumerate(value)) if isinstance(value, list) else value
        if not isinstance(entries, Mapping) or (step not in entries and key):
            break
        key, value = (*key, step), entries.get(step, _ABSENT)
    return key, value


def _sentence(detail: Any, part: Schema, shared: Schema, value: Any) -> str:
    if detail["type"] in ("value_error", "assertion_error"):
        return str(detail["ctx"]["error"])
    allowed = describe(part, shared) if detail["type"] not in TOLD_BY_PYDANTIC else ""
    if value is _ABSENT:
        return f"is missing; it must be {allowed}" if allowed else "is missing"
    must = f"must be {allowed}" if allowed else re.sub(r"^\w+ should", "must", detail["msg"])
    quotes = "; put it in quotes" if allowed == "a text" and isinstance(value, (bool, int, float)) else ""
    near = suggest(value, _options(part, shared)) if isinstance(value, str) else ""
    return f"{must}, got {format_value(value)}{quotes}" + (f". {near}" if near else "")


def describe(part: Schema, shared: Schema | None = None) -> str:
    """Describe in words what a JSON schema allows; empty if it does not restrict anything.

    >>> describe({"type": "integer", "minimum": 1})
    'an integer >= 1'
    >>> describe({"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {"const": "auto"}]})
    "a number in (0, 1] or 'auto'"
    """
    part = _dereference(part, shared or {})
    if "anyOf" in part:
        return " or ".join(words for one in part["anyOf"] if (words := describe(one, shared)))
    if "const" in part:
        return format_value(part["const"])
    if "enum" in part:
        return f"one of {', '.join(map(format_value, part['enum']))}"
    pieces = [KINDS.get(str(part.get("type")), ""), _range(part)]
    if "prefixItems" in part:
        entries = [describe(one, shared) for one in part["prefixItems"]]
        pieces.append(f"of {len(entries)}: {', '.join(entries)}")
    elif part.get("type") == "array":
        ends = [
            f"at {word} {part[end]}" for end, word in (("minItems", "least"), ("maxItems", "most")) if part.get(end)
        ]
        each = describe(part.get("items", {}), shared)
        pieces.append(("of " + " and ".join(ends) if ends else "") + (f", each {each}" if each else ""))
    return " ".join(filter(None, pieces)).replace(" ,", ",")


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


def _dereference(part: Schema, shared: Schema) -> Schema:
    return shared[part["$ref"].rsplit("/", 1)[-1]] if "$ref" in part else part


def _entry(part: Schema, shared: Schema, step: Any) -> Schema:
    """What a JSON schema allows for one entry of a list; empty if it does not say."""
    part = _dereference(part, shared)
    for one in (_dereference(one, shared) for one in part.get("anyOf", [part])):
        if isinstance(step, int) and one.get("type") == "array":
            fixed = one.get("prefixItems", [])
            return fixed[step] if step < len(fixed) else one.get("items") or {}
    return {}


def _options(part: Schema, shared: Schema) -> list[str]:
    part = _dereference(part, shared)
    inner = [word for one in part.get("anyOf", ()) for word in _options(one, shared)]
    return [one for one in (part.get("const"), *part.get("enum", ()), *inner) if isinstance(one, str)]


# By our name, what others call it. Where a word has several names here, the first that is known at the place counts.
CLIPPING = "max_grad_norm clip_norm clipping clipping_norm l2_norm_clip"
SYNONYMS: dict[str, str] = {
    # fields of training
    "lr": "learning_rate eta step_size local_lr client_lr",
    "epochs": "local_epochs num_epochs client_epochs",
    "warm_start_epochs": "local_epochs",
    "batch_size": "batch batchsize local_batch_size",
    "optimizer": "opt solver",
    "threads": "num_threads",
    "device": "gpu",
    # fields of privacy and DP-SGD: an epsilon is computed from the noise, never set
    "noise_multiplier": "epsilon eps target_epsilon sigma noise_scale",
    "adam_epsilon": "betas epsilon eps",
    "clip": CLIPPING,
    "clip_gradient": CLIPPING,
    # fields of data and of the split
    "clients": "num_clients n_clients number_of_clients",
    "examples_per_client": "samples_per_client",
    "alpha": "dirichlet_alpha",
    "split": "partition partitioner",
    "label": "target target_column label_column",
    "path": "file filename",
    "test_share": "test_size",
    # fields of models, clustering, attacks and objectives
    "hidden": "hidden_sizes hidden_layers layers",
    "clusters": "num_clusters n_clusters k",
    "shadows": "num_shadows shadow_models num_shadow_models",
    "mu": "proximal_mu",
    # fields of a run, of the sweep file and of its resources
    "rounds": "num_rounds n_rounds communication_rounds",
    "seed": "random_seed random_state",
    "participation_rate": "fraction_fit client_fraction sample_rate",
    "evaluate_every": "eval_every",
    "data": "dataset data_set",
    "model": "network",
    "attacks": "attack",
    "privacy": "defense",
    "aggregation": "strategy aggregator",
    "objective": "loss",
    "name": "model_name",
    "data_root": "data_dir",
    "sweep": "grid",
    "grid_search": "grid",
    "samples": "num_samples",
    "client_actors": "num_workers workers",
    # components
    "local_sgd": "sgd adam",
    "global_dp": "central_dp user_level_dp dp_fedavg dp",
    "dp_sgd": "dpsgd dp",
    "calibrated_mia": "lira rmia",
    "shadow_mia": "mia membership_inference shadow_models_mia",
    "sia": "source_inference",
    "cia": "client_inference",
    "table": "csv parquet",
    "arrays": "npz",
    "image_folder": "imagefolder",
    "cifar10": "cifar",
    "groups": "iid",
    "dirichlet": "non_iid",
    "mnist_cnn": "cnn",
    "resnet56": "resnet",
    "fedmedian": "median",
}

# Where a key belongs that stands directly under base, or above it.
FIELDS = {
    "training": "lr epochs batch_size optimizer momentum weight_decay device threads",
    "privacy": "noise_multiplier clip delta",
    "data": "clients examples_per_client split path label",
    "data.split": "alpha",
    "model": "hidden",
    "clustering": "clusters",
    "objective": "mu",
    "resources": "client_actors",
}
PLACES = {field: f"{section}.{field}" for section, fields in FIELDS.items() for field in fields.split()}
# What is said by the name of a component, not by a field.
PLACES |= {
    "model_name": "model.name",
    "attack": "attacks",
    "dataset": "data.name",
    "optimizer_name": "training.name",
}


def synonym(name: str, known: Collection[str]) -> str:
    """Our name, of those ``known`` at its place, for another tool's ``name``, or the place where it belongs; else empty.

    >>> synonym("learning-rate", ["lr", "momentum"])
    'lr'
    >>> synonym("num_clients", ["data", "training", "rounds"])
    'data.clients'
    """
    plain = name[:200].lower().replace("-", "_")
    ours = [one for one, others in SYNONYMS.items() if plain in others.split()]
    if here := next((one for one in ours if one in known), ""):
        return here
    place = next((PLACES[one] for one in (plain, *ours) if one in PLACES), "")
    resources = place.startswith("resources.")
    if place and {"base", "resources"} <= set(known):  # the top of the file
        return place if resources else f"base.{place}"
    return place if {"data", "training"} <= set(known) and not resources else ""  # directly under base, or deeper
