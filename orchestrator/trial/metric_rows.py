"""What a round leaves in the tables: the run's state, seen through the metrics of the papers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.clustering._preference import Preferences
from algorithms.metrics import classification, fairness, violations
from algorithms.metrics import clusters as sorting
from attacks.metrics.disparity import spearman
from attacks.metrics.membership import losses
from datasets.federation import Federation
from orchestrator.config.run import Run
from orchestrator.trial.attack_round import Findings
from orchestrator.trial.state import RunState

GROUPED = (sorting.MAJORITY, sorting.MINORITY)


@dataclass(frozen=True)
class Snapshot:
    """A round after its evaluation; ``outputs`` [clusters, m, classes] are every model's logits on the test examples."""

    data: Federation
    state: RunState
    preferences: Preferences
    outputs: NDArray[np.float32]
    costs: NDArray[np.float64]

    @cached_property
    def predictions(self) -> NDArray[np.int64]:
        """[clusters, m] every model's class for each test example."""
        return self.outputs.argmax(axis=2)

    @property
    def names(self) -> list[str]:
        return self.state.names

    @property
    def evaluated(self) -> bool:
        """Whether models were tested in this round (see ``evaluate_every``)."""
        return self.outputs.shape[1] == len(self.data.test)

    @property
    def two_groups(self) -> bool:
        return tuple(self.data.group_names) == GROUPED

    @cached_property
    def hits(self) -> NDArray[np.bool_]:
        """[clusters, m] whether each model is right on each test example."""
        return self.predictions == self.data.test.y

    @cached_property
    def test_group(self) -> NDArray[np.int64]:
        """[m] true group of each test example's owner, -1 where nobody owns it."""
        return np.where(self.data.test_owner < 0, -1, self.data.groups[self.data.test_owner])

    @cached_property
    def used(self) -> NDArray[np.int64]:
        """[m] the model that each test example's owner uses; the most used one for examples of nobody."""
        common = int(np.bincount(self.state.assignment).argmax())
        return np.where(self.data.test_owner < 0, common, self.state.assignment[self.data.test_owner])

    @cached_property
    def judged(self) -> NDArray[np.int64]:
        """Places of the test examples that belong to nobody, on which a server judges its model; of all if there are none."""
        nobodys = np.flatnonzero(self.data.test_owner < 0)
        return nobodys if len(nobodys) else np.arange(len(self.data.test))

    @cached_property
    def used_hits(self) -> NDArray[np.bool_]:
        """[m] whether the model that the owner uses is right."""
        return self.hits[self.used, np.arange(len(self.used))]


def of_own_model(values: NDArray[np.float64], assignment: NDArray[np.int64]) -> NDArray[np.float64]:
    """[clients] of ``values`` [clients, clusters], what belongs to each client's own model."""
    return values[np.arange(len(assignment)), assignment]


def cluster_accuracies(accuracies: NDArray[np.float64], assignment: NDArray[np.int64]) -> NDArray[np.float64]:
    """[clusters] mean training accuracy of every model over the clients that use it, NaN where nobody does."""
    mine, clusters = of_own_model(accuracies, assignment), accuracies.shape[1]
    return np.array([mine[assignment == j].mean() if (assignment == j).any() else np.nan for j in range(clusters)])


def name_models(shot: Snapshot) -> list[str]:
    """Names of the models: after groups where there are groups, else by number."""
    state, clusters = shot.state, shot.state.losses.shape[1]
    if clusters == 1 or not shot.two_groups:
        return [f"model_{j}" for j in range(clusters)] if clusters > 1 else ["global"]
    previous = state.names or None
    return list(sorting.name_models(state.assignment, shot.data.groups, clusters, previous))


def round_row(shot: Snapshot) -> dict[str, Any]:
    """The scalars of a round. What does not exist (an empty cluster's accuracy, an unmeasured risk) is left out."""
    state = shot.state
    row: dict[str, Any] = {"loss": float(of_own_model(state.losses, state.assignment).mean())}
    row["train_accuracy"] = float(of_own_model(state.accuracies, state.assignment).mean())
    row |= (_accuracies(shot) | _server_test(shot)) if shot.evaluated else {}
    if "lambda_max" in state.known:  # two measures of one curvature: 1 where they rank the clients alike
        row["rho_spearman"] = spearman(state.known["lambda_max"], state.known["hessian_trace"])
    if shot.two_groups:
        row |= _risks(shot) | _sorting(shot) | (_fairness(shot) if shot.evaluated else {})
    sizes = np.bincount(state.assignment, minlength=len(shot.names))
    return row | {f"clients_{name}": int(size) for name, size in zip(shot.names, sizes, strict=True)}


