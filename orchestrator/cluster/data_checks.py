"""Checks of the data before anything is started: missing, damaged or too small data sets are
refused.

A reader or a split that fails, or returns what it must not, is refused like them, with the line of
its file.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from algorithms.interfaces import ComponentContract, Run
from attacks.interfaces import Attack
from datasets.components import Component, components, own_components
from datasets.federation import DataError, Examples, Source
from datasets.guard import ComponentError
from datasets.interfaces import SourceContract
from datasets.origins import told
from datasets.source_checks import source_problems
from orchestrator.config.errors import ConfigProblem, keyed
from orchestrator.config.slots import chosen_components
from orchestrator.config.sweep_file import Sweep
from orchestrator.results.provenance import source_key
from orchestrator.trial.federation import federation_key, partition_seed, settled
from orchestrator.trial.random_streams import stream


def data_problems(
    sweep: Sweep,
    download: bool,
    loaded: Callable[[Component[Any, Any], Source], None] = lambda data, source: None,
    misfits: Callable[[Run, Source], list[str]] = lambda run, source: [],
    settle: Callable[[Run, Run], None] = lambda run, ready: None,
) -> list[ConfigProblem]:
    """The reasons why the data cannot be loaded or partitioned as the trials of the sweep ask.

    With ``download``, missing data sets are downloaded where that can be done. ``loaded`` is called
    with each that could be loaded, ``settle`` with a run whose training follows from the clients'
    numbers of examples and with what follows. ``misfits`` returns why a machine cannot hold a run
    with these data, in sentences; nothing is built for a run that it refuses.
    """
    sources: dict[str, Source | str] = {}
    problems: dict[str, ConfigProblem] = {}
    attacked: set[str] = set()
    for run in sweep.runs:
        key = source_key(run.data)
        if key not in sources:
            read = sources[key] = _load(run.data, sweep.root_of(run), download)
            if isinstance(read, Source):
                loaded(run.data, read)
        source = sources[key]
        sentences = (
            source.split("\n") if isinstance(source, str) else _sentences(run, source, misfits)
        )
        trained = (run.training, run.rounds) if _settles(run) else ()
        partition = repr(
            (federation_key(run, sweep.root_of(run)), run.attacks, trained, _starts_warm(run))
        )
        if not sentences and isinstance(source, Source) and partition not in attacked:
            attacked.add(partition)
            sentences = _undealt(run, source, settle)
        for sentence in sentences:
            problems.setdefault(sentence, data_problem(sweep, sentence))
    return list(problems.values())


def _sentences(run: Run, source: Source, misfits: Callable[[Run, Source], list[str]]) -> list[str]:
    try:
        shortages = run.split.module.shortages(
            run.split.config, run.data.config, source
        ) or misfits(run, source)
    except ComponentError as error:
        return [str(error)]
    except Exception as error:
        return [failure(error, f"the split {run.split.name}")]
    if shortages:
        return list(shortages)
    shape = source.train.x.shape[1:]
    unfit = {"model": run.model.module.shape_problem(run.model.config, shape)}
    unfit["training"] = run.training.module.shape_problem(run.training.config, shape)
    if not any(unfit.values()) and run.model.module.OWN_VALUES:
        from algorithms.engine import own_model

        unfit["model.name"] = own_model.problem(run, shape, source.classes)
    if not any(unfit.values()):
        unfit |= _model_problems(run, source)
    return [f"{slot}: {sentence}" for slot, sentence in unfit.items() if sentence]


def _model_problems(run: Run, source: Source) -> dict[str, str | None]:
    """Why attacks do not apply to the model, by their keys."""
    asking = {
        f"attacks.{i}": it
        for i, it in enumerate(run.attacks)
        if it.module.model_problem is not Attack.model_problem
    }
    if not asking:
        return {}
    from algorithms.core.network import Network

    shape = source.train.x.shape[1:]
    network = Network(run.model, shape, source.classes)
    return {key: it.module.model_problem(it.config, network, shape) for key, it in asking.items()}


def _settles(run: Run) -> bool:
    return run.training.module.settle is not ComponentContract.settle


def _starts_warm(run: Run) -> bool:
    return run.aggregation.module.warm_start(run.aggregation.config) is not None


def _undealt(run: Run, source: Source, settle: Callable[[Run, Run], None]) -> list[str]:
    """What attacks, training and a warm start lack in the partition, which is made for those
    alone that look at it.
    """
    attacks = [
        (at, it)
        for at, it in enumerate(run.attacks)
        if it.module.data_problems is not Attack.data_problems
    ]
    if not attacks and not _settles(run) and not _starts_warm(run):
        return []
    small = source
    if (
        source.train.x.ndim == 4
    ):  # one pixel of each image takes a moment: attacks lack examples, not pixels
        train, test = (
            Examples(part.x[..., :1, :1], part.y) for part in (source.train, source.test)
        )
        small = replace(source, train=train, test=test)
    # A split of the user's own may look at what images show.
    return _lacking(run, attacks, small, settle) and _lacking(run, attacks, source, settle)


def _lacking(
    run: Run,
    attacks: Sequence[tuple[int, Component[Any, Any]]],
    source: Source,
    settle: Callable[[Run, Run], None],
) -> list[str]:
    """What attacks, with their places in the list, training and a warm start lack in a
    partition, or why there is none.
    """
    seed = partition_seed(run)
    try:
        data = run.split.module.partition(
            run.split.config, run.data.config, source, lambda name: stream(seed, name)
        )
    except (DataError, ComponentError) as error:
        return str(error).split("\n")
    except Exception as error:
        return [failure(error, f"the split {run.split.name}")]
    try:
        ready = settled(run, data)
        if ready.training != run.training:
            settle(run, ready)
    except ValueError as error:
        key, reason = keyed(str(error))
        return [f"{'.'.join(('training', *map(str, key)))}: {reason}"]
    lacking = [
        (f"attacks.{i}", *pair)
        for i, it in attacks
        for pair in it.module.data_problems(it.config, data)
    ]
    if _starts_warm(run) and not len(data.shadow):
        without = (
            f"trains on the server's shadow set, and the split {run.split.name} of {data.name} "
            "leaves it none"
        )
        field = "warm_start_epochs" if hasattr(run.aggregation.config, "warm_start_epochs") else ""
        lacking.append(
            (
                "aggregation",
                field,
                f"{without}; set data.shadow_size, or train without a warm start",
            )
        )
    return [
        f"{'.'.join(filter(None, (slot, field)))}: {sentence}" for slot, field, sentence in lacking
    ]


def data_problem(sweep: Sweep, sentence: str) -> ConfigProblem:
    """The problem for a sentence that begins with "key: ", or else concerns the section
    ``base.data`` as a whole.
    """
    key, rest = keyed(sentence)
    return sweep.problem(rest, "base", *(key or ("data",)))


def _load(data: Component[SourceContract, Any], root: Path, download: bool) -> Source | str:
    try:
        source = data.module.load(data.config, root, download)
        problems = source_problems(source)
    except (DataError, ComponentError) as error:
        return str(error)
    except Exception as error:
        return failure(error, f"the reader of {data.name}")
    return (
        "\n".join(f"the reader of {data.name} is wrong: {sentence}" for sentence in problems)
        or source
    )


def own_failure(run: Run, error: BaseException) -> str:
    """A sentence for an exception of a run's step, about the run's first component from outside
    or its model by path; empty if all of it is ours.
    """
    what, where = told(error)
    for key, component in chosen_components(run):
        guest = component.name not in own_components(component.folder)
        if guest or (key == ("model",) and component.module.OWN_VALUES):
            place = "attacks" if key[0] == "attacks" else f"{'.'.join(map(str, key))}.name"
            file = components(component.folder)[component.name].__file__
            where = where or (f" ({file})" if guest else "")
            fails = f"fails on these data, as it would in the run: {what}{where}"
            return f"{place}: {component.title} {fails}"
    return ""


def failure(error: BaseException, who: str, file: Path | None = None) -> str:
    """A sentence for an exception that ``who`` should not have raised: type, text, and its line,
    if possible in ``file``.
    """
    calls = traceback.extract_tb(error.__traceback__)
    ours = [
        call for call in calls if "site-packages" not in call.filename and call.filename != __file__
    ] or list(calls)
    ours = [call for call in calls if file and Path(call.filename) == file] or ours
    what = ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split())[:300])))
    place = (
        f" ({Path(ours[-1].filename).name}, line {ours[-1].lineno}: {ours[-1].line})"
        if ours
        else ""
    )
    return f"{who} failed with {what}{place}"
