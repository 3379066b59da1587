"""One run: which component fills each slot, with which fields; checked, completed, written out, identified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from datasets.components import Config, components
from orchestrator.config.errors import ConfigError, ConfigProblem, Key, format_value, translate, unknown_name, validate


@dataclass(frozen=True)
class Slot:
    """A part of a run that is chosen by name.

    Attributes:
        key: where it stands in a run, dotted (``data.split`` stands inside ``data``).
        folder: the package whose modules are its components.
        default: the component where none is named; None if one must be named.
        many: the slot holds a list of components, each at most once, and may be empty.
    """

    key: str
    folder: str
    default: str | None = None
    many: bool = False

    @cached_property
    def path(self) -> Key:
        return tuple(self.key.split("."))

    @cached_property
    def field(self) -> str:
        """The attribute of `Run` that holds what was chosen."""
        return self.key.rsplit(".", 1)[-1]


SLOTS = (
    Slot("data", "datasets.sources"),
    Slot("data.split", "datasets.splits", "groups"),
    Slot("model", "algorithms.models"),
    Slot("training", "algorithms.training", "local_sgd"),
    Slot("clustering", "algorithms.clustering", "none"),
    Slot("objective", "algorithms.objectives", "plain"),
    Slot("aggregation", "algorithms.aggregation", "fedavg"),
    Slot("privacy", "algorithms.privacy", "none"),
    Slot("attacks", "attacks", many=True),
)


class RunFields(Config):
    """The fields of a run that belong to no slot."""

    # No default: how long training takes to settle is a property of the data set, and every paper has its own number.
    rounds: int = Field(ge=1, description="rounds of training")
    seed: int = Field(0, ge=0, description="seed of every random number of the run")
    evaluate_every: int = Field(
        1, ge=1, description="rounds from one evaluation to the next; the last one is always evaluated"
    )
    participation: Literal["all", "fixed", "poisson"] = Field(
        "all", description="who trains in a round: all clients, a fixed number of them, or each with a probability"
    )
    participation_rate: float = Field(
        1.0, gt=0, le=1, description="share (fixed) or probability (poisson) of the clients that take part"
    )

    @field_validator("participation_rate")
    @classmethod
    def _rate(cls, value: float, info: ValidationInfo) -> float:
        if info.data.get("participation") == "all" and value != 1:
            raise ValueError(f"all clients take part unless participation is fixed or poisson; got a rate of {value:g}")
        return value


@dataclass(frozen=True)
class Component:
    """What fills a slot: its name, its fields (the component's own ``Config``), and the package that it is a component of."""

    name: str
    config: Any
    folder: str

    @property
    def module(self) -> ModuleType:
        """The component's module, with its functions."""
        return components(self.folder)[self.name]

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **self.config.model_dump(mode="json")}


@dataclass(frozen=True)
class Run:
    """One training run, fully resolved: no default is left open, no ``auto`` that a component can decide."""

    rounds: int
    seed: int
    evaluate_every: int
    participation: str
    participation_rate: float
    data: Component
    split: Component
    model: Component
    training: Component
    clustering: Component
    objective: Component
    aggregation: Component
    privacy: Component
    attacks: tuple[Component, ...] = ()

    def chosen(self, slots: Sequence[Slot] = SLOTS) -> Iterator[tuple[Key, Component]]:
        """Every component of the run with its key, in the order of ``slots``."""
        for slot in slots:
            filled = getattr(self, slot.field)
            if slot.many:
                yield from (((*slot.path, place), component) for place, component in enumerate(filled))
            else:
                yield slot.path, filled

    def to_dict(self) -> dict[str, Any]:
        """The run as plain JSON values, every field written out. `resolve` reads it back."""
        written: dict[str, Any] = {name: getattr(self, name) for name in RunFields.model_fields}
        written |= {
            slot.key: getattr(self, slot.field).to_dict() for slot in SLOTS if not slot.many and len(slot.path) == 1
        }
        return written | {
            "data": {**written["data"], "split": self.split.to_dict()},
            "attacks": [attack.to_dict() for attack in self.attacks],
        }


