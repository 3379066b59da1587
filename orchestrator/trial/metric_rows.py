"""The rows that a round writes to the tables: the run's state, evaluated with the metrics of the
papers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from algorithms.core.choices import Preferences
from algorithms.core.columns import column, columns
from algorithms.core.metric import (
    ACCURACY,
    RUN,
    WORST,
    Number,
    Of,
    of_group,
    of_model,
    variant,
)
from algorithms.curvature import ranking
from algorithms.interfaces import Outcome, Run
from algorithms.metrics import classification, fairness, violations
from algorithms.metrics import clusters as sorting
from algorithms.metrics.declared import ROUND_METRICS
from attacks.interfaces import Scores
from attacks.metrics import client_risk, intervals
from attacks.metrics.client_risk import Attacked
from attacks.metrics.membership import NAN, auc, losses, probabilities
from datasets.federation import Federation
from orchestrator.config.metric_names import metric, metrics
from orchestrator.trial.attack_round import Findings
from orchestrator.trial.saved import RunState

GROUPED = (sorting.MAJORITY, sorting.MINORITY)
# Accuracies, and the columns of what a model reaches that always answers the commonest class.
CONSTANT = {
    entry.name: entry.chance
    for entry in ROUND_METRICS
    if entry.family == ACCURACY and isinstance(entry.chance, str)
}


@dataclass(frozen=True)
class Snapshot:
    """The state of a run after the evaluation of a round.

    Attributes:
        data: the federation.
        state: the run's state.
        preferences: the clients' risk preferences.
        outputs: [clusters, m, classes] every model's logits on the test examples.
        costs: [clients, clusters] the cost by which clients chose their model.
    """

    data: Federation
    state: RunState
    preferences: Preferences
    outputs: NDArray[np.float32]
    costs: NDArray[np.float64]

    @property
    def evaluated(self) -> bool:
        """Whether models were tested in this round (see ``evaluate_every``)."""
        return self.outputs.shape[1] == len(self.data.test)

    @property
    def two_groups(self) -> bool:
        """Whether the clients form a majority and a minority."""
        return tuple(self.data.group_names) == GROUPED

    @cached_property
    def test_group(self) -> NDArray[np.int64]:
        """The true group of each test example's owner, -1 for nobody's examples, [m]."""
        return np.where(self.data.test_owner < 0, -1, self.data.groups[self.data.test_owner])

    @cached_property
    def logits(self) -> NDArray[np.float32]:
        """Those of the model that each test example's owner uses, for nobody's examples the most
        used one, [m, classes].
        """
        common = np.bincount(self.state.assignment).argmax()
        owner = self.data.test_owner
        return self.outputs[
            np.where(owner < 0, common, self.state.assignment[owner]), np.arange(len(owner))
        ]

    @cached_property
    def hits(self) -> NDArray[np.bool_]:
        """Whether the model that the owner uses is right on each test example, [m]."""
        hits: NDArray[np.bool_] = self.logits.argmax(axis=1) == self.data.test.y
        return hits

    @cached_property
    def judged(self) -> NDArray[np.int64]:
        """The positions of the server's test examples: those that belong to nobody, or all if
        there are none.
        """
        unowned = np.flatnonzero(self.data.test_owner < 0)
        return unowned if len(unowned) else np.arange(len(self.data.test))


def of_own_model(values: NDArray[np.float64], assignment: NDArray[np.int64]) -> NDArray[np.float64]:
    """Select from ``values`` [clients, clusters] those of each client's own model, [clients]."""
    return values[np.arange(len(assignment)), assignment]


def name_models(shot: Snapshot) -> list[str]:
    """Name the models: after the groups if there are a majority and a minority, else by number."""
    state = shot.state
    clusters = shot.state.losses.shape[1]
    if clusters == 1 or not shot.two_groups:
        return [f"model_{j}" for j in range(clusters)] if clusters > 1 else ["global"]
    # A name stays once risk counts: clients that move because of it must not take a group's name
    # from its model.
    frozen = bool((state.reference >= 0).all())
    choice, previous = (state.reference, ()) if frozen else (state.assignment, state.names)
    return list(sorting.name_models(choice, shot.data.groups, clusters, previous))


