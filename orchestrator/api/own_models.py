"""Models of somebody's own code, which reading results does not run: it is run where the caller names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from datasets.components import components
from orchestrator.config.errors import ConfigError, ConfigProblem, format_value
from orchestrator.config.own_code import install, own_paths

Code: TypeAlias = "str | PathLike[str] | Sequence[str | PathLike[str]]"

MODELS = "algorithms.models"
LIBRARIES = ("torchvision", "timm")
HINT = (
    "the model is of own code, which is run only where it is named: fedpriv.load(folder, code=...) takes the files and "
    "folders that code: of the sweep file names"
)


def code_paths(code: Code) -> tuple[Path, ...]:
    """Return the absolute paths of own code.

    Args:
        code: one path or several, relative to the working folder.

    Raises:
        ConfigError: it is none.
    """
    try:
        names = [fspath(code)] if isinstance(code, str | PathLike) else [fspath(one) for one in code]
    except TypeError:
        raise ConfigError([_problem(f"must be a path, or a list of paths, got {format_value(code)}")]) from None
    return own_paths(Path.cwd(), names)


def install_code(code: Sequence[Path]) -> None:
    """Make own code importable in this process; without any, what is installed stays.

    Args:
        code: absolute paths.

    Raises:
        ConfigError: with every problem.
    """
    problems = install(code) if code else []
    if problems:
        raise ConfigError(map(_problem, problems))


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
    try:
        yield
    except ConfigError as refusal:
        raise ConfigError([*refusal.problems, *_hint(code, model)]) from None
    except Exception as error:  # somebody else's code, perhaps no longer what it was
        problem = _problem(f"the model {model.get('name')} cannot be built: {' '.join(str(error).split())}", "trial")
        raise ConfigError([problem, *_hint(code, model)]) from error


def _hint(code: Sequence[Path], model: Mapping[str, Any]) -> list[ConfigProblem]:
    """What to do where the code of a model is not here and was not named."""
    named = str(model.get("callable", "")).partition(":")[0].partition(".")[0]
    here = model.get("name") in components(MODELS) and (not named or named in LIBRARIES or find_spec(named))
    return [] if code or here else [_problem(HINT)]


def _problem(sentence: str, argument: str = "code") -> ConfigProblem:
    return ConfigProblem(sentence, file=argument)
