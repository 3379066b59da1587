"""Data are loaded and checked before anything is started: what is absent, damaged or too small is refused, not discovered."""

from __future__ import annotations

from typing import Any

from datasets.federation import DataError, Source
from orchestrator.config.errors import ConfigProblem
from orchestrator.config.run import Component, Run
from orchestrator.config.sweep_file import Sweep


def data_problems(sweep: Sweep, download: bool) -> list[ConfigProblem]:
    """What keeps the sweep's data from being dealt as its trials ask for. ``download``: fetch what can be fetched."""
    sources: dict[str, Source | str] = {}
    found: dict[str, ConfigProblem] = {}
    for run in sweep.runs:
        key = repr((run.data.name, _place(run.data.config)))
        if key not in sources:
            sources[key] = _load(run.data, sweep, download)
        for sentence in _sentences(run, sources[key]):
            found.setdefault(sentence, _problem(sweep, sentence))
    return list(found.values())


def _sentences(run: Run, source: Source | str) -> list[str]:
    if isinstance(source, str):
        return [source]
    short = run.split.module.shortages(run.split.config, run.data.config, source)
    for slot in ("model", "training"):
        component = getattr(run, slot)
        unfit = getattr(component.module, "shape_problem", lambda config, shape: None)(
            component.config, source.train.x.shape[1:]
        )
        short += [f"{slot}: {unfit}"] if unfit else []
    return short


def _problem(sweep: Sweep, sentence: str) -> ConfigProblem:
    """The sentence with its place: it opens with the dotted key that it is about, or is about the data as a whole."""
    key, colon, rest = sentence.partition(": ")
    keyed = bool(colon) and all(part.isidentifier() for part in key.split("."))
    return sweep.problem(rest, "base", *key.split(".")) if keyed else sweep.problem(sentence, "base", "data")


def _load(data: Component, sweep: Sweep, download: bool) -> Source | str:
    try:
        return data.module.load(data.config, sweep.data_root, download)
    except DataError as error:
        return str(error)


def _place(config: Any) -> Any:
    """The fields that decide what is read; the number of clients and the seed of the split do not."""
    return config.model_copy(update={"clients": 1, "split_seed": None})
