"""What a component must do: in a run of two rounds, and by itself.

Every check is a function that yields problems, as sentences. An exception of the component is a problem, too, and is
left to the caller (`orchestrator.conformance.suite`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from algorithms.core.layout import Layout
from algorithms.core.messages import ClientUpdates, reweight
from algorithms.core.noise import Normals, Zeros
from algorithms.engine.block import trains_together
from algorithms.interfaces import Outcome
from algorithms.metrics.classification import are_probabilities
from datasets.components import Component
from orchestrator.config.run import resolve
from orchestrator.config.slots import Slot
from orchestrator.conformance.example_runs import NotChecked, attack, described, digits, finished, module_of, outputs
from orchestrator.conformance.inline import inline_trial
from orchestrator.metric_names import BOOKKEEPING, OTHER, metric
from orchestrator.trial.metric_rows import final_metrics
from orchestrator.trial.restarts import Trial

# Of examples: images, series, and rows of tables.
SHAPES = ((3, 32, 32), (1, 28, 28), (9, 128), (16,), (64,), (600,), (3, 224, 224))
FAR = 1e6  # norm of an update that any clipping shortens
ROUNDING = 1e-4  # relative, of noise in float32


def ran(run: dict[str, Any], folder: Path) -> tuple[Trial, dict[str, Any]]:
    """Run a short run to its end; return the trial and all that it leaves."""
    trial = finished(inline_trial(run, folder, digits()))
    return trial, outputs(trial)


def training_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what is wrong with two rounds in which the component takes part: values, and whether they repeat."""
    run = described(slot, name)
    with TemporaryDirectory(prefix="fedpriv-") as made:
        trial, outcome = ran(run, Path(made) / "first")
        rows = outcome["rounds"].to_pydict()
        for column in ("loss", "accuracy"):
            if not np.isfinite(rows[column]).all():
                yield f"the {column} is not finite: {rows[column]}"
        again = inline_trial(run, Path(made) / "again", digits())
        start = [model.params.copy() for model in again.state.models]
        moved = [after.params - before for before, after in zip(start, trial.state.models, strict=True)]
        if not np.abs(moved).max() > 1e-4:
            yield "the models have not moved"
        yield from undeclared_metrics(trial)
        yield from unequal(outcome, outputs(finished(again)))
        if slot.key == "objective" and trains_together(trial.run):  # where batches are padded
            alone = ran(described(slot, name, backend="loop"), Path(made) / "alone")[0]
            if not np.allclose(alone.state.models[0].params, trial.state.models[0].params, rtol=1e-2, atol=1e-4):
                yield "clients that are trained at once get other models; leave labels of -100 (padding) out of the loss"


def undeclared_metrics(trial: Trial) -> Iterator[str]:
    """Yield the metrics of a run that no component declares."""
    table = trial.rows("rounds").to_pylist()
    found: dict[str, Any] = final_metrics(trial.run, Outcome(table, trial.state.spent, trial.data.sizes))
    found |= {name: value for row in table for name, value in row.items()}
    for name, value in found.items():
        known = isinstance(value, str) or name in BOOKKEEPING or name.startswith("guarantee")
        if not known and metric(name).family == OTHER:
            yield f"the metric {name} is not declared in METRICS, so tables do not know its label, unit and direction"


def unequal(first: dict[str, Any], again: dict[str, Any]) -> Iterator[str]:
    """Yield which parts of what two equal runs left differ."""
    differing = sorted(name for name in first.keys() | again.keys() if first.get(name) != again.get(name))
    if differing:
        yield f"the same run gave other bytes when it was repeated: {', '.join(differing)}"


def attack_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield what is wrong with an attack in a run of two rounds: when it measures what, in which range, and repeatedly."""
    run = described() | {"attacks": [attack(name)]}
    with TemporaryDirectory(prefix="fedpriv-") as made:
        trial, kept = ran(run, Path(made) / "first")
        again = ran(run, Path(made) / "again")[1]
        rows = trial.rows("attacks").to_pydict() if "attacks" in kept else {"attack": []}
        undeclared = list(undeclared_metrics(trial))
    own = [i for i, by in enumerate(rows["attack"]) if by == name]
    kinds = module_of(slot.key, name).KINDS
    due = {1, 2} if {"models", "updates"} & set(kinds) else {2}
    seen = {rows["round"][i] for i in own}
    if seen != due:
        yield f"it has measures after the rounds {sorted(seen)} and is due after {sorted(due)}"
    targets = {rows["target"][i] for i in own}
    if "models" in kinds and not set(trial.state.names) <= targets:
        yield f"it has measures of {sorted(targets)} and attacks the models {sorted(trial.state.names)}"
    if "models" not in kinds and len(targets) < 2:
        yield f"it has measures of {sorted(targets)} and should have some of every client"
    accuracies = [rows["value"][i] for i in own if rows["metric"][i] == "balanced_accuracy"]
    if beyond := [value for value in (*accuracies, *trial.state.published_risks) if not 0 <= value <= 1]:
        yield f"an accuracy must lie in [0, 1], got {beyond[0]:g}"
    yield from undeclared
    yield from unequal(kept, again)


def model_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield where a model is not made of what it says, or has other outputs than one for each class.

    It is built for examples of a shape that it accepts; raises NotChecked if none of ours is.
    """
    from torch import nn

    from algorithms.core.network import Network

    module, rng = module_of(slot.key, name), np.random.default_rng(0)
    refusals = {shape: module.shape_problem(module.Config(), shape) for shape in SHAPES}
    shape = next((shape for shape, refusal in refusals.items() if not refusal), None)
    if shape is None:
        raise NotChecked(refusals[SHAPES[0]])
    network = Network(Component(name, module.Config(), slot.folder), shape, 7)
    layers = list(network.module.modules())
    for constant, kinds in (("CONVOLUTIONAL", nn.Conv1d | nn.Conv2d), ("BATCH_NORM", nn.BatchNorm2d)):
        there = any(isinstance(layer, kinds) for layer in layers)
        if there != getattr(module, constant):
            yield f"{constant} is {getattr(module, constant)}, but it {'has' if there else 'has not'} such layers"
    network.load(network.initial(rng))
    outputs = network.logits(rng.random((2, *shape), dtype=np.float32))
    if outputs.shape != (2, 7):
        yield f"the outputs for 2 examples of 7 classes have shape {outputs.shape} and must have (2, 7)"
    elif are_probabilities(outputs):
        yield "the outputs of every example are positive and add up to 1; they must be logits, so leave the softmax out"


