"""Sweeps drawn at random from all components of all slots, that run in seconds.

What a sweep must not combine is nowhere listed here: a draw that the product refuses (ConfigError) is drawn again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from algorithms.interfaces import Run
from datasets.components import components, presets
from datasets.federation import DataError, Source
from datasets.sources import har
from orchestrator.cluster.data_checks import data_problems
from orchestrator.config.errors import ConfigError, ConfigProblem
from orchestrator.config.run import check
from orchestrator.config.slots import SLOTS, Slot
from orchestrator.config.sweep_file import Resources, Sweep, load_sweep
from orchestrator.conformance.example_runs import attack, described
from orchestrator.trial.federation import partition_data

Choice = tuple[Slot, str]

TRIES = 20_000  # draws until one is accepted
MOST = 3e11  # multiplications of a sweep: some ten seconds
SWEPT = ("training", "clustering", "objective", "aggregation", "privacy")  # slots whose component may be swept
DATA = next(slot for slot in SLOTS if slot.key == "data")
# Small values of fields, where a component has them.
SMALL: dict[str, Any] = {"epochs": 1, "batch_size": 8, "lr": 0.1, "hidden": [8], "restarts": 2, "restart_rounds": 2}
SMALL |= {"warm_start_rounds": 1, "power_steps": 3, "preset": "shares", "minority_ratio": 0.3}
PURCHASES = {"examples": 300, "features": 24, "classes": 4}
# The fields without which a data set of own files cannot be read; of several, any.
OWN: dict[str, list[dict[str, Any]]] = {
    "table": [
        {"path": "people.csv", "label": "outcome", "drop": ["clinic", "area"]},
        {"path": "people.csv", "label": "outcome", "client": "clinic", "group": "area"},
    ],
    "arrays": [{"path": "signals.npz"}, {"path": "signals.npz", "client": "writer", "standardize": True}],
    "image_folder": [{"path": "images", "layout": "class/client", "color": color} for color in ("rgb", "gray")],
}
PEOPLE, IMAGES, CLIENTS, CLASSES = 240, 168, 8, 3


def write_data(folder: Path) -> Path:
    """Write own data of every kind, and UCI HAR, into ``folder``, unless they are there; return the folder."""
    from PIL import Image

    if (folder / "people.csv").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    rng, rows = np.random.default_rng(0), ["height,weight,kind,clinic,area,outcome"]
    y, writer = np.arange(PEOPLE) % CLASSES, rng.integers(0, CLIENTS, PEOPLE)
    x = (rng.normal(size=(PEOPLE, 2, 16)) + y[:, None, None] / 2).astype(np.float32)
    np.savez(folder / "signals.npz", x=x, y=y, writer=writer, area=(writer < 3).astype(np.int64))
    for i in range(IMAGES):
        label, client = i % CLASSES, (i // CLASSES) % CLIENTS
        pixels = np.clip(rng.normal(80 + 40 * label, 40, (16, 16, 3)), 0, 255).astype(np.uint8)
        path = folder / "images" / f"class {label}" / f"client {client}" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    for part, subjects in (("train", range(1, 7)), ("test", range(7, 11))):
        owner, har_part = np.repeat(list(subjects), 12), folder / "UCI HAR Dataset" / part
        (har_part / "Inertial Signals").mkdir(parents=True)
        np.savetxt(har_part / f"y_{part}.txt", np.arange(len(owner)) % har.ACTIVITIES + 1, "%d")
        np.savetxt(har_part / f"subject_{part}.txt", owner, "%d")
        for name in har.SIGNALS:
            windows = rng.normal(size=(len(owner), har.SAMPLES))
            np.savetxt(har_part / "Inertial Signals" / f"{name}_{part}.txt", windows, "%.2e")
    for i in range(PEOPLE):
        outcome, area = i % 2, "north" if i % CLIENTS < 3 else "south"
        values = f"{rng.normal(outcome, 1):.6f},{rng.normal(-outcome, 1):.6f},{'abc'[rng.integers(3)]}"
        rows.append(f"{values},clinic {i % CLIENTS},{area},{outcome if i % 5 else 1 - outcome}")
    (folder / "people.csv").write_text("\n".join(rows) + "\n")
    return folder


def available(root: Path) -> tuple[Choice, ...]:
    """Every component of every slot, and every preset, but the data sets whose files are not in ``root``."""

    def is_here(name: str) -> bool:
        source = components(DATA.folder)[name]
        try:
            return source.load(source.Config(**OWN.get(name, [{}])[0]), root, False) is not None
        except DataError:
            return False

    named = {slot.key: {name: name for name in components(slot.folder)} for slot in SLOTS}
    for slot in SLOTS:
        named[slot.key] |= {name: component for name, (component, _) in presets(slot.folder).items()}
    return tuple((slot, name) for slot in SLOTS for name, of in named[slot.key].items() if slot != DATA or is_here(of))


def chosen_in(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """The slot and the name of every component that a trial of the sweep has."""
    for run in sweep.runs:
        for slot in SLOTS:
            filled = getattr(run, slot.field)
            for component in filled if slot.many else [filled]:
                yield slot.key, component.name


def work(run: Run, source: Source) -> float:
    """About how many multiplications a run of this data takes; each attack counts like two further trainings."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    shape, starts = source.train.x.shape[1:], run.clustering.module.starts(run.clustering.config)
    with torch.device("meta"), FlopCounterMode(display=False) as counted:
        run.model.module.build(run.model.config, shape, source.classes).eval()(torch.zeros(1, *shape))
    rounds = run.rounds + (starts.initializations - 1) * starts.rounds
    examples = min(len(source.train), run.data.config.clients * (run.data.config.examples_per_client or 10**9))
    passes = max(1, run.training.config.epochs) * run.clustering.config.clusters
    return 1.5 * counted.get_total_flops() * examples * passes * rounds * (1 + 2 * len(run.attacks))


