"""A trial: the rounds of a run, several initializations if the clustering asks for them, and the state on disk.

IFCA compares several initializations after a few rounds and continues with the best one; in the first rounds of each,
clients are assigned at random. The round loop does not know about this: it receives the initialization to begin from
and the function by which clients choose.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from algorithms.core.choices import View, random_partition
from algorithms.core.messages import Doubles, Ints
from algorithms.interfaces import Run
from orchestrator.results.integrity import Damage
from orchestrator.results.parts import Parts
from orchestrator.results.record import STATE
from orchestrator.trial import attack_round, metric_rows
from orchestrator.trial.loop import DivergenceError, Rounds, Surroundings
from orchestrator.trial.random_streams import stream
from orchestrator.trial.saved import BEST, Saved, begin_anew, best_of, examine
from orchestrator.trial.state import RunState, save_state
from orchestrator.trial.state_checks import Bounds, problem_of_run


class Trial:
    """A run from its first initialization to its last round.

    `advance` does one round and saves the state; `news` returns the rows to report. What the trial must remember
    besides the state of the rounds is in ``state.outer``: ``best``, training loss and number of the best initialization
    so far, and ``settled``, whether the comparison is over.
    """

    def __init__(self, run: Run, around: Surroundings) -> None:
        """Begin, or resume from the state in the trial's folder, unless an older version did not write all of it.

        Args:
            run: the run.
            around: what the run works with.
        """
        self.run, self.around, self.data = run, around, around.data
        clustering = run.clustering
        rng = stream(run.seed, "preferences")
        self.preferences = clustering.module.preferences(clustering.config, self.data.clients, rng)
        plan = clustering.module.starts(clustering.config)
        # The last round is never part of the comparison: its choice of models may take the risk into account.
        self.compared_after = min(plan.rounds, run.rounds - 1)
        self.starts = plan.initializations if self.compared_after else 1
        decided = self.compared_after if self.starts > 1 else run.rounds
        self.random_until = min(plan.random_rounds, decided - 1)
        self.saved, self.best = around.folder.state / STATE, around.folder.state / BEST
        self.repaired: str | None = None  # a sentence on a damaged state that was set aside
        self.rounds: Rounds
        saved = self._resumed()
        anew = saved is not None and len(saved.history) < saved.round
        if saved is None or anew:
            self.rounds = self._rounds(0)
        if saved is not None and anew:
            warnings.warn(
                f"{self.saved}: an older version wrote this state, without which client trained which model; the trial "
                "begins anew",
                stacklevel=2,
            )
            # The models of the abandoned rounds were sent out as well.
            self.state.spent, self.state.resumed = saved.spent, saved.resumed
        self.parts.truncate(self.state.round)
        self.reported = 0 if self.comparing else self.state.round  # rows of earlier rounds have been reported

    @property
    def state(self) -> RunState:
        """The state of the current rounds."""
        return self.rounds.state

    @state.setter
    def state(self, state: RunState) -> None:
        self.rounds.state = state

    @property
    def comparing(self) -> bool:
        """Whether initializations are still being compared."""
        return self.starts > 1 and not self.state.outer.get("settled", False)

    @property
    def done(self) -> bool:
        """Whether all rounds are done."""
        return self.state.round >= self.run.rounds and not self.comparing

    @property
    def parts(self) -> Parts:
        """The rows written so far; every initialization has its own until one of them is chosen."""
        return self.rounds.parts

    def arrays(self) -> dict[str, np.ndarray]:
        """Return every model's arrays by name, ``<model>.<array>``."""
        return self.rounds.arrays()

    def news(self) -> list[dict[str, Any]]:
        """Return the rows of all rounds not returned before; none while initializations are compared."""
        if self.comparing or self.reported >= self.state.round:
            return []
        rows: list[dict[str, Any]] = self.parts.read("rounds", start=self.reported).to_pylist()
        self.reported = self.state.round
        return rows

    def note(self) -> str | None:
        """Return the progress while there are no rows to report, which is while initializations are compared."""
        state = self.state
        return f"start {state.start + 1} of {self.starts}, round {state.round}" if self.comparing else None

    def advance(self) -> None:
        """Do one round; if it is the last of an initialization, compare; then save the state.

        Raises:
            DivergenceError: the run, or each of its initializations, reached a NaN or infinite loss or weight.
        """
        try:
            self.rounds.advance()
        except (DivergenceError, FloatingPointError):
            if not self.comparing:
                raise
            self.state.losses = np.full_like(self.state.losses, np.inf)
            self.state.round = self.compared_after
        if self.comparing and self.state.round == self.compared_after:
            self._compare()
        save_state(self.state, self.saved, self.around.folder.id)

    def _resumed(self) -> RunState | None:
        """Take up the saved state, which remembers that the run was resumed from it; None if there is none.

        Raises:
            DamageError: what was saved is damaged, and the trial's noise is secret. Otherwise it is set aside.
        """
        saved = examine(self.around.folder, thorough=False)
        if saved.state is not None and not saved.damages:
            state = replace(saved.state, resumed=[*saved.state.resumed, saved.state.round])
            self.rounds = self._rounds(state)
            state.parts = state.parts or self.parts.counts(state.round)
            if damage := self._foreign(saved):
                saved.damages.append(damage)
            else:
                return state
        if saved.damages:
            self.repaired = begin_anew(self.around.folder, saved, self.run.repeatable)
        return None

    def _foreign(self, saved: Saved) -> Damage | None:
        """Return why a state that was read cannot be one of this run; None if it can."""
        assert saved.state is not None
        fresh, bounds = self.rounds.fresh(0), Bounds(self.run.rounds, self.starts, self.compared_after)
        if problem := problem_of_run(saved.state, fresh, bounds, saved.has_checksum):
            return Damage(self.saved, problem)
        if saved.best and (problem := problem_of_run(saved.best, fresh, bounds, saved.has_checksum, best=True)):
            return Damage(self.best, problem)
        return None

    def _rounds(self, start: int | RunState) -> Rounds:
        return Rounds(self.run, self.around, self.preferences, self._choose, start)

    def _choose(self, round_: int, view: View) -> tuple[Ints, Doubles]:
        """Let clients choose a model.

        They choose at random in the first rounds, by loss during the comparison, and then as the clustering says.
        """
        clustering = self.run.clustering
        if round_ < self.random_until:
            rng = stream(self.run.seed, "warm_start", self.state.start)
            return random_partition(clustering.config.clusters, self.data.clients, rng), view.losses
        # During the comparison, risk does not count, so that every algorithm compares the same initializations.
        neutral = replace(self.preferences, beta=np.zeros(self.data.clients))
        measured = attack_round.risk_known(self.run, self.state)
        by_loss, view = replace(view, risk_counts=False), replace(view, risk_counts=measured)
        if self.comparing:
            return clustering.module.choose(clustering.config, by_loss, neutral)
        if measured and (self.state.reference < 0).any():  # the first choice in which risk counts
            self.state.reference, _ = clustering.module.choose(clustering.config, by_loss, neutral)
        return clustering.module.choose(clustering.config, view, self.preferences)

    def _compare(self) -> None:
        """Keep the current initialization if it is the best so far, then try the next or continue with the best."""
        state = self.state
        loss = float(np.mean(metric_rows.of_own_model(state.losses, state.assignment)))
        best = state.outer.get("best")
        if np.isfinite(loss) and (best is None or loss < best[0]):
            best = state.outer["best"] = [loss, state.start]
            save_state(state, self.best, self.around.folder.id)
        if state.start + 1 < self.starts:
            self.rounds = self._rounds(state.start + 1)
            self.state.outer = {"best": best} if best else {}
            # The models of abandoned initializations were sent out as well.
            self.state.spent, self.state.resumed = state.spent, state.resumed
        elif best is None:
            raise DivergenceError(f"all {self.starts} initializations diverged")
        else:
            self.state = best_of(self.around.folder, best[1])
            self.state.outer, self.state.spent = state.outer | {"settled": True}, state.spent
            self.state.resumed = state.resumed
