"""The models that a trial left, as torch modules with their weights; those of own code, which runs only where it is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

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
    """Return the absolute paths of own code, which ``code`` names relative to the working folder.

    Raises:
        ConfigError: it is no path and no list of paths.
    """
    try:
        names = [fspath(code)] if isinstance(code, str | PathLike) else [fspath(one) for one in code]
    except TypeError:
        raise _refusal(f"must be a path, or a list of paths, got {format_value(code)}", "code") from None
    return own_paths(Path.cwd(), names)


def install_code(code: Sequence[Path]) -> None:
    """Make own code importable in this process; without any, what is installed stays.

    Raises:
        ConfigError: with every problem.
    """
    problems = install(code) if code else []
    if problems:
        raise ConfigError(ConfigProblem(sentence, file="code") for sentence in problems)


@contextmanager
def model_code(code: Sequence[Path], model: Mapping[str, Any]) -> Iterator[None]:
    """Install own code while a model is built, and turn whatever that code raises into a refusal.

    Args:
        code: absolute paths.
        model: the model's fields in a resolved run.

    Raises:
        ConfigError: the model cannot be built; the sentences say why, and what to do where its code was not named.
    """
    install_code(code)
    path = str(model.get("callable", "")).partition(":")[0].partition(".")[0]
    here = model.get("name") in components("algorithms.models") and (not path or path in LIBRARIES or find_spec(path))
    hint = [] if code or here else [ConfigProblem(HINT, file="code")]
    try:
        yield
    except ConfigError as refusal:
        raise ConfigError([*refusal.problems, *hint]) from None
    except Exception as error:  # somebody else's code, perhaps no longer what it was
        sentence = f"the model {model.get('name')} cannot be built: {' '.join(str(error).split())}"
        raise ConfigError([ConfigProblem(sentence, file="trial"), *hint]) from error


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
    saved = saved_models(folder)
    if not saved:
        status = next(one["status"] for one in read.trials if one["id"] == folder.id)
        raise _refusal(f"trial {folder.id} has no saved model; its status is {status}", "trial")
    if group is None and len(saved) == 1:
        (group,) = saved
    if group is None:
        raise _refusal(f"trial {folder.id} has the models {', '.join(saved)}; name one of them", "group")
    if group not in saved:
        raise _refusal(unknown_name(f"trial {folder.id} has no model {group!r}", str(group), saved), "group")
    return saved[group]


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
        raise _refusal(f"name one of the {len(found or ids)} trials by its id, as in Results.trials: {which}", "trial")
    raise _refusal(unknown_name(f"{read.name} has no trial {str(trial)!r}", str(trial), map(str, ids)), "trial")


def _refusal(sentence: str, argument: str) -> ConfigError:
    return ConfigError([ConfigProblem(sentence, file=argument)])
