"""Whether a module that somebody else wrote can be used in a run: it is built twice, evaluated, and takes one real step.

The step is that of the run's own engine, on four examples of two clients: gradients of single examples, of clients at once,
of the objective, or twice (the curvature), as the run takes them. What torch or the module raises is the refusal. Every
sentence follows the name of the model: "mypkg.nets:Net returns ...".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from torch import nn

from algorithms.core import own_values
from algorithms.core.messages import Assignment, Floats
from algorithms.core.network import Network
from algorithms.engine import block
from algorithms.interfaces import Run
from algorithms.metrics.classification import are_probabilities
from algorithms.models import _facts
from algorithms.models._callables import CallableError, message_of
from datasets.components import remembered
from datasets.federation import Examples, Federation

EXAMPLES, CLIENTS = 4, 2
SEED = 1_000_003  # one that no constructor sets by itself


@dataclass(frozen=True)
class _Trial:
    """A run, compared by what of it bears on the answer."""

    key: str
    run: Run = field(compare=False)


def problem(run: Run, shape: tuple[int, ...], classes: int) -> str | None:
    """Return the first thing that does not fit, as a sentence; None if all does, or if the module is too large to be tried.

    The run's model has values of its own; ``shape`` is that of one example.
    """
    step = {"epochs": 1, "lr": 0.01, "optimizer_state": "reset"}
    run = replace(run, training=replace(run.training, config=run.training.config.model_copy(update=step)))
    key = repr((run.model, run.training, run.objective, run.measures_curvature and run.curvature))
    return _problem(_Trial(key, run), tuple(map(int, shape)), int(classes))


@remembered
def _problem(trial: _Trial, shape: tuple[int, ...], classes: int) -> str | None:
    stage, title = "", trial.run.model.title
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stages = _stages(trial.run, shape, classes)
            while stage := next(stages, ""):
                pass
    except CallableError as error:
        return f"{title} {error}"
    except Exception as error:
        return f"{title} {stage}: {message_of(error)}"
    return None


def _stages(run: Run, shape: tuple[int, ...], classes: int) -> Iterator[str]:
    """Try the module, and yield before each stage what it means if torch or the module raises something there."""
    yield f"cannot be built for examples of shape {shape}"
    make = partial(run.model.module.build, run.model.config, shape, classes)
    if (own_values.elements(make) or 0) > _facts.MOST_TRIED:
        return  # a few copies of it and of its gradients would take the memory that the run needs
    first, second = (own_values.build(make, shape, SEED) for _ in range(2))
    _check_values(run, first, second)
    yield f"does not take examples of shape {shape}"
    _check_outputs(first, shape, classes)
    yield "cannot take a step"
    data, network = _federation(shape, classes), Network(run.model, shape, classes)
    stream: block.Stream = lambda *place: np.random.default_rng(0)  # noqa: E731
    assigned = Assignment(range(CLIENTS), np.zeros(CLIENTS, np.int64), 0, {"rho": np.full(CLIENTS, 0.5)})
    start = network.initial(stream())
    network.load(start)
    before = _arrays(network.module)
    trained = block.train(run, data, network, [start], assigned, stream)
    if not np.isfinite(trained.params).all():
        raise CallableError("has a gradient that is not finite")
    carried = {*network.layout.names, *network.buffer_layout.names}
    for name in _differing(before, network.module):
        if name not in carried and not name.endswith("_tracked"):
            raise CallableError(
                f"keeps state between calls: training changes its buffer {name}, which is no running statistic of one "
                "of torch's normalization layers and would be lost from round to round"
            )
    if run.measures_curvature:
        yield "cannot be differentiated twice, which the curvature (rho) needs"
        block.measure_curvatures(run, data, network, range(CLIENTS), trained, stream)
    if not run.training.config.drop_last:
        yield "cannot train on one example, as the last batch of an epoch may be (training.drop_last: true)"
        network.module.train()(network.inputs(data.train.x[:1]))


def _check_values(run: Run, first: nn.Module, second: nn.Module) -> None:
    """Check the arrays of a module that was built twice, and that it is what components were told before."""
    trained = dict(first.named_parameters())
    if not trained:
        raise CallableError("has no parameter that can be trained")
    for name, array in (*trained.items(), *first.named_buffers()):
        if array.is_sparse or array.is_complex() or (name in trained and array.dtype != torch.float32):
            raise CallableError(
                f"has {name} of type {array.dtype}; arrays must be dense and real, and parameters float32"
            )
    if differing := _differing(_arrays(first), second):
        raise CallableError(f"starts from another {differing[0]} each time that it is built; draw it from torch")
    declared = run.model.module
    if _facts.normalizes(first) > declared.BATCH_NORM or not set(_facts.raw_parameters(first)) <= set(declared.RAW):
        raise CallableError(
            "has batch normalization or raw parameters for these data, which could not be seen before they were loaded, "
            "because it cannot be built for other shapes; build it in a function without arguments and name that function"
        )


def _check_outputs(module: nn.Module, shape: tuple[int, ...], classes: int) -> None:
    """Check that outputs in evaluation are logits, the same each time, whatever examples are beside an example."""
    x, module = torch.from_numpy(_examples(shape, EXAMPLES)), module.eval()
    with torch.no_grad():
        outputs, again, alone = module(x), module(x), [module(example) for example in x.split(1)]
    kind = getattr(outputs, "dtype", None) or type(outputs).__name__
    size = list(getattr(outputs, "shape", ()))
    if not isinstance(outputs, torch.Tensor) or kind != torch.float32 or size != [EXAMPLES, classes]:
        raise CallableError(
            f"returns {kind} {size}; it must return the logits alone, torch.float32 [{EXAMPLES}, {classes}]: the data "
            f"have {classes} classes (name its argument for their number num_classes, or give it in model.args)"
        )
    if not outputs.isfinite().all():
        raise CallableError("returns outputs that are not finite, for examples between 0 and 1")
    if are_probabilities(outputs.numpy()):
        raise CallableError("returns probabilities; it must return logits, so leave the softmax out")
    either_sign = x - 0.5
    changed = either_sign.clone()
    with torch.no_grad(), suppress(Exception):  # it need not take negative numbers
        module(changed)
    if not torch.equal(changed, either_sign):
        raise CallableError("changes its input in place, which other models would then see; copy it first")
    if not torch.equal(outputs, again):
        raise CallableError(
            "keeps state between calls, or draws random numbers in evaluation: the same examples give others"
        )
    if not torch.allclose(outputs, torch.cat(alone), rtol=1e-3, atol=1e-4):
        raise CallableError("gives an example another output when other examples are evaluated beside it")


def _federation(shape: tuple[int, ...], classes: int) -> Federation:
    """Return two clients with four examples each."""
    x, y = _examples(shape, CLIENTS * EXAMPLES), np.arange(CLIENTS * EXAMPLES) % classes
    empty, zeros = Examples(x[:0], y[:0]), np.zeros(CLIENTS * EXAMPLES, np.float32)
    return Federation(
        name="examples",
        classes=classes,
        train=Examples(x, y),
        offsets=np.arange(CLIENTS + 1) * EXAMPLES,
        groups=np.zeros(CLIENTS, np.int64),
        group_names=("",),
        strengths=zeros[:CLIENTS],
        example_strengths=zeros,
        test=empty,
        test_owner=empty.y,
        nonmembers=empty,
        nonmember_owner=empty.y,
        shadow=empty,
    )


def _examples(shape: tuple[int, ...], number: int) -> Floats:
    return np.random.default_rng(0).random((number, *shape), dtype=np.float32)


def _arrays(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of the module's parameters and buffers by name, without NaN, which equals nothing."""
    arrays = (*module.named_parameters(), *module.named_buffers())
    return {name: array.detach().nan_to_num(nan=0.5).clone() for name, array in arrays}


def _differing(before: dict[str, torch.Tensor], module: nn.Module) -> list[str]:
    """Return the names under which ``module`` holds other numbers than ``before``."""
    after = _arrays(module)
    return [name for name in before if name not in after or not torch.equal(before[name], after[name])]
