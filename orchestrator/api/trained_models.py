"""The models that a trial left, as torch modules with their weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orchestrator.config.errors import ConfigError, ConfigProblem, unknown_name
from orchestrator.report.data import Results
from orchestrator.results.paths import Folder
from orchestrator.results.saved_models import loaded_model, saved_arrays, taken

if TYPE_CHECKING:
    import torch
    from torch import nn

SOURCES = "datasets.sources"


def trained_model(read: Results, trial: str | None, group: str | None) -> nn.Module:
    """Build a trial's model on the CPU, load its final weights, and put it in evaluation mode.

    Args:
        read: the results.
        trial: the trial's id, or a beginning of it that no other has; None: the only trial.
        group: which of the trial's models, such as "minority"; None: the only one.

    Raises:
        ConfigError: there is no such trial or model, the trial has not finished, or its module cannot be built here.
    """
    folder = Folder(read.folder).trial(find_trial(read, trial))
    saved = saved_arrays(folder)
    if not saved:
        status = next(one["status"] for one in read.trials if one["id"] == folder.id)
        raise _refused(f"trial {folder.id} has no saved model; its status is {status}", "trial")
    arrays = _of_group(saved, group, folder.id)
    return loaded_model(folder, taken(folder), arrays)


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


def _of_group(saved: Mapping[str, dict[str, torch.Tensor]], group: str | None, trial: str) -> dict[str, torch.Tensor]:
    """The arrays of one model."""
    if group is None and len(saved) == 1:
        (group,) = saved
    if group is None:
        raise _refused(f"trial {trial} has the models {', '.join(saved)}; name one of them", "group")
    if group not in saved:
        raise _refused(unknown_name(f"trial {trial} has no model {group!r}", str(group), saved), "group")
    return saved[group]


def _refused(sentence: str, argument: str) -> ConfigError:
    return ConfigError([ConfigProblem(sentence, file=argument)])