def round_row(shot: Snapshot) -> dict[str, Any]:
    """Return the scalars of a round; what does not exist (an empty cluster's accuracy, an
    unmeasured risk) is omitted.
    """
    declared = metrics()
    row: dict[str, Any] = columns(_losses(shot), declared) | columns(_moves(shot), declared)
    if shot.evaluated:
        row |= columns(_accuracies(shot), declared) | _accuracies_of_constant(shot)
        if shot.two_groups:
            row |= fairness.fairness(*_predictions_by_group(shot))
    if not np.isnan(shot.state.measured_risks).all():  # models were attacked
        unused = set(range(len(shot.state.names))) - {*shot.state.assignment.tolist()}
        row |= {column("mia_accuracy", of_model(shot.state.names[j])): None for j in unused}
        row |= columns(_model_risks(shot.state, shot.preferences, shot.data), declared)
    return row


def _losses(shot: Snapshot) -> Iterator[Number]:
    """Yield training loss and accuracy, and by how much the minority's loss is larger under the
    majority's model.
    """
    state = shot.state
    yield Number("loss", float(of_own_model(state.losses, state.assignment).mean()))
    yield Number("train_accuracy", float(of_own_model(state.accuracies, state.assignment).mean()))
    if shot.two_groups:
        gaps = sorting.loss_gap(state.losses, state.names)[shot.data.groups == 1]
        yield Number("loss_gap", float(np.mean(gaps)) if len(gaps) else NAN)


def _moves(shot: Snapshot) -> Iterator[Number]:
    """Yield how many clients use which model, and how many have moved."""
    data = shot.data
    used = shot.state.assignment
    names = shot.state.names
    groups = {name: data.groups == g for g, name in enumerate(data.group_columns)}
    for name, size in zip(names, np.bincount(used, minlength=len(names)).tolist(), strict=True):
        yield Number("clients", size, of_model(name))
    # Who uses another model than that chosen by loss alone when risk began to count.
    moved = shot.state.reference != used
    if (shot.state.reference >= 0).all():
        yield Number("migrated", int(moved.sum()))
        for name, who in groups.items() if len(groups) > 1 else ():
            yield Number("moved", int(moved[who].sum()), of_group(name))
    if shot.two_groups:
        yield Number("purity", sorting.purity(used, data.groups, len(names)))
        for j, name in enumerate(names):
            if name in groups:  # the model is named after a group, whose users are counted
                yield Number("own_clients", int((groups[name] & (used == j)).sum()), of_model(name))


def _accuracies(shot: Snapshot) -> Iterator[Number]:
    """Yield accuracy by true group under each client's own model, and of each model on its own
    group's examples; and the metrics on the server's test examples.

    ``accuracy`` weights every group by its number of clients, because test sets of equal size do
    not make the groups equal; ``aggregated_accuracy`` weights every client by its test examples.
    """
    right = 0.0
    counted = 0
    for g, name in enumerate(shot.data.group_columns):
        inside = shot.test_group == g
        if not inside.any():
            continue
        accuracy = float(shot.hits[inside].mean())
        clients = int((shot.data.groups == g).sum())
        right += accuracy * clients
        counted += clients
        if len(shot.data.group_names) > 1:
            yield Number("accuracy", accuracy, of_group(name))
        j = shot.state.names.index(name) if name in shot.state.names else -1
        if (shot.state.assignment == j).any():
            hits = shot.outputs[j][inside].argmax(axis=1) == shot.data.test.y[inside]
            yield Number("model_accuracy", float(hits.mean()), of_model(name))
    yield Number("accuracy", right / counted if counted else float(shot.hits.mean()))
    owned = shot.data.test_owner >= 0
    if owned.any():
        yield Number("aggregated_accuracy", float(shot.hits[owned].mean()))
    logits = shot.logits[shot.judged]
    y = shot.data.test.y[shot.judged]
    predicted = logits.argmax(axis=1)
    f1, precision = classification.macro_f1_precision(predicted, y, shot.data.classes)
    yield Number("test_accuracy", float((predicted == y).mean()))
    yield Number("test_loss", float(losses(logits, y).mean()))
    yield Number("f1_macro", f1)
    yield Number("precision_macro", precision)


