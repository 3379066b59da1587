"""Analytic membership (after ProjRes, 2026): is an example in the row space of an update?

    U        W_k - W of the first trained layer [out, in], with its bias as one more column
    P        projector on the right singular vectors of U whose singular values count
    score    -|h - P h| / |h|,  h the layer's input for the example, with a 1 appended for the bias

A step of SGD adds -lr delta h^T to W for each example of the batch. So every row of U lies in the
span of what the client's own examples put into the layer, as long as nothing that is trained comes
before it. An example of the client has residual 0 after any number of steps, epochs and batches; an
example of nobody is outside, as long as the rank of U is below the number of inputs. The rank says
how many examples the client has. An example that is a linear combination of others is not told from
a member.

The same holds with momentum, learning-rate schedules, clipped gradients, other losses and FedProx.
With weight decay U is a multiple of W plus the span, so the rows of W are added to it. Noise of any
size on the update, and anything that scales coordinates apart, such as Adam, ends it.

    dense layer    h as it is, at every position (also LoRA's A, whose inputs are frozen)
    convolution    h are the image's patches, if they have more dimensions than there are outputs
    embedding      the share of an example's tokens whose row of the table has not changed

Source: ProjRes (arXiv 2604.21197) for the idea, whose hidden states are here the inputs of the
first trained layer. Source inference by the smallest residual is ours.

Differences from the paper: no threshold is set; members and non-members are compared as by every
attack here (`metrics.client_auc`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.columns import interval, null
from algorithms.core.messages import Doubles
from algorithms.core.metric import (
    MEMBERSHIP,
    RUN,
    SOURCE,
    Column,
    Metric,
    Number,
    PerClient,
    Risk,
    magnitude,
    rate,
    variant,
)
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from attacks import _queries
from attacks._queries import ComparedConfig, Queries, queries_of
from attacks.interfaces import Exposure, SeenRound, SeenUpdates, of_clients
from attacks.metrics import client_auc, disparity
from attacks.metrics.membership import NAN
from attacks.metrics.over_rounds import last_values
from attacks.sia import guesses
from datasets.federation import Federation, Floats, joined

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.utils.hooks import RemovableHandle

    from algorithms.core.network import Network

KINDS = ("updates",)
SEES = "updates"
LABEL = "span"
ASKS = "was this example trained on, and by whom?"
PAPERS = {"ProjRes": "https://arxiv.org/abs/2604.21197"}
TOLERANCE = 1e-5  # of the largest singular value, below which one is rounding in single precision
DIGITS = 4  # of a residual that count: the rest is rounding of weights in single precision
AT_ONCE = 256  # examples
SMALLEST = np.finfo(float).tiny


class Config(ComparedConfig):
    """Fields of the analytic attack."""

    center: ClassVar[str] = "none"  # of the queries (`_queries`): without references

    nonmembers: Literal["outside", "other_client"] = Field(
        "outside",
        description=(
            "what members are compared with: examples outside all training, or other clients' "
            "members"
        ),
    )
    weight_decay: Literal["auto", "yes", "no"] = Field(
        "auto",
        description="whether clients train with weight decay; auto: as base.training says",
    )


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` by what the clients' training does."""
    if config.weight_decay != "auto":
        return config
    decays = bool(getattr(run.training.config, "weight_decay", 0.0))
    return config.model_copy(update={"weight_decay": "yes" if decays else "no"})


def data_problems(config: Config, data: Federation) -> Problems:
    """List why the attack cannot be made on ``data``: (field, sentence) pairs."""
    return _queries.comparison_problems("span", config, data)


def model_problem(config: Config, network: Network, shape: tuple[int, ...]) -> str | None:
    """Say why the attack does not apply to a model, or None."""
    return first_layer(network, np.zeros((1, *shape), np.float32))[1]


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """The first layer that is trained.

    Attributes:
        weight: its name among the parameters.
        bias: that of its bias; None: it has none that is trained.
        module: the layer.
    """

    weight: str
    bias: str | None
    module: nn.Module

    @property
    def reads_tokens(self) -> bool:
        """Whether it is an embedding."""
        return type(self.module).__name__ == "Embedding"


