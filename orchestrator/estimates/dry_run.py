"""The plan of a sweep for ``--dry-run``: its trials, the resources it needs and an estimate of
its duration.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from algorithms.interfaces import Run
from algorithms.metrics.statistics import FEWEST, least_significant
from datasets.federation import DataError, Federation
from datasets.guard import ComponentError
from orchestrator.cluster.data_checks import data_problem, own_failure
from orchestrator.cluster.placement import Placement, concurrent_trials
from orchestrator.cluster.ray_session import local_cpus, local_nodes
from orchestrator.config.errors import ConfigError, amount
from orchestrator.config.sweep_file import Sweep
from orchestrator.estimates import counts
from orchestrator.estimates.counts import SHADOWS
from orchestrator.estimates.needs import FLOAT, parameters
from orchestrator.report.context import tuned_sentences
from orchestrator.report.data import REPEATS, Repeat, independent, repeat, text
from orchestrator.scheduling.trials import TrialSpec, unrepeatable
from orchestrator.tracking.screen import duration

if TYPE_CHECKING:
    from orchestrator.estimates.small_runs import SmallRuns

# To start Ray, the drivers and their actors before the first round, and to write the report.
START_SECONDS = 30.0
MOST_KINDS = 50  # of trials whose time is estimated; of more, these stand for the others
# Of a model whose steps are timed: a few seconds, and less than a gigabyte.
MOST_PARAMETERS = 25_000_000
LITTLE = 0.05  # share of the estimate that is not worth another one
MOST_LISTED = 100  # trials that are all listed
FEW_LISTED = 20  # those that are listed of more
TOO_LARGE = "no estimate: a step of a model of {size:.2g} parameters takes more than a plan may"
MOVING = "clients change their model before every attack on it: shadow models then begin anew"


def plan(
    sweep: Sweep, trials: list[TrialSpec], missing: list[TrialSpec], place: Placement
) -> Group:
    """The printable plan: trials, those that are ``missing``, their resources, and the time from
    steps that are timed here.

    Raises:
        ConfigError: the data of a trial that is timed cannot be partitioned as the trial asks, or
            its model, which is of somebody else, raises something.
    """
    listed = trials if len(trials) <= MOST_LISTED else trials[:FEW_LISTED]
    others = len(trials) - len(listed)
    with warnings.catch_warnings():
        # What libraries say while steps are timed, as in the workers.
        warnings.simplefilter("ignore")
        answer = forecast(sweep, missing, place)
    lines = [
        f"and {others} others, which --print-config shows" if others else None,
        f"each trial: {place}; {_concurrent(sweep, place)} at a time on the {local_cpus()} "
        "CPUs here",
        *([answer] if isinstance(answer, str) else answer.lines),
        _power(trials),
        unrepeatable(missing),
        *tuned_sentences(sweep.tune, [trial.run for trial in trials]),
        *(_of_model(trial.run) for trial in missing),
        *(_of_split(trial.run) for trial in missing),
        "nothing was started",
    ]
    title = f"{sweep.name}: {amount(len(trials), 'trial')}, {len(missing)} to run"
    said = [Text(line) for line in dict.fromkeys(lines) if line]
    return Group(Text(title, style="bold"), _table(listed, missing), *said)


def _table(listed: Sequence[TrialSpec], missing: Sequence[TrialSpec]) -> Table:
    """Trials with their rounds, their ids and whether they are complete."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("trial", "rounds", "id", ""):
        table.add_column(heading, overflow="fold")
    todo = {trial.id for trial in missing}
    for trial in listed:
        state = "" if trial.id in todo else "complete"
        table.add_row(trial.title, str(trial.run.rounds), trial.id, state)
    return table


def _of_model(run: Run) -> str | None:
    """What a model says of a run."""
    return run.model.module.remark(run.model.config, run)


def _of_split(run: Run) -> str | None:
    """What a split says of the data."""
    return run.split.module.remark(run.split.config, run.data.config)


