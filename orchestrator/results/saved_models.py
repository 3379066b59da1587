"""The models that a trial left, as torch modules with their weights, on the CPU and in
evaluation mode.

``model.safetensors`` holds what training changes, and what a module's ``state_dict`` holds besides.
The rest is the module's own: constants, layers that share an array, whatever a constructor
computes. So the module is built as the trial built it (`algorithms.core.own_values` for a module of
somebody else), and what was saved is loaded into it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from algorithms.interfaces import ModelContract
from datasets.components import Component, components
from orchestrator.config.document import parsed
from orchestrator.config.errors import ConfigError, refusal, unknown_name, validate
from orchestrator.results.log import DamageError, read_manifest
from orchestrator.results.paths import TrialFolder
from orchestrator.results.record import Built, is_record

if TYPE_CHECKING:
    import torch
    from torch import nn

MODELS = "algorithms.models"


def saved_models(folder: TrialFolder) -> dict[str, nn.Module]:
    """The trained models of a trial by group; empty if it has saved none.

    Raises:
        ConfigError: they are not what the trial saved, or cannot be built again; the sentence says
            why.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        manifest = read_manifest(folder.path, folder.id, is_record)
        if folder.model.name not in manifest.parts:
            return {}
        content = manifest.read(folder.model.name)
        config = manifest.read(folder.config.name)
    except FileNotFoundError:
        return {}
    except DamageError as error:
        raise refusal(f"{error}; the same `fedpriv run` runs the trial again") from error
    arrays: dict[str, dict[str, torch.Tensor]] = {}
    try:
        for key, array in load(content).items():
            group, _, parameter = key.partition(".")
            arrays.setdefault(group, {})[parameter] = array
        fields = dict(parsed(config)["model"])
        name = fields.pop("name")
        takes = manifest.facts["model"]
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise refusal(
            f"{folder.model} is not what a trial saves: {type(error).__name__}"
        ) from error
    if name not in components(MODELS):
        raise refusal(
            unknown_name(
                f"no model {name!r}, of trial {manifest.owner}", str(name), components(MODELS)
            )
        )
    settings, problems = validate(components(MODELS)[name].Config, fields)
    if problems:
        raise ConfigError(problem.under("model") for problem in problems)
    model: Component[ModelContract, Any] = Component(name, settings, MODELS)
    return {
        group: _loaded(manifest.owner, model, takes, of_group) for group, of_group in arrays.items()
    }


def _loaded(
    trial: str, model: Component[ModelContract, Any], takes: Built, arrays: dict[str, torch.Tensor]
) -> nn.Module:
    """A model with its arrays by name, built for what it ``takes``. Raises ConfigError."""
    import torch

    from algorithms.core import own_values
    from datasets.origins import message_of

    try:
        make = partial(model.module.build, model.config, tuple(takes["shape"]), takes["classes"])
        with torch.random.fork_rng(devices=[]):
            values = model.module.OWN_VALUES  # the values that every process of the trial agreed on
            module = (
                own_values.build(make, tuple(takes["shape"]), own_values.FIXED)
                if values
                else make()
            )
        module.load_state_dict(arrays)
    except Exception as error:  # somebody else's code, perhaps no longer what it was
        sentence = (
            f"the model of trial {trial}, {model.title}, is not what it was when it was trained"
        )
        raise refusal(f"{sentence}: {message_of(error)}") from error
    module.eval()  # and then as a trial computes, so that the bits are the same
    as_it_is = values or getattr(model.module, "outside", None)
    return module if as_it_is else module.to(memory_format=torch.channels_last)