def first_layer(network: Network, x: Floats) -> tuple[FirstLayer | None, str | None]:
    """Find the layer of a network that trained parameters enter first, by a pass of ``x``
    [1, ...]; or say why the attack does not apply to it.
    """
    from torch import nn

    trained = set(network.layout.names)
    entered: list[tuple[str, nn.Module]] = []

    def watch(name: str, module: nn.Module) -> RemovableHandle:
        def enter(*_: Any) -> None:
            entered.append((name, module))

        return module.register_forward_pre_hook(enter)

    handles = []
    for name, module in network.module.named_modules():
        own = [f"{name}.{part}".lstrip(".") for part, _ in module.named_parameters(recurse=False)]
        if trained.intersection(own):
            handles.append(watch(name, module))
    try:
        network.logits(x)
    finally:
        for handle in handles:
            handle.remove()
    if not entered:
        return None, "span reads the update of a layer, and no layer of this model is called"
    name, module = entered[0]
    weight = f"{name}.weight".lstrip(".")
    kind = type(module).__name__
    if not isinstance(module, nn.Linear | nn.Conv2d | nn.Embedding) or weight not in trained:
        return None, (
            f"span reads the update of a dense layer, a convolution or an embedding, and the first "
            f"layer that is trained is {name or 'the model'} ({kind})"
        )
    if isinstance(module, nn.Conv2d):
        inputs = module.weight[0].numel() + (module.bias is not None)
        if module.groups > 1 or module.out_channels >= inputs:
            return None, (
                f"span tells examples apart where a layer has more inputs than outputs, and "
                f"{name} ({kind}) has {inputs} inputs a patch and {module.out_channels} outputs"
            )
    bias = f"{name}.bias".lstrip(".")
    return FirstLayer(weight, bias if bias in trained else None, module), None


def observe(config: Config, seen: SeenUpdates) -> dict[str, Doubles]:
    """Project all examples on the row space of every client's update.

    Returns:
        ``residual`` [c, examples] from 0 to 1, in the order of `Queries`, and ``rank`` [c].
    """
    queries = queries_of(config, seen.data, seen.stream)
    examples = joined([seen.data.train[queries.members.ravel()], queries.outside])
    residual = np.ones((len(seen.clients), len(examples)))
    rank = np.zeros(len(seen.clients))
    for j in np.unique(seen.assignment):
        seen.network.load(seen.sent[j])
        layer, _ = first_layer(seen.network, examples.x[:1])
        if layer is None:
            continue
        who = np.flatnonzero(seen.assignment == j)
        before = _matrix(layer, seen.network, seen.sent[j].params)
        spaces = []
        for i in who:
            update = _matrix(layer, seen.network, seen.params[i]) - before
            beside = before if config.weight_decay == "yes" else before[:0]
            spaces.append(row_space(update, beside, coordinates=layer.reads_tokens))
            rank[i] = len(spaces[-1])
        for at in range(0, len(examples), AT_ONCE):
            inputs = layer_inputs(layer, seen.network, examples.x[at : at + AT_ONCE])
            for i, space in zip(who, spaces, strict=True):
                residual[i, at : at + AT_ONCE] = residuals(inputs, space)
    return {"residual": residual, "rank": rank}


def row_space(update: Doubles, beside: Doubles, coordinates: bool = False) -> Doubles:
    """Return an orthonormal basis [rank, d] of the rows of an update [rows, d] and of those
    ``beside`` it.

    With ``coordinates`` it is that of all coordinates in which a row is not zero. An update that is
    not finite has none.

    >>> abs(row_space(np.array([[3.0, 0, 0], [6.0, 0, 0]]), np.empty((0, 3)))).round(6).tolist()
    [[1.0, 0.0, 0.0]]
    """
    rows = np.concatenate([update, beside])
    if not np.isfinite(rows).all():
        return rows[:0]
    if coordinates:
        return np.eye(rows.shape[1])[rows.any(axis=0)]
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return directions[sizes > TOLERANCE * sizes.max(initial=np.finfo(float).tiny)]


def residuals(inputs: Doubles, space: Doubles) -> Doubles:
    """Compute what of inputs [n, positions, d] is outside a `row_space` [rank, d], as a share of
    their length, [n].

    >>> one_step = row_space(np.array([[1.0, 0, 0], [2.0, -1, 0]]), np.empty((0, 3)))
    >>> residuals(np.array([[[0.0, 1, 0]], [[0.0, 0, 1]], [[1.0, 1, 0]]]), one_step).round(6).tolist()
    [0.0, 1.0, 0.0]
    """
    outside = inputs - (inputs @ space.T) @ space
    lengths = np.sqrt(np.square(inputs).sum(axis=(1, 2)))
    return np.sqrt(np.square(outside).sum(axis=(1, 2))) / np.maximum(lengths, SMALLEST)


