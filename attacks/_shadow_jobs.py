"""Which shadow models an attacked model needs: on which examples of the shadow set, worn how, trained for how long."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attacks._shadow_config import ShadowConfig
from attacks._shadows import ShadowJob
from attacks.interfaces import Cluster
from datasets import transforms
from datasets.federation import DataError, Federation, Floats, Ints
from datasets.roles import NOBODY


def shadow_jobs(
    config: ShadowConfig, cluster: Cluster, accuracy: float, rounds: int, seed_for: Callable[..., int]
) -> tuple[ShadowJob, ...]:
    """Return the shadow models that are needed to attack the model of a cluster.

    All draws follow from ``seed_for(purpose, *integers)`` and from the cluster's clients.

    Args:
        config: the component's fields.
        cluster: the model and its clients.
        accuracy: the model's accuracy on its clients' training examples; it is rounded to whole percents, so jobs
            differ only if it changed by about a point.
        rounds: the rounds that the model was trained for.
        seed_for: returns an integer seed for a purpose and a place.

    Raises:
        DataError: the shadow set has fewer than two examples.
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


def imitates(config: ShadowConfig) -> bool:
    """Return whether each shadow model is trained in a federation that imitates that of the attacked model."""
    return config.shadow_training == "federation"


def shadow_size(config: ShadowConfig, members: int, available: int) -> int:
    """Return the number of examples that a shadow model is trained on, which is also the number of its non-members.

    Args:
        config: the component's fields.
        members: training examples of the attacked model's clients.
        available: examples of the shadow set.
    """
    half = min(config.shadow_examples, available) // 2
    return min(half, members) if config.size_matched or imitates(config) else half


def client_sizes(sizes: Ints, total: int) -> Ints:
    """Return how many examples the clients of a shadow federation hold, in proportion to those of the imitated clients.

    The sizes are rounded so that they add up to ``total``, largest remainders first; a client may get none.

    >>> client_sizes(np.array([10, 20, 30]), 30).tolist()
    [5, 10, 15]

    Args:
        sizes: [clients] numbers of training examples of the imitated clients.
        total: examples to distribute, at most the sum of ``sizes``.
    """
    exact = sizes * (total / sizes.sum())
    floors = np.floor(exact).astype(np.int64)
    first = np.argsort(floors - exact, kind="stable")[: total - floors.sum()]
    floors[first] += 1
    return floors


def wear(data: Federation, clients: Ints, owners: Ints, rng: np.random.Generator) -> Ints:
    """Return the client whose transform each example wears: its owner or, if nobody owns it, a random one, [n].

    Args:
        data: the federation.
        clients: the clients from whom those of nobody's examples are drawn, in proportion to their examples.
        owners: [n] the owner of each example; -1: nobody.
        rng: the generator.
    """
    drawn = rng.choice(data.owner()[np.isin(data.owner(), clients)], len(owners))
    return np.where(owners == NOBODY, drawn, owners)


def untransformed(data: Federation, examples: int) -> Floats:
    """Return strengths [examples] that leave examples as they are stored."""
    return np.full(examples, transforms.identity(data.prepare.transform), np.float32)


def _strengths(config: ShadowConfig, data: Federation, clients: Ints, owners: Ints, rng: np.random.Generator) -> Floats:
    """Draw the transform strengths of the whole shadow set, [n shadow]; examples with an owner get the owner's."""
    if config.shadow_transform == "none":
        return untransformed(data, len(owners))
    if config.shadow_transform == "mixture":
        clients, owners = np.arange(data.clients), np.full(len(owners), NOBODY)
    return data.draw_strengths(wear(data, clients, owners, rng), rng)
