"""Membership inference with shadow models, on each cluster model (Shokri et al. 2017; Jung et al. 2025, algorithm 2).

    for each model theta_j, every 5 rounds:
        transform the server's shadow set as the clients in cluster j see the world
        for k = 1..3:  train shadow model f_k from scratch on a random half of it, as accurate there as theta_j is on
        its own train the attack A on {(f_k(z), z in the half of f_k)} for all k and all examples z that were drawn for
        f_k query theta_j with training examples of cluster j (members) and equally many held-out examples l_j = (TPR +
        TNR) / 2 of A

Differences from the paper: as printed, theta_j is never queried, so its l would not depend on it, and TPR would need
clients' data that the server does not have. Here A is evaluated on theta_j by an oracle who knows the members
(``signal: oracle``), or on one more shadow model, all that a server could do alone (``server_only``). The paper does
not say how shadow images and non-members are transformed; unless they look like members, A tells transforms apart and
not members.

A limit to know: shadows are as accurate as theta_j, not as confident. Where theta_j has been at 100 % for many rounds
its shadows stop long before they are as sure of themselves, and A underrates the leak; the reference attacks lose less
by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from attacks import Audit, Scores, _attack_models
from attacks._shadows import Shadow, ShadowJob, pool_outputs, train_shadow
from attacks.metrics import membership
from attacks.metrics.membership import Outputs
from datasets import transforms
from datasets.components import Config as SlotConfig
from datasets.federation import DataError, Federation, Floats, Ints
from datasets.roles import NOBODY

if TYPE_CHECKING:
    from algorithms.core.messages import Weights
    from algorithms.core.network import Network

__all__ = ["STAGE", "Audit", "Config", "Shadow", "ShadowJob", "audit", "shadow_jobs", "train_shadow"]

STAGE = "models"
RISK = True  # its accuracy may be published to the clients


class Config(SlotConfig):
    """Fields of the shadow attack."""

    every: int = Field(5, ge=1, description="rounds from one attack to the next; in between its result stands")
    shadows: int = Field(3, ge=1, le=100, description="shadow models per cluster")
    # Otherwise the attack learns rotations of its own, which the clients' images do not have.
    shadow_transform: Literal["cluster", "mixture", "none"] = Field(
        "cluster", description="whose transforms shadow images get: the cluster's clients', all clients' or none"
    )
    # A model of few examples overfits more; shadows of another size would teach the attack a different gap.
    size_matched: bool = Field(True, description="train shadows on at most as many examples as the cluster has")
    # The published FEMNIST set has 100 000 images; three shadows on half of them would cost more than the federation.
    shadow_examples: int = Field(
        10_000, ge=2, description="examples drawn from the shadow set for each shadow, at most"
    )
    max_epochs: int = Field(50, ge=1, description="epochs after which a shadow stops, accurate enough or not")
    attack_model: Literal["mlp", "mlp_per_class", "art"] = Field(
        "mlp", description="network that reads softmax vectors: one for all classes, one for each, or ART's"
    )
    # Some 800 weights learn no more from further vectors, and the time of training grows with them.
    attack_examples: int = Field(10_000, ge=2, description="softmax vectors that the attack is trained on, at most")
    signal: Literal["oracle", "server_only"] = Field(
        "oracle", description="risk sent to clients: accuracy on their own examples, or on one more shadow model"
    )
    # Unrotated is a diagnosis: it shows how much of a published accuracy a mismatch of transforms can explain.
    nonmember_transform: Literal["cluster", "unrotated"] = Field(
        "cluster", description="non-members transformed as the cluster's clients see the world, or left as they are"
    )
    queries: int = Field(2000, ge=1, description="members that are attacked at most, and equally many non-members")


def problems(config: Config, run: Any) -> list[tuple[str, str]]:
    """What cannot be combined: (field, sentence) pairs."""
    found = []
    for field, least in (("shadow_size", 2), ("nonmember_size", 1)):
        size = getattr(run.data.config, field, None)
        if size is not None and size < least:
            found.append(("", f"shadow_mia needs data.{field} of {least} or more, got {size}"))
    return found


def shadow_jobs(
    config: Config,
    data: Federation,
    cluster: int,
    assignment: Ints,
    accuracy: float,
    seed_for: Callable[..., int],
) -> tuple[ShadowJob, ...]:
    """The shadow models that are needed to attack model ``cluster``, chosen by the clients with that ``assignment``.

    ``accuracy`` is the model's on its clients' training examples; it is rounded to whole percents, so that jobs
    differ whenever it moved by a point. All draws follow from ``seed_for(purpose, *integers)`` and from who is in the
    cluster. Raises DataError for a shadow set of less than two examples.
    """
    clients = np.flatnonzero(assignment == cluster)
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
    """Number of examples that a shadow model is trained on, and of those that it is not."""
    half = min(config.shadow_examples, len(data.shadow)) // 2
    if half < 1:
        raise DataError(
            f"a shadow model needs 2 examples or more; the shadow set of {data.name} has {len(data.shadow)}"
        )
    return min(half, int(data.sizes[clients].sum())) if config.size_matched else half


def _shadow_strengths(config: Config, data: Federation, clients: Ints, rng: np.random.Generator) -> Floats:
    """Transform strengths of the whole shadow set, [n shadow]."""
    nobodys = np.full(len(data.shadow), NOBODY)
    if config.shadow_transform == "none":
        return _untransformed(data, nobodys)
    everyone = np.arange(data.clients)
    return _matching_strengths(data, clients if config.shadow_transform == "cluster" else everyone, nobodys, rng)


def _untransformed(data: Federation, owners: Ints) -> Floats:
    return np.full(len(owners), transforms.identity(data.prepare.transform), np.float32)


def _matching_strengths(data: Federation, clients: Ints, owners: Ints, rng: np.random.Generator) -> Floats:
    """Transform strengths [n] of examples with these ``owners`` [n]: the owner's; without one, any of ``clients``'."""
    anyones = rng.choice(data.owner()[np.isin(data.owner(), clients)], len(owners))
    return data.draw_strengths(np.where(owners == NOBODY, anyones, owners), rng)


def audit(
    config: Config,
    data: Federation,
    cluster: int,
    assignment: Ints,
    network: Network,
    weights: Weights,
    shadows: Sequence[Shadow],
    rng: np.random.Generator,
) -> Audit:
    """Attack the model ``weights`` of ``cluster``, whose clients are those with that ``assignment``.

    ``shadows`` are the models of `shadow_jobs`. The measures are those of the oracle under either signal; with
    ``server_only`` the risk is a function of the shadows alone. Raises DataError where no held-out example can serve.
    """
    clients = np.flatnonzero(assignment == cluster)
    shadow = pool_outputs(shadows, "shadow")
    learned = _attack_models.fit(config.attack_model, _at_most(config.attack_examples, shadow, rng), rng)
    network.load(weights)
    target, owners = _query(config, data, clients, network, rng)
    scores = {
        "shadow_mia": learned(target),
        "loss_threshold": membership.loss_threshold(shadow, target),
        "confidence": membership.confidence(shadow, target),
    }
    found = {attack: membership.measure(score, target.member) for attack, score in scores.items()}
    found["maximum"] = membership.worst_case(list(found.values()))
    risk = found["shadow_mia"]["balanced_accuracy"]
    if config.signal == "server_only":
        probe = pool_outputs(shadows, "probe")
        risk = membership.balanced_accuracy(learned(probe), probe.member)
    return Audit(risk, _list_measures(found, target, shadows), _table(scores, target, owners))


def _at_most(limit: int, outputs: Outputs, rng: np.random.Generator) -> Outputs:
    return outputs[np.sort(rng.choice(len(outputs), limit, replace=False))] if len(outputs) > limit else outputs


def _query(
    config: Config, data: Federation, clients: Ints, network: Network, rng: np.random.Generator
) -> tuple[Outputs, Ints]:
    """What the loaded model says of members and of equally many non-members, and the owner of each (-1: nobody)."""
    inside = np.flatnonzero(np.isin(data.owner(), clients))
    # An example held out from a client looks like that client's; it is no fair opponent if the client is elsewhere.
    outside = np.flatnonzero((data.nonmember_owner == NOBODY) | np.isin(data.nonmember_owner, clients))
    size = min(config.queries, len(inside), len(outside))
    if size < 1:
        raise DataError(f"{data.name} has no held-out example to set against the {len(inside)} members of a cluster")
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
) -> tuple[tuple[str, str, float], ...]:
    """All measures as triples, with the model's gap between trained and held-out examples and the shadows' training."""
    rows = [(attack, metric, value) for attack, measures in found.items() for metric, value in measures.items()]
    members = int(target.member.sum())
    for attack in found:
        rows += [(attack, "members", float(members)), (attack, "nonmembers", float(len(target) - members))]
    right = target.logits.argmax(axis=1) == target.labels
    inside, outside = float(right[target.member].mean()), float(right[~target.member].mean())
    rows += [("model", "accuracy_members", inside), ("model", "accuracy_nonmembers", outside)]
    rows += [("model", "gap", inside - outside)]
    rows += [("shadows", "accuracy", float(np.mean([shadow.accuracy for shadow in shadows])))]
    rows += [("shadows", "epochs", float(np.mean([shadow.epochs for shadow in shadows])))]
    return tuple(rows)


def _table(scores: dict[str, np.ndarray], target: Outputs, owners: Ints) -> Scores:
    attacks, examples = len(scores), len(target)
    return Scores(
        attack=np.repeat(np.array(list(scores)), examples),
        client=np.tile(owners, attacks),
        member=np.tile(target.member, attacks),
        score=np.concatenate(list(scores.values())),
    )
