"""The models that a trial left, as torch modules with their weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.components import Component, components
from datasets.federation import DataError
from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name, validate
from orchestrator.config.slots import SLOTS
from orchestrator.config.sweep_file import DATA_ROOT, DATA_VARIABLE
from orchestrator.report.data import Results
from orchestrator.results.folder import Folder, TrialFolder
from orchestrator.results.record import read_record

if TYPE_CHECKING:
    import torch
    from torch import nn


def trained_model(read: Results, trial: str | None, group: str | None) -> nn.Module:
    """Build a trial's model on the CPU, load its final weights, and put it in evaluation mode.

    Args:
        read: the results.
        trial: the trial's id, or a beginning of it that no other has; None: the only trial.
        group: which of the trial's models, such as "minority"; None: the only one.

    Raises:
        ConfigError: there is no such trial or model, or the trial has not finished.
    """
    from safetensors.torch import load_file

    folder = Folder(read.folder).trial(find_trial(read, trial))
    if not folder.model.is_file():
        status = next(one["status"] for one in read.trials if one["id"] == folder.id)
        raise _refused(f"trial {folder.id} has no saved model; its status is {status}", "trial")
    arrays = _of_group(load_file(folder.model), group, folder.id)
    module = _build(read, folder)
    module.load_state_dict(arrays)
    return module.eval()


def find_trial(read: Results, trial: str | None) -> str:
    """The id of the trial that was named. Raises ConfigError if there is none, or more than one."""
    ids = [one["id"] for one in read.trials]
    if trial is None and len(ids) == 1:
        return str(ids[0])
    found = [ident for ident in ids if trial is not None and str(ident).startswith(str(trial))]
    if str(trial) in ids or len(found) == 1:
        return str(trial) if str(trial) in ids else str(found[0])
    if trial is None or found:
        which = ", ".join(map(str, (found or ids)[:8])) + (", ..." if len(found or ids) > 8 else "")
        raise _refused(f"name one of the {len(found or ids)} trials by its id, as in Results.trials: {which}", "trial")
    raise _refused(unknown_name(f"{read.name} has no trial {str(trial)!r}", str(trial), map(str, ids)), "trial")


def _of_group(saved: Mapping[str, torch.Tensor], group: str | None, trial: str) -> dict[str, torch.Tensor]:
    """The arrays of one model by their names in the module; they are saved as ``<model>.<array>``."""
    names = list(dict.fromkeys(name.partition(".")[0] for name in saved))
    if group is None and len(names) == 1:
        group = names[0]
    if group is None:
        raise _refused(f"trial {trial} has the models {', '.join(names)}; name one of them", "group")
    if group not in names:
        raise _refused(unknown_name(f"trial {trial} has no model {group!r}", str(group), names), "group")
    return {name.partition(".")[2]: array for name, array in saved.items() if name.partition(".")[0] == group}


def _build(read: Results, folder: TrialFolder) -> nn.Module:
    """The module of a trial's slot ``model``, with whatever weights it is built with."""
    config = read.configs[folder.id]
    record: dict[str, Any] = read_record(folder) or {}
    if held := record.get("model"):
        shape, classes = tuple(held["shape"]), held["classes"]
    else:  # results of an earlier version do not say it
        shape, classes = _of_data(read, config["data"])
    model = _component("model", config["model"])
    module: nn.Module = model.module.build(model.config, shape, classes)
    return module


def _component(slot: str, held: Mapping[str, Any]) -> Component[Any, Any]:
    """The component that the resolved run ``held`` has in a slot."""
    folder = next(one.folder for one in SLOTS if one.key == slot)
    fields = {name: value for name, value in held.items() if name not in ("name", "split")}
    if held["name"] not in components(folder):
        raise _refused(
            unknown_name(f"the component {held['name']!r} is not here", held["name"], components(folder)), slot
        )
    config, problems = validate(components(folder)[held["name"]].Config, fields)
    if problems:
        raise ConfigError(problem.under(slot) for problem in problems)
    return Component(held["name"], config, folder)


def _of_data(read: Results, held: Mapping[str, Any]) -> tuple[tuple[int, ...], int]:
    """The shape of an example and the number of classes, from the data set itself."""
    data = _component("data", held)
    try:
        source = data.module.load(data.config, Path(os.environ.get(DATA_VARIABLE) or DATA_ROOT).expanduser(), False)
    except DataError as error:
        sentence = f"{read.folder} does not say what its models take, and the data to find it out are not here: {error}"
        raise _refused(sentence, "trial") from error
    return source.train.x.shape[1:], source.classes


def _refused(sentence: str, argument: str) -> ConfigError:
    return ConfigError([ConfigProblem(sentence, file=argument)])
