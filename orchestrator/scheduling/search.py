"""Searching: which trial comes next, drawn by Optuna from the results of the ones before.

Draw k knows the results of the draws up to k - ``parallel``, told in the order in which they were drawn, and nothing of
later ones, whether these have come to an end or not. So the draws are a function of the sweep file and of results that
are the same everywhere, and not of who finished first: they need not be saved, and a search that was killed is gone
through again from the records that its trials left. (A scheduler that stops trials looks at who came first, so with one
the draws may differ from session to session.)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container
from typing import Any

from orchestrator.config.run import trial_id
from orchestrator.config.search_space import Axis
from orchestrator.config.sweep_file import Sweep
from orchestrator.results.folder import Folder
from orchestrator.results.record import has_ended, read_record
from orchestrator.scheduling.trials import TrialSpec

TRIES = 100  # draws in a row that repeat a trial or cannot be combined; then the space holds nothing new


class Search:
    """The trials of a sweep with a ``search``, one after another.

    Attributes:
        specs: the trials drawn so far, in order; grows with `draw`.
        over: ids of the trials that have ended in this session, however they did (to be set by whoever runs them).
        dropped: ids of those that will be taken up again only after the ones that are running (likewise).
        exhausted: whether the space holds no further trial.
    """

    def __init__(self, sweep: Sweep, folder: Folder) -> None:
        import optuna

        assert sweep.tune and sweep.tune.search and sweep.space and sweep.samples
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.tune, self.space, self.samples, self.folder = sweep.tune, sweep.space, sweep.samples, folder
        self.parallel, search = sweep.tune.search.parallel, sweep.tune.search
        self.study = optuna.create_study(direction="maximize" if sweep.tune.mode == "max" else "minimize")
        self.guided = optuna.samplers.TPESampler(seed=search.seed, n_startup_trials=search.startup)
        self.random = optuna.samplers.RandomSampler(seed=search.seed)
        self._example = sweep.runs[0]
        self.distributions = {axis.key: _distribution(axis) for axis in sweep.space.axes}
        self.specs: list[TrialSpec] = []
        self.over: Container[str] = ()
        self.dropped: Collection[str] = ()
        self.exhausted = False
        self._asked: list[Any] = []
        self._told = 0

    @property
    def complete(self) -> bool:
        """Whether every draw has been made."""
        return self.exhausted or len(self.specs) >= self.samples

    def draw(self) -> TrialSpec | None:
        """The next trial; None where all are drawn, or where one that must be known before has not ended."""
        while self._told <= len(self.specs) - self.parallel:
            if not self._tell():
                return None
        return None if self.complete else self._new()

    def replay(self) -> list[TrialSpec]:
        """Draw for as long as results are there to draw from; returns all trials that are known then."""
        while self.draw():
            pass
        return self.specs

    def ahead(self) -> list[TrialSpec]:
        """A stand-in for each draw that has not been made, with a run of its kind."""
        drawn = self.samples if self.complete else len(self.specs)
        return [TrialSpec("", self._example, {"draw": draw + 1}) for draw in range(drawn, self.samples)]

    def _new(self) -> TrialSpec | None:
        from optuna.trial import TrialState

        ids = {spec.id for spec in self.specs}
        for attempt in range(TRIES):
            # Where few values are left the best of them is drawn again and again; chance finds the others.
            self.study.sampler = self.guided if attempt < TRIES // 10 else self.random
            asked = self.study.ask(self.distributions)
            made = self.space.at({axis.key: _value(axis, asked.params[axis.key]) for axis in self.space.axes})
            if made and trial_id(made[0]) not in ids:
                self.specs.append(TrialSpec(trial_id(made[0]), *made))
                self._asked.append(asked)
                return self.specs[-1]
            self.study.tell(asked, state=TrialState.FAIL)
        self.exhausted = True
        return None

    def _tell(self) -> bool:
        """Tell Optuna how the next trial in order has ended. False if it has not."""
        from optuna.trial import TrialState

        spec, asked = self.specs[self._told], self._asked[self._told]
        record = read_record(self.folder.trial(spec.id)) or {}
        if not (has_ended(record, self.tune) or (record and spec.id in self.over)):
            return False
        value = record["metrics"].get(self.tune.metric)
        if record["status"] == "finished" and value is not None and math.isfinite(value):
            self.study.tell(asked, float(value))
        else:  # a trial without a value, one that diverged say, counts as worse than all that have one
            stopped = record.get("stopped") or {}
            if stopped.get("value") is not None:
                asked.report(stopped["value"], stopped["round"])
            self.study.tell(asked, state=TrialState.PRUNED)
        self._told += 1
        return True


def _distribution(axis: Axis) -> Any:
    """What Optuna draws on this axis; of ``choice`` a position in its list."""
    from optuna import distributions

    if axis.word == "choice":
        return distributions.CategoricalDistribution(range(len(axis.arguments)))
    low, high, *step = axis.arguments
    if axis.word == "randint":
        return distributions.IntDistribution(low, high - 1)
    if axis.word == "quniform":
        return distributions.IntDistribution(round(low / step[0]), round(high / step[0]))
    return distributions.FloatDistribution(low, high, log=axis.word == "loguniform")


def _value(axis: Axis, drawn: Any) -> Any:
    """The value that stands in the run; of a ``quniform`` what `search_space` would make of this multiple."""
    if axis.word == "choice":
        return axis.arguments[drawn]
    return float(f"{drawn * axis.arguments[2]:.12g}") if axis.word == "quniform" else drawn
