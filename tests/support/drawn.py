"""Sweeps drawn at random from all components of all slots, with random values of their fields, that run in seconds.

What a sweep must not combine is nowhere listed here: a draw that the product refuses (ConfigError) is drawn again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from algorithms.core.configs import CurvatureConfig
from algorithms.interfaces import Run
from datasets.components import components, presets
from datasets.federation import DataError, Source
from datasets.sources.purchase_like import Config as PurchaseConfig
from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.document import MISSING, value_at
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.run import check
from orchestrator.config.slots import SLOTS, RunFields, Slot
from orchestrator.config.sweep_file import Resources, Sweep, load_sweep
from orchestrator.conformance.example_runs import SMALL, attack
from orchestrator.trial.federation import partition_data
from tests.support.drawn_data import OWN, write_data

Choice = tuple[Slot, str]

TRIES = 20_000  # draws until one is accepted
MOST = 3e11  # multiplications of a sweep: some ten seconds
AFRESH = 40  # refusals after which everything is drawn again
PRIVATE = {"device", "threads", "noise", "revision", "path"}  # fields never drawn: machine, secret noise, places
SLOT = {slot.key: slot for slot in SLOTS}
SWEPT = ("training", "clustering", "objective", "aggregation", "privacy")  # slots whose component may be swept
PURCHASES = {"examples": 300, "features": 24, "classes": 4}
assert PURCHASES.keys() <= PurchaseConfig.model_fields.keys()


@cache
def available(root: Path) -> tuple[Choice, ...]:
    """Return every component of every slot, and every preset, but the data sets whose published files are not here.

    Args:
        root: the folder that `write_data` has filled.
    """
    found = []
    for slot in SLOTS:
        named = {name: name for name in components(slot.folder)}
        named |= {name: one for name, (one, _) in presets(slot.folder).items()}
        found += [(slot, name) for name, one in named.items() if slot.key != "data" or _is_here(one, root)]
    return tuple(found)


def _is_here(name: str, root: Path) -> bool:
    source = components(SLOT["data"].folder)[name]
    try:
        source.load(source.Config(**OWN.get(name, [{}])[0]), root, False)
    except DataError:
        return False
    return True


def drawn(seed: int, folder: Path) -> Path:
    """Write a sweep, and the data that it reads, into ``folder``; return the sweep's file.

    Each seed has a component in it, in turn, whatever else is drawn.

    Args:
        seed: the number of the draw.
        folder: the folder; draws may share one.
    """
    rng, path = random.Random(f"drawn {seed}"), folder / f"drawn-{seed}.yaml"
    draw = _Draw(rng, seed, write_data(folder))
    for _ in range(TRIES):
        if draw.accepted(path):
            return path
    raise AssertionError(f"no valid sweep with {draw.featured} in {TRIES} draws")


def chosen_in(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """Yield the slot and the name of every component that a trial of the sweep has."""
    for run in sweep.runs:
        for slot in SLOTS:
            filled = getattr(run, slot.field)
            for component in filled if slot.many else [filled]:
                yield slot.key, component.name


def work(run: Run, source: Source) -> float:
    """Return about how many multiplications a run of this data takes; each attack counts like two further trainings."""
    data, starts = run.data.config, run.clustering.module.starts(run.clustering.config)
    rounds = run.rounds + (starts.initializations - 1) * starts.rounds
    examples = min(len(source.train), data.clients * (data.examples_per_client or len(source.train)))
    passes = max(1, run.training.config.epochs) * run.clustering.config.clusters
    each = multiplications(run.model, source.train.x.shape[1:], source.classes)
    return 3.0 * each * examples * passes * rounds * (1 + 2 * len(run.attacks))


def multiplications(model: Any, shape: tuple[int, ...], classes: int) -> int:
    """Return the multiplications that one example takes, forward."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"), FlopCounterMode(display=False) as counted:
        model.module.build(model.config, shape, classes).eval()(torch.zeros(1, *shape))
    return int(counted.get_total_flops()) // 2


