"""What a component must declare: its contract, its fields, that all count in a trial's identity,
and a SENSITIVITY that holds.

Every check is a function of a slot and a component's name that yields problems, as sentences.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

from pydantic import ValidationError

from algorithms.engine.sensitivity import unlike_a_mean
from datasets.components import Config, components
from orchestrator.config.errors import ConfigError
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.slots import Slot, conforms, declared
from orchestrator.conformance.example_runs import chosen, described

LIMITS = {
    "maximum": -1,
    "exclusiveMaximum": -1,
    "minimum": 1,
    "exclusiveMinimum": 1,
}  # and the direction inwards
NEAR = 1e-9  # the end of a range
ELSEWHERE = {
    "threads",
    "noise",
}  # fields that are read where actors start and where noise is drawn, in no check
LONGEST = 120  # characters of a description
CLOSE = 0.8  # share of letters (difflib) from which a name is taken for another one, misspelled


def contract_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what the component lacks of its contract: names, docstrings, arguments, and the
    types of its constants.
    """
    module = components(slot.folder)[name]
    if module.Config.__module__ != module.__name__:
        yield f"Config is that of {module.Config.__module__}; a component defines its own"
    if not (module.__doc__ or "").strip():
        yield "the module has no docstring, whose first line `fedpriv list` shows"
    if not module.Config.__doc__ or module.Config.__doc__ == Config.__doc__:
        yield "Config has no docstring"
    for item in declared(slot.folder, module):
        value = getattr(module, item.name, None)
        if value is None:
            continue
        if not item.function:
            try:
                conforms(item, value)
            except ValidationError as error:
                yield (
                    f"{item.name} is {value!r}: {error.errors(include_url=False)[0]['msg'].lower()}"
                )
        elif not callable(value):
            yield f"{item.name} must be a function: {item.described}"
        else:
            if item.owed and not inspect.getdoc(value):
                yield f"{item.name} has no docstring"
            names = list(inspect.signature(getattr(item.contract, item.name)).parameters)
            parameters = list(inspect.signature(value).parameters.values())
            further = [
                it
                for it in parameters[len(names) :]
                if it.default is it.empty and it.kind not in (2, 4)
            ]
            if [it.name for it in parameters[: len(names)]] != names or further:
                yield (
                    f"{item.name}({', '.join(it.name for it in parameters)}) must be "
                    f"{item.described}"
                )


def doubtful_names(slot: Slot, name: str) -> Iterator[str]:
    """Yield public names that nothing reads and that are close to one that the contract knows,
    and what no table shows.
    """
    module = components(slot.folder)[name]
    terms = {term.name: term for term in declared(slot.folder, module)}
    functions = {
        key
        for key, it in vars(module).items()
        if inspect.isfunction(it) and it.__module__ == module.__name__
    }
    constants = set(
        re.findall(r"^([A-Z][A-Z_]*)\b[^=\n]*=", inspect.getsource(module), re.MULTILINE)
    )
    for word in sorted(
        key for key in functions | constants if not key.startswith("_") and key not in terms
    ):
        free = [
            key
            for key, term in terms.items()
            if not hasattr(module, key) and term.function == (word in functions)
        ]
        near = difflib.get_close_matches(word, free, n=1, cutoff=CLOSE)
        if near:
            yield (
                f"nothing reads {word}; the contract knows {terms[near[0]].described}: rename "
                "it if that is meant, else begin its name with an underscore"
            )
    in_table = getattr(module, "RISK", False) or any(
        metric.table for metric in getattr(module, "METRICS", ())
    )
    if slot.key == "attacks" and not in_table:
        yield (
            "what it finds is in attacks.parquet and in no table: declare in METRICS a metric "
            "with table=Column(...), and return its value among the metrics of the result"
        )


