"""Checks of the data before anything is started: missing, damaged or too small data sets are refused."""

from __future__ import annotations

from typing import Any

from algorithms.interfaces import Run
from datasets.components import Component
from datasets.federation import DataError, Source
from datasets.interfaces import SourceContract
from orchestrator.config.errors import ConfigProblem
from orchestrator.config.sweep_file import Sweep


def data_problems(sweep: Sweep, download: bool) -> list[ConfigProblem]:
    """The reasons why the data cannot be loaded or partitioned as the trials of the sweep ask.

    Args:
        sweep: the sweep.
        download: download missing data sets that can be downloaded.
    """
    sources: dict[str, Source | str] = {}
    found: dict[str, ConfigProblem] = {}
    for run in sweep.runs:
        key = repr((run.data.name, _place(run.data.config)))
        if key not in sources:
            sources[key] = _load(run.data, sweep, download)
        for sentence in _sentences(run, sources[key]):
            found.setdefault(sentence, data_problem(sweep, sentence))
    return list(found.values())


def _sentences(run: Run, source: Source | str) -> list[str]:
    if isinstance(source, str):
        return [source]
    short = run.split.module.shortages(run.split.config, run.data.config, source)
    shape = source.train.x.shape[1:]
    unfit = {"model": run.model.module.shape_problem(run.model.config, shape)}
    unfit["training"] = run.training.module.shape_problem(run.training.config, shape)
    short += [f"{slot}: {sentence}" for slot, sentence in unfit.items() if sentence]
    return short


def data_problem(sweep: Sweep, sentence: str) -> ConfigProblem:
    """The problem for a sentence that begins with "key: ", or else concerns the section ``base.data`` as a whole."""
    key, colon, rest = sentence.partition(": ")
    keyed = bool(colon) and all(part.isidentifier() for part in key.split("."))
    return sweep.problem(rest, "base", *key.split(".")) if keyed else sweep.problem(sentence, "base", "data")


def _load(data: Component[SourceContract, Any], sweep: Sweep, download: bool) -> Source | str:
    try:
        return data.module.load(data.config, sweep.data_root, download)
    except DataError as error:
        return str(error)


def _place(config: Any) -> Any:
    """``config`` without the fields that do not affect what is read: number of clients and seed of the split."""
    return config.model_copy(update={"clients": 1, "split_seed": None})