def _power(trials: list[TrialSpec]) -> str:
    """What so many repetitions of a setting can show: how wide intervals are."""
    settings: dict[str, list[tuple[Repeat, float]]] = {}
    for trial in trials:
        setting = text({key: value for key, value in trial.values.items() if key not in REPEATS})
        settings.setdefault(setting, []).append(
            (repeat({"seed": trial.run.seed, **trial.values}), 0.0)
        )
    count = min((len(independent(values)) for values in settings.values()), default=0)
    runs = f"{count} {'run' if count == 1 else 'independent runs'} of a setting"
    if count < FEWEST:
        return f"{runs}: no interval over runs and no test of differences, which need {FEWEST}"
    return (
        f"{runs}: the 95 % interval of a mean is ± {least_significant(count):.1f} standard "
        "deviations between runs"
    )


def _concurrent(sweep: Sweep, place: Placement) -> int:
    (node,) = local_nodes(place)
    here = [{"CPU": float(local_cpus()), "GPU": node.get("GPU") or 1.0}]
    return concurrent_trials(place, here, sweep.resources.concurrent_trials)


@dataclass(frozen=True)
class Forecast:
    """What a sweep's trials take, by steps that were timed here.

    Attributes:
        seconds: from the command to the report.
        trial: seconds of a trial by part, the mean over those that were timed.
        anew: seconds of its shadow models if those of each attack begin anew, as where clients
            change their model before it.
        lines: the forecast in words, what reduced precision saves or costs here, and what splits
            leave unused.
    """

    seconds: float
    trial: Mapping[str, float]
    anew: float
    lines: Sequence[str]


@dataclass(frozen=True)
class TimedTrial:
    """A trial whose steps were timed.

    Attributes:
        run: what it does.
        data: its clients, or a part of them.
        alike: the number of trials that take as long.
        seconds: by part.
        anew: those of its shadow models if they begin anew at each attack.
        reduced: the time of training in reduced precision, in that in float32; None in float32.
    """

    run: Run
    data: Federation
    alike: int
    seconds: Mapping[str, float]
    anew: float
    reduced: float | None

    @property
    def moving(self) -> float:
        """The seconds that are added if clients change their model before every attack on it."""
        several = self.run.clustering.config.clusters > 1
        return self.anew - self.seconds.get(SHADOWS, 0.0) if several else 0.0


def forecast(sweep: Sweep, missing: Sequence[TrialSpec], place: Placement) -> Forecast | str:
    """What the trials take on the processors of this machine, or why that is not known.

    Raises ConfigError.
    """
    if not missing:
        return "estimate: all trials are complete"
    if place.gpu:
        return "no estimate: training on a GPU cannot be timed without starting it"
    from orchestrator.estimates.small_runs import SmallRuns  # loads torch
    from orchestrator.trial import worker_session

    worker_session.keep_freed_memory()  # as in the processes that train
    small = SmallRuns(sweep.root_of)
    own = len({counts.first_round(trial.run) for trial in missing}) / len(missing)
    timed = []
    for run, alike in _kinds(missing):
        with _refusing(sweep, run):
            data, loading = small.data(run)
            size = parameters(run.model, data.shape, data.classes)
            if size is not None and size > MOST_PARAMETERS:
                return TOO_LARGE.format(size=size)
            rate = small.rate(run, data)
            kept = _first_rounds(sweep, run, data, rate, own)
            seconds = counts.of_trial(run, data, place, rate, loading, kept)
            anew = 0.0
            if SHADOWS in seconds:
                anew = counts.of_trial(run, data, place, rate, loading, None)[SHADOWS]
            reduced = _reduced(run, data, small)
        timed.append(TimedTrial(run, data, alike, seconds, anew, reduced))
    return _summed(sweep, missing, place, timed)


