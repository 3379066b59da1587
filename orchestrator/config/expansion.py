"""Expanding a sweep into trials: the run for every combination of the swept values, and the problems of these runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from algorithms.interfaces import Run
from orchestrator.config.errors import ConfigProblem, Key, format_value
from orchestrator.config.overrides import KeyPathError, assign, has_key, locate, slot_test, value_at
from orchestrator.config.run import check, trial_id
from orchestrator.config.search_space import Axis, Choice, Point
from orchestrator.config.slots import Slot

ExpandedTrial = tuple[Run, dict[str, Any]]
"""The run of a trial, and the values of its swept keys."""


@dataclass(frozen=True)
class Space:
    """The space that a search draws from.

    Attributes:
        base: the section ``base`` of the sweep file.
        axes: the swept keys with the values that may be drawn.
        slots: the slots of a run.
    """

    base: Any
    axes: tuple[Axis, ...]
    slots: tuple[Slot, ...]

    def at(self, values: Mapping[str, Any]) -> ExpandedTrial | None:
        """The trial with these values of the swept keys; None if the values cannot be combined."""
        swept = _swept_names(self.base, self.axes, self.slots)
        point = {key: Choice(value, ("sweep", key)) for key, value in values.items()}
        run, keys, _ = _trial(self.base, point, self.slots, swept)
        return (run, _values(run if swept else None, point, keys)) if run else None


def is_related(one: Key, other: Key) -> bool:
    """Whether the keys are equal or one lies inside the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def check_trials(
    base: Any, swept_axes: Sequence[Axis], spanned: list[Point], slots: Sequence[Slot], lost: list[tuple[str, ...]]
) -> tuple[list[ExpandedTrial], list[ConfigProblem]]:
    """Build and check the trial at every point.

    Args:
        base: the section ``base`` of the sweep file.
        swept_axes: the swept keys.
        spanned: the points, each with a value for every swept key.
        slots: the slots of a run.
        lost: keys inside ``base`` whose swept values could not be read; problems there are not reported.

    Returns:
        The valid trials, and each problem once. A problem of ``base`` that only some trials have says which ones.
    """
    swept = _swept_names(base, swept_axes, slots)
    trials = []
    points: dict[ConfigProblem, list[Point]] = {}  # at which a problem appears
    for point in spanned:
        run, keys, wrong = _trial(base, point, slots, swept)
        for problem in dict.fromkeys(wrong):
            if not any(is_related(_inside(problem.key), key) for key in lost):
                points.setdefault(problem, []).append(point)
        if run is not None:
            trials.append((run, _values(run if swept else None, point, keys)))
    unread: Counter[Key] = Counter()
    for problem, at in points.items():
        unread[_place(problem)] += len(at) if problem.unread else 0
    problems = []
    for problem, at in points.items():
        if problem.unread and unread[_place(problem)] < len(spanned):
            continue  # other trials of the sweep read it
        if problem.key[0] == "base" and len(at) < len(spanned):
            where = ", ".join(f"{key}: {format_value(choice.value)}" for key, choice in at[0].items())
            sentence = f"{problem.sentence} (in {len(at)} of {len(spanned)} trials, the first one with {where})"
            problem = replace(problem, sentence=sentence)
        problems.append(problem)
    return trials, problems


def _place(problem: ConfigProblem) -> Key:
    """The key of a problem, the same for every value that the sweep tries there."""
    return problem.key[:2] if problem.key[:1] == ("sweep",) else problem.key


def _inside(key: Key) -> Key:
    """The key of a problem as a key inside base."""
    return tuple(str(key[1]).split(".")) if key[:1] == ("sweep",) else key[1:]


def _swept_names(base: Any, swept_axes: Sequence[Axis], slots: Sequence[Slot]) -> dict[Key, list[Any]]:
    """The component names that the sweep tries in each slot whose ``name`` is swept."""
    is_slot = slot_test(slots)
    swept: dict[Key, list[Any]] = {}
    for axis in swept_axes:
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
    """The run at ``point``, the location of each swept key in it, and the problems, with keys from the top of the file."""
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
    wrong = [problem for problem in problems if not problem.unread]
    return (None if wrong else resolved), keys, problems


def _overwrite_problems(base: Any, key: Key, swept_key: str, choice: Choice) -> list[ConfigProblem]:
    """The problem of a swept bare name for a slot whose fields are set in base: should the fields be kept or not?"""
    written = value_at(base, key) if has_key(base, key) else None
    if not isinstance(choice.value, str) or not isinstance(written, dict) or set(written) <= {"name"}:
        return []
    fields = ", ".join(name for name in written if name != "name")
    sentence = f"sweep {swept_key}.name to keep {fields} of base, or write {{name: {choice.value}}} to drop them"
    return [ConfigProblem(sentence, choice.key)]


def _origin(problem: ConfigProblem, base: Any, point: Point, keys: Mapping[str, Key]) -> Key:
    """The key in the file of the part of a trial that ``problem`` is about."""
    key = problem.key
    putting = [one for one in keys if key[: len(keys[one])] == keys[one]]
    if putting:
        one = max(putting, key=lambda one: len(keys[one]))
        misnamed = problem.misnamed and key == keys[one]
        return ("sweep", one) if misnamed else (*point[one].key, *key[len(keys[one]) :])
    making = [] if has_key(base, key) else [one for one in keys if keys[one][: len(key)] == key]
    return ("sweep", making[0]) if making else ("base", *key)


def _values(run: Run | None, point: Point, keys: Mapping[str, Key]) -> dict[str, Any]:
    """The swept values; None for a field that the components of ``run`` do not have."""
    written = run.to_dict() if run else None
    return {key: choice.value if not run or has_key(written, keys[key]) else None for key, choice in point.items()}


def repeated_trials(trials: list[ExpandedTrial]) -> list[ConfigProblem]:
    """The problem of trials that are equal runs although their swept values differ."""
    first: dict[str, dict[str, Any]] = {}
    twins = []
    for run, values in trials:
        before = first.setdefault(trial_id(run), values)
        twins += [(before, values)] if before is not values else []
    if not twins:
        return []
    one, other = twins[0]
    sentence = (
        f"{len(twins)} of {len(trials)} trials repeat another trial: {format_value(one)} is the same run as "
        f"{format_value(other)}. If only some components have a field, sweep it together with its component: "
        "clustering: {grid_search: [none, {name: ifca, clusters: 2}]}"
    )
    return [ConfigProblem(sentence, ("sweep",))]