def trial_id(run: Run) -> str:
    """Ten hexadecimal digits that name a run: the same for equal runs, however and in whichever order written."""
    canonical = json.dumps(run.to_dict(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def resolve(given: Any, slots: Sequence[Slot] = SLOTS) -> Run:
    """The run that ``given`` (plain JSON values, like ``base`` in a sweep file) describes. Raises Refusal."""
    run, problems = check(given, slots)
    if run is None:
        raise ConfigError(problems)
    return run


def check(
    given: Any, slots: Sequence[Slot] = SLOTS, swept: Mapping[Key, Sequence[Any]] | None = None
) -> tuple[Run | None, list[ConfigProblem]]:
    """The run that ``given`` describes, or None and every problem, with keys relative to ``given``.

    ``swept`` holds, by the key of a slot, the names that a sweep puts there in turn. A field of ``given`` that the
    component at hand does not know, but another of these does, is left out instead of refused: in a comparison of ``ifca``
    and ``ifca_mir`` the base may carry the fields of both.
    """
    if not isinstance(given, Mapping):
        return None, [
            ConfigProblem(f"must be a map of rounds, data, model and further slots, got {format_value(given)}")
        ]
    inside = {slot.key for slot in slots if len(slot.path) == 1}
    own = {name: value for name, value in given.items() if name not in inside}
    course, problems = validate(RunFields, own, known=inside | set(RunFields.model_fields))
    filled: dict[str, Any] = {}
    for slot in slots:
        filled[slot.field], found = _fill(slot, given, slots, swept or {})
        problems += found
    if problems or course is None:
        return None, problems
    return _settle(Run(**course.model_dump(), **filled), slots)


def _fill(
    slot: Slot, given: Mapping[str, Any], slots: Sequence[Slot], swept: Mapping[Key, Sequence[Any]]
) -> tuple[Component | tuple[Component, ...] | None, list[ConfigProblem]]:
    """What fills ``slot`` in ``given``."""
    held: Any = given
    for part in slot.path[:-1]:
        held = held.get(part) if isinstance(held, Mapping) else None
    # A slot inside one that is itself left out, misspelled or a bare name is left out, too.
    present = isinstance(held, Mapping) and slot.path[-1] in held
    value = held[slot.path[-1]] if present else [] if slot.many else {}
    children = [other.field for other in slots if other.path[:-1] == slot.path]
    if not slot.many:
        if not present and slot.default is None:
            return None, [
                ConfigProblem(f"is missing; it must be one of {', '.join(components(slot.folder))}", slot.path)
            ]
        return _component(slot, slot.path, value, children, swept.get(slot.path, ()))
    if not isinstance(value, list):
        known = ", ".join(components(slot.folder))
        return None, [
            ConfigProblem(
                f"must be a list, with entries like {{name: ...}} of {known}, got {format_value(value)}", slot.path
            )
        ]
    chosen: list[Component] = []
    problems: list[ConfigProblem] = []
    for place, entry in enumerate(value):
        key = (*slot.path, place)
        component, found = _component(slot, key, entry, children, swept.get(key, ()))
        if component is not None and component.name in [other.name for other in chosen]:
            found = [ConfigProblem(f"{component.name} is listed twice; each may be listed once", (*key, "name"))]
        problems += found
        chosen += [component] if component is not None else []
    return tuple(chosen), problems


def _component(
    slot: Slot, key: Key, given: Any, children: Sequence[str], others: Sequence[Any]
) -> tuple[Component | None, list[ConfigProblem]]:
    """The component that ``given`` names, as text or as a map with ``name`` and fields. ``others`` may take its place."""
    known = components(slot.folder)
    if isinstance(given, str):
        given = {"name": given}
    if not isinstance(given, Mapping):
        return None, [
            ConfigProblem(f"must be a name or a map {{name: ..., field: ...}}, got {format_value(given)}", key)
        ]
    name = given.get("name", slot.default)
    if name is None and "name" not in given:
        return None, [ConfigProblem(f"is missing; it must be one of {', '.join(known)}", (*key, "name"))]
    if not isinstance(name, str):
        return None, [ConfigProblem(f"must be one of {', '.join(known)}, got {format_value(name)}", (*key, "name"))]
    if name not in known:
        return None, [
            ConfigProblem(unknown_name(f"unknown component {format_value(name)}", name, known), (*key, "name"))
        ]
    mates = {str(other) for other in others if isinstance(other, str) and other in known}
    foreign = {field for mate in mates for field in known[mate].Config.model_fields} - set(
        known[name].Config.model_fields
    )
    fields = {field: value for field, value in given.items() if field not in {"name", *children, *foreign}}
    offered = tuple(sorted({"name", *children, *foreign, *known[name].Config.model_fields}))
    config, problems = _config(slot.folder, name, json.dumps(fields, sort_keys=True), offered)
    return (Component(name, config, slot.folder) if config is not None else None), [one.under(*key) for one in problems]


# Trials of a sweep share most of their components; each is checked once.
@lru_cache(maxsize=4096)
def _config(
    folder: str, name: str, fields: str, offered: tuple[str, ...]
) -> tuple[Config | None, tuple[ConfigProblem, ...]]:
    config, problems = validate(components(folder)[name].Config, json.loads(fields), offered)
    return config, tuple(problems)


def _settle(run: Run, slots: Sequence[Slot]) -> tuple[Run | None, list[ConfigProblem]]:
    """``run`` after every component replaced its ``auto`` values and had its say about the others.

    A component may define ``resolved(config, run) -> Config``; they are called in the order of ``slots``, each with the
    run as the earlier ones left it. It may define ``problems(config, run) -> [(field, sentence), ...]``; all are called
    on the run that comes out. A component of a slot inside another, which knows no runs, is asked about what is around it:
    ``problems(config, outer_config) -> ["data.split.field: sentence", ...]``. A ValueError from any of them is a
    problem of the component as a whole.
    """
    problems: list[ConfigProblem] = []
    for key, component in run.chosen(slots):
        if hasattr(component.module, "resolved"):
            try:
                run = _replace_component(
                    run, key, replace(component, config=component.module.resolved(component.config, run)), slots
                )
            except ValueError as error:
                problems += _translate_error(error, key, component)
    for key, component in run.chosen(slots) if not problems else ():
        if hasattr(component.module, "problems"):
            try:
                problems += _component_problems(run, key, component, slots)
            except ValueError as error:
                problems += _translate_error(error, key, component)
    return (None if problems else run), problems


def _component_problems(run: Run, key: Key, component: Component, slots: Sequence[Slot]) -> list[ConfigProblem]:
    """What ``component`` has to say about the run, or about what is around it."""
    outer = next((slot for slot in slots if slot.path == key[:-1] and not slot.many), None)
    if outer is None:
        found = component.module.problems(component.config, run)
        return [ConfigProblem(sentence, (*key, *_steps(field))) for field, sentence in found]
    problems = []
    for text in component.module.problems(component.config, getattr(run, outer.field).config):
        place, colon, sentence = text.partition(": ")
        keyed = colon and all(part.isidentifier() for part in place.split(".")) and place.startswith(f"{outer.key}.")
        problems.append(ConfigProblem(sentence, _steps(place)) if keyed else ConfigProblem(text, key))
    return problems


def _steps(field: str) -> Key:
    return tuple(int(part) if part.isdecimal() else part for part in field.split(".")) if field else ()


def _translate_error(error: ValueError, key: Key, component: Component) -> list[ConfigProblem]:
    if isinstance(error, ValidationError):
        found = translate(error, type(component.config), component.config.model_dump(mode="json"))
        return [problem.under(*key) for problem in found]
    return [ConfigProblem(str(error), key)]


def _replace_component(run: Run, key: Key, component: Component, slots: Sequence[Slot]) -> Run:
    slot = next(slot for slot in slots if slot.path == key[: len(slot.path)] and len(key) - len(slot.path) == slot.many)
    filled: Any = component
    if slot.many:
        before = getattr(run, slot.field)
        filled = tuple(component if place == key[-1] else other for place, other in enumerate(before))
    return replace(run, **{slot.field: filled})