def _kinds(missing: Sequence[TrialSpec]) -> list[tuple[Run, int]]:
    """Trials that take equally long as one run and their number; of many kinds, some.

    In the order of their data, which are then loaded once.
    """
    alike = Counter(map(_kind, missing))
    runs = {_kind(trial): trial.run for trial in missing}
    kinds = sorted(alike, key=lambda kind: repr((runs[kind].data, runs[kind].split)))
    every = -(-len(kinds) // MOST_KINDS)
    return [(runs[kind], alike[kind]) for kind in kinds[::every]]


def _kind(trial: TrialSpec) -> str:
    """What trials have in common that take equally long: all but their seeds."""
    plain = trial.run.to_dict()
    return repr({**plain, "seed": None, "data": {**plain["data"], "split_seed": None}})


@contextmanager
def _refusing(sweep: Sweep, run: Run) -> Iterator[None]:
    """Refuse the sweep where data do not suit the run, or code of somebody else fails."""
    try:
        yield
    except (DataError, ComponentError) as error:
        raise ConfigError([data_problem(sweep, str(error))]) from error
    except (Exception, SystemExit) as error:
        sentence = own_failure(run, error)
        if not sentence:
            raise
        raise ConfigError([data_problem(sweep, sentence)]) from error


def _first_rounds(
    sweep: Sweep, run: Run, data: Federation, rate: counts.Rate, own: float
) -> float | None:
    """The share of the first rounds that a trial trains itself, where ``own`` of a sweep's are
    different ones; None if nothing is kept.
    """
    from orchestrator.trial import client_actors

    if not sweep.resources.share:
        return None
    size = parameters(run.model, data.shape, data.classes) or 0
    worth = client_actors.WORTH * counts.a_client(run, data.sizes, rate)
    return own if size == 0 or FLOAT * size < worth else 1.0


def _reduced(run: Run, data: Federation, small: SmallRuns) -> float | None:
    """The time of training in reduced precision, in that in float32; None in float32."""
    training = run.training
    if not training.module.reduced_precision(training.config):
        return None
    full = training.config.model_copy(update={"precision": "float32"})
    in_full = replace(run, training=replace(training, config=full))
    return small.rate(run, data)("train") / small.rate(in_full, data)("train")


def _summed(
    sweep: Sweep, missing: Sequence[TrialSpec], place: Placement, timed: Sequence[TimedTrial]
) -> Forecast:
    """The forecast for all trials, of which some were timed."""
    trials = sum(one.alike for one in timed)
    spent = Counter[str]()
    for one in timed:
        spent.update({part: one.alike * seconds for part, seconds in one.seconds.items()})
    parts = {part: seconds / trials for part, seconds in spent.most_common()}
    each = sum(parts.values())
    anew = sum(one.alike * one.anew for one in timed) / trials
    moving = sum(one.alike * one.moving for one in timed) / trials
    at_once = min(_concurrent(sweep, place), len(missing))
    threads = at_once * place.actors * missing[0].run.training.config.threads
    in_turn = -(-len(missing) // at_once) * max(1.0, threads / local_cpus())
    total = START_SECONDS + in_turn * each
    scope = f" for {trials} of the trials" if trials < len(missing) else ""
    lines = [f"estimate: {duration(total)} on this machine, based on steps timed just now{scope}"]
    if in_turn * moving > LITTLE * total:
        lines.append(f"{duration(total + in_turn * moving)} if {MOVING}")
    shares = ", ".join(
        f"{part} {100 * cost / each:.0f} %" for part, cost in parts.items() if cost >= each / 100
    )
    lines.append(f"a trial takes {duration(each)}: {shares}")
    return Forecast(total, parts, anew, [*lines, *_remarks(timed)])


def _remarks(timed: Sequence[TimedTrial]) -> Iterator[str]:
    """What data leave unused, and what reduced precision costs here."""
    for one in timed:
        data = one.data
        yield from data.remarks
        if data.unused >= data.clients:  # more than the remainder of a division
            used = f"beside {data.sizes.sum()} of clients"
            yield f"split {one.run.split.name}: {data.unused} training examples are unused, {used}"
    reduced = [one.reduced for one in timed if one.reduced is not None]
    if reduced:
        warning = "warning: " if max(reduced) > 1 else ""
        yield (
            f"{warning}training in reduced precision takes {max(reduced):.1f} x as long as "
            "float32 on this processor"
        )
