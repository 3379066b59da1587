"""Search: Optuna draws the next trial from the results of earlier trials.

Draw k uses the results of the draws up to k - ``parallel``, in the order in which they were drawn,
and never those of later draws, even if these have finished. So the draws depend on the sweep file
and on reproducible results, but not on which trial finished first. They need not be saved: an
interrupted search is replayed from the records of its trials. (A scheduler that stops trials
depends on their timing, so with a scheduler the draws may differ between sessions.)
"""

from __future__ import annotations

import math
from collections.abc import Container
from functools import partial
from typing import Any

from orchestrator.config.run import trial_id
from orchestrator.config.search_space import Axis
from orchestrator.config.sweep_file import Sweep
from orchestrator.results.paths import Folder
from orchestrator.results.record import has_ended, read_record
from orchestrator.scheduling.trials import TrialSpec

TRIES = 100  # draws in a row that give no new valid trial before the space counts as exhausted


class Search:
    """The trials of a sweep with a ``search``, drawn one after another.

    Attributes:
        specs: the trials drawn so far, in order; `draw` adds to them.
        over: ids of the trials that have ended in this session with any status; `run_trials` sets
            it.
        exhausted: whether the space has no further trial.
    """

    def __init__(self, sweep: Sweep, folder: Folder) -> None:
        import optuna

        assert sweep.tune and sweep.tune.search and sweep.space and sweep.samples
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        search = sweep.tune.search
        self.tune = sweep.tune
        self.space = sweep.space
        self.samples = sweep.samples
        self.folder = folder
        self.parallel = search.parallel
        directions: list[Any] = [
            "maximize" if sign > 0 else "minimize" for sign in sweep.tune.signs
        ]
        self.study = optuna.create_study(directions=directions)
        samplers = optuna.samplers
        self.random = samplers.RandomSampler(seed=search.seed)
        guided: dict[str, Any] = {
            "tpe": partial(samplers.TPESampler, n_startup_trials=search.startup),
            "nsga2": partial(samplers.NSGAIISampler, population_size=max(2, search.startup)),
            "random": samplers.RandomSampler,
        }
        self.guided = guided[search.sampler](seed=search.seed)
        self._example = sweep.runs[0]
        self.distributions = {axis.key: _distribution(axis) for axis in sweep.space.axes}
        self.specs: list[TrialSpec] = []
        self.over: Container[str] = ()
        self.exhausted = False
        self._asked: list[Any] = []
        self._told = 0

    @property
    def complete(self) -> bool:
        """Whether every draw has been made."""
        return self.exhausted or len(self.specs) >= self.samples

    def draw(self) -> TrialSpec | None:
        """Draw the next trial; None if all are drawn, or if the draw needs the result of a trial
        that has not ended.
        """
        while self._told <= len(self.specs) - self.parallel:
            if not self._tell():
                return None
        return None if self.complete else self._new()

    def replay(self) -> list[TrialSpec]:
        """Draw as many trials as the available results allow; return all trials drawn so far."""
        while self.draw():
            pass
        return self.specs

    def ahead(self) -> list[TrialSpec]:
        """A placeholder for each draw that has not been made, with a typical run; for estimates."""
        first = self.samples if self.complete else len(self.specs)
        return [
            TrialSpec("", self._example, {"draw": draw + 1}) for draw in range(first, self.samples)
        ]

    def _new(self) -> TrialSpec | None:
        from optuna.trial import TrialState

        ids = {spec.id for spec in self.specs}
        for attempt in range(TRIES):
            # If few new values remain, the sampler keeps repeating the best ones; random draws find
            # the others.
            self.study.sampler = self.guided if attempt < TRIES // 10 else self.random
            optuna_trial = self.study.ask(self.distributions)
            runs = self.space.at(
                {axis.key: _value(axis, optuna_trial.params[axis.key]) for axis in self.space.axes}
            )
            if runs and trial_id(runs[0]) not in ids:
                self.specs.append(TrialSpec(trial_id(runs[0]), *runs))
                self._asked.append(optuna_trial)
                return self.specs[-1]
            self.study.tell(optuna_trial, state=TrialState.FAIL)
        self.exhausted = True
        return None

    def _tell(self) -> bool:
        """Report the result of the next trial in order to Optuna; False if that trial has not
        ended.
        """
        from optuna.trial import TrialState

        spec = self.specs[self._told]
        optuna_trial = self._asked[self._told]
        record = read_record(self.folder.trial(spec.id)) or {}
        if not (has_ended(record, self.tune) or (record and spec.id in self.over)):
            return False
        values = [record["metrics"].get(name) for name in self.tune.metrics]
        measured = all(isinstance(value, int | float) and math.isfinite(value) for value in values)
        if record["status"] == "finished" and measured:
            self.study.tell(optuna_trial, list(map(float, values)))
        elif len(values) > 1:  # Optuna cannot rank such a trial
            self.study.tell(optuna_trial, state=TrialState.FAIL)
        # a trial without a value, for example a diverged one, counts as worse than all trials with
        # one
        else:
            stopped = record.get("stopped") or {}
            if stopped.get("value") is not None:
                optuna_trial.report(stopped["value"], stopped["round"])
            self.study.tell(optuna_trial, state=TrialState.PRUNED)
        self._told += 1
        return True


def _distribution(axis: Axis) -> Any:
    """Optuna's distribution for this axis; for ``choice`` it draws a position in the list."""
    from optuna import distributions

    if axis.word == "choice":
        return distributions.CategoricalDistribution(range(len(axis.arguments)))
    low, high, *step = axis.arguments
    if axis.word == "randint":
        return distributions.IntDistribution(low, high - 1)
    if axis.word == "quniform":
        return distributions.IntDistribution(round(low / step[0]), round(high / step[0]))
    return distributions.FloatDistribution(low, high, log=axis.word == "loguniform")


def _value(axis: Axis, value: Any) -> Any:
    """The value for the run; for ``quniform`` it is rounded in the same way as in
    `search_space`.
    """
    if axis.word == "choice":
        return axis.arguments[value]
    return float(f"{value * axis.arguments[2]:.12g}") if axis.word == "quniform" else value
