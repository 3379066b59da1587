"""Membership inference by a passive server that compares the clients' updates over rounds
(FedMIA, Zhu et al. 2025).

    examples of client c: n members and m non-members, fixed before the first round
    before the round the server sent theta; client k answers theta_k;  Delta_k = theta - theta_k
    g_x = gradient of CE(theta; x, y) at the model that was sent, in evaluation mode: one for all clients who got it
    M_k(x): a signal, less its mean on references with x's label (`metrics.out_worlds.centered`)
    every attacked round t, for every client c that took part, with all others as the world in which c did not train on x:
        fedmia_loss           P(M_k(x) < M_c(x)), M = -ln(exp(CE(theta_k; x, y)) - 1), the loss on the logit scale    (FedMIA-I)
        fedmia_cosine         P(M_k(x) < M_c(x)), M = cos(g_x, Delta_k), 0 if either is 0 or not finite              (FedMIA-II)
        loss_series           -CE(theta_c; x, y)
        mean_cosine           cos(g_x, Delta_c)                                                   (Li et al. 2023)
        gradient_difference   2 <Delta_c, g_x> - ||g_x||^2 = ||Delta_c||^2 - ||Delta_c - g_x||^2  (Li et al. 2023)
    an example's score is the mean over the attacked rounds in which c took part
    reported: the AUC of each client's n + m examples, as if non-members had the members' labels (`metrics.client_auc`);
              its mean over clients, largest value, CoV, FI and EOD

No shadow model is trained: the other clients' models are the reference. A client is compared with
those who were sent the same model; if these are fewer than two, with all. ``headline`` names the
signal that all columns but ``*_auc`` are of. It is fixed by the configuration, because the best of
several signals would be a biased choice.

A cost to know: clients whose examples are transformed, or who hold out their own, share no
non-member, so that every model is evaluated on clients * ``compared`` further examples; otherwise
on ``compared``. With transforms it is evaluated on clients * ``references``, too.

Differences from the paper: every client is the target in turn, and not client 0 alone. Signals are
centered, because a client's label is otherwise taken for its example; ``center: none`` is as
published. The distribution over the other clients is a Student t of the confidences with moderated
variances (``world: student``; `metrics.out_worlds`) instead of a normal one of the losses.
Non-members are the same in every round, whereas the released code draws them anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.core.columns import interval
from algorithms.core.messages import Doubles
from algorithms.core.metric import (
    MEMBERSHIP,
    MINOR,
    Column,
    Metric,
    Number,
    PerClient,
    Risk,
    magnitude,
    rate,
    unknown,
    variant,
)
from algorithms.interfaces import Metrics, Outcome, Problems, Run
from attacks import _queries
from attacks._queries import CenteredConfig, Queries, model_losses, queries_of, target_losses
from attacks.interfaces import Exposure, SeenRound, SeenUpdates, of_clients
from attacks.metrics import client_auc, disparity, out_worlds
from attacks.metrics.membership import NAN, confidences_of_losses
from attacks.metrics.out_worlds import World
from attacks.metrics.over_rounds import last_values
from datasets.federation import Examples, Federation, Ints, joined

Signal = Literal[
    "fedmia_loss", "loss_series", "fedmia_cosine", "mean_cosine", "gradient_difference"
]

KINDS = ("updates",)
SEES = "updates"
LABEL = "FedMIA"
ASKS = "was this example trained on?"
PAPERS = {"FedMIA": "https://arxiv.org/abs/2402.06289"}
FEWEST_CLIENTS = out_worlds.FEWEST_OTHERS + 1
SIGNALS: dict[Signal, str] = {
    "fedmia_loss": "FedMIA by losses",
    "loss_series": "the loss series",
    "fedmia_cosine": "FedMIA by cosines",
    "mean_cosine": "the mean cosine",
    "gradient_difference": "the gradient difference",
}
BY_LOSSES = 2  # so many of them need no gradients
COLUMNS = (*interval("fedmia_auc"), "fedmia_tpr_at_1_fpr")  # of the clients' table


class Config(CenteredConfig):
    """Fields of FedMIA."""

    # Beside a client's members, other clients' examples tell who trained on an example, not whether
    # anybody did.
    nonmembers: Literal["outside", "other_client"] = Field(
        "outside",
        description=(
            "what members are compared with: examples of nobody's training, or other clients' "
            "members"
        ),
    )
    # Losses are those of source inference; gradients cost a backward pass for each example and
    # round.
    signals: Literal["losses", "all"] = Field(
        "losses", description="whether records' gradients are compared, too"
    )
    headline: Signal = Field(
        "fedmia_loss", description="the signal that the columns fedmia_* are about"
    )
    world: World = Field(
        "student",
        description=(
            "distribution over the other clients: student (moderated variances) or gaussian "
            "(published)"
        ),
    )

    @property
    def measured(self) -> tuple[Signal, ...]:
        """The signals that are measured."""
        return tuple(SIGNALS)[: None if self.signals == "all" else BY_LOSSES]

    @property
    def metrics(self) -> list[Metric]:
        """All metrics but those of signals that are not measured, which would be empty columns."""
        return [*HEADLINE, *(OF_SIGNALS[signal] for signal in self.measured)]


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence)
    pairs.
    """
    conflicts: Problems = []
    if config.headline not in config.measured:
        conflicts.append(
            ("headline", f"{config.headline} needs the examples' gradients; set signals: all")
        )
    return conflicts + _queries.cohort_problems("fedmia", run, FEWEST_CLIENTS)