def _accuracies_of_constant(shot: Snapshot) -> dict[str, float]:
    """Return the accuracies of a model that always answers the commonest class of the training
    examples.
    """
    commonest = np.bincount(shot.data.train.y, minlength=shot.data.classes).argmax()
    answers = np.arange(shot.data.classes) == commonest
    outputs = np.broadcast_to(answers.astype(np.float32), shot.outputs.shape)
    reached = columns(_accuracies(replace(shot, outputs=outputs)), metrics())
    return {column: reached[name] for name, column in CONSTANT.items() if name in reached}


def _model_risks(state: RunState, preferences: Preferences, data: Federation) -> Iterator[Number]:
    """Yield the measured risk of each model, the worst and the mean, and the violations."""
    risks = state.measured_risks
    names = state.names
    used = state.assignment
    in_use = np.unique(used)
    measured = in_use[~np.isnan(risks[in_use])]
    null = {j: client_risk.worst_by_chance(state.queried[j : j + 1]) for j in measured.tolist()}
    for j in in_use.tolist():
        yield Number("mia_accuracy", float(risks[j]), of_model(names[j]), chance=null.get(j))
    if len(measured):
        mean = float(risks[measured].mean())
        largest = float(risks[measured].max())
        yield Number("mia_accuracy", mean, chance=float(np.mean(list(null.values()))))
        worst = client_risk.worst_by_chance(state.queried[measured])
        yield Number("mia_accuracy", largest, WORST, chance=worst)
    tau = preferences.threshold
    exceeds = lambda j, thresholds: client_risk.exceeded_by_chance(state.queried[j], thresholds)  # noqa: E731
    # NaN if it is not known what was attacked.
    expected = violations.violations_null(tau, used, exceeds)
    yield Number("violations", violations.violations(tau, risks, used), chance=expected)
    for g, name in enumerate(data.group_columns) if len(data.group_names) > 1 else ():
        count = violations.violations(tau, risks, used, data.groups == g)
        yield Number("violations", count, of_group(name))
    if sorting.MINORITY in names:
        yield Number("risk_gap", sorting.risk_gap(risks, names))


def of_last_round(shot: Snapshot, rng: np.random.Generator) -> dict[str, float]:
    """Return the AUC (micro-averaged, one-vs-rest) on the server's test examples, and the
    fairness of two groups by chance.
    """
    logits = shot.logits[shot.judged]
    y = shot.data.test.y[shot.judged]
    decided = (
        np.arange(logits.shape[1]) == y[:, None]
    )  # each pair of example and class, by the class's probability
    row = {"auc_micro": auc(probabilities(logits).ravel(), decided.ravel())}
    if shot.two_groups:
        owner = shot.data.test_owner[shot.test_group >= 0]
        for name, value in fairness.by_chance(*_predictions_by_group(shot), owner, rng).items():
            row[str(metric(name).chance)] = value
    return row


def _predictions_by_group(
    shot: Snapshot,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], int]:
    """Return predictions, labels and whether in the majority, of the test examples that clients
    own, and the classes.
    """
    owned = shot.test_group >= 0
    predicted = shot.logits[owned].argmax(axis=1).astype(np.int64)
    return predicted, shot.data.test.y[owned], shot.test_group[owned] == 0, shot.data.classes


