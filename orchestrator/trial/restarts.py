"""A trial: the rounds of a run, several initializations if the clustering asks for them, and the
state on disk.

IFCA compares several initializations after a few rounds and continues with the best one; in the
first rounds of each, clients are assigned at random. The round loop does not know about this: it
receives the initialization to begin from and the function by which clients choose.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from algorithms.core.choices import Preferences, View, random_partition
from algorithms.core.configs import ClusteredConfig
from algorithms.core.messages import Doubles, Ints
from algorithms.engine.round import choose
from algorithms.interfaces import Run
from orchestrator.results.log import DamageError, cached, quarantine, stored
from orchestrator.results.provenance import data_hash
from orchestrator.results.record import UNREPEATABLE
from orchestrator.results.tables import join_tables
from orchestrator.trial import metric_rows
from orchestrator.trial.attack_round import due
from orchestrator.trial.federation import digest
from orchestrator.trial.loop import Rounds, TrialContext
from orchestrator.trial.random_streams import stream
from orchestrator.trial.saved import RunState, Saved


class Trial:
    """A run from its first initialization to its last round.

    `advance` does one and saves the state, `news` has the rows.

    What it must remember besides the state of the rounds is in ``state.outer``: ``best``, training
    loss and number of the best initialization so far, and ``settled``, whether the comparison is
    over.
    """

    def __init__(self, run: Run, context: TrialContext) -> None:
        """Begin, or resume from what the trial has saved.

        Raises DamageError if that is damaged, and the noise is secret. Otherwise it is set aside.
        """
        self.run = run
        self.context = context
        self.data = context.data
        clustering = run.clustering
        rng = stream(run.seed, "preferences")
        self.preferences = clustering.module.preferences(clustering.config, self.data.clients, rng)
        plan = clustering.module.starts(clustering.config)
        # The last round is never part of the comparison: its choice of models may take the risk
        # into account.
        self.compared_after = min(plan.rounds, run.rounds - 1)
        self.starts = plan.initializations if self.compared_after else 1
        decided = self.compared_after if self.starts > 1 else run.rounds
        self.random_until = min(plan.random_rounds, decided - 1)
        # A sentence on a damaged log that was set aside, until it has been reported.
        self.repaired: str | None = None
        self.saved = self._open()
        begins = self.saved.state is None
        content = stored(*self.shared) if begins and self.shared else None
        if content:
            self.rounds = self._rounds(self.saved.take_over(content, self.preferences.beta))
        elif self.saved.state is None:
            self.rounds = self._rounds(0)
        else:
            state = self.saved.load(self.saved.state)
            self.rounds = self._rounds(replace(state, resumed=[*state.resumed, state.round]))
        # Rows of earlier rounds have been reported.
        self.reported = self.state.round if self.state.resumed and not self.comparing else 0

    @property
    def state(self) -> RunState:
        """The state of the current rounds."""
        return self.rounds.state

    @property
    def comparing(self) -> bool:
        """Whether initializations are still being compared."""
        return self.starts > 1 and not self.state.outer.get("settled", False)

    @property
    def done(self) -> bool:
        """Whether all rounds are done."""
        return self.state.round >= self.run.rounds and not self.comparing

    def news(self) -> list[dict[str, Any]]:
        """Return the rows of all rounds not returned before; none while initializations are
        compared.
        """
        new = self.state.round - self.reported
        recent = self.rounds.recent
        if self.comparing or new <= 0:
            return []
        table = (
            join_tables(recent) if len(recent) == new else self.rows("rounds").slice(self.reported)
        )
        self.reported = self.state.round
        recent.clear()
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def rows(self, table: str) -> pa.Table:
        """The rows of a table. Raises DamageError."""
        return self.saved.rows(self.state.start, table)

    def note(self) -> str | None:
        """Return the progress while there are no rows to report, which is while initializations
        are compared.
        """
        state = self.state
        return (
            f"start {state.start + 1} of {self.starts}, round {state.round}"
            if self.comparing
            else None
        )

    def advance(self) -> None:
        """Do one round; if it is the last of an initialization, compare; then save the state.

        Raises FloatingPointError if the run, or each of its initializations, reached a NaN or
        infinite loss or weight.
        """
        try:
            self.rounds.advance()
        except FloatingPointError:
            if not self.comparing:
                raise
            self.state.losses = np.full_like(self.state.losses, np.inf)
            self.state.round = self.compared_after
        ended = self.comparing and self.state.round == self.compared_after
        if ended:
            self._compare()
        self.saved.commit(self.state)
        if ended and not self.comparing and self.shared:
            cached(*self.shared, partial(self.saved.shared, self.state))

    def _open(self) -> Saved:
        """Take up what the trial has saved; what is damaged of it is set aside, unless the noise
        is secret.

        Such noise is spent with every model that was sent out, and how much that was stood in what
        is damaged.
        """
        folder = self.context.folder
        origin = self.context.origin
        try:
            return Saved.of(folder, origin)
        except DamageError as damage:
            if not self.run.repeatable:
                raise DamageError(
                    damage.path, f"{damage.problem}{UNREPEATABLE.format(folder.state)}"
                ) from damage
            aside = quarantine(folder.state).name
            self.repaired = (
                f"{damage}: {folder.state} is set aside as {aside}, and the trial begins anew"
            )
            return Saved.of(folder, origin)

    def _rounds(self, start: int | RunState) -> Rounds:
        return Rounds(
            self.run,
            self.context,
            self.saved,
            self.preferences,
            self._choose,
            start,
            self.random_until,
        )

    def _choose(self, round_: int, view: View, preferences: Preferences) -> tuple[Ints, Doubles]:
        """Let clients choose a model.

        They choose at random in the first rounds, by loss during the comparison, and then as the
        clustering says.
        """
        if round_ < self.random_until:
            rng = stream(self.run.seed, "warm_start", self.state.start)
            return random_partition(
                self.run.clustering.config.clusters, self.data.clients, rng
            ), view.losses
        # During the comparison, risk does not count, so that every algorithm compares the same
        # initializations.
        if self.comparing:
            return choose(self.run, view, preferences, by_loss_alone=True)[0], view.losses
        # It counts once clients know it of a model: as the server measured it, or as their own
        # attacks found it.
        by_clients = self.run.clustering.config.weighs_own_risks
        risks = self.state.own_risks if by_clients else self.state.measured_risks
        view = replace(view, risk_counts=bool(np.isfinite(risks).any()))
        if (
            view.risk_counts and (self.state.reference < 0).any()
        ):  # the first choice in which risk counts
            self.state.reference, _ = choose(self.run, view, preferences, by_loss_alone=True)
        return choose(self.run, view, preferences)

    @cached_property
    def shared(self) -> tuple[Path, str] | None:
        """Return the cache and the name of the comparison there: the hash of all that it depends
        on.

        Clients choose by loss alone in it, so components that sort them alike share one; what is
        secret or attacked is not shared.
        """
        run = self.run
        clustering = run.clustering
        setup = self.context.setup
        attacked = any(due(run, "models", round_) for round_ in range(self.compared_after))
        like = clustering.module.SORTS_LIKE
        if self.starts == 1 or not like or attacked or not run.repeatable or setup.cache is None:
            return None
        fields = {name: getattr(clustering.config, name) for name in ClusteredConfig.model_fields}
        alike = run.to_dict() | {"clustering": {"name": like, **fields}}
        return setup.cache, f"initializations-{digest([alike, setup.code, data_hash(self.data)])}"

    def _compare(self) -> None:
        """Keep the current initialization if it is the best so far, then try the next or
        continue with the best.
        """
        state = self.state
        loss = float(np.mean(metric_rows.of_own_model(state.losses, state.assignment)))
        best = state.outer.get("best")
        if np.isfinite(loss) and (best is None or loss < best[0]):
            best = state.outer["best"] = [loss, state.start]
            self.saved.keep_best(state)
        if state.start + 1 < self.starts:
            self.rounds = self._rounds(state.start + 1)
            self.state.outer = {"best": best} if best else {}
            # The models of abandoned initializations were sent out as well.
            self.state.spent = state.spent
            self.state.resumed = state.resumed
        elif best is None:
            raise FloatingPointError(f"all {self.starts} initializations diverged")
        else:
            self.rounds.state = self.saved.load(self.saved.best or "")
            self.rounds.recent.clear()  # they are of the last initialization
            self.state.outer = state.outer | {"settled": True}
            self.state.spent = state.spent
            self.state.resumed = state.resumed