class _Draw:
    """A sweep that is drawn, and drawn again where it is refused."""

    def __init__(self, rng: random.Random, seed: int, root: Path) -> None:
        self.rng, self.root, self.name = rng, root, f"drawn-{seed}"
        self.every = available(root)
        turns = random.Random(0).sample(self.every, len(self.every))
        self.featured = turns[seed % len(turns)]
        self.refused = 0
        self._draw()

    def accepted(self, path: Path) -> bool:
        """Write the sweep if it is valid. If it is refused, draw again what the refusal names, and say no."""
        problems = self._problems(path)
        unread = [one for one in problems if one.unread and value_at(self.tree, one.key, MISSING) is not MISSING]
        for problem in unread:
            del value_at(self.tree, problem.key[:-1])[problem.key[-1]]
        self.refused += bool(problems)
        if problems and self.refused % AFRESH == 0:
            self._draw()
        elif problems and not unread:
            self._redraw(".".join(map(str, self.rng.choice(problems).key)))
        return not problems

    def _problems(self, path: Path) -> list[ConfigProblem]:
        """The problems of ``base``; if it has none, those of its data; else those of the whole file, which is written."""
        run, problems = check(self.tree["base"])
        if run is None or problems:
            return [one.under("base") for one in problems]
        alone = Sweep(self.name, path, "", self.root, Resources(), (run,), (), ({},))
        read: list[Source] = []
        if problems := data_problems(alone, download=False, loaded=lambda _, source: read.append(source)):
            return problems
        path.write_text(yaml.safe_dump(self.tree, sort_keys=False))
        try:
            sweep = load_sweep(path)
            for run in sweep.runs:  # the clients that a seed draws may leave too little for something
                partition_data(run, self.root)
        except ConfigError as error:
            return list(error.problems)
        except DataError as error:
            return [ConfigProblem(str(error), ("base", "data"))]
        trials = sweep.samples or 0 if sweep.space else len(sweep.runs)
        if trials * max(work(one, read[0]) for one in sweep.runs) > MOST:
            return [ConfigProblem("takes too long", ("base", self.rng.choice(("data", "clustering", "attacks"))))]
        return data_problems(sweep, download=False)

    def _draw(self) -> None:
        """Draw a whole sweep file, in which the component whose turn it is has its place; it need not be valid."""
        rng = self.rng
        self.tree: dict[str, Any] = {"name": self.name, "data_root": str(self.root), "base": _run_fields(rng)}
        for slot in SLOTS:
            self._fill(slot)
        if rng.random() < 0.2:
            self.tree["base"]["curvature"] = _fields(rng, CurvatureConfig, 0.3)
        actors, trials = rng.choice((1, 2)), rng.choice((1, 2, "auto"))
        self.tree["resources"] = {"client_actors": actors, "concurrent_trials": trials, "trial_retries": 5}
        self._vary()

    def _fill(self, slot: Slot) -> None:
        """Draw the component of a slot, or its list."""
        rng, base, names = self.rng, self.tree["base"], [name for where, name in self.every if where == slot]
        if slot.many:
            chosen = set(rng.sample(names, rng.choice((0, 1, 1, 2, 3)))) | ({self.featured[1]} & set(names))
            configs = {name: components(slot.folder)[name].Config for name in sorted(chosen)}
            base[slot.key] = [attack(name) | _fields(rng, config, 0.15) for name, config in configs.items()]
            return
        name = self.featured[1] if slot == self.featured[0] else rng.choice(names)
        if slot.key == "data":
            base["data"] = _data(rng, name) | {"split": base.get("data", {}).get("split", {})}
        elif slot.key == "data.split":
            base["data"]["split"] = _component(rng, slot, name)
        else:
            base[slot.key] = _component(rng, slot, name)

    def _vary(self) -> None:
        """Draw what the sweep varies."""
        for section in ("sweep", "samples", "tune"):
            self.tree.pop(section, None)
        self.tree |= _search(self.rng) if self.rng.random() < 0.2 else _grid(self.rng, self.tree["base"], self.every)

    def _redraw(self, key: str) -> None:
        """Draw again the component that a refusal is about, or another that it does not go with, and what is varied."""
        slots = [slot for slot in SLOTS if f"{key}.".startswith(f"base.{slot.key}.")]
        if slots and (slots[-1] == self.featured[0] or self.rng.random() < 0.3):
            slots = [
                self.rng.choice((SLOT["data"], self.rng.choice(SLOTS)))
            ]  # most often it is the data that do not suit
        if slots:
            self._fill(max(slots, key=lambda slot: len(slot.path)))
        elif key.startswith("base."):
            self.tree["base"] |= _run_fields(self.rng)
        self._vary()


def _run_fields(rng: random.Random) -> dict[str, Any]:
    fields: dict[str, Any] = {"rounds": rng.randint(3, 5), "seed": rng.randrange(100)}
    if rng.random() < 0.3:
        fields |= {"evaluate_every": rng.randint(1, 3)}
    if rng.random() < 0.3:
        fields |= {"participation": rng.choice(("fixed", "poisson")), "participation_rate": rng.choice((0.5, 0.75))}
    if rng.random() < 0.2:
        fields |= {"server_sees": rng.choice(("sum", "models"))}
    assert fields.keys() <= RunFields.model_fields.keys()
    return fields


