"""Loading a sweep file: its sections, the ``--set`` overrides, and the trials that it describes.

    name: ifca-mir-digits                 also the name of the results folder
    description: ...                      free text
    data_root: ~/data                     folder of the data sets; default: FEDPRIV_DATA, else ~/.cache/fedpriv
    code: code                            own components and modules (see `own_code`), relative to the sweep file
    base: {rounds: 20, data: ..., ...}    one run (see `config`)
    sweep:                                dotted keys inside base with Ray Tune's words (see `search_space`)
      clustering.name: {grid_search: [ifca, ifca_mir]}
    samples: 8                            number of draws, if the sweep has random words
    tune: {...}                           early stopping and search (see `parse_tune`)
    resources: {client_actors: 2}         resources to use; not part of a trial's identity

If a sweep varies the name of a component, base may contain fields that only some of the components have; a trial ignores
those that its component does not have. A swept value may also be a whole slot (``clustering: {grid_search: [none,
{name: ifca, clusters: 3}]}``), which replaces the slot of base. Shorter keys are set first, so ``clustering.clusters``
then changes the new slot.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from algorithms.interfaces import Run
from datasets.components import Config
from orchestrator.config.errors import ConfigError, ConfigProblem, Key, format_value, validate
from orchestrator.config.expansion import ExpandedTrial, Space, check_trials, is_related, repeated_trials, value_at
from orchestrator.config.overrides import Places, apply_overrides, has_key
from orchestrator.config.own_code import install, own_paths
from orchestrator.config.resources import Resources
from orchestrator.config.search_space import MOST_TRIALS, axes, corners, points, search_problems
from orchestrator.config.slots import SLOTS, RunFields, Slot
from orchestrator.config.tune_section import Tune, parse_tune, scheduler_problems, validation_problems
from orchestrator.config.yaml_reader import contents, read

DATA_ROOT = "~/.cache/fedpriv"
DATA_VARIABLE = "FEDPRIV_DATA"
SECTIONS = ("base", "sweep", "tune", "resources")
FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Names of files in the results folder, beside the folders of the sweeps.
TAKEN = ("mlflow.db", "mlartifacts")


class Header(Config):
    """The top-level keys of a sweep file that are not sections."""

    name: str = Field(description="name of the sweep and of its results folder")
    description: str = Field("", description="purpose of the sweep")
    samples: int | None = Field(None, ge=1, le=MOST_TRIALS, description="number of random draws")
    data_root: str | None = Field(None, min_length=1, description="folder of the data sets")
    code: str | tuple[str, ...] = Field((), description="files and folders of own code, relative to the sweep file")

    @field_validator("name")
    @classmethod
    def _folder(cls, name: str) -> str:
        if not FOLDER.fullmatch(name) or ".." in name or name in TAKEN:
            raise ValueError(
                "is also a folder's name: it must be up to 100 letters, digits, '-', '_' and '.', begin with a letter or a "
                f"digit, contain no '..' and not be {' or '.join(TAKEN)}, got {format_value(name)}"
            )
        return name


@dataclass(frozen=True)
class Sweep:
    """A complete and validated sweep.

    Attributes:
        name: its name, also that of its results folder.
        path: the sweep file.
        text: the content of the file, without overrides.
        description: free text.
        data_root: folder of the data sets, absolute; it need not exist.
        resources: the section ``resources``.
        runs: one for each trial, in the order of the file; for a search, one at every end of the search space.
        swept: the swept keys, dotted.
        values: for each run, its values of the swept keys as written in the file (a whole slot is a map or a name); None
            for a field that the run's component does not have.
        sets: the ``--set`` overrides.
        samples: number of random draws.
        tune: early stopping and search; None without a section ``tune``.
        space: the space that a search draws from; None without a search.
        places: the origin of each key.
        code: files and folders of own code, absolute.
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
    code: tuple[Path, ...] = ()

    def root_of(self, run: Run) -> Path:
        """The folder of a run's data: that of the data sets or, for a user's own files, that of the sweep file."""
        return self.path.absolute().parent if run.data.module.BESIDE_SWEEP else self.data_root

    def problem(self, sentence: str, *key: str | int) -> ConfigProblem:
        """A problem found after loading, with the file and line of ``key`` (from the top: ``"base", "data"``)."""
        return self.places.place(ConfigProblem(sentence, key))


