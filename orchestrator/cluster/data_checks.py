"""Checks of the data before anything is started: missing, damaged or too small data sets are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from algorithms.interfaces import Run
from attacks.interfaces import Attack
from datasets.components import Component
from datasets.federation import DataError, Source
from datasets.interfaces import SourceContract
from orchestrator.config.errors import ConfigProblem
from orchestrator.config.sweep_file import Sweep
from orchestrator.trial.federation import federation_key, partition_seed
from orchestrator.trial.random_streams import stream


def data_problems(
    sweep: Sweep, download: bool, loaded: Callable[[Component[Any, Any], Source], None] | None = None
) -> list[ConfigProblem]:
    """The reasons why the data cannot be loaded or partitioned as the trials of the sweep ask.

    Args:
        sweep: the sweep.
        download: download missing data sets that can be downloaded.
        loaded: is called with every data set that could be loaded.
    """
    sources: dict[str, Source | str] = {}
    found: dict[str, ConfigProblem] = {}
    attacked: set[str] = set()
    for run in sweep.runs:
        key = repr((run.data.name, _place(run.data.config)))
        if key not in sources:
            found_there = sources[key] = _load(run.data, sweep, download)
            if loaded and isinstance(found_there, Source):
                loaded(run.data, found_there)
        source = sources[key]
        short = _sentences(run, source)
        partition = repr((federation_key(run, sweep.data_root), run.attacks))
        if not short and not isinstance(source, str) and partition not in attacked:
            attacked.add(partition)
            short = _unattackable(run, source)
        for sentence in short:
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


def _unattackable(run: Run, source: Source) -> list[str]:
    """What attacks lack in the partition, which is made for those alone that have something to say of it."""
    attacks = [one for one in run.attacks if one.module.data_problems is not Attack.data_problems]
    if not attacks:
        return []
    seed, places = partition_seed(run), [one.name for one in run.attacks]
    try:
        data = run.split.module.partition(run.split.config, run.data.config, source, lambda name: stream(seed, name))
    except DataError as error:
        return [str(error)]
    return [
        f"attacks.{places.index(one.name)}.{field}: {sentence}"
        for one in attacks
        for field, sentence in one.module.data_problems(one.config, data)
    ]


def data_problem(sweep: Sweep, sentence: str) -> ConfigProblem:
    """The problem for a sentence that begins with "key: ", or else concerns the section ``base.data`` as a whole."""
    key, colon, rest = sentence.partition(": ")
    parts = [int(part) if part.isdecimal() else part for part in key.split(".")]
    keyed = bool(colon) and all(isinstance(part, int) or part.isidentifier() for part in parts)
    return sweep.problem(rest, "base", *parts) if keyed else sweep.problem(sentence, "base", "data")


def _load(data: Component[SourceContract, Any], sweep: Sweep, download: bool) -> Source | str:
    try:
        return data.module.load(data.config, sweep.data_root, download)
    except DataError as error:
        return str(error)


def _place(config: Any) -> Any:
    """``config`` without the fields that do not affect what is read: number of clients and seed of the split."""
    return config.model_copy(update={"clients": 1, "split_seed": None})
