"""What a component must declare: its contract, its fields, and that all of them count in a trial's identity.

Every check is a function of a slot and a component's name that yields problems, as sentences.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import json
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from datasets.components import Config, components
from orchestrator.config.run import resolve, trial_id
from orchestrator.config.slots import Declared, Slot, declared, owed
from orchestrator.conformance.example_runs import chosen, described

LIMITS = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}
LONGEST = 120  # characters of a description
CLOSE = 0.8  # share of letters (difflib) from which a name is taken for another one, misspelled


def contract_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what the component lacks of its contract."""
    module = components(slot.folder)[name]
    if module.Config.__module__ != module.__name__:
        yield f"Config is that of {module.Config.__module__}; a component defines its own"
    for one in owed(slot.folder, module):
        if not hasattr(module, one.name):
            yield f"{one.described} is missing, which every component of {slot.key} must have"


def documentation_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what the component does not document."""
    module = components(slot.folder)[name]
    if not (module.__doc__ or "").strip():
        yield "the module has no docstring, whose first line `fedpriv list` shows"
    if not module.Config.__doc__ or module.Config.__doc__ == Config.__doc__:
        yield "Config has no docstring"
    for one in owed(slot.folder, module):
        if one.function and not inspect.getdoc(getattr(module, one.name)):
            yield f"{one.name} has no docstring"


def signature_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield the functions whose arguments have other names, or another order, than the contract says."""
    module = components(slot.folder)[name]
    for one in declared(slot.folder, module):
        if not one.function or not hasattr(module, one.name):
            continue
        function = getattr(module, one.name)
        if not callable(function):
            yield f"{one.name} must be a function: {one.described}"
            continue
        asked = list(inspect.signature(getattr(one.contract, one.name)).parameters)
        own = list(inspect.signature(function).parameters.values())
        names = [it.name for it in own]
        further = [it for it in own[len(asked) :] if it.default is it.empty and it.kind not in (2, 4)]
        if names[: len(asked)] != asked or further:
            yield f"{one.name}({', '.join(names)}) must be {one.described}"


def constant_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield the constants whose values are not of the type that the contract says."""
    module = components(slot.folder)[name]
    for one in declared(slot.folder, module):
        if not one.function and hasattr(module, one.name):
            try:
                conforms(one, getattr(module, one.name))
            except ValidationError as error:
                wrong = error.errors(include_url=False)[0]["msg"]
                yield f"{one.name} is {getattr(module, one.name)!r}: {wrong[0].lower()}{wrong[1:]}"


def misspelled_names(slot: Slot, name: str) -> Iterator[str]:
    """Yield the public names of a component that nothing reads and that are close to one that its contract knows."""
    module = components(slot.folder)[name]
    known = {one.name: one for one in declared(slot.folder, module)}
    functions = {key for key, it in vars(module).items() if inspect.isfunction(it) and it.__module__ == module.__name__}
    for own in sorted(key for key in functions | _constants(module) if not key.startswith("_") and key not in known):
        open_ = [key for key, one in known.items() if not hasattr(module, key) and one.function == (own in functions)]
        if near := difflib.get_close_matches(own, open_, n=1, cutoff=CLOSE):
            yield (
                f"nothing reads {own}; the contract knows {known[near[0]].described}: rename it if that is meant, "
                f"else begin its name with an underscore"
            )


def unshown(slot: Slot, name: str) -> Iterator[str]:
    """Yield that no table shows what an attack finds, unless one of its metrics has a column, or it is clients' risk."""
    module = components(slot.folder)[name]
    if not getattr(module, "RISK", False) and not any(one.table for one in getattr(module, "METRICS", ())):
        yield (
            "what it finds is in attacks.parquet and in no table: declare in METRICS a metric with table=Column(...), and "
            "return its value among the metrics of the result"
        )


def _constants(module: ModuleType) -> set[str]:
    """The names in capitals to which a module's file assigns at its top."""
    tree = ast.parse(inspect.getsource(module))
    targets = [
        target
        for node in tree.body
        for target in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)])
    ]
    return {target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper()}


