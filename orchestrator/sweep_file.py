"""A sweep file as a whole: its sections, the ``--set`` options on top of it, and the trials that it asks for.

    name: ifca-mir-digits                 becomes the folder of the results
    description: ...                      free text
    data_root: ~/data                     where data sets lie; else FEDPRIV_DATA; else ~/.cache/fedpriv
    base: {rounds: 20, data: ..., ...}    one run (see `config`)
    sweep:                                dotted keys that start inside base, Ray Tune's words (see `search_space`)
      clustering.name: {grid_search: [ifca, ifca_mir]}
    samples: 8                            number of draws, where the sweep has random words
    resources: {client_actors: 2}         what may be used; not part of a trial's identity

Where a sweep changes a member by its name, base may carry fields that only some of the members know; a trial leaves out
those that its member does not know. A value of a sweep may also be a whole slot (``clustering: {grid_search: [none,
{name: ifca, clusters: 3}]}``); it replaces the slot of base. Shorter keys are put in first, so that
``clustering.clusters`` reaches into it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from datasets.slot import Config
from orchestrator.config import SLOTS, Course, Run, Slot, check, trial_id
from orchestrator.dotted_keys import Places, Unreachable, assigned, located, overridden, present, slot_test
from orchestrator.refusal import Key, Problem, Refusal, shown, validated
from orchestrator.resources import Resources
from orchestrator.search_space import MOST_TRIALS, Axis, Choice, Point, axes, points
from orchestrator.yaml_lines import contents, read

DATA_ROOT = "~/.cache/fedpriv"
DATA_VARIABLE = "FEDPRIV_DATA"
SECTIONS = ("base", "sweep", "resources")
FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# They lie beside the sweeps' folders.
TAKEN = ("mlflow.db", "mlartifacts")


class Header(Config):
    """The keys of a sweep file that are no sections."""

    name: str = Field(description="name of the sweep and of the folder of its results")
    description: str = Field("", description="what the sweep is for")
    samples: int | None = Field(None, ge=1, le=MOST_TRIALS, description="number of random draws")
    data_root: str | None = Field(None, min_length=1, description="folder in which the data sets lie")

    @field_validator("name")
    @classmethod
    def _folder(cls, name: str) -> str:
        if not FOLDER.fullmatch(name) or ".." in name or name in TAKEN:
            raise ValueError(
                "becomes a folder: it must be up to 100 letters, digits, '-', '_' and '.', begin with a letter or a "
                f"digit, hold no '..' and not be {' or '.join(TAKEN)}, got {shown(name)}"
            )
        return name


@dataclass(frozen=True)
class Sweep:
    """What a sweep file asks for, complete and checked.

    Attributes:
        text: the file as given; ``sets``: the options that changed it; ``places``: where each key comes from.
        data_root: absolute; it need not exist.
        runs: one for each trial, in the order of the file.
        swept: the swept keys, dotted; ``values`` holds what each run has there, as written (a whole slot is a map or a
            name; None where the run's member has no such field).
    """

    name: str
    path: Path
    text: str
    description: str
    data_root: Path
    resources: Resources
    runs: tuple[Run, ...]
    swept: tuple[str, ...]
    values: tuple[dict[str, Any], ...]
    sets: tuple[str, ...] = ()
    places: Places = field(default_factory=lambda: Places(""), repr=False, compare=False)

    def problem(self, sentence: str, *key: str | int) -> Problem:
        """A problem that came to light later, with file and line of ``key`` (from the top: ``"base", "data"``)."""
        return self.places.place(Problem(sentence, key))


def load_sweep(path: Path, sets: Sequence[str] = (), slots: Sequence[Slot] = SLOTS) -> Sweep:
    """The sweep in the file ``path``, changed by the ``key=value`` texts in ``sets``, or Refusal with all problems."""
    text = contents(path)
    places = Places(str(path))
    tree, problems = overridden(read(text, str(path)), places, sets, slots)
    blank = [problem.key for problem in problems if present(tree, problem.key) and _at(tree, problem.key) is None]
    if not isinstance(tree, dict):
        sentence = "is empty" if tree is None else f"must be a map with the keys name and base, got {shown(tree)}"
        raise Refusal(_told(problems, [Problem(sentence)], blank, tree, places))
    header, found = _header(tree)
    resources, more = _resources(tree.get("resources"))
    folder, wrong = _data_root(header)
    trials, faults = _trials(tree, header.samples if header else None, slots)
    found += [*more, *wrong, *faults]
    told = _told(problems, found, blank, tree, places)
    if told or header is None or resources is None:
        raise Refusal(told)
    runs, values = zip(*trials, strict=True)
    swept = tuple(tree.get("sweep") or ())
    return Sweep(
        header.name, path, text, header.description, folder, resources, runs, swept, values, tuple(sets), places
    )


def _told(placed: list[Problem], found: list[Problem], blank: list[Key], tree: Any, places: Places) -> list[Problem]:
    """All problems with their places, in the order of the file; without those that follow from an unreadable value."""
    followed = [one for one in found if not any(_related(one.key, key) for key in blank)]
    told = placed + [places.place(replace(one, key=_written(tree, one.key))) for one in followed]
    return sorted(dict.fromkeys(told), key=lambda one: (one.file != places.file, one.line or 0))


def _related(one: Key, other: Key) -> bool:
    """Whether one key is the other or lies inside it."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _written(tree: Any, key: Key) -> Key:
    """``key`` as far as the file writes it out: of ``model: mlp``, ``model`` and not ``model.name``."""
    for length in range(len(key)):
        if isinstance(tree, str):
            return key[:length]
        tree = tree[key[length]] if present(tree, key[length : length + 1]) else None
    return key


def _at(tree: Any, key: Key) -> Any:
    for step in key:
        tree = tree[step]
    return tree


def _header(tree: Mapping[str, Any]) -> tuple[Header | None, list[Problem]]:
    inside = {*Course.model_fields, *(slot.field for slot in SLOTS)}
    misplaced = [key for key in tree if key in inside]
    own = {key: value for key, value in tree.items() if key not in (*SECTIONS, *misplaced)}
    header, problems = validated(Header, own, known=(*SECTIONS, *Header.model_fields))
    keys = {slot.field: slot.key for slot in SLOTS}
    problems += [Problem(f"belongs in base: write base.{keys.get(key, key)}", (key,)) for key in misplaced]
    return header, problems


def _resources(given: Any) -> tuple[Resources | None, list[Problem]]:
    """The section ``resources``; one that is left empty is one with defaults."""
    if not isinstance(given, (dict, type(None))):
        return None, [
            Problem(f"must be a map of {', '.join(Resources.model_fields)}, got {shown(given)}", ("resources",))
        ]
    resources, problems = validated(Resources, given or {})
    return resources, [problem.under("resources") for problem in problems]


def _data_root(header: Header | None) -> tuple[Path, list[Problem]]:
    """Where the data sets lie. The path is made absolute, since workers start in folders of their own."""
    named = header.data_root if header else None
    given = named or os.environ.get(DATA_VARIABLE) or DATA_ROOT
    try:
        if "\0" in given:
            raise ValueError("holds a character that no path may hold")
        return Path(given).expanduser().absolute(), []
    except (RuntimeError, ValueError) as error:
        source = {"key": ("data_root",)} if named else {"file": DATA_VARIABLE}
        return Path(), [Problem(f"is no usable folder: {error}, got {shown(given)}", **source)]


def _trials(
    tree: Mapping[str, Any], samples: int | None, slots: Sequence[Slot]
) -> tuple[list[tuple[Run, dict[str, Any]]], list[Problem]]:
    """Run and swept values of every trial, or all problems of ``base`` and ``sweep``, each once."""
    if "base" not in tree:
        return [], [Problem("is missing; it must be a map of rounds, data, model and further slots", ("base",))]
    section = tree.get("sweep") or {}
    if not isinstance(section, dict):
        return [], [
            Problem(
                f"must be a map of dotted keys, such as seed: {{grid_search: [0, 1]}}, got {shown(section)}", ("sweep",)
            )
        ]
    found, problems = axes(section, samples)
    spanned, crowd = points(found, samples)
    # What an axis that cannot be read would have put in is not known, so nothing can be said about that place.
    unread = [key for key in section if key not in {axis.key for axis in found}]
    lost = [tuple(key.removeprefix("base.").removesuffix(".name").split(".")) for key in unread]
    trials, faults = _checked(tree["base"], found, spanned, slots, lost)
    problems += crowd + faults
    return trials, problems if problems else _repeated(trials)


def _checked(
    base: Any, found: list[Axis], spanned: list[Point], slots: Sequence[Slot], lost: list[tuple[str, ...]]
) -> tuple[list[tuple[Run, dict[str, Any]]], list[Problem]]:
    """The trial at every point, and each problem once; one of base that only some trials have says which."""
    swept = _swapped(base, found, slots)
    trials = []
    count: dict[Problem, int] = {}
    first: dict[Problem, Point] = {}
    for point in spanned:
        run, keys, wrong = _trial(base, point, slots, swept)
        for problem in dict.fromkeys(one for one in wrong if not any(_related(_inside(one.key), key) for key in lost)):
            count[problem] = count.get(problem, 0) + 1
            first.setdefault(problem, point)
        if run is not None:
            trials.append((run, _values(run if swept else None, point, keys)))
    problems = []
    for problem, times in count.items():
        if problem.key[0] == "base" and times < len(spanned):
            where = ", ".join(f"{key}: {shown(choice.value)}" for key, choice in first[problem].items())
            told = f"{problem.sentence} (in {times} of {len(spanned)} trials, first that of {where})"
            problem = replace(problem, sentence=told)
        problems.append(problem)
    return trials, problems


def _inside(key: Key) -> Key:
    """The key of a problem as a key inside base."""
    return tuple(str(key[1]).split(".")) if key[:1] == ("sweep",) else key[1:]


def _swapped(base: Any, found: list[Axis], slots: Sequence[Slot]) -> dict[Key, list[Any]]:
    """The names that the sweep puts into each slot whose ``name`` is swept."""
    is_slot = slot_test(slots)
    swept: dict[Key, list[Any]] = {}
    for axis in found:
        *slot, last = axis.key.split(".")
        try:
            key = located(base, slot)
        except Unreachable:
            continue
        if last == "name" and is_slot(key):
            swept[key] = list(axis.arguments)
    return swept


def _trial(
    base: Any, point: Point, slots: Sequence[Slot], swept: Mapping[Key, Sequence[Any]]
) -> tuple[Run | None, dict[str, Key], list[Problem]]:
    """The run at ``point``, where in it each swept key is, and the problems with keys from the top of the file."""
    is_slot = slot_test(slots)
    run, keys, problems = base, {}, []
    for swept_key in sorted(point, key=lambda key: key.count(".")):
        try:
            key = located(run, swept_key.split("."))
            problems += _overwritten(base, key, swept_key, point[swept_key]) if is_slot(key) else []
            run = assigned(run, key, point[swept_key].value, is_slot)
            keys[swept_key] = key
        except Unreachable as error:
            problems.append(Problem(str(error), ("sweep", swept_key)))
    resolved, found = check(run, slots, swept)
    problems += [replace(one, key=_origin(one, base, point, keys)) for one in found]
    return (None if problems else resolved), keys, problems


def _overwritten(base: Any, key: Key, swept_key: str, choice: Choice) -> list[Problem]:
    """The problem of a bare name in place of a slot whose fields base gives: whether they stay is not clear."""
    held = _at(base, key) if present(base, key) else None
    if not isinstance(choice.value, str) or not isinstance(held, dict) or set(held) <= {"name"}:
        return []
    fields = ", ".join(name for name in held if name != "name")
    sentence = f"sweep {swept_key}.name to keep {fields} of base, or write {{name: {choice.value}}} to begin anew"
    return [Problem(sentence, choice.key)]


def _origin(problem: Problem, base: Any, point: Point, keys: Mapping[str, Key]) -> Key:
    """Where in the file that part of a trial stands which ``problem`` is about."""
    key = problem.key
    putting = [one for one in keys if key[: len(keys[one])] == keys[one]]
    if putting:
        one = max(putting, key=lambda one: len(keys[one]))
        misnamed = problem.misnamed and key == keys[one]
        return ("sweep", one) if misnamed else (*point[one].key, *key[len(keys[one]) :])
    making = [] if present(base, key) else [one for one in keys if keys[one][: len(key)] == key]
    return ("sweep", making[0]) if making else ("base", *key)


def _values(run: Run | None, point: Point, keys: Mapping[str, Key]) -> dict[str, Any]:
    """The swept values; None in place of those that the members in ``run`` have no field for."""
    written = run.to_dict() if run else None
    return {key: choice.value if not run or present(written, keys[key]) else None for key, choice in point.items()}


def _repeated(trials: list[tuple[Run, dict[str, Any]]]) -> list[Problem]:
    """The problem of trials that are the same run although their points differ."""
    first: dict[str, dict[str, Any]] = {}
    twins = []
    for run, values in trials:
        before = first.setdefault(trial_id(run), values)
        twins += [(before, values)] if before is not values else []
    if not twins:
        return []
    one, other = twins[0]
    return [
        Problem(
            f"{len(twins)} of {len(trials)} trials repeat another one: {shown(one)} is the same run as {shown(other)}. "
            "Where not every member has a field, sweep it together with its member: "
            "clustering: {grid_search: [none, {name: ifca, clusters: 2}]}",
            ("sweep",),
        )
    ]