def received_updates(updates: np.ndarray, weights: np.ndarray) -> ClientUpdates:
    """Return what three clients sent of a model of two arrays: ``updates`` [3, 6]; ``weights`` [3] add up to one."""
    return ClientUpdates(
        clients=np.arange(3),
        weights=weights,
        mean=weights @ updates.astype(np.float64),
        buffers=np.zeros(0),
        updates=updates,
        own_buffers=np.zeros((3, 0), np.float32),
        norms=np.linalg.norm(updates, axis=1),
        scales=np.ones(3),
        statistics={"rho": np.array([0.2, 0.5, 0.9])},
        layout=Layout(("body.weight", "body.bias"), ((2, 2), (2,))),
    )


def aggregation_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield where an aggregation changes its arguments or its state's shape, or returns other shapes than it must."""
    module, rng = module_of(slot.key, name), np.random.default_rng(0)
    config, params = module.Config(), rng.normal(size=6).astype(np.float32)
    updates = rng.normal(size=(3, 6)).astype(np.float32)
    weights = np.asarray(module.weigh(config, np.array([10, 20, 30])))
    if weights.shape != (3,) or not (weights > 0).all():
        yield f"weigh must return a positive weight for each client, got {weights}"
        return
    received = received_updates(updates, weights / weights.sum())
    state = module.begin(config, params)
    _freeze(params, updates, received.mean, received.weights, *state.values())
    reweighed = module.reweigh(config, received)
    if reweighed is not None:
        chosen, _ = reweighed
        if not math.isclose(chosen.sum(), 1, rel_tol=1e-6) or not (chosen >= 0).all():
            yield f"reweigh must return weights that add up to one, got {chosen}"
        received = reweight(received, chosen)
    moved, after, _ = module.apply(config, state, params, received)
    yield from _not_parameters("apply", moved)
    shapes = [{key: (array.dtype, array.shape) for key, array in one.items()} for one in (state, after)]
    if shapes[0] != shapes[1]:
        yield f"apply must leave the state's names, types and shapes as begin made them: {shapes[0]}, got {shapes[1]}"


def _freeze(*arrays: np.ndarray) -> None:
    for array in arrays:
        array.setflags(write=False)


def _not_parameters(function: str, array: np.ndarray) -> Iterator[str]:
    if array.dtype != np.float32 or array.shape != (6,):
        yield f"{function} must return parameters [d] in float32, got {array.dtype} {list(array.shape)} for d = 6"


def noise_problems(slot: Slot, name: str) -> Iterator[str]:
    """Yield where a protection adds less noise than it says, or none: the account of epsilon rests on both."""
    module = module_of(slot.key, name)
    run = resolve(described(slot, name))
    config, params = run.privacy.config, np.zeros(6, np.float32)
    updates = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    scales = np.asarray(module.bound(config, norms := np.linalg.norm(updates, axis=1)))
    if scales.shape != (3,) or not ((scales > 0).all() and (scales <= 1).all()):
        yield f"bound must return a factor in (0, 1] for each finite norm, got {scales}"
        return
    received = received_updates(updates * scales[:, None].astype(np.float32), np.full(3, 1 / 3))
    received = replace(received, norms=norms, scales=scales)
    _freeze(params, updates, received.mean)
    event, sd = module.event(config, received, run), 0.0
    if module.NOISY:
        noises = Normals(6, np.random.default_rng(5)), Zeros(6)
        noisy, bare = (module.release(config, params, received, noise)[0] for noise in noises)
        yield from _not_parameters("release", noisy)
        sd = float(np.min((noisy - bare) / Normals(6, np.random.default_rng(5)).take()))
        if not sd > 0:
            yield "NOISY is True, and release does not add the noise that it is given to every parameter"
    if event is None or not event.noise_multiplier > 0:
        return
    if np.asarray(module.bound(config, np.array([np.nan, np.inf]))).any():
        yield "event keeps an account, and bound does not return 0 for a norm that is NaN or infinite"
    longest = FAR * float(np.asarray(module.bound(config, np.array([FAR])))[0])  # what is left of a long update
    least = event.noise_multiplier * longest / 3
    if sd < least * (1 - ROUNDING):
        yield (
            f"event states noise of {event.noise_multiplier:g} times what one client can move; an update of norm {FAR:g} "
            f"moves the mean of three by {longest / 3:g}, so the standard deviation must be {least:g}, and it is {sd:g}"
        )
