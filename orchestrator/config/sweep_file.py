"""Loading a sweep file (one with its parts is in docs/sweep_file.md): its sections, the ``--set``
overrides, and its trials.

If a sweep varies the name of a component, base may contain fields that only some of the components
have; a trial ignores those that its component does not have. A swept value may also be a whole slot
(``clustering: {grid_search: [none, {name: ifca, clusters: 3}]}``), which replaces the slot of base.
Shorter keys are set first, so ``clustering.clusters`` then changes the new slot.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from algorithms.interfaces import Run
from datasets.components import Config
from orchestrator.config.document import (
    MISSING,
    Document,
    KeyPathError,
    assign,
    contents,
    dump,
    locate,
    read,
    value_at,
)
from orchestrator.config.errors import ConfigError, ConfigProblem, Key, format_value, validate
from orchestrator.config.own_code import install, own_paths
from orchestrator.config.run import check, trial_id
from orchestrator.config.search_space import (
    MOST_TRIALS,
    Axis,
    Choice,
    Point,
    axes,
    corners,
    points,
    search_problems,
)
from orchestrator.config.slots import SLOTS, RunFields
from orchestrator.config.tune_section import Tune, parse_tune, tune_problems

DATA_ROOT = "~/.cache/fedpriv"
DATA_VARIABLE = "FEDPRIV_DATA"
SECTIONS = ("base", "sweep", "tune", "resources")
FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Names of files in the results folder, beside the folders of the sweeps.
TAKEN = ("mlflow.db", "mlartifacts")
LEFT_OUT = (
    "name",
    "description",
    "samples",
    *SECTIONS,
)  # keys that a single trial has of its own, or not at all
# Where a key belongs that stands at the top: fields of a run, and slots.
IN_BASE = {name: f"base.{name}" for name in RunFields.model_fields} | {
    slot.field: f"base.{slot.key}" for slot in SLOTS
}

Trial = tuple[Run, dict[str, Any]]
"""The run of a trial, and the values of its swept keys; None for a field that the run's
component does not have.
"""


class Header(Config):
    """The top-level keys of a sweep file that are not sections."""

    name: str = Field(description="name of the sweep and of its results folder")
    description: str = Field("", description="purpose of the sweep")
    samples: int | None = Field(None, ge=1, le=MOST_TRIALS, description="number of random draws")
    data_root: str | None = Field(
        None, pattern=r"^[^\x00]+$", description="folder of the data sets"
    )
    code: str | tuple[str, ...] = Field(
        (), description="files and folders of own code, relative to the sweep file"
    )

    @field_validator("name")
    @classmethod
    def _folder(cls, name: str) -> str:
        if not FOLDER.fullmatch(name) or ".." in name or name in TAKEN:
            raise ValueError(
                "is also a folder's name: it must be up to 100 letters, digits, '-', '_' and "
                "'.', begin with a letter or a digit, contain no '..' and not be "
                f"{' or '.join(TAKEN)}, got {format_value(name)}"
            )
        return name


class Resources(Config):
    """The section ``resources``: what the sweep may use of the machine or cluster.

    No field here can change a result.
    """

    client_actors: int = Field(
        2,
        ge=1,
        le=10_000,
        description="processes per trial that train its clients or its shadow models",
    )
    # Whole numbers only: an actor takes 1/n of a GPU, and other fractions would leave an unusable
    # remainder.
    clients_per_gpu: int = Field(
        4, ge=1, description="client actors that share one GPU, if clients train on GPUs"
    )
    concurrent_trials: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="trials that run at the same time; auto: as many as fit"
    )
    reserve_gpu: bool = Field(
        False, description="reserve a share of a GPU even if clients train on the CPU"
    )
    # Longer than any block of the published runs takes on one core, short enough to notice a hung
    # node the same day.
    timeout_seconds: float = Field(
        1800.0,
        gt=0,
        le=1e9,
        description="longest time without the end of any job of a trial before it fails",
    )
    trial_retries: int = Field(
        2, ge=0, description="number of times that a crashed trial is resumed from its last round"
    )
    share: bool = Field(
        True,
        description="keep what trials train alike, and shadow models between audits, in cache/",
    )


@dataclass(frozen=True)
class Space:
    """The section ``base``, and the swept keys with the values that they may have: what trials
    are made of.
    """

    base: Any
    axes: tuple[Axis, ...]

    @cached_property
    def names(self) -> dict[Key, Sequence[Any]]:
        """The component names that the sweep tries in each slot whose ``name`` is swept, by the
        slot's key.
        """
        names: dict[Key, Sequence[Any]] = {}
        for axis in self.axes:
            *slot, last = axis.key.split(".")
            with suppress(KeyPathError):
                names |= {locate(self.base, slot): axis.arguments} if last == "name" else {}
        return names

    def at(self, values: Mapping[str, Any]) -> Trial | None:
        """The trial with these values of the swept keys; None if the values cannot be combined."""
        return self.trial({key: Choice(value, ("sweep", key)) for key, value in values.items()})[0]

    def trial(self, point: Point) -> tuple[Trial | None, list[ConfigProblem]]:
        """The trial at ``point``, None if it cannot be used, and its problems with keys from the
        top of the file.
        """
        base = self.base
        keys: dict[str, Key] = {}
        problems: list[ConfigProblem] = []
        for swept in sorted(point, key=lambda key: key.count(".")):
            choice = point[swept]
            try:
                key = locate(base, swept.split("."))
                problems += self._lost(swept, key, choice)
                base = assign(base, key, choice.value)
            except KeyPathError as error:
                problems.append(ConfigProblem(str(error), ("sweep", swept)))
            else:
                keys[swept] = key
        run, wrong = check(base, self.names)
        problems += [replace(problem, key=self._origin(problem, point, keys)) for problem in wrong]
        if run is None or not all(problem.unread for problem in problems):
            return None, problems
        values = {key: choice.value for key, choice in point.items()}
        if self.names:
            written = run.to_dict()
            for swept, key in keys.items():
                if value_at(written, key, MISSING) is MISSING:
                    values[swept] = None
        return (run, values), problems

    def _lost(self, swept: str, key: Key, choice: Choice) -> list[ConfigProblem]:
        """The problem that a name is swept where ``base`` has fields, which would be lost."""
        before = value_at(self.base, key)
        if not isinstance(choice.value, str) or not isinstance(before, dict):
            return []
        fields = [name for name in before if name != "name"]
        if not fields:
            return []
        keep = f"sweep {swept}.name to keep {', '.join(fields)} of base"
        drop = f"write {{name: {choice.value}}} to drop them"
        return [ConfigProblem(f"{keep}, or {drop}", choice.key)]

    def _origin(self, problem: ConfigProblem, point: Point, keys: Mapping[str, Key]) -> Key:
        """The key in the file of the part of a trial that ``problem`` is about; ``keys`` are
        those of the swept values.
        """
        key = problem.key
        containing = [swept for swept, at in keys.items() if key[: len(at)] == at]
        if containing:
            swept = max(containing, key=lambda swept: len(keys[swept]))
            misnamed = problem.misnamed and key == keys[swept]
            return ("sweep", swept) if misnamed else (*point[swept].key, *key[len(keys[swept]) :])
        inside = [swept for swept, at in keys.items() if at[: len(key)] == key]
        if inside and value_at(self.base, key, MISSING) is MISSING:
            return ("sweep", inside[0])
        return ("base", *key)

    def trials(self, spanned: Sequence[Point]) -> tuple[list[Trial], list[ConfigProblem]]:
        """The trial at every point that is valid, and each problem once, with keys from the top
        of the file.

        A problem of ``base`` that only some trials have says how many, and the first of them. What
        nobody reads in one trial is no problem if another trial reads it, or another value that is
        swept there.
        """
        trials: list[Trial] = []
        where: dict[ConfigProblem, list[Point]] = {}  # the points at which a problem appears
        for point in spanned:
            trial, wrong = self.trial(point)
            if trial:
                trials.append(trial)
            for problem in dict.fromkeys(wrong):
                where.setdefault(problem, []).append(point)
        fields = {
            problem: problem.key[: 2 if problem.key[0] == "sweep" else None] for problem in where
        }
        unread: Counter[Key] = Counter()
        for problem, at in where.items():
            unread[fields[problem]] += problem.unread * len(at)
        problems = []
        for problem, at in where.items():
            if problem.unread and unread[fields[problem]] < len(spanned):
                continue
            if problem.key[0] == "base" and len(at) < len(spanned):
                values = (f"{key}: {format_value(choice.value)}" for key, choice in at[0].items())
                sentence = (
                    f"{problem.sentence} (in {len(at)} of {len(spanned)} trials, the first one "
                    f"with {', '.join(values)})"
                )
                problem = replace(problem, sentence=sentence)
            problems.append(problem)
        return trials, problems


@dataclass(frozen=True)
class Sweep:
    """A complete and validated sweep.

    Attributes:
        path: the sweep file; ``text`` is its content, without the overrides ``sets``.
        data_root: folder of the data sets, absolute; it need not exist.
        runs: one for each trial, in the order of the file; for a search, one at every end of the
            search space.
        swept: the swept keys, dotted.
        values: for each run, its values of the swept keys as written in the file (a whole slot is a
            map or a name); None for a field that the run's component does not have.
        samples: number of random draws.
        tune: early stopping and search; None without a section ``tune``.
        space: the space that a search draws from; None without a search.
        document: the file with the overrides, and the place of each key.
        code: files and folders of own code, absolute.
    """

    name: str
    path: Path
    text: str
    data_root: Path
    resources: Resources
    runs: tuple[Run, ...]
    swept: tuple[str, ...]
    values: tuple[dict[str, Any], ...]
    sets: tuple[str, ...] = ()
    samples: int | None = None
    tune: Tune | None = None
    space: Space | None = field(default=None, repr=False)
    document: Document = field(default_factory=lambda: Document("", {}), repr=False, compare=False)
    code: tuple[Path, ...] = ()

    def root_of(self, run: Run) -> Path:
        """The folder of a run's data: that of the data sets or, for a user's own files, that of
        the sweep file.
        """
        return self.path.absolute().parent if run.data.module.BESIDE_SWEEP else self.data_root

    def problem(self, sentence: str, *key: str | int) -> ConfigProblem:
        """A problem found after loading, with the file and line of ``key`` (from the top:
        ``"base", "data"``).
        """
        return self.document.place(ConfigProblem(sentence, key))


def load_sweep(path: Path, sets: Sequence[str] = ()) -> Sweep:
    """Load and check a sweep file, as `parse_sweep` does its text."""
    return parse_sweep(contents(path), path, sets)


def parse_sweep(text: str, path: Path, sets: Sequence[str] = ()) -> Sweep:
    """Check the text of a sweep file: first it is read, with the overrides, then its sections,
    then every trial.

    ``path`` is the file that it comes from, or what stands for one in messages; ``sets`` are
    overrides as ``key=value``.

    Raises:
        ConfigError: with all problems of the text and the overrides.
    """
    document = read(text, str(path)).changed(sets)
    tree = {} if document.value is None else document.value
    if not isinstance(tree, dict):
        sentence = f"must be a map with the keys name and base, got {format_value(tree)}"
        raise ConfigError([document.place(ConfigProblem(sentence))])
    top = {key: value for key, value in tree.items() if key not in SECTIONS and key not in IN_BASE}
    header, problems = validate(Header, top, choices=(*SECTIONS, *Header.model_fields))
    problems += [
        ConfigProblem(f"belongs in base: write {IN_BASE[key]}", (key,))
        for key in tree
        if key in IN_BASE
    ]
    section = tree.get("resources")
    resources, unusable = validate(Resources, {} if section is None else section)
    problems += [problem.under("resources") for problem in unusable]
    code = own_paths(path.parent, header.code) if header else ()
    foreign = [ConfigProblem(sentence, ("code",)) for sentence in install(code)]
    problems += foreign
    tune, untuned = parse_tune(tree.get("tune"))
    problems += untuned
    trials: list[Trial] = []
    space = None
    if not foreign:  # or every component of it is unknown
        trials, space, wrong = _trials(tree, header.samples if header else None, tune)
        problems += wrong
    if problems or header is None or resources is None:
        raise _refused(document, problems)
    runs, values = zip(*trials, strict=True)
    data_root = os.path.expanduser(header.data_root or os.environ.get(DATA_VARIABLE) or DATA_ROOT)
    return Sweep(
        name=header.name,
        path=path,
        text=text,
        data_root=Path(data_root).absolute(),  # workers start in other folders
        resources=resources,
        runs=runs,
        swept=tuple(tree.get("sweep") or ()),
        values=values,
        sets=tuple(sets),
        samples=header.samples,
        tune=tune,
        space=space if tune and (tune.search or tune.draws) else None,
        document=document,
        code=code,
    )


def _refused(document: Document, problems: Sequence[ConfigProblem]) -> ConfigError:
    """The error of these problems: first those of the file, from above to below."""
    placed = [document.place(problem) for problem in problems]
    placed.sort(key=lambda problem: (problem.file != document.file, problem.line or 0))
    return ConfigError(placed)


def _trials(
    tree: Mapping[str, Any], samples: int | None, tune: Tune | None
) -> tuple[list[Trial], Space | None, list[ConfigProblem]]:
    """Every trial, what they are made of, and all problems of ``base`` and ``sweep``, each once."""
    base = tree.get("base", MISSING)
    section = {} if tree.get("sweep") is None else tree["sweep"]
    if base is MISSING:
        sentence = "is missing; it must be a map of rounds, data, model and further slots"
        return [], None, [ConfigProblem(sentence, ("base",))]
    if not isinstance(section, dict):
        example = "must be a map of dotted keys, such as seed: {grid_search: [0, 1]}"
        return [], None, [ConfigProblem(f"{example}, got {format_value(section)}", ("sweep",))]
    drawn = isinstance(tree.get("tune"), dict) and tree["tune"].get("draws") is not None
    if drawn and samples is not None:
        sentence = "must be left out: tune.draws draws the number of trials"
        return [], None, [ConfigProblem(sentence, ("samples",))]
    swept, problems = axes(section, 1 if drawn else samples)
    space = Space(base, tuple(swept))
    searched = tune is not None and (tune.search or tune.draws) is not None
    if searched:
        spanned = corners(swept)
        wrong = search_problems(swept)
    else:
        spanned, wrong = points(swept, samples)
    trials, faults = space.trials(spanned)
    # What is swept by an axis that cannot be read is unknown, so nothing is said of that part of
    # base.
    unknown = {key.partition(".")[0] for key in section}
    unknown -= {axis.key.partition(".")[0] for axis in swept}
    problems += wrong
    for fault in faults:
        if fault.key[0] != "base" or not unknown.intersection(fault.key[1:2]):
            problems.append(fault)
    if not problems and tune:
        problems += tune_problems(tune, [run for run, _ in trials])
    if not problems and not searched:
        problems += _repeated(trials)
    return trials, space, problems


def _repeated(trials: Sequence[Trial]) -> list[ConfigProblem]:
    """The problem that trials repeat others."""
    first: dict[str, dict[str, Any]] = {}  # the values of the first trial with an id
    repeated = []
    for run, values in trials:
        before = first.setdefault(trial_id(run), values)
        if before is not values:
            repeated.append((before, values))
    if not repeated:
        return []
    before, values = repeated[0]
    sentence = (
        f"{len(repeated)} of {len(trials)} trials repeat another trial: {format_value(before)} is "
        f"the same run as {format_value(values)}. If only some components have a field, sweep it "
        "together with its component: clustering: {grid_search: [none, {name: ifca, clusters: 2}]}"
    )
    return [ConfigProblem(sentence, ("sweep",))]


def resolved_trials(sweep: Sweep) -> str:
    """The trials of ``sweep`` as YAML documents, separated by ``---``, for ``run --print-config``.

    Each document is a sweep file that runs this one trial, with the same id. ``auto`` is replaced
    by the choice; fields that nobody reads are left out. Early stopping is no part of a single
    trial.

    Raises:
        ConfigError: the trials are drawn while the sweep runs, by a search.
    """
    if sweep.space is not None:
        sentence = (
            "draws its trials while it runs, so --print-config cannot show them; config.yaml of "
            "each trial does"
        )
        raise ConfigError([sweep.problem(sentence, "tune", "search")])
    document = sweep.document.value
    above = {key: document[key] for key in document if key not in LEFT_OUT}  # such as data_root
    resources = sweep.resources.model_dump(mode="json", exclude_defaults=True)
    if resources:
        above["resources"] = resources
    documents = []
    for run, values in zip(sweep.runs, sweep.values, strict=True):
        swept = ", ".join(f"{key}: {format_value(value)}" for key, value in values.items())
        tree = {"name": f"{sweep.name[:89]}-{trial_id(run)}", **above, "base": run.to_dict()}
        text = dump(tree, default_flow_style=None)
        documents.append(f"# trial {trial_id(run)}{': ' + swept if swept else ''}\n{text}")
    return "---\n".join(documents)
