"""Membership inference with shadow models, on each cluster model (Shokri et al. 2017; Jung et al. 2025, algorithm 2).

    for each model theta_j, every 5 rounds:
        for k = 1..3:
            transform the server's shadow set in the same way as the examples of cluster j's clients
            train shadow model f_k on a random half of it, in a federation that imitates that of theta_j
        fit attacks on {(f_k(z), z in the half of f_k)} for all k and all examples z that were drawn for f_k:
            shadow_mia      a network that reads the softmax vector              (Shokri et al.)
            loss_threshold  loss below a threshold                               (Yeom et al. 2018)
            confidence      confidence above a threshold for each class          (Song and Mittal 2021)
            gap             the prediction is right; nothing is fitted           (Yeom et al. 2018)
        query theta_j with training examples of cluster j (members) and with held-out examples
        l_j = (TPR + TNR) / 2 of the attack that does best on shadow models that it was not fitted on;
              what is published and what is reported are measured on different halves of the queries

Differences from the paper: as printed, the algorithm never queries theta_j, so its l would not depend on theta_j, and
TPR would need clients' data that the server does not have. Here the attack is evaluated on theta_j by an oracle that
knows the members (``signal: oracle``), or on one more shadow model, which a server could do alone (``server_only``).
The paper does not say how shadow images and non-members are transformed; unless they look like members, the attack
distinguishes transforms instead of members. The paper publishes the accuracy of the learned attack (``risk:
shadow_mia``), which can be below that of a threshold and even of the gap between training and held-out accuracy; by
default the risk is that of the strongest attack. It also stops training shadow models at an accuracy
(``shadow_training: accuracy``); such models are less confident than a model that was at 100 % for many rounds.

Members of theta_j are records of clients that have trained it at least once and no other model since. Where clients are
absent from rounds, one that took part some rounds ago is still a member, and one that has not taken part yet is none;
the clients of a shadow federation take part in the rounds in which those of theta_j did.

The strongest attack is chosen without a look at theta_j: each attack is fitted on all shadow models but one, and judged
on that one. So the choice makes the result no better than it is, unlike ``maximum`` in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from algorithms.core.metric import MEMBERSHIP, Column, Metric, Rank, Risk
from algorithms.interfaces import Problems, Run
from attacks import _attack_models
from attacks._shadows import (
    NO_STATE,
    Answers,
    Shadow,
    ShadowConfig,
    ShadowJob,
    ask,
    client_sizes,
    imitates,
    of_role,
    pool_outputs,
    shadow_size,
    untransformed,
    wear,
)
from attacks._shadows import data_problems as data_problems
from attacks.interfaces import AttackedModel, Audit, Cluster, Measure, Scores
from attacks.metrics import intervals, membership
from attacks.metrics.membership import Doubles, Outputs
from attacks.metrics.record_epsilon import record_epsilons
from datasets.federation import DataError, Examples, Federation, Floats, Ints
from datasets.roles import NOBODY
from datasets.source_configs import HeldOutConfig, SharedTestConfig

if TYPE_CHECKING:
    from algorithms.core.network import Network


KINDS = ("models",)
RISK = True  # its accuracy may be published to the clients
# In a sweep with groups, the risk of their clients comes first.
AFTER_RISK: Rank = {"plain": 2, "protected": 3, "sources": 3, "groups": 4}
METRICS = (
    Metric("mia_auc", MEMBERSHIP, "MIA AUC, mean model", "lower", chance=0.5),
    Metric(
        "mia_auc_worst",
        MEMBERSHIP,
        "MIA AUC, worst model",
        "lower",
        chance=0.5,
        table=Column(AFTER_RISK, "MIA\nAUC"),
        risk=Risk("", None),
    ),
    Metric("mia_tpr_at_1_fpr", MEMBERSHIP, "TPR at 1 % FPR, mean model", "lower", chance="mia_tpr_at_1_fpr_null"),
    Metric(
        "mia_tpr_at_1_fpr_worst",
        MEMBERSHIP,
        "TPR at 1 % FPR, worst model",
        "lower",
        chance="mia_tpr_at_1_fpr_null_worst",
        table=Column(AFTER_RISK, "TPR at\n1 % FPR"),
    ),
    Metric("mia_tpr_at_1_fpr_null_worst", MEMBERSHIP, "TPR at 1 % FPR by chance, model with the highest"),
)
PARTS = 2  # into which the examples of a single shadow model are divided


class Config(ShadowConfig):
    """Fields of the shadow attack."""


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence) pairs."""
    data, least = run.data.config, membership.FEWEST_NONMEMBERS
    sizes = {"shadow_size": 2} if isinstance(data, SharedTestConfig | HeldOutConfig) else {}
    sizes |= {"nonmember_size": least} if isinstance(data, SharedTestConfig) else {}
    values = {field: (getattr(data, field), least) for field, least in sizes.items()}
    return [
        ("", f"shadow_mia needs data.{field} of {least} or more, got {size}")
        for field, (size, least) in values.items()
        if size is not None and size < least
    ]


