"""Loading a sweep file: its sections, the ``--set`` overrides, and the trials that it describes.

    name: ifca-mir-digits                 also the name of the results folder
    description: ...                      free text
    data_root: ~/data                     folder of the data sets; default: FEDPRIV_DATA, else ~/.cache/fedpriv
    code: code                            own components and modules (see `own_code`), relative to the sweep file
    base: {rounds: 20, data: ..., ...}    one run (see `run`)
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
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, field_validator

from algorithms.interfaces import Run
from datasets.components import Config
from orchestrator.config.errors import ConfigError, ConfigProblem, Key, format_value, validate
from orchestrator.config.expansion import ExpandedTrial, Space, check_trials, is_related, repeated_trials
from orchestrator.config.overrides import Places, apply_overrides, has_key, value_at
from orchestrator.config.own_code import install, own_paths
from orchestrator.config.run import trial_id
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
LEFT_OUT = ("name", "description", "samples", *SECTIONS)  # keys that a single trial has of its own, or not at all


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


class Resources(Config):
    """The section ``resources``: what the sweep may use of the machine or cluster. No field here can change a result."""

    client_actors: int = Field(2, ge=1, description="processes per trial that train its clients")
    # Whole numbers only: an actor takes 1/n of a GPU, and other fractions would leave an unusable remainder.
    clients_per_gpu: int = Field(4, ge=1, description="client actors that share one GPU, if clients train on GPUs")
    shadow_tasks: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="shadow models that a trial trains at the same time; auto: as many as client actors"
    )
    concurrent_trials: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="trials that run at the same time; auto: as many as fit"
    )
    reserve_gpu: bool = Field(False, description="reserve a share of a GPU even if clients train on the CPU")
    # Longer than any block of the published runs takes on one core, short enough to notice a hung node the same day.
    timeout_seconds: float = Field(
        1800.0, gt=0, description="longest wait for one job of an actor before it counts as lost"
    )
    trial_retries: int = Field(
        2, ge=0, description="number of times that a crashed trial is resumed from its last round"
    )

    @field_validator("clients_per_gpu", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and (value < 1 or value != int(value)):
            raise ValueError(
                f"must be an integer >= 1, got {value}: n client actors share one GPU and take 1/n of it each, "
                "so the number must be whole and at least 1"
            )
        return value


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
    """Load and check a sweep file, as `parse_sweep` does its text."""
    return parse_sweep(contents(path), path, sets, slots)


def parse_sweep(text: str, path: Path, sets: Sequence[str] = (), slots: Sequence[Slot] = SLOTS) -> Sweep:
    """Check the text of a sweep file.

    Args:
        text: the YAML text.
        path: the file that it comes from, or what stands for one in messages.
        sets: overrides as ``key=value``.
        slots: the slots of a run.

    Raises:
        ConfigError: with all problems of the text and the overrides.
    """
    places = Places(str(path))
    tree, placed = apply_overrides(read(text, str(path)), places, sets, slots)
    blank = [problem.key for problem in placed if has_key(tree, problem.key) and value_at(tree, problem.key) is None]

    def ordered(problems: list[ConfigProblem]) -> list[ConfigProblem]:
        """All with their places, in the order of the file, without those caused by an unreadable value."""
        caused = [one for one in problems if not any(is_related(one.key, key) for key in blank)]
        every = placed + [places.place(replace(one, key=_written_key(tree, one.key))) for one in caused]
        return sorted(dict.fromkeys(every), key=lambda one: (one.file != places.file, one.line or 0))

    if not isinstance(tree, dict):
        sentence = (
            "is empty" if tree is None else f"must be a map with the keys name and base, got {format_value(tree)}"
        )
        raise ConfigError(ordered([ConfigProblem(sentence)]))
    header, problems = _header(tree)
    folder, wrong = _data_root(header)
    problems += wrong
    section, resources = tree.get("resources"), None
    if isinstance(section, dict | None):
        resources, wrong = validate(Resources, section or {})
    else:
        wrong = [ConfigProblem(f"must be a map of {', '.join(Resources.model_fields)}, got {format_value(section)}")]
    problems += [problem.under("resources") for problem in wrong]
    code = own_paths(path.parent, header.code) if header else ()
    if foreign := [ConfigProblem(sentence, ("code",)) for sentence in install(code)]:
        raise ConfigError(ordered(problems + foreign))
    tune, wrong = parse_tune(tree.get("tune"))
    trials, space, faults = _trials(tree, header.samples if header else None, tune, slots)
    problems = ordered([*problems, *wrong, *faults])
    if problems or header is None or resources is None:
        raise ConfigError(problems)
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


def _written_key(tree: Any, key: Key) -> Key:
    """The part of ``key`` that the file spells out: for ``model: mlp`` it is ``model``, not ``model.name``."""
    for length in range(len(key)):
        if isinstance(tree, str):
            return key[:length]
        tree = tree[key[length]] if has_key(tree, key[length : length + 1]) else None
    return key


def _header(tree: Mapping[str, Any]) -> tuple[Header | None, list[ConfigProblem]]:
    inside = {name: name for name in RunFields.model_fields} | {slot.field: slot.key for slot in SLOTS}
    fields = {key: value for key, value in tree.items() if key not in (*SECTIONS, *inside)}
    header, problems = validate(Header, fields, known=(*SECTIONS, *Header.model_fields))
    misplaced = [key for key in tree if key in inside]
    return header, problems + [ConfigProblem(f"belongs in base: write base.{inside[key]}", (key,)) for key in misplaced]


def _data_root(header: Header | None) -> tuple[Path, list[ConfigProblem]]:
    """The folder of the data sets, made absolute because workers start in other folders."""
    named = header.data_root if header else None
    path = named or os.environ.get(DATA_VARIABLE) or DATA_ROOT
    try:
        if "\0" in path:
            raise ValueError("contains a character that no path may contain")
        return Path(path).expanduser().absolute(), []
    except (RuntimeError, ValueError) as error:
        sentence = f"is not a usable folder: {error}, got {format_value(path)}"
        return Path(), [
            ConfigProblem(sentence, ("data_root",)) if named else ConfigProblem(sentence, (), DATA_VARIABLE)
        ]


def _trials(
    tree: Mapping[str, Any], samples: int | None, tune: Tune | None, slots: Sequence[Slot]
) -> tuple[list[ExpandedTrial], Space | None, list[ConfigProblem]]:
    """Every trial, the space of a search, and all problems of ``base`` and ``sweep``, each once."""
    if "base" not in tree:
        sentence = "is missing; it must be a map of rounds, data, model and further slots"
        return [], None, [ConfigProblem(sentence, ("base",))]
    section = tree.get("sweep") or {}
    if not isinstance(section, dict):
        example = "must be a map of dotted keys, such as seed: {grid_search: [0, 1]}"
        return [], None, [ConfigProblem(f"{example}, got {format_value(section)}", ("sweep",))]
    swept, problems = axes(section, samples)
    searched = tune is not None and tune.search is not None
    problems += search_problems(swept) if searched else []
    spanned, crowd = (corners(swept), []) if searched else points(swept, samples)
    # The values of an unreadable axis are unknown, so problems at its key are not reported.
    unread = [key for key in section if key not in {axis.key for axis in swept}]
    lost = [tuple(key.removeprefix("base.").removesuffix(".name").split(".")) for key in unread]
    trials, faults = check_trials(tree["base"], swept, spanned, slots, lost)
    problems += crowd + faults
    if not problems:
        problems += [] if searched else repeated_trials(trials)
        problems += scheduler_problems(tune, max(run.rounds for run, _ in trials)) if tune else []
        problems += validation_problems(tune, [run for run, _ in trials]) if tune else []
    return trials, Space(tree["base"], tuple(swept), tuple(slots)) if searched else None, problems


def resolved_trials(sweep: Sweep) -> str:
    """The trials of ``sweep`` as YAML documents, separated by ``---``, for ``run --print-config``.

    Each document is a sweep file that runs this one trial, with the same id. ``auto`` is replaced by the choice; fields
    that nobody reads are left out. Early stopping is no part of a single trial.

    Raises:
        ConfigError: the trials are drawn while the sweep runs, by a search.
    """
    if sweep.space is not None:
        sentence = "draws its trials while it runs, so --print-config cannot show them; config.yaml of each trial does"
        raise ConfigError([sweep.problem(sentence, "tune", "search")])
    given, _ = apply_overrides(read(sweep.text, str(sweep.path)), Places(str(sweep.path)), sweep.sets)
    above = {key: value for key, value in given.items() if key not in LEFT_OUT}  # such as data_root
    if resources := sweep.resources.model_dump(mode="json", exclude_defaults=True):
        above["resources"] = resources
    documents = []
    for run, values in zip(sweep.runs, sweep.values, strict=True):
        swept = ", ".join(f"{key}: {format_value(value)}" for key, value in values.items())
        tree = {"name": f"{sweep.name[:89]}-{trial_id(run)}", **above, "base": run.to_dict()}
        text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
        documents.append(f"# trial {trial_id(run)}{': ' + swept if swept else ''}\n{text}")
    return "---\n".join(documents)
