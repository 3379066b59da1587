"""The round loop, which every algorithm uses. It handles actors, tasks and files, and contains no mathematics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from algorithms.core.accounting import Spending
from algorithms.core.choices import Preferences, View
from algorithms.core.layout import Layout
from algorithms.core.messages import BlockResult, Doubles, Evaluation, Ints, empty_updates, gather
from algorithms.core.noise import Normals
from algorithms.engine import canary_audit, server
from algorithms.interfaces import Metrics, Run
from attacks.interfaces import Audit
from datasets.federation import Federation
from orchestrator.results.folder import TrialFolder
from orchestrator.results.parts import Parts
from orchestrator.trial import attack_round, metric_rows, risk_rows
from orchestrator.trial.attack_round import AttackTasks, Findings
from orchestrator.trial.client_actors import ClientPool, Job, client_blocks, prediction_jobs
from orchestrator.trial.local_clients import LocalClients
from orchestrator.trial.random_streams import run_stream, stream
from orchestrator.trial.release_audit import ReleaseAudit
from orchestrator.trial.risk_rows import ClientExposure
from orchestrator.trial.saved import table_parts
from orchestrator.trial.state import RunState
from orchestrator.trial.validation import validation_metrics
from orchestrator.trial.worker_session import Setup

UNTRAINED_RISK = 0.5  # an attack on an untrained model can only guess

Choice = Callable[[int, View], tuple[Ints, Doubles]]
"""``choose(round, view)`` returns the model of each client [clients] and the cost of every model [clients, clusters]."""


class DivergenceError(Exception):
    """A loss or a weight is NaN or infinite."""


@dataclass(frozen=True)
class Surroundings:
    """What a run works with.

    Attributes:
        setup: where workers find the trial.
        data: the federation.
        clients: the actors that run jobs, or a replacement in this process.
        tasks: runs the attacks with shadow models or replicas.
        folder: the trial's folder.
        noisy: whether the server adds its noise; not so in a replica that serves as a reference.
    """

    setup: Setup
    data: Federation
    clients: ClientPool | LocalClients
    tasks: AttackTasks
    folder: TrialFolder
    noisy: bool = True


class Rounds:
    """A run and its state.

    `advance` does one round; it writes the rows of the tables to disk, but does not save the state.
    """

    def __init__(
        self, run: Run, around: Surroundings, preferences: Preferences, choose: Choice, start: int | RunState = 0
    ) -> None:
        """Begin from an initialization, or resume from a state.

        Args:
            run: the run.
            around: what the run works with.
            preferences: the clients' risk preferences.
            choose: how clients choose their model in a round.
            start: the number of the initialization, or a saved state.
        """
        self.run, self.around, self.preferences, self.choose = run, around, preferences, choose
        self.data, self.clients, self.setup = around.data, around.clients, around.setup
        self.blocks = client_blocks(self.data.clients, run.training.config.block_size)
        self.outputs, self.costs = np.empty((0, 0, self.data.classes), np.float32), np.empty((0, 0))
        self.layout: Layout = self.clients.run(self.setup, [Job("layout", ())])[0]
        self.audit = ReleaseAudit(run, self.layout.size, self.data.sizes)
        self.state = start if isinstance(start, RunState) else self._begin(start)

    @property
    def parts(self) -> Parts:
        """The rows written so far; every initialization has its own."""
        return table_parts(self.around.folder, self.state.start)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return every model's arrays by name, ``<model>.<array>``, for a torch module of the same shape."""
        (named,) = self.clients.run(self.setup, [Job("arrays", (self.state.models,))])
        return {
            f"{name}.{array}": value
            for name, own in zip(self.state.names, named, strict=True)
            for array, value in own.items()
        }

    def advance(self) -> None:
        """Do one round: from the attack on the models that are about to be sent out to the rows of the tables.

        Raises:
            DivergenceError: a loss or a weight is NaN or infinite.
        """
        state, started = self.state, time.monotonic()
        # 1. The server attacks its own models, and publishes the risk with them.
        found = self._attack(state.round)
        # 2. Every client chooses a model,
        self._choose(state.round)
        # 3. those that take part train it on their own examples, and their updates are attacked, too.
        noise = self._noise()
        forked = self._noise("canaries") if self.audit.due(state.round) else None
        results = self._train(state.round)
        state.history = attack_round.with_round(state.history, state.assignment, results)
        state.users = attack_round.last_users(state.users, state.history)
        state.trained_rounds = attack_round.last_rounds(state.trained_rounds, state.history)
        if results:
            found.exposures += attack_round.conclude_updates(self.run, self.data, results, state.round, state.attacks)
        # 4. The server records the client statistics, and updates each model with what its clients sent.
        compared = self._learn(results)
        metrics = self._aggregate(results, noise, forked)
        metrics = {j: compared.get(j, {}) | metrics.get(j, {}) for j in sorted({*compared, *metrics})}
        # 5. All models are evaluated on every client's examples and on the test examples.
        self._evaluate(state.round + 1)
        state.round += 1
        seconds = time.monotonic() - started
        if state.round == self.run.rounds:  # the models that would be deployed are attacked, too
            found += self._attack(state.round)
            found.exposures += self._replicate()
        self._record(found, metrics, seconds)

    def _begin(self, start: int) -> RunState:
        self.state = self.fresh(start)
        self._evaluate(0)
        return self.state

    def fresh(self, start: int) -> RunState:
        """Make a fresh state, still without losses; its weights depend only on the seed and the initialization."""
        clusters, clients = self.run.clustering.config.clusters, self.data.clients
        (models,) = self.clients.run(self.setup, [Job("initial", (start, clusters))])
        empty = np.zeros((clients, clusters))
        return RunState(
            models=models,
            servers=[server.begin(self.run, model) for model in models],
            losses=empty,
            accuracies=empty,
            selection=empty,
            assignment=np.full(clients, -1, np.int64),
            reference=np.full(clients, -1, np.int64),
            users=np.zeros((clusters, clients), bool),
            trained_rounds=np.zeros(clusters, np.int64),
            published_risks=np.full(clusters, UNTRAINED_RISK),
            measured_risks=np.full(clusters, np.nan),
            queried=np.zeros((clusters, 2), np.int64),
            names=[],
            start=start,
            statistics=server.initial_statistics(self.run, clients),
            canaries=self.audit.begin(),
        )

    def _attack(self, round_: int) -> Findings:
        """Make the attacks on models that are due before round ``round_``, and publish the risks."""
        state, signal = self.state, attack_round.risk_signal(self.run)
        found = Findings(attack_round.trained_last(state.history, self.data.clients))
        for attack in attack_round.models_due(self.run, round_):
            accuracies = metric_rows.cluster_accuracies(state.accuracies, state.users)
            left = attack_round.clients_that_left(state.reference, state.assignment, state.history, len(state.models))
            models = attack_round.ClusterModels(
                state.models, state.users, left, accuracies, state.trained_rounds, round_, state.history
            )
            audits = self.around.tasks.audit(self.setup, self.run, attack, self.data, models)
            for cluster, audit in audits.items():
                found.audits.append((attack.name, round_, cluster, audit))
                if attack.name == signal:
                    self._publish(cluster, audit)
        state.own_risks = attack_round.own_risks(state.own_risks, found, len(state.models))
        return found

    def _publish(self, cluster: int, audit: Audit) -> None:
        """Keep a model's risk; one that could not be determined is published like that of an untrained model."""
        state, unknown = self.state, float("nan")
        published = unknown if audit.published_risk is None else audit.published_risk
        state.published_risks[cluster] = UNTRAINED_RISK if math.isnan(published) else published
        state.measured_risks[cluster] = unknown if audit.risk is None else audit.risk
        member = audit.examples().member
        state.queried[cluster] = member.sum(), (~member).sum()

    def _replicate(self) -> list[tuple[str, int, Any]]:
        """Make the attacks that compare whole federations."""
        shot = metric_rows.Snapshot(self.data, self.state, self.preferences, self.outputs, self.costs)
        names = metric_rows.name_models(shot)
        return attack_round.replicate(self.around.tasks, self.setup, self.run, self.data, self.state, names)

    def _choose(self, round_: int) -> None:
        """Let every client choose its model."""
        state = self.state
        known = state.selection, state.published_risks, state.assignment
        view = View(*known, self.data.classes, state.own_risks if state.own_risks.size else None)
        state.assignment, self.costs = self.choose(round_, view)

    def _train(self, round_: int) -> list[BlockResult]:
        """Train the cohort, block by block; the states of their optimizers are kept."""
        from algorithms.engine.block import Assignment

        state, run = self.state, self.run
        rng = run_stream(run, "participation", round_, state.start)
        cohort = set(server.sample_cohort(run.participation, run.participation_rate, self.data.clients, rng).tolist())
        attacks = tuple(attack.name for attack in attack_round.updates_due(run, round_))
        models, jobs = self.clients.share(state.models), []
        for block in self.blocks:
            participants = [client for client in block if client in cohort]
            if participants:
                statistics = {name: values[participants] for name, values in state.statistics.items()}
                optimizers = {name: values[participants] for name, values in state.optimizer_states.items()}
                assigned = Assignment(
                    tuple(participants), state.assignment[participants], round_, statistics, optimizers
                )
                jobs.append(Job("train", (models, assigned, attacks)))
        results: list[BlockResult] = self.clients.run(self.setup, jobs)
        for result in results:
            server.keep(state.optimizer_states, self.data.clients, result.clients, result.optimizer_states)
        return results

    def _noise(self, purpose: str = "noise") -> list[Normals | None]:
        """Draw the noise for each model while the clients train: that of the round, or that of the audit's fork."""
        state, run = self.state, self.run
        if not self.around.noisy:
            return [server.no_noise(run, self.layout.size) for _ in state.models]
        return [
            server.draw_noise(run, self.layout.size, run_stream(run, purpose, state.round, j, state.start))
            for j in range(len(state.models))
        ]

    def _learn(self, results: list[BlockResult]) -> dict[int, Metrics]:
        """Record the measured client statistics and the ranks that follow from them.

        Returns:
            How well the ranks were measured, by cluster.
        """
        state, halves = self.state, dict[str, np.ndarray]()
        for result in results:
            server.keep(state.statistics, self.data.clients, result.clients, result.statistics)
            if result.halves is not None:
                server.keep(halves, self.data.clients, result.clients, {"halves": result.halves})
        if not results:
            return {}
        cohort = np.concatenate([result.clients for result in results])
        rng = stream(self.run.seed, "participation", state.round, state.start, 1)
        state.statistics |= server.rank_clients(self.run, state.statistics, cohort, state.assignment, rng)
        return server.compare_curvatures(self.run, state.statistics, halves.get("halves"), cohort, state.assignment)

    def _aggregate(
        self, results: list[BlockResult], noise: list[Normals | None], forked: list[Normals | None] | None
    ) -> dict[int, Metrics]:
        """Update every model that has clients.

        An empty cluster keeps its model, unless the privacy component must hide that it is empty.

        Returns:
            The metrics that each cluster's components report.
        """
        state, privacy = self.state, self.run.privacy
        metrics: dict[int, Metrics] = {}
        weights = np.zeros(self.data.clients)
        for j, model in enumerate(state.models):
            parts = [result.parts[j] for result in results if j in result.parts]
            if parts:
                received = gather(parts, self.layout, state.statistics)
            elif privacy.module.covers_empty_rounds(privacy.config):
                received = empty_updates(self.layout.size, model.buffers, self.layout)
            else:
                continue
            if forked is not None:
                before = canary_audit.Round(state.servers[j], model, received, self.data.sizes)
                state.canaries = self.audit.observe(state, j, before, forked[j])
            state.canaries = canary_audit.released(state.canaries, j)
            after = server.step(self.run, state.servers[j], model, received, noise[j])
            state.models[j], state.servers[j], metrics[j] = after.model, after.state, after.metrics
            weights[received.clients] = after.weights
            if after.event is not None:
                state.spent.append(Spending(state.round, j, state.start, after.event))
        state.statistics["weight"] = weights
        return metrics

    def _evaluate(self, round_: int) -> None:
        """Compute losses and predictions of the current models, for the choice of models in round ``round_``.

        Reported metrics are measured in evaluated rounds only. The losses that clients choose by are needed in every
        round, unless there is only one model.

        Raises:
            DivergenceError: a loss or a weight is NaN or infinite.
        """
        state, models = self.state, len(self.state.models)
        if not np.isfinite([model.params.sum(dtype=np.float64) for model in state.models]).all():
            raise DivergenceError(f"a weight is no longer finite in round {state.round}")
        reported = round_ and (round_ % self.run.evaluate_every == 0 or round_ == self.run.rounds)
        if models == 1 and not reported and not attack_round.models_due(self.run, round_):
            state.losses, state.accuracies = np.full((2, self.data.clients, 1), np.nan)
            self.outputs = np.empty((1, 0, self.data.classes), np.float32)
            return
        sent, tests = self.clients.share(state.models), len(self.data.test) if reported else 0
        evaluations = [Job("evaluate", (sent, block, round_)) for block in self.blocks]
        predictions = prediction_jobs(sent, models, tests)
        answers = self.clients.run(self.setup, evaluations + predictions)
        evaluated: list[Evaluation] = answers[: len(evaluations)]
        blank = np.empty((0, classes := self.data.classes), np.float32)
        self.outputs = np.concatenate(answers[len(evaluations) :] or [blank]).reshape(models, tests, classes)
        for name in ("losses", "accuracies", "selection"):
            setattr(state, name, np.concatenate([getattr(part, name) for part in evaluated]))
        if not np.isfinite(state.losses).all():
            raise DivergenceError(f"a training loss is no longer finite in round {state.round}")

    def _record(self, found: Findings, metrics: dict[int, Metrics], seconds: float) -> None:
        """Write the round's rows to the tables."""
        snapshot = metric_rows.Snapshot(self.data, self.state, self.preferences, self.outputs, self.costs)
        state, last = self.state, self.state.round == self.run.rounds
        names = state.names = metric_rows.name_models(snapshot)
        risk = ClientExposure(found, attack_round.risk_signal(self.run), self.data)
        row = {"round": state.round - 1} | metric_rows.round_row(snapshot)
        row |= metric_rows.slot_columns(metrics, names) | metric_rows.attack_columns(found, names) | risk.columns()
        row |= {"attacked": bool(found), "seconds": seconds}
        tables: dict[str, Any] = {"rounds": [row]}
        if snapshot.evaluated:
            row |= validation_metrics(self.clients, self.setup, self.data, self.state)
            tables["clients"] = metric_rows.client_rows(snapshot, found, risk)
        if snapshot.evaluated and last:
            tables["roc"], row["auc_micro"] = metric_rows.roc_rows(snapshot)
            row |= metric_rows.fairness_by_chance(snapshot, stream(self.run.seed, "resampling", state.round))
        if found:
            rng = stream(self.run.seed, "resampling", state.round, 1)
            tables["attacks"] = metric_rows.attack_rows(found, names) + risk.group_rows(rng)
        if scores := risk_rows.score_columns(found, names):
            tables["scores"] = scores
        for table, rows in tables.items():
            self.parts.append(table, state.round - 1, rows)
            state.parts[table] = state.parts.get(table, 0) + 1
