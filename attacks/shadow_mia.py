"""Membership inference with shadow models, on each cluster model (Shokri et al. 2017; Jung et al. 2025, algorithm 2).

    for each model theta_j, every 5 rounds:
        transform the server's shadow set in the same way as the examples of cluster j's clients
        for k = 1..3:
            train shadow model f_k from scratch on a random half of it, until it is as accurate there as theta_j is on its own
        train the attack A on {(f_k(z), z in the half of f_k)} for all k and all examples z that were drawn for f_k
        query theta_j with training examples of cluster j (members) and equally many held-out examples
        l_j = (TPR + TNR) / 2 of A

Differences from the paper: as printed, the algorithm never queries theta_j, so its l would not depend on theta_j, and
TPR would need clients' data that the server does not have. Here A is evaluated on theta_j by an oracle that knows the
members (``signal: oracle``), or on one more shadow model, which a server could do alone (``server_only``). The paper
does not say how shadow images and non-members are transformed; unless they look like members, A distinguishes
transforms instead of members.

A limitation: shadow models are as accurate as theta_j, but not as confident. If theta_j has been at 100 % for many
rounds, its shadows stop long before they are equally confident, and A underestimates the leakage; the reference attacks
are affected less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from algorithms.interfaces import Problems, Run
from attacks import _attack_models
from attacks._shadows import Shadow, ShadowJob, pool_outputs, train_shadow
from attacks.interfaces import AttackedModel, Audit, Cluster, Measure, Scores
from attacks.metrics import membership
from attacks.metrics.membership import Outputs
from datasets import transforms
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Federation, Floats, Ints
from datasets.roles import NOBODY
from datasets.source_configs import HeldOutConfig, SharedTestConfig

if TYPE_CHECKING:
    pass

__all__ = ["KINDS", "RISK", "Config", "Shadow", "ShadowJob", "audit", "shadow_jobs", "shadow_work", "train_shadow"]

KINDS = ("models",)
RISK = True  # its accuracy may be published to the clients


class Config(SlotConfig):
    """Fields of the shadow attack."""

    every: int = Field(5, ge=1, description="rounds from one attack to the next; its result is kept in between")
    shadows: int = Field(3, ge=1, le=100, description="shadow models per cluster")
    # With other transforms, the attack would learn from rotations that the clients' images do not have.
    shadow_transform: Literal["cluster", "mixture", "none"] = Field(
        "cluster", description="whose transforms shadow images get: the cluster's clients', all clients' or none"
    )
    # A model trained on few examples overfits more, so shadows of another size would show the attack a different gap.
    size_matched: bool = Field(True, description="train shadows on at most as many examples as the cluster has")
    # The published FEMNIST set has 100 000 images; three shadows on half of them would cost more than the federation.
    shadow_examples: int = Field(
        10_000, ge=2, description="examples drawn from the shadow set for each shadow, at most"
    )
    max_epochs: int = Field(50, ge=1, description="epochs after which a shadow stops even if it is not accurate enough")
    attack_model: Literal["mlp", "mlp_per_class", "art"] = Field(
        "mlp", description="network that reads softmax vectors: one for all classes, one for each, or ART's"
    )
    # More vectors do not improve a network of some 800 weights, and the training time grows with their number.
    attack_examples: int = Field(10_000, ge=2, description="softmax vectors that the attack is trained on, at most")
    signal: Literal["oracle", "server_only"] = Field(
        "oracle", description="risk sent to clients: accuracy on their own examples, or on one more shadow model"
    )
    # "unrotated" is diagnostic: it shows how much of a published accuracy a mismatch of transforms can explain.
    nonmember_transform: Literal["cluster", "unrotated"] = Field(
        "cluster", description="non-members: transformed like the cluster's clients' examples, or left as they are"
    )
    queries: int = Field(2000, ge=1, description="attacked members at most, and as many non-members")


def problems(config: Config, run: Run) -> Problems:
    """Return conflicts between the configuration and the rest of the run: (field, sentence) pairs."""
    data = run.data.config
    sizes = {"shadow_size": 2} if isinstance(data, SharedTestConfig | HeldOutConfig) else {}
    sizes |= {"nonmember_size": 1} if isinstance(data, SharedTestConfig) else {}
    values = {field: (getattr(data, field), least) for field, least in sizes.items()}
    return [
        ("", f"shadow_mia needs data.{field} of {least} or more, got {size}")
        for field, (size, least) in values.items()
        if size is not None and size < least
    ]


def shadow_work(config: Config) -> tuple[int, int]:
    """Return the number of shadow models of a cluster and the maximal epochs of one."""
    return config.shadows + (config.signal == "server_only"), config.max_epochs


def shadow_jobs(
    config: Config, cluster: Cluster, accuracy: float, seed_for: Callable[..., int]
) -> tuple[ShadowJob, ...]:
    """Return the shadow models that are needed to attack the model of a cluster.

    All draws follow from ``seed_for(purpose, *integers)`` and from the cluster's clients.

    Args:
        config: the component's fields.
        cluster: the model and its clients.
        accuracy: the model's accuracy on its clients' training examples; it is rounded to whole percents, so jobs
            differ only if it changed by about a point.
        seed_for: returns an integer seed for a purpose and a place.

    Raises:
        DataError: the shadow set has fewer than two examples.
    """
    clients, data = cluster.clients, cluster.data
    size = _half(config, data, clients)

    def seed(purpose: str, *numbers: int) -> int:
        return seed_for(purpose, *numbers, *clients.tolist())

    strengths = _shadow_strengths(config, data, clients, np.random.default_rng(seed("shadow_strengths")))
    jobs = []
    for k in range(config.shadows + (config.signal == "server_only")):
        drawn = np.random.default_rng(seed("shadow_halves", k)).permutation(len(data.shadow))
        jobs.append(
            ShadowJob(
                members=np.sort(drawn[:size]),
                nonmembers=np.sort(drawn[size : 2 * size]),
                strengths=strengths,
                # Rounded twice, because 100 * 0.07 is a little above 7.
                target_accuracy=round(100 * accuracy) / 100,
                max_epochs=config.max_epochs,
                seed=seed("shadow_training", k),
                role="shadow" if k < config.shadows else "probe",
            )
        )
    return tuple(jobs)


def _half(config: Config, data: Federation, clients: Ints) -> int:
    """Return the number of examples that a shadow model is trained on, which is also the number of its non-members."""
    half = min(config.shadow_examples, len(data.shadow)) // 2
    if half < 1:
        raise DataError(
            f"a shadow model needs 2 examples or more; the shadow set of {data.name} has {len(data.shadow)}"
        )
    return min(half, int(data.sizes[clients].sum())) if config.size_matched else half


def _shadow_strengths(config: Config, data: Federation, clients: Ints, rng: np.random.Generator) -> Floats:
    """Draw the transform strengths of the whole shadow set, [n shadow]."""
    owners = np.full(len(data.shadow), NOBODY)
    if config.shadow_transform == "none":
        return _untransformed(data, owners)
    everyone = np.arange(data.clients)
    return _matching_strengths(data, clients if config.shadow_transform == "cluster" else everyone, owners, rng)


def _untransformed(data: Federation, owners: Ints) -> Floats:
    return np.full(len(owners), transforms.identity(data.prepare.transform), np.float32)


def _matching_strengths(data: Federation, clients: Ints, owners: Ints, rng: np.random.Generator) -> Floats:
    """Draw transform strengths [n] of examples from their owners' strengths.

    Args:
        data: the federation.
        clients: the clients from whom strengths are drawn for examples that nobody owns.
        owners: [n] the owner of each example; -1: nobody.
        rng: the generator.
    """
    random_owners = rng.choice(data.owner()[np.isin(data.owner(), clients)], len(owners))
    return data.draw_strengths(np.where(owners == NOBODY, random_owners, owners), rng)


def audit(config: Config, model: AttackedModel) -> Audit:
    """Attack one model with the shadow models of `shadow_jobs`.

    The measures are always those of the oracle; with ``signal: server_only``, the published risk depends on the shadows
    alone.

    Args:
        config: the component's fields.
        model: the model under attack, with its trained shadow models.

    Raises:
        DataError: there is no held-out example that can serve as a non-member.
    """
    shadow, rng = pool_outputs(model.shadows, "shadow"), model.rng
    learned = _attack_models.fit(config.attack_model, _at_most(config.attack_examples, shadow, rng), rng)
    model.network.load(model.weights)
    target, owners = _query(config, model)
    scores = {
        "shadow_mia": learned(target),
        "loss_threshold": membership.loss_threshold(shadow, target),
        "confidence": membership.confidence(shadow, target),
    }
    found = {attack: membership.measure(score, target.member) for attack, score in scores.items()}
    found["maximum"] = membership.worst_case(list(found.values()))
    measured = published = found["shadow_mia"]["balanced_accuracy"]
    if config.signal == "server_only":
        probe = pool_outputs(model.shadows, "probe")
        published = membership.balanced_accuracy(learned(probe), probe.member)
    measures = _list_measures(found, target, model.shadows)
    return Audit(published, measures, _table(scores, target, owners), measured_risk=measured)


def _at_most(limit: int, outputs: Outputs, rng: np.random.Generator) -> Outputs:
    return outputs[np.sort(rng.choice(len(outputs), limit, replace=False))] if len(outputs) > limit else outputs


def _query(config: Config, model: AttackedModel) -> tuple[Outputs, Ints]:
    """Query the loaded model with members and equally many non-members.

    Returns:
        The outputs, and the owner of each example (-1: nobody).
    """
    data, clients, network, rng = model.cluster.data, model.cluster.clients, model.network, model.rng
    inside = np.flatnonzero(np.isin(data.owner(), clients))
    # An example held out from a client looks like that client's; it is unfair as a non-member of another client's model.
    outside = np.flatnonzero((data.nonmember_owner == NOBODY) | np.isin(data.nonmember_owner, clients))
    size = min(config.queries, len(inside), len(outside))
    if size < 1:
        raise DataError(f"{data.name} has no held-out example to compare with the {len(inside)} members of a cluster")
    inside = np.sort(rng.choice(inside, size, replace=False))
    outside = np.sort(rng.choice(outside, size, replace=False))
    held_out, holders = data.nonmembers[outside], data.nonmember_owner[outside]
    matched = config.nonmember_transform == "cluster"
    strengths = _matching_strengths(data, clients, holders, rng) if matched else _untransformed(data, holders)
    logits = [network.logits(data.train.x[inside]), network.logits(data.prepare(held_out.x, strengths))]
    labels = np.concatenate([data.train.y[inside], held_out.y])
    owners = np.concatenate([data.owner()[inside], holders])
    return Outputs(np.concatenate(logits), labels, np.arange(2 * size) < size), owners


def _list_measures(
    found: dict[str, dict[str, float]], target: Outputs, shadows: Sequence[Shadow]
) -> tuple[Measure, ...]:
    """Return all measures, with the model's gap between members and non-members and the training of the shadows."""
    rows = [Measure(attack, metric, value) for attack, measures in found.items() for metric, value in measures.items()]
    members = int(target.member.sum())
    for attack in found:
        rows += [
            Measure(attack, "members", float(members)),
            Measure(attack, "nonmembers", float(len(target) - members)),
        ]
    right = target.logits.argmax(axis=1) == target.labels
    inside, outside = float(right[target.member].mean()), float(right[~target.member].mean())
    rows += [Measure("model", "accuracy_members", inside), Measure("model", "accuracy_nonmembers", outside)]
    rows += [Measure("model", "gap", inside - outside)]
    rows += [Measure("shadows", "accuracy", float(np.mean([shadow.accuracy for shadow in shadows])))]
    rows += [Measure("shadows", "epochs", float(np.mean([shadow.epochs for shadow in shadows])))]
    return tuple(rows)


def _table(scores: dict[str, np.ndarray], target: Outputs, owners: Ints) -> Scores:
    attacks, examples = len(scores), len(target)
    return Scores(
        attack=np.repeat(np.array(list(scores)), examples),
        client=np.tile(owners, attacks),
        member=np.tile(target.member, attacks),
        score=np.concatenate(list(scores.values())),
    )
