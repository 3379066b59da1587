"""What a module that somebody else wrote is made of, found by building it before the data are
known.

Where the signature asks for the shape of an example, usual shapes are tried until the module can be
built: what it is made of rarely depends on it. `algorithms.engine.own_model` tries the module again
with the true shape.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from algorithms.core import outputs, own_values
from algorithms.core.gradients import IGNORED, mean_cross_entropy
from algorithms.core.layout import Layout, layout_of
from algorithms.models import _callables
from datasets.components import remembered
from datasets.origins import message_of

SHAPES = ((3, 32, 32), (1, 28, 28), (16,), (3, 224, 224), (9, 128), (1, 8, 8))
CLASSES = 7
# parameters of a module that is made to be tried; of a larger one, only shapes are looked at
MOST_TRIED = 50_000_000
APART = (
    "takes another step when many clients train at once (gradient hooks, parameters that it keeps "
    "elsewhere, or statistics of a batch)"
)
ROUNDED = 0.02  # share of a step that rounding may change, in half precision
TINY = 1e-7  # length of a step that is only rounding


@remembered
def of(path: str, args: str) -> tuple[dict[str, Any], str]:
    """Return the constants of `ModelContract` for the module that ``path`` builds with ``args``,
    JSON of a map.

    The second value says why many clients cannot train it at once, as a clause after "because";
    empty if they can.

    Raises:
        Exception: it could not be found or built; nothing is remembered of it.
    """
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        module = _built(path, json.loads(args))
        x = _accepted(module)
        convolutional = any(isinstance(part, nn.modules.conv._ConvNd) for part in module.modules())
        random = x is not None and not x.is_meta and _draws(module, x)
        if random:
            no_vmap = "it draws random numbers (dropout)"
        elif normalizes(module):
            no_vmap = "it has batch normalization"
        elif convolutional:
            no_vmap = "that is faster for convolutions"
        elif x is None:
            no_vmap = "the shape of its inputs is not known before the data are"
        else:
            no_vmap = _vmap_failure(module, x)
    constants = {"CONVOLUTIONAL": convolutional, "BATCH_NORM": normalizes(module), "RANDOM": random}
    return constants | {"RAW": raw_parameters(module), "VMAP": not no_vmap}, no_vmap


def made(
    path: str,
    args: Mapping[str, Any],
    shape: tuple[int, ...],
    classes: int,
) -> Any:
    """Call what ``path`` names; a module then returns logits if it has them in another form
    (`algorithms.core.outputs`).
    """
    module = _callables.maker(path, args, shape, classes)()
    # The other form of torch's own containers can only be a single logit. Without hooks, the
    # curvature knows them.
    if isinstance(module, nn.Module) and (classes == 2 or type(module) is not nn.Sequential):
        outputs.give_logits(module, classes)
    return module


def normalizes(module: nn.Module) -> bool:
    """Return whether a layer mixes the examples of a batch, or keeps running statistics of them."""
    layers = (part for part in module.modules() if isinstance(part, _NormBase))
    return any(isinstance(layer, _BatchNorm) or layer.track_running_stats for layer in layers)


def raw_parameters(module: nn.Module) -> tuple[str, ...]:
    """Return the names of the parameters of several dimensions that are no layer's weight."""
    arrays = own_values.trained(module).items()
    return tuple(
        name
        for name, array in arrays
        if array.dim() > 1 and "weight" not in name.rpartition(".")[2]
    )


def _built(path: str, args: dict[str, Any]) -> nn.Module:
    """Build the module for the first shape that it can be built for; without numbers if it is
    large.
    """
    shapes = SHAPES if _callables.asks_for_shape(path) else SHAPES[:1]
    for shape in shapes:
        make = partial(made, path, args, shape, CLASSES)
        if (own_values.elements(make) or 0) > MOST_TRIED and (module := own_values.blueprint(make)):
            return module
        try:
            return own_values.build(make, shape, own_values.FIXED)
        except Exception:
            if shape == shapes[-1]:
                raise
    raise AssertionError("there are shapes")


def _accepted(module: nn.Module) -> torch.Tensor | None:
    """Return two examples that the module accepts; None if no usual shape fits."""
    # meta, if it has no numbers
    device = next((array.device for array in module.parameters()), torch.device("cpu"))
    first = [(part.in_features,) for part in module.modules() if isinstance(part, nn.Linear)][:1]
    for shape in (*first, *SHAPES):
        x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)).to(device)
        try:
            with torch.no_grad():
                returned = [module.train(mode)(x) for mode in (False, True)]
        except (Exception, SystemExit):  # noqa: S112
            continue
        if all(isinstance(one, torch.Tensor) and one.dim() == len(one) == 2 for one in returned):
            return x
    return None


def _draws(module: nn.Module, x: torch.Tensor) -> bool:
    """Return whether a forward pass in training differs with torch's generator, and with that
    alone.
    """
    returned = []
    with torch.no_grad():
        for seed in (0, 0, 1):
            torch.default_generator.manual_seed(seed)
            returned.append(module.train()(x))
    first, again, other = returned
    return torch.equal(first, again) and not torch.equal(first, other)


def _vmap_failure(module: nn.Module, x: torch.Tensor) -> str:
    """Return why a step of two clients cannot be taken at once, as one after the other takes it;
    an empty string if it can.

    The second client has other parameters, and one example less.
    """
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            parameters = own_values.trained(module)
            layout = layout_of(parameters, channels_last=False)
            flat = torch.cat([array.detach().flatten() for array in parameters.values()])
            clients = torch.stack([flat, flat * 0.9])
            together = _at_once(module, layout, clients, x)
            same = x.is_meta or not apart(together, _one_by_one(module, layout, clients, x))
    except Exception as error:
        return f"torch.func.vmap cannot handle it ({message_of(error)})"
    if any("batching rule" in str(warning.message) for warning in warned):
        return "torch has layers of it in no form for many clients at once"
    return "" if same else f"it {APART}"


def apart(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether gradients or steps of clients [clients, d] differ by more than rounding."""
    rounding = ROUNDED * one.norm(dim=1) + TINY
    return bool(((one - other).norm(dim=1) > rounding).any())


def _at_once(
    module: nn.Module, layout: Layout, clients: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """Return the gradients [clients, d] of two clients as `engine.backends.vmap` takes them."""
    moving = clients.clone().requires_grad_()
    y = torch.tensor([[0, 0], [0, IGNORED]], device=x.device)

    def loss(
        arrays: dict[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        return mean_cross_entropy(functional_call(module, arrays, (inputs,)), labels)

    losses = torch.func.vmap(loss, randomness="error")(layout.views(moving), torch.stack([x, x]), y)
    (gradients,) = torch.autograd.grad(losses.sum(), moving)
    return gradients


def _one_by_one(
    module: nn.Module, layout: Layout, clients: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """Return the same gradients as `engine.backends.loop` takes them."""
    gradients = torch.zeros_like(clients)
    for client, gradient, inputs in zip(clients, gradients, (x, x[:1]), strict=True):
        values = layout.views(client)
        views = layout.views(gradient)
        for name, array in own_values.trained(module).items():
            array.data.copy_(values[name])
            array.grad = views[name]
        labels = torch.zeros(len(inputs), dtype=torch.int64)
        mean_cross_entropy(module(inputs), labels).backward()
    return gradients