def _accuracies(shot: Snapshot) -> dict[str, float]:
    """Accuracy by true group under the model that each client uses, and of each model on its own group's examples.

    ``accuracy`` counts every group by its clients, so that test sets of equal size do not make groups equal;
    ``aggregated_accuracy`` counts every client by its test examples.
    """
    row: dict[str, float] = {}
    right, counted = 0.0, 0
    for g, name in enumerate(shot.data.group_names):
        of_group = shot.test_group == g
        if of_group.any():
            group_accuracy, clients = float(shot.used_hits[of_group].mean()), int((shot.data.groups == g).sum())
            right, counted = right + group_accuracy * clients, counted + clients
            row |= {f"accuracy_{name}": group_accuracy} if len(shot.data.group_names) > 1 else {}
        if name in shot.names and of_group.any() and (shot.state.assignment == shot.names.index(name)).any():
            row[f"model_accuracy_{name}"] = float(shot.hits[shot.names.index(name)][of_group].mean())
    owned = shot.data.test_owner >= 0
    if owned.any():
        row["aggregated_accuracy"] = float(shot.used_hits[owned].mean())
    return {"accuracy": right / counted if counted else float(shot.used_hits.mean())} | row


def _server_test(shot: Snapshot) -> dict[str, float]:
    """Accuracy, loss, macro F1 and precision on the server's test examples, under the model that each one's owner uses."""
    logits, y = shot.outputs[shot.used, np.arange(len(shot.used))][shot.judged], shot.data.test.y[shot.judged]
    predicted = logits.argmax(axis=1)
    f1, precision = classification.macro_f1_precision(predicted, y, shot.data.classes)
    loss = float(losses(logits, y).mean())
    return {
        "test_accuracy": float((predicted == y).mean()),
        "test_loss": loss,
        "f1_macro": f1,
        "precision_macro": precision,
    }


def _risks(shot: Snapshot) -> dict[str, Any]:
    state, groups = shot.state, shot.data.groups
    row: dict[str, Any] = {}
    for name, risk in zip(shot.names, state.measured_risks, strict=True):
        occupied = (state.assignment == shot.names.index(name)).any()
        row[f"mia_accuracy_{name}"] = float(risk) if occupied else None
    tau = shot.preferences.threshold
    row["violations"] = violations.violations(tau, state.measured_risks, state.assignment)
    for g, name in enumerate(shot.data.group_names):
        row[f"violations_{name}"] = violations.violations(tau, state.measured_risks, state.assignment, groups == g)
    return row | {"risk_gap": sorting.risk_gap(state.measured_risks, shot.names)}


def _sorting(shot: Snapshot) -> dict[str, Any]:
    """How clients sort themselves: purity, migration, and the loss that keeps the minority in its cluster."""
    state, groups, clusters = shot.state, shot.data.groups, len(shot.names)
    gaps = sorting.loss_gap(state.losses, shot.names)[groups == 1]
    return {
        "purity": sorting.purity(state.assignment, groups, clusters),
        "migrated": sorting.count_migrated(state.assignment, groups, shot.names) if clusters > 1 else 0,
        "loss_gap": float(np.mean(gaps)) if len(gaps) else float("nan"),
    }


def _fairness(shot: Snapshot) -> dict[str, float]:
    predicted, owned = shot.predictions[shot.used, np.arange(len(shot.used))].astype(np.int64), shot.test_group >= 0
    privileged = shot.test_group[owned] == 0
    return fairness.fairness(predicted[owned], shot.data.test.y[owned], privileged, shot.data.classes)


def client_rows(shot: Snapshot, found: Findings) -> dict[str, Any]:
    """The columns of ``clients.parquet`` for one round, one entry per client."""
    state, data = shot.state, shot.data
    clients = np.arange(data.clients)
    owned = np.bincount(data.test_owner[data.test_owner >= 0], minlength=data.clients)
    right = np.bincount(data.test_owner[shot.used_hits & (data.test_owner >= 0)], minlength=data.clients)
    columns = {
        "round": np.full(data.clients, state.round - 1),
        "client": clients,
        "group": np.array(data.group_names)[data.groups].tolist(),
        "cluster": state.assignment,
        "model": np.array(shot.names)[state.assignment].tolist(),
        "examples": data.sizes,
        "transform_strength": data.strengths,
        "loss": of_own_model(state.losses, state.assignment),
        "accuracy": of_own_model(state.accuracies, state.assignment),
        "test_accuracy": np.divide(right, owned, out=np.full(data.clients, np.nan), where=owned > 0),
        "threshold": shot.preferences.threshold,
        "beta": shot.preferences.beta,
        "choice_cost": of_own_model(shot.costs, state.assignment),
        "published_risk": state.published_risks[state.assignment],
    }
    for j, name in enumerate(shot.names):
        columns[f"loss_{name}"] = state.losses[:, j]
    for _, _, exposure in found.exposures:
        columns |= exposure.clients
    return columns | state.known


