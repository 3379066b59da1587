"""What a reader must know of a tuned sweep: on which examples it chose, and what an epsilon does not include."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.core.metric import ACCURACY, FAIRNESS
from orchestrator.config.errors import ConfigError
from orchestrator.config.overrides import Places, apply_overrides
from orchestrator.config.tune_section import KINDS, VALIDATION, Goal
from orchestrator.config.yaml_reader import contents, read
from orchestrator.metric_names import metric

OVERRIDE = "# --set "  # how the overrides are kept, as the last lines of sweep.yaml
TRAINING = ("loss", "train_")  # how the names of metrics on training examples begin


def tuned_sentences(folder: Path, trials: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences about the search of a tuned sweep; empty if the sweep is not tuned.

    Args:
        folder: the results folder of the sweep.
        trials: the rows of ``trials.parquet``, those of stopped and failed trials included.
    """
    name = selection_metric(folder)
    if name is None:
        return []
    stated = any(trial.get(epsilon) is not None for trial in trials for epsilon in ("epsilon", "epsilon_example"))
    return sentences(name, len(trials), stated)


def selection_metric(folder: Path) -> str | None:
    """The metric that the sweep's section ``tune`` compares, overrides included; None if the sweep is not tuned.

    Args:
        folder: the results folder of the sweep, which holds ``sweep.yaml``.
    """
    path = folder / "sweep.yaml"
    try:
        text = contents(path)
        tree, _ = apply_overrides(read(text, str(path)), Places(str(path)), _overrides(text))
    except ConfigError:
        return None
    tune = tree.get("tune") if isinstance(tree, dict) else None
    if not isinstance(tune, dict) or not any(tune.get(kind) for kind in KINDS):
        return None
    return str(tune.get("metric") or Goal.model_fields["metric"].get_default())


def sentences(name: str, trials: int, epsilon: bool) -> list[str]:
    """The sentences for a search over ``trials`` trials by the metric ``name``.

    Args:
        name: the metric that was compared.
        trials: the number of trials.
        epsilon: whether the sweep reports an epsilon.

    >>> sentences("validation_accuracy", 12, epsilon=False)
    ['tuned: hyperparameters chosen on validation accuracy over 12 trials']
    """
    over = f"over {trials} trial{'s' if trials != 1 else ''}"
    label = metric(name).label
    if name.startswith((VALIDATION, *TRAINING)):
        chosen = f"on {label} {over}"
    elif metric(name).family in (ACCURACY, FAIRNESS):
        chosen = f"on the reported test set {over}: {label} is optimistic"
    else:
        chosen = f"on {label} {over}: its best value is optimistic"
    unaccounted = (
        f"epsilon does not include the search {over}: choosing by results on the same clients costs privacy, too"
    )
    return [f"tuned: hyperparameters chosen {chosen}", *([unaccounted] if epsilon else [])]


def _overrides(text: str) -> list[str]:
    """The options ``--set`` of the run that wrote ``text``, the content of ``sweep.yaml``."""
    found: list[str] = []
    for line in reversed(text.rstrip("\n").split("\n")):
        if not line.startswith(OVERRIDE):
            break
        found.insert(0, line.removeprefix(OVERRIDE))
    return found