class ClientExposure:
    """What one attack of a round tells about clients.

    Every client is attacked under the model that it trained last.
    """

    def __init__(self, findings: Findings, attack: str | None, data: Federation) -> None:
        """Collect the attacked examples of the clients, and of those that left a model;
        ``attack`` publishes the risk.
        """
        assignment, (self.round, audits) = findings.assignment, findings.latest(attack)
        self.attacked = Attacked.join(
            [audit.examples().of(assignment == j) for j, audit in audits.items()]
        )
        self.left = Attacked.join([audit.examples(left=True) for audit in audits.values()])
        # Clients of one group that use the same model are compared with the same non-members.
        peers = assignment * len(data.group_names) + data.groups
        self.movers = np.isin(np.arange(data.clients), self.left.client[self.left.member])
        several = len(data.group_names) > 1
        self.groups = {name: data.groups == g for g, name in enumerate(data.group_names) if several}
        self.columns_of = dict(zip(data.group_names, data.group_columns, strict=True))
        # Nothing is told of clients by an attack that does not tell single examples apart.
        self.risks = (
            client_risk.client_risks(self.attacked, peers) if len(self.attacked.score) else None
        )
        self.peers = peers

    def columns(self) -> dict[str, Any]:
        """Return the columns of the round: the risk of each group, of the worst client and of
        those who moved.
        """
        if self.risks is None:
            return {}
        return columns(self._numbers(self.risks.risk), metrics())

    def _numbers(self, risks: NDArray[np.float64]) -> Iterator[Number]:
        for name, who in self.groups.items():
            yield self.number("risk", of_group(self.columns_of[name]), self.attacked.of(who))
        if len(self.left.score):
            yield self.number("movers_risk", RUN, self.attacked.of(self.movers))
            yield self.number("movers_risk_left", RUN, self.left)
        if not np.isnan(risks).all():
            null = client_risk.worst_client_by_chance(self.attacked, self.peers)
            yield Number("risk_worst_client", float(np.nanmax(risks)), chance=null)

    def number(self, metric: str, of: Of, part: Attacked) -> Number:
        """Return the accuracy of the attack on some clients, with its value by chance."""
        null = client_risk.accuracy_by_chance(part, self.peers)
        return Number(metric, part.accuracy, of, chance=null)

    def client_columns(self) -> dict[str, NDArray[np.float64]]:
        """Return the columns of the clients' table, [clients] each."""
        risks = self.risks
        return (
            {}
            if risks is None
            else {"risk": risks.risk, "risk_tpr": risks.tpr, "risk_tnr": risks.tnr}
        )

    def group_rows(self, rng: np.random.Generator) -> list[dict[str, Any]]:
        """Return rows of ``attacks.parquet``: the risk of each group, and of those who moved,
        with its interval.

        Whole clients are resampled, because the examples of a client are not independent. Fewer
        than ten clients give no interval.
        """
        parts = [(f"{name} clients", self.attacked.of(who)) for name, who in self.groups.items()]
        if self.movers.any():
            parts += [("movers", self.attacked.of(self.movers)), ("movers, model left", self.left)]
        rows = []
        for target, part in parts:
            if np.isnan(part.accuracy):
                continue
            low, high = intervals.intervals(part.score, part.member, rng, owner=part.client)[
                "balanced_accuracy"
            ]
            few = len(np.unique(part.client)) < intervals.FEWEST_CLIENTS
            found = self.number("balanced_accuracy", variant(target), part)
            if not few:
                found = replace(found, low=low, high=high)
            rows.append(_row("risk", self.round, target, found))
        return rows


