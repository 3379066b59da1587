"""The plan of a sweep for ``--dry-run``: its trials, the resources it needs and an estimate of its duration."""

from __future__ import annotations

import os
from collections import Counter

from rich.console import Group
from rich.table import Table
from rich.text import Text

from algorithms.interfaces import Run
from datasets.federation import DataError, Federation
from orchestrator.cluster.data_checks import data_problem
from orchestrator.cluster.placement import Placement, concurrent_trials
from orchestrator.cluster.ray_session import local_cpus
from orchestrator.config.errors import ConfigError
from orchestrator.config.sweep_file import Sweep
from orchestrator.estimates import counts
from orchestrator.estimates.needs import amount, parameters, table_bytes
from orchestrator.estimates.small_runs import SmallRuns
from orchestrator.report.context import EPSILONS, sentences
from orchestrator.report.data import REPEATS, Repeat, independent, repeat, text
from orchestrator.report.figures.arrangement import ALGORITHM
from orchestrator.report.statistics import FEWEST, least_significant
from orchestrator.scheduling.trials import TrialSpec, unrepeatable
from orchestrator.tracking.screen import duration
from orchestrator.trial import worker_session

START_SECONDS = 30.0  # to start Ray, the drivers and their actors before the first round, and to write the report
MOST_KINDS = 50  # of trials whose time is estimated; of more, these stand for the others
MOST_PARAMETERS = 25_000_000  # of a model whose steps are timed: a few seconds, and less than a gigabyte
MOST_LISTED, FEW_LISTED = 100, 20  # trials that are all listed, and those that are listed of more
LARGE_TABLES = 1e9  # bytes of a trial's tables from which a plan says how many they are
FEWEST_PERCENT = 1  # smaller shares of the time are not listed