def layer_inputs(layer: FirstLayer, network: Network, x: Floats) -> Doubles:
    """Compute what examples [n, ...] put into the layer, [n, positions, d]: rows, patches of an
    image, or tokens as unit vectors; with a 1 appended for the bias.
    """
    import torch
    from torch import nn

    entered: list[torch.Tensor] = []

    def keep(_: nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        entered.append(arguments[0].detach())

    handle = layer.module.register_forward_pre_hook(keep)
    try:
        network.logits(x)
    finally:
        handle.remove()
    tensor = torch.cat(entered)
    module = layer.module
    if isinstance(module, nn.Conv2d):
        padding = module.padding if not isinstance(module.padding, str) else 0
        rows = nn.functional.unfold(
            tensor.contiguous(), module.kernel_size, module.dilation, padding, module.stride
        ).movedim(1, 2)
    elif isinstance(module, nn.Embedding):
        rows = nn.functional.one_hot(tensor.flatten(1), module.num_embeddings)
    else:
        rows = tensor.reshape(len(tensor), -1, tensor.shape[-1])
    inputs: Doubles = rows.double().cpu().numpy()
    if layer.bias is None:
        return inputs
    return np.concatenate([inputs, np.ones((*inputs.shape[:2], 1))], axis=2)


def _matrix(layer: FirstLayer, network: Network, params: Floats) -> Doubles:
    """The layer's weights [rows, d] among parameters, with the bias as the last column."""
    from algorithms.core.network import as_tensor

    views = network.layout.views(as_tensor(params).cpu())
    weight = views[layer.weight].double()
    rows = weight.T if layer.reads_tokens else weight.flatten(1)
    matrix: Doubles = rows.numpy()
    if layer.bias is None:
        return matrix
    return np.concatenate([matrix, views[layer.bias].double().numpy()[:, None]], axis=1)


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Add the round to earlier ones, and compare the residuals of every client's members and
    non-members by its own updates; members are also traced to the client with the smallest.
    """
    queries = queries_of(config, seen.data, seen.stream)
    sums = {name: array.copy() for name, array in seen.kept.items()}
    if not sums:
        sums = {
            "rounds": np.zeros(seen.data.clients, np.int64),
            "residual": np.zeros((seen.data.clients, len(queries.labels))),
            "rank": np.zeros(seen.data.clients),
        }
    sums["rounds"][seen.clients] += 1
    sums["residual"][seen.clients] += seen.observed["residual"]
    sums["rank"][seen.clients] = seen.observed["rank"]
    return _exposure(queries, sums)


def _exposure(queries: Queries, sums: dict[str, NDArray[Any]]) -> Exposure:
    """Compute the attack's result from the sums over the attacked rounds."""
    clients = np.flatnonzero(sums["rounds"])
    n = queries.members.shape[1]
    mean = sums["residual"][clients] / sums["rounds"][clients, None]
    numbers = queries.numbers[clients]
    scores = -np.take_along_axis(mean, numbers, axis=1).round(DIGITS)
    labels = queries.labels[numbers]
    aucs = client_auc.measure(scores[:, :n], scores[:, n:], queries.examples[clients], labels)
    traced = guesses(mean[:, numbers[:, :n]]) == np.arange(len(clients))[:, None]
    columns = np.full((len(COLUMNS), len(sums["rounds"])), NAN)
    rank = sums["rank"][clients]
    columns[:, clients] = [aucs.auc, aucs.low, aucs.high, traced.mean(axis=1), rank]
    low, high = map(float, disparity.wilson(traced.sum(), traced.size))
    auc = Number("span_auc", aucs.mean, RUN, aucs.mean_low, aucs.mean_high)
    sia = Number("span_sia", float(traced.mean()), RUN, low, high, chance=1 / len(clients))
    every = variant("clients")
    measures = [replace(auc, of=every, chance=0.5), replace(sia, of=every)]
    value, *ends = columns[:3, clients]
    measures += of_clients("span_auc", clients, value, ends, 0.5)
    return Exposure(
        (auc, sia, Number("span_rank", float(rank.mean()))),
        dict(zip(COLUMNS, columns, strict=True)),
        tuple(measures),
        kept=sums,
    )


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return every metric as it was after the last attacked round, whose scores are means over
    all of them.
    """
    return last_values(outcome, METRICS)


# What tables and sentences say

COLUMNS = (*interval("span_auc"), "span_sia", "span_rank")

METRICS: tuple[Metric, ...] = (
    rate(
        "span_auc",
        MEMBERSHIP,
        "AUC of the span of updates",
        "lower",
        live=1,
        table=Column(1, "AUC by\nspan"),
        chance=0.5,
        risk=Risk(
            "Who sees the updates tells their clients' training examples from others by linear "
            "algebra, with AUC",
            10,
        ),
        clients=PerClient(
            "Span of each client's updates, AUC",
            low=interval("span_auc")[1],
            high=interval("span_auc")[2],
            interval="95 % interval over one run's examples",
        ),
        ends=True,
    ),
    rate(
        "span_sia",
        SOURCE,
        "examples traced by span",
        "lower",
        table=Column(4, "traced\nby span"),
        chance=null("span_sia"),
        ends=True,
    ),
    magnitude(
        "span_rank",
        MEMBERSHIP,
        "rank of a client's update",
        None,
        "",
        digits=1,
    ),
)