def slot_columns(metrics: dict[int, dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """What the slots report of a round: the mean over models and, where there are several, each model's own."""
    row: dict[str, Any] = {}
    for fact in dict.fromkeys(name for own_facts in metrics.values() for name in own_facts):
        row[fact] = float(np.mean([own_facts[fact] for own_facts in metrics.values() if fact in own_facts]))
        if len(names) > 1:
            row |= {f"{fact}_{names[j]}": value[fact] for j, value in metrics.items() if fact in value}
    return row


def attack_columns(found: Findings) -> dict[str, Any]:
    """What attacks contribute to a round's row."""
    row: dict[str, Any] = {}
    for _, _, exposure in found.exposures:
        row |= exposure.metrics
    for _, _, _, audit in found.audits:
        row |= audit.metrics
    return row


def roc_rows(shot: Snapshot) -> tuple[dict[str, Any], float]:
    """The columns of ``roc.parquet``, the micro-averaged one-vs-rest ROC curve on the server's test examples, and its area."""
    logits = shot.outputs[shot.used, np.arange(len(shot.used))][shot.judged]
    false, true = classification.micro_roc(logits, shot.data.test.y[shot.judged])
    columns = dict(zip(("false_positive_rate", "true_positive_rate"), classification.thin(false, true), strict=True))
    return columns, classification.area(false, true)


def attack_rows(found: Findings, names: list[str]) -> list[dict[str, Any]]:
    """The rows of ``attacks.parquet``: one per attack, round, target (model or client) and metric."""
    rows = [
        {"attack": attack, "round": round_, "target": names[cluster], "metric": metric, "value": value}
        for _, round_, cluster, audit in found.audits
        for attack, metric, value in audit.measures
    ]
    return rows + [
        {"attack": attack, "round": round_, "target": target, "metric": metric, "value": value}
        for attack, round_, exposure in found.exposures
        for target, metric, value in exposure.measures
    ]


def score_rows(found: Findings, names: list[str]) -> dict[str, Any]:
    """The columns of ``scores.parquet``: the score of every attacked example. ``found`` must hold an audit."""
    columns: dict[str, list[Any]] = {name: [] for name in ("attack", "round", "target", "client", "member", "score")}
    for _, round_, cluster, audit in found.audits:
        scores = audit.scores
        count = len(scores.score)
        columns["attack"] += scores.attack.tolist()
        columns["round"] += [round_] * count
        columns["target"] += [names[cluster]] * count
        for name in ("client", "member", "score"):
            columns[name].append(getattr(scores, name))
    return columns | {name: np.concatenate(columns[name]) for name in ("client", "member", "score")}


def measure_of(audit: Any, attack: str, metric: str) -> float:
    """One of an audit's measures."""
    return next(value for name, what, value in audit.measures if (name, what) == (attack, metric))


def final_metrics(
    run: Run, rows: list[dict[str, Any]], spent: list[dict[str, Any]], sizes: NDArray[np.int64]
) -> dict[str, Any]:
    """A run's final metrics: the last round's, what is taken over rounds, and what components make of them.

    ``violations_last_half`` is the mean over the attacked rounds in the last half.
    """
    last = {name: value for name, value in rows[-1].items() if name not in ("round", "seconds", "attacked")}
    half = [
        row["violations"] for row in rows[len(rows) // 2 :] if row.get("attacked") and row.get("violations") is not None
    ]
    if half:
        last["violations_last_half"] = float(np.mean(half))
    accuracies = {row["round"] + 1: row["accuracy"] for row in rows if row.get("accuracy") is not None}
    last |= _over_rounds(accuracies) if accuracies else {}
    ranks = [row["rho_spearman"] for row in rows if row.get("rho_spearman") is not None]
    last |= {"rho_spearman": float(np.mean(ranks))} if ranks else {}
    trained = [row["train_accuracy"] for row in rows[-5:] if row.get("train_accuracy") is not None]
    last |= {"train_accuracy_last5_mean": float(np.mean(trained))} if trained else {}
    if hasattr(run.training.module, "final"):
        last |= run.training.module.final(run.training.config, run, rows, sizes)
    for component in (run.objective, run.aggregation, *run.attacks):
        if hasattr(component.module, "final"):
            last |= component.module.final(component.config, run, rows)
    if hasattr(run.privacy.module, "final"):
        last |= run.privacy.module.final(run.privacy.config, run, rows, spent)
    # In its first round a process loads packages and data, which is no property of the run.
    return last | {"seconds_per_round": float(np.mean([row["seconds"] for row in rows[1:] or rows]))}


def _over_rounds(accuracies: dict[int, float]) -> dict[str, float]:
    """Mean and population standard deviation over the last five evaluated rounds, and when 98 % of that mean was reached.

    ``accuracies`` are those of the evaluated rounds by their number, 1 the first.
    """
    last = list(accuracies.values())[-5:]
    settled = float(np.mean(last))
    return {
        "accuracy_last5_mean": settled,
        "accuracy_last5_std": float(np.std(last)),
        "converge_round": next(t for t, accuracy in accuracies.items() if accuracy >= 0.98 * settled),
    }