def plan(sweep: Sweep, trials: list[TrialSpec], missing: list[TrialSpec], place: Placement) -> Group:
    """The printable plan: trials, resources and estimated time.

    The estimate comes from timing a few steps of each kind of trial in this process.

    Args:
        sweep: the sweep.
        trials: all its trials.
        missing: those that have not finished yet.
        place: what one trial reserves.

    Raises:
        ConfigError: the data of a trial that is timed cannot be partitioned as the trial asks.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("trial", "rounds", "id", ""):
        table.add_column(heading, overflow="fold")
    todo = {trial.id for trial in missing}
    listed = trials if len(trials) <= MOST_LISTED else trials[:FEW_LISTED]
    for trial in listed:
        table.add_row(trial.title, str(trial.run.rounds), trial.id, "" if trial.id in todo else "complete")
    return Group(
        Text(f"{sweep.name}: {len(trials)} trials, {len(missing)} to run", style="bold"),
        table,
        *map(Text, _unlisted(len(trials) - len(listed))),
        Text(f"each trial: {place}; {_at_once(sweep, place)}"),
        *map(Text, _estimate(sweep, missing, place)),
        *map(
            Text,
            filter(
                None,
                [
                    _power(trials),
                    unrepeatable(missing),
                    *_tuned(sweep, trials),
                    _tables(missing),
                    *_models(missing),
                    *_splits(missing),
                ],
            ),
        ),
        Text("nothing was started"),
    )


def _unlisted(others: int) -> list[str]:
    """What stands for the trials that are not listed; nothing if all are."""
    return [f"and {others} others, which --print-config shows"] if others else []


def _power(trials: list[TrialSpec]) -> str:
    """What so many repetitions of a setting can show: how wide intervals are, and which differences can be significant."""
    settings: dict[str, list[tuple[Repeat, float]]] = {}
    for trial in trials:
        setting = text({key: value for key, value in trial.values.items() if key not in REPEATS})
        settings.setdefault(setting, []).append((repeat({"seed": trial.run.seed, **trial.values}), 0.0))
    count = min((len(independent(values)) for values in settings.values()), default=0)
    runs = f"{count} {'run' if count == 1 else 'independent runs'} of a setting"
    if count < FEWEST:
        return f"{runs}: no interval over runs and no test of differences, which need {FEWEST}"
    said = f"{runs}: the 95 % interval of a mean is ± {least_significant(count):.1f} standard deviations between runs"
    if not any(
        slot in trial.values or slot.removesuffix(".name") in trial.values for trial in trials for slot in ALGORITHM
    ):
        return said
    return (
        f"{said}; a difference between methods is significant from {least_significant(count):.1f} standard deviations "
        f"between pairs, from {least_significant(count, 2):.1f} where risk and accuracy are tested (Holm)"
    )


def _tuned(sweep: Sweep, trials: list[TrialSpec]) -> list[str]:
    """What the tables of a tuned sweep will say of its search: on what it chooses, and what an epsilon does not include."""
    if sweep.tune is None:
        return []
    slots = [slot for one in trials for slot in (one.run.privacy, one.run.training)]
    declared = [metric for slot in slots for metric in getattr(slot.module, "METRICS", ())]
    return sentences(sweep.tune.metric, len(trials), any(metric.name in EPSILONS for metric in declared))


def _models(missing: list[TrialSpec]) -> list[str]:
    """What the models have to say of how they train, each sentence once."""
    said = [one.run.model.module.remark(one.run.model.config, one.run) for one in missing]
    return list(dict.fromkeys(filter(None, said)))


def _splits(missing: list[TrialSpec]) -> list[str]:
    """What the splits have to say of how they divide the clients, each sentence once."""
    said = [one.run.split.module.remark(one.run.split.config, one.run.data.config) for one in missing]
    return list(dict.fromkeys(filter(None, said)))


def unused(run: Run, data: Federation) -> str | None:
    """How many training examples a split leaves unused, if they are more than the remainder of a division."""
    if data.unused < data.clients:
        return None
    return f"split {run.split.name}: {data.unused} training examples are unused, beside {data.sizes.sum()} of clients"


def _tables(missing: list[TrialSpec]) -> str | None:
    """What the tables of a trial take of the disk, if that is much."""
    most = max((table_bytes(trial.run) for trial in missing), default=0.0)
    return f"the tables of a trial take at least {amount(most)}" if most >= LARGE_TABLES else None


def _at_once(sweep: Sweep, place: Placement) -> str:
    return f"{_concurrent(sweep, place)} at a time on the {local_cpus()} CPUs here"


def _concurrent(sweep: Sweep, place: Placement) -> int:
    here = [{"CPU": float(local_cpus()), "GPU": 1.0}]
    return concurrent_trials(place, here, sweep.resources.concurrent_trials)


def _estimate(sweep: Sweep, missing: list[TrialSpec], place: Placement) -> list[str]:
    """The estimate, what its time is spent on, and remarks, a line each."""
    if not missing:
        return ["estimate: all trials are complete"]
    if place.gpu:
        return ["no estimate: training on a GPU cannot be timed without starting it"]
    worker_session.keep_freed_memory()  # as in the processes that train
    small, spent, trials, remarks = SmallRuns(sweep.root_of), Counter[str](), 0, dict[str, None]()
    kinds = Counter(map(_kind, missing))
    examples = {_kind(trial): trial.run for trial in missing}
    every = -(-len(kinds) // MOST_KINDS)
    # In the order of their data, which are then loaded once.
    for kind in sorted(kinds, key=lambda kind: repr((examples[kind].data, examples[kind].split)))[::every]:
        run = examples[kind]
        try:
            data, loading = small.data(run)
            if sentence := _oversized(run, data):
                return [f"no estimate: {sentence}"]
            counted = counts.of_trial(run, data, place, loading)
            of_trial = counts.seconds(counted, small.rates(run, data, counted))
        except DataError as error:
            raise ConfigError([data_problem(sweep, str(error))]) from error
        spent.update({part: kinds[kind] * seconds for part, seconds in of_trial.items()})
        trials += kinds[kind]
        remarks |= dict.fromkeys(filter(None, [_whole_batches(run, data), unused(run, data)]))
    at_once = min(_concurrent(sweep, place), len(missing))
    slowdown = max(1.0, at_once * place.actors * missing[0].run.training.config.threads / local_cpus())
    each = spent.total() / trials
    seconds = START_SECONDS + -(-len(missing) // at_once) * each * slowdown
    some = f" for {trials} of the trials" if every > 1 else ""
    first = f"estimate: {duration(seconds)} on this machine, based on steps timed just now{some}"
    named = [
        f"{part} {100 * s / spent.total():.0f} %"
        for part, s in spent.most_common()
        if 100 * s >= FEWEST_PERCENT * spent.total()
    ]
    return [first, f"a trial takes {duration(each)}: {', '.join(named)}", *_others(), *remarks]


def _kind(trial: TrialSpec) -> str:
    """What trials have in common that take equally long: all but their seeds."""
    plain = trial.run.to_dict()
    return repr({**plain, "seed": None, "data": {**plain["data"], "split_seed": None}})


def _oversized(run: Run, data: Federation) -> str | None:
    """Why steps of the run are not timed, as a sentence; None if they are."""
    size = parameters(run, data.shape, data.classes)
    if size is None or size <= MOST_PARAMETERS:
        return None
    return f"the model has {size:.2g} parameters, and a step of it would take more than a plan may"


def _whole_batches(run: Run, data: Federation) -> str | None:
    """A sentence if every client's batch is all that it has; None if the batch size limits some client."""
    size, largest = run.training.config.batch_size, int(data.sizes.max())
    read = "batch_size" not in run.training.config.unread_fields()
    if not read or size <= largest:
        return None
    return f"training.batch_size {size} is more than the largest client has ({largest}): batches are whole clients"


def _others() -> list[str]:
    """A remark if other programs keep the processors busy."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load < 1 + local_cpus() / 2:
        return []
    return [f"other programs were busy here (a load of {load:.1f}); beside them it takes longer"]
