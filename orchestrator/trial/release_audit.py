"""The audit of a run's releases: in which rounds it is due, and where its random numbers come from."""

from __future__ import annotations

from algorithms.auditing.canaries import Directions
from algorithms.core.messages import Ints
from algorithms.core.noise import Normals
from algorithms.engine import canary_audit, lone_canaries
from algorithms.engine.canary_audit import Panel, Round
from algorithms.interfaces import Run, State
from orchestrator.trial.random_streams import stream
from orchestrator.trial.state import RunState

# The last number of a stream's place, which tells the draws of the audit apart; its noise has places of three numbers.
CANARIES, SAMPLING = 1, 2


class ReleaseAudit:
    """The canaries of a run, which follow from its seed, so that a resumed run has the same."""

    def __init__(self, run: Run, d: int, sizes: Ints) -> None:
        """Decide in which rounds canaries are due.

        Args:
            run: the run.
            d: number of parameters of a model.
            sizes: [clients] numbers of training examples.
        """
        self.run, self.d, self.clients = run, d, len(sizes)
        self.plan = run.privacy.module.canaries(run.privacy.config, run)
        self.every = canary_audit.audit_every(self.plan, run, d, sizes) if self.plan and self.begin() else 0
        self._panels: dict[int, Panel] = {}

    def begin(self) -> State:
        """Return the scores before the first round; empty without an audit."""
        if self.plan is None:
            return {}
        return (
            lone_canaries.begin(self.run, self.clients)
            if self.plan.alone
            else canary_audit.begin(self.run, self.plan, self.d)
        )

    def due(self, round_: int) -> bool:
        """Return whether the releases of round ``round_`` are audited: one in the middle of every ``every`` rounds.

        The first round is not like the others: its updates are the longest, or the most alike.
        """
        return bool(self.every) and round_ % self.every == (min(self.every, self.run.rounds) - 1) // 2

    def observe(self, state: RunState, j: int, now: Round, noise: Normals | None) -> State:
        """Return the canaries' scores after a fork of the round with model ``j``."""
        assert self.plan is not None
        if not state.canaries:  # the run began under a version that did not audit it
            return state.canaries
        place = stream(self.run.seed, "canaries", 0, j, 0, CANARIES)
        if self.plan.alone:
            directions = Directions.draw(self.d, place)
            return lone_canaries.observe(self.run, self.plan, state.canaries, j, directions, now, noise)
        if j not in self._panels:
            panel = Panel.draw(self.d, place)
            assert panel is not None  # the audit would not be due
            self._panels[j] = panel
        rng = stream(self.run.seed, "canaries", state.round, j, state.start, SAMPLING)
        return canary_audit.observe(self.run, self.plan, state.canaries, j, self._panels[j], now, noise, rng)
