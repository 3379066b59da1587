"""The rows about membership risk: of the models, of the clients and groups that use them, and of those who moved."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.core.choices import Preferences
from algorithms.core.messages import Doubles
from algorithms.metrics import clusters as sorting
from algorithms.metrics import violations
from attacks.metrics import intervals
from attacks.metrics.client_risk import Attacked, ClientRisks, client_risks, guessing, worst_by_chance
from attacks.metrics.membership import CHANCE
from datasets.federation import Federation
from orchestrator.trial.attack_round import Findings
from orchestrator.trial.state import RunState

NAN = float("nan")
FEWEST_CLIENTS = 10  # resampling fewer of them gives intervals that are too narrow


def model_columns(state: RunState, preferences: Preferences, data: Federation) -> dict[str, Any]:
    """Return the measured risk of each model, the worst and the mean, and the violations; empty before the first attack."""
    risks, names, used = state.measured_risks, state.names, state.assignment
    if np.isnan(risks).all():
        return {}
    in_use = np.unique(used)
    known = risks[in_use][~np.isnan(risks[in_use])]
    row: dict[str, Any] = {
        f"mia_accuracy_{name}": float(risks[j]) if j in in_use else None for j, name in enumerate(names)
    }
    if len(known):
        row |= {"mia_accuracy": float(np.mean(known)), "mia_accuracy_worst": float(np.max(known))}
    tau = preferences.threshold
    row["violations"] = violations.violations(tau, risks, used)
    row["violations_null"] = _violations_by_chance(state, preferences)
    if len(data.group_names) > 1:
        for g, name in enumerate(data.group_names):
            row[f"violations_{name}"] = violations.violations(tau, risks, used, data.groups == g)
    return row | {"risk_gap": sorting.risk_gap(risks, names)} if sorting.MINORITY in names else row


def _violations_by_chance(state: RunState, preferences: Preferences) -> float:
    """Return the violations to expect if every attack only guessed; NaN if it is not known how much was attacked."""
    if not state.queried[np.unique(state.assignment)].all():
        return NAN

    def exceeds(cluster: int, thresholds: Doubles) -> Doubles:
        members, nonmembers = state.queried[cluster].tolist()
        return guessing(members, nonmembers, thresholds)

    return violations.violations_null(preferences.threshold, state.assignment, exceeds)


def moved_columns(state: RunState, data: Federation) -> dict[str, Any]:
    """Return how many clients use another model than the one they chose by loss alone when risk began to count."""
    if (state.reference < 0).any():
        return {}
    moved = state.reference != state.assignment
    row: dict[str, Any] = {"migrated": int(moved.sum())}
    if len(data.group_names) > 1:
        row |= {f"moved_{name}": int(moved[data.groups == g].sum()) for g, name in enumerate(data.group_names)}
    return row


def own_client_columns(state: RunState, data: Federation) -> dict[str, Any]:
    """Return, for each model that is named after a group, how many of its users belong to that group."""
    own = {name: data.groups == g for g, name in enumerate(data.group_names)}
    return {
        f"own_clients_{name}": int((own[name] & (state.assignment == j)).sum())
        for j, name in enumerate(state.names)
        if name in own
    }


class ClientExposure:
    """What one attack of a round tells about clients.

    Every client is attacked under the model that it trained last.
    """

    def __init__(self, findings: Findings, attack: str | None, data: Federation) -> None:
        """Collect the attacked examples of the clients, and of those that left a model; ``attack`` publishes the risk."""
        self.data, assignment = data, findings.assignment
        self.round, audits = findings.latest(attack)
        self.attacked = Attacked.join([audit.examples().of(assignment == j) for j, audit in audits.items()])
        self.left = Attacked.join([audit.examples(left=True) for audit in audits.values()])
        # Clients of one group that use the same model are compared with the same non-members.
        self.peers = assignment * len(data.group_names) + data.groups
        self.movers = np.isin(np.arange(data.clients), self.left.client[self.left.member])

    @cached_property
    def risks(self) -> ClientRisks:
        """The risk of each client."""
        return client_risks(self.attacked, self.peers)

    @property
    def known(self) -> bool:
        """Whether the attack tells single examples apart."""
        return len(self.attacked.score) > 0

    def columns(self) -> dict[str, Any]:
        """Return the columns of the round: the risk of each group, of the worst client and of those who moved."""
        if not self.known:
            return {}
        row: dict[str, Any] = {}
        for name, among in self._groups():
            row[f"risk_{name}"] = self.attacked.of(among).accuracy
        risks = self.risks.risk
        there = ~np.isnan(risks)
        if there.any():
            row["risk_worst_client"] = float(risks[there].max())
            counts = self.risks.members[there], self.risks.nonmembers[there]
            row["risk_worst_client_null"] = worst_by_chance(*counts)
        if len(self.left.score):
            row["movers_risk"] = self.attacked.of(self.movers).accuracy
            row["movers_risk_left"] = self.left.accuracy
        return row

    def client_columns(self) -> dict[str, NDArray[np.float64]]:
        """Return the columns of the clients' table, [clients] each."""
        if not self.known:
            return {}
        return {"risk": self.risks.risk, "risk_tpr": self.risks.tpr, "risk_tnr": self.risks.tnr}

    def group_rows(self, rng: np.random.Generator) -> list[dict[str, Any]]:
        """Return rows of ``attacks.parquet``: the risk of each group, and of those who moved, with its interval.

        Whole clients are resampled, because the examples of a client are not independent. Fewer than ten clients give no
        interval.
        """
        parts = [(f"{name} clients", self.attacked.of(among)) for name, among in self._groups()]
        if self.movers.any():
            parts += [("movers", self.attacked.of(self.movers)), ("movers, model left", self.left)]
        rows = []
        for target, part in parts:
            if np.isnan(part.accuracy):
                continue
            low, high = intervals.intervals(part.score, part.member, rng, owner=part.client)["balanced_accuracy"]
            few = len(np.unique(part.client)) < FEWEST_CLIENTS
            row = {"attack": "risk", "round": self.round, "target": target, "metric": "balanced_accuracy"}
            row |= {"value": part.accuracy, "low": NAN if few else low, "high": NAN if few else high}
            rows.append(row | {"chance": CHANCE["balanced_accuracy"]})
        return rows

    def _groups(self) -> list[tuple[str, NDArray[np.bool_]]]:
        names = self.data.group_names
        return [(name, self.data.groups == g) for g, name in enumerate(names)] if len(names) > 1 else []


def score_columns(findings: Findings, names: list[str]) -> dict[str, Any]:
    """Return the columns of ``scores.parquet``, the score of every attacked example; empty if no example was attacked."""
    parts = [(round_, [names[j]] * len(audit.scores.score), audit.scores) for _, round_, j, audit in findings.audits]
    for own, round_ in [(exposure.scores, round_) for _, round_, exposure in findings.exposures]:
        if len(own.score):
            parts.append((round_, [""] * len(own.score) if own.target is None else own.target.tolist(), own))
    if not parts:
        return {}
    columns = [
        {
            "attack": own.attack.tolist(),
            "round": [round_] * len(own.score),
            "target": target,
            "client": own.client,
            "member": own.member,
            "left": np.zeros(len(own.score), bool) if own.left is None else own.left,
            "score": own.score,
        }
        for round_, target, own in parts
    ]
    lists = {name: [value for one in columns for value in one[name]] for name in ("attack", "round", "target")}
    return lists | {
        name: np.concatenate([one[name] for one in columns]) for name in ("client", "member", "left", "score")
    }
