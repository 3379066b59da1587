"""What a component must do: in a run of two rounds, and by itself; a data set and a split with
their examples.

Every check is a function that yields problems, as sentences. An exception of the component is a
problem, too, and is left to the caller (`orchestrator.conformance.suite`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from algorithms.core.columns import is_guarantee
from algorithms.core.messages import Floats, reweight
from algorithms.core.noise import Normals, Zeros
from algorithms.engine.backends import trains_together
from algorithms.engine.sensitivity import received_updates
from algorithms.interfaces import Outcome
from algorithms.metrics.classification import are_probabilities
from datasets import source_checks
from datasets.components import Component, complete
from datasets.federation import Examples, Federation, Source
from datasets.source_configs import HeldOutConfig, SourceConfig
from orchestrator.config.metric_names import BOOKKEEPING, OTHER, metric
from orchestrator.config.run import resolve
from orchestrator.config.slots import Slot
from orchestrator.config.sweep_file import DATA_ROOT, DATA_VARIABLE
from orchestrator.conformance.example_runs import (
    NotChecked,
    described,
    digits,
    finished,
    inline_trial,
    outputs,
    suited,
)
from orchestrator.results.provenance import data_hash
from orchestrator.trial.metric_rows import final_metrics
from orchestrator.trial.random_streams import stream
from orchestrator.trial.restarts import Trial

# Of examples: images, series, and rows of tables.
SHAPES = ((3, 32, 32), (1, 28, 28), (9, 128), (16,), (64,), (600,), (3, 224, 224))
FAR = 1e6  # norm of an update that any clipping shortens
ROUNDING = 1e-4  # relative, of noise in float32
SUBJECTS = 8  # people in the data for splits by person


def run_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what is wrong with two rounds in which the component takes part, twice: the bytes,
    the metrics and the values.
    """
    run = described(slot, name)
    data = suited(run) if slot.key == "attacks" else digits()
    with TemporaryDirectory(prefix="fedpriv-") as folder:
        first = outputs(finished(inline_trial(run, Path(folder) / "first", data)))
        trial = inline_trial(run, Path(folder) / "again", data)
        start = [model.params.copy() for model in trial.state.models]
        again = outputs(finished(trial))
        differing = sorted(
            part for part in first.keys() | again.keys() if first.get(part) != again.get(part)
        )
        if differing:
            yield f"the same run gave other bytes when it was repeated: {', '.join(differing)}"
        yield from undeclared_metrics(trial)
        if slot.key == "attacks":
            yield from attack_problems(name, trial)
        else:
            yield from training_problems(slot, name, trial, start, Path(folder) / "alone")


def undeclared_metrics(trial: Trial) -> Iterator[str]:
    """Yield the metrics of a run that no component declares."""
    table = trial.rows("rounds").to_pylist()
    over = Outcome(table, trial.state.spent, trial.data.sizes, history=trial.state.history)
    values: dict[str, Any] = final_metrics(trial.run, over)
    values |= {name: value for row in table for name, value in row.items()}
    for name, value in values.items():
        in_family = isinstance(value, str) or name in BOOKKEEPING or is_guarantee(name)
        if not in_family and metric(name).family == OTHER:
            yield (
                f"the metric {name} is not declared in METRICS, so tables do not know its "
                "label, unit and direction"
            )


def training_problems(
    slot: Slot, name: str, trial: Trial, start: list[Floats], folder: Path
) -> Iterator[str]:
    """Yield what is wrong with the models of a trial that began with the parameters ``start``
    [model][d].
    """
    rows = trial.rows("rounds").to_pydict()
    for column in ("loss", "accuracy"):
        if not np.isfinite(rows[column]).all():
            yield f"the {column} is not finite: {rows[column]}"
    moved = [after.params - before for before, after in zip(start, trial.state.models, strict=True)]
    if not np.abs(moved).max() > 1e-4:
        yield "the models have not moved"
    if slot.key == "objective" and trains_together(trial.run):  # where batches are padded
        alone = finished(inline_trial(described(slot, name, backend="loop"), folder, digits()))
        if not np.allclose(
            alone.state.models[0].params, trial.state.models[0].params, rtol=1e-2, atol=1e-4
        ):
            yield (
                "clients that are trained at once get other models; leave labels of -100 "
                "(padding) out of the loss"
            )