def resolve(config: Config, run: Run) -> Config:
    """Replace ``auto`` in ``published_share``: where there is one model, nobody chooses by its risk."""
    if config.published_share != "auto" or config.signal == "server_only":
        return config
    return config.model_copy(update={"published_share": 0.5 if run.clustering.config.clusters > 1 else 0.0})


def shadow_jobs(
    config: ShadowConfig, cluster: Cluster, accuracy: float, rounds: int, seed_for: Callable[..., int]
) -> tuple[ShadowJob, ...]:
    """Return the shadow models that are needed to attack the model of a cluster, trained for so many ``rounds``.

    All draws follow from ``seed_for(purpose, *integers)`` and from the cluster's clients. The model's accuracy on its
    clients' training examples is rounded to whole percents, so jobs differ only if it changed by about a point. Raises
    DataError if the shadow set has fewer than two examples.
    """
    clients, data = cluster.clients, cluster.data
    half, federated = shadow_size(config, int(data.sizes[clients].sum()), len(data.shadow)), imitates(config)
    if half < 1:
        raise DataError(
            f"a shadow model needs 2 examples or more; the shadow set of {data.name} has {len(data.shadow)}"
        )
    shares = client_sizes(data.sizes[clients], half) if federated else np.zeros(len(clients), np.int64)
    holders, sizes = clients[shares > 0], shares[shares > 0]
    took_part = None if cluster.took_part is None or not federated else cluster.took_part[:, shares > 0]

    def seed(purpose: str, *numbers: int) -> int:
        return seed_for(purpose, *numbers, *clients.tolist())

    def job(k: int) -> ShadowJob:
        drawn = np.random.default_rng(seed("shadow_halves", k)).permutation(len(data.shadow))
        members, nonmembers = drawn[:half], np.sort(drawn[half : 2 * half])
        owners = np.full(len(data.shadow), NOBODY)
        if federated:
            owners[members] = np.repeat(holders, sizes)
        return ShadowJob(
            members=members if federated else np.sort(members),
            nonmembers=nonmembers,
            strengths=_strengths(config, data, clients, owners, np.random.default_rng(seed("shadow_strengths"))),
            sizes=sizes,
            rounds=rounds if federated else 0,
            # Rounded twice, because 100 * 0.07 is a little above 7.
            target_accuracy=0.0 if federated else round(100 * accuracy) / 100,
            max_epochs=0 if federated else config.max_epochs,
            seed=seed("shadow_training", k),
            role="shadow" if k < config.shadows else "probe",
            took_part=took_part,
        )

    return tuple(job(k) for k in range(config.shadows + (config.signal == "server_only")))


def _strengths(config: ShadowConfig, data: Federation, clients: Ints, owners: Ints, rng: np.random.Generator) -> Floats:
    """Draw the transform strengths of the whole shadow set, [n shadow]; examples with an owner get the owner's."""
    if config.shadow_transform == "none":
        return untransformed(data, len(owners))
    if config.shadow_transform == "mixture":
        clients, owners = np.arange(data.clients), np.full(len(owners), NOBODY)
    return data.draw_strengths(wear(data, clients, owners, rng), rng)


def earlier(job: ShadowJob) -> Iterator[ShadowJob]:
    """The jobs that a federation's job continues: those of the same federation after fewer rounds, the longest first."""
    for rounds in range(job.rounds - 1, 0, -1):
        yield replace(job, rounds=rounds, took_part=None if job.took_part is None else job.took_part[:rounds])


def train_shadow(job: ShadowJob, data: Federation, network: Network, run: Run, begun: Shadow | None = None) -> Shadow:
    """Train a job's model on its members, then query it with members and non-members.

    ``begun`` is the result of one of the `earlier` jobs; without it, the training begins anew, and ends with the same
    bytes. ``network`` holds the shadow model afterwards. Raises FloatingPointError if the training diverged.
    """
    drawn, size = np.concatenate([job.members, job.nonmembers]), len(job.members)
    asked = Examples(data.prepare(data.shadow.x[drawn], job.strengths[drawn]), data.shadow.y[drawn])
    if len(job.sizes):
        epochs, state = _train_federation(job, asked[:size], data, network, run, begun)
    else:
        epochs, state = _train_single(job, asked[:size], data, network, run), NO_STATE
    logits = network.logits(asked.x)
    accuracy = float(np.mean(logits[:size].argmax(axis=1) == asked.y[:size]))
    return Shadow(logits, asked.y, np.arange(len(drawn)) < size, accuracy, epochs, job.role, state)