def client_rows(shot: Snapshot, findings: Findings, risk: ClientExposure) -> dict[str, Any]:
    """Return the columns of ``clients.parquet`` for one evaluated round, one entry per client."""
    state = shot.state
    data = shot.data
    clients = np.arange(data.clients)
    owned = np.bincount(data.test_owner[data.test_owner >= 0], minlength=data.clients)
    right = np.bincount(data.test_owner[shot.hits & (data.test_owner >= 0)], minlength=data.clients)
    columns = {
        "round": np.full(data.clients, state.round - 1),
        "client": clients,
        **({"name": data.client_names} if data.client_names else {}),
        "group": np.array(data.group_names)[data.groups].tolist(),
        "cluster": state.assignment,
        "model": np.array(shot.state.names)[state.assignment].tolist(),
        "examples": data.sizes,
        "transform_strength": data.strengths,
        "loss": of_own_model(state.losses, state.assignment),
        "accuracy": of_own_model(state.accuracies, state.assignment),
        "test_accuracy": np.divide(
            right, owned, out=np.full(data.clients, np.nan), where=owned > 0
        ),
        "threshold": shot.preferences.threshold,
        "beta": shot.preferences.beta,
        "choice_cost": of_own_model(shot.costs, state.assignment),
        "published_risk": state.published_risks[state.assignment],
    }
    columns |= (
        {"own_risk": of_own_model(state.own_risks, state.assignment)}
        if state.own_risks.size
        else {}
    )
    for j, name in enumerate(shot.state.names):
        columns[column("loss", of_model(name))] = state.losses[:, j]
    for _, _, exposure in findings.exposures:
        columns |= exposure.clients
    return columns | risk.client_columns() | dict(sorted(state.statistics.items()))