def attack_problems(name: str, trial: Trial) -> Iterator[str]:
    """Yield what is wrong with what an attack measured in a trial of two rounds: when, of what,
    and in which range.
    """
    rows = [row for row in trial.rows("attacks").to_pylist() if row["attack"] == name]
    kinds = complete("attacks", name).KINDS
    due = {1, 2} if {"models", "updates", "sums"} & set(kinds) else {2}
    rounds = {row["round"] for row in rows}
    if rounds != due:
        yield f"it has measures after the rounds {sorted(rounds)} and is due after {sorted(due)}"
    targets = {row["target"] for row in rows}
    if "models" in kinds and not set(trial.state.names) <= targets:
        yield (
            f"it has measures of {sorted(targets)} and attacks the models "
            f"{sorted(trial.state.names)}"
        )
    if "models" not in kinds and len(targets) < 2:
        yield f"it has measures of {sorted(targets)} and should have some of every client"
    accuracies = [row["value"] for row in rows if row["metric"] == "balanced_accuracy"]
    beyond = [value for value in (*accuracies, *trial.state.published_risks) if not 0 <= value <= 1]
    if beyond:
        yield f"an accuracy must lie in [0, 1], got {beyond[0]:g}"


def model_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield where a model is not made of what it says, or has other outputs than one for each
    class.

    It is built for examples of a shape that it accepts; raises NotChecked if none of ours is.
    """
    from torch import nn

    from algorithms.core.network import Network

    module = complete(slot.folder, name)
    rng = np.random.default_rng(0)
    refusals = {shape: module.shape_problem(module.Config(), shape) for shape in SHAPES}
    shape = next((shape for shape, refusal in refusals.items() if not refusal), None)
    if shape is None:
        raise NotChecked(refusals[SHAPES[0]])
    network = Network(Component(name, module.Config(), slot.folder), shape, 7)
    layers = list(network.module.modules())
    for constant, kinds in (
        ("CONVOLUTIONAL", nn.Conv1d | nn.Conv2d),
        ("BATCH_NORM", nn.BatchNorm2d),
    ):
        there = any(isinstance(layer, kinds) for layer in layers)
        if there != getattr(module, constant):
            yield (
                f"{constant} is {getattr(module, constant)}, but it "
                f"{'has' if there else 'has not'} such layers"
            )
    network.load(network.initial(rng))
    outputs = network.logits(rng.random((2, *shape), dtype=np.float32))
    if outputs.shape != (2, 7):
        yield (
            f"the outputs for 2 examples of 7 classes have shape {outputs.shape} and must have "
            "(2, 7)"
        )
    elif are_probabilities(outputs):
        yield (
            "the outputs of every example are positive and add up to 1; they must be logits, so "
            "leave the softmax out"
        )


def aggregation_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield where an aggregation weighs a client by zero; it fails where it changes its arguments
    or returns what it must not.
    """
    module = complete(slot.folder, name, guard=True)
    rng = np.random.default_rng(0)
    config = module.Config()
    params = rng.normal(size=6).astype(np.float32)
    updates = rng.normal(size=(3, 6)).astype(np.float32)
    weights = module.weigh(config, np.array([10, 20, 30]))
    if not (weights > 0).all():
        yield f"weigh must return a positive weight for each client, got {weights}"
        return
    received = received_updates(updates, weights / weights.sum(), np.ones(3))
    state = module.begin(config, params)
    for array in (params, updates, received.mean, received.weights, *state.values()):
        array.setflags(write=False)
    reweighed = module.reweigh(config, received)
    if reweighed is not None:
        received = reweight(received, reweighed[0])
    module.apply(config, state, params, received)


