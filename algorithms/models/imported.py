"""A model from anywhere: a callable that returns a torch module, named by a dotted path such as
mypkg.nets:Net.

In a sweep file, ``model: mypkg.nets:Net`` or ``model: {name: "mypkg.nets:Net", args: {width: 32}}``
is short for ``model: {name: imported, callable: "mypkg.nets:Net", args: {width: 32}}``.
``torchvision:resnet18`` and, where timm is installed, ``timm:vit_tiny_patch16_224`` name models of
these libraries.

The initial values are the module's own (`algorithms.core.own_values`). Number of classes and shape
of an example are passed where the signature has a parameter for them: ``num_classes``, ``classes``
or ``n_classes``; ``shape`` or ``input_shape``; ``in_channels`` or ``in_chans`` (the first entry of
the shape); ``in_features`` (its product). docs/own_model.md says what is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field, JsonValue

from algorithms.interfaces import Problems, Run
from algorithms.models import _callables
from datasets.components import Config as SlotConfig

if TYPE_CHECKING:
    from torch import nn

# What `declarations` replaces: a module tells what it is made of.
CONVOLUTIONAL = False
BATCH_NORM = False
OWN_VALUES = True


class Config(SlotConfig):
    """Which callable, and its arguments."""

    # An example of what a callable looks like; it fits all data.
    callable: str = Field(
        "algorithms.models._linear:linear",
        min_length=3,
        max_length=500,
        description="module, colon and name of a class or function that returns a torch module",
    )
    args: dict[str, JsonValue] = Field(
        {}, description="keyword arguments of the call, beside shape and classes"
    )


def declarations(config: Config) -> Mapping[str, Any]:
    """Return what the module is made of, as far as it can be built before the data are known."""
    return _facts_of(config)[0]


def problems(config: Config, run: Run) -> Problems:
    """Refuse a path that names no callable, and arguments that it does not take."""
    try:
        _callables.maker(
            config.callable,
            config.args,
            (1, 1, 1),
            2,
        )
    except _callables.CallableError as error:
        return [(error.field, f"{config.callable} {error}")]
    return []


def build(
    config: Config,
    shape: tuple[int, ...],
    classes: int,
) -> nn.Module:
    """Call the callable; `algorithms.core.own_values` refuses what is no module."""
    from algorithms.models import _facts

    module: nn.Module = _facts.made(
        config.callable,
        config.args,
        shape,
        classes,
    )
    return module


def remark(config: Config, run: Run) -> str | None:
    """Return how many clients train at once, and why not more."""
    constants, no_vmap = _facts_of(config)
    if "RAW" not in constants or run.training.module.PRIVATE_STEPS:
        return None
    training: Any = run.training.config  # that of local SGD, the only one without private steps
    if training.backend == "vmap":
        return f"model {config.callable}: the clients of a block train all at once (backend vmap)"
    reason = f", because {no_vmap}" if no_vmap else ""
    return (
        f"model {config.callable}: the clients of a block train one after another (backend "
        f"loop){reason}"
    )


def _facts_of(config: Config) -> tuple[dict[str, Any], str]:
    """What the module is made of; where it cannot be built yet, `problems` or `engine.own_model`
    say why.
    """
    from algorithms.models import _facts

    try:
        return _facts.of(config.callable, json.dumps(config.args, sort_keys=True))
    except (Exception, SystemExit):
        return {"VMAP": False}, ""
