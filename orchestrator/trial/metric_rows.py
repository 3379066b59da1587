"""The rows that a round writes to the tables: the run's state, evaluated with the metrics of the
papers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from algorithms.core.choices import Preferences
from algorithms.core.metric import ACCURACY
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
        common, owner = np.bincount(self.state.assignment).argmax(), self.data.test_owner
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
    state, clusters = shot.state, shot.state.losses.shape[1]
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
    state, data, used, names = shot.state, shot.data, shot.state.assignment, shot.state.names
    groups = {name: data.groups == g for g, name in enumerate(data.group_columns)}
    row: dict[str, Any] = {"loss": float(of_own_model(state.losses, used).mean())}
    row["train_accuracy"] = float(of_own_model(state.accuracies, used).mean())
    if shot.evaluated:
        row |= _accuracies(shot) | _server_test(shot) | _accuracies_of_constant(shot)
    row |= _model_risks(state, shot.preferences, data)
    if (
        state.reference >= 0
    ).all():  # who uses another model than that chosen by loss alone when risk began to count
        moved = state.reference != used
        row["migrated"] = int(moved.sum())
        row |= {
            f"moved_{name}": int(moved[who].sum())
            for name, who in groups.items()
            if len(groups) > 1
        }
    if shot.two_groups:
        gaps = sorting.loss_gap(state.losses, names)[data.groups == 1]
        row["purity"] = sorting.purity(used, data.groups, len(names))
        row["loss_gap"] = float(np.mean(gaps)) if len(gaps) else NAN
        named = [
            (j, name) for j, name in enumerate(names) if name in groups
        ]  # after a group, whose users are counted
        row |= {f"own_clients_{name}": int((groups[name] & (used == j)).sum()) for j, name in named}
        row |= fairness.fairness(*_predictions_by_group(shot)) if shot.evaluated else {}
    sizes = np.bincount(used, minlength=len(names))
    return row | {f"clients_{name}": int(size) for name, size in zip(names, sizes, strict=True)}


def _accuracies(shot: Snapshot) -> dict[str, float]:
    """Return accuracy by true group under each client's own model, and of each model on its own
    group's examples.

    ``accuracy`` weights every group by its number of clients, because test sets of equal size do
    not make the groups equal; ``aggregated_accuracy`` weights every client by its test examples.
    """
    row: dict[str, float] = {}
    right, counted = 0.0, 0
    for g, name in enumerate(shot.data.group_columns):
        of_group = shot.test_group == g
        if not of_group.any():
            continue
        group_accuracy, clients = (
            float(shot.hits[of_group].mean()),
            int((shot.data.groups == g).sum()),
        )
        right, counted = right + group_accuracy * clients, counted + clients
        row |= {f"accuracy_{name}": group_accuracy} if len(shot.data.group_names) > 1 else {}
        if (
            name in shot.state.names
            and (shot.state.assignment == (j := shot.state.names.index(name))).any()
        ):
            predicted = shot.outputs[j][of_group].argmax(axis=1)
            row[f"model_accuracy_{name}"] = float((predicted == shot.data.test.y[of_group]).mean())
    owned = shot.data.test_owner >= 0
    if owned.any():
        row["aggregated_accuracy"] = float(shot.hits[owned].mean())
    return {"accuracy": right / counted if counted else float(shot.hits.mean())} | row


def _accuracies_of_constant(shot: Snapshot) -> dict[str, float]:
    """Return the accuracies of a model that always answers the commonest class of the training
    examples.
    """
    commonest = np.bincount(shot.data.train.y, minlength=shot.data.classes).argmax()
    answers = np.arange(shot.data.classes) == commonest
    outputs = np.broadcast_to(answers.astype(np.float32), shot.outputs.shape)
    constant = replace(shot, outputs=outputs)
    reached = _accuracies(constant) | _server_test(constant)
    return {column: reached[name] for name, column in CONSTANT.items() if name in reached}


def _server_test(shot: Snapshot) -> dict[str, float]:
    """Return the metrics on the server's test examples, each under the model that its owner
    uses.
    """
    logits, y = shot.logits[shot.judged], shot.data.test.y[shot.judged]
    predicted, loss = logits.argmax(axis=1), float(losses(logits, y).mean())
    f1, precision = classification.macro_f1_precision(predicted, y, shot.data.classes)
    accuracy = float((predicted == y).mean())
    return {
        "test_accuracy": accuracy,
        "test_loss": loss,
        "f1_macro": f1,
        "precision_macro": precision,
    }


def _model_risks(state: RunState, preferences: Preferences, data: Federation) -> dict[str, Any]:
    """Return the measured risk of each model, the worst and the mean, and the violations; empty
    before the first attack.
    """
    risks, names, used = state.measured_risks, state.names, state.assignment
    if np.isnan(risks).all():
        return {}
    in_use = np.unique(used)
    measured = in_use[~np.isnan(risks[in_use])]
    known = {name: float(risks[j]) if j in in_use else None for j, name in enumerate(names)}
    row: dict[str, Any] = {f"mia_accuracy_{name}": risk for name, risk in known.items()}
    if len(measured):
        by_chance = {
            j: client_risk.worst_by_chance(state.queried[j : j + 1]) for j in measured.tolist()
        }
        row |= {f"mia_accuracy_{names[j]}_null": value for j, value in by_chance.items()}
        row |= {
            "mia_accuracy": float(risks[measured].mean()),
            "mia_accuracy_worst": float(risks[measured].max()),
        }
        row["mia_accuracy_null"] = float(np.mean(list(by_chance.values())))
        row["mia_accuracy_worst_null"] = client_risk.worst_by_chance(state.queried[measured])
    tau = preferences.threshold
    row["violations"] = violations.violations(tau, risks, used)
    exceeds = lambda j, thresholds: client_risk.exceeded_by_chance(state.queried[j], thresholds)  # noqa: E731
    row["violations_null"] = violations.violations_null(
        tau, used, exceeds
    )  # NaN if it is not known what was attacked
    if len(data.group_names) > 1:
        for g, name in enumerate(data.group_columns):
            row[f"violations_{name}"] = violations.violations(tau, risks, used, data.groups == g)
    return row | {"risk_gap": sorting.risk_gap(risks, names)} if sorting.MINORITY in names else row


def of_last_round(shot: Snapshot, rng: np.random.Generator) -> dict[str, float]:
    """Return the AUC (micro-averaged, one-vs-rest) on the server's test examples, and the
    fairness of two groups by chance.
    """
    logits, y = shot.logits[shot.judged], shot.data.test.y[shot.judged]
    decided = (
        np.arange(logits.shape[1]) == y[:, None]
    )  # each pair of example and class, by the class's probability
    row = {"auc_micro": auc(probabilities(logits).ravel(), decided.ravel())}
    if shot.two_groups:
        owner = shot.data.test_owner[shot.test_group >= 0]
        row |= fairness.fairness_null(*_predictions_by_group(shot), owner, rng)
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
        row: dict[str, Any] = {}
        parts = {
            f"risk_{self.columns_of[name]}": self.attacked.of(who)
            for name, who in self.groups.items()
        }
        if len(self.left.score):
            parts |= {"movers_risk": self.attacked.of(self.movers), "movers_risk_left": self.left}
        for name, part in parts.items():
            row |= {
                name: part.accuracy,
                f"{name}_null": client_risk.accuracy_by_chance(part, self.peers),
            }
        attacked = ~np.isnan(self.risks.risk)
        if attacked.any():
            row["risk_worst_client"] = float(self.risks.risk[attacked].max())
            row["risk_worst_client_null"] = client_risk.worst_client_by_chance(
                self.attacked, self.peers
            )
        return row

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
            row = {
                "attack": "risk",
                "round": self.round,
                "target": target,
                "metric": "balanced_accuracy",
            }
            row |= {
                "value": part.accuracy,
                "low": NAN if few else low,
                "high": NAN if few else high,
            }
            rows.append(row | {"chance": client_risk.accuracy_by_chance(part, self.peers)})
        return rows


def client_rows(shot: Snapshot, findings: Findings, risk: ClientExposure) -> dict[str, Any]:
    """Return the columns of ``clients.parquet`` for one evaluated round, one entry per client."""
    state, data = shot.state, shot.data
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
        columns[f"loss_{name}"] = state.losses[:, j]
    for _, _, exposure in findings.exposures:
        columns |= exposure.clients
    return columns | risk.client_columns() | dict(sorted(state.statistics.items()))


def slot_columns(metrics: dict[int, dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """Return what the components report of a round, by model: the mean over models and, if there
    are several, each one's.
    """
    row: dict[str, Any] = {}
    for metric in dict.fromkeys(name for values in metrics.values() for name in values):
        row[metric] = float(
            np.mean([values[metric] for values in metrics.values() if metric in values])
        )
        if len(names) > 1:
            row |= {
                f"{metric}_{names[j]}": value[metric]
                for j, value in metrics.items()
                if metric in value
            }
    return row


def attack_columns(findings: Findings, names: list[str]) -> dict[str, Any]:
    """Return what attacks contribute to a round's row.

    Of results on models there is the mean over the models that clients use, the largest value, and
    that of each; by chance the first two.
    """
    row: dict[str, Any] = {}
    for _, _, exposure in findings.exposures:
        row |= exposure.metrics
    of_models: dict[str, dict[int, float]] = {}
    by_chance: dict[str, dict[int, NDArray[np.float64]]] = {}
    for _, _, cluster, audit in findings.audits:
        if cluster in findings.assignment:
            for metric, value in audit.metrics.items():
                of_models.setdefault(metric, {})[cluster] = value
            for metric, draws in audit.by_chance.items():
                by_chance.setdefault(metric, {})[cluster] = draws
    for metric, values in of_models.items():
        defined = [value for value in values.values() if not math.isnan(value)] or [math.nan]
        row |= {metric: float(np.mean(defined)), f"{metric}_worst": float(np.max(defined))}
        row |= {f"{metric}_{names[j]}": value for j, value in values.items()}
    for metric, draws_of in by_chance.items():
        drawn = [draws for draws in draws_of.values() if not np.isnan(draws).any()] or [
            *draws_of.values()
        ]
        row |= {
            f"{metric}_null": float(np.mean(drawn)),
            f"{metric}_worst_null": float(np.max(drawn, axis=0).mean()),
        }
    return row


def attack_rows(findings: Findings, names: list[str]) -> list[dict[str, Any]]:
    """Return the rows of ``attacks.parquet``: one per attack, rounds trained, target (model or
    client) and metric.
    """
    measures = [
        (m.subject, round_, names[j], m)
        for _, round_, j, audit in findings.audits
        for m in audit.measures
    ]
    for attack, round_, exposure in findings.exposures:
        measures += [(attack, round_, measure.subject, measure) for measure in exposure.measures]
    return [
        {
            "attack": attack,
            "round": round_,
            "target": target,
            "metric": measure.metric,
            "value": measure.value,
        }
        | {"low": measure.low, "high": measure.high, "chance": measure.chance}
        for attack, round_, target, measure in measures
    ]


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
    round, and that alone
    makes them agree. Empty if they were not measured or it is not defined.
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
