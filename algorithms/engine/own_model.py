"""Whether a module that somebody else wrote can be used in a run: it is built twice, evaluated,
and takes one real step.

The step is that of the run's own engine, on four examples of two clients: gradients of single
examples, of clients at once, of the objective, or twice (the curvature), as the run takes them.
What torch or the module raises is the refusal. Every sentence follows the name of the model:
"mypkg.nets:Net returns ...".
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from algorithms.core import outputs, own_values
from algorithms.core.gradients import mean_cross_entropy
from algorithms.core.messages import Assignment, Floats, Weights
from algorithms.core.network import Network, as_tensor
from algorithms.core.snapshot import GENERATORS, Snapshot, shown
from algorithms.engine import block
from algorithms.engine.backends import trains_together
from algorithms.interfaces import Run
from algorithms.models import _facts
from algorithms.models._callables import CallableError
from datasets.components import remembered
from datasets.federation import Examples, Federation
from datasets.origins import message_of

EXAMPLES = 4
CLIENTS = 2
SEED = 1_000_003  # one that no constructor sets by itself
MODES = (False, True)  # evaluation and training
SHOWN = 3  # attributes that a sentence names
VOUCHED = "NOT_STATE"  # in a module, names of attributes on which its author says nothing depends
DRAWS = 12  # of random numbers in training
# draws under which outputs look like probabilities, and what half precision adds to their sum
PARAMETERS = 12
ROUNDED = 0.02


@dataclass(frozen=True)
class _Trial:
    """A run, compared by what of it bears on the answer."""

    key: str
    run: Run = field(compare=False)


def problem(run: Run, shape: tuple[int, ...], classes: int) -> str | None:
    """Return the first thing that does not fit, as a sentence; None if all does, or if the
    module is too large to be tried.

    The run's model has values of its own; ``shape`` is that of one example.
    """
    step = {"epochs": 1, "lr": 0.01, "optimizer_state": "reset"}
    run = _changed_training(run, step)
    read = run.model, run.training, run.objective, run.privacy.name
    key = repr((*read, run.measures_curvature and run.curvature))
    return _problem(_Trial(key, run), tuple(map(int, shape)), int(classes))


@remembered
def _problem(trial: _Trial, shape: tuple[int, ...], classes: int) -> str | None:
    stage = ""
    title = trial.run.model.title
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stages = _stages(trial.run, shape, classes)
            while stage := next(stages, ""):
                pass
    except CallableError as error:
        return f"{title} {error}"
    except (Exception, SystemExit) as error:
        return f"{title} {stage}: {message_of(error)}"
    return None


def _stages(run: Run, shape: tuple[int, ...], classes: int) -> Iterator[str]:
    """Try the module, and yield before each stage what it means if torch or the module raises
    something there.
    """
    yield f"cannot be built for examples of shape {shape}"
    make = partial(run.model.module.build, run.model.config, shape, classes)
    if (own_values.elements(make) or 0) > _facts.MOST_TRIED and (
        blueprint := own_values.blueprint(make)
    ):
        yield f"does not take examples of shape {shape}"
        _check_shapes(blueprint, shape, classes)
        return  # a few copies of it and of its gradients would take the memory that the run needs
    first, second = (own_values.build(make, shape, SEED) for _ in range(2))
    if first is second:
        raise CallableError("returns the same module in every call; build a new one each time")
    _check_values(run, first, second)
    yield f"does not take examples of shape {shape}"
    data = _federation(shape, classes)
    network = Network(run.model, shape, classes)
    before = Snapshot(network.module)
    start = network.initial(np.random.default_rng(0))
    x = network.inputs(as_tensor(_examples(shape, EXAMPLES)) / 2 + 0.25)
    network.load(start)
    _check_outputs(network, x, classes)
    yield "cannot take a step"
    network.load(start)
    why = outputs.problem(network.module.train()(x), EXAMPLES, classes, "training")
    if why:
        raise CallableError(why)
    _check_state(network, start, before, x)
    _check_memory(second.eval(), x)
    if run.training.module.PRIVATE_STEPS:
        _check_alone(network, start, x)
    if run.training.module.PRIVATE_STEPS or run.privacy.name != "none":
        _check_reached(network, start, x)
    stream: block.Stream = lambda *place: np.random.default_rng(0)  # noqa: E731
    assigned = Assignment(
        range(CLIENTS), np.zeros(CLIENTS, np.int64), 0, {"rho": np.full(CLIENTS, 0.5)}
    )
    trained = block.train(run, data, network, [start], assigned, stream)
    if not np.isfinite(trained.params).all():
        raise CallableError("has a gradient that is not finite")
    if trains_together(run):
        _check_backends(run, data, network, start, assigned, stream)
    if run.measures_curvature:
        yield "cannot be differentiated twice, which the curvature (rho) needs"
        block.measure_curvatures(run, data, network, range(CLIENTS), trained, stream)
    if not run.training.config.drop_last or run.training.config.batch_size == 1:
        yield (
            "cannot train on one example, as the last batch of an epoch may be "
            "(training.drop_last: true)"
        )
        alone = network.module.train()(x[:1])
        why = outputs.problem(alone, 1, classes, "training")
        if why:
            raise CallableError(why)


def _check_backends(
    run: Run,
    data: Federation,
    network: Network,
    start: Weights,
    assigned: Assignment,
    stream: block.Stream,
) -> None:
    """Check that plain steps of all clients at once are those of one after another."""
    plain = {"optimizer": "sgd", "momentum": 0.0, "nesterov": False}
    steps = []
    for backend in ("loop", "vmap"):
        one = _changed_training(run, plain | {"backend": backend})
        found = block.train(one, data, network, [start], assigned, stream)
        steps.append(torch.from_numpy(found.params - start.params))
    if _facts.apart(*steps):
        raise CallableError(f"{_facts.APART}; use training.backend: loop")


def _check_values(run: Run, first: nn.Module, second: nn.Module) -> None:
    """Check the arrays of a module that was built twice, and that it is what components were
    told before.
    """
    trained = own_values.trained(first)
    if not trained:
        raise CallableError("has no parameter that can be trained")
    arrays = dict(first.named_parameters()) | dict(first.named_buffers())
    for name, array in arrays.items():
        if (
            array.is_sparse
            or array.is_complex()
            or (name in trained and array.dtype != torch.float32)
        ):
            raise CallableError(
                f"has {name} of type {array.dtype}; arrays must be dense and real, and "
                "parameters float32"
            )
    held = Snapshot(first)
    differing = [name for name in held.changed(second) if name in held.tensors]
    if differing:
        raise CallableError(
            f"starts from another {differing[0]} each time that it is built; draw it from torch"
        )
    declared = run.model.module
    if _facts.normalizes(first) > declared.BATCH_NORM or not set(
        _facts.raw_parameters(first)
    ) <= set(declared.RAW):
        raise CallableError(
            "has batch normalization or raw parameters for these data, which could not be "
            "seen before they were loaded, because it cannot be built for other shapes; build "
            "it in a function without arguments and name that function"
        )


def _check_memory(module: nn.Module, x: torch.Tensor) -> None:
    """Check that once a module has been called, no parameter is part of another tensor."""
    with torch.no_grad():
        module(x)
    pair = _overlapping(Snapshot(module).tensors, own_values.trained(module))
    if pair:
        raise CallableError(
            f"holds {pair[0]} and {pair[1]} in the same memory, as .data does; training would "
            "part them: use one parameter in both places"
        )


def _overlapping(
    tensors: Mapping[str, torch.Tensor], trained: Collection[str]
) -> tuple[str, str] | None:
    """Return the names of a trained parameter and of another tensor that have numbers in common,
    if there are any.
    """
    places = []
    for name, tensor in tensors.items():
        extent = sum(
            (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        )
        if tensor.numel():
            places.append(
                (tensor.data_ptr(), tensor.data_ptr() + (extent + 1) * tensor.itemsize, name)
            )
    furthest = 0
    last = ""
    for begin, end, name in sorted(places):
        if begin < furthest and not {name, last}.isdisjoint(trained):
            return last, name
        furthest, last = max((furthest, last), (end, name))
    return None


def _check_shapes(blueprint: nn.Module, shape: tuple[int, ...], classes: int) -> None:
    """Check the shapes of the outputs of a module without numbers, unless it needs numbers to
    compute them.
    """
    with torch.no_grad(), torch.device("meta"):
        for mode in ("evaluation", "training"):
            try:
                returned = blueprint.train(mode == "training")(torch.empty(EXAMPLES, *shape))
            except Exception as error:
                if isinstance(error, NotImplementedError) or "meta" in str(error).lower():
                    return
                raise
            why = outputs.problem(returned, EXAMPLES, classes, mode)
            if why:
                raise CallableError(why)


def _check_outputs(network: Network, x: torch.Tensor, classes: int) -> None:
    """Check that outputs in evaluation are logits, the same each time, whatever examples are
    beside an example.
    """
    module = network.module.eval()
    held = Snapshot(module)
    with torch.no_grad():
        returned = module(x)
        again = module(x)
        alone = [module(example) for example in x.split(1)]
    for found, examples in ((returned, len(x)), (alone[0], 1)):
        why = outputs.problem(found, examples, classes)
        if why:
            raise CallableError(why)
    if returned.dtype != torch.float32:
        raise CallableError(
            f"returns {returned.dtype} {list(returned.shape)}; it must return torch.float32"
        )
    if not returned.isfinite().all():
        raise CallableError("returns outputs that are not finite, for examples between 0 and 1")
    if _gives_probabilities(network, x, returned):
        raise CallableError(
            "returns probabilities; it must return logits, so leave the softmax or sigmoid out"
        )
    either_sign = x - 0.5
    changed = either_sign.clone()
    with torch.no_grad(), suppress(Exception):  # it need not take negative numbers
        module(changed)
    if not torch.equal(changed, either_sign):
        raise CallableError(
            "changes its input in place, which other models would then see; copy it first"
        )
    if not torch.equal(returned, again):
        attributes = _changed(held, network)
        held.restore()
        with torch.no_grad():
            by_these = torch.equal(returned, module(x))
        why = _state(attributes if by_these else [], "in evaluation")
        raise CallableError(f"{why}: the same examples give others")
    if not torch.allclose(returned, torch.cat(alone), rtol=1e-3, atol=1e-4):
        raise CallableError(
            "gives an example another output when other examples are evaluated beside it"
        )


def _gives_probabilities(network: Network, x: torch.Tensor, returned: torch.Tensor) -> bool:
    """Return whether outputs sum to one, or a single one is between 0 and 1, whatever the
    parameters are.
    """
    start = network.weights()
    draws = torch.Generator().manual_seed(0)
    single = returned.shape[1] == 2 and not returned[:, 0].any()
    for _ in range(PARAMETERS):
        found = returned[:, 1:] if single else returned
        sums = torch.ones(()) if single else found.sum(dim=1)
        if not ((found >= 0) & (found <= 1)).all() or (sums - 1).abs().max() > ROUNDED:
            break
        scales = torch.randn(network.params.shape, generator=draws)
        network.params.mul_(2 * scales).add_(scales, alpha=0.1)
        with torch.no_grad():
            returned = network.module(x)
    else:
        return True
    network.load(start)
    return False


def _answer(
    network: Network, start: Weights, x: torch.Tensor, training: bool, seed: int = SEED
) -> torch.Tensor:
    """Return what the module with the weights ``start`` says of examples under a seed, in
    evaluation, or in a step of training.
    """
    network.load(start)
    network.reseed(seed)
    network.grads.zero_()
    with torch.set_grad_enabled(training):
        answer: torch.Tensor = network.module.train(training)(x)
    if training:
        labels = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        mean_cross_entropy(answer, labels).backward()
    return answer.detach().nan_to_num()


def _answers(
    network: Network, start: Weights, seen: torch.Tensor, times: int, x: torch.Tensor
) -> torch.Tensor:
    """Return what the module says of examples after it has ``seen`` others, and been told so many
    times.

    It leaves what it keeps of the last examples the same, whatever it has seen before.
    """
    for training in (True, False):
        _answer(network, start, seen[:2], training)
    answers = []
    for training in MODES:
        for _ in range(times):  # in the other mode, of which this one may remember something
            _answer(network, start, seen, not training)
        answers.append(_answer(network, start, x, training))
    return torch.stack([*answers, _answer(network, start, x, False)])


def _check_state(network: Network, start: Weights, before: Snapshot, x: torch.Tensor) -> None:
    """Check that the module says the same, and keeps the same, whether it has seen these examples
    before or others, and more of them.
    """
    module = network.module
    others = network.inputs(_examples(tuple(x.shape[1:]), len(x), seed=1))
    before.restore()
    answers = _answers(network, start, x, 1, x)
    _check_trained(network, before)
    kept = Snapshot(module)
    touched = _changed(before, network)
    before.restore()
    same = torch.equal(answers, _answers(network, start, others, 2, x))
    differing = _changed(kept, network) or ([] if same else touched)
    drawn = [name for name in differing if name in GENERATORS]
    if drawn:
        raise CallableError(
            f"draws random numbers from {drawn[0]} when it is called, which do not follow from the "
            "run's seed; draw them from torch"
        )
    if differing or not same:
        why = _state(differing, "that do not follow from torch's seed")
        if same:
            why += f' ({VOUCHED} = ("{differing[0]}",) in its class says that no output needs it)'
        raise CallableError(f"{why}: a client would depend on those that were trained before")


def _state(names: list[str], numbers: str) -> str:
    """Return the predicate for a module that keeps what has these names, or perhaps draws random
    ``numbers``.
    """
    if not names:
        return f"keeps state between calls, or draws random numbers {numbers}"
    return f"keeps state between calls, in {' and '.join(names[:SHOWN])}"


def _changed(before: Snapshot, network: Network) -> list[str]:
    """Return the names of what calls have changed, except modes, what each client begins with,
    and what the module's author vouches for.
    """
    left_out = {"training", *getattr(network.module, VOUCHED, ())}
    sent = {*network.layout.names, *own_values.running_buffers(network.module)}
    names = [name for name in before.changed(network.module) if name not in sent]
    return [name for name in shown(names) if left_out.isdisjoint((name, name.rpartition(".")[2]))]


def _check_trained(network: Network, before: Snapshot) -> None:
    """Check that calls have changed no array that is not sent, and not what is trained."""
    module = network.module
    changed = before.changed(module)
    parameters = dict(module.named_parameters())
    made = sorted(parameters.keys() - before.values.keys())
    if made:
        raise CallableError(
            f"makes {made[0]} when it is called, too late to be trained; make it in the constructor"
        )
    statistics = own_values.running_buffers(module).keys() | network.layout.names
    for name, array in (parameters | dict(module.named_buffers())).items():
        if name in changed and name not in statistics:
            kind = "frozen parameter" if isinstance(array, nn.Parameter) else "buffer"
            raise CallableError(
                f"keeps state between calls: training changes its {kind} {name}, which is no "
                "running statistic of one of torch's normalization layers and would be lost "
                "from round to round"
            )
    trained = [own_values.trained(module.train(mode)).keys() for mode in MODES]
    unsteady = sorted((trained[0] ^ trained[1]) | (trained[1] ^ {*network.layout.names}))
    if unsteady:
        raise CallableError(
            f"freezes or unfreezes {unsteady[0]} when it is trained or evaluated; what is "
            "trained must be the same throughout"
        )


def _check_alone(network: Network, start: Weights, x: torch.Tensor) -> None:
    """Check that in training, too, an example's output does not depend on those beside it."""
    together = _answer(network, start, x, True)
    alone = torch.cat([_answer(network, start, example, True) for example in x.split(1)])
    if not torch.allclose(together, alone, rtol=1e-3, atol=1e-4):
        raise CallableError(
            "gives an example another output in training when other examples are beside it, so "
            "that its gradient alone, which dp_sgd clips, is that of another function"
        )