def noise_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield where a protection adds less noise than it says, or none: the account of epsilon
    rests on both.
    """
    module = complete(slot.folder, name, guard=True)
    run = resolve(described(slot, name))
    config = run.privacy.config
    params = np.zeros(6, np.float32)
    updates = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    scales = np.asarray(module.bound(config, np.linalg.norm(updates, axis=1)))
    if not ((scales > 0).all() and (scales <= 1).all()):
        yield f"bound must return a factor in (0, 1] for each finite norm, got {scales}"
        return
    received = received_updates(updates, np.full(3, 1 / 3), scales)
    for array in (params, updates, received.mean):
        array.setflags(write=False)
    event = module.event(config, received, run)
    sd = 0.0
    # How far one client can move what is released: of the mean, a third of what is left of a long
    # update.
    moved = FAR * float(np.asarray(module.bound(config, np.array([FAR])))[0]) / 3
    of = "the mean of three"
    if module.NOISY:
        noises = Normals(6, np.random.default_rng(5)), Zeros(6)
        noisy, bare = (module.release(config, params, received, noise)[0] for noise in noises)
        sd = float(np.min((noisy - bare) / Normals(6, np.random.default_rng(5)).take()))
        if not sd > 0:
            yield (
                "NOISY is True, and release does not add the noise that it is given to every "
                "parameter"
            )
    if module.PRIVATE_UPDATES:
        sd, moved = sent_noise(module, config)
        of = "what its client sends"
        if not sd > 0:
            yield (
                "PRIVATE_UPDATES is True, and private_update does not add the noise that it is "
                "given to every parameter"
            )
    if event is None or not event.noise_multiplier > 0:
        return
    if np.asarray(module.bound(config, np.array([np.nan, np.inf]))).any():
        yield (
            "event keeps an account, and bound does not return 0 for a norm that is NaN or infinite"
        )
    least = event.noise_multiplier * moved
    if sd < least * (1 - ROUNDING):
        yield (
            f"event states noise of {event.noise_multiplier:g} times what one client can "
            f"move; an update of norm {FAR:g} moves {of} by {moved:g}, so the standard "
            f"deviation must be {least:g}, and it is {sd:g}"
        )


def sent_noise(module: Any, config: Any) -> tuple[float, float]:
    """Return the least deviation of the noise on a zero update, which is sent like any other,
    and the norm of a long one.
    """
    zero = np.zeros(6, np.float32)
    far = np.full(6, FAR / math.sqrt(6), np.float32)
    for update in (zero, far):
        update.setflags(write=False)
    noisy, bare = (
        module.private_update(config, zero, n)
        for n in (Normals(6, np.random.default_rng(5)), Zeros(6))
    )
    sd = float(np.min((noisy - bare) / Normals(6, np.random.default_rng(5)).take()))
    return sd, float(np.linalg.norm(module.private_update(config, far, Zeros(6)) - bare))


def source_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what is wrong with the examples that a data set loads.

    Raises DataError where its files are not here.
    """
    module = complete(slot.folder, name)
    root = Path(os.environ.get(DATA_VARIABLE) or DATA_ROOT).expanduser()
    loaded = [module.load(module.Config(), root, False) for _ in range(2)]
    problems = source_checks.source_problems(loaded[0])
    yield from problems
    if not problems and data_hash(loaded[1]) != data_hash(loaded[0]):
        yield "load gave other bytes when it was called again"


def split_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what is wrong with a partition of the digits; raises NotChecked where it needs data
    of another kind.
    """
    module = complete(slot.folder, name, guard=True)
    run = resolve(described(slot, name))
    config = run.split.config
    reasons = list[str]()
    for fields, source in example_sources(run.data):
        short = module.shortages(config, fields, source)
        if not short:
            break
        reasons += short
    else:
        raise NotChecked("; ".join(dict.fromkeys(reasons)))
    partitions = [
        module.partition(config, fields, source, lambda purpose: stream(0, purpose))
        for _ in range(2)
    ]
    first = partitions[0]
    if len({data_hash(data) for data in partitions}) > 1:
        yield "the same seeds gave another federation"
    yield from trained_on(first, source)


def example_sources(data: Any) -> Iterator[tuple[SourceConfig, Source]]:
    """Yield data to partition, with their fields: the digits, as images and as a table, each
    also with whose they are.

    The test examples are nobody's, or else clients hold out examples of their own. ``data`` is the
    component digits.
    """
    images = data.module.load(data.config, Path(), False)
    parts = {"train": images.train, "test": images.test}
    flat = {
        name: Examples(part.x.reshape(len(part), -1) / np.float32(255), part.y)
        for name, part in parts.items()
    }
    table = replace(images, **flat)
    sizes = {
        key: described()["data"][key] for key in ("clients", "examples_per_client", "shadow_size")
    }
    held_out = HeldOutConfig.model_validate(sizes)
    for source in (images, table):
        people = np.random.default_rng(0).integers(0, SUBJECTS, len(source))
        named = replace(
            source, subjects=people, subject_names=tuple(f"person {i}" for i in range(SUBJECTS))
        )
        for examples in (source, named):
            yield data.config, examples
            yield held_out, examples


def trained_on(data: Federation, source: Source) -> Iterator[str]:
    """Yield which parts of a federation hold examples that clients train on, however they were
    transformed.

    The examples of ``source``, of which it was made, must differ.
    """
    every = source.examples(np.arange(len(source)))
    stored = {image.tobytes(): row for row, image in enumerate(every.x)}
    prepared: dict[bytes, int] = {}
    for strength in np.unique(np.concatenate([data.example_strengths, data.strengths])):
        inputs = data.prepare(every.x, np.full(len(every), strength))
        prepared |= {image.tobytes(): row for row, image in enumerate(inputs)}
    members = {prepared.get(image.tobytes()) for image in data.train.x} - {None}
    parts = (
        ("test", prepared),
        ("validation", prepared),
        ("nonmembers", stored),
        ("shadow", stored),
    )
    for part, places in parts:
        rows = [places.get(image.tobytes()) for image in getattr(data, part).x]
        count = sum(row in members for row in rows)
        if count:
            yield (
                f"{count} of the {len(rows)} examples in {part} are training examples of "
                "clients; no example serves twice"
            )
