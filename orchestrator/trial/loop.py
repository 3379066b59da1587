"""One run, round by round: the loop that every algorithm goes through. It knows actors, tasks and files, and no mathematics."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from algorithms.clustering._preference import View, random_partition
from algorithms.core.messages import BlockResult, Evaluation, Ints, empty_updates, gather
from algorithms.core.noise import Normals
from algorithms.engine import server
from datasets.federation import Federation
from orchestrator.config.run import Run
from orchestrator.results.folder import TrialFolder
from orchestrator.results.tables import Parts
from orchestrator.trial import attack_round, metric_rows
from orchestrator.trial.attack_round import AttackTasks, Findings
from orchestrator.trial.client_actors import ClientPool, Job, client_blocks
from orchestrator.trial.local_clients import LocalClients
from orchestrator.trial.random_streams import stream
from orchestrator.trial.state import RunState, load_state, save_state
from orchestrator.trial.worker_session import Setup

TEST_BLOCK = 2000  # test examples that one prediction job covers; fixed, because it decides how batches are cut
UNTRAINED_RISK = 0.5  # an attack on a model that has seen no example can only guess


class DivergenceError(Exception):
    """A loss or a weight is no longer a number."""


class Trial:
    """A run with its state. `advance` does one round and saves; `news` gives what is to be reported of it."""

    def __init__(
        self,
        run: Run,
        setup: Setup,
        data: Federation,
        clients: ClientPool | LocalClients,
        shadows: AttackTasks,
        folder: TrialFolder,
    ) -> None:
        self.run, self.setup, self.data = run, setup, data
        self.clients, self.shadows, self.folder = clients, shadows, folder
        self.blocks = client_blocks(data.clients, run.training.config.clients_per_job)
        self.clustering = run.clustering
        self.preferences = self.clustering.module.preferences(
            self.clustering.config, data.clients, stream(run.seed, "preferences")
        )
        # The last round is never part of the comparison: the choice that is reported must be made with the risk.
        self.explore_until = min(getattr(self.clustering.config, "restart_rounds", 0), run.rounds - 1)
        self.attempts = getattr(self.clustering.config, "restarts", 1) if self.explore_until else 1
        compared = self.explore_until if self.attempts > 1 else run.rounds
        self.warm_until = min(getattr(self.clustering.config, "warm_start_rounds", 0), compared - 1)
        self.saved, self.best = folder.state / "state.safetensors", folder.state / "best.safetensors"
        self.outputs, self.costs = np.empty((0, 0, data.classes), np.float32), np.empty((0, 0))
        (self.layout,) = clients.run(setup, [Job("layout", ())])
        self.state = load_state(self.saved) if self.saved.exists() else self._begin(0)
        self.told = 0 if self.exploring else self.state.round  # rows of earlier rounds have been reported

    @property
    def exploring(self) -> bool:
        """Whether initializations are still being compared."""
        return self.attempts > 1 and not self.state.explored

    @property
    def done(self) -> bool:
        return self.state.round >= self.run.rounds and not self.exploring

    @property
    def parts(self) -> Parts:
        """The rows so far; every initialization has its own until one of them is chosen."""
        return Parts(self.folder.state / f"attempt-{self.state.attempt}")

    def news(self) -> list[dict[str, Any]]:
        """The rows of all rounds that have not been asked for yet; none while initializations are compared."""
        if self.exploring or self.told >= self.state.round:
            return []
        rows = self.parts.read("rounds", start=self.told).to_pylist()
        self.told = self.state.round
        return rows

    def advance(self) -> None:
        """One round, and where it is the last of an initialization's trial, the comparison; then the state is saved.

        Raises Diverged where the run, or every one of its initializations, comes to losses that are no numbers.
        """
        try:
            self._round()
        except (DivergenceError, FloatingPointError):
            if not self.exploring:
                raise
            self.state.losses = np.full_like(self.state.losses, np.inf)
            self.state.round = self.explore_until
        if self.exploring and self.state.round == self.explore_until:
            self._compare()
        save_state(self.state, self.saved)

    def _round(self) -> None:
        """From the attack on the models that are about to be sent out to the rows of the tables."""
        state, started = self.state, time.monotonic()
        # 1. The server attacks its own models, and publishes the risk with them.
        found = self._attack(state.round)
        # 2. Every client chooses a model,
        self._choose(state.round)
        # 3. those who take part train it on their own examples, and what they send is attacked, too.
        noise = self._noise()
        sent = self._train(state.round)
        found.exposures += (
            attack_round.conclude_updates(self.run, self.data, sent, state.round).exposures if sent else []
        )
        # 4. The server learns how the clients stand to each other, and moves each model by what its clients sent.
        self._learn(sent)
        metrics = self._aggregate(sent, noise)
        # 5. Models are compared on every client's examples and on the test examples.
        self._evaluate(state.round + 1)
        state.round += 1
        seconds = time.monotonic() - started
        if state.round == self.run.rounds:  # what is reported of the last round is what would be deployed after it
            found.audits += self._attack(state.round).audits
            found.exposures += self._replicate()
            self._choose(state.round)
        self._record(found, metrics, seconds)

    def note(self) -> str | None:
        """What is going on while there is no news: rounds of an initialization count only if it is chosen."""
        state = self.state
        return f"start {state.attempt + 1} of {self.attempts}, round {state.round}" if self.exploring else None

    def arrays(self) -> dict[str, np.ndarray]:
        """Every model's arrays by name, ``<model>.<array>``, as a torch module of the same shape can load them."""
        (named,) = self.clients.run(self.setup, [Job("arrays", (self.state.models,))])
        return {
            f"{name}.{array}": value
            for name, own in zip(self.state.names, named, strict=True)
            for array, value in own.items()
        }

    def _begin(self, attempt: int) -> RunState:
        """A fresh state with initial weights that depend on the seed and the attempt alone."""
        clusters, clients = self.clustering.config.clusters, self.data.clients
        (models,) = self.clients.run(self.setup, [Job("initial", (attempt, clusters))])
        empty = np.zeros((clients, clusters))
        state = RunState(
            models=models,
            servers=[server.begin(self.run, model) for model in models],
            losses=empty,
            accuracies=empty,
            selection=empty,
            assignment=np.full(clients, -1, np.int64),
            published_risks=np.full(clusters, UNTRAINED_RISK),
            measured_risks=np.full(clusters, np.nan),
            names=[],
            attempt=attempt,
            known=server.initial_statistics(self.run, clients),
        )
        self.state = state
        self._evaluate(0)
        return state

    def _attack(self, round_: int) -> Findings:
        """Make the attacks on models that are due before round ``round_``; publish the risks."""
        state, found = self.state, Findings()
        signal = getattr(self.clustering.config, "signal", None) or next(
            (attack.name for attack in self.run.attacks if getattr(attack.module, "RISK", False)), None
        )
        for attack in attack_round.models_due(self.run, round_):
            accuracies = metric_rows.cluster_accuracies(state.accuracies, state.assignment)
            audits = self.shadows.audit(
                self.setup, self.run, attack, self.data, state.models, state.assignment, accuracies, round_
            )
            for cluster, audit in audits.items():
                found.audits.append((attack.name, round_, cluster, audit))
                if attack.name == signal:
                    state.published_risks[cluster] = audit.risk
                    state.measured_risks[cluster] = metric_rows.measure_of(audit, attack.name, "balanced_accuracy")
        return found

    def _replicate(self) -> list[tuple[str, int, Any]]:
        """The attacks that compare whole federations, with the target and without."""
        wanting = attack_round.by_replicas(self.run)
        concluded = [(one.name, self.shadows.replicate(self.setup, self.run, one)) for one in wanting]
        return [(name, self.run.rounds, exposure) for name, exposure in concluded if exposure is not None]

    def _choose(self, round_: int) -> None:
        state, config = self.state, self.clustering.config
        if round_ < self.warm_until:
            rng = stream(self.run.seed, "warm_start", state.attempt)
            state.assignment = random_partition(config.clusters, self.data.clients, rng)
            self.costs = state.selection
            return
        # While initializations are compared risk has no say, so that every algorithm compares the same ones.
        neutral = replace(self.preferences, beta=np.zeros(self.data.clients))
        preferences = neutral if self.exploring else self.preferences
        view = View(state.selection, state.published_risks, state.assignment, self.data.classes)
        state.assignment, self.costs = self.clustering.module.choose(config, view, preferences)

    def _train(self, round_: int) -> list[BlockResult]:
        """Local training of the clients that take part, block by block; their losses and optimizers are kept."""
        state, run = self.state, self.run
        rng = stream(run.seed, "participation", round_, state.attempt)
        present = set(server.sample_cohort(run.participation, run.participation_rate, self.data.clients, rng).tolist())
        attacks = tuple(attack.name for attack in attack_round.updates_due(run, round_))
        models, jobs = self.clients.share(state.models), []
        for block in self.blocks:
            mine = [client for client in block if client in present]
            if mine:
                told = {name: values[mine] for name, values in state.known.items()}
                carried = {name: values[mine] for name, values in state.carried.items()}
                jobs.append(Job("train", (models, tuple(mine), state.assignment[mine], round_, told, carried, attacks)))
        sent: list[BlockResult] = self.clients.run(self.setup, jobs)
        for one in sent:
            self._keep(state.carried, one.clients, one.carried)
        return sent

    def _noise(self) -> list[Normals | None]:
        """What will be added to each model, drawn while the clients are waited for."""
        state, seed = self.state, self.run.seed
        return [
            server.draw_noise(self.run, self.layout.size, stream(seed, "noise", state.round, j, state.attempt))
            for j in range(len(state.models))
        ]

    def _learn(self, sent: list[BlockResult]) -> None:
        """Take down what was measured of the clients, and how they stand to each other by it."""
        state = self.state
        for one in sent:
            self._keep(state.known, one.clients, one.known)
        if sent:
            took_part = np.concatenate([one.clients for one in sent])
            rng = stream(self.run.seed, "participation", state.round, state.attempt, 1)
            state.known |= server.rank_clients(self.run, state.known, took_part, state.assignment, rng)

    def _keep(self, where: dict[str, np.ndarray], clients: Ints, values: Any) -> None:
        """Put ``values`` [c, ...] of these clients into the arrays of all clients; who was never measured is NaN."""
        for name, own in values.items():
            if name not in where:
                blank = np.nan if np.issubdtype(own.dtype, np.floating) else 0
                where[name] = np.full((self.data.clients, *own.shape[1:]), blank, own.dtype)
            where[name] = where[name].copy()  # what was sent to a job may still be read by it
            where[name][clients] = own

    def _aggregate(self, sent: list[BlockResult], noise: list[Normals | None]) -> dict[int, dict[str, Any]]:
        """Move every model that has clients; an empty cluster keeps its model. Returns what each cluster reports.

        Where it must not show who came, noise is also added for nobody.
        """
        state, metrics = self.state, {}
        weights = np.zeros(self.data.clients)
        hidden = isinstance(getattr(self.run.privacy.config, "divisor", None), float)
        for j, model in enumerate(state.models):
            parts = [one.parts[j] for one in sent if j in one.parts]
            if parts:
                received = gather(parts, self.layout, state.known)
            elif hidden:
                received = empty_updates(self.layout.size, model.buffers, self.layout)
            else:
                continue
            after = server.step(self.run, state.servers[j], state.models[j], received, noise[j])
            state.models[j], state.servers[j], metrics[j] = after.model, after.state, after.metrics
            weights[received.clients] = after.weights
            if after.spent is not None:
                state.spent.append({"round": state.round, "cluster": j, "attempt": state.attempt} | after.spent)
        state.known["weight"] = weights
        return metrics

    def _evaluate(self, round_: int) -> None:
        """Fill in losses and predictions of the models as they are now, for the choice of round ``round_``.

        What is reported is measured in evaluated rounds; the losses that clients choose by are needed in every one, unless
        there is nothing to choose. Raises Diverged where a loss, or a weight that nothing is asked about, is not finite.
        """
        state, models = self.state, len(self.state.models)
        if not np.isfinite([model.params.sum(dtype=np.float64) for model in state.models]).all():
            raise DivergenceError(f"a weight is no longer a number in round {state.round}")
        reported = round_ and (round_ % self.run.evaluate_every == 0 or round_ == self.run.rounds)
        if models == 1 and not reported and not attack_round.models_due(self.run, round_):
            state.losses, state.accuracies = np.full((2, self.data.clients, 1), np.nan)
            self.outputs = np.empty((1, 0, self.data.classes), np.float32)
            return
        sent, tests = self.clients.share(state.models), len(self.data.test) if reported else 0
        evaluations = [Job("evaluate", (sent, block, round_)) for block in self.blocks]
        blocks = [(at, min(at + TEST_BLOCK, tests)) for at in range(0, tests, TEST_BLOCK)]
        predictions = [Job("predict", (sent, j, *block)) for j in range(models) for block in blocks]
        answers = self.clients.run(self.setup, evaluations + predictions)
        evaluated: list[Evaluation] = answers[: len(evaluations)]
        blank = np.empty((0, classes := self.data.classes), np.float32)
        self.outputs = np.concatenate(answers[len(evaluations) :] or [blank]).reshape(models, tests, classes)
        for name in ("losses", "accuracies", "selection"):
            setattr(state, name, np.concatenate([getattr(part, name) for part in evaluated]))
        if not np.isfinite(state.losses).all():
            raise DivergenceError(f"a training loss is no longer a number in round {state.round}")

    def _record(self, found: Findings, metrics: dict[int, dict[str, Any]], seconds: float) -> None:
        snapshot = metric_rows.Snapshot(self.data, self.state, self.preferences, self.outputs, self.costs)
        self.state.names = metric_rows.name_models(snapshot)
        row = {"round": self.state.round - 1} | metric_rows.round_row(snapshot)
        row |= metric_rows.slot_columns(metrics, self.state.names) | metric_rows.attack_columns(found)
        row |= {"attacked": bool(found), "seconds": seconds}
        tables: dict[str, Any] = {"rounds": [row]}
        if snapshot.evaluated:
            tables["clients"] = metric_rows.client_rows(snapshot, found)
        if snapshot.evaluated and self.state.round == self.run.rounds:
            tables["roc"], row["auc_micro"] = metric_rows.roc_rows(snapshot)
        if found:
            tables["attacks"] = metric_rows.attack_rows(found, self.state.names)
        if found.audits:
            tables["scores"] = metric_rows.score_rows(found, self.state.names)
        for table, rows in tables.items():
            self.parts.append(table, self.state.round - 1, rows)

    def _compare(self) -> None:
        """One initialization has had its rounds: keep it if it is the best, then try the next or go on with the best."""
        state = self.state
        loss = float(np.mean(metric_rows.of_own_model(state.losses, state.assignment)))
        if np.isfinite(loss) and (state.best is None or loss < state.best[0]):
            state.best = (loss, state.attempt)
            save_state(state, self.best)
        if state.attempt + 1 < self.attempts:
            self.state = self._begin(state.attempt + 1)
            self.state.best, self.state.spent = state.best, state.spent  # what was left off has been sent out, too
        elif state.best is None:
            raise DivergenceError(f"all {self.attempts} initializations diverged")
        else:
            self.state = load_state(self.best)
            self.state.explored, self.state.spent = True, state.spent