def drawn(seed: int, folder: Path) -> Path:
    """Write a sweep, and the data that it reads, into ``folder``; return the sweep's file.

    Each seed has a component in it, in turn, whatever else is drawn.

    Args:
        seed: the number of the draw.
        folder: the folder; draws may share one.
    """
    rng, path, root = random.Random(f"drawn {seed}"), folder / f"drawn-{seed}.yaml", write_data(folder)
    every = available(root)
    featured = random.Random(0).sample(every, len(every))[seed % len(every)]
    for _ in range(TRIES):
        tree = {"name": path.stem, "data_root": str(root), **_tree(rng, every, featured)}
        if not _problems(tree, path, root):
            return path
    raise AssertionError(f"no valid sweep with {featured} in {TRIES} draws")


def _problems(tree: dict[str, Any], path: Path, root: Path) -> list[ConfigProblem]:
    """Why a sweep is refused; one that is not is written to ``path``."""
    run, problems = check(tree["base"])
    if run is None or problems:
        return problems
    read: list[Source] = []
    alone = Sweep(tree["name"], path, "", root, Resources(), (run,), (), ({},))
    if problems := data_problems(alone, download=False, loaded=lambda _, source: read.append(source)):
        return problems
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    try:
        sweep = load_sweep(path)
        for run in sweep.runs:  # the clients that a seed draws may leave too little for something
            partition_data(run, root)
    except ConfigError as error:
        return list(error.problems)
    except DataError as error:
        return [ConfigProblem(str(error), ("base", "data"))]
    trials = sweep.samples or 0 if sweep.space else len(sweep.runs)
    if trials * max(work(run, read[0]) for run in sweep.runs) > MOST:
        return [ConfigProblem("takes too long", ("base",))]
    return data_problems(sweep, download=False)


