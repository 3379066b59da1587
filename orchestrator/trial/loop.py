"""The loop over rounds, which every algorithm uses: jobs for actors, attacks, and the rows of
the tables.

The mathematics of a round is in `algorithms.engine.round`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from algorithms.auditing.canaries import Directions
from algorithms.core.accounting import Spending
from algorithms.core.choices import Preferences, View
from algorithms.core.layout import Layout
from algorithms.core.messages import (
    Assignment,
    BlockResult,
    ClientUpdates,
    Doubles,
    Evaluation,
    Ints,
    Weights,
)
from algorithms.core.noise import Normals
from algorithms.engine import canary_audit, lone_canaries, server
from algorithms.engine import round as engine
from algorithms.engine.canary_audit import Panel
from algorithms.interfaces import Metrics, Outcome, Run, State
from algorithms.metrics import classification
from attacks.interfaces import Exposure, Sum
from attacks.metrics.client_risk import counted
from datasets.federation import Federation
from orchestrator.results.paths import TrialFolder
from orchestrator.results.tables import as_table
from orchestrator.trial import attack_round, metric_rows
from orchestrator.trial.attack_round import ClusterModels, Findings, FinishedRun, of_kind
from orchestrator.trial.client_actors import (
    ClientPool,
    Job,
    LocalClients,
    client_blocks,
    prediction_jobs,
)
from orchestrator.trial.random_streams import of_start, run_stream, stream
from orchestrator.trial.saved import RunState, Saved
from orchestrator.trial.worker_session import Setup

UNTRAINED_RISK = 0.5  # an attack on an untrained model can only guess

Choice = Callable[[int, View, Preferences], tuple[Ints, Doubles]]
"""``choose(round, view, preferences)``: the model of each client [clients], and every model's
cost [clients, clusters].
"""


@dataclass(frozen=True)
class TrialContext:
    """What a run works with.

    Attributes:
        setup: where workers find the trial.
        clients: the actors that run jobs, or a replacement in this process.
        tasks: runs the attacks with shadow models or replicas; an
            `orchestrator.trial.attack_tasks.AttackTasks`.
        origin: the hashes of the code and the data.
    """

    setup: Setup
    data: Federation
    clients: ClientPool | LocalClients
    tasks: Any
    folder: TrialFolder
    origin: Mapping[str, str] = field(default_factory=dict)


class Rounds:
    """A run and its state.

    `advance` does one round and writes rows of the tables to disk, but does not save the state.
    """

    def __init__(
        self,
        run: Run,
        context: TrialContext,
        saved: Saved,
        preferences: Preferences,
        choose: Choice,
        start: int | RunState = 0,
        dealt: int = 0,
    ) -> None:
        """Begin from an initialization (its number), or resume from a state; ``choose`` lets
        clients choose their model.

        In the first ``dealt`` rounds, they do not follow their preferences.
        """
        self.run = run
        self.context = context
        self.saved = saved
        self.preferences = preferences
        self.choose = choose
        self.dealt = dealt
        self.data = context.data
        self.clients = context.clients
        self.setup = context.setup
        self.sizes = self.data.sizes
        self.recent: list[pa.Table] = []  # the rows of rounds that were not reported yet
        self.outputs = np.empty((0, 0, self.data.classes), np.float32)
        self.costs = np.empty((0, 0))
        self.blocks = client_blocks(self.data.clients, run.training.config.block_size)
        self.layout: Layout = self.clients.run(self.setup, [Job("layout", ())])[0]
        self.audit = ReleaseAudit(run, self.layout.size, self.sizes)
        if isinstance(start, RunState):
            self.state = start
        else:
            self.state = self.fresh(start)
            self._evaluate(0)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return every model's arrays by name, ``<model>.<array>``, for a torch module of the
        same shape.
        """
        (named,) = self.clients.run(self.setup, [Job("arrays", (self.state.models,))])
        pairs = zip(self.state.names, named, strict=True)
        return {
            f"{name}.{array}": value for name, arrays in pairs for array, value in arrays.items()
        }

    def advance(self) -> None:
        """Do one round: from the attack on the models that are about to be sent out to the rows
        of the tables.

        Raises FloatingPointError if a weight is NaN or infinite, or a loss without
        noise or among several models.
        """
        state = self.state
        started = time.monotonic()
        round_ = self.state.round
        # 1. The server attacks its own models, and publishes the risk with them.
        findings = Findings(state.assignment)
        self._attack(round_, findings)
        # 2. Every client chooses a model, those of the cohort train it, and the server updates it.
        risks = state.published_risks, state.assignment, self.data.classes
        view = View(state.selection, *risks, state.own_risks if state.own_risks.size else None)
        state.assignment, self.costs = self.choose(round_, view, self.preferences)
        noise = self._noise()
        visiting = [self._stream("participation", round_, 1)] * len(state.models)
        clients = engine.Clients(self.blocks, self._train, self.layout)
        sampled = self._stream("participation", round_)
        rate = self.run.participation_rate
        cohort = server.sample_cohort(self.run.participation, rate, self.data.clients, sampled)
        sums: list[Sum] = []
        results, steps = engine.advance(
            self.run, clients, state, cohort, noise, visiting, self._fork(sums)
        )
        metrics = self._spend(steps, results)
        # 3. The updates that the server received are attacked, too, and their sums.
        took_part = np.where(
            np.isin(np.arange(self.data.clients), cohort), state.assignment, -1
        ).astype(np.int16)
        state.history = np.vstack([state.history.reshape(-1, self.data.clients), took_part])
        conclude = partial(
            attack_round.conclude, self.run, self.data, round_=round_, attacks=state.attacks
        )
        if results:
            present = np.concatenate([result.clients for result in results])
            findings.exposures += conclude(present, [result.observed for result in results])
        names = tuple(attack.name for attack in attack_round.due(self.run, "sums", round_ + 1))
        if sums and names:
            observed = self.clients.run(
                self.setup, [Job("attack_sum", (one, round_, names)) for one in sums]
            )
            findings.exposures += conclude(
                np.concatenate([one.clients for one in sums]), observed, sums=sums
            )
        if round_ >= self.dealt:
            again = lambda preferences: self.choose(round_, view, preferences)[0]  # noqa: E731
            attack_round.follow_choices(self.run, state, self.preferences, again)
        # 4. All models are evaluated on every client's examples and on the test examples.
        self._evaluate(state.round)
        seconds = time.monotonic() - started
        if state.round == self.run.rounds:  # the models that would be deployed are attacked, too
            self._attack(state.round, findings)
            findings.exposures += self._replicate()
            findings.exposures += attack_round.infer_choices(
                self.run, self.data, state, self.preferences, self.dealt
            )
        self._record(findings, metrics, seconds)

    def fresh(self, start: int) -> RunState:
        """Make a fresh state, still without losses; its weights depend only on the seed and the
        initialization.
        """
        clusters = self.run.clustering.config.clusters
        clients = self.data.clients
        (models,) = self.clients.run(self.setup, [Job("initial", (start, clusters))])
        empty = np.zeros((clients, clusters))
        return RunState(
            **vars(engine.begin(self.run, models, clients)),
            losses=empty,
            accuracies=empty,
            selection=empty,
            reference=np.full(clients, -1, np.int64),
            published_risks=np.full(clusters, UNTRAINED_RISK),
            measured_risks=np.full(clusters, np.nan),
            queried=np.zeros((clusters, self.data.classes, 3), np.int64),
            names=[],
            start=start,
            canaries=self.audit.begin(),
        )

    def _attack(self, round_: int, findings: Findings) -> None:
        """Make the attacks on models that are due before round ``round_``, and publish the
        risks.
        """
        state = self.state
        signal = attack_round.risk_signal(self.run)
        due = attack_round.due(self.run, "models", round_)
        models = ClusterModels.of(state)
        findings.assignment = models.own if due else state.assignment
        for attack in due:
            audits = self.context.tasks.audit(self.setup, self.run, attack, self.data, models)
            for cluster, audit in audits.items():
                findings.audits.append((attack.name, round_, cluster, audit))
                if audit.own_risks is not None:
                    if not state.own_risks.size:
                        state.own_risks = np.full((self.data.clients, len(state.models)), np.nan)
                    state.own_risks[:, cluster] = audit.own_risks
                if attack.name == signal:
                    risk = audit.published_risk
                    undetermined = risk is None or math.isnan(risk)
                    state.published_risks[cluster] = UNTRAINED_RISK if undetermined else risk
                    state.measured_risks[cluster] = np.nan if audit.risk is None else audit.risk
                    state.queried[cluster] = counted(audit.examples(), self.data.classes)

    def _replicate(self) -> list[tuple[str, int, Exposure]]:
        """Make the attacks that train whole federations, after the last round."""
        run = self.run
        state = self.state
        tasks = self.context.tasks
        names = tuple(metric_rows.name_models(self._snapshot()))
        original = FinishedRun(
            state.models, names, ClusterModels.of(state).own, state.history, state.start
        )
        exposures = [
            (attack.name, tasks.replicate(self.setup, run, attack))
            for attack in of_kind(run, "replicas")
        ]
        for attack in of_kind(run, "halves"):
            exposures.append(
                (attack.name, tasks.halve(self.setup, run, attack, self.data, original))
            )
        return [
            (name, run.rounds, exposure) for name, exposure in exposures if exposure is not None
        ]

    def _snapshot(self) -> metric_rows.Snapshot:
        return metric_rows.Snapshot(
            self.data, self.state, self.preferences, self.outputs, self.costs
        )

    def _train(self, models: list[Weights], assigned: list[Assignment]) -> list[BlockResult]:
        """Train the blocks of the cohort on the actors."""
        attacks = tuple(
            attack.name for attack in attack_round.due(self.run, "updates", self.state.round + 1)
        )
        sent = self.clients.share(models)
        jobs = [
            Job("train", (sent, block, attacks), self._examples(block.clients))
            for block in assigned
        ]
        results: list[BlockResult] = self.clients.run(self.setup, jobs)
        return results

    def _examples(self, clients: Sequence[int]) -> int:
        return int(self.sizes[list(clients)].sum())

    def _stream(self, purpose: str, *place: int) -> np.random.Generator:
        """Return the generator of one of the server's own draws; the place begins with the
        round.
        """
        return of_start(partial(run_stream, self.run), self.state.start)(purpose, *place)

    def _noise(self, purpose: str = "noise") -> list[Normals | None]:
        """Draw the noise for each model while the clients train: that of the round, or that of
        the audit's fork.
        """
        run = self.run
        size = self.layout.size
        round_ = self.state.round
        return [
            server.draw_noise(run, size, self._stream(purpose, round_, j))
            for j in range(len(self.state.models))
        ]

    def _fork(self, sums: list[Sum]) -> engine.Fork:
        """Return what lets canaries audit the releases of this round, if they are due, and
        counts the releases.

        What the server received for each model is added to ``sums``, unless nobody sent anything.
        """
        state = self.state
        noise = self._noise("canaries") if self.audit.due(self.state.round) else None

        def fork(j: int, received: ClientUpdates) -> None:
            if noise is not None:
                before = canary_audit.Round(
                    state.servers[j], state.models[j], received, self.data.sizes
                )
                state.canaries = self.audit.observe(state, j, before, noise[j])
            state.canaries = canary_audit.released(state.canaries, j)
            if len(received.clients):
                sums.append(
                    Sum(j, state.models[j], received.mean, received.clients, received.weights)
                )

        return fork

    def _spend(
        self, steps: dict[int, server.Step], results: list[BlockResult]
    ) -> dict[int, Metrics]:
        """Book the privacy that the round's releases spent; return the metrics of the
        components, by model.
        """
        state = self.state
        events = [(j, step.event) for j, step in steps.items() if step.event is not None]
        state.spent += [Spending(state.round - 1, j, state.start, event) for j, event in events]
        measured = engine.compare_curvatures(self.run, state, results)
        return {
            j: measured.get(j, {}) | (steps[j].metrics if j in steps else {})
            for j in sorted({*measured, *steps})
        }

    def _evaluate(self, round_: int) -> None:
        """Compute losses and predictions of the current models, for the choice of models in
        round ``round_``.

        Reported metrics are measured in evaluated rounds only. The losses that clients choose by
        are needed in every round, unless there is only one model. Raises FloatingPointError if a
        weight is NaN or infinite, or a loss without noise or among several models.
        """
        state = self.state
        models = len(self.state.models)
        if not np.isfinite([model.params.sum(dtype=np.float64) for model in state.models]).all():
            raise FloatingPointError(f"a weight is no longer finite in round {state.round}")
        reported = round_ and (round_ % self.run.evaluate_every == 0 or round_ == self.run.rounds)
        if models == 1 and not reported and not attack_round.due(self.run, "models", round_):
            state.losses, state.accuracies, state.selection = np.full(
                (3, self.data.clients, 1), np.nan
            )
            self.outputs = np.empty((1, 0, self.data.classes), np.float32)
            return
        sent = self.clients.share(state.models)
        tests = len(self.data.test) if reported else 0
        evaluations = [
            Job("evaluate", (sent, block, round_), models * self._examples(block))
            for block in self.blocks
        ]
        predictions = prediction_jobs(sent, models, tests)
        answers = self.clients.run(self.setup, evaluations + predictions)
        evaluated: list[Evaluation] = answers[: len(evaluations)]
        blank = np.empty((0, classes := self.data.classes), np.float32)
        self.outputs = np.concatenate(answers[len(evaluations) :] or [blank]).reshape(
            models, tests, classes
        )
        for name in ("losses", "accuracies", "selection"):
            setattr(state, name, np.concatenate([getattr(part, name) for part in evaluated]))
        # Under noise, whether the run ends must not depend on one client's examples.
        if not np.isfinite(state.losses).all() and not (self.run.draws_noise and models == 1):
            raise FloatingPointError(f"a training loss is no longer finite in round {state.round}")

    def _record(self, findings: Findings, metrics: dict[int, Metrics], seconds: float) -> None:
        """Write the round's rows to the tables."""
        snapshot = self._snapshot()
        state = self.state
        last = self.state.round == self.run.rounds
        names = state.names = metric_rows.name_models(snapshot)
        risk = metric_rows.ClientExposure(findings, attack_round.risk_signal(self.run), self.data)
        row = {"round": state.round - 1} | metric_rows.round_row(snapshot)
        row |= (
            metric_rows.slot_columns(metrics, names)
            | metric_rows.attack_columns(findings, names)
            | risk.columns()
        )
        outcome = Outcome([{}] * state.round, state.spent, self.data.sizes, history=state.history)
        for component in (self.run.training, self.run.privacy):
            row |= component.module.so_far(component.config, self.run, outcome)
        row |= {"attacked": bool(findings), "seconds": seconds}
        tables: dict[str, Any] = {"rounds": [row]}
        if snapshot.evaluated:
            examples = len(self.data.validation)
            if examples:
                jobs = prediction_jobs(
                    self.clients.share(state.models), len(names), examples, "validation"
                )
                outputs = np.concatenate(self.clients.run(self.setup, jobs)).reshape(
                    len(names), examples, -1
                )
                row |= classification.validation(outputs, self.data, state.assignment)
            tables["clients"] = metric_rows.client_rows(snapshot, findings, risk)
            privacy = self.run.privacy
            tables["clients"] |= privacy.module.client_columns(
                privacy.config, self.run, state.history
            )
        if snapshot.evaluated and last:
            row |= metric_rows.of_last_round(
                snapshot, stream(self.run.seed, "resampling", state.round)
            )
        if findings:
            rng = stream(self.run.seed, "resampling", state.round, 1)
            tables["attacks"] = metric_rows.attack_rows(findings, names) + risk.group_rows(rng)
        scores = metric_rows.score_columns(findings, names, self.data)
        if scores:
            tables["scores"] = scores
        self.recent.append(as_table(tables["rounds"]))
        for table, rows in tables.items():
            self.saved.append(state.start, table, rows)