def data_problems(config: Config, data: Federation) -> Problems:
    """List why the attack cannot be made on ``data``: (field, sentence) pairs."""
    return _queries.problems("fedmia", config, data)


def observe(config: Config, seen: SeenUpdates) -> dict[str, NDArray[Any]]:
    """Measure a block's c updates on the examples of all clients.

    Returns:
        ``assignment`` [c], the number of the model that each client was sent; ``confidences`` [c,
        examples], and with gradients ``cosines`` and ``differences`` [c, examples]. Examples are in
        the order of `Queries`, and after them come the references.
    """
    queries = queries_of(config, seen.data, seen.stream)
    members = queries.members.ravel()
    others = joined([queries.outside, queries.references])
    losses = target_losses(seen, members), model_losses(seen, others)
    confidences = np.concatenate([confidences_of_losses(part) for part in losses], axis=1).astype(
        np.float32
    )
    signals: dict[str, NDArray[Any]] = {
        "assignment": np.asarray(seen.assignment),
        "confidences": confidences,
    }
    if config.signals == "all":
        signals |= against_gradients(seen, joined([seen.data.train[members], others]))
    return signals


def conclude(config: Config, seen: SeenRound) -> Exposure:
    """Add the round to the scores of earlier rounds, and attack every client that has taken part
    in an attacked round.

    A round with fewer than three clients does not count, because there is nobody to compare a
    client with.
    """
    queries = queries_of(config, seen.data, seen.stream)
    sums = {name: array.copy() for name, array in seen.kept.items()}
    if not sums:
        sums = {"rounds": np.zeros(seen.data.clients, np.int64)}
        sums |= {signal: np.zeros(queries.numbers.shape) for signal in config.measured}
    if len(seen.clients) >= FEWEST_CLIENTS:
        sums["rounds"][seen.clients] += 1
        for signal, scores in round_scores(config, seen.observed, queries, seen.clients).items():
            sums[signal][seen.clients] += scores
    return _exposure(config, queries, sums)


def round_scores(
    config: Config, observed: dict[str, NDArray[Any]], queries: Queries, clients: Ints
) -> dict[str, Doubles]:
    """Compute the scores [c, r] of one round by signal, the higher the likelier a member.

    ``observed`` is what `observe` returns, of all the ``clients`` [c] that took part.
    """
    worlds = observed["assignment"]
    numbers = queries.numbers[clients]

    def own_values(values: Doubles) -> Doubles:
        return np.take_along_axis(values, numbers, axis=1)

    def standing(values: Doubles) -> Doubles:
        values = out_worlds.centered(
            values, queries.labels, queries.transforms, queries.reference_labels
        )
        return out_worlds.standing(
            own_values(values), out_worlds.others(values, numbers, worlds), config.world
        )

    confidences = observed["confidences"].astype(np.float64)
    compared = -np.logaddexp(0.0, -confidences) if config.world == "gaussian" else confidences
    scores = {
        "fedmia_loss": standing(compared),
        "loss_series": -np.logaddexp(0.0, -own_values(confidences)),
    }
    if config.signals == "all":
        cosines, differences = (
            observed[name].astype(np.float64) for name in ("cosines", "differences")
        )
        scores |= {"fedmia_cosine": standing(cosines), "mean_cosine": own_values(cosines)}
        scores["gradient_difference"] = own_values(differences)
    return scores


def _exposure(config: Config, queries: Queries, sums: dict[str, NDArray[Any]]) -> Exposure:
    """Compute the attack's result from the sums of scores over the attacked rounds and the
    examples' labels.
    """
    clients = np.flatnonzero(sums["rounds"])
    n = queries.members.shape[1]
    labels = queries.labels[queries.numbers[clients]]
    numbers = list(unknown(() if len(clients) else config.metrics))
    measures = list[Number]()
    columns = np.full((len(COLUMNS), len(sums["rounds"])), NAN)
    for signal in config.measured if len(clients) else ():
        scores = sums[signal][clients] / sums["rounds"][clients, None]
        aucs = client_auc.measure(scores[:, :n], scores[:, n:], queries.examples[clients], labels)
        number = aucs.number(f"{signal}_auc")
        numbers.append(number)
        measures.append(replace(number, of=variant("clients"), chance=0.5))
        if signal != config.headline:
            continue
        rates, null, trials = client_auc.tprs(scores, labels, queries.examples[clients], n)
        numbers += _headline(aucs, rates, null)
        columns[:, clients] = aucs.auc, aucs.low, aucs.high, rates
        measures += of_clients(number.metric, clients, aucs.auc, (aucs.low, aucs.high), 0.5)
        if not np.isnan(rates).all():
            wilson = disparity.wilson(rates * trials, trials)
            # Means over fewer rounds spread more: at one threshold for all, such clients pass more
            # often by chance.
            chance = NAN if np.ptp(sums["rounds"][clients]) else null
            measures += of_clients("tpr_at_1_fpr", clients, rates, wilson, chance)
    clients_columns = dict(zip(COLUMNS, columns, strict=True))
    return Exposure(tuple(numbers), clients_columns, tuple(measures), kept=sums)


