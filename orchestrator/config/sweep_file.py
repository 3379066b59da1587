"""A sweep file as a whole: its sections, the ``--set`` options on top of it, and the trials that it asks for.

    name: ifca-mir-digits                 becomes the folder of the results
    description: ...                      free text
    data_root: ~/data                     where data sets lie; else FEDPRIV_DATA; else ~/.cache/fedpriv
    base: {rounds: 20, data: ..., ...}    one run (see `config`)
    sweep:                                dotted keys that start inside base, Ray Tune's words (see `search_space`)
      clustering.name: {grid_search: [ifca, ifca_mir]}
    samples: 8                            number of draws, where the sweep has random words
    tune: {...}                           stop trials early, search instead of drawing blindly (see `parse_tune`)
    resources: {client_actors: 2}         what may be used; not part of a trial's identity

Where a sweep changes a component by its name, base may carry fields that only some of the components know; a trial leaves out
those that its component does not know. A value of a sweep may also be a whole slot (``clustering: {grid_search: [none,
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

from datasets.components import Config
from orchestrator.config.errors import ConfigError, ConfigProblem, Key, format_value, validate
from orchestrator.config.expansion import ExpandedTrial, Space, check_trials, is_related, repeated_trials, value_at
from orchestrator.config.overrides import Places, apply_overrides, has_key
from orchestrator.config.resources import Resources
from orchestrator.config.run import SLOTS, Run, RunFields, Slot
from orchestrator.config.search_space import MOST_TRIALS, axes, corners, points, search_problems
from orchestrator.config.tune_section import Tune, parse_tune, scheduler_problems
from orchestrator.config.yaml_reader import contents, read

DATA_ROOT = "~/.cache/fedpriv"
DATA_VARIABLE = "FEDPRIV_DATA"
SECTIONS = ("base", "sweep", "tune", "resources")
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
                f"digit, hold no '..' and not be {' or '.join(TAKEN)}, got {format_value(name)}"
            )
        return name


@dataclass(frozen=True)
class Sweep:
    """What a sweep file asks for, complete and checked.

    Attributes:
        text: the file as given; ``sets``: the options that changed it; ``places``: where each key comes from.
        data_root: absolute; it need not exist.
        runs: one for each trial, in the order of the file; where trials are searched for, one at every end of the space.
        swept: the swept keys, dotted; ``values`` holds what each run has there, as written (a whole slot is a map or a
            name; None where the run's component has no such field).
        samples: number of random draws; ``tune``: how trials are stopped and searched for; ``space``: what a search draws
            from, None where there is no search.
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
    samples: int | None = None
    tune: Tune | None = None
    space: Space | None = field(default=None, repr=False)
    places: Places = field(default_factory=lambda: Places(""), repr=False, compare=False)

    def problem(self, sentence: str, *key: str | int) -> ConfigProblem:
        """A problem that came to light later, with file and line of ``key`` (from the top: ``"base", "data"``)."""
        return self.places.place(ConfigProblem(sentence, key))


def load_sweep(path: Path, sets: Sequence[str] = (), slots: Sequence[Slot] = SLOTS) -> Sweep:
    """The sweep in the file ``path``, changed by the ``key=value`` texts in ``sets``, or Refusal with all problems."""
    text = contents(path)
    places = Places(str(path))
    tree, problems = apply_overrides(read(text, str(path)), places, sets, slots)
    blank = [problem.key for problem in problems if has_key(tree, problem.key) and value_at(tree, problem.key) is None]
    if not isinstance(tree, dict):
        sentence = (
            "is empty" if tree is None else f"must be a map with the keys name and base, got {format_value(tree)}"
        )
        raise ConfigError(_place_problems(problems, [ConfigProblem(sentence)], blank, tree, places))
    header, found = _header(tree)
    resources, more = _resources(tree.get("resources"))
    folder, wrong = _data_root(header)
    tune, untuned = parse_tune(tree.get("tune"))
    trials, space, faults = _trials(tree, header.samples if header else None, tune, slots)
    found += [*more, *wrong, *untuned, *faults]
    told = _place_problems(problems, found, blank, tree, places)
    if told or header is None or resources is None:
        raise ConfigError(told)
    runs, values = zip(*trials, strict=True)
    return Sweep(
        name=header.name,
        path=path,
        text=text,
        description=header.description,
        data_root=folder,
        resources=resources,
        runs=runs,
        swept=tuple(tree.get("sweep") or ()),
        values=values,
        sets=tuple(sets),
        samples=header.samples,
        tune=tune,
        space=space,
        places=places,
    )


def _place_problems(
    placed: list[ConfigProblem], found: list[ConfigProblem], blank: list[Key], tree: Any, places: Places
) -> list[ConfigProblem]:
    """All problems with their places, in the order of the file; without those that follow from an unreadable value."""
    followed = [one for one in found if not any(is_related(one.key, key) for key in blank)]
    told = placed + [places.place(replace(one, key=_written_key(tree, one.key))) for one in followed]
    return sorted(dict.fromkeys(told), key=lambda one: (one.file != places.file, one.line or 0))


def _written_key(tree: Any, key: Key) -> Key:
    """``key`` as far as the file writes it out: of ``model: mlp``, ``model`` and not ``model.name``."""
    for length in range(len(key)):
        if isinstance(tree, str):
            return key[:length]
        tree = tree[key[length]] if has_key(tree, key[length : length + 1]) else None
    return key


def _header(tree: Mapping[str, Any]) -> tuple[Header | None, list[ConfigProblem]]:
    inside = {*RunFields.model_fields, *(slot.field for slot in SLOTS)}
    misplaced = [key for key in tree if key in inside]
    own = {key: value for key, value in tree.items() if key not in (*SECTIONS, *misplaced)}
    header, problems = validate(Header, own, known=(*SECTIONS, *Header.model_fields))
    keys = {slot.field: slot.key for slot in SLOTS}
    problems += [ConfigProblem(f"belongs in base: write base.{keys.get(key, key)}", (key,)) for key in misplaced]
    return header, problems


def _resources(given: Any) -> tuple[Resources | None, list[ConfigProblem]]:
    """The section ``resources``; one that is left empty is one with defaults."""
    if not isinstance(given, (dict, type(None))):
        return None, [
            ConfigProblem(
                f"must be a map of {', '.join(Resources.model_fields)}, got {format_value(given)}", ("resources",)
            )
        ]
    resources, problems = validate(Resources, given or {})
    return resources, [problem.under("resources") for problem in problems]


def _data_root(header: Header | None) -> tuple[Path, list[ConfigProblem]]:
    """Where the data sets lie. The path is made absolute, since workers start in folders of their own."""
    named = header.data_root if header else None
    given = named or os.environ.get(DATA_VARIABLE) or DATA_ROOT
    try:
        if "\0" in given:
            raise ValueError("holds a character that no path may hold")
        return Path(given).expanduser().absolute(), []
    except (RuntimeError, ValueError) as error:
        source = {"key": ("data_root",)} if named else {"file": DATA_VARIABLE}
        return Path(), [ConfigProblem(f"is no usable folder: {error}, got {format_value(given)}", **source)]


def _trials(
    tree: Mapping[str, Any], samples: int | None, tune: Tune | None, slots: Sequence[Slot]
) -> tuple[list[ExpandedTrial], Space | None, list[ConfigProblem]]:
    """Every trial, and what a search draws from; or all problems of ``base`` and ``sweep``, each once."""
    if "base" not in tree:
        return (
            [],
            None,
            [ConfigProblem("is missing; it must be a map of rounds, data, model and further slots", ("base",))],
        )
    section = tree.get("sweep") or {}
    if not isinstance(section, dict):
        example = "must be a map of dotted keys, such as seed: {grid_search: [0, 1]}"
        return [], None, [ConfigProblem(f"{example}, got {format_value(section)}", ("sweep",))]
    found, problems = axes(section, samples)
    searched = tune is not None and tune.search is not None
    problems += search_problems(found) if searched else []
    spanned, crowd = (corners(found), []) if searched else points(found, samples)
    # What an axis that cannot be read would have put in is not known, so nothing can be said about that place.
    unread = [key for key in section if key not in {axis.key for axis in found}]
    lost = [tuple(key.removeprefix("base.").removesuffix(".name").split(".")) for key in unread]
    trials, faults = check_trials(tree["base"], found, spanned, slots, lost)
    problems += crowd + faults
    if not problems:
        problems += [] if searched else repeated_trials(trials)
        problems += scheduler_problems(tune, max(run.rounds for run, _ in trials)) if tune else []
    return trials, Space(tree["base"], tuple(found), tuple(slots)) if searched else None, problems
