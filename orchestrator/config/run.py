"""One run: which member fills each slot, with which fields; checked, completed, written out, identified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from datasets.components import Config, members
from orchestrator.config.errors import Key, Problem, Refusal, shown, translated, unknown, validated


@dataclass(frozen=True)
class Slot:
    """A part of a run that is chosen by name.

    Attributes:
        key: where it stands in a run, dotted (``data.split`` stands inside ``data``).
        folder: the package whose modules are its members.
        default: the member where none is named; None if one must be named.
        many: the slot holds a list of members, each at most once, and may be empty.
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


class Course(Config):
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
class Member:
    """What fills a slot: its name, its fields (the member's own ``Config``), and the package that it is a member of."""

    name: str
    config: Any
    folder: str

    @property
    def module(self) -> ModuleType:
        """The member's module, with its functions."""
        return members(self.folder)[self.name]

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **self.config.model_dump(mode="json")}


@dataclass(frozen=True)
class Run:
    """One training run, fully resolved: no default is left open, no ``auto`` that a member can decide."""

    rounds: int
    seed: int
    evaluate_every: int
    participation: str
    participation_rate: float
    data: Member
    split: Member
    model: Member
    training: Member
    clustering: Member
    objective: Member
    aggregation: Member
    privacy: Member
    attacks: tuple[Member, ...] = ()

    def chosen(self, slots: Sequence[Slot] = SLOTS) -> Iterator[tuple[Key, Member]]:
        """Every member of the run with its key, in the order of ``slots``."""
        for slot in slots:
            filled = getattr(self, slot.field)
            if slot.many:
                yield from (((*slot.path, place), member) for place, member in enumerate(filled))
            else:
                yield slot.path, filled

    def to_dict(self) -> dict[str, Any]:
        """The run as plain JSON values, every field written out. `resolve` reads it back."""
        written: dict[str, Any] = {name: getattr(self, name) for name in Course.model_fields}
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
        raise Refusal(problems)
    return run


def check(
    given: Any, slots: Sequence[Slot] = SLOTS, swept: Mapping[Key, Sequence[Any]] | None = None
) -> tuple[Run | None, list[Problem]]:
    """The run that ``given`` describes, or None and every problem, with keys relative to ``given``.

    ``swept`` holds, by the key of a slot, the names that a sweep puts there in turn. A field of ``given`` that the
    member at hand does not know, but another of these does, is left out instead of refused: in a comparison of ``ifca``
    and ``ifca_mir`` the base may carry the fields of both.
    """
    if not isinstance(given, Mapping):
        return None, [Problem(f"must be a map of rounds, data, model and further slots, got {shown(given)}")]
    inside = {slot.key for slot in slots if len(slot.path) == 1}
    own = {name: value for name, value in given.items() if name not in inside}
    course, problems = validated(Course, own, known=inside | set(Course.model_fields))
    filled: dict[str, Any] = {}
    for slot in slots:
        filled[slot.field], found = _fill(slot, given, slots, swept or {})
        problems += found
    if problems or course is None:
        return None, problems
    return _settled(Run(**course.model_dump(), **filled), slots)


def _fill(
    slot: Slot, given: Mapping[str, Any], slots: Sequence[Slot], swept: Mapping[Key, Sequence[Any]]
) -> tuple[Member | tuple[Member, ...] | None, list[Problem]]:
    """What fills ``slot`` in ``given``."""
    held: Any = given
    for part in slot.path[:-1]:
        held = held.get(part) if isinstance(held, Mapping) else None
    # A slot inside one that is itself left out, misspelt or a bare name is left out, too.
    present = isinstance(held, Mapping) and slot.path[-1] in held
    value = held[slot.path[-1]] if present else [] if slot.many else {}
    children = [other.field for other in slots if other.path[:-1] == slot.path]
    if not slot.many:
        if not present and slot.default is None:
            return None, [Problem(f"is missing; it must be one of {', '.join(members(slot.folder))}", slot.path)]
        return _member(slot, slot.path, value, children, swept.get(slot.path, ()))
    if not isinstance(value, list):
        known = ", ".join(members(slot.folder))
        return None, [
            Problem(f"must be a list, with entries like {{name: ...}} of {known}, got {shown(value)}", slot.path)
        ]
    chosen: list[Member] = []
    problems: list[Problem] = []
    for place, entry in enumerate(value):
        key = (*slot.path, place)
        member, found = _member(slot, key, entry, children, swept.get(key, ()))
        if member is not None and member.name in [other.name for other in chosen]:
            found = [Problem(f"{member.name} is listed twice; each may be listed once", (*key, "name"))]
        problems += found
        chosen += [member] if member is not None else []
    return tuple(chosen), problems