# The last number of a stream's place, which tells the draws of the audit apart; its noise has
# places of three numbers.
CANARIES = 1
SAMPLING = 2


class ReleaseAudit:
    """The canaries of a run, which follow from its seed, so that a resumed run has the same."""

    def __init__(self, run: Run, d: int, sizes: Ints) -> None:
        """Decide in which rounds canaries are due; a model has d parameters, and ``sizes``
        [clients] are training examples.
        """
        self.run = run
        self.d = d
        self.clients = len(sizes)
        self.plan = run.privacy.module.canaries(run.privacy.config, run)
        self.every = (
            canary_audit.audit_every(self.plan, run, d, sizes) if self.plan and self.begin() else 0
        )
        self._panels: dict[int, Panel] = {}

    def begin(self) -> State:
        """Return the scores before the first round; empty without an audit."""
        if self.plan is None:
            return {}
        if self.plan.alone:
            return lone_canaries.begin(self.run, self.d, self.clients)
        return canary_audit.begin(self.run, self.plan, self.d)

    def due(self, round_: int) -> bool:
        """Return whether the releases of round ``round_`` are audited: one in the middle of
        every ``every`` rounds.

        The first round is not like the others: its updates are the longest, or the most alike.
        """
        return (
            bool(self.every) and round_ % self.every == (min(self.every, self.run.rounds) - 1) // 2
        )

    def observe(
        self, state: RunState, j: int, now: canary_audit.Round, noise: Normals | None
    ) -> State:
        """Return the canaries' scores after a fork of the round with model ``j``."""
        assert self.plan is not None
        place = stream(self.run.seed, "canaries", 0, j, 0, CANARIES)
        if self.plan.alone:
            directions = Directions.draw(self.d, place)
            return lone_canaries.observe(
                self.run, self.plan, state.canaries, j, directions, now, noise
            )
        if j not in self._panels:
            self._panels[j] = Panel.draw(self.d, place)
        rng = stream(self.run.seed, "canaries", state.round, j, state.start, SAMPLING)
        return canary_audit.observe(
            self.run, self.plan, state.canaries, j, self._panels[j], now, noise, rng
        )
