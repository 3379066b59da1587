"""The models that a trial left, as torch modules with their weights; those of own code, which runs only where it is named."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from datasets.components import components
from orchestrator.config.errors import ConfigError, ConfigProblem, format_value, unknown_name
from orchestrator.config.own_code import install, own_paths
from orchestrator.report.data import Results
from orchestrator.results.paths import Folder
from orchestrator.results.saved_models import saved_models

if TYPE_CHECKING:
    from torch import nn

Code: TypeAlias = "str | PathLike[str] | Sequence[str | PathLike[str]]"

LIBRARIES = ("torchvision", "timm")
HINT = (
    "the model is of own code, which is run only where it is named: fedpriv.load(folder, code=...) takes the files and "
    "folders that code: of the sweep file names"
)


def code_paths(code: Code) -> tuple[Path, ...]:
    """The absolute paths of own code. Raises ConfigError if it is no path and no list of paths."""
    try:
        names = [fspath(code)] if isinstance(code, str | PathLike) else [fspath(one) for one in code]
    except TypeError:
        raise _refusal(f"must be a path, or a list of paths, got {format_value(code)}", "code") from None
    return own_paths(Path.cwd(), names)


def install_code(code: Sequence[Path]) -> None:
    """Make own code importable in this process; without any, what is installed stays. Raises ConfigError."""
    if problems := install(code) if code else []:
        raise ConfigError(ConfigProblem(sentence, file="code") for sentence in problems)


def trained_model(read: Results, trial: str | None, group: str | None, code: Sequence[Path]) -> nn.Module:
    """Build a trial's model on the CPU, load its final weights, and put it in evaluation mode.

    Args:
        read: the results.
        trial: the trial's id, or a beginning of it that no other has; None: the only trial.
        group: which of the trial's models, such as "minority"; None: the only one.
        code: absolute paths of own code, which is installed.

    Raises:
        ConfigError: there is no such trial or model, the trial has not finished, or its module cannot be built here.
    """
    ident = find_trial(read, trial)
    install_code(code)
    model = read.configs.get(ident, {}).get("model", {})
    path = str(model.get("callable", "")).partition(":")[0].partition(".")[0]
    try:
        saved = saved_models(Folder(read.folder).trial(ident))
    except ConfigError as refusal:
        here = model.get("name") in components("algorithms.models") and (
            not path or path in LIBRARIES or find_spec(path)
        )
        hint = [] if code or here else [ConfigProblem(HINT, file="code")]
        raise ConfigError([*refusal.problems, *hint]) from None
    if not saved:
        status = next(one["status"] for one in read.trials if one["id"] == ident)
        raise _refusal(f"trial {ident} has no saved model; its status is {status}", "trial")
    if group is None and len(saved) == 1:
        return next(iter(saved.values()))
    if group is None:
        raise _refusal(f"trial {ident} has the models {', '.join(saved)}; name one of them", "group")
    if group not in saved:
        raise _refusal(unknown_name(f"trial {ident} has no model {group!r}", str(group), saved), "group")
    return saved[group]


def find_trial(read: Results, trial: str | None) -> str:
    """The id of the trial that was named, or of the only one. Raises ConfigError if there is none, or more than one."""
    ids = [str(one["id"]) for one in read.trials]
    matching = [ident for ident in ids if ident.startswith(str(trial or ""))]
    if trial in ids or len(matching) == 1:
        return trial if trial in ids else matching[0]
    if matching:
        which = ", ".join(matching[:8]) + (", ..." if len(matching) > 8 else "")
        raise _refusal(f"name one of the {len(matching)} trials by its id, as in Results.trials: {which}", "trial")
    raise _refusal(unknown_name(f"{read.name} has no trial {str(trial)!r}", str(trial), ids), "trial")


def _refusal(sentence: str, argument: str) -> ConfigError:
    return ConfigError([ConfigProblem(sentence, file=argument)])