def _tree(rng: random.Random, every: tuple[Choice, ...], featured: Choice) -> dict[str, Any]:
    """A sweep in which the component whose turn it is has its place; it need not be valid."""
    base: dict[str, Any] = {"rounds": rng.randint(3, 5), "seed": rng.randrange(100)}
    base |= rng.choice(({}, {}, {"evaluate_every": 2}, {"participation": "fixed", "participation_rate": 0.75}))
    base |= rng.choice(({}, {}, {}, {"server_sees": "sum"}, {"server_sees": "models"}))
    for slot in SLOTS:
        names = [name for where, name in every if where == slot]
        name = featured[1] if slot == featured[0] else rng.choice(names)
        if slot.many:
            others = rng.sample(names, rng.choice((0, 0, 1, 2)))
            base[slot.key] = [
                attack(one) for one in sorted({*others, *([name] if slot == featured[0] else others[:1])})
            ]
        elif len(slot.path) == 2:
            base[str(slot.path[0])][str(slot.path[1])] = _component(rng, slot, name)
        else:
            base[slot.key] = _component(rng, slot, name)
    if "model" in (own := described(*_objective(base))) and own["model"] != described()["model"]:
        base["model"] = own["model"]  # trains nothing else
    resources = {"client_actors": rng.choice((1, 2)), "concurrent_trials": rng.choice((1, 2, "auto"))}
    return {"base": base, "resources": resources | {"trial_retries": 5}, **_varied(rng, base, every)}


def _objective(base: dict[str, Any]) -> tuple[Slot, str]:
    slot = next(slot for slot in SLOTS if slot.key == "objective")
    return slot, base["objective"]["name"]


def _component(rng: random.Random, slot: Slot, name: str) -> dict[str, Any]:
    """A component with small values of its fields, and what its own files need."""
    component, preset = presets(slot.folder).get(name, (name, None))
    fields = components(slot.folder)[component].Config.model_fields
    values = SMALL | {"clients_per_job": rng.choice((1, 2, 3, "auto")), "transform": rng.choice(("none", "rotation"))}
    if slot == DATA:
        values = {"clients": rng.randint(4, 7), "examples_per_client": rng.choice((8, 12, None)), "shadow_size": 30}
        values |= {"test_size": 20, "nonmember_size": 15, "validation_size": rng.choice((0, 6)), "held_out": 0.3}
        values |= {"split_seed": rng.choice((None, 3)), **(PURCHASES if component == "purchase_like" else {})}
    fixed = dict(preset.fields) if preset else {}
    small = {field: value for field, value in values.items() if field in fields and field not in fixed}
    return {"name": name, **small, **(rng.choice(OWN.get(component, [{}])) if slot == DATA else {})}


def _varied(rng: random.Random, base: dict[str, Any], every: tuple[Choice, ...]) -> dict[str, Any]:
    """What the sweep varies: a grid or a search of two or three trials.

    What stops trials early depends on their timing, and is left out.
    """
    kind = rng.choice(("seed", "lr", "draws", "search", "component", "component"))
    if kind == "seed":
        return {"sweep": {"seed": {"grid_search": rng.sample(range(100), rng.choice((2, 3)))}}}
    if kind == "lr":
        return {"sweep": {"training.lr": {"grid_search": rng.sample((0.02, 0.05, 0.1, 0.2), rng.choice((2, 3)))}}}
    space: dict[str, Any] = {"training.lr": {"loguniform": [0.01, 0.2]}}
    if kind == "draws":
        return {"sweep": space, "samples": 2}
    if kind == "search":
        search = {"name": "optuna", "parallel": rng.choice((1, 2)), "startup": 1, "seed": rng.randrange(10)}
        more = rng.choice(({}, {"seed": {"choice": [1, 2, 3]}}))
        return {"sweep": space | more, "samples": 3, "tune": {"metric": "accuracy", "search": search}}
    key = rng.choice(SWEPT)
    others = [name for slot, name in every if slot.key == key and name != base[key]["name"]]
    names = [base[key]["name"], *rng.sample(others, min(len(others), rng.choice((1, 2))))]
    return {"sweep": {f"{key}.name": {"grid_search": names}}}