def _check_reached(network: Network, start: Weights, x: torch.Tensor) -> None:
    """Check that a gradient reaches all that noise would move."""
    assert network.reached is not None  # a module of somebody else
    network.reached.zero_()
    for seed in range(DRAWS):  # some layers are left out at random
        _answer(network, start, x, True, seed)
    for name, view in network.layout.views(network.reached).items():
        if not view.any():
            raise CallableError(
                f"lets no gradient reach {name}, which noise would move all the same; freeze it "
                "(requires_grad_(False)), or leave it out"
            )


def _changed_training(run: Run, changes: Mapping[str, Any]) -> Run:
    config = run.training.config.model_copy(update=changes)
    return replace(run, training=replace(run.training, config=config))


def _federation(shape: tuple[int, ...], classes: int) -> Federation:
    """Return two clients with four examples and with three."""
    number = CLIENTS * EXAMPLES - 1
    x = _examples(shape, number)
    y = np.arange(number) % classes
    empty = Examples(x[:0], y[:0])
    zeros = np.zeros(number, np.float32)
    return Federation(
        name="examples",
        classes=classes,
        train=Examples(x, y),
        offsets=np.minimum(np.arange(CLIENTS + 1) * EXAMPLES, number),
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


def _examples(shape: tuple[int, ...], number: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).random((number, *shape), dtype=np.float32)