def _member(
    slot: Slot, key: Key, given: Any, children: Sequence[str], others: Sequence[Any]
) -> tuple[Member | None, list[Problem]]:
    """The member that ``given`` names, as text or as a map with ``name`` and fields. ``others`` may take its place."""
    known = members(slot.folder)
    if isinstance(given, str):
        given = {"name": given}
    if not isinstance(given, Mapping):
        return None, [Problem(f"must be a name or a map {{name: ..., field: ...}}, got {shown(given)}", key)]
    name = given.get("name", slot.default)
    if name is None and "name" not in given:
        return None, [Problem(f"is missing; it must be one of {', '.join(known)}", (*key, "name"))]
    if not isinstance(name, str):
        return None, [Problem(f"must be one of {', '.join(known)}, got {shown(name)}", (*key, "name"))]
    if name not in known:
        return None, [Problem(unknown(f"unknown member {shown(name)}", name, known), (*key, "name"))]
    mates = {str(other) for other in others if isinstance(other, str) and other in known}
    foreign = {field for mate in mates for field in known[mate].Config.model_fields} - set(
        known[name].Config.model_fields
    )
    fields = {field: value for field, value in given.items() if field not in {"name", *children, *foreign}}
    offered = tuple(sorted({"name", *children, *foreign, *known[name].Config.model_fields}))
    config, problems = _config(slot.folder, name, json.dumps(fields, sort_keys=True), offered)
    return (Member(name, config, slot.folder) if config is not None else None), [one.under(*key) for one in problems]


# Trials of a sweep share most of their members; each is checked once.
@lru_cache(maxsize=4096)
def _config(folder: str, name: str, fields: str, offered: tuple[str, ...]) -> tuple[Config | None, tuple[Problem, ...]]:
    config, problems = validated(members(folder)[name].Config, json.loads(fields), offered)
    return config, tuple(problems)


def _settled(run: Run, slots: Sequence[Slot]) -> tuple[Run | None, list[Problem]]:
    """``run`` after every member replaced its ``auto`` values and had its say about the others.

    A member may define ``resolved(config, run) -> Config``; they are called in the order of ``slots``, each with the
    run as the earlier ones left it. It may define ``problems(config, run) -> [(field, sentence), ...]``; all are called
    on the run that comes out. A member of a slot inside another, which knows no runs, is asked about what is around it:
    ``problems(config, outer_config) -> ["data.split.field: sentence", ...]``. A ValueError from any of them is a
    problem of the member as a whole.
    """
    problems: list[Problem] = []
    for key, member in run.chosen(slots):
        if hasattr(member.module, "resolved"):
            try:
                run = _replaced(run, key, replace(member, config=member.module.resolved(member.config, run)), slots)
            except ValueError as error:
                problems += _raised(error, key, member)
    for key, member in run.chosen(slots) if not problems else ():
        if hasattr(member.module, "problems"):
            try:
                problems += _told(run, key, member, slots)
            except ValueError as error:
                problems += _raised(error, key, member)
    return (None if problems else run), problems


def _told(run: Run, key: Key, member: Member, slots: Sequence[Slot]) -> list[Problem]:
    """What ``member`` has to say about the run, or about what is around it."""
    outer = next((slot for slot in slots if slot.path == key[:-1] and not slot.many), None)
    if outer is None:
        found = member.module.problems(member.config, run)
        return [Problem(sentence, (*key, *_steps(field))) for field, sentence in found]
    problems = []
    for text in member.module.problems(member.config, getattr(run, outer.field).config):
        place, colon, sentence = text.partition(": ")
        keyed = colon and all(part.isidentifier() for part in place.split(".")) and place.startswith(f"{outer.key}.")
        problems.append(Problem(sentence, _steps(place)) if keyed else Problem(text, key))
    return problems


def _steps(field: str) -> Key:
    return tuple(int(part) if part.isdecimal() else part for part in field.split(".")) if field else ()


def _raised(error: ValueError, key: Key, member: Member) -> list[Problem]:
    if isinstance(error, ValidationError):
        found = translated(error, type(member.config), member.config.model_dump(mode="json"))
        return [problem.under(*key) for problem in found]
    return [Problem(str(error), key)]


def _replaced(run: Run, key: Key, member: Member, slots: Sequence[Slot]) -> Run:
    slot = next(slot for slot in slots if slot.path == key[: len(slot.path)] and len(key) - len(slot.path) == slot.many)
    filled: Any = member
    if slot.many:
        before = getattr(run, slot.field)
        filled = tuple(member if place == key[-1] else other for place, other in enumerate(before))
    return replace(run, **{slot.field: filled})
