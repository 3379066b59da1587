"""The plan of a sweep for ``--dry-run``: its trials, the resources it needs and an estimate of
its duration.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Group
from rich.table import Table
from rich.text import Text

from algorithms.metrics.statistics import FEWEST, least_significant
from datasets.federation import DataError
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

# to start Ray, the drivers and their actors before the first round, and to write the report
START_SECONDS = 30.0
MOST_KINDS = 50  # of trials whose time is estimated; of more, these stand for the others
MOST_PARAMETERS = (
    25_000_000  # of a model whose steps are timed: a few seconds, and less than a gigabyte
)
LITTLE = 0.05  # share of the estimate that is not worth another one
MOST_LISTED, FEW_LISTED = 100, 20  # trials that are all listed, and those that are listed of more


def plan(
    sweep: Sweep, trials: list[TrialSpec], missing: list[TrialSpec], place: Placement
) -> Group:
    """The printable plan: trials, those that are ``missing``, their resources, and the time from
    steps that are timed here.

    Raises:
        ConfigError: the data of a trial that is timed cannot be partitioned as the trial asks, or
            its model, which is of somebody else, raises something.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("trial", "rounds", "id", ""):
        table.add_column(heading, overflow="fold")
    todo = {trial.id for trial in missing}
    listed = trials if len(trials) <= MOST_LISTED else trials[:FEW_LISTED]
    for trial in listed:
        table.add_row(
            trial.title, str(trial.run.rounds), trial.id, "" if trial.id in todo else "complete"
        )
    others = len(trials) - len(listed)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # what libraries say while steps are timed, as in the workers
        answer = forecast(sweep, missing, place)
    lines = [
        f"and {others} others, which --print-config shows" if others else None,
        f"each trial: {place}; {_concurrent(sweep, place)} at a time on the {local_cpus()} "
        "CPUs here",
        *([answer] if isinstance(answer, str) else answer.lines),
        _power(trials),
        unrepeatable(missing),
        *tuned_sentences(sweep.tune, [trial.run for trial in trials]),
        *(trial.run.model.module.remark(trial.run.model.config, trial.run) for trial in missing),
        *(
            trial.run.split.module.remark(trial.run.split.config, trial.run.data.config)
            for trial in missing
        ),
        "nothing was started",
    ]
    title = Text(
        f"{sweep.name}: {amount(len(trials), 'trial')}, {len(missing)} to run", style="bold"
    )
    return Group(title, table, *(Text(line) for line in dict.fromkeys(lines) if line))


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


def forecast(sweep: Sweep, missing: Sequence[TrialSpec], place: Placement) -> Forecast | str:
    """What the trials take on the processors of this machine, or why that is not known.

    Raises ConfigError.
    """
    if not missing:
        return "estimate: all trials are complete"
    if place.gpu:
        return "no estimate: training on a GPU cannot be timed without starting it"
    from orchestrator.estimates.small_runs import SmallRuns  # loads torch
    from orchestrator.trial import client_actors, worker_session

    worker_session.keep_freed_memory()  # as in the processes that train
    small, spent, timed, remarks = SmallRuns(sweep.root_of), Counter[str](), 0, list[str]()
    reduced = list[float]()  # times of training in reduced precision, in those in float32
    anew, again = 0.0, 0.0
    kinds = Counter(map(_kind, missing))
    examples = {_kind(trial): trial.run for trial in missing}
    every = -(-len(kinds) // MOST_KINDS)
    own = len({counts.first_round(trial.run) for trial in missing}) / len(missing)
    # In the order of their data, which are then loaded once.
    for kind in sorted(kinds, key=lambda kind: repr((examples[kind].data, examples[kind].split)))[
        ::every
    ]:
        run = examples[kind]
        try:
            data, loading = small.data(run)
            size = parameters(run.model, data.shape, data.classes)
            if size is not None and size > MOST_PARAMETERS:
                return (
                    f"no estimate: a step of a model of {size:.2g} parameters takes more than a "
                    "plan may"
                )
            rate, training = small.rate(run, data), run.training
            kept = size is None or FLOAT * size < client_actors.WORTH * counts.a_client(
                run, data.sizes, rate
            )
            first = (own if kept else 1.0) if sweep.resources.share else None
            of_trial = counts.of_trial(run, data, place, rate, loading, first)
            shadows = of_trial.get(SHADOWS, 0.0)
            each_anew = (
                counts.of_trial(run, data, place, rate, loading, None)[SHADOWS] if shadows else 0.0
            )
            if training.module.reduced_precision(training.config):
                full = replace(
                    training, config=training.config.model_copy(update={"precision": "float32"})
                )
                reduced.append(
                    rate("train") / small.rate(replace(run, training=full), data)("train")
                )
        except DataError as error:
            raise ConfigError([data_problem(sweep, str(error))]) from error
        except ComponentError as error:
            raise ConfigError([data_problem(sweep, str(error))]) from error
        except (Exception, SystemExit) as error:
            if not (sentence := own_failure(run, error)):
                raise
            raise ConfigError([data_problem(sweep, sentence)]) from error
        spent.update({part: kinds[kind] * seconds for part, seconds in of_trial.items()})
        anew += kinds[kind] * each_anew
        if run.clustering.config.clusters > 1:
            again += kinds[kind] * (each_anew - shadows)
        timed += kinds[kind]
        remarks += data.remarks
        if data.unused >= data.clients:  # more than the remainder of a division
            used = f"beside {data.sizes.sum()} of clients"
            remarks.append(
                f"split {run.split.name}: {data.unused} training examples are unused, {used}"
            )
    at_once = min(_concurrent(sweep, place), len(missing))
    slowdown = max(
        1.0, at_once * place.actors * missing[0].run.training.config.threads / local_cpus()
    )
    parts = {part: seconds / timed for part, seconds in spent.most_common()}
    each, in_turn = sum(parts.values()), -(-len(missing) // at_once) * slowdown
    total, later = START_SECONDS + in_turn * each, in_turn * again / timed
    scope = f" for {timed} of the trials" if timed < len(missing) else ""
    shares = ", ".join(
        f"{part} {100 * cost / each:.0f} %" for part, cost in parts.items() if cost >= each / 100
    )
    sentences = [
        f"estimate: {duration(total)} on this machine, based on steps timed just now{scope}"
    ]
    if later > LITTLE * total:
        moving = (
            "clients change their model before every attack on it: shadow models then begin anew"
        )
        sentences.append(f"{duration(total + later)} if {moving}")
    if reduced:
        warning = "warning: " if max(reduced) > 1 else ""
        remarks.append(
            f"{warning}training in reduced precision takes {max(reduced):.1f} x as long as "
            "float32 on this processor"
        )
    return Forecast(
        total,
        parts,
        anew / timed,
        [*sentences, f"a trial takes {duration(each)}: {shares}", *remarks],
    )


def _kind(trial: TrialSpec) -> str:
    """What trials have in common that take equally long: all but their seeds."""
    plain = trial.run.to_dict()
    return repr({**plain, "seed": None, "data": {**plain["data"], "split_seed": None}})