def _headline(aucs: client_auc.ClientAucs, rates: Doubles, tpr_null: float) -> list[Number]:
    """Return the numbers of the headline signal."""
    values = aucs.auc[~np.isnan(aucs.auc)]
    if not len(values):
        return [*unknown(HEADLINE)]
    null = client_auc.by_chance(aucs.mean, aucs.apart, len(values))
    variation = float(disparity.cov(values))
    spread = {
        "auc_max": float(values.max()),
        "cov": variation,
        "fi": float(disparity.fairness_index(variation)),
        "eod": float(disparity.eod(values)),
    }
    tpr = NAN if np.isnan(rates).all() else float(np.nanmean(rates))
    return [
        aucs.number("fedmia_auc"),
        Number("fedmia_tpr_at_1_fpr", tpr, chance=tpr_null),
        *(Number(f"fedmia_{name}", value, chance=null[name]) for name, value in spread.items()),
    ]


def final_metrics(config: Config, run: Run, outcome: Outcome) -> Metrics:
    """Return every metric as it was after the last attacked round, whose scores are means over
    all of them.
    """
    return last_values(outcome, config.metrics)


def against_gradients(seen: SeenUpdates, examples: Examples) -> dict[str, NDArray[Any]]:
    """Compare a block's c updates with the gradients of R examples: ``cosines`` and
    ``differences``, [c, R] each.
    """
    import torch

    compared = {
        name: np.zeros((len(seen.clients), len(examples)), np.float32)
        for name in ("cosines", "differences")
    }
    for j in np.unique(seen.assignment):
        who = np.flatnonzero(seen.assignment == j)
        seen.network.load(seen.sent[j])
        updates = seen.sent[j].params - seen.params[who]
        directions = torch.from_numpy(updates).to(seen.network.device)
        products = []
        norms = []
        for gradients in seen.network.example_gradients(examples.x, examples.y):
            products.append((directions @ gradients.T).double().cpu().numpy())
            norms.append(torch.linalg.vector_norm(gradients, dim=1).double().cpu().numpy())
        inner = np.concatenate(products, axis=1)
        lengths = np.concatenate(norms)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            cosines = inner / (
                lengths * np.linalg.norm(updates.astype(np.float64), axis=1)[:, None]
            )
            differences = 2 * inner - lengths**2
        compared["cosines"][who] = np.clip(
            np.nan_to_num(cosines, nan=0.0, posinf=0.0, neginf=0.0), -1, 1
        )
        compared["differences"][who] = np.nan_to_num(differences)
    return compared


# What is measured, and how it is shown

HEADLINE = (
    rate(
        "fedmia_auc",
        MEMBERSHIP,
        "AUC of FedMIA",
        "lower",
        live=1,
        table=Column(1, "FedMIA\nAUC"),
        chance=0.5,
        risk=Risk(
            "Who sees the updates tells their clients' training examples from others with AUC", 20
        ),
        clients=PerClient(
            "FedMIA on each client's updates, AUC",
            low="fedmia_auc_low",
            high="fedmia_auc_high",
            interval="95 % interval over one run's examples",
            worst="fedmia_auc_max",
        ),
        ends=True,
    ),
    rate(
        "fedmia_auc_max",
        MEMBERSHIP,
        "largest AUC of a client",
        "lower",
        table=Column(3, "FedMIA\nmax", interval=False),
        chance="fedmia_auc_max_null",
    ),
    rate(
        "fedmia_tpr_at_1_fpr",
        MEMBERSHIP,
        "TPR of FedMIA at 1 % FPR",
        "lower",
        table=Column(4, "FedMIA\nTPR at 1 %"),
        chance="fedmia_tpr_at_1_fpr_null",
    ),
    magnitude("fedmia_cov", MEMBERSHIP, "CoV of AUC", "lower", "", chance="fedmia_cov_null"),
    rate("fedmia_fi", MEMBERSHIP, "FI of AUC", "higher", "", chance="fedmia_fi_null"),
    rate(
        "fedmia_eod",
        MEMBERSHIP,
        "EOD of AUC",
        "lower",
        live=4,
        table=Column(MINOR, "FedMIA\nEOD", 2, interval=False),
        chance="fedmia_eod_null",
    ),
)

OF_SIGNALS = {
    name: rate(f"{name}_auc", MEMBERSHIP, f"AUC of {label}", "lower", chance=0.5)
    for name, label in SIGNALS.items()
}

METRICS = (*HEADLINE, *OF_SIGNALS.values())