def conforms(one: Declared, value: Any) -> None:
    """Raise ValidationError if a constant's value is not of the type that the contract says."""
    TypeAdapter(one.type, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(value, strict=True)


def field_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield the fields without a description of one line, a default that is allowed, or a range, and those that are not strict.

    A number's range is looked for where the schema can tell it; a tuple may be checked by a validator.
    """
    config = components(slot.folder)[name].Config
    schema = config.model_json_schema().get("properties", {})
    required = [field for field, info in config.model_fields.items() if info.is_required()]
    for field, info in config.model_fields.items():
        if not info.description or "\n" in info.description or len(info.description) >= LONGEST:
            yield f"the field {field} needs a description of one line with fewer than {LONGEST} characters"
        for kind in (schema[field], *schema[field].get("anyOf", ())):
            number = kind.get("type") in ("integer", "number") and "enum" not in kind and "const" not in kind
            if number and not LIMITS & set(kind):
                yield f"the number {field} needs a range: Field(..., ge=..., le=...)"
    yield from (f"the field {field} needs a default" for field in required)
    if not _refused(lambda: config.model_validate({"no_such_field": 1})):
        yield "Config must refuse unknown fields"
    if required:
        return
    usual = config()
    if config.model_validate(usual.model_dump()) != usual:
        yield "the defaults are not the same when they are read back"
    for field, value in usual:
        if not _refused(lambda field=field, value=value: setattr(usual, field, value)):
            yield f"the field {field} can be changed; Config must be frozen"
        for wrong in (float("nan"), float("inf"), "0.5") if isinstance(value, float) else ():
            if not _refused(lambda field=field, wrong=wrong: config(**{field: wrong})):
                yield f"the field {field} must refuse {wrong!r}"


def _refused(attempt: Any) -> bool:
    try:
        attempt()
    except ValidationError:
        return True
    return False


def identity_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield the fields that are read and are no part of the trial's id, or the other way round."""
    # The choice of noise is read only where something is noisy.
    private = {"training": "dp_sgd"} if slot.key == "privacy" else {}
    run = resolve(described(slot, name) | private)
    component = chosen(run, slot)
    if component.name != name:
        yield f"the run has {component.name} in its place"

    def identity(config: Config) -> str:
        other = replace(component, config=config)
        filled: dict[str, Any] = {slot.field: (other,) if slot.many else other}
        return trial_id(replace(run, **filled))

    own, found = component.config, [trial_id(run)]
    for field, changed in changes(own):
        if changed is None:
            yield f"no other value is allowed for the field {field}"
            continue
        read = reading(own, field)
        if read is None:
            yield f"the field {field} is never read"
            continue
        found.append(identity(read.model_copy(update={field: getattr(changed, field)})))
        if found[-1] == identity(read):
            yield f"another value of {field} gives the same trial id"
        elsewhere = own.model_copy(update={field: getattr(changed, field)})
        if field in own.unread_fields() and identity(elsewhere) != found[0]:
            yield f"{field} changes the trial id where it is not read"
    if len(found) != 1 + len(type(own).model_fields) or len(set(found)) != len(found):
        yield "different values of the fields must give different trial ids"


def reading_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield in which respect a run with the component is not read back as it was written."""
    run = resolve(described(slot, name))
    again = resolve(json.loads(json.dumps(run.to_dict())))
    if again != run or trial_id(again) != trial_id(run):
        yield "a run with this component is another when it is written and read back"


def alternatives(value: Any, schema: dict[str, Any]) -> Iterator[Any]:
    """Yield values that could stand instead of ``value``; most are not allowed."""
    for kind in (schema, *schema.get("anyOf", ())):
        yield from kind.get("enum", ())
        yield from [kind["const"]] if "const" in kind else ()
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, value - 1, value / 2, value * 0.9, value + 0.1)
    yield from (3, 0.25, None, "another", [3], (3,), (0.5, 0.75), {"another": 1})


def changes(config: BaseModel) -> Iterator[tuple[str, BaseModel | None]]:
    """Yield for each field a config that differs from ``config`` in this field alone; None if no value was found."""
    schema = type(config).model_json_schema().get("properties", {})
    for field, value in config:
        found = None
        for candidate in alternatives(value, schema[field]):
            try:
                changed = type(config).model_validate(dict(config) | {field: candidate})
            except ValidationError:
                continue
            if changed != config:
                found = changed
                break
        yield field, found


def deciding(config: Config, field: str) -> Iterator[Config]:
    """Yield ``config`` with another value in one field other than ``field``; it need not be a value that is allowed."""
    schema = type(config).model_json_schema().get("properties", {})
    for other, value in config:
        if other != field:
            choices = schema[other].get("enum", ())
            larger = (value + 1,) if isinstance(value, int | float) else ()
            yield from (config.model_copy(update={other: candidate}) for candidate in (*choices, *larger))


def reading(config: Config, field: str) -> Config | None:
    """Return a config in which ``field`` is read: ``config``, or one with other values in a field or two that decide it."""
    near = [config]
    for _ in range(3):
        for one in near:
            if field not in one.unread_fields():
                return one
        near = [further for one in near for further in deciding(one, field)]
    return None
