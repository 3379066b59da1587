"""Dotted keys: finding and setting values in nested maps and lists without changing the original.

An entry of a list is addressed by its position or by the name of its component: ``attacks.0.every`` and
``attacks.shadow_mia.every``. A slot given as a bare name (``model: mlp``) counts as the map ``{name: mlp}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.config.errors import ConfigError, ConfigProblem, Key, dotted_key, format_value
from orchestrator.config.search_space import WORDS
from orchestrator.config.slots import SLOTS, Slot
from orchestrator.config.yaml_reader import Document, read

SlotTest = Callable[[Key], bool]


class KeyPathError(ValueError):  # noqa: N818
    """A dotted key leads into a value that has no entries, or to a list entry that does not exist."""


def slot_test(slots: Sequence[Slot] = SLOTS, top: Key = ()) -> SlotTest:
    """A function that tells whether a key is the place of a component; ``top`` is the key of the run in the tree."""
    single = {(*top, *slot.path) for slot in slots if not slot.many}
    several = {(*top, *slot.path) for slot in slots if slot.many}
    return lambda key: key in single or (key[:-1] in several and isinstance(key[-1], int))


def locate(tree: Any, key: Iterable[str | int]) -> Key:
    """``key`` with names of list entries replaced by positions. Raises KeyPathError if a list has no such entry."""
    located: Key = ()
    for step in key:
        if isinstance(tree, list):
            step = _position(tree, step, located)
            tree = tree[step]
        else:
            tree = tree.get(step) if isinstance(tree, dict) else None
        located = (*located, step)
    return located


def _position(entries: list[Any], step: str | int, at: Key) -> int:
    names = [entry.get("name") if isinstance(entry, dict) else entry for entry in entries]
    if step in names:
        return names.index(step)
    if str(step).isdecimal() and len(str(step)) < 9 and int(step) < len(entries):
        return int(step)
    named = [f"{place} ({name})" for place, name in enumerate(names) if isinstance(name, str)] or [str(len(entries))]
    raise KeyPathError(f"{dotted_key(at)} has no entry {dotted_key((step,))}; its entries: {', '.join(named)}")


def has_key(tree: Any, key: Key) -> bool:
    """Whether there is a value at ``key``."""
    for step in key:
        entries: Any = dict(enumerate(tree)) if isinstance(tree, list) else tree
        if not isinstance(entries, dict) or step not in entries:
            return False
        tree = entries[step]
    return True


def assign(tree: Any, key: Key, value: Any, is_slot: SlotTest, at: Key = ()) -> Any:
    """A copy of ``tree`` with ``value`` at ``key``, as `locate` returns it; missing maps on the way are created.

    Only the maps and lists on the way are copied. ``is_slot`` is a `slot_test`; ``at`` is the key of ``tree`` itself.

    Raises:
        KeyPathError: the key leads into a value that has no entries.
    """
    if not key:
        return value
    step, rest = key[0], key[1:]
    if isinstance(tree, str) and is_slot(at):
        tree = {"name": tree}
    if tree is None:
        tree = {}
    if isinstance(tree, list) and isinstance(step, int):
        return [*tree[:step], assign(tree[step], rest, value, is_slot, (*at, step)), *tree[step + 1 :]]
    if isinstance(tree, dict):
        return {**tree, step: assign(tree.get(step), rest, value, is_slot, (*at, step))}
    raise KeyPathError(f"{dotted_key(at)} is {format_value(tree)}, which has no {dotted_key((step,))} in it")


@dataclass
class Places:
    """The origin of each key of a tree: a line of the file, or a ``--set`` option.

    Attributes:
        file: the path of the sweep file, as the user wrote it.
        lines: line in the file, from 1, by key.
        sets: text of the ``--set`` option, by key.
    """

    file: str
    lines: dict[Key, int] = field(default_factory=dict)
    sets: dict[Key, str] = field(default_factory=dict)

    def replace(self, key: Key, option: str) -> None:
        """Record that ``key`` and everything below it now comes from ``option``."""
        for known in (self.lines, self.sets):
            for other in [other for other in known if other[: len(key)] == key]:
                del known[other]
        self.sets[key] = option

    def place(self, problem: ConfigProblem) -> ConfigProblem:
        """``problem`` with the file and line of its key, or of the closest key around it; unchanged if it has a place."""
        if problem.file:
            return problem
        for length in range(len(problem.key), 0, -1):
            key = problem.key[:length]
            if key in self.sets or key in self.lines:
                return replace(problem, file=self.sets.get(key, self.file), line=self.lines.get(key))
        return replace(problem, file=self.file)


def value_at(tree: Any, key: Key) -> Any:
    """The value at ``key``, which must exist."""
    for step in key:
        tree = tree[step]
    return tree


def sweep_step(parts: Sequence[str]) -> Key:
    """The key of a ``--set`` option inside ``sweep``, where swept keys contain dots and end before a word like grid_search.

    >>> sweep_step(["data", "split", "minority_ratio", "grid_search"])
    ('data.split.minority_ratio', 'grid_search')
    """
    for end in (len(parts) - 1, len(parts) - 2):
        if end > 0 and parts[end] in WORDS:
            return (".".join(parts[:end]), *parts[end:])
    return (".".join(parts),)


def apply_overrides(
    document: Document, places: Places, sets: Sequence[str], slots: Sequence[Slot] = SLOTS
) -> tuple[Any, list[ConfigProblem]]:
    """Apply ``--set`` options to a sweep file.

    Args:
        document: the file.
        places: is filled with the origin of each key.
        sets: the options as ``key=value``; later ones win.
        slots: the slots of a run.

    Returns:
        The values with the overrides applied, and all problems so far.
    """
    tree, problems = document.value, list(document.problems)
    places.lines.update(document.lines)
    is_slot = slot_test(slots, top=("base",))
    for text in sets:
        option = f"--set {text}"
        name, equals, written = text.partition("=")
        parts = [part.strip() for part in name.split(".")]
        if not equals or not all(parts):
            sentence = "must be key=value, with a dotted key from the top of the file, such as base.rounds=4"
            problems.append(ConfigProblem(sentence, file=option))
            continue
        try:
            key, value, found = _set(tree, parts, written, option)
            tree = assign(tree, key, value, is_slot)
        except KeyPathError as error:
            problems.append(ConfigProblem(str(error), file=option))
        except ConfigError as refusal:
            problems += [replace(problem, key=(), line=None) for problem in refusal.problems]
        else:
            places.replace(key, option)
            problems = [one for one in problems if one.key[: len(key)] != key or not key] + found
    return tree, problems


def _set(tree: Any, parts: list[str], written: str, option: str) -> tuple[Key, Any, list[ConfigProblem]]:
    """The key that an option sets, its value, and the problems in that value."""
    if not written.strip():
        raise KeyPathError("has no value after '='; write null to set no value")
    document = read(written, option)
    value = document.value
    in_sweep = parts[0] == "sweep" and len(parts) > 1
    key = locate(tree, ("sweep", *sweep_step(parts[1:])) if in_sweep else parts)
    found = [replace(problem, key=(*key, *problem.key), line=None) for problem in document.problems]
    if in_sweep and key[2:] and not key[3:]:  # one word of the search space replaces another
        return key[:2], {str(key[2]): value}, found
    return key, value, found