def table_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what the tables of attacks and defenses (`fedpriv list attacks`) lack of a
    component.
    """
    module = components(slot.folder)[name]
    if slot.key == "attacks" and not getattr(module, "ASKS", "").endswith("?"):
        yield 'the table of attacks lacks its question: ASKS = "was this example trained on?"'
    lacking = [text for text in ("AGAINST", "GUARANTEE", "COST") if not getattr(module, text, "")]
    if len(lacking) in (1, 2):
        yield f"the table of defenses lacks its {' and '.join(lacking)}"


def field_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield the fields without a description of one line, a range or a default, and those that
    do not count in the trial's id.

    A number's range is looked for where the schema can tell it; a tuple may be checked by a
    validator.
    """
    config = components(slot.folder)[name].Config
    for field, info in config.model_fields.items():
        if not info.description or "\n" in info.description or len(info.description) >= LONGEST:
            yield (
                f"the field {field} needs a description of one line with fewer than {LONGEST} "
                "characters"
            )
    for field, kind in field_kinds(config):
        number = (
            kind.get("type") in ("integer", "number") and "enum" not in kind and "const" not in kind
        )
        if number and not LIMITS.keys() & kind:
            yield f"the number {field} needs a range: Field(..., ge=..., le=...)"
    required = [field for field, info in config.model_fields.items() if info.is_required()]
    yield from (f"the field {field} needs a default" for field in required)
    yield from identity_problems(slot, name) if not required else ()


def field_kinds(config: type[Config]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field with its JSON schema, and then with each of its alternatives."""
    for field, schema in config.model_json_schema().get("properties", {}).items():
        yield from ((field, kind) for kind in (schema, *schema.get("anyOf", ())))


def identity_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield the fields that are read and are no part of the trial's id, or the other way round;
    and what is lost in a file.
    """
    # The choice of noise is read only where something is noisy.
    run = resolve(described(slot, name) | ({"training": "dp_sgd"} if slot.key == "privacy" else {}))
    if trial_id(resolve(json.loads(json.dumps(run.to_dict())))) != trial_id(run):
        yield "a run with this component is another when it is written and read back"
    component = chosen(run, slot)
    config: Config = component.config
    for field, value in config:
        changed = value + 1 if isinstance(value, int | float) else "another value, allowed or not"
        other: Any = replace(component, config=config.model_copy(update={field: changed}))
        filled: dict[str, Any] = {slot.field: (other,) if slot.many else other}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydantic's, of a value that is not allowed
            changes = trial_id(replace(run, **filled)) != trial_id(run)
        if changes == (field in config.unread_fields()):
            yield (
                f"the field {field} changes the trial's id where it is not read, or is read and "
                "does not"
            )


def unread_problems(slot: Slot, name: str, read: set[str]) -> Iterator[str]:
    """Yield the fields that are neither in ``read`` nor in the module's text, although they are
    to be read in the short run.

    What the text mentions may be read in a case that no check meets. What a data set inherits is
    for the split to read.
    """
    module = components(slot.folder)[name]
    config = chosen(resolve(described(slot, name)), slot).config
    above = [
        base.model_fields
        for base in module.Config.__mro__[1:]
        if slot.key == "data" and issubclass(base, Config)
    ]
    known = read.union(ELSEWHERE, config.unread_fields(), *above)
    for field in [it for it in module.Config.model_fields if it not in known]:
        if not re.search(rf"\.{field}\b", inspect.getsource(module)):
            yield (
                f"nothing reads the field {field}: leave it out, or say with read_when where it "
                "is read"
            )


def sensitivity_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield the first fields under which an aggregation is not the mean that its SENSITIVITY says.

    Tried are the defaults, then the choices of each field and the ends of its range, alone and with
    those of another, since it may be read only under them. What a run with an epsilon refuses is
    left out.
    """
    ends = list[tuple[str, Any]]()
    for field, kind in field_kinds(components(slot.folder)[name].Config):
        choices = (True, False) if kind.get("type") == "boolean" else kind.get("enum", ())
        ends += [(field, choice) for choice in choices]
        for limit, inwards in LIMITS.items():
            if limit in kind:
                step = inwards * (
                    1 if kind["type"] == "integer" else NEAR * max(1, abs(kind[limit]))
                )
                ends += [(field, kind[limit]), (field, kind[limit] + step)]
    for fields in map(dict, chain.from_iterable(combinations(ends, count) for count in range(3))):
        try:
            run = resolve(
                described() | {"privacy": "global_dp", slot.key: {"name": name, **fields}}
            )
        except ConfigError:
            continue
        claims_mean = run.aggregation.module.SENSITIVITY == "mean"
        problem = unlike_a_mean(run) if claims_mean else None
        if problem:
            given = " and ".join(f"{field}: {value}" for field, value in fields.items())
            yield f'SENSITIVITY is "mean", but with {given or "the defaults"} {problem}'
            return