def _data(rng: random.Random, name: str) -> dict[str, Any]:
    """Draw the fields of a data set: sizes in the tens, and what its own files need."""
    component = presets(SLOT["data"].folder).get(name, (name, None))[0]
    config = components(SLOT["data"].folder)[component].Config
    sizes = {
        "clients": rng.randint(4, 7),
        "examples_per_client": rng.choice((8, 10, 12, None)),
        "shadow_size": rng.randint(20, 40),
        "test_size": rng.randint(15, 25),
        "nonmember_size": rng.randint(10, 20),
        "held_out": rng.choice((0.3, 0.4)),
        "validation_size": rng.choice((0, 6)),
        "validation_share": rng.choice((0.0, 0.3)),
        "split_seed": rng.choice((None, 3)),
    }
    shape = PURCHASES | {"shops": rng.choice((0, 8))} if component == "purchase_like" else {}
    fields = {field: value for field, value in (sizes | shape).items() if field in config.model_fields}
    return {"name": name, **fields, **rng.choice(OWN.get(component, [{}]))}


def _component(rng: random.Random, slot: Slot, name: str) -> dict[str, Any]:
    """Draw a component's fields, small ones where the default takes long."""
    component, preset = presets(slot.folder).get(name, (name, None))
    config = components(slot.folder)[component].Config
    small: dict[str, Any] = {"epochs": 1, "batch_size": 8, "lr": 0.1, "clients_per_job": rng.choice((1, 2, 3, "auto"))}
    small |= {"hidden": rng.choice(([8], [6, 5])), "restarts": 2, "restart_rounds": 2, "min_size": 2}
    small |= {"warm_start_rounds": 1, "power_steps": 3, "preset": "shares", "minority_ratio": 0.3}
    small |= {"transform": rng.choice(("none", "rotation"))}
    fixed = dict(preset.fields) if preset else {}
    drawn_fields = {field: value for field, value in small.items() if field in config.model_fields}
    drawn_fields |= _fields(rng, config, 0.25) | fixed
    return {"name": name, **{field: value for field, value in drawn_fields.items() if field not in fixed}}


def _fields(rng: random.Random, config: type[BaseModel], share: float) -> dict[str, Any]:
    """Draw values for a ``share`` of the fields that are numbers, yes or no, or one of some words."""
    fields = {}
    for field, described in _properties(config).items():
        if field in PRIVATE or rng.random() > share:
            continue
        kind = rng.choice([one for one in (described, *described.get("anyOf", ())) if "anyOf" not in one])
        if values := _values(rng, kind, described.get("default"), field):
            fields[field] = rng.choice(values)
    return fields


@cache
def _properties(config: type[BaseModel]) -> dict[str, Any]:
    return config.model_json_schema().get("properties", {})


def _values(rng: random.Random, kind: dict[str, Any], default: Any, field: str) -> list[Any]:
    """Values of a kind that the schema describes, small ones."""
    if words := [*kind.get("enum", ()), *([kind["const"]] if "const" in kind else ())]:
        return words
    low, high = kind.get("minimum", kind.get("exclusiveMinimum", 0)), kind.get("maximum", kind.get("exclusiveMaximum"))
    most = math.inf if high is None else high
    if kind.get("type") == "boolean":
        return [False, True]
    if kind.get("type") == "integer":
        return [min(low + rng.randrange(4), most), max(low, min(SMALL.get(field, 4), most))]
    if kind.get("type") == "number":
        middle = default if isinstance(default, float) and default > low else low + 0.1
        value = float(f"{rng.uniform(max(low, middle / 2), 2 * middle):.3g}")
        return [value if high is None else min(value, float(f"{(middle + high) / 2:.3g}"))]
    return []


def _grid(rng: random.Random, base: dict[str, Any], every: tuple[Choice, ...]) -> dict[str, Any]:
    """Draw a grid, or random words, of two or three trials."""
    kind = rng.choice(("seed", "lr", "draws", "component", "component"))
    if kind == "seed":
        return {"sweep": {"seed": {"grid_search": rng.sample(range(100), rng.choice((2, 3)))}}}
    if kind == "lr":
        return {"sweep": {"training.lr": {"grid_search": rng.sample((0.02, 0.05, 0.1, 0.2), rng.choice((2, 3)))}}}
    if kind == "draws":
        return {"sweep": {"training.lr": {"loguniform": [0.01, 0.2]}}, "samples": 2}
    key = rng.choice(SWEPT)
    others = [name for slot, name in every if slot.key == key and name != base[key]["name"]]
    names = [base[key]["name"], *rng.sample(others, min(len(others), rng.choice((1, 2))))]
    return {"sweep": {f"{key}.name": {"grid_search": names}}}


def _search(rng: random.Random) -> dict[str, Any]:
    """Draw a search of three trials; what stops trials early depends on their timing, and is left out."""
    goal: dict[str, Any] = rng.choice(({}, {"metric": "accuracy"}))
    search = {"name": "optuna", "parallel": rng.choice((1, 2)), "startup": 1, "seed": rng.randrange(10)}
    swept: dict[str, Any] = {"training.lr": {"loguniform": [0.01, 0.2]}}
    if rng.random() < 0.5:
        swept["seed"] = {"choice": [1, 2, 3]}
    return {"sweep": swept, "samples": 3, "tune": {**goal, "search": search}}