def _train_federation(
    job: ShadowJob, members: Examples, data: Federation, network: Network, run: Run, begun: Shadow | None
) -> tuple[int, NDArray[np.uint8]]:
    """Train the model of a federation that imitates the run's; return its epochs, and the state to continue from."""
    from algorithms.engine.federation import train_model
    from algorithms.engine.round import RoundState, packed, unpacked

    unused = np.setdiff1d(np.arange(len(data.shadow)), np.concatenate([job.members, job.nonmembers]))
    clients, nobody = len(job.sizes), np.empty(0, np.int64)
    imitation = replace(
        data,
        train=members,
        offsets=np.concatenate([[0], np.cumsum(job.sizes)]),
        groups=np.zeros(clients, np.int64),
        group_names=("shadow",),
        strengths=np.zeros(clients, np.float32),
        example_strengths=job.strengths[job.members],
        test=members[:0],
        test_owner=nobody,
        nonmembers=data.shadow[:0],
        nonmember_owner=nobody,
        # Where the server trains its first model on examples of its own, the shadow's server does so, on others.
        shadow=data.shadow[unused if len(unused) else job.members],
    )
    stream = lambda purpose, *place: np.random.default_rng([job.seed, crc32(purpose.encode()), *place])  # noqa: E731
    start = RoundState(**unpacked(load(begun.state.tobytes()))) if begun else None
    state = train_model(run, imitation, network, job.rounds, stream, job.took_part, start)
    network.load(state.models[0])
    return job.rounds * run.training.config.epochs, np.frombuffer(save(packed(state)), np.uint8)


def _train_single(job: ShadowJob, members: Examples, data: Federation, network: Network, run: Run) -> int:
    """Train one model until it is accurate enough on ``members``; return its epochs."""
    from algorithms.engine.backends.loop import passes

    rng = np.random.default_rng(job.seed)
    network.load(network.initial(rng))
    epochs = 0
    for loss in islice(passes(network, members, run.training, rng, data.prepare), job.max_epochs):
        if not np.isfinite(loss):
            raise FloatingPointError(f"a shadow model diverged in epoch {epochs + 1}: its training loss is {loss}")
        epochs += 1
        if np.mean(network.logits(members.x).argmax(axis=1) == members.y) >= job.target_accuracy:
            break
    return epochs


Fitted = Callable[[Outputs], Doubles]
"""A fitted attack: scores [n] of a model's outputs [n]."""


def _learned(config: Config, shadow: Outputs, rng: np.random.Generator) -> Fitted:
    limit = config.attack_examples
    seen = shadow[np.sort(rng.choice(len(shadow), limit, replace=False))] if len(shadow) > limit else shadow
    return _attack_models.fit(config.attack_model, seen, rng)


# How each attack is fitted on the outputs of shadow models.
ATTACKS: Mapping[str, Callable[[Config, Outputs, np.random.Generator], Fitted]] = {
    "shadow_mia": _learned,
    "loss_threshold": lambda _config, shadow, _rng: lambda target: membership.loss_threshold(shadow, target),
    "confidence": lambda _config, shadow, _rng: lambda target: membership.confidence(shadow, target),
    "gap": lambda _config, shadow, _rng: lambda target: membership.gap(shadow, target),
}


def audit(config: Config, model: AttackedModel) -> Audit:
    """Attack one model with the shadow models of `shadow_jobs`. Raises DataError if nothing can serve as a non-member.

    The measures are always those of the oracle; with ``signal: server_only``, the published risk depends on shadows
    alone.
    """
    shadows, rng = of_role(model.shadows, "shadow"), model.rng
    # Independent generators, so that how much one step draws does not change the others.
    fitting, asking, choosing, dividing, resampling = rng.spawn(5)
    fitted = {name: fit(config, pool_outputs(shadows), fitting) for name, fit in ATTACKS.items()}
    chosen = config.risk if config.risk != "strongest" else strongest(config, shadows, choosing)
    model.network.load(model.weights)
    answers, told = divide(config, ask(config, model, asking), dividing)
    scores = {name: attack(answers.outputs) for name, attack in fitted.items()}
    here = ~answers.left
    target = answers.outputs[here]
    found = {name: membership.measure(score[here], target.member) for name, score in scores.items()}
    measured = published = found[chosen]["balanced_accuracy"]
    if config.signal == "server_only":
        told = pool_outputs(of_role(model.shadows, "probe"))
    if told is not None:
        published = membership.measure(fitted[chosen](told), told.member)["balanced_accuracy"]
    ranges = {name: intervals.intervals(score[here], target.member, resampling) for name, score in scores.items()}
    rate, outside = found[chosen]["tpr_at_1_fpr"], int((~target.member).sum())
    null = membership.NAN if np.isnan(rate) else membership.tpr_by_chance(outside, 0.01)
    return Audit(
        published,
        list_measures(found, ranges, chosen, target, model.shadows),
        score_table(scores, answers),
        metrics={"mia_auc": found[chosen]["auc"], "mia_tpr_at_1_fpr": rate, "mia_tpr_at_1_fpr_null": null},
        measured_risk=measured,
        chosen=chosen,
    )