def load_sweep(path: Path, sets: Sequence[str] = (), slots: Sequence[Slot] = SLOTS) -> Sweep:
    """Load and check a sweep file.

    Args:
        path: the file.
        sets: overrides as ``key=value``.
        slots: the slots of a run.

    Raises:
        ConfigError: with all problems of the file and the overrides.
    """
    return parse_sweep(contents(path), path, sets, slots)


def parse_sweep(text: str, path: Path, sets: Sequence[str] = (), slots: Sequence[Slot] = SLOTS) -> Sweep:
    """Check the text of a sweep file; see `load_sweep`.

    Args:
        text: the YAML text.
        path: the file that it comes from, or what stands for one in messages.
        sets: overrides as ``key=value``.
        slots: the slots of a run.

    Raises:
        ConfigError: with all problems of the text and the overrides.
    """
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
    code = own_paths(path.parent, header.code) if header else ()
    if foreign := [ConfigProblem(sentence, ("code",)) for sentence in install(code)]:
        raise ConfigError(_place_problems(problems, found + foreign, blank, tree, places))
    tune, untuned = parse_tune(tree.get("tune"))
    trials, space, faults = _trials(tree, header.samples if header else None, tune, slots)
    found += [*more, *wrong, *untuned, *faults]
    all_problems = _place_problems(problems, found, blank, tree, places)
    if all_problems or header is None or resources is None:
        raise ConfigError(all_problems)
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
        code=code,
    )


def _place_problems(
    placed: list[ConfigProblem], found: list[ConfigProblem], blank: list[Key], tree: Any, places: Places
) -> list[ConfigProblem]:
    """All problems with their places, in the order of the file, without those caused by an unreadable value."""
    followed = [one for one in found if not any(is_related(one.key, key) for key in blank)]
    all_problems = placed + [places.place(replace(one, key=_written_key(tree, one.key))) for one in followed]
    return sorted(dict.fromkeys(all_problems), key=lambda one: (one.file != places.file, one.line or 0))


def _written_key(tree: Any, key: Key) -> Key:
    """The part of ``key`` that the file spells out: for ``model: mlp`` it is ``model``, not ``model.name``."""
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
    """The section ``resources``; an empty section has the defaults."""
    if not isinstance(given, (dict, type(None))):
        return None, [
            ConfigProblem(
                f"must be a map of {', '.join(Resources.model_fields)}, got {format_value(given)}", ("resources",)
            )
        ]
    resources, problems = validate(Resources, given or {})
    return resources, [problem.under("resources") for problem in problems]


def _data_root(header: Header | None) -> tuple[Path, list[ConfigProblem]]:
    """The folder of the data sets, made absolute because workers start in other folders."""
    named = header.data_root if header else None
    path = named or os.environ.get(DATA_VARIABLE) or DATA_ROOT
    try:
        if "\0" in path:
            raise ValueError("contains a character that no path may contain")
        return Path(path).expanduser().absolute(), []
    except (RuntimeError, ValueError) as error:
        source = {"key": ("data_root",)} if named else {"file": DATA_VARIABLE}
        return Path(), [ConfigProblem(f"is not a usable folder: {error}, got {format_value(path)}", **source)]


def _trials(
    tree: Mapping[str, Any], samples: int | None, tune: Tune | None, slots: Sequence[Slot]
) -> tuple[list[ExpandedTrial], Space | None, list[ConfigProblem]]:
    """Every trial, the space of a search, and all problems of ``base`` and ``sweep``, each once."""
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
    # The values of an unreadable axis are unknown, so problems at its key are not reported.
    unread = [key for key in section if key not in {axis.key for axis in found}]
    lost = [tuple(key.removeprefix("base.").removesuffix(".name").split(".")) for key in unread]
    trials, faults = check_trials(tree["base"], found, spanned, slots, lost)
    problems += crowd + faults
    if not problems:
        problems += [] if searched else repeated_trials(trials)
        problems += scheduler_problems(tune, max(run.rounds for run, _ in trials)) if tune else []
        problems += validation_problems(tune, [run for run, _ in trials]) if tune else []
    return trials, Space(tree["base"], tuple(found), tuple(slots)) if searched else None, problems
