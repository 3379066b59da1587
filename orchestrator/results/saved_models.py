"""The models that a trial left, as torch modules with their weights, on the CPU and in evaluation mode.

``model.safetensors`` holds what training changes, and what a module's ``state_dict`` holds besides. The rest is the
module's own: constants, layers that share an array, whatever a constructor computes. So the module is built as the trial
built it (`algorithms.core.own_values` for a module of somebody else), and what was saved is loaded into it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from algorithms.interfaces import ModelContract
from datasets.components import Component, components
from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name, validate
from orchestrator.results.log import DamageError, read_manifest
from orchestrator.results.paths import TrialFolder
from orchestrator.results.record import read_record

if TYPE_CHECKING:
    import torch
    from torch import nn

MODELS = "algorithms.models"


@dataclass(frozen=True)
class Takes:
    """What a model takes and gives.

    Attributes:
        shape: shape of one example.
        classes: number of labels.
    """

    shape: tuple[int, ...]
    classes: int


def taken(folder: TrialFolder) -> Takes:
    """What the models of a trial take, from its record."""
    model = (read_record(folder) or {})["model"]
    return Takes(tuple(model["shape"]), model["classes"])


def saved_arrays(folder: TrialFolder) -> dict[str, dict[str, torch.Tensor]]:
    """The saved arrays of each model of a trial by their names in the module; empty if it has saved none.

    Raises:
        ConfigError: the trial's models are not what the trial saved.
    """
    from safetensors.torch import load

    try:
        manifest = read_manifest(folder.path, folder.id)
        content = manifest.read(folder.model.name) if folder.model.name in manifest.parts else None
    except FileNotFoundError:
        content = None
    except DamageError as error:
        raise _refused(f"{error}; the same `fedpriv run` runs the trial again") from error
    arrays: dict[str, dict[str, torch.Tensor]] = {}
    for key, array in load(content).items() if content is not None else ():
        group, _, name = key.partition(".")
        arrays.setdefault(group, {})[name] = array
    return arrays


def saved_models(folder: TrialFolder) -> dict[str, nn.Module]:
    """The trained models of a trial by group; empty if it has saved none.

    Raises:
        ConfigError: they cannot be built again; the sentence says why.
    """
    return {group: loaded_model(folder, taken(folder), arrays) for group, arrays in saved_arrays(folder).items()}


def loaded_model(folder: TrialFolder, takes: Takes, arrays: dict[str, torch.Tensor]) -> nn.Module:
    """Return a model of a trial with its weights.

    Raises:
        ConfigError: it cannot be built again; the sentence says why.
    """
    import torch

    from algorithms.models._callables import CallableError, said

    model = _component(folder)
    try:
        module = _built(model, takes)
        module.load_state_dict(arrays)
    except CallableError as error:
        raise _refused(f"the model of trial {folder.id}, {model.title}, {error}") from error
    except Exception as error:  # somebody else's code, perhaps no longer what it was
        sentence = (
            f"the model of trial {folder.id}, {model.title}, is not what it was when it was trained: {said(error)}"
        )
        raise _refused(sentence) from error
    return module.eval().to(memory_format=torch.channels_last)  # as a trial computes, so that the bits are the same


def _built(model: Component[ModelContract, Any], takes: Takes) -> nn.Module:
    """The module with the values that every process of the trial agreed on; torch's generator is left as it was."""
    import torch

    from algorithms.core import own_values

    make: Callable[[], nn.Module] = partial(model.module.build, model.config, takes.shape, takes.classes)
    if model.module.OWN_VALUES:
        return own_values.build(make, takes.shape, own_values.FIXED)
    with torch.random.fork_rng(devices=[]):
        return make()


def _component(folder: TrialFolder) -> Component[ModelContract, Any]:
    import yaml

    fields: dict[str, Any] = dict(yaml.safe_load(folder.config.read_text())["model"])
    name = fields.pop("name")
    if name not in components(MODELS):
        raise _refused(unknown_name(f"the model {name!r} of trial {folder.id} is not here", name, components(MODELS)))
    config, problems = validate(components(MODELS)[name].Config, fields)
    if problems:
        raise ConfigError(problem.under("model") for problem in problems)
    return Component(name, config, MODELS)


def _refused(sentence: str) -> ConfigError:
    return ConfigError([ConfigProblem(sentence)])