def strongest(config: Config, shadows: Sequence[Outputs], rng: np.random.Generator) -> str:
    """Return the attack with the highest mean balanced accuracy on shadow models that it was not fitted on.

    Each shadow model is left out once. A single one is divided: attacks are fitted on one half of its members and
    non-members and judged on the other. The gap attack, which needs no shadow model, is taken if nothing can be judged.
    """
    parts = list(shadows)
    if len(parts) == 1:
        only = parts[0]
        order = [rng.permutation(np.flatnonzero(only.member == member)) for member in (True, False)]
        parts = [only[np.concatenate([rows[k::PARTS] for rows in order])] for k in range(PARTS)]
    accuracies = dict.fromkeys(ATTACKS, 0.0)
    for k, judged in enumerate(parts):
        seen = pool_outputs(parts[:k] + parts[k + 1 :])
        if seen.member.all() or not seen.member.any():  # a half of one member and one non-member
            return "gap"
        for name, fit in ATTACKS.items():
            accuracies[name] += membership.balanced_accuracy(fit(config, seen, rng)(judged), judged.member)
    known = {name: accuracy for name, accuracy in accuracies.items() if not np.isnan(accuracy)}
    return max(known, key=lambda name: known[name]) if known else "gap"


def divide(config: Config, answers: Answers, rng: np.random.Generator) -> tuple[Answers, Outputs | None]:
    """Return the answers that are reported, and outputs set aside for the published risk alone.

    Whoever chooses the model with the lower published risk also chooses measurements that are too low by chance. So
    what is reported is measured on other examples than what was published. None: the same examples serve both.
    """
    share = 0.0 if config.published_share == "auto" else config.published_share
    if config.signal == "server_only" or not share:
        return answers, None
    aside = np.zeros(len(answers.client), bool)
    for member in (True, False):
        own = np.flatnonzero(~answers.left & (answers.outputs.member == member))
        aside[rng.permutation(own)[: round(share * len(own))]] = True
    return answers[~aside], answers.outputs[aside]


def list_measures(
    found: dict[str, dict[str, float]],
    ranges: dict[str, dict[str, tuple[float, float]]],
    chosen: str,
    target: Outputs,
    shadows: Sequence[Shadow],
) -> tuple[Measure, ...]:
    """Return all measures, with the model's gap between members and non-members and the training of the shadows.

    The subject "risk" is the attack that was chosen, and "maximum" the best of all on the attacked model, which is too
    high because it is chosen with a look at the result.
    """
    rows = []
    members = int(target.member.sum())
    chance = membership.by_chance(len(target) - members)
    for attack, name in [*((name, name) for name in found), ("risk", chosen)]:
        rows += [
            Measure(attack, metric, value, *ranges[name][metric], chance.get(metric, membership.NAN))
            for metric, value in found[name].items()
        ]
    rows += [Measure("maximum", metric, value) for metric, value in membership.worst_case(list(found.values())).items()]
    rows += [Measure("risk", f"is_{name}", float(name == chosen)) for name in found]
    for attack, name in [*((name, name) for name in found), ("risk", chosen)]:
        rows += record_epsilons(attack, found[name], ranges[name], members, len(target) - members)
    for attack in (*found, "risk", "maximum"):
        rows += [
            Measure(attack, "members", float(members)),
            Measure(attack, "nonmembers", float(len(target) - members)),
        ]
    right = target.logits.argmax(axis=1) == target.labels
    inside, outside = (
        float(right[part].mean()) if part.any() else membership.NAN for part in (target.member, ~target.member)
    )
    rows += [Measure("model", "accuracy_members", inside), Measure("model", "accuracy_nonmembers", outside)]
    rows += [Measure("model", "gap", inside - outside)]
    for name in ("accuracy", "epochs"):
        rows.append(Measure("shadows", name, float(np.mean([getattr(shadow, name) for shadow in shadows]))))
    return (*rows, Measure("shadows", "members", float(np.mean([shadow.member.sum() for shadow in shadows]))))


def score_table(scores: dict[str, np.ndarray], answers: Answers) -> Scores:
    """Return the scores of every attack in one table."""
    attacks, examples = len(scores), len(answers.client)
    return Scores(
        attack=np.repeat(np.array(list(scores)), examples),
        client=np.tile(answers.client, attacks),
        member=np.tile(answers.outputs.member, attacks),
        left=np.tile(answers.left, attacks),
        score=np.concatenate(list(scores.values())),
    )