def slot_columns(measured: dict[int, dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """Return what the components report of a round, by model: the mean over models and, if there
    are several, each one's.
    """
    row: dict[str, Any] = {}
    for name in dict.fromkeys(name for values in measured.values() for name in values):
        of_models = {j: values[name] for j, values in measured.items() if name in values}
        mean = Number(name, float(np.mean(list(of_models.values()))))
        each = (Number(name, value, of_model(names[j])) for j, value in of_models.items())
        row |= columns((mean, *(each if len(names) > 1 else ())), metrics())
    return row


def attack_columns(findings: Findings, names: list[str]) -> dict[str, Any]:
    """Return what attacks contribute to a round's row.

    Of results on models there is the mean over the models that clients use, the largest value, and
    that of each; by chance the first two.
    """
    row: dict[str, Any] = {}
    declared = metrics()
    for _, _, exposure in findings.exposures:
        row |= columns(exposure.numbers, declared)
    of_models: dict[str, dict[int, float]] = {}
    by_chance: dict[str, dict[int, NDArray[np.float64]]] = {}
    for _, _, cluster, audit in findings.audits:
        if cluster in findings.assignment:
            for name, value in columns(audit.numbers, declared).items():
                of_models.setdefault(name, {})[cluster] = value
            for name, draws in audit.by_chance.items():
                by_chance.setdefault(name, {})[cluster] = draws
    for name, values in of_models.items():
        draws_of = list(by_chance.get(name, {}).values())
        row |= columns(_over_models(name, values, draws_of, names), declared)
    return row


def _over_models(
    metric: str,
    values: dict[int, float],
    by_chance: list[NDArray[np.float64]],
    names: list[str],
) -> Iterator[Number]:
    """Yield the mean of a metric over models, its largest value, and that of each model."""
    mean_null = worst_null = None
    if by_chance:
        drawn = [draws for draws in by_chance if not np.isnan(draws).any()] or by_chance
        mean_null = float(np.mean(drawn))
        worst_null = float(np.max(drawn, axis=0).mean())
    defined = [value for value in values.values() if not math.isnan(value)] or [math.nan]
    yield Number(metric, float(np.mean(defined)), chance=mean_null)
    yield Number(metric, float(np.max(defined)), WORST, chance=worst_null)
    for j, value in values.items():
        yield Number(metric, value, of_model(names[j]))


def attack_rows(findings: Findings, names: list[str]) -> list[dict[str, Any]]:
    """Return the rows of ``attacks.parquet``: one per attack, rounds trained, target (model or
    client) and metric.
    """
    rows = [
        _row(number.of.name, round_, names[j], number)
        for _, round_, j, audit in findings.audits
        for number in audit.measures
    ]
    for attack, round_, exposure in findings.exposures:
        rows += [_row(attack, round_, number.of.name, number) for number in exposure.measures]
    return rows


def _row(attack: str, rounds: int, target: str, number: Number) -> dict[str, Any]:
    where = {"attack": attack, "round": rounds, "target": target, "metric": number.metric}
    return where | number.cells


def final_metrics(run: Run, outcome: Outcome) -> dict[str, Any]:
    """Return a run's final metrics: those of the last round, those over rounds, and those that
    components compute.

    ``violations_last_half`` is the mean over the attacked rounds in the last half,
    ``converge_round`` the first round with 98 % of the mean accuracy of the last five evaluated
    ones.
    """
    rows = outcome.rows
    last = {
        name: value
        for name, value in rows[-1].items()
        if name not in ("round", "seconds", "attacked")
    }
    attacked = [row for row in rows[len(rows) // 2 :] if row.get("attacked")]
    half = [row["violations"] for row in attacked if row.get("violations") is not None]
    if half:
        last["violations_last_half"] = float(np.mean(half))
    accuracies = {
        row["round"] + 1: row["accuracy"] for row in rows if row.get("accuracy") is not None
    }
    if accuracies:
        recent = list(accuracies.values())[-5:]
        settled = float(np.mean(recent))
        last |= {"accuracy_last5_mean": settled, "accuracy_last5_std": float(np.std(recent))}
        last["converge_round"] = next(
            t for t, accuracy in accuracies.items() if accuracy >= 0.98 * settled
        )
    last |= ranking.over_rounds(rows)
    trained = [row["train_accuracy"] for row in rows[-5:] if row.get("train_accuracy") is not None]
    last |= {"train_accuracy_last5_mean": float(np.mean(trained))} if trained else {}
    for component in (run.training, run.objective, run.aggregation, *run.attacks, run.privacy):
        last |= component.module.final_metrics(component.config, run, outcome)
    # In the first round, processes load packages and data, which is not a property of the run.
    return last | {
        "seconds_per_round": float(np.mean([row["seconds"] for row in rows[1:] or rows]))
    }


def curvature_metrics(clients: pa.Table) -> dict[str, float]:
    """Return ``rho_spearman_all``, the agreement of the curvatures in all rows of
    ``clients.parquet`` (FinP, App. C.4).

    It says little of rho, which compares clients of one round: both curvatures change from round to
    round, and that alone makes them agree. Empty if they were not measured or it is not defined.
    """
    names = [name for name in ("lambda_max", "hessian_trace") if name in clients.column_names]
    columns = [clients[name].to_numpy().astype(np.float64) for name in names]
    correlation = ranking.rank_agreement(*columns) if len(columns) == 2 else NAN
    return {} if math.isnan(correlation) else {ranking.POOLED: correlation}


def _records(scores: Scores, data: Federation) -> dict[str, NDArray[np.object_]]:
    """Return the row and the label of attacked examples [n] as the user's data have them; None:
    not told.
    """
    names = np.array(data.class_names or [str(label) for label in range(data.classes)], object)
    untold = np.full(len(scores.score), None, object)
    told = scores.place is not None and len(data.rows)
    rows = data.rows[scores.place].astype(object) if told else untold
    labels = untold if scores.label is None else names[scores.label]
    return {"row": rows, "label": labels}


def score_columns(findings: Findings, names: list[str], data: Federation) -> dict[str, Any]:
    """Return the columns of ``scores.parquet``, the score of every attacked example; empty if no
    example was attacked.
    """
    scored = [(round_, names[j], audit.scores) for _, round_, j, audit in findings.audits]
    parts = [(round_, np.full(len(scores.score), name), scores) for round_, name, scores in scored]
    for _, round_, exposure in findings.exposures:
        scores = exposure.scores
        parts.append(
            (
                round_,
                np.full(len(scores.score), "") if scores.target is None else scores.target,
                scores,
            )
        )
    columns = [
        {
            "attack": scores.attack,
            "round": np.full(len(scores.score), round_),
            "target": target,
            "client": scores.client,
            "member": scores.member,
            "left": np.zeros(len(scores.score), bool) if scores.left is None else scores.left,
            "score": scores.score,
            **_records(scores, data),
        }
        for round_, target, scores in parts
        if len(scores.score)
    ]
    return (
        {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
        if columns
        else {}
    )
