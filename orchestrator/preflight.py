"""Data are loaded and checked before anything is started: what is absent, damaged or too small is refused, not discovered."""

from __future__ import annotations

from typing import Any

from datasets.federation import DataError, Source
from orchestrator.refusal import Problem
from orchestrator.sweep_file import Sweep


def data_problems(sweep: Sweep) -> list[Problem]:
    """What keeps the sweep's data from being dealt as its trials ask for. Downloads what can be downloaded."""
    sources: dict[str, Source | str] = {}
    found: dict[str, Problem] = {}
    for run in sweep.runs:
        key = repr((run.data.name, _place(run.data.config)))
        if key not in sources:
            sources[key] = _loaded(run.data, sweep)
        source = sources[key]
        if isinstance(source, str):
            found.setdefault(source, sweep.problem(source, "base", "data"))
            continue
        for sentence in run.split.module.shortages(run.split.config, run.data.config, source):
            found.setdefault(sentence, sweep.problem(sentence, "base", "data"))
    return list(found.values())


def _loaded(data: Any, sweep: Sweep) -> Source | str:
    try:
        return data.module.load(data.config, sweep.data_root)
    except DataError as error:
        return str(error)


def _place(config: Any) -> Any:
    """The fields that decide what is read; the number of clients and the seed of the split do not."""
    return config.model_copy(update={"clients": 1, "split_seed": None})
