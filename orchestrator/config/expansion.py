"""The trials of a sweep: the run at every point that its swept keys span, and what is wrong with any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.config.errors import ConfigProblem, Key, format_value
from orchestrator.config.overrides import KeyPathError, assign, has_key, locate, slot_test
from orchestrator.config.run import Run, Slot, check, trial_id
from orchestrator.config.search_space import Axis, Choice, Point

ExpandedTrial = tuple[Run, dict[str, Any]]
"""The run of a trial, and the values of its swept keys."""


@dataclass(frozen=True)
class Space:
    """What a search draws from: ``axes`` on top of ``base``."""

    base: Any
    axes: tuple[Axis, ...]
    slots: tuple[Slot, ...]

    def at(self, values: Mapping[str, Any]) -> ExpandedTrial | None:
        """The trial with these values of the swept keys; None where they cannot be combined."""
        swept = _swept_names(self.base, self.axes, self.slots)
        point = {key: Choice(value, ("sweep", key)) for key, value in values.items()}
        run, keys, _ = _trial(self.base, point, self.slots, swept)
        return (run, _values(run if swept else None, point, keys)) if run else None


def is_related(one: Key, other: Key) -> bool:
    """Whether one key is the other or lies inside it."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def value_at(tree: Any, key: Key) -> Any:
    """The value at ``key``, which must be there."""
    for step in key:
        tree = tree[step]
    return tree


def check_trials(
    base: Any, found: Sequence[Axis], spanned: list[Point], slots: Sequence[Slot], lost: list[tuple[str, ...]]
) -> tuple[list[ExpandedTrial], list[ConfigProblem]]:
    """The trial at every point, and each problem once; one of base that only some trials have says which."""
    swept = _swept_names(base, found, slots)
    trials = []
    count: dict[ConfigProblem, int] = {}
    first: dict[ConfigProblem, Point] = {}
    for point in spanned:
        run, keys, wrong = _trial(base, point, slots, swept)
        for problem in dict.fromkeys(
            one for one in wrong if not any(is_related(_inside(one.key), key) for key in lost)
        ):
            count[problem] = count.get(problem, 0) + 1
            first.setdefault(problem, point)
        if run is not None:
            trials.append((run, _values(run if swept else None, point, keys)))
    problems = []
    for problem, times in count.items():
        if problem.key[0] == "base" and times < len(spanned):
            where = ", ".join(f"{key}: {format_value(choice.value)}" for key, choice in first[problem].items())
            told = f"{problem.sentence} (in {times} of {len(spanned)} trials, first that of {where})"
            problem = replace(problem, sentence=told)
        problems.append(problem)
    return trials, problems


def _inside(key: Key) -> Key:
    """The key of a problem as a key inside base."""
    return tuple(str(key[1]).split(".")) if key[:1] == ("sweep",) else key[1:]


def _swept_names(base: Any, found: Sequence[Axis], slots: Sequence[Slot]) -> dict[Key, list[Any]]:
    """The names that the sweep puts into each slot whose ``name`` is swept."""
    is_slot = slot_test(slots)
    swept: dict[Key, list[Any]] = {}
    for axis in found:
        *slot, last = axis.key.split(".")
        try:
            key = locate(base, slot)
        except KeyPathError:
            continue
        if last == "name" and is_slot(key):
            swept[key] = list(axis.arguments)
    return swept


def _trial(
    base: Any, point: Point, slots: Sequence[Slot], swept: Mapping[Key, Sequence[Any]]
) -> tuple[Run | None, dict[str, Key], list[ConfigProblem]]:
    """The run at ``point``, where in it each swept key is, and the problems with keys from the top of the file."""
    is_slot = slot_test(slots)
    run, keys, problems = base, {}, []
    for swept_key in sorted(point, key=lambda key: key.count(".")):
        try:
            key = locate(run, swept_key.split("."))
            problems += _overwrite_problems(base, key, swept_key, point[swept_key]) if is_slot(key) else []
            run = assign(run, key, point[swept_key].value, is_slot)
            keys[swept_key] = key
        except KeyPathError as error:
            problems.append(ConfigProblem(str(error), ("sweep", swept_key)))
    resolved, found = check(run, slots, swept)
    problems += [replace(one, key=_origin(one, base, point, keys)) for one in found]
    return (None if problems else resolved), keys, problems


def _overwrite_problems(base: Any, key: Key, swept_key: str, choice: Choice) -> list[ConfigProblem]:
    """The problem of a bare name in place of a slot whose fields base gives: whether they stay is not clear."""
    held = value_at(base, key) if has_key(base, key) else None
    if not isinstance(choice.value, str) or not isinstance(held, dict) or set(held) <= {"name"}:
        return []
    fields = ", ".join(name for name in held if name != "name")
    sentence = f"sweep {swept_key}.name to keep {fields} of base, or write {{name: {choice.value}}} to begin anew"
    return [ConfigProblem(sentence, choice.key)]


def _origin(problem: ConfigProblem, base: Any, point: Point, keys: Mapping[str, Key]) -> Key:
    """Where in the file that part of a trial stands which ``problem`` is about."""
    key = problem.key
    putting = [one for one in keys if key[: len(keys[one])] == keys[one]]
    if putting:
        one = max(putting, key=lambda one: len(keys[one]))
        misnamed = problem.misnamed and key == keys[one]
        return ("sweep", one) if misnamed else (*point[one].key, *key[len(keys[one]) :])
    making = [] if has_key(base, key) else [one for one in keys if keys[one][: len(key)] == key]
    return ("sweep", making[0]) if making else ("base", *key)


def _values(run: Run | None, point: Point, keys: Mapping[str, Key]) -> dict[str, Any]:
    """The swept values; None in place of those that the components in ``run`` have no field for."""
    written = run.to_dict() if run else None
    return {key: choice.value if not run or has_key(written, keys[key]) else None for key, choice in point.items()}


def repeated_trials(trials: list[ExpandedTrial]) -> list[ConfigProblem]:
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
        ConfigProblem(
            f"{len(twins)} of {len(trials)} trials repeat another one: {format_value(one)} is the same run as "
            f"{format_value(other)}. "
            "Where not every component has a field, sweep it together with its component: "
            "clustering: {grid_search: [none, {name: ifca, clusters: 2}]}",
            ("sweep",),
        )
    ]
